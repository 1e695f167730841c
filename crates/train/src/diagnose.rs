//! Which layer first: runs a batch once more with every value kept, and names the first that is not finite,
//! in the order in which the program computes: inputs, parameters, forward, backward. Nothing in the store
//! changes but the model's own running states.

use crate::step::{Draw, feed, record_loss};
use crate::{Mode, Result, Settings, Task};
use regard_data::{Batch, Values};
use regard_engine::{AsDevice, Program, Store};
use regard_graph::{DType, Graph, Origin, Pass, Role, Var};
use regard_ops::Differentiate;
use regard_picture::bytes;
use std::fmt;

/// The first value that is not finite.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    /// An input of the batch.
    Input {
        /// Its name.
        name: String,
        /// The first such number.
        number: f64,
        /// Where it lies.
        index: usize,
    },
    /// A parameter, before the step.
    Parameter {
        /// Its dotted name.
        name: String,
        /// The first such number.
        number: f64,
        /// Where it lies.
        index: usize,
    },
    /// A computed value.
    Node {
        /// The dotted name of the operation.
        name: String,
        /// Forward or backward.
        pass: Pass,
        /// The first such number.
        number: f64,
        /// How many of its numbers are not finite.
        count: usize,
        /// How many numbers it has.
        of: usize,
    },
    /// Everything was finite this time: the sum over micro-batches or the update itself overflowed.
    Nothing,
    /// It could not be looked for.
    Unknown {
        /// Why not.
        reason: String,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::Input { name, number, index } => {
                write!(f, "the input `{name}` already holds {number}, at place {index}")
            }
            Finding::Parameter { name, number, index } => {
                write!(f, "the parameter `{name}` already holds {number}, at place {index}")
            }
            Finding::Node { name, pass, number, count, of } => {
                let pass = match pass {
                    Pass::Forward => "forward",
                    Pass::Recompute => "recomputed forward",
                    Pass::Backward => "backward",
                };
                write!(
                    f,
                    "the first layer to fail is `{name}` ({pass}), {number} in {count} of its {of} numbers"
                )
            }
            Finding::Nothing => f.write_str("each layer by itself is finite, their sum or its square is not"),
            Finding::Unknown { reason } => write!(f, "which layer failed first is not known: {reason}"),
        }
    }
}

/// Runs a window of batches again, from the parameters as they are, and finds the first value that is not
/// finite. `step` is the number of the step that failed: dropout draws what it drew then.
pub fn first_not_finite(
    task: &dyn Task,
    settings: &Settings,
    window: &[Batch],
    step: u64,
    store: &mut Store,
    device: &impl AsDevice,
) -> Result<Finding> {
    for field in window.iter().flat_map(|batch| &batch.fields) {
        let Values::F32(numbers) = &field.values else { continue };
        if let Some((index, number)) = bad(numbers) {
            return Ok(Finding::Input { name: field.name.into(), number, index });
        }
    }
    let (mut g, loss) = record_loss(task, settings.precision, Mode::Train)?;
    for stored in g.stored().iter().filter(|stored| stored.role == Role::Parameter) {
        if let Some((index, number)) = bad(&store.f32(&stored.name)?) {
            return Ok(Finding::Parameter { name: stored.name.clone(), number, index });
        }
    }
    let groups = settings.step_groups(&g)?;
    let trained: Vec<Var> = groups.into_iter().flat_map(|group| group.parameters).collect();
    g.gradient(loss, &trained)?;
    let watched = watch(&mut g)?;
    let room: usize = watched.iter().map(|&var| g.fact(var).bytes()).sum();
    if device.as_device().memory_available().is_some_and(|available| room as u64 > available) {
        let reason = format!("keeping every value would take {}", bytes(room as u64));
        return Ok(Finding::Unknown { reason });
    }
    let mut program = Program::new(g, &[], store, device)?;
    let scale = crate::step::scale_of(window, step)?;
    let mut example = 0;
    for batch in window {
        feed(&mut program, batch, scale, Draw { seed: settings.seed, step }, example)?;
        program.run(store)?;
        example += batch.examples as u32;
        for (index, &var) in watched.iter().enumerate() {
            let array = program.array(&kept_name(index))?;
            let mut not_finite = array.data().iter().copied().filter(|x| !x.is_finite());
            if let (Some(number), Origin::Node { node, .. }) =
                (not_finite.next(), &program.graph().value(var).origin)
            {
                let count = 1 + not_finite.count();
                let (node, of) = (&program.graph().nodes()[*node], array.data().len());
                return Ok(Finding::Node { name: node.name.clone(), pass: node.pass, number, count, of });
            }
        }
    }
    Ok(Finding::Nothing)
}

/// Keeps every computed float, in the order of computation. States live in the store, and what has no
/// operands is a constant: a minus infinity there is somebody's intention.
fn watch(g: &mut Graph) -> Result<Vec<Var>> {
    let mut watched = Vec::new();
    for node in g.nodes().iter().filter(|node| !node.inputs.is_empty()) {
        let floats = node.outputs.iter().filter(|&&var| matches!(g.dtype(var), DType::F32 | DType::BF16));
        watched.extend(floats.filter(|&&var| g.value(var).version_of.is_none()));
    }
    for (index, &var) in watched.iter().enumerate() {
        g.output(&kept_name(index), var)?;
    }
    Ok(watched)
}

fn kept_name(index: usize) -> String {
    format!("trainer.value.{index}")
}

fn bad(numbers: &[f32]) -> Option<(usize, f64)> {
    numbers.iter().position(|x| !x.is_finite()).map(|index| (index, f64::from(numbers[index])))
}
