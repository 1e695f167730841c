//! Proof of a plan by playing it: every byte remembers what was last written to it, and every read must
//! find what it expects. Independent of how the plan was made.

use super::{ALIGNMENT, Place, Plan, Sharing, Slot, Step};
use crate::{Error, Graph, Node, Origin, Result, Var};
use std::collections::BTreeMap;

/// Who last wrote each stretch of a memory: start → (end, writer).
#[derive(Default)]
struct Memory(BTreeMap<usize, (usize, usize)>);

impl Memory {
    fn write(&mut self, slot: Slot, writer: usize) {
        let (from, to) = (slot.offset, slot.offset + slot.bytes);
        if from == to {
            return;
        }
        let overlapping: Vec<usize> =
            self.0.range(..to).rev().map_while(|(&start, &(end, _))| (end > from).then_some(start)).collect();
        for start in overlapping {
            let Some((end, by)) = self.0.remove(&start) else { continue };
            if start < from {
                self.0.insert(start, (from, by));
            }
            if end > to {
                self.0.insert(to, (end, by));
            }
        }
        self.0.insert(from, (to, writer));
    }

    /// True if all of the stretch was last written by this writer.
    fn holds(&self, slot: Slot, writer: usize) -> bool {
        let (mut from, to) = (slot.offset, slot.offset + slot.bytes);
        while from < to {
            match self.0.range(..=from).next_back() {
                Some((_, &(end, by))) if end > from && by == writer => from = end,
                _ => return false,
            }
        }
        true
    }
}

impl Plan {
    /// Plays the plan and reports the first value that would be read after something else was written over
    /// it, the first kernel that would write over its own operands, or the first place outside of its memory.
    /// What an engine relies on when it turns places into addresses:
    /// * every place lies inside of its memory, aligned, and has the bytes of its value at the bounds;
    /// * every operand of a step, and all that is kept, holds what was last written to it as that value;
    /// * what a step writes, results and scratch, overlaps neither each other nor an operand, except where it
    ///   may ([`Graph::may_overwrite`]), and then exactly.
    pub fn check(&self, g: &Graph) -> Result<()> {
        let player = Player { plan: self, g, sharing: Sharing::of(g) };
        // The arena, what is fed and kept, the constants, and each stored value by itself.
        let mut memories: Vec<Memory> = (0..3 + g.stored().len()).map(|_| Memory::default()).collect();
        for (index, value) in g.values().iter().enumerate() {
            if matches!(value.origin, Origin::Node { .. } | Origin::Gone) {
                continue;
            }
            if let Some((memory, slot)) = player.stretch(g.var(index))? {
                memories[memory].write(slot, index);
            }
        }
        for step in &self.steps {
            let node = &g.nodes()[step.node];
            for &input in &node.inputs {
                player.read(&memories, &node.name, input)?;
            }
            player.check_overlaps(step)?;
            if let Some(slot) = step.scratch {
                memories[ARENA].write(slot, usize::MAX);
            }
            for (output, &var) in node.outputs.iter().enumerate() {
                if !step.used[output] || player.sharing.contents[var.index()] != var.index() {
                    continue;
                }
                let Some((memory, slot)) = player.stretch(var)? else {
                    return Err(broken(format!("{} is used but has no place", g.title(var))));
                };
                memories[memory].write(slot, var.index());
            }
        }
        self.keep.iter().try_for_each(|&var| player.read(&memories, "keep", var))
    }
}

/// Which memory the arena is; see [`Plan::check`].
const ARENA: usize = 0;

/// What a kernel writes: a result, or its scratch.
#[derive(Clone, Copy)]
enum Written {
    Result(usize),
    Scratch,
}

/// A plan being played.
struct Player<'a> {
    plan: &'a Plan,
    g: &'a Graph,
    sharing: Sharing,
}

