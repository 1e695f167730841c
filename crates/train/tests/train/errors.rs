//! What is refused, and in which words: folders, checkpoints, settings.

use crate::tiny::*;
use regard_train::*;
use std::sync::atomic::AtomicBool;

fn text<T>(result: Result<T>) -> String {
    result.err().expect("it should be refused").to_string()
}

#[test]
fn folders_that_cannot_be_used() {
    let path = Temporary::new("folders");
    let folder = RunFolder::create(path.path(), "a = 1\n").unwrap();
    assert_eq!(folder.recipe(), "a = 1\n");
    let busy = text(RunFolder::create(path.path(), ""));
    assert!(busy.contains("another process is training in it"), "{busy}");
    drop(folder);
    let taken = text(RunFolder::create(path.path(), ""));
    assert!(taken.ends_with("it has a run already; resume it, or name another folder"), "{taken}");
    assert_eq!(RunFolder::resume(path.path()).unwrap().recipe(), "a = 1\n");
    let none = text(RunFolder::resume(path.path().join("checkpoints")));
    assert!(none.ends_with("it has no recipe.toml; name the folder of a run"), "{none}");
    let gone = text(RunFolder::resume(path.path().join("gone")));
    assert!(
        gone.ends_with("there is no such folder; name the folder of a run: `regard runs` lists them"),
        "{gone}"
    );
    // A part of the path is a file.
    let below = text(RunFolder::create(path.path().join("recipe.toml").join("run"), ""));
    assert!(below.starts_with("cannot make ") && below.contains("not a folder"), "{below}");
}

#[test]
fn a_damaged_checkpoint_is_not_resumed_from() {
    let path = Temporary::new("damaged");
    let folder = RunFolder::create(path.path(), "").unwrap();
    let mut trial = Trial { folder: Some(&folder), ..Trial::new(settings(20)) };
    trial.evaluation = Some(POINTS);
    trial.run().unwrap();
    let good = std::fs::read(folder.last()).unwrap();
    let resume = || text(Trial { folder: Some(&folder), ..Trial::new(settings(30)) }.run());
    // One bit among the tensors, one among the trainer's own words, a file cut short.
    let step = good.windows(8).position(|w| w == b"\"step\":2").unwrap() + 7;
    for (place, what) in [(good.len() / 2, "checksum"), (step, "checksum")] {
        let mut bad = good.clone();
        bad[place] ^= 1;
        std::fs::write(folder.last(), bad).unwrap();
        let text = resume();
        assert!(text.contains("it cannot be resumed from") && text.contains(what), "{text}");
        assert!(text.contains("best.safetensors is of the best step: copy it over this one"), "{text}");
    }
    std::fs::write(folder.last(), &good[..good.len() / 2]).unwrap();
    assert!(resume().contains("it cannot be resumed from"));
    std::fs::copy(folder.best(), folder.last()).unwrap();
    Trial { folder: Some(&folder), ..Trial::new(settings(30)) }.run().unwrap();
    // A checkpoint of something else.
    std::fs::remove_file(folder.best()).unwrap();
    let other = regard_data::Save { name: "w", shape: &[1], data: regard_data::Data::F32(&[1.0]) };
    regard_data::save_file(folder.last(), &[other], &regard_data::SaveOptions::default()).unwrap();
    let text = resume();
    assert!(
        text.contains("the tensor `trainer`, is missing or no proper JSON; it was not written by"),
        "{text}"
    );
}

#[test]
fn changed_settings_and_models_are_named() {
    let path = Temporary::new("changed");
    let folder = RunFolder::create(path.path(), "").unwrap();
    let run = |settings: Settings, network: Network| {
        Trial { folder: Some(&folder), network, ..Trial::new(settings) }.run()
    };
    run(settings(5), SMALL).unwrap();
    let other = Settings { learning_rate: 0.5, clip: None, ..settings(10) };
    let changed = text(run(other, SMALL));
    assert!(
        changed.ends_with(
            "the settings have changed since this run began: learning_rate was `0.02`, is `0.5`, clip was `1`, is \
             `none`; put them back, or begin another run"
        ),
        "{changed}"
    );
    let about = vec![("data".to_string(), "other.txt".to_string())];
    let changed = text(run(Settings { about, ..settings(10) }, SMALL));
    assert!(changed.contains("began: data was `not given`, is `other.txt`; put"), "{changed}");
    let wider = text(run(settings(10), Network { width: 32, ..SMALL }));
    assert!(wider.contains("is [4, 16], the model has [4 32]; the model has changed since"), "{wider}");
    // How long, how often saved and how often told may change.
    let longer = Settings { log_every: 2, save: Every::Steps(3), ..settings(10) };
    assert_eq!(run(longer, SMALL).unwrap().0.state.step, 10);
}

