//! Attention by hand, by textbook identities, and every error of recording it.

use super::attention_cases::{Size, case, fed, size};
use regard_engine::check::Case;
use regard_engine::{Cpu, Feed, reference};
use regard_graph::{Graph, Result, Var, shape};
use regard_ops::prelude::*;
use regard_ops::{Attended, Attention, AttentionBias, AttentionKind, AttentionMask, AttentionScale, Window};

fn cpu() -> Cpu {
    Cpu::with(2, regard_device::Level::best()).unwrap()
}

fn close(got: &[f64], want: &[f64], bound: f64) {
    assert_eq!(got.len(), want.len());
    for (got, want) in got.iter().zip(want) {
        assert!((got - want).abs() <= bound || got == want, "got {got}, want {want}");
    }
}

#[test]
fn two_by_two_by_hand() {
    // One head of width 1, β = 1: scores q·k are 1·(0, ln 3) = (0, ln 3) and 2·(0, ln 3) = (0, ln 9).
    let record = |g: &mut Graph| {
        let q = g.input("q", DType::F32, [1, 2, 1, 1])?;
        let k = g.input("k", DType::F32, [1, 2, 1, 1])?;
        let v = g.input("v", DType::F32, [1, 2, 1, 2])?;
        let found = g.attention(q, k, v, &Attention::default())?;
        Ok(vec![found.y, found.lse, found.choice])
    };
    let case = Case::new(record)
        .given("q", &[1, 2, 1, 1], &[1.0, 2.0])
        .given("k", &[1, 2, 1, 1], &[0.0, 3f64.ln()])
        .given("v", &[1, 2, 1, 2], &[4.0, 0.0, 0.0, 20.0]);
    // Weights (1/4, 3/4) and (1/10, 9/10); log-sum-exps ln 4 and ln 10.
    let want = [vec![1.0, 15.0, 0.4, 18.0], vec![4f64.ln(), 10f64.ln()], vec![-1.0, -1.0]];
    let recorded = case.forward().unwrap();
    let run = reference::run(&recorded.graph, &recorded.feed, reference::Mode::Exact).unwrap();
    for ((var, want), got) in recorded.outputs.iter().zip(&want).zip(case.run_on(&cpu()).unwrap()) {
        close(run.value(*var).data(), want, 1e-6); // k is held as f32
        close(got.data(), want, 2e-6);
    }
}

fn run(at: Size, spec: impl Fn(&mut Graph) -> Result<Attention>) -> [Vec<f64>; 3] {
    let record = |g: &mut Graph| {
        let q = g.input("q", DType::F32, [at.b, at.t, at.h, at.d])?;
        let k = g.input("k", DType::F32, [at.b, at.s, at.g, at.d])?;
        let v = g.input("v", DType::F32, [at.b, at.s, at.g, at.e])?;
        let spec = spec(g)?;
        let found = g.attention(q, k, v, &spec)?;
        Ok(vec![found.y, found.lse, v])
    };
    let found = fed(Case::new(record), at).run_on(&cpu()).unwrap();
    [found[0].data().to_vec(), found[1].data().to_vec(), found[2].data().to_vec()]
}

#[test]
fn without_scale_all_keys_weigh_the_same() {
    let at = size([1, 3, 200, 2, 2, 5, 3]);
    let scale = AttentionScale::Constant(0.0);
    let [y, lse, v] = run(at, |_| Ok(Attention { scale, ..Attention::default() }));
    close(&lse, &[200f64.ln(); 6], 1e-6);
    for (i, y) in y.iter().enumerate() {
        let mean = (0..at.s).map(|s| v[s * 6 + i % 6]).sum::<f64>() / 200.0;
        assert!((y - mean).abs() < 1e-6);
    }
}

#[test]
fn y_lies_between_the_values() {
    let at = size([2, 70, 150, 4, 2, 8, 3]);
    let [y, _, v] =
        run(at, |_| Ok(Attention { scale: AttentionScale::Constant(3.0), ..Attention::default() }));
    for (i, y) in y.iter().enumerate() {
        let (e, h, b) = (i % 3, i / 3 % 4, i / (3 * 4 * 70));
        let own = (0..at.s).map(|s| v[((b * at.s + s) * 2 + h / 2) * 3 + e]);
        let (low, high) = own.fold((f64::MAX, f64::MIN), |(low, high), x| (low.min(x), high.max(x)));
        assert!(low - 1e-6 <= *y && *y <= high + 1e-6);
    }
}

