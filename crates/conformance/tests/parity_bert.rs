//! BERT against transformers: logits, hidden states, every gradient and ten steps of training, in f32 and in
//! bf16, on the goldens of `goldens/parity`; embeddings of sentences by all-MiniLM-L6-v2 where its weights
//! are at hand.

use half::f16;
use regard::prelude::*;
use regard::{Result, graph};
use regard_conformance::parity::{Golden, Tensors, close, data, folder, json, kept};
use regard_conformance::parity_bf16::check_bf16;
use regard_conformance::parity_training::check_training;
use regard_conformance::place::device;
use regard_models::import::bert::{config_from_json, config_to_json, imports};
use regard_models::{Bert, BertConfig, BertHead, BertText};
use safetensors::{Dtype, SafeTensors};
use std::io::Write;

/// Of the largest number.
const FORWARD: f64 = 1e-4;

/// Records the inputs of a BERT, up to three texts of any length.
fn text(g: &mut Graph, config: &BertConfig, masked: bool) -> graph::Result<BertText> {
    let (b, t) = (g.open('B', 3)?, g.open('T', config.context)?);
    let ids = g.input("ids", DType::I32, shape![b, t])?;
    let token_types = Some(g.input("token_types", DType::I32, shape![b, t])?);
    let key_mask = if masked { Some(g.input("key_mask", DType::Bool, shape![b, t])?) } else { None };
    Ok(BertText { ids, token_types, key_mask })
}

/// Feeds the inputs of one set.
fn feed(program: &mut Program, answers: &Tensors, set: &str) -> Result<()> {
    let (dims, ids) = answers.integers(&format!("{set}.input_ids"));
    program.set_i32("ids", &dims, &ids)?;
    let (dims, types) = answers.integers(&format!("{set}.token_type_ids"));
    program.set_i32("token_types", &dims, &types)?;
    if answers.has(&format!("{set}.attention_mask")) {
        let (dims, mask) = answers.truths(&format!("{set}.attention_mask"));
        program.set_bools("key_mask", &dims, &mask)?;
    }
    Ok(())
}

fn check_forward(case: &str, set: &str) -> Result<()> {
    let Golden { config, weights, answers } = Golden::read(case);
    let bert = Bert::new(config_from_json(&config)?)?;
    let (dims, _) = answers.integers(&format!("{set}.input_ids"));
    let masked = answers.has(&format!("{set}.attention_mask"));
    let mask = match masked {
        true => answers.truths(&format!("{set}.attention_mask")).1,
        false => vec![true; dims[0] * dims[1]],
    };

    let mut g = Graph::inference();
    let text = text(&mut g, bert.config(), masked)?;
    let logits = bert.logits(&mut g, &text)?;
    g.output("logits", logits)?;
    let mut taps = vec!["embedding.stream", "block.0.stream", "block.1.stream"];
    if let BertHead::Classes(_) = bert.config().head {
        taps.push("pooler.pooled");
    }
    let mut store = Store::new(0);
    let mut program = Program::new(g, &taps, &mut store, &device())?;
    weights.fill(&mut store, &imports(bert.config()));
    feed(&mut program, &answers, set)?;
    program.run(&mut store)?;

    for (layer, tap) in taps.iter().enumerate() {
        let name = match *tap {
            "pooler.pooled" => format!("{set}.pooled.last"),
            _ => format!("{set}.hidden.{layer}"),
        };
        compare(&format!("{case}: {name}"), &program.array(tap)?, answers.get(&name), &mask);
    }
    let name = format!("{set}.logits");
    compare(&format!("{case}: {name}"), &program.array("logits")?, answers.get(&name), &mask);
    Ok(())
}

/// Rows of padding mean nothing.
fn compare(what: &str, got: &Array, wanted: &Array, mask: &[bool]) {
    assert_eq!(got.dims(), wanted.dims(), "{what}");
    let width = wanted.dims().last_size();
    let (mut got, mut wanted) = (got.data().to_vec(), wanted.data().to_vec());
    if wanted.len() == mask.len() * width {
        (got, wanted) = (kept(&got, mask, width), kept(&wanted, mask, width));
    }
    close(what, &got, &wanted, FORWARD);
}

#[test]
fn scores_and_streams_are_those_of_transformers() -> Result<()> {
    for case in ["bert_masked", "bert_classify"] {
        for set in ["one", "right"] {
            check_forward(case, set)?;
        }
    }
    Ok(())
}

/// Training in f32, or in bf16 beside PyTorch's autocast.
fn check_steps(case: &str, precision: Precision) -> Result<()> {
    let golden = Golden::read(case);
    let bert = Bert::new(config_from_json(&golden.config)?)?;
    let table = imports(bert.config());
    let (dims, targets) = golden.answers.integers("train.targets");
    let loss = |g: &mut Graph| {
        let text = text(g, bert.config(), true)?;
        let [b, t] = g.dims(text.ids, "B T")?;
        let shape = if dims.len() == 2 { shape![b, t] } else { shape![b] };
        let targets = g.input("targets", DType::I32, shape)?;
        let scale = g.input("scale", DType::F32, shape![])?;
        bert.loss(g, &text, targets, scale)
    };
    let logits = |g: &mut Graph| {
        let text = text(g, bert.config(), true)?;
        let logits = bert.logits(g, &text)?;
        let (Some(mask), BertHead::Masked) = (text.key_mask, bert.config().head) else { return Ok(logits) };
        let [b, t] = g.dims(mask, "B T")?;
        let mask = g.reshape(mask, shape![b, t, 1])?;
        let nothing = g.fill(DType::F32, [1], 0.0)?;
        g.select(mask, logits, nothing)
    };
    let set = |program: &mut Program| {
        feed(program, &golden.answers, "train")?;
        if program.graph().inputs().any(|(name, _)| name == "targets") {
            program.set_i32("targets", &dims, &targets)?;
            let counted = targets.iter().filter(|&&target| target != -100).count();
            program.set_f32("scale", &[], &[1.0 / counted as f32])?;
        }
        Ok(())
    };
    match precision {
        Precision::F32 => check_training(&golden, &table, loss, logits, set),
        Precision::Bf16 => check_bf16(case, &table, loss, logits, set),
    }
}

