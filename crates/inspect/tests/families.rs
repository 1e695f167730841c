//! Cases out of what a model says of itself: every family of the registry keeps its promises and agrees with
//! itself by all its ways, made from scratch, with no name of a family here.

use regard_engine::{Cpu, Store};
use regard_inspect::audit::compare;
use regard_inspect::executions::{self, Text};
use regard_inspect::{proofs, prove};
use regard_models::{Dropout, Model, ModelKeys, Needs, Registry};
use std::sync::Arc;

/// A small model of every family, for each of its tasks.
fn models() -> Vec<Arc<dyn Model>> {
    let registry = Registry::standard();
    let sizes = [
        ("layers", 2),
        ("heads", 2),
        ("width", 8),
        ("hidden", 12),
        ("context", 16),
        ("latents", 3),
        ("patch", 4),
    ];
    let mut models = Vec::new();
    for family in registry.families() {
        let known = family.keys();
        let own = sizes.iter().filter(|(name, _)| known.iter().any(|key| key.name == *name));
        let keys: ModelKeys = own.map(|(name, size)| (name.to_string(), (*size).into())).collect();
        for task in family.tasks() {
            let dropout = Dropout::NONE;
            let needs = Needs { task, vocabulary: 11, classes: 3, image: [1, 8, 8], longest: 16, dropout };
            models.push(family.make(&keys, &needs).unwrap());
        }
    }
    models
}

#[test]
fn promises_are_kept() {
    for model in models() {
        let length = if model.reads().given().is_some() { 7 } else { 0 };
        let mut promised = 0;
        for proof in proofs::of(&*model, length).unwrap() {
            let promises: Vec<_> = proof.claims.iter().map(|(.., promise)| promise.clone()).collect();
            let found = prove(&proof.case, &promises).unwrap();
            for ((title, kept, _), finding) in
                proof.claims.iter().zip(found).filter(|((_, kept, _), _)| *kept)
            {
                assert!(finding.holds(), "{}: {title} ({kept}): {finding:?}", model.family());
                promised += 1;
            }
        }
        assert!(promised > 0, "{}", model.family());
    }
}

#[test]
fn all_ways_agree() {
    let cpu = Cpu::with(2, regard_device::Level::best()).unwrap();
    let mut compared = 0;
    for model in models().iter().filter(|model| model.reads().given().is_some()) {
        let pair = model.reads().source.is_some();
        let written = |ids: &[i32]| if pair { ids.to_vec() } else { Vec::new() };
        let text = Text { read: vec![1, 2, 3, 4, 5], written: written(&[0, 7, 8, 9, 1, 2]) };
        let neighbour = Text { read: vec![6, 7, 8], written: written(&[0, 3, 3, 1, 1, 4]) };
        let alone = executions::alone(&**model, &text).unwrap();
        let mut store = Store::new(3);
        for (title, other) in executions::others(&**model, &text, &neighbour).unwrap() {
            let Ok((execution, how)) = other else { continue };
            let found = compare(&alone, &cpu, &execution, &cpu, &mut store, how).unwrap();
            assert!(found.same, "{}: {title}: {found:?}", model.family());
            compared += 1;
        }
    }
    assert!(compared > 12, "{compared}");
}

#[test]
fn what_has_no_case_is_refused() {
    let models = models();
    let images = models.iter().find(|model| model.reads().pixels.is_some()).unwrap();
    let text = Text { read: vec![1], written: Vec::new() };
    let message = executions::alone(&**images, &text).err().unwrap().to_string();
    assert_eq!(message, "a model of images reads no text; give it what it reads");
    let message = executions::others(&**images, &text, &text).err().unwrap().to_string();
    assert_eq!(message, "a model of images reads no text; give it what it reads");
    let decoder = models.iter().find(|model| model.as_decoder().is_some()).unwrap();
    let message = proofs::of(&**decoder, 17).err().unwrap().to_string();
    assert!(message.starts_with("add_position: "), "{message}");
}
