//! The output projection with cross-entropy: against the two ops it joins, every reader, ignored rows, same
//! bits whatever the other rows, and how little scratch it takes.

use regard_device::Level;
use regard_engine::check::{Case, Exactness};
use regard_engine::{Cpu, Feed, Program, Store, reference};
use regard_graph::{Concrete, DType, Dims, Graph, Integers, Sizes, shape};
use regard_ops::prelude::*;
use regard_ops::{Array, CrossEntropyOptions, Kernels, LinearCrossEntropy, LinearOptions, Request};

fn options(label_smoothing: f32) -> CrossEntropyOptions {
    CrossEntropyOptions { label_smoothing, ..Default::default() }
}

/// Some targets, every fifth of them ignored.
fn targets(rows: usize, v: usize) -> Vec<f64> {
    (0..rows).map(|i| if i % 5 == 3 { -100.0 } else { (i * 7919 % v) as f64 }).collect()
}

fn case(x: &'static [usize], v: usize, bias: bool, smoothing: f32, precision: Precision) -> Case<'static> {
    let rows = &x[..x.len() - 1];
    let case = Case::new(move |g| {
        g.set_precision(precision);
        let c = x[x.len() - 1];
        let x = g.input_with_gradient("x", x)?;
        let weight = g.parameter("weight", [v, c], Init::Zeros)?;
        let bias = if bias { Some(g.parameter("bias", [v], Init::Zeros)?) } else { None };
        let targets = g.input("targets", DType::I32, rows)?;
        let scale = g.input("scale", DType::F32, shape![])?;
        Ok(vec![g.linear_cross_entropy(x, weight, bias, targets, scale, options(smoothing))?.loss])
    });
    case.given("targets", rows, &targets(rows.iter().product(), v.max(1))).given("scale", &[], &[0.125])
}

#[test]
fn it_is_linear_then_cross_entropy() {
    for (bias, smoothing) in [(false, 0.0), (true, 0.0), (true, 0.2)] {
        let mut g = Graph::new();
        let x = g.input_with_gradient("x", [3, 2, 5]).unwrap();
        let weight = g.parameter("weight", [7, 5], Init::Normal(1.0)).unwrap();
        let bias = bias.then(|| g.parameter("bias", [7], Init::Normal(1.0)).unwrap());
        let ids = g.input("ids", DType::I32, [3, 2]).unwrap();
        let scale = g.input("scale", DType::F32, shape![]).unwrap();
        let fused = g.linear_cross_entropy(x, weight, bias, ids, scale, options(smoothing)).unwrap();
        let logits = g.linear(x, weight, LinearOptions { bias, ..Default::default() }).unwrap();
        let rows = g.cross_entropy(logits, ids, options(smoothing)).unwrap();
        let sum = g.sum_all(rows).unwrap();
        let loss = g.mul(sum, scale).unwrap();
        let wrt: Vec<Var> = [Some(x), Some(weight), bias].into_iter().flatten().collect();
        let mut pairs = vec![(fused.loss, loss), (fused.row_losses, rows)];
        // Twice the loss, so that the factor of the chain shows.
        for factor in [1.0, 2.0] {
            let of = |g: &mut Graph, loss| if factor == 1.0 { Ok(loss) } else { g.scale(loss, factor) };
            let (a, b) = (of(&mut g, fused.loss).unwrap(), of(&mut g, loss).unwrap());
            pairs.extend(g.gradient(a, &wrt).unwrap().into_iter().zip(g.gradient(b, &wrt).unwrap()));
        }
        let numbers: Vec<f64> = (0..30).map(|i| ((i * 37 % 23) as f64 - 11.0) / 8.0).collect();
        let feed = Feed::new()
            .with("x", Array::new(&[3, 2, 5], numbers).unwrap())
            .with("ids", Array::new(&[3, 2], vec![0.0, 6.0, -100.0, 3.0, 3.0, 1.0]).unwrap())
            .with("scale", Array::scalar(0.2));
        let run = reference::run(&g, &feed, reference::Mode::Exact).unwrap();
        for (fused, plain) in pairs {
            let (fused, plain) = (run.value(fused), run.value(plain));
            assert_eq!(fused.dims(), plain.dims());
            assert!(fused.data().iter().zip(plain.data()).all(|(x, y)| (x - y).abs() < 1e-12));
        }
    }
}

#[test]
fn every_reader_agrees() {
    for (bias, smoothing) in [(false, 0.0), (true, 0.0), (true, 0.1)] {
        for (x, v) in [(&[1, 1][..], 2), (&[7, 5], 13), (&[9], 70), (&[5, 17], 129)] {
            case(x, v, bias, smoothing, Precision::F32).all(1e-6).unwrap();
        }
        // Which of several axes of rows the loss depends on is told axis by axis.
        let several = case(&[2, 3, 8], 31, bias, smoothing, Precision::F32);
        several.gradients().unwrap();
        several.cpu(1e-6).unwrap();
        several.cost().unwrap();
        several.reach(Exactness::Safe).unwrap();
    }
}

#[test]
fn several_groups_of_rows_and_parts_of_the_vocabulary() {
    // More than 512 live rows, so that two groups add up; more entries than are in one part.
    case(&[700, 3], 5, true, 0.1, Precision::F32).cpu(1e-6).unwrap();
    case(&[3, 9], 4500, true, 0.0, Precision::F32).cpu(1e-6).unwrap();
    case(&[700, 3], 5, true, 0.1, Precision::Bf16).cpu(2e-3).unwrap();
    case(&[3, 9], 4500, true, 0.0, Precision::Bf16).cpu(2e-3).unwrap();
}

#[test]
fn ignored_rows_and_no_rows() {
    for smoothing in [0.0, 0.1] {
        case(&[0, 4], 3, true, smoothing, Precision::F32).cpu(0.0).unwrap();
        case(&[2, 0, 4], 3, false, smoothing, Precision::F32).cpu(0.0).unwrap();
        case(&[3, 0], 3, true, smoothing, Precision::F32).cpu(1e-6).unwrap();
        let none = case(&[4, 3], 5, true, smoothing, Precision::F32);
        none.given("targets", &[4], &[-100.0; 4]).all(0.0).unwrap();
    }
    // Without classes, every row must be ignored.
    case(&[2, 4], 0, true, 0.0, Precision::F32).given("targets", &[2], &[-100.0; 2]).cpu(0.0).unwrap();
}

#[test]
fn open_letters() {
    let case = Case::new(|g| {
        let t = g.open('T', 40)?;
        let x = g.input_with_gradient("x", shape![2, t, 6])?;
        let weight = g.parameter("weight", [11, 6], Init::Zeros)?;
        let targets = g.input("targets", DType::I32, shape![2, t])?;
        let scale = g.input("scale", DType::F32, shape![])?;
        Ok(vec![g.linear_cross_entropy(x, weight, None, targets, scale, options(0.0))?.loss])
    });
    let case = case.size('T', 4).given("targets", &[2, 4], &[1.0; 8]).given("scale", &[], &[0.5]);
    case.all(1e-6).unwrap();
}

#[test]
fn row_losses_agree() {
    let case = Case::new(|g| {
        let x = g.input("x", DType::F32, [6, 20])?;
        let weight = g.input("weight", DType::F32, [130, 20])?;
        let targets = g.input("targets", DType::I32, [6])?;
        let scale = g.input("scale", DType::F32, shape![])?;
        let made = g.linear_cross_entropy(x, weight, None, targets, scale, options(0.0))?;
        Ok(vec![made.loss, made.row_losses])
    });
    case.given("targets", &[6], &targets(6, 130)).cpu(5e-7).unwrap();
}

/// Every output as a value of its own.
#[test]
fn every_output_has_its_readers() {
    for (bias, ids) in [(true, [4.0, -100.0, 0.0]), (false, [2.0, 2.0, -100.0]), (true, [1.0, 3.0, 3.0])] {
        let case = Case::new(move |g| {
            let x = g.input("x", DType::F32, [3, 4])?;
            let weight = g.input("weight", DType::F32, [6, 4])?;
            let targets = g.input("targets", DType::I32, [3])?;
            // Not a source of reach here: a single number cannot be told to matter to some rows only.
            let scale = g.constant(DType::F32, shape![], &[0.75])?;
            let (ignore_index, label_smoothing, precision) = (-100, 0.1, Precision::F32);
            let op = LinearCrossEntropy { bias, ignore_index, label_smoothing, precision };
            if bias {
                let bias = g.input("bias", DType::F32, [6])?;
                return g.apply(op, &[x, weight, bias, targets, scale]);
            }
            g.apply(op, &[x, weight, targets, scale])
        });
        let case = case.given("targets", &[3], &ids);
        case.cpu(1e-6).unwrap();
        case.cost().unwrap();
        case.reach(Exactness::Equal).unwrap();
    }
}

#[test]
fn what_nobody_reads_changes_nothing() {
    // The gradients alone, without the loss, and the loss alone: the same bits as together.
    let run = |names: &[&str]| {
        let mut g = Graph::new();
        let x = g.input_with_gradient("x", [3, 4]).unwrap();
        let weight = g.parameter("weight", [6, 4], Init::Normal(1.0)).unwrap();
        let ids = g.input("ids", DType::I32, [3]).unwrap();
        let scale = g.input("scale", DType::F32, shape![]).unwrap();
        let loss = g.linear_cross_entropy(x, weight, None, ids, scale, options(0.0)).unwrap().loss;
        let grads = g.gradient(loss, &[x, weight]).unwrap();
        for (name, var) in [("loss", loss), ("dx", grads[0]), ("dw", grads[1])] {
            if names.contains(&name) {
                g.output(name, var).unwrap();
            }
        }
        let mut store = Store::new(3);
        let mut program = Program::new(g, &[], &mut store, &Cpu::with(2, Level::best()).unwrap()).unwrap();
        program
            .set_f32("x", &[3, 4], &[0.5, -1.0, 2.0, 0.0, 1.0, 1.0, -2.0, 0.25, 0.0, 3.0, 1.0, -1.0])
            .unwrap();
        program.set_i32("ids", &[3], &[5, -100, 0]).unwrap();
        program.set_f32("scale", &[], &[0.5]).unwrap();
        program.run(&mut store).unwrap();
        names.iter().map(|name| program.array(name).unwrap()).collect::<Vec<_>>()
    };
    let all = run(&["loss", "dx", "dw"]);
    assert_eq!(run(&["loss"]), all[..1]);
    assert_eq!(run(&["dx"]), all[1..2]);
    assert_eq!(run(&["dw"]), all[2..]);
}

#[test]
fn a_second_run_leaves_nothing_behind() {
    let mut g = Graph::new();
    let x = g.input_with_gradient("x", [2, 3]).unwrap();
    let weight = g.parameter("weight", [4, 3], Init::Normal(1.0)).unwrap();
    let bias = g.parameter("bias", [4], Init::Zeros).unwrap();
    let ids = g.input("ids", DType::I32, [2]).unwrap();
    let scale = g.input("scale", DType::F32, shape![]).unwrap();
    let made = g.linear_cross_entropy(x, weight, Some(bias), ids, scale, options(0.0)).unwrap();
    let grads = g.gradient(made.loss, &[x, weight, bias]).unwrap();
    let outputs = [
        ("loss", made.loss),
        ("rows", made.row_losses),
        ("dx", grads[0]),
        ("dw", grads[1]),
        ("db", grads[2]),
    ];
    for (name, var) in outputs {
        g.output(name, var).unwrap();
    }
    let mut store = Store::new(3);
    let mut program = Program::new(g, &[], &mut store, &Cpu::new().unwrap()).unwrap();
    program.set_f32("x", &[2, 3], &[1.0, -1.0, 0.5, 2.0, 0.25, -0.5]).unwrap();
    program.set_f32("scale", &[], &[1.0]).unwrap();
    let mut zeros_of = |ids: [i32; 2]| {
        program.set_i32("ids", &[2], &ids).unwrap();
        program.run(&mut store).unwrap();
        outputs.map(|(name, _)| program.f32(name).unwrap().iter().map(|&x| x == 0.0).collect::<Vec<_>>())
    };
    assert!(zeros_of([1, 3]).iter().flatten().all(|is_zero| !is_zero));
    let [_, rows, dx, ..] = zeros_of([-100, 3]);
    assert_eq!((&rows[..], &dx[..]), (&[true, false][..], &[true, true, true, false, false, false][..]));
    assert!(zeros_of([-100, -100]).iter().flatten().all(|is_zero| *is_zero));
}

#[test]
fn bf16_agrees() {
    for (bias, smoothing) in [(false, 0.0), (true, 0.1)] {
        // The products are summed in f32; only the rounding of d, one step apart where it falls on an edge,
        // shows.
        case(&[13, 64], 77, bias, smoothing, Precision::Bf16).cpu(2e-3).unwrap();
        case(&[13, 64], 77, bias, smoothing, Precision::Bf16).cost().unwrap();
    }
    let half = Case::new(|g| {
        g.set_precision(Precision::Bf16);
        let x = g.input_with_gradient("x", [7, 32])?;
        let x = g.sum_to_fact(x, Fact::new([7, 32], DType::BF16))?;
        let weight = g.parameter("weight", [50, 32], Init::Zeros)?;
        let targets = g.input("targets", DType::I32, [7])?;
        let scale = g.input("scale", DType::F32, shape![])?;
        let loss = g.linear_cross_entropy(x, weight, None, targets, scale, options(0.0))?.loss;
        Ok(vec![loss])
    });
    half.given("targets", &[7], &targets(7, 50)).given("scale", &[], &[0.25]).cpu(6e-3).unwrap();
}

/// Row losses and dx of some rows out of many, some of which may be ignored.
fn rows_of(precision: Precision, rows: &[usize], ignored: &[usize], threads: usize) -> (Vec<f32>, Vec<f32>) {
    let (c, v) = (70, 301);
    let mut g = Graph::new();
    g.set_precision(precision);
    let x = g.input_with_gradient("x", [rows.len(), c]).unwrap();
    let weight = g.parameter("weight", [v, c], Init::Normal(0.3)).unwrap();
    let ids = g.input("ids", DType::I32, [rows.len()]).unwrap();
    let scale = g.input("scale", DType::F32, shape![]).unwrap();
    let made = g.linear_cross_entropy(x, weight, None, ids, scale, options(0.0)).unwrap();
    let dx = g.gradient(made.loss, &[x]).unwrap()[0];
    g.output("rows", made.row_losses).unwrap();
    g.output("dx", dx).unwrap();
    let (mut store, cpu) = (Store::new(7), Cpu::with(threads, Level::best()).unwrap());
    let mut program = Program::new(g, &[], &mut store, &cpu).unwrap();
    let number = |row: usize, i: usize| ((row * 7919 + i * 104_729) % 2003) as f32 / 1001.0 - 1.0;
    let x: Vec<f32> = rows.iter().flat_map(|&row| (0..c).map(move |i| number(row, i))).collect();
    let ids: Vec<i32> =
        rows.iter().map(|row| if ignored.contains(row) { -100 } else { (row * 31 % v) as i32 }).collect();
    program.set_f32("x", &[rows.len(), c], &x).unwrap();
    program.set_i32("ids", &[rows.len()], &ids).unwrap();
    program.set_f32("scale", &[], &[0.01]).unwrap();
    program.run(&mut store).unwrap();
    (program.f32("rows").unwrap().to_vec(), program.f32("dx").unwrap().to_vec())
}

#[test]
fn a_row_has_its_bits_whatever_the_others() {
    let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    for precision in [Precision::F32, Precision::Bf16] {
        let every: Vec<usize> = (0..700).collect();
        let (losses, dx) = rows_of(precision, &every, &[], 2);
        let ignored: Vec<usize> = (0..700).filter(|row| row % 3 == 1).collect();
        for (rows, ignored) in [(vec![5], vec![]), (vec![600, 3], vec![]), (every.clone(), ignored)] {
            let (some, some_dx) = rows_of(precision, &rows, &ignored, 3);
            for (at, &row) in rows.iter().enumerate() {
                let (mine, mine_dx) = (some[at], &some_dx[at * 70..(at + 1) * 70]);
                if ignored.contains(&row) {
                    assert!(mine == 0.0 && mine_dx.iter().all(|&x| x == 0.0));
                } else {
                    assert_eq!(mine.to_bits(), losses[row].to_bits(), "{precision:?}, row {row}");
                    assert_eq!(
                        bits(mine_dx),
                        bits(&dx[row * 70..(row + 1) * 70]),
                        "{precision:?}, row {row}"
                    );
                }
            }
        }
    }
}

#[test]
fn scratch_stays_small_for_a_large_vocabulary() {
    let op = LinearCrossEntropy {
        bias: false,
        ignore_index: -100,
        label_smoothing: 0.0,
        precision: Precision::F32,
    };
    let dims = |sizes: &[usize]| Dims::new(sizes).unwrap();
    let inputs = [dims(&[16, 1024, 768]), dims(&[50_257, 768]), dims(&[16, 1024]), dims(&[])];
    let outputs = [dims(&[]), inputs[2], inputs[0], inputs[1]];
    let call = Concrete {
        inputs: &inputs,
        outputs: &outputs,
        input_dtypes: &[DType::F32, DType::F32, DType::I32, DType::F32],
        output_dtypes: &[DType::F32; 4],
        integers: &[None; 4],
        used: &[true; 4],
    };
    let request = Request { call: &call, stored: &[false; 4], threads: 2, level: Level::best() };
    let needs = op.needs(&request);
    // All logits would be 3.3 GB; 512 rows of them are 103 MB. Nor is a packed copy of the weight asked for.
    assert!(needs.scratch < 112 << 20, "{} bytes", needs.scratch);
    assert!(needs.packs.is_empty());
}

#[test]
fn the_gradient_of_the_loss_is_not_multiplied_by_one() {
    let mut g = Graph::new();
    let x = g.input_with_gradient("x", [2, 3]).unwrap();
    let weight = g.parameter("weight", [4, 3], Init::Zeros).unwrap();
    let ids = g.input("ids", DType::I32, [2]).unwrap();
    let scale = g.input("scale", DType::F32, shape![]).unwrap();
    let loss = g.linear_cross_entropy(x, weight, None, ids, scale, options(0.0)).unwrap().loss;
    g.gradient(loss, &[x, weight]).unwrap();
    assert!(g.nodes().iter().all(|node| node.op.name() != "mul"));
}

#[test]
fn errors() {
    let mut g = Graph::new();
    let x = g.input_with_gradient("x", [2, 3]).unwrap();
    let weight = g.parameter("weight", [4, 3], Init::Zeros).unwrap();
    let wide = g.input("wide", DType::F32, [4, 5]).unwrap();
    let half = g.input("half", DType::BF16, [4, 3]).unwrap();
    let bias = g.input("bias", DType::F32, [3]).unwrap();
    let ids = g.input("ids", DType::I32, [2]).unwrap();
    let more = g.input("more", DType::I32, [5]).unwrap();
    let scale = g.input("scale", DType::F32, shape![]).unwrap();
    let trained = g.parameter("trained", shape![], Init::Ones).unwrap();
    let mut text = |[x, weight]: [Var; 2], bias: Option<Var>, ids: Var, scale: Var, smoothing: f32| {
        let made = g.linear_cross_entropy(x, weight, bias, ids, scale, options(smoothing));
        made.unwrap_err().to_string()
    };
    assert_eq!(
        text([x, wide], None, ids, scale, 0.0),
        "linear_cross_entropy: weight is [4 5], expected [V C=3]; C comes from x"
    );
    assert_eq!(
        text([x, half], None, ids, scale, 0.0),
        "linear_cross_entropy: weight is bf16, expected f32; cast it to f32 first"
    );
    assert_eq!(
        text([x, weight], Some(bias), ids, scale, 0.0),
        "linear_cross_entropy: bias is [3], expected [V=4]; V comes from weight"
    );
    assert_eq!(
        text([x, weight], None, more, scale, 0.0),
        "linear_cross_entropy: targets is [5], expected [2]; ... comes from x"
    );
    assert_eq!(
        text([x, weight], None, bias, scale, 0.0),
        "linear_cross_entropy: targets is f32, expected i32; give the ids of the right classes"
    );
    assert_eq!(text([x, weight], None, ids, bias, 0.0), "linear_cross_entropy: scale is [3], expected []");
    assert_eq!(
        text([x, weight], None, ids, scale, 2.0),
        "linear_cross_entropy: label_smoothing is 2; give a number from 0 (none) to below 1"
    );
    assert_eq!(
        text([x, weight], None, ids, trained, 0.0),
        "linear_cross_entropy: no derivative exists with respect to scale: the scale is fed, not trained; \
         use stop_gradient if none is wanted"
    );
    let made = g.linear_cross_entropy(x, weight, None, ids, scale, options(0.0)).unwrap();
    let total = g.sum_all(made.row_losses).unwrap();
    assert_eq!(
        g.gradient(total, &[x]).unwrap_err().to_string(),
        "linear_cross_entropy: a gradient arrives at the row losses or at the gradients, not at the loss alone; \
         use linear and cross_entropy to differentiate each row's loss"
    );
}

#[test]
fn a_target_outside_of_the_vocabulary_is_named() {
    let wrong = case(&[2, 3], 4, false, 0.0, Precision::F32).given("targets", &[2], &[1.0, 4.0]);
    let error = wrong.cpu(1.0).unwrap_err().to_string();
    assert!(error.contains("linear_cross_entropy: the target of row 1 is 4, but V is 4"), "{error}");
    let error = wrong.run_on(&Cpu::new().unwrap()).unwrap_err().to_string();
    assert!(error.contains("linear_cross_entropy: the target of row 1 is 4, but V is 4"), "{error}");
}

#[test]
fn a_loss_without_gradients_costs_one_product() {
    let case = Case::new(|g| {
        let x = g.input("x", DType::F32, [5, 3])?;
        let weight = g.input("weight", DType::F32, [7, 3])?;
        let targets = g.constant(DType::I32, [5], &[0.0, 6.0, -100.0, 2.0, 3.0])?;
        let scale = g.constant(DType::F32, Shape::scalar(), &[0.25])?;
        let loss =
            g.linear_cross_entropy(x, weight, None, targets, scale, CrossEntropyOptions::default())?.loss;
        g.output("loss", loss)?;
        Ok(vec![loss])
    });
    case.cost().unwrap();
    let recorded = case.forward().unwrap();
    let costs = regard_graph::cost::cost(&recorded.graph, &Sizes::none(), &Integers::none(), None).unwrap();
    assert_eq!(costs.total().macs, 4 * 7 * 3, "four rows count, and no gradient does");
}
