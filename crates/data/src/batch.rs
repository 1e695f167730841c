//! Batches: named arrays that a program is fed with, and where they come from. A source is a pure function
//! from (epoch, index) to a batch, so that a run that was killed and resumed sees the same order, and batches
//! can be made ahead on another thread.

use crate::{Error, Result};
pub use regard_device::Values;

/// What one step of training or evaluation is fed with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// The inputs, by name.
    pub fields: Vec<Field>,
    /// How many targets count in the loss: what it is divided by.
    pub targets: u64,
    /// How many tokens (or images) it has, padding included: what schedules by tokens count.
    pub tokens: u64,
    /// How many examples it has.
    pub examples: u64,
}

/// One input of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// The name of the program's input.
    pub name: &'static str,
    /// Its sizes, outermost first.
    pub dims: Vec<usize>,
    /// Its numbers, in row-major order.
    pub values: Values,
}

impl Field {
    /// A field of integers.
    pub fn i32(name: &'static str, dims: &[usize], values: Vec<i32>) -> Field {
        Field { name, dims: dims.to_vec(), values: Values::I32(values) }
    }

    /// A field of floats.
    pub fn f32(name: &'static str, dims: &[usize], values: Vec<f32>) -> Field {
        Field { name, dims: dims.to_vec(), values: Values::F32(values) }
    }

    /// A field of truths.
    pub fn bools(name: &'static str, dims: &[usize], values: Vec<bool>) -> Field {
        Field { name, dims: dims.to_vec(), values: Values::Bool(values) }
    }

    /// Name, sizes and numbers, as a program is fed with them.
    pub fn parts(&self) -> (&str, &[usize], &Values) {
        (self.name, &self.dims, &self.values)
    }
}

impl Batch {
    /// The field of this name.
    pub fn field(&self, name: &str) -> Result<&Field> {
        self.fields.iter().find(|field| field.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.fields.iter().map(|field| field.name).collect();
            Error::invalid(format!("the batch has no field `{name}`"), format!("it has {}", names.join(", ")))
        })
    }
}

/// Where batches come from: the same batch for the same epoch and index, whoever asks, as often as they ask.
pub trait Source: Send + Sync {
    /// How many batches an epoch has.
    fn batches(&self, epoch: u64) -> usize;

    /// One of them.
    fn batch(&self, epoch: u64, index: usize) -> Result<Batch>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_name() {
        let batch = Batch { fields: vec![Field::i32("ids", &[1, 2], vec![3, 4])], ..Batch::default() };
        assert_eq!(batch.field("ids").unwrap().values, Values::I32(vec![3, 4]));
        let text = batch.field("id").unwrap_err().to_string();
        assert!(text.contains("the batch has no field `id`"), "{text}");
        assert!(text.contains("it has ids"), "{text}");
    }
}
