//! Adapters of the real PEFT on the small models of the goldens: read onto the model they give its answers,
//! hung onto the layers they give its answers and its gradients, and written they are read again.

use regard_data::Checkpoint;
use regard_engine::{Cpu, Program, Store};
use regard_graph::{DType, Graph, Shape};
use regard_hub::{Batch, Opened, forward, merge_adapters, open, save_adapters};
use regard_layers::{adapter_names, is_adapter};
use regard_models::{Adaptation, Adapted, Dropout, Model, Registry, Sizes};
use regard_ops::CrossEntropyOptions;
use regard_ops::prelude::*;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// Of the largest logit, and of the largest gradient of the same kind.
const BOUND: f32 = 1e-5;

/// The case, our targets, alpha, rank, and whether alpha is divided by its root.
const CASES: [(&str, &[&str], f32, usize, bool); 3] = [
    ("llama", &["attention.query", "attention.value", "feed_forward.down"], 7.0, 3, false),
    (
        "bert_classify",
        &["attention.query", "attention.output", "feed_forward.up", "feed_forward.down"],
        5.0,
        2,
        true,
    ),
    ("gpt2", &["attention.query", "attention.key", "attention.value", "feed_forward.up"], 4.0, 2, false),
];

fn goldens(kind: &str, case: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/goldens").join(kind).join(case)
}

struct Golden(Checkpoint);

impl Golden {
    fn read(case: &str) -> Golden {
        Golden(Checkpoint::open(goldens("peft", case).join("golden.safetensors")).unwrap())
    }

    fn ids(&self) -> Vec<Vec<i32>> {
        let tensor = self.0.get("ids").unwrap();
        let numbers = tensor.bytes.chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap()) as i32);
        numbers.collect::<Vec<_>>().chunks(tensor.shape[1]).map(<[i32]>::to_vec).collect()
    }

    fn numbers(&self, name: &str) -> Vec<f32> {
        self.0.get(name).unwrap().f32s()
    }
}

fn close(what: &str, ours: &[f32], theirs: &[f32], bound: f32) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    let largest = theirs.iter().fold(0.0f32, |most, x| most.max(x.abs()));
    let off = ours.iter().zip(theirs).fold(0.0f32, |most, (a, b)| most.max((a - b).abs()));
    assert!(off <= bound * largest, "{what}: {off} of {largest}");
}

fn logits(model: &dyn Model, store: &mut Store, ids: &[Vec<i32>]) -> Vec<f32> {
    let batch = Batch::texts(&model.reads(), ids.to_vec());
    let answers = forward(model, store, &Cpu::new().unwrap(), &batch, &[]).unwrap();
    answers.into_iter().find(|answer| answer.name == "logits").unwrap().numbers
}

/// The model with adapters on its layers, their numbers taken from the files of PEFT.
fn adapted(case: &str) -> (Adapted, Store) {
    let (_, targets, alpha, rank, by_root) = CASES.into_iter().find(|one| one.0 == case).unwrap();
    let base = open(goldens("parity", case).join("model").to_str().unwrap(), &Registry::standard()).unwrap();
    let mut store = Store::new(0);
    base.load_into(&mut store).unwrap();
    let targets: Vec<String> = targets.iter().map(ToString::to_string).collect();
    let weights = Adaptation::weights_of(base.model.parameters(), &targets).unwrap();
    let adaptation = Adaptation { rank, alpha, by_root, dropout: 0.0, weights: weights.clone() };
    let model = Adapted::new(&*base.model, Dropout::NONE, adaptation).unwrap();
    for own in model.parameters().declared().filter(|own| is_adapter(&own.name)) {
        store.declare(&own.name, &own.shape, own.init.clone()).unwrap();
    }
    for weight in &weights {
        for (ours, theirs) in parts(&model, weight, "") {
            let files = Checkpoint::open(goldens("peft", case).join("adapter_model.safetensors")).unwrap();
            store.set_f32(&ours, &theirs.of(&files)).unwrap();
        }
    }
    (model, store)
}

/// Where the part of an adapter of ours stands in a tensor of theirs: all of it, or one of so many rows.
struct Part {
    name: String,
    rows: Option<(usize, usize)>,
}

impl Part {
    fn of(&self, files: &Checkpoint) -> Vec<f32> {
        let numbers = files.get(&self.name).unwrap().f32s();
        match self.rows {
            None => numbers,
            Some((index, parts)) => numbers.chunks(numbers.len() / parts).nth(index).unwrap().to_vec(),
        }
    }
}

