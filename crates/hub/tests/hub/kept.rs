//! What a model has besides the numbers that every pass needs survives a way through `save`: a trained
//! pooler, the files of a sentence-transformer, who may read it. Links are not followed out of its folder,
//! and numbers that stand for others are not taken for themselves.

use crate::golden::{Own, asked, folder, model, open};
use regard_data::{Checkpoint, DType, Data, Save, SaveOptions, save_folder};
use regard_engine::{Cpu, Store};
use regard_hub::{Batch, Images, Opened, forward, save};
use serde_json::Value;
use std::fs;
use std::path::Path;

fn loaded(opened: &Opened) -> Store {
    let mut store = Store::new(0);
    opened.load_into(&mut store).unwrap();
    store
}

fn saved(opened: &Opened, to: &Path) -> regard_hub::Result<()> {
    let options = regard_hub::SaveOptions { like: Some(opened), ..Default::default() };
    save(&*opened.model, &loaded(opened), to, &options).map(drop)
}

fn answer(opened: &Opened, batch: &Batch, name: &str) -> Vec<f32> {
    let (mut store, cpu) = (loaded(opened), Cpu::with(1, regard_device::Level::best()).unwrap());
    let answers = forward(&*opened.model, &mut store, &cpu, batch, &[]).unwrap();
    answers.into_iter().find(|answer| answer.name == name).unwrap().numbers
}

/// A bare ViT with the encoder of the golden and a pooler of numbers of our own.
fn bare_vit(own: &Own, pooler: [usize; 2]) -> (Vec<f32>, Vec<f32>) {
    let from = folder("vit").join("model");
    let checkpoint = Checkpoint::open(&from).unwrap();
    let [rows, columns] = pooler;
    let weight: Vec<f32> = (0..rows * columns).map(|at| (at % 7) as f32 / 10.0 - 0.3).collect();
    let bias: Vec<f32> = (0..rows).map(|at| (at % 3) as f32 / 5.0 - 0.2).collect();
    let mut parts: Vec<(String, Vec<usize>, Vec<f32>)> = checkpoint
        .tensors()
        .filter_map(|tensor| {
            let name = tensor.name.strip_prefix("vit.")?.to_owned();
            Some((name, tensor.shape.to_vec(), tensor.f32s()))
        })
        .collect();
    parts.push(("pooler.dense.weight".into(), vec![rows, columns], weight.clone()));
    parts.push(("pooler.dense.bias".into(), vec![rows], bias.clone()));
    let saves: Vec<Save> =
        parts.iter().map(|(name, shape, numbers)| Save { name, shape, data: Data::F32(numbers) }).collect();
    save_folder(&own.0, &saves, &SaveOptions::default()).unwrap();
    let mut config = config_of("vit");
    config["architectures"] = serde_json::json!(["ViTModel"]);
    config["pooler_output_size"] = rows.into();
    fs::write(own.0.join("config.json"), config.to_string()).unwrap();
    (weight, bias)
}

fn config_of(case: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(folder(case).join("model/config.json")).unwrap()).unwrap()
}

