//! The two programs of a step by hand; errors.

use regard_engine::{Cpu, Program, Store};
use regard_graph::{Graph, Var, shape};
use regard_ops::prelude::*;
use regard_ops::{AdamW, Optimizer, Sgd, StepGroup};

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
    let text = g.accumulate_some(x, &[x]).unwrap_err().to_string();
    assert!(text.contains("it was given a value that is no parameter; give parameters"), "{text}");
    let lr = g.input("lr", DType::F32, shape![]).unwrap();
    let step = g.input("step", DType::I32, shape![]).unwrap();
    let text = g.apply_step(&AdamW::default(), 1.0, lr, step).unwrap_err().to_string();
    assert!(text.contains("apply_step: the graph has no parameters; declare them first"), "{text}");
}

/// loss = Σ a·x + b·x + c·x, so that every gradient is x.
fn three(g: &mut Graph) -> (Vec<Var>, Var) {
    let x = g.input("x", DType::F32, [2]).unwrap();
    let all = ["a", "b", "c"].map(|name| g.parameter(name, [2], Init::Constant(1.0)).unwrap());
    let products = all.map(|p| g.mul(p, x).unwrap());
    let sum = products.into_iter().reduce(|a, b| g.add(a, b).unwrap()).unwrap();
    (all.to_vec(), g.sum_all(sum).unwrap())
}

fn groups(all: &[Var]) -> [StepGroup; 2] {
    let plain = AdamW { beta1: 0.0, beta2: 0.0, epsilon: 0.0, weight_decay: 0.0 };
    let sgd = Sgd { momentum: 0.5, ..Sgd::default() };
    [
        StepGroup { parameters: vec![all[0]], optimizer: Optimizer::AdamW(plain), rate: 1.0 },
        StepGroup { parameters: vec![all[1]], optimizer: Optimizer::Sgd(sgd), rate: 0.5 },
    ]
}

fn rate_and_step(g: &mut Graph) -> (Var, Var) {
    let lr = g.input("lr", DType::F32, shape![]).unwrap();
    (lr, g.input("step", DType::I32, shape![]).unwrap())
}

#[test]
fn groups_differ_and_what_is_in_none_is_frozen() {
    for fused in [true, false] {
        let (cpu, mut store) = (Cpu::new().unwrap(), Store::new(0));
        let mut g = Graph::new();
        let (all, loss) = three(&mut g);
        let mut programs = Vec::new();
        if fused {
            let (lr, step) = rate_and_step(&mut g);
            let norm = g.step_groups(loss, &groups(&all), f64::INFINITY, lr, step).unwrap();
            g.output("norm", norm).unwrap();
        } else {
            g.accumulate_some(loss, &all[..2]).unwrap();
            let mut h = Graph::new();
            let all = h.parameters_of(&g).unwrap();
            let (lr, step) = rate_and_step(&mut h);
            let norm = h.apply_groups(&groups(&all), f64::INFINITY, lr, step).unwrap();
            h.output("norm", norm).unwrap();
            programs.push(Program::new(h, &[], &mut store, &cpu).unwrap());
        }
        programs.insert(0, Program::new(g, &[], &mut store, &cpu).unwrap());
        let mut run = |x: [f32; 2], store: &mut Store| {
            programs[0].set_f32("x", &[2], &x).unwrap();
            let last = programs.last_mut().unwrap();
            last.set_f32("lr", &[], &[0.5]).unwrap();
            last.set_i32("step", &[], &[1]).unwrap();
            programs.iter_mut().for_each(|program| program.run(store).unwrap());
            programs.last().unwrap().scalar("norm").unwrap()
        };
        assert_eq!(run([3.0, -4.0], &mut store), 50.0_f32.sqrt());
        assert_eq!(store.f32("a").unwrap(), [0.5, 1.5], "AdamW without memory steps by the sign");
        assert_eq!(store.f32("b").unwrap(), [0.25, 2.0], "half the rate: 1 − 0.25·x");
        assert_eq!(store.f32("c").unwrap(), [1.0, 1.0], "frozen");
        assert!(!store.names().any(|name| name.ends_with(".c")), "nothing is kept for what is frozen");
        assert_eq!(store.f32("sgd.momentum.b").unwrap(), [3.0, -4.0]);
        // A gradient that is not finite changes nothing, and is not there the next time.
        for x in [[f32::INFINITY, 1.0], [f32::NAN, 1.0]] {
            assert!(!run(x, &mut store).is_finite());
            assert_eq!(store.f32("a").unwrap(), [0.5, 1.5]);
            assert_eq!(store.f32("b").unwrap(), [0.25, 2.0]);
            assert_eq!(store.f32("sgd.momentum.b").unwrap(), [3.0, -4.0]);
            assert_eq!(store.f32("adamw.m.a").unwrap(), [3.0, -4.0]);
        }
        assert_eq!(run([1.0, 1.0], &mut store), 2.0);
        assert_eq!(store.f32("a").unwrap(), [0.0, 1.0]);
    }
}

#[test]
fn groups_of_nothing_and_rates_of_nothing_are_refused() {
    let mut g = Graph::new();
    let (all, loss) = three(&mut g);
    let (lr, step) = rate_and_step(&mut g);
    let text = g.step_groups(loss, &[], 1.0, lr, step).unwrap_err().to_string();
    assert!(text.contains("step_groups: no group has a parameter; leave one that is not frozen"), "{text}");
    let text = g.apply_groups(&[], 1.0, lr, step).unwrap_err().to_string();
    assert!(text.contains("apply_groups: no group has a parameter"), "{text}");
    let mut zero = groups(&all);
    zero[1].rate = 0.0;
    let text = g.apply_groups(&zero, 1.0, lr, step).unwrap_err().to_string();
    assert!(text.contains("a group's learning rate is multiplied by 0; give a number above 0"), "{text}");
    let none = [StepGroup { parameters: vec![loss], ..zero[0].clone() }];
    let text = g.apply_groups(&none, 1.0, lr, step).unwrap_err().to_string();
    assert!(text.contains("it was given a value that is no parameter; give parameters"), "{text}");
}
