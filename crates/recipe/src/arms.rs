//! A study by a file: arms, each a recipe with something changed, and seeds that every arm is run with. What
//! is compared, and by which seeds, is settled before anything runs.

use crate::language::{Recipe, checked};
use crate::{Error, Result};
use regard_models::Registry;
use serde::Deserialize;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// The most runs of a study.
const MOST_RUNS: usize = 1000;

/// The file as it stands.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// What it asks.
    title: String,
    /// Every arm is run with each.
    seeds: Vec<u64>,
    /// What is compared.
    arm: Vec<ArmFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ArmFile {
    /// Its folder is called by it.
    name: String,
    /// A recipe, beside the file.
    recipe: PathBuf,
    /// What should be otherwise, as on the command line.
    #[serde(default)]
    set: Vec<String>,
}

/// One run of a study.
#[derive(Clone, Debug)]
pub struct PlannedRun {
    /// Its arm.
    pub arm: String,
    /// Its seed.
    pub seed: u64,
    /// The whole recipe, with the seed in it.
    pub recipe: Recipe,
}

/// What a study compares.
#[derive(Clone, Debug)]
pub struct Arms {
    /// What it asks.
    pub title: String,
    /// All runs: each seed of the first arm, then of the next.
    pub runs: Vec<PlannedRun>,
}

impl Arms {
    /// Reads a study; `overrides` go for all of its recipes. Nothing is run or made.
    pub fn open(path: &Path, overrides: &[String], registry: &Registry) -> Result<Arms> {
        let place = path.display().to_string();
        let text =
            std::fs::read_to_string(path).map_err(|error| regard_data::Error::io("read", path, error))?;
        let file: File = checked(&text, &place)?;
        let wrong = |what: String, advice: &str| Err(Error::at(&place, what, advice));
        if file.arm.is_empty() || file.seeds.is_empty() {
            return wrong(
                "it has no arms or no seeds".into(),
                "give at least one of each: seeds = [1], [[arm]]",
            );
        }
        if file.arm.len().saturating_mul(file.seeds.len()) > MOST_RUNS {
            let what = format!("{} arms with {} seeds", file.arm.len(), file.seeds.len());
            return wrong(what, &format!("give at most {MOST_RUNS} runs in all"));
        }
        let mut names = HashSet::new();
        for name in file.arm.iter().map(|arm| arm.name.as_str()) {
            let plain = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
            if name.trim().is_empty() || !name.chars().all(plain) {
                let what = format!("an arm is called `{name}`");
                return wrong(what, "use letters, digits, spaces, - and _: its folder is called by its name");
            }
            if !names.insert(name) {
                return wrong(format!("two arms are called `{name}`"), "give each a name of its own");
            }
        }
        let unique: HashSet<u64> = file.seeds.iter().copied().collect();
        if unique.len() < file.seeds.len() {
            return wrong(format!("the seeds {:?}", file.seeds), "give each seed once");
        }
        let beside = path.parent().unwrap_or(Path::new(""));
        let mut runs = Vec::new();
        for arm in &file.arm {
            for &seed in &file.seeds {
                let own = [format!("seed={seed}")];
                let all: Vec<String> = arm.set.iter().chain(overrides).chain(&own).cloned().collect();
                let recipe = Recipe::open(beside.join(&arm.recipe), &all, registry)?;
                runs.push(PlannedRun { arm: arm.name.clone(), seed, recipe });
            }
        }
        Ok(Arms { title: file.title, runs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECIPE: &str = "task = \"language\"\n[data]\nkind = \"biographies\"\n[train]\nsteps = 2\n";

    fn open(study: &str, overrides: &[&str]) -> Result<Arms> {
        let folder = std::env::temp_dir().join(format!("regard-arms-{}-{}", std::process::id(), study.len()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("r.toml"), RECIPE).unwrap();
        std::fs::write(folder.join("s.toml"), study).unwrap();
        let overrides: Vec<String> = overrides.iter().map(|one| one.to_string()).collect();
        let arms = Arms::open(&folder.join("s.toml"), &overrides, &Registry::standard());
        std::fs::remove_dir_all(&folder).unwrap();
        arms
    }

    #[test]
    fn every_arm_is_run_with_every_seed() {
        let study = "title = \"t\"\nseeds = [1, 2]\n[[arm]]\nname = \"plain\"\nrecipe = \"r.toml\"\n\
                     [[arm]]\nname = \"fast\"\nrecipe = \"r.toml\"\nset = [\"train.lr=0.5\"]\n";
        let arms = open(study, &["train.batch=3"]).unwrap();
        let runs: Vec<_> =
            arms.runs.iter().map(|run| (run.arm.as_str(), run.seed, run.recipe.seed)).collect();
        assert_eq!(runs, [("plain", 1, 1), ("plain", 2, 2), ("fast", 1, 1), ("fast", 2, 2)]);
        assert!(arms.runs.iter().all(|run| run.recipe.train.batch == 3));
        assert_eq!((arms.runs[2].recipe.train.lr, arms.title.as_str()), (0.5, "t"));
    }

    #[test]
    fn a_file_that_is_not_there_is_said() {
        let error = Arms::open(Path::new("no.toml"), &[], &Registry::standard()).unwrap_err().to_string();
        assert_eq!(error, "cannot read no.toml: No such file or directory (os error 2); check the path");
    }

    #[test]
    fn mistakes_are_said() {
        let arm = |name: &str| format!("[[arm]]\nname = \"{name}\"\nrecipe = \"r.toml\"\n");
        let study = |seeds: &str, arms: &str| format!("title = \"t\"\nseeds = {seeds}\n{arms}");
        for (text, wanted) in [
            (study("[]", &arm("a")), "it has no arms or no seeds; give at least one of each"),
            (study("[1, 1]", &arm("a")), "the seeds [1, 1]; give each seed once"),
            (study("[1]", &(arm("a") + &arm("a"))), "two arms are called `a`; give each a name of its own"),
            (study("[1]", &arm("../a")), "an arm is called `../a`; use letters, digits"),
            (study("[1]", "[[arm]]\nnme = \"a\"\n"), "there is no key `nme` in [arm]; did you mean `name`?"),
        ] {
            let error = open(&text, &[]).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }
}
