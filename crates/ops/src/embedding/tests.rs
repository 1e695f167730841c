//! Lookups in a table: values by hand, every reader, repeated and missing ids, ids outside.

use regard_engine::check::Case;
use regard_engine::{Cpu, Feed, Program, Store, reference};
use regard_graph::{Graph, shape};
use regard_ops::Array;
use regard_ops::prelude::*;

fn case<'a>(v: usize, c: usize, dims: &'a [usize]) -> Case<'a> {
    Case::new(move |g| {
        let table = g.parameter("table", [v, c], Init::Normal(1.0))?;
        let ids = g.input("ids", DType::I32, dims)?;
        Ok(vec![g.embedding(table, ids, None)?])
    })
}

#[test]
fn values_by_hand() {
    let mut g = Graph::new();
    let table = g.parameter("table", [3, 2], Init::Zeros).unwrap();
    let ids = g.input("ids", DType::I32, [2, 2]).unwrap();
    let out = g.embedding(table, ids, None).unwrap();
    let weight = g.input("weight", DType::F32, [2, 2, 2]).unwrap();
    let product = g.mul(out, weight).unwrap();
    let loss = g.sum_all(product).unwrap();
    let grad = g.gradient(loss, &[table]).unwrap()[0];
    let feed = Feed::new()
        .with("ids", Array::new(&[2, 2], vec![2.0, 0.0, 2.0, 2.0]).unwrap())
        .with("weight", Array::new(&[2, 2, 2], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]).unwrap())
        .with_stored("table", Array::new(&[3, 2], vec![0.5, 1.5, 2.5, 3.5, 4.5, 5.5]).unwrap());
    let run = reference::run(&g, &feed, reference::Mode::Exact).unwrap();
    assert_eq!(run.value(out).data(), [4.5, 5.5, 0.5, 1.5, 4.5, 5.5, 4.5, 5.5]);
    assert_eq!(run.value(grad).data(), [3.0, 4.0, 0.0, 0.0, 13.0, 16.0]);
}

#[test]
fn every_reader_agrees() {
    case(5, 3, &[2, 4]).given("ids", &[2, 4], &[4.0, 0.0, 4.0, 1.0, 1.0, 4.0, 3.0, 0.0]).all(5e-7).unwrap();
    case(1, 1, &[3]).given("ids", &[3], &[0.0, 0.0, 0.0]).all(5e-7).unwrap();
    case(4, 7, &[]).given("ids", &[], &[2.0]).all(5e-7).unwrap();
    // Wider than a buffer, and one id more often than a block of the sum has rows.
    let ids: Vec<f64> = (0..150).map(|i| if i % 3 == 0 { 1.0 } else { (i % 11) as f64 }).collect();
    case(11, 700, &[150]).given("ids", &[150], &ids).all(5e-7).unwrap();
}

#[test]
fn open_letters_and_nothing_at_all() {
    for size in [3, 1, 0] {
        let ids: Vec<f64> = (0..2 * size).map(|i| (i % 4) as f64).collect();
        let case = Case::new(|g| {
            let t = g.open('T', 8)?;
            let table = g.parameter("table", [4, 5], Init::Normal(1.0))?;
            let ids = g.input("ids", DType::I32, shape![2, t])?;
            Ok(vec![g.embedding(table, ids, None)?])
        });
        case.size('T', size).given("ids", &[2, size], &ids).all(5e-7).unwrap();
    }
}

#[test]
fn bf16_results() {
    let case = Case::new(|g| {
        let table = g.parameter("table", [6, 9], Init::Normal(1.0))?;
        let ids = g.input("ids", DType::I32, [5])?;
        let out = g.embedding(table, ids, Some(DType::BF16))?;
        assert_eq!(g.dtype(out), DType::BF16);
        Ok(vec![out])
    });
    case.given("ids", &[5], &[5.0, 0.0, 5.0, 2.0, 5.0]).cpu(1e-7).unwrap();
}

#[test]
fn the_gradient_has_a_gradient() {
    let case = Case::new(|g| {
        let dy = g.input_with_gradient("dy", [4, 3])?;
        let ids = g.input("ids", DType::I32, [4])?;
        let rows = regard_graph::Dim::from(5);
        Ok(vec![g.apply_one(regard_ops::EmbeddingBackward { rows }, &[dy, ids])?])
    });
    case.given("ids", &[4], &[1.0, 4.0, 1.0, 0.0]).all(5e-7).unwrap();
}

