//! Folders that are no model, half a model or another one, and stores that hold something else: what is said,
//! word for word.

use crate::golden::{Own, folder, model, open};
use regard_data::{Checkpoint, Data, Field, Save, SaveOptions, Tensor, save_folder};
use regard_engine::{Cpu, Program, Store};
use regard_graph::{Init, Precision};
use regard_hub::forward::record_in_precision;
use regard_hub::{Batch, Images, forward, save, step, table};
use regard_models::families::gpt;
use regard_models::import::{Import, Map};
use regard_models::{Bert, Gpt, GptConfig, Model, NoWeights, Registry, Sizes};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

fn refused(path: impl AsRef<Path>) -> String {
    match open(path.as_ref().to_str().unwrap()) {
        Ok(_) => panic!("{} was opened", path.as_ref().display()),
        Err(error) => error.to_string().replace(path.as_ref().to_str().unwrap(), "HERE"),
    }
}

/// Every form that can be opened, in a sentence.
fn known() -> String {
    Registry::standard().model_types().join(", ")
}

/// A tensor on its way into a folder of one's own.
pub struct Part {
    pub name: String,
    pub shape: Vec<usize>,
    pub bytes: Vec<u8>,
}

/// A golden's folder with other tensors or another config.
pub fn edited(own: &Own, case: &str, tensors: impl FnOnce(&mut Vec<Part>), config: impl FnOnce(&mut Value)) {
    let from = folder(case).join("model");
    let checkpoint = Checkpoint::open(&from).unwrap();
    let mut parts: Vec<Part> = checkpoint
        .tensors()
        .map(|tensor| Part {
            name: tensor.name.into(),
            shape: tensor.shape.to_vec(),
            bytes: tensor.bytes.to_vec(),
        })
        .collect();
    tensors(&mut parts);
    let saves: Vec<Save> = parts
        .iter()
        .map(|part| Save {
            name: &part.name,
            shape: &part.shape,
            data: Data::Bytes(regard_data::DType::F32, &part.bytes),
        })
        .collect();
    save_folder(&own.0, &saves, &SaveOptions::default()).unwrap();
    let mut words: Value =
        serde_json::from_str(&fs::read_to_string(from.join("config.json")).unwrap()).unwrap();
    config(&mut words);
    fs::write(own.0.join("config.json"), words.to_string()).unwrap();
}

#[test]
fn everything_that_does_not_fit_is_told_at_once() {
    let own = Own::new("unfit");
    edited(
        &own,
        "gpt2",
        |parts| {
            parts.retain(|part| part.name != "transformer.h.1.ln_1.bias");
            for part in parts.iter_mut() {
                match part.name.as_str() {
                    "transformer.wpe.weight" => part.shape.reverse(),
                    "transformer.ln_f.bias" => part.name = "transformer.ln_last.bias".into(),
                    _ => {}
                }
            }
        },
        |_| {},
    );
    assert_eq!(
        refused(&own.0),
        "HERE: the checkpoint does not fit the model\n  \
         2 missing from the checkpoint (is it another kind of model, or a part of one?):\n    \
         `block.1.attention_norm.bias` ← `transformer.h.1.ln_1.bias`\n    \
         `final_norm.bias` ← `transformer.ln_f.bias`\n  \
         1 of another shape (compare the sizes in its config.json):\n    \
         `position_embedding.weight` ← `transformer.wpe.weight`: ours is [19, 24], theirs [24, 19]\n  \
         1 in the checkpoint but not in the model (use its own model, or pass over them: --ignore):\n    \
         `transformer.ln_last.bias` [24]"
    );
}

#[test]
fn sizes_of_the_config_and_of_the_weights_must_agree() {
    let own = Own::new("sizes");
    edited(&own, "gpt2", |_| {}, |config| config["n_layer"] = 3.into());
    let text = refused(&own.0);
    assert!(text.contains("16 missing from the checkpoint") && text.contains("`transformer.h.2."), "{text}");
    edited(&own, "gpt2", |_| {}, |config| config["n_layer"] = 1.into());
    let text = refused(&own.0);
    assert!(text.contains("12 in the checkpoint but not in the model"), "{text}");
    edited(&own, "gpt2", |_| {}, |config| config["vocab_size"] = 60.into());
    let text = refused(&own.0);
    assert!(text.contains("ours is [60, 24], theirs [61, 24]"), "{text}");
    edited(&own, "gpt2", |_| {}, |config| config["n_head"] = 5.into());
    let text = refused(&own.0);
    assert!(text.starts_with("HERE: gpt: a width of 24 cannot be shared by 5 heads; "), "{text}");
    edited(&own, "gpt2", |_| {}, |config| config["n_embd"] = json!("wide"));
    assert_eq!(refused(&own.0), "HERE: gpt2: `n_embd` is \"wide\"; it should be a whole number");
}