#[test]
fn settings_that_make_no_sense() {
    let refused = |settings: Settings| text(Trial::new(settings).run());
    let base = || settings(1);
    let schedule = Schedule { floor: -1.0, ..Schedule::CONSTANT };
    let divergence = |factor: f64, steps: u64| Some(Divergence { factor, steps });
    let goal = Goal { patience: Some(0), ..Goal::default() };
    for (settings, wanted) in [
        (Settings { learning_rate: 0.0, ..base() }, "the learning rate is 0; give a number above 0"),
        (Settings { learning_rate: f64::NAN, ..base() }, "the learning rate is NaN; give a number above 0"),
        (Settings { clip: Some(-1.0), ..base() }, "the clip is -1; give a number above 0"),
        (
            Settings { schedule, ..base() },
            "the schedule's floor is -1; give a part of the learning rate, from 0 to 1",
        ),
        (Settings { micro_batches: 0, ..base() }, "micro_batches is 0; give at least 1"),
        (Settings { log_every: 0, ..base() }, "log_every is 0; give at least 1"),
        (Settings { length: Length::Epochs(0), ..base() }, "the length of the run is 0; give at least 1"),
        (Settings { evaluate: Every::Steps(0), ..base() }, "`evaluate` every is 0; give at least 1"),
        (Settings { save: Every::Epochs(0), ..base() }, "`save` every is 0; give at least 1"),
        (Settings { goal, ..base() }, "patience is 0; give at least 1"),
        (
            Settings { divergence: divergence(2.0, 0), ..base() },
            "the steps of a divergence is 0; give at least 1",
        ),
        (
            Settings { divergence: divergence(1.0, 5), ..base() },
            "a loss of 1 times the best counts as divergence; give a factor above 1",
        ),
    ] {
        assert_eq!(refused(settings), wanted);
    }
}

#[test]
fn a_run_that_cannot_fit_is_refused_before_memory_is_taken() {
    // The hidden weights alone have 2 TiB.
    let trial = Trial { network: Network { width: 1 << 36, ..SMALL }, ..Trial::new(settings(1)) };
    let text = text(trial.run());
    assert!(
        text.starts_with("the run needs about ") && text.contains("of memory are available; take a smaller"),
        "{text}"
    );
}

/// Cannot.
struct Broken;

impl Examiner for Broken {
    fn examine(
        &mut self,
        _step: u64,
        _store: &mut regard_engine::Store,
    ) -> Result<Vec<(String, f64)>, Box<dyn std::error::Error + Send + Sync>> {
        Err("no questions".into())
    }
}

#[test]
fn metrics_that_are_not_there() {
    let goal = Goal { metric: "accuracy".into(), ..Goal::default() };
    let mut trial = Trial::new(Settings { goal, ..settings(1) });
    trial.evaluation = Some(POINTS);
    assert_eq!(
        text(trial.run()),
        "no metric is called `accuracy`, by which the best is chosen; the evaluation gives loss"
    );
    let stop = AtomicBool::new(false);
    let broken = Trial::new(settings(1)).run_with(&mut Silent, Some(&mut Broken), &stop);
    assert_eq!(text(broken), "the metrics at step 1 could not be found: no questions");
    let mut trial = Trial::new(settings(1));
    trial.evaluation = Some(Points { batches: 0, ..POINTS });
    assert_eq!(
        text(trial.run()),
        "the evaluation source has no targets; give it data, or train without an evaluation"
    );
}

/// Has fewer batches each time it is asked.
struct Shrinking(std::sync::atomic::AtomicUsize);

impl regard_data::Source for Shrinking {
    fn batches(&self, _epoch: u64) -> usize {
        self.0.fetch_sub(1, std::sync::atomic::Ordering::SeqCst)
    }

    fn batch(&self, epoch: u64, index: usize) -> Result<regard_data::Batch, regard_data::Error> {
        regard_data::Source::batch(&POINTS, epoch, index)
    }
}

