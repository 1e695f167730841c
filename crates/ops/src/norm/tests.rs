//! The norms over the last axis: values by hand, every reader, large means, the fused residual.

use regard_engine::check::{Case, Exactness};
use regard_engine::{Cpu, Feed, reference};
use regard_graph::{Graph, shape};
use regard_ops::prelude::*;
use regard_ops::{Activation, Array, LinearOptions, Norm, NormBackward, NormKind, NormSpec, Rounding, join};

/// Twice PyTorch's own worst errors: 4.5e-7 in the gradient of layer norm, 3.0e-7 in that of RMS norm.
const LAYER: f64 = 9e-7;
const RMS: f64 = 6e-7;

fn run(g: &Graph, feed: &Feed) -> reference::Run {
    reference::run(g, feed, reference::Mode::Exact).unwrap()
}

#[test]
fn values_by_hand() {
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [2, 4]).unwrap();
    let scale = g.input("scale", DType::F32, [4]).unwrap();
    let shift = g.input("shift", DType::F32, [4]).unwrap();
    let spec = NormSpec { epsilon: 0.25, output: None };
    let layer = g.layer_norm(x, Some(scale), Some(shift), spec).unwrap();
    let plain = g.layer_norm(x, None, None, spec).unwrap();
    let rms = g.rms_norm(x, Some(scale), spec).unwrap();
    let sum = g.add_rms_norm(x, x, None, spec).unwrap();
    let feed = Feed::new()
        // Row 0: mean 2, variance 2, √(2 + 1/4) = 3/2. Row 1: mean square 2, mean 0.
        .with("x", Array::new(&[2, 4], vec![0.0, 2.0, 2.0, 4.0, 2.0, 0.0, 0.0, -2.0]).unwrap())
        .with("scale", Array::new(&[4], vec![3.0, 1.0, 2.0, -3.0]).unwrap())
        .with("shift", Array::new(&[4], vec![10.0, 20.0, 30.0, 40.0]).unwrap());
    let got = run(&g, &feed);
    let close = |got: &[f64], want: &[f64]| {
        got.len() == want.len() && got.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-12)
    };
    let third = 4.0 / 3.0;
    assert!(close(got.value(layer).data(), &[6.0, 20.0, 30.0, 36.0, 14.0, 20.0, 30.0, 44.0]));
    assert!(close(got.value(plain).data(), &[-third, 0.0, 0.0, third, third, 0.0, 0.0, -third]));
    // Row 0: mean square 6, √6.25 = 5/2. Row 1: mean square 2.
    assert!(close(got.value(rms).data(), &[0.0, 0.8, 1.6, -4.8, 4.0, 0.0, 0.0, 4.0]));
    assert!(close(got.value(sum.stream).data(), &[0.0, 4.0, 4.0, 8.0, 4.0, 0.0, 0.0, -4.0]));
    let root = 8.25f64.sqrt();
    assert!(close(&got.value(sum.normed).data()[4..], &[4.0 / root, 0.0, 0.0, -4.0 / root]));
}

#[test]
fn layer_norm_by_every_reader() {
    for dims in [&[1, 2][..], &[5, 3], &[2, 3, 17], &[7], &[1, 1, 31, 33], &[70, 5], &[3, 1201]] {
        for parameters in 0..4 {
            let width = dims[dims.len() - 1];
            let case = Case::new(move |g| {
                let x = g.input_with_gradient("x", dims)?;
                let mut parameter = |name: &str, present: bool| {
                    present.then(|| g.parameter(name, [width], Init::Ones)).transpose()
                };
                let scale = parameter("scale", parameters & 1 > 0)?;
                let shift = parameter("shift", parameters & 2 > 0)?;
                Ok(vec![g.layer_norm(x, scale, shift, NormSpec { epsilon: 0.1, output: None })?])
            });
            case.all(LAYER).unwrap();
        }
    }
}

#[test]
fn rms_norm_by_every_reader() {
    for dims in [&[1, 1][..], &[5, 3], &[2, 3, 17], &[7], &[70, 5], &[3, 1201]] {
        for scaled in [false, true] {
            let width = dims[dims.len() - 1];
            let case = Case::new(move |g| {
                let x = g.input_with_gradient("x", dims)?;
                let scale = scaled.then(|| g.parameter("scale", [width], Init::Ones)).transpose()?;
                Ok(vec![g.rms_norm(x, scale, NormSpec { epsilon: 0.1, output: None })?])
            });
            case.all(RMS).unwrap();
        }
    }
}

