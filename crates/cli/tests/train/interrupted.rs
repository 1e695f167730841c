//! A run that is interrupted ends as if nothing had been; a full disk and a damaged checkpoint lose nothing.

use super::scratch::{language, stages};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

fn started(mut command: Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts")
}

/// Waits until a run has written some lines of metrics.
fn wait_for_steps(metrics: &Path, child: &mut Child) {
    let began = Instant::now();
    while fs::read_to_string(metrics).map_or(0, |text| text.lines().count()) < 5 {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        assert!(began.elapsed() < Duration::from_secs(120), "it does not get on");
        sleep(Duration::from_millis(5));
    }
}

#[test]
fn an_interrupted_run_ends_as_if_nothing_had_been() {
    let scratch = language("interrupt");
    let long = ["train.steps=1500", "train.evaluate_every=400"];
    scratch.page(&[&["train", "tiny.toml", "--out", "runs/whole"][..], &long].concat());
    let mut child =
        started(scratch.command(&[&["train", "tiny.toml", "--out", "runs/parts"][..], &long].concat()));
    wait_for_steps(&scratch.path("runs/parts/metrics.jsonl"), &mut child);
    // While it runs, nobody else may train there.
    let message = scratch.refused(&["train", "--resume", "runs/parts"]);
    assert!(message.contains("another process is training in it; wait until it ends"), "{message}");
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let message = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(130), "{message}");
    assert!(message.starts_with("interrupted after step "), "{message}");
    assert!(message.ends_with(", and saved; go on with:\n  regard train --resume runs/parts\n"), "{message}");
    let message = scratch.refused(&["generate", "runs/parts", "--prompt", "a"]);
    assert!(
        message.contains(
            "runs/parts is a run without a trained model yet; let it come to its end: regard train --resume"
        ),
        "{message}"
    );
    let page = scratch.page(&["train", "--resume", "runs/parts"]);
    assert_eq!(page["steps"].as_u64(), Some(1500));
    let weights = |run: &str| fs::read(scratch.path(run).join("model/model.safetensors")).unwrap();
    assert!(weights("runs/parts") == weights("runs/whole"), "the same bits");
}

/// Whether this process was started with SIGHUP ignored, as the system says.
fn hangups_are_ignored() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

/// What schedulers, containers and terminals send before they end a process is met as Ctrl-C is.
#[test]
fn a_run_that_is_told_to_end_saves() {
    let scratch = language("told");
    for (signal, ignored) in [("TERM", ""), ("HUP", ""), ("HUP", "nohup")] {
        // Whoever runs the tests under nohup has said that terminals may go: children inherit that.
        if (signal, ignored) == ("HUP", "") && hangups_are_ignored() {
            eprintln!("skipped: SIGHUP, which is ignored in this process");
            continue;
        }
        let out = format!("runs/{signal}{ignored}");
        let arguments =
            ["train", "tiny.toml", "train.steps=100000", "train.evaluate_every=100000", "--out", &out];
        let command = match ignored {
            "" => scratch.command(&arguments),
            // Who began it so wants it to outlive the terminal.
            nohup => {
                let mut command = Command::new(nohup);
                command.arg(env!("CARGO_BIN_EXE_regard")).args(arguments).current_dir(&scratch.0);
                command
            }
        };
        let mut child = started(command);
        wait_for_steps(&scratch.path(&out).join("metrics.jsonl"), &mut child);
        let kill = |signal: &str, child: &Child| {
            let signal = format!("-{signal}");
            assert!(
                Command::new("kill").args([&signal, &child.id().to_string()]).status().unwrap().success()
            );
        };
        kill(signal, &child);
        if !ignored.is_empty() {
            let lines =
                || fs::read_to_string(scratch.path(&out).join("metrics.jsonl")).unwrap().lines().count();
            let (before, began) = (lines(), Instant::now());
            while lines() < before + 50 {
                assert!(
                    child.try_wait().unwrap().is_none(),
                    "it ended although it should outlive the terminal"
                );
                assert!(began.elapsed() < Duration::from_secs(120), "it does not get on");
                sleep(Duration::from_millis(5));
            }
            kill("TERM", &child);
        }
        let output = child.wait_with_output().unwrap();
        let message = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(130), "{signal}: {message}");
        assert!(message.starts_with("interrupted after step "), "{signal}: {message}");
        assert!(scratch.path(&out).join("checkpoints/last.safetensors").is_file());
    }
}

