//! Padding and the future in whole models, to the bit on the CPU engine: an encoder, a decoder, an
//! encoder-decoder.

use super::recogniser::{FEATURES, Recogniser};
use crate::compute::{compute_on_cpu, differing};
use crate::picture::{Axis, Chart, Colours, Heat};
use crate::specimens::{VOCABULARY, bert, gpt, in_chunks, other_bits, rows, t5, whole};
use crate::{Context, Finding, Number, Table, Verdict};
use regard::generate::{Generator, Request, Settings};
use regard::models::{BertText, Perceiver, PerceiverConfig, PerceiverMasking, Positions, View};
use regard::ops::{AttentionOp, CrossEntropyOptions, IGNORE_INDEX};
use regard::prelude::*;
use regard::{Array, Result, reach};

/// Which rows of `width` differ between two results, of the rows that count.
fn changed(a: &Array, b: &Array, width: usize, counts: impl Fn(usize) -> bool) -> usize {
    let pairs = a.data().chunks(width).zip(b.data().chunks(width)).enumerate();
    pairs.filter(|(row, (a, b))| counts(*row) && differing(a, b) > 0).count()
}

/// 1 for each row that changed, for a picture.
fn map(a: &Array, b: &Array, width: usize) -> Vec<f64> {
    let pairs = a.data().chunks(width).zip(b.data().chunks(width));
    pairs.map(|(a, b)| f64::from(u8::from(differing(a, b) > 0))).collect()
}

/// Which masks the attentions of a recorded model have, read from its nodes: the model, the module, whether
/// keys are masked, and whether it is causal.
fn masks(g: &Graph, model: &str, table: &mut Table) -> [usize; 3] {
    let yes = |holds: bool| if holds { "yes" } else { "no" }.to_string();
    let mut counts = [0; 3];
    for node in g.nodes().iter().filter(|node| node.is::<AttentionOp>()) {
        let padding = node.op.operands().contains(&"key_mask");
        let causal = node.op.attributes().iter().any(|(name, _)| *name == "causal");
        counts[0] += 1;
        counts[1] += usize::from(padding);
        counts[2] += usize::from(causal);
        table.row([model.to_string(), node.name.clone(), yes(padding), yes(causal)]);
    }
    counts
}

/// An empty table of [`masks`].
fn mask_table() -> Table {
    Table::new(
        "Which mask stands where, read from the recorded graphs",
        &["model", "attention", "padding mask", "causal"],
    )
}

/// That so many attentions of a kind have a mask, as a number.
fn masked(name: &str, [all, padding, causal]: [usize; 3], wanted: [usize; 3]) -> [Number; 3] {
    [
        Number::count(format!("{name}: attentions in the graph"), all, wanted[0]),
        Number::count(format!("{name}: attentions with a padding mask"), padding, wanted[1]),
        Number::count(format!("{name}: attentions that are causal"), causal, wanted[2]),
    ]
}

