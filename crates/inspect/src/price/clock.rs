//! True times of a program: of whole runs, by the clock on the wall, and of each node. On a machine that
//! others use, a thread waits for a core now and then; where the system tells for how long, that is told
//! beside.

use crate::{Error, Result};
use regard_device::machine::waited;
use regard_engine::{Program, Store};
use std::collections::BTreeMap;
use std::time::Instant;

/// Times of several runs, in nanoseconds.
#[derive(Clone, Debug)]
pub struct Clocked {
    /// Whole runs, the shortest first. Nothing else was measured meanwhile.
    pub runs: Vec<f64>,
    /// The least run without what its thread waited for a core, that others had; none with several threads,
    /// as one goes on while another waits, and none where the system does not tell.
    pub alone: Option<f64>,
    /// The least time of each node, by its number, from as many runs more, each after a whole one. Whoever
    /// else uses the machine can only make a node slower, so their sum may be less than any run took.
    pub nodes: BTreeMap<usize, f64>,
}

impl Clocked {
    /// The shortest run: one that nobody disturbed, or the least.
    pub fn least(&self) -> f64 {
        self.runs[0]
    }

    /// The run in the middle.
    pub fn median(&self) -> f64 {
        let half = self.runs.len() / 2;
        if self.runs.len() % 2 == 1 { self.runs[half] } else { (self.runs[half - 1] + self.runs[half]) / 2.0 }
    }

    /// What a run takes that nobody disturbs, as near as it could be measured.
    pub fn undisturbed(&self) -> f64 {
        self.alone.unwrap_or(self.least())
    }

    /// With runs of the same program at other moments.
    pub fn and(mut self, others: Clocked) -> Clocked {
        self.runs.extend(others.runs);
        self.runs.sort_by(f64::total_cmp);
        self.alone = match (self.alone, others.alone) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        for (node, nanoseconds) in others.nodes {
            let own = self.nodes.entry(node).or_insert(f64::INFINITY);
            *own = own.min(nanoseconds);
        }
        self
    }

    /// The longest run.
    pub fn most(&self) -> f64 {
        self.runs[self.runs.len() - 1]
    }
}

/// Runs a program whose inputs are set: once to warm up, then until so many nanoseconds have passed, but no
/// fewer and no more times than these; and as often again, in turns, for the times of its nodes. `threads`
/// are those of its engine.
pub fn clock(
    program: &mut Program,
    store: &mut Store,
    threads: usize,
    patience: f64,
    (fewest, most): (usize, usize),
) -> Result<Clocked> {
    if fewest == 0 || fewest > most {
        return Err(Error::invalid(
            format!("between {fewest} and {most} runs"),
            "ask for at least one, and for no fewer at the most than at the least",
        ));
    }
    program.run(store)?;
    let (mut runs, mut passed, mut alone) = (Vec::new(), 0.0, None);
    let mut nodes = Nodes::none();
    while runs.len() < fewest || (runs.len() < most && passed < patience) {
        program.stop_measuring();
        let asked = Instant::now();
        let before = if threads == 1 { waited() } else { None };
        let began = Instant::now();
        program.run(store)?;
        let took = began.elapsed().as_nanos().max(1) as f64;
        if let Some((before, after)) = before.zip(waited()) {
            let own = without_waiting(took, asked.elapsed().as_nanos() as f64, after - before);
            alone = Some(alone.map_or(own, |least: f64| least.min(own)));
        }
        runs.push(took);
        passed += took;
        nodes.run(program, store)?;
    }
    runs.sort_by(f64::total_cmp);
    Ok(Clocked { runs, alone, nodes: nodes.least })
}

/// A run that took so long, without what was waited in it. The wait is known between two questions, which lie
/// outside of the run, and take a while themselves: if there was none, the run is as it is, and else the
/// whole between the questions counts, which is rather too much.
fn without_waiting(took: f64, between: f64, waited: f64) -> f64 {
    if waited > 0.0 { (between - waited).max(1.0) } else { took }
}

/// Times of nodes.
#[derive(Clone, Debug)]
pub struct Nodes {
    /// The least of each, by its number.
    pub least: BTreeMap<usize, f64>,
    /// How many times as long as its nodes together a run took, the least as well.
    pub whole: f64,
}

impl Nodes {
    /// Nothing has run yet.
    pub fn none() -> Nodes {
        Nodes { least: BTreeMap::new(), whole: f64::INFINITY }
    }

    /// Runs a program whose inputs are set once more, and tells how long it took.
    pub fn run(&mut self, program: &mut Program, store: &mut Store) -> Result<f64> {
        program.measure();
        let began = Instant::now();
        program.run(store)?;
        let took = began.elapsed().as_nanos().max(1) as f64;
        let sum: u64 = program.spent().map(|(_, nanoseconds)| nanoseconds).sum();
        self.whole = self.whole.min(took / sum.max(1) as f64);
        for (node, nanoseconds) in program.spent() {
            let own = self.least.entry(node).or_insert(f64::INFINITY);
            *own = own.min(nanoseconds as f64);
        }
        Ok(took)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_lies_between_the_ends() {
        let of = |runs: &[f64]| Clocked { runs: runs.to_vec(), alone: None, nodes: BTreeMap::new() };
        let odd = of(&[1.0, 2.0, 9.0]);
        assert_eq!((odd.least(), odd.median(), odd.most()), (1.0, 2.0, 9.0));
        assert_eq!(of(&[1.0, 2.0, 4.0, 9.0]).median(), 3.0);
        assert_eq!(of(&[5.0]).median(), 5.0);
        assert_eq!(odd.undisturbed(), 1.0);
        assert_eq!(Clocked { alone: Some(0.5), ..odd }.undisturbed(), 0.5);
        assert_eq!((without_waiting(7.0, 9.0, 0.0), without_waiting(7.0, 9.0, 5.0)), (7.0, 4.0));
    }

    #[test]
    fn other_moments_count_as_much() {
        let of = |runs: &[f64], alone: Option<f64>, nodes: &[(usize, f64)]| Clocked {
            runs: runs.to_vec(),
            alone,
            nodes: nodes.iter().copied().collect(),
        };
        let both = of(&[4.0, 6.0], Some(3.0), &[(0, 1.0), (1, 2.0)]).and(of(&[2.0, 5.0], None, &[(1, 1.5)]));
        assert_eq!(both.runs, [2.0, 4.0, 5.0, 6.0]);
        assert_eq!(both.alone, Some(3.0));
        assert_eq!(both.nodes, BTreeMap::from([(0, 1.0), (1, 1.5)]));
        assert_eq!(both.and(of(&[9.0], Some(2.5), &[])).undisturbed(), 2.5);
    }
}
