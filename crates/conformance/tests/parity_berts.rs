//! The encoders that descend from BERT, and the heads of all of them, against transformers: scores and hidden
//! states of every case, and for those that are trained every gradient and ten steps, on the goldens of
//! `goldens/parity`. Folders are opened as a person opens them.

use regard::Result;
use regard::hub::{self, Opened};
use regard::prelude::*;
use regard_conformance::parity::{Golden, close, folder, kept};
use regard_conformance::parity_training::check_training;
use regard_conformance::place::device;
use regard_models::inputs::{IDS, LABELS, MASK, TYPES};
use regard_models::model::output;
use regard_models::{Inputs, Model, Registry, Sizes};
use serde_json::json;

/// Of the largest number.
const FORWARD: f64 = 1e-5;

/// Each case with its outputs.
const CASES: [(&str, &[&str]); 17] = [
    ("bert_pretraining", &["logits", "follows"]),
    ("bert_labels", &["logits"]),
    ("bert_span", &["start", "end"]),
    ("bert_value", &["logits"]),
    ("roberta_masked", &["logits"]),
    ("roberta_classify", &["logits"]),
    ("xlm_roberta_span", &["start", "end"]),
    ("distilbert_masked", &["logits"]),
    ("distilbert_classify", &["logits"]),
    ("mpnet_masked", &["logits"]),
    ("mpnet_classify", &["logits"]),
    ("electra_masked", &["logits"]),
    ("electra_replaced", &["logits"]),
    ("electra_classify", &["logits"]),
    ("albert_masked", &["logits"]),
    ("albert_pretraining", &["logits", "follows"]),
    ("albert_classify", &["logits"]),
];

const TRAINED: [&str; 6] = [
    "roberta_masked",
    "roberta_classify",
    "distilbert_masked",
    "distilbert_classify",
    "mpnet_masked",
    "albert_masked",
];

fn open(case: &str) -> Result<Opened> {
    let path = folder(case).join("model");
    Ok(hub::open(path.to_string_lossy(), &Registry::standard())?)
}

/// The inputs of up to three texts; with types where the golden gives them.
fn declared(g: &mut Graph, model: &dyn Model, golden: &Golden, set: &str) -> regard::graph::Result<Inputs> {
    let (dims, _) = golden.answers.integers(&format!("{set}.input_ids"));
    let types = golden.answers.has(&format!("{set}.token_type_ids"));
    let sizes = Sizes { batch: dims[0], ids: dims[1], types, ..Sizes::default() };
    model.reads().declare(g, sizes)
}

/// Feeds the inputs of one set; gives the mask.
fn feed(program: &mut Program, golden: &Golden, set: &str) -> Result<Vec<bool>> {
    let answers = &golden.answers;
    let (dims, ids) = answers.integers(&format!("{set}.input_ids"));
    program.set_i32(IDS, &dims, &ids)?;
    if answers.has(&format!("{set}.token_type_ids")) {
        let (dims, types) = answers.integers(&format!("{set}.token_type_ids"));
        program.set_i32(TYPES, &dims, &types)?;
    }
    let name = format!("{set}.attention_mask");
    let mask = if answers.has(&name) { answers.truths(&name).1 } else { vec![true; ids.len()] };
    program.set_bools(MASK, &dims, &mask)?;
    Ok(mask)
}

