//! Comparisons with broadcasting: `a < b`, `a ≤ b`, `a = b` of two integers or two floats give booleans.
//! As IEEE has it, nothing compares with NaN. No gradient: booleans carry none.

mod cpu;

use crate::broadcast::{Walk, broadcast_reach, broadcast_shape};
use crate::{CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, Record, ReferenceCall, Request};
use regard_graph::*;

/// Which comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// a < b
    Less,
    /// a ≤ b
    LessEqual,
    /// a = b
    Equal,
}

impl Comparison {
    #[inline(always)]
    fn holds<T: PartialOrd>(self, a: T, b: T) -> bool {
        match self {
            Comparison::Less => a < b,
            Comparison::LessEqual => a <= b,
            Comparison::Equal => a == b,
        }
    }

    /// In CUDA C++.
    fn expression(self) -> &'static str {
        match self {
            Comparison::Less => "x0 < x1",
            Comparison::LessEqual => "x0 <= x1",
            Comparison::Equal => "x0 == x1",
        }
    }
}

/// `out = a ∘ b`, broadcast, as booleans.
#[derive(Clone, Copy, Debug)]
pub struct Compare {
    /// Which comparison.
    pub comparison: Comparison,
}

/// Records comparisons.
pub trait CompareOps {
    /// a < b, broadcast.
    fn less(&mut self, a: Var, b: Var) -> Result<Var>;
    /// a ≤ b, broadcast.
    fn less_equal(&mut self, a: Var, b: Var) -> Result<Var>;
    /// a = b, broadcast.
    fn equal(&mut self, a: Var, b: Var) -> Result<Var>;
}

impl CompareOps for Graph {
    fn less(&mut self, a: Var, b: Var) -> Result<Var> {
        self.apply_one(Compare { comparison: Comparison::Less }, &[a, b])
    }

    fn less_equal(&mut self, a: Var, b: Var) -> Result<Var> {
        self.apply_one(Compare { comparison: Comparison::LessEqual }, &[a, b])
    }

    fn equal(&mut self, a: Var, b: Var) -> Result<Var> {
        self.apply_one(Compare { comparison: Comparison::Equal }, &[a, b])
    }
}

impl Op for Compare {
    fn name(&self) -> &'static str {
        match self.comparison {
            Comparison::Less => "less",
            Comparison::LessEqual => "less_equal",
            Comparison::Equal => "equal",
        }
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn operands(&self) -> Vec<&'static str> {
        vec!["a", "b"]
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        let kind = |dtype: DType| (dtype.is_float(), dtype == DType::I32);
        let (a, b) = (inputs[0].dtype, inputs[1].dtype);
        let wrong = match (kind(a), kind(b)) {
            ((false, false), _) => Some(("a", a, "i32, f32 or bf16")),
            (_, (false, false)) => Some(("b", b, "i32, f32 or bf16")),
            (a, b) if a != b => {
                Some(("b", inputs[1].dtype, if a.0 { "f32 or bf16 as a" } else { "i32 as a" }))
            }
            _ => None,
        };
        if let Some((operand, dtype, expected)) = wrong {
            return Err(Error::DType {
                op: self.name().into(),
                operand: operand.into(),
                got: dtype.to_string(),
                expected: expected.into(),
                advice: "integers compare with integers, floats with floats".into(),
            });
        }
        let shape = broadcast_shape(self.name(), ["a", "b"], &inputs[0].shape, &inputs[1].shape)?;
        Ok(vec![Fact::new(shape, DType::Bool)])
    }

    fn aliases(&self) -> Vec<Alias> {
        Vec::new()
    }

    fn derivative(&self, _input: usize) -> Derivative {
        Derivative::Zero
    }

    fn gradient(&self, _g: &mut Graph, _tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        Ok(vec![None, None])
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        let flops = call.outputs[0].count() as u64;
        Work { macs: 0, flops, read: call.bytes_in(), written: call.bytes_out() }
    }

    fn reach(&self, call: &Concrete<'_>, _output: usize, input: usize) -> Relation {
        Relation::Axes(broadcast_reach(call.inputs[input], call.outputs[0]))
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        Layout::elementwise(call, output)
    }
}

impl Kernels for Compare {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        let [a, b] = [call.inputs[0], call.inputs[1]];
        let out = call.outputs[0].dims();
        let (walk_a, walk_b) = (Walk::new(a.dims(), out), Walk::new(b.dims(), out));
        for i in 0..out.count() {
            let (x, y) = (a.data()[walk_a.flat(i)], b.data()[walk_b.flat(i)]);
            call.outputs[0].data_mut()[i] = f64::from(self.comparison.holds(x, y));
            call.count_flops(1);
        }
        Ok(())
    }

    fn cpu_work(&self, call: &Concrete<'_>) -> Work {
        self.cost(call)
    }

    fn needs(&self, _request: &Request<'_>) -> Needs {
        Needs::default()
    }

    fn cpu(&self, call: &CpuCall<'_>) -> std::result::Result<(), Fault> {
        cpu::run(self.comparison, call);
        Ok(())
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        Ok(call.map(self.comparison.expression(), &[]))
    }
}
