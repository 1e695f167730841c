//! A batch of named fields into a program, with words for a task and a source that do not agree.

use crate::{Error, Result};
use regard_data::{Batch, Field};
use regard_engine::Program;

/// Feeds a program with the fields of a batch. Every input but those of `besides`, which the caller feeds,
/// must be a field of it; fields that the program does not ask for are left alone.
pub fn feed(program: &mut Program, batch: &Batch, besides: &[&str]) -> Result<()> {
    program.feed(batch.fields.iter().map(Field::parts), besides).map_err(|error| match error {
        regard_engine::Error::NotFed { name, expected } => {
            let names: Vec<&str> = batch.fields.iter().map(|field| field.name).collect();
            Error::invalid(
                format!("the task asks for `{name}` ({expected}), which the batch has not"),
                format!("the batch has {}; let source and task agree on names", names.join(", ")),
            )
        }
        other => other.into(),
    })
}
