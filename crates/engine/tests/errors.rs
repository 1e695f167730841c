//! What people see when they feed, run or read wrongly: each text names what, expected, got and what to do.

use regard_device::Values;
use regard_engine::reference::{Mode, run};
use regard_engine::{Cpu, Error, Feed, Program, Store, sizes_of};
use regard_graph::{Graph, Letter, shape};
use regard_ops::Array;
use regard_ops::prelude::*;

fn text<T>(result: Result<T, Error>) -> String {
    match result {
        Ok(_) => panic!("an error was expected"),
        Err(error) => error.to_string(),
    }
}

/// y = x · weight with an open number of rows.
fn program(store: &mut Store) -> Program {
    let mut g = Graph::new();
    let b = g.open('B', 4).unwrap();
    let x = g.input("x", DType::F32, shape![b, 3]).unwrap();
    let offset = g.input("offset", DType::F32, shape![b, 1]).unwrap();
    let weight = g.parameter("weight", [3], Init::Ones).unwrap();
    let product = g.mul(x, weight).unwrap();
    g.tap("product", product).unwrap();
    let y = g.add(product, offset).unwrap();
    g.output("y", y).unwrap();
    g.output("weight", weight).unwrap();
    Program::new(g, &[], store, &Cpu::with(1, regard_device::Level::best()).unwrap()).unwrap()
}

#[test]
fn feeding() {
    let mut store = Store::new(0);
    let mut program = program(&mut store);
    assert_eq!(text(program.set_f32("z", &[1, 3], &[0.0; 3])), "no input is called `z`; did you mean `x`?");
    assert_eq!(
        text(program.set_f32("x", &[2, 3], &[0.0; 5])),
        "`x` is 5 numbers for the shape [2 3], expected f32 [B 3]; feed what the graph declares"
    );
    assert_eq!(
        text(program.set_f32("x", &[3], &[0.0; 3])),
        "`x` is f32 [3], expected f32 [B 3]; feed what the graph declares"
    );
    assert_eq!(
        text(program.set_f32("x", &[5, 3], &[0.0; 15])),
        "size: B = 5 is over the bound 4 that the program was planned for; record it with a larger bound"
    );
    assert_eq!(
        text(program.set_f32("x", &[1, 4], &[0.0; 4])),
        "`x` is [1 4], expected f32 [B 3]; feed what the graph declares"
    );
    assert_eq!(
        text(program.set_f32("x", &[1, 1, 1, 1, 1, 1, 3], &[0.0; 3])),
        "`x` is of 7 axes, expected f32 [B 3]; feed what the graph declares"
    );
    assert_eq!(
        text(program.set_i32("x", &[1, 3], &[0; 3])),
        "`x` is i32 numbers, expected f32 [B 3]; feed what the graph declares"
    );
    assert_eq!(
        text(program.set_bools("x", &[1, 3], &[true; 3])),
        "`x` is bool numbers, expected f32 [B 3]; feed what the graph declares"
    );
    assert_eq!(
        text(program.set_array("y", &Array::scalar(1.0))),
        "no input is called `y`; did you mean `x`?"
    );
}

