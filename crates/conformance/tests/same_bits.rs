//! Same bits, of whole models: a training step whatever the threads and the SIMD level, an example's logits
//! whatever else is in the batch and however it is padded, a position through a cache as in the full forward.

use regard::device::Level;
use regard::prelude::*;
use regard_conformance::sequence::{self, CONTEXT, LAYERS, Sight, VOCABULARY};
use regard_conformance::training::{Training, record};
use regard_models::{Cached, Gpt, GptConfig};

const PRECISIONS: [Precision; 2] = [Precision::F32, Precision::Bf16];

/// Odd sizes; attention beyond one tile of 128 keys, products beyond one block of 384.
const ODD: GptConfig = GptConfig {
    layers: 2,
    heads: 3,
    width: 99,
    context: CONTEXT,
    vocabulary: VOCABULARY,
    dropout: 0.0,
    ..GptConfig::SMALL
};

fn same(a: &[f64], b: &[f64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x.to_bits() == y.to_bits())
}

fn ids(count: usize, seed: usize) -> Vec<i32> {
    (0..count).map(|i| ((i * i + (7 + seed) * i + 13 * seed) % VOCABULARY) as i32).collect()
}

// ---- threads and levels ------------------------------------------------------------------------------

/// Losses, gradients and parameters of three steps, each with its name, planned for batches up to a bound.
fn train(precision: Precision, bound: usize, threads: usize, level: Level) -> Vec<(String, Vec<f64>)> {
    // 415 tokens: what weights' gradients contract goes beyond one block, too.
    let config = GptConfig { width: 33, vocabulary: 45, context: 83, dropout: 0.1, ..ODD };
    let cpu = Cpu::with(threads, level).unwrap();
    let mut store = Store::new(5);
    let (mut graph, gradients) = record(config, bound, precision).unwrap();
    for (name, gradient) in &gradients {
        graph.output(&format!("gradient of {name}"), *gradient).unwrap();
    }
    let mut training = Training::planned(graph, config, &mut store, &cpu).unwrap();
    let ids = training.ids(5 * 83 + 1);
    let mut found = Vec::new();
    for step in 1..=3 {
        // The last step is smaller than the plan.
        let (batch, length) = if step == 3 { (4, 17) } else { (5, 83) };
        training.feed(batch, length, &ids, step).unwrap();
        training.program.run(&mut store).unwrap();
        let outputs: Vec<String> =
            training.program.graph().outputs().map(|(name, _)| name.to_string()).collect();
        for name in outputs {
            let numbers = training.program.array(&name).unwrap().data().to_vec();
            found.push((format!("{name}, step {step}"), numbers));
        }
    }
    for name in store.names().map(str::to_string).collect::<Vec<_>>() {
        found.push((name.clone(), store.array(&name).unwrap().data().to_vec()));
    }
    found
}

#[test]
fn training_has_the_same_bits_on_any_threads_at_any_level() {
    for precision in PRECISIONS {
        // AMX sums products of bf16 in an order of its own: there, other levels are compared with each other.
        let alike = |a: Level, b: Level| a.same_bits(b, precision == Precision::Bf16);
        let best = Level::best();
        let mut firsts = vec![(best, train(precision, 5, 1, best))];
        if !alike(best, Level::PORTABLE) {
            firsts.push((Level::PORTABLE, train(precision, 5, 1, Level::PORTABLE)));
        }
        let first = &firsts[0].1;
        let losses: Vec<f64> =
            first.iter().filter(|(name, _)| name.starts_with("loss")).map(|(_, x)| x[0]).collect();
        assert!(losses.len() == 3 && losses[1] < losses[0], "it learns: {losses:?}");
        for &level in Level::available() {
            let Some((_, first)) = firsts.iter().find(|(known, _)| alike(*known, level)) else {
                unreachable!("one order of sums is the best level's, the other that of portable");
            };
            for threads in [1, 2, 3, 4] {
                for ((name, a), (_, b)) in first.iter().zip(&train(precision, 5, threads, level)) {
                    assert!(same(a, b), "{name}: {precision:?}, {level}, {threads} threads");
                }
            }
        }
    }
}

#[test]
fn the_bound_of_a_plan_changes_no_bit_of_training() {
    for precision in PRECISIONS {
        let tight = train(precision, 5, 2, Level::best());
        let loose = train(precision, 11, 2, Level::best());
        for ((name, a), (_, b)) in tight.iter().zip(&loose) {
            assert!(same(a, b), "{name}: {precision:?}");
        }
    }
}

// ---- batches and padding -----------------------------------------------------------------------------

/// Lengths of the examples: one position, around tiles of queries (48) and keys (128), up to the context.
const LENGTHS: [usize; 17] = [1, 2, 3, 5, 7, 12, 13, 31, 47, 48, 49, 64, 97, 127, 128, 129, 150];

