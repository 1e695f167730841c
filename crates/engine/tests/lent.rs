//! Weights that are only read: a store that is lent numbers holds none of them twice, gives the bits of one
//! that holds them, and lets go of what was lent as soon as somebody writes.

use regard_device::Level;
use regard_engine::{Cpu, Program, Store};
use regard_graph::{DType, Graph, Init, shape};
use regard_ops::prelude::*;
use regard_ops::{Lent, LinearOptions, Weights};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Numbers of a table or a weight, as f32 or as they lie in a file of bf16.
struct Numbers {
    numbers: Vec<f32>,
    bytes: Option<Vec<u8>>,
    passed: AtomicUsize,
}

impl Numbers {
    /// Numbers that bf16 holds.
    fn new(count: usize, in_bf16: bool) -> Arc<Numbers> {
        let numbers: Vec<f32> = (0..count).map(|i| (i * 37 % 101) as f32 / 64.0 - 0.75).collect();
        let narrow = |x: &f32| half::bf16::from_f32(*x).to_le_bytes();
        let bytes = in_bf16.then(|| numbers.iter().flat_map(narrow).collect());
        Arc::new(Numbers { numbers, bytes, passed: AtomicUsize::new(0) })
    }
}

impl Lent for Numbers {
    fn read(&self, range: Range<usize>, out: &mut [f32]) {
        out.copy_from_slice(&self.numbers[range]);
    }

    fn lies(&self) -> Option<(DType, &[u8])> {
        self.bytes.as_ref().map(|bytes| (DType::BF16, bytes.as_slice()))
    }

    fn passed(&self, range: Range<usize>) {
        self.passed.fetch_add(range.len(), Ordering::Relaxed);
    }
}

/// A table of tokens that is the output projection as well, with a norm between them.
fn network() -> Graph {
    let mut g = Graph::inference();
    let ids = g.input("ids", DType::I32, [3]).unwrap();
    let table = g.parameter("table", [70, 40], Init::Zeros).unwrap();
    let weight = g.parameter("norm", [40], Init::Zeros).unwrap();
    let x = g.embedding(table, ids, None).unwrap();
    let x = g.mul(x, weight).unwrap();
    let y = g.linear(x, table, LinearOptions::default()).unwrap();
    g.output("y", y).unwrap();
    g
}

fn run(store: &mut Store, cpu: &Cpu) -> Vec<f32> {
    let mut program = Program::new(network(), &[], store, cpu).unwrap();
    program.set_i32("ids", &[3], &[0, 69, 12]).unwrap();
    program.run(store).unwrap();
    program.f32("y").unwrap().to_vec()
}

#[test]
fn lent_weights_give_the_bits_of_held_ones_and_stay_where_they_are() {
    for in_bf16 in [false, true] {
        for weights in [Weights::Full, Weights::Bf16, Weights::Int8, Weights::Q8, Weights::Q4] {
            let (table, norm) = (Numbers::new(70 * 40, in_bf16), Numbers::new(40, in_bf16));
            let mut held = Store::new(0);
            held.hold_weights(weights);
            held.declare("table", [70, 40], Init::Zeros).unwrap();
            held.declare("norm", [40], Init::Zeros).unwrap();
            held.set_f32("table", &table.numbers).unwrap();
            held.set_f32("norm", &norm.numbers).unwrap();
            // The debug mode as well, which looks at every operand.
            for cpu in [Cpu::new().unwrap(), Cpu::checked(2, Level::best()).unwrap()] {
                let mut lent = Store::new(0);
                lent.hold_weights(weights);
                lent.lend("table", [70, 40], table.clone()).unwrap();
                lent.lend("norm", [40], norm.clone()).unwrap();
                assert_eq!(lent.bytes(), 0);
                assert_eq!(run(&mut lent, &cpu), run(&mut held, &cpu));
                assert_eq!(lent.bytes(), 40 * 4, "the norm alone is asked for as it was declared");
                assert_eq!(lent.f32("table").unwrap(), table.numbers.as_slice());
                assert_eq!(lent.bytes(), 40 * 4, "looking brings nothing to memory for good");
            }
            assert!(table.passed.load(Ordering::Relaxed) > 0);
        }
    }
}

#[test]
fn what_is_written_takes_the_place_of_what_was_lent() {
    let cpu = Cpu::new().unwrap();
    let mut store = Store::new(0);
    store.lend("table", [70, 40], Numbers::new(70 * 40, false)).unwrap();
    store.lend("norm", [40], Numbers::new(40, false)).unwrap();
    let first = run(&mut store, &cpu);
    let version = store.version("table").unwrap();
    let doubled: Vec<f32> = store.f32("table").unwrap().iter().map(|x| 2.0 * x).collect();
    store.set_f32("table", &doubled).unwrap();
    assert!(store.version("table").unwrap() > version);
    let second = run(&mut store, &cpu);
    assert!(second.iter().zip(&first).all(|(new, old)| *new == 4.0 * old));
    // And lent once more: what was held goes, copies follow.
    store.lend("table", [70, 40], Numbers::new(70 * 40, true)).unwrap();
    assert_eq!(run(&mut store, &cpu), first);
    assert_eq!(store.bytes(), 40 * 4);
}

#[test]
fn a_store_keeps_what_it_is_told_to() {
    let cpu = Cpu::new().unwrap();
    let mut store = Store::new(0);
    store.hold_weights(Weights::Q8);
    store.lend("table", [70, 40], Numbers::new(70 * 40, true)).unwrap();
    store.lend("norm", [40], Numbers::new(40, true)).unwrap();
    let first = run(&mut store, &cpu);
    store.declare("cache", [5], Init::Ones).unwrap();
    let packed = store.packed_bytes();
    let mut store = store.only(|name| name != "cache");
    assert_eq!(store.names().collect::<Vec<_>>(), ["table", "norm"]);
    assert_eq!((store.packed_bytes(), store.weights()), (packed, Weights::Q8));
    assert_eq!(run(&mut store, &cpu), first);
    assert_eq!(store.packed_bytes(), packed, "the copies are still there");
}

#[test]
fn what_cannot_be_lent_is_told() {
    let mut store = Store::new(0);
    store.declare("table", [3], Init::Ones).unwrap();
    assert_eq!(
        store.lend("table", [4], Numbers::new(4, false)).unwrap_err().to_string(),
        "`table` is f32 [3] in the store, the graph declares f32 [4]; use another store or another name"
    );
    let mut g = Graph::new();
    let b = g.open('B', 4).unwrap();
    assert_eq!(
        store.lend("other", shape![b, 2], Numbers::new(8, false)).unwrap_err().to_string(),
        "`other` is [B 2] with open letters; an entry of the store has fixed sizes"
    );
    assert_eq!(store.f32("table").unwrap(), [1.0; 3]);
}
