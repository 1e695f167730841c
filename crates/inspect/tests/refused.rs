//! What cannot be asked is refused in a sentence that says what to do; and what can be told of a program
//! without a clock.

use regard_device::{Ceilings, Level};
use regard_engine::{Cpu, Program, Store};
use regard_graph::{DType, Graph, Init, Precision, shape};
use regard_inspect::audit::{Along, Execution, Turn, compare_looked};
use regard_inspect::look::{self, Attention, attentions};
use regard_inspect::price::{Calibration, Cards, clock, crossovers, memory, predict};
use regard_inspect::{ProofCase, Stream, keep_heads, patch_heads, patched, rewrite, sight};
use regard_ops::prelude::*;
use regard_ops::{Array, LinearOptions, WeightsRequest};

const LENGTH: usize = 5;

/// A projection, two heads of attention over it, and the sum of both.
fn graph(length: usize) -> Graph {
    let mut g = Graph::inference();
    let x = g.input("x", DType::F32, [1, length, 8]).unwrap();
    let weight = g.parameter("weight", [8, 8], Init::Normal(0.5)).unwrap();
    let y = g.linear(x, weight, LinearOptions::default()).unwrap();
    let heads = g.reshape(y, [1, length, 2, 4]).unwrap();
    let spec = regard_ops::Attention::default();
    let mixed = g.scope("block.0.attention", |g| g.attention(heads, heads, heads, &spec)).unwrap();
    let mixed = g.reshape(mixed.y, [1, length, 8]).unwrap();
    let z = g.add(y, mixed).unwrap();
    g.output("hidden", z).unwrap();
    g
}

fn cpu() -> Cpu {
    Cpu::with(2, Level::best()).unwrap()
}

fn numbers(length: usize, seed: usize) -> Vec<f32> {
    (0..length * 8).map(|i| ((i * 37 + seed * 11) % 19) as f32 / 19.0 - 0.5).collect()
}

fn program(graph: Graph, length: usize, seed: usize, store: &mut Store) -> Program {
    let mut program = Program::new(graph, &[], store, &cpu()).unwrap();
    program.set_f32("x", &[1, length, 8], &numbers(length, seed)).unwrap();
    program
}

fn text<T>(result: regard_inspect::Result<T>) -> String {
    result.err().unwrap().to_string()
}

#[test]
fn heads_and_rows_that_are_not_there() {
    let g = graph(LENGTH);
    let [attention]: [Attention; 1] = attentions(&g).try_into().unwrap();
    assert_eq!((attention.name.as_str(), attention.heads), ("block.0.attention", 2));
    let nobody = [(attention.clone(), 2)];
    let wanted = "`block.0.attention` has no head 2; its heads are 0 to 1";
    assert_eq!(text(patch_heads(&g, &nobody)), wanted);
    assert_eq!(text(keep_heads(&mut graph(LENGTH), &nobody)), wanted);

    let mut store = Store::new(3);
    let stranger = Attention { node: 0, ..attention.clone() };
    let message = text(look::ask(&mut graph(LENGTH), &stranger, &[0]));
    assert!(message.starts_with("attention_weights: "), "{message}");
    let mut plain = program(graph(LENGTH), LENGTH, 0, &mut store);
    plain.run(&mut store).unwrap();
    let message = text(look::maps(&plain, &attention, &[0]));
    assert!(message.starts_with("no output or tap is called `look.block.0.attention`"), "{message}");
    let mut asked = graph(LENGTH);
    look::ask(&mut asked, &attention, &[0]).unwrap();
    let mut asked = program(asked, LENGTH, 0, &mut store);
    asked.run(&mut store).unwrap();
    assert_eq!(look::maps(&asked, &attention, &[0]).unwrap().len(), 2);
    assert_eq!(
        text(look::maps(&asked, &attention, &[0, 1])),
        "`look.block.0.attention` has 10 weights, 2 rows of it need 20; read the rows that were asked for"
    );
}

#[test]
fn patches_of_another_length_are_refused() {
    let (g, mut store) = (graph(LENGTH), Store::new(3));
    let head = [(attentions(&g).remove(0), 1)];
    let mut target = program(patch_heads(&g, &head).unwrap(), LENGTH, 0, &mut store);
    let mut longer = graph(LENGTH + 1);
    let its_head = [(attentions(&longer).remove(0), 1)];
    keep_heads(&mut longer, &its_head).unwrap();
    let mut longer = program(longer, LENGTH + 1, 0, &mut store);
    assert!(text(patched(&mut target, &longer, &head)).contains("run the program first"));
    longer.run(&mut store).unwrap();
    let mut plain = program(graph(LENGTH), LENGTH, 0, &mut store);
    let message = text(patched(&mut plain, &longer, &head));
    assert_eq!(message, "no input is called `patch.block.0.attention`; there are `x`");
    assert_eq!(
        text(patched(&mut target, &longer, &head)),
        "`block.0.attention` says [1 6 2 4] in the other run and [1 5 2 4] in this one; heads are taken position by \
         position: run both on as many texts of as many tokens"
    );
}

#[test]
fn an_edit_keeps_shape_and_dtype() {
    let message = text(rewrite(&graph(LENGTH), |new, _, results| {
        let other = new.fill(DType::F32, [3], 0.0)?;
        Ok(results.iter().map(|_| other).collect())
    }));
    assert!(message.ends_with("its edit f32 [3]; keep shape and dtype"), "{message}");
}

