//! Models in other files than a folder of safetensors: pickles, GGUF, weights with names of their own, and
//! configs that do not say what they are.

use crate::golden::{Own, asked, folder, model, open};
use regard_data::{Checkpoint, DType, Data, Save, SaveOptions, gguf, save_folder};
use regard_engine::{Cpu, Store};
use regard_hub::{Mapping, Opened, forward, open_named, save_gguf};
use regard_models::Registry;
use std::fs;
use std::path::Path;

fn loaded(opened: &Opened) -> Store {
    let mut store = Store::new(0);
    opened.load_into(&mut store).unwrap();
    store
}

/// The parameters of two models, which must be the same.
fn same(one: &Opened, other: &Opened) {
    let (a, b) = (loaded(one), loaded(other));
    let names: Vec<&str> = a.names().collect();
    assert_eq!(names, b.names().collect::<Vec<_>>());
    names.iter().for_each(|name| assert_eq!(a.f32(name).unwrap(), b.f32(name).unwrap(), "{name}"));
}

/// A checkpoint as PyTorch wrote it before version 1.6.
fn pickled(checkpoint: &Checkpoint) -> Vec<u8> {
    let mut file =
        b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03.\x80\x02}.".to_vec();
    let text = |text: &str| [&b"X"[..], &(text.len() as u32).to_le_bytes(), text.as_bytes()].concat();
    let number = |n: usize| [&b"J"[..], &(n as u32).to_le_bytes()].concat();
    file.extend(b"\x80\x02ccollections\nOrderedDict\n)R(");
    for (key, tensor) in checkpoint.tensors().enumerate() {
        file.extend(text(tensor.name));
        file.extend(b"ctorch._utils\n_rebuild_tensor_v2\n((");
        file.extend([&text("storage")[..], b"ctorch\nFloatStorage\n", &text(&key.to_string())].concat());
        file.extend([&text("cpu")[..], &number(tensor.len()), b"Ntq\x00QK\x00("].concat());
        tensor.shape.iter().for_each(|&extent| file.extend(number(extent)));
        file.extend(b"t(");
        (0..tensor.shape.len())
            .for_each(|axis| file.extend(number(tensor.shape[axis + 1..].iter().product())));
        file.extend(b"t\x89}tR");
    }
    file.extend(b"u.\x80\x02](");
    (0..checkpoint.len()).for_each(|key| file.extend(text(&key.to_string())));
    file.extend(b"e.");
    for tensor in checkpoint.tensors() {
        file.extend((tensor.len() as u64).to_le_bytes());
        file.extend(tensor.bytes);
    }
    file
}

