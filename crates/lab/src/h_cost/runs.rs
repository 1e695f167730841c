//! How models run: over positions at once, token by token, over latents, and in how much memory.

use crate::experiment::{Task, carries, number, one_cpu, over_seeds, seeds};
use crate::picture::{Axis, Chart, figure};
use crate::recurrent::Recurrent;
use crate::specimens::{VOCABULARY, gpt, in_chunks, other_bits, whole};
use crate::{Context, Finding, Number, Table, Verdict};
use regard::device::{Level, Pool};
use regard::generate::{Generator, Request, Settings};
use regard::layers::{
    AttentionConfig, AttentionLayer, Context as Surroundings, Embedding, EmbeddingConfig, FeedForwardKind,
    Linear, LinearConfig, Parameters, Source,
};
use regard::models::{
    Bert, BertConfig, BertHead, BertText, Gpt, GptConfig, Perceiver, PerceiverConfig, PerceiverMasking,
    Positions,
};
use regard::ops::{AdamW, Attention, AttentionMask, CrossEntropyOptions, IGNORE_INDEX, MatmulOptions};
use regard::prelude::*;
use regard::{Result, cost};
use regard_graph::{Integers, Sizes};
use std::time::Instant;

/// H5: one pass over all positions is the same as one position at a time.
pub fn parallel(context: &Context) -> Result<Finding> {
    let mut draws = context.draws("H5");
    let ids: Vec<i32> = (0..48).map(|_| draws.below(VOCABULARY) as i32).collect();
    let model = gpt(Positions::Learned)?;
    let at_once = whole(&model, &ids, 1)?;
    let one_by_one = in_chunks(&model, &ids, &vec![1; 48])?;
    let threads = whole(&model, &ids, 3)?;
    let wide = Gpt::new(GptConfig {
        layers: 2,
        heads: 4,
        width: 128,
        context: 256,
        vocabulary: 64,
        dropout: 0.0,
        ..GptConfig::SMALL
    })?;
    let mut table =
        Table::new("One forward pass of 256 positions, width 128, two layers", &["threads", "ms"]);
    let mut times = vec![];
    for threads in 1..=Pool::default_threads().clamp(2, 4) {
        let mut g = Graph::inference();
        let given = g.input("ids", DType::I32, [1, 256])?;
        let logits = wide.logits(&mut g, given)?;
        g.output("logits", logits)?;
        let mut store = Store::new(0);
        let mut program = Program::new(g, &[], &mut store, &Cpu::with(threads, Level::best())?)?;
        program.set_i32("ids", &[1, 256], &vec![3; 256])?;
        let mut best = f64::INFINITY;
        for _ in 0..context.size(4, 20) {
            let begun = Instant::now();
            program.run(&mut store)?;
            best = best.min(begun.elapsed().as_secs_f64());
        }
        table.row([threads.to_string(), figure(best * 1e3)]);
        times.push((threads as f64, best * 1e3));
    }
    let ideal: Vec<(f64, f64)> = times.iter().map(|(n, _)| (*n, times[0].1 / n)).collect();
    Ok(Finding::new(Verdict::True, "One pass over 48 positions gives what 48 passes of one position give, to the bit; and no bit depends on the threads.")
        .number(Number::count("scores that differ: all at once against one by one", other_bits(&at_once, &one_by_one), 0))
        .number(Number::count("scores that differ: one thread against three", other_bits(&at_once, &threads), 0))
        .number(Number::shown("speed-up of two threads", times[0].1 / times[1].1))
        .table(table)
        .picture(Chart::new("Time against threads", Axis::new("threads"), Axis::new("ms").covering(&[0.0])).line("measured", times).dashed("time of one thread over n", ideal))
        .how("A GPT of two layers on the CPU engine, whole and through caches; times are the least of a few runs, on whatever cores are free."))
}

