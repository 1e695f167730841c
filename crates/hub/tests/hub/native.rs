//! Models that no other software has a form for: saved in our own words, opened again, and the same in every
//! number.

use crate::golden::{Own, open};
use regard_data::{Checkpoint, Data, Save, save_file};
use regard_engine::{Cpu, Store};
use regard_graph::Init;
use regard_hub::{Batch, Images, Opened, SaveOptions, forward, save};
use regard_layers::{FeedForwardKind, HeadScale, NormKind, NormPlace};
use regard_models::{
    Bert, BertConfig, BertHead, BertVariant, Gpt, GptConfig, Mechanisms, Model, Perceiver, PerceiverConfig,
    PerceiverMasking, Positions, Registry, T5, T5Config, Transformer, TransformerConfig, Vit, VitConfig,
    VitHead, VitPooling, vit,
};
use regard_ops::{AttentionKind, RotarySpec};
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
    // One of each family with mechanisms that are not its own.
    let strange = GptConfig {
        positions: Positions::Clipped { reach: 2 },
        scale: HeadScale::Learned,
        attention: AttentionKind::Gumbel { temperature: 0.5, hard: false },
        place: NormPlace::Post,
        hidden_dropout: Some(0.2),
        ..gpt
    };
    let alibi = Mechanisms {
        positions: Some(Positions::Alibi),
        norm: Some(NormKind::Batch),
        activation: Some(FeedForwardKind::GatedSilu),
        ..Mechanisms::NONE
    };
    let masked = BertConfig { head: BertHead::Masked, mechanisms: alibi, ..bert };
    // Of the families that descend from BERT, what differs around the blocks is kept.
    let padded = BertVariant { padding: Some(0), ..BertVariant::MPNET };
    let mpnet = BertConfig { token_types: 0, variant: padded, ..bert };
    let narrow = BertVariant { embedding_width: Some(3), head_dropout: Some(0.25), ..BertVariant::ELECTRA };
    let electra = BertConfig { variant: narrow, ..masked };
    let vit = VitConfig {
        image: [4, 4],
        patch: [2, 2],
        channels: 1,
        layers: 1,
        heads: 2,
        width: 8,
        hidden: 8,
        pooling: VitPooling::Mean,
        head: VitHead::Linear(3),
        mechanisms: Mechanisms { positions: Some(Positions::Sinusoidal), ..alibi },
        ..vit::PRESETS[0].1
    };
    let shared = Mechanisms {
        positions: Some(Positions::Rotary(RotarySpec::default())),
        groups: Some(1),
        norm: Some(NormKind::Layer),
        attention: Some(AttentionKind::Hard),
        attention_dropout: Some(0.3),
        ..Mechanisms::NONE
    };
    let t5 = T5Config {
        vocabulary: 11,
        width: 8,
        heads: 2,
        head_width: 4,
        hidden: 8,
        encoder_layers: 1,
        decoder_layers: 1,
        mechanisms: shared,
        ..T5Config::small()
    };
    let transformer = TransformerConfig {
        width: 8,
        heads: 2,
        hidden: 8,
        encoder_layers: 1,
        decoder_layers: 1,
        context: 6,
        mechanisms: Mechanisms { place: Some(NormPlace::Pre), ..shared },
        ..TransformerConfig::base(11)
    };
    vec![
        ("regard-gpt", Arc::new(Gpt::new(strange).unwrap())),
        ("regard-bert", Arc::new(Bert::new(masked).unwrap())),
        ("regard-bert", Arc::new(Bert::new(mpnet).unwrap())),
        ("regard-bert", Arc::new(Bert::new(electra).unwrap())),
        ("regard-vit", Arc::new(Vit::new(vit).unwrap())),
        ("regard-t5", Arc::new(T5::new(t5).unwrap())),
        ("regard-transformer", Arc::new(Transformer::new(transformer).unwrap())),
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
        for one in model.parameters().all() {
            let variance = one.name.ends_with("running_variance");
            let init = if variance { Init::Ones } else { Init::Normal(0.5) };
            store.declare(&one.name, &one.shape, init).unwrap();
        }
        let own = Own::new(&format!("native-{at}"));
        let labels = [("id2label", serde_json::json!({"0": "no", "1": "yes", "2": "perhaps"}))];
        save(&*model, &store, &own.0, &SaveOptions { settings: &labels, ..Default::default() }).unwrap();

        let opened = open(own.text()).unwrap();
        assert_eq!(format!("{:?}", opened.for_training()), format!("{model:?}"));
        assert_eq!(opened.config["id2label"]["2"], "perhaps");
        let mut again = Store::new(0);
        opened.load_into(&mut again).unwrap();
        let batch = match model.reads().pixels {
            Some(_) => {
                Batch::images(Images { shape: vec![1, 1, 4, 4], pixels: (0..16).map(|x| x as f32).collect() })
            }
            None => Batch::texts(&model.reads(), vec![vec![1, 2, 3, 4], vec![5, 6]]),
        };
        let before = forward(&*model.without_dropout().unwrap(), &mut store, &cpu, &batch, &[]).unwrap();
        let after = forward(&*opened.model, &mut again, &cpu, &batch, &[]).unwrap();
        assert_eq!(before, after, "{family}");
        assert!(before[0].numbers.iter().any(|x| *x != 0.0));
    }
}

