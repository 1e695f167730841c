//! The load of a node: what it has to do in the time that the machine would need at its best. Arithmetic is
//! counted as the CPU executes it. Memory is counted by distance: a value that was last touched long ago has
//! left the near caches, and reading it takes as long as reading that much memory again and again does.

use super::fit::TERMS;
use super::{counted, executed, runs};
use crate::Result;
use regard_device::Ceilings;
use regard_graph::{Alias, CostRow, Costs, DType, Graph, Node, Var};
use regard_ops::{Linear, WeightLayout};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What the machine can do at best.
#[derive(Clone, Debug)]
pub struct Machine {
    pub ceilings: Ceilings,
    /// Bytes that are read again and again, and bytes read a nanosecond.
    pub reading: Vec<(usize, f64)>,
}

impl Machine {
    /// The best of what was measured at two moments: whoever else uses the machine can only make it slower.
    pub fn or(mut self, other: &Machine) -> Machine {
        self.ceilings.gflops = self.ceilings.gflops.max(other.ceilings.gflops);
        self.ceilings.gbytes = self.ceilings.gbytes.max(other.ceilings.gbytes);
        for (own, (_, speed)) in self.reading.iter_mut().zip(&other.reading) {
            own.1 = own.1.max(*speed);
        }
        self
    }

    /// Nanoseconds to read a byte that was last touched so many bytes ago. Between two measured distances the
    /// logarithms lie on a line.
    fn nanoseconds_a_byte(&self, distance: f64) -> f64 {
        let points = self.reading.iter().map(|&(bytes, speed)| ((bytes as f64).ln(), -speed.ln()));
        let at = distance.max(1.0).ln();
        let (mut below, mut above) = (None, None);
        for point in points {
            if point.0 <= at {
                below = Some(point);
            } else {
                above = above.or(Some(point));
            }
        }
        let between = match (below, above) {
            (Some((x, a)), Some((y, b))) => a + (b - a) * (at - x) / (y - x),
            (Some((_, only)), None) | (None, Some((_, only))) => only,
            (None, None) => 0.0,
        };
        between.exp()
    }
}

/// What a node has to do.
#[derive(Clone, Debug)]
pub struct Load {
    /// The number of its node.
    pub node: usize,
    /// What it is called, the most telling name first.
    pub kinds: [String; 3],
    /// 1 for the start; then nanoseconds at the best for multiply-adds, for other arithmetic, and for memory.
    pub amounts: [f64; TERMS],
    /// Logarithms of rows, of work for each row, of the last axis, and of what a byte takes.
    pub shape: Shape,
}

/// Nodes of the same kind whose shapes are alike take about as long for what they have to do.
pub type Shape = [f64; 4];

/// The load of every node that runs, in order.
pub fn loads(g: &Graph, machine: &Machine) -> Result<Vec<(CostRow, Load)>> {
    let that_run = |costs: Costs| costs.rows.into_iter().filter(|row| runs(&g.nodes()[row.node]));
    // A load is of what is executed; what is shown beside it is the mathematics.
    let rows: Vec<CostRow> = that_run(executed(g)?).collect();
    let memory = memory(g, &rows, machine);
    let loads = rows.iter().zip(memory).zip(that_run(counted(g)?)).map(|((row, memory), shown)| {
        let work = row.cost;
        // A multiply-add is two of the ceiling's operations, and any other counts as one multiply-add would.
        let best = |count: u64| 2.0 * count as f64 / machine.ceilings.gflops;
        let amounts = [1.0, best(work.macs), best(work.flops), memory];
        let dims = g.nodes()[row.node].outputs.first().map(|&var| g.shape(var).bound());
        let last = dims.and_then(|dims| dims.last().copied()).unwrap_or(1).max(1) as f64;
        let count = dims.map_or(1.0, |dims| dims.count().max(1) as f64);
        let amount = if work.macs > 0 { work.macs } else { work.read + work.written };
        let each = (amount as f64 * last / count).max(1.0);
        let a_byte = (memory / (work.read + work.written).max(1) as f64).max(1e-6);
        let load = Load {
            node: row.node,
            kinds: kinds(g, row),
            amounts,
            shape: [(count / last).ln(), each.ln(), last.ln(), a_byte.ln()],
        };
        (shown, load)
    });
    Ok(loads.collect())
}

