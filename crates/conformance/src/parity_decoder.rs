//! A decoder against transformers: scores, streams, gradients, ten steps of AdamW and greedy decoding through
//! caches, on a golden of `goldens/parity`. Any family of decoders is opened as a user's folder would be.

use crate::parity::{Golden, close, kept, within};
use crate::place::device;
use regard::ops::AdamW;
use regard::prelude::*;
use regard_layers::KeepMask;
use regard_models::import::Import;
use regard_models::{Cached, Gpt, NoWeights, Registry, View};
use std::collections::BTreeMap;

/// A golden, its model without dropout, and where its parameters stand.
pub struct Case {
    /// What it is called.
    pub name: String,
    /// What PyTorch said.
    pub golden: Golden,
    /// The model.
    pub gpt: Gpt,
    /// Its table of names.
    pub table: Vec<Import>,
}

impl Case {
    /// Reads a golden and opens its model.
    pub fn read(name: &str) -> Case {
        let golden = Golden::read(name);
        let model = Registry::standard().open(&golden.config, &NoWeights).unwrap();
        let model = model.without_dropout().unwrap();
        let table = model.files(None).imports;
        let gpt: Gpt = model.downcast::<Gpt>().unwrap().clone();
        let mut declared: Vec<&str> = gpt.parameters().declared().map(|one| one.name.as_str()).collect();
        let mut named: Vec<&str> = table.iter().map(|import| import.ours.as_str()).collect();
        declared.sort_unstable();
        named.sort_unstable();
        assert_eq!(declared, named, "{name}: the table names every parameter once");
        Case { name: name.into(), golden, gpt, table }
    }

    /// A planned graph, the store filled with the golden's weights.
    pub fn program(&self, g: Graph, taps: &[&str], store: &mut Store) -> Program {
        let program = Program::new(g, taps, store, &device()).unwrap();
        self.golden.weights.fill(store, &self.table);
        program
    }

    /// The logits of one set of inputs, and the streams.
    pub fn check_forward(&self, set: &str, bound: f64) {
        let (answers, name) = (&self.golden.answers, &self.name);
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
            close(&format!("{name}: {theirs}"), &got, &wanted, bound);
        }
    }

    /// A training step, with all gradients as outputs. The golden is padded on the right; `left` moves the
    /// padding.
    pub fn training(&self, left: bool, store: &mut Store) -> Program {
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

    /// The loss and every gradient of the first step, to a share of the largest in the same layer.
    pub fn check_gradients(&self, left: bool, bound: f64) {
        let (answers, name) = (&self.golden.answers, &self.name);
        let mut store = Store::new(0);
        let mut program = self.training(left, &mut store);
        program.set_i32("step", &[], &[1]).unwrap();
        program.run(&mut store).unwrap();
        let loss = f64::from(program.scalar("loss").unwrap());
        close(&format!("{name}: loss"), &[loss], answers.get("exact.loss").data(), bound);
        let mut wanted = BTreeMap::new();
        let mut largest: BTreeMap<&str, f64> = BTreeMap::new();
        for import in &self.table {
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
                bound * largest[layer(ours)],
            );
        }
    }

    /// The losses of ten steps, and the scores after them.
    pub fn check_ten_steps(&self, bound: f64) {
        let (answers, name) = (&self.golden.answers, &self.name);
        let mut store = Store::new(0);
        let mut program = self.training(false, &mut store);
        let mut losses = Vec::new();
        for step in 1..=10 {
            program.set_i32("step", &[], &[step]).unwrap();
            program.run(&mut store).unwrap();
            losses.push(f64::from(program.scalar("loss").unwrap()));
        }
        for (step, (got, wanted)) in losses.iter().zip(answers.get("train.losses").data()).enumerate() {
            close(&format!("{name}: loss before step {}", step + 1), &[*got], &[*wanted], bound);
        }
        let (dims, ids) = answers.integers("train.input_ids");
        let mut g = Graph::inference();
        let ids_var = g.input("ids", DType::I32, [dims[0], dims[1]]).unwrap();
        let logits = self.gpt.logits(&mut g, ids_var).unwrap();
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
            bound,
        );
    }

    /// Greedy decoding through caches: the prompt in one run, then an id at a time. Padding on the left takes
    /// the slots after the example's own, which later ids take over.
    pub fn check_greedy(&self, set: &str, bound: f64) {
        let (answers, name) = (&self.golden.answers, &self.name);
        let (dims, prompt) = answers.integers(&format!("{set}.prompt"));
        let (_, wanted) = answers.integers(&format!("{set}.tokens"));
        let logits_wanted = answers.get(&format!("{set}.logits"));
        let [rows, length] = [dims[0], dims[1]];
        let mask_name = format!("{set}.attention_mask");
        let mask = match answers.has(&mask_name) {
            true => answers.truths(&mask_name).1,
            false => vec![true; rows * length],
        };
        let (steps, vocabulary) = (wanted.len() / rows, self.gpt.config().vocabulary);
        let mut g = Graph::inference();
        let t = g.open('T', length).unwrap();
        let ids = g.input("ids", DType::I32, shape![rows, t]).unwrap();
        let position = g.input("position", DType::I32, shape![rows, t]).unwrap();
        let slot = g.input("slot", DType::I32, shape![rows, t]).unwrap();
        let lengths = g.input("lengths", DType::I32, [rows]).unwrap();
        let cached = Cached { slot, ..Cached::growing(position, lengths, length + steps) };
        let logits = self.gpt.decode(&mut g, ids, cached).unwrap();
        g.output("logits", logits).unwrap();
        let mut store = Store::new(0);
        let mut program = self.program(g, &[], &mut store);

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
                close(&format!("{name}: {set}, row {row}, step {step}"), own, theirs, bound);
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
}

/// The layer that a parameter belongs to: `block.0.attention.query`, `token_embedding`.
fn layer(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(layer, _)| layer)
}
