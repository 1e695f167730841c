//! Two ways to the same answer, run and compared: a batch and a single text, padded and not, with caches and
//! without. Where they differ, both are run again with every value kept, and the first node whose results
//! differ is named.

use crate::{Error, Result};
use regard_engine::reference::{self, Mode};
use regard_engine::{AsDevice, Device, Feed, Program, Store};
use regard_graph::axes::{Standing, axes};
use regard_graph::{Alias, Axes, Graph, Integers, Label, Sizes, Var};
use regard_ops::Array;
use std::collections::BTreeMap;

/// One run of a program: what it is fed, and what stands where.
#[derive(Clone, Debug, Default)]
pub struct Turn {
    /// The inputs by name.
    pub inputs: Vec<(String, Array)>,
    /// B.
    pub batch: usize,
    /// What stands at the positions of each stream.
    pub streams: Vec<Along>,
}

/// What stands at the positions of a stream in one run.
#[derive(Clone, Debug)]
pub struct Along {
    /// The stream's name: that of the input with its ids, `[B T]`, or whatever is fed for it.
    pub name: String,
    /// Positions in this run.
    pub length: usize,
    /// For each row and position the text and the position in it; none for padding.
    pub places: Vec<Option<(usize, usize)>>,
}

/// A program and its runs, one after the other.
pub struct Stage<'a> {
    /// Records it.
    pub record: Box<dyn Fn() -> Result<Graph> + 'a>,
    /// Its runs.
    pub turns: Vec<Turn>,
    /// Whether its values are compared; what only prepares caches is not.
    pub compared: bool,
}

/// A way to an answer.
pub struct Execution<'a> {
    /// What it is, in a few words.
    pub title: String,
    /// Its programs; they share a store.
    pub stages: Vec<Stage<'a>>,
}

impl<'a> Execution<'a> {
    /// One program, run once.
    pub fn once(title: &str, record: impl Fn() -> Result<Graph> + 'a, turn: Turn) -> Self {
        Execution {
            title: title.into(),
            stages: vec![Stage { record: Box::new(record), turns: vec![turn], compared: true }],
        }
    }
}

/// How equal two ways have to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Agreement {
    /// To the last bit.
    Bits,
    /// Up to this share of the largest magnitude of a value.
    Within(f64),
}

/// What a comparison found.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Whether they agree.
    pub same: bool,
    /// The largest difference of outputs, as a share of the largest magnitude of that output.
    pub difference: f64,
    /// How many numbers were compared.
    pub numbers: usize,
    /// The first node whose results differ, if they do.
    pub first: Option<String>,
}

/// The numbers of one value: stream, text and position, and the features there.
type Numbers = BTreeMap<(String, usize, usize), Vec<f64>>;

/// The values of a way by name, in the order of running.
#[derive(Default)]
struct Collected {
    order: Vec<String>,
    values: BTreeMap<String, Numbers>,
}

/// Which values are collected.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    Outputs,
    Everything,
}

/// Compares two ways, each on its own engine.
pub fn compare(
    a: &Execution,
    on_a: &impl AsDevice,
    b: &Execution,
    on_b: &impl AsDevice,
    store: &mut Store,
    how: Agreement,
) -> Result<Comparison> {
    let (on_a, on_b) = (&on_a.as_device(), &on_b.as_device());
    let first = collect(a, Kept::Outputs, store, on_a)?;
    let second = collect(b, Kept::Outputs, store, on_b)?;
    let mut found = weigh(&first, &second, how)?;
    if !found.same {
        let first = collect(a, Kept::Everything, store, on_a)?;
        let second = collect(b, Kept::Everything, store, on_b)?;
        found.first = differing(&first, &second, how);
    }
    Ok(found)
}

/// Compares a way with itself while everything is looked at: each node's results are kept, and `look` may
/// record more.
pub fn compare_looked(
    execution: &Execution,
    look: impl Fn(&mut Graph) -> Result<()>,
    store: &mut Store,
    device: &impl AsDevice,
) -> Result<Comparison> {
    let device = &device.as_device();
    let plain = collect(execution, Kept::Outputs, store, device)?;
    let names = plain.order.clone();
    let mut looked = Collected::default();
    for stage in &execution.stages {
        let mut graph = (stage.record)()?;
        look(&mut graph)?;
        keep_everything(&mut graph)?;
        run_stage(graph, stage, store, device, &mut looked)?;
    }
    looked.order.retain(|name| names.contains(name));
    weigh(&plain, &looked, Agreement::Bits)
}

