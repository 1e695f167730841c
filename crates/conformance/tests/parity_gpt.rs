//! GPT-2, minGPT and Llama against transformers: scores, streams, gradients, padding, cached greedy decoding
//! and ten steps of AdamW, GPT-2 in bf16, too, on the goldens of `goldens/parity`; stories260K where its
//! weights are at hand.

use regard::ops::AdamW;
use regard::prelude::*;
use regard_conformance::parity::{Golden, Tensors, close, data, folder, json, kept, skipped, within};
use regard_conformance::parity_bf16::check_bf16;
use regard_conformance::place::device;
use regard_generate::{Generator, Request, Settings};
use regard_layers::KeepMask;
use regard_models::import::{Import, gpt2, llama, mingpt};
use regard_models::{Cached, Gpt, GptConfig, View};
use std::collections::BTreeMap;

/// Of the largest logit.
const LOGITS: f64 = 1e-4;
/// Of the largest gradient in the same layer.
const GRADIENTS: f64 = 1e-4;
/// Of the loss and of the largest logit, after ten steps.
const TRAINED: f64 = 1e-3;

struct Case {
    golden: Golden,
    gpt: Gpt,
    table: Vec<Import>,
}

fn case(name: &str) -> Case {
    let golden = Golden::read(name);
    let (config, table) = match golden.config["model_type"].as_str() {
        Some("gpt2") => {
            let config = gpt2::config_from_json(&golden.config).unwrap();
            (config, gpt2::imports(&config, "transformer."))
        }
        Some("mingpt") => {
            let config = mingpt::config_from_json(&golden.config).unwrap();
            // The golden was made without dropout.
            let config = GptConfig { dropout: 0.0, ..config };
            (config, mingpt::imports(&config))
        }
        _ => {
            let config = llama::config_from_json(&golden.config).unwrap();
            (config, llama::imports(&config))
        }
    };
    let gpt = Gpt::new(config).unwrap();
    let ours: Vec<&str> = gpt.parameters().declared().map(|declared| declared.name.as_str()).collect();
    let mut named: Vec<&str> = table.iter().map(|import| import.ours.as_str()).collect();
    let mut declared = ours.clone();
    declared.sort_unstable();
    named.sort_unstable();
    assert_eq!(declared, named, "the table names every parameter once");
    Case { golden, gpt, table }
}

const CASES: [&str; 5] = ["gpt2", "mingpt", "llama", "llama_tied", "llama_stretched"];

impl Case {
    fn program(&self, g: Graph, taps: &[&str], store: &mut Store) -> Program {
        let program = Program::new(g, taps, store, &device()).unwrap();
        self.golden.weights.fill(store, &self.table);
        program
    }