/// H6: prompts in parallel, new tokens in sequence.
pub fn inference(context: &Context) -> Result<Finding> {
    let model = Gpt::new(GptConfig {
        layers: 2,
        heads: 4,
        width: 128,
        context: 512,
        vocabulary: 64,
        dropout: 0.0,
        std: 0.3,
        ..GptConfig::SMALL
    })?;
    let mut store = Store::new(0);
    let told = |error: regard::generate::Error| {
        regard_graph::Error::invalid("generate", error.to_string(), "see the cause")
    };
    let settings = Settings { chunk: 256, ..Default::default() };
    let mut generator = Generator::new(&model, settings, &mut store, &one_cpu()?).map_err(told)?;
    let (prompt, new) = (256usize, 64usize);
    let prompts = vec![(0..prompt as i32).map(|i| i % 61).collect::<Vec<i32>>()];
    let mut best = [f64::INFINITY; 2];
    for _ in 0..context.size(3, 12) {
        for (best, most) in best.iter_mut().zip([1, new + 1]) {
            let begun = Instant::now();
            generator.generate(&Request::greedy(&prompts, most), &mut store).map_err(told)?;
            *best = best.min(begun.elapsed().as_secs_f64());
        }
    }
    let prefill = prompt as f64 / best[0];
    let decode = new as f64 / (best[1] - best[0]);
    Ok(Finding::new(
        Verdict::Wrong,
        "Training and the reading of a prompt do all positions at once; generation does not: each token is an input of the next, and \
         every one costs a run of its own.",
    )
    .number(Number::shown("prompt: tokens a second", prefill))
    .number(Number::shown("new tokens: tokens a second", decode))
    .number(Number::at_least("prompt over new tokens", prefill / decode, 1.0).erratum("E18"))
    .counter_example(format!("256 tokens of a prompt at {} a second, new ones at {} a second, same model, one thread.", figure(prefill), figure(decode)))
    .picture(
        Chart::new("Tokens a second, one thread", Axis::names("", ["prompt", "new tokens"]), Axis::new("tokens/s").covering(&[0.0]))
            .bars("", [(0.0, prefill), (1.0, decode)]),
    )
    .how("The generator on a GPT of two layers and width 128: a prompt of 256 tokens in one chunk, then 64 tokens one at a time; the least of a few runs."))
}

/// Multiply-adds of all attentions of a graph.
fn attention_macs(g: &Graph) -> Result<u64> {
    let found = cost::cost(g, &Sizes::none(), &Integers::none(), None)?;
    Ok(found.by_op().get("attention").map_or(0, |cost| cost.math.macs))
}

/// H7 and L4: vanilla against Perceiver.
pub fn perceiver(context: &Context) -> Result<Finding> {
    let (d, heads) = (32usize, 4usize);
    let vanilla = |layers: usize, l: usize| -> Result<Graph> {
        let model = Bert::new(BertConfig {
            layers,
            heads,
            width: d,
            hidden: 4 * d,
            context: l,
            vocabulary: VOCABULARY,
            token_types: 1,
            activation: FeedForwardKind::Gelu,
            epsilon: 1e-12,
            dropout: 0.0,
            attention_dropout: 0.0,
            std: 0.02,
            head: BertHead::None,
        })?;
        let mut g = Graph::inference();
        let ids = g.input("ids", DType::I32, [1, l])?;
        let x = model.hidden(&mut g, &BertText { ids, token_types: None, key_mask: None })?;
        g.output("x", x)?;
        Ok(g)
    };
    let small = |layers: usize, l: usize, m: usize| -> Result<Graph> {
        let config = PerceiverConfig {
            layers,
            heads,
            width: d,
            latents: m,
            context: l,
            vocabulary: VOCABULARY,
            masking: PerceiverMasking::Open,
            dropout: 0.0,
        };
        let model = Perceiver::new(config)?;
        let mut g = Graph::inference();
        let ids = g.input("ids", DType::I32, [1, l])?;
        let x = model.hidden(&mut g, ids)?;
        g.output("x", x)?;
        Ok(g)
    };
    let mut table = Table::new(
        "Multiply-adds of attention, d = 32",
        &["L", "ℓ", "m", "vanilla, 2d·Lℓ²", "Perceiver, 2d·((L−2)m² + 2ℓm)"],
    );
    let mut wrong = 0;
    for (layers, l, m) in [(4usize, 64usize, 16usize), (4, 128, 16), (6, 128, 32), (8, 256, 64), (12, 128, 8)]
    {
        let (v, p) = (attention_macs(&vanilla(layers, l)?)?, attention_macs(&small(layers, l, m)?)?);
        wrong += usize::from(v != (2 * d * layers * l * l) as u64);
        wrong += usize::from(p != (2 * d * ((layers - 2) * m * m + 2 * l * m)) as u64);
        table.row([layers, l, m, v as usize, p as usize].map(|x| x.to_string()));
    }
    let timed = |g: Graph, l: usize| -> Result<f64> {
        let mut store = Store::new(0);
        let mut program = Program::new(g, &[], &mut store, &one_cpu()?)?;
        program.set_i32("ids", &[1, l], &vec![3; l])?;
        let mut best = f64::INFINITY;
        for _ in 0..context.size(3, 10) {
            let begun = Instant::now();
            program.run(&mut store)?;
            best = best.min(begun.elapsed().as_secs_f64() * 1e3);
        }
        Ok(best)
    };
    let (mut a, mut b) = (vec![], vec![]);
    for l in [64usize, 128, 256, 512, 1024] {
        a.push((l as f64, timed(vanilla(6, l)?, l)?));
        b.push((l as f64, timed(small(6, l, 32)?, l)?));
    }
    let saved = a[4].1 / b[4].1;
    Ok(Finding::new(
        Verdict::Works,
        "The counts are exactly 2d·Lℓ² for a vanilla encoder and 2d·((L−2)m² + 2ℓm) for a Perceiver: the answer that the note leaves \
         out. Causal masks halve the first.",
    )
    .number(Number::count("counts that differ from the closed forms", wrong, 0).erratum("E37"))
    .number(Number::shown("measured time of vanilla over Perceiver at ℓ = 1024, L = 6, m = 32", saved))
    .table(table)
    .picture(Chart::new("Time of a forward pass, L = 6, m = 32, one thread", Axis::log("ℓ"), Axis::log("ms")).line("vanilla", a).line("Perceiver", b))
    .how("The cost reader on the BERT and the Perceiver of the library, without masks; times are the least of a few runs. Perceivers also save the products with weights of L − 2 layers."))
}

