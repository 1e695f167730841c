//! A training step in two programs, *accumulate* for each micro-batch and *apply*, against one fused program
//! on the whole batch: the same step, the same random masks, versions that rise, packed copies that follow.

use regard::check::largest;
use regard::ops::{AdamW, RANDOM_INPUT, RANDOM_LENGTH, random_numbers};
use regard::prelude::*;
use regard_conformance::training::record_loss;
use regard_models::{Gpt, GptConfig};

const CONFIG: GptConfig =
    GptConfig { layers: 2, heads: 2, width: 32, context: 19, vocabulary: 50, ..GptConfig::SMALL };
const BATCH: usize = 12;
const LENGTH: usize = 19;
/// Below the norms that occur, so that clipping has something to do.
const MOST: f64 = 0.25;
const RATE: f32 = 0.01;
/// ε is large: with a tiny one, the step of a gradient that is rounding noise (mathematics gives the bias of
/// a key none) would be as large as any other.
const ADAMW: AdamW = AdamW { beta1: 0.9, beta2: 0.95, epsilon: 1e-2, weight_decay: 0.1 };

/// The programs of a step, in one store.
struct Steps {
    store: Store,
    accumulate: Program,
    apply: Program,
}

impl Steps {
    fn new(cpu: &Cpu) -> Steps {
        let mut store = Store::new(3);
        let mut g = Graph::new();
        let loss = record_loss(&mut g, CONFIG, BATCH).unwrap();
        g.accumulate_step(loss).unwrap();
        let mut h = Graph::new();
        h.parameters_of(&g).unwrap();
        let rate = h.input("rate", DType::F32, shape![]).unwrap();
        let step = h.input("step", DType::I32, shape![]).unwrap();
        let norm = h.apply_step(&ADAMW, MOST, rate, step).unwrap();
        h.output("norm", norm).unwrap();
        let accumulate = Program::new(g, &[], &mut store, cpu).unwrap();
        let apply = Program::new(h, &[], &mut store, cpu).unwrap();
        Steps { store, accumulate, apply }
    }

    /// Adds the gradients of `size` examples from `first` on, and returns their part of the loss.
    fn accumulate(&mut self, first: usize, size: usize, step: usize) -> f64 {
        feed(&mut self.accumulate, first, size, step, first);
        self.accumulate.run(&mut self.store).unwrap();
        self.accumulate.scalar("loss").unwrap() as f64
    }

    fn apply(&mut self, step: usize) -> f32 {
        feed_rate(&mut self.apply, step);
        self.apply.run(&mut self.store).unwrap();
        self.apply.scalar("norm").unwrap()
    }
}

/// Examples from `first` on, with the masks of those from `masks` on.
fn feed(program: &mut Program, first: usize, size: usize, step: usize, masks: usize) {
    let token = |i: usize| ((i * i + 11 * i + 3 * step) % CONFIG.vocabulary) as i32;
    let range = first * LENGTH..(first + size) * LENGTH;
    let ids: Vec<i32> = range.clone().map(token).collect();
    let targets: Vec<i32> = range.map(|i| token(i + 1)).collect();
    program.set_i32("ids", &[size, LENGTH], &ids).unwrap();
    program.set_i32("targets", &[size, LENGTH], &targets).unwrap();
    // The normaliser is that of the whole batch.
    program.set_f32("scale", &[], &[1.0 / (BATCH * LENGTH) as f32]).unwrap();
    let random = random_numbers(7, step as u64, masks as u32);
    program.set_i32(RANDOM_INPUT, &[RANDOM_LENGTH], &random).unwrap();
}

fn feed_rate(program: &mut Program, step: usize) {
    program.set_f32("rate", &[], &[RATE]).unwrap();
    program.set_i32("step", &[], &[step as i32]).unwrap();
}

