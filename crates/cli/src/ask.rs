//! `regard ask`: questions to a model, and what there is to say about each answer: what the text that it
//! learned from says to it, with the line; how likely it is to be right; and nothing at all, where that was
//! asked for.

use crate::evidence::{
    self, Asked, Asker, CALIBRATION, Corpus, INDEX, judgement_json, place_json, samples_of, verdict_lines,
};
use crate::machine::Machine;
use crate::model::{Weights, lines};
use crate::printer::note;
use crate::weight_precision::WeightPrecision;
use anyhow::{Result, bail};
use clap::Args;
use regard::models::Registry;
use regard::prelude::*;
use regard_evidence::{Budget, Index, Kept, Threshold};
use regard_recipe::Recipe;
use regard_recipe::language::FormRecipe;
use regard_runtime::{OpenOptions, Session, is_run};
use regard_train::RunPaths;
use serde_json::{Value, json};
use std::io::{IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Options of `regard ask`.
#[derive(Args)]
#[command(
    after_help = "Examples:  regard ask runs/demo/pretrained \"Where was Lebin Kodre born?\"\n           \
                        regard ask runs/birth_places \"Where was Ralf Wadephul born?\" --corpus wiki.txt\n           \
                        regard ask runs/birth_places --file questions.txt --error-budget 0.1 --json\n\n\
                        With a --corpus, or with the index that an earlier one left beside the model, each answer is held against\n\
                        the lines about the subject of its question: supported, contradicted, or no evidence. --error-budget needs\n\
                        regard calibrate first. Exit codes: 0 all were answered, 1 something went wrong, 2 the command line is\n\
                        wrong, 3 at least one answer was withheld."
)]
pub struct Options {
    /// The folder of a model that learned to answer, or of its run; any other decoder goes on from the
    /// question
    model: String,
    /// The questions
    #[arg(required_unless_present = "file")]
    questions: Vec<String>,
    /// A file with a question on each line
    #[arg(long, value_name = "FILE", conflicts_with = "questions")]
    file: Option<PathBuf>,
    /// The most tokens of an answer
    #[arg(long, default_value_t = 32, value_name = "N")]
    max: usize,
    #[command(flatten)]
    corpus: Corpus,
    /// What the questions are about, instead of what is found in them
    #[arg(long, value_name = "NAME")]
    subject: Option<String>,
    /// Give no answer that no line of the text names
    #[arg(long)]
    strict: bool,
    /// Give only answers that are sure enough for at most this share of them to be wrong
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    error_budget: Option<f64>,
    /// How certain it has to be that the budget is kept
    #[arg(
        long,
        value_name = "P",
        default_value_t = 0.95,
        requires = "error_budget",
        allow_negative_numbers = true
    )]
    certainty: f64,
    /// Put the line about the subject before the question: for a model that learned to read. A run whose
    /// recipe says so does it by itself
    #[arg(long)]
    read: bool,
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

/// At least one answer was withheld: no failure, but something that programs want to know.
#[derive(Debug)]
pub struct Withheld;

impl std::fmt::Display for Withheld {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an answer was withheld")
    }
}

impl std::error::Error for Withheld {}

/// Runs the command.
pub fn run(options: &Options, registry: &Registry) -> Result<()> {
    if options.max == 0 {
        bail!("--max 0: an answer has at least 1 token");
    }
    let budget = options.error_budget.map(|errors| Budget::new(errors, options.certainty)).transpose()?;
    let questions = match &options.file {
        None => options.questions.clone(),
        Some(file) => lines(file)?,
    };
    let mut session =
        options.weights.session(&options.model, options.precision, &options.machine, registry)?;
    let opened = session.opened().path.clone();
    let index = options.corpus.open(Some(&evidence::beside(&options.model, &opened, INDEX)))?;
    if options.strict && index.is_none() {
        bail!("--strict: there is no text that could support an answer; name it: --corpus FILE");
    }
    let reads = options.read || learned_to_read(&options.model, registry)?;
    if reads && index.is_none() {
        bail!("{} learned to read, and there is no text to read in; name it: --corpus FILE", options.model);
    }
    let kept = calibration(&options.model, &opened, index.as_ref(), budget.is_some())?;
    let threshold = match (budget, &kept) {
        (Some(budget), Some(kept)) => Some(chosen(kept, budget)?),
        _ => None,
    };
    let asker = Asker {
        index: index.as_ref(),
        subject: options.subject.as_deref(),
        reads,
        most: options.max,
        samples: samples_of(kept.as_ref()),
        kept: kept.as_ref(),
    };
    let answers = asker.ask(&mut session, &questions)?;
    let withheld: Vec<Option<&'static str>> =
        answers.iter().map(|asked| reason(asked, options.strict, threshold.as_ref())).collect();
    let mut out = std::io::stdout().lock();
    if options.json {
        let all: Vec<Value> = answers
            .iter()
            .zip(&withheld)
            .map(|(asked, withheld)| answer_json(asked, *withheld, index.as_ref()))
            .collect();
        let mut page = json!({"answers": all});
        if let Some(threshold) = &threshold {
            page["threshold"] = json!(threshold);
        }
        writeln!(out, "{page}")?;
    } else {
        let marks = if out.is_terminal() { ("\x1b[1m", "\x1b[0m") } else { ("[", "]") };
        for (asked, withheld) in answers.iter().zip(&withheld) {
            write!(out, "{}", shown(asked, *withheld, index.as_ref(), questions.len() > 1, marks))?;
        }
    }
    if withheld.iter().any(Option::is_some) {
        return Err(Withheld.into());
    }
    Ok(())
}

