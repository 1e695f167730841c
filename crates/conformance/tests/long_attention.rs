//! Attention over 32,768 positions in memory that grows with n, not n², forward and backward; and the weights
//! on request, exact afterwards, without changing a bit of what they explain.

use regard::device::{Level, Stream};
use regard::ops::{Attention, WeightsRequest};
use regard::plan::Place;
use regard::prelude::*;

const LONG: usize = 32_768;
const WIDTH: usize = 64;

fn normals(name: &str, count: usize) -> Vec<f32> {
    let stream = Stream::new(4, 0, name);
    (0..count).map(|i| stream.normal(0, 0, i as u32) as f32).collect()
}

/// q, k and v of one head, y, and the gradients of Σ y · cotangent.
fn forward_and_backward(n: usize, spec: &Attention) -> Graph {
    let mut g = Graph::new();
    let inputs = ["q", "k", "v"].map(|name| g.input_with_gradient(name, [1, n, 1, WIDTH]).unwrap());
    let cotangent = g.input("cotangent", DType::F32, [1, n, 1, WIDTH]).unwrap();
    let y = g.attention(inputs[0], inputs[1], inputs[2], spec).unwrap().y;
    g.output("y", y).unwrap();
    let product = g.mul(y, cotangent).unwrap();
    let sum = g.sum_all(product).unwrap();
    let gradients = g.gradient(sum, &inputs).unwrap();
    for (name, gradient) in ["dq", "dk", "dv"].into_iter().zip(gradients) {
        g.output(name, gradient).unwrap();
    }
    g
}

fn run(program: &mut Program, store: &mut Store, n: usize) {
    for name in ["q", "k", "v", "cotangent"] {
        program.set_f32(name, &[1, n, 1, WIDTH], &normals(name, n * WIDTH)).unwrap();
    }
    program.run(store).unwrap();
}

/// One row of y, in f64.
fn naive_row(t: usize) -> Vec<f64> {
    let [q, k, v] = ["q", "k", "v"].map(|name| normals(name, LONG * WIDTH));
    let weights = softmax(&naive_scores(&q, &k, t));
    (0..WIDTH).map(|c| weights.iter().enumerate().map(|(s, w)| w * v[s * WIDTH + c] as f64).sum()).collect()
}

/// The scores of a query with the keys up to its own position.
fn naive_scores(q: &[f32], k: &[f32], t: usize) -> Vec<f64> {
    let row = |x: &[f32], at: usize| -> Vec<f64> {
        x[at * WIDTH..(at + 1) * WIDTH].iter().map(|&x| x as f64).collect()
    };
    let query = row(q, t);
    let dot = |s: usize| query.iter().zip(&k[s * WIDTH..]).map(|(a, &b)| a * b as f64).sum::<f64>();
    (0..=t).map(|s| dot(s) / (WIDTH as f64).sqrt()).collect()
}

fn softmax(scores: &[f64]) -> Vec<f64> {
    let most = scores.iter().copied().fold(f64::MIN, f64::max);
    let total: f64 = scores.iter().map(|x| (x - most).exp()).sum();
    scores.iter().map(|x| (x - most).exp() / total).collect()
}

#[test]
fn thirty_two_thousand_positions_take_less_than_a_gibibyte() {
    let cpu = Cpu::with(2, Level::best()).unwrap();
    for spec in [Attention::default(), Attention::causal()] {
        let mut store = Store::new(0);
        let mut program = Program::new(forward_and_backward(LONG, &spec), &[], &mut store, &cpu).unwrap();
        let memory = program.memory();
        let vector = LONG * WIDTH * 4;
        assert_eq!(memory.io, 8 * vector, "q, k, v, the cotangent, y and three gradients");
        let beyond = memory.arena + memory.threads;
        println!("beyond inputs and results: {:.1} MiB", beyond as f64 / (1 << 20) as f64);
        assert!(beyond < 1 << 30, "{memory:?}");
        let placed = program.plan().places.iter().flatten();
        let largest = placed.map(|place| match place {
            Place::Arena { bytes, .. } | Place::Io { bytes, .. } => *bytes,
            _ => 0,
        });
        assert!(largest.max().unwrap() <= vector, "no value grows with n²");
        // Causal, it is run: half of the pairs.
        if !spec.mask.causal {
            continue;
        }
        run(&mut program, &mut store, LONG);
        for t in [0, 1, 4_095, LONG - 1] {
            let want = naive_row(t);
            let got = &program.f32("y").unwrap()[t * WIDTH..(t + 1) * WIDTH];
            let most = want.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
            for (got, want) in got.iter().zip(&want) {
                assert!((*got as f64 - want).abs() <= 2e-6 * most, "row {t}: {got}, not {want}");
            }
        }
        // Of the last key's value only the last query knows: dv = w · cotangent.
        let scores = naive_scores(&normals("q", LONG * WIDTH), &normals("k", LONG * WIDTH), LONG - 1);
        let weight = softmax(&scores)[LONG - 1];
        let cotangent = normals("cotangent", LONG * WIDTH);
        let dv = program.f32("dv").unwrap();
        for i in (LONG - 1) * WIDTH..LONG * WIDTH {
            let want = weight * cotangent[i] as f64;
            assert!((dv[i] as f64 - want).abs() <= 1e-5 * weight, "dv: {}, not {want}", dv[i]);
        }
        for name in ["dq", "dk", "dv"] {
            assert!(program.f32(name).unwrap().iter().all(|x| x.is_finite()), "{name}");
        }
    }
}