#[test]
fn the_residual_is_added_and_goes_on() {
    for dims in [&[4, 9][..], &[2, 37, 8]] {
        let width = dims[dims.len() - 1];
        // Which results are read: both, the normed one, the stream.
        for read in [3, 1, 2] {
            let case = Case::new(move |g| {
                let x = g.input_with_gradient("x", dims)?;
                let residual = g.input_with_gradient("residual", dims)?;
                let scale = g.parameter("scale", [width], Init::Ones)?;
                let shift = g.parameter("shift", [width], Init::Zeros)?;
                let layer = g.add_layer_norm(x, residual, Some(scale), Some(shift), NormSpec::default())?;
                let rms = g.add_rms_norm(layer.stream, residual, Some(scale), NormSpec::default())?;
                let mut results = Vec::new();
                if read & 1 > 0 {
                    results.extend([layer.normed, rms.normed]);
                }
                if read & 2 > 0 {
                    results.extend([layer.stream, rms.stream]);
                }
                Ok(results)
            });
            case.all(LAYER).unwrap();
        }
    }
}

#[test]
fn a_row_of_one_element_is_its_shift() {
    let case = Case::new(|g| {
        let x = g.input_with_gradient("x", [5, 1])?;
        let scale = g.parameter("scale", [1], Init::Ones)?;
        let shift = g.parameter("shift", [1], Init::Ones)?;
        Ok(vec![g.layer_norm(x, Some(scale), Some(shift), NormSpec::default())?])
    });
    case.all(LAYER).unwrap();
}

#[test]
fn large_means_lose_nothing() {
    // Deviations of about 1 around 10000: a variance from Σh² − (Σh)² in f32 would be noise.
    let numbers: Vec<f64> = (0..6 * 200).map(|i| 10_000.0 + ((i * 7919) % 1009) as f64 / 256.0).collect();
    let case = Case::new(|g| {
        let x = g.input_with_gradient("x", [6, 200])?;
        let scale = g.parameter("scale", [200], Init::Ones)?;
        let shift = g.parameter("shift", [200], Init::Zeros)?;
        Ok(vec![g.layer_norm(x, Some(scale), Some(shift), NormSpec::default())?])
    });
    case.given("x", &[6, 200], &numbers).cpu(LAYER).unwrap();
}

#[test]
fn open_letters_and_empty_batches() {
    for size in [5, 16, 1, 0] {
        let case = Case::new(|g| {
            let t = g.open('T', 16)?;
            let x = g.input_with_gradient("x", shape![2, t, 6])?;
            let scale = g.parameter("scale", [6], Init::Ones)?;
            let shift = g.parameter("shift", [6], Init::Ones)?;
            let y = g.layer_norm(x, Some(scale), Some(shift), NormSpec::default())?;
            Ok(vec![g.rms_norm(y, Some(scale), NormSpec::default())?])
        });
        case.size('T', size).all(LAYER).unwrap();
    }
}

#[test]
fn bf16_in_and_out() {
    // bf16 carries 8 bits: one rounding of the result is 2⁻⁹ of it.
    let case = Case::new(|g| {
        let x = g.input("x", DType::BF16, [7, 24])?;
        let stream = g.input_with_gradient("stream", [7, 24])?;
        let scale = g.parameter("scale", [24], Init::Ones)?;
        let bf16 = NormSpec { output: Some(DType::BF16), ..NormSpec::default() };
        let first = g.add_rms_norm(x, stream, Some(scale), bf16)?; // bf16 + f32 → f32, y bf16
        let second = g.add_layer_norm(first.normed, first.stream, Some(scale), None, NormSpec::default())?;
        let both = g.add_layer_norm(second.normed, first.normed, None, Some(scale), NormSpec::default())?;
        assert_eq!(g.dtype(first.stream), DType::F32);
        assert_eq!(g.dtype(second.normed), DType::BF16);
        assert_eq!(g.dtype(both.stream), DType::BF16);
        let wide = NormSpec { output: Some(DType::F32), ..NormSpec::default() };
        let last = g.layer_norm(both.normed, None, None, wide)?;
        Ok(vec![last, both.stream, second.stream])
    });
    case.cpu(6e-3).unwrap();
    case.cost().unwrap();
}

