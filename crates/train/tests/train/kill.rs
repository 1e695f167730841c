//! Kills at any moment: a child process trains in a folder and is killed again and again, some of the times
//! while it writes a checkpoint, and ends with the same bytes as a run that nobody disturbed.

use crate::tiny::*;
use regard_train::*;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The folder in which the child trains.
const FOLDER: &str = "REGARD_TRAIN_CHILD";
const KILLS: u32 = 20;
/// How many of the kills must have come while a checkpoint was being written.
const WHILE_WRITING: u32 = 3;

/// A run that checkpoints all the time, and ends when patience does.
fn trial(folder: &RunFolder) -> Trial<'_> {
    let goal = Goal { patience: Some(12), ..Goal::default() };
    let settings = Settings {
        evaluate: Every::Steps(3),
        save: Every::Steps(1),
        goal,
        micro_batches: 2,
        learning_rate: 0.01,
        schedule: Schedule { shape: Shape::Cosine, unit: Unit::Tokens, warm_up: 100, end: 5_000, floor: 0.1 },
        ..settings(400)
    };
    let network = Network { width: 2048, ..SMALL };
    let evaluation = Some(Points { seed: 77, batches: 3, ..POINTS });
    Trial { network, evaluation, folder: Some(folder), ..Trial::new(settings) }
}

fn open(path: &Path) -> Result<RunFolder> {
    match path.join("recipe.toml").exists() {
        true => RunFolder::resume(path),
        false => RunFolder::create(path, "width = 2048\n"),
    }
}

/// The body of the child, when this test is run as one; by itself, a run that is interrupted politely and
/// resumed.
#[test]
fn child() {
    if let Ok(path) = std::env::var(FOLDER) {
        match open(Path::new(&path)).and_then(|folder| trial(&folder).run()) {
            Ok(_) => std::process::exit(0),
            Err(error) => {
                eprintln!("child: {error}");
                std::process::exit(3);
            }
        }
    }
    let (whole, parts) = (Temporary::new("whole"), Temporary::new("parts"));
    let folder = RunFolder::create(whole.path(), "width = 2048\n").unwrap();
    let (wanted, _) = trial(&folder).run().unwrap();
    assert_eq!(wanted.end, End::EarlyStop, "at step {}", wanted.state.step);
    for step in [1, 6, 7, 20] {
        let folder = open(parts.path()).unwrap();
        let stop = AtomicBool::new(false);
        let (outcome, _) = trial(&folder).run_with(&mut StopAt(step, &stop), None, &stop).unwrap();
        let text = format!("interrupted at step {step}; resume with the folder {}", parts.path().display());
        assert_eq!(outcome.sentence(Some(&folder)), text);
    }
    let folder = open(parts.path()).unwrap();
    let (outcome, _) = trial(&folder).run().unwrap();
    assert_eq!(outcome.state, wanted.state);
    same_run(parts.path(), whole.path());
    // A finished run that is resumed is still finished.
    let (again, _) = trial(&folder).run().unwrap();
    assert_eq!((again.end, again.state), (End::EarlyStop, wanted.state));
    same_run(parts.path(), whole.path());
}

