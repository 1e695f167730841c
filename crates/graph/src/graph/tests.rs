//! What recording accepts, and the text of everything that it refuses.

use crate::mock::{Mock, Mocks, gather, map, mix, one, pair, record, spread, sum, text, update, view};
use crate::{
    Alias, Attachment, Concrete, DType, Derivative, Dim, Fact, Flow, Graph, Init, Layout, Letter, Op, Origin,
    Pass, Relation, Request, Result, Role, Tape, Var, Work, gradient, plan, shape,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn data(g: &mut Graph, name: &str) -> Var {
    g.input(name, DType::F32, shape![2, 3]).unwrap()
}

#[test]
fn scopes_give_dotted_unique_names() {
    let mut g = Graph::new();
    let x = data(&mut g, "x");
    let names = |g: &Graph| g.nodes().iter().map(|n| n.name.clone()).collect::<Vec<_>>();
    g.scope("block.0", |g| {
        one(g, map(1), &[x]);
        g.scope("attention", |g| {
            let y = one(g, map(1), &[x]);
            one(g, map(1), &[y]);
            g.tap("pattern", y).unwrap();
        });
    });
    one(&mut g, map(1), &[x]);
    assert_eq!(names(&g), ["block.0.map", "block.0.attention.map", "block.0.attention.map#2", "map"]);
    assert_eq!(g.taps().next().unwrap().0, "block.0.attention.pattern");
    assert!(record(&mut g, map(1), &[]).is_err());
    one(&mut g, map(1), &[x]);
    assert_eq!(g.nodes()[4].name, "map#2", "a refused recording takes no name");
}

#[test]
fn asking_again_for_a_parameter_gives_the_newest_version() {
    let mut g = Graph::new();
    let w = g.parameter("w", shape![2, 3], Init::Zeros).unwrap();
    assert_eq!(g.parameter("w", shape![2, 3], Init::Zeros).unwrap(), w);
    let w2 = one(&mut g, update(1), &[w]);
    assert_eq!(g.parameter("w", shape![2, 3], Init::Zeros).unwrap(), w2);
    assert_eq!(g.parameters(), [w2]);
    assert_eq!((g.value(w2).version_of, g.stored()[0].role), (Some(0), Role::Parameter));
    assert!(matches!(g.value(w2).origin, Origin::Node { node: 0, output: 0 }));
}

#[test]
fn letters_are_declared_once() {
    let mut g = Graph::new();
    g.open('T', 8).unwrap();
    g.open('T', 8).unwrap();
    assert_eq!(
        text(g.open('T', 9)),
        "letter `T` is declared twice: at most 8, then at most 9; give one of them another name"
    );
    for name in "ABCDEFG".chars() {
        g.open(name, 1).unwrap();
    }
    assert_eq!(
        text(g.open('H', 1)),
        "size: no room for the open letter H: a program has at most 8; fix the size of one"
    );
    assert_eq!(g.letters().len(), 8);
}

#[test]
fn leaves_say_what_is_wrong() {
    let mut g = Graph::new();
    let t = g.open('T', 8).unwrap();
    data(&mut g, "x");
    assert_eq!(
        text(g.input("x", DType::I32, shape![2])),
        "input `x` is declared twice: f32 [2 3], then i32 [2]; give one of them another name"
    );
    assert_eq!(
        text(g.input_with_gradient("x", shape![2])),
        "input `x` is declared twice: f32 [2 3], then f32 [2]; give one of them another name"
    );
    assert_eq!(
        text(g.bf16_input_with_gradient("x", shape![2])),
        "input `x` is declared twice: f32 [2 3], then bf16 [2]; give one of them another name"
    );
    assert_eq!(
        text(g.input("", DType::F32, shape![2])),
        "input: the name is empty; give it a dotted name such as `head.weight`"
    );
    assert_eq!(text(g.input("y", DType::F32, [1; 7])), "input: `y` has 7 axes; at most 6 are supported");
    assert_eq!(
        text(g.input("y", DType::F32, shape![Letter::new('S', 4)])),
        "input: `y` uses the letter S ≤ 4; declare it on this graph with `open`"
    );
    assert_eq!(
        text(g.parameter("w", shape![t, 2], Init::Zeros)),
        "parameter: `w` has the open letter T in its shape [T 2]; what lives in the store has one size; use the bound"
    );
    assert_eq!(
        text(g.state("m", DType::F32, shape![t], Init::Zeros)),
        "state: `m` has the open letter T in its shape [T]; what lives in the store has one size; use the bound"
    );
    assert_eq!(
        text(g.state("count", DType::I32, shape![], Init::Constant(0.5))),
        "state: `count` is i32, which cannot begin as Constant(0.5); begin with a whole number"
    );
    assert_eq!(
        text(g.state("seen", DType::Bool, shape![], Init::Normal(1.0))),
        "state: `seen` is bool, which cannot begin as Normal(1.0); begin with Zeros or Ones"
    );
    g.parameter("w", shape![2], Init::Ones).unwrap();
    assert_eq!(
        text(g.parameter("w", shape![3], Init::Ones)),
        "parameter `w` is declared twice: parameter f32 [2], then parameter f32 [3]; give one of them another name"
    );
    assert_eq!(
        text(g.state("w", DType::F32, shape![2], Init::Ones)),
        "state `w` is declared twice: parameter f32 [2], then state f32 [2]; give one of them another name"
    );
    assert_eq!(
        text(g.constant(DType::F32, shape![2, 2], &[1.0])),
        "constant: numbers is 1 long, expected 4 for the shape [2 2]"
    );
    assert_eq!(
        text(g.constant(DType::F32, shape![t], &[1.0])),
        "constant: numbers is 1 long, expected T for the shape [T]"
    );
    assert_eq!(
        text(g.constant(DType::I32, shape![2], &[1.0, 0.5])),
        "constant: number 1 is 0.5, which i32 cannot hold; use f32, or round it first"
    );
    assert_eq!(
        text(g.constant(DType::Bool, shape![], &[2.0])),
        "constant: number 0 is 2, which bool cannot hold; use 0 or 1"
    );
}

#[test]
fn names_are_given_once_and_found_by_name() {
    let mut g = Graph::new();
    let x = data(&mut g, "x");
    let n = g.input("n", DType::I32, shape![]).unwrap();
    g.output("loss", x).unwrap();
    g.tap("pattern", x).unwrap();
    assert_eq!(
        text(g.output("loss", n)),
        "output `loss` is declared twice: f32 [2 3], then i32 []; give one of them another name"
    );
    assert_eq!(
        text(g.scope("a", |g| g.tap("b", x).and_then(|_| g.tap("b", n)))),
        "tap `a.b` is declared twice: f32 [2 3], then i32 []; give one of them another name"
    );
    assert_eq!(g.find("pattern").unwrap(), x);
    assert_eq!(text(g.find("pattrn")), "no output or tap is called `pattrn`; did you mean `pattern`?");
    let mut other = Graph::new();
    assert_eq!(text(other.tap("x", x)), "tap: operand 0 belongs to another graph; record it in this one");
    assert_eq!(
        text(other.output("x", x)),
        "output: operand 0 belongs to another graph; record it in this one"
    );
}

#[test]
fn recording_refuses_operands_that_do_not_fit() {
    let (mut g, mut other) = (Graph::new(), Graph::new());
    let (x, foreign) = (data(&mut g, "x"), data(&mut other, "x"));
    let y = g.input("y", DType::F32, shape![3]).unwrap();
    assert_eq!(text(record(&mut g, map(2), &[x])), "map: 1 operands were given, it takes 2; give a, b");
    assert_eq!(
        text(record(&mut g, map(2), &[x, foreign])),
        "map: operand 1 belongs to another graph; record it in this one"
    );
    assert_eq!(text(record(&mut g, map(2), &[x, y])), "map: b is f32 [3], expected f32 [2 3]; as a");
    assert_eq!(
        text(g.record(Arc::new(map(2)), Arc::new(()), &[x])),
        "map: 1 operands were given, it takes 2; give a, b"
    );
    let seven = Mock { name: "deepen", ..spread(Fact::f32([1; 7])) };
    assert_eq!(text(record(&mut g, seven, &[x])), "deepen: output 0 has 7 axes; at most 6 are supported");
    assert!(g.nodes().is_empty() && g.values().len() == 2, "what is refused leaves nothing behind");
}

#[test]
fn an_output_has_only_letters_of_its_graph() {
    let mut g = Graph::new();
    let b = g.open('B', 8).unwrap();
    let x = g.input("x", DType::F32, shape![b]).unwrap();
    let into = |bound| spread(Fact::f32(shape![Letter::new('B', bound)]));
    assert_eq!(
        text(record(&mut g, Mock { derivative: Derivative::Exists, ..into(4) }, &[x])),
        "spread: output 0 uses the letter B ≤ 4; declare it on this graph with `open`"
    );
    record(&mut g, into(8), &[x]).unwrap();
}

#[test]
fn a_missing_derivative_is_an_error_at_recording() {
    let mut g = Graph::new();
    let x = data(&mut g, "x");
    let w = g.parameter("w", shape![2, 3], Init::Zeros).unwrap();
    let hard = || Mock { derivative: Derivative::Missing("it is a step"), ..mix(1) };
    let y = one(&mut g, hard(), &[x]);
    assert_eq!(g.value(y).flow, Flow::None);
    assert_eq!(
        text(record(&mut g, hard(), &[w])),
        "mix: no derivative exists with respect to a: it is a step; use stop_gradient if none is wanted"
    );
    let stopped = one(&mut g, Mock { derivative: Derivative::Zero, ..map(1) }, &[w]);
    assert_eq!(g.value(stopped).flow, Flow::None);
    one(&mut g, hard(), &[stopped]);
    let x = g.input_with_gradient("z", shape![2]).unwrap();
    assert!(record(&mut g, hard(), &[x]).is_err());

    let mut g = Graph::inference();
    let w = g.parameter("w", shape![2, 3], Init::Zeros).unwrap();
    one(&mut g, hard(), &[w]);
}

#[test]
fn state_is_single_assignment() {
    let mut g = Graph::new();
    let x = data(&mut g, "x");
    let w = g.parameter("w", shape![2, 3], Init::Zeros).unwrap();
    let w2 = g.scope("optimizer", |g| one(g, update(2), &[w, x]));
    let stale = "reads `w` as it was before optimizer.update replaced it; use the value that optimizer.update returned";
    assert_eq!(text(record(&mut g, map(1), &[w])), format!("map: {stale}"));
    assert_eq!(text(g.tap("t", w)), format!("tap: {stale}"));
    assert_eq!(text(g.output("o", w)), format!("output: {stale}"));
    assert_eq!(text(g.dims::<2>(w, "A B")), format!("dims: {stale}"));
    assert_eq!(g.value(w2).flow, Flow::None, "no gradient flows through state");

    assert_eq!(
        text(record(&mut g, update(1), &[x])),
        "update: a is neither a parameter nor a state; only what lives in the store can be updated"
    );
    assert_eq!(
        text(g.recompute(|g| record(g, update(1), &[w2]))),
        "update: updates `w` inside a block marked recompute; a block that runs twice must not change state; \
         move the update out of it"
    );
    let twice = Mock {
        infer: Box::new(|inputs| Ok(inputs.to_vec())),
        aliases: vec![Alias::Update { output: 0, input: 0 }, Alias::Update { output: 1, input: 1 }],
        ..update(2)
    };
    assert_eq!(text(record(&mut g, twice, &[w2, w2])), "update: updates `w` twice; give each state once");
    let narrow = Mock { infer: Box::new(|_| Ok(vec![Fact::f32([2])])), ..update(1) };
    assert_eq!(
        text(record(&mut g, narrow, &[w2])),
        "update: a is f32 [2], expected f32 [2 3]; an update keeps the shape of `w`"
    );
}

#[test]
fn aliases_must_fit_the_op() {
    let mut g = Graph::new();
    let x = data(&mut g, "x");
    assert_eq!(
        text(record(&mut g, view(shape![5]), &[x])),
        "view: output 0 is f32 [5], expected 6 elements of f32; a view has the bytes of a, which is f32 [2 3]"
    );
    let beyond = Mock { aliases: vec![Alias::Reuse { output: 1, input: 0 }], ..map(1) };
    assert_eq!(
        text(record(&mut g, beyond, &[x])),
        "map: it shares output 1 with input 0, but has 1 outputs and 1 inputs; mend `aliases` of the op"
    );
    let several = |aliases: Vec<Alias>| Mock { aliases, ..pair() };
    let (view_it, reuse_it) = (Alias::View { output: 0, input: 0 }, Alias::Reuse { output: 0, input: 0 });
    assert_eq!(
        text(record(&mut g, several(vec![view_it, reuse_it]), &[x])),
        "pair: it shares output 0 twice, as View { output: 0, input: 0 } and as Reuse { output: 0, input: 0 }; \
         mend `aliases` of the op"
    );
    assert_eq!(
        text(record(&mut g, several(vec![view_it, Alias::Reuse { output: 1, input: 0 }]), &[x])),
        "pair: it shares a with outputs 0 and 1; mend `aliases` of the op"
    );
    // Either output may take the place of the operand: the plan gives it to one.
    one(&mut g, several(vec![reuse_it, Alias::Reuse { output: 1, input: 0 }]), &[x]);
    one(&mut g, view(shape![3, 2]), &[x]);
    let t = g.open('T', 4).unwrap();
    let y = g.input("y", DType::F32, shape![t, 2]).unwrap();
    one(&mut g, view(shape![Dim::from(t).times(&2.into())]), &[y]);
}

#[test]
fn an_op_is_asked_once_what_it_is() {
    /// Says at first that it only views, and ever after that it has a result of its own and no operand at
    /// all.
    #[derive(Debug)]
    struct Fickle(AtomicUsize, Mock);
    impl Op for Fickle {
        fn name(&self) -> &'static str {
            "fickle"
        }
        fn attributes(&self) -> Vec<(&'static str, String)> {
            Vec::new()
        }
        fn operands(&self) -> Vec<&'static str> {
            if self.0.load(Ordering::Relaxed) == 0 { vec!["a"] } else { Vec::new() }
        }
        fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
            self.1.infer(inputs)
        }
        fn aliases(&self) -> Vec<Alias> {
            if self.0.fetch_add(1, Ordering::Relaxed) == 0 { self.1.aliases() } else { Vec::new() }
        }
        fn derivative(&self, _input: usize) -> Derivative {
            if self.0.load(Ordering::Relaxed) == 0 {
                Derivative::Exists
            } else {
                Derivative::Missing("fickle")
            }
        }
        fn gradient(&self, g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
            self.1.gradient(g, tape)
        }
        fn cost(&self, call: &Concrete<'_>) -> Work {
            self.1.cost(call)
        }
        fn reach(&self, call: &Concrete<'_>, output: usize, input: usize) -> Relation {
            self.1.reach(call, output, input)
        }

        fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
            self.1.axes(call, output)
        }
    }
    let mut g = Graph::new();
    let w = g.parameter("w", shape![2, 3], Init::Ones).unwrap();
    let op = Arc::new(Fickle(AtomicUsize::new(0), view(shape![2, 3])));
    let y = g.record(op.clone(), Arc::new(()), &[w]).unwrap()[0];
    assert!(g.nodes()[0].is::<Fickle>() && !g.nodes()[0].is::<Mock>(), "ops are told apart by their type");
    let loss = one(&mut g, sum(), &[y]);
    gradient(&mut g, loss, &[w], &Mocks).unwrap();
    let plan = plan(&g, &Request { keep: vec![loss], scratch: &|_| 0 }).unwrap();
    plan.check(&g).unwrap();
    assert_eq!(plan.place(y), plan.place(w), "a view, as it said when it was recorded");
    assert!(crate::describe::text(&g).contains("fickle(a = "));
    assert_eq!(op.0.load(Ordering::Relaxed), 1, "it was asked again");
    // To another graph it is another op, with one answer there.
    let mut other = Graph::inference();
    let x = data(&mut other, "x");
    assert_eq!(
        text(g.nodes()[0].record_again(&mut other, &[x])),
        "fickle: 1 operands were given, it takes 0; give "
    );
}

