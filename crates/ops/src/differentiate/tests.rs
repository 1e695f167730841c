//! Gradients that meet: what takes up a sum when a program is planned, what keeps it as a node, and that no
//! bit of an f32 sum depends on it.

use regard_engine::check::{Case, Recorded};
use regard_engine::{Cpu, Feed, Program, Store, reference};
use regard_graph::{Graph, Pass, Result};
use regard_ops::prelude::*;
use regard_ops::{Array, LinearOptions, NormSpec, join};

/// Who reads x: a norm, or a product of this width.
#[derive(Clone, Copy, PartialEq)]
enum Reader {
    LayerNorm,
    RmsNorm,
    Product(usize),
}

fn read(g: &mut Graph, reader: Reader, index: usize, x: Var) -> Result<Var> {
    let width = g.shape(x).last().and_then(|width| width.fixed()).expect("a fixed width");
    match reader {
        Reader::LayerNorm => {
            let scale = Some(g.parameter(&format!("scale.{index}"), [width], Init::Normal(1.0))?);
            let shift = Some(g.parameter(&format!("shift.{index}"), [width], Init::Normal(1.0))?);
            g.layer_norm(x, scale, shift, NormSpec::default())
        }
        Reader::RmsNorm => g.rms_norm(x, None, NormSpec::default()),
        Reader::Product(wide) => {
            let weight = g.parameter(&format!("weight.{index}"), [wide, width], Init::Normal(1.0))?;
            g.linear(x, weight, LinearOptions::default())
        }
    }
}

const FOUR: [[Reader; 4]; 3] = [
    [Reader::LayerNorm, Reader::Product(5), Reader::Product(33), Reader::Product(7)],
    [Reader::Product(5), Reader::Product(9), Reader::LayerNorm, Reader::Product(40)],
    [Reader::RmsNorm, Reader::Product(9), Reader::RmsNorm, Reader::LayerNorm],
];

