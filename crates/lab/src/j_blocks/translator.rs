//! Encoder-decoders that translate: numbers in English words into German ones, where units stand before tens,
//! so that words must change places. A Transformer, and beside it a recurrent pair without attention, on the
//! same data.

use crate::experiment::{Learner, Trained, carries, each_seed, each_setting, less, mean, number, share};
use crate::picture::{Axis, Chart, Colours, Heat, figure};
use crate::recurrent::Lstm;
use crate::{Context, Finding, Number, Table};
use regard::Result;
use regard::evaluate::{Bleu, Chrf, exact_match};
use regard::generate::{Beams, Generator, Settings};
use regard::layers::{EmbeddingConfig, EmbeddingLayer, LinearConfig, LinearLayer, Parameters};
use regard::models::inputs::{Padded, padded_to};
use regard::models::{Transformer, TransformerConfig};
use regard::ops::{Attention, AttentionMask, AttentionOp, CrossEntropyOptions, IGNORE_INDEX, WeightsRequest};
use regard::prelude::*;
use std::collections::HashMap;

const ENGLISH: [&str; 31] = [
    "[pad]",
    "[end]",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
    "twenty",
    "thirty",
    "forty",
    "fifty",
    "sixty",
    "seventy",
    "eighty",
    "ninety",
    "hundred",
    "thousand",
];
const GERMAN: [&str; 34] = [
    "[pad]",
    "[end]",
    "[start]",
    "eins",
    "zwei",
    "drei",
    "vier",
    "fünf",
    "sechs",
    "sieben",
    "acht",
    "neun",
    "zehn",
    "elf",
    "zwölf",
    "dreizehn",
    "vierzehn",
    "fünfzehn",
    "sechzehn",
    "siebzehn",
    "achtzehn",
    "neunzehn",
    "zwanzig",
    "dreißig",
    "vierzig",
    "fünfzig",
    "sechzig",
    "siebzig",
    "achtzig",
    "neunzig",
    "hundert",
    "tausend",
    "ein",
    "und",
];
const END: i32 = 1;
const START: i32 = 2;
/// “four thousand three hundred twenty one [end]”.
const SOURCE: usize = 7;
/// “vier tausend drei hundert ein und zwanzig [end]”.
const TARGET: usize = 8;
const ROWS: usize = 32;

/// A number below 10 000 in words of both languages, without their ends.
fn words(n: usize) -> [Vec<i32>; 2] {
    let (mut english, mut german) = (vec![], vec![]);
    let (thousands, hundreds, rest) = (n / 1000, n / 100 % 10, n % 100);
    for (count, english_unit, german_unit) in [(thousands, 30, 31), (hundreds, 29, 30)] {
        if count > 0 {
            english.extend([count as i32 + 1, english_unit]);
            // “ein hundert”, not “eins hundert”.
            german.extend([if count == 1 { 32 } else { count as i32 + 2 }, german_unit]);
        }
    }
    let (tens, units) = (rest / 10, rest % 10);
    if rest >= 20 {
        english.push(tens as i32 + 19);
        if units > 0 {
            english.push(units as i32 + 1);
            german.extend([if units == 1 { 32 } else { units as i32 + 2 }, 33]);
        }
        german.push(tens as i32 + 20);
    } else if rest > 0 {
        english.push(rest as i32 + 1);
        german.push(rest as i32 + 2);
    }
    [english, german]
}

fn text(ids: &[i32], words: &[&str]) -> String {
    ids.iter().map(|&id| words[id as usize]).collect::<Vec<_>>().join(" ")
}

/// Numbers to learn from: so few that some of what is asked stays hard.
const TRAIN: usize = 200;
/// Numbers that are asked.
const TEST: usize = 200;

/// Numbers in a random order: those to learn from, and 200 that are never shown.
fn split(context: &Context, seed: u64) -> (Vec<usize>, Vec<usize>) {
    let order = Context { seed, ..*context }.draws("translator.numbers").permutation(9999);
    let numbers: Vec<usize> = order.into_iter().map(|at| at + 1).collect();
    (numbers[TEST..TEST + TRAIN].to_vec(), numbers[..TEST].to_vec())
}