#[test]
fn a_row_has_the_same_bits_in_any_batch() {
    let bits = |rows: usize| {
        let numbers: Vec<f64> = (0..rows * 50).map(|i| ((i * 37) % 101) as f64 / 8.0).collect();
        let case = Case::new(move |g| {
            let x = g.input_with_gradient("x", [rows, 50])?;
            let scale = g.parameter("scale", [50], Init::Ones)?;
            Ok(vec![g.layer_norm(x, Some(scale), None, NormSpec::default())?])
        });
        let got = case.given("x", &[rows, 50], &numbers).run_on(&Cpu::new().unwrap()).unwrap();
        got[0].data()[..50].iter().map(|x| x.to_bits()).collect::<Vec<_>>()
    };
    assert_eq!(bits(1), bits(3));
    assert_eq!(bits(1), bits(133));
}

#[test]
fn errors() {
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [2, 3]).unwrap();
    let ids = g.input("ids", DType::I32, [2, 3]).unwrap();
    let wide = g.input("wide", DType::F32, [4]).unwrap();
    let half = g.input("half", DType::BF16, [3]).unwrap();
    let empty = g.input("empty", DType::F32, [2, 0]).unwrap();
    let single = g.input("single", DType::F32, []).unwrap();
    let spec = NormSpec::default();
    let text = |result: regard_graph::Result<Var>| result.unwrap_err().to_string();
    assert_eq!(
        text(g.layer_norm(x, Some(wide), None, spec)),
        "layer_norm: scale is [4], expected [C=3]; C comes from x"
    );
    assert_eq!(
        text(g.add_rms_norm(x, wide, None, spec).map(|n| n.normed)),
        "rms_norm: residual is [4], expected [2 C=3]; ..., C come from x"
    );
    assert_eq!(
        text(g.rms_norm(ids, None, spec)),
        "rms_norm: x is i32, expected f32 or bf16; cast it to f32 first"
    );
    assert_eq!(
        text(g.layer_norm(x, None, Some(half), spec)),
        "layer_norm: shift is bf16, expected f32; parameters and statistics are f32"
    );
    assert_eq!(text(g.layer_norm(single, None, None, spec)), "layer_norm: x is [], expected [... C]");
    assert_eq!(
        text(g.layer_norm(empty, None, None, spec)),
        "layer_norm: C is 0; a row needs at least one element to be normalised"
    );
    for epsilon in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        assert_eq!(
            text(g.layer_norm(x, None, None, NormSpec { epsilon, output: None })),
            format!("layer_norm: epsilon is {epsilon}; give a small positive number such as 1e-5")
        );
    }
    assert_eq!(
        text(g.layer_norm(x, None, None, NormSpec { output: Some(DType::I32), ..spec })),
        "layer_norm: output is i32, expected f32 or bf16; cast it to f32 first"
    );
}

#[test]
fn statistics_have_no_gradient_and_rms_has_no_shift() {
    let mut g = Graph::new();
    let x = g.input_with_gradient("x", [2, 3]).unwrap();
    let shift = g.parameter("shift", [3], Init::Zeros).unwrap();
    let mut op = Norm {
        kind: NormKind::Layer,
        spec: NormSpec::default(),
        residual: false,
        scale: false,
        shift: false,
        statistics: false,
    };
    let statistics = g.apply(op, &[x]).unwrap();
    let loss = g.sum_all(statistics[2]).unwrap();
    assert_eq!(
        g.gradient(loss, &[x]).unwrap_err().to_string(),
        "layer_norm: no derivative exists with respect to x through the saved statistics: they serve the \
         backward pass alone; use stop_gradient if none is wanted"
    );
    (op.kind, op.shift) = (NormKind::Rms, true);
    assert_eq!(
        g.apply(op, &[x, shift]).unwrap_err().to_string(),
        "rms_norm: it has a shift; leave it out, or use layer_norm"
    );
}

#[test]
fn the_backward_pass_by_every_reader() {
    for kind in [NormKind::Layer, NormKind::Rms] {
        for flags in 0..16 {
            let [scale, stream, rounded] = [1, 2, 4].map(|bit| flags & bit > 0);
            let shift = kind == NormKind::Layer && flags & 8 > 0;
            let op = NormBackward { kind, scale, shift, stream, rounded: rounded.then_some(DType::F32) };
            let case = Case::new(move |g| {
                let mut inputs = vec![g.input("dy", DType::F32, [3, 2, 5])?];
                inputs.push(g.input("h", DType::F32, [3, 2, 5])?);
                if kind == NormKind::Layer {
                    inputs.push(g.input("mean", DType::F32, [3, 2])?);
                }
                inputs.push(g.input("rstd", DType::F32, [3, 2])?);
                if scale {
                    inputs.push(g.input("scale", DType::F32, [5])?);
                }
                if stream {
                    inputs.push(g.input("stream", DType::F32, [3, 2, 5])?);
                }
                g.apply(op, &inputs)
            });
            case.cost().unwrap();
            case.reach(Exactness::Equal).unwrap();
        }
    }
}

