//! Carries what axes are through the graph, node by node, and checks what ops say of them.

use super::axis::{Axis, reshaped};
use super::{Axes, AxisOf, Declared, Label, Layout};
use crate::integers::Call;
use crate::needed::everything;
use crate::{Along, Concrete, Error, Graph, Integers, Relation, Result, Sizes};
use std::collections::BTreeMap;

/// What the axes of every value are, given those of inputs. Parameters, states, constants and inputs that are
/// not declared have axes of their own, which take over the label of what they meet.
pub fn axes(g: &Graph, declared: &[Declared], sizes: &Sizes, integers: &Integers) -> Result<Axes> {
    let mut extents = BTreeMap::new();
    let mut values: Vec<Vec<Axis>> = Vec::new();
    for value in g.values() {
        values.push(value.fact.shape.at(sizes)?.iter().map(|&size| Axis::own(size)).collect());
    }
    for (operand, (var, labels)) in declared.iter().enumerate() {
        if !g.owns(*var) {
            return Err(Error::ForeignVar { op: "axes".into(), operand });
        }
        let (title, dims) = (g.title(*var), g.shape(*var).at(sizes)?);
        if labels.len() != dims.len() {
            let what = format!("{title} is {dims}, and {} of its axes are declared", labels.len());
            return Err(Error::invalid("axes", what, "say of each axis what it is"));
        }
        for (axis, label) in labels.iter().enumerate() {
            let Some(label) = label else { continue };
            let extent = *extents.entry(label.clone()).or_insert(dims[axis]);
            if extent != dims[axis] {
                let what =
                    format!("there are {extent} {label}, and {} in {title}, which is {dims}", dims[axis]);
                return Err(Error::invalid("axes", what, "declare axes that are the same as equally long"));
            }
            values[var.index()][axis] = Axis::whole(label.clone(), dims[axis]);
        }
    }
    let known = integers.resolve(g, sizes, "axes")?;
    let needed = everything(g);
    for (index, node) in g.nodes().iter().enumerate() {
        let call = Call::new(g, index, sizes, &known, &needed)?;
        let inputs: Vec<&[Axis]> = node.inputs.iter().map(|var| &*values[var.index()]).collect();
        let mut made = Vec::new();
        for output in 0..node.outputs.len() {
            let layout = node.op.axes(&call.concrete(), output);
            let axes = laid_out(&layout, &call.concrete(), output, &inputs).map_err(|what| {
                Error::invalid(
                    &node.name,
                    format!("the axes of its output {output} say {what}"),
                    format!("mend `axes` of {}", node.op.name()),
                )
            })?;
            made.push(axes);
        }
        for (var, axes) in node.outputs.iter().zip(made) {
            values[var.index()] = axes;
        }
    }
    Ok(Axes { extents, values })
}

/// The axes of one output. The error says what is wrong with the layout.
fn laid_out(
    layout: &Layout,
    call: &Concrete<'_>,
    output: usize,
    inputs: &[&[Axis]],
) -> Result<Vec<Axis>, String> {
    let out = call.outputs[output];
    match layout {
        Layout::Unknown(reason) => Ok(vec![Axis::lost(reason); out.len()]),
        Layout::Flat(input) => {
            let from =
                *call.inputs.get(*input).ok_or_else(|| format!("operand {input}, which is not there"))?;
            if from.count() != out.count() {
                return Err(format!("the elements of {from} in the same order under {out}"));
            }
            Ok(reshaped(inputs[*input], &from, &out))
        }
        Layout::Axes(axes) => {
            if axes.len() != out.len() {
                return Err(format!("{} entries for the {} axes of {out}", axes.len(), out.len()));
            }
            let mut brought = Vec::new();
            for (at, (continued, &size)) in axes.iter().zip(out.iter()).enumerate() {
                for &AxisOf { input, axis: of, shift, only } in continued {
                    let there = call.inputs.get(input).and_then(|dims| dims.get(of));
                    let &there =
                        there.ok_or_else(|| format!("axis {of} of operand {input}, which is not there"))?;
                    let axis = inputs[input][of].moved(there, shift, size, only);
                    brought.push(Brought { input, at, axis });
                }
            }
            settle(&mut brought);
            let mut found: Vec<Axis> = out.iter().map(|&size| Axis::own(size)).collect();
            for Brought { at, axis, .. } in brought {
                let before = std::mem::replace(&mut found[at], Axis::own(out[at]));
                found[at] = before.joined(&axis);
            }
            Ok(found)
        }
    }
}