#[test]
fn dims_are_checked_against_a_pattern() {
    let mut g = Graph::new();
    let t = g.open('T', 8).unwrap();
    let x = g.input("x", DType::F32, shape![2, t, 4]).unwrap();
    let [b, time, c] = g.dims(x, "B T C").unwrap();
    assert_eq!((b, time, c), (2.into(), t.into(), 4.into()));
    assert_eq!(text(g.dims::<2>(x, "B T")), "dims: value is [2 T 4], expected [B T]");
    assert_eq!(
        text(g.dims::<2>(x, "B T C")),
        "dims: the pattern `B T C` has not 2 letters; name each axis once"
    );
    assert_eq!(
        text(Graph::new().dims::<3>(x, "B T C")),
        "dims: operand 0 belongs to another graph; record it in this one"
    );
}

#[test]
fn flow_and_passes_are_kept_per_node() {
    let mut g = Graph::new();
    let w = g.parameter("w", shape![4, 2], Init::Normal(0.02)).unwrap();
    let ids = g.input("ids", DType::I32, shape![3]).unwrap();
    let rows = one(&mut g, gather(), &[w, ids]);
    assert_eq!(g.value(rows).flow, Flow::Open);
    let inner = g.recompute(|g| {
        let a = one(g, map(1), &[rows]);
        g.recompute(|g| one(g, map(1), &[a]))
    });
    let next = g.recompute(|g| record(g, pair(), &[inner])).unwrap();
    assert_eq!(g.nodes().iter().map(|n| n.region).collect::<Vec<_>>(), [None, Some(0), Some(0), Some(1)]);
    assert!(g.nodes().iter().all(|n| n.pass == Pass::Forward));
    assert!(g.owns(next[1]) && !Graph::new().owns(next[1]));
    assert_eq!(g.var(next[1].index()), next[1]);
    // The ops are shared objects, not copies.
    let node = g.nodes()[0].clone();
    assert!(Arc::ptr_eq(&node.op, &g.nodes()[0].op));
}

