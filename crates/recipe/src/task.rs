//! What a model of each family learns from a batch: which inputs it declares, and which loss it records on them.
//! Letters: B batch, T positions, S source positions.
//!
//! | task | inputs |
//! |---|---|
//! | language (GPT, Perceiver) | `ids` \[B T\], `targets` \[B T\] |
//! | masked (BERT) | `ids` \[B T\], `mask` \[B T\], `targets` \[B T\] |
//! | classify (BERT) | `ids` \[B T\], `mask` \[B T\], `targets` \[B\] |
//! | translate (Transformer, T5) | `source` \[B S\], `source_mask` \[B S\], `ids` \[B T\], `targets` \[B T\] |
//! | images (ViT) | `image` \[B Ch Hh Ww\], `targets` \[B\] |
//!
//! Targets of −100 do not count: so next tokens, spans and the answers of questions are one task.

use crate::{Error, Result};
use regard_graph::{DType, Dim, Graph, Shape, Var};
use regard_hub::AnyModel;
use regard_models::{BertHead, BertText, VitHead};
use regard_ops::CrossEntropyOptions;
use regard_train::{Mode, Task};

/// A model with the loss of its task.
#[derive(Clone, Debug)]
pub struct ModelTask {
    train: AnyModel,
    evaluate: AnyModel,
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

impl ModelTask {
    /// The task of a model, which has the dropout that it is trained with. Smoothing is for classes and for what an
    /// encoder-decoder writes.
    pub fn new(model: AnyModel, bounds: Bounds, smoothing: f32) -> Result<ModelTask> {
        match &model {
            AnyModel::Gpt(..) | AnyModel::Perceiver(_) if smoothing != 0.0 => {
                return Err(Error::invalid(
                    format!("label smoothing of {smoothing} for a decoder"),
                    "leave train.label_smoothing at 0: it is for classes and translations",
                ));
            }
            AnyModel::Bert(bert) if matches!(bert.config().head, BertHead::None | BertHead::Pooler) => {
                return Err(Error::invalid(
                    format!("a BERT with the head {:?} has no loss", bert.config().head),
                    "choose the task `classify` or `masked`",
                ));
            }
            AnyModel::Vit(vit) if vit.config().head == VitHead::None => {
                return Err(Error::invalid("a ViT without a head has no loss", "choose the task `images`"));
            }
            _ => {}
        }
        let evaluate = model.without_dropout()?;
        Ok(ModelTask { train: model, evaluate, bounds, smoothing })
    }

    /// The model without dropout: as it answers.
    pub fn model(&self) -> &AnyModel {
        &self.evaluate
    }

