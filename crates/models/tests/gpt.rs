//! Decoders: what presets weigh, what is refused, and foreign configs with their errors.

use regard_graph::{DType, Graph};
use regard_layers::{FeedForwardKind, NormKind};
use regard_models::import::{gpt2, llama, mingpt};
use regard_models::{Cached, Gpt, GptConfig};
use regard_ops::RotarySpec;
use serde_json::{Value, json};

#[test]
fn presets_have_as_many_parameters_as_published() {
    let count = |name: &str| Gpt::new(GptConfig::preset(name).unwrap()).unwrap().parameters().count();
    assert_eq!(count("small"), 3_323_392);
    assert_eq!(count("gpt2"), 124_439_808);
    assert_eq!(count("gpt2-medium"), 354_823_168);
    assert_eq!(count("gpt2-large"), 774_030_080);
    assert_eq!(count("gpt2-xl"), 1_557_611_200);
    assert_eq!(count("llama-2-7b"), 6_738_415_616);
    assert_eq!(count("llama-3.2-1b"), 1_235_814_400);
    assert_eq!(count("stories15M"), 15_191_712);
    for (name, config) in GptConfig::PRESETS {
        assert!(Gpt::new(config).is_ok(), "{name}");
    }
    assert_eq!(
        GptConfig::preset("gpt3").unwrap_err().to_string(),
        "no preset of a GPT is called `gpt3`; did you mean `gpt2`?"
    );
}

#[test]
fn nonsense_is_refused() {
    let text = |config: GptConfig| Gpt::new(config).unwrap_err().to_string();
    let small = GptConfig::SMALL;
    assert_eq!(text(GptConfig { layers: 0, ..small }), "gpt: layers is 0; give every size at least 1");
    assert_eq!(text(GptConfig { window: Some(0), ..small }), "gpt: window is 0; give every size at least 1");
    assert_eq!(
        text(GptConfig { heads: 7, ..small }),
        "gpt: a width of 256 cannot be shared by 7 heads; choose a width that is a multiple of the heads, or give \
         head_width"
    );
    assert_eq!(
        text(GptConfig { groups: Some(3), ..small }),
        "gpt: 8 heads cannot share 3 key/value heads; choose heads that are a multiple of the key/value heads"
    );
    assert_eq!(
        text(GptConfig { head_width: Some(9), ..GptConfig::LLAMA }),
        "gpt: 9 channels turn in heads of width 9; channels turn in pairs: let an even number turn, at most the whole \
         head"
    );
    assert_eq!(
        text(GptConfig { norm: NormKind::Batch, ..small }),
        "gpt: BatchNorm mixes later positions into earlier ones; choose Layer or Rms"
    );
    assert_eq!(
        text(GptConfig { attention_dropout: Some(1.0), ..small }),
        "gpt: attention_dropout is 1; choose a probability from 0 up to, not including, 1"
    );
    assert_eq!(
        text(GptConfig { dropout: f32::NAN, ..small }),
        "gpt: dropout is NaN; choose a probability from 0 up to, not including, 1"
    );
}

#[test]
fn caches_that_do_not_fit_are_refused() {
    let gpt = Gpt::new(GptConfig { layers: 1, heads: 2, width: 8, ..GptConfig::SMALL }).unwrap();
    let mut g = Graph::inference();
    let b = g.open('B', 4).unwrap();
    let open = g.input("open", DType::I32, regard_graph::shape![b, 3]).unwrap();
    let lengths = g.input("lengths", DType::I32, regard_graph::shape![b]).unwrap();
    assert_eq!(
        gpt.decode(&mut g, open, Cached::growing(open, lengths, 16)).unwrap_err().to_string(),
        "gpt: the batch of a run with caches is open; give ids of a fixed batch: each example has a row of its own in \
         the caches"
    );
    let ids = g.input("ids", DType::I32, [2, 5]).unwrap();
    let lengths = g.input("two", DType::I32, [2]).unwrap();
    assert_eq!(
        gpt.decode(&mut g, ids, Cached::growing(ids, lengths, 4)).unwrap_err().to_string(),
        "gpt: caches of 4 slots for runs of up to 5 ids; give them at least 5, or fewer ids at a time"
    );
}

