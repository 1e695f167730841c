//! Properties of the library and of this laboratory itself: one convention, runnable identities, gradients,
//! same bits, pages.

use crate::compute::{array, compute, differing};
use crate::experiment::{Model, Task, Tiny, Training, train_on};
use crate::picture::{Axis, Chart, Colours, Heat};
use crate::specimens::{bert, gpt, t5};
use crate::{Context, Evidence, Finding, Number, Predicate, Run, Table, Verdict};
use regard::Result;
use regard::check::Case;
use regard::device::Level;
use regard::layers::{AdditiveMask, IgnoreMask, KeepMask};
use regard::models::{BertText, Positions};
use regard::ops::{
    Activation, Attention, AttentionBias, AttentionKind, AttentionMask, AttentionScale, CrossEntropyOptions,
    Gate, LinearOptions, MatmulOptions, Window,
};
use regard::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// N1: one convention, and converters from the others.
pub fn convention(context: &Context) -> Result<Finding> {
    let mut draws = context.draws("N1");
    let keep: Vec<bool> = (0..12).map(|_| draws.uniform() < 0.6).collect();
    let ours = KeepMask(keep.clone());
    let ignore = KeepMask::from(IgnoreMask(keep.iter().map(|k| !k).collect()));
    let additive = KeepMask::try_from(AdditiveMask(
        keep.iter().map(|k| if *k { 0.0 } else { f32::NEG_INFINITY }).collect(),
    ))?;
    let doubtful = KeepMask::try_from(AdditiveMask(vec![0.0, 1.0]))
        .err()
        .map(|error| error.to_string())
        .unwrap_or_default();
    // True = may attend, in the op itself: a closed key gets no weight, an open one gets some.
    let (n, d) = (6usize, 4usize);
    let mask = [1.0, 0.0, 1.0, 1.0, 0.0, 1.0];
    let feed = Feed::new()
        .with("x", array(&[1, n, 1, d], &draws.normals(n * d))?)
        .with("mask", array(&[1, n], &mask)?);
    let found = compute(&feed, |g| {
        let x = g.input("x", DType::F32, [1, n, 1, d])?;
        let mask = g.input("mask", DType::Bool, [1, n])?;
        let spec = Attention {
            mask: AttentionMask { key_mask: Some(mask), ..Default::default() },
            ..Default::default()
        };
        let lse = g.attention(x, x, x, &spec)?.lse;
        let all = regard::ops::WeightsRequest::Block { queries: 0..n, keys: 0..n };
        Ok(vec![g.attention_weights(x, x, lse, &spec, all)?.values])
    })?;
    let weights = found[0].data();
    let wrong = (0..n * n).filter(|at| (weights[*at] > 0.0) != (mask[at % n] == 1.0)).count();
    // Column convention (d × n) against ours: the same numbers, transposed.
    let layout = {
        let mut g = Graph::inference();
        let x = g.input("x", DType::F32, [2, 3, 4])?;
        let refused = g
            .attention(x, x, x, &Attention::default())
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default();
        usize::from(refused.contains("B T H D") || refused.contains("[B"))
    };
    let mut table = Table::new("Conventions", &["convention", "true means", "type"]);
    table.row(["ours", "may attend", "KeepMask"]);
    table.row(["PyTorch key_padding_mask", "is ignored", "IgnoreMask"]);
    table.row(["additive", "0 may attend, −∞ is ignored", "AdditiveMask"]);
    Ok(Finding::new(Verdict::Holds, "Masks say what may be attended to; other conventions have types of their own and are converted; a doubtful mask and a wrong layout are refused with the convention in the text.")
        .number(Number::count("entries that differ after conversion from “ignore”", ours.0.iter().zip(&ignore.0).filter(|(a, b)| a != b).count(), 0))
        .number(Number::count("entries that differ after conversion from an additive mask", ours.0.iter().zip(&additive.0).filter(|(a, b)| a != b).count(), 0))
        .number(Number::count("weights that are not as the mask says", wrong, 0))
        .number(Number::count("a doubtful mask is refused, and the text names the convention", usize::from(doubtful.contains("0 for keys to attend to")), 1))
        .number(Number::count("a value without heads is refused, and the text names the layout", layout, 1))
        .table(table)
        .picture(Heat::new("Weights under a key mask, true = may attend", "query", "key", n, weights, Colours::Rising))
        .how(format!("The types of the layers, the attention op by the reference engine. The refusal reads: {doubtful}")))
}

