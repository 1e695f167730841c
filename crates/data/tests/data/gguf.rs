//! GGUF: the numbers of the reference out of every kind of block, files that lie or are cut, the model that a
//! file holds under the names of transformers, and what is written.

use crate::scratch::Scratch;
use crate::text;
use regard_data::gguf::write::{self, Tensor, save};
use regard_data::gguf::{File, Model, Value, export, tokenizer};
use regard_data::whole::Access;
use regard_data::{Checkpoint, DType};
use serde_json::json;
use std::path::{Path, PathBuf};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/blocks.gguf")
}

fn refused(bytes: &[u8]) -> String {
    File::from_bytes("x.gguf", bytes.to_vec()).unwrap_err().to_string()
}

#[test]
fn every_block_is_what_the_reference_makes_of_it() {
    let file = File::open(golden()).unwrap();
    let plain = [DType::BF16, DType::F16];
    for dtype in DType::BLOCKS.into_iter().chain(plain) {
        let own = file.checkpoint.get(dtype.name()).unwrap();
        let numbers = file.checkpoint.get(&format!("{dtype}.numbers")).unwrap();
        assert_eq!(own.dtype, dtype);
        assert_eq!(own.shape, numbers.shape);
        let bits = |all: Vec<f32>| all.into_iter().map(f32::to_bits).collect::<Vec<_>>();
        assert_eq!(bits(own.f32s()), bits(numbers.f32s()), "{dtype}");
        let blocks = own.blocks();
        assert_eq!(blocks.is_some(), dtype.is_quantised());
        let (elements, bytes) = dtype.block();
        blocks.into_iter().flatten().for_each(|block| assert_eq!(block.len(), bytes));
        assert_eq!(own.len(), own.bytes.len() / bytes * elements);
    }
    assert_eq!(file.get("test.number"), Some(&Value::Int(7)));
    assert_eq!(file.get("test.float"), Some(&Value::Float(0.25)));
    assert_eq!(file.get("test.truth"), Some(&Value::Bool(true)));
    assert_eq!(file.get("test.floats"), Some(&Value::Floats(vec![0.5, -1.5])));
    assert_eq!(file.get("test.whole"), Some(&Value::Ints(vec![3, -4])));
    assert_eq!(file.get("test.texts"), Some(&Value::Texts(vec!["a".into(), "ß".into(), "".into()])));
    assert_eq!(Checkpoint::open(golden()).unwrap().len(), file.checkpoint.len());
}

#[test]
fn a_file_cut_or_changed_anywhere_is_refused_or_read() {
    let whole = std::fs::read(golden()).unwrap();
    // The head is what is parsed; what follows are numbers.
    for length in (0..3000).chain((3000..whole.len()).step_by(997)) {
        assert!(File::from_bytes("x", whole[..length].to_vec()).is_err(), "{length}");
    }
    for at in 0..3000 {
        for bit in [0, 2, 7] {
            let mut changed = whole.clone();
            changed[at] ^= 1 << bit;
            if let Ok(file) = File::from_bytes("x", changed) {
                file.checkpoint.tensors().for_each(|tensor| assert_eq!(tensor.f32s().len(), tensor.len()));
            }
        }
    }
}

/// A head with this many tensors and settings claimed, and what follows.
fn head(tensors: u64, settings: u64, rest: &[u8]) -> Vec<u8> {
    [b"GGUF", &3u32.to_le_bytes()[..], &tensors.to_le_bytes(), &settings.to_le_bytes(), rest].concat()
}

fn named(name: &[u8]) -> Vec<u8> {
    [&(name.len() as u64).to_le_bytes()[..], name].concat()
}

/// A tensor with this many rows of 32 in a type at an offset.
fn tensor(name: &[u8], extents: &[u64], kind: u32, offset: u64) -> Vec<u8> {
    let mut all = named(name);
    all.extend((extents.len() as u32).to_le_bytes());
    extents.iter().for_each(|extent| all.extend(extent.to_le_bytes()));
    all.extend(kind.to_le_bytes());
    all.extend(offset.to_le_bytes());
    all
}