    /// The logits of one set of inputs, and the streams.
    fn check_forward(&self, name: &str, set: &str) {
        let answers = &self.golden.answers;
        let (dims, ids) = answers.integers(&format!("{set}.input_ids"));
        let mut g = Graph::inference();
        let ids_var = g.input("ids", DType::I32, [dims[0], dims[1]]).unwrap();
        let padded = answers.has(&format!("{set}.position_ids"));
        let view = match padded {
            false => View::Whole,
            true => View::Padded {
                position: g.input("position", DType::I32, [dims[0], dims[1]]).unwrap(),
                mask: g.input("mask", DType::Bool, [dims[0], dims[1]]).unwrap(),
            },
        };
        let x = self.gpt.hidden(&mut g, ids_var, view).unwrap();
        g.output("hidden", x).unwrap();
        let logits = self.gpt.head(&mut g, x).unwrap();
        g.output("logits", logits).unwrap();
        let mut taps = vec![("embedding".to_string(), "hidden.0".to_string())];
        for layer in 0..self.gpt.config().layers {
            taps.push((format!("block.{layer}.stream"), format!("hidden.{}", layer + 1)));
        }
        let names: Vec<&str> = taps.iter().map(|(ours, _)| ours.as_str()).collect();
        let mut store = Store::new(0);
        let mut program = self.program(g, &names, &mut store);
        program.set_i32("ids", &dims, &ids).unwrap();
        let mask_name = format!("{set}.attention_mask");
        let mask = match answers.has(&mask_name) {
            true => answers.truths(&mask_name).1,
            false => vec![true; ids.len()],
        };
        if padded {
            let (_, position) = answers.integers(&format!("{set}.position_ids"));
            let ours = KeepMask(mask.clone()).positions(dims[1]);
            assert_eq!(ours, position, "positions come from the mask");
            program.set_i32("position", &dims, &position).unwrap();
            program.set_bools("mask", &dims, &mask).unwrap();
        }
        program.run(&mut store).unwrap();
        taps.push(("hidden".into(), "hidden.last".into()));
        taps.push(("logits".into(), "logits".into()));
        for (ours, theirs) in taps {
            let theirs = format!("{set}.{theirs}");
            if !answers.has(&theirs) {
                assert_eq!(set, "left", "{theirs} is in the golden");
                continue;
            }
            let (got, wanted) = (program.array(&ours).unwrap(), answers.get(&theirs));
            let width = wanted.dims().last_size();
            let (got, wanted) = (kept(got.data(), &mask, width), kept(wanted.data(), &mask, width));
            close(&format!("{name}: {theirs}"), &got, &wanted, LOGITS);
        }
    }

    /// A training step, with all gradients as outputs. The golden is padded on the right; `left` moves the
    /// padding.
    fn training(&self, left: bool, store: &mut Store) -> Program {
        let (dims, mut ids) = self.golden.answers.integers("train.input_ids");
        let (_, mut targets) = self.golden.answers.integers("train.targets");
        let (_, mut mask) = self.golden.answers.truths("train.attention_mask");
        for row in (0..dims[0]).filter(|_| left) {
            let own = row * dims[1]..(row + 1) * dims[1];
            let padding = mask[own.clone()].iter().filter(|keep| !**keep).count();
            ids[own.clone()].rotate_right(padding);
            targets[own.clone()].rotate_right(padding);
            mask[own].rotate_right(padding);
        }
        let shape = [dims[0], dims[1]];
        let mut g = Graph::new();
        let ids_var = g.input("ids", DType::I32, shape).unwrap();
        let targets_var = g.input("targets", DType::I32, shape).unwrap();
        let scale = g.input("scale", DType::F32, shape![]).unwrap();
        let rate = g.input("rate", DType::F32, shape![]).unwrap();
        let step = g.input("step", DType::I32, shape![]).unwrap();
        let loss = if left {
            let position = g.input("position", DType::I32, shape).unwrap();
            let mask = g.input("mask", DType::Bool, shape).unwrap();
            let x = self.gpt.hidden(&mut g, ids_var, View::Padded { position, mask }).unwrap();
            self.gpt.loss_of(&mut g, x, targets_var, scale).unwrap()
        } else {
            self.gpt.loss(&mut g, ids_var, targets_var, scale).unwrap()
        };
        g.output("loss", loss).unwrap();
        let parameters = g.parameters();
        let names: Vec<String> = g.stored().iter().map(|stored| stored.name.clone()).collect();
        let gradients = g.gradient(loss, &parameters).unwrap();
        for (name, gradient) in names.iter().zip(&gradients) {
            g.output(&format!("gradient of {name}"), *gradient).unwrap();
        }
        let pairs: Vec<(Var, Var)> = parameters.into_iter().zip(gradients).collect();
        g.adamw_step(&pairs, &AdamW::default(), rate, step, None).unwrap();
        let mut program = self.program(g, &[], store);
        program.set_i32("ids", &dims, &ids).unwrap();
        program.set_i32("targets", &dims, &targets).unwrap();
        if left {
            let position = KeepMask(mask.clone()).positions(dims[1]);
            program.set_i32("position", &dims, &position).unwrap();
            program.set_bools("mask", &dims, &mask).unwrap();
        }
        let count = targets.iter().filter(|&&target| target != -100).count();
        program.set_f32("scale", &[], &[1.0 / count as f32]).unwrap();
        program.set_f32("rate", &[], &[1e-3]).unwrap();
        program
    }
}

