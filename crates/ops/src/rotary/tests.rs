//! Rotary positions: values by hand, every reader, both pairings, partial width, far positions, distance
//! alone.

use regard_engine::Feed;
use regard_engine::check::Case;
use regard_engine::reference;
use regard_graph::{Graph, shape};
use regard_ops::prelude::*;
use regard_ops::{Array, Pairing, RotarySpec, Stretch};

/// Twice PyTorch's own worst error with given tables, 9.0e-8.
const BOUND: f64 = 1.8e-7;

fn case(dims: [usize; 4], given: bool, spec: RotarySpec) -> Case<'static> {
    Case::new(move |g| {
        let x = g.input_with_gradient("x", dims)?;
        let position = given.then(|| g.input("position", DType::I32, [dims[0], dims[1]])).transpose()?;
        Ok(vec![g.rotary(x, position, spec)?])
    })
}

#[test]
fn values_by_hand() {
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [1, 2, 1, 5]).unwrap();
    let position = g.input("position", DType::I32, [1, 2]).unwrap();
    let spec = RotarySpec { base: 100.0, width: Some(4), ..RotarySpec::default() };
    let halves = g.rotary(x, None, spec).unwrap();
    let pairs = RotarySpec { pairing: Pairing::Interleaved, ..spec };
    let interleaved = g.rotary(x, Some(position), pairs).unwrap();
    let back = g.rotary(interleaved, Some(position), RotarySpec { inverse: true, ..pairs }).unwrap();
    let numbers = vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0];
    let feed = Feed::new()
        .with("x", Array::new(&[1, 2, 1, 5], numbers.clone()).unwrap())
        .with("position", Array::new(&[1, 2], vec![3.0, 0.0]).unwrap());
    let run = reference::run(&g, &feed, reference::Mode::Exact).unwrap();
    let close = |got: &[f64], want: &[f64]| {
        got.len() == want.len() && got.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-12)
    };
    // Position 1: channels 0 and 2 turn by 1, channels 1 and 3 by 100^(−1/2) = 0.1.
    let (c, s) = (1f64.cos(), 1f64.sin());
    let (c2, s2) = (0.1f64.cos(), 0.1f64.sin());
    let turned = [6.0 * c - 8.0 * s, 7.0 * c2 - 9.0 * s2, 6.0 * s + 8.0 * c, 7.0 * s2 + 9.0 * c2, 10.0];
    assert_eq!(run.value(halves).data()[..5], numbers[..5]);
    assert!(close(&run.value(halves).data()[5..], &turned));
    // Position 3: channels 0 and 1 turn by 3, channels 2 and 3 by 0.3.
    let (c, s) = (3f64.cos(), 3f64.sin());
    let (c2, s2) = (0.3f64.cos(), 0.3f64.sin());
    let turned = [c - 2.0 * s, s + 2.0 * c, 3.0 * c2 - 4.0 * s2, 3.0 * s2 + 4.0 * c2, 5.0];
    assert!(close(&run.value(interleaved).data()[..5], &turned));
    assert_eq!(run.value(interleaved).data()[5..], numbers[5..]);
    assert!(close(run.value(back).data(), &numbers));
}

#[test]
fn every_reader_agrees() {
    for pairing in [Pairing::Halves, Pairing::Interleaved] {
        for inverse in [false, true] {
            let spec = RotarySpec { pairing, inverse, ..RotarySpec::default() };
            case([1, 1, 1, 2], false, spec).all(BOUND).unwrap();
            case([2, 3, 2, 6], false, spec).all(BOUND).unwrap();
            case([1, 5, 1, 64], false, RotarySpec { width: Some(38), ..spec }).all(BOUND).unwrap();
            let far = [0.0, 1.0, -7.0, 123_456.0, 1_048_575.0, 2_147_483_647.0];
            let case = case([2, 3, 3, 7], true, RotarySpec { width: Some(6), base: 500_000.0, ..spec });
            case.given("position", &[2, 3], &far).all(BOUND).unwrap();
        }
    }
}

#[test]
fn a_position_has_the_same_bits_wherever_it_stands() {
    let run = |t: usize, first: usize| {
        let case = Case::new(move |g| {
            let x = g.input("x", DType::F32, [1, t, 2, 6])?;
            let position = g.input("position", DType::I32, [1, t])?;
            Ok(vec![g.rotary(x, Some(position), RotarySpec::default())?])
        });
        let row = [0.3, -1.5, 0.7, 2.5, -0.1, 1.0, 9.0, 0.2, 0.4, 0.6, 0.8, -3.0];
        let positions: Vec<f64> = (first..first + t).map(|p| p as f64).collect();
        let case = case.given("x", &[1, t, 2, 6], &row.repeat(t)).given("position", &[1, t], &positions);
        case.run_on(&regard_engine::Cpu::new().unwrap()).unwrap()[0].data().to_vec()
    };
    let (whole, alone) = (run(9, 0), run(1, 7));
    assert_eq!(whole[7 * 12..8 * 12], alone);
}

