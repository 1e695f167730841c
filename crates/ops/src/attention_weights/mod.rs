//! The weights of an attention, on request and afterwards: w = exp(score − lse), from the log-sum-exp that
//! the attention kept. Nothing of size T·S is made unless it is what was asked for, and the attention itself
//! is not touched: its outputs have the same bits whether or not anybody looks.
//!
//! Weights are those before dropout; for the hard kinds they are 1 for the chosen key and 0 elsewhere.

mod cost;
mod cpu;
mod cuda;
mod reference;

use crate::attention::{AttentionOp, Extra, Form, record_form};
use crate::{
    Attention, CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, Record, ReferenceCall, Request,
};
use regard_graph::*;
use std::ops::Range;

/// Which weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WeightsRequest {
    /// All weights of some queries: [B H N S].
    Rows(Vec<usize>),
    /// The weights of some keys for all queries: [B H T N].
    Columns(Vec<usize>),
    /// The weights of a run of queries and keys: [B H t s].
    Block {
        /// Which queries.
        queries: Range<usize>,
        /// Which keys.
        keys: Range<usize>,
    },
    /// The largest weights of each query, largest first, and their keys: [B T H k] each. Of equal scores the
    /// lowest index comes first; where a row has fewer keys, weights are 0 and indices −1.
    TopK(usize),
    /// How much weight each key gets, over all queries: [B H S].
    ColumnSums,
    /// −Σ w·ln w of each query, in nats: [B T H]; 0 for a row without keys.
    Entropy,
}

/// What a request gives.
#[derive(Clone, Copy, Debug)]
pub struct AttentionWeightsFound {
    /// Weights, sums or entropies, f32.
    pub values: Var,
    /// The keys of the largest weights, i32; only for [`WeightsRequest::TopK`].
    pub indices: Option<Var>,
}

/// The recorded op.
#[derive(Clone, Debug)]
pub struct AttentionWeights {
    form: Form,
    request: WeightsRequest,
}

/// Records weights on request.
pub trait AttentionWeightsOps {
    /// The weights of the attention that gave `lse`, recorded with the same `spec`, query and key.
    fn attention_weights(
        &mut self,
        query: Var,
        key: Var,
        lse: Var,
        spec: &Attention,
        request: WeightsRequest,
    ) -> Result<AttentionWeightsFound>;

    /// The weights of an attention that stands in this graph as its node of this number, whoever recorded it.
    fn weights_of(&mut self, node: usize, request: WeightsRequest) -> Result<AttentionWeightsFound>;
}

impl AttentionWeightsOps for Graph {
    fn attention_weights(
        &mut self,
        query: Var,
        key: Var,
        lse: Var,
        spec: &Attention,
        request: WeightsRequest,
    ) -> Result<AttentionWeightsFound> {
        // Which key was chosen, and by which noise, only the attention itself can say.
        let node = match self.owns(lse).then(|| &self.value(lse).origin) {
            Some(Origin::Node { node, output: 1 }) => Some(&self.nodes()[*node]),
            _ => None,
        };
        let node = node.and_then(|node| Some((node, node.op_as::<AttentionOp>()?)));
        let (hard, random) = (spec.kind.is_hard(), spec.kind.temperature().is_some());
        if (hard || random) && node.is_none() {
            return Err(Error::invalid(
                "attention_weights",
                "lse does not come from an attention of this graph",
                "hard and random weights are known to the attention alone; give its own lse",
            ));
        }
        let choice = node.map(|(node, _)| node.outputs[2]).filter(|_| hard);
        let noisy = node.filter(|(_, op)| op.form.kind.temperature().is_some());
        let noise = noisy.map(|(_, op)| op.form.noise_stream.clone());
        if random && noise.is_none() {
            return Err(Error::invalid(
                "attention_weights",
                "lse comes from an attention without noise",
                "give the spec that the attention was recorded with",
            ));
        }
        let (form, extras) = record_form(self, spec, Some(noise.unwrap_or_default()))?;
        let indexed = matches!(request, WeightsRequest::TopK(_));
        let inputs = [&[query, key, choice.unwrap_or(lse)], extras.as_slice()].concat();
        let found = self.apply(AttentionWeights { form, request }, &inputs)?;
        Ok(AttentionWeightsFound { values: found[0], indices: indexed.then(|| found[1]) })
    }

