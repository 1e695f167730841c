//! The ways to one answer that a model offers: alone, in a batch, padded on either side, through caches.
//! `regard audit` runs them against each other. Which they are follows from what it reads, promises and can
//! do, not from what it is called.

use crate::audit::{Agreement, Along, Execution, Stage, Turn};
use crate::{Error, Result};
use regard_graph::{DType, Graph, Precision};
use regard_layers::KeepMask;
use regard_models::inputs::{IDS, MASK, PIXELS, POSITION, SOURCE, SOURCE_MASK};
use regard_models::{Cached, Caches, Decoder, Decoding, EncoderDecoder, Model, Pixels, Sizes};
use regard_ops::Array;
use regard_ops::prelude::*;

/// Padding that is put before or behind a text.
pub const PADDING: usize = 3;

/// Where sums are taken in another order, they round differently: a share of the largest number of a value.
pub const ROUNDING: f64 = 1e-5;

/// A text, and what is written after it.
#[derive(Clone, Debug, Default)]
pub struct Text {
    /// The ids that are read.
    pub read: Vec<i32>,
    /// What the decoder of an encoder-decoder has so far; empty for models of one stream.
    pub written: Vec<i32>,
}

/// Another way, and how it has to agree with the text alone; or why there is none.
pub type Other<'a> = (&'static str, std::result::Result<(Execution<'a>, Agreement), String>);

/// The text alone.
pub fn alone<'a>(model: &'a dyn Model, text: &Text) -> Result<Execution<'a>> {
    pass(model, "alone", &[Some(text)], 0, 0, false)
}

/// All other ways of a model of text.
pub fn others<'a>(model: &'a dyn Model, text: &Text, neighbour: &Text) -> Result<Vec<Other<'a>>> {
    let promises = model.promises();
    let placed = model.reads().ids.is_some_and(|tokens| tokens.placed);
    let near = Agreement::Within(ROUNDING);
    let batch = batch(model, text, neighbour)?;
    let right = match promises.padding {
        true => Ok((pass(model, "padded on the right", &[Some(text)], 0, PADDING, false)?, Agreement::Bits)),
        false => Err("it sees what comes after the text, and takes no mask".into()),
    };
    let left = match promises.anywhere {
        true => Ok((pass(model, "padded on the left", &[Some(text)], PADDING, 0, placed)?, near)),
        false => Err("its positions are counted from the edge, so the family does not allow it".into()),
    };
    let decoder = model.as_decoder().filter(|decoder| decoder.caches() == Caches::Keys);
    let caches = match (decoder, model.as_encoder_decoder()) {
        (Some(decoder), _) => Ok((cached(decoder, text), Agreement::Bits)),
        (None, Some(pair)) => Ok((cached_pair(pair, text), Agreement::Bits)),
        (None, None) if promises.causal => Err("it keeps nothing from run to run".into()),
        (None, None) => Err("an encoder reads its text at once and keeps nothing".into()),
    };
    Ok(vec![
        ("in a batch", Ok((batch, Agreement::Bits))),
        ("padded on the right", right),
        ("padded on the left", left),
        ("through caches", caches),
    ])
}

/// The text between two others, one of which is shorter.
fn batch<'a>(model: &'a dyn Model, text: &Text, neighbour: &Text) -> Result<Execution<'a>> {
    let mut backwards = text.clone();
    backwards.read.reverse();
    backwards.written.reverse();
    let mut execution = pass(model, "in a batch", &[None, Some(text), None], 0, 0, false)?;
    let pair = model.reads().source.is_some();
    let turn = &mut execution.stages[0].turns[0];
    for (name, array) in &mut turn.inputs {
        let length = array.dims()[1];
        for (row, other) in [(0, neighbour), (2, &backwards)] {
            let ids = if name == IDS && pair { &other.written } else { &other.read };
            for t in 0..length {
                let number = match name.as_str() {
                    MASK | SOURCE_MASK => f64::from(u8::from(t < other.read.len())),
                    _ => ids.get(t).map_or(0.0, |&id| f64::from(id)),
                };
                array.data_mut()[row * length + t] = number;
            }
        }
    }
    Ok(execution)
}