#[test]
fn products_depend_on_the_distance_alone() {
    let product = |p: f64, q: f64| {
        let mut g = Graph::new();
        let position = g.input("position", DType::I32, [1, 2]).unwrap();
        let x = g.constant(DType::F32, [1, 2, 1, 4], &[0.5, -1.0, 2.0, 0.25, 1.5, 0.75, -0.5, 1.0]).unwrap();
        let y = g.rotary(x, Some(position), RotarySpec::default()).unwrap();
        let feed = Feed::new().with("position", Array::new(&[1, 2], vec![p, q]).unwrap());
        let run = reference::run(&g, &feed, reference::Mode::Exact).unwrap();
        let y = run.value(y).data();
        (0..4).map(|c| y[c] * y[4 + c]).sum::<f64>()
    };
    assert!((product(3.0, 8.0) - product(100.0, 105.0)).abs() < 1e-12);
    assert!((product(3.0, 8.0) - product(3.0, 9.0)).abs() > 1e-3);
}

#[test]
fn open_letters_and_empty_batches() {
    for size in [5, 1, 0] {
        let case = Case::new(|g| {
            let t = g.open('T', 8)?;
            let x = g.input_with_gradient("x", shape![2, t, 3, 4])?;
            Ok(vec![g.rotary(x, None, RotarySpec::default())?])
        });
        case.size('T', size).all(BOUND).unwrap();
    }
}

#[test]
fn bf16_heads() {
    let case = Case::new(|g| {
        let x = g.input("x", DType::BF16, [2, 5, 2, 8])?;
        let y = g.rotary(x, None, RotarySpec::default())?;
        assert_eq!(g.dtype(y), DType::BF16);
        Ok(vec![y])
    });
    case.cpu(4e-3).unwrap();
}

#[test]
fn errors() {
    let mut g = Graph::new();
    let d = g.open('D', 8).unwrap();
    let x = g.input("x", DType::F32, [2, 3, 2, 6]).unwrap();
    let odd = g.input("odd", DType::F32, [2, 3, 2, 5]).unwrap();
    let open = g.input("open", DType::F32, shape![2, 3, 2, d]).unwrap();
    let flat = g.input("flat", DType::F32, [2, 3, 6]).unwrap();
    let position = g.input("position", DType::I32, [2, 4]).unwrap();
    let spec = RotarySpec::default();
    let text = |result: regard_graph::Result<Var>| result.unwrap_err().to_string();
    assert_eq!(
        regard_ops::Rotary::new(spec, None, false).unwrap_err().to_string(),
        "rotary: D is open; fix it, or give the width that turns"
    );
    assert_eq!(text(g.rotary(flat, None, spec)), "rotary: x is [2 3 6], expected [B T H D]");
    assert_eq!(
        text(g.rotary(position, None, RotarySpec { width: Some(2), ..spec })),
        "rotary: x is i32, expected f32 or bf16; cast it to f32 first"
    );
    assert_eq!(
        text(g.rotary(x, Some(position), spec)),
        "rotary: position is [2 4], expected [B=2 T=3]; B, T come from x"
    );
    assert_eq!(
        text(g.rotary(x, Some(flat), spec)),
        "rotary: position is f32, expected i32; ids, positions and lengths are i32"
    );
    for base in [0.0, -2.0, f64::NAN, f64::INFINITY] {
        assert_eq!(
            text(g.rotary(x, None, RotarySpec { base, ..spec })),
            format!("rotary: base is {base}; give a positive number such as 10000")
        );
    }
    for (var, width) in [(odd, None), (x, Some(0)), (x, Some(3))] {
        assert_eq!(
            text(g.rotary(var, None, RotarySpec { width, ..spec })),
            format!(
                "rotary: the width that turns is {}; channels turn in pairs; give an even number",
                width.unwrap_or(5)
            )
        );
    }
    assert_eq!(
        text(g.rotary(x, None, RotarySpec { width: Some(8), ..spec })),
        "rotary: the width that turns is 8, heads have D=6; turn at most D channels, and fix D"
    );
    assert_eq!(text(g.rotary(open, None, spec)), "rotary: D is open; fix it, or give the width that turns");
    assert_eq!(
        text(g.rotary(open, None, RotarySpec { width: Some(2), ..spec })),
        "rotary: the width that turns is 2, heads have D=D; turn at most D channels, and fix D"
    );
}

