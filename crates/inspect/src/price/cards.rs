//! How near the usual ops come to what the machine can do at best, measured on small programs. For each kind
//! of node the rates of its start, arithmetic and memory are fitted, and how far off the fit is at each
//! measured shape is kept: a node is priced by the rates, and by the errors at the shapes most like its own.

use super::fit::{TERMS, rates, sum};
use super::late::Late;
use super::load::{Load, Machine, Shape};
use regard_device::Ceilings;
use std::collections::BTreeMap;

/// What was measured of one node.
#[derive(Clone, Debug)]
pub struct Sample {
    pub load: Load,
    pub nanoseconds: f64,
}

/// What is known of one kind of node.
#[derive(Clone, Debug)]
struct Card {
    rates: [f64; TERMS],
    /// Shapes, and logarithms of what was measured over what the rates say.
    off: Vec<(Shape, f64)>,
}

/// How fast the usual ops are here, measured in this process.
#[derive(Clone, Debug)]
pub struct Cards {
    machine: Machine,
    kinds: BTreeMap<String, Card>,
    late: Late,
    /// A run takes so many times as long as its nodes together.
    whole: f64,
}

/// At the ceilings.
const AT_BEST: [f64; TERMS] = [0.0, 1.0, 1.0, 1.0];
/// So few samples fit no rates of their own: nodes with other settings are asked as well.
const FEW: usize = 6;
/// How far apart shapes are, as a square of a distance in logarithms, that still say half as much as the same
/// shape does.
const APART: f64 = 0.1;

impl Cards {
    /// Nothing measured but the machine: what a run would take if every op were at its best, the roofline.
    /// `reading` are bytes that are read again and again, and bytes read a nanosecond then.
    pub fn at_best(ceilings: Ceilings, reading: &[(usize, f64)]) -> Cards {
        let machine = Machine { ceilings, reading: reading.to_vec() };
        let late = Late { threads: 1.0, alone: 0.0 };
        Cards { machine, kinds: BTreeMap::new(), late, whole: 1.0 }
    }

    pub(super) fn fit(machine: Machine, threads: usize, samples: &[Sample], mut wholes: Vec<f64>) -> Cards {
        let mut groups: BTreeMap<String, Vec<&Sample>> = BTreeMap::new();
        for sample in samples {
            for (at, kind) in sample.load.kinds.iter().enumerate() {
                // An op without settings has one name, not two.
                if at == 0 || *kind != sample.load.kinds[at - 1] {
                    groups.entry(kind.clone()).or_default().push(sample);
                }
            }
        }
        // How late threads come is what explains the times best.
        let fits = Late::tried(threads).map(|late| (late, Cards::kinds(&groups, late)));
        let best =
            fits.min_by(|a, b| unexplained(samples, &a.1, a.0).total_cmp(&unexplained(samples, &b.1, b.0)));
        let (late, kinds) = best.expect("threads that are there from the start are always tried");
        // The one in the middle, as any program may have been disturbed; a run is never shorter than its
        // nodes.
        wholes.sort_by(f64::total_cmp);
        let whole = wholes.get(wholes.len() / 2).map_or(1.0, |middle| middle.max(1.0));
        Cards { machine, kinds, late, whole }
    }

    fn kinds(groups: &BTreeMap<String, Vec<&Sample>>, late: Late) -> BTreeMap<String, Card> {
        let mut kinds: BTreeMap<String, Card> = BTreeMap::new();
        for (kind, own) in groups {
            // With settings, an op is expected to be like itself without them, which comes first in the
            // alphabet.
            let [telling, op, _] = &own[0].load.kinds;
            let known = kinds.get(op).filter(|_| kind == telling);
            let expected = known.map_or(AT_BEST, |card| card.rates);
            kinds.insert(kind.clone(), Card::new(own, &expected, late));
        }
        kinds
    }

    /// What the machine can do at best.
    pub fn ceilings(&self) -> Ceilings {
        self.machine.ceilings
    }

    /// How fast it reads, by how much it reads again and again: bytes, and bytes a nanosecond.
    pub fn reading(&self) -> &[(usize, f64)] {
        &self.machine.reading
    }

    pub(super) fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Nanoseconds that a node will take.
    pub(super) fn price(&self, load: &Load) -> f64 {
        let mut known = load.kinds.iter().filter_map(|kind| self.kinds.get(kind));
        let enough = known.clone().find(|card| card.off.len() >= FEW).or_else(|| known.next_back());
        match enough {
            Some(card) => card.price(load, self.late),
            // Arithmetic and memory at once.
            None => (load.amounts[1] + load.amounts[2]).max(load.amounts[3]),
        }
    }

    /// Nanoseconds of a run whose nodes take so long together.
    pub(super) fn whole(&self, nodes: f64) -> f64 {
        self.whole * nodes
    }
}

/// How much of the times of samples the rates of their ops leave open: squares of logarithms.
fn unexplained(samples: &[Sample], kinds: &BTreeMap<String, Card>, late: Late) -> f64 {
    let off = |sample: &Sample| {
        let fitted = kinds.get(&sample.load.kinds[1]).map(|card| sum(&card.rates, &sample.load.amounts));
        fitted.map_or(0.0, |fitted| (late.late(fitted).max(1.0) / sample.nanoseconds).ln().powi(2))
    };
    samples.iter().map(off).sum()
}