/// x · Wᵀ + residual, normalised; joined while it is recorded, so that every reader meets what otherwise the
/// engine alone does.
fn behind_a_product(
    g: &mut Graph,
    kind: NormKind,
    rows: usize,
    [k, n]: [usize; 2],
) -> regard_graph::Result<Vec<Var>> {
    let x = g.input_with_gradient("x", [rows, k])?;
    let residual = g.input_with_gradient("residual", [rows, n])?;
    let weight = g.input_with_gradient("weight", [n, k])?;
    let scale = g.input_with_gradient("scale", [n])?;
    normed_product(g, kind, x, residual, weight, scale)
}

/// The same of values without a gradient, planned already: joined ops are not differentiated.
fn joined_with_a_product(
    g: &mut Graph,
    kind: NormKind,
    rows: usize,
    [k, n]: [usize; 2],
) -> regard_graph::Result<Vec<Var>> {
    let mut input = |name: &str, shape: &[usize]| g.input(name, DType::F32, shape);
    let (x, residual) = (input("x", &[rows, k])?, input("residual", &[rows, n])?);
    let (weight, scale) = (input("weight", &[n, k])?, input("scale", &[n])?);
    let results = normed_product(g, kind, x, residual, weight, scale)?;
    join(g, &results)?;
    Ok(results)
}

fn normed_product(
    g: &mut Graph,
    kind: NormKind,
    x: Var,
    residual: Var,
    weight: Var,
    scale: Var,
) -> regard_graph::Result<Vec<Var>> {
    let options = LinearOptions { residual: Some(residual), ..LinearOptions::default() };
    let y = g.linear(x, weight, options)?;
    let spec = NormSpec { epsilon: 0.1, output: None };
    let normed = match kind {
        NormKind::Layer => g.layer_norm(y, Some(scale), None, spec)?,
        NormKind::Rms => g.rms_norm(y, Some(scale), spec)?,
    };
    Ok(vec![y, normed])
}

#[test]
fn a_product_gathers_what_the_norm_behind_it_needs() {
    for kind in [NormKind::Layer, NormKind::Rms] {
        // One row, a few, many; one part and several.
        for (rows, sizes) in [(1, [3, 5]), (3, [4, 40]), (2, [2, 520]), (29, [3, 33]), (14, [2, 600])] {
            let case = Case::new(move |g| {
                let results = joined_with_a_product(g, kind, rows, sizes)?;
                assert_eq!(g.nodes()[0].outputs.len(), 2);
                assert_eq!(g.nodes()[1].inputs.len(), 3);
                Ok(results)
            });
            case.cpu(LAYER).unwrap();
            case.cost().unwrap();
            if rows * sizes[1] < 200 {
                case.reach(Exactness::Safe).unwrap();
                Case::new(move |g| behind_a_product(g, kind, rows, sizes)).all(LAYER).unwrap();
            }
        }
    }
}

#[test]
fn joined_or_not_a_norm_has_the_same_bits() {
    for kind in [NormKind::Layer, NormKind::Rms] {
        for (rows, sizes) in [(1, [7, 256]), (3, [20, 33]), (150, [40, 512]), (20, [7, 768]), (5, [3, 1100])]
        {
            let numbers: Vec<f64> =
                (0..rows * sizes[1]).map(|i| 30.0 + ((i * 37) % 101) as f64 / 8.0).collect();
            let both = |joined: bool| {
                let case = Case::new(move |g| {
                    let mut results = behind_a_product(g, kind, rows, sizes)?;
                    if !joined {
                        // A norm that adds something meets what nobody knows yet.
                        let zeros = g.fill(DType::F32, [rows, sizes[1]], 0.0)?;
                        let scale = g.nodes()[1].inputs[1];
                        let spec = NormSpec { epsilon: 0.1, output: None };
                        let apart = match kind {
                            NormKind::Layer => {
                                g.add_layer_norm(results[0], zeros, Some(scale), None, spec)?
                            }
                            NormKind::Rms => g.add_rms_norm(results[0], zeros, Some(scale), spec)?,
                        };
                        results[1] = apart.normed;
                    }
                    Ok(results)
                });
                let case = case.given("residual", &[rows, sizes[1]], &numbers);
                case.run_on(&Cpu::new().unwrap()).unwrap()
            };
            assert_eq!(both(true)[1].data(), both(false)[1].data(), "{kind:?} {rows} {sizes:?}");
        }
    }
}

