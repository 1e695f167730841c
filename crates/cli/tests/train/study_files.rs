//! Studies by a file: every arm with every seed, what is done is kept, what is missing is run.

use super::scratch::{LANGUAGE, Scratch};
use std::fs;

const STUDY: &str = r#"
title = "Which rate?"
seeds = [1, 2]
[[arm]]
name = "slow"
recipe = "tiny.toml"
[[arm]]
name = "fast rate"
recipe = "tiny.toml"
set = ["train.lr=3e-2"]
"#;

fn scratch() -> Scratch {
    let scratch = Scratch::new("arms");
    scratch.write("tiny.toml", LANGUAGE);
    scratch.write("text.txt", "The quick brown fox jumps over the lazy dog. ".repeat(40));
    scratch.write("study.toml", STUDY);
    scratch
}

#[test]
fn a_study_by_a_file_runs_what_is_missing() {
    let scratch = scratch();
    let study = ["study", "study.toml", "--out", "out", "--device", "cpu", "--threads", "1"];
    let page = scratch.page(&[&study[..], &["--jobs", "2"]].concat());
    let runs = page["runs"].as_array().unwrap();
    let told: Vec<_> =
        runs.iter().map(|run| (run["arm"].as_str().unwrap(), run["seed"].as_u64().unwrap())).collect();
    assert_eq!(told, [("slow", 1), ("slow", 2), ("fast rate", 1), ("fast rate", 2)]);
    assert!(runs.iter().all(|run| run["done"] == true && run["seconds"].as_f64().unwrap() > 0.0), "{page}");
    let weights = |at: &str| fs::read(scratch.path(at).join("model/model.safetensors")).unwrap();
    let first = weights("out/fast rate/2");
    assert_ne!(first, weights("out/slow/2"), "the arm's own rate was used");

    // One that is gone is run again, to the same bits; the others are left as they are.
    fs::remove_dir_all(scratch.path("out/fast rate/2")).unwrap();
    let before = fs::metadata(scratch.path("out/slow/1/result.json")).unwrap().modified().unwrap();
    let output = scratch.regard(&study);
    let (told, heard) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(heard.contains("4 runs, 3 of them done; 1 at a time"), "{heard}");
    assert_eq!(weights("out/fast rate/2"), first);
    assert_eq!(fs::metadata(scratch.path("out/slow/1/result.json")).unwrap().modified().unwrap(), before);
    // A line for each arm, with both of its seeds.
    let line = told.lines().find(|line| line.starts_with("fast rate")).unwrap();
    assert!(line.split_whitespace().filter(|word| word.parse::<f64>().is_ok()).count() >= 5, "{told}");
    let page = fs::read_to_string(scratch.path("out/report.html")).unwrap();
    assert!(page.contains("Which rate?") && page.contains("fast rate 2"), "table and curves");

    // Figures of another recipe are no part of it.
    let message = scratch.refused(&[&study[..2], &["train.batch=4"], &study[2..]].concat());
    assert!(message.contains("out/slow/1 was made by another recipe than the study has now"), "{message}");
}

#[test]
fn a_study_that_ran_out_of_time_goes_on() {
    let scratch = scratch();
    let study =
        ["study", "study.toml", "train.steps=400", "--out", "out", "--device", "cpu", "--threads", "1"];
    let output = scratch.regard(&[&study[..], &["--minutes", "0.001"]].concat());
    let heard = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{heard}");
    assert!(heard.contains("runs are still missing; the same command goes on with them"), "{heard}");
    scratch.printed(&study);
    scratch.printed(&[
        "train",
        "tiny.toml",
        "train.steps=400",
        "seed=1",
        "--out",
        "alone",
        "--device",
        "cpu",
        "--threads",
        "1",
    ]);
    let weights = |at: &str| fs::read(scratch.path(at).join("model/model.safetensors")).unwrap();
    assert_eq!(weights("out/slow/1"), weights("alone"), "as if it had never been interrupted");
}

#[test]
fn a_study_that_cannot_run_leaves_nothing_behind() {
    let scratch = scratch();
    let study = ["study", "study.toml", "--out", "out", "--device", "cpu"];
    let message = scratch.refused(&[&study[..2], &["data.train=no.txt"], &study[2..]].concat());
    assert!(message.contains("no.txt"), "{message}");
    assert!(!scratch.path("out").exists());
    // What the file settles is not settled twice.
    let output = scratch.regard(&[&study[..], &["--seed", "3"]].concat());
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_rate_of_batches_is_measured_alone() {
    let scratch = scratch();
    let page = scratch.page(&["bench", "data", "tiny.toml", "--seconds", "0.05", "--makers", "2"]);
    assert!(
        page["batches"].as_u64().unwrap() > 0 && page["tokens_per_second"].as_f64().unwrap() > 0.0,
        "{page}"
    );
    assert!(
        scratch.refused(&["bench", "data", "tiny.toml", "--seconds", "0"]).contains("choose a time above 0")
    );
    assert!(
        scratch
            .refused(&["bench", "data", "tiny.toml", "--makers", "0"])
            .contains("between 1 and 1024 threads")
    );
}