/// Nanoseconds that the memory of each node takes at the best.
fn memory(g: &Graph, rows: &[CostRow], machine: &Machine) -> Vec<f64> {
    let place = places(g);
    let changed = changed(g, &place);
    let bytes = |var: Var| g.fact(var).bytes() as f64;
    let fresh = most_alive(g, rows, &place);
    let mut touched: BTreeMap<usize, f64> = BTreeMap::new();
    // Packed copies: when they were last touched, and in which round they were made.
    let mut copies: HashMap<(usize, WeightLayout), (f64, usize)> = HashMap::new();
    let (mut at, mut spent) = (0.0, Vec::new());
    // Twice round: at the first node of a run, weights were last touched in the run before.
    for round in 0..2 {
        for row in rows {
            let node = &g.nodes()[row.node];
            let inputs: BTreeMap<usize, f64> =
                node.inputs.iter().map(|&var| (place[var.index()], bytes(var))).collect();
            let all: f64 = inputs.values().sum();
            // Of a table, a lookup reads some rows.
            let part = (row.cost.read as f64 / all.max(1.0)).min(1.0);
            let mut nanoseconds = 0.0;
            let begun = at;
            for (place, bytes) in inputs {
                // Read in the same order as before, each byte was last touched a whole operand earlier than
                // its last one.
                let bytes = part * bytes;
                let distance = touched.get(&place).map_or(f64::INFINITY, |last| begun - last + bytes);
                nanoseconds += bytes * machine.nanoseconds_a_byte(distance);
                at += bytes;
                touched.insert(place, at);
            }
            for &var in &node.outputs {
                let place = place[var.index()];
                let distance = touched.get(&place).map_or(fresh, |last| (begun - last).clamp(0.0, fresh));
                // What is written is fetched first and brought back later.
                nanoseconds += 2.0 * bytes(var) * machine.nanoseconds_a_byte(distance);
                at += bytes(var);
                touched.insert(place, at);
            }
            // A weight that the run changes is packed anew before it is first used: the copy is written where
            // it was.
            if let Some((weight, layout)) =
                weight(g, node).filter(|(var, _)| changed.contains(&place[var.index()]))
            {
                let copy = (place[weight.index()], layout);
                let (last, made) = copies.get(&copy).copied().unwrap_or((f64::NEG_INFINITY, usize::MAX));
                if made != round {
                    nanoseconds += 2.0 * bytes(weight) * machine.nanoseconds_a_byte(begun - last);
                    at += bytes(weight);
                }
                copies.insert(copy, (at, round));
            }
            if round == 1 {
                spent.push(nanoseconds);
            }
        }
    }
    spent
}

/// The stored weight that a product multiplies with, of which the engine keeps a packed copy, and how that is
/// laid out.
fn weight(g: &Graph, node: &Node) -> Option<(Var, WeightLayout)> {
    let (op, weight) = (node.op_as::<Linear>()?, *node.inputs.get(1)?);
    let kept = g.value(weight).version_of.is_some() && g.dtype(weight) == DType::F32;
    kept.then_some((weight, op.layout))
}

/// Places that a run changes: what is packed of them is old by the next run.
fn changed(g: &Graph, place: &[usize]) -> BTreeSet<usize> {
    let updates = g.nodes().iter().flat_map(|node| {
        let updated = |alias| match alias {
            Alias::Update { output, .. } => Some(place[node.outputs[output].index()]),
            _ => None,
        };
        node.declared.aliases.iter().copied().filter_map(updated).collect::<Vec<_>>()
    });
    updates.collect()
}

/// Where each value lives, as far as a graph tells: a view, and the next version of a state, where the first
/// one does.
fn places(g: &Graph) -> Vec<usize> {
    let mut place: Vec<usize> = (0..g.values().len()).collect();
    for node in g.nodes() {
        for &alias in &node.declared.aliases {
            if let Alias::View { output, input } | Alias::Update { output, input } = alias {
                place[node.outputs[output].index()] = place[node.inputs[input].index()];
            }
        }
    }
    place
}

