//! A disk that fails: each write, each sync and each rename of a run fails once. Whatever was whole before is
//! whole after it, the run says what happened, and with the disk mended it ends in the same bits. The faults
//! come from a small library between the command and the system (`faults.c`), so that the command is the one
//! that people use.
#![cfg(target_os = "linux")]

use super::scratch::{Scratch, stages};
use regard_data::Checkpoint;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A disk that fails.
struct Disk {
    scratch: Scratch,
    library: PathBuf,
}

impl Disk {
    /// One that can be made to fail; none where there is no C compiler.
    fn new(name: &str) -> Option<Disk> {
        let scratch = stages(name);
        let (source, library) =
            (concat!(env!("CARGO_MANIFEST_DIR"), "/tests/train/faults.c"), scratch.path("faults.so"));
        let built =
            Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).status();
        match built {
            Ok(status) => assert!(status.success(), "faults.c compiles"),
            Err(error) => {
                eprintln!("skipped: a disk that fails (no C compiler here: {error})");
                return None;
            }
        }
        Some(Disk { scratch, library })
    }

    /// The command with the fault of this number.
    fn run(&self, arguments: &[&str], kind: &str, at: usize) -> Output {
        let mut command = self.scratch.command(arguments);
        command.env("LD_PRELOAD", &self.library).env("FAULTS_KIND", kind).env("FAULTS_AT", at.to_string());
        // The folder as the system names it, for links may lead to it.
        command.env("FAULTS_FOLDER", fs::canonicalize(&self.scratch.0).unwrap().join("runs"));
        command.env("FAULTS_COUNT", self.scratch.path("count"));
        command.output().expect("the command starts")
    }

    /// How many operations there were since the last time.
    fn counted(&self) -> usize {
        let path = self.scratch.path("count");
        let length = fs::metadata(&path).map_or(0, |known| known.len() as usize);
        let _ = fs::remove_file(path);
        length
    }

    /// The weights of a run that is over, and of the checkpoints of its stages.
    fn bits(&self, run: &str) -> Vec<Vec<u8>> {
        let files = ["model/model.safetensors", "first/checkpoints/last.safetensors"];
        let more = ["first/checkpoints/best.safetensors", "second/checkpoints/last.safetensors"];
        files.iter().chain(&more).map(|file| fs::read(self.scratch.path(run).join(file)).unwrap()).collect()
    }

    /// Lets a run that failed go on, or begin if it had not begun.
    fn go_on(&self, run: &str) {
        let begun = self.scratch.path(run).join("recipe.toml").exists();
        let output = match begun {
            true => self.scratch.regard(&["train", "--resume", run]),
            false => self.scratch.regard(&["train", "tiny.toml", "--out", run]),
        };
        assert!(output.status.success(), "{run}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// What stands under its final name is whole: every checkpoint carries its checksum, every JSON can be read.
fn check_whole(folder: &Path) {
    for item in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = item.path();
        let name = item.file_name().into_string().unwrap();
        if path.is_dir() {
            check_whole(&path);
        } else if name.starts_with('.') {
            // A hidden file that nobody names: what was being written.
        } else if name.ends_with(".safetensors") {
            let checkpoint =
                Checkpoint::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert!(checkpoint.verify().unwrap(), "{}", path.display());
        } else if name.ends_with(".json") {
            let text = fs::read_to_string(&path).unwrap();
            assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{}: {text}", path.display());
        } else if name.ends_with(".html") {
            assert!(fs::read_to_string(&path).unwrap().trim_end().ends_with("</html>"), "{}", path.display());
        }
    }
}

/// All checkpoints of a run, by path.
fn checkpoints(disk: &Disk, run: &str) -> Vec<(String, Vec<u8>)> {
    let stages = ["first", "second"].into_iter();
    let names = stages
        .flat_map(|stage| ["last", "best"].map(|name| format!("{stage}/checkpoints/{name}.safetensors")));
    names
        .filter_map(|name| Some((name.clone(), fs::read(disk.scratch.path(run).join(&name)).ok()?)))
        .collect()
}

#[test]
fn whatever_fails_once_loses_nothing() {
    let Some(disk) = Disk::new("faults") else { return };
    let output = disk.run(&["train", "tiny.toml", "--out", "runs/whole"], "none", 0);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (operations, wanted) = (disk.counted(), disk.bits("runs/whole"));
    assert!(operations > 40, "only {operations} writes, syncs and renames were seen");
    for at in 1..=operations {
        let run = format!("runs/{at}");
        let kind = if at % 2 == 0 { "space" } else { "device" };
        let output = disk.run(&["train", "tiny.toml", "--out", &run], kind, at);
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(disk.counted() >= at, "operation {at} was reached");
        assert!(!message.contains("panicked"), "operation {at}: {message}");
        assert!(matches!(output.status.code(), Some(0 | 1)), "operation {at}: {:?} {message}", output.status);
        check_whole(&disk.scratch.path(&run));
        // What stands there is gone on from, and ends in the same bits.
        disk.go_on(&run);
        assert!(disk.bits(&run) == wanted, "operation {at}: other bits than without a fault");
        check_whole(&disk.scratch.path(&run));
        fs::remove_dir_all(disk.scratch.path(&run)).unwrap();
    }
}

#[test]
fn a_run_that_goes_on_and_fails_keeps_the_checkpoints_before() {
    let Some(disk) = Disk::new("faults-on") else { return };
    let begin = |run: &str| {
        let output = disk.scratch.regard(&["train", "tiny.toml", "--out", run]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    begin("runs/whole");
    let more: &[&str] = &["train", "--resume", "runs/whole", "stage.second.train.steps=2"];
    let output = disk.run(more, "none", 0);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (operations, wanted) = (disk.counted(), disk.bits("runs/whole"));
    assert!(operations > 8, "only {operations} writes, syncs and renames were seen");
    begin("runs/before");
    let before = checkpoints(&disk, "runs/before");
    assert_eq!(before.len(), 4);
    for at in 1..=operations {
        let copied =
            Command::new("cp").args(["-r", "runs/before", "runs/now"]).current_dir(&disk.scratch.0).status();
        assert!(copied.unwrap().success());
        let kind = if at % 2 == 0 { "device" } else { "space" };
        let arguments = ["train", "--resume", "runs/now", "stage.second.train.steps=2"];
        let output = disk.run(&arguments, kind, at);
        disk.counted();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(0 | 1)), "operation {at}: {:?} {message}", output.status);
        check_whole(&disk.scratch.path("runs/now"));
        let now = checkpoints(&disk, "runs/now");
        assert_eq!(now.len(), 4, "operation {at}: a checkpoint is gone");
        for ((name, old), (_, new)) in
            before.iter().zip(&now).filter(|((name, _), _)| name.starts_with("first"))
        {
            assert!(old == new, "operation {at}: {name} was over, and is another now");
        }
        let output = disk.scratch.regard(&arguments);
        assert!(output.status.success(), "operation {at}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(disk.bits("runs/now") == wanted, "operation {at}: other bits than without a fault");
        fs::remove_dir_all(disk.scratch.path("runs/now")).unwrap();
    }
}

#[test]
fn short_writes_change_nothing() {
    let Some(disk) = Disk::new("short") else { return };
    let output = disk.run(&["train", "tiny.toml", "--out", "runs/whole"], "none", 0);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let plain = disk.counted();
    let output = disk.run(&["train", "tiny.toml", "--out", "runs/short"], "short", 0);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let short = disk.counted();
    assert!(short > 2 * plain, "{short} operations with writes of half the bytes, {plain} without");
    assert!(disk.bits("runs/short") == disk.bits("runs/whole"));
    check_whole(&disk.scratch.path("runs/short"));
}
