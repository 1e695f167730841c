//! How models run: over positions at once, token by token, over latents, and in how much memory.

use crate::experiment::one_cpu;
use crate::picture::{Axis, Chart, figure};
use crate::specimens::{VOCABULARY, gpt, in_chunks, other_bits, whole};
use crate::{Context, Finding, Number, Table, Verdict};
use regard::device::{Level, Pool};
use regard::generate::{Generator, Request, Settings};
use regard::layers::FeedForwardKind;
use regard::models::{
    Bert, BertConfig, BertHead, BertText, Gpt, GptConfig, Perceiver, PerceiverConfig, PerceiverMasking,
    Positions,
};
use regard::ops::{Attention, MatmulOptions};
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
    Ok(Finding::new(Verdict::Holds, "One pass over 48 positions gives what 48 passes of one position give, to the bit; and no bit depends on the threads.")
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
    let settings = Settings { chunk: 256, ..Default::default() };
    let mut generator = Generator::new(&model, settings, &mut store, &one_cpu()?)?;
    let (prompt, new) = (256usize, 64usize);
    let prompts = vec![(0..prompt as i32).map(|i| i % 61).collect::<Vec<i32>>()];
    let mut best = [f64::INFINITY; 2];
    for _ in 0..context.size(3, 12) {
        for (best, most) in best.iter_mut().zip([1, new + 1]) {
            let begun = Instant::now();
            generator.generate(&Request::greedy(&prompts, most), &mut store)?;
            *best = best.min(begun.elapsed().as_secs_f64());
        }
    }
    let prefill = prompt as f64 / best[0];
    let decode = new as f64 / (best[1] - best[0]).max(1e-9);
    // What no clock can change: every run of the model writes its caches once.
    let cache = store.names().find(|name| name.starts_with("cache.")).map(str::to_string).unwrap_or_default();
    let mut runs = [0, 0];
    for (runs, most) in runs.iter_mut().zip([1, new + 1]) {
        let before = store.version(&cache)?;
        generator.generate(&Request::greedy(&prompts, most), &mut store)?;
        *runs = (store.version(&cache)? - before) as usize;
    }
    Ok(Finding::new(
        Verdict::Wrong,
        "Training and the reading of a prompt do all positions at once; generation does not: each token is an input of the next, and \
         every one costs a run of its own.",
    )
    .number(Number::shown("prompt: tokens a second", prefill))
    .number(Number::shown("new tokens: tokens a second", decode))
    .number(Number::shown("prompt over new tokens", prefill / decode))
    .number(Number::count("runs of the model for a prompt of 256 tokens and the first new one", runs[0], 1))
    .number(Number::count("runs of the model for 64 more", runs[1] - runs[0], new).erratum("E18"))
    .counter_example(format!("256 tokens of a prompt at {} a second, new ones at {} a second, same model, one thread.", figure(prefill), figure(decode)))
    .picture(
        Chart::new("Tokens a second, one thread", Axis::names("", ["prompt", "new tokens"]), Axis::new("tokens/s").covering(&[0.0]))
            .bars("", [(0.0, prefill), (1.0, decode)]),
    )
    .how("The generator on a GPT of two layers and width 128: a prompt of 256 tokens in one chunk, then 64 tokens one at a time; times are the least of a few interleaved runs, shown and not held against anything. Runs are counted by how often the caches were written."))
}

/// Multiply-adds of all attentions of a graph.
fn attention_macs(g: &Graph) -> Result<u64> {
    let found = cost::cost(g, &Sizes::none(), &Integers::none(), None)?;
    Ok(found.by_op().get("attention").map_or(0, |cost| cost.macs))
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
            mechanisms: Default::default(),
            variant: Default::default(),
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
            mechanisms: Default::default(),
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
        Verdict::Holds,
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
    Ok(Finding::new(Verdict::Holds, "Stored weights take n_t·n_s·h numbers; tiled attention takes memory in proportion to n.")
        .number(Number::equal("stored: memory at 4096 over memory at 2048", growth(&stored), 4.0, 0.1))
        .number(Number::equal("tiled: memory at 4096 over memory at 2048", growth(&tiled), 2.0, 0.1))
        .number(Number::at_least("stored: bytes at 4096, at least n²·h·4", stored[4].1, (4096.0f64 * 4096.0) * 16.0))
        .number(Number::shown("stored over tiled at 4096", stored[4].1 / tiled[4].1))
        .table(table)
        .picture(Chart::new("Memory between inputs and outputs", Axis::log("n"), Axis::log("bytes")).line("weights stored", stored).line("tiled", tiled))
        .how("The plan of two programs: scores, softmax and weighted sum as three ops, and the attention op. The planner’s memory is what the engine takes."))
}
