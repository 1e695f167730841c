//! Caches: values by hand, both engines, what stays, faults before any write.

use regard_engine::check::{Case, Exactness};
use regard_engine::{Cpu, Feed, Program, Store, reference};
use regard_graph::{Graph, shape};
use regard_ops::Array;
use regard_ops::prelude::*;

fn case(cache: [usize; 4], new: [usize; 4], rows: bool, dtype: DType) -> Case<'static> {
    Case::new(move |g| {
        let state = g.state("cache", dtype, cache, Init::Constant(0.5))?;
        let new_values = g.input("new", DType::F32, new)?;
        let slot = g.input("slot", DType::I32, [new[0], new[1]])?;
        let row = rows.then(|| g.input("row", DType::I32, [new[0]])).transpose()?;
        Ok(vec![g.cache_write(state, new_values, slot, row)?])
    })
}

fn check(case: Case<'_>) {
    case.cpu(0.0).unwrap();
    case.cost().unwrap();
    case.reach(Exactness::Equal).unwrap();
}

#[test]
fn values_by_hand() {
    let mut g = Graph::new();
    let cache = g.state("cache", DType::F32, [3, 2, 1, 2], Init::Zeros).unwrap();
    let new = g.input("new", DType::F32, [2, 1, 1, 2]).unwrap();
    let slot = g.input("slot", DType::I32, [2, 1]).unwrap();
    let row = g.input("row", DType::I32, [2]).unwrap();
    let first = g.cache_write(cache, new, slot, None).unwrap();
    let second = g.cache_write(first, new, slot, Some(row)).unwrap();
    let feed = Feed::new()
        .with("new", Array::new(&[2, 1, 1, 2], vec![1.0, 2.0, 3.0, 4.0]).unwrap())
        .with("slot", Array::new(&[2, 1], vec![1.0, 0.0]).unwrap())
        .with("row", Array::new(&[2], vec![2.0, 0.0]).unwrap());
    let run = reference::run(&g, &feed, reference::Mode::Exact).unwrap();
    assert_eq!(run.value(first).data(), [0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(run.value(second).data(), [3.0, 4.0, 1.0, 2.0, 3.0, 4.0, 0.0, 0.0, 0.0, 0.0, 1.0, 2.0]);
}

#[test]
fn every_reader_agrees() {
    let slot = [4.0, 0.0, 2.0, 1.0, 2.0, 3.0];
    check(case([2, 5, 2, 3], [2, 3, 2, 3], false, DType::F32).given("slot", &[2, 3], &slot));
    let rows = case([4, 5, 1, 7], [2, 3, 1, 7], true, DType::F32).given("slot", &[2, 3], &slot);
    check(rows.given("row", &[2], &[3.0, 1.0]));
    check(case([1, 1, 1, 1], [1, 1, 1, 1], false, DType::F32).given("slot", &[1, 1], &[0.0]));
    check(case([1, 40, 3, 301], [1, 2, 3, 301], false, DType::F32).given("slot", &[1, 2], &[33.0, 1.0]));
    // Two examples share a row, in different slots.
    let shared = case([1, 4, 1, 2], [2, 1, 1, 2], true, DType::F32).given("slot", &[2, 1], &[3.0, 0.0]);
    check(shared.given("row", &[2], &[0.0, 0.0]));
}

#[test]
fn bf16_caches_round_what_they_take() {
    let slot = [1.0, 2.0];
    let case = case([2, 3, 1, 9], [2, 1, 1, 9], false, DType::BF16).given("slot", &[2, 1], &slot);
    case.cpu(0.0).unwrap();
}

#[test]
fn open_letters_and_nothing_to_write() {
    for t in [0, 1, 3] {
        let slot: Vec<f64> = (0..2 * t).map(|i| (i % t) as f64).collect();
        let case = Case::new(|g| {
            let t = g.open('T', 4)?;
            let cache = g.state("cache", DType::F32, [2, 6, 1, 2], Init::Ones)?;
            let new = g.input("new", DType::F32, shape![2, t, 1, 2])?;
            let slot = g.input("slot", DType::I32, shape![2, t])?;
            Ok(vec![g.cache_write(cache, new, slot, None)?])
        });
        check(case.size('T', t).given("slot", &[2, t], &slot));
    }
}

/// The fault of both engines; the CPU engine must have left the cache alone.
fn fault(slot: [f64; 4], row: [f64; 2]) -> String {
    let mut g = Graph::new();
    let cache = g.state("cache", DType::F32, [2, 3, 1, 1], Init::Zeros).unwrap();
    let new = g.input("new", DType::F32, [2, 2, 1, 1]).unwrap();
    let slots = g.input("slot", DType::I32, [2, 2]).unwrap();
    let rows = g.input("row", DType::I32, [2]).unwrap();
    let out = g.cache_write(cache, new, slots, Some(rows)).unwrap();
    g.output("out", out).unwrap();
    let feed = Feed::new()
        .with("new", Array::new(&[2, 2, 1, 1], vec![1.0; 4]).unwrap())
        .with("slot", Array::new(&[2, 2], slot.to_vec()).unwrap())
        .with("row", Array::new(&[2], row.to_vec()).unwrap());
    let expected = reference::run(&g, &feed, reference::Mode::Exact).err().unwrap().to_string();
    let mut store = Store::new(0);
    let mut program = Program::new(g, &[], &mut store, &Cpu::new().unwrap()).unwrap();
    for (name, array) in &feed.inputs {
        program.set_array(name, array).unwrap();
    }
    assert_eq!(program.run(&mut store).unwrap_err().to_string(), expected);
    assert_eq!(store.array("cache").unwrap().data(), [0.0; 6], "nothing was written");
    expected
}

#[test]
fn faults_come_before_any_write() {
    assert_eq!(
        fault([0.0, 1.0, 2.0, 3.0], [0.0, 1.0]),
        "cache_write: cache_write: slot[1 1] is 3, outside of S=3; feed slots from 0 to S−1: a ring takes the \
         position modulo S, otherwise record a longer cache"
    );
    assert_eq!(
        fault([0.0, 1.0, 2.0, 0.0], [0.0, -1.0]),
        "cache_write: cache_write: row[1] is -1, outside of R=2; feed rows from 0 to R−1"
    );
    let twice = "which was written before in row 1; give each slot of a row once";
    assert_eq!(
        fault([0.0, 1.0, 2.0, 2.0], [0.0, 1.0]),
        format!("cache_write: cache_write: slot[1 1] is 2, {twice}")
    );
    assert_eq!(
        fault([0.0, 1.0, 2.0, 0.0], [1.0, 1.0]),
        format!("cache_write: cache_write: slot[1 1] is 0, {twice}")
    );
}

#[test]
fn errors() {
    let mut g = Graph::new();
    let cache = g.state("cache", DType::F32, [2, 6, 1, 4], Init::Zeros).unwrap();
    let new = g.input("new", DType::F32, [3, 2, 1, 4]).unwrap();
    let narrow = g.input("narrow", DType::F32, [2, 2, 1, 3]).unwrap();
    let slot = g.input("slot", DType::I32, [3, 2]).unwrap();
    let row = g.input("row", DType::I32, [2]).unwrap();
    let fed = g.input("fed", DType::F32, [3, 6, 1, 4]).unwrap();
    let text = |result: regard_graph::Result<Var>| result.unwrap_err().to_string();
    assert_eq!(
        text(g.cache_write(cache, narrow, slot, None)),
        "cache_write: new is [2 2 1 3], expected [B T G=1 D=4]; G, D come from cache"
    );
    assert_eq!(
        text(g.cache_write(cache, new, slot, None)),
        "cache_write: new may have B=3 examples, the cache has R=2 rows; use a cache with a row for each \
         example, or give the rows"
    );
    assert_eq!(
        text(g.cache_write(cache, new, slot, Some(row))),
        "cache_write: row is [2], expected [B=3]; B comes from new"
    );
    assert_eq!(
        text(g.cache_write(cache, new, new, None)),
        "cache_write: slot is f32, expected i32; ids, positions and lengths are i32"
    );
    assert_eq!(
        text(g.cache_write(fed, new, slot, None)),
        "cache_write: cache is neither a parameter nor a state; only what lives in the store can be updated"
    );
}
