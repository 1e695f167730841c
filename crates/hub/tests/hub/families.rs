//! Every family that has a golden: opened, loaded and asked; saved as transformers keeps it, byte for byte;
//! opened again.

use crate::golden::{CASES, Own, asked, folder, model, open};
use regard_data::{Checkpoint, DType};
use regard_engine::{Cpu, Store};
use regard_hub::{Opened, SaveOptions, forward, save};
use regard_models::Gpt;
use std::fs;

fn loaded(opened: &Opened) -> Store {
    let mut store = Store::new(0);
    let report = opened.load_into(&mut store).unwrap();
    assert_eq!(report, opened.report);
    // What is learned, and what belongs to the model besides.
    let all = || opened.model.parameters().all();
    assert_eq!(report.tensors, all().count());
    assert_eq!(report.numbers, all().map(|one| one.shape.bound().count() as u64).sum::<u64>());
    store
}

#[test]
fn the_scores_are_those_of_pytorch() {
    let cpu = Cpu::with(2, regard_device::Level::best()).unwrap();
    for case in CASES {
        let opened = model(case);
        let mut store = loaded(&opened);
        for asked in asked(case, &*opened.model) {
            let answers = forward(&*opened.model, &mut store, &cpu, &asked.batch, &[]).unwrap();
            let logits = answers.iter().find(|answer| answer.name == "logits").unwrap();
            assert_eq!(logits.numbers.len(), asked.logits.len(), "{case}");
            let largest = asked.logits.iter().fold(0f32, |most, x| most.max(x.abs()));
            let width = asked.logits.len() / asked.counts.len();
            for (at, (got, wanted)) in logits.numbers.iter().zip(&asked.logits).enumerate() {
                let near = (got - wanted).abs() <= 1e-4 * largest;
                assert!(near || !asked.counts[at / width], "{case}: score {at} is {got}, wanted {wanted}");
            }
        }
    }
}

#[test]
fn what_is_saved_is_what_was_opened_byte_for_byte() {
    for case in CASES {
        let opened = model(case);
        let store = loaded(&opened);
        let own = Own::new(&format!("saved-{case}"));
        let options = SaveOptions { like: Some(&opened), ..Default::default() };
        save(&*opened.model, &store, &own.0, &options).unwrap();

        let (before, after) = (opened.checkpoint(), Checkpoint::open(&own.0).unwrap());
        assert!(after.verify().unwrap(), "{case}");
        for tensor in before.tensors() {
            match after.find(tensor.name) {
                Some(saved) => assert_eq!(saved, tensor, "{case}"),
                None => assert!(opened.report.ignored.iter().any(|name| name == tensor.name), "{case}"),
            }
        }
        assert_eq!(after.len() + opened.report.ignored.len(), before.len(), "{case}");

        let again = open(own.text()).unwrap();
        let settings = |opened: &Opened| format!("{:?}", opened.for_training());
        assert!(settings(&again) == settings(&opened), "{case}: {}", again.config);
        let twice = loaded(&again);
        for declared in opened.model.parameters().all() {
            assert_eq!(twice.f32(&declared.name).unwrap(), store.f32(&declared.name).unwrap(), "{case}");
        }
    }
}

#[test]
fn halves_are_rounded_and_read_again() {
    for dtype in [DType::F16, DType::BF16] {
        for case in ["gpt2", "vit", "transformer"] {
            let opened = model(case);
            let store = loaded(&opened);
            let own = Own::new(&format!("half-{case}-{dtype}"));
            let shards =
                SaveOptions { dtype, shard_bytes: Some(2000), like: Some(&opened), ..Default::default() };
            let saved = save(&*opened.model, &store, &own.0, &shards).unwrap();
            assert!(saved.files.len() > 3, "{:?}", saved.files);
            let again = open(own.text()).unwrap();
            assert!(again.checkpoint().tensors().all(|tensor| tensor.dtype == dtype));
            assert_eq!(again.config["dtype"], if dtype == DType::F16 { "float16" } else { "bfloat16" });
            let rounded = loaded(&again);
            let most = if dtype == DType::F16 { 1.0 / 2048.0 } else { 1.0 / 256.0 };
            for name in store.names() {
                for (x, y) in rounded.f32(name).unwrap().iter().zip(&store.f32(name).unwrap()) {
                    assert!((x - y).abs() <= most * y.abs() + 1e-7, "{case} {name}: {x} for {y}");
                }
            }
        }
    }
}

#[test]
fn older_words_for_the_same_settings_are_the_same_model() {
    for case in CASES.into_iter().filter(|case| folder(case).join("config_older.json").is_file()) {
        let own = Own::new(&format!("older-{case}"));
        fs::copy(folder(case).join("config_older.json"), own.0.join("config.json")).unwrap();
        fs::copy(folder(case).join("model/model.safetensors"), own.0.join("model.safetensors")).unwrap();
        let (older, newer) = (open(own.text()).unwrap(), model(case));
        let settings = |opened: &Opened| format!("{:?}", opened.for_training());
        assert!(settings(&older) == settings(&newer), "{case}");
    }
}

#[test]
fn settings_that_no_computation_needs_come_along() {
    let opened = model("gpt2");
    let own = Own::new("along");
    let edited = own.0.join("from");
    fs::create_dir_all(&edited).unwrap();
    fs::copy(folder("gpt2").join("model/model.safetensors"), edited.join("model.safetensors")).unwrap();
    let mut config = opened.config.clone();
    config["eos_token_id"] = 7.into();
    config["attn_pdrop"] = 0.25.into();
    fs::write(edited.join("config.json"), config.to_string()).unwrap();
    fs::write(edited.join("tokenizer.json"), "{}").unwrap();
    let opened = open(edited.to_str().unwrap()).unwrap();
    let store = loaded(&opened);
    let to = own.0.join("to");
    save(&*opened.model, &store, &to, &SaveOptions { like: Some(&opened), ..Default::default() }).unwrap();
    let again = open(to.to_str().unwrap()).unwrap();
    assert_eq!((&again.config["eos_token_id"], &again.config["attn_pdrop"]), (&7.into(), &0.25.into()));
    assert_eq!(fs::read_to_string(to.join("tokenizer.json")).unwrap(), "{}");
    // Over itself: nothing is lost.
    save(&*again.model, &store, &to, &SaveOptions { like: Some(&again), ..Default::default() }).unwrap();
    assert_eq!(fs::read_to_string(to.join("tokenizer.json")).unwrap(), "{}");
    let trained = open(to.to_str().unwrap()).unwrap().for_training().clone();
    assert_eq!(trained.family(), "gpt2");
    let gpt = trained.downcast::<Gpt>().unwrap();
    assert_eq!(gpt.config().attention_dropout, Some(0.25));
}
