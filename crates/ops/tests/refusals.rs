//! Refusals that belong to no single recording method: derivatives that are not written, updates that are not
//! differentiated, ops recorded by hand with operands that their recording method would never give them.

use regard_engine::{Cpu, Program, Store};
use regard_graph::{Error, Result};
use regard_ops::prelude::*;
use regard_ops::{
    Activation, AdamW, Attention, AttentionBias, Cast, CrossEntropyOptions, Gate, GatedBackward,
    LinearOptions, ReduceMaxBackward, Sgd, check_dtype,
};

fn text<T>(result: std::result::Result<T, impl std::fmt::Display>) -> String {
    match result {
        Ok(_) => panic!("an error was expected"),
        Err(error) => error.to_string(),
    }
}

/// The derivative of a derivative of what `record` makes of the parameter w.
fn twice(shape: &[usize], record: impl Fn(&mut Graph, Var) -> Result<Var>) -> Error {
    let mut g = Graph::new();
    let w = g.parameter("w", shape, Init::Ones).unwrap();
    let y = record(&mut g, w).unwrap();
    let y = g.mul(y, y).unwrap();
    let loss = g.sum_all(y).unwrap();
    let grad = g.gradient(loss, &[w]).unwrap()[0];
    // The first derivative may be used like any value; only a derivative of it is refused.
    let again = g.mul(grad, grad).and_then(|square| g.sum_all(square)).unwrap();
    g.gradient(again, &[w]).unwrap_err()
}

#[test]
fn second_derivatives_are_refused_by_name() {
    type Record = Box<dyn Fn(&mut Graph, Var) -> Result<Var>>;
    let cases: Vec<(&str, &[usize], Record)> = vec![
        (
            "second derivatives of functions of one number are not written",
            &[2, 4],
            Box::new(|g, w| g.gelu(w)),
        ),
        ("second derivatives of softmax are not written", &[2, 4], Box::new(|g, w| g.softmax(w))),
        ("second derivatives of maxima are not written", &[2, 4], Box::new(|g, w| g.max(w, &[1]))),
        (
            "second derivatives of gated units are not written",
            &[2, 4],
            Box::new(|g, w| g.gated(Gate::Silu, w, w)),
        ),
        (
            "second derivatives of the norms are not written",
            &[2, 4],
            Box::new(|g, w| g.layer_norm(w, None, None, NormSpec::default())),
        ),
        (
            "second derivatives of batch_norm are not written",
            &[2, 4],
            Box::new(|g, w| {
                let mean = g.state("mean", DType::F32, [4], Init::Zeros)?;
                let variance = g.state("variance", DType::F32, [4], Init::Ones)?;
                Ok(g.batch_norm(w, [mean, variance], None, None, BatchNormSpec::default())?.normed)
            }),
        ),
        (
            "second derivatives of the activations of a product are not written",
            &[4, 4],
            Box::new(|g, w| {
                let x = g.input("x", DType::F32, [2, 4])?;
                g.linear(x, w, LinearOptions { activation: Activation::Gelu, ..Default::default() })
            }),
        ),
        (
            "the second derivative of the cross-entropy is not written",
            &[2, 4],
            Box::new(|g, w| {
                let targets = g.input("targets", DType::I32, [2])?;
                g.cross_entropy(w, targets, CrossEntropyOptions::default())
            }),
        ),
        (
            "the backward of attention has no derivative of its own",
            &[1, 2, 1, 4],
            Box::new(|g, w| Ok(g.attention(w, w, w, &Attention::causal())?.y)),
        ),
        (
            "second derivatives of add_position are not written",
            &[2, 4],
            Box::new(|g, w| {
                let x = g.input("x", DType::F32, [1, 2, 4])?;
                g.add_position(x, w, None)
            }),
        ),
    ];
    for (reason, shape, record) in cases {
        let Error::NoGradient { op, reason: message, .. } = twice(shape, record) else { panic!("{reason}") };
        assert_eq!(message, reason, "{op}");
        assert!(op.contains("backward"), "{op} does not name the op of the backward pass");
    }
}

#[test]
fn an_update_is_not_differentiated() {
    let mut g = Graph::new();
    let w = g.parameter("w", [2], Init::Ones).unwrap();
    let (rate, step) = (g.input("rate", DType::F32, []).unwrap(), g.input("step", DType::I32, []).unwrap());
    let loss = g.sum_all(w).unwrap();
    let grad = g.gradient(loss, &[w]).unwrap()[0];
    let new = g.adamw_step(&[(w, grad)], &AdamW::default(), rate, step, None).unwrap()[0];
    let new = g.sgd_step(&[(new, grad)], &Sgd::default(), rate, None).unwrap()[0];
    let loss = g.sum_all(new).unwrap();
    assert_eq!(
        text(g.gradient(loss, &[new])),
        "gradient: variable 0, output 0 of `sgd`, carries no gradient; check for a stop_gradient, an integer op, an \
         update or a graph recorded for inference"
    );
}