#[test]
fn what_is_no_checkpoint_of_the_model_is_refused() {
    let (_, model) = models().remove(0);
    let config = model.config_to_json().unwrap();
    let own = Own::new("checkpoint");
    let mut store = Store::new(7);
    for one in model.parameters().declared() {
        store.declare(&one.name, &one.shape, Init::Normal(0.5)).unwrap();
    }
    let numbers: Vec<(String, Vec<usize>)> = model
        .parameters()
        .declared()
        .map(|one| (one.name.clone(), one.shape.bound().to_vec()))
        .chain([("adamw.m.something".to_string(), vec![2])])
        .collect();
    let save = |leave_out: usize| {
        let some = numbers.iter().skip(leave_out);
        let some: Vec<(&str, &[usize], Vec<f32>)> = some
            .map(|(name, shape)| {
                let own = store.f32(name).map_or(vec![0.0; 2], |numbers| numbers.to_vec());
                (name.as_str(), shape.as_slice(), own)
            })
            .collect();
        let saves: Vec<Save<'_>> =
            some.iter().map(|(name, shape, own)| Save { name, shape, data: Data::F32(own) }).collect();
        let path = own.0.join("last.safetensors");
        save_file(&path, &saves, &Default::default()).unwrap();
        Checkpoint::open(&path).unwrap()
    };
    let registry = Registry::standard();
    let opened = Opened::of_checkpoint(own.0.clone(), config.clone(), save(0), &registry).unwrap();
    let mut again = Store::new(0);
    opened.load_into(&mut again).unwrap();
    assert_eq!(again.names().count(), numbers.len() - 1, "moments are left where they are");
    for one in model.parameters().declared() {
        assert_eq!(again.f32(&one.name).unwrap(), store.f32(&one.name).unwrap(), "{}", one.name);
    }
    let message = Opened::of_checkpoint(own.0.clone(), config, save(1), &registry).unwrap_err().to_string();
    assert!(message.contains(&numbers[0].0), "{message}");
}

/// A GPT that was made here and is GPT-2 or Llama by its settings goes elsewhere in their form.
#[test]
fn what_transformers_has_a_form_for_is_written_in_it() {
    let sized = |plain: GptConfig| GptConfig {
        layers: 1,
        heads: 2,
        width: 8,
        vocabulary: 11,
        context: 6,
        dropout: 0.0,
        attention_dropout: None,
        ..plain
    };
    let (small, llama) = (sized(GptConfig::GPT2), sized(GptConfig::LLAMA));
    for (config, family) in [(small, "gpt2"), (llama, "llama")] {
        let gpt = Gpt::new(config).unwrap();
        assert_eq!((gpt.family(), gpt.departs()), ("regard-gpt", None));
        let other = gpt.in_other_form().unwrap();
        assert_eq!((other.family(), other.departs()), (family, None));
        assert!(other.in_other_form().is_none(), "it is in their form already");
        let mut store = Store::new(3);
        for declared in gpt.parameters().all() {
            store.declare(&declared.name, &declared.shape, regard_graph::Init::Normal(0.3)).unwrap();
        }
        let own = Own::new(&format!("other-{family}"));
        save(&*other, &store, &own.0, &Default::default()).unwrap();
        let again = open(own.text()).unwrap();
        let mut read = Store::new(0);
        again.load_into(&mut read).unwrap();
        let cpu = Cpu::with(1, regard_device::Level::best()).unwrap();
        let batch = regard_hub::Batch { ids: vec![vec![1, 5, 2]], ..Default::default() };
        let ours = regard_hub::forward(&gpt, &mut store, &cpu, &batch, &[]).unwrap();
        let theirs = regard_hub::forward(&*again.model, &mut read, &cpu, &batch, &[]).unwrap();
        assert_eq!(ours[0].numbers, theirs[0].numbers, "{family}");
    }
    let mixed = Gpt::new(GptConfig { positions: Positions::Alibi, ..small }).unwrap();
    assert!(mixed.in_other_form().is_none());
    let why = mixed.departs().unwrap();
    assert!(why.contains("gpt2: GPT-2 has learned positions, LayerNorm and no window"), "{why}");
    assert!(why.contains("llama: a model of this family cannot have "), "{why}");
    let mean = BertConfig { head: BertHead::MeanClasses(2), ..Default::default() };
    assert_eq!(
        Bert::new(mean).unwrap().departs().unwrap(),
        "transformers has no BERT that classifies by the mean"
    );
}