#[test]
fn scores_and_streams_are_those_of_transformers() {
    for name in CASES {
        let case = case(name);
        for set in ["one", "right"] {
            case.check_forward(name, set);
        }
    }
}

#[test]
fn padding_on_the_left_is_that_of_transformers() {
    for name in ["gpt2", "llama"] {
        case(name).check_forward(name, "left");
    }
}

/// The layer that a parameter belongs to: `block.0.attention.query`, `token_embedding`.
fn layer(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(layer, _)| layer)
}

#[test]
fn every_gradient_is_that_of_pytorch() {
    for (name, left) in CASES.into_iter().flat_map(|name| [(name, false), (name, true)]) {
        let case = case(name);
        let answers = &case.golden.answers;
        let mut store = Store::new(0);
        let mut program = case.training(left, &mut store);
        program.set_i32("step", &[], &[1]).unwrap();
        program.run(&mut store).unwrap();
        let loss = f64::from(program.scalar("loss").unwrap());
        close(&format!("{name}: loss"), &[loss], answers.get("exact.loss").data(), LOGITS);
        let mut wanted = BTreeMap::new();
        let mut largest: BTreeMap<&str, f64> = BTreeMap::new();
        for import in &case.table {
            let numbers: Vec<f64> = answers.ours(import, "gradient.").into_iter().map(f64::from).collect();
            let most = largest.entry(layer(&import.ours)).or_default();
            *most = numbers.iter().fold(*most, |most, x| most.max(x.abs()));
            wanted.insert(import.ours.as_str(), numbers);
        }
        for (ours, wanted) in &wanted {
            let got = program.array(&format!("gradient of {ours}")).unwrap();
            within(
                &format!("{name}, padding on the left {left}: gradient of {ours}"),
                got.data(),
                wanted,
                GRADIENTS * largest[layer(ours)],
            );
        }
    }
}

#[test]
fn ten_steps_of_training_are_those_of_pytorch() {
    for name in CASES {
        let case = case(name);
        let answers = &case.golden.answers;
        let mut store = Store::new(0);
        let mut program = case.training(false, &mut store);
        let mut losses = Vec::new();
        for step in 1..=10 {
            program.set_i32("step", &[], &[step]).unwrap();
            program.run(&mut store).unwrap();
            losses.push(f64::from(program.scalar("loss").unwrap()));
        }
        for (step, (got, wanted)) in losses.iter().zip(answers.get("train.losses").data()).enumerate() {
            close(&format!("{name}: loss before step {}", step + 1), &[*got], &[*wanted], TRAINED);
        }
        let (dims, ids) = answers.integers("train.input_ids");
        let mut g = Graph::inference();
        let ids_var = g.input("ids", DType::I32, [dims[0], dims[1]]).unwrap();
        let logits = case.gpt.logits(&mut g, ids_var).unwrap();
        g.output("logits", logits).unwrap();
        let mut evaluate = Program::new(g, &[], &mut store, &device()).unwrap();
        evaluate.set_i32("ids", &dims, &ids).unwrap();
        evaluate.run(&mut store).unwrap();
        let (_, mask) = answers.truths("train.attention_mask");
        let (got, wanted) = (evaluate.array("logits").unwrap(), answers.get("train.final_logits"));
        let width = wanted.dims().last_size();
        close(
            &format!("{name}: logits after ten steps"),
            &kept(got.data(), &mask, width),
            &kept(wanted.data(), &mask, width),
            TRAINED,
        );
    }
}