/// The step as one program.
fn fused(store: &mut Store, cpu: &Cpu) -> Program {
    let mut g = Graph::new();
    let loss = record_loss(&mut g, CONFIG, BATCH).unwrap();
    let rate = g.input("rate", DType::F32, shape![]).unwrap();
    let step = g.input("step", DType::I32, shape![]).unwrap();
    let parameters = g.parameters();
    let names: Vec<String> = g.stored().iter().map(|stored| stored.name.clone()).collect();
    let gradients = g.gradient(loss, &parameters).unwrap();
    for (name, gradient) in names.iter().zip(&gradients) {
        g.output(&format!("gradient.{name}"), *gradient).unwrap();
    }
    let (norm, clip) = g.clip_norm(&gradients, MOST).unwrap();
    g.output("norm", norm).unwrap();
    let pairs: Vec<(Var, Var)> = parameters.into_iter().zip(gradients).collect();
    g.adamw_step(&pairs, &ADAMW, rate, step, Some(clip)).unwrap();
    Program::new(g, &[], store, cpu).unwrap()
}

fn parameters(store: &Store) -> Vec<String> {
    store
        .names()
        .filter(|name| !name.starts_with("gradient.") && !name.starts_with("adamw."))
        .map(str::to_string)
        .collect()
}

/// The largest difference, relative to a magnitude.
fn error(a: &Array, b: &Array, scale: f64) -> f64 {
    let differences: Vec<f64> = a.data().iter().zip(b.data()).map(|(x, y)| x - y).collect();
    largest(&differences) / scale
}

#[test]
fn micro_batches_make_the_step_of_the_whole_batch() {
    let cpu = Cpu::with(2, regard::device::Level::best()).unwrap();
    for micro in [&[12][..], &[4, 4, 4], &[1, 5, 2, 4], &[1; 12]] {
        let mut steps = Steps::new(&cpu);
        let mut store = Store::new(3);
        let mut fused = fused(&mut store, &cpu);
        for step in 1..=3 {
            feed(&mut fused, 0, BATCH, step, 0);
            feed_rate(&mut fused, step);
            fused.run(&mut store).unwrap();
            let (mut first, mut loss) = (0, 0.0);
            for &size in micro {
                loss += steps.accumulate(first, size, step);
                first += size;
            }
            let whole = fused.scalar("loss").unwrap() as f64;
            assert!(
                (loss - whole).abs() <= 1e-6 * whole,
                "{micro:?}: loss {loss}, {whole} of the whole batch"
            );
            let names = parameters(&store);
            // Gradients are judged by the largest of all, for the reason given at ε.
            let gradient = |name: &String| fused.array(&format!("gradient.{name}")).unwrap();
            let scale = names.iter().map(|name| largest(gradient(name).data())).fold(0.0, f64::max);
            for name in &names {
                let added = steps.store.array(&format!("gradient.{name}")).unwrap();
                let off = error(&gradient(name), &added, scale);
                assert!(off <= 1e-6, "{micro:?}, step {step}: the gradient of {name} is off by {off:.1e}");
            }
            let (norm, whole) = (steps.apply(step), fused.scalar("norm").unwrap());
            assert!(whole as f64 > MOST, "clipping has something to do: {whole}");
            assert!((norm - whole).abs() <= 1e-6 * whole, "{micro:?}: norm {norm}, {whole}");
            for name in &names {
                let (want, got) = (store.array(name).unwrap(), steps.store.array(name).unwrap());
                // A bias begins at zero: it is no larger than the steps that it has taken.
                let off = error(&want, &got, largest(want.data()).max(RATE as f64));
                assert!(off <= 1e-6, "{micro:?}, step {step}: {name} is off by {off:.1e}");
                let left = steps.store.array(&format!("gradient.{name}")).unwrap();
                assert!(left.data().iter().all(|&x| x == 0.0), "the gradient of {name} is reset");
            }
        }
    }
}

