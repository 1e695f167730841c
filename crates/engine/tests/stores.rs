//! Kernels that break the rules of memory: what safe code tries is refused where it happens, what unsafe code
//! or a mistake does is found by the debug mode (`Cpu::checked`), and an op that changes its mind about
//! shared memory is not asked twice.

#![allow(unsafe_code)]

use regard_device::Level;
use regard_engine::check::Case;
use regard_engine::{Cpu, Error, Program, Store};
use regard_graph::*;
use regard_ops::prelude::*;
use regard_ops::{CHUNK, CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, ReferenceCall, Request};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

/// What the kernel does wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wrong {
    None,
    /// Looks at the whole operand under its result.
    LooksUnder,
    /// Loads what another task stores.
    LoadsFromOthers,
    /// Stores what another task has.
    StoresToOthers,
    /// Begins a run over all elements inside of a run over all elements.
    RunsInside,
    /// Every task stores the first element, too, by unsafe means.
    Meets,
    /// Leaves the last element out.
    Skips,
    /// Adds to what lies in the result.
    Adds,
    /// Takes a number out of scratch that nobody put there.
    TakesScratch,
    /// Loads its operand again after it has stored over it.
    LoadsLate,
    /// Writes to its operand.
    WritesOperand,
}

/// `y = 2x`, over x where possible.
#[derive(Debug)]
struct Double(Wrong);

impl Op for Double {
    fn name(&self) -> &'static str {
        "double"
    }
    fn attributes(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
    fn operands(&self) -> Vec<&'static str> {
        vec!["x"]
    }
    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        Ok(vec![inputs[0].clone()])
    }
    fn aliases(&self) -> Vec<Alias> {
        match self.0 {
            Wrong::WritesOperand => Vec::new(),
            _ => vec![Alias::Reuse { output: 0, input: 0 }],
        }
    }
    fn derivative(&self, _input: usize) -> Derivative {
        Derivative::Zero
    }
    fn gradient(&self, _g: &mut Graph, _tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        Ok(vec![None])
    }
    fn cost(&self, _call: &Concrete<'_>) -> Work {
        Work::default()
    }
    fn reach(&self, _call: &Concrete<'_>, _output: usize, _input: usize) -> Relation {
        Relation::Same
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        Layout::elementwise(call, output)
    }
}

impl Kernels for Double {
    fn cpu_work(&self, call: &Concrete<'_>) -> Work {
        self.cost(call)
    }

    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        let x = call.inputs[0].data();
        call.outputs[0].data_mut().iter_mut().zip(x).for_each(|(y, x)| *y = 2.0 * x);
        Ok(())
    }
    fn needs(&self, _request: &Request<'_>) -> Needs {
        Needs { scratch: 256, thread_scratch: 4, ..Needs::default() }
    }
    fn cpu(&self, call: &CpuCall<'_>) -> std::result::Result<(), Fault> {
        let (wrong, count) = (self.0, call.out_dims(0).count());
        let under = if wrong == Wrong::LooksUnder { call.f32(0).len() } else { count };
        assert_eq!(under, count);
        if wrong == Wrong::RunsInside {
            call.chunks(count, |_| call.chunks(count, |part| part.own::<f32>(0).fill(1.0)));
        }
        if wrong == Wrong::WritesOperand {
            // SAFETY: none: this is the wrong. One thread writes to memory that is its own for the time.
            unsafe { call.f32(0).as_ptr().cast_mut().write(7.0) };
        }
        // SAFETY: only read, by tasks that write nowhere else.
        let scratch = unsafe { call.scratch_f32() }[0];
        call.blocks(count, 100, |part, own| {
            let mut x = [0.0; CHUNK];
            let x = &mut x[..part.len()];
            part.load(0, part.items(), x);
            x.iter_mut().for_each(|x| *x *= 2.0);
            if wrong == Wrong::LoadsFromOthers {
                part.load(0, 0..1, &mut [0.0]);
            }
            match wrong {
                Wrong::StoresToOthers => part.store(0, 0..part.len(), x),
                Wrong::Skips if part.items().end == count => {
                    part.store(0, part.first()..count - 1, &x[1..]);
                }
                Wrong::Adds => part.own::<f32>(0).iter_mut().zip(x).for_each(|(y, x)| *y += *x),
                Wrong::TakesScratch => {
                    x[0] += if count > 300 { own[0] } else { scratch };
                    part.store(0, part.items(), x);
                }
                Wrong::LoadsLate => {
                    part.store(0, part.items(), x);
                    part.load(0, part.items(), x);
                    x.iter_mut().for_each(|x| *x *= 2.0);
                    part.store(0, part.items(), x);
                }
                _ => part.store(0, part.items(), x),
            }
            if wrong == Wrong::Meets {
                // SAFETY: none: this is the wrong. The debug pool of one thread does the tasks one after the
                // other.
                unsafe { call.store(0, 0..1, &[1.0]) };
            }
        });
        Ok(())
    }

    fn cuda(&self, _call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        Err(NotYet::op(self.name()))
    }
}

/// y = 4x, so that the result can lie over its operand, on one thread.
fn run(wrong: Wrong, count: usize, cpu: &Cpu) -> std::result::Result<Vec<f32>, Error> {
    let mut g = Graph::inference();
    let x = g.input("x", DType::F32, [count])?;
    let more = g.scale(x, 2.0)?;
    let y = g.apply_one(Double(wrong), &[more])?;
    let y = g.scale(y, 1.0)?;
    g.output("y", y)?;
    let mut store = Store::new(0);
    let mut program = Program::new(g, &[], &mut store, cpu)?;
    program.set_f32("x", &[count], &vec![0.5; count])?;
    program.run(&mut store)?;
    Ok(program.f32("y")?.to_vec())
}

