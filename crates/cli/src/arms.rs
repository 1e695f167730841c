//! A study by a file: every arm with every seed, each a run of its own in `OUT/arm/seed`. What is done is
//! kept, what was interrupted goes on, so that the same command runs what is still missing; a table, a page
//! and a JSON file tell what all of them came to.

use crate::bars::Bars;
use crate::machine::Machine;
use anyhow::{Context, Result, bail};
use regard_data::whole;
use regard_models::Registry;
use regard_picture::{Section, Table, document, escaped};
use regard_recipe::arms::{Arms, PlannedRun};
use regard_recipe::job::RESULT;
use regard_recipe::{Job, Recipe};
use regard_train::report::loss_curves;
use regard_train::{End, History, RunFolder, RunPaths, Silent};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What has become of all runs: seconds and metrics of each.
const FILE: &str = "study.json";

/// How a study by a file is done.
pub struct How<'a> {
    /// The file.
    pub file: &'a Path,
    /// For all of its recipes.
    pub overrides: &'a [String],
    /// Where its runs go.
    pub out: &'a Path,
    /// Runs at a time.
    pub jobs: usize,
    /// After so long, runs end with a checkpoint and no other begins.
    pub limit: Option<Duration>,
    /// Print one JSON object.
    pub json: bool,
    /// Where to compute.
    pub machine: &'a Machine,
}

/// One run, and what is known of it.
struct OneRun {
    planned: PlannedRun,
    folder: PathBuf,
    /// Seconds so far, over all times that it was begun or gone on with.
    seconds: f64,
    done: bool,
}

/// Runs what is still missing, and tells of all.
pub fn run(how: &How, registry: &Registry, stop: &AtomicBool) -> Result<()> {
    let arms = Arms::open(how.file, how.overrides, registry)?;
    let mut runs = known(&arms, how.out, registry)?;
    let missing: Vec<usize> = (0..runs.len()).filter(|&at| !runs[at].done).collect();
    let bars = Bars::new(how.json);
    bars.print_line(&format!(
        "{} runs, {} of them done; {} at a time",
        runs.len(),
        runs.len() - missing.len(),
        how.jobs
    ));
    let failed = work(how, registry, stop, &mut runs, missing, &bars)?;
    let all_done = runs.iter().all(|one| one.done);
    // A study whose first run is refused leaves nothing behind.
    if failed.is_none() || runs.iter().any(|one| one.done) {
        tell(how, &arms, &runs)?;
    }
    match failed {
        Some(error) => Err(error),
        None if all_done => Ok(()),
        None => bail!(
            "{} of {} runs are still missing; the same command goes on with them",
            runs.iter().filter(|one| !one.done).count(),
            runs.len()
        ),
    }
}

/// All runs with what is known of them. A folder that another recipe made is refused: its figures are no part
/// of this study.
fn known(arms: &Arms, out: &Path, registry: &Registry) -> Result<Vec<OneRun>> {
    let seconds = kept_seconds(&out.join(FILE));
    let one = |planned: &PlannedRun| -> Result<OneRun> {
        let key = format!("{}/{}", planned.arm, planned.seed);
        let folder = out.join(&planned.arm).join(planned.seed.to_string());
        let paths = RunPaths::new(&folder);
        if paths.is_run() {
            let place = paths.recipe();
            let text =
                fs::read_to_string(&place).with_context(|| format!("cannot read {}", place.display()))?;
            let recipe = Recipe::parse(&text, &place.display().to_string(), &[], registry)?;
            if recipe.to_toml()? != planned.recipe.to_toml()? {
                bail!(
                    "{} was made by another recipe than the study has now; name another folder with --out, or take \
                     that run away",
                    folder.display()
                );
            }
        }
        let done = folder.join(RESULT).is_file();
        let seconds = seconds.get(&key).copied().unwrap_or(0.0);
        Ok(OneRun { planned: planned.clone(), folder, seconds, done })
    };
    arms.runs.iter().map(one).collect()
}