    /// The model with the dropout of training.
    pub fn for_training(&self) -> &AnyModel {
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
        let b: Dim = g.open('B', self.bounds.batch)?.into();
        let input = |g: &mut Graph, name: &str, dtype: DType, letter: char, bound: usize| {
            let length: Dim = g.open(letter, bound)?.into();
            g.input(name, dtype, Shape::new(vec![b.clone(), length]))
        };
        let length = self.bounds.length;
        match model {
            AnyModel::Gpt(gpt, _) => {
                let ids = input(g, "ids", DType::I32, 'T', length)?;
                let targets = input(g, "targets", DType::I32, 'T', length)?;
                gpt.loss(g, ids, targets, scale)
            }
            AnyModel::Perceiver(perceiver) => {
                let ids = input(g, "ids", DType::I32, 'T', length)?;
                let targets = input(g, "targets", DType::I32, 'T', length)?;
                perceiver.loss(g, ids, targets, scale)
            }
            AnyModel::Bert(bert) => {
                let ids = input(g, "ids", DType::I32, 'T', length)?;
                let key_mask = Some(input(g, "mask", DType::Bool, 'T', length)?);
                let targets = match bert.config().head {
                    BertHead::Classes(_) | BertHead::MeanClasses(_) => {
                        g.input("targets", DType::I32, Shape::new(vec![b]))?
                    }
                    _ => input(g, "targets", DType::I32, 'T', length)?,
                };
                let text = BertText { ids, token_types: None, key_mask };
                bert.loss_with(g, &text, targets, scale, options)
            }
            AnyModel::Transformer(_) | AnyModel::T5(_) => {
                let source = input(g, "source", DType::I32, 'S', self.bounds.source)?;
                let mask = Some(input(g, "source_mask", DType::Bool, 'S', self.bounds.source)?);
                let ids = input(g, "ids", DType::I32, 'T', length)?;
                let targets = input(g, "targets", DType::I32, 'T', length)?;
                match model {
                    AnyModel::T5(t5) => t5.loss_with(g, [source, ids, targets], mask, scale, options),
                    AnyModel::Transformer(model) => {
                        model.loss(g, [source, ids, targets], mask, scale, options)
                    }
                    _ => unreachable!("the outer pattern has these two"),
                }
            }
            AnyModel::Vit(vit) => {
                let [height, width] = vit.config().image;
                let channels = vit.config().channels;
                let shape = Shape::new(vec![b.clone(), channels.into(), height.into(), width.into()]);
                let image = g.input("image", DType::F32, shape)?;
                let targets = g.input("targets", DType::I32, Shape::new(vec![b]))?;
                vit.loss_with(g, image, targets, scale, options)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use regard_graph::Graph;
    use regard_hub::GptForm;
    use regard_models::*;

    const BOUNDS: Bounds = Bounds { batch: 3, length: 6, source: 5 };

    fn gpt() -> AnyModel {
        let config =
            GptConfig { layers: 1, heads: 2, width: 8, context: 6, vocabulary: 7, ..GptConfig::SMALL };
        AnyModel::Gpt(Gpt::new(config).unwrap(), GptForm::Native)
    }

    fn bert(head: BertHead) -> AnyModel {
        let small = bert::PRESETS[0].1;
        let config =
            BertConfig { layers: 1, heads: 2, width: 8, hidden: 8, context: 6, vocabulary: 7, head, ..small };
        AnyModel::Bert(Bert::new(config).unwrap())
    }

    fn models() -> Vec<(AnyModel, Vec<&'static str>)> {
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
        let perceiver = AnyModel::Perceiver(Box::new(Perceiver::new(perceiver).unwrap()));
        let transformer = TransformerConfig {
            width: 8,
            heads: 2,
            hidden: 8,
            encoder_layers: 1,
            decoder_layers: 1,
            context: 6,
            ..TransformerConfig::base(7)
        };
        let transformer = AnyModel::Transformer(Transformer::new(transformer).unwrap());
        let t5 =
            T5Config { vocabulary: 7, width: 8, heads: 2, head_width: 4, hidden: 8, ..T5Config::small() };
        let t5 = AnyModel::T5(T5::new(T5Config { encoder_layers: 1, decoder_layers: 1, ..t5 }).unwrap());
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
        let pair = vec!["source", "source_mask", "ids", "targets"];
        vec![
            (gpt(), vec!["ids", "targets"]),
            (perceiver, vec!["ids", "targets"]),
            (bert(BertHead::Masked), vec!["ids", "mask", "targets"]),
            (bert(BertHead::Classes(2)), vec!["ids", "mask", "targets"]),
            (bert(BertHead::MeanClasses(2)), vec!["ids", "mask", "targets"]),
            (transformer, pair.clone()),
            (t5, pair),
            (AnyModel::Vit(Vit::new(vit).unwrap()), vec!["image", "targets"]),
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
        let text = |model, smoothing| ModelTask::new(model, BOUNDS, smoothing).unwrap_err().to_string();
        assert_eq!(
            text(gpt(), 0.1),
            "label smoothing of 0.1 for a decoder; leave train.label_smoothing at 0: it is for classes and translations"
        );
        assert_eq!(
            text(bert(BertHead::Pooler), 0.0),
            "a BERT with the head Pooler has no loss; choose the task `classify` or `masked`"
        );
    }
}
