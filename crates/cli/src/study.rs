//! `regard study`: where was somebody born? The birth-place study on files, or on the invented people that
//! come with the program; `regard demo` is the small one of these.

use crate::arms;
use crate::bars::Bars;
use crate::evidence::{self, Examination};
use crate::machine::Machine;
use crate::output::Replace;
use crate::stopping::on_interrupt;
use anyhow::{Context, Result, bail};
use clap::Args;
use regard_data::whole;
use regard_models::Registry;
use regard_recipe::study::{
    self, Arm, ArmResult, Study, StudyData, StudyFiles, StudyListener, StudySettings, Vocabulary,
};
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Options of `regard study`.
#[derive(Args)]
#[command(after_help = "Examples:  regard study\n           \
                        regard study studies/birth_places.toml --jobs 4\n           \
                        regard study --text people/text.txt --train people/train.tsv --dev people/dev.tsv --pretrain-epochs 3\n           \
                        regard study --evidence --withhold 0.1 --arms pretrained --out runs/evidence\n\n\
                        The third after regard data generate people; the files of the course go as well.")]
pub struct Options {
    /// A study by a file: arms, each a recipe with something changed, and seeds. Runs what is still missing
    #[arg(value_name = "STUDY", conflicts_with_all = ["text", "train", "dev", "test", "pretrain_epochs",
          "finetune_epochs", "arms", "seed", "evidence", "replace"])]
    study: Option<PathBuf>,
    /// What should be otherwise in all recipes of the file, as in train.precision=f32
    #[arg(value_name = "KEY=VALUE", requires = "study")]
    overrides: Vec<String>,
    /// Of a study by a file: so many runs at a time
    #[arg(long, default_value_t = 1, value_name = "N", requires = "study", value_parser = jobs)]
    jobs: usize,
    /// Of a study by a file: after so long, runs end with a checkpoint and no other begins
    #[arg(long, value_name = "MINUTES", requires = "study", value_parser = minutes)]
    minutes: Option<f64>,
    /// Lines about people, one on each line; invented people if not given
    #[arg(long, value_name = "FILE", requires_all = ["train", "dev"])]
    text: Option<PathBuf>,
    /// Questions and answers to learn from, with a tab between
    #[arg(long, value_name = "FILE", requires = "text")]
    train: Option<PathBuf>,
    /// Questions and answers to be examined with
    #[arg(long, value_name = "FILE", requires = "text")]
    dev: Option<PathBuf>,
    /// Questions alone: the answers go to a file of each model's own
    #[arg(long, value_name = "FILE", requires = "text")]
    test: Option<PathBuf>,
    /// How often the lines are read, instead of 650 times as in the course, or 70 times for invented people
    #[arg(long, value_name = "N")]
    pretrain_epochs: Option<u64>,
    /// How often the questions are gone through, instead of 75 times without reading and 10 times after it,
    /// or 20 and 10 times for invented people
    #[arg(long, value_name = "N")]
    finetune_epochs: Option<u64>,
    /// Which models: alone, pretrained, rotary, perceiver
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    arms: Vec<String>,
    /// From this number weights, order and spans are drawn
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
    /// Examine every answer: what the lines say to it, what confidence is worth, error budgets, who is
    /// guessed by name; on a page of its own
    #[arg(long)]
    evidence: bool,
    /// Examine these models or runs, with commas between, instead of training
    #[arg(long, value_name = "MODEL", value_delimiter = ',', requires_all = ["evidence", "text"])]
    models: Vec<String>,
    /// Leave out the lines of this share of the people who are asked about at the end, to see whether that is
    /// noticed
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 0.0,
        requires = "evidence",
        allow_negative_numbers = true
    )]
    withhold: f64,
    /// Where models, predictions and the report go
    #[arg(long, default_value = "runs/study", value_name = "FOLDER")]
    out: PathBuf,
    #[command(flatten)]
    replace: Replace,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    machine: Machine,
}