/// One batch: sources, targets as they are read, and what they are to say; padded on the right.
struct Pairs {
    source: Vec<i32>,
    mask: Vec<bool>,
    target: Vec<i32>,
    labels: Vec<i32>,
}

impl Pairs {
    fn new(numbers: &[usize]) -> Pairs {
        let (english, german): (Vec<_>, Vec<_>) = numbers
            .iter()
            .map(|&n| words(n).map(|words| [words, vec![END]].concat()))
            .map(|[english, german]| (english, german))
            .unzip();
        let shifted: Vec<Vec<i32>> =
            german.iter().map(|german| [&[START], german.as_slice()].concat()).collect();
        let Padded { values: source, mask, .. } = padded_to(&english, 0, SOURCE);
        let labels = padded_to(&german, IGNORE_INDEX, TARGET).values;
        Pairs { source, mask, target: padded_to(&shifted, 0, TARGET).values, labels }
    }
}

fn transformer() -> Result<Transformer> {
    Ok(Transformer::new(TransformerConfig {
        source_vocabulary: ENGLISH.len(),
        vocabulary: GERMAN.len(),
        width: 32,
        heads: 4,
        hidden: 64,
        encoder_layers: 2,
        decoder_layers: 2,
        context: 16,
        shared: false,
        final_norm: true,
        dropout: 0.0,
        mechanisms: Default::default(),
        descent: None,
    })?)
}

/// Trains any model of such pairs; what it learned, and the loss of every step.
fn train(
    context: &Context,
    record: impl FnOnce(&mut Graph, [Var; 3], Var) -> regard_graph::Result<Var>,
    numbers: &[usize],
    steps: usize,
    seed: u64,
) -> Result<(Store, Vec<f64>)> {
    let mut g = Graph::new();
    let source = g.input("source", DType::I32, [ROWS, SOURCE])?;
    let target = g.input("target", DType::I32, [ROWS, TARGET])?;
    let labels = g.input("labels", DType::I32, [ROWS, TARGET])?;
    let mask = g.input("mask", DType::Bool, [ROWS, SOURCE])?;
    let loss = record(&mut g, [source, target, labels], mask)?;
    let mut learner = Learner::new(context, g, loss, seed, steps, 4e-3)?;
    let masked = learner.program.graph().inputs().any(|(name, _)| name == "mask");
    let mut losses = vec![];
    for at in 0..steps {
        let own: Vec<usize> = (0..ROWS).map(|row| numbers[(at * ROWS + row) % numbers.len()]).collect();
        let pairs = Pairs::new(&own);
        learner.program.set_i32("source", &[ROWS, SOURCE], &pairs.source)?;
        learner.program.set_i32("target", &[ROWS, TARGET], &pairs.target)?;
        learner.program.set_i32("labels", &[ROWS, TARGET], &pairs.labels)?;
        if masked {
            learner.program.set_bools("mask", &[ROWS, SOURCE], &pairs.mask)?;
        }
        losses.push(learner.step()?);
    }
    Ok((learner.store, losses))
}

/// The mean loss of a batch, as both models take it.
const EACH: f32 = 1.0 / (ROWS as f32 * 6.0);

fn trained_transformer(
    context: &Context,
    model: &Transformer,
    numbers: &[usize],
    steps: usize,
    seed: u64,
) -> Result<(Store, Vec<f64>)> {
    let record = |g: &mut Graph, pair: [Var; 3], mask: Var| {
        let scale = g.fill(DType::F32, shape![], EACH)?;
        model.loss(g, pair, Some(mask), scale, CrossEntropyOptions::default())
    };
    train(context, record, numbers, steps, seed)
}