#[test]
fn a_large_gradient_is_zero_where_no_id_is() {
    // Rows of an odd length, more than the caches hold, whose memory has the sums of other ids from the run
    // before.
    let (rows, width) = (4200, 515);
    for threads in [1, 2] {
        let mut g = Graph::new();
        let dy = g.input("dy", DType::F32, [300, width]).unwrap();
        let ids = g.input("ids", DType::I32, [300]).unwrap();
        let sums = g.apply_one(regard_ops::EmbeddingBackward { rows: rows.into() }, &[dy, ids]).unwrap();
        g.output("sums", sums).unwrap();
        let mut store = Store::new(0);
        let cpu = Cpu::with(threads, regard_device::Level::best()).unwrap();
        let mut program = Program::new(g, &[], &mut store, &cpu).unwrap();
        program.set_array("dy", &Array::new(&[300, width], vec![1.0; 300 * width]).unwrap()).unwrap();
        for (first, step) in [(0, 1), (3899, 1), (1, 14), (4, 7)] {
            let ids: Vec<usize> = (0..300).map(|i| (first + i * step / 2).min(rows - 1)).collect();
            let mut expected = vec![0.0; rows];
            ids.iter().for_each(|&id| expected[id] += 1.0);
            let fed = ids.iter().map(|&id| id as f64).collect();
            program.set_array("ids", &Array::new(&[300], fed).unwrap()).unwrap();
            program.run(&mut store).unwrap();
            let sums = program.array("sums").unwrap();
            for (row, expected) in expected.iter().enumerate() {
                assert!(sums.row(row).iter().all(|sum| sum == expected), "{threads} threads, row {row}");
            }
        }
    }
}

#[test]
fn ids_outside_are_named() {
    for (bad, at) in [(7.0, "[1 0] is 7"), (-1.0, "[1 0] is -1"), (3.0, "[1 0] is 3")] {
        let expected = format!("embedding: embedding: ids{at}, outside of V=3; feed ids from 0 to V−1");
        let mut g = Graph::new();
        let table = g.parameter("table", [3, 2], Init::Ones).unwrap();
        let ids = g.input("ids", DType::I32, [2, 2]).unwrap();
        let out = g.embedding(table, ids, None).unwrap();
        g.output("out", out).unwrap();
        let fed = Array::new(&[2, 2], vec![0.0, 2.0, bad, 9.0]).unwrap();
        let feed = Feed::new().with("ids", fed.clone());
        let fault = reference::run(&g, &feed, reference::Mode::Exact).err().unwrap();
        assert_eq!(fault.to_string(), expected);
        let mut store = Store::new(0);
        let mut program = Program::new(g, &[], &mut store, &Cpu::new().unwrap()).unwrap();
        program.set_array("ids", &fed).unwrap();
        assert_eq!(program.run(&mut store).unwrap_err().to_string(), expected);
    }
}

#[test]
fn errors() {
    let mut g = Graph::new();
    let table = g.parameter("table", [3, 2], Init::Ones).unwrap();
    let flat = g.parameter("flat", [3], Init::Ones).unwrap();
    let ids = g.input("ids", DType::I32, [2]).unwrap();
    let many = g.input("many", DType::I32, [1, 1, 1, 1, 1, 1]).unwrap();
    let text = |result: regard_graph::Result<Var>| result.unwrap_err().to_string();
    assert_eq!(text(g.embedding(flat, ids, None)), "embedding: table is [3], expected [V C]");
    assert_eq!(
        text(g.embedding(table, table, None)),
        "embedding: ids is f32, expected i32; ids, positions and lengths are i32"
    );
    assert_eq!(
        text(g.embedding(ids, ids, None)),
        "embedding: table is i32, expected f32; parameters and statistics are f32"
    );
    assert_eq!(
        text(g.embedding(table, ids, Some(DType::Bool))),
        "embedding: output is bool, expected f32 or bf16; cast it to f32 first"
    );
    assert_eq!(
        text(g.embedding(table, many, None)),
        "embedding: ids has 6 axes, the result would have one more; at most 6 are supported; merge some with reshape"
    );
}
