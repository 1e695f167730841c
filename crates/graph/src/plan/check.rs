//! Proof of a plan by playing it: every byte remembers what was last written to it, and every read must
//! find what it expects. Independent of how the plan was made.

use super::{ALIGNMENT, Place, Plan, Sharing, Slot};
use crate::{Alias, Error, Graph, Origin, Result, Var};
use std::collections::BTreeMap;

/// Who last wrote each stretch of a memory: start → (end, writer).
#[derive(Default)]
struct Memory(BTreeMap<usize, (usize, usize)>);

impl Memory {
    fn write(&mut self, from: usize, to: usize, writer: usize) {
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
    fn holds(&self, mut from: usize, to: usize, writer: usize) -> bool {
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
    pub fn check(&self, g: &Graph) -> Result<()> {
        let sharing = Sharing::of(g);
        let mut memories = [Memory::default(), Memory::default(), Memory::default(), Memory::default()];
        for (index, value) in g.values().iter().enumerate() {
            if matches!(value.origin, Origin::Node { .. } | Origin::Gone) {
                continue;
            }
            if let Some((memory, slot)) = self.stretch(g, g.var(index))? {
                memories[memory].write(slot.offset, slot.offset + slot.bytes, index);
            }
        }
        for step in &self.steps {
            let node = &g.nodes()[step.node];
            for &input in &node.inputs {
                self.read(g, &sharing, &memories, &node.name, input)?;
            }
            self.check_overlaps(g, step.node, step.scratch, &step.used)?;
            if let Some(slot) = step.scratch {
                within(&format!("the scratch of `{}`", node.name), self.arena_bytes, slot)?;
                memories[0].write(slot.offset, slot.offset + slot.bytes, usize::MAX);
            }
            for (output, &var) in node.outputs.iter().enumerate() {
                if !step.used[output] || sharing.contents[var.index()] != var.index() {
                    continue;
                }
                let Some((memory, slot)) = self.stretch(g, var)? else {
                    return Err(broken(format!("{} is used but has no place", g.title(var))));
                };
                memories[memory].write(slot.offset, slot.offset + slot.bytes, var.index());
            }
        }
        self.keep.iter().try_for_each(|&var| self.read(g, &sharing, &memories, "keep", var))
    }

    /// In which memory a value lives, and where. Each stored value is a memory of its own, told apart by
    /// offsets far from each other.
    fn stretch(&self, g: &Graph, var: Var) -> Result<Option<(usize, Slot)>> {
        let bytes = g.fact(var).bytes();
        let (memory, size, slot) = match self.places[var.index()] {
            None => return Ok(None),
            Some(Place::Arena { offset, bytes }) => (0, self.arena_bytes, Slot { offset, bytes }),
            Some(Place::Io { offset, bytes }) => (1, self.io_bytes, Slot { offset, bytes }),
            Some(Place::Constant { offset, bytes }) => (2, self.constant_bytes, Slot { offset, bytes }),
            Some(Place::Stored(index)) => {
                let before = g.stored()[..index].iter().map(|s| s.fact.bytes().next_multiple_of(ALIGNMENT));
                (3, usize::MAX, Slot { offset: before.sum(), bytes })
            }
        };
        if slot.bytes != bytes {
            let what = format!("{} has {} bytes of the {bytes} that it needs", g.title(var), slot.bytes);
            return Err(broken(what));
        }
        within(&g.title(var), size, slot)?;
        Ok(Some((memory, slot)))
    }

    fn read(&self, g: &Graph, sharing: &Sharing, memories: &[Memory; 4], by: &str, var: Var) -> Result<()> {
        let Some((memory, slot)) = self.stretch(g, var)? else {
            return Err(broken(format!("{by} reads {}, which has no place", g.title(var))));
        };
        let writer = sharing.contents[var.index()];
        if !memories[memory].holds(slot.offset, slot.offset + slot.bytes, writer) {
            return Err(broken(format!("{by} reads {}, which was overwritten", g.title(var))));
        }
        Ok(())
    }

    /// What a kernel writes must not lie over what it reads, unless the op allows it, nor over itself.
    fn check_overlaps(&self, g: &Graph, node: usize, scratch: Option<Slot>, used: &[bool]) -> Result<()> {
        let node = &g.nodes()[node];
        let aliases = node.op.aliases();
        let may = |o: usize, i: usize| {
            aliases.iter().any(|alias| match *alias {
                Alias::View { output, input }
                | Alias::Update { output, input }
                | Alias::Reuse { output, input } => (output, input) == (o, i),
            })
        };
        let mut written: Vec<(String, (usize, Slot))> = Vec::new();
        for (output, &var) in node.outputs.iter().enumerate().filter(|(output, _)| used[*output]) {
            let Some(out) = self.stretch(g, var)? else { continue };
            for (input, &from) in node.inputs.iter().enumerate() {
                let over = self.stretch(g, from)?.is_some_and(|there| overlap(out, there));
                if over && !may(output, input) {
                    let (out, from) = (g.title(var), g.title(from));
                    return Err(broken(format!("{out} lies over {from}, which its kernel reads")));
                }
            }
            written.push((g.title(var), out));
        }
        if let Some(slot) = scratch {
            let title = format!("the scratch of `{}`", node.name);
            for &from in &node.inputs {
                if self.stretch(g, from)?.is_some_and(|there| overlap((0, slot), there)) {
                    return Err(broken(format!(
                        "{title} lies over {}, which its kernel reads",
                        g.title(from)
                    )));
                }
            }
            written.push((title, (0, slot)));
        }
        for (index, (title, place)) in written.iter().enumerate() {
            if let Some((other, _)) = written[..index].iter().find(|(_, there)| overlap(*place, *there)) {
                return Err(broken(format!("{title} lies over {other}")));
            }
        }
        Ok(())
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

fn within(what: &str, size: usize, slot: Slot) -> Result<()> {
    if !slot.offset.is_multiple_of(ALIGNMENT) {
        return Err(broken(format!("{what} begins at {}, which is not aligned", slot.offset)));
    }
    if slot.offset.checked_add(slot.bytes).is_none_or(|end| end > size) {
        return Err(broken(format!("{what} ends outside of its memory of {size} bytes")));
    }
    Ok(())
}