/// Translations of a Transformer, by beams of this width; 1 is greedy.
fn translations(
    context: &Context,
    model: &Transformer,
    store: &mut Store,
    numbers: &[usize],
    width: usize,
) -> Result<Vec<String>> {
    // The caches of a store have one size: that of the widest search.
    let settings = Settings { rows: 50, beams: 4, source: Some(SOURCE), ..Default::default() };
    let mut generator = Generator::with_sources(model, settings, store, &context.engine()?)?;
    let mut found = vec![];
    for some in numbers.chunks(50) {
        let sources: Vec<Vec<i32>> =
            some.iter().map(|&n| words(n)[0].iter().copied().chain([END]).collect()).collect();
        generator.read(&sources, store)?;
        let prompts = vec![vec![START]; some.len()];
        let beams = Beams { stop: &[END], ..Beams::new(&prompts, width, TARGET) };
        let best = generator.search(&beams, store)?;
        let first = best.iter().map(|beams| beams.first().map_or(&[][..], |beam| &beam.ids));
        found.extend(first.map(|ids| text(ids, &GERMAN)));
    }
    Ok(found)
}

/// The weights of the last cross-attention on one pair, mean of the heads: targets × sources, as far as there
/// are words.
fn cross_weights(
    context: &Context,
    model: &Transformer,
    store: &mut Store,
    n: usize,
) -> Result<(usize, Vec<f64>)> {
    let [english, german] = words(n);
    let (s, t) = (english.len() + 1, german.len() + 1);
    let mut g = Graph::inference();
    let source = g.input("source", DType::I32, [1, s])?;
    let target = g.input("target", DType::I32, [1, t])?;
    let logits = model.logits(&mut g, source, None, target)?;
    g.output("logits", logits)?;
    let last = g.nodes().iter().rev().find(|node| node.is::<AttentionOp>());
    let last = last.map(|node| [node.inputs[0], node.inputs[1], node.outputs[1]]);
    let Some([query, key, lse]) = last else { return Ok((s, vec![])) };
    let spec = Attention { mask: AttentionMask::default(), ..Default::default() };
    let all = WeightsRequest::Block { queries: 0..t, keys: 0..s };
    let weights = g.attention_weights(query, key, lse, &spec, all)?.values;
    g.output("weights", weights)?;
    let mut program = Program::new(g, &[], store, &context.engine()?)?;
    program.set_i32("source", &[1, s], &[english, vec![END]].concat())?;
    program.set_i32("target", &[1, t], &[vec![START], german].concat())?;
    program.run(store)?;
    let found = program.array("weights")?;
    let heads = found.data().len() / (t * s);
    let mean = |at: usize| (0..heads).map(|h| found.data()[h * t * s + at]).sum::<f64>() / heads as f64;
    Ok((s, (0..t * s).map(mean).collect()))
}

/// Right to the letter, as a share.
fn right_of(translated: &[String], test: &[usize]) -> f64 {
    let right = translated.iter().zip(test).filter(|(own, n)| **own == text(&words(**n)[1], &GERMAN)).count();
    right as f64 / test.len() as f64
}

/// What is said if every word is replaced by the word that stood at its place most often: no word changes
/// places, and none looks at another.
fn word_for_word(train: &[usize], test: &[usize]) -> f64 {
    let mut counts = vec![vec![0usize; GERMAN.len()]; ENGLISH.len()];
    for &n in train {
        let [english, german] = words(n);
        english.iter().zip(&german).for_each(|(&e, &g)| counts[e as usize][g as usize] += 1);
    }
    let best = |e: i32| (0..GERMAN.len()).max_by_key(|&g| counts[e as usize][g]).unwrap_or(0) as i32;
    let said = |n: &usize| text(&words(*n)[0].iter().map(|&e| best(e)).collect::<Vec<_>>(), &GERMAN);
    right_of(&test.iter().map(said).collect::<Vec<_>>(), test)
}