/// Runs the command.
pub fn run(options: &Options, registry: &Registry) -> Result<()> {
    if let Some(file) = &options.study {
        let how = arms::How {
            file,
            overrides: &options.overrides,
            out: &options.out,
            jobs: options.jobs,
            limit: options.minutes.map(|minutes| Duration::from_secs_f64(60.0 * minutes)),
            json: options.json,
            machine: &options.machine,
        };
        return arms::run(&how, registry, &*on_interrupt()?);
    }
    let left = if options.models.is_empty() { "report.html" } else { "evidence.html" };
    options.replace.check_folder("--out", &options.out, left)?;
    let (mut data, mut settings, lead) = match (&options.text, &options.train, &options.dev) {
        (Some(text), Some(train), Some(dev)) => {
            let files = StudyFiles { text, train, dev, test: options.test.as_deref() };
            let data = StudyData::open(files, Vocabulary::Characters)?;
            let lead = format!("{} lines of {}.", data.lines.len(), text.display());
            (data, StudySettings::course(), lead)
        }
        _ => (StudyData::small()?, StudySettings::small(), INVENTED.into()),
    };
    settings.seed = options.seed;
    if let Some(epochs) = options.pretrain_epochs {
        if epochs == 0 {
            bail!("--pretrain-epochs 0: leave the models that read out instead: --arms alone");
        }
        settings.pretrain.epochs = epochs;
    }
    if let Some(epochs) = options.finetune_epochs {
        if epochs == 0 {
            bail!("--finetune-epochs 0: a model has to learn to answer; choose at least 1");
        }
        (settings.alone.epochs, settings.after.epochs) = (epochs, epochs);
    }
    if !options.arms.is_empty() {
        settings.arms = options.arms.iter().map(|name| arm(name)).collect::<Result<Vec<Arm>>>()?;
    }
    let device = options.machine.device()?;
    let withheld = evidence::withhold(&mut data, options.withhold, options.seed)?;
    if !options.models.is_empty() {
        let models: Vec<(String, String)> =
            options.models.iter().map(|model| (model.clone(), model.clone())).collect();
        let found = evidence::examined(&models, &data, &withheld, &options.out, &device, registry)?;
        return show_examined(&found, options.json);
    }
    let stop = on_interrupt()?;
    let began = Instant::now();
    let mut shown = Shown { bars: Bars::new(options.json) };
    let study = study::run(&data, &settings, &device, &mut shown, Some(&*stop))?;
    shown.bars.clear();
    keep(&study, &data, &options.out, "Where was somebody born?", &lead)?;
    let found = match options.evidence {
        true => {
            let own = |result: &ArmResult| {
                (result.arm.title().to_string(), options.out.join(result.arm.name()).display().to_string())
            };
            let models: Vec<(String, String)> = study.arms.iter().map(own).collect();
            Some(evidence::examined(&models, &data, &withheld, &options.out, &device, registry)?)
        }
        false => None,
    };
    let mut out = std::io::stdout().lock();
    if options.json {
        let mut page = study_json(&study, &options.out, began.elapsed().as_secs_f64());
        if let Some(found) = &found {
            page["evidence"] = examined_json(found);
        }
        writeln!(out, "{page}")?;
    } else {
        write!(out, "{}", study.table())?;
        writeln!(out)?;
        for result in study.arms.iter().filter(|_| !data.test.is_empty()) {
            writeln!(out, "predictions: {}", predictions(&options.out, result.arm).display())?;
        }
        writeln!(out, "report: {}", options.out.join("report.html").display())?;
    }
    drop(out);
    if let Some(found) = found.filter(|_| !options.json) {
        show_examined(&found, false)?;
    }
    stopped(&study)
}

type Examined = (Vec<(String, Examination)>, PathBuf);

fn examined_json((all, page): &Examined) -> Value {
    let models: Vec<Value> = all
        .iter()
        .map(|(name, examination)| {
            let mut own = examination.json();
            own["model"] = json!(name);
            own
        })
        .collect();
    json!({"models": models, "report": page.display().to_string()})
}

