//! One pass through a model of any family: what is given is checked in words that a person understands, padded on the right
//! with a mask, recorded, planned and run. [`record`] alone gives the graph, for readers that need no numbers.
//! Letters: B batch, T positions, U positions of the targets, C width, V scores.

use crate::model::AnyModel;
use crate::{Error, Result};
use regard_engine::{Cpu, Program, Store};
use regard_graph::{DType, Graph, Precision, Var};
use regard_layers::taps::ask;
use regard_models::{BertHead, BertText, View, VitHead};

/// What goes through a model at once.
#[derive(Clone, Debug, PartialEq)]
pub enum Batch {
    /// Ids, a row for each text.
    Text(Rows),
    /// Pixels.
    Images(Images),
}

/// Texts as ids; rows may differ in length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// The ids of each text; of an encoder-decoder, of its source.
    pub ids: Vec<Vec<i32>>,
    /// The type of each token, for a BERT; empty for all 0.
    pub types: Vec<Vec<i32>>,
    /// What the decoder of an encoder-decoder is given, start token first; empty for the start token 0 alone.
    pub targets: Vec<Vec<i32>>,
}

/// Images [B Ch Hh Ww], as the model was trained on them: scaled and normed.
#[derive(Clone, Debug, PartialEq)]
pub struct Images {
    /// The sizes.
    pub shape: Vec<usize>,
    /// The pixels, row-major.
    pub pixels: Vec<f32>,
}

/// The sizes of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// B.
    pub batch: usize,
    /// T; images have as many patches as they have.
    pub tokens: usize,
    /// U; only encoder-decoders have targets.
    pub targets: usize,
    /// Whether token types are given.
    pub types: bool,
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

/// Records a pass. Inputs: `ids` [B T] and `mask` [B T], `types` [B T], `targets` [B U]; `pixels` [B Ch Hh Ww]. Outputs:
/// `logits` if the model has a head with scores, `hidden` (of the decoder, where there are two streams), `memory` of an
/// encoder-decoder, `pooled` of a model that ends with its pooler.
pub fn record(model: &AnyModel, sizes: Sizes) -> Result<Graph> {
    record_in(model, sizes, Precision::F32)
}

/// Records a pass in a precision.
pub fn record_in(model: &AnyModel, sizes: Sizes, precision: Precision) -> Result<Graph> {
    let mut graph = Graph::inference();
    graph.set_precision(precision);
    let g = &mut graph;
    let Sizes { batch, tokens, targets, types } = sizes;
    match model {
        AnyModel::Gpt(gpt, _) => {
            let ids = g.input("ids", DType::I32, [batch, tokens])?;
            let hidden = gpt.hidden(g, ids, View::Whole)?;
            let logits = gpt.head(g, hidden)?;
            named(g, &[("logits", logits), ("hidden", hidden)])?;
        }
        AnyModel::Perceiver(model) => {
            let ids = g.input("ids", DType::I32, [batch, tokens])?;
            let hidden = model.hidden(g, ids)?;
            let logits = model.scores(g, hidden)?;
            named(g, &[("logits", logits), ("hidden", hidden)])?;
        }
        AnyModel::Bert(bert) => {
            let ids = g.input("ids", DType::I32, [batch, tokens])?;
            let key_mask = Some(g.input("mask", DType::Bool, [batch, tokens])?);
            let token_types = match types {
                true => Some(g.input("types", DType::I32, [batch, tokens])?),
                false => None,
            };
            let text = BertText { ids, token_types, key_mask };
            match bert.config().head {
                BertHead::None => {
                    bert.hidden(g, &text)?;
                }
                BertHead::Pooler => {
                    let pooled = bert.pooled(g, &text)?;
                    named(g, &[("pooled", pooled)])?;
                }
                _ => {
                    let logits = bert.logits(g, &text)?;
                    named(g, &[("logits", logits)])?;
                }
            }
            let hidden = g.find(&format!("block.{}.stream", bert.config().layers - 1))?;
            named(g, &[("hidden", hidden)])?;
        }
        AnyModel::Vit(vit) => {
            let [height, width] = vit.config().image;
            let pixels = g.input("pixels", DType::F32, [batch, vit.config().channels, height, width])?;
            match vit.config().head {
                VitHead::None => {
                    vit.hidden(g, pixels)?;
                }
                _ => {
                    let logits = vit.logits(g, pixels)?;
                    named(g, &[("logits", logits)])?;
                }
            }
            let hidden = g.find("final_norm.stream")?;
            named(g, &[("hidden", hidden)])?;
        }
        AnyModel::T5(t5) => {
            let (ids, mask, targets) = pair(g, batch, tokens, targets)?;
            let memory = t5.encode(g, ids, Some(mask))?;
            let hidden = t5.hidden(g, memory, Some(mask), targets)?;
            let logits = t5.scores(g, hidden)?;
            named(g, &[("logits", logits), ("hidden", hidden), ("memory", memory)])?;
        }
        AnyModel::Transformer(model) => {
            let (ids, mask, targets) = pair(g, batch, tokens, targets)?;
            let memory = model.encode(g, ids, Some(mask))?;
            let hidden = model.hidden(g, memory, Some(mask), targets)?;
            let logits = model.scores(g, hidden)?;
            named(g, &[("logits", logits), ("hidden", hidden), ("memory", memory)])?;
        }
    }
    Ok(graph)
}