    fn weights_of(&mut self, node: usize, request: WeightsRequest) -> Result<AttentionWeightsFound> {
        let op = self.nodes().get(node).and_then(|node| node.op_as::<AttentionOp>());
        let Some(mut form) = op.map(|op| op.form.clone()) else {
            let what = match self.nodes().get(node) {
                Some(other) => format!("`{}` is no attention", other.name),
                None => format!("there is no node {node}"),
            };
            return Err(Error::invalid("attention_weights", what, "ask for a node whose op is `attention`"));
        };
        let attention = &self.nodes()[node];
        let held = attention.outputs[if form.kind.is_hard() { 2 } else { 1 }];
        let mut inputs = vec![attention.inputs[0], attention.inputs[1], held];
        inputs.extend(&attention.inputs[3..]);
        // Weights are those before dropout, whose random numbers nothing else needs.
        if form.dropout > 0.0 && form.kind.temperature().is_none() {
            form.drop_extra(Extra::Random);
            inputs.pop();
        }
        (form.dropout, form.dropout_stream) = (0.0, String::new());
        let name = attention.name.clone();
        let indexed = matches!(request, WeightsRequest::TopK(_));
        let found = self.apply(AttentionWeights { form, request }, &inputs).map_err(|error| match error {
            // Weights have no derivative, and a step has replaced what is learned about scores.
            Error::NoGradient { .. } | Error::StaleState { .. } => Error::invalid(
                "attention_weights",
                format!("`{name}` stands in a graph that is recorded for training"),
                "record the pass in `Graph::inference()`, look there, and run it with the same store",
            ),
            other => other,
        })?;
        Ok(AttentionWeightsFound { values: found[0], indices: indexed.then(|| found[1]) })
    }
}

impl AttentionWeights {
    /// Checks that requested indices are below a size, which may still be open.
    fn check_indices(&self, letters: &Letters) -> Result<()> {
        let most = |letter: &str| letters.get(letter).map_or(0, Dim::bound);
        match self.beyond(most("T"), most("S")) {
            None => {}
            Some((what, at, size)) => {
                let what = format!("{what} {at} is asked for, there are {size}");
                return Err(Error::invalid("attention_weights", what, "ask for those there are"));
            }
        }
        match self.request {
            WeightsRequest::TopK(0) => {
                let what = "the largest 0 weights are asked for";
                Err(Error::invalid("attention_weights", what, "ask for at least 1"))
            }
            WeightsRequest::Block { ref queries, ref keys }
                if queries.start > queries.end || keys.start > keys.end =>
            {
                let what = format!("queries {queries:?} and keys {keys:?} are asked for");
                Err(Error::invalid("attention_weights", what, "a range must not end before it begins"))
            }
            _ => Ok(()),
        }
    }

    /// What is asked for beyond these sizes.
    fn beyond(&self, queries: usize, keys: usize) -> Option<(&'static str, usize, usize)> {
        let first = |list: &[usize], size: usize| list.iter().copied().find(|&at| at >= size);
        match &self.request {
            WeightsRequest::Rows(list) => first(list, queries).map(|at| ("query", at, queries)),
            WeightsRequest::Columns(list) => first(list, keys).map(|at| ("key", at, keys)),
            WeightsRequest::Block { queries: range, .. } if range.end > queries => {
                Some(("query", range.end - 1, queries))
            }
            WeightsRequest::Block { keys: range, .. } if range.end > keys => {
                Some(("key", range.end - 1, keys))
            }
            _ => None,
        }
    }

    /// The same, of one run.
    fn check_run(&self, queries: usize, keys: usize) -> std::result::Result<(), Fault> {
        self.beyond(queries, keys).map_or(Ok(()), |(what, at, size)| {
            Err(Fault {
                op: "attention_weights",
                what: format!("{what} {at} is asked for, this run has {size}"),
                advice: "ask for those there are",
            })
        })
    }
}