#[test]
fn a_folder_with_a_pickle_is_the_same_model() {
    let golden = model("gpt2");
    let own = Own::new("pickle");
    fs::copy(folder("gpt2").join("model/config.json"), own.0.join("config.json")).unwrap();
    let file = own.0.join("pytorch_model.bin");
    fs::write(&file, pickled(golden.checkpoint())).unwrap();
    same(&golden, &open(own.text()).unwrap());
    same(&golden, &open(file.to_str().unwrap()).unwrap());
    fs::write(&file, b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85R.").unwrap();
    let text = open(own.text()).unwrap_err().to_string();
    assert!(text.contains("this file wants to run `os.system`; nothing was run"), "{text}");
}

#[test]
fn what_is_written_as_gguf_is_the_same_model() {
    for case in ["llama", "llama_tied", "gpt2"] {
        let golden = model(case);
        let own = Own::new(&format!("gguf-{case}"));
        let file = own.0.join("model.gguf");
        let (written, note) =
            save_gguf(&*golden.model, &loaded(&golden), &file, DType::F32, &golden).unwrap();
        assert_eq!(written.bytes, fs::metadata(&file).unwrap().len());
        assert!(note.unwrap().starts_with("the tokenizer is not in the file: "), "{case}");
        let read = open(file.to_str().unwrap()).unwrap();
        same(&golden, &read);
        // A folder with nothing else is the same.
        same(&golden, &open(own.text()).unwrap());
        for asked in asked(case, &*read.model) {
            let answers =
                forward(&*read.model, &mut loaded(&read), &Cpu::new().unwrap(), &asked.batch, &[]).unwrap();
            let logits = &answers.iter().find(|answer| answer.name == "logits").unwrap().numbers;
            let scale = asked.logits.iter().fold(0f32, |most, x| most.max(x.abs()));
            let width = logits.len() / asked.counts.len();
            for (at, (x, y)) in logits.iter().zip(&asked.logits).enumerate() {
                assert!(!asked.counts[at / width] || (x - y).abs() <= 1e-5 * scale, "{case}: {x} for {y}");
            }
        }
        let half = save_gguf(&*golden.model, &loaded(&golden), &file, DType::Q8_0, &golden).unwrap().0;
        assert!(half.kinds.contains_key(&DType::F16), "rows that are no whole blocks: {:?}", half.kinds);
        fs::copy(&file, own.0.join("another.gguf")).unwrap();
        let text = open(own.text()).unwrap_err().to_string().replace(own.text(), "HERE");
        assert_eq!(text, "HERE: holds 2 GGUF files; name the one to use, as in HERE/another.gguf");
    }
    let bert = model("bert_masked");
    let file = std::env::temp_dir().join("regard-never-written.gguf");
    let text = save_gguf(&*bert.model, &loaded(&bert), &file, DType::F16, &bert).unwrap_err().to_string();
    assert_eq!(
        text,
        "a model of model_type `bert` is not written as GGUF; written are llama, qwen2, qwen3, gpt2; keep it as a folder"
    );
    let given = Vec::new();
    let config = serde_json::json!({"model_type": "llama"});
    let text = gguf::export(&file, &config, given, Vec::new(), DType::F16, Default::default()).unwrap_err();
    assert_eq!(text.to_string(), "the config has no `num_hidden_layers`; give the whole config.json");
    assert!(!file.exists());
}

/// The ViT of a golden as a course would have saved it.
fn course_vit(own: &Own) {
    let golden = Checkpoint::open(folder("vit").join("model")).unwrap();
    let mut tensors: Vec<(String, Vec<usize>, Vec<f32>)> = Vec::new();
    let get = |name: &str| golden.get(name).unwrap();
    let mut put = |name: String, shape: &[usize], numbers: Vec<f32>| {
        tensors.push((format!("net.{name}"), shape.into(), numbers))
    };
    let embeddings = "vit.embeddings";
    for (theirs, name) in [
        ("patch_embeddings.projection.weight", "patches.kernel"),
        ("patch_embeddings.projection.bias", "patches.bias"),
        ("cls_token", "cls"),
        ("position_embeddings", "positions"),
    ] {
        let tensor = get(&format!("{embeddings}.{theirs}"));
        put(name.into(), tensor.shape, tensor.f32s());
    }
    for layer in 0..2 {
        let of = |part: &str| get(&format!("vit.encoder.layer.{layer}.{part}"));
        for kind in ["weight", "bias"] {
            let own = if kind == "weight" { "gain" } else { "shift" };
            for (theirs, name) in [("layernorm_before", "norm1"), ("layernorm_after", "norm2")] {
                let tensor = of(&format!("{theirs}.{kind}"));
                put(format!("layer{layer}.{name}.{own}"), tensor.shape, tensor.f32s());
            }
            for (theirs, name) in [("attention.output.dense", "out"), ("output.dense", "mlp.1")] {
                let tensor = of(&format!("{theirs}.{kind}"));
                put(format!("layer{layer}.{name}.{kind}"), tensor.shape, tensor.f32s());
            }
            let three =
                ["query", "key", "value"].map(|part| of(&format!("attention.attention.{part}.{kind}")));
            let mut shape = three[0].shape.to_vec();
            shape[0] *= 3;
            put(
                format!("layer{layer}.qkv.{kind}"),
                &shape,
                three.iter().flat_map(|part| part.f32s()).collect(),
            );
        }
        let (up, bias) = (of("intermediate.dense.weight"), of("intermediate.dense.bias"));
        let (rows, columns, numbers) = (up.shape[0], up.shape[1], up.f32s());
        let turned =
            (0..columns).flat_map(|c| (0..rows).map(|r| numbers[r * columns + c]).collect::<Vec<_>>());
        put(format!("layer{layer}.mlp.0.kernel"), &[columns, rows], turned.collect());
        put(format!("layer{layer}.mlp.0.bias"), bias.shape, bias.f32s());
    }
    for (theirs, name) in [
        ("vit.layernorm.weight", "norm.gain"),
        ("vit.layernorm.bias", "norm.shift"),
        ("classifier.weight", "head.weight"),
        ("classifier.bias", "head.bias"),
    ] {
        put(name.into(), get(theirs).shape, get(theirs).f32s());
    }
    put("steps".into(), &[1], vec![7.0]);
    let saves: Vec<Save> =
        tensors.iter().map(|(name, shape, numbers)| Save { name, shape, data: Data::F32(numbers) }).collect();
    save_folder(&own.0, &saves, &SaveOptions::default()).unwrap();
}

fn names() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/names/vit.toml"))
}

