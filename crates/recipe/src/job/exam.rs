//! What a model is asked in an examination, and what it comes to: the loss and perplexity of texts, the
//! classes of texts and images, translations, answers. The same examination watches over training, ends it,
//! and is what `evaluate` runs.

use super::contrast;
use super::examples::{Examples, How};
use super::read::Raw;
use crate::{Bounds, ModelTask, Result};
use regard_engine::{Device, Store};
use regard_evaluate::{Bleu, Chrf, Confusion, exact_match};
use regard_generate::highest;
use regard_graph::Precision;
use regard_models::sentence::{Pooling, SentenceHead};
use regard_models::{Contrastive, Model, SentencePooling};
use regard_picture::{Table, escaped};
use regard_runtime::{
    Answerer, Classifier, Companions, Embedder, Translating, Translator, probabilities, unheard,
};
use regard_train::{Evaluator, Examiner, Section};
use std::sync::Arc;

/// Texts that are translated or answered at a time.
const ROWS: usize = 32;
/// Wrong answers that a report shows.
const SHOWN: usize = 20;

/// An examination of one model with one set of examples.
pub struct Exam {
    raw: Raw,
    examples: Examples,
    how: How,
    companions: Companions,
    task: ModelTask,
    precision: Precision,
    device: Device,
    most: usize,
    runner: Option<(usize, Runner)>,
    sections: Vec<Section>,
}

enum Runner {
    Nothing,
    Classes(Box<Classifier>),
    Translations(Box<Translator>),
    Answers(Box<Answerer>),
    Vectors(Box<Embedder>),
}

/// One example, what was right and what was said.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// What was given: a text, or the number of an image.
    pub given: String,
    /// What is right.
    pub right: String,
    /// What the model said.
    pub predicted: String,
    /// How sure it was, where it chose among classes.
    pub probability: Option<f64>,
}

/// What an examination came to.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Metrics by name, the most telling first.
    pub metrics: Vec<(String, f64)>,
    /// Every example with its answer; none for running text.
    pub predictions: Vec<Prediction>,
    /// Which class was taken for which.
    pub confusion: Option<Confusion>,
    /// How translations were scored, as others write it.
    pub signature: Option<String>,
}

/// What an examination is made of besides its examples.
#[derive(Clone)]
pub(crate) struct Setting {
    pub companions: Companions,
    pub model: Arc<dyn Model>,
    pub how: How,
    pub precision: Precision,
    pub most: usize,
    pub device: Device,
}

impl Exam {
    /// Gets ready to examine; programs are planned at the first use.
    pub(crate) fn new(raw: Raw, setting: Setting) -> Result<Exam> {
        let Setting { companions, model, how, precision, most, device } = setting;
        let examples = Examples::new(&raw, &companions, model.context(), false)?;
        let bounds: Bounds = examples.bounds(&how);
        let task = ModelTask::new(model, bounds, 0.0)?;
        Ok(Exam {
            raw,
            examples,
            how,
            companions,
            task,
            precision,
            device,
            most,
            runner: None,
            sections: Vec::new(),
        })
    }

    /// What it examines with, in words.
    pub fn summary(&self) -> String {
        self.raw.summary()
    }

    /// How many examples were longer than the model has room for, and were cut.
    pub fn cut(&self) -> usize {
        self.examples.shortened
    }

    pub(crate) fn examples(&self) -> &Examples {
        &self.examples
    }

    pub(crate) fn raw(&self) -> &Raw {
        &self.raw
    }

    /// Everything about the parameters in the store, the loss first where it says something.
    pub fn examine(&mut self, beams: usize, store: &mut Store) -> Result<Findings> {
        let mut findings = self.answers(beams, store)?;
        if !matches!(self.raw, Raw::Questions(_)) {
            let mut evaluator = Evaluator::new(&self.task, self.precision, store, &self.device)?;
            let source = self.examples.source(&self.how, &self.companions)?;
            if let Some((loss, targets)) = evaluator.loss(&source, store, None)? {
                findings.metrics.push(("loss".into(), loss));
                if matches!(self.raw, Raw::Text(_) | Raw::Lines(_) | Raw::Chats(..)) {
                    let perplexity = regard_evaluate::perplexity(loss * targets as f64, targets)?;
                    findings.metrics.push(("perplexity".into(), perplexity));
                }
            }
        }
        Ok(findings)
    }