#[test]
fn masks_belong_to_examples_not_to_places_in_a_batch() {
    let cpu = Cpu::with(2, regard::device::Level::best()).unwrap();
    // The same examples of a batch, in two programs' runs: as the third and fourth of four, and by
    // themselves.
    let record = |g: &mut Graph| {
        let b = g.open('B', BATCH).unwrap();
        let ids = g.input("ids", DType::I32, shape![b, LENGTH]).unwrap();
        let logits = Gpt::new(CONFIG).unwrap().logits(g, ids).unwrap();
        g.output("logits", logits).unwrap();
    };
    let mut g = Graph::inference();
    record(&mut g);
    let mut store = Store::new(3);
    let mut program = Program::new(g, &[], &mut store, &cpu).unwrap();
    let ids: Vec<i32> = (0..4 * LENGTH).map(|i| ((i * i + 5 * i) % CONFIG.vocabulary) as i32).collect();
    let mut run = |first: usize, masks: usize| {
        let size = 4 - first;
        program.set_i32("ids", &[size, LENGTH], &ids[first * LENGTH..]).unwrap();
        let random = random_numbers(7, 1, masks as u32);
        program.set_i32(RANDOM_INPUT, &[RANDOM_LENGTH], &random).unwrap();
        program.run(&mut store).unwrap();
        let logits = program.f32("logits").unwrap();
        logits[logits.len() - 2 * LENGTH * CONFIG.vocabulary..].to_vec()
    };
    let (together, alone, others) = (run(0, 0), run(2, 2), run(2, 0));
    assert!(together == alone, "the masks of examples 2 and 3");
    assert!(together != others, "those of examples 0 and 1 are others");
}

#[test]
fn versions_rise_and_packed_copies_follow() {
    let cpu = Cpu::with(2, regard::device::Level::best()).unwrap();
    let mut steps = Steps::new(&cpu);
    let evaluation = |store: &mut Store| {
        let mut g = Graph::inference();
        let ids = g.input("ids", DType::I32, [2, LENGTH]).unwrap();
        let gpt = Gpt::new(GptConfig { dropout: 0.0, ..CONFIG }).unwrap();
        let logits = gpt.logits(&mut g, ids).unwrap();
        g.output("logits", logits).unwrap();
        let mut program = Program::new(g, &[], store, &cpu).unwrap();
        let ids: Vec<i32> = (0..2 * LENGTH as i32).collect();
        program.set_i32("ids", &[2, LENGTH], &ids).unwrap();
        program
    };
    let mut evaluate = evaluation(&mut steps.store);
    evaluate.run(&mut steps.store).unwrap();
    let mut before = evaluate.f32("logits").unwrap().to_vec();
    let names = parameters(&steps.store);
    for step in 1..=2u64 {
        for first in [0, 4, 8] {
            steps.accumulate(first, 4, step as usize);
        }
        let version = |name: &str| steps.store.version(name).unwrap();
        for name in &names {
            assert_eq!(version(name), step - 1, "{name} waits for the step");
            assert_eq!(version(&format!("gradient.{name}")), 4 * (step - 1) + 3, "{name}: three additions");
        }
        steps.apply(step as usize);
        let version = |name: &str| steps.store.version(name).unwrap();
        for name in &names {
            for moved in [name.clone(), format!("adamw.m.{name}"), format!("adamw.v.{name}")] {
                assert_eq!(version(&moved), step, "{moved}");
            }
            assert_eq!(version(&format!("gradient.{name}")), 4 * step, "{name}: and a reset");
        }
        // A store that has never packed anything, with the same parameters.
        evaluate.run(&mut steps.store).unwrap();
        let mut fresh = Store::new(99);
        let mut other = evaluation(&mut fresh);
        for name in &names {
            fresh.set_f32(name, &steps.store.f32(name).unwrap()).unwrap();
        }
        other.run(&mut fresh).unwrap();
        let after = evaluate.f32("logits").unwrap().to_vec();
        assert!(after == other.f32("logits").unwrap(), "step {step}: no stale copy of a weight");
        assert!(after != before, "step {step}: the weights moved");
        before = after;
    }
}
