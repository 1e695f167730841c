//! The plan reader: where every value lives, decided once, before anything runs. Intermediate values share
//! one arena by liveness; inputs and what is kept have memory of their own; parameters and states stay in
//! the store. All sizes are at the bounds, so one plan serves every replay.

use crate::needed::{Needed, walk};
use crate::{Alias, Error, Graph, Node, Origin, Result, Var};
use offsets::Block;

mod check;
mod free;
mod offsets;
mod summary;
#[cfg(test)]
mod tests;

pub use summary::{Biggest, Summary};

/// Every offset is a multiple of this, so that the widest vector loads are aligned.
pub const ALIGNMENT: usize = 64;

/// What is asked of a plan.
pub struct Request<'a> {
    /// Outputs, taps asked for, and anything else to be read after the run.
    pub keep: Vec<Var>,
    /// Bytes of shared scratch that the kernel of a node (by its index) needs at the bounds.
    pub scratch: &'a dyn Fn(usize) -> usize,
}

/// A piece of the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Where it begins, a multiple of [`ALIGNMENT`].
    pub offset: usize,
    /// How long it is.
    pub bytes: usize,
}

/// Where a value lives; bytes are those at the bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the arena, which is shared with other values and with programs that run at another time.
    Arena {
        /// Where it begins.
        offset: usize,
        /// How long it is.
        bytes: usize,
    },
    /// Among the inputs and kept values: survives between replays and belongs to this program alone.
    Io {
        /// Where it begins.
        offset: usize,
        /// How long it is.
        bytes: usize,
    },
    /// In the store: an index into [`Graph::stored`].
    Stored(usize),
    /// Among the constants.
    Constant {
        /// Where it begins.
        offset: usize,
        /// How long it is.
        bytes: usize,
    },
}

/// One node to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its index in [`Graph::nodes`].
    pub node: usize,
    /// The scratch of its kernel.
    pub scratch: Option<Slot>,
    /// Which of its outputs anybody reads; the others need not be computed and may have no place.
    pub used: Vec<bool>,
}

/// Where everything lives and what runs, in order.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What runs, in the order of recording. Dead nodes and nodes that only view are not among them.
    pub steps: Vec<Step>,
    /// For each value of the graph its place; `None` if it is never made.
    pub places: Vec<Option<Place>>,
    /// What can be read after the run.
    pub keep: Vec<Var>,
    /// Bytes of the arena.
    pub arena_bytes: usize,
    /// Bytes of inputs and kept values.
    pub io_bytes: usize,
    /// Bytes of constants.
    pub constant_bytes: usize,
    /// Bytes of the parameters and states of the graph.
    pub stored_bytes: usize,
    /// The most bytes of the arena that are alive at one step: no plan in this order can take less.
    pub live_bytes_peak: usize,
}

impl Plan {
    /// Where a value lives.
    pub fn place(&self, var: Var) -> Option<Place> {
        self.places.get(var.index()).copied().flatten()
    }
}