/// N2: every identity runs, and gives the same numbers again.
pub fn runnable(context: &Context) -> Result<Finding> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    crate::claims().for_each(|claim| *counts.entry(claim.evidence().name()).or_default() += 1);
    let pending = crate::claims().filter(|claim| claim.evidence() == Evidence::Pending).count();
    let silent =
        crate::claims().filter(|claim| matches!(claim.run, Run::Pending(waits) if waits.is_empty())).count();
    let mut table = Table::new(
        "Run twice, and with another seed",
        &["claim", "numbers", "held against something", "same again"],
    );
    let (mut other, mut failed, mut bare, mut sampled) = (0, 0, 0, 0);
    for id in ["A6", "B2", "B9", "C1", "C11", "D4", "D6"] {
        let Some((claim, run)) = crate::find(id).and_then(|claim| Some((claim, claim.experiment()?))) else {
            continue;
        };
        let (first, second) = (run(context)?, run(context)?);
        let different = run(&Context { seed: context.seed + 1, ..*context })?;
        let same =
            first.numbers.iter().zip(&second.numbers).all(|(a, b)| a.value.to_bits() == b.value.to_bits());
        other += usize::from(!same);
        failed += first.failures().count() + different.failures().count();
        let held = first.numbers.iter().filter(|number| number.ok().is_some()).count();
        bare += usize::from(held == 0);
        if claim.evidence() == Evidence::Sampled {
            sampled += usize::from(first.numbers.iter().all(|number| number.interval.is_none()));
        }
        table.row([
            id.to_string(),
            first.numbers.len().to_string(),
            held.to_string(),
            if same { "yes" } else { "no" }.to_string(),
        ]);
    }
    let names: Vec<&str> = counts.keys().copied().collect();
    // Of all claims: what each states before its numbers are known.
    let unstated = crate::claims()
        .filter(|claim| match &claim.predicate {
            Predicate::EveryNumber => claim.evidence() == Evidence::Trained,
            Predicate::Stated(stated) => stated.statement.is_empty(),
        })
        .count();
    let all = crate::claims().count();
    Ok(Finding::new(Verdict::Holds, format!("All {all} claims are functions of a seed and an effort with a predicate on their numbers. Seven of them were run here, twice with one seed and once with another; the tests of the laboratory run every exact and sampled one. {pending} wait and say for what."))
        .number(Number::count("claims without a predicate", unstated, 0))
        .number(Number::count("pending claims that do not say what they wait for", silent, 0))
        .number(Number::count("claims of seven that change when run again", other, 0))
        .number(Number::count("numbers of seven claims outside of their bounds, with two seeds", failed, 0))
        .number(Number::count("claims of seven without a number that is held against anything", bare, 0))
        .number(Number::count("sampled claims among them without an interval", sampled, 0))
        .table(table)
        .picture(
            Chart::new("Claims by kind of evidence", Axis::names("", names), Axis::new("claims").covering(&[0.0]))
                .bars("", counts.values().enumerate().map(|(at, n)| (at as f64, *n as f64))),
        )
        .how("The catalogue itself, and seven claims run twice with one seed and once with another."))
}