#[test]
fn a_trained_pooler_is_read_computed_and_kept() {
    for rows in [21, 8] {
        let (own, to) = (Own::new(&format!("pooler-{rows}")), Own::new(&format!("pooled-{rows}")));
        let (weight, bias) = bare_vit(&own, [rows, 21]);
        let opened = open(own.text()).unwrap();
        assert_eq!(opened.report.ignored, Vec::<String>::new(), "nothing is left out");
        let pixels = Images {
            shape: vec![1, 3, 10, 14],
            pixels: (0..420).map(|at| (at * 37 % 101) as f32 / 50.0 - 1.0).collect(),
        };
        let batch = Batch::images(pixels);
        // tanh(W h + b) of the class token, by hand.
        let class = &answer(&opened, &batch, "hidden")[..21];
        let by_hand = weight.chunks(21).zip(&bias).map(|(row, &bias)| {
            let sum: f64 = row.iter().zip(class).map(|(&w, &h)| f64::from(w) * f64::from(h)).sum();
            (sum + f64::from(bias)).tanh()
        });
        let pooled = answer(&opened, &batch, "pooled");
        assert_eq!(pooled.len(), rows);
        assert!(pooled.iter().zip(by_hand).all(|(&got, expected)| (f64::from(got) - expected).abs() < 1e-5));

        saved(&opened, &to.0).unwrap();
        let again = open(to.text()).unwrap();
        assert_eq!(again.checkpoint().get("pooler.dense.weight").unwrap().f32s(), weight);
        assert_eq!(again.config["architectures"], serde_json::json!(["ViTModel"]));
        assert_eq!(answer(&again, &batch, "pooled"), pooled);
    }
    // A bare model without one stays without one.
    let (own, to) = (Own::new("poolerless"), Own::new("poolerless-to"));
    bare_vit(&own, [21, 21]);
    let checkpoint = Checkpoint::open(&own.0).unwrap();
    let kept: Vec<_> = checkpoint.tensors().filter(|tensor| !tensor.name.starts_with("pooler")).collect();
    let saves: Vec<Save> = (kept.iter())
        .map(|tensor| Save {
            name: tensor.name,
            shape: tensor.shape,
            data: Data::Bytes(tensor.dtype, tensor.bytes),
        })
        .collect();
    save_folder(&to.0, &saves, &SaveOptions::default()).unwrap();
    fs::copy(own.0.join("config.json"), to.0.join("config.json")).unwrap();
    assert!(open(to.text()).unwrap().checkpoint().find("pooler.dense.weight").is_none());
}

#[test]
fn an_mt5_stays_an_mt5() {
    let (opened, to) = (model("mt5"), Own::new("mt5-to"));
    saved(&opened, &to.0).unwrap();
    let again = open(to.text()).unwrap();
    assert_eq!(again.config["model_type"], "mt5");
    for one in asked("mt5", &*again.model) {
        let got = answer(&again, &one.batch, "logits");
        let most = one.logits.iter().fold(0.0f32, |most, x| most.max(x.abs()));
        assert!(got.iter().zip(&one.logits).all(|(a, b)| (a - b).abs() < 1e-5 * most));
    }
}

/// The files of a case in a folder of one's own.
fn copied(case: &str, name: &str) -> Own {
    let own = Own::new(name);
    for file in ["config.json", "model.safetensors"] {
        fs::copy(folder(case).join("model").join(file), own.0.join(file)).unwrap();
    }
    own
}

#[test]
fn what_a_sentence_transformer_keeps_comes_along() {
    let (own, to) = (copied("bert_masked", "sentences"), Own::new("sentences-to"));
    let files = [
        ("modules.json", "[]"),
        ("1_Pooling/config.json", "{\"pooling_mode\": \"cls\"}"),
        ("sentence_bert_config.json", "{\"max_seq_length\": 9}"),
        ("config_sentence_transformers.json", "{}"),
    ];
    fs::create_dir(own.0.join("1_Pooling")).unwrap();
    for (name, text) in files {
        fs::write(own.0.join(name), text).unwrap();
    }
    saved(&open(own.text()).unwrap(), &to.0).unwrap();
    for (name, text) in files {
        assert_eq!(fs::read_to_string(to.0.join(name)).unwrap(), text, "{name}");
    }
}