/// G3: an encoder's real outputs do not feel padding, with the mask.
pub fn encoder(_context: &Context) -> Result<Finding> {
    let model = bert()?;
    let first = [3, 7, 1, 9, 12, 4, 8, 2];
    let second = [[5, 6, 11, 2, 10, 0, 0, 0], [5, 6, 11, 2, 10, 19, 3, 17]];
    let hidden = |second: &[i32], masked: bool| -> Result<Array> {
        let mask: Vec<f64> = (0..16).map(|at| f64::from(u8::from(at < 13))).collect();
        let mut feed = Feed::new().with("ids", rows(&[&first, second])?);
        if masked {
            feed = feed.with("mask", crate::compute::array(&[2, 8], &mask)?);
        }
        Ok(compute_on_cpu(&feed, 1, |g| {
            let ids = g.input("ids", DType::I32, [2, 8])?;
            let key_mask = if masked { Some(g.input("mask", DType::Bool, [2, 8])?) } else { None };
            Ok(vec![model.hidden(g, &BertText { ids, token_types: None, key_mask })?])
        })?
        .remove(0))
    };
    let alone = compute_on_cpu(&Feed::new().with("ids", rows(&[&second[0][..5]])?), 1, |g| {
        let ids = g.input("ids", DType::I32, [1, 5])?;
        Ok(vec![model.hidden(g, &BertText { ids, token_types: None, key_mask: None })?])
    })?
    .remove(0);
    let real = |row: usize| row < 13;
    let [with, without] =
        [true, false].map(|masked| [hidden(&second[0], masked), hidden(&second[1], masked)]);
    let [a, b] = with;
    let (a, b) = (a?, b?);
    let [c, d] = without;
    let (c, d) = (c?, d?);
    let width = 16;
    let own = &a.data()[8 * width..13 * width];
    let mut table = mask_table();
    let mut g = Graph::inference();
    let ids = g.input("ids", DType::I32, [2, 8])?;
    let key_mask = Some(g.input("mask", DType::Bool, [2, 8])?);
    model.hidden(&mut g, &BertText { ids, token_types: None, key_mask })?;
    let counts = masks(&g, "encoder (BERT)", &mut table);
    Ok(Finding::new(Verdict::Holds, "With a mask of padded keys in its self-attention, no bit of a real output depends on what stands in the padding; without it, every output of that row does.")
        .number(Number::count("masked: real positions that change with the padding’s content", changed(&a, &b, width, real), 0))
        .number(Number::count("not masked: real positions of the padded row that change", changed(&c, &d, width, |row| (8..13).contains(&row)), 5))
        .number(Number::count("not masked: positions of the other row that change", changed(&c, &d, width, |row| row < 8), 0))
        .number(Number::count("masked: numbers that differ from the text alone, without padding", differing(own, alone.data()), 0))
        .numbers(masked("encoder", counts, [2, 2, 0]))
        .counter_example("The same model without the mask: other padding, other outputs at all five real positions.")
        .table(table)
        .picture(Heat::new("Outputs that change with the padding: mask", "text", "position", 8, map(&a, &b, width), Colours::Rising))
        .picture(Heat::new("Outputs that change with the padding: no mask", "text", "position", 8, map(&c, &d, width), Colours::Rising))
        .how("A BERT of two layers on the CPU engine, two texts of 8 and 5 tokens, three places of padding filled in two ways, compared to the bit."))
}

/// G4: right padding in a decoder needs no mask; the loss must skip it.
pub fn decoder(_context: &Context) -> Result<Finding> {
    let model = gpt(Positions::Learned)?;
    let texts = [[5, 6, 11, 2, 10, 0, 0, 0], [5, 6, 11, 2, 10, 19, 3, 17]];
    let targets = [6, 11, 2, 10, 7, 0, 0, 0];
    let run = |ids: &[i32], targets: &[i32]| -> Result<Vec<Array>> {
        let feed = Feed::new().with("ids", rows(&[ids])?).with("targets", rows(&[targets])?);
        compute_on_cpu(&feed, 1, |g| {
            let ids = g.input("ids", DType::I32, [1, ids.len()])?;
            let targets = g.input("targets", DType::I32, [1, targets.len()])?;
            let logits = model.logits(g, ids)?;
            let losses = g.cross_entropy(logits, targets, CrossEntropyOptions::default())?;
            Ok(vec![logits, g.sum_all(losses)?])
        })
    };
    let ignored: Vec<i32> =
        targets.iter().enumerate().map(|(t, &id)| if t < 5 { id } else { IGNORE_INDEX }).collect();
    let (a, b) = (run(&texts[0], &ignored)?, run(&texts[1], &ignored)?);
    let counted = run(&texts[0], &targets)?;
    let alone = run(&texts[0][..5], &targets[..5])?;
    let mean = |found: &[Array], of: f64| found[1].data()[0] / of;
    let mut table = mask_table();
    let mut g = Graph::inference();
    let ids = g.input("ids", DType::I32, [1, 8])?;
    model.logits(&mut g, ids)?;
    let counts = masks(&g, "decoder (GPT), right padding", &mut table);
    Ok(Finding::new(Verdict::Conditional, "A causal decoder needs no padding mask if the padding stands on the right: real positions never see it. The loss must still skip it, and generation in batches pads on the left, where this does not hold (G6).")
        .number(Number::count("real positions that change with the padding’s content", changed(&a[0], &b[0], VOCABULARY, |row| row < 5), 0))
        .number(Number::count("padded positions that change", changed(&a[0], &b[0], VOCABULARY, |row| row > 5), 2))
        .number(Number::count("scores that differ from the text alone", differing(&a[0].data()[..5 * VOCABULARY], alone[0].data()), 0))
        .number(Number::equal("loss that skips padding less the loss of the text alone", mean(&a, 5.0) - mean(&alone, 5.0), 0.0, 1e-6).erratum("E26"))
        .number(Number::shown("mean loss with padding counted less that of the text", mean(&counted, 8.0) - mean(&alone, 5.0)))
        .number(Number::shown("mean loss of the real targets", mean(&alone, 5.0)))
        .numbers(masked("decoder", counts, [2, 0, 2]))
        .counter_example("The mean loss with three padded targets counted is not that of the text.")
        .table(table)
        .picture(Heat::new("Scores that change with the padding", "text", "position", 8, map(&a[0], &b[0], VOCABULARY), Colours::Rising))
        .how("A GPT of two layers on the CPU engine; the same text with two fillings of the padding, and by itself."))
}