/// H8: memory of stored weights against tiled attention.
pub fn memory(_context: &Context) -> Result<Finding> {
    let (heads, width) = (4usize, 16usize);
    let bytes = |n: usize, tiled: bool| -> Result<f64> {
        let mut g = Graph::inference();
        let y = if tiled {
            let [q, k, v] = ["q", "k", "v"].map(|name| g.input(name, DType::F32, [1, n, heads, width]));
            let (q, k, v) = (q?, k?, v?);
            let [q, k, v] = [g.scale(q, 1.5)?, g.scale(k, 1.5)?, g.scale(v, 1.5)?];
            g.attention(q, k, v, &Attention::default())?.y
        } else {
            let [q, k, v] = ["q", "k", "v"].map(|name| g.input(name, DType::F32, [heads, n, width]));
            let (q, k, v) = (q?, k?, v?);
            let [q, k, v] = [g.scale(q, 1.5)?, g.scale(k, 1.5)?, g.scale(v, 1.5)?];
            let scores =
                g.matmul(q, k, MatmulOptions { transpose_b: true, scale: 0.25, ..Default::default() })?;
            let weights = g.softmax(scores)?;
            g.matmul(weights, v, MatmulOptions::default())?
        };
        let y = g.scale(y, 2.0)?;
        g.output("y", y)?;
        let mut store = Store::new(0);
        let memory = Program::new(g, &[], &mut store, &one_cpu()?)?.memory();
        Ok((memory.arena + memory.threads) as f64)
    };
    let lengths = [256usize, 512, 1024, 2048, 4096];
    let mut table = Table::new(
        "Planned memory between inputs and outputs, 4 heads of 16",
        &["n", "weights stored", "tiled", "n²·h weights alone"],
    );
    let (mut stored, mut tiled) = (vec![], vec![]);
    for &n in &lengths {
        let (a, b) = (bytes(n, false)?, bytes(n, true)?);
        table.row([n.to_string(), figure(a), figure(b), (n * n * heads * 4).to_string()]);
        stored.push((n as f64, a));
        tiled.push((n as f64, b));
    }
    let growth = |line: &[(f64, f64)]| line[4].1 / line[3].1;
    Ok(Finding::new(Verdict::Works, "Stored weights take n_t·n_s·h numbers; tiled attention takes memory in proportion to n.")
        .number(Number::equal("stored: memory at 4096 over memory at 2048", growth(&stored), 4.0, 0.1))
        .number(Number::equal("tiled: memory at 4096 over memory at 2048", growth(&tiled), 2.0, 0.1))
        .number(Number::at_least("stored: bytes at 4096, at least n²·h·4", stored[4].1, (4096.0f64 * 4096.0) * 16.0))
        .number(Number::shown("stored over tiled at 4096", stored[4].1 / tiled[4].1))
        .table(table)
        .picture(Chart::new("Memory between inputs and outputs", Axis::log("n"), Axis::log("bytes")).line("weights stored", stored).line("tiled", tiled))
        .how("The plan of two programs: scores, softmax and weighted sum as three ops, and the attention op. The planner’s memory is what the engine takes."))
}

