//! What is said of operands that do not fit a GPT, and of sizes that no machine holds.

use regard_engine::{Cpu, Program, Store};
use regard_layers::FeedForwardKind;
use regard_models::import::json::Fields;
use regard_models::{
    Bert, BertConfig, BertText, Cached, Decoder, Gpt, GptConfig, T5, T5Config, Transformer,
    TransformerConfig, View, Vit, VitConfig,
};
use regard_ops::prelude::*;

const SMALL: GptConfig =
    GptConfig { layers: 1, heads: 2, width: 8, context: 4, vocabulary: 5, dropout: 0.0, ..GptConfig::SMALL };

fn text<T>(result: Result<T, impl std::fmt::Display>) -> String {
    match result {
        Ok(_) => panic!("an error was expected"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn operands_that_do_not_fit() {
    let gpt = Gpt::new(SMALL).unwrap();
    let mut g = Graph::new();
    let floats = g.input("floats", DType::F32, [1, 3]).unwrap();
    let expected = "embedding: ids is f32, expected i32; ids, positions and lengths are i32";
    assert_eq!(text(gpt.hidden(&mut g, floats, View::Whole)), expected);
    assert_eq!(text(gpt.logits(&mut g, floats)), expected);
    let long = g.input("long", DType::I32, [1, 5]).unwrap();
    let said = text(gpt.logits(&mut g, long));
    assert!(said.starts_with("add_position: "), "{said}");
    let ids = g.input("ids", DType::I32, [1, 3]).unwrap();
    let targets = g.input("targets", DType::I32, [1, 4]).unwrap();
    let scale = g.input("scale", DType::F32, shape![]).unwrap();
    let said = text(gpt.loss(&mut g, ids, targets, scale));
    assert!(said.starts_with("linear_cross_entropy: targets is [1 4], expected "), "{said}");
}

#[test]
fn a_gpt_of_any_size_is_recorded_or_refused() {
    for width in [2, 1 << 40, usize::MAX - 1] {
        let config = GptConfig { width, ..SMALL };
        let gpt = Gpt::new(config).unwrap();
        let mut g = Graph::inference();
        let ids = g.input("ids", DType::I32, [1, 3]).unwrap();
        let logits = gpt.logits(&mut g, ids).unwrap();
        g.output("logits", logits).unwrap();
        let cpu = Cpu::new().unwrap();
        let made = Program::new(g, &[], &mut Store::new(0), &cpu);
        assert_eq!(made.is_ok(), width == 2, "{width}");
    }
}

#[test]
fn parts_of_models_that_do_not_fit() {
    let gpt = Gpt::new(SMALL).unwrap();
    let mut g = Graph::new();
    let narrow = g.input("narrow", DType::F32, [1, 3, 7]).unwrap();
    let targets = g.input("targets", DType::I32, [1, 3]).unwrap();
    let scale = g.input("scale", DType::F32, shape![]).unwrap();
    assert_eq!(text(gpt.head(&mut g, narrow)), "linear: weight is [5 8], expected [N K=7]; K comes from x");
    assert_eq!(
        text(gpt.loss_of(&mut g, narrow, targets, scale)),
        "linear_cross_entropy: weight is [5 8], expected [V C=7]; C comes from x"
    );
    let position = g.input("position", DType::I32, [1, 2]).unwrap();
    let lengths = g.input("lengths", DType::I32, [1]).unwrap();
    assert_eq!(
        text(gpt.next(&mut g, targets, Cached::growing(position, lengths, 4))),
        "add_position: position is [1 2], expected [B=1 T=3]; B, T come from x"
    );

    let t5 = T5Config { encoder_layers: 1, decoder_layers: 1, width: 8, vocabulary: 5, ..T5Config::small() };
    assert_eq!(
        text(T5::new(t5).unwrap().scores(&mut g, narrow)),
        "linear: weight is [5 8], expected [N K=7]; K comes from x"
    );
    let base = TransformerConfig { encoder_layers: 1, decoder_layers: 1, ..TransformerConfig::base(5) };
    let mut g = Graph::new();
    let narrow = g.input("narrow", DType::F32, [1, 3, 7]).unwrap();
    assert_eq!(
        text(Transformer::new(base).unwrap().scores(&mut g, narrow)),
        "linear: weight is [5 512], expected [N K=7]; K comes from x"
    );
    let vit = Vit::new(VitConfig { layers: 1, ..VitConfig::preset("vit-tiny-16").unwrap() }).unwrap();
    let image = g.input("image", DType::F32, [1, 3, 10, 10]).unwrap();
    assert_eq!(
        text(vit.patch_embedding(&mut g, image)),
        "vit: image is [1 3 10 10], expected [B Ch Hh Ww] = [B 3 224 224]; resize the images, or make a model for \
         their size and interpolate its positions"
    );
    let bert = Bert::new(BertConfig { layers: 1, ..regard_models::bert::PRESETS[0].1 }).unwrap();
    let floats = BertText { ids: narrow, token_types: None, key_mask: None };
    assert_eq!(text(bert.sentence(&mut g, &floats)), "dims: value is [1 3 7], expected [B T]");
}

#[test]
fn fields_of_a_config_that_are_something_else() {
    let config = serde_json::json!({ "model_type": "bert", "a": "b", "tied": true });
    let fields = Fields::new("bert", &config).unwrap();
    let because = "give the whole config.json of the model";
    assert_eq!(text(fields.size("none")), format!("bert: the config has no `none`; {because}"));
    for (said, expected) in [
        (text(fields.inner("a").map(|_| ())), "an object"),
        (text(fields.size_or_none("a")), "a whole number"),
        (text(fields.number("a")), "a number"),
        (text(fields.truth("a")), "true or false"),
        (text(fields.must_be("a", true)), "true or false"),
    ] {
        assert!(said.starts_with("bert: `a` is ") && said.contains(expected), "{said}");
    }
    assert_eq!(
        text(fields.must_be("tied", false)),
        "bert: `tied` is true; only models with `tied` false can be imported"
    );
}

#[test]
fn a_bert_that_transformers_has_no_name_for() {
    let config = BertConfig { activation: FeedForwardKind::GatedSilu, ..regard_models::bert::PRESETS[0].1 };
    assert_eq!(
        text(regard_models::import::bert::config_to_json(&config)),
        "bert: transformers has no name for GatedSilu in this family; use Gelu, GeluTanh or Relu"
    );
}
