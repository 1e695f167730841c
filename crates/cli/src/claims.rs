//! `regard claims`: every claim of the notes with its state; the experiments that answer them; the pages that
//! show it all. A claim that is wrong is an answer; a number that contradicts what its experiment knows is a
//! failure of the command.

use crate::machine::Choice;
use crate::output::Replace;
use crate::printer::note;
use anyhow::{Context as _, Result, bail};
use clap::Args;
use regard_lab::{Claim, Context, Effort, Outcome, Provenance, Run, Workers};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Options of `regard claims`.
#[derive(Args)]
#[command(
    after_help = "Example:  regard claims C7 D\n          regard claims --quick --html pages\n          \
                        regard claims --full --results crates/lab/results/full.json"
)]
pub struct Options {
    /// Which: C7, a group B, a run A1-A5, all that are trained [default: list all; with an effort, --html or
    /// --results, run all]
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// Every exact and Monte-Carlo claim within minutes; trained ones in one short run each, which decides
    /// nothing [the default]
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Trained claims over eight random seeds, which decide: about an hour of one core
    #[arg(long)]
    full: bool,
    /// Write the findings as a site of pages into this folder
    #[arg(long, value_name = "DIR")]
    html: Option<PathBuf>,
    #[command(flatten)]
    replace: Replace,
    /// Put the findings into this JSON file, each in place of an earlier one of the same claim. Where no
    /// claim is named, those that the file has from the same sources are not run again: a run that was broken
    /// off goes on
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    /// The seed of all random numbers
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
    /// Claims and trainings that run at once [default: all cores]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Where models are trained: cpu, cuda or cuda:N; auto takes a card where there is one. What is about
    /// times and bits of the CPU stays there
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    device: Choice,
}

/// More threads than this are surely a slip of the finger.
const MOST_THREADS: usize = 256;

