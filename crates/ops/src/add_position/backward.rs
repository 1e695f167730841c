//! The gradient of a table of positions: rows of dy added up by position.

use super::{check_length, cuda, target};
use crate::rows::check_indices;
use crate::rows::cpu::Scatter;
use crate::{
    CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, ReferenceCall, Request, check_dtype,
    check_float,
};
use regard_graph::*;

/// `out[p, c] = Σ dy[b, t, c]` over the places whose position is p.
#[derive(Clone, Debug)]
pub struct AddPositionBackward {
    /// Whether positions are given; otherwise they are 0, 1, 2, …
    pub positions: bool,
    /// P, the rows of the table.
    pub rows: Dim,
}

impl Op for AddPositionBackward {
    fn name(&self) -> &'static str {
        "add_position_backward"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        vec![("rows", self.rows.to_string())]
    }

    fn operands(&self) -> Vec<&'static str> {
        if self.positions { vec!["dy", "position"] } else { vec!["dy"] }
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        let mut letters = Letters::new(self.name());
        check_float(self.name(), "dy", inputs[0].dtype)?;
        letters.bind("dy", &inputs[0].shape, "B T C")?;
        if self.positions {
            check_dtype(self.name(), "position", inputs[1].dtype, DType::I32)?;
            letters.bind("position", &inputs[1].shape, "B T")?;
        } else {
            check_length(self.name(), &inputs[0].shape[1], &self.rows)?;
        }
        Ok(vec![Fact::f32(shape![&self.rows, &inputs[0].shape[2]])])
    }

    fn aliases(&self) -> Vec<Alias> {
        Vec::new()
    }

    fn derivative(&self, input: usize) -> Derivative {
        match input {
            0 => Derivative::Missing("second derivatives of add_position are not written"),
            _ => Derivative::Zero,
        }
    }

    fn gradient(&self, _g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        Ok(vec![None; tape.inputs.len()])
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        let flops = call.inputs[0].count() as u64;
        Work { macs: 0, flops, read: call.bytes_in(), written: call.bytes_out() }
    }

    fn reach(&self, call: &Concrete<'_>, _output: usize, input: usize) -> Relation {
        let [b, t, _] = [call.inputs[0][0], call.inputs[0][1], call.inputs[0][2]];
        if input == 1 {
            return Relation::Everything;
        }
        if !self.positions {
            // Rows of the table beyond T take nothing.
            return Relation::Axes(vec![Along::All, Along::Shifted { axis: 0, by: 0 }, Along::Same(1)]);
        }
        let Some(position) = call.integers[1] else {
            return Relation::Axes(vec![Along::All, Along::All, Along::Same(1)]);
        };
        let rows = call.outputs[0][0] as i64;
        let at = |p: i64, b: usize, t_: usize| position[b * t + t_] == p;
        let batches = (0..rows).map(|p| (0..b).filter(|&i| (0..t).any(|j| at(p, i, j))).collect());
        let times = (0..rows).map(|p| (0..t).filter(|&j| (0..b).any(|i| at(p, i, j))).collect());
        Relation::Axes(vec![
            Along::Listed { axes: vec![0], lists: batches.collect() },
            Along::Listed { axes: vec![0], lists: times.collect() },
            Along::Same(1),
        ])
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        let layout = Layout::own(call, output).with(1, 0, 2);
        if self.positions { layout } else { layout.with(0, 0, 1) }
    }
}

impl AddPositionBackward {
    fn scatter(&self, dy: Dims, out: Dims) -> Scatter {
        Scatter { outer: 1, batched: false, count: dy.rows(), size: out[0], inner: out[1] }
    }
}

impl Kernels for AddPositionBackward {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        let dy = call.inputs[0];
        if self.positions {
            let position = call.inputs[1];
            let numbers = position.data().iter().map(|&p| p as i64);
            check_indices(target(self.name(), call.outputs[0].dims()[0]), position.dims(), numbers)?;
        }
        for n in 0..dy.dims().rows() {
            let position = if self.positions { call.inputs[1].data()[n] as usize } else { n % dy.dims()[1] };
            for (sum, dy) in call.outputs[0].row_mut(position).iter_mut().zip(dy.row(n)) {
                *sum += dy;
            }
            call.count_flops(dy.dims()[2]);
        }
        Ok(())
    }

    fn cpu_work(&self, call: &Concrete<'_>) -> Work {
        self.cost(call)
    }

    fn needs(&self, request: &Request<'_>) -> Needs {
        self.scatter(request.call.inputs[0], request.call.outputs[0]).needs()
    }

    fn cpu(&self, call: &CpuCall<'_>) -> std::result::Result<(), Fault> {
        let (dy, out) = (call.dims(0), call.out_dims(0));
        let scatter = self.scatter(dy, out);
        if self.positions {
            let position = call.i32(1);
            let numbers = position.iter().map(|&p| i64::from(p));
            check_indices(target(self.name(), out[0]), call.dims(1), numbers)?;
            scatter.run(call, 0, 0, |_, n| position[n] as usize);
        } else {
            scatter.run(call, 0, 0, |_, n| n % dy[1]);
        }
        Ok(())
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        Ok(cuda::backward(self.name(), self.positions, call))
    }
}
