//! The gradient of a table: rows of dy added up by id, each sum in the order of the ids.

use super::{EmbeddingOps, target};
use crate::rows::cpu::Scatter;
use crate::rows::{check_indices, listed};
use crate::{
    CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, ReferenceCall, Request, check_dtype,
    check_float,
};
use regard_graph::*;

/// `out[v, c] = Σ dy[..., c]` over the places where `ids[...] = v`.
#[derive(Clone, Debug)]
pub struct EmbeddingBackward {
    /// V, the rows of the table.
    pub rows: Dim,
}

impl Op for EmbeddingBackward {
    fn name(&self) -> &'static str {
        "embedding_backward"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        vec![("rows", self.rows.to_string())]
    }

    fn operands(&self) -> Vec<&'static str> {
        vec!["dy", "ids"]
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        let mut letters = Letters::new(self.name());
        check_float(self.name(), "dy", inputs[0].dtype)?;
        check_dtype(self.name(), "ids", inputs[1].dtype, DType::I32)?;
        letters.bind("dy", &inputs[0].shape, "... C")?;
        letters.bind("ids", &inputs[1].shape, "...")?;
        let width = letters.shape("C")[0].clone();
        Ok(vec![Fact::f32(shape![&self.rows, width])])
    }

    fn aliases(&self) -> Vec<Alias> {
        Vec::new()
    }

    fn derivative(&self, input: usize) -> Derivative {
        if input == 0 { Derivative::Exists } else { Derivative::Zero }
    }

    fn gradient(&self, g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        let Some(sums) = tape.grads[0] else { return Ok(vec![None, None]) };
        // Each row of dy went to one row of the table, and has that row's gradient.
        let dtype = g.dtype(tape.inputs[0]);
        Ok(vec![Some(g.embedding(sums, tape.inputs[1], Some(dtype))?), None])
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        let flops = call.inputs[0].count() as u64;
        Work { macs: 0, flops, read: call.bytes_in(), written: call.bytes_out() }
    }

    fn reach(&self, call: &Concrete<'_>, _output: usize, input: usize) -> Relation {
        if input == 1 {
            return Relation::Everything;
        }
        // Axis by axis: the coordinates at which an id occurs.
        let (ids, rows) = (call.inputs[1], call.outputs[0][0]);
        let coordinates = |axis: usize| {
            let mut lists = vec![Vec::new(); rows];
            for (place, &id) in call.integers[1]?.iter().enumerate() {
                let list = usize::try_from(id).ok().and_then(|id| lists.get_mut(id));
                let at = ids.coordinates(place)[axis];
                if let Some(list) = list.filter(|list| !list.contains(&at)) {
                    list.push(at);
                }
            }
            Some(lists)
        };
        let mut axes: Vec<Along> = (0..ids.len()).map(|axis| listed(&[0], coordinates(axis))).collect();
        axes.push(Along::Same(1));
        Relation::Axes(axes)
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        Layout::own(call, output).with(1, 0, call.inputs[0].len() - 1)
    }
}

impl EmbeddingBackward {
    fn scatter(&self, dy: Dims, out: Dims) -> Scatter {
        Scatter { outer: 1, batched: false, count: dy.rows(), size: out[0], inner: out[1] }
    }
}

impl Kernels for EmbeddingBackward {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        let [dy, ids] = [call.inputs[0], call.inputs[1]];
        let numbers = ids.data().iter().map(|&id| id as i64);
        check_indices(target(self.name(), call.outputs[0].dims()[0]), ids.dims(), numbers)?;
        for (n, &id) in ids.data().iter().enumerate() {
            for (c, dy) in dy.row(n).iter().enumerate() {
                call.outputs[0].row_mut(id as usize)[c] += dy;
                call.count_flops(1);
            }
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
        let ids = call.i32(1);
        let numbers = ids.iter().map(|&id| i64::from(id));
        check_indices(target(self.name(), call.out_dims(0)[0]), call.dims(1), numbers)?;
        self.scatter(call.dims(0), call.out_dims(0)).run(call, 0, 0, |_, n| ids[n] as usize);
        Ok(())
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        Ok(self
            .scatter(call.call.inputs[0], call.call.outputs[0])
            .cuda(call, target(self.name(), call.call.outputs[0][0])))
    }
}