/// A config with some fields replaced; null takes one away.
fn with(config: &Value, fields: Value) -> Value {
    let mut config = config.clone();
    for (name, value) in fields.as_object().unwrap() {
        config[name] = value.clone();
    }
    config
}

#[test]
fn configs_of_gpt2_are_read_and_doubtful_ones_refused() {
    // As published with the weights in 2019.
    let published = json!({
        "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
        "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02,
        "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12,
        "n_layer": 12, "n_positions": 1024, "resid_pdrop": 0.1, "summary_type": "cls_index", "vocab_size": 50257
    });
    let config = gpt2::config_from_json(&published).unwrap();
    assert_eq!(config, GptConfig { attention_dropout: Some(0.1), ..GptConfig::GPT2 });
    let text = |fields: Value| gpt2::config_from_json(&with(&published, fields)).unwrap_err().to_string();
    assert_eq!(
        text(json!({ "activation_function": "gelu_newer" })),
        "gpt2: `activation_function` is `gelu_newer`; what can be imported is `gelu_new`, `gelu_pytorch_tanh`, \
         `gelu_fast`, `gelu`, `relu`"
    );
    assert_eq!(
        text(json!({ "n_ctx": 512 })),
        "gpt2: `n_positions` is 1024, `n_ctx` is 512; both mean the most positions: make them the same, or leave \
         `n_ctx` out"
    );
    assert_eq!(
        text(json!({ "embd_pdrop": 0.0 })),
        "gpt2: `resid_pdrop` is 0.1, `embd_pdrop` is 0; only models with the same dropout in both places can be \
         imported; it acts in training alone"
    );
    assert_eq!(
        text(json!({ "n_head": 7 })),
        "gpt: a width of 768 cannot be shared by 7 heads; choose a width that is a multiple of the heads, or give \
         head_width"
    );
    assert_eq!(
        text(json!({ "n_layer": null })),
        "gpt2: the config has no `n_layer`; give the whole config.json of the model"
    );
    assert_eq!(text(json!({ "n_layer": "12" })), "gpt2: `n_layer` is \"12\"; it should be a whole number");
    assert_eq!(
        text(json!({ "model_type": "bert" })),
        "gpt2: the config is one of model_type `bert`; give one of model_type `gpt2`, or import it as what it is"
    );
    assert_eq!(
        text(json!({ "scale_attn_by_inverse_layer_idx": true })),
        "gpt2: `scale_attn_by_inverse_layer_idx` is true; only models with `scale_attn_by_inverse_layer_idx` false can \
         be imported"
    );
    assert_eq!(
        gpt2::config_from_json(&json!([1])).unwrap_err().to_string(),
        "gpt2: the config is no JSON object; give the whole config.json"
    );
}