    /// Everything but the loss, which a training run measures itself.
    fn answers(&mut self, beams: usize, store: &mut Store) -> Result<Findings> {
        // Caches of another width would stand in the way: the programs are planned again.
        if self.runner.as_ref().is_none_or(|(planned, _)| *planned != beams) {
            self.runner = Some((beams, self.plan(beams, store)?));
        }
        let Some((_, runner)) = &mut self.runner else { return Ok(Findings::default()) };
        let mut findings = Findings::default();
        match (runner, &self.raw) {
            (Runner::Classes(classifier), raw) => {
                let source = self.examples.source(&self.how, &self.companions)?;
                let scores = classifier.all(source.as_ref(), store)?;
                let (given, right): (Vec<String>, Vec<usize>) = match raw {
                    Raw::Classes(all) => all.iter().cloned().unzip(),
                    Raw::Images(images, rows) => {
                        rows.iter().map(|&row| (format!("image {row}"), images.label(row))).unzip()
                    }
                    _ => Default::default(),
                };
                let predicted: Vec<usize> =
                    // Scores that are no numbers mean the first class: the loop says what is wrong with them.
                    scores.iter().map(|scores| highest(scores).unwrap_or(0)).collect();
                let names = self.companions.classes.as_ref().map(|labels| labels.names().to_vec());
                let names = names.unwrap_or_else(|| {
                    (0..scores.first().map_or(0, Vec::len)).map(|class| class.to_string()).collect()
                });
                let shown: Vec<&str> = names.iter().map(String::as_str).collect();
                let confusion = Confusion::new(&shown, &predicted, &right)?;
                findings.metrics.push(("accuracy".into(), confusion.accuracy()));
                findings.metrics.push(("f1".into(), confusion.macro_mean().f1));
                let rows = given.into_iter().zip(right).zip(predicted).zip(&scores);
                findings.predictions = rows
                    .map(|(((given, right), predicted), scores)| Prediction {
                        given,
                        right: names[right].clone(),
                        predicted: names[predicted].clone(),
                        probability: Some(probabilities(scores)[predicted]),
                    })
                    .collect();
                self.sections = vec![
                    preformatted("Which class was taken for which", &confusion.to_string()),
                    wrong(&findings.predictions),
                ];
                findings.confusion = Some(confusion);
            }
            (Runner::Translations(translator), Raw::Pairs(pairs)) => {
                let mut predicted = Vec::with_capacity(pairs.len());
                for best in translator.translate(&self.examples.sources(), store, &mut unheard)? {
                    predicted.push(self.companions.decode(&best.ids)?.trim().to_string());
                }
                let references: Vec<Vec<&str>> =
                    pairs.iter().map(|(_, right)| vec![right.as_str()]).collect();
                let bleu = Bleu::default();
                findings.metrics.push(("bleu".into(), bleu.corpus(&predicted, &references)?.score));
                findings.metrics.push(("chrf".into(), Chrf::default().corpus(&predicted, &references)?));
                findings.signature = Some(bleu.signature(&references));
                let rows = pairs.iter().zip(predicted);
                findings.predictions = rows
                    .map(|((given, right), predicted)| Prediction {
                        given: given.clone(),
                        right: right.clone(),
                        predicted,
                        probability: None,
                    })
                    .collect();
                self.sections = vec![table("Translations", findings.predictions.iter())];
            }
            (Runner::Answers(answerer), Raw::Questions(questions)) => {
                let (asked, right): (Vec<&str>, Vec<&str>) =
                    questions.iter().map(|(asked, right)| (asked.as_str(), right.as_str())).unzip();
                let predicted = answerer.answer(&asked, store, &mut unheard)?;
                findings.metrics.push(("exact".into(), exact_match(&predicted, &right)?));
                findings.predictions = questions
                    .iter()
                    .zip(predicted)
                    .map(|((given, right), predicted)| Prediction {
                        given: given.clone(),
                        right: right.clone(),
                        predicted,
                        probability: None,
                    })
                    .collect();
                self.sections = vec![wrong(&findings.predictions)];
            }
            (Runner::Vectors(embedder), Raw::Couples(_)) => {
                let [first, second] = self.examples.couples();
                let first = embedder.vectors(&first, store, &mut unheard)?;
                let second = embedder.vectors(&second, store, &mut unheard)?;
                let (accuracy, mrr) = contrast::retrieval(&first, &second);
                findings.metrics.extend([("mrr".into(), mrr), ("accuracy".into(), accuracy)]);
            }
            _ => {}
        }
        Ok(findings)
    }

