//! Which weights a name leads to: models, runs with what they exported, their checkpoints, stages, and what
//! is not there.

use crate::{LETTERS, REGISTRY, SMALL, Scratch, cpu, refused, session};
use regard_data::{Batch, Field, Source};
use regard_engine::Store;
use regard_graph::{DType, Graph, Var};
use regard_models::{Dropout, Model};
use regard_runtime::{Companions, OpenOptions, Place, Prompts, Session, Which, Writing, open};
use regard_train::{Length, Mode, Run, RunFolder, Settings, Task, Trainer};
use std::fs;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The next tokens of one sentence, again and again.
struct Sentence;

impl Source for Sentence {
    fn batches(&self, _epoch: u64) -> usize {
        1
    }

    fn batch(&self, _epoch: u64, _index: usize) -> regard_data::Result<Batch> {
        let ids: Vec<i32> = (0..9).map(|at| at * 5 % 23).collect();
        let fields = vec![
            Field::i32("ids", &[1, 8], ids[..8].to_vec()),
            Field::i32("labels", &[1, 8], ids[1..].to_vec()),
        ];
        Ok(Batch { fields, targets: 8, tokens: 8, examples: 1 })
    }
}

struct Learn(Arc<dyn Model>);

impl Task for Learn {
    fn record(&self, g: &mut Graph, scale: Var, _mode: Mode) -> regard_graph::Result<Var> {
        let sizes = regard_models::Sizes { batch: 1, ids: 8, ..Default::default() };
        let inputs = self.0.reads().declare(g, sizes)?;
        let labels = g.input("labels", DType::I32, [1, 8])?;
        self.0.loss(g, &inputs, labels, scale, Default::default())
    }
}

/// A run of a few steps on a committed model, which exports nothing.
fn run(folder: &std::path::Path, model_folder: &std::path::Path, steps: u64) -> Vec<f32> {
    let gpt = Scratch::model("gpt2", LETTERS);
    let opened = open(gpt.path(), &OpenOptions::new(&REGISTRY)).unwrap();
    let companions = Companions::open(&*opened.model, &opened.config, &opened.path).unwrap();
    companions.tokenizer().unwrap();
    companions.save_for(&*opened.model, model_folder).unwrap();
    let mut store = Store::new(0);
    opened.load_into(&mut store).unwrap();
    let task = Learn(opened.model.with_dropout(Dropout::NONE).unwrap());
    let settings = Settings { length: Length::Steps(steps), learning_rate: 0.1, ..Settings::default() };
    let mut trainer = Trainer::new(&task, settings, &mut store, &cpu()).unwrap();
    let own = RunFolder::create(folder, "name = \"small\"\n").unwrap();
    let run = Run { folder: Some(&own), ..Run::new(Arc::new(Sentence)) };
    trainer.run(&mut store, run).unwrap();
    let name = opened.model.parameters().declared().next().unwrap().name.clone();
    store.f32(&name).unwrap().to_vec()
}

fn first_weights(name: &str, which: Which) -> Vec<f32> {
    let options = OpenOptions { which, ..OpenOptions::new(&REGISTRY) };
    let mut session = Session::open(name, &options, &cpu()).unwrap();
    let parameter = session.model().parameters().declared().next().unwrap().name.clone();
    session.store().unwrap().f32(&parameter).unwrap().to_vec()
}

