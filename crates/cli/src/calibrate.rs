//! `regard calibrate`: what a model's confidence is worth, learned on questions that it did not learn from,
//! and kept beside it, so that `ask` can say how likely an answer is to be right, and keep an error budget.

use crate::ask::learned_to_read;
use crate::evidence::{self, Asked, Asker, CALIBRATION, Corpus, INDEX, sign_names, signs};
use crate::machine::Machine;
use crate::model::Weights;
use crate::output::Replace;
use crate::weight_precision::WeightPrecision;
use anyhow::{Result, bail};
use clap::Args;
use regard::models::Registry;
use regard_data::dataset::{Amount, held_out};
use regard_data::whole;
use regard_evidence::{
    Budget, Calibration, Example, Interval, Kept, Scored, Threshold, Verdict, area_above, calibration_error,
};
use regard_picture::{Section, Table, document, escaped};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Options of `regard calibrate`.
#[derive(Args)]
#[command(
    after_help = "Example:  regard calibrate runs/birth_places --data birth_dev.tsv --corpus wiki.txt\n\n\
                        A third of the questions teaches how signs (the model's probability, margin and entropy; what the text\n\
                        says) become a confidence; the others are used for nothing but to test it, and thresholds. Questions that\n\
                        the model learned from would make it look better than it is."
)]
pub struct Options {
    /// The folder of a model that answers, or of its run
    model: String,
    /// Questions with their answers, `question TAB answer` on each line; may be given several times
    #[arg(long, value_name = "FILE", required = true)]
    data: Vec<PathBuf>,
    /// The most tokens of an answer
    #[arg(long, default_value_t = 32, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    max: u16,
    #[command(flatten)]
    corpus: Corpus,
    /// Put the line about the subject before each question, as in ask
    #[arg(long)]
    read: bool,
    /// Draw so many answers beside each, and take the share that is the same for a sign, too; `ask` then
    /// draws as many
    #[arg(long, default_value_t = 0, value_name = "N")]
    samples: u8,
    /// From this number the questions are divided
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
    /// Write a page with the diagrams
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    replace: Replace,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    weights: Weights,
    #[command(flatten)]
    precision: WeightPrecision,
    #[command(flatten)]
    machine: Machine,
}

/// The fewest questions: with fewer, neither part tells anything.
const FEWEST: usize = 20;
/// The share of questions that are used for nothing but the test.
const TESTED: f64 = 2.0 / 3.0;
/// Budgets that are told of.
const BUDGETS: [f64; 3] = [0.05, 0.1, 0.2];
const CERTAINTY: f64 = 0.95;

/// Runs the command.
pub fn run(options: &Options, registry: &Registry) -> Result<()> {
    if let Some(path) = &options.html {
        options.replace.check(&[("--html", path)], &options.data)?;
    }
    let questions = evidence::questions(&options.data)?;
    if questions.len() < FEWEST {
        bail!(
            "--data: {} questions tell nothing; give at least {FEWEST}, better some hundred",
            questions.len()
        );
    }
    let mut session =
        options.weights.session(&options.model, options.precision, &options.machine, registry)?;
    let opened = session.opened().path.clone();
    let index = options.corpus.open(Some(&evidence::beside(&options.model, &opened, INDEX)))?;
    let reads = options.read || learned_to_read(&options.model, registry)?;
    if reads && index.is_none() {
        bail!("{} learned to read, and there is no text to read in; name it: --corpus FILE", options.model);
    }
    let asker = Asker {
        index: index.as_ref(),
        subject: None,
        reads,
        most: options.max.into(),
        samples: options.samples.into(),
        kept: None,
    };
    let texts: Vec<String> = questions.iter().map(|(question, _)| question.clone()).collect();
    let asked = asker.ask(&mut session, &texts)?;
    let right: Vec<bool> = asked.iter().zip(&questions).map(|(own, (_, gold))| own.answer == *gold).collect();
    let corpus = index.as_ref().map(|index| index.files().iter().map(|file| file.path.clone()).collect());
    let kept = learned(options, &opened, &asked, &right, corpus)?;
    let place = evidence::beside(&options.model, &opened, CALIBRATION);
    kept.write(&place)?;
    let report = Report::new(&kept, &asked, &right, options.seed)?;
    if let Some(path) = &options.html {
        let page = report.page(&options.model);
        whole::write(path, |file| file.write_all(page.as_bytes()))?;
    }
    let mut out = std::io::stdout().lock();
    match options.json {
        true => writeln!(out, "{}", report.json(&place))?,
        false => writeln!(out, "{}calibration: {}", report.text(), place.display())?,
    }
    Ok(())
}