#[test]
fn another_family_is_seen() {
    let own = Own::new("family");
    edited(&own, "gpt2", |_| {}, |config| config["model_type"] = json!("mamba"));
    assert_eq!(
        refused(&own.0),
        format!("HERE: hub: models of model_type `mamba` are not known; known are {}", known())
    );
    edited(&own, "gpt2", |_| {}, |config| config["model_type"] = json!("llama"));
    assert_eq!(
        refused(&own.0),
        "HERE: hub: config.json says model_type `llama`, but architecture `GPT2LMHeadModel`; one of this family is \
         LlamaForCausalLM"
    );
    edited(&own, "gpt2", |_| {}, |config| *config = model("llama").config);
    let text = refused(&own.0);
    assert!(text.contains("missing from the checkpoint (is it another kind of model"), "{text}");
    assert!(text.contains("`head.weight` ← `lm_head.weight`"), "{text}");
    edited(&own, "gpt2", |_| {}, |config| *config = json!([1]));
    assert!(refused(&own.0).contains("config.json"), "{}", refused(&own.0));
    edited(&own, "gpt2", |_| {}, |_| {});
    fs::write(own.0.join("config.json"), "{\"model_type\": ").unwrap();
    let text = refused(&own.0);
    assert!(text.starts_with("HERE/config.json:1:15: EOF while parsing a value"), "{text}");
    fs::remove_file(own.0.join("config.json")).unwrap();
    let text = refused(&own.0);
    assert!(text.starts_with("HERE: no config.json here; copy it from where the model came from"), "{text}");
}

#[test]
fn damaged_and_absent_files_are_told_apart() {
    let own = Own::new("damaged");
    assert!(refused(&own.0).contains("the folder is empty; name the folder that holds these"));
    edited(&own, "gpt2", |_| {}, |_| {});
    let weights = own.0.join("model.safetensors");
    let bytes = fs::read(&weights).unwrap();
    for keep in [0, 7, 100, bytes.len() - 1] {
        fs::write(&weights, &bytes[..keep]).unwrap();
        let text = refused(&own.0);
        assert!(text.starts_with("HERE/model.safetensors: "), "{keep}: {text}");
    }
    fs::remove_file(&weights).unwrap();
    assert!(refused(&own.0).starts_with("HERE: "), "{}", refused(&own.0));

    let file = own.0.join("notes.txt");
    fs::write(&file, "no model").unwrap();
    assert_eq!(refused(&file), "HERE: is a file, not a model's folder; name the folder that it lies in");
    let file = own.0.join("notes.bin");
    fs::write(&file, "no model").unwrap();
    let text = refused(&file);
    assert!(text.starts_with("HERE: has 8 bytes; a model of llama2.c begins with 28"), "{text}");
    fs::write(&file, b"PK\x03\x04 a pickle in a zip").unwrap();
    assert_eq!(
        refused(&file),
        "HERE: is a zip without its directory: it is cut short, which a whole copy is not; it is damaged or no file of \
         `torch.save`: copy or download it again"
    );
    assert!(refused(own.0.join("absent")).starts_with("no folder is called `HERE`; a model is a folder"));
}

#[test]
fn a_tied_copy_must_be_a_copy() {
    let own = Own::new("tied");
    let with_head = |parts: &mut Vec<Part>, change: bool| {
        let table = parts.iter().find(|part| part.name == "transformer.wte.weight").unwrap();
        let mut head =
            Part { name: "lm_head.weight".into(), shape: table.shape.clone(), bytes: table.bytes.clone() };
        head.bytes[5] ^= u8::from(change);
        parts.push(head);
    };
    edited(&own, "gpt2", |parts| with_head(parts, false), |_| {});
    assert_eq!(open(own.text()).unwrap().report.ignored, ["lm_head.weight"]);
    edited(&own, "gpt2", |parts| with_head(parts, true), |_| {});
    assert_eq!(
        refused(&own.0),
        "HERE: `lm_head.weight` should be the same as `transformer.wte.weight`, to which it is tied, and is not; set \
         `tie_word_embeddings` to false in config.json, or save the model again"
    );
    edited(
        &own,
        "gpt2",
        |parts| with_head(parts, true),
        |config| config["tie_word_embeddings"] = false.into(),
    );
    assert!(open(own.text()).unwrap().report.ignored.is_empty());
}

