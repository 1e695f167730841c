//! Recipes and configs with something wrong in them, through the real commands: each is refused with a
//! sentence or works, in bounded time and memory, and never panics. What is changed is drawn by a fixed seed;
//! with `REGARD_MUTATIONS=1000` there are more of them than a suite has time for.
#![cfg(target_os = "linux")]

use super::scratch::{LANGUAGE, Scratch, language};
use std::fs;
use std::process::{Command, Output};

/// What stands in the place of a value: of another kind, beyond all bounds, or almost right.
const WORDS: [&str; 30] = [
    "0",
    "-1",
    "1",
    "2",
    "3",
    "17",
    "257",
    "2147483648",
    "4294967296",
    "1000000000000",
    "9223372036854775807",
    "0.5",
    "-0.0",
    "1e308",
    "1e-320",
    "true",
    "false",
    "null",
    "\"\"",
    "\"x\"",
    "\"gelu\"",
    "\"rotary\"",
    "[]",
    "[0]",
    "[1, 2]",
    "{}",
    "\"\\u0000\"",
    "\"../..\"",
    "\"0\"",
    "[[[[[[]]]]]]",
];

/// Numbers of a fixed seed.
struct Draws(u64);

impl Draws {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) % n as u64) as usize
    }
}

fn count() -> usize {
    std::env::var("REGARD_MUTATIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(40)
}

/// A text in which one or two lines of `name<mark>value` have another value, or a line is gone, or stands
/// twice.
fn mutated(text: &str, mark: char, draws: &mut Draws) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for _ in 0..1 + draws.below(2) {
        let at = draws.below(lines.len());
        match (draws.below(8), lines[at].split_once(mark)) {
            (0, _) => drop(lines.remove(at)),
            (1, _) => lines.insert(at, lines[at].clone()),
            (_, Some((name, value))) => {
                let comma = if value.trim_end().ends_with(',') { "," } else { "" };
                lines[at] = format!("{name}{mark} {}{comma}", WORDS[draws.below(WORDS.len())]);
            }
            _ => {}
        }
    }
    lines.join("\n") + "\n"
}

/// The command with four gigabytes of addresses and twenty seconds.
fn bounded(scratch: &Scratch, arguments: &[&str]) -> Output {
    let script = "ulimit -v 4194304; exec timeout 20 \"$0\" \"$@\"";
    let mut command = Command::new("bash");
    command.args(["-c", script, env!("CARGO_BIN_EXE_regard")]).args(arguments).current_dir(&scratch.0);
    command.output().expect("the command starts")
}

/// It worked, or it was refused in a sentence.
fn check(output: &Output, what: &str) {
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0..=2)), "{:?}: {message}\n{what}", output.status);
    assert!(!message.contains("panicked"), "{message}\n{what}");
    assert!(output.status.success() || message.contains("regard: "), "{message}\n{what}");
}

#[test]
fn a_recipe_with_something_wrong_is_refused_or_works() {
    let scratch = language("mutated-recipe");
    let mut draws = Draws(11);
    let mut worked = 0;
    for _ in 0..count() {
        let recipe = mutated(LANGUAGE, '=', &mut draws);
        scratch.write("changed.toml", &recipe);
        // Few steps, whatever the recipe says.
        let output = bounded(&scratch, &["train", "changed.toml", "train.steps=2", "--out", "runs/changed"]);
        check(&output, &recipe);
        worked += usize::from(output.status.success());
        let _ = fs::remove_dir_all(scratch.path("runs"));
    }
    assert!(worked > 0 && worked < count(), "{worked} of {} worked", count());
}

#[test]
fn a_config_with_something_wrong_is_refused_or_works() {
    let scratch = language("mutated-config");
    scratch.page(&["train", "tiny.toml", "train.steps=2"]);
    let place = scratch.path("runs/tiny/model/config.json");
    let config: serde_json::Value = serde_json::from_str(&fs::read_to_string(&place).unwrap()).unwrap();
    let config = serde_json::to_string_pretty(&config).unwrap();
    let mut draws = Draws(12);
    let mut worked = 0;
    for _ in 0..count() {
        let changed = mutated(&config, ':', &mut draws);
        fs::write(&place, &changed).unwrap();
        let describe = bounded(&scratch, &["describe", "runs/tiny/model"]);
        check(&describe, &changed);
        let generate = bounded(&scratch, &["generate", "runs/tiny/model", "--prompt", "the", "--max", "2"]);
        check(&generate, &changed);
        worked += usize::from(generate.status.success());
    }
    assert!(worked < count(), "none of {} changes was refused", count());
}