#[test]
fn operands_and_sizes_are_checked_before_they_are_looked_at() {
    let (mut g, mut other) = (Graph::new(), Graph::new());
    let (own, foreign) = (data(&mut g, "x"), data(&mut other, "x"));
    assert!(g.check_operands("join", &[own]).is_ok());
    assert_eq!(
        text(g.check_operands("join", &[own, foreign])),
        "join: operand 1 belongs to another graph; record it in this one"
    );
    let vast = g.input("vast", DType::F32, [1 << 21, 1 << 21]).unwrap();
    assert_eq!(
        text(crate::check_size(&g, "cost", vast, None)),
        "cost: input `vast`, f32 [2097152 2097152], is [2097152 2097152] large, more than any machine holds; lower \
         the bounds of the open letters, or the fixed sizes"
    );
}

#[test]
fn what_nobody_needs_is_pruned() {
    let mut g = Graph::new();
    let x = data(&mut g, "x");
    let dead = one(&mut g, map(1), &[x]);
    let state = g.state("cache", DType::F32, shape![2, 3], Init::Zeros).unwrap();
    let kept = one(&mut g, map(1), &[x]);
    let tapped = one(&mut g, map(1), &[dead]);
    let replaced = one(&mut g, update(2), &[state, x]);
    g.tap("tapped", tapped).unwrap();
    g.prune(&[kept]).unwrap();
    assert_eq!(g.nodes().iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), ["map#2", "update"]);
    assert!(matches!(g.value(kept).origin, Origin::Node { node: 0, output: 0 }));
    assert!(matches!(g.value(replaced).origin, Origin::Node { node: 1, output: 0 }));
    assert!(matches!(g.value(dead).origin, Origin::Gone));
    assert_eq!(g.title(g.find("tapped").unwrap()), "a value f32 [2 3] that is made no more");
    let text_of = text(g.prune(&[data(&mut Graph::new(), "x")]));
    assert_eq!(text_of, "needed: operand 0 belongs to another graph; record it in this one");
}