type Recording = Box<dyn Fn(&mut Graph) -> regard_graph::Result<Vec<Var>>>;
type NamedCase = (&'static str, Recording);

fn x(g: &mut Graph, name: &str, dims: &[usize]) -> regard_graph::Result<Var> {
    g.input_with_gradient(name, dims)
}

macro_rules! case {
    ($name:literal, |$g:ident| $body:expr) => {
        ($name, Box::new(|$g: &mut Graph| Ok(vec![$body])))
    };
}

/// One recording for each op that has a derivative.
fn cases() -> Vec<NamedCase> {
    [elementwise(), norms_and_products(), shapes(), lookups_and_losses(), attentions()]
        .into_iter()
        .flatten()
        .collect()
}

fn elementwise() -> Vec<NamedCase> {
    vec![
        case!("add", |g| {
            let (a, b) = (x(g, "a", &[3, 4])?, x(g, "b", &[4])?);
            g.add(a, b)?
        }),
        case!("sub", |g| {
            let (a, b) = (x(g, "a", &[3, 4])?, x(g, "b", &[3, 1])?);
            g.sub(a, b)?
        }),
        case!("mul", |g| {
            let (a, b) = (x(g, "a", &[3, 4])?, x(g, "b", &[4])?);
            g.mul(a, b)?
        }),
        case!("div", |g| {
            let (a, b) = (x(g, "a", &[3, 4])?, x(g, "b", &[4])?);
            let b = g.exp(b)?;
            g.div(a, b)?
        }),
        case!("gelu", |g| {
            let a = x(g, "a", &[3, 4])?;
            g.gelu(a)?
        }),
        case!("gelu_tanh", |g| {
            let a = x(g, "a", &[3, 4])?;
            g.gelu_tanh(a)?
        }),
        case!("silu", |g| {
            let a = x(g, "a", &[3, 4])?;
            g.silu(a)?
        }),
        case!("relu", |g| {
            let a = x(g, "a", &[3, 4])?;
            g.relu(a)?
        }),
        case!("tanh", |g| {
            let a = x(g, "a", &[3, 4])?;
            g.tanh(a)?
        }),
        case!("sigmoid", |g| {
            let a = x(g, "a", &[3, 4])?;
            g.sigmoid(a)?
        }),
        case!("exp", |g| {
            let a = x(g, "a", &[3, 4])?;
            g.exp(a)?
        }),
        case!("log", |g| {
            let a = x(g, "a", &[3, 4])?;
            let a = g.exp(a)?;
            g.log(a)?
        }),
        case!("sqrt", |g| {
            let a = x(g, "a", &[3, 4])?;
            let a = g.exp(a)?;
            g.sqrt(a)?
        }),
        case!("square", |g| {
            let a = x(g, "a", &[3, 4])?;
            g.square(a)?
        }),
        case!("abs", |g| {
            let a = x(g, "a", &[3, 4])?;
            g.abs(a)?
        }),
        case!("recip", |g| {
            let a = x(g, "a", &[3, 4])?;
            let a = g.exp(a)?;
            g.recip(a)?
        }),
        case!("scale and shift", |g| {
            let a = x(g, "a", &[3, 4])?;
            let a = g.scale(a, 1.5)?;
            g.shift(a, 0.5)?
        }),
    ]
}

fn norms_and_products() -> Vec<NamedCase> {
    vec![
        case!("softmax", |g| {
            let a = x(g, "a", &[3, 4])?;
            g.softmax_scaled(a, 0.7)?
        }),
        case!("log_softmax", |g| {
            let a = x(g, "a", &[3, 4])?;
            g.log_softmax(a)?
        }),
        case!("layer_norm", |g| {
            let (a, w, b) = (x(g, "a", &[3, 5])?, x(g, "w", &[5])?, x(g, "b", &[5])?);
            g.layer_norm(a, Some(w), Some(b), NormSpec::default())?
        }),
        case!("rms_norm", |g| {
            let (a, w) = (x(g, "a", &[3, 5])?, x(g, "w", &[5])?);
            g.rms_norm(a, Some(w), NormSpec::default())?
        }),
        case!("linear", |g| {
            let (a, w, b, r) =
                (x(g, "a", &[3, 5])?, x(g, "w", &[4, 5])?, x(g, "b", &[4])?, x(g, "r", &[3, 4])?);
            g.linear(
                a,
                w,
                LinearOptions {
                    bias: Some(b),
                    activation: Activation::Gelu,
                    residual: Some(r),
                    ..Default::default()
                },
            )?
        }),
        case!("matmul", |g| {
            let (a, b) = (x(g, "a", &[2, 3, 4])?, x(g, "b", &[2, 5, 4])?);
            g.matmul(a, b, MatmulOptions { transpose_b: true, scale: 0.5, ..Default::default() })?
        }),
    ]
}

/// Other shapes, sums over axes, gates and positions.
fn shapes() -> Vec<NamedCase> {
    vec![
        case!("transpose", |g| {
            let a = x(g, "a", &[2, 3, 4])?;
            g.transpose(a, &[2, 0, 1])?
        }),
        case!("reshape", |g| {
            let a = x(g, "a", &[2, 6])?;
            let a = g.reshape(a, [3, 4])?;
            g.square(a)?
        }),
        case!("slice", |g| {
            let a = x(g, "a", &[3, 6])?;
            g.slice(a, 1, 2, 3)?
        }),
        case!("concat", |g| {
            let (a, b) = (x(g, "a", &[3, 2])?, x(g, "b", &[3, 4])?);
            g.concat(&[a, b], 1)?
        }),
        case!("sum", |g| {
            let a = x(g, "a", &[3, 4])?;
            let a = g.square(a)?;
            g.sum(a, &[0])?
        }),
        case!("max", |g| {
            let a = x(g, "a", &[3, 4])?;
            g.max(a, &[1])?
        }),
        case!("broadcast_to", |g| {
            let (a, b) = (x(g, "a", &[4])?, x(g, "b", &[3, 4])?);
            g.broadcast_to(a, b)?
        }),
        case!("gated", |g| {
            let (a, b) = (x(g, "a", &[3, 4])?, x(g, "b", &[3, 4])?);
            g.gated(Gate::Silu, a, b)?
        }),
        case!("rotary", |g| {
            let a = x(g, "a", &[1, 3, 2, 4])?;
            g.rotary(a, None, RotarySpec::default())?
        }),
        case!("add_position", |g| {
            let (a, t) = (x(g, "a", &[2, 3, 4])?, x(g, "t", &[5, 4])?);
            g.add_position(a, t, None)?
        }),
        case!("patches", |g| {
            let a = x(g, "a", &[1, 2, 4, 4])?;
            g.patches(a, [2, 2])?
        }),
    ]
}

fn lookups_and_losses() -> Vec<NamedCase> {
    vec![
        case!("embedding", |g| {
            let t = x(g, "t", &[5, 3])?;
            let ids = g.constant(DType::I32, [2, 2], &[1.0, 4.0, 1.0, 0.0])?;
            g.embedding(t, ids, None)?
        }),
        case!("gather", |g| {
            let a = x(g, "a", &[4, 3])?;
            let at = g.constant(DType::I32, [3], &[2.0, 0.0, 2.0])?;
            g.gather(a, at, 0)?
        }),
        case!("select", |g| {
            let (a, b) = (x(g, "a", &[2, 3])?, x(g, "b", &[2, 3])?);
            let mask = g.constant(DType::Bool, [2, 3], &[1.0, 0.0, 1.0, 0.0, 0.0, 1.0])?;
            g.select(mask, a, b)?
        }),
        case!("cross_entropy", |g| {
            let a = x(g, "a", &[3, 4])?;
            let t = g.constant(DType::I32, [3], &[1.0, 3.0, -100.0])?;
            g.cross_entropy(a, t, CrossEntropyOptions { label_smoothing: 0.1, ..Default::default() })?
        }),
        case!("linear_cross_entropy", |g| {
            let (a, w) = (x(g, "a", &[3, 5])?, x(g, "w", &[4, 5])?);
            let t = g.constant(DType::I32, [3], &[1.0, 3.0, 0.0])?;
            let s = g.fill(DType::F32, shape![], 0.5)?;
            g.linear_cross_entropy(a, w, None, t, s, CrossEntropyOptions::default())?.loss
        }),
    ]
}

fn attentions() -> Vec<NamedCase> {
    let attention = |name: &'static str, spec: fn(&mut Graph) -> regard_graph::Result<Attention>| {
        let case: Recording = Box::new(move |g: &mut Graph| {
            let (q, k, v) = (x(g, "q", &[1, 4, 2, 3])?, x(g, "k", &[1, 5, 2, 3])?, x(g, "v", &[1, 5, 2, 2])?);
            let spec = spec(g)?;
            Ok(vec![g.attention(q, k, v, &spec)?.y])
        });
        (name, case)
    };
    // Hard attention has a derivative with respect to its values alone.
    let hard: Recording = Box::new(|g: &mut Graph| {
        let q = g.input("q", DType::F32, [1, 4, 2, 3])?;
        let k = g.input("k", DType::F32, [1, 5, 2, 3])?;
        let v = x(g, "v", &[1, 5, 2, 2])?;
        Ok(vec![g.attention(q, k, v, &Attention { kind: AttentionKind::Hard, ..Default::default() })?.y])
    });
    vec![
        attention("attention", |_| Ok(Attention::default())),
        attention("attention, window", |_| {
            Ok(Attention {
                mask: AttentionMask { window: Some(Window { before: 1, after: 1 }), ..Default::default() },
                ..Default::default()
            })
        }),
        attention("attention, learned scale", |g| {
            Ok(Attention {
                scale: AttentionScale::Parameter(g.input_with_gradient("s", [2])?),
                ..Attention::causal()
            })
        }),
        attention("attention, table of distances", |g| {
            Ok(Attention {
                bias: AttentionBias::Clipped { table: g.input_with_gradient("t", [5, 2])? },
                ..Default::default()
            })
        }),
        attention("attention, buckets", |g| {
            Ok(Attention {
                bias: AttentionBias::Buckets {
                    table: g.input_with_gradient("t", [8, 2])?,
                    bidirectional: true,
                    max_distance: 16,
                },
                ..Default::default()
            })
        }),
        attention("attention, slopes", |g| {
            Ok(Attention {
                bias: AttentionBias::Alibi { slopes: g.input_with_gradient("s", [2])? },
                ..Default::default()
            })
        }),
        attention("attention, dense bias", |g| {
            Ok(Attention {
                bias: AttentionBias::Dense(g.input_with_gradient("d", [1, 2, 4, 5])?),
                ..Default::default()
            })
        }),
        ("attention, hard", hard),
    ]
}

