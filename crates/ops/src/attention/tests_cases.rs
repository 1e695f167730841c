//! Every mask with every bias over odd shapes: gradients, CPU against the specification, cost and reach.

use regard_engine::check::{Case, Exactness};
use regard_graph::{Graph, Result, shape};
use regard_ops::prelude::*;
use regard_ops::{
    Attention, AttentionBias, AttentionKind, AttentionMask, AttentionScale, Window, random_numbers,
};

/// About twice PyTorch's own error in f32.
const BOUND: f64 = 1.6e-6;
/// Twice PyTorch's own error in f32 for the gradients of β, slopes and tables over these shapes: sums in
/// which the gradients of each row's scores cancel. `attention_learned` of
/// `crates/conformance/goldens/torch_error.json`.
const SUMS_BOUND: f64 = 2.0 * 4.88e-6;

/// Twice PyTorch's own error in bf16, forward and for gradients: `attention` of the same table.
const BF16_BOUND: f64 = 2.0 * 3.89e-3;
const BF16_GRADIENTS_BOUND: f64 = 2.0 * 1.22e-2;

/// B T S H G D E.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub b: usize,
    pub t: usize,
    pub s: usize,
    pub h: usize,
    pub g: usize,
    pub d: usize,
    pub e: usize,
}

pub const fn size([b, t, s, h, g, d, e]: [usize; 7]) -> Size {
    Size { b, t, s, h, g, d, e }
}

const SIZES: [Size; 5] = [
    size([2, 5, 7, 4, 2, 3, 5]),
    size([1, 1, 13, 3, 3, 7, 1]),
    size([3, 17, 2, 2, 1, 1, 2]),
    size([1, 3, 1, 1, 1, 5, 3]),
    size([2, 7, 5, 6, 3, 2, 4]),
];

/// query, key and value with gradients, attended as `spec` says; y is checked.
pub fn case<'a>(at: Size, spec: impl Fn(&mut Graph) -> Result<Attention> + 'a) -> Case<'a> {
    record(at, spec, false)
}

/// The same for y and lse. Differences of an lse of −∞ say nothing, so that `gradients` wants no empty rows.
pub fn case_with_lse<'a>(at: Size, spec: impl Fn(&mut Graph) -> Result<Attention> + 'a) -> Case<'a> {
    record(at, spec, true)
}

fn record<'a>(at: Size, spec: impl Fn(&mut Graph) -> Result<Attention> + 'a, lse: bool) -> Case<'a> {
    Case::new(move |g| {
        let q = g.input_with_gradient("q", [at.b, at.t, at.h, at.d])?;
        let k = g.input_with_gradient("k", [at.b, at.s, at.g, at.d])?;
        let v = g.input_with_gradient("v", [at.b, at.s, at.g, at.e])?;
        let spec = spec(g)?;
        let found = g.attention(q, k, v, &spec)?;
        Ok(if lse { vec![found.y, found.lse] } else { vec![found.y] })
    })
}

/// Numbers that look random and are not: the same on every machine.
pub fn scramble(count: usize, below: usize) -> Vec<f64> {
    (0..count).map(|i| ((i * 2_654_435_761 + 12_345) / 7 % below) as f64).collect()
}

pub fn bits(count: usize, of_ten: usize) -> Vec<f64> {
    scramble(count, 10).into_iter().map(|x| f64::from(x < of_ten as f64)).collect()
}

#[derive(Clone, Copy, Debug)]
enum Masked {
    No,
    Causal,
    Window,
    CausalWindow,
    Lengths,
    Bits,
    Explicit,
    ExplicitShared,
    All,
}

const MASKS: [Masked; 9] = [
    Masked::No,
    Masked::Causal,
    Masked::Window,
    Masked::CausalWindow,
    Masked::Lengths,
    Masked::Bits,
    Masked::Explicit,
    Masked::ExplicitShared,
    Masked::All,
];

