//! What every room asks of a model, whatever it is: the [`Model`] trait. Saving, opening, recipes, `prove`,
//! `audit`, `look`, `cost` and `generate` know models through it alone, so that one from another crate has
//! them all.

use crate::adapted::Adaptation;
use crate::family::{Dropout, Needs, Weights};
use crate::import::{Files, native};
use crate::inputs::{Inputs, LABELS, Reads, Sizes};
use crate::keys::ModelKeys;
use crate::{Decoder, EncoderDecoder};
use regard_graph::{DType, Error, Graph, Precision, Result, Shape, Var};
use regard_layers::Parameters;
use regard_ops::CrossEntropyOptions;
use serde_json::Value;
use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

/// A model. It touches no number: what it does is recorded into a graph.
pub trait Model: Any + Debug + Send + Sync {
    /// Its `model_type`, by which its folder is opened again.
    fn family(&self) -> &str;

    /// What it is in a sentence: "a decoder", "an encoder of text".
    fn kind(&self) -> &str;

    /// What it learns.
    fn parameters(&self) -> &Parameters;

    /// Which inputs it takes.
    fn reads(&self) -> Reads;

    /// Records a pass and says what came of it: `logits` where it has scores, `hidden`, and others by name.
    fn pass(&self, g: &mut Graph, inputs: &Inputs) -> Result<Outputs>;

    /// What it learns with the head that it has; none if it has no head that could be trained.
    fn task(&self) -> Option<Task>;

    /// Records the sum of the losses of all labels times `scale`, a single number. Labels are i32, of the
    /// shape that its task says; those of −100 do not count.
    fn loss(
        &self,
        g: &mut Graph,
        inputs: &Inputs,
        labels: Var,
        scale: Var,
        options: CrossEntropyOptions,
    ) -> Result<Var>;

    /// What holds for all weights, and is proved and audited.
    fn promises(&self) -> Promises;

    /// The same model with another dropout.
    fn with_dropout(&self, dropout: Dropout) -> Result<Arc<dyn Model>>;

    /// Its `config.json`.
    fn config_to_json(&self) -> Result<Value>;

    /// Where its parameters stand in its files. What the weights themselves decide is seen in them, where
    /// there are any. Every parameter under its own name, if nothing else is said.
    fn files(&self, _weights: Option<&dyn Weights>) -> Files {
        Files::new(native::imports(self.parameters()))
    }

    /// The same model in a form that other software reads, where it is kept in our own and theirs has words
    /// for it, too: for who takes it elsewhere.
    fn in_other_form(&self) -> Option<Arc<dyn Model>> {
        None
    }

    /// What other software has no words for, where it is kept in our own form for that.
    fn departs(&self) -> Option<String> {
        self.family().starts_with("regard-").then(|| "no other software has a form for it".into())
    }

    /// A model of the same blocks for a task that needs another head, as training from a known model does.
    /// The keys are those of `[model]` that may differ. By itself, a model does the task that it has.
    fn for_task(&self, keys: &ModelKeys, needs: &Needs) -> Result<Arc<dyn Model>> {
        keys.none_but(&["context"])?;
        match self.task() {
            Some(task) if task.name == needs.task => self.with_dropout(needs.dropout),
            _ => Err(refused_task(self.family(), needs.task)),
        }
    }

    /// The same model for images of this height and width, if it can see others than those that it was made
    /// for: the parameters stay what they are.
    fn for_images(&self, _image: [usize; 2]) -> Result<Option<Arc<dyn Model>>> {
        Ok(None)
    }

    /// What it offers to those that continue sequences.
    fn as_decoder(&self) -> Option<&dyn Decoder> {
        None
    }

    /// What it offers to those that write one text after another.
    fn as_encoder_decoder(&self) -> Option<&dyn EncoderDecoder> {
        None
    }

    /// What it offers to those that compare texts by their vectors.
    fn as_sentence_encoder(&self) -> Option<&dyn SentenceEncoder> {
        None
    }

    /// Which of its weights are adapted, and how; none of most models.
    fn adaptation(&self) -> Option<&Adaptation> {
        None
    }
}

