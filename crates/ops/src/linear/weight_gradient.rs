//! The gradient of a weight: `out[a b] = Σ left[... a] · right[... b]` over all rows, in a fixed order.
//! Undoes `z = x · Wᵀ` with left = dz and right = x, or `z = x · W` with left = x and right = dz. Where left
//! = dz, its sums are the gradient of a bias, and come along while the product has them in its cache.

use super::{Linear, WeightLayout, cpu_weight_gradient, cuda};
use crate::{
    BroadcastOps, CastOps, CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, Record, ReferenceCall,
    Request, check_float,
};
use regard_graph::*;

/// `out[a b] = Σ left[... a] · right[... b]`, and perhaps `sums[a] = Σ left[... a]`.
#[derive(Clone, Copy, Debug)]
pub struct WeightGradient {
    /// The dtype of the result: that of the weight.
    pub output: DType,
    /// Whether both factors are rounded to bf16.
    pub precision: Precision,
    /// Whether the sums of the left factor, as it is before any rounding, are a second result.
    pub sums: bool,
}

impl Op for WeightGradient {
    fn name(&self) -> &'static str {
        "weight_gradient"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        vec![("precision", format!("{:?}", self.precision)), ("sums", self.sums.to_string())]
    }

    fn operands(&self) -> Vec<&'static str> {
        vec!["left", "right"]
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        check_float("weight_gradient", "left", inputs[0].dtype)?;
        check_float("weight_gradient", "right", inputs[1].dtype)?;
        check_float("weight_gradient", "the result", self.output)?;
        let mut letters = Letters::new("weight_gradient");
        letters.bind("left", &inputs[0].shape, "... N")?;
        letters.bind("right", &inputs[1].shape, "... K")?;
        let mut facts = vec![Fact::new(letters.shape("N K"), self.output)];
        facts.extend(self.sums.then(|| Fact::f32(letters.shape("N"))));
        Ok(facts)
    }

    fn aliases(&self) -> Vec<Alias> {
        Vec::new()
    }

    fn derivative(&self, _input: usize) -> Derivative {
        Derivative::Exists
    }

    fn gradient(&self, g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        let [left, right] = [tape.inputs[0], tape.inputs[1]];
        let mut grads = vec![None, None];
        // sums[a] = Σᵣ left[r a], so dleft[r a] = dsums[a], as a bias has it.
        let dsums = tape.grads.get(1).copied().flatten();
        let Some(d) = tape.grads[0] else {
            if let Some(dsums) = dsums.filter(|_| tape.wanted[0]) {
                let dtype = g.dtype(left);
                let dsums = if dtype == DType::F32 { dsums } else { g.cast(dsums, dtype)? };
                grads[0] = Some(g.broadcast_to(dsums, left)?);
            }
            return Ok(grads);
        };
        if tape.wanted[0] {
            // out[a b] = Σᵣ left[r a] right[r b], so dleft[r a] = Σ_b right[r b] d[a b] …
            let op = Linear::plain(WeightLayout::OutIn, g.dtype(left), self.precision);
            let op = Linear { bias: dsums.is_some(), ..op };
            let operands: Vec<Var> = [right, d].into_iter().chain(dsums).collect();
            grads[0] = Some(g.apply_one(op, &operands)?);
        }
        if tape.wanted[1] {
            // … and dright[r b] = Σ_a left[r a] d[a b].
            let op = Linear::plain(WeightLayout::InOut, g.dtype(right), self.precision);
            grads[1] = Some(g.apply_one(op, &[left, d])?);
        }
        Ok(grads)
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        let (rows, n, k) = (call.inputs[0].rows(), call.outputs[0][0], call.outputs[0][1]);
        let macs = (rows * n * k) as u64;
        let flops = if self.sums { (rows * n) as u64 } else { 0 };
        Work { macs, flops, read: call.bytes_in(), written: call.bytes_out() }
    }

    fn reach(&self, call: &Concrete<'_>, output: usize, input: usize) -> Relation {
        if output == 1 && input == 1 {
            return Relation::Nothing;
        }
        let leading = call.inputs[input].len() - 1;
        Relation::Axes((0..leading).map(|_| Along::All).chain([Along::Same(input)]).collect())
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        let [left, right] = [0, 1].map(|input| call.inputs[input].len() - 1);
        let layout = Layout::own(call, output).with(0, 0, left);
        if output == 0 { layout.with(1, 1, right) } else { layout }
    }
}

impl Kernels for WeightGradient {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        if self.sums {
            let whole = call.inputs[0];
            for (i, x) in whole.data().iter().enumerate() {
                call.outputs[1].data_mut()[i % whole.dims().last_size()] += x;
                call.count_flops(1);
            }
        }
        let (left, right) = (call.operand(0, self.precision), call.operand(1, self.precision));
        let (n, k) = (left.dims().last_size(), right.dims().last_size());
        for row in 0..left.dims().rows() {
            for i in 0..n {
                for j in 0..k {
                    call.outputs[0][[i, j]] += left.data()[row * n + i] * right.data()[row * k + j];
                    call.count_macs(1);
                }
            }
        }
        Ok(())
    }

    fn cpu_work(&self, call: &Concrete<'_>) -> Work {
        cpu_weight_gradient::work(self, call)
    }

    fn needs(&self, request: &Request<'_>) -> Needs {
        cpu_weight_gradient::needs(self, request)
    }

    fn cpu(&self, call: &CpuCall<'_>) -> std::result::Result<(), Fault> {
        cpu_weight_gradient::run(self, call);
        Ok(())
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        Ok(cuda::weight_gradient(self, call))
    }
}