/// Attention or recurrence over embedded tokens, with a head: what H4 trains.
enum Mixer {
    Attention(AttentionLayer),
    Recurrent(Recurrent),
}

struct Reader {
    mixer: Mixer,
    embedding: Embedding,
    place: Embedding,
    head: Linear,
    width: usize,
}

impl Reader {
    fn new(attention: bool, symbols: usize, length: usize, width: usize) -> regard_graph::Result<Reader> {
        let std = 1.0 / (width as f32).sqrt();
        let p = &mut Parameters::new();
        let mixer = p.under("mixer", |p| -> regard_graph::Result<Mixer> {
            Ok(match attention {
                true => Mixer::Attention(AttentionLayer::new(
                    AttentionConfig { std, ..AttentionConfig::new(width, 2)? },
                    p,
                )?),
                false => Mixer::Recurrent(Recurrent::new(width, p)?),
            })
        })?;
        let embedding =
            p.under("tokens", |p| Embedding::new(EmbeddingConfig { tokens: symbols, width, std: 1.0 }, p))?;
        let place =
            p.under("places", |p| Embedding::new(EmbeddingConfig { tokens: length, width, std: 1.0 }, p))?;
        let head = p.under("head", |p| {
            Linear::new(LinearConfig { inputs: width, outputs: symbols, bias: true, std }, p)
        })?;
        Ok(Reader { mixer, embedding, place, head, width })
    }

    fn embed(&self, g: &mut Graph, ids: Var) -> regard_graph::Result<Var> {
        let x = self.embedding.forward(g, ids)?;
        let table = self.place.weight(g)?;
        g.add_position(x, table, None)
    }

    fn scores(&self, g: &mut Graph, x: Var) -> regard_graph::Result<Var> {
        let y = match &self.mixer {
            Mixer::Attention(layer) => {
                let mask = AttentionMask { causal: true, ..Default::default() };
                layer.forward(g, x, Source::Own, &Surroundings { mask, ..Default::default() })?
            }
            Mixer::Recurrent(layer) => layer.forward(g, x)?,
        };
        self.head.forward(g, y)
    }
}

/// H4: gradients against distance, and copying against distance.
pub fn path_length(context: &Context) -> Result<Finding> {
    let (width, length, symbols) = (32usize, 48usize, 8usize);
    let mut chart = Chart::new(
        "Gradient of the last score with respect to an input",
        Axis::new("distance"),
        Axis::log("norm"),
    );
    let (mut numbers, mut told) = (vec![], vec![]);
    for (name, attention) in [("attention", true), ("recurrent", false)] {
        let reader = Reader::new(attention, symbols, length, width)?;
        let mut norms = vec![vec![]; length];
        for seed in 0..context.size(8, 32) as u64 {
            let mut store = Store::new(context.seed + seed);
            let mut program = Program::new(record_gradient(&reader, length)?, &[], &mut store, &one_cpu()?)?;
            let numbers: Vec<f32> = Context { seed, ..*context }
                .draws("H4")
                .normals(length * width)
                .iter()
                .map(|x| *x as f32)
                .collect();
            program.set_f32("x", &[1, length, width], &numbers)?;
            program.run(&mut store)?;
            for (t, row) in program.f32("gradient")?.chunks(width).enumerate() {
                norms[length - 1 - t].push(row.iter().map(|x| f64::from(x * x)).sum::<f64>().sqrt());
            }
        }
        let means: Vec<f64> = norms.iter().map(|norms| over_seeds(norms).value).collect();
        numbers.push(Number::shown(
            format!("{name}: gradient at distance 40 over that at distance 1"),
            means[40] / means[1],
        ));
        told.push(figure(means[40] / means[1]));
        chart = chart.line(name, means.iter().enumerate().map(|(d, n)| (d as f64, *n)));
    }
    let seeds = seeds(context, 3);
    let distances = context.size(2, 4);
    let mut table =
        Table::new("Accuracy of copying from a distance", &["distance", "attention", "recurrent"]);
    let mut copies = Chart::new(
        "Copying from a distance",
        Axis::new("distance"),
        Axis::new("accuracy").covering(&[0.0, 1.0]),
    );
    let mut lines = [vec![], vec![]];
    for &distance in &[2usize, 12, 6, 24][..distances] {
        let mut cells = vec![distance.to_string()];
        for (line, attention) in lines.iter_mut().zip([true, false]) {
            let own = seeds
                .iter()
                .map(|&seed| copy(context, attention, distance, symbols, width, seed))
                .collect::<Result<Vec<f64>>>()?;
            let found = over_seeds(&own);
            numbers.push(number(
                format!(
                    "{}: accuracy at distance {distance}",
                    if attention { "attention" } else { "recurrent" }
                ),
                found,
            ));
            cells.push(figure(found.value));
            line.push((distance as f64, found.value));
        }
        table.row(cells);
    }
    for (name, mut line) in ["attention", "recurrent"].into_iter().zip(lines) {
        line.sort_by(|a, b| a.0.total_cmp(&b.0));
        copies = copies.line(name, line);
    }
    Ok(Finding::new(
        Verdict::Measured,
        format!(
            "Before training, the gradient at a distance of 40 is {} of that at 1 through attention, {} through an Elman layer; copying \
             over a distance is in the table. {}",
            told[0],
            told[1],
            carries(context, seeds.len())
        ),
    )
    .numbers(numbers)
    .table(table)
    .picture(chart)
    .picture(copies)
    .how("One causal attention layer against one Elman layer of width 32, both with learned places, the same head; gradients by the gradient reader; copying trained with AdamW."))
}