#[test]
fn a_single_key_is_copied() {
    let at = size([2, 5, 1, 2, 2, 3, 4]);
    let [y, _, v] = run(at, |_| Ok(Attention::default()));
    for (i, y) in y.iter().enumerate() {
        assert_eq!(*y, v[i / (5 * 8) * 8 + i % 8]);
    }
}

#[test]
fn huge_scores_are_fine_and_rows_without_keys_are_zero() {
    let at = size([1, 3, 2, 1, 1, 1, 1]);
    let record = |g: &mut Graph| {
        let q = g.input_with_gradient("q", [1, 3, 1, 1])?;
        let k = g.input_with_gradient("k", [1, 2, 1, 1])?;
        let v = g.input_with_gradient("v", [1, 2, 1, 1])?;
        let explicit = Some(g.input("explicit", DType::Bool, [1, 1, 3, 2])?);
        let mask = AttentionMask { explicit, ..Default::default() };
        let found = g.attention(q, k, v, &Attention { mask, ..Attention::default() })?;
        Ok(vec![found.y, found.lse, g.empty_rows(found.lse)?])
    };
    let case = Case::new(record)
        .given("q", &[1, 3, 1, 1], &[1.0, -1.0, 1.0])
        .given("k", &[1, 2, 1, 1], &[1e4, -1e4])
        .given("v", &[1, 2, 1, 1], &[5.0, 7.0])
        .given("explicit", &[1, 1, 3, 2], &[1.0, 1.0, 1.0, 1.0, 0.0, 0.0]);
    let found = case.run_on(&cpu()).unwrap();
    assert_eq!(found[0].data(), [5.0, 7.0, 0.0]);
    assert_eq!(found[1].data(), [1e4, 1e4, f64::NEG_INFINITY]);
    assert_eq!(found[2].data(), [1.0]);
    assert!(found[3..].iter().all(|grad| grad.data().iter().all(|x| x.is_finite())));
    assert_eq!(found[4].data()[2], 0.0, "{at:?}: dq of the row without keys");
}

#[test]
fn t5_buckets_are_those_of_t5() {
    // Where the bucket changes, by distance from −600 to 599, as T5's own `_relative_position_bucket` gives
    // it with 32 buckets and max_distance 128.
    let both = [
        (-600, 15),
        (-90, 14),
        (-63, 13),
        (-45, 12),
        (-31, 11),
        (-22, 10),
        (-15, 9),
        (-11, 8),
        (-7, 7),
        (-6, 6),
        (-5, 5),
        (-4, 4),
        (-3, 3),
        (-2, 2),
        (-1, 1),
        (0, 0),
        (1, 17),
        (2, 18),
        (3, 19),
        (4, 20),
        (5, 21),
        (6, 22),
        (7, 23),
        (8, 24),
        (12, 25),
        (16, 26),
        (23, 27),
        (32, 28),
        (46, 29),
        (64, 30),
        (91, 31),
    ];
    let back = [
        (-600, 31),
        (-112, 30),
        (-98, 29),
        (-86, 28),
        (-76, 27),
        (-66, 26),
        (-58, 25),
        (-51, 24),
        (-45, 23),
        (-39, 22),
        (-34, 21),
        (-30, 20),
        (-26, 19),
        (-23, 18),
        (-20, 17),
        (-18, 16),
        (-15, 15),
        (-14, 14),
        (-13, 13),
        (-12, 12),
        (-11, 11),
        (-10, 10),
        (-9, 9),
        (-8, 8),
        (-7, 7),
        (-6, 6),
        (-5, 5),
        (-4, 4),
        (-3, 3),
        (-2, 2),
        (-1, 1),
        (0, 0),
    ];
    let distances: Vec<i32> = (-600..600).collect();
    for (bidirectional, wanted) in [(true, &both[..]), (false, &back[..])] {
        // One query at position 0 for each of 1200 examples with a single key: the score is the bucket's
        // number.
        let record = |g: &mut Graph| {
            let q = g.input("q", DType::F32, [1200, 1, 1, 1])?;
            let table = g.input("table", DType::F32, [32, 1])?;
            let spec = Attention {
                bias: AttentionBias::Buckets { table, bidirectional, max_distance: 128 },
                key_position: Some(g.input("key", DType::I32, [1200, 1])?),
                scale: AttentionScale::Constant(0.0),
                ..Attention::default()
            };
            Ok(vec![g.attention(q, q, q, &spec)?.lse])
        };
        let keys: Vec<f64> = distances.iter().map(|&at| f64::from(at)).collect();
        let numbers: Vec<f64> = (0..32).map(f64::from).collect();
        let case = Case::new(record).given("table", &[32, 1], &numbers).given("key", &[1200, 1], &keys);
        let found = &case.run_on(&cpu()).unwrap()[0];
        for (distance, found) in distances.iter().zip(found.data()) {
            let bucket = wanted.iter().rev().find(|(from, _)| from <= distance).unwrap().1;
            assert_eq!(*found, f64::from(bucket), "distance {distance}");
        }
    }
}

