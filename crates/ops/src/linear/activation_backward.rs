//! The gradient through the activation of a product: `dz = dy · activation′(z)`, undoing `y = activation(z)`.

use super::activation::{self, Activation};
use super::cuda;
use crate::call::CHUNK;
use crate::cpu_product::pointwise;
use crate::{
    CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, ReferenceCall, Request, check_float,
};
use regard_device::{Data, times_derivative};
use regard_graph::*;

/// Why neither this op nor a product with the derivative in it is differentiated.
pub(super) const NO_DERIVATIVE: Derivative =
    Derivative::Missing("second derivatives of the activations of a product are not written");

/// `dz = dy · activation′(z)`, in the dtype of z; where the product that made dy cannot do it.
#[derive(Clone, Copy, Debug)]
pub struct LinearActivationBackward {
    /// The activation of the forward product.
    pub activation: Activation,
}

impl Op for LinearActivationBackward {
    fn name(&self) -> &'static str {
        "linear_activation_backward"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        vec![("activation", format!("{:?}", self.activation))]
    }

    fn operands(&self) -> Vec<&'static str> {
        vec!["z", "dy"]
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        check_float(self.name(), "z", inputs[0].dtype)?;
        check_float(self.name(), "dy", inputs[1].dtype)?;
        let mut letters = Letters::new(self.name());
        letters.bind("z", &inputs[0].shape, "... N")?;
        letters.bind("dy", &inputs[1].shape, "... N")?;
        Ok(vec![inputs[0].clone()])
    }

    fn aliases(&self) -> Vec<Alias> {
        vec![Alias::Reuse { output: 0, input: 0 }, Alias::Reuse { output: 0, input: 1 }]
    }

    fn derivative(&self, _input: usize) -> Derivative {
        NO_DERIVATIVE
    }

    fn gradient(&self, _g: &mut Graph, _tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        Ok(vec![None, None])
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        let flops = (call.outputs[0].count() * activation::backward_flops(self.activation)) as u64;
        Work { macs: 0, flops, read: call.bytes_in(), written: call.bytes_out() }
    }

    fn reach(&self, _call: &Concrete<'_>, _output: usize, _input: usize) -> Relation {
        Relation::Same
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        Layout::elementwise(call, output)
    }
}

impl Kernels for LinearActivationBackward {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        let [z, dy] = [call.inputs[0], call.inputs[1]];
        for (i, (z, dy)) in z.data().iter().zip(dy.data()).enumerate() {
            let (dz, operations) = activation::backward(self.activation, *z, *dy);
            call.outputs[0].data_mut()[i] = dz;
            call.count_flops(operations);
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
        call.chunks(call.out_dims(0).count(), |part| {
            let range = part.items();
            let (mut z, mut dy) = ([0.0; CHUNK], [0.0; CHUNK]);
            let (z, dy) = (&mut z[..range.len()], &mut dy[..range.len()]);
            part.load(0, range.clone(), z);
            part.load(1, range.clone(), dy);
            times_derivative(call.level, dy, pointwise(self.activation), Data::F32(z));
            part.store(0, range, dy);
        });
        Ok(())
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        Ok(cuda::activation_backward(self, call))
    }
}