/// G5: three attentions of an encoder-decoder.
pub fn encoder_decoder(_context: &Context) -> Result<Finding> {
    let model = t5()?;
    let sources = [[5, 6, 11, 2, 0, 0, 0], [5, 6, 11, 2, 19, 3, 17]];
    let targets = [[1, 8, 4, 0, 0], [1, 8, 4, 9, 14]];
    let logits = |source: &[i32], target: &[i32], masks: [bool; 2]| -> Result<Array> {
        let keep: Vec<f64> = (0..7).map(|at| f64::from(u8::from(at < 4))).collect();
        let feed = Feed::new()
            .with("source", rows(&[source])?)
            .with("target", rows(&[target])?)
            .with("mask", crate::compute::array(&[1, 7], &keep)?);
        Ok(compute_on_cpu(&feed, 1, |g| {
            let source = g.input("source", DType::I32, [1, 7])?;
            let target = g.input("target", DType::I32, [1, 5])?;
            let mask = g.input("mask", DType::Bool, [1, 7])?;
            let [own, cross] = masks.map(|masked| masked.then_some(mask));
            let memory = model.encode(g, source, own)?;
            let x = model.hidden(g, memory, cross, target)?;
            Ok(vec![model.scores(g, x)?])
        })?
        .remove(0))
    };
    let mut finding = Finding::new(
        Verdict::Holds,
        "Padding of the source is felt unless it is masked in the encoder and in cross-attention, both; the decoder’s own attention \
         needs the causal mask alone.",
    );
    let mut maps = Vec::new();
    for (name, masks, wanted) in [
        ("both masks", [true, true], 0),
        ("only the encoder’s", [true, false], 5),
        ("only cross-attention’s", [false, true], 5),
        ("none", [false, false], 5),
    ] {
        let (a, b) = (logits(&sources[0], &targets[0], masks)?, logits(&sources[1], &targets[0], masks)?);
        finding = finding.number(Number::count(
            format!("{name}: target positions that change with the source’s padding"),
            changed(&a, &b, VOCABULARY, |_| true),
            wanted,
        ));
        maps.extend(map(&a, &b, VOCABULARY));
    }
    let mut table = mask_table();
    let mut g = Graph::inference();
    let source = g.input("source", DType::I32, [1, 7])?;
    let mask = g.input("mask", DType::Bool, [1, 7])?;
    let memory = model.encode(&mut g, source, Some(mask))?;
    let encoder = masks(&g, "encoder-decoder (T5)", &mut Table::default());
    let target = g.input("target", DType::I32, [1, 5])?;
    model.hidden(&mut g, memory, Some(mask), target)?;
    let whole = masks(&g, "encoder-decoder (T5)", &mut table);
    let decoder = [0, 1, 2].map(|at| whole[at] - encoder[at]);
    let both = [true, true];
    let (a, b) = (logits(&sources[0], &targets[0], both)?, logits(&sources[0], &targets[1], both)?);
    Ok(finding
        .number(Number::count("real target positions that change with the target’s padding", changed(&a, &b, VOCABULARY, |row| row < 3), 0))
        .numbers(masked("encoder", encoder, [2, 2, 0]))
        .numbers(masked("decoder, its own attention and cross-attention", decoder, [4, 2, 2]))
        .table(table)
        .picture(Heat::new("Outputs that change: both masks, encoder’s, cross’s, none", "masks", "target position", 5, maps, Colours::Rising))
        .how("A T5 of two layers each on the CPU engine; a source of 4 tokens and 3 places of padding, filled in two ways."))
}

