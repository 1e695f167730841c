//! Examinations beyond the loss: the fraction of classes that are right, of answers that are right to the letter, and BLEU.

use super::data::Exam;
use crate::ask::Answerer;
use crate::study::Question;
use crate::{Error, Result};
use regard_data::{Source, Tokenizer, Values};
use regard_engine::{Cpu, Program, Store};
use regard_evaluate::Bleu;
use regard_generate::{Beams, Generator};
use regard_graph::{DType, Dim, Graph, Precision, Shape};
use regard_hub::AnyModel;
use regard_models::{BertText, EncoderDecoder};
use regard_train::report::escape;
use regard_train::{Examiner, Section};
use std::sync::Arc;

/// Questions or sentences at a time.
const ROWS: usize = 32;
/// Wrong answers that a report shows.
const SHOWN: usize = 200;

/// The examination of a job.
pub(crate) struct Examination {
    pub exam: Arc<Exam>,
    pub model: AnyModel,
    pub tokenizer: Option<Tokenizer>,
    pub precision: Precision,
    pub cpu: Cpu,
    pub bounds: crate::Bounds,
    pub most: usize,
    pub beams: usize,
    classifier: Option<Program>,
    answerer: Option<Answerer>,
    wrong: Vec<[String; 3]>,
}

impl Examination {
    pub fn new(
        exam: Arc<Exam>,
        model: AnyModel,
        tokenizer: Option<Tokenizer>,
        cpu: Cpu,
        settings: Sizes,
    ) -> Self {
        let Sizes { bounds, precision, most, beams } = settings;
        let (classifier, answerer, wrong) = Default::default();
        Examination {
            exam,
            model,
            tokenizer,
            precision,
            cpu,
            bounds,
            most,
            beams,
            classifier,
            answerer,
            wrong,
        }
    }

    /// The metric by which the best is chosen during training, and whether more is better.
    pub fn goal(exam: &Exam) -> (&'static str, bool) {
        match exam {
            Exam::Classes { choose: Some(_), .. } => ("accuracy", true),
            Exam::Questions(_) => ("exact", true),
            _ => ("loss", false),
        }
    }

    /// Whether there is something to examine at every evaluation.
    pub fn is_regular(exam: &Exam) -> bool {
        matches!(exam, Exam::Classes { choose: Some(_), .. } | Exam::Questions(_))
    }

    fn regular(&mut self, store: &mut Store) -> Result<Vec<(String, f64)>> {
        match &*self.exam.clone() {
            Exam::Classes { choose: Some(source), .. } => {
                Ok(vec![("accuracy".into(), self.accuracy(source.as_ref(), store)?)])
            }
            Exam::Questions(questions) => Ok(vec![("exact".into(), self.exact(questions, store)?)]),
            _ => Ok(Vec::new()),
        }
    }

    /// What is examined once, at the end: with data that no choice was made on, where there is such.
    pub fn last(&mut self, store: &mut Store) -> Result<Vec<(String, f64)>> {
        match &*self.exam.clone() {
            Exam::Classes { test: Some(source), .. } => {
                Ok(vec![("accuracy".into(), self.accuracy(source.as_ref(), store)?)])
            }
            Exam::Translations { sources, references, start, end } => {
                let said = self.translate(sources, *start, *end, store)?;
                let references: Vec<Vec<&str>> = references.iter().map(|one| vec![one.as_str()]).collect();
                let score = Bleu::default().corpus(&said, &references).map_err(|error| {
                    Error::invalid(
                        format!("BLEU cannot be computed: {error}"),
                        "check the files to examine with",
                    )
                })?;
                Ok(vec![("bleu".into(), score.score)])
            }
            _ => self.regular(store),
        }
    }