/// The most bytes of intermediate values at one time: about as long ago was the place of a new value last
/// touched.
fn most_alive(g: &Graph, rows: &[CostRow], place: &[usize]) -> f64 {
    let mut last: BTreeMap<usize, usize> = BTreeMap::new();
    for (at, row) in rows.iter().enumerate() {
        let node = &g.nodes()[row.node];
        node.inputs.iter().chain(&node.outputs).for_each(|var| _ = last.insert(place[var.index()], at));
    }
    let (mut alive, mut most) = (0.0f64, 0.0f64);
    let mut made: BTreeMap<usize, f64> = BTreeMap::new();
    for (at, row) in rows.iter().enumerate() {
        let node = &g.nodes()[row.node];
        for &var in node.outputs.iter().filter(|var| place[var.index()] == var.index()) {
            let bytes = g.fact(var).bytes() as f64;
            made.insert(var.index(), bytes);
            alive += bytes;
        }
        most = most.max(alive);
        let touched: BTreeSet<usize> =
            node.inputs.iter().chain(&node.outputs).map(|var| place[var.index()]).collect();
        for place in touched.into_iter().filter(|place| last.get(place) == Some(&at)) {
            alive -= made.remove(&place).unwrap_or(0.0);
        }
    }
    most
}

/// Numbers in the longest vectors.
const VECTOR: usize = 16;