#[test]
fn in_bf16_gpt2_is_as_exact_as_autocast() -> regard::Result<()> {
    let case = case("gpt2");
    let answers = &case.golden.answers;
    let (dims, ids) = answers.integers("train.input_ids");
    let (_, targets) = answers.integers("train.targets");
    let (_, mask) = answers.truths("train.attention_mask");
    let shape = [dims[0], dims[1]];
    let loss = |g: &mut Graph| {
        let (ids, targets) = (g.input("ids", DType::I32, shape)?, g.input("targets", DType::I32, shape)?);
        let scale = g.input("scale", DType::F32, shape![])?;
        case.gpt.loss(g, ids, targets, scale)
    };
    // Rows of padding mean nothing, and are 0 in the golden.
    let logits = |g: &mut Graph| {
        let (ids, nothing) = (g.input("ids", DType::I32, shape)?, g.fill(DType::F32, [1], 0.0)?);
        let mask = g.input("mask", DType::Bool, [dims[0], dims[1], 1])?;
        let logits = case.gpt.logits(g, ids)?;
        g.select(mask, logits, nothing)
    };
    let feed = |program: &mut Program| {
        program.set_i32("ids", &dims, &ids)?;
        if program.graph().inputs().any(|(name, _)| name == "mask") {
            return program.set_bools("mask", &[dims[0], dims[1], 1], &mask).map_err(Into::into);
        }
        program.set_i32("targets", &dims, &targets)?;
        let count = targets.iter().filter(|&&target| target != -100).count();
        program.set_f32("scale", &[], &[1.0 / count as f32]).map_err(Into::into)
    };
    check_bf16("gpt2", &case.table, loss, logits, feed)
}

/// Greedy decoding through caches: the prompt in one run, then an id at a time. Padding on the left takes the
/// slots after the example's own, which later ids take over.
fn check_greedy(name: &str, set: &str) {
    let case = case(name);
    let answers = &case.golden.answers;
    let (dims, prompt) = answers.integers(&format!("{set}.prompt"));
    let (_, wanted) = answers.integers(&format!("{set}.tokens"));
    let logits_wanted = answers.get(&format!("{set}.logits"));
    let [rows, length] = [dims[0], dims[1]];
    let mask_name = format!("{set}.attention_mask");
    let mask = match answers.has(&mask_name) {
        true => answers.truths(&mask_name).1,
        false => vec![true; rows * length],
    };
    let (steps, vocabulary) = (wanted.len() / rows, case.gpt.config().vocabulary);
    let mut g = Graph::inference();
    let t = g.open('T', length).unwrap();
    let ids = g.input("ids", DType::I32, shape![rows, t]).unwrap();
    let position = g.input("position", DType::I32, shape![rows, t]).unwrap();
    let slot = g.input("slot", DType::I32, shape![rows, t]).unwrap();
    let lengths = g.input("lengths", DType::I32, [rows]).unwrap();
    let cached = Cached { slot, ..Cached::growing(position, lengths, length + steps) };
    let logits = case.gpt.decode(&mut g, ids, cached).unwrap();
    g.output("logits", logits).unwrap();
    let mut store = Store::new(0);
    let mut program = case.program(g, &[], &mut store);

    let mut lengths: Vec<i32> =
        mask.chunks(length).map(|row| row.iter().filter(|&&keep| keep).count() as i32).collect();
    let position = KeepMask(mask.clone()).positions(length);
    let mut slot = position.clone();
    for (row, (slots, mask)) in slot.chunks_mut(length).zip(mask.chunks(length)).enumerate() {
        let padding = slots.iter_mut().zip(mask).filter(|(_, keep)| !**keep);
        for (next, (slot, _)) in (lengths[row]..).zip(padding) {
            *slot = next;
        }
    }
    program.set_i32("ids", &dims, &prompt).unwrap();
    program.set_i32("position", &dims, &position).unwrap();
    program.set_i32("slot", &dims, &slot).unwrap();
    program.set_i32("lengths", &[rows], &lengths).unwrap();
    let mut width = length;
    for step in 0..steps {
        program.run(&mut store).unwrap();
        let logits = program.array("logits").unwrap();
        let mut chosen = Vec::new();
        for row in 0..rows {
            let own = &logits.data()[((row + 1) * width - 1) * vocabulary..][..vocabulary];
            let theirs = &logits_wanted.data()[(row * steps + step) * vocabulary..][..vocabulary];
            close(&format!("{name}: {set}, row {row}, step {step}"), own, theirs, LOGITS);
            let best = (0..vocabulary).fold(0, |best, id| if own[id] > own[best] { id } else { best });
            assert_eq!(best as i32, wanted[row * steps + step], "{name}: {set}, row {row}, step {step}");
            chosen.push(best as i32);
        }
        width = 1;
        program.set_i32("ids", &[rows, 1], &chosen).unwrap();
        program.set_i32("position", &[rows, 1], &lengths).unwrap();
        program.set_i32("slot", &[rows, 1], &lengths).unwrap();
        lengths.iter_mut().for_each(|length| *length += 1);
        program.set_i32("lengths", &[rows], &lengths).unwrap();
    }
}