/// The questions to learn from and those to test with.
fn divided(count: usize, seed: u64) -> Result<(Vec<usize>, Vec<usize>)> {
    Ok(held_out(count, Amount::Fraction(TESTED), seed)?)
}

fn learned(
    options: &Options,
    opened: &Path,
    asked: &[Asked],
    right: &[bool],
    corpus: Option<Vec<String>>,
) -> Result<Kept> {
    let (order, test) = divided(asked.len(), options.seed)?;
    let of = |at: usize| signs(&asked[at]);
    let examples: Vec<Example> =
        order.iter().map(|&at| Example { signs: of(at), right: right[at] }).collect();
    let names = sign_names(options.samples.into(), corpus.is_some());
    let calibration = Calibration::fit(&names, &examples)?;
    let scored = |rows: &[usize]| -> Vec<Scored> {
        rows.iter().map(|&at| (calibration.confidence(&of(at)), right[at])).collect()
    };
    Ok(Kept {
        weights: evidence::stamps(opened),
        questions: (options.data.iter().map(|file| file.display().to_string()).collect(), asked.len()),
        corpus,
        seed: options.seed,
        order: scored(&order),
        test: scored(&test),
        calibration,
    })
}

/// What a calibration came to, on the questions that were used for nothing else.
struct Report {
    questions: usize,
    accuracy: f64,
    raw: Vec<Scored>,
    calibrated: Vec<Scored>,
    errors: [Interval; 2],
    budgets: Vec<(Threshold, Threshold)>,
    /// Of each verdict: answers, right ones.
    verdicts: Option<[(usize, usize); 3]>,
}

impl Report {
    fn new(kept: &Kept, asked: &[Asked], right: &[bool], seed: u64) -> Result<Report> {
        let (order, test) = divided(asked.len(), seed)?;
        let raw_of = |rows: &[usize]| -> Vec<Scored> {
            rows.iter().map(|&at| (asked[at].sureness.probability, right[at])).collect()
        };
        let (raw_order, raw) = (raw_of(&order), raw_of(&test));
        let calibrated = kept.test.clone();
        let mut budgets = Vec::new();
        for errors in BUDGETS {
            let budget = Budget::new(errors, CERTAINTY)?;
            budgets.push((kept.threshold(budget)?, Threshold::learn(&raw_order, &raw, budget)?));
        }
        let judged = asked
            .iter()
            .zip(right)
            .filter_map(|(own, &right)| Some((own.judgement.as_ref()?.verdict, right)));
        let counted = Verdict::ALL.map(|verdict| {
            let own = judged.clone().filter(|(found, _)| *found == verdict);
            (own.clone().count(), own.filter(|(_, right)| *right).count())
        });
        Ok(Report {
            questions: asked.len(),
            accuracy: right.iter().filter(|right| **right).count() as f64 / right.len() as f64,
            errors: [calibration_error(&raw)?, calibration_error(&calibrated)?],
            raw,
            calibrated,
            budgets,
            verdicts: asked.iter().all(|own| own.judgement.is_some()).then_some(counted),
        })
    }

    fn areas(&self) -> [Option<f64>; 2] {
        [&self.raw, &self.calibrated].map(|scored| {
            let of = |wanted: bool| -> Vec<f64> {
                scored
                    .iter()
                    .filter(|(_, right)| *right == wanted)
                    .map(|(confidence, _)| *confidence)
                    .collect()
            };
            area_above(&of(true), &of(false))
        })
    }