#[test]
fn cost_of_a_full_block_is_the_closed_form() {
    // Scores and mixing of n tokens and width C take 2·n²·C multiply-adds, half of that (and the diagonal)
    // causally.
    let (n, heads, width) = (64u64, 4u64, 8u64);
    for causal in [false, true] {
        let mut g = Graph::new();
        let q = g.input("q", DType::F32, [1, n as usize, heads as usize, width as usize]).unwrap();
        let spec = if causal { Attention::causal() } else { Attention::default() };
        g.attention(q, q, q, &spec).unwrap();
        let sizes = regard_graph::Sizes::none();
        let costs = regard_graph::cost::cost(&g, &sizes, &regard_graph::Integers::none(), None).unwrap();
        let pairs = if causal { n * (n + 1) / 2 } else { n * n };
        assert_eq!(costs.rows[0].cost.macs, 2 * pairs * heads * width);
        let executed = Cpu::executed(&g, &sizes, &regard_graph::Integers::none(), None).unwrap();
        assert!(executed.rows[0].cost.macs >= costs.rows[0].cost.macs);
    }
    // A window costs n·w, also executed, up to whole tiles.
    let executed = |n: usize| {
        let mut g = Graph::new();
        let q = g.input("q", DType::F32, [1, n, 1, 8]).unwrap();
        let mask = AttentionMask { window: Some(Window { before: 100, after: 0 }), ..Default::default() };
        g.attention(q, q, q, &Attention { mask, ..Attention::default() }).unwrap();
        let sizes = regard_graph::Sizes::none();
        let costs = Cpu::executed(&g, &sizes, &regard_graph::Integers::none(), None).unwrap();
        costs.rows[0].cost.macs
    };
    assert!(executed(16384) < 5 * executed(4096));
}

#[test]
fn long_sequences_need_memory_in_proportion() {
    let mut g = Graph::new();
    let n = 32_768;
    let [q, k, v] = ["q", "k", "v"].map(|name| g.input_with_gradient(name, [1, n, 1, 64]).unwrap());
    let y = g.attention(q, k, v, &Attention::causal()).unwrap().y;
    let loss = g.sum_all(y).unwrap();
    for (index, grad) in g.gradient(loss, &[q, k, v]).unwrap().into_iter().enumerate() {
        g.output(&format!("gradient.{index}"), grad).unwrap();
    }
    let mut store = regard_engine::Store::new(0);
    let program = regard_engine::Program::new(g, &[], &mut store, &cpu()).unwrap();
    let memory = program.memory();
    // Inputs and gradients are six times 8 MiB; everything else together:
    assert!(memory.arena + memory.threads < 256 << 20, "{memory:?}");
}

fn recorded(spec: impl Fn(&mut Graph, [Var; 3]) -> Result<Attended>) -> String {
    let mut g = Graph::new();
    let q = g.input("q", DType::F32, [2, 5, 4, 3]).unwrap();
    let k = g.input("k", DType::F32, [2, 7, 2, 3]).unwrap();
    let v = g.input("v", DType::F32, [2, 7, 2, 6]).unwrap();
    spec(&mut g, [q, k, v]).map(|_| "it was recorded".into()).unwrap_or_else(|error| error.to_string())
}

