//! One pass through a model of any family: what is given is checked in words that a person understands,
//! padded on the right with a mask, recorded, planned and run. [`record`] alone gives the graph, for readers
//! that need no numbers. The inputs and their letters are those of [`regard_models::inputs`].

use crate::{Error, Result};
use regard_data::Field;
use regard_engine::{AsDevice, Program, Store};
use regard_graph::{Graph, Precision};
use regard_layers::taps::ask;
use regard_models::inputs::{IDS, MASK, PIXELS, Padded, SOURCE, SOURCE_MASK, TYPES, padded};
use regard_models::{Model, Pixels, Reads, Sizes, Tokens};

/// What goes through a model at once, in the names of its inputs; rows may differ in length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// The ids of each text; of an encoder-decoder, what its decoder has so far, start token first, and the
    /// start token 0 alone if empty.
    pub ids: Vec<Vec<i32>>,
    /// The type of each token, for a model that is told them; empty for all 0.
    pub types: Vec<Vec<i32>>,
    /// What an encoder-decoder reads.
    pub source: Vec<Vec<i32>>,
    /// Images.
    pub pixels: Option<Images>,
}

impl Batch {
    /// Texts for a model to read: the source of an encoder-decoder, the ids of any other.
    pub fn texts(reads: &Reads, texts: Vec<Vec<i32>>) -> Batch {
        match reads.source {
            Some(_) => Batch { source: texts, ..Batch::default() },
            None => Batch { ids: texts, ..Batch::default() },
        }
    }

    /// Images.
    pub fn images(images: Images) -> Batch {
        Batch { pixels: Some(images), ..Batch::default() }
    }
}

/// Images [B Ch Hh Ww], as the model was trained on them: scaled and normed.
#[derive(Clone, Debug, PartialEq)]
pub struct Images {
    /// The sizes.
    pub shape: Vec<usize>,
    /// The pixels, row-major.
    pub pixels: Vec<f32>,
}

/// A named result.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// `logits`, `hidden`, `pooled`, `memory`, `mask`, or the name of a tap.
    pub name: String,
    /// Its sizes.
    pub shape: Vec<usize>,
    /// Its numbers, row-major.
    pub numbers: Vec<f32>,
}

/// Records a pass: the inputs that the model reads, and the outputs that it names.
pub fn record(model: &dyn Model, sizes: Sizes) -> Result<Graph> {
    record_in_precision(model, sizes, Precision::F32)
}

/// Records a pass in a precision.
pub fn record_in_precision(model: &dyn Model, sizes: Sizes, precision: Precision) -> Result<Graph> {
    Ok(model.graph(sizes, precision)?)
}

/// Runs a pass and reads its outputs and the taps asked for; an unknown tap is an error that offers the
/// nearest name. For texts, `mask` [B T] or `source_mask` [B S] says which positions of what was read are
/// real: rows of `logits` and `hidden` where it is 0 mean nothing.
pub fn forward(
    model: &dyn Model,
    store: &mut Store,
    device: &impl AsDevice,
    batch: &Batch,
    taps: &[&str],
) -> Result<Vec<Answer>> {
    let reads = model.reads();
    let (sizes, fields) = fields(&reads, batch)?;
    let mut graph = record(model, sizes)?;
    taps.iter().try_for_each(|tap| ask(&mut graph, tap).map(|_| ()))?;
    let mut program = Program::new(graph, taps, store, device)?;
    program.feed(fields.iter().map(Field::parts), &[])?;
    program.run(store)?;
    let mut names: Vec<String> = program.graph().outputs().map(|(name, _)| name.to_string()).collect();
    for tap in taps {
        if !names.iter().any(|name| name == tap) {
            names.push(tap.to_string());
        }
    }
    let mut answers = Vec::new();
    for name in names {
        let array = program.array(&name)?;
        let numbers = array.data().iter().map(|&x| x as f32).collect();
        answers.push(Answer { name, shape: array.dims().to_vec(), numbers });
    }
    let mask = if reads.source.is_some() { SOURCE_MASK } else { MASK };
    if let Some(Field { name, dims, values: regard_data::Values::Bool(real) }) =
        fields.iter().find(|field| field.name == mask)
    {
        let numbers = real.iter().map(|&real| f32::from(u8::from(real))).collect();
        answers.push(Answer { name: name.to_string(), shape: dims.clone(), numbers });
    }
    Ok(answers)
}

