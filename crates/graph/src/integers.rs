//! What cost and reach know besides shapes: the integers and booleans that select (ids, positions, masks),
//! and nodes with actual sizes made from them.

use crate::{Alias, Concrete, DType, Dims, Error, Graph, Needed, Origin, Result, Sizes, Var};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The elements of integer and boolean values, where they are known. Constants are known by themselves, and
/// a view knows what its input knows.
#[derive(Clone, Debug, Default)]
pub struct Integers {
    known: BTreeMap<Var, Arc<[i64]>>,
}

impl Integers {
    /// Nothing known but the constants.
    pub fn none() -> Self {
        Integers::default()
    }

    /// With the elements of one more value known, row-major.
    pub fn with(mut self, var: Var, elements: impl Into<Vec<i64>>) -> Self {
        self.set(var, elements);
        self
    }

    /// Makes the elements of one more value known, row-major.
    pub fn set(&mut self, var: Var, elements: impl Into<Vec<i64>>) {
        self.known.insert(var, elements.into().into());
    }

    /// Everything that is known in a graph at these sizes: what was set, constants, and views of those.
    pub(crate) fn resolve(&self, g: &Graph, sizes: &Sizes, reader: &str) -> Result<Known> {
        let mut known = HashMap::new();
        for (operand, (&var, elements)) in self.known.iter().enumerate() {
            if !g.owns(var) {
                return Err(Error::ForeignVar { op: reader.into(), operand });
            }
            if g.dtype(var).is_float() {
                return Err(Error::DType {
                    op: reader.into(),
                    operand: g.title(var),
                    got: g.dtype(var).to_string(),
                    expected: "i32 or bool".into(),
                    advice: "only integers and booleans can be known".into(),
                });
            }
            let dims = g.shape(var).at(sizes)?;
            if elements.len() != dims.count() {
                return Err(Error::Shape {
                    op: reader.into(),
                    operand: format!("what is known of {}", g.title(var)),
                    got: format!("{} long", elements.len()),
                    expected: format!("{} for the shape {dims}", dims.count()),
                    origin: String::new(),
                });
            }
            known.insert(var, elements.clone());
        }
        for (index, value) in g.values().iter().enumerate() {
            if let (Origin::Constant(numbers), false) = (&value.origin, value.fact.dtype.is_float()) {
                let elements = || numbers.iter().map(|&x| x as i64).collect();
                known.entry(g.var(index)).or_insert_with(elements);
            }
        }
        for node in g.nodes() {
            for &alias in &node.declared.aliases {
                let Alias::View { output, input } = alias else { continue };
                let (output, input) = (node.outputs[output], node.inputs[input]);
                if let (Some(elements), false) = (known.get(&input).cloned(), g.dtype(output).is_float()) {
                    known.entry(output).or_insert(elements);
                }
            }
        }
        Ok(Known(known))
    }
}

/// The elements that are known, by value.
pub(crate) struct Known(HashMap<Var, Arc<[i64]>>);

/// One node at actual sizes.
pub(crate) struct Call<'a> {
    pub inputs: Vec<Dims>,
    pub outputs: Vec<Dims>,
    input_dtypes: Vec<DType>,
    output_dtypes: Vec<DType>,
    integers: Vec<Option<&'a [i64]>>,
    used: Vec<bool>,
}

impl<'a> Call<'a> {
    pub fn new(g: &Graph, node: usize, sizes: &Sizes, known: &'a Known, needed: &Needed) -> Result<Call<'a>> {
        let recorded = &g.nodes()[node];
        let dims = |vars: &[Var]| vars.iter().map(|&var| g.shape(var).at(sizes)).collect::<Result<Vec<_>>>();
        let dtypes = |vars: &[Var]| vars.iter().map(|&var| g.dtype(var)).collect::<Vec<_>>();
        Ok(Call {
            inputs: dims(&recorded.inputs)?,
            outputs: dims(&recorded.outputs)?,
            input_dtypes: dtypes(&recorded.inputs),
            output_dtypes: dtypes(&recorded.outputs),
            integers: recorded.inputs.iter().map(|var| known.0.get(var).map(|list| &**list)).collect(),
            used: needed.used(g, node),
        })
    }

    /// As an op is asked about it.
    pub fn concrete(&self) -> Concrete<'_> {
        Concrete {
            inputs: &self.inputs,
            outputs: &self.outputs,
            input_dtypes: &self.input_dtypes,
            output_dtypes: &self.output_dtypes,
            integers: &self.integers,
            used: &self.used,
        }
    }
}
