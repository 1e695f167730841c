//! What a program will cost in time, before it runs. The cost reader counts the work of each node; how long a unit of work
//! takes is measured here and now, on small programs of the usual parts ([`Cards`]), and carried over to nodes of the same op
//! by how alike their shapes are. Nothing is known of models: a node is an op with sizes.

mod cards;
mod usual;

pub use cards::{Cards, Spent, spent};

use crate::Result;
use regard_graph::{Alias, CostRow, Costs, Graph, Node, cost};

/// The predicted time of one node.
#[derive(Clone, Debug)]
pub struct Priced {
    /// Its work.
    pub row: CostRow,
    /// Nanoseconds.
    pub nanoseconds: f64,
}

/// The predicted time of every node that runs, in order. All sizes are fixed.
pub fn predict(g: &Graph, cards: &Cards) -> Result<Vec<Priced>> {
    let costs = counted(g)?;
    let rows = costs.rows.into_iter().filter(|row| runs(&g.nodes()[row.node]));
    Ok(rows
        .map(|row| {
            let nanoseconds = cards.price(g, &row);
            Priced { row, nanoseconds }
        })
        .collect())
}

/// The work of what has to run.
fn counted(g: &Graph) -> Result<Costs> {
    let kept: Vec<_> = g.outputs().map(|(_, var)| var).collect();
    Ok(cost(g, &Default::default(), &Default::default(), Some(&kept))?)
}

/// A view is the same bytes under another shape: nothing runs.
fn runs(node: &Node) -> bool {
    !node.op.aliases().iter().any(|alias| matches!(alias, Alias::View { .. }))
}

/// From how many keys on attention itself costs more multiply-adds than the products beside it: than the projections of the
/// attention, and than all products of the block. Read off the first attention of a graph; none without one.
pub fn crossovers(g: &Graph) -> Result<Option<(f64, f64)>> {
    let costs = counted(g)?;
    let Some((at, node)) = g.nodes().iter().enumerate().find(|(_, node)| node.op.name() == "attention")
    else {
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
        rows.map(|row| row.cost.math.macs as f64).sum::<f64>() / tokens
    };
    Ok(Some((products(scope) / per_key, products(block) / per_key)))
}