/// Runs a pass and reads its outputs and the taps asked for; an unknown tap is an error that offers the nearest name. For
/// texts, `mask` [B T] says which positions are real: rows of `logits` and `hidden` where it is 0 mean nothing.
pub fn forward(
    model: &AnyModel,
    store: &mut Store,
    cpu: &Cpu,
    batch: &Batch,
    taps: &[&str],
) -> Result<Vec<Answer>> {
    let fed = Fed::new(model, batch)?;
    let mut graph = record(model, fed.sizes)?;
    taps.iter().try_for_each(|tap| ask(&mut graph, tap).map(|_| ()))?;
    let mut program = Program::new(graph, taps, store, cpu)?;
    fed.feed(&mut program)?;
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
    if let Batch::Text(_) = batch {
        let numbers = fed.mask.iter().map(|&real| f32::from(u8::from(real))).collect();
        answers.push(Answer { name: "mask".into(), shape: vec![fed.sizes.batch, fed.sizes.tokens], numbers });
    }
    Ok(answers)
}

fn named(g: &mut Graph, outputs: &[(&str, Var)]) -> Result<()> {
    outputs.iter().try_for_each(|(name, var)| g.output(name, *var).map(|_| ()))?;
    Ok(())
}

/// What an encoder-decoder reads.
fn pair(g: &mut Graph, batch: usize, tokens: usize, targets: usize) -> Result<(Var, Var, Var)> {
    let ids = g.input("ids", DType::I32, [batch, tokens])?;
    let mask = g.input("mask", DType::Bool, [batch, tokens])?;
    Ok((ids, mask, g.input("targets", DType::I32, [batch, targets])?))
}

/// A batch that was checked and padded.
struct Fed<'a> {
    sizes: Sizes,
    ids: Vec<i32>,
    mask: Vec<bool>,
    types: Vec<i32>,
    targets: Vec<i32>,
    images: Option<&'a Images>,
}