#[test]
fn a_run_is_opened_at_its_checkpoints() {
    let scratch = Scratch::new();
    let folder = scratch.0.join("run");
    let trained = run(&folder, &folder.join("model"), 3);
    let name = folder.to_str().unwrap();
    // Nothing was exported yet.
    assert_eq!(
        refused(name, Which::Exported),
        format!(
            "{name} is a run without a trained model yet; let it come to its end: regard train --resume {name}; or take \
             the weights that it has: --checkpoint last"
        )
    );
    assert_eq!(first_weights(name, Which::Last), trained, "bit for bit");
    // It was not examined, so there is no best.
    assert_eq!(
        refused(name, Which::Best),
        format!(
            "{name} is a run without a best checkpoint yet; it has not been examined, or has nothing to be examined with: \
             take --checkpoint last"
        )
    );
    fs::copy(folder.join("checkpoints/last.safetensors"), folder.join("checkpoints/best.safetensors"))
        .unwrap();
    assert_eq!(first_weights(name, Which::Best), trained);
    // It writes, with the tokenizer that was there from the first step on.
    let options = OpenOptions { which: Which::Last, ..OpenOptions::new(&REGISTRY) };
    let mut session = Session::open(name, &options, &cpu()).unwrap();
    let writing = Writing { most: 4, ..Writing::default() };
    let prompts = ["af".to_string()];
    let written =
        session.generate(Prompts::Texts(&prompts), &writing, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!((written[0].ids.len(), written[0].text.as_ref().unwrap().chars().count()), (4, 4));

    // A checkpoint tells what the model is where a run of before has no config.
    fs::remove_file(folder.join("model/config.json")).unwrap();
    let message = refused(name, Which::Last);
    assert!(
        message.ends_with(
            "neither it nor the run's model folder says what the model is; go on with the run, which writes it: regard \
             train --resume"
        ),
        "{message}"
    );
    // A damaged one is refused.
    let last = folder.join("checkpoints/last.safetensors");
    let mut bytes = fs::read(&last).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&last, bytes).unwrap();
    assert!(refused(name, Which::Last).contains("checksum"), "{}", refused(name, Which::Last));
}

#[test]
fn a_run_that_exported_is_opened_by_its_model() {
    let scratch = Scratch::new();
    let gpt = Scratch::model("gpt2", SMALL);
    fs::write(scratch.0.join("recipe.toml"), "name = \"x\"\n").unwrap();
    fs::create_dir_all(scratch.0.join("model")).unwrap();
    for file in fs::read_dir(&gpt.0).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), scratch.0.join("model").join(file.file_name())).unwrap();
    }
    assert_eq!(first_weights(scratch.path(), Which::Exported), first_weights(gpt.path(), Which::Exported));
    let name = scratch.path();
    assert_eq!(
        refused(name, Which::Last),
        format!("{name} is a run without a checkpoint yet; let it go on: regard train --resume {name}")
    );
    let name = gpt.path();
    assert_eq!(
        refused(name, Which::Best),
        format!(
            "{name} is no run, and its best checkpoint was asked for; leave the checkpoint out, or name the folder of a run"
        )
    );
    fs::write(scratch.0.join("recipe.toml"), "name = ").unwrap();
    let message = refused(scratch.path(), Which::Last);
    assert!(
        message.contains("recipe.toml: is no TOML") && message.ends_with("put the recipe of the run back"),
        "{message}"
    );
}

#[test]
fn of_stages_the_newest_counts_and_each_can_be_opened() {
    let scratch = Scratch::new();
    let names: [&str; 3] = ["one", "two", "three"];
    let recipe: String = names.iter().map(|name| format!("[[stage]]\nname = \"{name}\"\n")).collect();
    fs::write(scratch.0.join("recipe.toml"), recipe).unwrap();
    let model_folder = scratch.0.join("model");
    let one = run(&scratch.0.join("one"), &model_folder, 2);
    assert_eq!(first_weights(scratch.path(), Which::Last), one);
    let two = run(&scratch.0.join("two"), &model_folder, 5);
    assert_ne!(one, two);
    assert_eq!(first_weights(scratch.path(), Which::Last), two);
    assert_eq!(first_weights(scratch.0.join("one").to_str().unwrap(), Which::Last), one);
}

#[test]
fn what_is_not_there_is_said() {
    let message = refused("no/such/folder", Which::Exported);
    assert!(message.contains("no folder is called `no/such/folder`"), "{message}");
    let message =
        Session::open("no/such/folder", &OpenOptions::new(&REGISTRY), &cpu()).err().unwrap().to_string();
    assert!(message.contains("no folder is called `no/such/folder`"), "{message}");
    let message = Place::find("no/such/folder", Which::Best).unwrap_err().to_string();
    assert!(
        message.starts_with("no/such/folder is no run, and its best checkpoint was asked for"),
        "{message}"
    );
    let empty = Scratch::new();
    let message = refused(empty.path(), Which::Exported);
    assert!(message.contains("is no model's folder"), "{message}");
    // A session opens without its weights being read.
    assert_eq!(session(Scratch::model("gpt2", SMALL).path()).model().family(), "gpt2");
}