fn parts(model: &dyn Model, weight: &str, before: &str) -> [(String, Part); 2] {
    use regard_models::import::Map;
    let line = model.files(None).imports.into_iter().find(|line| line.ours == weight).unwrap();
    let module = line.theirs.strip_suffix(".weight").unwrap().to_owned();
    let rows = match line.map {
        Map::Split { index, parts } | Map::SplitTransposed { index, parts } => Some((index, parts)),
        _ => None,
    };
    let [down, up] = adapter_names(weight);
    let name = |part: &str| format!("{before}base_model.model.{module}.lora_{part}.weight");
    [(down, Part { name: name("A"), rows: None }), (up, Part { name: name("B"), rows })]
}

#[test]
fn adapters_of_peft_give_its_answers() {
    for (case, ..) in CASES {
        let golden = Golden::read(case);
        let opened = open(goldens("peft", case).to_str().unwrap(), &Registry::standard()).unwrap();
        assert!(opened.adapter_count() > 0);
        let mut store = Store::new(0);
        opened.load_into(&mut store).unwrap();
        close(case, &logits(&*opened.model, &mut store, &golden.ids()), &golden.numbers("logits"), BOUND);
        // Without them it answers otherwise: the comparison can say no.
        let plain =
            open(goldens("parity", case).join("model").to_str().unwrap(), &Registry::standard()).unwrap();
        let mut store = Store::new(0);
        plain.load_into(&mut store).unwrap();
        let off = logits(&*plain.model, &mut store, &golden.ids());
        assert!(off.iter().zip(golden.numbers("logits")).any(|(a, b)| (a - b).abs() > 1e-2), "{case}");
    }
}

#[test]
fn layers_with_adapters_give_the_answers_and_gradients_of_peft() {
    for (case, ..) in CASES {
        let golden = Golden::read(case);
        let (model, mut store) = adapted(case);
        close(case, &logits(&model, &mut store, &golden.ids()), &golden.numbers("logits"), BOUND);
        let (ids, names) = (golden.ids(), model.parameters().declared().map(|own| own.name.clone()));
        let names: Vec<String> = names.filter(|name| is_adapter(name)).collect();
        let (rows, length) = (ids.len(), ids[0].len());
        let mut g = Graph::new();
        let inputs =
            model.reads().declare(&mut g, Sizes { batch: rows, ids: length, ..Default::default() }).unwrap();
        let labels = model.task().unwrap().declare_labels(&mut g, &inputs).unwrap();
        let next = g.shape(labels).len() == 2;
        let scale = g.input("scale", DType::F32, Shape::scalar()).unwrap();
        let loss = model.loss(&mut g, &inputs, labels, scale, CrossEntropyOptions::default()).unwrap();
        g.output("loss", loss).unwrap();
        let vars: Vec<_> = g
            .stored()
            .iter()
            .filter(|one| names.contains(&one.name))
            .map(|one| (one.name.clone(), one.current))
            .collect();
        let gradients = g.gradient(loss, &vars.iter().map(|(_, var)| *var).collect::<Vec<_>>()).unwrap();
        for ((name, _), gradient) in vars.iter().zip(gradients) {
            g.output(&format!("gradient.{name}"), gradient).unwrap();
        }
        let mut program = Program::new(g, &[], &mut store, &Cpu::new().unwrap()).unwrap();
        let targets: Vec<i32> = match next {
            true => ids.iter().flat_map(|row| row[1..].iter().copied().chain([-100])).collect(),
            false => vec![0, 2],
        };
        let count = targets.iter().filter(|target| **target >= 0).count();
        program.set_i32("ids", &[rows, length], &ids.concat()).unwrap();
        let dims = if next { vec![rows, length] } else { vec![rows] };
        program.set_i32("labels", &dims, &targets).unwrap();
        program.set_f32("scale", &[], &[1.0 / count as f32]).unwrap();
        if program.graph().inputs().any(|(name, _)| name == "mask") {
            program.set_bools("mask", &[rows, length], &vec![true; rows * length]).unwrap();
        }
        if program.graph().inputs().any(|(name, _)| name == "token_types") {
            program.set_i32("token_types", &[rows, length], &vec![0; rows * length]).unwrap();
        }
        program.run(&mut store).unwrap();
        close(case, &[program.scalar("loss").unwrap()], &golden.numbers("loss"), BOUND);
        let fused = case == "gpt2";
        for weight in &model.adaptation().unwrap().weights {
            for (ours, theirs) in parts(&model, weight, "gradient.") {
                // A fused projection has one A for all of its parts: its gradient is the sum of theirs.
                if fused && ours.ends_with("down") && weight.contains("attention") {
                    continue;
                }
                let own = program.array(&format!("gradient.{ours}")).unwrap();
                let own: Vec<f32> = own.data().iter().map(|&x| x as f32).collect();
                close(&format!("{case}: {ours}"), &own, &theirs.of(&golden.0), 10.0 * BOUND);
            }
        }
    }
}

