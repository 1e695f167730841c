//! The ways to one answer that each family offers: alone, in a batch, padded on either side, through caches. `regard audit`
//! runs them against each other.

use regard::graph::Graph;
use regard::layers::KeepMask;
use regard::prelude::*;
use regard_hub::AnyModel;
use regard_hub::forward::{Sizes, record};
use regard_inspect::audit::{Agreement, Along, Stage, Turn, Way};
use regard_models::{Cached, Decoder, Decoding, EncoderDecoder, Gpt, View};

/// Padding that is put before or behind a text.
pub const PADDING: usize = 3;

/// Where sums are taken in another order, they round differently: a share of the largest number of a value.
pub const ROUNDING: f64 = 1e-5;

/// A text and, of an encoder-decoder, what its decoder is given.
#[derive(Clone)]
pub struct Text {
    /// Its ids.
    pub ids: Vec<i32>,
    /// The ids of the target; empty for models of one stream.
    pub targets: Vec<i32>,
}

/// Another way, and how it has to agree with the text alone; or why there is none.
pub type Other<'a> = (&'static str, std::result::Result<(Way<'a>, Agreement), String>);

/// The text alone.
pub fn alone<'a>(model: &'a AnyModel, text: &Text) -> Way<'a> {
    pass(model, "alone", &[Some(text)], 0, 0)
}

/// All other ways of a model of text.
pub fn others<'a>(model: &'a AnyModel, text: &Text, neighbour: &Text) -> Vec<Other<'a>> {
    let mut ways: Vec<Other<'a>> = vec![("in a batch", Ok((batch(model, text, neighbour), Agreement::Bits)))];
    let feels_right = match model {
        AnyModel::Perceiver(own) => own.config().masking == regard_models::PerceiverMasking::Open,
        _ => false,
    };
    ways.push((
        "padded on the right",
        match feels_right {
            true => Err("its latents see all tokens, and it takes no mask".into()),
            false => Ok((pass(model, "padded on the right", &[Some(text)], 0, PADDING), Agreement::Bits)),
        },
    ));
    ways.push((
        "padded on the left",
        match model {
            AnyModel::Gpt(gpt, _) => Ok((padded_left(gpt, text), Agreement::Within(ROUNDING))),
            AnyModel::T5(_) => Ok((
                pass(model, "padded on the left", &[Some(text)], PADDING, 0),
                Agreement::Within(ROUNDING),
            )),
            _ => Err("its positions are counted from the edge, so the family does not allow it".into()),
        },
    ));
    ways.push((
        "through caches",
        match (model, model.encoder_decoder()) {
            (AnyModel::Gpt(gpt, _), _) => Ok((cached(gpt, text), Agreement::Bits)),
            (_, Some(pair)) => Ok((cached_pair(pair, text), Agreement::Bits)),
            (AnyModel::Perceiver(_), _) => Err("a Perceiver keeps nothing from run to run".into()),
            _ => Err("an encoder reads its text at once and keeps nothing".into()),
        },
    ));
    ways
}

/// The text between two others, one of which is shorter.
fn batch<'a>(model: &'a AnyModel, text: &Text, neighbour: &Text) -> Way<'a> {
    let mut backwards = text.clone();
    backwards.ids.reverse();
    backwards.targets.reverse();
    let mut way = pass(model, "in a batch", &[None, Some(text), None], 0, 0);
    let turn = &mut way.stages[0].turns[0];
    for (name, array) in &mut turn.inputs {
        let length = array.dims()[1];
        for (row, other) in [(0, neighbour), (2, &backwards)] {
            let ids = if name == "targets" { &other.targets } else { &other.ids };
            for t in 0..length {
                let number = match name.as_str() {
                    "mask" => f64::from(u8::from(t < other.ids.len())),
                    _ => ids.get(t).map_or(0.0, |&id| f64::from(id)),
                };
                array.data_mut()[row * length + t] = number;
            }
        }
    }
    way
}