/// The gradient of Σ(last scores)² with respect to the inputs, as a program.
fn record_gradient(reader: &Reader, length: usize) -> Result<Graph> {
    let mut g = Graph::new();
    let x = g.input_with_gradient("x", [1, length, reader.width])?;
    let scores = reader.scores(&mut g, x)?;
    let last = g.slice_last(scores, 1, 1)?;
    let squares = g.square(last)?;
    let sum = g.sum_all(squares)?;
    let gradient = g.gradient(sum, &[x])?[0];
    g.output("gradient", gradient)?;
    Ok(g)
}

/// The accuracy of saying what stood so far back, on the last batches of training.
fn copy(
    context: &Context,
    attention: bool,
    distance: usize,
    symbols: usize,
    width: usize,
    seed: u64,
) -> Result<f64> {
    let (batch, length, steps) = (16usize, distance + 4, context.size(150, 800));
    let task = Task::Back { symbols, distance };
    let reader = Reader::new(attention, symbols, length, width)?;
    let mut g = Graph::new();
    let ids = g.input("ids", DType::I32, [batch, length])?;
    let targets = g.input("targets", DType::I32, [batch, length])?;
    let (lr, step) = (g.input("lr", DType::F32, shape![])?, g.input("step", DType::I32, shape![])?);
    let x = reader.embed(&mut g, ids)?;
    let scores = reader.scores(&mut g, x)?;
    let losses = g.cross_entropy(scores, targets, CrossEntropyOptions::default())?;
    let sum = g.sum_all(losses)?;
    let loss = g.scale(sum, 1.0 / (batch * 4) as f32)?;
    let chosen = g.argmax(scores, 2)?;
    g.output("chosen", chosen)?;
    let parameters = g.parameters();
    let gradients = g.gradient(loss, &parameters)?;
    let (_, factor) = g.clip_norm(&gradients, 1.0)?;
    let pairs: Vec<(Var, Var)> = parameters.into_iter().zip(gradients).collect();
    g.adamw_step(&pairs, &AdamW { weight_decay: 0.0, ..Default::default() }, lr, step, Some(factor))?;
    let mut store = Store::new(seed);
    let mut program = Program::new(g, &[], &mut store, &one_cpu()?)?;
    let mut draws = Context { seed, ..*context }.draws("H4.copy");
    let (mut right, mut asked) = (0, 0);
    for at in 0..steps {
        let own = task.batch(&mut draws, batch, length);
        program.set_i32("ids", &[batch, length], &own.ids)?;
        program.set_i32("targets", &[batch, length], &own.targets)?;
        program.set_f32("lr", &[], &[(1e-2 * (1.0 - at as f64 / steps as f64)) as f32])?;
        program.set_i32("step", &[], &[at as i32 + 1])?;
        program.run(&mut store)?;
        if at + 10 >= steps {
            let chosen = program.i32("chosen")?;
            let pairs = || own.targets.iter().zip(chosen).filter(|(target, _)| **target != IGNORE_INDEX);
            asked += pairs().count();
            right += pairs().filter(|(target, chosen)| target == chosen).count();
        }
    }
    Ok(right as f64 / asked.max(1) as f64)
}
