//! The reference engine: the graph, node by node, in f64, on one thread, each op by its specification.
//! Every other engine is judged against it. Two modes: *exact* computes as if numbers had no rounding;
//! *rounded* rounds every bf16 value, and every operand of a bf16 product, to judge bf16 engines.

use crate::feed::check_numbers;
use crate::store::initial;
use crate::{Error, Feed, Result};
use regard_device::DeviceError;
use regard_graph::{DType, Dims, Graph, Origin, Var, everything};
use regard_ops::{Array, ReferenceCall, kernels_of};

/// How the reference treats bf16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Casts are the identity.
    Exact,
    /// Casts really round.
    Rounded,
}

/// What a reference run computed.
pub struct Run {
    values: Vec<Option<Array>>,
    /// Multiply-adds of each node, counted while it ran.
    pub macs: Vec<u64>,
    /// Other arithmetic of each node, counted while it ran.
    pub flops: Vec<u64>,
}

impl Run {
    /// A value of the graph.
    pub fn value(&self, var: Var) -> &Array {
        self.values[var.index()].as_ref().unwrap_or_else(|| unreachable!("a run computes every value"))
    }
}

/// Runs the whole graph. Parameters and states that are not fed begin as declared, drawn with seed 0.
pub fn run(g: &Graph, feed: &Feed, mode: Mode) -> Result<Run> {
    let sizes = feed.sizes(g)?;
    let mut values: Vec<Option<Array>> = vec![None; g.values().len()];
    for (index, value) in g.values().iter().enumerate() {
        let array = match &value.origin {
            Origin::Node { .. } | Origin::Gone => continue,
            Origin::Input(name) => {
                let array = &feed.inputs[name];
                check_numbers(name, value.fact.dtype, array)?;
                array.clone()
            }
            Origin::Stored(stored) => {
                let stored = &g.stored()[*stored];
                match feed.stored.get(&stored.name) {
                    Some(array) if array.dims() == stored.fact.shape.bound() => array.clone(),
                    Some(array) => {
                        return Err(Error::Fed {
                            name: stored.name.clone(),
                            got: array.dims().to_string(),
                            expected: stored.fact.to_string(),
                        });
                    }
                    None => {
                        check_room(stored.fact.shape.bound())?;
                        let numbers = initial(&stored.name, &stored.fact, &stored.init, 0).collect();
                        Array::new(&stored.fact.shape.bound(), numbers).unwrap_or_else(|| unreachable!())
                    }
                }
            }
            Origin::Constant(numbers) => {
                let dims = value.fact.shape.at(&sizes)?;
                Array::new(&dims, numbers.to_vec()).unwrap_or_else(|| unreachable!("checked when recorded"))
            }
        };
        values[index] = Some(round(array, value.fact.dtype, mode));
    }
    let (mut macs, mut flops) = (Vec::new(), Vec::new());
    let needed = everything(g);
    for (index, node) in g.nodes().iter().enumerate() {
        let kernels = kernels_of(node).ok_or_else(|| Error::NoKernels { node: node.name.clone() })?;
        let mut outputs = Vec::new();
        for &output in &node.outputs {
            let dims = g.shape(output).at(&sizes)?;
            check_room(dims)?;
            outputs.push(Array::zeros(dims));
        }
        let inputs: Vec<&Array> = node.inputs.iter().filter_map(|var| values[var.index()].as_ref()).collect();
        let rounded = mode == Mode::Rounded;
        let used = needed.used(g, index);
        let mut call =
            ReferenceCall { inputs: &inputs, outputs: &mut outputs, used: &used, rounded, macs: 0, flops: 0 };
        kernels.reference(&mut call).map_err(|fault| Error::Fault { node: node.name.clone(), fault })?;
        macs.push(call.macs);
        flops.push(call.flops);
        for (&var, output) in node.outputs.iter().zip(outputs) {
            values[var.index()] = Some(round(output, g.dtype(var), mode));
        }
    }
    Ok(Run { values, macs, flops })
}

/// An array that the system has no room for is an error; taking it anyway would end the process.
fn check_room(dims: Dims) -> Result<()> {
    let refused = |_| DeviceError::OutOfMemory { bytes: dims.count().saturating_mul(size_of::<f64>()) };
    Ok(Vec::<f64>::new().try_reserve_exact(dims.count()).map_err(refused)?)
}

fn round(array: Array, dtype: DType, mode: Mode) -> Array {
    if mode == Mode::Rounded && dtype == DType::BF16 { array.rounded() } else { array }
}