/// A pass of the hub with so much padding before and behind each text. Rows without a text are left empty.
fn pass<'a>(
    model: &'a AnyModel,
    title: &str,
    rows: &[Option<&Text>],
    before: usize,
    behind: usize,
) -> Way<'a> {
    let longest = |of: &dyn Fn(&Text) -> usize| rows.iter().flatten().map(|text| of(text)).max().unwrap_or(0);
    let length = before + longest(&|text| text.ids.len()) + behind;
    let targets = longest(&|text| text.targets.len());
    let masked = !matches!(model, AnyModel::Gpt(..) | AnyModel::Perceiver(_));
    let sizes = Sizes { batch: rows.len(), tokens: length, targets, types: false };
    let mut inputs = Vec::new();
    let (ids, places) = laid(rows, length, before, &|text| &text.ids);
    let mask: Vec<f64> = places.iter().map(|place| f64::from(u8::from(place.is_some()))).collect();
    inputs.push(("ids".to_string(), array(&[rows.len(), length], ids)));
    let mut streams = vec![Along { name: "ids".into(), length, places }];
    if masked {
        inputs.push(("mask".to_string(), array(&[rows.len(), length], mask)));
    }
    if targets > 0 {
        let (ids, places) = laid(rows, targets, 0, &|text| &text.targets);
        inputs.push(("targets".to_string(), array(&[rows.len(), targets], ids)));
        streams.push(Along { name: "targets".into(), length: targets, places });
    }
    let turn = Turn { inputs, batch: rows.len(), streams };
    Way::once(title, move || record(model, sizes).map_err(told), turn)
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

fn padded_left<'a>(gpt: &'a Gpt, text: &Text) -> Way<'a> {
    let length = PADDING + text.ids.len();
    let (ids, places) = laid(&[Some(text)], length, PADDING, &|text| &text.ids);
    let mask: Vec<bool> = places.iter().map(Option::is_some).collect();
    let position = KeepMask(mask.clone()).positions(length).into_iter().map(f64::from).collect();
    let mask = mask.into_iter().map(|real| f64::from(u8::from(real))).collect();
    let shape = [1, length];
    let inputs = [("ids", ids), ("position", position), ("mask", mask)]
        .into_iter()
        .map(|(name, numbers)| (name.to_string(), array(&shape, numbers)))
        .collect();
    let streams = vec![Along { name: "ids".into(), length, places }];
    let recorded = move || -> regard::graph::Result<Graph> {
        let mut g = Graph::inference();
        let ids = g.input("ids", DType::I32, shape)?;
        let position = g.input("position", DType::I32, shape)?;
        let mask = g.input("mask", DType::Bool, shape)?;
        let hidden = gpt.hidden(&mut g, ids, View::Padded { position, mask })?;
        let logits = gpt.head(&mut g, hidden)?;
        g.output("logits", logits)?;
        g.output("hidden", hidden)?;
        Ok(g)
    };
    Way::once("padded on the left", move || Ok(recorded()?), Turn { inputs, batch: 1, streams })
}

/// The runs of a decoder with caches: half of the text at once, then a token at a time.
fn turns(name: &str, ids: &[i32], memory_mask: Option<&Array>) -> Vec<Turn> {
    let half = ids.len().div_ceil(2);
    let ends = std::iter::once(half).chain(half + 1..=ids.len());
    let mut start = 0;
    let mut turns = Vec::new();
    for end in ends {
        let numbers =
            |number: &dyn Fn(usize) -> f64| array(&[1, end - start], (start..end).map(number).collect());
        let mut inputs = vec![
            (name.to_string(), numbers(&|t| f64::from(ids[t]))),
            ("position".to_string(), numbers(&|t| t as f64)),
            ("lengths".to_string(), array(&[1], vec![end as f64])),
        ];
        inputs.extend(memory_mask.map(|mask| ("memory_mask".to_string(), mask.clone())));
        let places = (start..end).map(|t| Some((0, t))).collect();
        let streams = vec![Along { name: name.into(), length: end - start, places }];
        turns.push(Turn { inputs, batch: 1, streams });
        start = end;
    }
    turns
}

fn cached<'a>(gpt: &'a Gpt, text: &Text) -> Way<'a> {
    let half = text.ids.len().div_ceil(2);
    // A ring must outlive its window; here no slot is ever taken over.
    let capacity = text.ids.len().max(gpt.window().map_or(0, |window| window + half));
    let recorded = move || -> regard::graph::Result<Graph> {
        let mut g = Graph::inference();
        let t = g.open('T', half)?;
        let ids = g.input("ids", DType::I32, shape![1, t])?;
        let position = g.input("position", DType::I32, shape![1, t])?;
        let lengths = g.input("lengths", DType::I32, [1])?;
        let view = View::Cached(Cached::growing(position, lengths, capacity));
        let hidden = gpt.hidden(&mut g, ids, view)?;
        let logits = gpt.head(&mut g, hidden)?;
        g.output("logits", logits)?;
        g.output("hidden", hidden)?;
        Ok(g)
    };
    let record = Box::new(move || Ok(recorded()?));
    let stage = Stage { record, turns: turns("ids", &text.ids, None), compared: true };
    Way { title: "through caches".into(), stages: vec![stage] }
}

