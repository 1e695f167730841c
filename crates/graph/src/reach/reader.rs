//! Carries sets of source cells through the graph, node by node.

use super::relation::{Bits, Grid, carry};
use super::{Grain, Query, Reach, Relation};
use crate::integers::Call;
use crate::needed::walk;
use crate::{Error, Graph, Result, Var, human};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};

/// The most bits that are carried at one time: one GiB.
const MOST_BITS: u128 = 1 << 33;

/// Which cells of `from` can change which cells of `to`. A relation may be too large, never too small.
pub fn reach(g: &Graph, query: &Query) -> Result<Reach> {
    if let Some(operand) = query.from.iter().chain(&query.to).position(|&var| !g.owns(var)) {
        return Err(Error::ForeignVar { op: "reach".into(), operand });
    }
    let needed = walk(g, "reach", &query.to, false)?;
    let known = query.integers.resolve(g, &query.sizes, "reach")?;
    let apart: HashSet<Var> = query.apart.iter().copied().collect();
    let grid_of = |var: Var| -> Result<Grid> {
        let grain = if apart.contains(&var) { Grain::Element } else { query.grain };
        Ok(Grid::new(g.shape(var).at(&query.sizes)?, g.dtype(var), grain))
    };

    let mut sources: BTreeMap<Var, usize> = BTreeMap::new();
    let mut source_cells = 0usize;
    for &var in &query.from {
        if let Entry::Vacant(source) = sources.entry(var) {
            source.insert(source_cells);
            source_cells = source_cells.saturating_add(grid_of(var)?.cells());
        }
    }

    let mut last_reader = vec![0; g.values().len()];
    for (index, node) in g.nodes().iter().enumerate().filter(|(index, _)| needed.nodes[*index]) {
        node.inputs.iter().for_each(|input| last_reader[input.index()] = index);
    }
    query.to.iter().for_each(|var| last_reader[var.index()] = usize::MAX);

    let mut carried =
        Carried { g, grain: query.grain, bits: 0, source_cells, sets: vec![None; g.values().len()] };
    for (&var, &first) in &sources {
        carried.seed(var, grid_of(var)?, first)?;
    }
    for (index, node) in g.nodes().iter().enumerate().filter(|(index, _)| needed.nodes[*index]) {
        if node.inputs.iter().all(|input| carried.sets[input.index()].is_none()) {
            continue;
        }
        let call = Call::new(g, index, &query.sizes, &known, &needed)?;
        for (output, &var) in node.outputs.iter().enumerate().filter(|(_, var)| needed.values[var.index()]) {
            let to = grid_of(var)?;
            for (input, &source) in node.inputs.iter().enumerate() {
                if carried.sets[source.index()].is_none() {
                    continue;
                }
                let relation = node.op.reach(&call.concrete(), output, input);
                if relation == Relation::Nothing {
                    continue;
                }
                let mut set = carried.open(var, &to)?;
                if let Some(from) = &carried.sets[source.index()] {
                    let grid = grid_of(source)?;
                    carry(&relation, (&grid, from), (&to, &mut set)).map_err(|what| {
                        let operand = node.declared.operands[input];
                        Error::invalid(
                            &node.name,
                            format!("its reach from {operand} to output {output} says {what}"),
                            format!("mend `reach` of {}", node.op.name()),
                        )
                    })?;
                }
                carried.sets[var.index()] = Some(set);
            }
        }
        for input in &node.inputs {
            if last_reader[input.index()] == index {
                carried.close(*input);
            }
        }
    }

    let mut values = BTreeMap::new();
    for &var in query.from.iter().chain(&query.to) {
        values.insert(var, (grid_of(var)?, g.title(var)));
    }
    let mut sets = BTreeMap::new();
    for &var in &query.to {
        sets.entry(var).or_insert_with(|| carried.sets[var.index()].take());
    }
    Ok(Reach { sources, values, sets })
}

/// The sets that are alive.
struct Carried<'a> {
    g: &'a Graph,
    grain: Grain,
    bits: u128,
    source_cells: usize,
    sets: Vec<Option<Bits>>,
}

impl Carried<'_> {
    /// Each cell of a source depends on itself.
    fn seed(&mut self, var: Var, grid: Grid, first: usize) -> Result<()> {
        let mut set = self.open(var, &grid)?;
        (0..grid.cells()).for_each(|cell| set.insert(cell, first + cell));
        self.sets[var.index()] = Some(set);
        Ok(())
    }

    /// The set of a value to add to, empty at first; too large a set is refused before it is made.
    fn open(&mut self, var: Var, grid: &Grid) -> Result<Bits> {
        if let Some(set) = self.sets[var.index()].take() {
            return Ok(set);
        }
        let bits = grid.cells() as u128 * self.source_cells as u128;
        if self.bits + bits > MOST_BITS {
            let advice = match self.grain {
                Grain::Element => "use Grain::Position, or smaller sizes",
                Grain::Position => "use smaller sizes, or fewer sources",
            };
            let (cells, sources) =
                (human::count(grid.cells() as u64), human::count(self.source_cells as u64));
            let what =
                format!("{cells} cells of {} on {sources} source cells are too many", self.g.title(var));
            return Err(Error::invalid("reach", what, advice));
        }
        self.bits += bits;
        Ok(Bits::empty(grid.cells(), self.source_cells))
    }

    fn close(&mut self, var: Var) {
        if let Some(set) = self.sets[var.index()].take() {
            self.bits -= set.cells() as u128 * self.source_cells as u128;
        }
    }
}