/// Somebody who reads the first lines and goes away (`| head`) does not end a run.
#[test]
fn a_run_that_nobody_listens_to_comes_to_its_end() {
    let scratch = language("unheard");
    let mut child = started(scratch.command(&["train", "tiny.toml", "train.steps=60"]));
    drop((child.stdout.take(), child.stderr.take()));
    assert!(child.wait().unwrap().success());
    assert!(scratch.path("runs/tiny/model/model.safetensors").is_file());
    // Nor does what cannot be said end anything but the command itself.
    let mut child = started(scratch.command(&["train", "tiny.toml"]));
    drop((child.stdout.take(), child.stderr.take()));
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let mut child = started(scratch.command(&["describe", "runs/tiny"]));
    drop((child.stdout.take(), child.stderr.take()));
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_full_disk_and_a_damaged_checkpoint_lose_nothing() {
    let scratch = language("full");
    scratch.page(&["train", "tiny.toml"]);
    let last = scratch.path("runs/tiny/checkpoints/last.safetensors");
    let before = fs::read(&last).unwrap();
    // Files may not grow past 16 KiB: a write beyond that is an error, as on a full disk, and no signal that
    // ends all.
    let script = format!(
        "ulimit -f 16; exec '{}' train --resume runs/tiny train.steps=60",
        env!("CARGO_BIN_EXE_regard")
    );
    let output = Command::new("bash").args(["-c", &script]).current_dir(&scratch.0).output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("step 40 was not saved: cannot write "), "{message}");
    assert!(message.contains("no file may grow that large here: see `ulimit -f`"), "{message}");
    assert!(
        message.contains("(of step 30) is unharmed: make room or mend the folder, then resume"),
        "{message}"
    );
    assert!(fs::read(&last).unwrap() == before);

    let mut damaged = before.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    fs::write(&last, &damaged).unwrap();
    let message = scratch.refused(&["train", "--resume", "runs/tiny"]);
    assert!(message.contains("it cannot be resumed from: "), "{message}");
    assert!(
        message.contains("best.safetensors is of the best step: copy it over this one to go on from there"),
        "{message}"
    );
    assert!(fs::read(&last).unwrap() == damaged, "nothing is repaired behind anybody's back");
    fs::copy(scratch.path("runs/tiny/checkpoints/best.safetensors"), &last).unwrap();
    scratch.page(&["train", "--resume", "runs/tiny", "train.steps=60"]);
}

/// The short form of `.ci/kills`: a run of two stages is killed at eight moments, from its first file on to
/// the end of its last stage, and ends in the bits of one that nobody disturbed.
#[test]
fn a_run_of_two_stages_that_is_killed_ends_in_the_same_bits() {
    let scratch = stages("killed");
    let more = ["train.steps=40", "stage.second.train.steps=40", "train.evaluate_every=2"];
    let began = Instant::now();
    scratch.page(&[&["train", "tiny.toml", "--out", "runs/whole"][..], &more].concat());
    let whole = began.elapsed();
    let mut kills = 0;
    let mut tries = 0;
    loop {
        tries += 1;
        assert!(tries < 200, "it does not come to its end");
        let begun = scratch.path("runs/parts/recipe.toml").exists();
        let mut child = started(match begun {
            true => scratch.command(&["train", "--resume", "runs/parts"]),
            false => scratch.command(&[&["train", "tiny.toml", "--out", "runs/parts"][..], &more].concat()),
        });
        if kills < 8 {
            // Later from kill to kill: each goes on from what the one before had saved.
            sleep(whole.mul_f64(0.1 + 0.05 * f64::from(kills)));
            child.kill().unwrap();
        }
        let output = child.wait_with_output().unwrap();
        match output.status.code() {
            None => kills += 1,
            Some(code) => {
                assert_eq!(code, 0, "{}", String::from_utf8_lossy(&output.stderr));
                break;
            }
        }
    }
    assert!(kills >= 3, "it was over after {kills} kills");
    for file in [
        "model/model.safetensors",
        "first/checkpoints/last.safetensors",
        "second/checkpoints/best.safetensors",
    ] {
        let [got, wanted] =
            ["runs/parts", "runs/whole"].map(|run| fs::read(scratch.path(run).join(file)).unwrap());
        assert!(got == wanted, "{file} differs");
    }
}