/// A pass with so much padding before and behind each text, told positions or not. Rows without a text are
/// left empty.
fn pass<'a>(
    model: &'a dyn Model,
    title: &str,
    rows: &[Option<&Text>],
    before: usize,
    behind: usize,
    placed: bool,
) -> Result<Execution<'a>> {
    let reads = model.reads();
    let Some((given, tokens)) = reads.given() else {
        let what = format!("{} reads no text", model.kind());
        return Err(Error::Invalid { what, advice: "give it what it reads".into() });
    };
    let longest = |of: &dyn Fn(&Text) -> usize| rows.iter().flatten().map(|text| of(text)).max().unwrap_or(0);
    let length = before + longest(&|text| text.read.len()) + behind;
    let batch = rows.len();
    let mut sizes = Sizes { batch, placed, ..Default::default() };
    let (ids, places) = laid(rows, length, before, &|text| &text.read);
    let mask: Vec<bool> = places.iter().map(Option::is_some).collect();
    let mut inputs = vec![(given.to_string(), array(&[batch, length], ids))];
    let mut streams = vec![Along { name: given.into(), length, places }];
    if placed {
        let position = KeepMask(mask.clone()).positions(length).into_iter().map(f64::from).collect();
        inputs.push((POSITION.to_string(), array(&[batch, length], position)));
    }
    if tokens.masked || placed {
        let name = if given == SOURCE { SOURCE_MASK } else { MASK };
        let real = mask.into_iter().map(|real| f64::from(u8::from(real))).collect();
        inputs.push((name.to_string(), array(&[batch, length], real)));
    }
    match reads.source {
        None => sizes.ids = length,
        Some(_) => {
            sizes.source = length;
            sizes.ids = longest(&|text| text.written.len());
            let (ids, places) = laid(rows, sizes.ids, 0, &|text| &text.written);
            inputs.push((IDS.to_string(), array(&[batch, sizes.ids], ids)));
            streams.push(Along { name: IDS.into(), length: sizes.ids, places });
        }
    }
    let turn = Turn { inputs, batch, streams };
    Ok(Execution::once(title, move || Ok(model.graph(sizes, Precision::F32)?), turn))
}

/// Ids of one length, and where each stands.
#[allow(clippy::type_complexity)] // a pair, said once
fn laid(
    rows: &[Option<&Text>],
    length: usize,
    before: usize,
    of: &dyn Fn(&Text) -> &[i32],
) -> (Vec<f64>, Vec<Option<(usize, usize)>>) {
    let (mut ids, mut places) = (vec![0.0; rows.len() * length], vec![None; rows.len() * length]);
    for (row, text) in rows.iter().enumerate() {
        for (t, &id) in text.map(of).unwrap_or_default().iter().enumerate() {
            ids[row * length + before + t] = f64::from(id);
            places[row * length + before + t] = Some((0, t));
        }
    }
    (ids, places)
}

/// The runs of a decoder with caches: half of the text at once, then a token at a time.
fn turns(ids: &[i32], memory_mask: Option<&Array>) -> Vec<Turn> {
    let half = ids.len().div_ceil(2);
    let ends = std::iter::once(half).chain(half + 1..=ids.len());
    let mut start = 0;
    let mut turns = Vec::new();
    for end in ends {
        let numbers =
            |number: &dyn Fn(usize) -> f64| array(&[1, end - start], (start..end).map(number).collect());
        let mut inputs = vec![
            (IDS.to_string(), numbers(&|t| f64::from(ids[t]))),
            (POSITION.to_string(), numbers(&|t| t as f64)),
            ("lengths".to_string(), array(&[1], vec![end as f64])),
        ];
        inputs.extend(memory_mask.map(|mask| ("memory_mask".to_string(), mask.clone())));
        let places = (start..end).map(|t| Some((0, t))).collect();
        let streams = vec![Along { name: IDS.into(), length: end - start, places }];
        turns.push(Turn { inputs, batch: 1, streams });
        start = end;
    }
    turns
}