fn cached_pair<'a>(pair: &'a dyn EncoderDecoder, text: &Text) -> Way<'a> {
    let (source, own) = (text.ids.len(), text.targets.len());
    let half = own.div_ceil(2);
    let read = move || -> regard::graph::Result<Graph> {
        let mut g = Graph::inference();
        let ids = g.input("ids", DType::I32, [1, source])?;
        let mask = g.input("mask", DType::Bool, [1, source])?;
        let slot = g.input("slot", DType::I32, [1, source])?;
        let memory = pair.encode(&mut g, ids, Some(mask))?;
        pair.keep(&mut g, memory, slot, source)?;
        Ok(g)
    };
    let write = move || -> regard::graph::Result<Graph> {
        let mut g = Graph::inference();
        let t = g.open('T', half)?;
        let targets = g.input("targets", DType::I32, shape![1, t])?;
        let position = g.input("position", DType::I32, shape![1, t])?;
        let lengths = g.input("lengths", DType::I32, [1])?;
        let memory_mask = g.input("memory_mask", DType::Bool, [1, source])?;
        let decoding = Decoding {
            own: Cached::growing(position, lengths, own),
            memory_capacity: source,
            memory_mask,
            memory_row: None,
        };
        let hidden = pair.resume(&mut g, targets, &decoding)?;
        let logits = pair.scores(&mut g, hidden)?;
        g.output("logits", logits)?;
        g.output("hidden", hidden)?;
        Ok(g)
    };
    let shape = [1, source];
    let mask = array(&shape, vec![1.0; source]);
    let inputs = vec![
        ("ids".to_string(), array(&shape, text.ids.iter().map(|&id| f64::from(id)).collect())),
        ("mask".to_string(), mask.clone()),
        ("slot".to_string(), array(&shape, (0..source).map(|t| t as f64).collect())),
    ];
    let reading = Turn { inputs, batch: 1, streams: Vec::new() };
    Way {
        title: "through caches".into(),
        stages: vec![
            Stage { record: Box::new(move || Ok(read()?)), turns: vec![reading], compared: false },
            Stage {
                record: Box::new(move || Ok(write()?)),
                turns: turns("targets", &text.targets, Some(&mask)),
                compared: true,
            },
        ],
    }
}

/// Images alone, and between two others.
pub fn images<'a>(model: &'a AnyModel, shape: [usize; 3], pixels: &[f32]) -> (Way<'a>, Way<'a>) {
    let of = |title: &str, rows: usize, own: usize| {
        let numbers = (0..rows).flat_map(|row| {
            let factor = if row == own { 1.0 } else { 0.5 + row as f64 };
            pixels.iter().map(move |&x| f64::from(x) * factor)
        });
        let [channels, height, width] = shape;
        let pixels = array(&[rows, channels, height, width], numbers.collect());
        // One stream of one position, so that only the image in question counts.
        let places = (0..rows).map(|row| (row == own).then_some((0, 0))).collect();
        let streams = vec![Along { name: "pixels".into(), length: 1, places }];
        let turn = Turn { inputs: vec![("pixels".into(), pixels)], batch: rows, streams };
        let sizes = Sizes { batch: rows, tokens: 0, targets: 0, types: false };
        Way::once(title, move || record(model, sizes).map_err(told), turn)
    };
    (of("alone", 1, 0), of("in a batch", 3, 1))
}

fn array(dims: &[usize], numbers: Vec<f64>) -> Array {
    Array::new(dims, numbers).unwrap_or_else(|| unreachable!("as many numbers as the shape says"))
}

/// What the hub says, as this room says it.
fn told(error: regard_hub::Error) -> regard_inspect::Error {
    match error {
        regard_hub::Error::Model(error) => error.into(),
        regard_hub::Error::Engine(error) => error.into(),
        other => regard_inspect::Error::Invalid { what: other.to_string(), advice: "check the model".into() },
    }
}
