//! `regard claims`: every claim of the notes with its state; the experiments that answer them; the pages that
//! show it all. A number outside of where it must be is a failure of the command.

use crate::output::Replace;
use crate::printer::note;
use anyhow::{Context as _, Result, bail};
use clap::Args;
use regard_lab::{Claim, Context, Effort, Outcome, Run};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Options of `regard claims`.
#[derive(Args)]
#[command(
    after_help = "Example:  regard claims C7 D\n          regard claims --quick --html pages\n          \
                        regard claims trained --full --results crates/lab/results/full.json"
)]
pub struct Options {
    /// Which: C7, a group B, a run A1-A5, all that are trained [default: list all; with an effort or --html,
    /// run all]
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// Every exact and Monte-Carlo claim within minutes; trained ones are indicative [the default]
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Trained claims over several random seeds: at most an hour
    #[arg(long)]
    full: bool,
    /// Write the findings as a site of pages into this folder
    #[arg(long, value_name = "DIR")]
    html: Option<PathBuf>,
    #[command(flatten)]
    replace: Replace,
    /// Put the findings into this JSON file, each in place of an earlier one of the same claim
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    /// The seed of all random numbers
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
    /// Claims that run at once [default: all cores]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

/// Lists or runs.
pub fn run(options: &Options) -> Result<()> {
    let runs = !options.ids.is_empty()
        || options.quick
        || options.full
        || options.html.is_some()
        || options.results.is_some();
    let claims = match options.ids.as_slice() {
        [] => regard_lab::claims().collect(),
        ids => regard_lab::select(ids)?,
    };
    let mut out = std::io::stdout().lock();
    if !runs {
        return match options.json {
            true => Ok(writeln!(out, "{}", regard_lab::listed(claims.into_iter()))?),
            false => list(&mut out),
        };
    }
    let threads = options.threads.unwrap_or_else(regard::device::Pool::default_threads);
    if threads == 0 || threads > claims.len().max(256) {
        bail!("--threads {threads}: choose between 1 and {}", claims.len().max(256));
    }
    if let Some(folder) = &options.html {
        // Before an hour of work, not after it.
        options.replace.check_folder("--html", folder, "index.html")?;
        std::fs::create_dir_all(folder)
            .with_context(|| format!("--html: cannot make the folder {}", folder.display()))?;
    }
    let kept = match &options.results {
        Some(path) if path.exists() => Some(
            std::fs::read_to_string(path)
                .with_context(|| format!("--results: cannot read {}", path.display()))?,
        ),
        _ => None,
    };
    let effort = if options.full { Effort::Full } else { Effort::Quick };
    let context = Context { seed: options.seed, effort };
    // Whether they go together and can be written is known before the work; each is kept as it ends, so that
    // an hour that is broken off is not lost.
    let outcomes_json = |outcomes: &[Outcome]| regard_lab::outcomes_json(outcomes, &context);
    let mut kept = regard_lab::merged(kept.as_deref(), &outcomes_json(&[]))?;
    if let Some(path) = &options.results {
        keep(path, &mut kept, &outcomes_json(&[]))?;
    }
    let kept = Mutex::new(kept);
    let unwritten = Mutex::new(None);
    let heard = |outcome: &Outcome| {
        if outcome.found.is_none() {
            return;
        }
        note(&format!("{:>5}  {:<22} {:>6.1} s", outcome.claim.id, outcome.state(), outcome.seconds));
        if let (Some(path), Ok(mut kept)) = (&options.results, kept.lock())
            && let Err(error) = keep(path, &mut kept, &outcomes_json(std::slice::from_ref(outcome)))
            && let Ok(mut unwritten) = unwritten.lock()
        {
            unwritten.get_or_insert(error);
        }
    };
    let outcomes = regard_lab::run(&claims, &context, threads, &heard);
    if let Ok(Some(error)) = unwritten.into_inner() {
        return Err(error);
    }
    if let Some(folder) = &options.html {
        for (name, text) in regard_lab::site::pages(&outcomes, &context) {
            let path = folder.join(&name);
            regard_data::whole::write(&path, |file| file.write_all(text.as_bytes()))?;
        }
    }
    match options.json {
        true => writeln!(out, "{}", regard_lab::outcomes_json(&outcomes, &context))?,
        false => report(&mut out, &outcomes, options.html.as_deref())?,
    }
    let failed: Vec<&str> = outcomes.iter().filter(|o| o.failed()).map(|o| o.claim.id).collect();
    match failed.as_slice() {
        [] => Ok(()),
        [one] => bail!("{one} does not hold: see its numbers above"),
        many => bail!("{} claims do not hold: {}; see their numbers above", many.len(), many.join(", ")),
    }
}

/// Puts findings among those kept, and writes them all.
fn keep(path: &Path, kept: &mut serde_json::Value, outcomes_json: &serde_json::Value) -> Result<()> {
    *kept = regard_lab::merged(Some(&kept.to_string()), outcomes_json)?;
    Ok(regard_data::whole::write(path, |file| writeln!(file, "{kept:#}"))?)
}

fn list(out: &mut impl Write) -> Result<()> {
    for group in regard_lab::GROUPS {
        writeln!(out, "{}  {}", group.letter, group.title)?;
        for claim in group.claims {
            writeln!(out, "  {:<5} {:<12} {}", claim.id, claim.evidence().name(), line_of(claim))?;
        }
    }
    let pending = regard_lab::claims().filter(|claim| claim.experiment().is_none()).count();
    let all = regard_lab::claims().count();
    writeln!(out, "\n{all} claims, {pending} of them pending. Run some with:  regard claims C7 D")?;
    Ok(())
}

fn line_of(claim: &Claim) -> String {
    match claim.run {
        Run::Pending(waits) => format!("{} (waits for {waits})", claim.title),
        _ => claim.title.to_string(),
    }
}

fn report(out: &mut impl Write, outcomes: &[Outcome], site: Option<&Path>) -> Result<()> {
    // Many claims make a table, a few are told in full.
    let brief = outcomes.len() > 12;
    for outcome in outcomes {
        let claim = outcome.claim;
        writeln!(out, "{:<5} {:<24} {}", claim.id, outcome.state(), line_of(claim))?;
        if let Some(Ok(finding)) = &outcome.found
            && !brief
        {
            writeln!(out, "      They say: {} (notes {})", claim.statement, claim.note)?;
            writeln!(out, "      {}", finding.summary)?;
            if let Some(example) = &finding.counter_example {
                writeln!(out, "      Counter-example: {example}")?;
            }
            for number in &finding.numbers {
                let mark = match number.ok() {
                    Some(true) => "ok",
                    Some(false) => "NO",
                    None => "",
                };
                writeln!(out, "      {mark:<2} {}", regard_lab::in_words(number))?;
            }
        }
        for fault in outcome.faults().iter().filter(|_| brief || matches!(outcome.found, Some(Err(_)))) {
            writeln!(out, "      OUTSIDE: {fault}")?;
        }
    }
    let failed = outcomes.iter().filter(|outcome| outcome.failed()).count();
    let pending = outcomes.iter().filter(|outcome| outcome.found.is_none()).count();
    writeln!(
        out,
        "\n{} claims: {} hold, {failed} do not, {pending} pending",
        outcomes.len(),
        outcomes.len() - failed - pending
    )?;
    if let Some(folder) = site {
        writeln!(out, "pages: {}", folder.join("index.html").display())?;
    }
    Ok(())
}