/// Whether a run's last stage learned to read.
pub fn learned_to_read(model: &str, registry: &Registry) -> Result<bool> {
    if !is_run(Path::new(model)) {
        return Ok(false);
    }
    let recipe = Recipe::open(RunPaths::new(model).recipe(), &[], registry)?;
    Ok(recipe.stages().last().is_some_and(|stage| stage.data.form == FormRecipe::Reading))
}

/// The calibration beside a model, where there is one that fits. One that is needed and is not there, or is
/// of something else, is an error; otherwise it is only left out.
fn calibration(model: &str, opened: &Path, index: Option<&Index>, needed: bool) -> Result<Option<Kept>> {
    let place = evidence::beside(model, opened, CALIBRATION);
    if !place.is_file() {
        return match needed {
            true => bail!(
                "--error-budget: {model} is not calibrated; do it with questions that it did not learn from: regard calibrate \
                 {model} --data FILE"
            ),
            false => Ok(None),
        };
    }
    let kept = Kept::read(&place)?;
    let wrong = if kept.weights != evidence::stamps(opened) {
        "is of other weights than these"
    } else if kept.corpus.is_some() != index.is_some() {
        match index {
            Some(_) => "was made without a text, and there is one now",
            None => "was made with a text, and there is none now: name it with --corpus",
        }
    } else {
        return Ok(Some(kept));
    };
    let text = format!("{} {wrong}; calibrate again: regard calibrate {model} --data FILE", place.display());
    if needed {
        bail!("--error-budget: {text}");
    }
    note(&format!("regard: {text}"));
    Ok(None)
}

/// From which confidence on answers are given; says so if none can be.
fn chosen(kept: &Kept, budget: Budget) -> Result<Threshold> {
    let threshold = kept.threshold(budget)?;
    if threshold.from.is_none() {
        let risk = kept.risk();
        let needed =
            budget.questions(risk).map_or("no number of".to_string(), |count| format!("at least {count}"));
        note(&format!(
            "regard: no threshold keeps an error budget of {} with certainty {}: of the {} questions tested, {:.0} % were \
             answered wrongly, so that at least {:.0} % have to be declined; that takes {needed} questions, and a confidence that \
             tells right from wrong",
            budget.errors,
            budget.certainty,
            kept.test.len(),
            100.0 * risk,
            100.0 * budget.declined(risk)
        ));
    }
    Ok(threshold)
}

/// Why an answer is not given.
fn reason(asked: &Asked, strict: bool, threshold: Option<&Threshold>) -> Option<&'static str> {
    if strict && !asked.judgement.as_ref().is_some_and(|judged| judged.is_strict()) {
        return Some("no line of the text names it");
    }
    match (threshold, asked.confidence) {
        (Some(threshold), Some(confidence)) if !threshold.gives(confidence) => {
            Some("it is not sure enough for the error budget")
        }
        _ => None,
    }
}

/// An answer as people read it: bare where there is nothing else to say.
fn shown(
    asked: &Asked,
    withheld: Option<&str>,
    index: Option<&Index>,
    several: bool,
    marks: (&str, &str),
) -> String {
    let mut text = if several { format!("{} ", asked.question) } else { String::new() };
    text += &match withheld {
        Some(reason) => format!("(no answer: {reason})\n"),
        None => format!("{}\n", asked.answer),
    };
    let mut more = Vec::new();
    if let (Some(index), Some(judged)) = (index, &asked.judgement) {
        // What was withheld is not told by the way.
        match withheld {
            Some(_) => more.extend(verdict_lines(index, judged, ("", "")).into_iter().take(1)),
            None => more.extend(verdict_lines(index, judged, marks)),
        }
    }
    match asked.confidence {
        Some(confidence) => more.push(format!("right with probability {confidence:.2}, as calibrated")),
        None if index.is_some() => {
            more.push(format!(
                "the model's own probability: {:.2}; not calibrated",
                asked.sureness.probability
            ));
        }
        None => {}
    }
    for line in more {
        text += &format!("  {line}\n");
    }
    text
}

/// An answer as programs read it.
fn answer_json(asked: &Asked, withheld: Option<&str>, index: Option<&Index>) -> Value {
    let sure = &asked.sureness;
    let mut page = json!({
        "question": asked.question,
        "answer": if withheld.is_none() { json!(asked.answer) } else { Value::Null },
        "withheld": withheld,
        "confidence": asked.confidence,
        "model": {"probability": sure.probability, "weakest": sure.weakest, "margin": sure.margin, "entropy": sure.entropy},
    });
    if let (Some(index), Some(judged)) = (index, &asked.judgement) {
        page["evidence"] = judgement_json(index, judged);
        if withheld.is_some() {
            page["evidence"]["lines"] = json!([]);
        }
        page["read"] = asked.read.as_ref().map_or(Value::Null, |line| {
            let mut place = place_json(index, &line.place);
            place["text"] = json!(line.text);
            place
        });
    }
    page
}

/// What a model says to some questions.
pub fn answers(
    model: &Path,
    questions: &[String],
    most: usize,
    device: &Device,
    registry: &Registry,
) -> Result<Vec<String>> {
    let mut session = Session::open(&model.to_string_lossy(), &OpenOptions::new(registry), device)?;
    Ok(session.ask(questions, most, &mut |_, _| ControlFlow::Continue(()))?)
}