/// The ops that the recordings of [`cases`] hold, and those that specimens of the library's models hold
/// beside them: what no recording covers.
fn covered(cases: &[NamedCase]) -> Result<[BTreeSet<String>; 2]> {
    let ops = |g: &Graph| g.nodes().iter().map(|node| node.op.name().to_string()).collect::<BTreeSet<_>>();
    let mut checked = BTreeSet::new();
    for (_, record) in cases {
        let mut g = Graph::new();
        record(&mut g)?;
        checked.extend(ops(&g));
    }
    let mut used = BTreeSet::new();
    let mut g = Graph::new();
    let ids = g.input("ids", DType::I32, [1, 8])?;
    gpt(Positions::Rotary(RotarySpec::default()))?.logits(&mut g, ids)?;
    used.extend(ops(&g));
    let mut g = Graph::new();
    let ids = g.input("ids", DType::I32, [1, 8])?;
    bert()?.hidden(&mut g, &BertText { ids, token_types: None, key_mask: None })?;
    used.extend(ops(&g));
    let mut g = Graph::new();
    let (source, target) = (g.input("source", DType::I32, [1, 8])?, g.input("target", DType::I32, [1, 8])?);
    let model = t5()?;
    let memory = model.encode(&mut g, source, None)?;
    let x = model.hidden(&mut g, memory, None, target)?;
    model.scores(&mut g, x)?;
    used.extend(ops(&g));
    Ok([checked, used])
}