/// What a pass came to, by name.
pub type Outputs = Vec<(&'static str, Var)>;

/// One of them.
pub fn output(outputs: &Outputs, name: &str) -> Option<Var> {
    outputs.iter().find(|(known, _)| *known == name).map(|(_, var)| *var)
}

/// A model whose hidden states make vectors of texts.
pub trait SentenceEncoder {
    /// A vector of length 1 for each text: B T -> B C.
    fn sentence(&self, g: &mut Graph, inputs: &Inputs, pooling: SentencePooling) -> Result<Var>;

    /// C.
    fn width(&self) -> usize;
}

/// How the hidden states of a text become one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SentencePooling {
    /// Their mean.
    #[default]
    Mean,
    /// That of the first token.
    First,
}

/// What a model learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// As recipes name it: `language`, `masked`, `classify`, `translate`, `images`, or one of a family's own.
    pub name: &'static str,
    /// What the labels are.
    pub labels: Labels,
    /// How many labels there are to choose from.
    pub choices: usize,
}

/// What the labels of a task are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Labels {
    /// The next of the ids at each position, `[B T]`.
    Next,
    /// One for each position, `[B T]`.
    Position,
    /// One for each example, `[B]`.
    Example,
}

impl Task {
    /// Declares the input `labels` beside the others.
    pub fn declare_labels(&self, g: &mut Graph, inputs: &Inputs) -> Result<Var> {
        let shape = match self.labels {
            Labels::Example => Shape::new(vec![inputs.batch(g)?]),
            Labels::Next | Labels::Position => g.shape(inputs.ids()?).clone(),
        };
        g.input(LABELS, DType::I32, shape)
    }
}

/// What holds for all weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promises {
    /// No position of `ids` reaches an earlier one.
    pub causal: bool,
    /// Every position of what reads the text sees all of it: of `source`, or else of `ids`.
    pub sees_both_ways: bool,
    /// Padding is not felt: on the right, under a mask where there is one.
    pub padding: bool,
    /// A text means the same wherever it stands, so that padding may stand on its left.
    pub anywhere: bool,
    /// Examples of a batch do not meet.
    pub batch: bool,
}

impl Promises {
    /// What a decoder promises.
    pub const DECODER: Promises =
        Promises { causal: true, sees_both_ways: false, padding: true, anywhere: false, batch: true };
    /// What an encoder promises.
    pub const ENCODER: Promises = Promises { causal: false, sees_both_ways: true, ..Promises::DECODER };
    /// What an encoder-decoder promises.
    pub const ENCODER_DECODER: Promises = Promises { sees_both_ways: true, ..Promises::DECODER };
}

impl dyn Model {
    /// The model as what it is, for those who know: `model.downcast::<Gpt>()`.
    pub fn downcast<T: Model>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }

    /// The tokens that a text to be read is made of; none for a model of images.
    pub fn vocabulary(&self) -> Option<usize> {
        self.reads().vocabulary()
    }

    /// The most positions of a text; none for images, and where there is no end.
    pub fn context(&self) -> Option<usize> {
        self.reads().context()
    }

    /// The same model without dropout: for everything but training.
    pub fn without_dropout(&self) -> Result<Arc<dyn Model>> {
        self.with_dropout(Dropout::NONE)
    }

    /// A pass of these sizes as a graph of its own, for readers that need no numbers and for running.
    pub fn graph(&self, sizes: Sizes, precision: Precision) -> Result<Graph> {
        let mut graph = Graph::inference();
        graph.set_precision(precision);
        let inputs = self.reads().declare(&mut graph, sizes)?;
        self.record(&mut graph, &inputs)?;
        Ok(graph)
    }

    /// Records a pass and names its outputs in the graph.
    pub fn record(&self, g: &mut Graph, inputs: &Inputs) -> Result<Outputs> {
        let outputs = self.pass(g, inputs)?;
        for (name, var) in &outputs {
            g.output(name, *var)?;
        }
        Ok(outputs)
    }
}

/// Why a model does not do a task.
pub fn refused_task(family: &str, task: &str) -> Error {
    Error::invalid(
        family,
        format!("a model of this family does not do the task `{task}`"),
        "start from a model that was made for such a task",
    )
}

/// That a model has no scores and so no loss.
pub(crate) fn no_loss(family: &str, head: impl Debug, advice: &str) -> Error {
    Error::invalid(family, format!("a model with the head {head:?} has no loss"), advice)
}
