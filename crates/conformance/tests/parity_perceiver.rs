//! The Perceiver against the same formulas in PyTorch, with the same weights: scores under every masking, all
//! gradients and ten steps of training, on the golden of `goldens/parity/perceiver`.

use regard::Result;
use regard::prelude::*;
use regard_conformance::parity::{Golden, close};
use regard_conformance::parity_training::check_training;
use regard_models::import::{Import, Map};
use regard_models::{Mechanisms, Perceiver, PerceiverConfig, PerceiverMasking};

/// Of the largest logit.
const LOGITS: f64 = 1e-5;

const MASKINGS: [(&str, PerceiverMasking); 4] = [
    ("open", PerceiverMasking::Open),
    ("prefix", PerceiverMasking::Prefix),
    ("chunk", PerceiverMasking::Chunk),
    ("corner", PerceiverMasking::Corner),
];

fn perceiver(golden: &Golden, masking: PerceiverMasking) -> Result<Perceiver> {
    let size = |name: &str| golden.config[name].as_u64().expect("a size") as usize;
    Ok(Perceiver::new(PerceiverConfig {
        layers: size("layers"),
        heads: size("heads"),
        width: size("width"),
        latents: size("latents"),
        context: size("context"),
        vocabulary: size("vocabulary"),
        masking,
        dropout: 0.0,
        mechanisms: Mechanisms::NONE,
    })?)
}

/// The golden's parameters have our names.
fn table(perceiver: &Perceiver) -> Vec<Import> {
    let names = perceiver.parameters().declared().map(|declared| declared.name.clone());
    names.map(|name| Import { theirs: name.clone(), ours: name, map: Map::Same, shape: None }).collect()
}

#[test]
fn scores_are_those_of_pytorch_under_every_masking() -> Result<()> {
    let golden = Golden::read("perceiver");
    for (name, masking) in MASKINGS {
        let perceiver = perceiver(&golden, masking)?;
        let (dims, ids) = golden.answers.integers(&format!("{name}.input_ids"));
        let mut g = Graph::inference();
        let ids_in = g.input("ids", DType::I32, [dims[0], dims[1]])?;
        let logits = perceiver.logits(&mut g, ids_in)?;
        g.output("logits", logits)?;
        let mut store = Store::new(0);
        let mut program = Program::new(g, &[], &mut store, &Cpu::new()?)?;
        golden.weights.fill(&mut store, &table(&perceiver));
        program.set_i32("ids", &dims, &ids)?;
        program.run(&mut store)?;
        let wanted = golden.answers.get(&format!("{name}.logits"));
        close(&format!("{name}: logits"), program.array("logits")?.data(), wanted.data(), LOGITS);
    }
    Ok(())
}

#[test]
fn it_is_trained_as_in_pytorch() -> Result<()> {
    let golden = Golden::read("perceiver");
    let perceiver = perceiver(&golden, PerceiverMasking::Prefix)?;
    let (dims, ids) = golden.answers.integers("train.input_ids");
    let (_, targets) = golden.answers.integers("train.targets");
    let shape = [dims[0], dims[1]];
    let loss = |g: &mut Graph| {
        let (ids, targets) = (g.input("ids", DType::I32, shape)?, g.input("targets", DType::I32, shape)?);
        let scale = g.input("scale", DType::F32, shape![])?;
        perceiver.loss(g, ids, targets, scale)
    };
    let logits = |g: &mut Graph| {
        let ids = g.input("ids", DType::I32, shape)?;
        perceiver.logits(g, ids)
    };
    let feed = |program: &mut Program| {
        program.set_i32("ids", &dims, &ids)?;
        if program.graph().inputs().any(|(name, _)| name == "targets") {
            program.set_i32("targets", &dims, &targets)?;
            let counted = targets.iter().filter(|&&target| target != -100).count();
            program.set_f32("scale", &[], &[1.0 / counted as f32])?;
        }
        Ok(())
    };
    check_training(&golden, &table(&perceiver), loss, logits, feed)
}