fn mask(g: &mut Graph, at: Size, masked: Masked) -> Result<AttentionMask> {
    let mut mask = AttentionMask::default();
    let window = Some(Window { before: 2, after: 1 });
    match masked {
        Masked::No => {}
        Masked::Causal => mask.causal = true,
        Masked::Window => mask.window = window,
        Masked::CausalWindow => {
            (mask.causal, mask.window) = (true, Some(Window { before: 1, after: usize::MAX }))
        }
        Masked::Lengths => mask.key_lengths = Some(g.input("lengths", DType::I32, [at.b])?),
        Masked::Bits => mask.key_mask = Some(g.input("key_mask", DType::Bool, [at.b, at.s])?),
        Masked::Explicit => {
            mask.explicit = Some(g.input("explicit", DType::Bool, [at.b, at.h, at.t, at.s])?)
        }
        Masked::ExplicitShared => mask.explicit = Some(g.input("shared", DType::Bool, [1, 1, at.t, at.s])?),
        Masked::All => {
            mask.window = Some(Window { before: 3, after: 4 });
            mask.key_lengths = Some(g.input("lengths", DType::I32, [at.b])?);
            mask.key_mask = Some(g.input("key_mask", DType::Bool, [at.b, at.s])?);
            mask.explicit = Some(g.input("per_head", DType::Bool, [1, at.h, at.t, at.s])?);
        }
    }
    Ok(mask)
}

#[derive(Clone, Copy, Debug)]
enum Biased {
    No,
    Buckets,
    BucketsBack,
    Alibi,
    Clipped,
    Dense,
    DenseShared,
}

const BIASES: [Biased; 7] = [
    Biased::No,
    Biased::Buckets,
    Biased::BucketsBack,
    Biased::Alibi,
    Biased::Clipped,
    Biased::Dense,
    Biased::DenseShared,
];

fn bias(g: &mut Graph, at: Size, biased: Biased, trained: bool) -> Result<AttentionBias> {
    let mut table = |rows: &[usize]| match trained {
        true => g.parameter("table", rows, Init::Normal(1.0)),
        false => g.input("table", DType::F32, rows),
    };
    Ok(match biased {
        Biased::No => AttentionBias::None,
        Biased::Buckets => {
            AttentionBias::Buckets { table: table(&[8, at.h])?, bidirectional: true, max_distance: 6 }
        }
        Biased::BucketsBack => {
            AttentionBias::Buckets { table: table(&[6, at.h])?, bidirectional: false, max_distance: 9 }
        }
        Biased::Alibi => AttentionBias::Alibi { slopes: table(&[at.h])? },
        Biased::Clipped => AttentionBias::Clipped { table: table(&[5, at.h])? },
        Biased::Dense => AttentionBias::Dense(g.input_with_gradient("bias", [at.b, at.h, at.t, at.s])?),
        Biased::DenseShared => AttentionBias::Dense(g.input_with_gradient("bias", [1, 1, at.t, at.s])?),
    })
}

/// Feeds every integer and boolean that a case may ask for.
pub fn fed<'a>(case: Case<'a>, at: Size) -> Case<'a> {
    let pairs = at.t * at.s;
    case.given("lengths", &[at.b], &scramble(at.b, at.s + 2))
        .given("key_mask", &[at.b, at.s], &bits(at.b * at.s, 6))
        .given("explicit", &[at.b, at.h, at.t, at.s], &bits(at.b * at.h * pairs, 5))
        .given("per_head", &[1, at.h, at.t, at.s], &bits(at.h * pairs, 7))
        .given("shared", &[1, 1, at.t, at.s], &bits(pairs, 4))
        .given("random", &[5], &random_numbers(7, 3, 11).map(f64::from))
        .draws(6)
}

/// All checks. Where all keys of a row share a row of the table, a change of it shifts all scores alike and
/// is felt in y by the rounding of the specification alone: there reach may say *can* where nothing changed.
fn checked(case: Case<'_>, biased: Biased) -> regard_engine::Result<()> {
    let tabled = matches!(biased, Biased::Buckets | Biased::BucketsBack | Biased::Clipped | Biased::Alibi);
    case.gradients()?;
    case.cpu(SUMS_BOUND)?;
    case.cost()?;
    case.reach(if tabled { Exactness::Safe } else { Exactness::Equal })
}

#[test]
fn every_mask_with_every_bias() {
    for (index, at) in SIZES.into_iter().enumerate() {
        for masked in MASKS {
            for (number, biased) in BIASES.into_iter().enumerate() {
                // Each pair of mask and bias meets two of the shapes; each shape meets all masks and biases.
                if (index + number) % 5 > 1 {
                    continue;
                }
                let spec = |trained: bool| {
                    move |g: &mut Graph| {
                        let (mask, bias) = (mask(g, at, masked)?, bias(g, at, biased, trained)?);
                        Ok(Attention { mask, bias, ..Attention::default() })
                    }
                };
                let with_lse = fed(case_with_lse(at, spec(false)), at);
                let trained = checked(fed(case(at, spec(true)), at), biased);
                let result = trained.and_then(|_| with_lse.cpu(BOUND));
                assert!(result.is_ok(), "{at:?} {masked:?} {biased:?}: {}", result.unwrap_err());
            }
        }
    }
}

