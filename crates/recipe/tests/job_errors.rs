//! What the parts of a job say when something cannot be: each text names what is wrong and what to do.

use regard_data::Tokenizer;
use regard_engine::{Cpu, Store};
use regard_graph::{Init, Precision};
use regard_hub::SaveOptions;
use regard_models::{Gpt, GptConfig, Model, Registry};
use regard_recipe::job::{Asked, Job, tested};
use regard_recipe::{Bounds, ModelTask, Recipe};
use regard_train::{Evaluator, RunFolder, Silent};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

const BOUNDS: Bounds = Bounds { batch: 2, length: 4, source: 4 };

fn text<T, E: std::fmt::Display>(result: Result<T, E>) -> String {
    match result {
        Ok(_) => panic!("an error was expected"),
        Err(error) => error.to_string(),
    }
}

fn cpu() -> Cpu {
    Cpu::with(1, regard_device::Level::best()).unwrap()
}

fn gpt() -> Arc<dyn Model> {
    let config = GptConfig { layers: 1, heads: 1, width: 4, context: 8, vocabulary: 256, ..GptConfig::SMALL };
    let model: Arc<dyn Model> = Arc::new(Gpt::new(config).unwrap());
    model.without_dropout().unwrap()
}

/// A store in which the embedding has a shape of its own.
fn foreign() -> Store {
    let mut store = Store::new(0);
    store.declare("token_embedding.weight", [3, 3], Init::Zeros).unwrap();
    store
}

/// A folder that is removed in the end.
struct Own(PathBuf);

impl Own {
    fn new(name: &str) -> Own {
        let path = std::env::temp_dir().join(format!("regard-job-errors-{}-{name}", std::process::id()));
        fs::remove_dir_all(&path).ok();
        fs::create_dir_all(&path).unwrap();
        Own(path)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// A tiny decoder in a folder, with its tokenizer.
fn saved(own: &Own) -> regard_hub::Opened {
    let (model, mut store) = (gpt(), Store::new(0));
    let task = ModelTask::new(model.clone(), BOUNDS, 0.0).unwrap();
    Evaluator::new(&task, Precision::F32, &mut store, &cpu()).unwrap();
    regard_hub::save(&*model, &store, &own.0, &SaveOptions::default()).unwrap();
    Tokenizer::bytes().save(own.0.join("tokenizer.json")).unwrap();
    regard_hub::open(own.0.to_str().unwrap(), &Registry::standard()).unwrap()
}

#[test]
fn examinations_without_data_or_with_other_weights() {
    let own = Own::new("exam");
    let opened = saved(&own);
    let none = text(tested(&opened, None, &Asked::default(), &cpu()));
    assert!(none.contains("no data to examine it with; give --data with files"), "{none}");
    let file = own.0.join("text.txt");
    fs::write(&file, "some words to be examined with\n").unwrap();
    let asked = Asked { data: vec![file], ..Asked::default() };
    let mut exam = tested(&opened, None, &asked, &cpu()).unwrap();
    let other = exam.examine(1, &mut foreign()).unwrap_err().to_string();
    assert!(other.contains("token_embedding.weight"), "{other}");
}

#[test]
fn jobs_and_runs_that_cannot_be() {
    let own = Own::new("job");
    let missing =
        Recipe::parse("[data]\ntrain = [\"nowhere.txt\"]\n", "a recipe", &[], &Registry::standard()).unwrap();
    let nowhere = text(Job::new(&missing, &Registry::standard()));
    assert!(nowhere.contains("nowhere.txt"), "{nowhere}");

    let file = own.0.join("text.txt");
    fs::write(&file, "abcdefgh ".repeat(40)).unwrap();
    let recipe = format!(
        "task = \"language\"\n[data]\nkind = \"text\"\ntrain = [{file:?}]\n[model]\nlayers = 1\nheads = 1\nwidth = 4\n\
         context = 8\n[train]\nsteps = 1\nbatch = 2\n"
    );
    let recipe = Recipe::parse(&recipe, "a recipe", &[], &Registry::standard()).unwrap();
    let job = Job::new(&recipe, &Registry::standard()).unwrap();
    let stage = job.batches(Some("pretrain")).err().unwrap().to_string();
    assert!(stage.starts_with("no stage is called `pretrain`"), "{stage}");
    let run = own.0.join("run");
    let folder = RunFolder::create(&run, &recipe.to_toml().unwrap()).unwrap();
    fs::write(run.join("model"), "in the way").unwrap();
    let stands = job.train(&folder, &cpu(), &mut Silent, None).err().unwrap().to_string();
    assert!(stands.contains("model"), "{stands}");

    // Another run cannot start from one that is not finished.
    let from = format!("[from]\nmodel = {:?}\n", run.to_str().unwrap());
    let text_of = format!("task = \"language\"\n[data]\nkind = \"text\"\ntrain = [{file:?}]\n{from}");
    let next = Recipe::parse(&text_of, "a recipe", &[], &Registry::standard()).unwrap();
    let unfinished = text(Job::new(&next, &Registry::standard()));
    let expected = "is a run without a trained model yet; let it come to its end";
    assert!(unfinished.contains(expected), "{unfinished}");
}
