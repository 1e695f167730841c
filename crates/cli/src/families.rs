//! `regard families`: what kinds of models there are, what each can learn, and the keys that `[model]` of a
//! recipe has for it.

use anyhow::Result;
use clap::Args;
use regard_models::{Expected, Family, Registry};
use serde_json::{Value, json};
use std::io::Write;

/// Options of `regard families`.
#[derive(Args)]
#[command(after_help = "Example:  regard families gpt")]
pub struct Options {
    /// One family, with all its keys [default: all, a line each]
    #[arg(value_name = "FAMILY")]
    family: Option<String>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Lists them.
pub fn run(options: &Options, registry: &Registry) -> Result<()> {
    let chosen: Vec<&dyn Family> = match &options.family {
        Some(name) => vec![registry.family(name)?],
        None => registry.families().collect(),
    };
    let mut out = std::io::stdout().lock();
    if options.json {
        writeln!(out, "{}", json!({ "families": chosen.into_iter().map(page).collect::<Vec<_>>() }))?;
        return Ok(());
    }
    let widest = chosen.iter().map(|family| family.name().len()).max().unwrap_or(0);
    for family in &chosen {
        let tasks = family.tasks().join(", ");
        writeln!(out, "{:<widest$}  {}; learns {tasks}", family.name(), family.about())?;
    }
    if options.family.is_none() {
        writeln!(out, "\nThe keys of one of them:  regard families {}", chosen[0].name())?;
        return Ok(());
    }
    for family in chosen {
        let opens: Vec<&str> = family.forms().iter().map(|form| form.model_type).collect();
        writeln!(out, "  opens folders of model_type {}", opens.join(", "))?;
        if !family.presets().is_empty() {
            writeln!(out, "  presets: {}", family.presets().join(", "))?;
        }
        writeln!(out, "\nKeys of [model]")?;
        let keys = family.keys();
        let widest = keys.iter().map(|key| key.name.len()).max().unwrap_or(0);
        for key in keys {
            writeln!(out, "  {:<widest$}  {}; {}", key.name, key.about, wanted(key.expected))?;
        }
    }
    Ok(())
}

fn page(family: &dyn Family) -> Value {
    let keys: Vec<Value> = family
        .keys()
        .iter()
        .map(|key| json!({ "name": key.name, "about": key.about, "expected": wanted(key.expected) }))
        .collect();
    let opens: Vec<&str> = family.forms().iter().map(|form| form.model_type).collect();
    json!({ "name": family.name(), "about": family.about(), "tasks": family.tasks(), "opens": opens,
        "presets": family.presets(), "keys": keys })
}

/// What a key may be, in words.
fn wanted(expected: Expected) -> String {
    match expected {
        Expected::Size => "a whole number".into(),
        Expected::Number => "a number".into(),
        Expected::Truth => "true or false".into(),
        Expected::Text => "a name".into(),
        Expected::Word(words) => words.join(", "),
        Expected::NumberOrWord(words) => format!("a number, {}", words.join(", ")),
    }
}