#[test]
fn a_scale_for_each_head() {
    for at in SIZES {
        for masked in [Masked::No, Masked::Causal, Masked::All] {
            let case = case(at, |g| {
                let scale = AttentionScale::Parameter(g.parameter("scale", [at.h], Init::Normal(1.0))?);
                Ok(Attention { scale, mask: mask(g, at, masked)?, ..Attention::default() })
            });
            fed(case, at).all(SUMS_BOUND).unwrap();
        }
        let constant = AttentionScale::Constant(-0.7);
        case_with_lse(at, |_| Ok(Attention { scale: constant, ..Attention::causal() })).all(BOUND).unwrap();
    }
}

/// All checks of a capped attention. A score at its cap feels no change: reach may say *can* where nothing
/// changed.
fn capped(case: Case<'_>) -> regard_engine::Result<()> {
    case.gradients()?;
    case.cpu(SUMS_BOUND)?;
    case.cost()?;
    case.reach(Exactness::Safe)
}

#[test]
fn a_soft_cap() {
    for (index, at) in SIZES.into_iter().enumerate() {
        for masked in [Masked::Causal, Masked::All] {
            let cap = Some([0.3, 2.0][index % 2]);
            let learned = case(at, |g| {
                let scale = AttentionScale::Parameter(g.parameter("scale", [at.h], Init::Normal(1.0))?);
                Ok(Attention { cap, scale, mask: mask(g, at, masked)?, ..Attention::default() })
            });
            capped(fed(learned, at)).unwrap();
            let biased = [Biased::Buckets, Biased::Alibi, Biased::Dense][index % 3];
            let with_bias = case(at, move |g| {
                let (mask, bias) = (mask(g, at, masked)?, bias(g, at, biased, true)?);
                Ok(Attention { cap, mask, bias, ..Attention::default() })
            });
            capped(fed(with_bias, at)).unwrap();
            for kind in
                [AttentionKind::StraightThrough, AttentionKind::Gumbel { temperature: 0.7, hard: false }]
            {
                let spec = move |g: &mut Graph| {
                    Ok(Attention { cap, kind, mask: mask(g, at, masked)?, ..Attention::default() })
                };
                fed(case(at, spec), at).cpu(SUMS_BOUND).unwrap();
            }
        }
        let spec = Attention { cap: Some(0.7), dropout: 0.4, ..Attention::causal() };
        fed(case_with_lse(at, move |_| Ok(spec.clone())), at).cpu(BOUND).unwrap();
    }
    // Many tiles, and scores that reach their cap.
    let at = size([1, 150, 300, 2, 1, 40, 33]);
    let strong = AttentionScale::Constant(3.0);
    let spec = Attention { cap: Some(1.5), scale: strong, ..Attention::causal() };
    case_with_lse(at, move |_| Ok(spec.clone())).cpu(SUMS_BOUND).unwrap();
}

#[test]
fn a_soft_cap_keeps_scores_within() {
    // One query, two keys, scores far apart: capped at 1, they are at most 2 apart, and the weights e^±1.
    let mut g = Graph::new();
    let q = g.constant(DType::F32, [1, 1, 1, 1], &[100.0]).unwrap();
    let k = g.constant(DType::F32, [1, 2, 1, 1], &[1.0, -1.0]).unwrap();
    let v = g.constant(DType::F32, [1, 2, 1, 1], &[1.0, 0.0]).unwrap();
    let y = g.attention(q, k, v, &Attention { cap: Some(1.0), ..Attention::default() }).unwrap().y;
    let run =
        regard_engine::reference::run(&g, &regard_engine::Feed::new(), regard_engine::reference::Mode::Exact);
    let got = run.unwrap().value(y).data()[0];
    let wanted = 1.0 / (1.0 + (-2f64).exp());
    assert!((got - wanted).abs() < 1e-12, "{got}, not {wanted}");
    for cap in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        assert_eq!(
            g.attention(q, k, v, &Attention { cap: Some(cap), ..Attention::default() })
                .unwrap_err()
                .to_string(),
            format!("attention: the soft cap is {cap}; give a finite number above 0")
        );
    }
}

