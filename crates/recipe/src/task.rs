//! What a model learns from a batch: the inputs that it reads, the labels of its task, and the loss that it
//! records on them. The inputs and their letters are those of [`regard_models::inputs`].
//!
//! Labels of −100 do not count: so next tokens, spans and the answers of questions are one task.

use crate::{Error, Result};
use regard_graph::{Graph, Var};
use regard_models::{Model, Sizes};
use regard_ops::CrossEntropyOptions;
use regard_train::{Mode, Task};
use std::sync::Arc;

/// A model with the loss of its task.
#[derive(Clone, Debug)]
pub struct ModelTask {
    train: Arc<dyn Model>,
    evaluate: Arc<dyn Model>,
    bounds: Bounds,
    smoothing: f32,
}

/// The largest sizes of a batch: what is planned for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// B.
    pub batch: usize,
    /// T; not used by images.
    pub length: usize,
    /// S; used by encoder-decoders alone.
    pub source: usize,
}

impl Bounds {
    /// The sizes of a pass.
    pub fn sizes(&self) -> Sizes {
        Sizes { batch: self.batch, ids: self.length, source: self.source, ..Default::default() }
    }
}

impl ModelTask {
    /// The task of a model, which has the dropout that it is trained with.
    pub fn new(model: Arc<dyn Model>, bounds: Bounds, smoothing: f32) -> Result<ModelTask> {
        if model.task().is_none() {
            return Err(Error::invalid(
                format!("{} ({}) has no head that could be trained", model.kind(), model.family()),
                "choose a task that gives it one, such as `classify`, `masked` or `images`",
            ));
        }
        let evaluate = model.without_dropout()?;
        Ok(ModelTask { train: model, evaluate, bounds, smoothing })
    }

    /// The model without dropout: as it answers.
    pub fn model(&self) -> &Arc<dyn Model> {
        &self.evaluate
    }

    /// The model with the dropout of training.
    pub fn for_training(&self) -> &Arc<dyn Model> {
        &self.train
    }
}

impl Task for ModelTask {
    fn record(&self, g: &mut Graph, scale: Var, mode: Mode) -> regard_graph::Result<Var> {
        let (model, smoothing) = match mode {
            Mode::Train => (&self.train, self.smoothing),
            Mode::Evaluate => (&self.evaluate, 0.0),
        };
        let options = CrossEntropyOptions { label_smoothing: smoothing, ..Default::default() };
        let inputs = model.reads().declare_open(g, self.bounds.sizes())?;
        let labels = match model.task() {
            Some(task) => task.declare_labels(g, &inputs)?,
            None => unreachable!("a model without a task is refused when the task is made"),
        };
        model.loss(g, &inputs, labels, scale, options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use regard_graph::{DType, Shape};
    use regard_models::{
        Bert, BertConfig, BertHead, Gpt, GptConfig, Perceiver, PerceiverConfig, PerceiverMasking, T5,
        T5Config, Transformer, TransformerConfig, Vit, VitConfig, VitHead, bert, vit,
    };

    const BOUNDS: Bounds = Bounds { batch: 3, length: 6, source: 5 };

    fn gpt() -> Arc<dyn Model> {
        let config =
            GptConfig { layers: 1, heads: 2, width: 8, context: 6, vocabulary: 7, ..GptConfig::SMALL };
        Arc::new(Gpt::new(config).unwrap())
    }

    fn bert(head: BertHead) -> Arc<dyn Model> {
        let small = bert::PRESETS[0].1;
        let config =
            BertConfig { layers: 1, heads: 2, width: 8, hidden: 8, context: 6, vocabulary: 7, head, ..small };
        Arc::new(Bert::new(config).unwrap())
    }

    fn models() -> Vec<(Arc<dyn Model>, Vec<&'static str>)> {
        let perceiver = PerceiverConfig {
            layers: 2,
            heads: 2,
            width: 8,
            latents: 3,
            context: 6,
            vocabulary: 7,
            masking: PerceiverMasking::Prefix,
            dropout: 0.1,
            mechanisms: Default::default(),
        };
        let perceiver = Arc::new(Perceiver::new(perceiver).unwrap());
        let transformer = TransformerConfig {
            width: 8,
            heads: 2,
            hidden: 8,
            encoder_layers: 1,
            decoder_layers: 1,
            context: 6,
            ..TransformerConfig::base(7)
        };
        let transformer = Arc::new(Transformer::new(transformer).unwrap());
        let t5 =
            T5Config { vocabulary: 7, width: 8, heads: 2, head_width: 4, hidden: 8, ..T5Config::small() };
        let t5 = Arc::new(T5::new(T5Config { encoder_layers: 1, decoder_layers: 1, ..t5 }).unwrap());
        let vit = VitConfig {
            image: [4, 4],
            patch: [2, 2],
            channels: 1,
            layers: 1,
            heads: 2,
            width: 8,
            hidden: 8,
            dropout: 0.1,
            head: VitHead::Linear(3),
            ..vit::PRESETS[0].1
        };
        let pair = vec!["source", "source_mask", "ids", "labels"];
        vec![
            (gpt(), vec!["ids", "labels"]),
            (perceiver, vec!["ids", "labels"]),
            (bert(BertHead::Masked), vec!["ids", "mask", "labels"]),
            (bert(BertHead::Classes(2)), vec!["ids", "mask", "labels"]),
            (bert(BertHead::MeanClasses(2)), vec!["ids", "mask", "labels"]),
            (transformer, pair.clone()),
            (t5, pair),
            (Arc::new(Vit::new(vit).unwrap()), vec!["pixels", "labels"]),
        ]
    }

    #[test]
    fn every_family_has_a_loss_that_can_be_differentiated() {
        for (model, inputs) in models() {
            let task = ModelTask::new(model.clone(), BOUNDS, 0.0).unwrap();
            for (mode, random) in [(Mode::Train, true), (Mode::Evaluate, false)] {
                let mut g = Graph::new();
                let scale = g.input("scale", DType::F32, Shape::new(vec![])).unwrap();
                let loss = task.record(&mut g, scale, mode).unwrap();
                assert_eq!(g.shape(loss).len(), 0);
                let names: Vec<String> = g.inputs().map(|(name, _)| name.to_string()).collect();
                for name in &inputs {
                    assert!(names.iter().any(|known| known == name), "{}: {names:?}", model.family());
                }
                let draws = names.iter().any(|name| name == regard_ops::RANDOM_INPUT);
                assert_eq!(draws, random, "{}: dropout in {mode:?}", model.family());
            }
        }
    }

    #[test]
    fn what_has_no_loss_is_refused() {
        assert_eq!(
            ModelTask::new(bert(BertHead::Pooler), BOUNDS, 0.0).unwrap_err().to_string(),
            "an encoder of text (bert) has no head that could be trained; choose a task that gives it one, such as \
             `classify`, `masked` or `images`"
        );
    }
}
