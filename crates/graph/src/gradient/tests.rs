//! Reverse mode over mock ops: which nodes are recorded, and what is refused.

use crate::mock::{Mock, Mocks, map, mix, one, pair, record, spread, sum, text, update};
use crate::{DType, Derivative, Fact, Flow, Graph, Init, Pass, Result, Var, gradient, pullback, shape};
use std::sync::Arc;

fn weight(g: &mut Graph, name: &str) -> Var {
    g.parameter(name, shape![2, 3], Init::Ones).unwrap()
}

fn nodes(g: &Graph, pass: Pass) -> Vec<String> {
    g.nodes().iter().filter(|n| n.pass == pass).map(|n| n.name.clone()).collect()
}

#[test]
fn rules_are_recorded_under_the_scope_of_their_node() {
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, shape![2, 3]).unwrap();
    let (w, unused) = (weight(&mut g, "w"), weight(&mut g, "unused"));
    let y = g.scope("block.0", |g| one(g, map(2), &[x, w]));
    let z = one(&mut g, map(2), &[y, w]);
    let loss = one(&mut g, sum(), &[z]);
    let grads = gradient(&mut g, loss, &[w, unused, y], &Mocks).unwrap();
    // z = map(y, w) gives a gradient each; y's goes on to w, where the two are added; `unused` gets zeros.
    assert_eq!(
        nodes(&g, Pass::Backward),
        ["ones", "spread", "map#2", "map#3", "block.0.map#2", "block.0.add", "zeros"]
    );
    assert_eq!(g.shape(grads[0]), g.shape(w));
    let maker = |var: Var| g.nodes().iter().find(|n| n.outputs.contains(&var)).unwrap().name.clone();
    assert_eq!(grads.iter().map(|&v| maker(v)).collect::<Vec<_>>(), ["block.0.add", "zeros", "map#2"]);
}

#[test]
fn an_f32_gradient_of_a_bf16_value_is_rounded_after_what_it_meets_was_added() {
    let mut g = Graph::new();
    let x = g.bf16_input_with_gradient("x", shape![2, 3]).unwrap();
    let widened = |name| Mock {
        name,
        infer: Box::new(|inputs| Ok(vec![Fact::f32(&inputs[0].shape)])),
        gradient: Box::new(|_, tape| Ok(vec![tape.grads[0]])),
        ..map(1)
    };
    let (a, b) = (one(&mut g, widened("a"), &[x]), one(&mut g, widened("b"), &[x]));
    let both = one(&mut g, map(2), &[a, b]);
    let loss = one(&mut g, sum(), &[both]);
    let dx = gradient(&mut g, loss, &[x], &Mocks).unwrap()[0];
    assert_eq!(nodes(&g, Pass::Backward), ["ones", "spread", "map#2", "map#3", "round", "add", "round#2"]);
    assert_eq!(g.dtype(dx), DType::BF16);
    let add = g.nodes().iter().find(|node| node.name == "add").unwrap();
    let dtypes: Vec<DType> = add.inputs.iter().map(|&var| g.dtype(var)).collect();
    assert_eq!(dtypes, [DType::BF16, DType::F32], "what was there is rounded, what comes is not yet");
}

#[test]
fn a_leaf_has_a_gradient_with_respect_to_itself_alone() {
    let mut g = Graph::new();
    let s = g.parameter("s", shape![], Init::Ones).unwrap();
    let w = weight(&mut g, "w");
    let grads = gradient(&mut g, s, &[w, s], &Mocks).unwrap();
    assert_eq!(nodes(&g, Pass::Backward), ["zeros", "ones"]);
    assert_eq!((g.shape(grads[0]), g.shape(grads[1])), (&shape![2, 3], &shape![]));
}