/// The ops of the backward pass, as it is planned.
fn backward(case: &Case<'_>) -> Vec<&'static str> {
    let Recorded { mut graph, outputs, gradients, .. } = case.backward().unwrap();
    let keep: Vec<Var> = outputs.into_iter().chain(gradients.iter().map(|(_, _, grad)| *grad)).collect();
    join(&mut graph, &keep).unwrap();
    graph.nodes().iter().filter(|node| node.pass == Pass::Backward).map(|node| node.op.name()).collect()
}

#[test]
fn products_and_norms_take_up_the_gradients_that_they_meet() {
    for readers in FOUR {
        let case = Case::new(move |g| {
            let x = g.input_with_gradient("x", [2, 3, 8])?;
            readers.into_iter().enumerate().map(|(index, reader)| read(g, reader, index, x)).collect()
        });
        assert!(!backward(&case).contains(&"add"));
        case.all(2e-6).unwrap();
    }
}

#[test]
fn a_residual_stream_needs_no_sum() {
    let case = Case::new(|g| {
        let mut x = g.input_with_gradient("x", [4, 8])?;
        for block in 0..2 {
            let normed = read(g, Reader::LayerNorm, block, x)?;
            let weight = g.parameter(&format!("weight.{block}"), [8, 8], Init::Zeros)?;
            x = g.linear(normed, weight, LinearOptions { residual: Some(x), ..Default::default() })?;
        }
        Ok(vec![x])
    });
    assert!(!backward(&case).contains(&"add"));
    case.all(2e-6).unwrap();
}

#[test]
fn in_bf16_too() {
    // x is bf16 between a norm and three products, as in attention, and f32 beside them.
    let case = Case::new(|g| {
        g.set_precision(Precision::Bf16);
        let x = g.input_with_gradient("x", [13, 24])?;
        let h = g.rms_norm(x, None, NormSpec { output: Some(DType::BF16), ..Default::default() })?;
        let mut results = Vec::new();
        for (index, wide) in [8, 33, 16].into_iter().enumerate() {
            results.push(read(g, Reader::Product(wide), index, h)?);
        }
        results.push(read(g, Reader::Product(5), 3, x)?);
        Ok(results)
    });
    assert!(!backward(&case).contains(&"add"));
    case.cpu(1e-2).unwrap();
    case.cost().unwrap();
}

#[test]
fn an_f32_sum_has_the_bits_that_it_has_as_a_node_of_its_own() {
    // Each reader with an x of its own, and all with the same one.
    let run = |readers: [Reader; 4], apart: bool| -> Vec<Array> {
        let mut g = Graph::new();
        let names: Vec<String> = (0..if apart { 4 } else { 1 }).map(|index| format!("x.{index}")).collect();
        let wrt: Vec<Var> = names.iter().map(|name| g.input_with_gradient(name, [50, 40]).unwrap()).collect();
        let mut loss = None;
        for (index, reader) in readers.into_iter().enumerate() {
            let y = read(&mut g, reader, index, wrt[index % wrt.len()]).unwrap();
            let shape = g.shape(y).clone();
            let factor = g.parameter(&format!("factor.{index}"), shape, Init::Normal(1.0)).unwrap();
            let product = g.mul(y, factor).unwrap();
            let term = g.sum_all(product).unwrap();
            loss = Some(loss.map_or(term, |loss| g.add(loss, term).unwrap()));
        }
        let grads = g.gradient(loss.unwrap(), &wrt).unwrap();
        for (name, grad) in names.iter().zip(grads) {
            g.output(&format!("d{name}"), grad).unwrap();
        }
        let mut store = Store::new(5);
        let mut program = Program::new(g, &[], &mut store, &Cpu::new().unwrap()).unwrap();
        let x: Vec<f32> = (0..2000).map(|i| (i * 7919 % 2003) as f32 / 1001.0 - 1.0).collect();
        for name in &names {
            program.set_f32(name, &[50, 40], &x).unwrap();
        }
        program.run(&mut store).unwrap();
        names.iter().map(|name| program.array(&format!("d{name}")).unwrap()).collect()
    };
    for readers in FOUR {
        // The last reader's gradient comes first.
        let mut sum = vec![0.0f32; 2000];
        for part in run(readers, true).iter().rev() {
            sum.iter_mut().zip(part.data()).for_each(|(sum, part)| *sum += *part as f32);
        }
        let together = run(readers, false);
        let bits = |x: &f32| x.to_bits();
        let got: Vec<f32> = together[0].data().iter().map(|&x| x as f32).collect();
        assert!(got.iter().map(bits).eq(sum.iter().map(bits)));
    }
}

#[test]
fn a_gradient_of_two_values_stays_as_it_is() {
    // Both summands of a norm's residual add have its gradient, and each has another one beside it.
    let case = Case::new(|g| {
        let (x, residual) = (g.input_with_gradient("x", [3, 8])?, g.input_with_gradient("residual", [3, 8])?);
        let both = g.add_layer_norm(x, residual, None, None, NormSpec::default())?;
        Ok(vec![
            both.normed,
            read(g, Reader::Product(5), 0, x)?,
            read(g, Reader::Product(6), 1, residual)?,
            both.stream,
        ])
    });
    assert_eq!(backward(&case).iter().filter(|op| **op == "add").count(), 2);
    case.all(2e-6).unwrap();
    // A gradient that was passed on belongs to more than one value.
    let case = Case::new(|g| {
        let (x, other) = (g.input_with_gradient("x", [3, 8])?, g.input_with_gradient("other", [3, 8])?);
        let sum = g.add(x, other)?;
        Ok(vec![read(g, Reader::Product(5), 0, sum)?, read(g, Reader::Product(6), 1, x)?])
    });
    assert_eq!(backward(&case).iter().filter(|op| **op == "add").count(), 1);
    case.all(2e-6).unwrap();
}

#[test]
fn a_second_gradient_passes_through_the_stream_beside_a_norm() {
    let mut g = Graph::new();
    let x = g.input_with_gradient("x", [4, 8]).unwrap();
    let w = g.input_with_gradient("w", [5, 8]).unwrap();
    let nothing = g.fill(DType::F32, [4, 8], 0.0).unwrap();
    // The norm adds the gradient that arrives at its stream to its own.
    let both = g.add_rms_norm(x, nothing, None, NormSpec::default()).unwrap();
    let y = g.linear(both.stream, w, LinearOptions::default()).unwrap();
    let square = g.mul(y, y).unwrap();
    let (a, b) = (g.sum_all(both.normed).unwrap(), g.sum_all(square).unwrap());
    let loss = g.add(a, b).unwrap();
    let dx = g.gradient(loss, &[x]).unwrap()[0];
    let made = g.nodes().iter().find(|node| node.outputs.contains(&dx)).unwrap();
    assert_eq!(made.declared.operands.last(), Some(&"stream"));
    let total = g.sum_all(dx).unwrap();
    let dw = g.gradient(total, &[w]).unwrap()[0];
    let numbers = |n: usize| (0..n).map(|i| ((i * 7) % 11) as f64 / 4.0 - 1.0).collect::<Vec<f64>>();
    let (xs, ws) = (numbers(32), numbers(40));
    let feed = Feed::new()
        .with("x", Array::new(&[4, 8], xs.clone()).unwrap())
        .with("w", Array::new(&[5, 8], ws.clone()).unwrap());
    let run = reference::run(&g, &feed, reference::Mode::Exact).unwrap();
    // Σ dx = … + 2 Σ y W, of which the gradient by W[n k] is 2 Σᵣ (y[r n] + x[r k] Σ W[n]).
    for (n, k) in (0..5).flat_map(|n| (0..8).map(move |k| (n, k))) {
        let row: f64 = ws[n * 8..][..8].iter().sum();
        let y = |r: usize| (0..8).map(|k| xs[r * 8 + k] * ws[n * 8 + k]).sum::<f64>();
        let expected: f64 = (0..4).map(|r| 2.0 * (y(r) + xs[r * 8 + k] * row)).sum();
        let got = run.value(dw).data()[n * 8 + k];
        assert!((got - expected).abs() < 1e-12, "{n} {k}: {got} {expected}");
    }
}

#[test]
fn a_pullback_is_the_gradient_of_a_sum() {
    let mut g = Graph::new();
    let x = g.input_with_gradient("x", [4, 6]).unwrap();
    let weight = g.parameter("weight", [5, 6], Init::Normal(1.0)).unwrap();
    let options = LinearOptions { activation: regard_ops::Activation::Silu, ..LinearOptions::default() };
    let y = g.linear(x, weight, options).unwrap();
    let c = g.input("c", DType::F32, [4, 5]).unwrap();
    let pulled = g.pullback(y, c, &[x, weight]).unwrap();
    let product = g.mul(y, c).unwrap();
    let loss = g.sum_all(product).unwrap();
    let summed = g.gradient(loss, &[x, weight]).unwrap();
    let numbers = |count: usize| (0..count).map(|i| ((i * 37) % 11) as f64 / 4.0 - 1.0).collect::<Vec<_>>();
    let feed = Feed::new()
        .with("x", Array::new(&[4, 6], numbers(24)).unwrap())
        .with("weight", Array::new(&[5, 6], numbers(30)).unwrap())
        .with("c", Array::new(&[4, 5], numbers(20)).unwrap());
    let run = reference::run(&g, &feed, reference::Mode::Exact).unwrap();
    for (a, b) in pulled.iter().zip(&summed) {
        assert_eq!(run.value(*a).data(), run.value(*b).data());
    }
    assert_eq!(
        g.pullback(y, x, &[x]).unwrap_err().to_string(),
        "pullback: the cotangent is f32 [4 6], expected f32 [4 5], as the value to differentiate"
    );
}