#[test]
fn large_means_lose_nothing_behind_a_product() {
    for n in [200, 1100] {
        let numbers: Vec<f64> = (0..6 * n).map(|i| 10_000.0 + ((i * 7919) % 1009) as f64 / 256.0).collect();
        let case = Case::new(|g| behind_a_product(g, NormKind::Layer, 6, [2, n]));
        case.given("residual", &[6, n], &numbers).given("x", &[6, 2], &[0.0; 12]).cpu(LAYER).unwrap();
    }
}

#[test]
fn what_fits_not_is_left_apart() {
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [2, 3]).unwrap();
    let weight = g.parameter("weight", [4, 3], Init::Ones).unwrap();
    let spec = NormSpec::default();
    let y = g.linear(x, weight, LinearOptions::default()).unwrap();
    let mut keep =
        vec![g.layer_norm(y, None, None, spec).unwrap(), g.layer_norm(y, None, None, spec).unwrap()];
    keep.push(g.rms_norm(y, None, spec).unwrap()); // y serves the others
    let narrow = LinearOptions { output: Some(DType::BF16), ..LinearOptions::default() };
    let rounded = g.linear(x, weight, narrow).unwrap();
    keep.push(g.layer_norm(rounded, None, None, spec).unwrap()); // statistics are those before rounding
    keep.push(g.add_layer_norm(y, y, None, None, spec).unwrap().normed);
    keep.push(g.layer_norm(x, None, None, spec).unwrap());
    join(&mut g, &keep).unwrap();
    join(&mut g, &keep).unwrap();
    let operands: Vec<usize> = g.nodes().iter().map(|node| node.inputs.len()).collect();
    assert_eq!(operands, [2, 2, 2, 1, 2, 1, 2, 1]);
    assert_eq!(g.nodes()[1].inputs[1], g.nodes()[2].inputs[1], "gathered once");
}

#[test]
fn statistics_may_be_all_that_is_read() {
    for activation in [Activation::None, Activation::Silu] {
        let case = Case::new(move |g| {
            let [x, weight] = [g.input("x", DType::F32, [5, 3])?, g.input("weight", DType::F32, [40, 3])?];
            let options = LinearOptions { activation, ..LinearOptions::default() };
            let products =
                [g.linear(x, weight, options)?, g.quantised_linear(x, weight, Rounding::Outputs, options)?];
            let spec = NormSpec::default();
            let [a, b] = products;
            let keep = [g.layer_norm(a, None, None, spec)?, g.layer_norm(b, None, None, spec)?];
            join(g, &keep)?;
            // What the norms read of the products, without the norms.
            Ok(keep.iter().flat_map(|normed| made_by(g, *normed).inputs.last()).copied().collect())
        });
        case.cpu(LAYER).unwrap();
        // The rest of a mean that f32 rounds away is none in the specification.
        case.reach(Exactness::Safe).unwrap();
    }
}

fn made_by(g: &Graph, var: Var) -> &regard_graph::Node {
    g.nodes().iter().find(|node| node.outputs.contains(&var)).expect("a node made it")
}

#[test]
fn statistics_that_do_not_fit_are_refused() {
    let mut g = Graph::new();
    let x = g.input_with_gradient("x", [2, 3]).unwrap();
    let spec = NormSpec::default();
    let norm =
        Norm { kind: NormKind::Layer, spec, residual: false, scale: false, shift: false, statistics: true };
    assert_eq!(
        g.apply(norm, &[x, x]).unwrap_err().to_string(),
        "layer_norm: statistics is [2 3], expected [2 1 3]; ... comes from x"
    );
}

#[test]
fn given_statistics_reach_every_result() {
    for kind in [NormKind::Layer, NormKind::Rms] {
        for width in [1, 5] {
            let case = Case::new(move |g| {
                let x = g.input("x", DType::F32, [3, width])?;
                let statistics = g.input("statistics", DType::F32, [3, 1, 3])?;
                let spec = NormSpec::default();
                let [residual, scale, shift] = [false; 3];
                g.apply(Norm { kind, spec, residual, scale, shift, statistics: true }, &[x, statistics])
            });
            // A sum of squares has no sign.
            let given: Vec<f64> = (0..9).map(|i| 1.0 + i as f64 / 8.0).collect();
            case.given("statistics", &[3, 1, 3], &given).reach(Exactness::Safe).unwrap();
        }
    }
}