#[test]
fn configs_of_llama_are_read_and_doubtful_ones_refused() {
    // Llama 2 as published in 2023, and the fields of Llama 3.2 that differ.
    let published = json!({
        "architectures": ["LlamaForCausalLM"], "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
        "intermediate_size": 11008, "max_position_embeddings": 4096, "model_type": "llama",
        "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32, "pretraining_tp": 1,
        "rms_norm_eps": 1e-05, "rope_scaling": null, "tie_word_embeddings": false, "vocab_size": 32000
    });
    let zero = Some(0.0);
    assert_eq!(
        llama::config_from_json(&published).unwrap(),
        GptConfig { groups: Some(32), attention_dropout: zero, ..GptConfig::LLAMA }
    );
    let llama3 = json!({
        "hidden_size": 2048, "intermediate_size": 8192, "max_position_embeddings": 131072, "num_hidden_layers": 16,
        "num_key_value_heads": 8, "head_dim": 64, "rope_theta": 500000.0, "tie_word_embeddings": true,
        "vocab_size": 128256, "rope_scaling": { "factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
        "original_max_position_embeddings": 8192, "rope_type": "llama3" }
    });
    let preset = GptConfig::preset("llama-3.2-1b").unwrap();
    assert_eq!(
        llama::config_from_json(&with(&published, llama3)).unwrap(),
        GptConfig { head_width: Some(64), attention_dropout: zero, ..preset }
    );
    let text = |fields: Value| llama::config_from_json(&with(&published, fields)).unwrap_err().to_string();
    assert_eq!(
        text(json!({ "hidden_act": "gelu" })),
        "llama: `hidden_act` is `gelu`; what can be imported is `silu`, `swish`"
    );
    assert_eq!(
        text(json!({ "num_key_value_heads": 5 })),
        "gpt: 32 heads cannot share 5 key/value heads; choose heads that are a multiple of the key/value heads"
    );
    assert_eq!(
        text(json!({ "rope_theta": 1e4, "rope_parameters": { "rope_type": "default", "rope_theta": 5e5 } })),
        "llama: `rope_theta` is 10000, and 500000 in `rope_parameters`; make them the same, or leave one out"
    );
    assert_eq!(
        text(json!({ "rope_scaling": { "type": "longrope", "factor": 2.0 } })),
        "llama: `rope_type` is `longrope`; what can be imported is `default`, `linear`, `dynamic`, `yarn`, `llama3`"
    );
    assert_eq!(
        text(json!({ "rope_scaling": { "type": "linear" } })),
        "llama: rope_type `linear` has no `factor`; give the whole config.json"
    );
    assert_eq!(
        text(json!({ "rope_parameters": { "rope_type": "default", "mrope_section": [1, 2] } })),
        "llama: the settings of rotary positions have `mrope_section`; what can be imported is default, linear, dynamic, \
         yarn, llama3"
    );
    assert_eq!(
        text(json!({ "rope_parameters": { "rope_type": "default", "partial_rotary_factor": 0.5 } })),
        "llama: `partial_rotary_factor` is 0.5; heads of this family turn as a whole: leave it out"
    );
    assert_eq!(
        text(json!({ "rope_scaling": { "rope_type": "llama3", "factor": 2.0 } })),
        "llama: rope_type `llama3` has no `low_freq_factor`; give the whole config.json"
    );
    assert_eq!(
        text(json!({ "rope_scaling": { "factor": 2.0 }, "rope_parameters": {} })),
        "llama: both `rope_parameters` and `rope_scaling` are given; they say the same in newer and older words: leave \
         one out"
    );
}

#[test]
fn what_a_family_does_not_have_is_not_written() {
    let text = |result: regard_graph::Result<Value>| result.unwrap_err().to_string();
    assert_eq!(
        text(gpt2::config_to_json(&GptConfig::LLAMA)),
        "gpt2: GPT-2 has learned positions, LayerNorm and no window; export it as another family"
    );
    assert_eq!(
        text(llama::config_to_json(&GptConfig::GPT2)),
        "llama: a model of this family cannot have the feed-forward part of this one; export it as another family"
    );
    let gelu = GptConfig { feed_forward: FeedForwardKind::Gelu, ..GptConfig::LLAMA };
    assert_eq!(
        text(llama::config_to_json(&gelu)),
        "llama: a model of this family cannot have the feed-forward part of this one; export it as another family"
    );
    let partly = RotarySpec { width: Some(64), ..RotarySpec::default() };
    let partly = GptConfig { positions: regard_models::Positions::Rotary(partly), ..GptConfig::LLAMA };
    assert_eq!(
        text(llama::config_to_json(&partly)),
        "llama: a model of this family cannot have the positions of this one; export it as another family"
    );
    let windowed = GptConfig { window: Some(9), ..GptConfig::LLAMA };
    assert_eq!(
        text(llama::config_to_json(&windowed)),
        "llama: a model of this family cannot have the window of this one; export it as another family"
    );
    let dropped = GptConfig { dropout: 0.1, attention_dropout: Some(0.0), ..GptConfig::LLAMA };
    assert_eq!(
        text(llama::config_to_json(&dropped)),
        "llama: a model of this family cannot have the dropout of this one; export it as another family"
    );
    assert_eq!(gpt2::config_to_json(&GptConfig::GPT2).unwrap()["layer_norm_epsilon"], json!(1e-5));
    let mini = json!({ "model_type": "mingpt", "n_layer": 3, "n_head": 3, "n_embd": 48, "vocab_size": 50257,
                       "block_size": 1024 });
    assert_eq!(mingpt::config_from_json(&mini).unwrap(), GptConfig::preset("gpt-nano").unwrap());
}
