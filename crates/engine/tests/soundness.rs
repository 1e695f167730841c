//! What must hold whatever a safe caller does: memory is as large as the plan says when a kernel runs, and
//! numbers arrive as they were given.

use regard_engine::reference::{Mode, run};
use regard_engine::{Cpu, Error, Feed, Program, Store};
use regard_graph::{Graph, Letter, shape};
use regard_ops::Array;
use regard_ops::prelude::*;

fn cpu(threads: usize) -> Cpu {
    Cpu::with(threads, regard_device::Level::best()).unwrap()
}

fn text<T>(result: Result<T, impl std::fmt::Display>) -> String {
    match result {
        Ok(_) => panic!("an error was expected"),
        Err(error) => error.to_string(),
    }
}

/// y = x · x + x, with values in the arena.
fn square(size: usize, store: &mut Store, cpu: &Cpu) -> Result<Program, Error> {
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [1]).unwrap();
    let ones = g.fill(DType::F32, [size], 1.0).unwrap();
    let wide = g.add(ones, x).unwrap();
    let square = g.mul(wide, wide).unwrap();
    let both = g.add(square, wide).unwrap();
    let y = g.sum_all(both).unwrap();
    g.output("y", y).unwrap();
    Program::new(g, &[], store, cpu)
}

#[test]
fn a_program_survives_another_that_did_not_fit() {
    let (mut store, cpu) = (Store::new(0), cpu(1));
    let mut small = square(100_000, &mut store, &cpu).unwrap();
    // Forty values of 4 TiB at once: more than can be addressed, wherever this runs.
    let mut g = Graph::new();
    let many: Vec<Var> = (0..40).map(|_| g.fill(DType::F32, [(1 << 40) - 1], 1.0).unwrap()).collect();
    let all = many.iter().skip(1).fold(many[0], |sum, &one| g.add(sum, one).unwrap());
    let y = g.sum_all(all).unwrap();
    g.output("y", y).unwrap();
    let error = text(Program::new(g, &[], &mut store, &cpu));
    assert!(error.starts_with("out of memory: "), "{error}");
    assert!(cpu.arena_bytes().0 >= small.plan().arena_bytes, "the arena of the first program is gone");
    small.set_f32("x", &[1], &[1.0]).unwrap();
    small.run(&mut store).unwrap();
    assert_eq!(small.scalar("y").unwrap(), 600_000.0);
}

#[test]
fn the_scratch_of_every_thread_is_aligned() {
    for threads in [1, 2, 3, 5] {
        let cpu = cpu(threads);
        assert_eq!(cpu.arena_bytes().1 / threads % 64, 0, "{threads} threads");
    }
}

#[test]
fn a_letter_means_one_bound_in_all_of_a_graph() {
    let mut g = Graph::new();
    let b = g.open('B', 1 << 16).unwrap();
    let x = g.input("x", DType::F32, shape![b]).unwrap();
    let small = Letter::new('B', 1);
    let expected = "uses the letter B ≤ 1; declare it on this graph with `open`";
    assert_eq!(
        text(g.fill(DType::F32, shape![small], 1.0)),
        format!("fill: output 0 {expected}"),
        "planned for one number, filled with as many as x has"
    );
    let ids = g.input("ids", DType::I32, shape![b]).unwrap();
    assert_eq!(text(g.scatter_add(x, ids, 0, small)), format!("scatter_add: output 0 {expected}"));
    g.fill(DType::F32, shape![b], 1.0).unwrap();
}