impl Player<'_> {
    /// In which memory a value lives, and where.
    fn stretch(&self, var: Var) -> Result<Option<(usize, Slot)>> {
        let (g, plan, bytes) = (self.g, self.plan, self.g.fact(var).bytes());
        let (memory, size, slot) = match plan.places[var.index()] {
            None => return Ok(None),
            Some(Place::Arena { offset, bytes }) => (ARENA, plan.arena_bytes, Slot { offset, bytes }),
            Some(Place::Io { offset, bytes }) => (1, plan.io_bytes, Slot { offset, bytes }),
            Some(Place::Constant { offset, bytes }) => (2, plan.constant_bytes, Slot { offset, bytes }),
            Some(Place::Stored(index)) => {
                let Some(stored) = g.stored().get(index) else {
                    return Err(broken(format!("{} is stored value {index}, which is none", g.title(var))));
                };
                let bytes = stored.fact.bytes();
                (3 + index, bytes, Slot { offset: 0, bytes })
            }
        };
        if slot.bytes != bytes {
            let what = format!("{} has {} bytes of the {bytes} that it needs", g.title(var), slot.bytes);
            return Err(broken(what));
        }
        within(|| g.title(var), size, slot)?;
        Ok(Some((memory, slot)))
    }

    fn read(&self, memories: &[Memory], by: &str, var: Var) -> Result<()> {
        let Some((memory, slot)) = self.stretch(var)? else {
            return Err(broken(format!("{by} reads {}, which has no place", self.g.title(var))));
        };
        if !memories[memory].holds(slot, self.sharing.contents[var.index()]) {
            return Err(broken(format!("{by} reads {}, which was overwritten", self.g.title(var))));
        }
        Ok(())
    }

    /// What a kernel writes must not lie over what it reads, unless the op allows it, nor over itself.
    fn check_overlaps(&self, step: &Step) -> Result<()> {
        let node = &self.g.nodes()[step.node];
        let mut written: Vec<(Written, (usize, Slot))> = Vec::new();
        for (output, &var) in node.outputs.iter().enumerate().filter(|(output, _)| step.used[*output]) {
            if node.declared.views(output) {
                continue; // nobody writes it
            }
            if let Some(place) = self.stretch(var)? {
                written.push((Written::Result(output), place));
            }
        }
        if let Some(slot) = step.scratch {
            within(|| self.title(node, Written::Scratch), self.plan.arena_bytes, slot)?;
            written.push((Written::Scratch, (ARENA, slot)));
        }
        for (input, &from) in node.inputs.iter().enumerate() {
            let Some(there) = self.stretch(from)? else { continue };
            for &(what, place) in written.iter().filter(|(_, place)| overlap(*place, there)) {
                let may =
                    matches!(what, Written::Result(output) if self.g.may_overwrite(node, output, input));
                let part = match may {
                    true if place == there => continue,
                    true => "a part of ",
                    false => "",
                };
                let (over, from) = (self.title(node, what), self.g.title(from));
                return Err(broken(format!("{over} lies over {part}{from}, which its kernel reads")));
            }
        }
        for (index, &(what, place)) in written.iter().enumerate() {
            if let Some((other, _)) = written[..index].iter().find(|(_, there)| overlap(place, *there)) {
                let (what, other) = (self.title(node, what), self.title(node, *other));
                return Err(broken(format!("{what} lies over {other}")));
            }
        }
        Ok(())
    }

    fn title(&self, node: &Node, written: Written) -> String {
        match written {
            Written::Result(output) => self.g.title(node.outputs[output]),
            Written::Scratch => format!("the scratch of `{}`", node.name),
        }
    }
}

fn overlap((memory, a): (usize, Slot), (other, b): (usize, Slot)) -> bool {
    memory == other
        && a.bytes > 0
        && b.bytes > 0
        && a.offset < b.offset + b.bytes
        && b.offset < a.offset + a.bytes
}

fn broken(what: String) -> Error {
    Error::invalid("plan", what, "the plan is broken: make it anew from the graph that it belongs to")
}

fn within(what: impl Fn() -> String, size: usize, slot: Slot) -> Result<()> {
    if !slot.offset.is_multiple_of(ALIGNMENT) {
        return Err(broken(format!("{} begins at {}, which is not aligned", what(), slot.offset)));
    }
    if slot.offset.checked_add(slot.bytes).is_none_or(|end| end > size) {
        return Err(broken(format!("{} ends outside of its memory of {size} bytes", what())));
    }
    Ok(())
}