/// J9: a Transformer from nothing to held-out pairs.
pub fn translates(context: &Context) -> Result<Finding> {
    let steps = context.size(250, 800);
    let model = transformer()?;
    let found = each_seed(context, |seed| {
        let (train, test) = split(context, seed);
        let (mut store, losses) = trained_transformer(context, &model, &train, steps, seed)?;
        let right: Vec<String> = test.iter().map(|&n| text(&words(n)[1], &GERMAN)).collect();
        let translated = translations(context, &model, &mut store, &test, 4)?;
        let greedy = exact_match(&translations(context, &model, &mut store, &test, 1)?, &right)?;
        let references: Vec<Vec<&str>> = right.iter().map(|right| vec![right.as_str()]).collect();
        let scores = [
            exact_match(&translated, &right)?,
            greedy,
            Bleu::default().corpus(&translated, &references)?.score,
            Chrf::default().corpus(&translated, &references)?,
            word_for_word(&train, &test),
        ];
        let mut shown = Table::new("Held-out numbers, beams of 4", &["English", "right", "said"]);
        for ((&n, right), translated) in test.iter().zip(&right).zip(&translated).take(5) {
            shown.row([text(&words(n)[0], &ENGLISH), right.clone(), translated.clone()]);
        }
        Ok((scores, Trained::curve(&losses, 40), shown, cross_weights(context, &model, &mut store, 4327)?))
    })?;
    let [exact, greedy, bleu, chrf, plain] =
        [0, 1, 2, 3, 4].map(|at| found.iter().map(|run| run.0[at]).collect::<Vec<f64>>());
    let (_, curve, shown, heat) = found[0].clone();
    Ok(Finding::measured(format!(
        "A Transformer of two and two layers, trained from nothing on {TRAIN} numbers in English and German words, gets {} of {TEST} unseen \
         numbers right to the letter, BLEU {}; a dictionary of single words in their places {}. {}",
        figure(mean(&exact)),
        figure(mean(&bleu)),
        figure(mean(&plain)),
        carries(context)
    ))
    .seeds(found.len())
    .number(share("exact matches on held-out pairs, beams of 4", &exact, TEST))
    .number(share("exact matches, greedy", &greedy, TEST))
    .number(number("BLEU", &bleu))
    .number(number("chrF", &chrf))
    .number(share("exact matches of a dictionary of single words", &plain, TEST))
    .number(less("exact matches: beams of 4 less the dictionary", &exact, &plain))
    .table(shown)
    .picture(Heat::new(
        "Cross-attention, last block: “start vier tausend drei hundert sieben und zwanzig” over “four thousand three hundred twenty seven end”",
        "German",
        "English",
        heat.0,
        heat.1,
        Colours::Rising,
    ))
    .picture(Chart::new("Training", Axis::new("step"), Axis::log("loss")).line("", curve))
    .how("Numbers below 10 000 as words; German puts units before tens. Width 32, four heads; the library’s Transformer, beam search and metrics."))
}

/// A recurrent pair: one reads the source into a state, the other writes from it. There is no attention
/// between them.
struct Pair {
    parameters: Parameters,
    source: EmbeddingLayer,
    target: EmbeddingLayer,
    reader: Lstm,
    writer: Lstm,
    head: LinearLayer,
}

impl Pair {
    fn new(width: usize) -> regard_graph::Result<Pair> {
        let mut parameters = Parameters::new();
        let p = &mut parameters;
        let table = |tokens| EmbeddingConfig { tokens, width, std: 1.0 };
        let source = p.under("source", |p| EmbeddingLayer::new(table(ENGLISH.len()), p))?;
        let target = p.under("target", |p| EmbeddingLayer::new(table(GERMAN.len()), p))?;
        let reader = p.under("reader", |p| Lstm::new(width, p))?;
        let writer = p.under("writer", |p| Lstm::new(width, p))?;
        let head = LinearConfig {
            inputs: width,
            outputs: GERMAN.len(),
            bias: true,
            std: 1.0 / (width as f32).sqrt(),
        };
        let head = p.under("head", |p| LinearLayer::new(head, p))?;
        Ok(Pair { parameters, source, target, reader, writer, head })
    }

