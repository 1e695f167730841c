//! Taps: the names of the values inside of a model that people look at and put others in the place of. One
//! scheme for every family: the dotted name of a part of a block, then one of these.
//!
//! | name | what it is | shape |
//! |---|---|---|
//! | `block.3.attention.norm` | the stream as the part reads it; where norms come last, the stream behind the part | B T C |
//! | `block.3.attention.query`, `.key`, `.value` | as the heads compare and mix them, turned by their positions | B T H D, B S G D, B S G E |
//! | `block.3.attention.pattern` | who attends to whom, made only for those who ask | B H T S |
//! | `block.3.attention.mixed` | what each head has gathered, before the output projection | B T H E |
//! | `block.3.attention.added` | what the part adds to the stream | B T C |
//! | `block.3.cross.…` | the same of the attention to a memory | |
//! | `block.3.feed_forward.norm`, `.added` | as above | B T C |
//! | `block.3.feed_forward.hidden` | what the second layer reads | B T F |
//! | `block.3.stream` | the stream behind the block | B T C |
//!
//! Encoders and decoders put their own name in front: `decoder.block.3.cross.added`. A layer that is used
//! twice in one place has taps `query` and `query#2`. A tap costs nothing unless somebody asks for its value.

use regard_graph::{DType, Error, Graph, Result, Shape, Var};
use regard_ops::WeightsRequest;
use regard_ops::prelude::*;

/// The last component of each name, and a few words on it.
const PARTS: [(&str, &str); 9] = [
    ("norm", "the stream, normed"),
    ("query", "queries, a head each"),
    ("key", "keys, a head each"),
    ("value", "values, a head each"),
    ("pattern", "who attends to whom; made for those who ask"),
    ("mixed", "what each head has gathered, before the output projection"),
    ("added", "what the part adds to the stream"),
    ("hidden", "hidden activations, before the second layer"),
    ("stream", "the residual stream behind it"),
];

/// A value that can be asked for by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tap {
    /// Its dotted name.
    pub name: String,
    /// Its shape.
    pub shape: Shape,
    /// Its dtype.
    pub dtype: DType,
    /// A few words on what it is.
    pub about: &'static str,
    /// Whether it is recorded only for those who ask: [`ask`].
    pub on_request: bool,
}

/// What can be tapped in a recorded graph, in the order of running.
pub fn taps(g: &Graph) -> Vec<Tap> {
    let named = g.taps().map(|(name, var)| {
        let fact = g.fact(var).clone();
        let tap = Tap {
            name: name.into(),
            shape: fact.shape,
            dtype: fact.dtype,
            about: about(name),
            on_request: false,
        };
        (2 * var.index(), tap)
    });
    let known = |name: &str| g.taps().any(|(known, _)| known == name);
    let patterns = patterns(g).filter(|(name, _)| !known(name)).map(|(name, node)| {
        let [query, key] = [0, 1].map(|operand| g.shape(g.nodes()[node].inputs[operand]));
        let shape = Shape::new(vec![query[0].clone(), query[2].clone(), query[1].clone(), key[1].clone()]);
        let tap = Tap { about: about(&name), name, shape, dtype: DType::F32, on_request: true };
        // Just before what the heads gather by it.
        ((2 * g.nodes()[node].outputs[0].index()).saturating_sub(1), tap)
    });
    let mut all: Vec<(usize, Tap)> = named.chain(patterns).collect();
    all.sort_by(|(a, one), (b, other)| (a, &one.name).cmp(&(b, &other.name)));
    all.into_iter().map(|(_, tap)| tap).collect()
}

/// The tap or output of this name, recorded now if it is the pattern of an attention; any other unknown name
/// is an error that offers the nearest.
pub fn ask(g: &mut Graph, name: &str) -> Result<Var> {
    let known = |g: &Graph| g.outputs().chain(g.taps()).find(|(known, _)| *known == name).map(|(_, var)| var);
    if let Some(var) = known(g) {
        return Ok(var);
    }
    let Some((_, node)) = patterns(g).find(|(known, _)| known == name) else {
        let all: Vec<String> = taps(g).into_iter().map(|tap| tap.name).collect();
        let names = g.outputs().map(|(name, _)| name).chain(all.iter().map(String::as_str));
        return Err(Error::unknown("output or tap", name, names));
    };
    let queries = &g.shape(g.nodes()[node].inputs[0])[1];
    let Some(queries) = queries.fixed() else {
        return Err(Error::invalid(
            "tap",
            format!("`{name}` is asked of {queries} queries"),
            "a pattern has one row for each query: fix their number",
        ));
    };
    let found = g.weights_of(node, WeightsRequest::Rows((0..queries).collect()))?;
    g.tap(name, found.values)
}

/// Whether a tap lies inside of a part of a block, as [`Block`](crate::Block) names them; the others are
/// streams, or what a model names itself.
pub fn is_inside(name: &str) -> bool {
    let part = name.rsplit('.').nth(1).unwrap_or_default();
    ["attention", "cross", "feed_forward"].contains(&part)
        && PARTS.iter().any(|(known, _)| *known == last(name))
}

/// The attentions of a forward pass: what their patterns are called, and their nodes.
pub fn patterns(g: &Graph) -> impl Iterator<Item = (String, usize)> {
    let all = g.nodes().iter().enumerate().filter(|(_, node)| node.pass == regard_graph::Pass::Forward);
    all.filter(|(_, node)| node.op.name() == "attention").map(|(at, node)| {
        let (scope, count) = match node.name.split_once('#') {
            Some((scope, count)) => (scope, format!("#{count}")),
            None => (node.name.as_str(), String::new()),
        };
        (format!("{}pattern{count}", scope.strip_suffix("attention").unwrap_or(scope)), at)
    })
}

/// Names a value in the present scope; where the name is taken, with a number behind it.
pub(crate) fn tap(g: &mut Graph, name: &str, var: Var) -> Result<Var> {
    let mut named = g.tap(name, var);
    let mut count = 2;
    while let Err(Error::Duplicate { .. }) = named {
        named = g.tap(&format!("{name}#{count}"), var);
        count += 1;
    }
    named
}

fn last(name: &str) -> &str {
    let bare = name.split('#').next().unwrap_or(name);
    bare.rsplit('.').next().unwrap_or(bare)
}

fn about(name: &str) -> &'static str {
    let known = PARTS.iter().find(|(known, _)| *known == last(name));
    known.map_or("a value that the model names", |(_, about)| about)
}