#[test]
fn errors_of_shapes() {
    let with = |name: &'static str, dtype: DType, dims: &'static [usize], place: fn(&mut Attention, Var)| {
        recorded(|g, [q, k, v]| {
            let mut spec = Attention::default();
            place(&mut spec, g.input(name, dtype, dims)?);
            g.attention(q, k, v, &spec)
        })
    };
    assert_eq!(
        recorded(|g, [q, _, v]| g.attention(q, v, v, &Attention::default())),
        "attention: key is [2 7 2 6], expected [B=2 S G D=3]; B, D come from query"
    );
    assert_eq!(
        recorded(|g, [q, k, _]| g.attention(q, k, q, &Attention::default())),
        "attention: value is [2 5 4 3], expected [B=2 S=7 G=2 E]; B comes from query; S, G come from key"
    );
    assert_eq!(
        with("lengths", DType::I32, &[3], |spec, var| spec.mask.key_lengths = Some(var)),
        "attention: key_lengths is [3], expected [B=2]; B comes from query"
    );
    assert_eq!(
        with("mask", DType::Bool, &[2, 5], |spec, var| spec.mask.key_mask = Some(var)),
        "attention: key_mask is [2 5], expected [B=2 S=7]; B comes from query; S comes from key"
    );
    assert_eq!(
        with("mask", DType::Bool, &[1, 3, 5, 7], |spec, var| spec.mask.explicit = Some(var)),
        "attention: explicit mask is [1 3 5 7], expected [1 H=4 T=5 S=7]; H, T come from query; S comes from key"
    );
    assert_eq!(
        with("mask", DType::I32, &[1, 1, 5, 7], |spec, var| spec.mask.explicit = Some(var)),
        "attention: explicit mask is i32, expected bool; cast it first"
    );
    assert_eq!(
        with("at", DType::I32, &[2, 7], |spec, var| spec.query_position = Some(var)),
        "attention: query_position is [2 7], expected [B=2 T=5]; B, T come from query"
    );
    assert_eq!(
        with("at", DType::F32, &[2, 7], |spec, var| spec.key_position = Some(var)),
        "attention: key_position is f32, expected i32; cast it first"
    );
    assert_eq!(
        with("row", DType::I32, &[2], |spec, var| spec.key_row = Some(var)),
        "attention: key_row is [2], expected [B=2 S=7]; B comes from query; S comes from key"
    );
    assert_eq!(
        with("beta", DType::F32, &[2], |spec, var| spec.scale = AttentionScale::Parameter(var)),
        "attention: scale is [2], expected [H=4]; H comes from query"
    );
    assert_eq!(
        with("slopes", DType::F32, &[5], |spec, slopes| spec.bias = AttentionBias::Alibi { slopes }),
        "attention: slopes is [5], expected [H=4]; H comes from query"
    );
    assert_eq!(
        with("bias", DType::BF16, &[2, 4, 5, 7], |spec, var| spec.bias = AttentionBias::Dense(var)),
        "attention: bias is bf16, expected f32; cast it first"
    );
    assert_eq!(
        with("table", DType::F32, &[6, 4], |spec, table| spec.bias = AttentionBias::Clipped { table }),
        "attention: the bias table has 6 rows; a table clipped to ±R has 2R+1, with R fixed"
    );
    let buckets = |rows: usize, bidirectional: bool, max_distance: usize| {
        recorded(|g, [q, k, v]| {
            let table = g.input("table", DType::F32, [rows, 4])?;
            let bias = AttentionBias::Buckets { table, bidirectional, max_distance };
            g.attention(q, k, v, &Attention { bias, ..Attention::default() })
        })
    };
    assert_eq!(
        buckets(7, true, 99),
        "attention: the bias table has 7 buckets; give it an even number, at least 4, both ways"
    );
    assert_eq!(buckets(1, false, 99), "attention: the bias table has 1 buckets; give it at least 2");
    assert_eq!(
        buckets(8, false, 4),
        "attention: max_distance is 4 with 4 buckets for single distances; give more than 4, up to 1048576"
    );
}