#[cfg(unix)]
#[test]
fn links_are_not_followed_out_of_a_model() {
    use std::os::unix::fs::symlink;
    let (own, other, to) = (copied("gpt2", "links"), Own::new("elsewhere"), Own::new("links-to"));
    fs::write(other.0.join("secret"), "secret").unwrap();
    symlink(other.0.join("secret"), own.0.join("tokenizer.json")).unwrap();
    let message = saved(&open(own.text()).unwrap(), &to.0).unwrap_err().to_string();
    let real = fs::canonicalize(other.0.join("secret")).unwrap();
    assert_eq!(
        message,
        format!(
            "{}: leads out of the model's folder, to {}; put the file itself there, if it belongs to the model, or remove \
             the link",
            own.0.join("tokenizer.json").display(),
            real.display()
        )
    );
    assert_eq!(fs::read_dir(&to.0).unwrap().count(), 0, "nothing was written");
    // Inside of the folder, and inside of a cache, links are how files are kept.
    fs::remove_file(own.0.join("tokenizer.json")).unwrap();
    fs::write(own.0.join("real.json"), "{}").unwrap();
    symlink("real.json", own.0.join("tokenizer.json")).unwrap();
    saved(&open(own.text()).unwrap(), &to.0).unwrap();
    assert_eq!(fs::read_to_string(to.0.join("tokenizer.json")).unwrap(), "{}");
    let cache = other.0.join("models--a--b");
    let snapshot = cache.join("snapshots/abc");
    fs::create_dir_all(&snapshot).unwrap();
    fs::create_dir_all(cache.join("blobs")).unwrap();
    for name in ["config.json", "model.safetensors", "tokenizer.json"] {
        fs::copy(own.0.join(name), cache.join("blobs").join(name)).unwrap();
        symlink(Path::new("../../blobs").join(name), snapshot.join(name)).unwrap();
    }
    let cached = Own::new("cached-to");
    saved(&open(snapshot.to_str().unwrap()).unwrap(), &cached.0).unwrap();
    assert!(cached.0.join("tokenizer.json").is_file());
}

#[cfg(unix)]
#[test]
fn who_may_not_read_a_model_may_not_read_its_copy() {
    use std::os::unix::fs::PermissionsExt;
    let (own, to) = (copied("gpt2", "private"), Own::new("private-to"));
    fs::write(own.0.join("tokenizer.json"), "{}").unwrap();
    for name in ["model.safetensors", "tokenizer.json"] {
        fs::set_permissions(own.0.join(name), fs::Permissions::from_mode(0o600)).unwrap();
    }
    saved(&open(own.text()).unwrap(), &to.0).unwrap();
    for name in ["model.safetensors", "tokenizer.json", "config.json"] {
        let mode = fs::metadata(to.0.join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[test]
fn numbers_that_stand_for_others_are_refused() {
    let own = copied("gpt2", "quantised");
    let mut config = config_of("gpt2");
    config["quantization_config"] =
        serde_json::json!({ "quant_method": "bitsandbytes", "load_in_8bit": true });
    fs::write(own.0.join("config.json"), config.to_string()).unwrap();
    let message = open(own.text()).unwrap_err().to_string();
    assert_eq!(
        message.replace(own.text(), "HERE"),
        "HERE: its weights were quantised by `bitsandbytes`: config.json has a `quantization_config`; save the model in f32, \
         f16 or bf16 first; --weights q8 or q4 quantises while it runs"
    );
    // The same without a word about it.
    fs::copy(folder("gpt2").join("model/config.json"), own.0.join("config.json")).unwrap();
    let checkpoint = Checkpoint::open(folder("gpt2").join("model")).unwrap();
    let integers: Vec<Vec<u8>> = checkpoint.tensors().map(|tensor| vec![3; tensor.len()]).collect();
    let saves: Vec<Save> = (checkpoint.tensors().zip(&integers))
        .map(|(tensor, integers)| {
            let data = match tensor.name {
                "transformer.h.0.mlp.c_fc.weight" => Data::Bytes(DType::I8, integers),
                _ => Data::Bytes(tensor.dtype, tensor.bytes),
            };
            Save { name: tensor.name, shape: tensor.shape, data }
        })
        .collect();
    save_folder(&own.0, &saves, &SaveOptions::default()).unwrap();
    let message = open(own.text()).unwrap_err().to_string();
    assert_eq!(
        message.replace(own.text(), "HERE"),
        "HERE: the checkpoint does not fit the model\n  1 of whole numbers, whose scale nobody says (a quantised model? save \
         it in f32, f16 or bf16 first):\n    `block.0.feed_forward.up.weight` ← `transformer.h.0.mlp.c_fc.weight`: theirs is I8"
    );
}
