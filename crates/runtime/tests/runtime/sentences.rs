//! Folders of sentence-transformers as the package writes them, on the goldens that `parity/sentences.py`
//! makes: every pooling, layers behind it, prompts; read, and written whole.

use crate::{Scratch, session, strings};
use regard_data::Checkpoint;
use regard_data::folder::read_json_list;
use regard_engine::Store;
use regard_hub::{SaveOptions, save};
use regard_runtime::{Prompt, TooLong};
use std::fs;
use std::path::{Path, PathBuf};

/// Of the largest number.
const BOUND: f64 = 1e-5;

fn golden(case: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/goldens/sentences").join(case)
}

fn texts(case: &str) -> Vec<String> {
    let list = read_json_list(&golden(case).join("texts.json")).unwrap();
    list.iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

fn vectors(model: &str, case: &str, prompt: Prompt<'_>) -> Vec<Vec<f32>> {
    let all = session(model).embed_with(&texts(case), TooLong::Cut, prompt).unwrap();
    all.into_iter().map(|one| one.vector).collect()
}

fn check(model: &str, case: &str, name: &str, prompt: Prompt<'_>) {
    let file = Checkpoint::open(golden(case).join("golden.safetensors")).unwrap();
    let wanted = file.get(name).unwrap();
    let found = vectors(model, case, prompt);
    assert_eq!([found.len(), found[0].len()], wanted.shape, "{case}: {name}");
    let wanted = wanted.f32s();
    let largest = wanted.iter().fold(0.0, |most: f64, &x| most.max(f64::from(x.abs())));
    for (at, (ours, theirs)) in found.concat().iter().zip(&wanted).enumerate() {
        let apart = f64::from((ours - theirs).abs());
        assert!(apart <= BOUND * largest, "{case}: {name} at {at}: {ours}, theirs {theirs}");
    }
}

#[test]
fn vectors_are_those_of_the_package() {
    let place = |case: &str| golden(case).join("model").display().to_string();
    check(&place("pooled"), "pooled", "vectors", Prompt::Default);
    check(&place("dense"), "dense", "vectors", Prompt::Default);
    check(&place("dense"), "dense", "vectors.query", Prompt::Named("query"));
    check(&place("dense"), "dense", "vectors.passage", Prompt::Named("passage"));
}

#[test]
fn a_folder_is_written_whole() {
    for case in ["pooled", "dense"] {
        let place = golden(case).join("model").display().to_string();
        let own = session(&place);
        let mut store = Store::new(0);
        own.opened().load_into(&mut store).unwrap();
        let there = Scratch::new();
        let options = SaveOptions { like: Some(own.opened()), ..Default::default() };
        save(own.model(), &store, &there.0, &options).unwrap();
        let prompt = Prompt::Default;
        assert_eq!(vectors(there.path(), case, prompt), vectors(&place, case, prompt), "{case}");
        // All that lies there, folder by folder.
        for module in fs::read_dir(golden(case).join("model")).unwrap() {
            let module = module.unwrap();
            let inside = module.path().is_dir();
            let files = if inside { fs::read_dir(module.path()).unwrap().count() } else { 1 };
            let written = there.0.join(module.file_name());
            let found =
                if inside { fs::read_dir(&written).unwrap().count() } else { usize::from(written.is_file()) };
            assert_eq!(found, files, "{case}: {}", module.path().display());
        }
    }
}

#[test]
fn a_prompt_that_fills_all_of_the_room_is_refused() {
    let place = golden("dense").join("model").display().to_string();
    let scratch = Scratch::new();
    for name in
        ["config.json", "model.safetensors", "modules.json", "tokenizer.json", "1_Pooling/config.json"]
    {
        let bytes = fs::read(Path::new(&place).join(name)).unwrap();
        fs::create_dir_all(scratch.0.join(name).parent().unwrap()).unwrap();
        fs::write(scratch.0.join(name), bytes).unwrap();
    }
    let modules = fs::read_to_string(scratch.0.join("modules.json")).unwrap();
    let two: Vec<serde_json::Value> =
        read_json_list(&scratch.0.join("modules.json")).unwrap().into_iter().take(2).collect();
    assert!(modules.len() > serde_json::json!(two).to_string().len());
    scratch.put("modules.json", &serde_json::json!(two).to_string());
    scratch.put("sentence_bert_config.json", "{\"max_seq_length\": 4}");
    let prompts = serde_json::json!({ "prompts": { "long": "find the cat on the mat" } });
    scratch.put("config_sentence_transformers.json", &prompts.to_string());
    let message = session(scratch.path())
        .embed_with(&strings(&["a dog"]), TooLong::Cut, Prompt::Named("long"))
        .unwrap_err()
        .to_string();
    assert_eq!(
        message,
        "the 4 tokens of text 1 are all the prompt's, of which none are pooled; give a text with words of its own, or a \
         shorter prompt"
    );
}
