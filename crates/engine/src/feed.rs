//! What a run is given, as arrays by name, and how the open letters take their sizes from it.

use crate::{Error, Program, Result};
use regard_device::Values;
use regard_graph::{DType, Dims, Graph, Letter, Sizes, Var};
use regard_ops::Array;
use std::collections::BTreeMap;

/// Inputs and stored values by name, as the reference engine takes them.
#[derive(Clone, Debug, Default)]
pub struct Feed {
    /// The inputs.
    pub inputs: BTreeMap<String, Array>,
    /// Parameters and states; those missing begin as declared, see [`crate::Store`].
    pub stored: BTreeMap<String, Array>,
}

impl Feed {
    /// Nothing yet.
    pub fn new() -> Self {
        Feed::default()
    }

    /// With one more input.
    pub fn with(mut self, name: &str, array: Array) -> Self {
        self.inputs.insert(name.into(), array);
        self
    }

    /// With one more parameter or state.
    pub fn with_stored(mut self, name: &str, array: Array) -> Self {
        self.stored.insert(name.into(), array);
        self
    }

    /// The sizes of the open letters, as the inputs give them.
    pub fn sizes(&self, g: &Graph) -> Result<Sizes> {
        let mut sizes = Sizes::none();
        for (name, var) in g.inputs() {
            let array = self.inputs.get(name).ok_or_else(|| not_fed(g, name, var))?;
            bind_letters(g, name, var, array.dims(), &mut sizes)?;
        }
        for (name, var) in g.inputs() {
            check_dims(g, name, var, self.inputs[name].dims(), &sizes)?;
        }
        Ok(sizes)
    }
}

impl Program {
    /// Feeds inputs, each by name, sizes and numbers. Every input but those of `besides`, which the caller
    /// feeds, must be among them: a program keeps what it was fed last, so one that is missing would be that
    /// of another run. Fields that the program does not ask for are left alone.
    pub fn feed<'a>(
        &mut self,
        fields: impl Iterator<Item = (&'a str, &'a [usize], &'a Values)> + Clone,
        besides: &[&str],
    ) -> Result<()> {
        let fed = |name: &str| fields.clone().any(|(field, ..)| field == name);
        let graph = self.graph();
        if let Some((name, var)) = graph.inputs().find(|(name, _)| !besides.contains(name) && !fed(name)) {
            return Err(not_fed(graph, name, var));
        }
        for (name, dims, values) in fields.clone() {
            if !self.graph().inputs().any(|(input, _)| input == name) {
                continue;
            }
            match values {
                Values::F32(numbers) => self.set_f32(name, dims, numbers)?,
                Values::I32(numbers) => self.set_i32(name, dims, numbers)?,
                Values::Bool(truths) => self.set_bools(name, dims, truths)?,
            }
        }
        Ok(())
    }
}

pub(crate) fn not_fed(g: &Graph, name: &str, var: Var) -> Error {
    Error::NotFed { name: name.into(), expected: g.fact(var).to_string() }
}

/// Takes the sizes of plain letters from one input's actual shape.
pub(crate) fn bind_letters(g: &Graph, name: &str, var: Var, dims: Dims, sizes: &mut Sizes) -> Result<()> {
    let shape = g.shape(var);
    if shape.len() != dims.len() {
        return Err(wrong_shape(g, name, var, dims));
    }
    for (dim, &size) in shape.iter().zip(dims.iter()) {
        if let Some(letter) = dim.as_letter() {
            sizes.set(letter, size)?;
        }
    }
    Ok(())
}

/// Checks one input's actual shape once all letters are known.
pub(crate) fn check_dims(g: &Graph, name: &str, var: Var, dims: Dims, sizes: &Sizes) -> Result<()> {
    if g.shape(var).at(sizes)? == dims { Ok(()) } else { Err(wrong_shape(g, name, var, dims)) }
}

fn wrong_shape(g: &Graph, name: &str, var: Var, dims: Dims) -> Error {
    let fact = g.fact(var);
    Error::Fed { name: name.into(), got: format!("{} {dims}", fact.dtype), expected: fact.to_string() }
}

/// Checks that numbers fit a dtype: integers are whole and in range, booleans are 0 or 1.
pub(crate) fn check_numbers(name: &str, dtype: DType, array: &Array) -> Result<()> {
    let fits = |x: f64| match dtype {
        DType::F32 | DType::BF16 => true,
        DType::I32 => x.fract() == 0.0 && x >= i32::MIN as f64 && x <= i32::MAX as f64,
        DType::Bool => x == 0.0 || x == 1.0,
    };
    match array.data().iter().find(|&&x| !fits(x)) {
        None => Ok(()),
        Some(x) => {
            Err(Error::Fed { name: name.into(), got: format!("{x}"), expected: format!("{dtype} numbers") })
        }
    }
}

/// All letters at given sizes, for callers that know them otherwise.
pub fn sizes_of(pairs: &[(Letter, usize)]) -> Result<Sizes> {
    let mut sizes = Sizes::none();
    for &(letter, size) in pairs {
        sizes.set(letter, size)?;
    }
    Ok(sizes)
}