/// Lists or runs.
pub fn run(options: &Options) -> Result<()> {
    let runs = !options.ids.is_empty()
        || options.quick
        || options.full
        || options.html.is_some()
        || options.results.is_some();
    let mut claims = match options.ids.as_slice() {
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
    if threads == 0 || threads > MOST_THREADS {
        bail!("--threads {threads}: choose between 1 and {MOST_THREADS}");
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
    let workers = Workers::new(threads);
    let device = options.device.card()?;
    let context = Context { seed: options.seed, effort, workers: &workers, device: device.as_ref() };
    let provenance = provenance(options.results.as_deref(), &options.device);
    // Whether they go together and can be written is known before the work; each is kept as it ends, so that
    // an hour that is broken off is not lost.
    let outcomes_json = |outcomes: &[Outcome]| regard_lab::outcomes_json(outcomes, &context);
    let mut kept = regard_lab::merged(kept.as_deref(), &outcomes_json(&[]), &provenance)?;
    if let Some(path) = &options.results {
        keep(path, &mut kept, &outcomes_json(&[]), &provenance)?;
    }
    let all = claims.len();
    if options.ids.is_empty() {
        claims.retain(|claim| !regard_lab::is_kept(&kept, claim, &context));
    }
    if claims.len() < all {
        note(&format!(
            "{} of {all} claims are in the file already, from the same sources",
            all - claims.len()
        ));
    }
    let kept = Mutex::new(kept);
    let unwritten = Mutex::new(None);
    let heard = |outcome: &Outcome| {
        if outcome.found.is_none() {
            return;
        }
        note(&format!("{:>5}  {:<24} {:>6.1} s", outcome.claim.id, outcome.state(), outcome.seconds));
        if let (Some(path), Ok(mut kept)) = (&options.results, kept.lock())
            && let Err(error) =
                keep(path, &mut kept, &outcomes_json(std::slice::from_ref(outcome)), &provenance)
            && let Ok(mut unwritten) = unwritten.lock()
        {
            unwritten.get_or_insert(error);
        }
    };
    let outcomes = regard_lab::run(&claims, &context, &heard);
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
    if let (Some(path), Ok(kept), false) = (&options.results, kept.into_inner(), options.json) {
        writeln!(out, "{}: {}", path.display(), kept["counts"].as_str().unwrap_or_default())?;
    }
    let failed: Vec<&str> = outcomes.iter().filter(|o| o.failed()).map(|o| o.claim.id).collect();
    match failed.as_slice() {
        [] => Ok(()),
        [one] => bail!("{one} is broken: see its numbers above"),
        many => bail!("{} claims are broken: {}; see their numbers above", many.len(), many.join(", ")),
    }
}

/// The commit that is checked out in the repository around a folder.
fn checked_out(folder: &Path) -> Option<String> {
    let folder = folder.canonicalize().ok()?;
    let git = folder.ancestors().map(|at| at.join(".git")).find(|git| git.is_dir())?;
    let read = |name: &str| std::fs::read_to_string(git.join(name)).ok();
    let head = read("HEAD")?;
    let Some(branch) = head.trim().strip_prefix("ref: ") else { return Some(head.trim().to_string()) };
    if let Some(commit) = read(branch) {
        return Some(commit.trim().to_string());
    }
    let packed = read("packed-refs")?;
    packed.lines().find_map(|line| line.strip_suffix(branch)?.strip_suffix(' ').map(String::from))
}

/// By what and where this run is done. The commit is what `REGARD_COMMIT` says, or else that of the
/// repository around the results.
fn provenance(results: Option<&Path>, device: &Choice) -> Provenance {
    let folder = results.and_then(Path::parent).filter(|folder| !folder.as_os_str().is_empty());
    let commit = std::env::var("REGARD_COMMIT").ok().filter(|_| results.is_some());
    let commit = commit
        .or_else(|| results.and_then(|_| checked_out(folder.unwrap_or(Path::new(".")))))
        .unwrap_or_else(|| "unknown".into());
    let name =
        regard::device::machine::processor().unwrap_or_else(|| "a processor that tells no name".into());
    let level = regard::device::Level::best();
    let device = match device {
        Choice::Cpu => String::new(),
        other => format!(", models on {other:?}"),
    };
    Provenance { commit, machine: format!("{name}, {level:?}{device}") }
}

/// Puts findings among those kept, and writes them all.
fn keep(
    path: &Path,
    kept: &mut serde_json::Value,
    outcomes_json: &serde_json::Value,
    provenance: &Provenance,
) -> Result<()> {
    *kept = regard_lab::merged(Some(&kept.to_string()), outcomes_json, provenance)?;
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
            writeln!(out, "      {}", regard_lab::site::sentence(outcome, finding))?;
            for judged in outcome.judgement().iter().flat_map(|judgement| &judgement.judged) {
                writeln!(out, "      {}", judged.in_words())?;
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
        for fault in outcome.faults() {
            writeln!(out, "      BROKEN: {fault}")?;
        }
    }
    let states = regard_lab::counted(outcomes.iter().map(Outcome::state));
    writeln!(out, "\n{} claims: {states}", outcomes.len())?;
    if let Some(folder) = site {
        writeln!(out, "pages: {}", folder.join("index.html").display())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::checked_out;
    use std::fs;

    #[test]
    fn the_commit_is_read_from_a_repository() {
        let folder = std::env::temp_dir().join(format!("regard-commit-{}", std::process::id()));
        let inner = folder.join("a/b");
        fs::create_dir_all(&inner).unwrap();
        fs::create_dir_all(folder.join(".git/refs/heads")).unwrap();
        let write = |name: &str, text: &str| fs::write(folder.join(".git").join(name), text).unwrap();
        write("HEAD", "0123abc\n");
        assert_eq!(checked_out(&inner).as_deref(), Some("0123abc"));
        write("HEAD", "ref: refs/heads/main\n");
        assert_eq!(checked_out(&inner), None, "a branch without a commit");
        write("packed-refs", "# pack-refs\n4567def refs/heads/other\n89abcde refs/heads/main\n");
        assert_eq!(checked_out(&inner).as_deref(), Some("89abcde"));
        write("refs/heads/main", "fedcba9\n");
        assert_eq!(checked_out(&inner).as_deref(), Some("fedcba9"), "what is newer than the packed ones");
        fs::remove_dir_all(&folder).unwrap();
    }
}