/// The seconds of runs in an earlier `study.json`; none where there is no whole one.
fn kept_seconds(path: &Path) -> BTreeMap<String, f64> {
    let page: Option<Value> = fs::read(path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let runs = page.as_ref().and_then(|page| page["runs"].as_array()).into_iter().flatten();
    runs.filter_map(|run| {
        let key = format!("{}/{}", run["arm"].as_str()?, run["seed"].as_u64()?);
        Some((key, run["seconds"].as_f64()?))
    })
    .collect()
}

/// Runs what is missing, so many at a time; the first failure ends the others in order.
fn work(
    how: &How,
    registry: &Registry,
    stop: &AtomicBool,
    runs: &mut [OneRun],
    missing: Vec<usize>,
    bars: &Bars,
) -> Result<Option<anyhow::Error>> {
    let until = how.limit.map(|limit| Instant::now() + limit);
    let over = || until.is_some_and(|until| Instant::now() >= until);
    let queue = Mutex::new(missing.into_iter());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let shared = Mutex::new((runs, None::<anyhow::Error>));
    let (finished, ended) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..how.jobs)
            .map(|_| {
                scope.spawn(|| -> Result<()> {
                    // A card serves each of them on a stream of its own.
                    let device = how.machine.device()?;
                    while !ended.load(Ordering::Relaxed) {
                        let Some(at) = next() else { break };
                        let (planned, folder) = {
                            let shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
                            (shared.0[at].planned.clone(), shared.0[at].folder.clone())
                        };
                        let began = Instant::now();
                        let outcome = one(&planned, &folder, registry, &device, &ended);
                        let took = began.elapsed().as_secs_f64();
                        let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
                        shared.0[at].seconds += took;
                        shared.0[at].done = matches!(outcome, Ok(true));
                        if let Err(error) = outcome {
                            ended.store(true, Ordering::Relaxed);
                            shared
                                .1
                                .get_or_insert(error.context(format!("{} {}", planned.arm, planned.seed)));
                            break;
                        }
                        bars.print_line(&line(&shared.0[at]));
                        write(how.out, &page(shared.0))?;
                    }
                    Ok(())
                })
            })
            .collect();
        // Runs end after the step at hand when somebody asks for it, or when the time is over.
        scope.spawn(|| {
            while !finished.load(Ordering::Relaxed) {
                if stop.load(Ordering::Relaxed) || over() {
                    ended.store(true, Ordering::Relaxed);
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let results: Vec<Result<()>> = workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|_| bail!("a run ended by a panic")))
            .collect();
        finished.store(true, Ordering::Relaxed);
        results.into_iter().collect::<Result<()>>()
    })?;
    Ok(shared.into_inner().unwrap_or_else(PoisonError::into_inner).1)
}

/// Begins or goes on with one run; whether it is done.
fn one(
    planned: &PlannedRun,
    folder: &Path,
    registry: &Registry,
    device: &regard::Device,
    stop: &AtomicBool,
) -> Result<bool> {
    let job = Job::new(&planned.recipe, registry)?;
    let kept = match RunPaths::new(folder).is_run() {
        true => RunFolder::resume(folder)?,
        false => RunFolder::create(folder, &planned.recipe.to_toml()?)?,
    };
    match job.train(&kept, device, &mut Silent, Some(stop)) {
        Ok(outcome) => Ok(outcome.end != End::Interrupted && outcome.result.is_some()),
        Err(error) => {
            kept.give_up();
            Err(error.into())
        }
    }
}

/// The metrics of a run that is done.
fn metrics(run: &OneRun) -> BTreeMap<String, f64> {
    let page: Option<Value> =
        fs::read(run.folder.join(RESULT)).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let of = |page: &Value| {
        let all = page["metrics"].as_object()?;
        Some(all.iter().filter_map(|(name, value)| Some((name.clone(), value.as_f64()?))).collect())
    };
    page.as_ref().and_then(of).unwrap_or_default()
}

fn line(run: &OneRun) -> String {
    let OneRun { planned: PlannedRun { arm, seed, .. }, seconds, done, .. } = run;
    if !done {
        return format!("{arm}, seed {seed}: not done after {seconds:.0} s");
    }
    let told = metrics(run).into_iter().map(|(name, value)| format!("{name} {value:.4}"));
    format!("{arm}, seed {seed}: {} after {seconds:.0} s", told.collect::<Vec<_>>().join(", "))
}