    /// B S, B T -> B T V
    fn logits(&self, g: &mut Graph, source: Var, target: Var) -> regard_graph::Result<Var> {
        let x = self.source.forward(g, source)?;
        let (_, state) = self.reader.forward(g, x, None)?;
        let y = self.target.forward(g, target)?;
        let (y, _) = self.writer.forward(g, y, Some(state))?;
        self.head.forward(g, y)
    }

    /// Greedy translations, each text read again for every word: slow and plain.
    fn translations(&self, context: &Context, store: &mut Store, numbers: &[usize]) -> Result<Vec<String>> {
        let rows = numbers.len();
        let mut g = Graph::inference();
        let source = g.input("source", DType::I32, [rows, SOURCE])?;
        let target = g.input("target", DType::I32, [rows, TARGET])?;
        let logits = self.logits(&mut g, source, target)?;
        let chosen = g.argmax(logits, 2)?;
        g.output("chosen", chosen)?;
        let mut program = Program::new(g, &[], store, &context.engine()?)?;
        program.set_i32("source", &[rows, SOURCE], &Pairs::new(numbers).source)?;
        let mut target = vec![0; rows * TARGET];
        target.chunks_mut(TARGET).for_each(|row| row[0] = START);
        let mut translated = vec![vec![]; rows];
        for t in 0..TARGET {
            program.set_i32("target", &[rows, TARGET], &target)?;
            program.run(store)?;
            let chosen = program.i32("chosen")?;
            for (row, translated) in translated.iter_mut().enumerate() {
                let id = chosen[row * TARGET + t];
                translated.push(id);
                if t + 1 < TARGET {
                    target[row * TARGET + t + 1] = id;
                }
            }
        }
        let ended = |ids: &Vec<i32>| {
            let end = ids.iter().position(|&id| id == END).unwrap_or(ids.len());
            text(&ids[..end], &GERMAN)
        };
        Ok(translated.iter().map(ended).collect())
    }
}

/// The longest chain of nodes from an input to a value of a recording: what no number of processors shortens.
fn chain(g: &Graph, to: Var) -> usize {
    let mut reached: HashMap<Var, usize> = HashMap::new();
    for node in g.nodes() {
        let before = node.inputs.iter().filter_map(|var| reached.get(var)).max().copied().unwrap_or(0);
        node.outputs.iter().for_each(|&var| {
            reached.insert(var, before + 1);
        });
    }
    reached.get(&to).copied().unwrap_or(0)
}

/// Chains from words to scores at the length of the task, and at twice that, for both models.
fn chains(attention: &Transformer, recurrent: &Pair) -> Result<[[usize; 2]; 2]> {
    let mut found = [[0; 2]; 2];
    for (at, times) in [1, 2].into_iter().enumerate() {
        let inputs = |g: &mut Graph| -> Result<[Var; 2]> {
            let source = g.input("source", DType::I32, [1, times * SOURCE])?;
            Ok([source, g.input("target", DType::I32, [1, times * TARGET])?])
        };
        let mut g = Graph::inference();
        let [source, target] = inputs(&mut g)?;
        let logits = attention.logits(&mut g, source, None, target)?;
        found[0][at] = chain(&g, logits);
        let mut g = Graph::inference();
        let [source, target] = inputs(&mut g)?;
        let logits = recurrent.logits(&mut g, source, target)?;
        found[1][at] = chain(&g, logits);
    }
    Ok(found)
}