/// N3: gradients against finite differences.
pub fn gradients(context: &Context) -> Result<Finding> {
    let mut table = Table::new("Gradients against central differences in f64", &["recording", "agrees"]);
    let (mut wrong, mut texts) = (0, vec![]);
    let all = cases();
    let count = all.len();
    let [checked, used] = covered(&all)?;
    // Ops without a derivative have nothing to check: what only makes, names or counts.
    let missing: Vec<&String> =
        used.difference(&checked).filter(|op| !WITHOUT.contains(&op.as_str())).collect();
    let mut agreed = vec![];
    for (name, record) in all {
        let result = Case::new(|g: &mut Graph| record(g)).seed(context.seed + 1).gradients();
        table.row([name.to_string(), if result.is_ok() { "yes" } else { "no" }.to_string()]);
        agreed.push(f64::from(u8::from(result.is_ok())));
        if let Err(error) = result {
            wrong += 1;
            texts.push(format!("{name}: {error}"));
        }
    }
    texts.extend(missing.iter().map(|op| format!("no recording of {op}")));
    let mut finding = Finding::new(Verdict::Holds, format!("All {count} recordings, over {} ops, agree with central differences in f64, and every op with a derivative that a GPT, a BERT and a T5 of the library use is among them. (The tests of each op do the same over many more shapes.)", checked.len()))
        .number(Number::count("recordings whose gradients do not agree", wrong, 0))
        .number(Number::count("ops of the models that no recording holds", missing.len(), 0))
        .number(Number::shown("recordings", count as f64))
        .number(Number::shown("ops in them", checked.len() as f64))
        .table(table)
        .picture(Heat::new("Recordings that agree", "", "recording", 12, agreed, Colours::Rising))
        .how("The library’s own checker: the gradient reader, run by the reference engine, against (L(x+h) − L(x−h))/2h for up to 24 elements of every input, within 2·10⁻⁷ of the largest. Which ops are covered is read from the recordings, and which the models use from theirs.");
    if !texts.is_empty() {
        finding = finding.counter_example(texts.join("; "));
    }
    Ok(finding)
}

/// Ops of models that have no derivative: they make constants, or look at whole numbers.
const WITHOUT: [&str; 4] = ["parameter", "constant", "fill", "sinusoids"];