#[test]
fn masked_tokens_are_learned_as_in_pytorch() -> Result<()> {
    check_steps("bert_masked", Precision::F32)
}

#[test]
fn classes_are_learned_as_in_pytorch() -> Result<()> {
    check_steps("bert_classify", Precision::F32)
}

#[test]
fn in_bf16_it_is_as_exact_as_autocast() -> Result<()> {
    check_steps("bert_masked", Precision::Bf16)?;
    check_steps("bert_classify", Precision::Bf16)
}

#[test]
fn configs_are_read_back() -> Result<()> {
    for case in ["bert_masked", "bert_classify"] {
        let theirs = json(&folder(case).join("model/config.json"));
        let config = config_from_json(&theirs)?;
        let ours = config_to_json(&config)?;
        assert_eq!(config_from_json(&ours)?, config);
        // Whatever we write is what they wrote.
        for (name, value) in ours.as_object().expect("an object") {
            let absent = name == "position_embedding_type"; // older folders have it, newer ones do not
            assert!(absent || theirs[name] == *value, "{case}: {name} is {value}, theirs {}", theirs[name]);
        }
    }
    Ok(())
}

// ---- real weights ------------------------------------------------------------------------------------

/// The tensors of a file of f16, as f32.
fn halves(bytes: &[u8], name: &str) -> Vec<f32> {
    let file = SafeTensors::deserialize(bytes).expect("a whole file");
    let view = file.tensor(name).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(view.dtype(), Dtype::F16, "{name}");
    view.data().as_chunks::<2>().0.iter().map(|&half| f16::from_le_bytes(half).to_f32()).collect()
}

#[test]
fn sentences_have_the_embeddings_of_minilm() -> Result<()> {
    let Some(source) = data().map(|data| data.join("weights/all-MiniLM-L6-v2")).filter(|path| path.is_dir())
    else {
        // Not println, which a passing test keeps to itself.
        let _ = writeln!(std::io::stderr(), "skipped: no weights/all-MiniLM-L6-v2 in the folder of data");
        return Ok(());
    };
    let config = config_from_json(&json(&source.join("config.json")))?;
    let preset = BertConfig { head: BertHead::Pooler, ..BertConfig::preset("minilm-l6")? };
    assert_eq!(config, preset, "the preset is this model");
    let bert = Bert::new(config.without_dropout())?;
    let bytes = std::fs::read(source.join("model.fp16.safetensors")).expect("the weights");
    let golden = Tensors::read(&folder("minilm").join("golden.safetensors"));

    let (dims, ids) = golden.integers("input_ids");
    let mut g = Graph::inference();
    let shape = shape![dims[0], dims[1]];
    let ids_in = g.input("ids", DType::I32, &shape)?;
    let key_mask = Some(g.input("key_mask", DType::Bool, &shape)?);
    let sentence = bert.sentence(&mut g, &BertText { ids: ids_in, token_types: None, key_mask })?;
    g.output("sentence", sentence)?;
    let mut store = Store::new(0);
    let mut program = Program::new(g, &[], &mut store, &device())?;
    for import in imports(&BertConfig { head: BertHead::None, ..*bert.config() }) {
        store.set_f32(&import.ours, &halves(&bytes, &import.theirs))?;
    }
    program.set_i32("ids", &dims, &ids)?;
    let (_, mask) = golden.truths("attention_mask");
    program.set_bools("key_mask", &dims, &mask)?;
    program.run(&mut store)?;

    let (got, wanted) = (program.array("sentence")?, golden.get("embeddings"));
    assert_eq!(got.dims(), wanted.dims());
    let width = wanted.dims().last_size();
    let rows = |array: &Array| array.data().chunks(width).map(<[f64]>::to_vec).collect::<Vec<_>>();
    let (got, wanted) = (rows(&got), rows(wanted));
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    for (row, (ours, theirs)) in got.iter().zip(&wanted).enumerate() {
        assert!((dot(ours, ours) - 1.0).abs() < 1e-5, "row {row} has length 1");
        let apart = 1.0 - dot(ours, theirs) / (dot(ours, ours) * dot(theirs, theirs)).sqrt();
        assert!(apart < 1e-3, "row {row} is {apart:.1e} apart");
    }
    let ranking = |rows: &[Vec<f64>]| {
        let pairs = (0..rows.len()).flat_map(|a| (0..a).map(move |b| (b, a)));
        let mut ranked: Vec<(usize, usize)> = pairs.collect();
        ranked.sort_by(|x, y| dot(&rows[y.0], &rows[y.1]).total_cmp(&dot(&rows[x.0], &rows[x.1])));
        ranked
    };
    assert_eq!(ranking(&got), ranking(&wanted));
    assert_eq!(ranking(&got)[0], (0, 1), "the cat and the kitten");
    Ok(())
}