/// J11: the same task for a Transformer and for a recurrent pair.
pub fn replaces_recurrence(context: &Context) -> Result<Finding> {
    let steps = context.size(200, 800);
    let (attention, recurrent) = (transformer()?, Pair::new(40)?);
    let found = each_setting(context, &[true, false], |&by_attention, seed| {
        let (train_on, test) = split(context, seed);
        if by_attention {
            let (mut store, losses) = trained_transformer(context, &attention, &train_on, steps, seed)?;
            let right = right_of(&translations(context, &attention, &mut store, &test, 1)?, &test);
            return Ok((right, Trained::curve(&losses, 40)));
        }
        let record = |g: &mut Graph, [source, target, labels]: [Var; 3], _: Var| {
            let logits = recurrent.logits(g, source, target)?;
            let losses = g.cross_entropy(logits, labels, CrossEntropyOptions::default())?;
            let sum = g.sum_all(losses)?;
            g.scale(sum, EACH)
        };
        let (mut store, losses) = train(context, record, &train_on, steps, seed)?;
        let right = right_of(&recurrent.translations(context, &mut store, &test)?, &test);
        Ok((right, Trained::curve(&losses, 40)))
    })?;
    let [a, b] = [0, 1].map(|at| found[at].iter().map(|run| run.0).collect::<Vec<f64>>());
    let counts = [attention.parameters().count(), recurrent.parameters.count()];
    let chains = chains(&attention, &recurrent)?;
    let names = ["Transformer", "LSTM pair"];
    let mut table = Table::new(
        "The same pairs, the same steps",
        &["", "parameters", "nodes in a row", "nodes in a row at twice the length", "exact matches"],
    );
    for (at, own) in [&a, &b].into_iter().enumerate() {
        let cells = [counts[at], chains[at][0], chains[at][1]].map(|n| n.to_string());
        table.row([names[at].to_string()].into_iter().chain(cells).chain([figure(mean(own))]));
    }
    let growth = |at: usize| chains[at][1] as f64 / chains[at][0] as f64;
    Ok(Finding::measured(format!(
        "On the numbers of J9 the Transformer gets {} of {TEST} unseen ones right after {steps} steps, a pair of LSTMs with {} of its \
         parameters {}. At twice the length the longest chain of nodes is {} times as long through the Transformer, {} times through the \
         pair. {}",
        figure(mean(&a)),
        figure(counts[1] as f64 / counts[0] as f64),
        figure(mean(&b)),
        figure(growth(0)),
        figure(growth(1)),
        carries(context)
    ))
    .seeds(a.len())
    .number(share("Transformer: exact matches on held-out pairs", &a, TEST))
    .number(share("LSTM pair: exact matches on held-out pairs", &b, TEST))
    .number(less("exact matches: Transformer less LSTM pair", &a, &b))
    .number(Number::shown("Transformer: chain of nodes at twice the length over that at once", growth(0)))
    .number(Number::shown("LSTM pair: chain of nodes at twice the length over that at once", growth(1)))
    .number(Number::shown("Transformer: parameters", counts[0] as f64))
    .number(Number::shown("LSTM pair: parameters", counts[1] as f64))
    .table(table)
    .picture(
        Chart::new("Training on the same pairs", Axis::new("step"), Axis::log("loss"))
            .line(names[0], found[0][0].1.clone())
            .line(names[1], found[1][0].1.clone()),
    )
    .how("An encoder and a decoder LSTM of width 40 (Sutskever et al. 2014, without reversal), recorded word by word from the ops of the library, and the Transformer of J9; the same batches, rate and steps; both greedy. Chains are counted in the recorded graphs. Differences seed by seed."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_said_as_people_say_them() {
        let translated = |n: usize| {
            let [english, german] = words(n);
            assert!(english.len() < SOURCE && german.len() < TARGET, "{n}");
            (text(&english, &ENGLISH), text(&german, &GERMAN))
        };
        assert_eq!(translated(1), ("one".into(), "eins".into()));
        assert_eq!(
            translated(1119),
            ("one thousand one hundred nineteen".into(), "ein tausend ein hundert neunzehn".into())
        );
        assert_eq!(translated(4327).1, "vier tausend drei hundert sieben und zwanzig");
        assert_eq!(translated(901), ("nine hundred one".into(), "neun hundert eins".into()));
        assert_eq!(translated(31).1, "ein und dreißig");
        (1..10_000).for_each(|n| drop(translated(n)));
    }

    #[test]
    fn no_number_is_both_shown_and_asked() {
        let (train, test) = split(&Context::default(), 3);
        assert_eq!((train.len(), test.len()), (TRAIN, TEST));
        assert!(test.iter().all(|n| !train.contains(n)));
    }
}
