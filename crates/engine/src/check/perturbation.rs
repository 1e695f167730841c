//! The reach reader against what really changes when one element of an input does.

use super::counting::known_integers;
use super::{Case, Exactness, Recorded, fail};
use crate::Result;
use crate::reference::{Mode, run};
use regard_device::Stream;
use regard_graph::axes::check_layouts;
use regard_graph::reach::{Query, reach};
use regard_graph::{Graph, Integers, Var};

/// How many elements of each source are moved, at most.
const SAMPLES: usize = 40;

impl Case<'_> {
    /// Moves elements of every float input and parameter, several times and by small and large amounts, and
    /// compares which elements of the outputs change (to the bit, in f64) with what the reach reader says;
    /// and what ops say of their axes with what they say of their reach.
    pub fn reach(&self, exactness: Exactness) -> Result<()> {
        let Recorded { graph, outputs, feed, .. } = self.forward()?;
        let before = run(&graph, &feed, Mode::Exact)?;
        let mut integers = Integers::none();
        for (var, numbers) in known_integers(&graph, &|var| before.value(var).data().to_vec()) {
            integers.set(var, numbers);
        }
        check_layouts(&graph, &self.sizes(&graph)?, &integers)?;
        let sources = float_sources(&graph);
        let from: Vec<Var> = sources.iter().map(|(_, var)| *var).collect();
        let sizes = self.sizes(&graph)?;
        let query = Query { from, to: outputs.clone(), sizes, integers, ..Query::default() };
        let claimed = reach(&graph, &query)?;
        for (name, source) in &sources {
            let count = before.value(*source).data().len();
            for element in spread(count) {
                let stream = Stream::new(self.seed, 2 + element as u64, name);
                let mut changed: Vec<Vec<bool>> =
                    outputs.iter().map(|&output| vec![false; before.value(output).data().len()]).collect();
                for draw in 0..self.draws {
                    let mut feed = feed.clone();
                    let array = match feed.inputs.get_mut(name) {
                        Some(array) => array,
                        None => {
                            feed.stored.entry(name.clone()).or_insert_with(|| before.value(*source).clone())
                        }
                    };
                    // Small moves keep what is selected selected, large ones change it.
                    let size = [0.3, 1.0, 4.0][draw % 3];
                    array.data_mut()[element] += size * stream.normal(0, 0, draw as u32);
                    let after = run(&graph, &feed, Mode::Exact)?;
                    for (changed, &output) in changed.iter_mut().zip(&outputs) {
                        let pairs = before.value(output).data().iter().zip(after.value(output).data());
                        for (changed, (x, y)) in changed.iter_mut().zip(pairs) {
                            *changed |= x.to_bits() != y.to_bits();
                        }
                    }
                }
                let from = claimed.cells(*source)?.nth(element);
                for (index, &output) in outputs.iter().enumerate() {
                    for (to, &changed) in claimed.cells(output)?.zip(&changed[index]) {
                        let can = match from {
                            Some(from) => claimed.can(from, to)?,
                            None => false,
                        };
                        let wrong = if changed { !can } else { can && exactness == Exactness::Equal };
                        if wrong {
                            let what = format!(
                                "{name}[{element}] {} output {index}[{}], reach says that it {}",
                                if changed { "changes" } else { "does not change" },
                                to.index(),
                                if can { "can" } else { "cannot" },
                            );
                            return Err(fail("reach", what));
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// Float inputs and stored values, with their names.
fn float_sources(graph: &Graph) -> Vec<(String, Var)> {
    let mut sources: Vec<(String, Var)> = graph.inputs().map(|(name, var)| (name.to_string(), var)).collect();
    for (index, value) in graph.values().iter().enumerate() {
        if let regard_graph::Origin::Stored(stored) = value.origin {
            sources.push((graph.stored()[stored].name.clone(), graph.var(index)));
        }
    }
    sources.retain(|(_, var)| graph.dtype(*var).is_float());
    sources
}

/// All elements, or evenly spread ones.
fn spread(count: usize) -> Vec<usize> {
    let samples = count.min(SAMPLES);
    (0..samples).map(|i| i * count / samples).collect()
}
