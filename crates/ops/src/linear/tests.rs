//! The product with a weight: values, every reader, same bits for one row and many, error texts.

use regard_engine::check::{Case, Exactness, Recorded};
use regard_engine::{Cpu, Feed, Program, Store, reference};
use regard_graph::{Concrete, Dims, Graph, Work, shape};
use regard_ops::prelude::*;
use regard_ops::{
    Activation, Array, Kernels, Linear, LinearActivationBackward, LinearOptions, WeightGradient,
    WeightLayout, join,
};

/// Activations, each with twice PyTorch's own largest error.
const ACTIVATIONS: [(Activation, f64); 5] = [
    (Activation::None, 7e-7),
    (Activation::Relu, 7e-7),
    (Activation::Gelu, 5.7e-6),
    (Activation::GeluTanh, 1e-5),
    (Activation::Silu, 4.6e-6),
];

/// Everything at once, the weight a parameter.
fn full(x: &'static [usize], n: usize, activation: Activation, layout: WeightLayout) -> Case<'static> {
    Case::new(move |g| {
        let k = x[x.len() - 1];
        let rows = [&x[..x.len() - 1], &[n]].concat();
        let x = g.input_with_gradient("x", x)?;
        let sizes = if layout == WeightLayout::OutIn { [n, k] } else { [k, n] };
        let weight = g.parameter("weight", sizes, Init::Zeros)?;
        let bias = Some(g.parameter("bias", [n], Init::Zeros)?);
        let residual = Some(g.input_with_gradient("residual", &rows[..])?);
        Ok(vec![g.linear(x, weight, LinearOptions { bias, activation, residual, layout, output: None })?])
    })
}

#[test]
fn values() {
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [2, 3]).unwrap();
    let w = g.input("w", DType::F32, [2, 3]).unwrap();
    let turned = g.input("turned", DType::F32, [3, 2]).unwrap();
    let bias = Some(g.input("bias", DType::F32, [2]).unwrap());
    let residual = Some(g.input("residual", DType::F32, [2, 2]).unwrap());
    let plain = g.linear(x, w, LinearOptions::default()).unwrap();
    let layout = WeightLayout::InOut;
    let same = g.linear(x, turned, LinearOptions { layout, ..Default::default() }).unwrap();
    let activation = Activation::Relu;
    let all = g.linear(x, w, LinearOptions { bias, activation, residual, ..Default::default() }).unwrap();
    let silu = g.linear(x, w, LinearOptions { activation: Activation::Silu, ..Default::default() }).unwrap();
    let gelu = g.linear(x, w, LinearOptions { activation: Activation::Gelu, ..Default::default() }).unwrap();
    let feed = Feed::new()
        .with("x", Array::new(&[2, 3], vec![1.0, 2.0, 3.0, -1.0, 0.5, 0.0]).unwrap())
        .with("w", Array::new(&[2, 3], vec![1.0, 0.0, -1.0, 2.0, 1.0, 0.5]).unwrap())
        .with("turned", Array::new(&[3, 2], vec![1.0, 2.0, 0.0, 1.0, -1.0, 0.5]).unwrap())
        .with("bias", Array::new(&[2], vec![0.5, -1.0]).unwrap())
        .with("residual", Array::new(&[2, 2], vec![10.0, 20.0, 30.0, 40.0]).unwrap());
    let run = reference::run(&g, &feed, reference::Mode::Exact).unwrap();
    assert_eq!(run.value(plain).data(), [-2.0, 5.5, -1.0, -1.5]);
    assert_eq!(run.value(same).data(), [-2.0, 5.5, -1.0, -1.5]);
    assert_eq!(run.value(all).data(), [10.0, 24.5, 30.0, 40.0]);
    // −1 · sigmoid(−1) and −1 · Φ(−1), from tables.
    assert!((run.value(silu).data()[2] + 0.268_941_421_369_995).abs() < 1e-14);
    assert!((run.value(gelu).data()[2] + 0.158_655_253_931_457).abs() < 1e-14);
}