impl Card {
    fn new(samples: &[&Sample], expected: &[f64; TERMS], late: Late) -> Card {
        let all: Vec<_> =
            samples.iter().map(|sample| (sample.load.amounts, late.together(sample.nanoseconds))).collect();
        let rates = rates(&all, expected);
        let off = samples.iter().map(|sample| {
            let fitted = late.late(sum(&rates, &sample.load.amounts)).max(1.0);
            (sample.load.shape, (sample.nanoseconds / fitted).ln())
        });
        Card { rates, off: off.collect() }
    }

    fn price(&self, load: &Load, late: Late) -> f64 {
        late.late(sum(&self.rates, &load.amounts)) * self.correction(load.shape).exp()
    }

    /// How far off the rates are at a shape, in the logarithm: what shapes like it say, and nothing far from
    /// all of them.
    fn correction(&self, shape: Shape) -> f64 {
        let (mut weighed, mut weights) = (0.0, 1.0);
        for (other, off) in &self.off {
            let apart: f64 = other.iter().zip(shape).map(|(a, b)| (a - b).powi(2)).sum();
            // The same shape counts ten times as much as the fit itself.
            let weight = 10.0 / (1.0 + apart / APART).powi(2);
            weighed += weight * off;
            weights += weight;
        }
        weighed / weights
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(op: &str, setting: &str, rows: f64, nanoseconds: f64) -> Sample {
        let kinds = [format!("{op} {setting}"), op.into(), "multiplies".into()];
        let load = Load { node: 0, kinds, amounts: [1.0, rows, 0.0, 0.0], shape: [rows.ln(), 0.0, 0.0, 0.0] };
        Sample { load, nanoseconds }
    }

    fn cards(samples: &[Sample]) -> Cards {
        let machine = Machine { ceilings: Ceilings { gflops: 1.0, gbytes: 1.0 }, reading: vec![(1024, 1.0)] };
        Cards::fit(machine, 1, samples, vec![1.02, 9.0, 1.03, 0.4, 1.01])
    }

    #[test]
    fn sizes_that_were_not_measured_lie_on_the_line() {
        let line = |rows: f64| 500.0 + 2.0 * rows;
        let samples: Vec<_> =
            (0..12).map(|i| f64::from(1 << i)).map(|n| sample("a", "x", n, line(n))).collect();
        let cards = cards(&samples);
        for rows in [3.0, 700.0, 100_000.0] {
            let priced = cards.price(&sample("a", "x", rows, 0.0).load);
            assert!((priced / line(rows) - 1.0).abs() < 0.01, "{rows}: {priced} for {}", line(rows));
        }
        assert_eq!(cards.whole(100.0), 102.0, "the middle of some runs that took longer than their nodes");
    }

    #[test]
    fn a_shape_that_is_slow_is_slow_for_shapes_like_it() {
        // From 1000 rows on everything takes four times as long.
        let time = |rows: f64| if rows >= 1000.0 { 4.0 * rows } else { rows };
        let samples: Vec<_> =
            (0..40).map(|i| 1.5f64.powi(i)).map(|n| sample("a", "x", n, time(n).max(1.0))).collect();
        let cards = cards(&samples);
        let off = |rows: f64| cards.price(&sample("a", "x", rows, 0.0).load) / time(rows);
        assert!((0.8..1.25).contains(&off(30.0)), "{}", off(30.0));
        assert!((0.8..1.25).contains(&off(50_000.0)), "{}", off(50_000.0));
    }

    #[test]
    fn threads_that_come_late_are_found() {
        let late = Late { threads: 2.0, alone: 2000.0 * 1.5f64.powi(6) };
        let time = |rows: f64| late.late(200.0 + 2.0 * rows);
        let samples: Vec<_> =
            (0..20).map(|i| f64::from(1 << i)).map(|n| sample("a", "x", n, time(n))).collect();
        let machine = Machine { ceilings: Ceilings { gflops: 1.0, gbytes: 1.0 }, reading: vec![(1024, 1.0)] };
        let cards = Cards::fit(machine, 2, &samples, vec![]);
        assert_eq!(cards.late, late);
        for rows in [3.0, 7000.0, 1e8] {
            let priced = cards.price(&sample("a", "x", rows, 0.0).load);
            assert!((priced / time(rows) - 1.0).abs() < 0.03, "{rows}: {priced} for {}", time(rows));
        }
    }

    #[test]
    fn settings_that_are_hardly_known_ask_their_op_and_unknown_ops_their_class() {
        let mut samples: Vec<_> =
            (0..10).map(|i| f64::from(1 << i)).map(|n| sample("a", "x", n, 3.0 * n)).collect();
        samples.push(sample("a", "y", 64.0, 192.0));
        let cards = cards(&samples);
        for (op, setting) in [("a", "y"), ("a", "z"), ("b", "")] {
            let priced = cards.price(&sample(op, setting, 200.0, 0.0).load);
            assert!((priced / 600.0 - 1.0).abs() < 0.05, "{op} {setting}: {priced}");
        }
        let mut stranger = sample("b", "", 200.0, 0.0).load;
        stranger.kinds[2] = "moves".into();
        assert_eq!(cards.price(&stranger), 200.0, "at the ceilings, where nothing like it was measured");
    }
}