    fn tables(&self) -> [Table; 3] {
        let mut confidence =
            Table::new(["confidence", "off on average", "95 % interval", "tells right from wrong"]);
        for ((name, error), area) in
            ["the model's own", "calibrated"].iter().zip(&self.errors).zip(self.areas())
        {
            confidence = confidence.row([
                name.to_string(),
                format!("{:.3}", error.value),
                format!("{:.3} to {:.3}", error.low, error.high),
                area.map_or("–".into(), |area| format!("{area:.3}")),
            ]);
        }
        let mut budgets = Table::new([
            "error budget",
            "answered",
            "wrong of these",
            "at most",
            "answered by the model's own",
        ]);
        for (threshold, raw) in &self.budgets {
            budgets = budgets.row([
                format!("{:.0} %", 100.0 * threshold.budget.errors),
                format!("{:.1} %", 100.0 * threshold.coverage()),
                format!("{} of {}", threshold.wrong, threshold.answered),
                format!("{:.1} %", 100.0 * threshold.bound),
                format!("{:.1} %", 100.0 * raw.coverage()),
            ]);
        }
        let mut verdicts = Table::new(["verdict", "answers", "right", "share"]);
        for (verdict, (all, right)) in Verdict::ALL.iter().zip(self.verdicts.unwrap_or_default()) {
            let share =
                if all == 0 { "–".into() } else { format!("{:.1} %", 100.0 * right as f64 / all as f64) };
            verdicts = verdicts.row([verdict.name().to_string(), all.to_string(), right.to_string(), share]);
        }
        [confidence, budgets, verdicts]
    }

    fn text(&self) -> String {
        let [confidence, budgets, verdicts] = self.tables();
        let mut text = format!(
            "{} questions, {:.1} % answered rightly; tested on {} of them\n\n{}\n{}",
            self.questions,
            100.0 * self.accuracy,
            self.calibrated.len(),
            confidence.text(),
            budgets.text()
        );
        if self.verdicts.is_some() {
            text += &format!("\n{}", verdicts.text());
        }
        for (threshold, _) in self.budgets.iter().filter(|(threshold, _)| threshold.from.is_none()) {
            text += &format!("\n{}\n", self.unmet(threshold));
        }
        text + "\n"
    }

    /// Why a budget cannot be kept, and what it would take.
    fn unmet(&self, threshold: &Threshold) -> String {
        let budget = threshold.budget;
        let risk = 1.0 - self.accuracy;
        let needed =
            budget.questions(risk).map_or("no number of".into(), |count| format!("at least {count}"));
        format!(
            "A budget of {:.0} % is not shown to be kept: with {:.0} % wrong answers at least {:.0} % have to be declined, and {needed} \
             questions are needed to test with, {} were there.",
            100.0 * budget.errors,
            100.0 * risk,
            100.0 * budget.declined(risk),
            threshold.tested
        )
    }

    fn json(&self, place: &Path) -> Value {
        let error = |error: &Interval| json!({"value": error.value, "low": error.low, "high": error.high});
        let [raw, calibrated] = self.areas();
        let verdicts = self.verdicts.map(|all| {
            let own = Verdict::ALL.iter().zip(all);
            own.map(
                |(verdict, (all, right))| json!({"verdict": verdict.name(), "answers": all, "right": right}),
            )
            .collect::<Vec<_>>()
        });
        json!({
            "questions": self.questions, "tested": self.calibrated.len(), "accuracy": self.accuracy,
            "raw": {"calibration_error": error(&self.errors[0]), "auroc": raw},
            "calibrated": {"calibration_error": error(&self.errors[1]), "auroc": calibrated},
            "budgets": self.budgets.iter().map(|(own, raw)| json!({"calibrated": own, "raw": raw})).collect::<Vec<_>>(),
            "verdicts": verdicts, "calibration": place.display().to_string(),
        })
    }

    fn page(&self, model: &str) -> String {
        let [confidence, budgets, verdicts] = self.tables();
        let figures = evidence::confidence_figures([&self.raw, &self.calibrated]);
        let mut parts = vec![
            Section { title: "Confidence".into(), html: confidence.html(escaped) + &figures },
            Section { title: "Error budgets".into(), html: budgets.html(escaped) },
        ];
        if self.verdicts.is_some() {
            parts.push(Section { title: "What the text says".into(), html: verdicts.html(escaped) });
        }
        let lead = format!(
            "{} questions, {:.1} % answered rightly; everything here is of the {} that were used for nothing else.",
            self.questions,
            100.0 * self.accuracy,
            self.calibrated.len()
        );
        document(&format!("What the confidence of {} is worth", escaped(model)), &lead, &parts)
    }
}
