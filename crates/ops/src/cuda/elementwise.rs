//! Elementwise ops on a card: an expression in CUDA C++ is all that such an op has to say.

use super::{CudaCall, CudaList};
use crate::broadcast::Walk;
use regard_device::cuda::Address;
use regard_device::cuda::kernels::map::{Effects, Input, Map};
use regard_graph::Dims;

impl CudaCall<'_> {
    /// One launch that computes result 0 from all operands, broadcast to its shape. `body` is an expression
    /// of the operands `x0`, `x1`, … (at most four) and of `numbers` (at most four) as `s.v[0]`, `s.v[1]`, …;
    /// floats are computed in f32 whatever they are in memory, integers in i32, booleans are 0 or 1. The
    /// functions of `prelude.cuh` and those that CUDA has built in can be called. The result may lie over an
    /// operand of its shape.
    pub fn map(&self, body: &str, numbers: &[f32]) -> CudaList {
        self.elementwise(&[body], numbers, self.effects(1))
    }

    /// The same with two results, of which one may not be wanted.
    pub fn map_both(&self, bodies: [&str; 2], numbers: &[f32]) -> CudaList {
        self.elementwise(&bodies, numbers, self.effects(2))
    }

    /// As [`CudaCall::map`], for a result that outlives the run: once a fault was found it stays as it is.
    pub fn update(&self, body: &str, numbers: &[f32]) -> CudaList {
        self.elementwise(&[body], numbers, Effects { halt: self.stop, ..self.effects(1) })
    }

    fn effects(&self, results: usize) -> Effects {
        let result = |output: usize| match output < results && self.used(output) {
            true => self.outputs[output],
            false => Address(0),
        };
        Effects { results: [result(0), result(1)], fault: self.fault, stop: self.stop, halt: Address(0) }
    }

    fn elementwise(&self, bodies: &[&str], numbers: &[f32], effects: Effects) -> CudaList {
        let mut list = CudaList::new();
        let out = self.call.outputs[0];
        if out.count() == 0 || effects.results == [Address(0); 2] {
            return list;
        }
        let types: Vec<&'static str> = (0..self.inputs.len()).map(|input| self.type_of(input)).collect();
        let second = bodies.get(1).map(|body| (body.to_string(), self.out_type_of(1)));
        let map = Map { second, ..Map::new(bodies[0], &types, self.out_type_of(0)) };
        let operand =
            |(&at, &dims): (&Address, &Dims)| Input { at, strides: Walk::new(dims, out).strides().to_vec() };
        let inputs: Vec<Input> = self.inputs.iter().zip(self.call.inputs).map(operand).collect();
        let mut scalars = [0.0; 4];
        scalars[..numbers.len()].copy_from_slice(numbers);
        list.launch(map.launch_with(&out, &inputs, scalars, effects));
        list
    }
}
