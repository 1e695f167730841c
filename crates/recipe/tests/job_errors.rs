//! What the parts of a job say when something cannot be: each text names what is wrong and what to do.

use regard_data::{Batch, Source, Tokenizer};
use regard_engine::{Cpu, Store};
use regard_graph::{Init, Precision};
use regard_hub::SaveOptions;
use regard_models::{
    Bert, BertConfig, BertHead, Gpt, GptConfig, Model, Registry, Transformer, TransformerConfig,
};
use regard_recipe::job::{
    Asked, Beside, Classifier, Job, LossMeter, Translating, Translator, model_of, tested, text_batch,
};
use regard_recipe::{Bounds, ModelTask, Recipe};
use regard_train::{RunFolder, Silent};
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

/// A tiny decoder in a folder, with or without its tokenizer.
fn saved(own: &Own, with_tokenizer: bool) -> regard_hub::Opened {
    let (model, mut store) = (gpt(), Store::new(0));
    let task = ModelTask::new(model.clone(), BOUNDS, 0.0).unwrap();
    LossMeter::new(&task, Precision::F32, &mut store, &cpu()).unwrap();
    regard_hub::save(&*model, &store, &own.0, &SaveOptions::default()).unwrap();
    if with_tokenizer {
        Tokenizer::bytes().save(own.0.join("tokenizer.json")).unwrap();
    }
    regard_hub::open(own.0.to_str().unwrap(), &Registry::standard()).unwrap()
}

/// Batches that are none.
struct Broken {
    batches: usize,
}

impl Source for Broken {
    fn batches(&self, _: u64) -> usize {
        self.batches
    }

    fn batch(&self, _: u64, _: usize) -> regard_data::Result<Batch> {
        regard_data::dataset::Lines::open("a file that is not there").map(|_| Batch::default())
    }
}

#[test]
fn losses_of_nothing_and_of_other_shapes() {
    let task = ModelTask::new(gpt(), BOUNDS, 0.0).unwrap();
    let other = text(LossMeter::new(&task, Precision::F32, &mut foreign(), &cpu()));
    assert!(other.contains("token_embedding.weight") && other.contains("[3 3]"), "{other}");
    let mut store = Store::new(0);
    let mut meter = LossMeter::new(&task, Precision::F32, &mut store, &cpu()).unwrap();
    let nothing = meter.loss(&Broken { batches: 0 }, &mut store).unwrap_err().to_string();
    assert_eq!(nothing, "there is nothing to examine with; give data with targets");
    let lost = meter.loss(&Broken { batches: 1 }, &mut store).unwrap_err().to_string();
    assert!(lost.contains("a file that is not there"), "{lost}");
}

#[test]
fn classes_of_what_has_none() {
    let none = text(Classifier::new(&*gpt(), BOUNDS, Precision::F32, &mut Store::new(0), &cpu()));
    assert!(none.contains("has no classes; give a classifier of text or of images"), "{none}");
    let config = BertConfig {
        layers: 1,
        heads: 1,
        width: 4,
        hidden: 8,
        vocabulary: 16,
        head: BertHead::Classes(2),
        ..regard_models::bert::PRESETS[0].1
    };
    let bert = Bert::new(config.without_dropout()).unwrap();
    let mut store = Store::new(0);
    let mut classifier = Classifier::new(&bert, BOUNDS, Precision::F32, &mut store, &cpu()).unwrap();
    let unfed = classifier.scores(&Batch::default(), &mut store).unwrap_err().to_string();
    assert!(unfed.contains("ids"), "{unfed}");
    let lost = classifier.all(&Broken { batches: 1 }, &mut store).unwrap_err().to_string();
    assert!(lost.contains("a file that is not there"), "{lost}");
}

#[test]
fn translations_of_what_does_not_translate() {
    let how = Translating { rows: 1, beams: 1, most: 4, source: 3, precision: Precision::F32 };
    let none = text(Translator::new(&*gpt(), &Beside::default(), how, &mut Store::new(0), &cpu()));
    assert!(none.contains("does not translate; give an encoder-decoder"), "{none}");
    let config = TransformerConfig {
        encoder_layers: 1,
        decoder_layers: 1,
        heads: 1,
        width: 4,
        hidden: 8,
        context: 8,
        dropout: 0.0,
        ..TransformerConfig::base(256)
    };
    let model = Transformer::new(config).unwrap();
    let beside = Beside { start: Some(0), ..Beside::default() };
    let bare = text(Translator::new(&model, &beside, how, &mut Store::new(0), &cpu()));
    assert_eq!(bare, "there is no tokenizer beside the model; put its tokenizer.json there");
    let beside = Beside { tokenizer: Some(Tokenizer::bytes()), ..beside };
    let mut store = Store::new(0);
    let mut translator = Translator::new(&model, &beside, how, &mut store, &cpu()).unwrap();
    let long = translator.translate(&[vec![1; 9]], &mut store).unwrap_err().to_string();
    assert!(long.contains('9') && long.contains('3'), "{long}");
}

#[test]
fn what_lies_beside_a_model_or_does_not() {
    let bare = text(Beside::default().tokenizer());
    assert_eq!(bare, "there is no tokenizer beside the model; put its tokenizer.json there");
    let own = Own::new("bare");
    let opened = saved(&own, false);
    let none = text(Beside::open(&opened));
    assert!(none.contains("no tokenizer here"), "{none}");
    let beside = Beside { tokenizer: Some(Tokenizer::bytes()), ..Beside::default() };
    let empty = text(text_batch(&["".into()], &beside, 8, false));
    assert_eq!(empty, "text 1 has no tokens; give it words");
    let long = text(text_batch(&["abc".into(), "123456789".into()], &beside, 8, false));
    assert_eq!(long, "text 2 has more tokens than the 8 of the model; shorten it, or say --cut");
}

#[test]
fn examinations_without_data_or_with_other_weights() {
    let own = Own::new("exam");
    let opened = saved(&own, true);
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

    let unfinished = text(model_of(run.to_str().unwrap()));
    let expected = "is a run without a trained model yet; let it come to its end";
    assert!(unfinished.contains(expected), "{unfinished}");
}