#[test]
fn a_node_takes_up_what_its_only_reader_does() {
    let mut g = Graph::new();
    let x = data(&mut g, "x");
    let w = g.parameter("w", shape![2, 3], Init::Ones).unwrap();
    let made = g.scope("block.0", |g| record(g, pair(), &[x]).unwrap());
    let other = one(&mut g, map(1), &[made[1]]);
    let sum = one(&mut g, map(2), &[made[0], w]);
    let last = one(&mut g, map(1), &[sum]);
    g.output("last", last).unwrap();
    g.output("other", other).unwrap();
    let both = Mock { infer: pair().infer, ..map(2) };
    let attachment: Attachment = Arc::new("kernels");
    g.joining(|joins| joins.absorb(0, 2, Arc::new(both), attachment.clone(), &[x, w])).unwrap();
    let node = &g.nodes()[0];
    assert_eq!((&node.inputs[..], &node.outputs[..]), (&[x, w][..], &[sum, made[1]][..]));
    assert!(Arc::ptr_eq(&node.attachment, &attachment));
    assert_eq!(node.name, "block.0.pair", "it keeps its name");
    assert!(matches!(g.value(sum).origin, Origin::Node { node: 0, output: 0 }));
    assert!(matches!(g.value(made[0]).origin, Origin::Gone));
    assert!(matches!(g.value(last).origin, Origin::Node { node: 2, output: 0 }));
    assert_eq!(g.nodes().len(), 3);
}