#[test]
fn what_is_written_is_read_again() {
    for (case, ..) in CASES {
        let golden = Golden::read(case);
        let (model, mut store) = adapted(case);
        let folder =
            std::env::var_os("REGARD_PEFT_OUT").map(PathBuf::from).unwrap_or_else(std::env::temp_dir);
        let folder = folder.join(format!("regard-peft-{case}"));
        let base = goldens("parity", case).join("model").canonicalize().unwrap();
        save_adapters(&model, Some(&store), base.to_str().unwrap(), &folder).unwrap();
        let opened = open(folder.to_str().unwrap(), &Registry::standard()).unwrap();
        let mut own = Store::new(0);
        opened.load_into(&mut own).unwrap();
        close(case, &logits(&*opened.model, &mut own, &golden.ids()), &golden.numbers("logits"), BOUND);
        merge_adapters(&model, &mut store).unwrap();
        let plain = open(base.to_str().unwrap(), &Registry::standard()).unwrap();
        close(case, &logits(&*plain.model, &mut store, &golden.ids()), &golden.numbers("logits"), BOUND);
        if std::env::var_os("REGARD_PEFT_OUT").is_none() {
            fs::remove_dir_all(&folder).unwrap();
        }
    }
    let registry = Registry::standard();
    let plain = open(goldens("parity", "llama").join("model").to_str().unwrap(), &registry).unwrap();
    let message = save_adapters(&*plain.model, None, "x", &std::env::temp_dir()).unwrap_err().to_string();
    assert_eq!(message, "the model has no adapters; save it as a whole");
    let message = merge_adapters(&*plain.model, &mut Store::new(0)).unwrap_err().to_string();
    assert_eq!(message, "the model has no adapters; save it as a whole");
}

#[test]
fn what_is_not_known_is_refused() {
    let folder = std::env::temp_dir().join(format!("regard-peft-wrong-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let own = goldens("peft", "llama");
    fs::copy(own.join("adapter_model.safetensors"), folder.join("adapter_model.safetensors")).unwrap();
    let page: Value =
        serde_json::from_str(&fs::read_to_string(own.join("adapter_config.json")).unwrap()).unwrap();
    let base = goldens("parity", "llama").join("model");
    let other = goldens("parity", "llama_tied").join("model");
    for (key, value, expected) in [
        ("use_dora", json!(true), "`use_dora` is true, which is not known"),
        ("bias", json!("all"), "`bias` is \"all\", which is not known"),
        ("modules_to_save", json!(["lm_head"]), "`modules_to_save` is [\"lm_head\"], which is not known"),
        ("init_lora_weights", json!("pissa"), "`init_lora_weights` is \"pissa\", which is not known"),
        ("a_key_of_tomorrow", json!(3), "`a_key_of_tomorrow` is 3, which is not known"),
        ("peft_type", json!("IA3"), "the adapter is of the kind `IA3`, and only LORA is known"),
        ("lora_alpha", json!("x"), "`lora_alpha` is \"x\", expected a number"),
        ("alpha_pattern", json!({"^q": 1}), "`alpha_pattern` has `^q`, which is no plain name"),
        ("base_model_name_or_path", json!(null), "`base_model_name_or_path` does not say which model"),
        ("base_model_name_or_path", json!(other), "which does not fit `block.0."),
        ("base_model_name_or_path", json!(folder), "is an adapter of another model"),
    ] {
        let mut page = page.clone();
        page["base_model_name_or_path"] = json!(base);
        page[key] = value;
        fs::write(folder.join("adapter_config.json"), page.to_string()).unwrap();
        let message = open(folder.to_str().unwrap(), &Registry::standard()).err().unwrap().to_string();
        assert!(message.contains(expected), "{key}: {message}");
    }
    fs::remove_file(folder.join("adapter_config.json")).unwrap();
    let checkpoint = Checkpoint::open(folder.join("adapter_model.safetensors")).unwrap();
    let message = Opened::of_adapter_checkpoint(&folder, page, checkpoint, &Registry::standard())
        .unwrap_err()
        .to_string();
    assert!(message.contains("adapter_config.json"), "{message}");
    fs::remove_dir_all(&folder).unwrap();
}