/// A program keeps what it was fed last: of a batch that lacks a field, the one before would be taken.
#[test]
fn feeding_a_whole_batch() {
    let mut store = Store::new(0);
    let mut program = program(&mut store);
    let (x, offset) = (Values::F32(vec![1.0; 6]), Values::F32(vec![2.0; 2]));
    let (of_x, of_offset) = (("x", &[2, 3][..], &x), ("offset", &[2, 1][..], &offset));
    let unknown = ("labels", &[2][..], &Values::I32(vec![0, 1]));
    program.feed([of_x, of_offset, unknown].into_iter(), &[]).unwrap();
    program.run(&mut store).unwrap();
    assert_eq!(*program.f32("y").unwrap(), [3.0; 6]);
    assert_eq!(
        text(program.feed([of_x].into_iter(), &[])),
        "input `offset` (f32 [B 1]) was never fed; set it before the run"
    );
    program.feed([of_x].into_iter(), &["offset"]).unwrap();
}
#[test]
fn running() {
    let mut store = Store::new(0);
    let mut program = program(&mut store);
    assert_eq!(text(program.f32("y")), "program: `y` was not kept; run the program first");
    program.set_f32("x", &[2, 3], &[1.0; 6]).unwrap();
    assert_eq!(
        text(program.run(&mut store)),
        "input `offset` (f32 [B 1]) was never fed; set it before the run"
    );
    program.set_f32("offset", &[3, 1], &[1.0; 3]).unwrap();
    assert_eq!(
        text(program.run(&mut store)),
        "size: B is 3 in one input and 2 in another; inputs of one run must agree"
    );
    program.set_f32("offset", &[2, 1], &[1.0; 2]).unwrap();
    assert_eq!(
        text(program.run(&mut Store::new(0))),
        "this program was made for another store; run it with the store that it was made with"
    );
    program.run(&mut store).unwrap();
    assert_eq!(program.f32("y").unwrap(), [2.0; 6]);
    assert_eq!(program.dims("y").unwrap().to_vec(), [2, 3]);
    assert_eq!(text(program.f32("yy")), "no output or tap is called `yy`; did you mean `y`?");
    assert_eq!(text(program.dims("yy")), "no output or tap is called `yy`; did you mean `y`?");
    assert_eq!(text(program.array("yy")), "no output or tap is called `yy`; did you mean `y`?");
    assert_eq!(text(program.i32("y")), "`y` is f32, expected i32; ask for it in its own dtype");
    assert_eq!(
        text(program.scalar("y")),
        "`y` is 6 numbers, expected a single number; ask for it in its own dtype"
    );
    assert_eq!(
        text(program.f32("product")),
        "program: `product` was not kept; name it in `keep` when making the program"
    );
    assert_eq!(
        text(program.f32("weight")),
        "program: `weight` was not kept; it lives in the store: read it there by its own name"
    );
}

#[test]
fn the_store() {
    let mut store = Store::new(0);
    program(&mut store);
    assert_eq!(text(store.f32("weigh")), "no parameter or state is called `weigh`; did you mean `weight`?");
    assert_eq!(text(store.array("weigh")), "no parameter or state is called `weigh`; did you mean `weight`?");
    assert_eq!(text(store.fact("weigh")), "no parameter or state is called `weigh`; did you mean `weight`?");
    assert_eq!(
        text(store.version("weigh")),
        "no parameter or state is called `weigh`; did you mean `weight`?"
    );
    assert_eq!(
        text(store.set_f32("weight", &[1.0])),
        "`weight` is 1 numbers, expected 3 for f32 [3]; feed what the graph declares"
    );
    assert_eq!(
        text(store.set_array("weight", &Array::scalar(1.0))),
        "`weight` is [], expected f32 [3]; feed what the graph declares"
    );
    let before = store.version("weight").unwrap();
    store.set_f32("weight", &[1.0, 2.0, 3.0]).unwrap();
    assert_eq!(store.version("weight").unwrap(), before + 1);

    let mut g = Graph::new();
    let weight = g.parameter("weight", [4], Init::Ones).unwrap();
    g.output("y", weight).unwrap();
    let cpu = Cpu::with(1, regard_device::Level::best()).unwrap();
    assert_eq!(
        text(Program::new(g, &[], &mut store, &cpu)),
        "`weight` is f32 [3] in the store, the graph declares f32 [4]; use another store or another name"
    );

    let mut g = Graph::new();
    let state = g.state("count", DType::I32, [1], Init::Zeros).unwrap();
    g.output("y", state).unwrap();
    Program::new(g, &[], &mut store, &cpu).unwrap();
    assert_eq!(text(store.f32("count")), "`count` is i32, expected f32; ask for it in its own dtype");
    assert_eq!(
        text(store.set_f32("count", &[1.0])),
        "`count` is i32, expected f32; ask for it in its own dtype"
    );
    assert_eq!(
        text(store.set_array("count", &Array::new(&[1], vec![0.5]).unwrap())),
        "`count` is 0.5, expected i32 numbers; feed what the graph declares"
    );
}

#[test]
fn making_a_program() {
    let cpu = Cpu::with(1, regard_device::Level::best()).unwrap();
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [1]).unwrap();
    g.output("y", x).unwrap();
    assert_eq!(
        text(Program::new(g, &["loss"], &mut Store::new(0), &cpu)),
        "no output or tap is called `loss`; there are `y`"
    );
    assert!(text(Cpu::with(0, regard_device::Level::best())).contains("thread"));
}

