//! How far each value sees: the receptive field, read off the graph, in positions before and after its own.

use crate::Result;
use crate::prove::{Followed, ProofCase};
use regard_graph::axes::Standing;
use regard_layers::taps::is_inside;

/// How far the positions of a tapped value see along a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sight {
    /// The tap or output.
    pub name: String,
    /// The most positions back.
    pub back: usize,
    /// The most positions ahead: what a stream of input must be waited for.
    pub ahead: usize,
    /// Whether the first position is felt at the last: the true reach may be larger than this pass is long.
    pub to_the_beginning: bool,
    /// Whether the last position is felt at the first.
    pub to_the_end: bool,
}

/// The sight of every tap and output that lies along a stream, in the order of running; what lies inside of
/// the parts of a block is left out, for the stream behind it says as much. What stands for a pair of
/// positions sees from the later one.
pub fn sight(case: &ProofCase, input: &str) -> Result<Vec<Sight>> {
    let stream = case.stream(input)?;
    let followed = Followed::new(case)?;
    let felt = followed.felt(input, false)?;
    let taps = case.graph.taps().filter(|(name, _)| !is_inside(name));
    let mut named: Vec<(&str, regard_graph::Var)> = taps.chain(case.graph.outputs()).collect();
    named.retain(|(_, var)| felt.values.contains(var) && followed.along(*var, stream) == Standing::Along);
    named.sort_by_key(|(_, var)| var.index());
    named.dedup_by_key(|(_, var)| *var);
    let mut found = Vec::new();
    for (name, var) in named {
        let mut sight =
            Sight { name: name.into(), back: 0, ahead: 0, to_the_beginning: false, to_the_end: false };
        for cell in felt.reach.cells(var)? {
            let own = followed.places(var, stream, &felt.reach.coordinates(cell)?);
            let Some(there) = own.into_iter().max() else { continue };
            for (_, (_, here)) in felt.by(cell)? {
                sight.back = sight.back.max(there.saturating_sub(here));
                sight.ahead = sight.ahead.max(here.saturating_sub(there));
            }
        }
        sight.to_the_beginning = sight.back + 1 == stream.length;
        sight.to_the_end = sight.ahead + 1 == stream.length;
        found.push(sight);
    }
    Ok(found)
}