#[test]
fn what_cannot_be_absorbed_is_said() {
    let mut g = Graph::new();
    let x = data(&mut g, "x");
    let state = g.state("cache", DType::F32, shape![2, 3], Init::Zeros).unwrap();
    let a = one(&mut g, map(1), &[x]);
    let late = one(&mut g, map(1), &[x]);
    let b = one(&mut g, map(2), &[a, late]);
    g.output("b", b).unwrap();
    let mut refused = |node: usize, reader: usize, op: Mock, inputs: &[Var]| {
        text(g.joining(|joins| joins.absorb(node, reader, Arc::new(op), Arc::new(()), inputs)))
    };
    assert_eq!(refused(0, 9, map(1), &[x]), "absorb: there is no node 9; this graph has 3");
    assert_eq!(
        refused(0, 1, map(1), &[x]),
        "absorb: `map#2` does not make one value of one result of `map`; join a node with one that reads one of its \
         results and makes one value of it"
    );
    assert_eq!(
        refused(0, 2, map(2), &[x, late]),
        "absorb: b of map, output 0 of `map#2`, was recorded after `map`; give operands that come before it"
    );
    assert_eq!(
        refused(0, 2, update(2), &[state, x]),
        "absorb: `map` would replace state as update; record the update as a node of its own"
    );
    assert_eq!(
        refused(0, 2, spread(Fact::f32([2])), &[x]),
        "absorb: `map` gives f32 [2 3], as spread it would give f32 [2]; keep shapes and dtypes"
    );
    assert_eq!(
        {
            one(&mut g, map(1), &[a]);
            text(g.joining(|joins| joins.absorb(0, 2, Arc::new(map(1)), Arc::new(()), &[x])))
        },
        "absorb: output 0 of `map` has other readers than `map#3`; leave them apart, or prune what nobody needs first"
    );
    assert_eq!((g.nodes()[0].inputs.len(), g.nodes().len()), (1, 4), "a refusal changes nothing");
}