#[test]
fn lies_are_found_before_memory_is_asked_for() {
    assert_eq!(
        File::from_bytes("x.gguf", b"GGML".to_vec()).unwrap_err().to_string(),
        "x.gguf: does not begin as a GGUF file; name a .gguf file, or copy it again"
    );
    assert!(
        refused(&[&b"GGUF"[..], &1u32.to_le_bytes()].concat())
            .contains("is GGUF of version 1; read are 2 and 3")
    );
    assert!(
        refused(&[&b"GGUF"[..], &3u32.to_be_bytes()].concat()).contains("has its bytes in the other order")
    );
    assert!(
        refused(&head(u64::MAX, 0, b""))
            .contains("claims 18446744073709551615 tensors, and 8 bytes are left")
    );
    assert!(refused(&head(0, 1 << 40, b"")).contains("claims 1099511627776 settings, and 0 bytes are left"));
    let long = [&u64::MAX.to_le_bytes()[..], &[0; 40]].concat();
    assert!(refused(&head(0, 1, &long)).contains("claims 18446744073709551615 bytes of a text"));
    let setting = |kind: &[u32], rest: &[u8]| {
        let kinds: Vec<u8> = kind.iter().flat_map(|kind| kind.to_le_bytes()).collect();
        refused(&head(0, 1, &[&named(b"key")[..], &kinds, rest, &[0; 16]].concat()))
    };
    assert!(setting(&[99], b"").contains("`key` has the unknown type 99"));
    assert!(setting(&[9, 9], b"").contains("`key` is a list of lists, which nothing needs"));
    assert!(
        setting(&[9, 5], &(1u64 << 60).to_le_bytes())
            .contains("claims 1152921504606846976 elements of a list")
    );
    assert!(setting(&[7], &[2]).contains("has the truth 2"));
    let bad = [&8u32.to_le_bytes()[..], &1u64.to_le_bytes(), &[0xff]].concat();
    assert!(
        refused(&head(0, 1, &[&named(b"key")[..], &bad].concat())).contains("has a text that is not UTF-8")
    );

    let one = |extents: &[u64], kind: u32, offset: u64| {
        let mut file = head(1, 0, &tensor(b"w", extents, kind, offset));
        file.resize(file.len().next_multiple_of(32) + 128, 0);
        refused(&file)
    };
    assert!(one(&[32], 10, 0).contains("tensor `w` has the type 10; read are F32, F16, Q4_0"));
    assert!(one(&[33], 8, 0).contains("Q8_0 [33] has rows that are no whole blocks of 32"));
    assert!(one(&[64, 4], 0, 0).contains("lies at 0 and needs 1024 bytes, beyond the file"));
    assert!(one(&[8], 0, u64::MAX - 3).contains("beyond the file"));
    assert!(one(&[u64::MAX, 5], 0, 0).contains("more elements than can be counted"));
    assert!(one(&[8], 0, 4).contains("lies at 4, which is not aligned to 32"));
    assert!(one(&[1, 1, 1, 1, 1], 0, 0).contains("has 5 axes; the format has at most 4"));
    let two = |second: &[u8], offset: u64| {
        let infos = [tensor(b"w", &[16], 0, 0), tensor(second, &[8], 0, offset)].concat();
        let mut file = head(2, 0, &infos);
        file.resize(file.len().next_multiple_of(32) + 128, 0);
        refused(&file)
    };
    assert!(two(b"w", 64).contains("tensor `w` occurs twice"));
    assert!(two(b"v", 32).contains("tensor `v` begins inside of `w`"));
}

const WIDTH: usize = 32;

fn numbers(count: usize, from: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 37 + from * 11) % 101) as f32 / 50.0 - 1.0).collect()
}