#[test]
fn blocks_marked_recompute_run_again_with_the_same_ops() {
    let mut g = Graph::new();
    let w = weight(&mut g, "w");
    let mut x = w;
    for block in 0..2 {
        x = g.scope(format!("block.{block}"), |g| {
            g.recompute(|g| {
                let a = one(g, map(1), &[x]);
                one(g, mix(1), &[a])
            })
        });
    }
    let loss = one(&mut g, sum(), &[x]);
    gradient(&mut g, loss, &[w], &Mocks).unwrap();
    // The last block comes first, and each is replayed once.
    assert_eq!(nodes(&g, Pass::Recompute), ["block.1.map", "block.1.mix", "block.0.map", "block.0.mix"]);
    let of = |pass, name: &str| g.nodes().iter().find(|n| n.pass == pass && n.name == name).unwrap();
    for name in nodes(&g, Pass::Recompute) {
        let (first, second) = (of(Pass::Forward, &name), of(Pass::Recompute, &name));
        assert!(Arc::ptr_eq(&first.op, &second.op) && Arc::ptr_eq(&first.attachment, &second.attachment));
        assert_ne!(first.outputs, second.outputs);
        assert_eq!(second.region, None);
    }
    // The replayed block reads what the forward pass left at its border, its rules read the replayed values.
    let forward = of(Pass::Forward, "block.1.map");
    let again = of(Pass::Recompute, "block.1.map");
    assert_eq!(again.inputs, forward.inputs);
    let rule = of(Pass::Backward, "block.1.map#2");
    assert_eq!(rule.inputs[1], again.outputs[0], "the rule of mix reads the second life of its input");
}

#[test]
fn a_pullback_begins_with_what_it_is_given() {
    let mut g = Graph::new();
    let (w, c) = (weight(&mut g, "w"), g.input("c", DType::F32, shape![2, 3]).unwrap());
    let y = one(&mut g, map(1), &[w]);
    let nodes = g.nodes().len();
    let found = pullback(&mut g, y, c, &[w], &Mocks).unwrap();
    let rule = &g.nodes()[nodes];
    assert_eq!((rule.outputs[0], rule.inputs.contains(&c)), (found[0], true));
    assert_eq!(pullback(&mut g, w, c, &[w], &Mocks).unwrap(), [c], "the value itself");
}

#[test]
fn refusals_name_the_value() {
    let (mut g, mut other) = (Graph::new(), Graph::new());
    let x = g.input("x", DType::F32, shape![2, 3]).unwrap();
    let w = weight(&mut g, "w");
    let foreign = weight(&mut other, "w");
    let y = one(&mut g, map(2), &[x, w]);
    let loss = one(&mut g, sum(), &[y]);
    let constant = one(&mut g, sum(), &[x]);
    let foreign_text = "gradient: operand 1 belongs to another graph; record it in this one";
    assert_eq!(text(gradient(&mut g, loss, &[foreign], &Mocks)), foreign_text);
    assert_eq!(text(gradient(&mut other, loss, &[foreign], &Mocks)), foreign_text.replace("1", "0"));
    assert_eq!(
        text(gradient(&mut g, y, &[w], &Mocks)),
        "gradient: the value to differentiate is [2 3], expected a single number; reduce it with `sum` or `mean` first"
    );
    let c = one(&mut g, sum(), &[x]);
    assert_eq!(
        text(pullback(&mut g, y, c, &[w], &Mocks)),
        "pullback: the cotangent is f32 [], expected f32 [2 3], as the value to differentiate"
    );
    let foreign_text = "pullback: operand 2 belongs to another graph; record it in this one";
    assert_eq!(text(pullback(&mut g, y, x, &[foreign], &Mocks)), foreign_text);
    let narrow = g.input("narrow", DType::BF16, shape![2, 3]).unwrap();
    assert_eq!(
        text(pullback(&mut g, y, x, &[narrow], &Mocks)),
        "pullback: variable 0, input `narrow`, carries no gradient; declare it with `bf16_input_with_gradient`, or \
         leave it out"
    );
    let independent = "gradient: the value does not depend on any of the variables given; check for a \
                       stop_gradient, an integer op, or a graph recorded for inference in between";
    assert_eq!(text(gradient(&mut g, constant, &[w], &Mocks)), independent);
    assert_eq!(
        text(gradient(&mut g, loss, &[w, x], &Mocks)),
        "gradient: variable 1, input `x`, carries no gradient; declare it with `input_with_gradient`, or leave it out"
    );
    let mut g = Graph::inference();
    let w = weight(&mut g, "w");
    let loss = one(&mut g, sum(), &[w]);
    assert_eq!(
        text(gradient(&mut g, loss, &[w], &Mocks)),
        "gradient: variable 0, parameter `w`, carries no gradient; check for a stop_gradient, an integer op, an \
         update or a graph recorded for inference"
    );
}