/// Llama 3.1's own numbers: base 500000, heads of 128, stretched 8 times from 8192 positions.
#[test]
fn a_stretch_slows_slow_pairs_only() {
    let stretch = Stretch::Turns { factor: 8.0, low: 1.0, high: 4.0, original: 8192.0 };
    let spec = RotarySpec { base: 500_000.0, stretch: Some(stretch), ..RotarySpec::default() };
    let mut g = Graph::new();
    // One position far out; channel i of the first half is 1, its partner 0, so that cos(angle) comes out.
    let x = g.constant(DType::F32, [1, 1, 1, 128], &[vec![1.0; 64], vec![0.0; 64]].concat()).unwrap();
    let position = g.constant(DType::I32, [1, 1], &[1000.0]).unwrap();
    let y = g.rotary(x, Some(position), spec).unwrap();
    let run = reference::run(&g, &Feed::new(), reference::Mode::Exact).unwrap();
    let y = run.value(y).data();
    let angle = |pair: usize| 1000.0 * 500_000f64.powf(-2.0 * pair as f64 / 128.0);
    assert!((y[0] - angle(0).cos()).abs() < 1e-12, "turns often: as it was");
    assert!((y[63] - (angle(63) / 8.0).cos()).abs() < 1e-12, "turns less than once: slowed all the way");
    // Pair 32: 8192 / (2π · 500000^½) = 1.8438 turns, a share of 0.28128 kept.
    let turns = 8192.0 / (std::f64::consts::TAU * 500_000f64.sqrt());
    let kept = (turns - 1.0) / 3.0;
    assert!((y[32] - (angle(32) * (kept + (1.0 - kept) / 8.0)).cos()).abs() < 1e-12);

    let bad = Stretch::Turns { factor: 8.0, low: 4.0, high: 1.0, original: 8192.0 };
    let bad = RotarySpec { stretch: Some(bad), ..spec };
    assert_eq!(
        g.rotary(x, None, bad).unwrap_err().to_string(),
        "rotary: a stretch of 8 from 4 to 1 turns in 8192 positions; give positive numbers, fewer turns first"
    );
}

/// The cosine of one step of each pair, by the reference.
fn cosines(spec: RotarySpec, width: usize) -> Vec<f64> {
    let mut g = Graph::new();
    let ones = [vec![1.0; width / 2], vec![0.0; width / 2]].concat();
    let x = g.constant(DType::F32, [1, 1, 1, width], &ones).unwrap();
    let position = g.constant(DType::I32, [1, 1], &[1.0]).unwrap();
    let y = g.rotary(x, Some(position), spec).unwrap();
    let run = reference::run(&g, &Feed::new(), reference::Mode::Exact).unwrap();
    run.value(y).data()[..width / 2].to_vec()
}

#[test]
fn stretches_of_other_kinds() {
    let plain = RotarySpec { base: 100.0, ..RotarySpec::default() };
    let with = |stretch: Stretch| RotarySpec { stretch: Some(stretch), ..plain };
    let angle = |pair: usize| 100f64.powf(-(pair as f64) / 8.0);
    let near = |got: &[f64], slowed: &dyn Fn(usize) -> f64| {
        for (pair, got) in got.iter().enumerate() {
            let wanted = (angle(pair) * slowed(pair)).cos();
            assert!((got - wanted).abs() < 1e-12, "pair {pair}: {got}, not {wanted}");
        }
    };
    near(&cosines(with(Stretch::Linear { factor: 4.0 }), 16), &|_| 0.25);
    near(&cosines(with(Stretch::Dynamic { factor: 4.0 }), 16), &|_| 1.0);
    // 64 positions: pair p turns 64 · 100^(−p/8) / 2π times; 4 times at p = 1.62, once at p = 4.03. Whole
    // pairs: 1 to 5, and what lies between goes over in quarters.
    let yarn = Stretch::Yarn { factor: 4.0, fast: 4.0, slow: 1.0, original: 64.0, whole: true };
    let slowed = |pair: usize| ((pair as f64 - 1.0) / 4.0).clamp(0.0, 1.0);
    near(&cosines(with(yarn), 16), &|pair| slowed(pair) / 4.0 + 1.0 - slowed(pair));
    let scaled = RotarySpec { scale: 1.25, ..with(yarn) };
    for (scaled, plain) in cosines(scaled, 16).iter().zip(cosines(with(yarn), 16)) {
        assert!((scaled - 1.25 * plain).abs() < 1e-12);
    }
    for pairing in [Pairing::Halves, Pairing::Interleaved] {
        let spec = RotarySpec { pairing, width: Some(6), ..scaled };
        case([2, 3, 2, 8], false, spec).all(BOUND).unwrap();
    }

    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [2, 3, 2, 6]).unwrap();
    let mut text = |spec: RotarySpec| g.rotary(x, None, spec).unwrap_err().to_string();
    assert_eq!(
        text(with(Stretch::Linear { factor: 0.0 })),
        "rotary: a stretch of 0; give positive numbers, fewer turns first"
    );
    assert_eq!(
        text(with(Stretch::Yarn { factor: 2.0, fast: 1.0, slow: 4.0, original: 9.0, whole: true })),
        "rotary: a stretch of 2 from 4 to 1 turns in 9 positions; give positive numbers, fewer turns first"
    );
    assert_eq!(
        text(RotarySpec { scale: f64::NAN, ..plain }),
        "rotary: turned channels are multiplied by NaN; give a positive number such as 1"
    );
}