/// A llama of one block, 2 heads of 16, one of keys, whose matrices are of a type.
fn llama(dtype: DType) -> (Vec<(String, Value)>, Vec<Tensor<'static>>) {
    let text = |text: &str| Value::Text(text.into());
    let mut settings: Vec<(String, Value)> = vec![("general.architecture".into(), text("llama"))];
    for (key, value) in [
        ("block_count", 1),
        ("context_length", 64),
        ("embedding_length", WIDTH as i64),
        ("feed_forward_length", 64),
        ("attention.head_count", 2),
        ("attention.head_count_kv", 1),
        ("rope.dimension_count", 16),
        ("vocab_size", 6),
    ] {
        settings.push((format!("llama.{key}"), Value::Int(value)));
    }
    settings.push(("llama.attention.layer_norm_rms_epsilon".into(), Value::Float(1e-5)));
    settings.push(("llama.rope.freq_base".into(), Value::Float(100_000.0)));
    settings.push(("tokenizer.chat_template".into(), text("{{ messages }}")));
    settings.push(("tokenizer.ggml.bos_token_id".into(), Value::Int(1)));
    settings.push(("tokenizer.ggml.eos_token_id".into(), Value::Int(2)));
    let mut tensors = Vec::new();
    for (at, (name, shape)) in [
        ("token_embd.weight", vec![6, WIDTH]),
        ("blk.0.attn_norm.weight", vec![WIDTH]),
        ("blk.0.attn_q.weight", vec![32, WIDTH]),
        ("blk.0.attn_k.weight", vec![16, WIDTH]),
        ("blk.0.attn_v.weight", vec![16, WIDTH]),
        ("blk.0.attn_output.weight", vec![WIDTH, 32]),
        ("blk.0.ffn_norm.weight", vec![WIDTH]),
        ("blk.0.ffn_gate.weight", vec![64, WIDTH]),
        ("blk.0.ffn_up.weight", vec![64, WIDTH]),
        ("blk.0.ffn_down.weight", vec![WIDTH, 64]),
        ("output_norm.weight", vec![WIDTH]),
    ]
    .into_iter()
    .enumerate()
    {
        let dtype = if shape.len() == 1 { DType::F32 } else { dtype };
        let numbers = numbers(shape.iter().product(), at).into();
        tensors.push(Tensor { name: name.into(), shape, dtype, numbers });
    }
    (settings, tensors)
}

#[test]
fn a_llama_is_what_transformers_would_keep() {
    let scratch = Scratch::new();
    let path = scratch.join("model.gguf");
    for dtype in [DType::F32, DType::Q8_0, DType::Q4_0] {
        let (settings, tensors) = llama(dtype);
        save(&path, &settings, &tensors, Access::default()).unwrap();
        let model = Model::open(&path).unwrap();
        assert_eq!(
            model.config,
            json!({
                "model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 1,
                "max_position_embeddings": 64, "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2,
                "num_key_value_heads": 1, "head_dim": 16, "rms_norm_eps": 1e-5, "rope_theta": 100000.0, "vocab_size": 6,
                "tie_word_embeddings": true, "hidden_act": "silu", "attention_bias": false, "mlp_bias": false,
                "bos_token_id": 1, "eos_token_id": 2,
            })
        );
        assert_eq!(model.chat_template.as_deref(), Some("{{ messages }}"));
        let quantised = format!("of 11 tensors 8 in {dtype}, which become f32 when they are read");
        assert_eq!(model.note, dtype.is_quantised().then_some(quantised));
        let file = File::open(&path).unwrap();
        let (own, theirs) = (
            model.checkpoint.get("model.layers.0.self_attn.k_proj.weight").unwrap(),
            file.checkpoint.get("blk.0.attn_k.weight").unwrap(),
        );
        assert_eq!(own.dtype, dtype);
        // Row i of a half is row 2i of the pairs, row 8 + i the one after.
        let (own, theirs) = (own.f32s(), theirs.f32s());
        for row in 0..16 {
            let from = row % 8 * 2 + row / 8;
            assert_eq!(own[row * WIDTH..][..WIDTH], theirs[from * WIDTH..][..WIDTH], "{dtype} {row}");
        }
        let up = model.checkpoint.get("model.layers.0.mlp.up_proj.weight").unwrap();
        assert_eq!((up.dtype, up.shape), (dtype, &[64, WIDTH][..]));
    }
}

