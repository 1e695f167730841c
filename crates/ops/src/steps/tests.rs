//! The two programs of a step by hand; errors.

use regard_engine::{Cpu, Program, Store};
use regard_graph::{Graph, shape};
use regard_ops::AdamW;
use regard_ops::prelude::*;

#[test]
fn gradients_add_up_and_are_used_once() {
    // loss = Σ w·x, so the gradient of w is x.
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [2]).unwrap();
    let w = g.parameter("w", [2], Init::Constant(1.0)).unwrap();
    let product = g.mul(w, x).unwrap();
    let loss = g.sum_all(product).unwrap();
    g.accumulate_step(loss).unwrap();
    let mut h = Graph::new();
    assert_eq!(h.parameters_of(&g).unwrap(), h.parameters());
    let lr = h.input("lr", DType::F32, shape![]).unwrap();
    let step = h.input("step", DType::I32, shape![]).unwrap();
    let settings = AdamW { beta1: 0.0, beta2: 0.0, epsilon: 0.0, weight_decay: 0.0 };
    let norm = h.apply_step(&settings, f64::INFINITY, lr, step).unwrap();
    h.output("norm", norm).unwrap();

    let (cpu, mut store) = (Cpu::new().unwrap(), Store::new(0));
    let mut accumulate = Program::new(g, &[], &mut store, &cpu).unwrap();
    let mut apply = Program::new(h, &[], &mut store, &cpu).unwrap();
    for x in [[1.0, -1.0], [2.0, -3.0]] {
        accumulate.set_f32("x", &[2], &x).unwrap();
        accumulate.run(&mut store).unwrap();
    }
    assert_eq!(store.f32("gradient.w").unwrap(), [3.0, -4.0]);
    apply.set_f32("lr", &[], &[0.5]).unwrap();
    apply.set_i32("step", &[], &[1]).unwrap();
    apply.run(&mut store).unwrap();
    // Without memory, AdamW steps by the sign.
    assert_eq!(store.f32("w").unwrap(), [0.5, 1.5]);
    assert_eq!(store.f32("gradient.w").unwrap(), [0.0, 0.0]);
    assert_eq!(apply.scalar("norm").unwrap(), 5.0);
}

#[test]
fn a_step_of_nothing_is_refused() {
    let mut g = Graph::new();
    let x = g.input_with_gradient("x", shape![]).unwrap();
    let text = g.accumulate_step(x).unwrap_err().to_string();
    assert!(text.contains("accumulate_step: the graph has no parameters; record the model first"), "{text}");
    let lr = g.input("lr", DType::F32, shape![]).unwrap();
    let step = g.input("step", DType::I32, shape![]).unwrap();
    let text = g.apply_step(&AdamW::default(), 1.0, lr, step).unwrap_err().to_string();
    assert!(text.contains("apply_step: the graph has no parameters; declare them first"), "{text}");
}