#[test]
fn every_reader_agrees() {
    let shapes: [(&'static [usize], usize); 6] =
        [(&[1, 1], 1), (&[3, 5], 7), (&[2, 3, 13], 31), (&[17], 33), (&[5, 64], 3), (&[13, 8], 32)];
    for (x, n) in shapes {
        for (activation, bound) in ACTIVATIONS {
            for layout in [WeightLayout::OutIn, WeightLayout::InOut] {
                let case = full(x, n, activation, layout);
                if activation == Activation::None {
                    case.all(bound).unwrap();
                    continue;
                }
                // Far below zero an activation may stay closed, however often something behind it is moved.
                case.gradients().unwrap();
                case.cpu(bound).unwrap();
                case.cost().unwrap();
                case.reach(Exactness::Safe).unwrap();
            }
        }
    }
}

#[test]
fn an_open_activation_is_reached() {
    for (activation, bound) in ACTIVATIONS {
        let weight: Vec<f64> = (0..15).map(|i| if i % 2 == 0 { 0.5 } else { -0.75 }).collect();
        let case = full(&[2, 3], 5, activation, WeightLayout::OutIn).given("weight", &[5, 3], &weight);
        let case = case.given("x", &[2, 3], &[1.0, -0.75, 0.5, -1.0, 1.25, 0.75]);
        case.draws(60).all(bound).unwrap();
    }
}

#[test]
fn long_sums_and_many_rows() {
    full(&[70, 513], 65, Activation::GeluTanh, WeightLayout::OutIn).cpu(1e-5).unwrap();
    full(&[2, 110, 40], 300, Activation::Silu, WeightLayout::InOut).cpu(4.6e-6).unwrap();
    // More rows than are packed at a time for the gradient of the weight.
    full(&[4500, 3], 5, Activation::None, WeightLayout::OutIn).cpu(1e-6).unwrap();
    full(&[4500, 3], 131, Activation::None, WeightLayout::OutIn).cpu(1e-6).unwrap();
}

#[test]
fn no_rows_no_columns_no_sum() {
    full(&[0, 5], 3, Activation::Gelu, WeightLayout::OutIn).cpu(0.0).unwrap();
    full(&[2, 0, 5], 3, Activation::None, WeightLayout::InOut).cpu(0.0).unwrap();
    full(&[4, 0], 3, Activation::Relu, WeightLayout::OutIn).cpu(5e-7).unwrap();
    full(&[4, 3], 0, Activation::Relu, WeightLayout::OutIn).cpu(0.0).unwrap();
}

#[test]
fn a_gradient_over_no_rows_is_zero() {
    let mut g = Graph::new();
    let t = g.open('T', 4).unwrap();
    let x = g.input("x", DType::F32, shape![t, 3]).unwrap();
    let weight = g.parameter("weight", [2, 3], Init::Normal(1.0)).unwrap();
    let y = g.linear(x, weight, LinearOptions::default()).unwrap();
    let total = g.sum_all(y).unwrap();
    let dw = g.gradient(total, &[weight]).unwrap()[0];
    g.output("dw", dw).unwrap();
    let mut store = Store::new(3);
    let mut program = Program::new(g, &[], &mut store, &Cpu::new().unwrap()).unwrap();
    program.set_f32("x", &[1, 3], &[1.0, 2.0, 3.0]).unwrap();
    program.run(&mut store).unwrap();
    assert_eq!(program.f32("dw").unwrap(), [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
    program.set_f32("x", &[0, 3], &[]).unwrap();
    program.run(&mut store).unwrap();
    assert_eq!(program.f32("dw").unwrap(), [0.0; 6]);
}

#[test]
fn a_computed_weight_is_packed_on_the_way() {
    let case = |precision: Precision, dtype: DType| {
        Case::new(move |g| {
            g.set_precision(precision);
            let x = g.input_with_gradient("x", [6, 9])?;
            let weight = g.input_with_gradient("weight", [11, 9])?;
            let weight = g.sum_to_fact(weight, Fact::new([11, 9], dtype))?;
            let weight = g.scale(weight, 0.5)?;
            Ok(vec![g.linear(x, weight, LinearOptions::default())?])
        })
    };
    case(Precision::F32, DType::F32).all(6e-7).unwrap();
    case(Precision::F32, DType::BF16).cpu(6e-3).unwrap();
    case(Precision::Bf16, DType::F32).cpu(6e-3).unwrap();
    case(Precision::Bf16, DType::BF16).cpu(6e-3).unwrap();
}

#[test]
fn open_letters() {
    let case = Case::new(|g| {
        let t = g.open('T', 16)?;
        let x = g.input_with_gradient("x", shape![2, t, 6])?;
        let weight = g.parameter("weight", [5, 6], Init::Zeros)?;
        let residual = Some(g.input_with_gradient("residual", shape![2, t, 5])?);
        let activation = Activation::Gelu;
        Ok(vec![g.linear(x, weight, LinearOptions { activation, residual, ..Default::default() })?])
    });
    case.size('T', 5).all(6e-7).unwrap();
}

#[test]
fn bf16_agrees() {
    for (activation, _) in ACTIVATIONS {
        for (rows, k, n) in [(1, 7, 5), (13, 64, 33), (5, 384, 17)] {
            let case = Case::new(move |g| {
                g.set_precision(Precision::Bf16);
                let x = g.input_with_gradient("x", [rows, k])?;
                let weight = g.parameter("weight", [n, k], Init::Zeros)?;
                let bias = Some(g.parameter("bias", [n], Init::Zeros)?);
                let hidden = g.linear(x, weight, LinearOptions { bias, activation, ..Default::default() })?;
                assert_eq!(g.dtype(hidden), DType::BF16);
                let back = g.parameter("back", [k, n], Init::Zeros)?;
                let out =
                    g.linear(hidden, back, LinearOptions { residual: Some(x), ..Default::default() })?;
                assert_eq!(g.dtype(out), DType::F32);
                Ok(vec![hidden, out])
            });
            case.cpu(1e-2).unwrap();
            case.cost().unwrap();
        }
    }
    // Where no bf16 value lies between two products, a bf16 product is as exact as its f32 sum.
    let case = Case::new(|g| {
        g.set_precision(Precision::Bf16);
        let x = g.input_with_gradient("x", [7, 96])?;
        let weight = g.parameter("weight", [40, 96], Init::Zeros)?;
        Ok(vec![g.linear(x, weight, LinearOptions { output: Some(DType::F32), ..Default::default() })?])
    });
    case.cpu(6e-7).unwrap();
}

/// Outputs and the gradient of x for some rows, out of a thousand.
fn rows_of(precision: Precision, rows: &[usize]) -> Vec<Array> {
    let (k, n) = (530, 45);
    let mut g = Graph::new();
    g.set_precision(precision);
    let x = g.input_with_gradient("x", [rows.len(), k]).unwrap();
    let weight = g.parameter("weight", [n, k], Init::Normal(1.0)).unwrap();
    let bias = Some(g.parameter("bias", [n], Init::Normal(1.0)).unwrap());
    let activation = Activation::GeluTanh;
    let y = g.linear(x, weight, LinearOptions { bias, activation, ..Default::default() }).unwrap();
    let total = g.sum_all(y).unwrap();
    let dx = g.gradient(total, &[x]).unwrap()[0];
    g.output("y", y).unwrap();
    g.output("dx", dx).unwrap();
    let (mut store, cpu) = (Store::new(7), Cpu::with(2, regard_device::Level::best()).unwrap());
    let mut program = Program::new(g, &[], &mut store, &cpu).unwrap();
    let number = |row: usize, i: usize| ((row * 7919 + i * 104_729) % 2003) as f32 / 1001.0 - 1.0;
    let x: Vec<f32> = rows.iter().flat_map(|&row| (0..k).map(move |i| number(row, i))).collect();
    program.set_f32("x", &[rows.len(), k], &x).unwrap();
    program.run(&mut store).unwrap();
    vec![program.array("y").unwrap(), program.array("dx").unwrap()]
}

#[test]
fn one_row_has_the_bits_that_it_has_among_a_thousand() {
    for precision in [Precision::F32, Precision::Bf16] {
        let all = rows_of(precision, &(0..1000).collect::<Vec<_>>());
        for rows in [vec![0], vec![517], vec![999], (3..16).collect(), (400..497).collect()] {
            let some = rows_of(precision, &rows);
            for (all, some) in all.iter().zip(&some) {
                for (at, &row) in rows.iter().enumerate() {
                    let bits = |row: &[f64]| row.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                    assert_eq!(bits(all.row(row)), bits(some.row(at)), "{precision:?}, row {row}");
                }
            }
        }
    }
}

#[test]
fn the_gradient_needs_only_what_comes_before_the_activation() {
    // When nobody reads y, its product still gives z; the gradient has the same bits.
    let run = |names: &[&str]| {
        let mut g = Graph::new();
        let x = g.input_with_gradient("x", [2, 3]).unwrap();
        let weight = g.parameter("weight", [5, 3], Init::Normal(1.0)).unwrap();
        let (bias, residual) = (Some(g.parameter("bias", [5], Init::Normal(1.0)).unwrap()), None);
        let activation = Activation::Silu;
        let options = LinearOptions { bias, activation, residual, ..Default::default() };
        let y = g.linear(x, weight, options).unwrap();
        let total = g.sum_all(y).unwrap();
        let dx = g.gradient(total, &[x]).unwrap()[0];
        for (name, var) in [("y", y), ("dx", dx)] {
            if names.contains(&name) {
                g.output(name, var).unwrap();
            }
        }
        let mut store = Store::new(3);
        let mut program = Program::new(g, &[], &mut store, &Cpu::new().unwrap()).unwrap();
        program.set_f32("x", &[2, 3], &[0.5, -1.0, 2.0, 0.0, 1.0, 1.5]).unwrap();
        program.run(&mut store).unwrap();
        names.iter().map(|name| program.array(name).unwrap()).collect::<Vec<_>>()
    };
    let both = run(&["y", "dx"]);
    assert_eq!(run(&["dx"]), both[1..]);
    assert_eq!(run(&["y"]), both[..1]);
}

#[test]
fn the_activations_backward_has_its_readers() {
    for (activation, bound) in ACTIVATIONS {
        let case = Case::new(move |g| {
            let z = g.input("z", DType::F32, [3, 5])?;
            let dy = g.input("dy", DType::F32, [3, 5])?;
            Ok(vec![g.apply_one(LinearActivationBackward { activation }, &[z, dy])?])
        });
        case.cpu(bound.min(7e-7)).unwrap();
        case.cost().unwrap();
        case.reach(Exactness::Safe).unwrap();
    }
}

/// Two layers, as in an MLP, with the activation between them.
fn two_layers(
    precision: Precision,
    activation: Activation,
    [rows, k, hidden, n]: [usize; 4],
) -> Case<'static> {
    Case::new(move |g| {
        g.set_precision(precision);
        let x = g.input_with_gradient("x", [rows, k])?;
        let up = g.parameter("up", [hidden, k], Init::Zeros)?;
        let bias = Some(g.parameter("bias", [hidden], Init::Zeros)?);
        let down = g.parameter("down", [n, hidden], Init::Zeros)?;
        let h = g.linear(x, up, LinearOptions { bias, activation, ..Default::default() })?;
        Ok(vec![g.linear(h, down, LinearOptions { output: Some(DType::F32), ..Default::default() })?])
    })
}

/// A case with its gradients, as it is planned.
fn planned(case: &Case<'_>) -> Graph {
    let Recorded { mut graph, outputs, gradients, .. } = case.backward().unwrap();
    let keep: Vec<Var> = outputs.into_iter().chain(gradients.iter().map(|(_, _, grad)| *grad)).collect();
    join(&mut graph, &keep).unwrap();
    graph
}

/// How many products of the backward pass multiply by a derivative, and how many passes of their own do.
fn derivatives(g: &Graph) -> (usize, usize) {
    let count =
        |which: &dyn Fn(&regard_graph::Node) -> bool| g.nodes().iter().filter(|node| which(node)).count();
    let product = count(&|node| node.op.name() == "linear" && node.declared.operands.contains(&"z"));
    (product, count(&|node| node.op.name() == "linear_activation_backward"))
}

#[test]
fn the_product_before_it_takes_the_derivative_of_an_activation() {
    for (activation, bound) in &ACTIVATIONS[1..] {
        for sizes in [[1, 3, 5, 2], [5, 8, 33, 7], [40, 6, 100, 13]] {
            let case = two_layers(Precision::F32, *activation, sizes);
            assert_eq!(derivatives(&planned(&case)), (1, 0));
            case.gradients().unwrap();
            case.cpu(*bound).unwrap();
            case.cost().unwrap();
            if sizes[0] < 40 {
                case.reach(Exactness::Safe).unwrap();
            }
            let case = two_layers(Precision::Bf16, *activation, sizes);
            assert_eq!(derivatives(&planned(&case)), (1, 0));
            case.cpu(1e-2).unwrap();
            case.cost().unwrap();
        }
    }
}

#[test]
fn an_f32_derivative_has_the_bits_that_it_has_as_a_pass_of_its_own() {
    // Asking for the gradient of h keeps the pass apart, and changes no bit of the others.
    let run = |asked: bool| {
        let mut g = Graph::new();
        let x = g.input_with_gradient("x", [30, 40]).unwrap();
        let up = g.parameter("up", [100, 40], Init::Normal(0.2)).unwrap();
        let down = g.parameter("down", [40, 100], Init::Normal(0.2)).unwrap();
        let activation = Activation::Gelu;
        let h = g.linear(x, up, LinearOptions { activation, ..Default::default() }).unwrap();
        let y = g.linear(h, down, LinearOptions { residual: Some(x), ..Default::default() }).unwrap();
        let square = g.mul(y, y).unwrap();
        let loss = g.sum_all(square).unwrap();
        let wrt = if asked { vec![x, up, down, h] } else { vec![x, up, down] };
        let grads = g.gradient(loss, &wrt).unwrap();
        assert_eq!(derivatives(&g), (0, 1), "recorded plainly");
        for (index, grad) in grads.iter().enumerate() {
            g.output(&format!("grad.{index}"), *grad).unwrap();
        }
        let mut store = Store::new(3);
        let mut program = Program::new(g, &[], &mut store, &Cpu::new().unwrap()).unwrap();
        assert_eq!(derivatives(program.graph()), if asked { (0, 1) } else { (1, 0) });
        let x: Vec<f32> = (0..1200).map(|i| (i * 7919 % 2003) as f32 / 1001.0 - 1.0).collect();
        program.set_f32("x", &[30, 40], &x).unwrap();
        program.run(&mut store).unwrap();
        (0..3).map(|index| program.array(&format!("grad.{index}")).unwrap()).collect::<Vec<_>>()
    };
    for (together, apart) in run(false).iter().zip(&run(true)) {
        let bits = |array: &Array| array.data().iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(together), bits(apart));
    }
}

#[test]
fn a_gradient_that_others_have_is_not_multiplied_on_the_way() {
    // Two readers of h, a residual beside the activation, a value that is computed again.
    type Layers = fn(&mut Graph, Var, [Var; 2], LinearOptions) -> regard_graph::Result<Vec<Var>>;
    let layers = |record: Layers| {
        Case::new(move |g| {
            let x = g.input_with_gradient("x", [4, 6])?;
            let weights =
                [g.parameter("up", [6, 6], Init::Zeros)?, g.parameter("down", [6, 6], Init::Zeros)?];
            record(g, x, weights, LinearOptions { activation: Activation::Silu, ..Default::default() })
        })
    };
    let two_readers = layers(|g, x, [up, down], options| {
        let h = g.linear(x, up, options)?;
        Ok(vec![g.linear(h, down, LinearOptions::default())?, g.linear(h, up, LinearOptions::default())?])
    });
    let residual = layers(|g, x, [up, down], options| {
        let h = g.linear(x, up, LinearOptions { residual: Some(x), ..options })?;
        Ok(vec![g.linear(h, down, LinearOptions::default())?])
    });
    let again = layers(|g, x, [up, down], options| {
        let h = g.recompute(|g| g.linear(x, up, options))?;
        Ok(vec![g.linear(h, down, LinearOptions::default())?])
    });
    for case in [two_readers, residual, again] {
        assert_eq!(derivatives(&planned(&case)), (0, 1));
        case.all(4.6e-6).unwrap();
    }
}

#[test]
fn second_derivatives_of_an_activation_are_refused() {
    let mut g = Graph::new();
    let x = g.input_with_gradient("x", [4, 6]).unwrap();
    let weight = g.parameter("weight", [6, 6], Init::Zeros).unwrap();
    let h =
        g.linear(x, weight, LinearOptions { activation: Activation::Silu, ..Default::default() }).unwrap();
    let y = g.linear(h, weight, LinearOptions::default()).unwrap();
    let loss = g.sum_all(y).unwrap();
    let dx = g.gradient(loss, &[x]).unwrap()[0];
    let twice = g.sum_all(dx).unwrap();
    assert_eq!(
        g.gradient(twice, &[weight]).unwrap_err().to_string(),
        "linear_activation_backward: no derivative exists with respect to z: second derivatives of the activations of \
         a product are not written; use stop_gradient if none is wanted"
    );
}

#[test]
fn second_derivatives_of_a_plain_product() {
    // The loss is the gradient of another: products and weight gradients are differentiated in turn.
    let case = |parts: &'static [usize]| {
        Case::new(move |g| {
            let x = g.input_with_gradient("x", [4, 3])?;
            let weight = g.parameter("weight", [5, 3], Init::Zeros)?;
            let op = WeightGradient { output: DType::F32, precision: Precision::F32, sums: true };
            let y = g.linear(x, weight, LinearOptions::default())?;
            let mut found = g.apply(op, &[y, x])?;
            let turned = Linear::plain(WeightLayout::InOut, DType::F32, Precision::F32);
            found.push(g.apply_one(turned, &[y, weight])?);
            Ok(parts.iter().map(|&part| found[part]).collect())
        })
    };
    case(&[0, 1, 2]).all(1e-6).unwrap();
    // The sums alone are differentiated, too.
    case(&[1]).all(1e-6).unwrap();
}

#[test]
fn only_what_is_read_of_a_weight_gradient_is_executed() {
    let op = WeightGradient { output: DType::F32, precision: Precision::F32, sums: true };
    let dims = |sizes: &[usize]| Dims::new(sizes).unwrap();
    let executed = |used: [bool; 2]| {
        let call = Concrete {
            inputs: &[dims(&[10, 3]), dims(&[10, 32])],
            outputs: &[dims(&[3, 32]), dims(&[3])],
            input_dtypes: &[DType::F32; 2],
            output_dtypes: &[DType::F32; 2],
            integers: &[None; 2],
            used: &used,
        };
        let Work { macs, flops, read, .. } = op.cpu_work(&call);
        (macs, flops, read)
    };
    assert_eq!(executed([true, true]), (960, 30, 1400));
    assert_eq!(executed([true, false]), (960, 0, 1400));
    assert_eq!(executed([false, true]), (0, 30, 120));
}

#[test]
fn errors() {
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [2, 3]).unwrap();
    let w = g.input("w", DType::F32, [4, 5]).unwrap();
    let good = g.input("good", DType::F32, [4, 3]).unwrap();
    let i = g.input("i", DType::I32, [4, 3]).unwrap();
    let half = g.input("half", DType::BF16, [4]).unwrap();
    let b = g.input("b", DType::F32, [5]).unwrap();
    let mut text = |x: Var, w: Var, options: LinearOptions| g.linear(x, w, options).unwrap_err().to_string();
    let none = LinearOptions::default();
    assert_eq!(text(x, w, none), "linear: weight is [4 5], expected [N K=3]; K comes from x");
    assert_eq!(
        text(x, good, LinearOptions { layout: WeightLayout::InOut, ..none }),
        "linear: weight is [4 3], expected [K=3 N]; K comes from x"
    );
    assert_eq!(text(x, i, none), "linear: weight is i32, expected f32 or bf16; cast it to f32 first");
    assert_eq!(text(i, w, none), "linear: x is i32, expected f32 or bf16; cast it to f32 first");
    assert_eq!(
        text(x, good, LinearOptions { bias: Some(b), ..none }),
        "linear: bias is [5], expected [N=4]; N comes from weight"
    );
    assert_eq!(
        text(x, good, LinearOptions { bias: Some(half), ..none }),
        "linear: bias is bf16, expected f32; cast it to f32 first"
    );
    assert_eq!(
        text(x, good, LinearOptions { residual: Some(x), ..none }),
        "linear: residual is [2 3], expected [2 N=4]; ... comes from x; N comes from weight"
    );
    assert_eq!(
        text(x, good, LinearOptions { output: Some(DType::I32), ..none }),
        "linear: the result is i32, expected f32 or bf16; cast it to f32 first"
    );
    let left = g.input("left", DType::F32, [3, 2]).unwrap();
    let op = WeightGradient { output: DType::F32, precision: Precision::F32, sums: false };
    assert_eq!(
        g.apply_one(op, &[x, left]).unwrap_err().to_string(),
        "weight_gradient: right is [3 2], expected [2 K]; ... comes from left"
    );
}