#[test]
fn what_is_not_understood_is_refused_by_name() {
    let scratch = Scratch::new();
    type Settings = Vec<(String, Value)>;
    let with = |change: &dyn Fn(&mut Settings, &mut Vec<Tensor>)| {
        let (mut settings, mut tensors) = llama(DType::F32);
        change(&mut settings, &mut tensors);
        let path = scratch.join("model.gguf");
        save(&path, &settings, &tensors, Access::default()).unwrap();
        text(Model::open(&path), &scratch)
    };
    assert_eq!(
        with(&|settings, _| settings[0].1 = Value::Text("mamba".into())),
        "model.gguf: holds a model of the architecture `mamba`; known are llama, qwen2, qwen3, phi3, gemma, gemma2, gemma3, \
         gpt2; take the folder as Hugging Face keeps it, if that is known"
    );
    let advice = "only models with the usual setting can be read; take the folder as Hugging Face keeps it";
    assert_eq!(
        with(&|settings, _| settings.push(("llama.expert_count".into(), Value::Int(8)))),
        format!("model.gguf: says what is not understood: `llama.expert_count = 8`; {advice}")
    );
    assert_eq!(
        with(&|settings, _| settings.retain(|(key, _)| key != "llama.block_count")),
        "model.gguf: does not say `llama.block_count`; convert the model again with a newer llama.cpp"
    );
    assert_eq!(
        with(&|settings, _| settings.push(("llama.rope.scaling.type".into(), Value::Int(3)))),
        "model.gguf: `llama.rope.scaling.type` is 3, expected a text; it is damaged, or of a program that we do not know"
    );
    assert!(
        with(&|_, tensors| tensors[3].name = "blk.0.attn_z.weight".into())
            .contains("has tensors that no llama has: `blk.0.attn_z.weight`")
    );
    assert!(
        with(&|settings, _| settings[8].1 = Value::Int(7))
            .contains("`llama.vocab_size` is 7, and the table of tokens has 6 rows")
    );
    let frequencies = |_: &mut Vec<(String, Value)>, tensors: &mut Vec<Tensor>| {
        let numbers = vec![1.0, 2.0].into();
        tensors.push(Tensor { name: "rope_freqs.weight".into(), shape: vec![2], dtype: DType::F32, numbers });
    };
    assert!(with(&frequencies).contains("by factors that are not those of Llama 3"));
    assert!(
        with(&|settings, _| settings[5].1 = Value::Int(7))
            .contains("a width of 32 and 7 heads, which do not divide")
    );
}

#[test]
fn what_was_quantised_is_near_and_what_cannot_be_is_refused() {
    let scratch = Scratch::new();
    let path = scratch.join("model.gguf");
    let given: Vec<f32> =
        (0..2048).map(|i| ((i as f32 * 0.7).sin() + (i as f32 * 0.013).cos()) * 0.05).collect();
    // The largest error over the largest number.
    for (dtype, bound) in [
        (DType::F32, 0.0),
        (DType::F16, 5e-4),
        (DType::BF16, 4e-3),
        (DType::Q8_0, 5e-3),
        (DType::Q6K, 2e-2),
        (DType::Q4K, 6e-2),
        (DType::Q4_0, 9e-2),
    ] {
        let tensor =
            Tensor { name: "w".into(), shape: vec![4, 512], dtype, numbers: given.as_slice().into() };
        let size = save(&path, &[], &[tensor], Access::default()).unwrap();
        assert_eq!(size, std::fs::metadata(&path).unwrap().len());
        let read = File::open(&path).unwrap().checkpoint.get("w").unwrap().f32s();
        let off = given.iter().zip(&read).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
        assert!(off <= bound * 0.1, "{dtype}: {off}");
    }
    assert!(text(File::open(scratch.join("no.gguf")), &scratch).starts_with("cannot open no.gguf: "));
    let wrong = |shape: &[usize], dtype: DType, numbers: &[f32]| {
        let tensor = Tensor { name: "w".into(), shape: shape.to_vec(), dtype, numbers: numbers.into() };
        write::save(&path, &[], &[tensor], Access::default()).unwrap_err().to_string()
    };
    assert_eq!(
        wrong(&[2, 40], DType::Q8_0, &[0.0; 80]),
        "tensor `w` [2, 40] has rows that are no whole blocks of Q8_0; keep it in another type"
    );
    assert!(wrong(&[32], DType::Q4_1, &[0.0; 32]).contains("cannot be written as Q4_1"));
    assert!(wrong(&[32], DType::F32, &[0.0; 31]).contains("other numbers than its shape"));
    assert!(
        wrong(&[1], DType::F16, &[1e6])
            .contains("holds numbers that are too large for F16; keep it in F32 or BF16")
    );
    assert!(wrong(&[32], DType::Q8_0, &[f32::NAN; 32]).contains("holds what is no number"));
}