#[test]
fn weights_with_names_of_their_own_are_the_same_model() {
    let own = Own::new("course");
    course_vit(&own);
    let golden = model("vit");
    let named = open_named(&own.0, names(), &Registry::standard()).unwrap();
    same(&golden, &named);
    assert_eq!(named.report.ignored, ["net.steps"]);
    fs::copy(names(), own.0.join("names.toml")).unwrap();
    let found = open(own.text()).unwrap();
    same(&golden, &found);
    for asked in asked("vit", &*found.model) {
        let answers =
            forward(&*found.model, &mut loaded(&found), &Cpu::new().unwrap(), &asked.batch, &[]).unwrap();
        for (x, y) in answers[0].numbers.iter().zip(&asked.logits) {
            assert!((x - y).abs() <= 1e-5 * (1.0 + y.abs()), "{x} for {y}");
        }
    }
}

#[test]
fn tables_of_names_that_do_not_fit_say_why() {
    let own = Own::new("tables");
    course_vit(&own);
    let text = fs::read_to_string(names()).unwrap();
    let file = own.0.join("map.toml");
    let refused = |text: &str| {
        fs::write(&file, text).unwrap();
        open_named(&own.0, &file, &Registry::standard()).unwrap_err().to_string().replace(own.text(), "HERE")
    };
    assert_eq!(
        refused(&text.replace("\"final_norm.bias\" = \"norm.shift\"", "")),
        "HERE/map.toml: [names] has no line for `final_norm.bias` [21]; say for each of these parameters what it is called \
         in the file of weights"
    );
    assert!(
        refused(&text.replace("\"norm.gain\"", "\"norm.scale\""))
            .contains("`final_norm.weight` ← `net.norm.scale`")
    );
    assert!(refused(&text.replace("ignore = [\"net.steps\"]", "")).contains("`net.steps` [1]"));
    assert!(
        refused(&text.replace("layer*.out.bias", "layer.out.bias"))
            .contains("`layer.out.bias` has other `*` than")
    );
    assert!(
        refused(&text.replace("part = 2, of = 3", "part = 3, of = 3"))
            .contains("takes part Some(3) of Some(3)")
    );
    let typo = refused(&text.replace("family = \"vit\"", "family = \"vitt\""));
    assert!(typo.contains("no family is called `vitt`; did you mean `vit`?"), "{typo}");
    assert!(
        refused(&text.replace("layers = 2", "layer = 2"))
            .contains("there is no key `layer` in [model]; did you mean `layers`?")
    );
    assert!(
        refused(&text.replace("task = \"images\"", "task = \"language\""))
            .contains("a model of the family `vit` has no task `language`; give one of images")
    );
    assert!(refused(&text.replace("classes = 7", "clases = 7")).contains("unknown field `clases`"));
    assert!(refused("family = ").starts_with("HERE/map.toml: line 1: "));
    let parsed = Mapping::parse(&file, "names = 3").unwrap_err().to_string();
    assert!(parsed.contains("map.toml: line 1: "), "{parsed}");
    let missing = Mapping::read(&own.0.join("no.toml")).unwrap_err().to_string();
    assert!(missing.contains("cannot read "), "{missing}");
    let mapping = Mapping::parse(&file, &text.replace("layers = 2", "layers = \"two\"")).unwrap();
    let model = mapping.model(&file, &Registry::standard()).err().unwrap().to_string();
    assert!(model.contains("it should be a whole number"), "{model}");
    let empty = Mapping::parse(&file, "family = \"vit\"\n[names]").unwrap();
    let vit = crate::golden::model("vit");
    assert!(empty.imports(&file, &*vit.model).unwrap_err().to_string().contains("and 28 more"));
}

#[test]
fn a_config_that_says_nothing_is_told_by_its_tensors() {
    for (case, class) in [
        ("bert_masked", "BertForMaskedLM"),
        ("bert_classify", "BertForSequenceClassification"),
        ("gpt2", "GPT2LMHeadModel"),
        ("vit", "ViTForImageClassification"),
    ] {
        let own = Own::new(&format!("silent-{case}"));
        let from = folder(case).join("model");
        fs::copy(from.join("model.safetensors"), own.0.join("model.safetensors")).unwrap();
        let mut config: serde_json::Value =
            serde_json::from_slice(&fs::read(from.join("config.json")).unwrap()).unwrap();
        let fields = config.as_object_mut().unwrap();
        fields.remove("model_type");
        fields.remove("architectures");
        fs::write(own.0.join("config.json"), config.to_string()).unwrap();
        let opened = open(own.text()).unwrap();
        same(&model(case), &opened);
        assert!(opened.notes[0].contains(&format!("it is a {class} (model_type")), "{:?}", opened.notes);
    }
    // Several families have the names of Llama.
    let own = Own::new("silent-llama");
    let from = folder("llama").join("model");
    fs::copy(from.join("model.safetensors"), own.0.join("model.safetensors")).unwrap();
    fs::write(own.0.join("config.json"), r#"{"hidden_size": 36}"#).unwrap();
    let text = open(own.text()).unwrap_err().to_string();
    assert!(text.contains("config.json names neither a `model_type` nor `architectures`"), "{text}");
}