impl<'a> Fed<'a> {
    fn new(model: &AnyModel, batch: &'a Batch) -> Result<Fed<'a>> {
        match (model, batch) {
            (AnyModel::Vit(vit), Batch::Images(images)) => {
                let [height, width] = vit.config().image;
                let expected = [vit.config().channels, height, width];
                let fits = images.shape.len() == 4
                    && images.shape[1..] == expected
                    && images.shape.iter().product::<usize>() == images.pixels.len();
                if !fits || images.shape[0] == 0 {
                    let [channels, height, width] = expected;
                    return Err(Error::invalid(
                        format!("the pixels are {:?}", images.shape),
                        format!("this model takes [B {channels} {height} {width}], B at least 1"),
                    ));
                }
                let sizes = Sizes { batch: images.shape[0], tokens: 0, targets: 0, types: false };
                let (ids, mask, types, targets) = Default::default();
                Ok(Fed { sizes, ids, mask, types, targets, images: Some(images) })
            }
            (AnyModel::Vit(_), Batch::Text(_)) => {
                Err(Error::invalid("this is a model of images, and ids were given", "give it pixels"))
            }
            (_, Batch::Images(_)) => {
                Err(Error::invalid("this is a model of text, and pixels were given", "give it ids"))
            }
            (_, Batch::Text(rows)) => Fed::text(model, rows),
        }
    }

    fn text(model: &AnyModel, rows: &Rows) -> Result<Fed<'a>> {
        let (source, target) = match model {
            AnyModel::Gpt(gpt, _) => (gpt.config().vocabulary, None),
            AnyModel::Perceiver(model) => (model.config().vocabulary, None),
            AnyModel::Bert(bert) => (bert.config().vocabulary, None),
            AnyModel::T5(t5) => (t5.config().vocabulary, Some(t5.config().vocabulary)),
            AnyModel::Transformer(model) => {
                (model.config().source_vocabulary, Some(model.config().vocabulary))
            }
            AnyModel::Vit(_) => (0, None),
        };
        let batch = rows.ids.len();
        if batch == 0 {
            return Err(Error::invalid("no ids were given", "give at least one row of them"));
        }
        check("ids", &rows.ids, batch, source, model.context())?;
        let (ids, mask, tokens) = padded(&rows.ids);
        let mut fed = Fed {
            sizes: Sizes { batch, tokens, targets: 0, types: !rows.types.is_empty() },
            ids,
            mask,
            types: Vec::new(),
            targets: Vec::new(),
            images: None,
        };
        if !rows.types.is_empty() {
            let AnyModel::Bert(bert) = model else {
                return Err(Error::invalid("token types were given", "only a BERT has them; leave them out"));
            };
            check("types", &rows.types, batch, bert.config().token_types, None)?;
            if let Some(at) = rows.ids.iter().zip(&rows.types).position(|(a, b)| a.len() != b.len()) {
                let (ids, types) = (rows.ids[at].len(), rows.types[at].len());
                return Err(Error::invalid(
                    format!("row {} has {ids} ids and {types} types", at + 1),
                    "give each id its type",
                ));
            }
            fed.types = padded(&rows.types).0;
        }
        match (target, rows.targets.is_empty()) {
            (None, true) => {}
            (None, false) => {
                let advice = "only an encoder-decoder has them; leave them out";
                return Err(Error::invalid("targets were given", advice));
            }
            (Some(_), true) => (fed.targets, fed.sizes.targets) = (vec![0; batch], 1),
            (Some(vocabulary), false) => {
                check("targets", &rows.targets, batch, vocabulary, model.context())?;
                (fed.targets, _, fed.sizes.targets) = padded(&rows.targets);
            }
        }
        Ok(fed)
    }

    fn feed(&self, program: &mut Program) -> Result<()> {
        let Sizes { batch, tokens, targets, .. } = self.sizes;
        let wanted: Vec<String> = program.graph().inputs().map(|(name, _)| name.to_string()).collect();
        for name in wanted {
            match name.as_str() {
                "ids" => program.set_i32("ids", &[batch, tokens], &self.ids)?,
                "mask" => program.set_bools("mask", &[batch, tokens], &self.mask)?,
                "types" => program.set_i32("types", &[batch, tokens], &self.types)?,
                "targets" => program.set_i32("targets", &[batch, targets], &self.targets)?,
                _ => {
                    if let Some(images) = self.images {
                        program.set_f32(&name, &images.shape, &images.pixels)?;
                    }
                }
            }
        }
        Ok(())
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
            format!("{} rows of {what} for {batch} rows of ids", rows.len()),
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

/// Rows of one length, zeros on the right; true where a row has an id of its own.
fn padded(rows: &[Vec<i32>]) -> (Vec<i32>, Vec<bool>, usize) {
    let longest = rows.iter().map(Vec::len).max().unwrap_or(0);
    let mut ids = Vec::with_capacity(rows.len() * longest);
    let mut mask = Vec::with_capacity(rows.len() * longest);
    for row in rows {
        let padding = longest - row.len();
        ids.extend(row.iter().copied().chain(std::iter::repeat_n(0, padding)));
        mask.extend(std::iter::repeat_n(true, row.len()).chain(std::iter::repeat_n(false, padding)));
    }
    (ids, mask, longest)
}
