//! The judge is judged: an op that lies to one reader is found out by the check of that reader, and the text
//! says what it claimed and what is so.

use regard_engine::check::{Case, Exactness};
use regard_engine::{Cpu, Error, Program, Store};
use regard_graph::*;
use regard_ops::prelude::*;
use regard_ops::{CHUNK, CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, ReferenceCall, Request};
use std::sync::Arc;

/// What the op lies about.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Defect {
    None,
    Numbers,
    Threads,
    Work,
    Slope,
    Reach,
    Axes,
}

/// `y = 2x`, with a lie.
#[derive(Debug)]
struct Double(Defect);

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
        Vec::new()
    }
    fn derivative(&self, _input: usize) -> Derivative {
        Derivative::Exists
    }
    fn gradient(&self, g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        let Some(dy) = tape.grads[0] else { return Ok(vec![None]) };
        Ok(vec![Some(g.scale(dy, if self.0 == Defect::Slope { 3.0 } else { 2.0 })?)])
    }
    fn cost(&self, call: &Concrete<'_>) -> Work {
        let flops = call.outputs[0].count() as u64 + u64::from(self.0 == Defect::Work);
        Work { flops, read: call.bytes_in(), written: call.bytes_out(), ..Work::default() }
    }
    fn reach(&self, _call: &Concrete<'_>, _output: usize, _input: usize) -> Relation {
        if self.0 == Defect::Reach { Relation::Nothing } else { Relation::Same }
    }
    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        if self.0 == Defect::Axes { Layout::own(call, output) } else { Layout::elementwise(call, output) }
    }
}

impl Kernels for Double {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        let x = call.inputs[0].data();
        call.outputs[0].data_mut().iter_mut().zip(x).for_each(|(y, x)| *y = 2.0 * x);
        call.count_flops(x.len());
        Ok(())
    }
    fn cpu_work(&self, call: &Concrete<'_>) -> Work {
        self.cost(call)
    }

    fn needs(&self, _request: &Request<'_>) -> Needs {
        Needs::default()
    }
    fn cpu(&self, call: &CpuCall<'_>) -> std::result::Result<(), Fault> {
        let by = match self.0 {
            Defect::Numbers => 2.5,
            // Within the bound, but not the same bits.
            Defect::Threads if call.pool.threads() > 1 => 2.0 + f32::EPSILON * 2.0,
            _ => 2.0,
        };
        call.chunks(call.out_dims(0).count(), |part| {
            let range = part.items();
            let mut x = [0.0; CHUNK];
            let x = &mut x[..range.len()];
            part.load(0, range.clone(), x);
            x.iter_mut().for_each(|x| *x *= by);
            part.store(0, range, x);
        });
        Ok(())
    }

    fn cuda(&self, _call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        Err(NotYet::op(self.name()))
    }
}

fn case(defect: Defect) -> Case<'static> {
    Case::new(move |g| {
        let x = g.input_with_gradient("x", [3])?;
        Ok(vec![g.apply_one(Double(defect), &[x])?])
    })
}

fn message<T>(result: std::result::Result<T, Error>) -> String {
    match result {
        Ok(_) => panic!("the lie was not found"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn an_honest_op_passes() {
    case(Defect::None).all(1e-7).unwrap();
}

#[test]
fn every_lie_is_found() {
    let text = message(case(Defect::Numbers).cpu(1e-5));
    assert!(text.contains(" is off by ") && text.contains("; bound 1.00e-5"), "{text}");
    let text = message(case(Defect::Threads).cpu(1e-5));
    assert!(text.contains(" has other bits at ") && text.ends_with(" threads than at portable, 1"), "{text}");
    let expected =
        "cost: double is said to take 0 multiply-adds and 4 other operations, the reference did 0 and 3";
    assert_eq!(message(case(Defect::Work).cost()), expected);
    let text = message(case(Defect::Slope).gradients());
    assert!(
        text.starts_with("gradients: d/dx[0] is ") && text.contains(", central differences give "),
        "{text}"
    );
    let text = message(case(Defect::Reach).reach(Exactness::Safe));
    assert!(text.starts_with("reach: x[0] changes output 0[0], reach says that it "), "{text}");
    let text = message(case(Defect::Axes).reach(Exactness::Safe));
    assert!(text.ends_with("and its axes do not say so; mend `axes` or `reach` of double"), "{text}");
}

#[test]
fn a_bound_that_lets_a_broken_gradient_pass_is_refused() {
    let column = Case::new(|g| {
        let x = g.input_with_gradient("x", [400, 1])?;
        Ok(vec![g.apply_one(Double(Defect::None), &[x])?])
    });
    column.cpu(1e-7).unwrap();
    let expected = "cpu: the gradient of x would pass, a row left out: a bound of 5.00e0 is too loose for it";
    assert_eq!(message(column.cpu(5.0)), expected);
}

#[test]
fn a_case_that_checks_nothing_is_refused() {
    let constant = Case::new(|g| Ok(vec![g.fill(DType::F32, [2], 1.0)?]));
    assert_eq!(message(constant.gradients()), "gradients: nothing in the case can be differentiated");
    let ids = Case::new(|g| {
        let ids = g.input("ids", DType::I32, [2])?;
        Ok(vec![g.add_integers(ids, ids)?])
    });
    assert_eq!(message(ids.forward()), "case: the i32 input `ids` must be given");
    assert_eq!(message(ids.backward()), "case: the i32 input `ids` must be given");
    assert_eq!(message(ids.all(1e-6)), "case: the i32 input `ids` must be given");
    let mut g = Graph::new();
    g.open('T', 2).unwrap();
    assert_eq!(
        message(Case::new(|_| Ok(vec![])).size('T', 3).sizes(&g)),
        "size: T = 3 is over the bound 2 that the program was planned for; record it with a larger bound"
    );
    let feed = regard_engine::Feed::new().with_stored("w", regard_ops::Array::scalar(1.0));
    let filled = regard_engine::check::fill_store(&mut regard_engine::Store::new(0), &feed);
    assert_eq!(message(filled), "no parameter or state is called `w`; there is no parameter or state here");
}

#[test]
fn an_op_without_kernels_is_refused() {
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [3]).unwrap();
    let y = g.record(Arc::new(Double(Defect::None)), Arc::new(()), &[x]).unwrap()[0];
    g.output("y", y).unwrap();
    let expected = "program: node `double` has no kernels; record it with `Record::apply`";
    let feed = regard_engine::Feed::new().with("x", regard_ops::Array::new(&[3], vec![1.0; 3]).unwrap());
    let mode = regard_engine::reference::Mode::Exact;
    assert_eq!(message(regard_engine::reference::run(&g, &feed, mode)), expected);
    let (sizes, integers) = (regard_graph::Sizes::none(), regard_graph::Integers::none());
    assert_eq!(message(Cpu::executed(&g, &sizes, &integers, None)), expected);
    let device = regard_engine::Device::from(Cpu::new().unwrap());
    assert_eq!(message(device.executed(&g, &sizes, &integers, None)), expected);
    assert_eq!(message(Program::new(g, &[], &mut Store::new(0), &Cpu::new().unwrap())), expected);
}