/// Compares a way of one run with the reference, value by value: f64, one thread, each op by its
/// specification.
pub fn compare_reference(
    execution: &Execution,
    store: &mut Store,
    device: &impl AsDevice,
    how: Agreement,
) -> Result<Comparison> {
    let device = &device.as_device();
    let [stage] = execution.stages.as_slice() else {
        return Err(Error::invalid(
            format!("{} has several programs", execution.title),
            "compare one of them",
        ));
    };
    let [turn] = stage.turns.as_slice() else {
        return Err(Error::invalid(format!("{} has several runs", execution.title), "compare one of them"));
    };
    let fast = collect(execution, Kept::Outputs, store, device)?;
    let mut graph = (stage.record)()?;
    let mut feed = Feed::new();
    for (name, array) in &turn.inputs {
        feed = feed.with(name, array.clone());
    }
    for stored in graph.stored() {
        feed = feed.with_stored(&stored.name, store.array(&stored.name)?);
    }
    let run = reference::run(&graph, &feed, Mode::Exact)?;
    let exact = |graph: &Graph| -> Result<Collected> {
        let (mut exact, standings) = (Collected::default(), Standings::new(graph, turn)?);
        for (name, var) in graph.outputs() {
            exact.add(name, run.value(var), &standings)?;
        }
        Ok(exact)
    };
    let mut found = weigh(&fast, &exact(&graph)?, how)?;
    if !found.same {
        keep_everything(&mut graph)?;
        let fast = collect(execution, Kept::Everything, store, device)?;
        found.first = differing(&fast, &exact(&graph)?, how);
    }
    Ok(found)
}

/// What the values of a graph stand for in one run.
struct Standings<'a> {
    graph: &'a Graph,
    turn: &'a Turn,
    axes: Axes,
}

impl<'a> Standings<'a> {
    /// The input of a stream has the batch in front, and positions behind it.
    fn new(graph: &'a Graph, turn: &'a Turn) -> Result<Self> {
        let (mut declared, mut sizes) = (Vec::new(), Sizes::none());
        for (name, array) in &turn.inputs {
            let Some((_, var)) = graph.inputs().find(|(known, _)| known == name) else { continue };
            let dims = array.dims();
            for (dim, &size) in graph.shape(var).iter().zip(dims.iter()) {
                if let Some(letter) = dim.as_letter() {
                    sizes.set(letter, size)?;
                }
            }
            let Some(stream) = turn.streams.iter().find(|stream| stream.name == *name) else { continue };
            let front = [(turn.batch, Label::Batch), (stream.length, positions(stream))];
            let mut labels = vec![None; dims.len()];
            // An image is a stream of one position, which is no axis of its pixels.
            for ((own, &size), (wanted, label)) in labels.iter_mut().zip(dims.iter()).zip(front) {
                *own = (size == wanted).then_some(label);
            }
            declared.push((var, labels));
        }
        let axes = axes(graph, &declared, &sizes, &Integers::none())?;
        Ok(Standings { graph, turn, axes })
    }

    /// Where the numbers at some coordinates belong: to a position of a text, or to the first text of an
    /// example if they stand for no position. Nowhere if they are of padding, of no single example, or of a
    /// pair of positions.
    fn key(&self, var: Var, at: &[usize]) -> Option<(String, usize, usize)> {
        let [row] = self.axes.standing_for(var, &Label::Batch, at)[..] else { return None };
        let mut places = Vec::new();
        for stream in &self.turn.streams {
            let label = positions(stream);
            if self.axes.of(var).iter().any(|axis| axis.labels().any(|own| *own == label)) {
                let standing = self.axes.standing_for(var, &label, at);
                places.extend(standing.into_iter().map(|t| (stream, t)));
            }
        }
        match places[..] {
            [(stream, t)] => {
                let (text, at) = stream.places[row * stream.length + t]?;
                Some((stream.name.clone(), text, at))
            }
            [] => {
                let text = match self.turn.streams.first() {
                    Some(own) => {
                        own.places[row * own.length..][..own.length].iter().flatten().next().copied()?.0
                    }
                    None => row,
                };
                Some((String::new(), text, 0))
            }
            _ => None,
        }
    }
}

fn positions(stream: &Along) -> Label {
    Label::Positions(stream.name.as_str().into())
}

impl Collected {
    /// Sorts the numbers of a value by what stands where; a value that does not lie over the batch is left
    /// out.
    fn add(&mut self, name: &str, array: &Array, standings: &Standings<'_>) -> Result<()> {
        let (dims, var) = (array.dims(), standings.graph.find(name)?);
        let axes = standings.axes.of(var);
        let labelled =
            axes.iter().rposition(|axis| axis.labels().next().is_some()).map_or(0, |last| last + 1);
        let (front, features) = dims.split_at(labelled);
        let (rows, features): (usize, usize) = (front.iter().product(), features.iter().product());
        if dims.count() == 0 || standings.axes.standing(var, &Label::Batch) != Standing::Along {
            return Ok(());
        }
        if !self.values.contains_key(name) {
            self.order.push(name.into());
        }
        let mut fresh = Numbers::new();
        for row in 0..rows {
            let at = dims.coordinates(row * features);
            if let Some(key) = standings.key(var, &at[..dims.len()]) {
                fresh.entry(key).or_default().extend_from_slice(&array.data()[row * features..][..features]);
            }
        }
        self.values.entry(name.into()).or_default().extend(fresh);
        Ok(())
    }
}