/// Decides where every value lives.
pub fn plan(g: &Graph, request: &Request<'_>) -> Result<Plan> {
    let needed = walk(g, "plan", &request.keep, true)?;
    let sharing = Sharing::of(g);
    sharing.check_state(g, &needed, &request.keep)?;

    let mut steps: Vec<Step> = Vec::new();
    for (node, recorded) in g.nodes().iter().enumerate() {
        if needed.nodes[node] && !only_views(recorded) {
            steps.push(Step { node, scratch: None, used: needed.used(g, node) });
        }
    }

    // For each root the last step that reads it, and whether the caller does.
    let mut last = vec![0; g.values().len()];
    let mut kept = vec![false; g.values().len()];
    for (index, step) in steps.iter().enumerate() {
        for input in &g.nodes()[step.node].inputs {
            last[sharing.root[input.index()]] = index;
        }
    }
    for var in &request.keep {
        kept[sharing.root[var.index()]] = true;
    }

    let mut planner = Planner {
        g,
        sharing: &sharing,
        last: &last,
        kept: &kept,
        blocks: Vec::new(),
        block_of: vec![None; g.values().len()],
        places: vec![None; g.values().len()],
        io: 0,
        constants: 0,
    };
    planner.place_leaves(&needed)?;
    let mut scratch_blocks = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        planner.place_outputs(index, step)?;
        let bytes = (request.scratch)(step.node);
        if bytes > 0 {
            let block = planner.block(bytes, index, index, || {
                format!("the scratch of `{}` of {bytes} bytes", g.nodes()[step.node].name)
            })?;
            scratch_blocks.push((index, block, bytes));
        }
    }

    let Planner { blocks, block_of, mut places, io, constants, .. } = planner;
    let total: u128 = blocks.iter().map(|block| block.bytes as u128).sum();
    if total + io as u128 + constants as u128 > isize::MAX as u128 {
        return Err(too_large("the values of the program together"));
    }
    let live_bytes_peak = offsets::peak(&blocks, steps.len());
    let (offsets, arena_bytes) = offsets::assign(&blocks, live_bytes_peak);
    for (root, block) in block_of.iter().enumerate() {
        if let Some(block) = *block {
            let bytes = g.values()[root].fact.bytes();
            places[root] = Some(Place::Arena { offset: offsets[block], bytes });
        }
    }
    for (step, block, bytes) in scratch_blocks {
        steps[step].scratch = Some(Slot { offset: offsets[block], bytes });
    }
    // Whatever shares memory lives where its root does, if its node runs at all.
    for (value, &root) in sharing.root.iter().enumerate() {
        if let Origin::Node { node, .. } = g.values()[value].origin
            && root != value
            && needed.nodes[node]
        {
            places[value] = places[root];
        }
    }
    let stored = g.stored().iter().map(|stored| stored.fact.bytes());
    Ok(Plan {
        steps,
        places,
        keep: request.keep.clone(),
        arena_bytes,
        io_bytes: io,
        constant_bytes: constants,
        stored_bytes: stored.fold(0, usize::saturating_add),
        live_bytes_peak,
    })
}

fn only_views(node: &Node) -> bool {
    (0..node.outputs.len()).all(|output| node.declared.views(output))
}

fn too_large(what: &str) -> Error {
    Error::invalid(
        "plan",
        format!("{what} would take more bytes than can be addressed"),
        "lower the bounds of the open letters, or the fixed sizes",
    )
}

/// Which values are the same memory: a view and what it views, the versions of one stored value.
struct Sharing {
    /// For each value the one whose memory it is.
    root: Vec<usize>,
    /// For each value the one whose *contents* it has: through views, but not through updates.
    contents: Vec<usize>,
}

impl Sharing {
    fn of(g: &Graph) -> Sharing {
        let mut root: Vec<usize> = (0..g.values().len()).collect();
        let mut contents = root.clone();
        for node in g.nodes() {
            for &alias in &node.declared.aliases {
                match alias {
                    Alias::View { output, input } => {
                        let (output, input) = (node.outputs[output].index(), node.inputs[input].index());
                        root[output] = root[input];
                        contents[output] = contents[input];
                    }
                    Alias::Update { output, input } => {
                        root[node.outputs[output].index()] = root[node.inputs[input].index()];
                    }
                    Alias::Reuse { .. } => {}
                }
            }
        }
        Sharing { root, contents }
    }

    /// A view of a stored value looks at the store itself: once the value is replaced, it would see the new
    /// contents. Recording cannot know yet which views will be read.
    fn check_state(&self, g: &Graph, needed: &Needed, keep: &[Var]) -> Result<()> {
        // For each stored value its present contents, and who put them there.
        let mut present: Vec<Option<(usize, &str)>> = vec![None; g.stored().len()];
        let check = |present: &[Option<(usize, &str)>], op: &str, var: Var| -> Result<()> {
            let contents = self.contents[var.index()];
            let Some(stored) = g.values()[contents].version_of else { return Ok(()) };
            match present[stored] {
                Some((now, by)) if now != contents => Err(Error::StaleState {
                    op: op.into(),
                    name: g.stored()[stored].name.clone(),
                    by: by.into(),
                }),
                _ => Ok(()),
            }
        };
        for (_, node) in g.nodes().iter().enumerate().filter(|(index, _)| needed.nodes[*index]) {
            for &input in &node.inputs {
                check(&present, &node.name, input)?;
            }
            for &alias in &node.declared.aliases {
                let Alias::Update { output, input } = alias else { continue };
                let (made, replaced) = (node.outputs[output].index(), node.inputs[input]);
                let Some(stored) = g.values()[made].version_of else { continue };
                let twice = (0..node.inputs.len()).find(|&other| {
                    other != input && self.root[node.inputs[other].index()] == self.root[replaced.index()]
                });
                if let Some(other) = twice {
                    let (name, operand) = (&g.stored()[stored].name, node.declared.operands[other]);
                    return Err(Error::invalid(
                        &node.name,
                        format!("reads `{name}` as {operand} while it replaces it"),
                        "give each state once",
                    ));
                }
                present[stored] = Some((made, &node.name));
            }
        }
        keep.iter().try_for_each(|&var| check(&present, "keep", var))
    }
}

