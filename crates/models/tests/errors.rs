//! What is said of operands that do not fit a model, and of sizes that no machine holds.

use regard_engine::{Cpu, Program, Store};
use regard_layers::{Context, FeedForwardKind, KeySource};
use regard_models::import::json::Fields;
use regard_models::{
    Bert, BertConfig, BertHead, BertText, Cached, Decoder, Decoding, EncoderDecoder, Gpt, GptConfig,
    Mechanisms, Perceiver, PerceiverConfig, PerceiverMasking, T5, T5Config, T5Encoder, Transformer,
    TransformerConfig, View, Vit, VitConfig,
};
use regard_ops::CrossEntropyOptions;
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
    let message = text(gpt.logits(&mut g, long));
    assert!(message.starts_with("add_position: "), "{message}");
    let ids = g.input("ids", DType::I32, [1, 3]).unwrap();
    let targets = g.input("targets", DType::I32, [1, 4]).unwrap();
    let scale = g.input("scale", DType::F32, shape![]).unwrap();
    let message = text(gpt.loss(&mut g, ids, targets, scale));
    assert!(message.starts_with("linear_cross_entropy: targets is [1 4], expected "), "{message}");
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
    assert_eq!(
        text(gpt.loss_of_with(&mut g, narrow, targets, scale, CrossEntropyOptions::default())),
        "linear_cross_entropy: weight is [5 8], expected [V C=7]; C comes from x"
    );
    let decoder: &dyn Decoder = &gpt;
    assert_eq!(
        text(decoder.scores(&mut g, narrow)),
        "linear: weight is [5 8], expected [N K=7]; K comes from x"
    );
    let position = g.input("position", DType::I32, [1, 2]).unwrap();
    let lengths = g.input("lengths", DType::I32, [1]).unwrap();
    assert_eq!(
        text(decoder.resume(&mut g, targets, Cached::growing(position, lengths, 2).into())),
        "gpt: caches of 2 slots for runs of up to 3 ids; give them at least 3, or fewer ids at a time"
    );
    let open = g.open('B', 3).unwrap();
    let many = g.input("many", DType::I32, shape![open, 3]).unwrap();
    assert_eq!(
        text(Cached::growing(position, lengths, 4).context(&g, many)),
        "decoding: the batch of a run with caches is open; give ids of a fixed batch: each example has a row of its own in \
         the caches"
    );
    assert_eq!(
        text(gpt.next(&mut g, targets, Cached::growing(position, lengths, 4).into())),
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
    for (message, expected) in [
        (text(fields.inner("a").map(|_| ())), "an object"),
        (text(fields.size_or_none("a")), "a whole number"),
        (text(fields.number("a")), "a number"),
        (text(fields.truth("a")), "true or false"),
        (text(fields.must_be("a", true)), "true or false"),
    ] {
        assert!(message.starts_with("bert: `a` is ") && message.contains(expected), "{message}");
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

#[test]
fn encoder_decoders_that_do_not_fit() {
    let t5 = T5Config { encoder_layers: 1, decoder_layers: 1, width: 8, vocabulary: 5, ..T5Config::small() };
    let t5: T5 = T5::new(t5).unwrap();
    let base = TransformerConfig { encoder_layers: 1, decoder_layers: 1, ..TransformerConfig::base(5) };
    let transformer: Transformer = Transformer::new(base).unwrap();
    let ids_expected = "embedding: ids is f32, expected i32; ids, positions and lengths are i32";
    let leaves = |g: &mut Graph| {
        let floats = g.input("floats", DType::F32, [1, 3]).unwrap();
        let ids = g.input("ids", DType::I32, [1, 3]).unwrap();
        let labels = g.input("labels", DType::I32, [1, 4]).unwrap();
        let narrow = g.input("narrow", DType::F32, [1, 3, 7]).unwrap();
        (floats, ids, labels, narrow, g.input("scale", DType::F32, shape![]).unwrap())
    };
    let options = CrossEntropyOptions::default;

    let g = &mut Graph::new();
    let (floats, ids, labels, narrow, scale) = leaves(g);
    assert_eq!(text(t5.encode(g, floats, None)), ids_expected);
    let encoder = T5Encoder::new(*t5.config()).unwrap();
    assert_eq!(text(encoder.hidden(g, floats, None)), ids_expected);
    let rms = Mechanisms { groups: Some(2), ..Mechanisms::NONE };
    assert_eq!(
        text(T5Encoder::new(T5Config { mechanisms: rms, ..*t5.config() })),
        "t5: an encoder by itself with mechanisms that T5 does not have; make an encoder-decoder of them"
    );
    assert_eq!(text(t5.logits(g, floats, None, ids)), ids_expected);
    assert_eq!(text(t5.loss(g, [floats, ids, ids], None, scale)), ids_expected);
    let message = text(t5.loss_with(g, [ids, ids, labels], None, scale, options()));
    assert!(message.contains("cross_entropy: targets is [1 4], expected "), "{message}");
    let message = text(t5.hidden(g, narrow, None, ids));
    assert!(message.ends_with(" 8], expected [N K=7]; K comes from x"), "{message}");

    let g = &mut Graph::new();
    let (floats, ids, labels, narrow, scale) = leaves(g);
    assert_eq!(text(transformer.encode(g, floats, None)), ids_expected);
    assert_eq!(text(transformer.logits(g, floats, None, ids)), ids_expected);
    let message = text(transformer.loss(g, [ids, ids, labels], None, scale, options()));
    assert!(message.contains("cross_entropy: targets is [1 4], expected "), "{message}");
    assert_eq!(
        text(transformer.hidden(g, narrow, None, ids)),
        "linear: weight is [512 512], expected [N K=7]; K comes from x"
    );
    // What both are to those that write one token after another.
    for model in [&t5 as &dyn EncoderDecoder, &transformer] {
        let mut g = Graph::inference();
        let b = g.open('B', 3).unwrap();
        let open = g.input("open", DType::I32, shape![b, 3]).unwrap();
        let lengths = g.input("lengths", DType::I32, shape![b]).unwrap();
        let mask = g.input("mask", DType::Bool, shape![b, 4]).unwrap();
        let floats = g.input("floats", DType::F32, [1, 3]).unwrap();
        let narrow = g.input("narrow", DType::F32, shape![b, 3, 7]).unwrap();
        let own = Cached::growing(open, lengths, 16);
        let decoding = Decoding { own, memory_capacity: 4, memory_mask: mask, memory_row: None };
        for message in [
            text(model.decode(&mut g, open, &decoding)),
            text(model.next(&mut g, open, &decoding)),
            text(model.resume(&mut g, open, &decoding)),
            text(model.keep(&mut g, narrow, open, 4)),
        ] {
            assert_eq!(
                message,
                "decoding: the batch of a run with caches is open; give ids of a fixed batch: each example has a row of \
                 its own in the caches"
            );
        }
        let context = Context::default();
        assert_eq!(text(model.encode(&mut g, floats, None)), ids_expected);
        assert_eq!(text(model.stream(&mut g, floats, &context, (KeySource::Own, &context))), ids_expected);
        let message = text(model.scores(&mut g, narrow));
        assert!(message.ends_with("], expected [N K=7]; K comes from x"), "{message}");
    }
}

#[test]
fn losses_and_streams_that_do_not_fit() {
    let vit: Vit = Vit::new(VitConfig { layers: 1, ..VitConfig::preset("vit-tiny-16").unwrap() }).unwrap();
    let mut g = Graph::new();
    let small = g.input("small", DType::F32, [1, 3, 10, 10]).unwrap();
    let image = g.input("image", DType::F32, [1, 3, 224, 224]).unwrap();
    let targets = g.input("targets", DType::I32, [4]).unwrap();
    let scale = g.input("scale", DType::F32, shape![]).unwrap();
    for message in [
        text(vit.hidden(&mut g, small)),
        text(vit.pooled(&mut g, small)),
        text(vit.loss(&mut g, small, targets, scale)),
    ] {
        assert!(
            message.starts_with("vit: image is [1 3 10 10], expected [B Ch Hh Ww] = [B 3 224 224]; "),
            "{message}"
        );
    }
    let message = text(vit.loss_with(&mut g, image, targets, scale, CrossEntropyOptions::default()));
    assert!(message.contains("cross_entropy: targets is [4], expected "), "{message}");

    let config = BertConfig { layers: 1, head: BertHead::Masked, ..regard_models::bert::PRESETS[0].1 };
    let bert: Bert = Bert::new(config).unwrap();
    let mut g = Graph::new();
    let floats = g.input("floats", DType::F32, [1, 3]).unwrap();
    let ids = g.input("ids", DType::I32, [1, 3]).unwrap();
    let targets = g.input("targets", DType::I32, [1, 4]).unwrap();
    let scale = g.input("scale", DType::F32, shape![]).unwrap();
    let of = |ids| BertText { ids, token_types: None, key_mask: None };
    let expected = "embedding: ids is f32, expected i32; ids, positions and lengths are i32";
    assert_eq!(text(bert.mean(&mut g, &of(floats))), expected);
    assert_eq!(text(bert.loss(&mut g, &of(floats), targets, scale)), expected);
    let message = text(bert.loss_with(&mut g, &of(ids), targets, scale, CrossEntropyOptions::default()));
    assert!(message.contains("cross_entropy: targets is [1 4], expected "), "{message}");
}

#[test]
fn configs_that_are_something_else() {
    use regard_models::import::{mingpt, native};
    let list = serde_json::json!([1]);
    assert_eq!(
        text(Fields::new("bert", &list).map(|_| ())),
        "bert: the config is no JSON object; give the whole config.json"
    );
    let config = serde_json::json!({ "model_type": "gpt2", "a": 1 });
    assert_eq!(
        text(Fields::new("bert", &config).map(|_| ())),
        "bert: the config is one of model_type `gpt2`; give one of model_type `bert`, or import it as what it is"
    );
    let fields: Fields = Fields::new("gpt2", &config).unwrap();
    let message = text(fields.text("a").map(|_| ()));
    assert!(message.starts_with("gpt2: `a` is ") && message.contains("text"), "{message}");
    let none = serde_json::json!({});
    let missing = |message: String| {
        message.contains(": the config has no `")
            && message.ends_with("give the whole config.json of the model")
    };
    for message in [
        text(mingpt::config_from_json(&none)),
        text(native::bert_from_json(&none)),
        text(native::gpt_from_json(&none)),
        text(native::perceiver_from_json(&none)),
        text(native::vit_from_json(&none)),
        text(native::t5_from_json(&none)),
        text(native::transformer_from_json(&none)),
    ] {
        assert!(missing(message.clone()), "{message}");
    }
}

#[test]
fn perceivers_and_values_of_another_graph() {
    let config = PerceiverConfig {
        layers: 2,
        heads: 2,
        width: 8,
        latents: 2,
        context: 4,
        vocabulary: 5,
        masking: PerceiverMasking::Prefix,
        dropout: 0.0,
        mechanisms: Default::default(),
    };
    let perceiver: Perceiver = Perceiver::new(config).unwrap();
    let mut g = Graph::new();
    let flat = g.input("flat", DType::I32, [3]).unwrap();
    let ids = g.input("ids", DType::I32, [1, 3]).unwrap();
    let targets = g.input("targets", DType::I32, [1, 4]).unwrap();
    let scale = g.input("scale", DType::F32, shape![]).unwrap();
    let narrow = g.input("narrow", DType::F32, [1, 3, 7]).unwrap();
    assert_eq!(text(perceiver.hidden(&mut g, flat)), "perceiver: ids are [3]; give ids [B T]");
    assert_eq!(
        text(perceiver.scores(&mut g, narrow)),
        "linear: weight is [5 8], expected [N K=7]; K comes from x"
    );
    let cached = Cached::growing(ids, flat, 4);
    assert_eq!(
        text(Decoder::resume(&perceiver, &mut g, ids, cached.into())),
        "perceiver: it keeps nothing from run to run; give it whole texts, and where each ends"
    );
    assert_eq!(
        text(Decoder::scores(&perceiver, &mut g, narrow)),
        "linear: weight is [5 8], expected [N K=7]; K comes from x"
    );
    let options = CrossEntropyOptions::default();
    let message = text(perceiver.loss_with(&mut g, ids, targets, scale, options));
    assert!(message.starts_with("linear_cross_entropy: targets is [1 4], expected "), "{message}");
    // Taps of a pass have their names once in a graph.
    let mut again = Graph::new();
    let ids_again = again.input("ids", DType::I32, [1, 3]).unwrap();
    let targets = again.input("targets", DType::I32, [1, 4]).unwrap();
    let scale = again.input("scale", DType::F32, shape![]).unwrap();
    let message = text(perceiver.loss(&mut again, ids_again, targets, scale));
    assert!(message.starts_with("linear_cross_entropy: targets is [1 4], expected "), "{message}");
    // Shapes are asked for before anything is recorded: a value that this graph does not have must not be
    // looked up.
    let mut other = Graph::new();
    let foreign = "operand 0 belongs to another graph; record it in this one";
    assert_eq!(text(perceiver.hidden(&mut other, ids)), format!("perceiver: {foreign}"));
    let vit: Vit = Vit::new(VitConfig { layers: 1, ..VitConfig::preset("vit-tiny-16").unwrap() }).unwrap();
    assert_eq!(text(vit.patch_embedding(&mut other, narrow)), format!("vit: {foreign}"));
    let t5 = T5::new(T5Config { encoder_layers: 1, decoder_layers: 1, ..T5Config::small() }).unwrap();
    assert_eq!(text(t5.keep(&mut other, narrow, ids, 4)), format!("decoding: {foreign}"));
}