fn collect(execution: &Execution, kept: Kept, store: &mut Store, device: &Device) -> Result<Collected> {
    let mut collected = Collected::default();
    for stage in &execution.stages {
        let mut graph = (stage.record)()?;
        if kept == Kept::Everything && stage.compared {
            keep_everything(&mut graph)?;
        }
        run_stage(graph, stage, store, device, &mut collected)?;
    }
    Ok(collected)
}

fn run_stage(
    graph: Graph,
    stage: &Stage,
    store: &mut Store,
    device: &Device,
    into: &mut Collected,
) -> Result<()> {
    let mut program = Program::new(graph, &[], store, device)?;
    let names: Vec<String> = program.graph().outputs().map(|(name, _)| name.to_string()).collect();
    for turn in &stage.turns {
        for (name, array) in &turn.inputs {
            program.set_array(name, array)?;
        }
        program.run(store)?;
        if stage.compared {
            let standings = Standings::new(program.graph(), turn)?;
            names.iter().try_for_each(|name| into.add(name, &program.array(name)?, &standings))?;
        }
    }
    Ok(())
}

/// Makes an output of every result, named by its node. New versions of states are in the store and stay
/// there.
fn keep_everything(g: &mut Graph) -> Result<()> {
    let mut all: Vec<(String, Var)> = Vec::new();
    for node in g.nodes() {
        let aliases = &node.declared.aliases;
        for (output, &var) in node.outputs.iter().enumerate() {
            let updates =
                aliases.iter().any(|alias| matches!(alias, Alias::Update { output: o, .. } if *o == output));
            if !updates && g.value(var).version_of.is_none() {
                all.push((format!("{}/{output}", node.name), var));
            }
        }
    }
    all.into_iter().try_for_each(|(name, var)| g.output(&name, var).map(|_| ()))?;
    Ok(())
}

/// How far apart two sets of numbers are; `None` if they have nothing in common.
fn apart(a: &Numbers, b: &Numbers) -> Option<(bool, f64, usize)> {
    let (mut bits, mut difference, mut largest, mut count) = (true, 0f64, 0f64, 0);
    for (key, left) in a {
        let Some(right) = b.get(key).filter(|right| right.len() == left.len()) else { continue };
        for (&x, &y) in left.iter().zip(right) {
            bits &= x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan());
            let gap = if x == y || (x.is_nan() && y.is_nan()) { 0.0 } else { (x - y).abs() };
            // A NaN on one side alone is as far apart as numbers can be.
            difference = difference.max(if gap.is_nan() { f64::INFINITY } else { gap });
            largest = largest.max(if x.is_finite() { x.abs() } else { 0.0 });
        }
        count += left.len();
    }
    let share = if difference == 0.0 { 0.0 } else { difference / largest.max(f64::MIN_POSITIVE) };
    (count > 0).then_some((bits, share, count))
}

fn agrees(how: Agreement, bits: bool, share: f64) -> bool {
    match how {
        Agreement::Bits => bits,
        Agreement::Within(most) => share <= most,
    }
}

fn weigh(a: &Collected, b: &Collected, how: Agreement) -> Result<Comparison> {
    let mut found = Comparison { same: true, difference: 0.0, numbers: 0, first: None };
    for name in &a.order {
        let Some((bits, share, count)) = b.values.get(name).and_then(|other| apart(&a.values[name], other))
        else {
            continue;
        };
        found.same &= agrees(how, bits, share);
        found.difference = found.difference.max(share);
        found.numbers += count;
    }
    if found.numbers == 0 {
        return Err(Error::invalid(
            "the two ways have no output in common",
            "give outputs of the same names, and texts of the same numbers",
        ));
    }
    Ok(found)
}

/// The first node of `b` whose results differ from those of `a`.
fn differing(a: &Collected, b: &Collected, how: Agreement) -> Option<String> {
    let differs = |name: &&String| {
        let pair = a.values.get(*name).and_then(|own| apart(own, &b.values[*name]));
        pair.is_some_and(|(bits, share, _)| !agrees(how, bits, share))
    };
    // Outputs that had names before come first in the order of outputs, whatever their place in the graph.
    let nodes = b.order.iter().filter(|name| name.contains('/'));
    let first = nodes.clone().find(differs).or_else(|| b.order.iter().find(differs));
    first.map(|name| name.split('/').next().unwrap_or(name).to_string())
}