    /// The fraction of examples whose highest score is that of their class.
    fn accuracy(&mut self, source: &dyn Source, store: &mut Store) -> Result<f64> {
        let program = match &mut self.classifier {
            Some(program) => program,
            slot => slot.insert(classifier(&self.model, self.bounds, self.precision, store, &self.cpu)?),
        };
        let (mut right, mut all) = (0usize, 0usize);
        for index in 0..source.batches(0) {
            let batch = source.batch(0, index)?;
            let mut targets: &[i32] = &[];
            for field in &batch.fields {
                match (&field.values, field.name) {
                    (Values::I32(classes), "targets") => targets = classes,
                    (Values::I32(numbers), name) => program.set_i32(name, &field.dims, numbers)?,
                    (Values::F32(numbers), name) => program.set_f32(name, &field.dims, numbers)?,
                    (Values::Bool(truths), name) => program.set_bools(name, &field.dims, truths)?,
                }
            }
            program.run(store)?;
            let scores = program.f32("logits")?;
            let classes = scores.len() / targets.len().max(1);
            for (row, &target) in scores.chunks_exact(classes.max(1)).zip(targets) {
                let best = (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b]).then(b.cmp(&a)));
                right += usize::from(best == Some(target as usize));
                all += 1;
            }
        }
        Ok(right as f64 / all.max(1) as f64)
    }

    fn exact(&mut self, questions: &[Question], store: &mut Store) -> Result<f64> {
        let tokenizer = self.tokenizer.as_ref().ok_or_else(no_tokenizer)?;
        let answerer = match &mut self.answerer {
            Some(answerer) => answerer,
            slot => slot.insert(Answerer::new(
                &self.model,
                tokenizer,
                ROWS,
                self.most,
                self.precision,
                store,
                &self.cpu,
            )?),
        };
        let texts: Vec<&str> = questions.iter().map(|question| question.text.as_str()).collect();
        let said = answerer.answer(&texts, store)?;
        let pairs = || questions.iter().zip(&said);
        let right = pairs().filter(|(question, said)| question.place == **said).count();
        self.wrong = pairs()
            .filter(|(question, said)| question.place != **said)
            .take(SHOWN)
            .map(|(question, said)| [question.text.clone(), said.clone(), question.place.clone()])
            .collect();
        Ok(right as f64 / questions.len().max(1) as f64)
    }

    /// The best translation of each source.
    pub fn translate(
        &mut self,
        sources: &[Vec<i32>],
        start: i32,
        end: i32,
        store: &mut Store,
    ) -> Result<Vec<String>> {
        let tokenizer = self.tokenizer.as_ref().ok_or_else(no_tokenizer)?;
        let model: &dyn EncoderDecoder = match &self.model {
            AnyModel::T5(t5) => t5,
            AnyModel::Transformer(model) => model,
            other => {
                let what = format!("a model of the family {} does not translate", other.family());
                return Err(Error::invalid(what, "give a Transformer or a T5"));
            }
        };
        let width = self.beams.max(1);
        let settings = regard_generate::Settings {
            rows: ROWS,
            beams: width,
            source: Some(self.bounds.source),
            capacity: Some(self.most.min(self.bounds.length)),
            precision: self.precision,
            ..Default::default()
        };
        let mut generator = Generator::with_sources(model, settings, store, &self.cpu)?;
        let mut texts = Vec::with_capacity(sources.len());
        for some in sources.chunks(ROWS) {
            generator.read(some, store)?;
            let prompts = vec![vec![start]; some.len()];
            let beams =
                Beams { stop: &[end], ..Beams::new(&prompts, width, self.most.min(self.bounds.length) - 1) };
            for found in generator.search(&beams, store)? {
                let ids = found.first().map(|beam| beam.ids.as_slice()).unwrap_or_default();
                let ids: Vec<u32> = ids.iter().map(|&id| id as u32).collect();
                texts.push(tokenizer.decode(&ids)?.trim().to_string());
            }
        }
        Ok(texts)
    }
}

/// What an examination is planned for.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    pub bounds: crate::Bounds,
    pub precision: Precision,
    pub most: usize,
    pub beams: usize,
}

fn no_tokenizer() -> Error {
    Error::invalid("there is no tokenizer", "a model of text needs one to be examined")
}

/// The scores of classes, for batches as the task takes them.
fn classifier(
    model: &AnyModel,
    bounds: crate::Bounds,
    precision: Precision,
    store: &mut Store,
    cpu: &Cpu,
) -> Result<Program> {
    let mut g = Graph::inference();
    g.set_precision(precision);
    let b: Dim = g.open('B', bounds.batch)?.into();
    let logits = match model {
        AnyModel::Bert(bert) => {
            let t: Dim = g.open('T', bounds.length)?.into();
            let shape = Shape::new(vec![b, t]);
            let ids = g.input("ids", DType::I32, shape.clone())?;
            let key_mask = Some(g.input("mask", DType::Bool, shape)?);
            bert.logits(&mut g, &BertText { ids, token_types: None, key_mask })?
        }
        AnyModel::Vit(vit) => {
            let [height, width] = vit.config().image;
            let shape = Shape::new(vec![b, vit.config().channels.into(), height.into(), width.into()]);
            let image = g.input("image", DType::F32, shape)?;
            vit.logits(&mut g, image)?
        }
        other => {
            let what = format!("a model of the family {} has no classes", other.family());
            return Err(Error::invalid(what, "give a BERT or a ViT"));
        }
    };
    g.output("logits", logits)?;
    Ok(Program::new(g, &[], store, cpu)?)
}

impl Examiner for Examination {
    fn examine(
        &mut self,
        _step: u64,
        store: &mut Store,
    ) -> Result<Vec<(String, f64)>, Box<dyn std::error::Error + Send + Sync>> {
        self.regular(store).map_err(Into::into)
    }

    fn sections(&self) -> Vec<Section> {
        if self.wrong.is_empty() {
            return Vec::new();
        }
        let cell = |text: &String| format!("<td>{}</td>", escape(text));
        let row = |row: &[String; 3]| format!("<tr>{}</tr>\n", row.iter().map(cell).collect::<String>());
        let rows: String = self.wrong.iter().map(row).collect();
        let html = format!("<table><tr><th>question</th><th>said</th><th>right</th></tr>\n{rows}</table>");
        vec![Section { title: "Wrong answers".into(), html }]
    }
}