/// G6: left padding needs a mask and shifted positions; batches answer as single prompts do.
pub fn left_padding(_context: &Context) -> Result<Finding> {
    let model = gpt(Positions::Learned)?;
    let text = [5, 6, 11, 2, 10];
    let padded = [0, 0, 0, 5, 6, 11, 2, 10];
    let alone = whole(&model, &text, 1)?;
    let last = |scores: &[f32]| scores[scores.len() - VOCABULARY..].to_vec();
    let scores = |masked: bool, shifted: bool| -> Result<Vec<f32>> {
        let position: Vec<f64> =
            (0..8).map(|t| if shifted { f64::from((t - 3).max(0)) } else { f64::from(t) }).collect();
        let mask: Vec<f64> = (0..8).map(|t| f64::from(u8::from(!masked || t >= 3))).collect();
        let feed = Feed::new()
            .with("ids", rows(&[&padded])?)
            .with("position", crate::compute::array(&[1, 8], &position)?)
            .with("mask", crate::compute::array(&[1, 8], &mask)?);
        // Positions turn the causal mask, too: without a shift it must count padding as well.
        let found = compute_on_cpu(&feed, 1, |g| {
            let ids = g.input("ids", DType::I32, [1, 8])?;
            let position = g.input("position", DType::I32, [1, 8])?;
            let mask = g.input("mask", DType::Bool, [1, 8])?;
            let x = model.hidden(g, ids, View::Padded { position, mask })?;
            Ok(vec![model.head(g, x)?])
        })?;
        Ok(found[0].data().iter().map(|x| *x as f32).collect())
    };
    let mut finding = Finding::new(
        Verdict::Holds,
        "With a mask of the padding and positions counted from the first real token, the scores are those of the text alone, to \
         the bit. With only one of the two they are not.",
    );
    for (name, masked, shifted, wanted) in [
        ("mask and positions", true, true, true),
        ("only the mask", true, false, false),
        ("only positions", false, true, false),
    ] {
        let other = other_bits(&last(&scores(masked, shifted)?), &last(&alone));
        let number = format!("{name}: scores of the next token that differ from the text alone");
        finding = finding.number(match wanted {
            true => Number::count(number, other, 0),
            false => Number::at_least(number, other as f64, 1.0).erratum("E26"),
        });
    }
    let prompts: Vec<Vec<i32>> = vec![vec![5, 6, 11, 2, 10], vec![3], vec![7, 7, 1, 9, 12, 4, 8, 2, 20]];
    let cpu = crate::experiment::one_cpu()?;
    let generate = |prompts: &[Vec<i32>]| -> Result<Vec<Vec<i32>>> {
        let mut store = Store::new(0);
        let settings = Settings { rows: prompts.len(), ..Default::default() };
        let mut generator = Generator::new(&model, settings, &mut store, &cpu)?;
        let found = generator.generate(&Request::greedy(prompts, 24), &mut store)?;
        Ok(found.into_iter().map(|row| row.ids).collect())
    };
    let together = generate(&prompts)?;
    let mut table = Table::new("Greedy continuations", &["prompt", "in a batch", "alone"]);
    let mut other = 0;
    for (prompt, batched) in prompts.iter().zip(&together) {
        let single = generate(std::slice::from_ref(prompt))?.remove(0);
        other += batched.iter().zip(&single).filter(|(a, b)| a != b).count()
            + batched.len().abs_diff(single.len());
        let text = |ids: &[i32]| ids.iter().take(10).map(i32::to_string).collect::<Vec<_>>().join(" ");
        table.row([text(prompt), text(batched), text(&single)]);
    }
    let picture: Vec<f64> = together.iter().flatten().map(|&id| f64::from(id)).collect();
    Ok(finding
        .number(Number::count("tokens of a batch of three prompts that differ from one at a time", other, 0))
        .counter_example("A mask without shifted positions: the first real token stands at place 3 of the position table.")
        .table(table)
        .picture(Heat::new("Tokens generated, prompt × step", "prompt", "step", 24, picture, Colours::Rising))
        .how("A GPT with learned positions on the CPU engine, the last position’s scores against the text alone; the generator on prompts of 5, 1 and 9 tokens, 24 tokens each, together and one by one."))
}