/// Every request, with the name of its output.
fn requests() -> Vec<(&'static str, WeightsRequest)> {
    vec![
        ("rows", WeightsRequest::Rows(ROWS.to_vec())),
        ("columns", WeightsRequest::Columns(COLUMNS.to_vec())),
        ("block", WeightsRequest::Block { queries: 3_000..3_070, keys: 2_990..3_061 }),
        ("top", WeightsRequest::TopK(TOP)),
        ("sums", WeightsRequest::ColumnSums),
        ("entropy", WeightsRequest::Entropy),
    ]
}

const N: usize = 4_096;
const ROWS: [usize; 5] = [0, 1, 63, 2_048, 4_095];
const COLUMNS: [usize; 4] = [0, 127, 2_500, 4_095];
const TOP: usize = 5;

fn looking(asked: &[(&str, WeightsRequest)]) -> Program {
    let cpu = Cpu::with(2, Level::best()).unwrap();
    let mut store = Store::new(0);
    let mut g = Graph::inference();
    let [q, k, v] = ["q", "k", "v"].map(|name| g.input(name, DType::F32, [1, N, 1, WIDTH]).unwrap());
    let spec = Attention::causal();
    let attended = g.attention(q, k, v, &spec).unwrap();
    g.output("y", attended.y).unwrap();
    g.output("lse", attended.lse).unwrap();
    for (name, request) in asked {
        let found = g.attention_weights(q, k, attended.lse, &spec, request.clone()).unwrap();
        g.output(name, found.values).unwrap();
        if let Some(indices) = found.indices {
            g.output("top indices", indices).unwrap();
        }
    }
    let mut program = Program::new(g, &[], &mut store, &cpu).unwrap();
    for name in ["q", "k", "v"] {
        program.set_f32(name, &[1, N, 1, WIDTH], &normals(name, N * WIDTH)).unwrap();
    }
    program.run(&mut store).unwrap();
    program
}

#[test]
fn weights_on_request_are_those_of_the_naive_matrix_and_change_nothing() {
    let requests = requests();
    let looked = looking(&requests);
    let plain = looking(&[]);
    for name in ["y", "lse"] {
        let bits = |program: &Program| -> Vec<u32> {
            program.f32(name).unwrap().iter().map(|x| x.to_bits()).collect()
        };
        assert!(bits(&looked) == bits(&plain), "looking changed {name}");
    }

    // The whole matrix, in f64, row by row.
    let (q, k) = (normals("q", N * WIDTH), normals("k", N * WIDTH));
    let weights: Vec<Vec<f64>> = (0..N)
        .map(|t| {
            let mut row = softmax(&naive_scores(&q, &k, t));
            row.resize(N, 0.0);
            row
        })
        .collect();
    // A weight is exp(score − lse) of f32 numbers of size 10: its relative error is theirs, absolutely.
    let close = |name: &str, got: f32, want: f64| {
        assert!((got as f64 - want).abs() <= 4e-6 * want.abs() + 1e-12, "{name}: {got}, not {want}");
    };
    let of = |name: &str| looked.f32(name).unwrap();
    for (n, &t) in ROWS.iter().enumerate() {
        (0..N).for_each(|s| close("rows", of("rows")[n * N + s], weights[t][s]));
    }
    for (t, row) in weights.iter().enumerate() {
        for (n, &s) in COLUMNS.iter().enumerate() {
            close("columns", of("columns")[t * COLUMNS.len() + n], row[s]);
        }
        let entropy = -row.iter().filter(|&&w| w > 0.0).map(|w| w * w.ln()).sum::<f64>();
        assert!((of("entropy")[t] as f64 - entropy).abs() <= 4e-6 * (1.0 + entropy), "entropy of row {t}");
        let mut order: Vec<usize> = (0..=t).collect();
        order.sort_by(|&a, &b| row[b].total_cmp(&row[a]));
        for place in 0..TOP {
            let (got, at) = (of("top")[t * TOP + place], looked.i32("top indices").unwrap()[t * TOP + place]);
            match order.get(place) {
                None => assert!(got == 0.0 && at == -1, "row {t} has no {place}th key"),
                Some(&best) => {
                    close("top", got, row[best]);
                    // Two keys may be as good as equal in f32, but never a worse one.
                    close("the key at the top", got, row[at as usize]);
                }
            }
        }
    }
    for (i, t) in (3_000..3_070).enumerate() {
        (2_990..3_061).enumerate().for_each(|(j, s)| close("block", of("block")[i * 71 + j], weights[t][s]));
    }
    for s in 0..N {
        close("sums", of("sums")[s], weights.iter().map(|row| row[s]).sum());
    }
}