#[test]
fn the_reference() {
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [2]).unwrap();
    let ids = g.input("ids", DType::I32, [1]).unwrap();
    let weight = g.parameter("weight", [2], Init::Ones).unwrap();
    let y = g.mul(x, weight).unwrap();
    g.output("y", y).unwrap();
    g.output("ids", ids).unwrap();
    let two = || Array::new(&[2], vec![1.0, 2.0]).unwrap();
    let one = |x: f64| Array::new(&[1], vec![x]).unwrap();
    let feed = |ids: f64| Feed::new().with("x", two()).with("ids", one(ids));
    assert_eq!(run(&g, &feed(3.0), Mode::Exact).unwrap().value(y).data(), [1.0, 2.0]);
    assert_eq!(
        text(regard_engine::reference::run(&g, &Feed::new().with("x", two()), Mode::Exact)),
        "input `ids` (i32 [1]) was never fed; set it before the run"
    );
    assert_eq!(
        text(run(&g, &feed(0.5), Mode::Exact)),
        "`ids` is 0.5, expected i32 numbers; feed what the graph declares"
    );
    assert_eq!(
        text(run(&g, &feed(1.0).with_stored("weight", one(1.0)), Mode::Exact)),
        "`weight` is [1], expected f32 [2]; feed what the graph declares"
    );
    assert_eq!(
        text(feed(1.0).with("x", one(1.0)).sizes(&g)),
        "`x` is f32 [1], expected f32 [2]; feed what the graph declares"
    );
    let t = Letter::new('T', 2);
    assert_eq!(
        text(sizes_of(&[(t, 3)])),
        "size: T = 3 is over the bound 2 that the program was planned for; record it with a larger bound"
    );
}

#[test]
fn an_entry_is_declared_without_a_program() {
    let mut store = Store::new(3);
    store.declare("weight", [3], Init::Ones).unwrap();
    assert_eq!(store.f32("weight").unwrap(), [1.0; 3]);
    store.set_f32("weight", &[1.0, 2.0, 3.0]).unwrap();
    store.declare("weight", [3], Init::Zeros).unwrap();
    assert_eq!(store.f32("weight").unwrap(), [1.0, 2.0, 3.0], "what is there stays");
    program(&mut store);
    assert_eq!(store.f32("weight").unwrap(), [1.0, 2.0, 3.0], "a program finds it");
    assert_eq!(
        text(store.declare("weight", [4], Init::Ones)),
        "`weight` is f32 [3] in the store, the graph declares f32 [4]; use another store or another name"
    );
    let mut g = Graph::new();
    let b = g.open('B', 4).unwrap();
    assert_eq!(
        text(store.declare("table", shape![b, 2], Init::Zeros)),
        "`table` is [B 2] with open letters; an entry of the store has fixed sizes"
    );
    let open = Fact { dtype: DType::I32, shape: shape![b, 2] };
    assert_eq!(
        text(store.declare_fact("count", &open, Init::Zeros)),
        "`count` is [B 2] with open letters; an entry of the store has fixed sizes"
    );
    assert_eq!(store.names().collect::<Vec<_>>(), ["weight"]);
}

/// Where there is a card, there is no hundredth.
#[test]
fn a_card_that_is_not_there_is_told() {
    for opened in [regard_engine::Cuda::new(99), regard_engine::Cuda::with(99, true)] {
        let text = opened.err().unwrap().to_string();
        let sentences =
            ["driver", "there is no card 99: this machine has", "sees no card", "install it with"];
        assert!(sentences.iter().any(|part| text.contains(part)), "{text}");
    }
}

#[test]
fn what_a_card_does_not_compute_is_told() {
    let whole = regard_engine::Error::from(regard_ops::NotYet::op("softplus"));
    assert_eq!(whole.to_string(), "softplus is not computed on CUDA cards yet; use the CPU");
    let setting = regard_ops::NotYet { op: "slice", what: "a start on the card".into() };
    assert_eq!(
        setting.to_string(),
        "slice is not computed on CUDA cards yet (a start on the card); use the CPU"
    );
}
