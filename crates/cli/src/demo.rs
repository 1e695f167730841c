//! `regard demo`: the birth-place study in small, on data that comes with the program. Four models learn to
//! say where invented people were born; those that have read about them know it, the other one guesses. Ends
//! with the table, three questions, and where the report lies.

use crate::ask::answers;
use crate::bars::Bars;
use crate::machine::Machine;
use crate::output::Replace;
use crate::stopping::on_interrupt;
use crate::study::{INVENTED, Shown, keep, stopped, study_json};
use anyhow::Result;
use clap::Args;
use regard_models::Registry;
use regard_recipe::study::{self, Arm, StudyData, StudySettings};
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

/// Options of `regard demo`.
#[derive(Args)]
#[command(after_help = "Example:  regard demo --seed 7")]
pub struct Options {
    /// From this number weights, order and spans are drawn; the people are always the same
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
    /// How often the lines are read: fewer is faster, and less is known
    #[arg(long, default_value_t = StudySettings::small().pretrain.epochs, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..))]
    epochs: u64,
    /// Where models and the report go
    #[arg(long, default_value = "runs/demo", value_name = "FOLDER")]
    out: PathBuf,
    #[command(flatten)]
    replace: Replace,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    machine: Machine,
}

/// How many questions are asked at the end.
const ASKED: usize = 3;

/// Runs the demo.
pub fn run(options: &Options, registry: &Registry) -> Result<()> {
    options.replace.check_folder("--out", &options.out, "report.html")?;
    let device = options.machine.device()?;
    let stop = on_interrupt()?;
    let began = Instant::now();
    let data = StudyData::small()?;
    let mut settings = StudySettings { seed: options.seed, ..StudySettings::small() };
    settings.pretrain.epochs = options.epochs;
    settings.pretrain.decay_epochs = options.epochs;
    let mut out = std::io::stdout().lock();
    if !options.json {
        writeln!(out, "{INVENTED}")?;
        writeln!(out, "  {}", data.lines[0])?;
        writeln!(out, "  {} {}\n", data.train[0].text, data.train[0].place)?;
        out.flush()?;
    }
    let mut shown = Shown { bars: Bars::new(options.json) };
    let study = study::run(&data, &settings, &device, &mut shown, Some(&*stop))?;
    shown.bars.clear();
    keep(&study, &data, &options.out, "Where was somebody born? The study in small", INVENTED)?;

    // The model is opened from its folder, as anybody would.
    let read = study.arms.iter().filter(|result| result.arm != Arm::Alone);
    let best = read.max_by(|a, b| a.accuracy().total_cmp(&b.accuracy()));
    let mut asked = Vec::new();
    if let Some(best) = best {
        let questions: Vec<String> = data.dev.iter().take(ASKED).map(|one| one.text.clone()).collect();
        let replies = answers(&options.out.join(best.arm.name()), &questions, 32, &device, registry)?;
        asked = data.dev.iter().zip(replies).collect();
    }
    if options.json {
        let mut page = study_json(&study, &options.out, began.elapsed().as_secs_f64());
        let asked = asked
            .iter()
            .map(|(one, answer)| json!({"question": one.text, "said": answer, "right": one.place}));
        page["asked"] = asked.collect::<Vec<_>>().into();
        writeln!(out, "{page}")?;
        return stopped(&study);
    }
    write!(out, "{}", study.table())?;
    if let Some(best) = best {
        let model = options.out.join(best.arm.name());
        writeln!(out, "\nThree of the questions to the best of them:")?;
        for (one, answer) in &asked {
            let verdict = if *answer == one.place { "right" } else { "wrong" };
            writeln!(out, "  {} {answer} ({verdict})", one.text)?;
            let line = data.line_of(&one.text).unwrap_or("no line tells of this person");
            writeln!(out, "    it had read: {line}")?;
        }
        writeln!(out, "\nask it more:  regard ask {} \"{}\"", model.display(), data.dev[ASKED].text)?;
    }
    writeln!(out, "report:       {}", options.out.join("report.html").display())?;
    writeln!(out, "took {:.0} s", began.elapsed().as_secs_f64())?;
    stopped(&study)
}