pub fn start(path: &Path, limits: Option<&str>) -> Child {
    let test = std::env::current_exe().unwrap();
    let mut command = match limits {
        None => Command::new(&test),
        Some(limits) => {
            let mut shell = Command::new("sh");
            shell.arg("-c").arg(format!("{limits}; exec \"$0\" \"$@\"")).arg(&test);
            shell
        }
    };
    command.args(["--exact", "kill::child", "--nocapture"]).env(FOLDER, path);
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

fn same_run(got: &Path, wanted: &Path) {
    for name in ["checkpoints/last.safetensors", "checkpoints/best.safetensors"] {
        let [got, wanted] = [got, wanted].map(|folder| std::fs::read(folder.join(name)).unwrap());
        assert!(got == wanted, "{name} differs");
    }
    let [got, wanted] = [got, wanted].map(|folder| History::read(&folder.join("metrics.jsonl")).unwrap());
    let numbers = |history: &History| -> Vec<(u64, u64, f64, f64, f64, u64)> {
        let line = |r: &StepRecord| (r.step, r.epoch, r.loss, r.rate, r.gradient_norm, r.tokens);
        history.steps.iter().map(line).collect()
    };
    assert_eq!(numbers(&got), numbers(&wanted));
    let steps: Vec<u64> = got.steps.iter().map(|record| record.step).collect();
    assert_eq!(steps, (1..=steps.len() as u64).collect::<Vec<_>>(), "every step once");
    assert_eq!(got.evaluations, wanted.evaluations);
}

/// Whether a checkpoint is half written in a folder.
fn is_writing(path: &Path) -> bool {
    let items = std::fs::read_dir(path.join("checkpoints")).into_iter().flatten().flatten();
    items.map(|item| item.file_name()).any(|name| name.to_string_lossy().ends_with(".partial"))
}

#[test]
fn killed_at_any_moment_it_ends_with_the_same_bytes() {
    let whole = Temporary::new("undisturbed");
    let folder = RunFolder::create(whole.path(), "width = 2048\n").unwrap();
    trial(&folder).run().unwrap();
    let random = regard_device::Stream::new(u64::from(std::process::id()), 0, "kills");
    let (mut kills, mut while_writing, mut finished, mut tries) = (0, 0, 0, 0);
    while kills < KILLS || while_writing < WHILE_WRITING {
        tries += 1;
        assert!(tries < 400, "{kills} kills, {while_writing} of them while writing");
        let path = Temporary::new(&format!("killed-{finished}"));
        loop {
            let mut child = start(path.path(), None);
            let wait = 1 + random.bits(tries, kills, 0) % 120;
            tries += 1;
            std::thread::sleep(Duration::from_millis(wait.into()));
            if let Some(status) = child.try_wait().unwrap() {
                assert!(status.success(), "the child failed by itself: {status}");
                break;
            }
            child.kill().unwrap();
            let status = child.wait().unwrap();
            kills += u32::from(!status.success());
            while_writing += u32::from(is_writing(path.path()));
        }
        finished += 1;
        same_run(path.path(), whole.path());
        assert!(!is_writing(path.path()), "what killed writers left is gone");
    }
}

#[test]
fn a_lock_of_a_dead_process_is_no_lock() {
    let path = Temporary::new("dead");
    let mut child = start(path.path(), None);
    while !path.path().join("checkpoints/last.safetensors").exists() {
        assert!(child.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(1));
    }
    let text = RunFolder::resume(path.path()).unwrap_err().to_string();
    assert!(
        text.contains("another process is training in it; wait until it ends, stop it, or name another"),
        "{text}"
    );
    child.kill().unwrap();
    child.wait().unwrap();
    RunFolder::resume(path.path()).unwrap();
}

#[test]
fn a_full_disk_leaves_the_checkpoint_before() {
    let path = Temporary::new("full");
    let folder = RunFolder::create(path.path(), "width = 2048\n").unwrap();
    let stop = AtomicBool::new(false);
    trial(&folder).run_with(&mut StopAt(4, &stop), None, &stop).unwrap();
    drop(folder);
    let last = path.path().join("checkpoints/last.safetensors");
    let before = std::fs::read(&last).unwrap();
    // Files of this child may not grow past 100 blocks; a write beyond that is an error, as on a full disk.
    let child = start(path.path(), Some("trap '' XFSZ; ulimit -f 100"));
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{text}");
    for part in [
        "child: step 5 was not saved: cannot write ",
        "last.safetensors",
        "the checkpoint before it (of step 4) is unharmed: make room or mend the folder, then resume",
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert!(std::fs::read(&last).unwrap() == before);
    assert!(!is_writing(path.path()));
    let status = start(path.path(), None).wait().unwrap();
    assert!(status.success(), "with room again, it goes on");
}
