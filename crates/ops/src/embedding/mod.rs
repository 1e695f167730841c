//! Rows of a table by id: `out[..., c] = table[ids[...], c]`. Its gradient adds up the rows that share an id,
//! in the order of the ids.

mod backward;
mod cpu;

pub use backward::EmbeddingBackward;

use crate::rows::cuda::embed;
use crate::rows::{Target, check_indices, listed, pointed};
use crate::{
    CopyKind, CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, Pack, Record, ReferenceCall,
    Request, check_dtype, check_float,
};
use regard_graph::*;

/// `out[..., c] = table[ids[...], c]`.
#[derive(Clone, Copy, Debug)]
pub struct Embedding {
    /// The dtype of the result.
    pub output: DType,
}

/// Records lookups in a table.
pub trait EmbeddingOps {
    /// The rows of a table by id. table `[V C]` f32, ids `[...]` i32 → `[... C]`, f32 unless another dtype is
    /// asked for. An id outside of the table is an error of the run.
    fn embedding(&mut self, table: Var, ids: Var, output: Option<DType>) -> Result<Var>;
}

impl EmbeddingOps for Graph {
    fn embedding(&mut self, table: Var, ids: Var, output: Option<DType>) -> Result<Var> {
        self.apply_one(Embedding { output: output.unwrap_or(DType::F32) }, &[table, ids])
    }
}

/// What the ids point into.
fn target(op: &'static str, size: usize) -> Target {
    Target { op, operand: "ids", letter: "V", size, advice: "feed ids from 0 to V−1" }
}

impl Op for Embedding {
    fn name(&self) -> &'static str {
        "embedding"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        vec![("output", self.output.to_string())]
    }

    fn operands(&self) -> Vec<&'static str> {
        vec!["table", "ids"]
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        let mut letters = Letters::new("embedding");
        check_dtype("embedding", "table", inputs[0].dtype, DType::F32)?;
        letters.bind("table", &inputs[0].shape, "V C")?;
        check_dtype("embedding", "ids", inputs[1].dtype, DType::I32)?;
        check_float("embedding", "output", self.output)?;
        if inputs[1].shape.len() == MAX_RANK {
            return Err(Error::invalid(
                "embedding",
                format!("ids has {MAX_RANK} axes, the result would have one more"),
                format!("at most {MAX_RANK} are supported; merge some with reshape"),
            ));
        }
        letters.bind("ids", &inputs[1].shape, "...")?;
        Ok(vec![Fact::new(letters.shape("... C"), self.output)])
    }

    fn aliases(&self) -> Vec<Alias> {
        Vec::new()
    }

    fn derivative(&self, input: usize) -> Derivative {
        if input == 0 { Derivative::Exists } else { Derivative::Zero }
    }

    fn gradient(&self, g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        let Some(dy) = tape.grads[0] else { return Ok(vec![None, None]) };
        // y[n] = table[ids[n]], so dtable[v] = Σ dy[n] over ids[n] = v
        let rows = g.shape(tape.inputs[0])[0].clone();
        Ok(vec![Some(g.apply_one(EmbeddingBackward { rows }, &[dy, tape.inputs[1]])?), None])
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        let read = (call.outputs[0].count() * 4 + call.inputs[1].count() * 4) as u64;
        Work { macs: 0, flops: 0, read, written: call.bytes_out() }
    }

    fn reach(&self, call: &Concrete<'_>, _output: usize, input: usize) -> Relation {
        let leading: Vec<usize> = (0..call.inputs[1].len()).collect();
        Relation::Axes(match input {
            0 => {
                let lists = pointed(call.integers[1], call.inputs[0][0]);
                vec![listed(&leading, lists), Along::Same(leading.len())]
            }
            _ => leading.into_iter().map(Along::Same).collect(),
        })
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        let leading = call.inputs[1].len();
        Layout::own(call, output).leading(1, leading).with(leading, 0, 1)
    }
}

impl Kernels for Embedding {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        let [table, ids] = [call.inputs[0], call.inputs[1]];
        let numbers = ids.data().iter().map(|&id| id as i64);
        check_indices(target("embedding", table.dims()[0]), ids.dims(), numbers)?;
        for (n, &id) in ids.data().iter().enumerate() {
            call.outputs[0].row_mut(n).copy_from_slice(table.row(id as usize));
        }
        Ok(())
    }

    fn cpu_work(&self, call: &Concrete<'_>) -> Work {
        self.cost(call)
    }

    fn needs(&self, request: &Request<'_>) -> Needs {
        let packs =
            if request.stored[0] { vec![Pack { input: 0, kind: CopyKind::Rows }] } else { Vec::new() };
        Needs { packs, ..Needs::default() }
    }

    fn cpu(&self, call: &CpuCall<'_>) -> std::result::Result<(), Fault> {
        let numbers = call.i32(1).iter().map(|&id| i64::from(id));
        check_indices(target("embedding", call.dims(0)[0]), call.dims(1), numbers)?;
        cpu::run(call);
        Ok(())
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        Ok(embed(call, target("embedding", call.call.inputs[0][0])))
    }
}