#[test]
fn positions() {
    // Left padding, a ring cache, and positions that run backwards; negative positions are positions, too.
    let at = size([3, 4, 6, 2, 1, 3, 2]);
    let keys = [-2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 6.0, 7.0, 8.0, 3.0, 4.0, 5.0, 5.0, 4.0, 3.0, 2.0, 1.0, 0.0];
    let queries = [0.0, 1.0, 2.0, 3.0, 5.0, 6.0, 7.0, 8.0, 3.0, 0.0, 5.0, 2.0];
    for masked in MASKS {
        for biased in BIASES {
            let positioned = |trained: bool| {
                let case = case(at, move |g| {
                    Ok(Attention {
                        mask: mask(g, at, masked)?,
                        bias: bias(g, at, biased, trained)?,
                        query_position: Some(g.input("query_position", DType::I32, [at.b, at.t])?),
                        key_position: Some(g.input("key_position", DType::I32, [at.b, at.s])?),
                        ..Attention::default()
                    })
                });
                fed(case, at).given("query_position", &[at.b, at.t], &queries).given(
                    "key_position",
                    &[at.b, at.s],
                    &keys,
                )
            };
            let result = checked(positioned(true), biased).and_then(|_| positioned(false).cpu(BOUND));
            assert!(result.is_ok(), "{masked:?} {biased:?}: {}", result.unwrap_err());
        }
    }
}

#[test]
fn rows_of_keys_are_picked() {
    // Three beams over a cache of two rows; the third key of beam 1 is masked, and its row nonsense.
    let record = |g: &mut Graph| {
        let q = g.input_with_gradient("q", [3, 2, 4, 3])?;
        let k = g.input_with_gradient("k", [2, 4, 2, 3])?;
        let v = g.input_with_gradient("v", [2, 4, 2, 5])?;
        let mask =
            AttentionMask { key_mask: Some(g.input("key_mask", DType::Bool, [3, 4])?), ..Default::default() };
        let key_row = Some(g.input("key_row", DType::I32, [3, 4])?);
        Ok(vec![g.attention(q, k, v, &Attention { mask, key_row, ..Attention::default() })?.y])
    };
    let case = Case::new(record)
        .given("key_mask", &[3, 4], &[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0])
        .given("key_row", &[3, 4], &[0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 77.0, 0.0, 1.0, 1.0, 1.0, 1.0]);
    case.gradients().unwrap();
    case.cpu(BOUND).unwrap();
    case.cost().unwrap();
    // Rows and keys are related axis by axis, which cannot say that a key comes from one row only.
    case.reach(Exactness::Safe).unwrap();
}

#[test]
fn dropout() {
    // With a single key, exact gradients are 0, which a relative error says nothing about.
    for at in SIZES.into_iter().filter(|at| at.s > 1) {
        for kind in [AttentionKind::Soft, AttentionKind::Hard] {
            let case = case(at, |g| {
                Ok(Attention { dropout: 0.3, kind, mask: mask(g, at, Masked::Bits)?, ..Attention::default() })
            });
            let case = fed(case, at);
            case.gradients().unwrap();
            case.cpu(BOUND).unwrap();
            case.cost().unwrap();
            case.reach(Exactness::Safe).unwrap();
        }
    }
}

#[test]
fn dropout_of_keys_that_begin_anywhere() {
    // Draws come in blocks of four; the first key of a tile may be any of a block, as after left padding.
    let at = size([1, 5, 70, 2, 1, 8, 8]);
    for first in [-3, 0, 1, 2, 7] {
        let case = case(at, |g| {
            let key_position = Some(g.input("key_position", DType::I32, [at.b, at.s])?);
            Ok(Attention { dropout: 0.4, key_position, ..Attention::default() })
        });
        let positions: Vec<f64> = (0..at.s).map(|key| (first + key as i32) as f64).collect();
        let result = fed(case, at).given("key_position", &[at.b, at.s], &positions).cpu(BOUND);
        assert!(result.is_ok(), "from {first}: {}", result.unwrap_err());
    }
}

#[test]
fn several_tiles() {
    // More keys and queries than tiles of either hold, with the ends of tiles in odd places.
    let sizes = [
        size([2, 131, 259, 2, 1, 8, 16]),
        size([1, 200, 200, 4, 4, 32, 32]),
        size([1, 65, 129, 3, 1, 33, 70]),
    ];
    for at in sizes {
        for (masked, biased) in [
            (Masked::No, Biased::No),
            (Masked::Causal, Biased::Buckets),
            (Masked::Window, Biased::Alibi),
            (Masked::Lengths, Biased::Clipped),
            (Masked::All, Biased::Dense),
            (Masked::Explicit, Biased::DenseShared),
        ] {
            let spec = |g: &mut Graph, trained: bool| {
                let (mask, bias) = (mask(g, at, masked)?, bias(g, at, biased, trained)?);
                let scale = match trained {
                    true => AttentionScale::Parameter(g.parameter("scale", [at.h], Init::Normal(1.0))?),
                    false => AttentionScale::Default,
                };
                Ok(Attention { scale, mask, bias, dropout: 0.1, ..Attention::default() })
            };
            let (trained, given) = (case(at, |g| spec(g, true)), case(at, |g| spec(g, false)));
            let (trained, given) = (fed(trained, at), fed(given, at));
            let result =
                given.cpu(2.0 * BOUND).and_then(|_| trained.cpu(SUMS_BOUND)).and_then(|_| trained.cost());
            assert!(result.is_ok(), "{at:?} {masked:?} {biased:?}: {}", result.unwrap_err());
        }
    }
}

