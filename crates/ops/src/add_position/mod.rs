//! Learned positions: `y[b, t] = x[b, t] + table[position[b, t]]`, where the position is t unless it is given
//! (cached decoding, left padding, packed sequences).

mod backward;
mod cpu;
mod cuda;

pub use backward::AddPositionBackward;

use crate::rows::{Target, check_indices, listed, pointed};
use crate::{
    CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, Record, ReferenceCall, Request, check_dtype,
    check_float,
};
use regard_graph::*;

/// `y[b, t, c] = x[b, t, c] + table[position[b, t], c]`.
#[derive(Clone, Copy, Debug)]
pub struct AddPosition {
    /// Whether positions are given; otherwise they are 0, 1, 2, …
    pub positions: bool,
}

/// Records learned positions.
pub trait AddPositionOps {
    /// Adds a row of a table to each row of x by its position. x `[B T C]`, table `[P C]` f32, position
    /// `[B T]` i32 (0, 1, 2, … if not given) → `[B T C]` in the dtype of x.
    fn add_position(&mut self, x: Var, table: Var, position: Option<Var>) -> Result<Var>;
}

impl AddPositionOps for Graph {
    fn add_position(&mut self, x: Var, table: Var, position: Option<Var>) -> Result<Var> {
        let inputs: Vec<Var> = [x, table].into_iter().chain(position).collect();
        self.apply_one(AddPosition { positions: position.is_some() }, &inputs)
    }
}

/// What the positions point into.
fn target(op: &'static str, size: usize) -> Target {
    Target { op, operand: "position", letter: "P", size, advice: "feed positions from 0 to P−1" }
}

/// Without positions, the table must be long enough for every T.
fn check_length(op: &str, t: &Dim, p: &Dim) -> Result<()> {
    match p.fixed() {
        Some(p) if t.bound() <= p => Ok(()),
        _ if t == p => Ok(()),
        _ => Err(Error::invalid(
            op,
            format!("the table has P={p} rows, x may have T={} positions", t.bound()),
            "use a longer table, or give the positions",
        )),
    }
}

impl Op for AddPosition {
    fn name(&self) -> &'static str {
        "add_position"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn operands(&self) -> Vec<&'static str> {
        if self.positions { vec!["x", "table", "position"] } else { vec!["x", "table"] }
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        let mut letters = Letters::new(self.name());
        check_float(self.name(), "x", inputs[0].dtype)?;
        check_dtype(self.name(), "table", inputs[1].dtype, DType::F32)?;
        letters.bind("x", &inputs[0].shape, "B T C")?;
        letters.bind("table", &inputs[1].shape, "P C")?;
        if self.positions {
            check_dtype(self.name(), "position", inputs[2].dtype, DType::I32)?;
            letters.bind("position", &inputs[2].shape, "B T")?;
        } else {
            check_length(self.name(), &inputs[0].shape[1], &inputs[1].shape[0])?;
        }
        Ok(vec![inputs[0].clone()])
    }

    fn aliases(&self) -> Vec<Alias> {
        vec![Alias::Reuse { output: 0, input: 0 }]
    }

    fn derivative(&self, input: usize) -> Derivative {
        if input < 2 { Derivative::Exists } else { Derivative::Zero }
    }

    fn gradient(&self, g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        let mut grads = vec![None; tape.inputs.len()];
        let Some(dy) = tape.grads[0] else { return Ok(grads) };
        grads[0] = Some(dy); // y = x + table[position], so dx = dy
        if tape.wanted[1] {
            let rows = g.shape(tape.inputs[1])[0].clone();
            let inputs: Vec<Var> = [dy].into_iter().chain(tape.inputs.get(2).copied()).collect();
            grads[1] = Some(g.apply_one(AddPositionBackward { positions: self.positions, rows }, &inputs)?);
        }
        Ok(grads)
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        let count = call.inputs[0].count() as u64;
        let positions = call.inputs.get(2).map_or(0, |dims| dims.count() as u64);
        let read = count * (call.input_dtypes[0].bytes() as u64 + 4) + positions * 4;
        Work { macs: 0, flops: count, read, written: call.bytes_out() }
    }

    fn reach(&self, call: &Concrete<'_>, _output: usize, input: usize) -> Relation {
        match (input, self.positions) {
            (0, _) => Relation::Same,
            // The table may be longer than T.
            (1, false) => Relation::Axes(vec![Along::Shifted { axis: 1, by: 0 }, Along::Same(2)]),
            (1, true) => {
                let lists = pointed(call.integers[2], call.inputs[1][0]);
                Relation::Axes(vec![listed(&[0, 1], lists), Along::Same(2)])
            }
            _ => Relation::Axes(vec![Along::Same(0), Along::Same(1)]),
        }
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        let layout = Layout::aligned(call, output, [0]).with(2, 1, 1);
        if self.positions { layout.leading(2, 2) } else { layout.with(1, 1, 0) }
    }
}

impl Kernels for AddPosition {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        let [x, table] = [call.inputs[0], call.inputs[1]];
        let t = x.dims()[1];
        if self.positions {
            let position = call.inputs[2];
            let numbers = position.data().iter().map(|&p| p as i64);
            check_indices(target(self.name(), table.dims()[0]), position.dims(), numbers)?;
        }
        for n in 0..x.dims().rows() {
            let position = if self.positions { call.inputs[2].data()[n] as usize } else { n % t };
            for (c, y) in call.outputs[0].row_mut(n).iter_mut().enumerate() {
                *y = x.row(n)[c] + table.row(position)[c];
            }
            call.count_flops(x.dims()[2]);
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
        let position = self.positions.then(|| call.i32(2));
        if let Some(position) = position {
            let numbers = position.iter().map(|&p| i64::from(p));
            check_indices(target(self.name(), call.dims(1)[0]), call.dims(2), numbers)?;
        }
        cpu::run(call, position);
        Ok(())
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        Ok(cuda::forward(self.name(), self.positions, call))
    }
}