#[test]
fn what_is_no_model_or_no_tokenizer_is_said() {
    let scratch = Scratch::new();
    let empty = || File::from_bytes("x.gguf", head(0, 0, b"")).unwrap();
    assert!(
        Model::of(empty())
            .unwrap_err()
            .to_string()
            .contains("holds a model of the architecture ``; known are llama")
    );
    assert!(tokenizer::of(&empty()).unwrap_err().to_string().starts_with("x.gguf: no tokenizer here"));
    let path = scratch.join("t.gguf");
    let with = |settings: &[(&str, Value)]| {
        let settings: Vec<(String, Value)> =
            settings.iter().map(|(key, value)| (format!("tokenizer.ggml.{key}"), value.clone())).collect();
        save(&path, &settings, &[], Access::default()).unwrap();
        text(tokenizer::open(&path), &scratch)
    };
    let of = |text: &str| Value::Text(text.into());
    let tokens = || Value::Texts(vec!["a".into(), "b".into()]);
    assert_eq!(
        with(&[("model", of("bert")), ("tokens", tokens())]),
        "t.gguf: has a tokenizer of the kind `bert`; known are gpt2 and llama; put the tokenizer.json of the model beside it"
    );
    assert!(with(&[("model", of("gpt2"))]).contains("has no list `tokenizer.ggml.tokens`"));
    let short = Value::Ints(vec![1]);
    assert!(
        with(&[("model", of("gpt2")), ("tokens", tokens()), ("token_type", short)])
            .contains("has 2 tokens and not as many kinds")
    );
    assert!(
        with(&[("model", of("gpt2")), ("tokens", tokens()), ("pre", of("tekken"))])
            .contains("by the rule `tekken`, which is not known")
    );
    let merges = Value::Texts(vec!["a".into()]);
    assert!(
        with(&[("model", of("gpt2")), ("tokens", tokens()), ("merges", merges)])
            .contains("merge 0 is `a`, expected two tokens")
    );
    assert!(with(&[("model", of("llama")), ("tokens", tokens())]).contains("has 2 pieces and 0 scores"));
    let bos = [("add_bos_token", Value::Bool(true)), ("bos_token_id", Value::Int(9))];
    assert!(
        with(&[&[("model", of("gpt2")), ("tokens", tokens())], &bos[..]].concat())
            .contains("puts the token 9 around texts and has 2 tokens")
    );
    assert_eq!(
        tokenizer::settings(&regard_data::Tokenizer::bytes()).unwrap_err(),
        "it is none of Hugging Face's"
    );
    let config = json!({"model_type": "bert"});
    let never = scratch.join("never.gguf");
    assert_eq!(
        export(&never, &config, Vec::new(), Vec::new(), DType::F16, Access::default())
            .unwrap_err()
            .to_string(),
        "a model of model_type `bert` is not written as GGUF; written are llama, qwen2, qwen3, gpt2; keep it as a folder"
    );
    assert!(!never.exists());
}