#[test]
fn ops_recorded_by_hand() {
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [2, 4]).unwrap();
    let half = g.cast(x, DType::BF16).unwrap();
    assert_eq!(
        text(g.apply(Cast { from: DType::F32, to: DType::BF16 }, &[half])),
        "cast: x is bf16, expected f32; record it with `g.cast`"
    );
    assert_eq!(
        text(g.apply(GatedBackward { gate: Gate::Silu }, &[x, x, half])),
        "gated_backward: dy is bf16 [2 4], expected f32 [2 4]; it comes from a and b"
    );
    let dy = g.input("dy", DType::F32, [2, 1]).unwrap();
    let index = g.input("index", DType::I32, [2, 1]).unwrap();
    let op = || ReduceMaxBackward { fact: Fact::f32([2, 4]) };
    assert_eq!(
        text(g.apply(op(), &[dy, dy])),
        "max_backward: index is f32, expected i32; give the index that `max` found"
    );
    let (short, few) = (g.input("short", DType::F32, [4]).unwrap(), g.input("few", DType::I32, [4]).unwrap());
    assert_eq!(
        text(g.apply(op(), &[short, few])),
        "max_backward: dy is [4], expected [2 4] with the reduced axes at size 1; it comes from x"
    );
    let y = g.apply_one(op(), &[dy, index]).unwrap();
    g.output("y", y).unwrap();
    let mut store = Store::new(0);
    let mut program = Program::new(g, &[], &mut store, &Cpu::new().unwrap()).unwrap();
    for (name, dims) in [("x", vec![2, 4]), ("dy", vec![2, 1]), ("short", vec![4])] {
        program.set_f32(name, &dims, &vec![1.0; dims.iter().product()]).unwrap();
    }
    program.set_i32("few", &[4], &[0; 4]).unwrap();
    program.set_i32("index", &[2, 1], &[3, 4]).unwrap();
    assert_eq!(
        text(program.run(&mut store)),
        "max_backward: max_backward: index 1 is 4, the maximum was over 4 elements; give the index that `max` found"
    );
}

#[test]
fn dtypes_are_asked_for_with_advice() {
    let asked = |expected| text(check_dtype("op", "x", DType::F32, expected));
    assert_eq!(asked(DType::BF16), "op: x is f32, expected bf16; cast it to bf16 first");
    assert_eq!(asked(DType::I32), "op: x is f32, expected i32; ids, positions and lengths are i32");
    assert_eq!(asked(DType::Bool), "op: x is f32, expected bool; masks are bool");
    let got = text(check_dtype("op", "x", DType::I32, DType::F32));
    assert_eq!(got, "op: x is i32, expected f32; parameters and statistics are f32");
}

#[test]
fn what_a_recording_method_looks_at_is_of_its_graph() {
    let mut other = Graph::new();
    let foreign = (0..9).map(|i| other.input(&format!("x{i}"), DType::F32, [2]).unwrap()).last().unwrap();
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [2]).unwrap();
    let message = |op: &str, operand: usize| {
        format!("{op}: operand {operand} belongs to another graph; record it in this one")
    };
    assert_eq!(text(g.broadcast_to(x, foreign)), message("broadcast_to", 1));
    assert_eq!(text(g.sum_to(x, foreign)), message("sum_to", 1));
    assert_eq!(text(g.sum_all(foreign)), message("sum_to", 0));
    assert_eq!(text(g.sum(foreign, &[0])), message("sum", 0));
    assert_eq!(text(g.mean_keep(foreign, &[0])), message("mean", 0));
    assert_eq!(text(g.sum_squares(foreign, &[0])), message("sum_squares", 0));
    assert_eq!(text(g.cast(foreign, DType::BF16)), message("cast", 0));
    assert_eq!(text(g.reshape(foreign, [2, 1])), message("reshape", 0));
    assert_eq!(text(g.split_heads(foreign, 1)), message("split_heads", 0));
    assert_eq!(text(g.merge_heads(foreign)), message("merge_heads", 0));
    assert_eq!(text(g.assign_number(foreign, 1.0)), message("assign", 0));
    assert_eq!(text(g.dropout(foreign, 0.0)), message("dropout", 0));
    assert_eq!(text(g.rotary(foreign, None, RotarySpec::default())), message("rotary", 0));
}

#[test]
fn sizes_and_settings() {
    let mut g = Graph::new();
    let wide = g.input("wide", DType::F32, [1, 1, 1, 1 << 21]).unwrap();
    assert_eq!(
        text(g.rotary(wide, None, RotarySpec::default())),
        "rotary: the width that turns is 2097152; turn at most 1048576 channels of a head"
    );
    let r = g.open('R', 8).unwrap();
    let table = g.input("table", DType::F32, shape![r, 2]).unwrap();
    let q = g.input("q", DType::F32, [1, 3, 2, 4]).unwrap();
    let bias = AttentionBias::Buckets { table, bidirectional: false, max_distance: 8 };
    assert_eq!(
        text(g.attention(q, q, q, &Attention { bias, ..Default::default() })),
        "attention: the bias table has an open number of buckets; give it at least 2"
    );
    let image = g.input("image", DType::F32, [1, 0, 4]).unwrap();
    assert!(
        text(g.join_patches(image, [1 << 40, 1 << 40], [1.into(), 0.into(), 0.into()]))
            .starts_with("join_patches: ")
    );
}