/// The logits of some examples, padded on the right to `length` with whatever comes.
fn batch_of(
    program: &mut Program,
    store: &mut Store,
    examples: &[usize],
    length: usize,
    padding: usize,
) -> Vec<Vec<f64>> {
    let mut fed = Vec::new();
    for &example in examples {
        let mut own = ids(LENGTHS[example], example);
        own.extend(ids(length - LENGTHS[example], 100 + padding + example));
        fed.extend(own);
    }
    program.set_i32("ids", &[examples.len(), length], &fed).unwrap();
    if program.graph().inputs().any(|(name, _)| name == "lengths") {
        let lengths: Vec<i32> = examples.iter().map(|&example| LENGTHS[example] as i32).collect();
        program.set_i32("lengths", &[examples.len()], &lengths).unwrap();
    }
    program.run(store).unwrap();
    let logits = program.array("logits").unwrap();
    let rows = |(place, &example): (usize, &usize)| {
        let start = place * length * VOCABULARY;
        logits.data()[start..start + LENGTHS[example] * VOCABULARY].to_vec()
    };
    examples.iter().enumerate().map(rows).collect()
}

/// Every example alone and unpadded, and then in batches of many sizes and lengths, and in a plan of its own.
fn check_batches(what: &str, record: impl Fn(&mut Graph, Var) -> regard::graph::Result<Var>) {
    for precision in PRECISIONS {
        let (cpu, mut store) = (Cpu::with(2, Level::best()).unwrap(), Store::new(9));
        let planned = |store: &mut Store, most: [usize; 2]| {
            let mut g = Graph::inference();
            g.set_precision(precision);
            let (b, t) = (g.open('B', most[0]).unwrap(), g.open('T', most[1]).unwrap());
            let ids = g.input("ids", DType::I32, shape![b, t]).unwrap();
            let logits = record(&mut g, ids).unwrap();
            g.output("logits", logits).unwrap();
            Program::new(g, &[], store, &cpu).unwrap()
        };
        let mut program = planned(&mut store, [17, CONTEXT]);
        let alone: Vec<Vec<f64>> = (0..LENGTHS.len())
            .map(|example| batch_of(&mut program, &mut store, &[example], LENGTHS[example], 0).remove(0))
            .collect();
        for (size, length) in [(17, 150), (16, 149), (13, 101), (7, 50), (5, 13), (3, 31), (2, 5), (1, 150)] {
            let fitting = LENGTHS.iter().filter(|&&own| own <= length).count();
            // Some examples come twice, in either order.
            let mut examples: Vec<usize> = (0..size).map(|i| (i * 5 + size) % fitting).collect();
            examples.sort_by_key(|example| (example * 7 + size) % 17);
            let together = batch_of(&mut program, &mut store, &examples, length, size);
            for (example, logits) in examples.iter().zip(&together) {
                let own = LENGTHS[*example];
                assert!(
                    same(&alone[*example], logits),
                    "{what}, {precision:?}: an example of {own} in a batch of {size}, padded to {length}"
                );
            }
        }
        for example in [0, 5, 12, 16] {
            let own = LENGTHS[example];
            let mut program = planned(&mut store, [1, own]);
            let logits = batch_of(&mut program, &mut store, &[example], own, 0).remove(0);
            assert!(same(&alone[example], &logits), "{what}, {precision:?}: {own} in a plan of its own");
        }
    }
}

#[test]
fn a_gpt_sees_neither_the_batch_nor_padding() {
    check_batches("a GPT", |g, ids| Gpt::new(ODD)?.logits(g, ids));
}

#[test]
fn a_causal_model_with_rotary_sees_neither_the_batch_nor_padding() {
    check_batches("causal", |g, ids| sequence::logits(g, ids, Sight::Causal));
}

#[test]
fn a_model_that_looks_both_ways_sees_neither_the_batch_nor_padding() {
    check_batches("both ways", |g, ids| {
        let batch = g.shape(ids)[0].clone();
        let lengths = g.input("lengths", DType::I32, Shape::new(vec![batch]))?;
        sequence::logits(g, ids, Sight::Below(lengths))
    });
}

// ---- caches ------------------------------------------------------------------------------------------

/// What is compared: each block's stream and the logits, as rows of positions.
fn kept(program: &Program) -> Vec<(String, Array)> {
    let mut names: Vec<String> = (0..LAYERS).map(|layer| format!("block.{layer}.stream")).collect();
    names.push("logits".into());
    names.into_iter().map(|name| (name.clone(), program.array(&name).unwrap())).collect()
}

/// One run through caches: each example begins at a position of its own and takes `count` ids, of which the
/// first `known` are its own and the others padding.
struct Run {
    count: usize,
    starts: [usize; ROWS],
    known: [usize; ROWS],
}

const ROWS: usize = 2;

