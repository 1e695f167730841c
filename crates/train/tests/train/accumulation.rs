//! Micro-batches against the large batch: to rounding, and to the bit where each is a whole block of the
//! product that makes a weight's gradient (384 rows, see `k_blocks` in the device's products).

use crate::tiny::*;
use regard_engine::Store;
use regard_train::*;

fn trained(network: Network, batch: usize, micro_batches: usize, settings: Settings) -> Store {
    let mut trial = Trial::new(Settings { micro_batches, ..settings });
    trial.network = network;
    trial.source = Points { batches: 144 / batch, batch, ..POINTS };
    trial.run().unwrap().1
}

#[test]
fn four_micro_batches_are_the_large_batch() {
    // Plain descent, so that a step is the gradient itself; dropout is on, and its masks run through the
    // window.
    let plain = Optimizer::Sgd(Sgd::default());
    for steps in [1, 3] {
        let settings = Settings { optimizer: plain, learning_rate: 0.5, clip: None, ..settings(steps) };
        let network = || Network { dropout: 0.3, ..SMALL };
        let large = trained(network(), 48, 1, settings.clone());
        let small = trained(network(), 12, 4, settings.clone());
        for name in ["hidden.weight", "hidden.bias", "head.weight"] {
            let (large, small) = (large.f32(name).unwrap(), small.f32(name).unwrap());
            let most = large.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
            let apart = large.iter().zip(&small).fold(0.0_f32, |most, (a, b)| most.max((a - b).abs()));
            assert!(apart <= 1e-6 * most, "{name} after {steps}: {apart} of {most}");
        }
    }
}

#[test]
fn whole_blocks_give_the_same_bits() {
    let network = || Network { dropout: 0.2, biases: false, ..SMALL };
    let parameters = |store: &Store| -> Vec<Vec<u32>> {
        let bits = |name: &str| store.f32(name).unwrap().iter().map(|x| x.to_bits()).collect();
        ["hidden.weight", "head.weight"].map(bits).to_vec()
    };
    let run = |batch: usize, micro_batches: usize, batches: usize| {
        let mut trial = Trial::new(Settings { micro_batches, ..settings(3) });
        trial.network = network();
        trial.source = Points { batches, batch, ..POINTS };
        parameters(&trial.run().unwrap().1)
    };
    assert!(run(384, 3, 9) == run(3 * 384, 1, 3), "three blocks of 384 rows, added in order");
    // What makes the test above one: with blocks cut elsewhere, sums are rounded elsewhere.
    assert!(run(100, 3, 9) != run(300, 1, 3));
}

#[test]
fn an_epoch_may_end_in_a_shorter_window() {
    let mut trial = Trial::new(Settings { micro_batches: 4, length: Length::Epochs(2), ..settings(1) });
    trial.source = Points { batches: 10, ..POINTS };
    let (outcome, store) = trial.run().unwrap();
    let tokens: Vec<u64> = outcome.history.steps.iter().map(|record| record.tokens).collect();
    assert_eq!(tokens, [48, 96, 120, 168, 216, 240]);
    let epochs: Vec<u64> = outcome.history.steps.iter().map(|record| record.epoch).collect();
    assert_eq!(epochs, [0, 0, 0, 1, 1, 1]);
    assert!(
        store.f32("gradient.head.weight").unwrap().iter().all(|&x| x == 0.0),
        "sums are zero between steps"
    );
}