/// What a node is called: with the settings that its speed depends on, without them, and by whether it
/// multiplies.
fn kinds(g: &Graph, row: &CostRow) -> [String; 3] {
    const RELEVANT: [&str; 8] =
        ["activation", "layout", "precision", "causal", "gate", "function", "bias", "output"];
    let settings = g.nodes()[row.node].op.attributes();
    // Of "buckets both ways up to 128" the first word is enough.
    let mut relevant: Vec<&str> = settings
        .iter()
        .filter(|(name, _)| RELEVANT.contains(name))
        .filter_map(|(_, value)| value.split(' ').next())
        .collect();
    // Rows that do not fill vectors have an end of their own, and attention works on short ones. Where all
    // operands have the shape of the result, all rows are one.
    let node = &g.nodes()[row.node];
    let dims = |var: Var| g.shape(var).bound();
    let result = node
        .outputs
        .first()
        .map(|&var| dims(var))
        .filter(|result| node.inputs.iter().any(|&var| dims(var).count() > 1 && dims(var) != *result));
    if result.and_then(|dims| dims.last().copied()).is_some_and(|last| last % VECTOR != 0) {
        relevant.push("ragged");
    }
    let class = if row.cost.macs > 0 { "multiplies" } else { "moves" };
    [format!("{} {}", row.op, relevant.join(" ")), row.op.to_string(), class.to_string()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use regard_graph::Init;
    use regard_graph::shape;
    use regard_ops::prelude::*;
    use regard_ops::{AdamW, CrossEntropyOptions, LinearOptions};

    fn machine() -> Machine {
        let ceilings = Ceilings { gflops: 2.0, gbytes: 1.0 };
        Machine { ceilings, reading: vec![(1 << 10, 8.0), (1 << 20, 2.0)] }
    }

    #[test]
    fn far_bytes_take_longer() {
        let of = |distance: f64| machine().nanoseconds_a_byte(distance);
        // Between the two measured ones half-way in logarithms, and beside them as they are.
        for (distance, wanted) in [(0.0, 0.125), (32768.0, 0.25), (1e9, 0.5), (f64::INFINITY, 0.5)] {
            assert!((of(distance) - wanted).abs() < 1e-12, "{distance}: {}", of(distance));
        }
    }

    #[test]
    fn weights_of_a_large_program_come_from_afar() {
        let record = |layers: usize| -> Graph {
            let mut g = Graph::inference();
            let mut x = g.input("x", DType::F32, [1, 64]).unwrap();
            for layer in 0..layers {
                let weight = g.parameter(&format!("w{layer}"), [64, 64], Init::Zeros).unwrap();
                x = g.linear(x, weight, LinearOptions::default()).unwrap();
            }
            g.output("y", x).unwrap();
            g
        };
        let first = |layers: usize| loads(&record(layers), &machine()).unwrap()[0].1.clone();
        let (one, many) = (first(1), first(80));
        assert_eq!(one.amounts[..3], many.amounts[..3]);
        assert_eq!(one.amounts[1], 64.0 * 64.0, "a multiply-add is two operations");
        let near = 16384.0 * machine().nanoseconds_a_byte(16384.0 + 512.0);
        assert!((near..1.1 * near).contains(&one.amounts[3]), "{} {near}", one.amounts[3]);
        let far = 16384.0 * 0.5;
        assert!((far..1.1 * far).contains(&many.amounts[3]), "{} {far}", many.amounts[3]);
        assert_eq!(one.kinds, ["linear None OutIn F32", "linear", "multiplies"]);
        assert_eq!(one.shape[..3], [0.0, 4096f64.ln(), 64f64.ln()]);
        assert!(one.shape[3] < many.shape[3]);
    }

    #[test]
    fn a_lookup_reads_some_rows_of_its_table() {
        let mut g = Graph::inference();
        let table = g.parameter("table", [100_000, 8], Init::Zeros).unwrap();
        let ids = g.input("ids", DType::I32, [2]).unwrap();
        let x = g.embedding(table, ids, None).unwrap();
        g.output("x", x).unwrap();
        let load = loads(&g, &machine()).unwrap().remove(0).1;
        assert!(load.amounts[3] < 200.0, "{:?}", load.amounts);
    }

    #[test]
    fn a_weight_that_a_step_changes_is_packed_again() {
        let mut g = Graph::new();
        let x = g.input("x", DType::F32, [2, 64]).unwrap();
        let [rate, scale] = ["rate", "scale"].map(|name| g.input(name, DType::F32, shape![]).unwrap());
        let step = g.input("step", DType::I32, shape![]).unwrap();
        let targets = g.input("targets", DType::I32, [2]).unwrap();
        let weights = ["a", "b"].map(|name| g.parameter(name, [64, 64], Init::Zeros).unwrap());
        let y = g.linear(x, weights[0], LinearOptions::default()).unwrap();
        let y = g.linear(y, weights[1], LinearOptions::default()).unwrap();
        let y = g.linear(y, weights[1], LinearOptions::default()).unwrap();
        let options = CrossEntropyOptions::default();
        let loss = g.linear_cross_entropy(y, weights[1], None, targets, scale, options).unwrap().loss;
        g.output("loss", loss).unwrap();
        let gradients = g.gradient(loss, &weights).unwrap();
        let pairs: Vec<_> = weights.into_iter().zip(gradients).collect();
        g.adamw_step(&pairs, &AdamW::default(), rate, step, None).unwrap();
        // Forward, each weight once, though the second serves twice; backward in the other layout, and x
        // needs no gradient.
        let linear = |(row, load): (CostRow, Load)| (row.op == "linear").then_some(load.amounts[3]);
        let took: Vec<f64> = loads(&g, &machine()).unwrap().into_iter().filter_map(linear).collect();
        let [a, first, second, back, again] = took.as_slice() else { panic!("{took:?}") };
        let packing = 2.0 * 16384.0 * 0.125;
        for (packed, as_it_is) in [(a, second), (first, second), (back, again)] {
            assert!(packed - as_it_is > packing, "{took:?}");
        }
    }

    #[test]
    fn the_best_of_two_moments() {
        let mut slow = machine();
        slow.ceilings.gflops = 1.0;
        slow.reading[1].1 = 3.0;
        let best = slow.or(&machine());
        assert_eq!((best.ceilings.gflops, best.ceilings.gbytes), (2.0, 1.0));
        assert_eq!(best.reading, [(1 << 10, 8.0), (1 << 20, 3.0)]);
    }
}