#[test]
fn open_letters() {
    let record = |g: &mut Graph| {
        let (b, t, s) = (g.open('B', 3)?, g.open('T', 16)?, g.open('S', 9)?);
        let q = g.input_with_gradient("q", shape![b, t, 4, 3])?;
        let k = g.input_with_gradient("k", shape![b, s, 2, 3])?;
        let v = g.input_with_gradient("v", shape![b, s, 2, 2])?;
        let mask = AttentionMask {
            causal: true,
            key_lengths: Some(g.input("lengths", DType::I32, shape![b])?),
            ..Default::default()
        };
        let found = g.attention(q, k, v, &Attention { mask, ..Attention::default() })?;
        Ok(vec![found.y])
    };
    for (b, t, s) in [(2, 5, 7), (3, 16, 9), (1, 1, 1)] {
        let case = Case::new(record).size('B', b).size('T', t).size('S', s);
        case.given("lengths", &[b], &scramble(b, s + 1)).all(BOUND).unwrap();
    }
    for (b, t, s) in [(0, 5, 7), (2, 0, 7), (2, 5, 0)] {
        let case =
            Case::new(record).size('B', b).size('T', t).size('S', s).given("lengths", &[b], &vec![0.0; b]);
        case.cpu(BOUND).unwrap();
        case.cost().unwrap();
    }
}

#[test]
fn bf16_precision_and_values() {
    let at = size([2, 37, 70, 4, 2, 16, 24]);
    let record = |gradients: bool, lse: bool| {
        move |g: &mut Graph| {
            g.set_precision(Precision::Bf16);
            let mut input = |name: &str, dims: [usize; 4]| match gradients {
                true => g.input_with_gradient(name, dims),
                false => g.input(name, DType::F32, dims),
            };
            let q = input("q", [at.b, at.t, at.h, at.d])?;
            let k = input("k", [at.b, at.s, at.g, at.d])?;
            let v = input("v", [at.b, at.s, at.g, at.e])?;
            let found = g.attention(q, k, v, &Attention::causal())?;
            Ok(vec![if lse { found.lse } else { found.y }])
        }
    };
    // Operands are rounded alike in both engines, and before the log-sum-exp nothing else is: its bound is
    // that of f32.
    Case::new(record(false, true)).cpu(BOUND).unwrap();
    // The weights are rounded where they meet the values, and score gradients where they meet queries and
    // keys.
    Case::new(record(false, false)).cpu(BF16_BOUND).unwrap();
    Case::new(record(true, false)).cpu(BF16_GRADIENTS_BOUND).unwrap();
    Case::new(record(true, true)).cpu(BF16_GRADIENTS_BOUND).unwrap();
    // Values kept in bf16, forward; then with gradients that are kept in bf16, too.
    let record = |g: &mut Graph| {
        g.set_precision(Precision::Bf16);
        let q = g.input("q", DType::BF16, [at.b, at.t, at.h, at.d])?;
        let k = g.input("k", DType::BF16, [at.b, at.s, at.g, at.d])?;
        let v = g.input("v", DType::BF16, [at.b, at.s, at.g, at.e])?;
        let found = g.attention(q, k, v, &Attention::causal())?;
        Ok(vec![found.y, found.lse])
    };
    Case::new(record).cpu(BF16_BOUND).unwrap();
    let record = |g: &mut Graph| {
        g.set_precision(Precision::Bf16);
        let q = g.input_with_gradient("q", [at.b, at.t, at.h, at.d])?;
        let k = g.input_with_gradient("k", [at.b, at.s, at.g, at.d])?;
        let v = g.input_with_gradient("v", [at.b, at.s, at.g, at.e])?;
        let [q, k, v] = [g.cast(q, DType::BF16)?, g.cast(k, DType::BF16)?, g.cast(v, DType::BF16)?];
        let y = g.attention(q, k, v, &Attention::causal())?.y;
        Ok(vec![g.cast(y, DType::F32)?])
    };
    Case::new(record).cpu(BF16_GRADIENTS_BOUND).unwrap();
}