#[test]
fn greedy_decoding_is_that_of_transformers() {
    for name in CASES {
        check_greedy(name, "greedy_one");
    }
}

#[test]
fn greedy_decoding_of_a_padded_batch_is_that_of_transformers() {
    for name in ["gpt2", "llama"] {
        check_greedy(name, "greedy_left");
    }
}

#[test]
fn older_configs_are_read_alike_and_ours_are_read_back() {
    for name in ["llama", "llama_tied", "llama_stretched"] {
        let newer = llama::config_from_json(&Golden::read(name).config).unwrap();
        let older = llama::config_from_json(&json(&folder(name).join("config_older.json"))).unwrap();
        assert_eq!(newer, older, "{name}");
        let written = llama::config_to_json(&newer).unwrap();
        assert_eq!(llama::config_from_json(&written).unwrap(), newer, "{name}: {written}");
    }
    let config = gpt2::config_from_json(&Golden::read("gpt2").config).unwrap();
    let written = gpt2::config_to_json(&config).unwrap();
    assert_eq!(gpt2::config_from_json(&written).unwrap(), config, "{written}");
}

#[test]
fn stories260k_tells_its_story() {
    let at_hand =
        data().map(|data| data.join("weights/stories260K/stories260K.bin")).filter(|file| file.is_file());
    let Some(file) = at_hand else {
        skipped("stories260K.bin is not at hand; set REGARD_DATA to the folder with weights/stories260K");
        return;
    };
    let golden = Tensors::read(&folder("stories260k").join("golden.safetensors"));
    let (_, wanted) = golden.integers("tokens");
    let model = regard_data::llama2c::open(file).unwrap();
    let config = llama::config_from_json(&model.config.hugging_face()).unwrap();
    assert_eq!(
        config,
        GptConfig { attention_dropout: Some(0.0), ..GptConfig::preset("stories260K").unwrap() }
    );
    let gpt = Gpt::new(config).unwrap();
    let (mut store, cpu) = (Store::new(0), device());
    let settings = Settings { chunk: 8, capacity: Some(128), ..Settings::default() };
    let mut generator = Generator::new(&gpt, settings, &mut store, &cpu).unwrap();
    for import in llama::imports(&config) {
        let tensor = model.checkpoint.get(&import.theirs).unwrap();
        let numbers = regard::hub::table::ours(&import, &tensor).unwrap();
        store.set_f32(&import.ours, &numbers).unwrap();
    }
    let prompt = vec![wanted[..1].to_vec()];
    generator.generate(&Request::greedy(&prompt, 1), &mut store).unwrap();
    let scores: Vec<f64> = generator.program().f32("scores").unwrap().iter().map(|&x| f64::from(x)).collect();
    close("stories260K: scores after BOS", &scores, golden.get("first_logits").data(), LOGITS);
    let found = generator.generate(&Request::greedy(&prompt, wanted.len() - 1), &mut store).unwrap();
    assert_eq!(found[0].ids, wanted[1..]);
    let scores: Vec<f64> = generator.program().f32("scores").unwrap().iter().map(|&x| f64::from(x)).collect();
    close("stories260K: the last scores", &scores, golden.get("last_logits").data(), LOGITS);
}