#[test]
fn files_of_a_bare_gpt2_have_no_prefix() {
    let own = Own::new("bare");
    let strip = |parts: &mut Vec<Part>| {
        parts.iter_mut().for_each(|part| part.name = part.name.replacen("transformer.", "", 1));
    };
    edited(&own, "gpt2", strip, |_| {});
    let (mut bare, mut whole) = (Store::new(0), Store::new(0));
    open(own.text()).unwrap().load_into(&mut bare).unwrap();
    model("gpt2").load_into(&mut whole).unwrap();
    for name in whole.names() {
        assert_eq!(bare.f32(name).unwrap(), whole.f32(name).unwrap());
    }
}

#[test]
fn a_store_is_filled_whole_or_not_at_all() {
    let opened = model("gpt2");
    let mut store = Store::new(0);
    store.declare("token_embedding.weight", [61, 24], Init::Ones).unwrap();
    store.declare("final_norm.bias", [25], Init::Ones).unwrap();
    let text = opened.load_into(&mut store).unwrap_err().to_string();
    assert!(
        text.starts_with("`final_norm.bias` is f32 [25] in the store, the graph declares f32 [24]"),
        "{text}"
    );
    assert!(store.f32("token_embedding.weight").unwrap().iter().all(|&x| x == 1.0));
    let text = opened.lend_to(&mut store).unwrap_err().to_string();
    assert!(
        text.starts_with("`final_norm.bias` is f32 [25] in the store, the graph declares f32 [24]"),
        "{text}"
    );
    assert!(store.f32("token_embedding.weight").unwrap().iter().all(|&x| x == 1.0));
}

#[test]
fn a_model_is_not_made_or_saved_of_nothing() {
    let opened = model("gpt2");
    assert_eq!(
        Registry::standard().open(&json!({ "model_type": "mamba" }), &NoWeights).unwrap_err().to_string(),
        format!("hub: models of model_type `mamba` are not known; known are {}", known())
    );
    let config = GptConfig { layers: 1, heads: 2, width: 8, vocabulary: 5, context: 4, ..GptConfig::LLAMA };
    let llama = Gpt::new(config).unwrap().in_form(&gpt::GPT2);
    assert_eq!(
        llama.config_to_json().unwrap_err().to_string(),
        "gpt2: GPT-2 has learned positions, LayerNorm and no window; export it as another family"
    );
    let sizes = Sizes { batch: 1, ids: 20, ..Default::default() };
    let text = forward::record(&*opened.model, sizes).err().unwrap().to_string();
    assert!(text.starts_with("add_position: "), "{text}");
    assert_eq!(text, record_in_precision(&*opened.model, sizes, Precision::Bf16).err().unwrap().to_string());
    let own = Own::new("nothing");
    let text = open("../no/such").unwrap_err().to_string();
    assert!(text.contains("no folder is called `../no/such`"), "{text}");
    let text = save(&*opened.model, &Store::new(0), &own.0, &Default::default()).unwrap_err().to_string();
    assert!(text.starts_with("no parameter or state is called `"), "{text}");
}

#[test]
fn a_pass_of_nonsense_is_refused() {
    let cpu = Cpu::with(1, regard_device::Level::best()).unwrap();
    let asked = |case: &str, batch: Batch, taps: &[&str]| {
        let opened = model(case);
        let mut store = Store::new(0);
        opened.load_into(&mut store).unwrap();
        forward(&*opened.model, &mut store, &cpu, &batch, taps).unwrap_err().to_string()
    };
    let text =
        |ids: &[&[i32]]| Batch { ids: ids.iter().map(|row| row.to_vec()).collect(), ..Default::default() };
    let with = |ids: &[i32], types: &[i32], source: &[i32]| {
        let some = |row: &[i32]| if row.is_empty() { vec![] } else { vec![row.to_vec()] };
        Batch { ids: vec![ids.to_vec()], types: some(types), source: some(source), pixels: None }
    };
    let pixels = |shape: &[usize]| {
        Batch::images(Images { shape: shape.to_vec(), pixels: vec![0.0; shape.iter().product()] })
    };
    for (case, batch, expected) in [
        ("gpt2", text(&[]), "no ids were given; give at least one row of them"),
        ("gpt2", text(&[&[1], &[]]), "row 2 of the ids is empty; give each row at least one"),
        ("gpt2", text(&[&[1, 61]]), "row 1 of the ids has 61 at position 1; this model knows 0 to 60"),
        ("llama", text(&[&[-1]]), "row 1 of the ids has -1 at position 0; this model knows 0 to 52"),
        (
            "gpt2",
            text(&[&[0; 20]]),
            "row 1 of the ids has 20 positions; this model has room for 19: cut the text",
        ),
        (
            "bert_masked",
            text(&[&[0; 22]]),
            "row 1 of the ids has 22 positions; this model has room for 21: cut the text",
        ),
        ("gpt2", pixels(&[1, 3, 10, 14]), "this is a model of text, and pixels were given; give it ids"),
        ("vit", text(&[&[1]]), "this is a model of images, and ids were given; give it pixels"),
        (
            "vit",
            pixels(&[1, 3, 14, 10]),
            "the pixels are [1, 3, 14, 10]; this model takes [B 3 10 14], B at least 1",
        ),
        (
            "vit",
            pixels(&[0, 3, 10, 14]),
            "the pixels are [0, 3, 10, 14]; this model takes [B 3 10 14], B at least 1",
        ),
        ("gpt2", with(&[1], &[0], &[]), "token types were given; this model takes none; leave them out"),
        ("bert_masked", with(&[1, 2], &[0], &[]), "row 1 has 2 ids and 1 types; give each id its type"),
        (
            "bert_masked",
            with(&[1], &[2], &[]),
            "row 1 of the types has 2 at position 0; this model knows 0 to 1",
        ),
        (
            "bert_masked",
            with(&[1], &[], &[0]),
            "a source was given; only an encoder-decoder reads one; give the text as ids",
        ),
        (
            "transformer",
            with(&[31], &[], &[36]),
            "row 1 of the ids has 31 at position 0; this model knows 0 to 30",
        ),
    ] {
        assert_eq!(asked(case, batch, &[]), expected);
    }
    let rows = Batch { source: vec![vec![1], vec![2]], ids: vec![vec![0]], ..Default::default() };
    assert_eq!(asked("t5", rows, &[]), "1 rows of ids for 2 texts; give each row its own");
    assert_eq!(
        asked("gpt2", text(&[&[1]]), &["block.0.steam"]),
        "no output or tap is called `block.0.steam`; did you mean `block.0.stream`?"
    );
}

