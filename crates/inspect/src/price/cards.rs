//! Rates measured on small programs: for each op, nanoseconds for a unit of work at several shapes. A node is priced by those
//! of its op whose shapes are most alike, near ones counting most.

use super::{counted, runs, usual};
use crate::Result;
use regard_device::Ceilings;
use regard_engine::{Cpu, Program, Store};
use regard_graph::{CostRow, Graph};
use std::collections::BTreeMap;

/// What was measured of one node at one shape.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Card {
    /// Logarithms of rows, work for each row, and the last axis.
    shape: [f64; 3],
    /// Logarithm of nanoseconds for a unit of work.
    rate: f64,
}

/// Rates of the usual ops, measured in this process.
#[derive(Clone, Debug)]
pub struct Cards {
    kinds: BTreeMap<String, Vec<Card>>,
    /// What the machine can do at best.
    pub ceilings: Ceilings,
}

/// The least time of each node over several runs, in nanoseconds.
#[derive(Clone, Debug)]
pub struct Spent {
    /// By the number of the node.
    pub nodes: BTreeMap<usize, f64>,
    /// All of them together: a run that nobody disturbs.
    pub total: f64,
}

/// Runs a program whose inputs are set: once to warm up, then so often. Whoever else uses the machine can only make a run
/// slower, so the least times are kept.
pub fn spent(program: &mut Program, store: &mut Store, times: usize) -> Result<Spent> {
    program.run(store)?;
    let mut nodes = BTreeMap::new();
    for _ in 0..times {
        program.measure();
        program.run(store)?;
        for (node, nanoseconds) in program.spent() {
            let own: &mut f64 = nodes.entry(node).or_insert(f64::INFINITY);
            *own = own.min(nanoseconds as f64);
        }
    }
    let total = nodes.values().sum();
    Ok(Spent { nodes, total })
}

/// Each small program is run for so many nanoseconds, but no fewer and no more times than these.
const PATIENCE: f64 = 3e7;
const TIMES: (usize, usize) = (5, 15);
/// So many of the most alike cards are asked.
const NEAREST: usize = 4;

impl Cards {
    /// Measures. Takes a second or two; with `training`, backward passes and updates as well, which takes three times as long.
    pub fn measure(cpu: &Cpu, training: bool) -> Result<Cards> {
        let ceilings = regard_device::cpu::ceiling::measure(cpu.pool(), cpu.level())
            .map_err(regard_engine::Error::from)?;
        let mut cards = Cards { kinds: BTreeMap::new(), ceilings };
        for size in usual::SIZES {
            for &style in usual::styles(size) {
                let mut store = Store::new(1);
                let graph = usual::record(size, style, training)?;
                let mut program = Program::new(graph, &[], &mut store, cpu)?;
                usual::feed(&mut program, size, training)?;
                let once = spent(&mut program, &mut store, 1)?.total.max(1.0);
                let times = ((PATIENCE / once) as usize).clamp(TIMES.0, TIMES.1);
                let spent = spent(&mut program, &mut store, times)?;
                cards.add(program.graph(), &spent)?;
            }
        }
        Ok(cards)
    }

    fn add(&mut self, g: &Graph, spent: &Spent) -> Result<()> {
        for row in counted(g)?.rows.iter().filter(|row| runs(&g.nodes()[row.node])) {
            let (Some(&nanoseconds), Some((shape, work))) = (spent.nodes.get(&row.node), features(g, row))
            else {
                continue;
            };
            let card = Card { shape, rate: (nanoseconds.max(1.0) / work).ln() };
            for kind in kinds(g, row) {
                self.kinds.entry(kind).or_default().push(card);
            }
        }
        Ok(())
    }

    /// Nanoseconds that a node will take.
    pub(super) fn price(&self, g: &Graph, row: &CostRow) -> f64 {
        let Some((shape, work)) = features(g, row) else { return 0.0 };
        let known = kinds(g, row).into_iter().find_map(|kind| self.kinds.get(&kind));
        match known {
            Some(cards) => work * interpolated(cards, shape).exp(),
            // An op that no small program has: its traffic at the rate of an addition, its arithmetic at a tenth of the best.
            None => {
                let work = row.cost.executed;
                let bytes = (work.read + work.written) as f64 / self.ceilings.gbytes;
                let flops = (2.0 * work.macs as f64 + work.flops as f64) / self.ceilings.gflops;
                2000.0 + bytes.max(10.0 * flops)
            }
        }
    }
}

/// The rate at a shape between those of the cards: the nearest count most.
fn interpolated(cards: &[Card], shape: [f64; 3]) -> f64 {
    let apart = |card: &Card| -> f64 {
        card.shape.iter().zip(shape).map(|(a, b)| (a - b).powi(2)).sum::<f64>() + 1e-3
    };
    let mut near: Vec<(f64, f64)> = cards.iter().map(|card| (apart(card), card.rate)).collect();
    near.sort_by(|a, b| a.0.total_cmp(&b.0));
    near.truncate(NEAREST);
    let (sum, weights) = near.iter().fold((0.0, 0.0), |(sum, weights), (apart, rate)| {
        (sum + rate / apart.powi(2), weights + 1.0 / apart.powi(2))
    });
    sum / weights
}

/// The shape of a node's work and how much there is: multiply-adds where there are any, or else bytes.
fn features(g: &Graph, row: &CostRow) -> Option<([f64; 3], f64)> {
    let node = &g.nodes()[row.node];
    let dims = g.shape(*node.outputs.first()?).bound();
    let last = dims.last().copied().unwrap_or(1).max(1) as f64;
    let rows = (dims.count() as f64 / last).max(1.0);
    let work = row.cost.executed;
    let amount = if work.macs > 0 { work.macs as f64 } else { (work.read + work.written) as f64 };
    (amount > 0.0).then(|| ([rows.ln(), (amount / rows).ln(), last.ln()], amount))
}

/// What a node is called among the cards: with its settings, and without where nothing else is known.
fn kinds(g: &Graph, row: &CostRow) -> Vec<String> {
    let telling = ["activation", "layout", "precision", "causal", "gate", "function"];
    let settings = g.nodes()[row.node].op.attributes();
    let told: Vec<String> =
        settings.into_iter().filter(|(name, _)| telling.contains(name)).map(|(_, value)| value).collect();
    vec![format!("{} {}", row.op, told.join(" ")), row.op.to_string()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_shape_has_its_own_rate_and_others_lie_between() {
        let card = |rows: f64, rate: f64| Card { shape: [rows, 0.0, 0.0], rate };
        let cards = [card(0.0, 1.0), card(4.0, 3.0), card(8.0, 9.0)];
        assert!((interpolated(&cards, [4.0, 0.0, 0.0]) - 3.0).abs() < 1e-3);
        let between = interpolated(&cards, [2.0, 0.0, 0.0]);
        assert!((1.9..2.2).contains(&between), "{between}");
        assert!(interpolated(&cards, [40.0, 0.0, 0.0]) > 5.0, "far away the nearest counts most");
    }
}