fn page(runs: &[OneRun]) -> Value {
    let all = runs.iter().map(|run| {
        json!({"arm": run.planned.arm, "seed": run.planned.seed, "done": run.done, "seconds": run.seconds,
               "metrics": metrics(run), "folder": run.folder.display().to_string()})
    });
    json!({"runs": all.collect::<Vec<_>>()})
}

fn write(out: &Path, page: &Value) -> Result<()> {
    fs::create_dir_all(out).with_context(|| format!("cannot make the folder {}", out.display()))?;
    let text = format!("{page:#}\n");
    Ok(whole::write(out.join(FILE), |file| file.write_all(text.as_bytes()))?)
}

/// One line for each arm and metric: the seeds in order, their mean, the least and the most.
fn table(runs: &[OneRun]) -> Table {
    let mut arms: Vec<&str> = runs.iter().map(|run| run.planned.arm.as_str()).collect();
    arms.dedup();
    let mut table = Table::new(["", "metric", "each seed", "mean", "least", "most", "seconds a run"]);
    for arm in arms {
        let own: Vec<&OneRun> = runs.iter().filter(|run| run.planned.arm == arm && run.done).collect();
        let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for (name, value) in own.iter().flat_map(|run| metrics(run)) {
            values.entry(name).or_default().push(value);
        }
        let seconds = own.iter().map(|run| run.seconds).sum::<f64>() / own.len().max(1) as f64;
        for (name, values) in values {
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let (least, most) = values.iter().fold((f64::MAX, f64::MIN), |(a, b), &x| (a.min(x), b.max(x)));
            let each: Vec<String> = values.iter().map(|x| format!("{x:.4}")).collect();
            table = table.row([
                arm.to_string(),
                name,
                each.join(" "),
                format!("{mean:.4}"),
                format!("{least:.4}"),
                format!("{most:.4}"),
                format!("{seconds:.0}"),
            ]);
        }
    }
    table
}

/// The losses of every stage, a line for each run.
fn curves(runs: &[OneRun]) -> Result<String> {
    let mut stages: Vec<String> = Vec::new();
    for name in runs.iter().flat_map(|run| run.planned.recipe.stage.iter().map(|stage| &stage.name)) {
        if !stages.contains(name) {
            stages.push(name.clone());
        }
    }
    let mut html = String::new();
    for stage in stages.iter().map(Some).chain([None]) {
        let mut histories = Vec::new();
        for run in runs.iter().filter(|run| run.planned.recipe.stage.is_empty() == stage.is_none()) {
            let folder = stage.map_or(run.folder.clone(), |stage| run.folder.join(stage));
            let history = History::read(&RunPaths::new(folder).metrics())?;
            if !history.steps.is_empty() {
                histories.push((format!("{} {}", run.planned.arm, run.planned.seed), history));
            }
        }
        let lines: Vec<(&str, &History)> = histories.iter().map(|(name, all)| (name.as_str(), all)).collect();
        if !lines.is_empty() {
            html += &loss_curves(&[(stage.map_or("Loss", String::as_str), lines)]);
        }
    }
    Ok(html)
}

/// The table, the page and the file.
fn tell(how: &How, arms: &Arms, runs: &[OneRun]) -> Result<()> {
    let summary = page(runs);
    write(how.out, &summary)?;
    let table = table(runs);
    let report = how.out.join("report.html");
    let parts = [
        Section { title: "What they came to".into(), html: table.html(escaped) },
        Section { title: "Curves".into(), html: curves(runs)? },
    ];
    let lead = format!("{} runs by {}.", runs.len(), how.file.display());
    let html = document(&arms.title, &lead, &parts);
    whole::write(&report, |file| file.write_all(html.as_bytes()))?;
    let mut out = std::io::stdout().lock();
    if how.json {
        writeln!(out, "{summary}")?;
    } else {
        write!(out, "{}", table.text())?;
        writeln!(out, "\nreport: {}", report.display())?;
    }
    Ok(())
}