#[test]
fn parts_of_a_pass_that_do_not_fit() {
    let opened = model("gpt2");
    let reads = opened.model.reads();
    let texts = |ids: Vec<Vec<i32>>| Batch::texts(&reads, ids);
    assert_eq!(
        forward::fields(&reads, &texts(vec![vec![1, 99]])).unwrap_err().to_string(),
        "row 1 of the ids has 99 at position 1; this model knows 0 to 60"
    );
    let (sizes, _) = forward::fields(&reads, &texts(vec![vec![1, 2]])).unwrap();
    let graph = forward::record(&*opened.model, sizes).unwrap();
    let cpu = Cpu::with(1, regard_device::Level::best()).unwrap();
    let mut program = Program::new(graph, &[], &mut Store::new(0), &cpu).unwrap();
    let (_, longer) = forward::fields(&reads, &texts(vec![vec![1, 2, 3]])).unwrap();
    let message = program.feed(longer.iter().map(Field::parts), &[]).unwrap_err().to_string();
    assert!(message.contains("ids") && message.contains('3'), "{message}");
}

#[test]
fn lines_of_a_table_that_do_not_fit() {
    let opened = model("gpt2");
    let line = Import::new("no.such", "wte.weight", Map::Same);
    assert_eq!(
        table::imports(&*opened.model, std::slice::from_ref(&line)).unwrap_err().to_string(),
        "the table of names has `no.such`, which the model has not; mend the table of this family"
    );
    let theirs = Tensor { name: "h", dtype: regard_data::DType::F32, shape: &[1, 2, 2], bytes: &[0; 16] };
    let line = Import::new("ours", "h", Map::Transposed);
    let message = table::ours(&line, &theirs).unwrap_err().to_string();
    assert!(message.contains("theirs is [1, 2, 2]; only a matrix can be transposed"), "{message}");
}

#[test]
fn a_step_without_a_head_is_refused() {
    let sizes = Sizes { batch: 1, ids: 4, ..Default::default() };
    let headless = Bert::new(regard_models::bert::PRESETS[0].1).unwrap();
    let text = step::record(&headless, sizes, Precision::F32).err().unwrap().to_string();
    assert_eq!(text, "this model has no head that could be trained; give it one, or ask for a pass instead");
}

#[test]
fn padding_inside_of_a_text_is_refused() {
    let roberta = model("roberta_masked");
    let (_, tokens) = roberta.model.reads().given().unwrap();
    assert_eq!(
        forward::refuse_filler(&[7, 3, 8], tokens, "text 1").unwrap_err().to_string(),
        "text 1 has 3 at position 1, which is padding to this model and has no position; leave it out: short texts are \
         filled up by themselves"
    );
    let batch = Batch { ids: vec![vec![5, 6], vec![7, 3]], ..Batch::default() };
    let message = forward::fields(&roberta.model.reads(), &batch).unwrap_err().to_string();
    assert!(message.starts_with("row 2 of the ids has 3 at position 1"), "{message}");
}