fn cached<'a>(decoder: &'a dyn Decoder, text: &Text) -> Execution<'a> {
    let half = text.read.len().div_ceil(2);
    // A ring must outlive its window; here no slot is ever taken over.
    let capacity = text.read.len().max(decoder.window().map_or(0, |window| window + half));
    let recorded = move || -> regard_graph::Result<Graph> {
        let mut g = Graph::inference();
        let t = g.open('T', half)?;
        let ids = g.input(IDS, DType::I32, shape![1, t])?;
        let position = g.input(POSITION, DType::I32, shape![1, t])?;
        let lengths = g.input("lengths", DType::I32, [1])?;
        let cached = Cached::growing(position, lengths, capacity);
        let hidden = decoder.resume(&mut g, ids, cached.into())?;
        let logits = decoder.scores(&mut g, hidden)?;
        g.output("logits", logits)?;
        g.output("hidden", hidden)?;
        Ok(g)
    };
    let record = Box::new(move || Ok(recorded()?));
    let stage = Stage { record, turns: turns(&text.read, None), compared: true };
    Execution { title: "through caches".into(), stages: vec![stage] }
}

fn cached_pair<'a>(pair: &'a dyn EncoderDecoder, text: &Text) -> Execution<'a> {
    let (source, own) = (text.read.len(), text.written.len());
    let half = own.div_ceil(2);
    let read = move || -> regard_graph::Result<Graph> {
        let mut g = Graph::inference();
        let ids = g.input(SOURCE, DType::I32, [1, source])?;
        let mask = g.input(SOURCE_MASK, DType::Bool, [1, source])?;
        let slot = g.input("slot", DType::I32, [1, source])?;
        let memory = pair.encode(&mut g, ids, Some(mask))?;
        pair.keep(&mut g, memory, slot, source)?;
        Ok(g)
    };
    let write = move || -> regard_graph::Result<Graph> {
        let mut g = Graph::inference();
        let t = g.open('T', half)?;
        let ids = g.input(IDS, DType::I32, shape![1, t])?;
        let position = g.input(POSITION, DType::I32, shape![1, t])?;
        let lengths = g.input("lengths", DType::I32, [1])?;
        let memory_mask = g.input("memory_mask", DType::Bool, [1, source])?;
        let decoding = Decoding {
            own: Cached::growing(position, lengths, own),
            memory_capacity: source,
            memory_mask,
            memory_row: None,
        };
        let hidden = pair.resume(&mut g, ids, &decoding)?;
        let logits = pair.scores(&mut g, hidden)?;
        g.output("logits", logits)?;
        g.output("hidden", hidden)?;
        Ok(g)
    };
    let shape = [1, source];
    let mask = array(&shape, vec![1.0; source]);
    let inputs = vec![
        (SOURCE.to_string(), array(&shape, text.read.iter().map(|&id| f64::from(id)).collect())),
        (SOURCE_MASK.to_string(), mask.clone()),
        ("slot".to_string(), array(&shape, (0..source).map(|t| t as f64).collect())),
    ];
    let reading = Turn { inputs, batch: 1, streams: Vec::new() };
    Execution {
        title: "through caches".into(),
        stages: vec![
            Stage { record: Box::new(move || Ok(read()?)), turns: vec![reading], compared: false },
            Stage {
                record: Box::new(move || Ok(write()?)),
                turns: turns(&text.written, Some(&mask)),
                compared: true,
            },
        ],
    }
}

/// Images alone, and between two others.
pub fn images<'a>(model: &'a dyn Model, sizes: Pixels, pixels: &[f32]) -> (Execution<'a>, Execution<'a>) {
    let of = |title: &str, rows: usize, own: usize| {
        let numbers = (0..rows).flat_map(|row| {
            let factor = if row == own { 1.0 } else { 0.5 + row as f64 };
            pixels.iter().map(move |&x| f64::from(x) * factor)
        });
        let Pixels { channels, height, width } = sizes;
        let pixels = array(&[rows, channels, height, width], numbers.collect());
        // One stream of one position, so that only the image in question counts.
        let places = (0..rows).map(|row| (row == own).then_some((0, 0))).collect();
        let streams = vec![Along { name: PIXELS.into(), length: 1, places }];
        let turn = Turn { inputs: vec![(PIXELS.into(), pixels)], batch: rows, streams };
        let sizes = Sizes { batch: rows, ..Default::default() };
        Execution::once(title, move || Ok(model.graph(sizes, Precision::F32)?), turn)
    };
    (of("alone", 1, 0), of("in a batch", 3, 1))
}

fn array(dims: &[usize], numbers: Vec<f64>) -> Array {
    Array::new(dims, numbers).unwrap_or_else(|| unreachable!("as many numbers as the shape says"))
}