#[test]
fn streams_that_are_not_there() {
    let case = ProofCase {
        graph: graph(LENGTH),
        batch: 1,
        streams: vec![Stream::whole("x", 1, LENGTH)],
        known: Vec::new(),
    };
    assert_eq!(sight(&case, "x").unwrap()[0].ahead, LENGTH - 1);
    assert_eq!(text(sight(&case, "ids")), "no stream is called `ids`; there are `x`");
}

#[test]
fn a_look_that_fails_is_told() {
    let places = (0..LENGTH).map(|t| Some((0, t))).collect();
    let inputs = Array::new(&[1, LENGTH, 8], numbers(LENGTH, 0).into_iter().map(f64::from).collect());
    let turn = Turn {
        inputs: vec![("x".into(), inputs.unwrap())],
        batch: 1,
        streams: vec![Along { name: "x".into(), length: LENGTH, places }],
    };
    let execution = Execution::once("alone", || Ok(graph(LENGTH)), turn);
    let look = |g: &mut Graph| {
        g.weights_of(0, WeightsRequest::Rows(vec![0]))?;
        Ok(())
    };
    let message = text(compare_looked(&execution, look, &mut Store::new(3), &cpu()));
    assert!(message.starts_with("attention_weights: "), "{message}");
}

/// A machine with round numbers.
fn at_best() -> Cards {
    Cards::at_best(Ceilings { gflops: 2.0, gbytes: 1.0 }, &[(1024, 4.0), (1 << 30, 4.0)])
}

#[test]
fn sizes_that_are_open_have_no_price() {
    let mut g = Graph::inference();
    let t = g.open('T', 7).unwrap();
    let x = g.input("x", DType::F32, shape![1, t, 8]).unwrap();
    let y = g.add(x, x).unwrap();
    g.output("y", y).unwrap();
    let message = text(predict(&g, &at_best()));
    assert!(message.contains("T"), "{message}");
    assert_eq!(message, text(crossovers(&g)));
}

#[test]
fn memory_that_no_machine_has() {
    let mut g = Graph::inference();
    let x = g.input("x", DType::F32, [1 << 30, 1 << 30]).unwrap();
    let y = g.add(x, x).unwrap();
    g.output("y", y).unwrap();
    let message = text(memory(g, &cpu()));
    assert!(message.starts_with("plan: "), "{message}");
}

#[test]
fn runs_that_are_none() {
    let mut store = Store::new(3);
    let mut program = program(graph(LENGTH), LENGTH, 0, &mut store);
    assert_eq!(
        text(clock(&mut program, &mut store, 2, 1.0, (0, 3))),
        "between 0 and 3 runs; ask for at least one, and for no fewer at the most than at the least"
    );
    let clocked = clock(&mut program, &mut store, 2, 0.0, (3, 9)).unwrap();
    assert_eq!(clocked.runs.len(), 3, "patience is over, but three were asked for");
    assert!(clocked.least() <= clocked.median() && clocked.median() <= clocked.most());
    let ran = program.plan().steps.len();
    assert_eq!(clocked.nodes.len(), ran);
}

#[test]
fn rates_of_no_round() {
    let message =
        Calibration::new(&cpu(), false, Precision::F32).cards().err().map(|error| error.to_string());
    assert_eq!(message.as_deref(), Some("no round of measuring rates; measure at least one"));
}

#[test]
fn a_price_at_best_is_the_roofline() {
    let prediction = predict(&graph(LENGTH), &at_best()).unwrap();
    let [linear, attention, add] = prediction.nodes.as_slice() else { panic!("{:?}", prediction.nodes) };
    assert_eq!([linear.row.op, attention.row.op], ["linear", "attention"]);
    // Of the product, panels of 32 are filled: 5 rows · 32 · 8, a multiply-add in a nanosecond.
    assert_eq!(linear.nanoseconds, (LENGTH * 32 * 8) as f64);
    // Of the sum, 40 numbers are read twice and written once, which counts twice; four bytes in a nanosecond.
    assert!((add.nanoseconds - 4.0 * 40.0).abs() < 1e-9, "{}", add.nanoseconds);
    let sum: f64 = prediction.nodes.iter().map(|node| node.nanoseconds).sum();
    assert_eq!(prediction.total, sum);
}

#[test]
fn planned_memory_is_that_of_the_program() {
    let mut store = Store::new(3);
    let own = program(graph(LENGTH), LENGTH, 0, &mut store).memory();
    assert_eq!(memory(graph(LENGTH), &cpu()).unwrap(), own);
    let mut bf16 = Graph::inference();
    bf16.set_precision(Precision::Bf16);
    let x = bf16.input("x", DType::F32, [64, 64]).unwrap();
    let weight = bf16.parameter("w", [64, 64], Init::Zeros).unwrap();
    let y = bf16.linear(x, weight, LinearOptions::default()).unwrap();
    bf16.output("y", y).unwrap();
    let planned = memory(bf16, &cpu()).unwrap();
    assert_eq!((planned.stored, planned.io), (64 * 64 * 4, 64 * 64 * (4 + 2)));
}
