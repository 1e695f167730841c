//! A batch of named fields into a program: the one place where that happens.

use crate::{Error, Result};
use regard_data::{Batch, Values};
use regard_engine::Program;

/// Feeds a program with the fields of a batch. Every input but those of `besides`, which the caller feeds, must be a field
/// of it: a program keeps what it was fed last, so a field that is missing would be that of another batch. Fields that the
/// program does not ask for are left alone.
pub fn feed(program: &mut Program, batch: &Batch, besides: &[&str]) -> Result<()> {
    let fed = |name: &str| batch.fields.iter().any(|field| field.name == name);
    let missing = program.graph().inputs().find(|(name, _)| !besides.contains(name) && !fed(name));
    if let Some((name, var)) = missing {
        let names: Vec<&str> = batch.fields.iter().map(|field| field.name).collect();
        return Err(Error::invalid(
            format!("the task asks for `{name}` ({}), which the batch has not", program.graph().fact(var)),
            format!("the batch has {}; let source and task agree on names", names.join(", ")),
        ));
    }
    for field in &batch.fields {
        if !program.graph().inputs().any(|(name, _)| name == field.name) {
            continue;
        }
        match &field.values {
            Values::F32(numbers) => program.set_f32(field.name, &field.dims, numbers)?,
            Values::I32(numbers) => program.set_i32(field.name, &field.dims, numbers)?,
            Values::Bool(truths) => program.set_bools(field.name, &field.dims, truths)?,
        }
    }
    Ok(())
}