#[test]
fn a_source_that_changes_is_found_out() {
    let (cpu, mut store) = (regard_engine::Cpu::new().unwrap(), regard_engine::Store::new(0));
    let mut trainer = Trainer::new(&SMALL, settings(1000), &mut store, &cpu).unwrap();
    let source = std::sync::Arc::new(Shrinking(std::sync::atomic::AtomicUsize::new(100)));
    let text = text(trainer.run(&mut store, Run::new(source)));
    assert!(text.contains("and had another number before; a source must give the same number"), "{text}");
}

#[test]
fn the_report_is_whole_and_needs_nothing_else() {
    let path = Temporary::new("report <&>");
    let folder = RunFolder::create(path.path(), "# a <b> & \"c\"\n").unwrap();
    let mut trial = Trial { folder: Some(&folder), ..Trial::new(settings(40)) };
    trial.evaluation = Some(POINTS);
    let (outcome, _) = trial.run().unwrap();
    let page = std::fs::read_to_string(folder.report()).unwrap();
    for part in [
        "<!doctype html>",
        "a &lt;b&gt; &amp; &quot;c&quot;",
        "Gradient norm",
        "AdamW",
        "best loss",
        "</html>",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert_eq!(regard_picture::check::fault(&page), None);
    assert!(!page.contains("http") && !page.contains("<script") && !page.contains("<b> &"), "{page}");
    let sections = [Section { title: "Wrong <answers>".into(), html: "<p>none</p>".into() }];
    report::write(&folder, &settings(40), &outcome.state, &outcome.history, &sections).unwrap();
    let page = std::fs::read_to_string(folder.report()).unwrap();
    assert!(page.contains("<h2>Wrong &lt;answers&gt;</h2><p>none</p>"));
}

#[test]
fn the_last_report_is_left_to_who_knows_more() {
    let cpu = regard_engine::Cpu::with(1, regard_device::Level::best()).unwrap();
    for (save, step_of_report) in [(Every::End, None), (Every::Steps(10), Some("Step 10,"))] {
        let path = Temporary::new("caller");
        let folder = RunFolder::create(path.path(), "").unwrap();
        let mut store = regard_engine::Store::new(0);
        let mut trainer = Trainer::new(&SMALL, Settings { save, ..settings(15) }, &mut store, &cpu).unwrap();
        let mut run = Run::new(std::sync::Arc::new(POINTS));
        (run.folder, run.reported_by_caller) = (Some(&folder), true);
        trainer.run(&mut store, run).unwrap();
        assert!(folder.last().is_file(), "the checkpoint of the end is the loop's own");
        let page = std::fs::read_to_string(folder.report()).ok();
        assert_eq!(page.is_some(), step_of_report.is_some());
        if let Some((page, step)) = page.zip(step_of_report) {
            assert!(page.contains(step), "the newest on the way: {page}");
        }
    }
}

#[test]
fn a_trainer_outside_of_a_run() {
    let cpu = regard_engine::Cpu::with(1, regard_device::Level::best()).unwrap();
    let mut store = regard_engine::Store::new(0);
    let idle = Settings { learning_rate: 0.0, ..settings(1) };
    assert_eq!(
        text(Trainer::new(&SMALL, idle, &mut store, &cpu)),
        "the learning rate is 0; give a number above 0"
    );
    let none = first_not_finite(&SMALL, &settings(1), &[], 1, &mut regard_engine::Store::new(0), &cpu);
    let message = text(none);
    assert!(message.starts_with("no parameter or state is called `hidden.weight`"), "{message}");
    let mut trainer: Trainer = Trainer::new(&SMALL, settings(1), &mut store, &cpu).unwrap();
    assert_eq!(
        text(trainer.step(&[], &mut store)),
        "no target counts in the batch of step 1; check what the source masks: a batch without targets teaches nothing"
    );
    let path = Temporary::new("outside");
    let folder = RunFolder::create(path.path(), "").unwrap();
    let message = text(trainer.restore(&path.path().join("none.safetensors"), &mut store));
    assert!(message.contains("none.safetensors: No such file or directory"), "{message}");
    let message = text(trainer.save(&path.path().join("no/x.safetensors"), "", &store));
    assert!(message.starts_with("cannot write ") && message.ends_with("; check the path"), "{message}");
    std::fs::create_dir(path.path().join("report.html")).unwrap();
    let message = text(report::write(&folder, trainer.settings(), trainer.state(), &History::default(), &[]));
    assert!(message.ends_with("report.html: is a folder; name a file to write"), "{message}");
}