    fn plan(&self, beams: usize, store: &mut Store) -> Result<Runner> {
        let (model, precision) = (&**self.task.model(), self.precision);
        Ok(match &self.raw {
            Raw::Classes(_) | Raw::Images(..) => {
                let Bounds { batch, length, .. } = self.examples.bounds(&self.how);
                Runner::Classes(Box::new(Classifier::new(
                    model,
                    batch,
                    length,
                    precision,
                    store,
                    &self.device,
                )?))
            }
            Raw::Couples(_) => {
                let (inner, pooling) = match model.downcast::<Contrastive>() {
                    Some(own) => (&**own.inner(), own.pooling()),
                    None => (model, Default::default()),
                };
                if inner.as_sentence_encoder().is_none() {
                    return Ok(Runner::Nothing);
                }
                let pooling = match pooling {
                    SentencePooling::Mean => Pooling::Mean,
                    SentencePooling::First => Pooling::First,
                };
                let head = SentenceHead { poolings: vec![pooling], ..SentenceHead::default() };
                let [first, second] = self.examples.longest;
                let sizes = [ROWS, first.max(second).max(1)];
                let embedder = Embedder::new(inner, &head, sizes, store, &self.device)?;
                Runner::Vectors(Box::new(embedder))
            }
            Raw::Pairs(pairs) => {
                let batch = ROWS.min(pairs.len());
                let how = Translating { batch, beams, most: self.most, precision, ..Translating::default() };
                let (start, stop) = (self.companions.start(None)?, self.companions.stop());
                let longest = self.examples.longest[0];
                let translator = Translator::new(model, how, longest, start, stop, store, &self.device)?;
                Runner::Translations(Box::new(translator))
            }
            Raw::Questions(_) => {
                let tokenizer = self.companions.tokenizer()?;
                let answerer =
                    Answerer::new(model, tokenizer, ROWS, self.most, precision, store, &self.device)?;
                Runner::Answers(Box::new(answerer))
            }
            Raw::Text(_) | Raw::Lines(_) | Raw::Spans(_) | Raw::Both(..) | Raw::Chats(..) => Runner::Nothing,
        })
    }
}

/// While a model is trained: greedy, and without the loss, which the loop measures.
impl Examiner for Exam {
    fn examine(
        &mut self,
        _step: u64,
        store: &mut Store,
    ) -> Result<Vec<(String, f64)>, Box<dyn std::error::Error + Send + Sync>> {
        Ok(self.answers(1, store)?.metrics)
    }

    fn sections(&self) -> Vec<Section> {
        self.sections.clone()
    }
}

fn preformatted(title: &str, text: &str) -> Section {
    Section { title: title.into(), html: format!("<pre>{}</pre>", escaped(text)) }
}

/// The first wrong answers.
fn wrong(predictions: &[Prediction]) -> Section {
    let wrong = predictions.iter().filter(|one| one.predicted != one.right);
    let count = wrong.clone().count();
    table(&format!("Wrong answers ({count} of {})", predictions.len()), wrong)
}

fn table<'a>(title: &str, predictions: impl Iterator<Item = &'a Prediction>) -> Section {
    let rows = predictions.take(SHOWN).map(|one| [&one.given, &one.right, &one.predicted]);
    let table = rows.fold(Table::new(["given", "right", "said"]), Table::row);
    Section { title: title.into(), html: table.html(escaped) }
}
