//! A training step of any model against PyTorch's: loss, every gradient, then ten steps of AdamW and the
//! logits after them, on the `train` set of a golden.

use crate::parity::{Golden, close, within};
use regard::ops::AdamW;
use regard::prelude::*;
use regard::{Result, graph};
use regard_models::import::Import;
use std::collections::{BTreeMap, BTreeSet};

/// How far loss and gradients may be apart: of the loss, and of the largest gradient of a layer.
const FIRST_STEP: f64 = 1e-4;
/// How far losses and logits may be apart in ten steps: of the largest.
const TEN_STEPS: f64 = 1e-3;

/// Compares the training of a model with the golden. `loss` and `logits` record, with inputs that `feed`
/// sets; the logits must be 0 where the golden's are, at padding. The table may hold more than is learned:
/// what no gradient changes is filled in.
pub fn check_training(
    golden: &Golden,
    table: &[Import],
    loss: impl Fn(&mut Graph) -> graph::Result<Var>,
    logits: impl Fn(&mut Graph) -> graph::Result<Var>,
    feed: impl Fn(&mut Program) -> Result<()>,
) -> Result<()> {
    let (device, mut store) = (crate::place::device(), Store::new(0));
    let answers = &golden.answers;

    let mut g = Graph::new();
    let value = loss(&mut g)?;
    g.output("loss", value)?;
    let parameters = g.parameters();
    let gradients = g.gradient(value, &parameters)?;
    let mut names = BTreeSet::new();
    for (&parameter, gradient) in parameters.iter().zip(gradients) {
        let name = name_of(&g, parameter);
        g.output(&format!("gradient.{name}"), gradient)?;
        names.insert(name);
    }
    let learned: Vec<&Import> = table.iter().filter(|import| names.contains(&import.ours)).collect();
    assert_eq!(parameters.len(), learned.len(), "every parameter has its line in the table");
    for import in table.iter().filter(|import| !names.contains(&import.ours)) {
        let theirs = format!("gradient.{}", import.theirs);
        assert!(!answers.has(&theirs), "{} is not learned here, and is there", import.ours);
    }
    let mut program = Program::new(g, &[], &mut store, &device)?;
    golden.weights.fill(&mut store, table);
    feed(&mut program)?;
    program.run(&mut store)?;
    close("loss", program.array("loss")?.data(), answers.get("train.loss").data(), FIRST_STEP);
    let mut largest: BTreeMap<&str, f64> = BTreeMap::new();
    for import in &learned {
        let most = largest.entry(layer_of(&import.ours)).or_default();
        *most = answers.ours(import, "gradient.").iter().fold(*most, |most, x| most.max(f64::from(x.abs())));
    }
    for import in &learned {
        let name = format!("gradient.{}", import.ours);
        let wanted: Vec<f64> = answers.ours(import, "gradient.").into_iter().map(f64::from).collect();
        let most = FIRST_STEP * largest[layer_of(&import.ours)];
        within(&name, program.array(&name)?.data(), &wanted, most);
    }

    let mut g = Graph::new();
    let value = loss(&mut g)?;
    g.output("loss", value)?;
    let rate = g.input("rate", DType::F32, shape![])?;
    let step = g.input("step", DType::I32, shape![])?;
    let parameters = g.parameters();
    let gradients = g.gradient(value, &parameters)?;
    let pairs: Vec<(Var, Var)> = parameters.into_iter().zip(gradients).collect();
    g.adamw_step(&pairs, &AdamW::default(), rate, step, None)?;
    let mut program = Program::new(g, &[], &mut store, &device)?;
    feed(&mut program)?;
    program.set_f32("rate", &[], &[1e-3])?;
    let mut losses = Vec::new();
    for step in 1..=10 {
        program.set_i32("step", &[], &[step])?;
        program.run(&mut store)?;
        losses.push(f64::from(program.scalar("loss")?));
    }
    close("ten losses", &losses, answers.get("train.losses").data(), TEN_STEPS);

    let mut g = Graph::inference();
    let value = logits(&mut g)?;
    g.output("logits", value)?;
    let mut program = Program::new(g, &[], &mut store, &device)?;
    feed(&mut program)?;
    program.run(&mut store)?;
    let wanted = answers.get("train.final_logits").data();
    close("logits after ten steps", program.array("logits")?.data(), wanted, TEN_STEPS);
    Ok(())
}

fn name_of(g: &Graph, parameter: Var) -> String {
    let stored = g.value(parameter).version_of.expect("a parameter is stored");
    g.stored()[stored].name.clone()
}

/// The layer of a parameter: an attention or a feed-forward part as a whole (a key bias has no gradient but
/// rounding), else all that shares its prefix.
pub(crate) fn layer_of(name: &str) -> &str {
    for part in [".attention.", ".cross.", ".feed_forward."] {
        if let Some(at) = name.find(part) {
            return &name[..at + part.len()];
        }
    }
    name.rsplit_once('.').map_or(name, |(layer, _)| layer)
}