/// The plan in the making.
struct Planner<'a> {
    g: &'a Graph,
    sharing: &'a Sharing,
    last: &'a [usize],
    kept: &'a [bool],
    blocks: Vec<Block>,
    /// For each root in the arena its block; several roots share one where a kernel writes in place.
    block_of: Vec<Option<usize>>,
    places: Vec<Option<Place>>,
    io: usize,
    constants: usize,
}

impl Planner<'_> {
    fn place_leaves(&mut self, needed: &Needed) -> Result<()> {
        for (index, value) in self.g.values().iter().enumerate() {
            let bytes = value.fact.bytes();
            self.places[index] = match value.origin {
                // All inputs, read or not: feeding one is never a special case.
                Origin::Input(_) => {
                    let length = self.checked(index)?;
                    Some(Place::Io { offset: take(&mut self.io, length), bytes })
                }
                Origin::Stored(stored) => {
                    self.checked(index)?;
                    Some(Place::Stored(stored))
                }
                Origin::Constant(_) if needed.values[index] => {
                    let length = self.checked(index)?;
                    Some(Place::Constant { offset: take(&mut self.constants, length), bytes })
                }
                _ => None,
            };
        }
        Ok(())
    }

    fn place_outputs(&mut self, index: usize, step: &Step) -> Result<()> {
        let node = &self.g.nodes()[step.node];
        let mut taken = Vec::new();
        for (output, var) in node.outputs.iter().enumerate() {
            let value = var.index();
            if !step.used[output] || self.sharing.root[value] != value {
                continue;
            }
            if self.kept[value] {
                let length = self.checked(value)?;
                let offset = take(&mut self.io, length);
                self.places[value] = Some(Place::Io { offset, bytes: self.g.fact(*var).bytes() });
                continue;
            }
            let last = self.last[value];
            if let Some(block) = self.reusable(index, node, output, &taken) {
                taken.push(block);
                self.blocks[block].last = last;
                self.block_of[value] = Some(block);
            } else {
                let (g, var) = (self.g, *var);
                let block = self.block(g.fact(var).bytes(), index, last, || titled(g, var))?;
                self.block_of[value] = Some(block);
            }
        }
        Ok(())
    }

    /// The block of an input that the kernel may write this output over.
    fn reusable(&self, index: usize, node: &Node, output: usize, taken: &[usize]) -> Option<usize> {
        let root = |input: usize| self.sharing.root[node.inputs[input].index()];
        node.declared.aliases.iter().find_map(|alias| {
            let Alias::Reuse { output: o, input } = *alias else { return None };
            let block = self.block_of[root(input)]?;
            // The kernel overwrites one operand: any other that shares its memory must stay readable.
            let alone = (0..node.inputs.len()).all(|other| other == input || root(other) != root(input));
            let fits = o == output
                && alone
                && self.last[root(input)] == index
                && self.g.may_overwrite(node, output, input)
                && !taken.contains(&block);
            fits.then_some(block)
        })
    }

    fn block(
        &mut self,
        bytes: usize,
        first: usize,
        last: usize,
        what: impl FnOnce() -> String,
    ) -> Result<usize> {
        let bytes = aligned(bytes).ok_or_else(|| too_large(&what()))?;
        self.blocks.push(Block { bytes, first, last: last.max(first) });
        Ok(self.blocks.len() - 1)
    }

    fn checked(&self, value: usize) -> Result<usize> {
        let bytes = aligned(self.g.values()[value].fact.bytes());
        bytes.ok_or_else(|| too_large(&titled(self.g, self.g.var(value))))
    }
}

fn titled(g: &Graph, var: Var) -> String {
    format!("{}, {},", g.title(var), g.fact(var))
}

/// Rounded up to the alignment, unless that many bytes cannot be addressed.
fn aligned(bytes: usize) -> Option<usize> {
    bytes.checked_next_multiple_of(ALIGNMENT).filter(|&bytes| bytes <= isize::MAX as usize)
}

/// Takes a piece from the end; sizes that could overflow the sum are refused by the caller's total.
fn take(end: &mut usize, bytes: usize) -> usize {
    let offset = *end;
    *end = end.saturating_add(bytes);
    offset
}