#[test]
fn a_node_that_is_read_is_refined() {
    let mut g = Graph::new();
    let (x, w) = (data(&mut g, "x"), g.parameter("w", shape![2, 3], Init::Ones).unwrap());
    let state = g.state("cache", DType::F32, shape![2, 3], Init::Zeros).unwrap();
    let a = one(&mut g, map(2), &[w, state]);
    let b = one(&mut g, map(1), &[a]);
    g.output("b", b).unwrap();
    let replaced = one(&mut g, update(2), &[state, x]);
    // What the node reads already may have been replaced since.
    let twice = Mock { infer: Box::new(|inputs| Ok(vec![inputs[0].clone(); 2])), ..map(2) };
    let results = g.refine(0, Arc::new(twice), Arc::new("kernels"), &[w, state]).unwrap();
    assert_eq!(g.nodes()[0].outputs, results);
    assert_eq!(results[0], a, "what is read stays");
    assert!(matches!(g.value(results[1]).origin, Origin::Node { node: 0, output: 1 }));
    assert_eq!(g.value(results[1]).flow, Flow::None);
    assert!(
        text(g.refine(1, Arc::new(map(2)), Arc::new(()), &[a, state])).contains("as it was before update")
    );
    assert!(text(g.refine(1, Arc::new(map(2)), Arc::new(()), &[a, replaced])).contains("was recorded after"));
    let name = g.nodes()[1].name.clone();
    // The new result was recorded after this node, but is made before it.
    let inputs = [a, x, results[1]];
    assert_eq!(g.refine(1, Arc::new(map(3)), Arc::new(()), &inputs).unwrap(), [b]);
    assert_eq!((&g.nodes()[1].name, &g.nodes()[1].inputs[..]), (&name, &inputs[..]));
    assert_eq!(g.value(b).flow, Flow::Open);
}

#[test]
fn what_cannot_be_refined_is_said() {
    let mut g = Graph::new();
    let x = data(&mut g, "x");
    let state = g.state("cache", DType::F32, shape![2, 3], Init::Zeros).unwrap();
    let made = one(&mut g, map(1), &[x]);
    one(&mut g, map(1), &[made]);
    let mut refused =
        |node: usize, op: Mock, inputs: &[Var]| text(g.refine(node, Arc::new(op), Arc::new(()), inputs));
    assert_eq!(refused(7, map(1), &[x]), "refine: there is no node 7; this graph has 2");
    assert_eq!(
        refused(0, map(2), &[x, made]),
        "refine: b of map, output 0 of `map`, was recorded after `map`; give operands that come before it"
    );
    assert_eq!(
        refused(0, update(2), &[state, x]),
        "refine: `map` would replace state as update; record the update as a node of its own"
    );
    assert_eq!(
        refused(0, spread(Fact::f32([2])), &[x]),
        "refine: `map` gives f32 [2 3], as spread it would give f32 [2]; keep shapes and dtypes"
    );
    assert_eq!(g.nodes()[0].op.name(), "map", "a refusal changes nothing");
}