#[test]
fn errors_of_settings() {
    let with = |spec: Attention| recorded(|g, [q, k, v]| g.attention(q, k, v, &spec));
    for (dropout, message) in [(1.0, "1"), (-0.1, "-0.1"), (f32::NAN, "NaN")] {
        assert_eq!(
            with(Attention { dropout, ..Attention::default() }),
            format!("attention: dropout is {message}; give a probability from 0 to less than 1")
        );
    }
    assert_eq!(
        with(Attention { scale: AttentionScale::Constant(f32::INFINITY), ..Attention::default() }),
        "attention: scale is inf; give a finite number"
    );
    let kind = AttentionKind::Gumbel { temperature: 0.0, hard: true };
    assert_eq!(
        with(Attention { kind, ..Attention::default() }),
        "attention: the temperature is 0; give a finite number above 0"
    );
    let mut g = Graph::new();
    let q = g.input("q", DType::F32, [2, 5, 4, 3]).unwrap();
    let k = g.input("k", DType::F32, [2, 5, 3, 3]).unwrap();
    let none = g.input("none", DType::F32, [2, 5, 3, 0]).unwrap();
    let integers = g.input("integers", DType::I32, [2, 5, 4, 3]).unwrap();
    let d = g.open('D', 8).unwrap();
    let open = g.input("open", DType::F32, shape![2, 5, 4, d]).unwrap();
    let mut message =
        |q: Var, k: Var, v: Var, spec: &Attention| g.attention(q, k, v, spec).unwrap_err().to_string();
    let plain = Attention::default();
    assert_eq!(
        message(q, k, k, &plain),
        "attention: H is 4, G is 3; the heads must be a multiple of the key/value heads"
    );
    assert_eq!(
        message(q, k, none, &plain),
        "attention: E is 0; heads and widths must be fixed sizes above 0"
    );
    assert_eq!(
        message(open, open, open, &plain),
        "attention: D is D; heads and widths must be fixed sizes above 0"
    );
    assert_eq!(
        message(integers, integers, integers, &plain),
        "attention: query is i32, expected f32 or bf16; cast it to f32 first"
    );
    let wide = g.input("wide", DType::F32, [1, 1, 1025, 1]).unwrap();
    assert_eq!(
        g.attention(wide, wide, wide, &Attention { dropout: 0.5, ..plain }).unwrap_err().to_string(),
        "attention: H is 1025, S is up to 1; random attention takes up to 1024 heads and 4194304 keys"
    );
    let lse = g.input("lse", DType::I32, [2]).unwrap();
    assert_eq!(
        g.empty_rows(lse).unwrap_err().to_string(),
        "empty_rows: lse is i32, expected f32; give the log-sum-exp of an attention"
    );
}

#[test]
fn a_row_of_keys_that_is_not_there() {
    let record = |g: &mut Graph| {
        let q = g.input("q", DType::F32, [1, 1, 1, 2])?;
        let k = g.input("k", DType::F32, [2, 3, 1, 2])?;
        let key_row = Some(g.input("key_row", DType::I32, [1, 3])?);
        Ok(vec![g.attention(q, k, k, &Attention { key_row, ..Attention::default() })?.y])
    };
    let case = Case::new(record).given("key_row", &[1, 3], &[0.0, 2.0, 1.0]);
    let message =
        "key_row[0, 1] is 2, the keys have 2 rows; give rows of the key/value batch, or mask the key";
    let recorded = case.forward().unwrap();
    let feed: &Feed = &recorded.feed;
    let error = reference::run(&recorded.graph, feed, reference::Mode::Exact).err().unwrap();
    assert!(error.to_string().contains(message), "{error}");
    assert!(case.run_on(&cpu()).unwrap_err().to_string().contains(message));
}

#[test]
fn every_gradient_in_one_check() {
    // A dense bias over a window, scale and dropout together, against differences.
    let at = size([2, 4, 5, 2, 1, 3, 2]);
    let case = case(at, |g| {
        let scale = AttentionScale::Parameter(g.parameter("scale", [at.h], Init::Normal(1.0))?);
        let bias = AttentionBias::Dense(g.input_with_gradient("bias", [1, at.h, at.t, at.s])?);
        let mask = AttentionMask { window: Some(Window { before: 2, after: 2 }), ..Default::default() };
        Ok(Attention { scale, bias, mask, dropout: 0.25, ..Attention::default() })
    });
    fed(case, at).gradients().unwrap();
}