/// G8: in chunks as they arrive equals the whole at once.
pub fn streaming(context: &Context) -> Result<Finding> {
    let mut draws = context.draws("G8");
    let ids: Vec<i32> = (0..40).map(|_| draws.below(VOCABULARY) as i32).collect();
    let mut finding = Finding::new(
        Verdict::Holds,
        "A causal decoder that is fed as tokens arrive gives the scores of the whole sequence, to the bit, however it is cut. (Shown \
         on tokens; G9 is the same for frames of sound.)",
    );
    let mut table = Table::new("Chunkings of 40 tokens", &["positions", "chunks", "scores with other bits"]);
    for (name, positions) in [
        ("learned", Positions::Learned),
        ("rotary", Positions::Rotary(RotarySpec::default())),
        ("ALiBi", Positions::Alibi),
    ] {
        let model = gpt(positions)?;
        let offline = whole(&model, &ids, 1)?;
        let mut random = Vec::new();
        while random.iter().sum::<usize>() < 40 {
            let left = 40 - random.iter().sum::<usize>();
            random.push((1 + draws.below(9)).min(left));
        }
        for chunks in [vec![1; 40], vec![40], vec![7, 7, 7, 7, 7, 5], random] {
            let other = other_bits(&in_chunks(&model, &ids, &chunks)?, &offline);
            let text = if chunks.len() == 40 { "one by one".into() } else { format!("{chunks:?}") };
            finding =
                finding.number(Number::count(format!("{name}, {text}: scores with other bits"), other, 0));
            table.row([name.to_string(), text, other.to_string()]);
        }
    }
    let model = gpt(Positions::Learned)?;
    let scores = whole(&model, &ids, 1)?;
    let top = scores
        .chunks(VOCABULARY)
        .enumerate()
        .map(|(t, row)| (t as f64, f64::from(row.iter().copied().fold(f32::MIN, f32::max))));
    Ok(finding
        .table(table)
        .picture(
            Chart::new(
                "Largest score at each position, the same for every chunking",
                Axis::new("position"),
                Axis::new("score"),
            )
            .line("", top),
        )
        .how("Gpt::decode with caches on the CPU engine against Gpt::logits on the whole sequence."))
}

/// G11: the reach reader proves that no later token reaches an output.
pub fn no_future(_context: &Context) -> Result<Finding> {
    let n = 12;
    let mut finding = Finding::new(
        Verdict::Holds,
        "The reach reader proves it on the recorded model: no later input can change an output of the decoders; it finds the leak in \
         an encoder.",
    );
    let open = Perceiver::new(PerceiverConfig {
        layers: 3,
        heads: 2,
        width: 8,
        latents: 4,
        context: n,
        vocabulary: VOCABULARY,
        masking: PerceiverMasking::Open,
        dropout: 0.0,
        mechanisms: Default::default(),
    })?;
    let prefix = Perceiver::new(PerceiverConfig { masking: PerceiverMasking::Prefix, ..*open.config() })?;
    let (gpt, bert) = (gpt(Positions::Learned)?, bert()?);
    type Recording<'a> = Box<dyn Fn(&mut Graph, Var) -> regard_graph::Result<Var> + 'a>;
    let models: [(&str, bool, Recording); 4] = [
        ("GPT", true, Box::new(|g, ids| gpt.logits(g, ids))),
        ("Perceiver with prefix masks", true, Box::new(|g, ids| prefix.logits(g, ids))),
        ("Perceiver without masks", false, Box::new(|g, ids| open.logits(g, ids))),
        (
            "BERT",
            false,
            Box::new(|g, ids| bert.hidden(g, &BertText { ids, token_types: None, key_mask: None })),
        ),
    ];
    for (name, causal, record) in models {
        let mut g = Graph::inference();
        let ids = g.input("ids", DType::I32, [1, n])?;
        let out = record(&mut g, ids)?;
        let query = reach::Query {
            from: vec![ids],
            to: vec![out],
            grain: reach::Grain::Position,
            ..Default::default()
        };
        let reaches = reach::reach(&g, &query)?;
        let verdict = reaches.is_causal(ids, 1, out, 1)?;
        let mut can = Vec::new();
        for to in reaches.cells(out)? {
            for from in reaches.cells(ids)? {
                can.push(f64::from(u8::from(reaches.can(from, to)?)));
            }
        }
        finding = finding.number(Number::count(
            format!("{name}: causal (1) or not (0)"),
            usize::from(verdict.holds()),
            usize::from(causal),
        ));
        if !causal && name == "BERT" {
            finding = finding.counter_example(format!("BERT: {verdict}."));
        }
        if name == "GPT" || name == "Perceiver with prefix masks" {
            finding = finding.picture(Heat::new(
                format!("{name}: which input can change which output"),
                "output",
                "input",
                n,
                can,
                Colours::Rising,
            ));
        }
    }
    let mut g = Graph::inference();
    let frames = g.input("frames", DType::F32, [1, n, FEATURES])?;
    let out = Recogniser::new(true, Some(5))?.scores(&mut g, frames)?;
    let grain = reach::Grain::Position;
    let query = reach::Query { from: vec![frames], to: vec![out], grain, ..Default::default() };
    let verdict = reach::reach(&g, &query)?.is_causal(frames, 1, out, 1)?;
    finding = finding.number(Number::count(
        "recogniser of frames (G9): causal (1) or not (0)",
        usize::from(verdict.holds()),
        1,
    ));
    Ok(finding.how("The reach reader on each model’s graph from ids or frames to scores, 12 positions: sets of inputs carried through every node, no numbers."))
}