fn checked(wrong: Wrong, count: usize) -> String {
    let cpu = Cpu::checked(1, Level::best()).unwrap();
    match run(wrong, count, &cpu) {
        Ok(_) => panic!("{wrong:?} was not found"),
        Err(error) => error.to_string(),
    }
}

/// What a kernel that is refused says.
fn refused(wrong: Wrong) -> String {
    let cpu = Cpu::with(1, Level::best()).unwrap();
    let payload = catch_unwind(AssertUnwindSafe(|| run(wrong, 250, &cpu))).expect_err("was not refused");
    let text = payload.downcast_ref::<&str>().map(|text| text.to_string());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).expect("a panic has a text")
}

#[test]
fn an_honest_kernel_passes_and_is_the_same_when_watched() {
    for cpu in [Cpu::with(3, Level::best()).unwrap(), Cpu::checked(3, Level::best()).unwrap()] {
        assert_eq!(run(Wrong::None, 250, &cpu).unwrap(), [2.0; 250]);
    }
}

#[test]
fn safe_code_cannot_reach_what_others_store() {
    let under = "a result may lie over this operand, as `aliases` of the op says: load it through the part that stores there";
    assert_eq!(refused(Wrong::LooksUnder), format!("operand 0: {under}"));
    assert_eq!(
        refused(Wrong::LoadsFromOthers),
        format!("operand 0, elements 0..1, as items 100..200 of 250: {under}")
    );
    assert_eq!(
        refused(Wrong::StoresToOthers),
        "result 0: a task with items 100..200 of 250 stores elements 0..100, not all its own"
    );
    assert_eq!(
        refused(Wrong::RunsInside),
        "a run over parts begins while another one of the same call goes on: begin it when that is over"
    );
}

#[test]
fn the_debug_mode_finds_what_a_kernel_does_to_memory() {
    assert_eq!(
        checked(Wrong::Meets, 250),
        "stores: `double`: task 1 and task 0 of one run meet at byte 0 of result 0: both store it"
    );
    assert_eq!(checked(Wrong::Skips, 250), "stores: `double`: byte 996 of result 0 was never stored");
    let depends = "depends on what lay in its results or scratch before";
    assert!(checked(Wrong::Adds, 250).ends_with(depends));
    for count in [250, 350] {
        assert_eq!(
            checked(Wrong::TakesScratch, count),
            format!("stores: `double`: byte 0 of result 0 {depends}")
        );
    }
    assert!(
        checked(Wrong::LoadsLate, 250)
            .ends_with(" of result 0 is another one where the result lies over an operand")
    );
    assert!(checked(Wrong::WritesOperand, 250).ends_with(" of operand 0 was changed"));
}

#[test]
fn a_case_runs_in_the_debug_mode() {
    let case = |wrong: Wrong| {
        Case::new(move |g| {
            let x = g.input("x", DType::F32, [250])?;
            Ok(vec![g.apply_one(Double(wrong), &[x])?])
        })
    };
    case(Wrong::None).cpu(1e-6).unwrap();
    let error = case(Wrong::Meets).cpu(1e30).unwrap_err().to_string();
    assert!(error.starts_with("stores: `double`: task "), "{error}");
}

/// Says when it is recorded that its result is its operand under another shape, and from then on that it is
/// not.
#[derive(Debug)]
struct Fickle(AtomicBool);

impl Op for Fickle {
    fn name(&self) -> &'static str {
        "fickle"
    }
    fn attributes(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
    fn operands(&self) -> Vec<&'static str> {
        vec!["x"]
    }
    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        Ok(vec![inputs[0].clone()])
    }
    fn aliases(&self) -> Vec<Alias> {
        let asked = self.0.swap(true, Ordering::Relaxed);
        if asked {
            vec![Alias::View { output: 9, input: 9 }]
        } else {
            vec![Alias::View { output: 0, input: 0 }]
        }
    }
    fn derivative(&self, _input: usize) -> Derivative {
        Derivative::Zero
    }
    fn gradient(&self, _g: &mut Graph, _tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        Ok(vec![None])
    }
    fn cost(&self, _call: &Concrete<'_>) -> Work {
        Work::default()
    }
    fn reach(&self, _call: &Concrete<'_>, _output: usize, _input: usize) -> Relation {
        Relation::Same
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        Layout::elementwise(call, output)
    }
}

impl Kernels for Fickle {
    fn cpu_work(&self, call: &Concrete<'_>) -> Work {
        self.cost(call)
    }

    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        let x = call.inputs[0].data();
        call.outputs[0].data_mut().copy_from_slice(x);
        Ok(())
    }
    fn needs(&self, _request: &Request<'_>) -> Needs {
        Needs::default()
    }
    fn cpu(&self, _call: &CpuCall<'_>) -> std::result::Result<(), Fault> {
        Ok(())
    }

    fn cuda(&self, _call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        Err(NotYet::op(self.name()))
    }
}

#[test]
fn an_op_that_changes_its_aliases_is_not_asked_again() {
    let mut g = Graph::inference();
    let x = g.input("x", DType::F32, [1000]).unwrap();
    let more = g.scale(x, 2.0).unwrap();
    let same = g.apply_one(Fickle(AtomicBool::new(false)), &[more]).unwrap();
    let y = g.sum_all(same).unwrap();
    g.output("y", y).unwrap();
    let (mut store, cpu) = (Store::new(0), Cpu::checked(2, Level::best()).unwrap());
    let mut program = Program::new(g, &[], &mut store, &cpu).unwrap();
    program.set_f32("x", &[1000], &[1.0; 1000]).unwrap();
    program.run(&mut store).unwrap();
    assert_eq!(program.scalar("y").unwrap(), 2000.0);
}
