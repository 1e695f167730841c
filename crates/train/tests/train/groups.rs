//! Groups of parameters: frozen, slower, decayed or not.

use crate::tiny::*;
use regard_engine::{Cpu, Store};
use regard_graph::{Graph, Pass};
use regard_train::*;

fn trainer<R>(settings: Settings, look: impl FnOnce(&Trainer<'_>, &Store) -> R) -> Result<R> {
    let (cpu, mut store) = (Cpu::new().unwrap(), Store::new(11));
    let trainer = Trainer::new(&SMALL, settings, &mut store, &cpu)?;
    Ok(look(&trainer, &store))
}

/// The weight decay of every parameter that is updated.
fn decays(g: &Graph) -> Vec<(String, String)> {
    let updates = g.nodes().iter().filter(|node| node.op.name() == "adamw");
    let mut found: Vec<(String, String)> = updates
        .map(|node| {
            let stored = g.value(node.inputs[0]).version_of.unwrap();
            let decay = node.op.attributes().into_iter().find(|(name, _)| *name == "weight_decay").unwrap();
            (g.stored()[stored].name.clone(), decay.1)
        })
        .collect();
    found.sort();
    found
}

#[test]
fn nothing_is_computed_for_what_is_frozen() {
    for micro_batches in [1, 2] {
        let groups = vec![Group::frozen("hidden.*")];
        let settings = Settings { groups, micro_batches, ..settings(10) };
        trainer(settings.clone(), |trainer, store| {
            let nodes = trainer.program().graph().nodes().iter();
            let back: Vec<&str> =
                nodes.filter(|node| node.pass == Pass::Backward).map(|node| node.name.as_str()).collect();
            assert!(!back.is_empty() && back.iter().all(|name| !name.starts_with("hidden")), "{back:?}");
            assert!(!store.names().any(|name| name.contains(".hidden.")), "no moments, no gradients");
        })
        .unwrap();
        let (_, after) = Trial::new(settings).run().unwrap();
        let (_, free) = Trial::new(Settings { micro_batches, ..crate::tiny::settings(10) }).run().unwrap();
        let mut fresh = Store::new(11);
        trainer_store(&mut fresh);
        let same = |store: &Store, name: &str| store.f32(name).unwrap() == fresh.f32(name).unwrap();
        assert!(same(&after, "hidden.weight") && same(&after, "hidden.bias") && !same(&after, "head.weight"));
        assert!(!same(&free, "hidden.weight"));
    }
}

/// The parameters as they begin.
fn trainer_store(store: &mut Store) {
    let cpu = Cpu::new().unwrap();
    Trainer::new(&SMALL, settings(1), store, &cpu).unwrap();
}

#[test]
fn a_group_has_its_own_rate() {
    let run = |rate: f64| {
        let groups = vec![Group { rate, ..Group::of("head.*") }];
        let optimizer = Optimizer::Sgd(Sgd::default());
        let settings = Settings { optimizer, groups, clip: None, learning_rate: 0.125, ..settings(1) };
        Trial::new(settings).run().unwrap().1
    };
    let mut begun = Store::new(11);
    trainer_store(&mut begun);
    let (whole, half) = (run(1.0), run(0.5));
    let moved = |store: &Store, name: &str| -> f32 {
        store.f32(name).unwrap().iter().zip(&begun.f32(name).unwrap()).map(|(a, b)| (a - b).abs()).sum()
    };
    let ratio = moved(&half, "head.weight") / moved(&whole, "head.weight");
    assert!((ratio - 0.5).abs() < 1e-4, "{ratio}");
    assert_eq!(half.f32("hidden.weight").unwrap(), whole.f32("hidden.weight").unwrap());
}

#[test]
fn decay_spares_biases_or_what_it_is_told_to() {
    let with = |decay: Decay, groups: Vec<Group>| {
        let optimizer = Optimizer::AdamW(AdamW { weight_decay: 0.1, ..AdamW::default() });
        let settings = Settings { optimizer, decay, groups, ..settings(1) };
        trainer(settings, |trainer, _| decays(trainer.program().graph())).unwrap()
    };
    let wanted = |head: &str, bias: &str, hidden: &str| {
        [("head.weight", head), ("hidden.bias", bias), ("hidden.weight", hidden)]
            .map(|(name, decay)| (name.to_string(), decay.to_string()))
            .to_vec()
    };
    assert_eq!(with(Decay::Everything, vec![]), wanted("0.1", "0.1", "0.1"));
    assert_eq!(with(Decay::NotBiases, vec![]), wanted("0.1", "0", "0.1"));
    assert_eq!(with(Decay::Matrices, vec![]), wanted("0.1", "0", "0.1"));
    // The first group that fits takes a parameter.
    let own = |pattern: &str, decay: f64| Group { weight_decay: Some(decay), ..Group::of(pattern) };
    let groups = vec![own("*.bias", 0.5), own("hidden.*", 0.25)];
    assert_eq!(with(Decay::Matrices, groups), wanted("0.1", "0.5", "0.25"));
}

#[test]
fn groups_that_are_mistakes_are_refused() {
    let text =
        |groups: Vec<Group>| trainer(Settings { groups, ..settings(1) }, |_, _| ()).unwrap_err().to_string();
    assert_eq!(
        text(vec![Group::frozen("tail.*")]),
        "no parameter is left for the group `tail.*`; parameters have names such as hidden.weight, hidden.bias, \
         head.weight; an earlier group may have taken them"
    );
    assert_eq!(text(vec![Group::frozen("*")]), "every parameter is frozen; leave one that can learn");
    let zero = Group { rate: 0.0, ..Group::of("head.*") };
    assert!(text(vec![zero]).contains("a group's learning rate is multiplied by 0"));
}