/// What an operand says of an axis of the output.
struct Brought {
    input: usize,
    at: usize,
    axis: Axis,
}

/// Operands may disagree on where a label lies: positions of the one meet heads of the other, and the other
/// way round. Who knows both axes is right, and of two such the first; what the other brings is then no
/// position of the result, and a value that feels it from there has been told of another position.
fn settle(brought: &mut [Brought]) {
    let mut labels: Vec<Label> = brought.iter().flat_map(|one| one.axis.labels().cloned()).collect();
    labels.sort();
    labels.dedup();
    for label in labels {
        let axes_of = |brought: &[Brought], input: usize, labelled: bool| -> u32 {
            let own = brought.iter().filter(|one| one.input == input);
            let chosen = own.filter(|one| !labelled || one.axis.labels().any(|own| *own == label));
            chosen.fold(0, |set, one| set | 1 << one.at)
        };
        let inputs = brought.iter().map(|one| one.input).max().map_or(0, |last| last + 1);
        for (winner, loser) in (0..inputs).flat_map(|a| (0..inputs).map(move |b| (a, b))) {
            let [mine, yours] = [winner, loser].map(|input| axes_of(brought, input, true));
            let (only_mine, only_yours) = (mine & !yours, yours & !mine);
            let knows = |input: usize, axes: u32| axes & !axes_of(brought, input, false) == 0;
            let overrules = only_mine != 0 && only_yours != 0 && knows(winner, only_yours);
            if overrules && (winner < loser || !knows(loser, only_mine)) {
                for one in
                    brought.iter_mut().filter(|one| one.input == loser && only_yours & 1 << one.at != 0)
                {
                    one.axis = std::mem::replace(&mut one.axis, Axis::own(1)).without(&label);
                }
            }
        }
    }
}

/// Whether the layouts of all ops fit their relations: where an element depends on one coordinate of an
/// operand's axis, the one that it has itself, or has but for a shift, its axis is that axis. (The other way
/// round there is nothing to check: what depends on everything can still lie along something.)
pub fn check_layouts(g: &Graph, sizes: &Sizes, integers: &Integers) -> Result<()> {
    let known = integers.resolve(g, sizes, "axes")?;
    let needed = everything(g);
    axes(g, &[], sizes, integers)?;
    for (index, node) in g.nodes().iter().enumerate() {
        let call = Call::new(g, index, sizes, &known, &needed)?;
        for output in 0..node.outputs.len() {
            let layout = node.op.axes(&call.concrete(), output);
            for input in 0..node.inputs.len() {
                let relation = node.op.reach(&call.concrete(), output, input);
                if let Some(missing) = forgotten(&relation, &layout, &call.concrete(), output, input) {
                    return Err(Error::invalid(
                        &node.name,
                        format!(
                            "an element of output {output} depends on its own coordinate of {missing}, and its axes do \
                             not say so"
                        ),
                        format!("mend `axes` or `reach` of {}", node.op.name()),
                    ));
                }
            }
        }
    }
    Ok(())
}

/// An axis that a relation follows and a layout does not.
fn forgotten(
    relation: &Relation,
    layout: &Layout,
    call: &Concrete<'_>,
    output: usize,
    input: usize,
) -> Option<String> {
    let (from, to) = (call.inputs[input], call.outputs[output]);
    let alongs: Vec<Along> = match relation {
        Relation::Axes(alongs) => alongs.clone(),
        Relation::Same if from == to => (0..from.len()).map(Along::Same).collect(),
        Relation::Same => return (*layout != Layout::Flat(input)).then(|| format!("operand {input}")),
        Relation::Nothing | Relation::Everything => return None,
    };
    if let Layout::Flat(flat) = layout {
        return (*flat != input || from != to).then(|| format!("operand {input}"));
    }
    let Layout::Axes(axes) = layout else { return None };
    let missing = alongs.iter().enumerate().find_map(|(of, along)| {
        let (axis, shift) = match along {
            Along::Same(axis) => (*axis, 0),
            Along::Shifted { axis, by } => (*axis, -by),
            Along::All | Along::Listed { .. } => return None,
        };
        let continues = axes.get(axis)?.contains(&AxisOf { input, axis: of, shift, only: None });
        (from[of] > 1 && !continues).then_some(of)
    });
    missing.map(|of| format!("axis {of} of operand {input}"))
}
