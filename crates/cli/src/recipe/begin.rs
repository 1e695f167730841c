//! A recipe to begin with: what a task needs is set, and every other key stands there as a comment with what
//! it is and means, so that nothing has to be looked up.

use anyhow::{Context, Result, bail};
use clap::Args;
use regard_models::Registry;
use regard_recipe::language::Kind;
use regard_recipe::{Recipe, RecipeKey, recipe_keys};
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

#[derive(Args)]
pub struct New {
    /// The file to write
    file: PathBuf,
    /// What is learned: language, classify, masked, translate or images
    #[arg(long, default_value = "language")]
    task: String,
}

/// What a recipe of a task says, besides its task.
struct Task {
    kind: Kind,
    family: &'static str,
    set: &'static [(&'static str, &'static str, &'static str)],
}

const TASKS: [Task; 5] = [
    Task {
        kind: Kind::Language,
        family: "gpt",
        set: &[
            ("data", "train", "[\"my.txt\"]"),
            ("data", "hold_out", "0.1"),
            ("train", "epochs", "5"),
            ("train", "batch", "32"),
        ],
    },
    Task {
        kind: Kind::Classify,
        family: "bert",
        set: &[
            ("tokenizer", "kind", "\"wordpiece\""),
            ("data", "kind", "\"classes\""),
            ("data", "train", "[\"my.tsv\"]"),
            ("data", "hold_out", "0.1"),
            ("train", "epochs", "5"),
        ],
    },
    Task {
        kind: Kind::Masked,
        family: "bert",
        set: &[
            ("tokenizer", "kind", "\"wordpiece\""),
            ("data", "train", "[\"my.txt\"]"),
            ("data", "hold_out", "0.1"),
            ("train", "epochs", "5"),
        ],
    },
    Task {
        kind: Kind::Translate,
        family: "transformer",
        set: &[
            ("tokenizer", "kind", "\"bpe\""),
            ("data", "kind", "\"pairs\""),
            ("data", "train", "[\"my.de\"]"),
            ("data", "train_target", "[\"my.en\"]"),
            ("data", "hold_out", "0.05"),
            ("train", "epochs", "10"),
            ("train", "label_smoothing", "0.1"),
        ],
    },
    Task {
        kind: Kind::Images,
        family: "vit",
        set: &[
            ("data", "kind", "\"mnist\""),
            ("data", "train", "[\"my_folder\"]"),
            ("data", "hold_out", "0.1"),
            ("train", "epochs", "5"),
        ],
    },
];

impl New {
    /// Writes the file, unless there is one.
    pub fn write(&self, registry: &Registry) -> Result<()> {
        let Some(task) = TASKS.iter().find(|task| task.kind.name() == self.task) else {
            let known: Vec<&str> = TASKS.iter().map(|task| task.kind.name()).collect();
            bail!("--task {}: choose one of {}", self.task, known.join(", "));
        };
        let text = task.text(&self.file);
        let shown = self.file.display();
        // What this writes, this reads.
        Recipe::parse(&text, &shown.to_string(), &[], registry)?;
        let mut file =
            OpenOptions::new().write(true).create_new(true).open(&self.file).with_context(|| {
                match self.file.exists() {
                    true => format!("{shown} is there already; name another file"),
                    false => format!("{shown} cannot be written"),
                }
            })?;
        file.write_all(text.as_bytes()).with_context(|| format!("{shown} cannot be written"))?;
        writeln!(
            std::io::stdout(),
            "{shown}: put your files into [data], then  regard recipe check {shown}  and  regard train {shown}"
        )?;
        Ok(())
    }
}

impl Task {
    fn text(&self, file: &std::path::Path) -> String {
        let keys = recipe_keys();
        let mut text = format!("#   regard train {}\n", file.display());
        let _ = write!(text, "\ntask = \"{}\"\n# seed = 0\n", self.kind.name());
        let mut tables: Vec<&str> = Vec::new();
        for key in keys.iter().filter(|key| !key.table.is_empty()) {
            if tables.last() != Some(&key.table.as_str()) {
                tables.push(&key.table);
            }
        }
        for table in tables {
            let _ = write!(text, "\n[{table}]\n");
            if table == "model" {
                let _ = writeln!(
                    text,
                    "family = \"{0}\" # its other keys, such as layers, heads and width:  regard families {0}",
                    self.family
                );
                continue;
            }
            // What is said first, then what could be.
            let own = keys.iter().filter(|key| key.table == table);
            let (said, rest): (Vec<&RecipeKey>, Vec<&RecipeKey>) =
                own.partition(|key| self.value(table, &key.name).is_some());
            for key in said {
                let value = self.value(table, &key.name).unwrap_or_default();
                let _ = writeln!(text, "{} = {value} # {}", key.name, key.meaning);
            }
            for key in rest.iter().filter(|key| key.takes != "tables") {
                let value = key.otherwise.as_deref().map_or(format!("({})", key.takes), String::from);
                let _ = writeln!(text, "# {} = {value} # {}", key.name, key.meaning);
            }
        }
        text
    }

    fn value(&self, table: &str, name: &str) -> Option<&'static str> {
        self.set.iter().find(|(own, key, _)| *own == table && *key == name).map(|(_, _, value)| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read_and_every_key_is_known() {
        let keys = recipe_keys();
        for task in &TASKS {
            let text = task.text("mine.toml".as_ref());
            let recipe = Recipe::parse(&text, "mine.toml", &[], &Registry::standard()).unwrap();
            assert_eq!((recipe.task, recipe.model.family.as_str()), (task.kind, task.family));
            for (table, name, _) in task.set {
                assert!(keys.iter().any(|key| key.table == *table && key.name == *name), "{table}.{name}");
            }
        }
    }
}