/// Both examples in the same chunks.
fn chunks(counts: &[usize]) -> Vec<Run> {
    let mut start = 0;
    let mut runs = Vec::new();
    for &count in counts {
        runs.push(Run { count, starts: [start; ROWS], known: [count; ROWS] });
        start += count;
    }
    runs
}

/// Prompts of different lengths, the shorter one padded on the right, then one id at a time.
fn ragged() -> Vec<Run> {
    let mut runs = vec![Run { count: 9, starts: [0, 0], known: [4, 9] }];
    runs.extend((0..7).map(|i| Run { count: 1, starts: [4 + i, 9 + i], known: [1, 1] }));
    runs
}

/// A full forward of two examples, and the same through caches.
fn check_caches(
    what: &str,
    full: impl Fn(&mut Graph, Var) -> regard::graph::Result<Var>,
    decode: impl Fn(&mut Graph, Var, Var, Var) -> regard::graph::Result<Var>,
) {
    let schedules =
        [chunks(&[5, 3, 1, 1, 1]), chunks(&[1; 6]), ragged(), chunks(&[48, 79, 1, 1, 1, 2, 17, 1])];
    let taps: Vec<String> = (0..LAYERS).map(|layer| format!("block.{layer}.stream")).collect();
    let taps: Vec<&str> = taps.iter().map(String::as_str).collect();
    for precision in PRECISIONS {
        let (cpu, mut store) = (Cpu::with(2, Level::best()).unwrap(), Store::new(11));
        let mut program = |decoding: bool| {
            let mut g = Graph::inference();
            g.set_precision(precision);
            let t = g.open('T', CONTEXT).unwrap();
            let ids = g.input("ids", DType::I32, shape![ROWS, t]).unwrap();
            let logits = if decoding {
                let position = g.input("position", DType::I32, shape![ROWS, t]).unwrap();
                let lengths = g.input("lengths", DType::I32, shape![ROWS]).unwrap();
                decode(&mut g, ids, position, lengths).unwrap()
            } else {
                full(&mut g, ids).unwrap()
            };
            g.output("logits", logits).unwrap();
            Program::new(g, &taps, &mut store, &cpu).unwrap()
        };
        let (mut full, mut decode) = (program(false), program(true));
        let tokens: Vec<Vec<i32>> = (0..ROWS).map(|row| ids(CONTEXT, row)).collect();
        full.set_i32("ids", &[ROWS, CONTEXT], &tokens.concat()).unwrap();
        full.run(&mut store).unwrap();
        let wanted = kept(&full);
        for runs in &schedules {
            poison_caches(&mut store);
            for Run { count, starts, known } in runs {
                let (mut fed, mut position, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
                for row in 0..ROWS {
                    let own = starts[row]..starts[row] + known[row];
                    lengths.push(own.end as i32);
                    fed.extend(&tokens[row][own]);
                    fed.extend(ids(count - known[row], 50));
                    position.extend((starts[row]..starts[row] + count).map(|at| at as i32));
                }
                decode.set_i32("ids", &[ROWS, *count], &fed).unwrap();
                decode.set_i32("position", &[ROWS, *count], &position).unwrap();
                decode.set_i32("lengths", &[ROWS], &lengths).unwrap();
                decode.run(&mut store).unwrap();
                for ((name, want), (_, got)) in wanted.iter().zip(&kept(&decode)) {
                    let width = want.dims().last_size();
                    for row in 0..ROWS {
                        let numbers = known[row] * width;
                        let want = &want.data()[(row * CONTEXT + starts[row]) * width..][..numbers];
                        let got = &got.data()[row * count * width..][..numbers];
                        let (start, many) = (starts[row], known[row]);
                        assert!(
                            same(want, got),
                            "{what}, {precision:?}: {name} of example {row}, {many} positions from {start} on"
                        );
                    }
                }
            }
        }
    }
}

/// What is in a cache beyond the known positions must not matter.
fn poison_caches(store: &mut Store) {
    let names: Vec<String> =
        store.names().filter(|name| name.contains("cache")).map(str::to_string).collect();
    assert_eq!(names.len(), 2 * LAYERS);
    for name in names {
        let mut numbers = store.array(&name).unwrap();
        numbers.data_mut().fill(f64::NAN);
        store.set_array(&name, &numbers).unwrap();
    }
}

#[test]
fn a_gpt_through_a_cache_is_the_full_forward() {
    check_caches(
        "a GPT",
        |g, ids| Gpt::new(ODD)?.logits(g, ids),
        |g, ids, position, lengths| {
            Gpt::new(ODD)?.decode(g, ids, Cached::growing(position, lengths, CONTEXT))
        },
    );
}

#[test]
fn grouped_heads_with_rotary_through_a_cache_are_the_full_forward() {
    check_caches(
        "grouped heads",
        |g, ids| sequence::logits(g, ids, Sight::Causal),
        |g, ids, position, lengths| sequence::logits(g, ids, Sight::Cached { position, lengths, rows: 2 }),
    );
}