#[test]
fn large_integers_arrive_as_they_are() {
    const LARGE: i32 = 16_777_217; // the first that f32 cannot hold
    let array = Array::new(&[2], vec![f64::from(LARGE), f64::from(i32::MAX)]).unwrap();
    let (mut store, cpu) = (Store::new(0), cpu(1));
    let mut g = Graph::new();
    let fixed = g.constant(DType::I32, [2], array.data()).unwrap();
    let state = g.state("state", DType::I32, [2], Init::Zeros).unwrap();
    let zeros = g.constant(DType::I32, [2], &[0.0; 2]).unwrap();
    let fixed = g.add_integers(fixed, zeros).unwrap();
    let kept = g.add_integers(state, zeros).unwrap();
    g.output("fixed", fixed).unwrap();
    g.output("kept", kept).unwrap();
    let feed = Feed::new().with_stored("state", array.clone());
    let reference = run(&g, &feed, Mode::Exact).unwrap();
    assert_eq!((reference.value(fixed), reference.value(kept)), (&array, &array));
    let mut program = Program::new(g, &[], &mut store, &cpu).unwrap();
    store.set_array("state", &array).unwrap();
    assert_eq!(store.array("state").unwrap(), array);
    program.run(&mut store).unwrap();
    assert_eq!(program.i32("fixed").unwrap(), [LARGE, i32::MAX]);
    assert_eq!(program.i32("kept").unwrap(), [LARGE, i32::MAX]);
}

#[test]
fn a_run_that_failed_leaves_nothing_to_read() {
    let (mut store, cpu) = (Store::new(0), cpu(1));
    let mut g = Graph::new();
    let table = g.parameter("table", [3, 2], Init::Ones).unwrap();
    let ids = g.input("ids", DType::I32, [1]).unwrap();
    let y = g.embedding(table, ids, None).unwrap();
    g.output("y", y).unwrap();
    let mut program = Program::new(g, &[], &mut store, &cpu).unwrap();
    program.set_i32("ids", &[1], &[1]).unwrap();
    program.run(&mut store).unwrap();
    assert_eq!(program.f32("y").unwrap(), [1.0, 1.0]);
    program.set_i32("ids", &[1], &[3]).unwrap();
    assert!(text(program.run(&mut store)).starts_with("embedding: embedding: "));
    assert_eq!(text(program.f32("y")), "program: `y` was not kept; run the program first");
}

#[test]
fn sizes_that_nothing_holds_are_refused_before_kernels_multiply_them() {
    let (mut store, cpu) = (Store::new(0), cpu(1));
    let mut g = Graph::new();
    let w = g.parameter("w", [1 << 40, 1 << 10], Init::Ones).unwrap();
    let y = g.sum_all(w).unwrap();
    g.output("y", y).unwrap();
    let expected = "plan: parameter `w`, f32 [1099511627776 1024], is [1099511627776 1024] large, more than any \
                    machine holds; lower the bounds of the open letters, or the fixed sizes";
    assert_eq!(text(Program::new(g, &[], &mut store, &cpu)), expected);
    assert_eq!(store.names().count(), 0, "nothing was made");
}

#[test]
fn the_reference_refuses_what_does_not_fit() {
    let mut g = Graph::new();
    let ones = g.fill(DType::F32, [1 << 50, 1 << 10], 1.0).unwrap();
    let y = g.sum_all(ones).unwrap();
    g.output("y", y).unwrap();
    let error = text(run(&g, &Feed::new(), Mode::Exact));
    assert!(error.starts_with("out of memory: "), "{error}");
    let mut g = Graph::new();
    let w = g.parameter("w", [1 << 50, 1 << 10], Init::Ones).unwrap();
    g.output("w", w).unwrap();
    let error = text(run(&g, &Feed::new(), Mode::Exact));
    assert!(error.starts_with("out of memory: "), "{error}");
}

#[test]
fn nodes_are_timed_when_asked_and_only_then() {
    let (mut store, cpu) = (Store::new(0), cpu(1));
    let mut program = square(100_000, &mut store, &cpu).unwrap();
    program.set_f32("x", &[1], &[1.0]).unwrap();
    program.run(&mut store).unwrap();
    assert_eq!(program.spent().count(), 0);
    program.measure();
    program.run(&mut store).unwrap();
    let once: u64 = program.spent().map(|(_, spent)| spent).sum();
    program.run(&mut store).unwrap();
    let twice: u64 = program.spent().map(|(_, spent)| spent).sum();
    assert!(0 < once && once < twice, "{once} {twice}");
    let names: Vec<&str> = program.spent().map(|(node, _)| program.graph().nodes()[node].op.name()).collect();
    assert_eq!(names.len(), program.graph().nodes().len());
    program.measure();
    assert_eq!(program.spent().map(|(_, spent)| spent).sum::<u64>(), 0);
}