/// N4: the same seed, the same bits.
pub fn same_bits(context: &Context) -> Result<Finding> {
    let task = Task::Reverse { symbols: 6 };
    let model = Model::new(Tiny { layers: 2, most: 6, ..Tiny::new(6, 24) })?;
    let training = Training {
        seed: context.seed,
        steps: context.size(15, 100),
        batch: 8,
        length: 6,
        rate: 3e-3,
        watch: &[],
    };
    let run = |threads: usize, level: Level, seed: u64| -> Result<(u64, Vec<f64>)> {
        let trained = train_on(&model, task, &Training { seed, ..training }, &Cpu::with(threads, level)?)?;
        // FNV-1a over every bit of every parameter and moment.
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        let names: Vec<String> = trained.store.names().map(str::to_string).collect();
        for name in &names {
            for x in &trained.store.f32(name)? {
                for byte in x.to_bits().to_le_bytes() {
                    hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
                }
            }
        }
        Ok((hash, trained.losses))
    };
    let (first, losses) = run(1, Level::best(), context.seed)?;
    let mut table =
        Table::new("Hash of all parameters and moments after training", &["threads", "level", "hash"]);
    table.row(["1".to_string(), format!("{:?}", Level::best()), format!("{first:016x}")]);
    let mut other = 0;
    for (threads, level) in [(1, Level::best()), (2, Level::best()), (3, Level::best()), (2, Level::PORTABLE)]
    {
        let (hash, again) = run(threads, level, context.seed)?;
        other += usize::from(hash != first) + differing(&again, &losses).min(1);
        table.row([threads.to_string(), format!("{level:?}"), format!("{hash:016x}")]);
    }
    let (another, _) = run(1, Level::best(), context.seed + 1)?;
    Ok(Finding::new(Verdict::Holds, "The same seed gives the same parameters to the last bit on one, two and three threads and at every SIMD level; another seed gives others.")
        .number(Number::count("runs that differ in any bit", other, 0))
        .number(Number::count("another seed gives another hash", usize::from(another != first), 1))
        .table(table)
        .picture(Chart::new("Loss, the same in every run", Axis::new("step"), Axis::new("loss")).line("", losses.iter().enumerate().map(|(at, x)| (at as f64, *x))))
        .how("A model of two layers trained on reversal, four times again under other threads and levels."))
}

/// N5: the pages themselves.
pub fn pages(context: &Context) -> Result<Finding> {
    let ids = ["A10", "C6", "C12", "B8", "F-7"];
    let claims = crate::select(&ids)?;
    let outcomes = crate::run(&claims, context, &|_| {});
    let pages = crate::site::pages(&outcomes, context);
    let (mut lacking, mut outside) = (vec![], 0);
    let mut table = Table::new("Pages", &["page", "bytes"]);
    for (name, text) in &pages {
        table.row([name.clone(), text.len().to_string()]);
        outside += usize::from(text.contains("src=\"http") || text.contains("href=\"http"));
    }
    for outcome in &outcomes {
        let Some(Ok(finding)) = &outcome.found else {
            lacking.push(format!("{}: no finding", outcome.claim.id));
            continue;
        };
        let name = format!("{}.html", outcome.claim.id);
        let page = pages.iter().find(|(own, _)| *own == name).map_or("", |(_, text)| text.as_str());
        let has = |text: &str| page.contains(&crate::picture::escaped(text));
        for (what, there) in [
            ("the sentence", has(outcome.claim.statement)),
            ("the verdict", has(outcome.state())),
            ("a picture", page.contains("<svg")),
            (
                "the counter-example",
                outcome.verdict() == Some(Verdict::Holds)
                    || finding.counter_example.as_deref().is_none_or(has),
            ),
        ] {
            if !there {
                lacking.push(format!("{name} lacks {what}"));
            }
        }
    }
    let sizes = pages.iter().enumerate().map(|(at, (_, text))| (at as f64, text.len() as f64 / 1024.0));
    let mut finding = Finding::new(Verdict::Holds, "Each claim has a page with the sentence, the verdict, a picture and, where there is one, the counter-example; the pages ask nothing of any other place.")
        .number(Number::count("things that pages lack", lacking.len(), 0))
        .number(Number::count("pages for five claims, an index and the errata", pages.len(), 7))
        .number(Number::count("pages that load something from elsewhere", outside, 0))
        .table(table)
        .picture(Chart::new("Size of the pages", Axis::new("page"), Axis::new("KiB").covering(&[0.0])).bars("", sizes))
        .how("The site of five claims, made and read.");
    if !lacking.is_empty() {
        finding = finding.counter_example(lacking.join("; "));
    }
    Ok(finding)
}
