//! Models that no other software has a form for: saved in our own words, opened again, and the same in every number.

use crate::golden::{Own, open};
use regard_engine::{Cpu, Store};
use regard_graph::Init;
use regard_hub::{Batch, SaveOptions, forward, save};
use regard_models::{
    Bert, BertConfig, BertHead, Gpt, GptConfig, Model, Perceiver, PerceiverConfig, PerceiverMasking,
    Positions,
};
use regard_ops::RotarySpec;
use std::sync::Arc;

fn models() -> Vec<(&'static str, Arc<dyn Model>)> {
    let gpt = GptConfig { layers: 2, heads: 2, width: 8, context: 6, vocabulary: 11, ..GptConfig::SMALL };
    let rotary = GptConfig { positions: Positions::Rotary(RotarySpec::default()), tied: true, ..gpt };
    let perceiver = PerceiverConfig {
        layers: 3,
        heads: 2,
        width: 8,
        latents: 3,
        context: 6,
        vocabulary: 11,
        masking: PerceiverMasking::Prefix,
        dropout: 0.1,
        mechanisms: Default::default(),
    };
    let head = BertHead::MeanClasses(3);
    let bert = BertConfig {
        layers: 1,
        heads: 2,
        width: 8,
        hidden: 12,
        context: 6,
        vocabulary: 11,
        head,
        ..regard_models::bert::PRESETS[0].1
    };
    vec![
        ("regard-gpt", Arc::new(Gpt::new(gpt).unwrap())),
        ("regard-gpt", Arc::new(Gpt::new(rotary).unwrap())),
        ("regard-perceiver", Arc::new(Perceiver::new(perceiver).unwrap())),
        ("regard-bert", Arc::new(Bert::new(bert).unwrap())),
    ]
}

#[test]
fn a_model_of_our_own_comes_back_whole() {
    let cpu = Cpu::with(2, regard_device::Level::best()).unwrap();
    for (at, (family, model)) in models().into_iter().enumerate() {
        assert_eq!(model.family(), family);
        let mut store = Store::new(7);
        for one in model.parameters().declared() {
            store.declare(&one.name, &one.shape, Init::Normal(0.5)).unwrap();
        }
        let own = Own::new(&format!("native-{at}"));
        let labels = [("id2label", serde_json::json!({"0": "no", "1": "yes", "2": "perhaps"}))];
        save(&*model, &store, &own.0, &SaveOptions { settings: &labels, ..Default::default() }).unwrap();

        let opened = open(own.text()).unwrap();
        assert_eq!(format!("{:?}", opened.for_training()), format!("{model:?}"));
        assert_eq!(opened.config["id2label"]["2"], "perhaps");
        let mut again = Store::new(0);
        opened.load_into(&mut again).unwrap();
        let batch = Batch { ids: vec![vec![1, 2, 3, 4], vec![5, 6]], ..Default::default() };
        let before = forward(&*model.without_dropout().unwrap(), &mut store, &cpu, &batch, &[]).unwrap();
        let after = forward(&*opened.model, &mut again, &cpu, &batch, &[]).unwrap();
        assert_eq!(before, after, "{family}");
        assert!(before[0].numbers.iter().any(|x| *x != 0.0));
    }
}
