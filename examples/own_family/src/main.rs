//! Example 09: a `regard` of one's own, with a family of one's own, in a crate of one's own. The family is
//! `parallel.rs`; here it is registered, and every command knows it. From the root of the repository:
//!
//!     cp Cargo.lock examples/own_family/
//!     cargo run --release --target-dir target --manifest-path examples/own_family/Cargo.toml
//!
//! Behind `--` it takes what `regard` takes, `-- describe --help` for one. Without arguments it trains a
//! small model by a recipe, opens it again, lets it write, proves what it promises, audits it, looks into it
//! and says what it costs: a few seconds.

mod parallel;

use regard::models::Registry;
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

const TEXT: &str = "the cat sat on the mat and the dog sat by the door. ";

const RECIPE: &str = r#"
task = "language"
[data]
kind = "text"
hold_out = 0.1
[model]
family = "parallel"
layers = 2
heads = 2
width = 32
context = 32
[train]
steps = 80
batch = 8
lr = 1e-2
evaluate_every = 40
"#;

fn main() -> ExitCode {
    let registry = Registry::standard().with(parallel::Parallels);
    if std::env::args().len() > 1 {
        return regard_cli::run(&registry);
    }
    match shown(&registry) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("own-family: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The life of a model, command by command.
fn shown(registry: &Registry) -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("regard-own-family-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let lived = life(registry, &folder);
    std::fs::remove_dir_all(&folder)?;
    lived
}

fn life(registry: &Registry, folder: &Path) -> Result<(), Box<dyn Error>> {
    let (text, recipe, run) = (folder.join("text.txt"), folder.join("recipe.toml"), folder.join("run"));
    std::fs::write(&text, TEXT.repeat(200))?;
    std::fs::write(&recipe, RECIPE)?;
    let run = run.display().to_string();
    let data = format!("data.train={}", text.display());
    let commands: [&[&str]; 9] = [
        &["train", &recipe.display().to_string(), &data, "--out", &run],
        &["describe", &run, "--tokens", "16"],
        &["generate", &run, "--prompt", "the cat", "--max", "24", "--greedy"],
        &["evaluate", &run],
        &["prove", &run],
        &["audit", &run],
        &["look", &run, "--text", "the cat sat", "--layer", "1"],
        &["cost", &run, "--tokens", "16"],
        &["cost", &run, "--tokens", "16", "--train"],
    ];
    for command in commands {
        println!("\n$ regard {}", command.join(" "));
        let arguments = std::iter::once(&"regard").chain(command);
        if regard_cli::run_with(registry, arguments) != ExitCode::SUCCESS {
            return Err(format!("`regard {}` failed", command[0]).into());
        }
    }
    Ok(())
}
