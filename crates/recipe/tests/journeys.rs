//! Every task from a recipe to a model in a folder, in miniature: data is written, trained on for a few steps, examined,
//! exported and opened again. What is learned is for the recipes to show; here everything must fit together.

use regard_device::Level;
use regard_engine::{Cpu, Store};
use regard_recipe::{Recipe, resume, train};
use regard_train::Silent;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// A folder that is removed in the end.
struct Own(PathBuf);

impl Own {
    fn new(name: &str) -> Own {
        let path = std::env::temp_dir().join(format!("regard-recipe-{}-{name}", std::process::id()));
        fs::remove_dir_all(&path).ok();
        fs::create_dir_all(&path).unwrap();
        Own(path)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.0.join(name);
        fs::write(&path, bytes).unwrap();
        path.display().to_string()
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

fn cpu() -> Cpu {
    Cpu::with(2, Level::best()).unwrap()
}

/// Trains a recipe and opens what it exported.
fn journey(own: &Own, toml: &str) -> (regard_recipe::Trained, regard_hub::Opened, Store) {
    let recipe = Recipe::parse(toml, "test.toml", &[]).unwrap();
    let trained = train(&recipe, own.0.join("run"), &cpu(), &mut Silent, None).unwrap();
    let opened = regard_hub::open(trained.model.as_ref().unwrap().to_str().unwrap()).unwrap();
    let mut store = Store::new(0);
    opened.load_into(&mut store).unwrap();
    (trained, opened, store)
}

const SMALL: &str = "layers = 1\nheads = 2\nwidth = 16\n";

#[test]
fn characters() {
    let own = Own::new("characters");
    let file = own.write("text.txt", "the cat sat on the mat. ".repeat(60));
    let (trained, opened, _) = journey(
        &own,
        &format!(
            "[model]\n{SMALL}context = 16\npositions = \"rotary\"\n[data]\ntrain = [\"{file}\"]\nhold_out = 0.1\n\
             [train]\nbatch = 8\nlr = 0.01\nepochs = 4\n"
        ),
    );
    assert_eq!(opened.model.family(), "regard-gpt");
    let losses: Vec<f64> =
        trained.stages[0].1.history.evaluations.iter().map(|record| record.metrics[0].1).collect();
    assert_eq!(losses.len(), 4);
    assert!(losses[3] < losses[0], "{losses:?}");
    assert!(own.0.join("run/report.html").is_file());
    assert!(own.0.join("run/model/tokenizer.json").is_file());
}

#[test]
fn a_run_of_two_stages_can_be_resumed() {
    let own = Own::new("stages");
    let toml = format!(
        "[model]\n{SMALL}context = 96\n[data]\nkind = \"biographies\"\npeople = 250\n[train]\nbatch = 64\n\
         [[stage]]\nname = \"pretrain\"\n[stage.data]\nform = \"spans\"\n\
         [[stage]]\nname = \"finetune\"\n"
    );
    let recipe = Recipe::parse(&toml, "test.toml", &[]).unwrap();
    let folder = own.0.join("run");
    let stop = AtomicBool::new(true);
    let stopped = train(&recipe, &folder, &cpu(), &mut Silent, Some(&stop)).unwrap();
    assert!(stopped.model.is_none() && stopped.stages.len() == 1);
    let again = train(&recipe, &folder, &cpu(), &mut Silent, None).unwrap_err().to_string();
    assert!(again.ends_with("has a run already; resume it, or name another folder"), "{again}");
    let trained = resume(&folder, &cpu(), &mut Silent, None).unwrap();
    assert_eq!(trained.stages.len(), 2);
    assert_eq!(trained.metrics[0].0, "exact");
    assert!((0.03..0.07).contains(&trained.baselines[0].value), "{:?}", trained.baselines);
    assert!(folder.join("2-finetune/checkpoints/best.safetensors").is_file());
    regard_hub::open(folder.join("model").to_str().unwrap()).unwrap();
}

fn reviews(rows: usize) -> String {
    let row = |i: usize| match i % 3 {
        0 => format!("a fine film number {}\tgood\n", i % 5),
        1 => format!("a dull film number {}\tbad\n", i % 5),
        _ => format!("so dull and bad was {}\tbad\n", i % 4),
    };
    (0..rows).map(row).collect()
}

#[test]
fn classes_of_texts_and_a_second_head() {
    let own = Own::new("classes");
    let (file, dev) = (own.write("train.tsv", reviews(120)), own.write("dev.tsv", reviews(30)));
    let toml = format!(
        "task = \"classify\"\n[model]\nfamily = \"bert\"\n{SMALL}context = 24\npooling = \"mean\"\n\
         [tokenizer]\nkind = \"wordpiece\"\nvocabulary = 80\n\
         [data]\nkind = \"classes\"\ntrain = [\"{file}\"]\nevaluate = [\"{dev}\"]\nhold_out = 0.2\n\
         [train]\nbatch = 16\nlr = 0.01\nepochs = 6\n"
    );
    let (trained, opened, _) = journey(&own, &toml);
    assert_eq!(trained.metrics[0].0, "accuracy");
    assert!(trained.metrics[0].1 > 0.9, "{:?}", trained.metrics);
    let names: Vec<&str> = trained.baselines.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["always “bad”", "bag of words"]);
    assert_eq!(opened.config["id2label"]["1"], "good");

    // A new head on the same encoder; the embedding stays as it was.
    let again = toml.replace("pooling = \"mean\"\n", "")
        + &format!("[from]\nmodel = \"{}\"\nfreeze = [\"token_embedding*\"]\n", own.0.join("run").display());
    let recipe = Recipe::parse(&again, "again.toml", &[]).unwrap();
    let mut job = recipe.build(&cpu()).unwrap();
    let loaded = job.loaded.clone().unwrap();
    assert!(loaded.fresh.iter().all(|name| name.starts_with("pooler")), "{loaded:?}");
    assert!(loaded.sentence().contains("begun anew: pooler.weight, pooler.bias"), "{}", loaded.sentence());
    let before = job.store.f32("token_embedding.weight").unwrap().to_vec();
    job.run(None, &mut Silent, None).unwrap();
    assert_eq!(job.store.f32("token_embedding.weight").unwrap(), before);
    assert_ne!(job.store.f32("pooler.weight").unwrap().iter().sum::<f32>(), 0.0);
}

#[test]
fn masked_tokens() {
    let own = Own::new("masked");
    let file = own.write("text.txt", "a fine film indeed\nthe dull film was long\n".repeat(30));
    let (trained, opened, _) = journey(
        &own,
        &format!(
            "task = \"masked\"\n[model]\nfamily = \"bert\"\n{SMALL}context = 16\n\
             [tokenizer]\nkind = \"wordpiece\"\nvocabulary = 60\n\
             [data]\ntrain = [\"{file}\"]\nhold_out = 0.2\n[train]\nbatch = 16\n"
        ),
    );
    assert_eq!(opened.model.family(), "bert");
    assert_eq!(trained.stages[0].1.history.evaluations.len(), 1);
}

#[test]
fn translations() {
    let own = Own::new("pairs");
    let source: String = (0..80).map(|i| format!("eins zwei {}\n", i % 9)).collect();
    let target: String = (0..80).map(|i| format!("one two {}\n", i % 9)).collect();
    let (a, b) = (own.write("a.de", &source), own.write("a.en", &target));
    for family in ["transformer", "t5"] {
        let own = Own::new(&format!("pairs-{family}"));
        let context = if family == "t5" { "" } else { "context = 24\n" };
        let (trained, opened, _) = journey(
            &own,
            &format!(
                "task = \"translate\"\n[model]\nfamily = \"{family}\"\n{SMALL}{context}\
                 [tokenizer]\nkind = \"bpe\"\nvocabulary = 300\n\
                 [data]\nkind = \"pairs\"\ntrain = [\"{a}\"]\ntrain_target = [\"{b}\"]\n\
                 evaluate = [\"{a}\"]\nevaluate_target = [\"{b}\"]\n\
                 [train]\nbatch = 16\nbatch_tokens = 200\nlr = 0.01\nlabel_smoothing = 0.1\n\
                 [evaluate]\nbeams = 2\nmost = 12\n"
            ),
        );
        assert_eq!(opened.model.family(), family);
        assert_eq!(trained.metrics[0].0, "bleu");
        assert!((0.0..=100.0).contains(&trained.metrics[0].1));
    }
}

#[test]
fn images() {
    let own = Own::new("images");
    // Bright ones and dark ones.
    let image = |i: usize| {
        let bright = |at: usize| if i.is_multiple_of(2) { 200u8 } else { 20 } + (at % 7) as u8;
        let class = [(i % 2) as u8].into_iter();
        class.chain((0..3072).map(bright)).collect::<Vec<u8>>()
    };
    let bytes: Vec<u8> = (0..40).flat_map(image).collect();
    let (train, test) = (own.write("train.bin", &bytes), own.write("test.bin", &bytes[..3073 * 10]));
    let (trained, opened, _) = journey(
        &own,
        &format!(
            "task = \"images\"\n[model]\nfamily = \"vit\"\n{SMALL}patch = 16\n\
             [data]\nkind = \"cifar\"\ntrain = [\"{train}\"]\nevaluate = [\"{test}\"]\nshift = 1\n\
             [train]\nbatch = 8\nlr = 0.01\nepochs = 20\n"
        ),
    );
    assert_eq!(opened.model.family(), "vit");
    assert_eq!(trained.metrics, [("accuracy".to_string(), 1.0)]);
}

#[test]
fn what_does_not_fit_together_is_said() {
    let text = |toml: &str| match Recipe::parse(toml, "test.toml", &[]).unwrap().build(&cpu()) {
        Ok(_) => panic!("{toml} was built"),
        Err(error) => error.to_string(),
    };
    assert_eq!(
        text("[data]\nkind = \"mnist\"\n"),
        "data of the kind Mnist has nothing for the task Language; language takes text or biographies, masked text, \
         classify classes, translate pairs, images mnist or cifar"
    );
    assert_eq!(
        text(""),
        "data.train names no file; give it in the recipe or as an override: data.train=path; paths are relative to where \
         the command runs"
    );
    assert_eq!(
        text("[data]\nkind = \"biographies\"\ntext = \"x\"\n"),
        "of the files of the biographies only some are given; give data.text, data.train and data.evaluate, or none of them"
    );
}

#[test]
fn every_recipe_that_comes_along_can_be_read() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../recipes");
    let mut names = Vec::new();
    for item in fs::read_dir(folder).unwrap() {
        let path = item.unwrap().path();
        let recipe = Recipe::open(&path, &[]).unwrap();
        let written = recipe.to_toml().unwrap();
        assert_eq!(Recipe::parse(&written, "written", &[]).unwrap(), recipe, "{}", path.display());
        names.push(recipe.name);
    }
    names.sort();
    assert_eq!(
        names,
        ["birth_places", "cifar", "mnist", "sentiment", "sentiment_minilm", "shakespeare", "translate"]
    );
}