#[test]
fn an_op_without_derivative_blocks_a_second_gradient() {
    let mut g = Graph::new();
    let w = weight(&mut g, "w");
    let y = one(&mut g, map(2), &[w, w]);
    let loss = g.scope("head", |g| one(g, sum(), &[y]));
    let first = gradient(&mut g, loss, &[w], &Mocks).unwrap()[0];
    assert_eq!(g.value(first).flow, Flow::Open, "the spread was of ones, which lead nowhere");
    // The gradient of a product with the loss goes through `spread`, which has no derivative.
    let product = one(&mut g, map(2), &[loss, loss]);
    let grad = gradient(&mut g, product, &[w], &Mocks).unwrap()[0];
    assert_eq!(g.value(grad).flow, Flow::Blocked("spread"));
    let norm = one(&mut g, sum(), &[grad]);
    assert_eq!(
        text(gradient(&mut g, norm, &[w], &Mocks)),
        "head.spread#2: no derivative exists with respect to a: a spread is the end; use stop_gradient if none is wanted"
    );
    // The optimizer takes a blocked gradient as data.
    let w2 = one(&mut g, update(2), &[w, grad]);
    assert_eq!(g.value(w2).flow, Flow::None);
}

#[test]
fn a_parameter_replaced_before_the_gradient_is_stale() {
    let mut g = Graph::new();
    let w = weight(&mut g, "w");
    let y = one(&mut g, map(1), &[w]);
    let loss = one(&mut g, sum(), &[y]);
    one(&mut g, update(1), &[w]);
    assert_eq!(
        text(gradient(&mut g, loss, &[w], &Mocks)),
        "map: reads `w` as it was before update replaced it; use the value that update returned"
    );
}

#[test]
fn a_rule_must_fit_its_op() {
    let rule = |found: fn(Var) -> Vec<Option<Var>>| {
        let mut g = Graph::new();
        let w = weight(&mut g, "w");
        let odd = Mock { gradient: Box::new(move |_, tape| Ok(found(tape.grads[0].unwrap()))), ..sum() };
        let loss = g.scope("head", |g| one(g, odd, &[w]));
        text(gradient(&mut g, loss, &[w], &Mocks))
    };
    assert_eq!(
        rule(|grad| vec![Some(grad)]),
        "head.sum: the gradient of a is f32 [], expected f32 [2 3]; mend the rule of sum"
    );
    assert_eq!(
        rule(|_| vec![]),
        "head.sum: its rule gave 0 gradients, it has 1 inputs; mend the rule of sum"
    );
}

#[test]
fn a_rule_may_refuse() {
    let mut g = Graph::new();
    let w = weight(&mut g, "w");
    let refuse: Mock = Mock {
        gradient: Box::new(|g, tape| -> Result<_> { record(g, map(3), &[tape.inputs[0]]).map(|_| vec![]) }),
        ..sum()
    };
    let loss = one(&mut g, refuse, &[w]);
    assert_eq!(
        text(gradient(&mut g, loss, &[w], &Mocks)),
        "map: 1 operands were given, it takes 3; give a, b, c"
    );
}

#[test]
fn only_the_outputs_that_are_read_bring_a_gradient() {
    let mut g = Graph::new();
    let w = weight(&mut g, "w");
    let watch = Mock {
        gradient: Box::new(|_, tape| {
            assert_eq!(tape.grads.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false]);
            assert_eq!(tape.wanted, [true]);
            Ok(vec![tape.grads[0]])
        }),
        ..pair()
    };
    let made = record(&mut g, watch, &[w]).unwrap();
    let loss = one(&mut g, sum(), &[made[0]]);
    gradient(&mut g, loss, &[w], &Mocks).unwrap();
    let stopped = one(&mut g, Mock { derivative: Derivative::Zero, ..spread(Fact::f32([])) }, &[loss]);
    assert!(gradient(&mut g, stopped, &[w], &Mocks).is_err());
}