fn check_forward(case: &str, outputs: &[&str], set: &str) -> Result<()> {
    let golden = Golden::read(case);
    let opened = open(case)?;
    let mut g = Graph::inference();
    let inputs = declared(&mut g, &*opened.model, &golden, set)?;
    opened.model.record(&mut g, &inputs)?;
    let taps = ["embedding.stream", "block.0.stream", "block.1.stream"];
    let mut store = Store::new(0);
    opened.load_into(&mut store)?;
    let mut program = Program::new(g, &taps, &mut store, &device())?;
    let mask = feed(&mut program, &golden, set)?;
    program.run(&mut store)?;

    let streams = taps.iter().enumerate().map(|(layer, tap)| (*tap, format!("{set}.hidden.{layer}")));
    let scores = outputs.iter().map(|name| (*name, format!("{set}.{name}")));
    // One block that runs again and again has no streams of its own to compare.
    let kept_there = streams.filter(|(_, theirs)| golden.answers.has(theirs));
    for (ours, theirs) in kept_there.chain(scores) {
        let (got, wanted) = (program.array(ours)?, golden.answers.get(&theirs));
        assert_eq!(got.dims(), wanted.dims(), "{case}: {theirs}");
        let width = wanted.data().len() / mask.len();
        let (mut got, mut wanted) = (got.data().to_vec(), wanted.data().to_vec());
        if wanted.len() == mask.len() * width {
            // Rows of padding mean nothing.
            (got, wanted) = (kept(&got, &mask, width), kept(&wanted, &mask, width));
        }
        close(&format!("{case}: {theirs}"), &got, &wanted, FORWARD);
    }
    Ok(())
}

#[test]
fn scores_and_streams_are_those_of_transformers() -> Result<()> {
    for (case, outputs) in CASES {
        for set in ["one", "right"] {
            check_forward(case, outputs, set)?;
        }
    }
    Ok(())
}

fn check_steps(case: &str) -> Result<()> {
    let golden = Golden::read(case);
    let opened = open(case)?;
    let model = &*opened.model;
    let table = model.files(None).imports;
    let (dims, targets) = golden.answers.integers("train.targets");
    let loss = |g: &mut Graph| {
        let inputs = declared(g, model, &golden, "train")?;
        let labels = g.input(LABELS, DType::I32, shape_of(&dims))?;
        let scale = g.input("scale", DType::F32, shape![])?;
        model.loss(g, &inputs, labels, scale, Default::default())
    };
    let logits = |g: &mut Graph| {
        let inputs = declared(g, model, &golden, "train")?;
        let outputs = model.pass(g, &inputs)?;
        let logits = output(&outputs, "logits").expect("scores");
        let (Some(mask), 3) = (inputs.mask, g.shape(logits).len()) else { return Ok(logits) };
        let [b, t] = g.dims(mask, "B T")?;
        let mask = g.reshape(mask, shape![b, t, 1])?;
        let nothing = g.fill(DType::F32, [1], 0.0)?;
        g.select(mask, logits, nothing)
    };
    let set = |program: &mut Program| {
        feed(program, &golden, "train")?;
        if program.graph().inputs().any(|(name, _)| name == LABELS) {
            program.set_i32(LABELS, &dims, &targets)?;
            let counted = targets.iter().filter(|&&target| target != -100).count();
            program.set_f32("scale", &[], &[1.0 / counted as f32])?;
        }
        Ok(())
    };
    check_training(&golden, &table, loss, logits, set)
}

fn shape_of(dims: &[usize]) -> Shape {
    Shape::new(dims.iter().map(|&size| size.into()).collect::<Vec<_>>())
}

#[test]
fn they_learn_as_in_pytorch() -> Result<()> {
    TRAINED.into_iter().try_for_each(check_steps)
}

#[test]
fn configs_are_read_back() -> Result<()> {
    for (case, _) in CASES {
        let opened = open(case)?;
        let ours = opened.for_training().config_to_json()?;
        let again = Registry::standard().open(&ours, &regard_models::NoWeights)?;
        assert_eq!(again.config_to_json()?, ours, "{case}");
        // Whatever we write is what they wrote; what the head does not have is not written by them.
        for (name, value) in ours.as_object().expect("an object") {
            let theirs = &opened.config[name];
            let absent = name == "position_embedding_type" || name == "tie_word_embeddings";
            // Two names of one function.
            let value = if *value == "gelu_pytorch_tanh" { &json!("gelu_new") } else { value };
            assert!(absent || theirs == value, "{case}: {name} is {value}, theirs {theirs}");
        }
    }
    Ok(())
}
