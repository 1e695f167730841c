//! Learning by comparison against PyTorch: the loss of a batch of pairs, and gradients of some weights, on
//! the small BERT.

use regard_data::Checkpoint;
use regard_engine::{Cpu, Program, Store};
use regard_graph::{DType, Graph, Shape};
use regard_hub::{open, table};
use regard_models::{Contrastive, Model, Registry, SentencePooling, Sizes};
use regard_ops::CrossEntropyOptions;
use regard_ops::prelude::*;
use std::path::{Path, PathBuf};

fn goldens() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/goldens")
}

#[test]
fn the_loss_of_comparison_is_that_of_pytorch() {
    let golden = Checkpoint::open(goldens().join("contrast.safetensors")).unwrap();
    let opened =
        open(goldens().join("parity/bert_masked/model").to_str().unwrap(), &Registry::standard()).unwrap();
    let mut store = Store::new(0);
    opened.load_into(&mut store).unwrap();
    let model = Contrastive::new(opened.model.clone(), SentencePooling::Mean, 0.05).unwrap();
    let sizes = |name: &str| -> Vec<usize> { golden.get(name).unwrap().shape.to_vec() };
    let (first, second) = (sizes("ids"), sizes("source"));
    // Planned for more pairs and longer texts than there are.
    let bounds = Sizes { batch: 4, ids: 8, source: 12, ..Default::default() };
    let mut g = Graph::new();
    let inputs = model.reads().declare_open(&mut g, bounds).unwrap();
    let labels = model.task().unwrap().declare_labels(&mut g, &inputs).unwrap();
    let scale = g.input("scale", DType::F32, Shape::scalar()).unwrap();
    let loss = model.loss(&mut g, &inputs, labels, scale, CrossEntropyOptions::default()).unwrap();
    g.output("loss", loss).unwrap();
    let lines = model.files(None).imports;
    let asked: Vec<_> = golden.names().filter_map(|name| name.strip_prefix("gradient.")).collect();
    let asked: Vec<_> = lines.iter().filter(|line| asked.contains(&line.theirs.as_str())).collect();
    assert_eq!(asked.len(), 4);
    let vars: Vec<_> = asked
        .iter()
        .map(|line| g.stored().iter().find(|one| one.name == line.ours).unwrap().current)
        .collect();
    let gradients = g.gradient(loss, &vars).unwrap();
    for (line, gradient) in asked.iter().zip(gradients) {
        g.output(&format!("gradient.{}", line.ours), gradient).unwrap();
    }
    let mut program = Program::new(g, &[], &mut store, &Cpu::new().unwrap()).unwrap();
    let integers = |name: &str| -> Vec<i32> {
        let bytes = golden.get(name).unwrap().bytes;
        bytes.chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap()) as i32).collect()
    };
    let truths =
        |name: &str| -> Vec<bool> { golden.get(name).unwrap().bytes.iter().map(|b| *b != 0).collect() };
    program.set_i32("ids", &first, &integers("ids")).unwrap();
    program.set_bools("mask", &first, &truths("mask")).unwrap();
    program.set_i32("source", &second, &integers("source")).unwrap();
    program.set_bools("source_mask", &second, &truths("source_mask")).unwrap();
    program.set_i32("labels", &[3], &[0, 1, 2]).unwrap();
    program.set_f32("scale", &[], &[1.0 / 3.0]).unwrap();
    program.run(&mut store).unwrap();
    let (ours, theirs) = (program.scalar("loss").unwrap(), golden.get("loss").unwrap().f32s()[0]);
    assert!((ours - theirs).abs() <= 1e-5 * theirs.abs(), "{ours} {theirs}");
    for line in asked {
        let theirs = table::ours(line, &golden.get(&format!("gradient.{}", line.theirs)).unwrap()).unwrap();
        let ours = program.array(&format!("gradient.{}", line.ours)).unwrap();
        let largest = theirs.iter().fold(0.0f32, |most, x| most.max(x.abs()));
        let off =
            ours.data().iter().zip(&theirs).fold(0.0f32, |most, (a, b)| most.max((*a as f32 - b).abs()));
        assert!(off <= 1e-4 * largest, "{}: {off} of {largest}", line.ours);
    }
}