/// A batch as fields of one length each, padded on the right, if the model can read it. There is a mask for
/// every text, for who wants to know, also where the model takes none.
pub fn fields(reads: &Reads, batch: &Batch) -> Result<(Sizes, Vec<Field>)> {
    match (reads.pixels, &batch.pixels) {
        (Some(pixels), Some(images)) => return images_of(pixels, images),
        (Some(_), None) => {
            return Err(Error::invalid("this is a model of images, and ids were given", "give it pixels"));
        }
        (None, Some(_)) => {
            return Err(Error::invalid("this is a model of text, and pixels were given", "give it ids"));
        }
        (None, None) => {}
    }
    let mut fields = Vec::new();
    let mut sizes = Sizes::default();
    match (reads.source, batch.source.is_empty()) {
        (None, true) => {}
        (None, false) => {
            let advice = "only an encoder-decoder reads one; give the text as ids";
            return Err(Error::invalid("a source was given", advice));
        }
        (Some(tokens), _) => {
            sizes.batch = batch.source.len();
            sizes.source = rows([SOURCE, SOURCE_MASK], &batch.source, sizes.batch, tokens, &mut fields)?;
        }
    }
    let Some(tokens) = reads.ids else {
        return Err(Error::invalid("this model reads neither ids nor pixels", "give it what it reads"));
    };
    let starts = vec![vec![0]; sizes.batch];
    let ids = match reads.source {
        // Nothing is written yet.
        Some(_) if batch.ids.is_empty() => &starts,
        Some(_) => &batch.ids,
        None => {
            sizes.batch = batch.ids.len();
            &batch.ids
        }
    };
    sizes.ids = rows([IDS, MASK], ids, sizes.batch, tokens, &mut fields)?;
    if !batch.types.is_empty() {
        let Some(types) = tokens.types else {
            return Err(Error::invalid("token types were given", "this model takes none; leave them out"));
        };
        check(TYPES, &batch.types, sizes.batch, types, None)?;
        if let Some(at) = batch.ids.iter().zip(&batch.types).position(|(a, b)| a.len() != b.len()) {
            let (ids, types) = (batch.ids[at].len(), batch.types[at].len());
            return Err(Error::invalid(
                format!("row {} has {ids} ids and {types} types", at + 1),
                "give each id its type",
            ));
        }
        let Padded { values: types, width: length, .. } = padded(&batch.types, 0);
        fields.push(Field::i32(TYPES, &[sizes.batch, length], types));
        sizes.types = true;
    }
    Ok((sizes, fields))
}

/// Images of the size that a model takes.
fn images_of(pixels: Pixels, images: &Images) -> Result<(Sizes, Vec<Field>)> {
    let Pixels { channels, height, width } = pixels;
    let fits = images.shape.len() == 4
        && images.shape[1..] == [channels, height, width]
        && images.shape.iter().product::<usize>() == images.pixels.len();
    if !fits || images.shape[0] == 0 {
        return Err(Error::invalid(
            format!("the pixels are {:?}", images.shape),
            format!("this model takes [B {channels} {height} {width}], B at least 1"),
        ));
    }
    let sizes = Sizes { batch: images.shape[0], ..Default::default() };
    Ok((sizes, vec![Field::f32(PIXELS, &images.shape, images.pixels.clone())]))
}

/// Checks the rows of one stream and adds them and their mask; gives their length.
fn rows(
    [name, mask]: [&'static str; 2],
    given: &[Vec<i32>],
    batch: usize,
    tokens: Tokens,
    fields: &mut Vec<Field>,
) -> Result<usize> {
    if batch == 0 {
        return Err(Error::invalid("no ids were given", "give at least one row of them"));
    }
    check(name, given, batch, tokens.vocabulary, tokens.context)?;
    for (row, ids) in given.iter().enumerate() {
        refuse_filler(ids, tokens, &format!("row {} of the {name}", row + 1))?;
    }
    let Padded { values: ids, mask: real, width: length } = padded(given, 0);
    fields.push(Field::i32(name, &[batch, length], ids));
    fields.push(Field::bools(mask, &[batch, length], real));
    Ok(length)
}

/// Refuses a token that stands for padding alone inside of a text: tokens behind it would have other
/// positions than ours count.
pub fn refuse_filler(ids: &[i32], tokens: Tokens, whose: &str) -> Result<()> {
    let is_filler = |id: &i32| tokens.filler.is_some_and(|filler| usize::try_from(*id) == Ok(filler));
    match ids.iter().position(is_filler) {
        None => Ok(()),
        Some(at) => Err(Error::invalid(
            format!(
                "{whose} has {} at position {at}, which is padding to this model and has no position",
                ids[at]
            ),
            "leave it out: short texts are filled up by themselves",
        )),
    }
}

/// Refuses empty rows, rows without a partner, ids that the model does not know, and texts that are too long.
fn check(
    what: &str,
    rows: &[Vec<i32>],
    batch: usize,
    vocabulary: usize,
    context: Option<usize>,
) -> Result<()> {
    if rows.len() != batch {
        return Err(Error::invalid(
            format!("{} rows of {what} for {batch} texts", rows.len()),
            "give each row its own",
        ));
    }
    for (row, ids) in rows.iter().enumerate() {
        let row = row + 1;
        if ids.is_empty() {
            return Err(Error::invalid(
                format!("row {row} of the {what} is empty"),
                "give each row at least one",
            ));
        }
        let unknown =
            ids.iter().enumerate().find(|(_, id)| usize::try_from(**id).map_or(true, |id| id >= vocabulary));
        if let Some((at, id)) = unknown {
            return Err(Error::invalid(
                format!("row {row} of the {what} has {id} at position {at}"),
                format!("this model knows 0 to {}", vocabulary.saturating_sub(1)),
            ));
        }
        if let Some(most) = context.filter(|&most| ids.len() > most) {
            return Err(Error::invalid(
                format!("row {row} of the {what} has {} positions", ids.len()),
                format!("this model has room for {most}: cut the text"),
            ));
        }
    }
    Ok(())
}
