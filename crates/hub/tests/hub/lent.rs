//! Weights that are only read come from the files as they lie, whatever the family and however its names and
//! shapes differ: the same numbers as those that are loaded, the same answers, and far less memory.

use crate::golden::{CASES, folder, model};
use regard_engine::{Cpu, Store};
use regard_hub::forward;
use regard_ops::Weights;

#[test]
fn what_is_lent_is_what_is_loaded() {
    for case in CASES {
        let opened = model(case);
        let (mut loaded, mut lent) = (Store::new(0), Store::new(0));
        let report = opened.load_into(&mut loaded).unwrap();
        assert_eq!(opened.lend_to(&mut lent).unwrap(), report, "{case}");
        assert_eq!(lent.bytes(), 0, "{case}");
        for name in loaded.names() {
            assert_eq!(lent.f32(name).unwrap(), loaded.f32(name).unwrap(), "{case}: {name}");
        }
    }
}

#[test]
fn a_pass_over_lent_weights_has_the_same_bits() {
    for case in ["gpt2", "llama_tied", "bert_masked"] {
        let (opened, cpu) = (model(case), Cpu::new().unwrap());
        let ids: Vec<i32> = (1..6).collect();
        let batch = forward::Batch { ids: vec![ids], ..forward::Batch::default() };
        for weights in [Weights::Full, Weights::Bf16, Weights::Q8] {
            let answers = [true, false].map(|lent| {
                let mut store = Store::new(0);
                store.hold_weights(weights);
                if lent { opened.lend_to(&mut store) } else { opened.load_into(&mut store) }.unwrap();
                let answers = forward::forward(&*opened.model, &mut store, &cpu, &batch, &[]).unwrap();
                (store.bytes(), answers.into_iter().map(|answer| answer.numbers).collect::<Vec<_>>())
            });
            assert_eq!(answers[0].1, answers[1].1, "{case}");
            // Norms and biases alone: no table, no weight of a product.
            assert!(answers[0].0 * 4 < answers[1].0, "{case}: {} of {}", answers[0].0, answers[1].0);
        }
    }
    assert!(folder("gpt2").is_dir());
}