#[test]
fn a_slot_is_written_once() {
    let mut g = Graph::inference();
    let cache = g.state("cache", DType::F32, [1, 4, 1, 2], Init::Zeros).unwrap();
    let new = g.input("new", DType::F32, [1, 2, 1, 2]).unwrap();
    let slot = g.input("slot", DType::I32, [1, 2]).unwrap();
    g.cache_write(cache, new, slot, None).unwrap();
    let mut store = Store::new(0);
    let mut program = Program::new(g, &[], &mut store, &Cpu::new().unwrap()).unwrap();
    program.set_f32("new", &[1, 2, 1, 2], &[1.0; 4]).unwrap();
    program.set_i32("slot", &[1, 2], &[3, 3]).unwrap();
    assert_eq!(
        text(program.run(&mut store)),
        "cache_write: cache_write: slot[0 1] is 3, which was written before in row 0; give each slot of a row once"
    );
}

#[test]
fn every_recording_method_names_its_operand() {
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [2, 3]).unwrap();
    let wide = g.input("wide", DType::F32, [2, 4]).unwrap();
    let ids = g.input("ids", DType::I32, [2, 3]).unwrap();
    let sizes = "expected sizes equal to those of [2 3], or 1";
    let floats = "is i32, expected f32 or bf16; cast it to f32 first";
    for (message, expected) in [
        (text(g.sub(x, wide)), format!("sub: b is [2 4], {sizes}; a is [2 3], aligned at the last axis")),
        (text(g.div(x, wide)), format!("div: b is [2 4], {sizes}; a is [2 3], aligned at the last axis")),
        (text(g.shift(ids, 1.0)), format!("scale: x {floats}")),
        (text(g.unary(regard_ops::Function::Tanh, ids)), format!("tanh: x {floats}")),
        (text(g.relu(ids)), format!("relu: x {floats}")),
        (text(g.gelu_tanh(ids)), format!("gelu_tanh: x {floats}")),
        (text(g.silu(ids)), format!("silu: x {floats}")),
        (text(g.tanh(ids)), format!("tanh: x {floats}")),
        (text(g.sigmoid(ids)), format!("sigmoid: x {floats}")),
        (text(g.exp(ids)), format!("exp: x {floats}")),
        (text(g.log(ids)), format!("log: x {floats}")),
        (text(g.sqrt(ids)), format!("sqrt: x {floats}")),
        (text(g.square(ids)), format!("square: x {floats}")),
        (text(g.abs(ids)), format!("abs: x {floats}")),
        (text(g.recip(ids)), format!("recip: x {floats}")),
        (text(g.max_with_index(ids, &[1])), format!("max: x {floats}")),
    ] {
        assert_eq!(message, expected);
    }
    let axes = "name at least one axis, each once, counted from 0";
    assert_eq!(text(g.max_keep(x, &[2])), format!("max: [2] are not axes of x, which is [2 3]; {axes}"));
    assert_eq!(
        text(g.sum_keep(x, &[1, 1])),
        format!("sum: [1, 1] are not axes of x, which is [2 3]; {axes}")
    );
    assert_eq!(
        text(g.sum_to_fact(x, regard_graph::Fact::f32([3, 3]))),
        format!("sum_to: like is [3 3], {sizes}; x is [2 3], aligned at the last axis")
    );
    assert_eq!(
        text(g.log_softmax_scaled(x, f32::NAN)),
        "log_softmax: beta is NaN; an inverse temperature is a finite number above 0"
    );
    assert_eq!(
        text(g.add_layer_norm(x, wide, None, None, NormSpec::default())),
        "layer_norm: residual is [2 4], expected [2 C=3]; ..., C come from x"
    );
    let mut other = Graph::new();
    let foreign = other.input("foreign", DType::F32, [2, 3]).unwrap();
    assert_eq!(
        text(g.stop_gradient(foreign)),
        "stop_gradient: operand 0 belongs to another graph; record it in this one"
    );
    assert_eq!(
        text(regard_ops::check_float("gelu", "x", DType::Bool)),
        "gelu: x is bool, expected f32 or bf16; cast it to f32 first"
    );
}

#[test]
fn losses_and_steps_name_what_does_not_fit() {
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [2, 3]).unwrap();
    let weight = g.parameter("weight", [5, 4], Init::Ones).unwrap();
    let targets = g.input("targets", DType::I32, [2]).unwrap();
    let one = g.constant(DType::F32, shape![], &[1.0]).unwrap();
    let options = CrossEntropyOptions::default();
    assert_eq!(
        text(g.linear_cross_entropy(x, weight, None, targets, one, options)),
        "linear_cross_entropy: weight is [5 4], expected [V C=3]; C comes from x"
    );
    let mut other = Graph::new();
    other.parameter("weight", [2], Init::Ones).unwrap();
    assert_eq!(
        text(g.parameters_of(&other)),
        "parameter `weight` is declared twice: parameter f32 [5 4], then parameter f32 [2]; give one of them another \
         name"
    );
}
