//! A plan in a few lines for people: how much memory, and what takes most of it.

use super::{Place, Plan, Sharing};
use crate::Graph;
use std::fmt;

/// One of the largest values of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Biggest {
    /// What it is, with the name of the node that makes it.
    pub title: String,
    /// Its dtype and shape.
    pub fact: String,
    /// Its bytes at the bounds.
    pub bytes: usize,
    /// Where it lives.
    pub place: Place,
}

/// How much memory a plan takes, and what takes most of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// How many nodes run.
    pub steps: usize,
    /// Bytes of the arena.
    pub arena: usize,
    /// The least that any arena for this order can be.
    pub live_peak: usize,
    /// Bytes of inputs and kept values.
    pub io: usize,
    /// Bytes of constants.
    pub constants: usize,
    /// Bytes of parameters and states.
    pub stored: usize,
    /// The largest values, the largest first.
    pub biggest: Vec<Biggest>,
}

impl Plan {
    /// How much memory it takes, with the ten largest values. `g` is the graph that was planned.
    pub fn summary(&self, g: &Graph) -> Summary {
        let roots = Sharing::of(g).root;
        let mut biggest: Vec<Biggest> = Vec::new();
        for (index, place) in self.places.iter().enumerate().filter(|(index, _)| roots[*index] == *index) {
            let (var, Some(place)) = (g.var(index), *place) else { continue };
            let fact = g.fact(var);
            biggest.push(Biggest { title: g.title(var), fact: fact.to_string(), bytes: fact.bytes(), place });
        }
        biggest.sort_by_key(|value| std::cmp::Reverse(value.bytes));
        biggest.truncate(10);
        Summary {
            steps: self.steps.len(),
            arena: self.arena_bytes,
            live_peak: self.live_bytes_peak,
            io: self.io_bytes,
            constants: self.constant_bytes,
            stored: self.stored_bytes,
            biggest,
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = |n: usize| crate::human::bytes(n as u64);
        writeln!(f, "{} steps", self.steps)?;
        writeln!(f, "arena      {:>10}  (at least {})", bytes(self.arena), bytes(self.live_peak))?;
        writeln!(f, "in and out {:>10}", bytes(self.io))?;
        writeln!(f, "constants  {:>10}", bytes(self.constants))?;
        writeln!(f, "store      {:>10}", bytes(self.stored))?;
        writeln!(f, "largest values")?;
        for value in &self.biggest {
            writeln!(f, "  {:>10}  {}  {}", bytes(value.bytes), value.title, value.fact)?;
        }
        Ok(())
    }
}