/// Prints what examinations came to.
fn show_examined(found: &Examined, as_json: bool) -> Result<()> {
    let mut out = std::io::stdout().lock();
    if as_json {
        return Ok(writeln!(out, "{}", examined_json(found))?);
    }
    for (name, examination) in &found.0 {
        writeln!(out, "\n{name}\n\n{}", examination.text())?;
    }
    Ok(writeln!(out, "report: {}", found.1.display())?)
}

/// What the invented data is, in a sentence.
pub const INVENTED: &str = "320 invented people, born in 25 invented places, four lines about each in twelve kinds of \
                            sentences. The 80 who are asked about at the end occur in no question to learn from.";

/// As many runs as a machine can hold.
fn jobs(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(jobs) if (1..=64).contains(&jobs) => Ok(jobs),
        _ => Err("give a whole number from 1 to 64".into()),
    }
}

/// A time that can be waited for.
fn minutes(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(minutes) if minutes > 0.0 && minutes <= 1e6 => Ok(minutes),
        _ => Err("give a number of minutes above 0".into()),
    }
}

/// An arm by its name.
fn arm(name: &str) -> Result<Arm> {
    let known: Vec<&str> = Arm::ALL.iter().map(|arm| arm.name()).collect();
    Arm::ALL
        .into_iter()
        .find(|arm| arm.name() == name)
        .with_context(|| format!("--arms {name}: there are {}", known.join(", ")))
}

/// Where the answers of an arm to the test questions go.
fn predictions(folder: &Path, arm: Arm) -> PathBuf {
    folder.join(arm.name()).join("predictions.txt")
}

/// Models, predictions and report, into a folder.
pub fn keep(study: &Study, data: &StudyData, folder: &Path, title: &str, lead: &str) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    for result in &study.arms {
        let own = folder.join(result.arm.name());
        result.save(&data.tokenizer, &own)?;
        if !data.test.is_empty() {
            result.write_predictions(predictions(folder, result.arm))?;
        }
    }
    let page = study.report(title, lead, data);
    Ok(whole::write(folder.join("report.html"), |file| file.write_all(page.as_bytes()))?)
}

/// The study for programs.
pub fn study_json(study: &Study, folder: &Path, seconds: f64) -> Value {
    let arm = |result: &ArmResult| {
        json!({"arm": result.arm.name(), "parameters": result.parameters, "seconds": result.seconds,
               "reading_loss": result.reading_loss(), "answering_loss": result.answering_loss(),
               "accuracy": result.accuracy(), "model": folder.join(result.arm.name()).display().to_string()})
    };
    json!({"arms": study.arms.iter().map(arm).collect::<Vec<_>>(), "seconds": seconds,
           "baseline": {"answer": study.baseline.0, "accuracy": study.baseline.1},
           "interrupted": study.interrupted, "report": folder.join("report.html").display().to_string()})
}

/// A study that was interrupted is not a success; what was done is kept.
pub fn stopped(study: &Study) -> Result<()> {
    if study.interrupted {
        bail!("interrupted; the models that were done are kept, the others begin anew with the next run");
    }
    Ok(())
}

/// Bars for the stages of a study.
pub struct Shown {
    /// The bars.
    pub bars: Bars,
}

impl regard_train::Listener for Shown {
    fn began(&mut self, step: u64, prediction: &regard_train::Prediction) {
        self.bars.began(step, prediction);
    }

    fn stepped(&mut self, record: &regard_train::StepRecord) {
        self.bars.stepped(record);
    }
}

impl StudyListener for Shown {
    fn stage(&mut self, arm: Arm, stage: &str) {
        self.bars.clear();
        self.bars.print_line(&format!("{}: {stage}", arm.title()));
    }

    fn done(&mut self, result: &ArmResult) {
        self.bars.clear();
        let right = 100.0 * result.accuracy();
        self.bars.print_line(&format!(
            "{}: {right:.1} % right after {:.0} s",
            result.arm.title(),
            result.seconds
        ));
    }
}
