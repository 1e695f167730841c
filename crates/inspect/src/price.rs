//! What a program will cost in time and memory, before it runs. The cost reader counts the work of each node;
//! what the machine can do at best is measured here and now, and so is how near the usual ops come to it, on
//! small programs ([`Calibration`], [`Cards`]). Nothing is known of models: a node is an op with sizes.

mod calibration;
mod cards;
mod clock;
mod fit;
mod late;
mod load;
mod usual;

pub use calibration::{Calibration, ROUNDS};
pub use cards::Cards;
pub use clock::{Clocked, clock};

use crate::Result;
use regard_engine::{AsDevice, Cpu, Memory, Program, Store};
use regard_graph::{Alias, CostRow, Costs, Graph, Init, Node, Role, Var, cost};
use regard_ops::{AttentionOp, joined};

/// The predicted time of one node.
#[derive(Clone, Debug)]
pub struct Priced {
    /// Its work, as the mathematics has it.
    pub row: CostRow,
    /// Nanoseconds.
    pub nanoseconds: f64,
}

/// The predicted time of a run.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// Every node that runs, in order.
    pub nodes: Vec<Priced>,
    /// The whole run in nanoseconds, with what passes between nodes.
    pub total: f64,
}

/// Predicts the time of a run, node by node as it is planned. All sizes are fixed.
pub fn predict(g: &Graph, cards: &Cards) -> Result<Prediction> {
    let kept: Vec<_> = g.outputs().map(|(_, var)| var).collect();
    let loads = load::loads(&joined(g, &kept)?, cards.machine())?;
    let nodes: Vec<Priced> = loads
        .into_iter()
        .map(|(row, load)| {
            let nanoseconds = cards.price(&load);
            Priced { row, nanoseconds }
        })
        .collect();
    let total = cards.whole(nodes.iter().map(|node| node.nanoseconds).sum());
    Ok(Prediction { nodes, total })
}

/// The memory that a program will take, without making or reading a weight: pages of zeros take none until
/// they are touched.
pub fn memory(g: Graph, device: &impl AsDevice) -> Result<Memory> {
    let mut store = Store::new(0);
    for stored in g.stored().iter().filter(|stored| stored.role == Role::Parameter) {
        store.declare(&stored.name, &stored.fact.shape, Init::Zeros)?;
    }
    Ok(Program::new(g, &[], &mut store, device)?.memory())
}

/// The work of what has to run, as the mathematics has it.
fn counted(g: &Graph) -> Result<Costs> {
    Ok(cost(g, &Default::default(), &Default::default(), Some(&kept(g)))?)
}

/// The work of what has to run, as the CPU executes it.
fn executed(g: &Graph) -> Result<Costs> {
    Ok(Cpu::executed(g, &Default::default(), &Default::default(), Some(&kept(g)))?)
}

fn kept(g: &Graph) -> Vec<Var> {
    g.outputs().map(|(_, var)| var).collect()
}

/// A view is the same bytes under another shape: nothing runs.
fn runs(node: &Node) -> bool {
    !node.declared.aliases.iter().any(|alias| matches!(alias, Alias::View { .. }))
}

/// From how many keys on attention itself costs more multiply-adds than the products beside it: than the
/// projections of the attention, and than all products of the block. Read off the first attention of a graph;
/// none without one.
pub fn crossovers(g: &Graph) -> Result<Option<(f64, f64)>> {
    let costs = counted(g)?;
    let Some((at, node)) = g.nodes().iter().enumerate().find(|(_, node)| node.is::<AttentionOp>()) else {
        return Ok(None);
    };
    let (query, value) = (g.shape(node.inputs[0]).bound(), g.shape(node.inputs[2]).bound());
    let tokens = (query[0] * query[1]) as f64;
    // Each key costs a query D for the score and E for the mixture, in every head.
    let per_key = (query[2] * (query[3] + value[3])) as f64;
    let scope = node.name.rsplit_once('.').map_or("", |(scope, _)| scope);
    let block = scope.rsplit_once('.').map_or("", |(block, _)| block);
    let products = |prefix: &str| -> f64 {
        let under = |name: &str| name.starts_with(&format!("{prefix}."));
        let rows = costs.rows.iter().filter(|row| row.node != at && row.op == "linear" && under(&row.name));
        rows.map(|row| row.cost.macs as f64).sum::<f64>() / tokens
    };
    Ok(Some((products(scope) / per_key, products(block) / per_key)))
}