impl Op for AttentionWeights {
    fn name(&self) -> &'static str {
        "attention_weights"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        let mut shown = self.form.attributes();
        shown.push((
            "request",
            match &self.request {
                WeightsRequest::Rows(list) => format!("{} rows", list.len()),
                WeightsRequest::Columns(list) => format!("{} columns", list.len()),
                WeightsRequest::Block { queries, keys } => format!("queries {queries:?}, keys {keys:?}"),
                WeightsRequest::TopK(k) => format!("top {k}"),
                WeightsRequest::ColumnSums => "column sums".into(),
                WeightsRequest::Entropy => "entropy".into(),
            },
        ));
        shown
    }

    fn operands(&self) -> Vec<&'static str> {
        let extras = self.form.extras().map(|extra: Extra| self.form.name_of(extra));
        let held = if self.form.kind.is_hard() { "choice" } else { "lse" };
        ["query", "key", held].into_iter().chain(extras).collect()
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        let mut letters = self.form.infer("attention_weights", inputs, false, 3)?;
        letters.bind(self.operands()[2], &inputs[2].shape, "B T H")?;
        self.check_indices(&letters)?;
        let f32s = |pattern: String| Fact::f32(letters.shape(&pattern));
        Ok(match &self.request {
            WeightsRequest::Rows(list) => vec![f32s(format!("B H {} S", list.len()))],
            WeightsRequest::Columns(list) => vec![f32s(format!("B H T {}", list.len()))],
            WeightsRequest::Block { queries, keys } => {
                vec![f32s(format!("B H {} {}", queries.len(), keys.len()))]
            }
            WeightsRequest::TopK(k) => {
                let values = f32s(format!("B T H {k}"));
                let indices = Fact::new(values.shape.clone(), DType::I32);
                vec![values, indices]
            }
            WeightsRequest::ColumnSums => vec![f32s("B H S".into())],
            WeightsRequest::Entropy => vec![f32s("B T H".into())],
        })
    }

    fn aliases(&self) -> Vec<Alias> {
        Vec::new()
    }

    fn derivative(&self, _input: usize) -> Derivative {
        Derivative::Missing("weights on request are for looking")
    }

    fn gradient(&self, _g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        Ok(vec![None; tape.inputs.len()])
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        cost::cost(&self.form, &self.request, call)
    }

    fn reach(&self, call: &Concrete<'_>, _output: usize, input: usize) -> Relation {
        // Every result has the batch in front, and examples do not meet unless keys are picked from other
        // rows.
        if input < 3 && !self.form.has(Extra::KeyRow) {
            let mut axes = vec![Along::All; call.inputs[input].len()];
            axes[0] = Along::Same(0);
            return Relation::Axes(axes);
        }
        Relation::Everything
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        let own = if self.form.has(Extra::KeyRow) { vec![0, 2] } else { vec![0, 1, 2] };
        let start = own.into_iter().fold(Layout::own(call, output), |layout, input| layout.with(0, input, 0));
        // Query and held are B T H …; key is B S G D.
        let heads = |layout: Layout| layout.with(1, 0, 2).with(1, 2, 2);
        let queries = |layout: Layout, axis: usize| layout.with(axis, 0, 1).with(axis, 2, 1);
        let chosen = |layout: Layout, list: &[usize]| layout.picked(2, 0, 1, list).picked(2, 2, 1, list);
        match &self.request {
            WeightsRequest::Rows(list) => chosen(heads(start), list).with(3, 1, 1),
            WeightsRequest::Columns(list) => queries(heads(start), 2).picked(3, 1, 1, list),
            WeightsRequest::Block { queries, keys } => {
                let (queries, keys): (Vec<usize>, Vec<usize>) =
                    (queries.clone().collect(), keys.clone().collect());
                chosen(heads(start), &queries).picked(3, 1, 1, &keys)
            }
            WeightsRequest::ColumnSums => heads(start).with(2, 1, 1),
            WeightsRequest::TopK(_) | WeightsRequest::Entropy => {
                queries(start, 1).with(2, 0, 2).with(2, 2, 2)
            }
        }
    }
}

impl Kernels for AttentionWeights {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        self.check_run(call.inputs[0].dims()[1], call.inputs[1].dims()[1])?;
        reference::run(&self.form, &self.request, call)
    }

    fn cpu_work(&self, call: &Concrete<'_>) -> Work {
        self.cost(call)
    }

    fn needs(&self, request: &Request<'_>) -> Needs {
        cpu::needs(&self.form, &self.request, request)
    }

    fn cpu(&self, call: &CpuCall<'_>) -> std::result::Result<(), Fault> {
        self.check_run(call.dims(0)[1], call.dims(1)[1])?;
        cpu::run(&self.form, &self.request, call)
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        Ok(cuda::list(self, call))
    }
}
