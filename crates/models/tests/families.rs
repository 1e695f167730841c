//! Every family of the registry, asked the same questions: its models come back from their configs, its files
//! hold every parameter once, and every mechanism that blocks can have is had, or refused with a reason.

use regard_graph::{DType, Graph, Precision};
use regard_models::Pixels;
use regard_models::families::gpt::GPT2;
use regard_models::import::mingpt;
use regard_models::{
    Dropout, Family, Gpt, GptConfig, Inputs, Model, ModelKeys, Needs, NoWeights, Reads, Registry,
    SentencePooling, Sizes, Tokens,
};
use regard_ops::CrossEntropyOptions;
use regard_ops::prelude::*;
use serde_json::{Value, json};
use std::sync::Arc;

const SIZES: Sizes = Sizes { batch: 2, ids: 4, source: 5, types: false, placed: false };

fn needs(task: &str) -> Needs<'_> {
    let dropout = Dropout { activations: 0.1, attention: Some(0.2), hidden: Some(0.3) };
    Needs { task, vocabulary: 11, classes: 3, image: [1, 8, 8], longest: 8, dropout }
}

/// Small sizes, as far as the family has keys for them.
fn small(family: &dyn Family) -> ModelKeys {
    let sizes = [
        ("layers", 2),
        ("heads", 2),
        ("width", 8),
        ("hidden", 12),
        ("context", 8),
        ("latents", 3),
        ("patch", 4),
    ];
    let known = family.keys();
    let own = sizes.iter().filter(|(name, _)| known.iter().any(|key| key.name == *name));
    own.map(|(name, size)| (name.to_string(), json!(size))).collect()
}

/// A model as a recipe would make it, or what is wrong with that.
fn made(
    registry: &Registry,
    family: &dyn Family,
    task: &str,
    keys: &ModelKeys,
) -> Result<Arc<dyn Model>, String> {
    registry.check_keys(Some(family), keys).map_err(|fault| fault.to_string())?;
    family.make(keys, &needs(task)).map_err(|error| error.to_string())
}

/// Records a pass, and a step of training with all its gradients.
fn record(model: &dyn Model) {
    model.graph(SIZES, Precision::F32).unwrap();
    let mut g = Graph::new();
    let scale = g.input("scale", DType::F32, shape![]).unwrap();
    let inputs = model.reads().declare_open(&mut g, SIZES).unwrap();
    let labels = model.task().unwrap().declare_labels(&mut g, &inputs).unwrap();
    let loss = model.loss(&mut g, &inputs, labels, scale, CrossEntropyOptions::default()).unwrap();
    let parameters = g.parameters();
    assert_eq!(parameters.len(), model.parameters().declared().count());
    g.gradient(loss, &parameters).unwrap();
}

/// The model comes back from its config, and its files hold everything once.
fn comes_back(registry: &Registry, model: &dyn Model) {
    let config = model.config_to_json().unwrap();
    assert_eq!(config["model_type"], model.family());
    // A head of its own is seen in the weights; without any, older words decide.
    let again = registry.open(&config, &NoWeights).unwrap();
    assert_eq!(again.config_to_json().unwrap(), config);
    let declared = |model: &dyn Model| {
        let mut names: Vec<String> = model.parameters().all().map(|one| one.name.clone()).collect();
        names.sort();
        names
    };
    let mut ours: Vec<String> = model.files(None).imports.into_iter().map(|line| line.ours).collect();
    ours.sort();
    assert_eq!(ours, declared(model), "{config}");
    assert_eq!(
        declared(&*again.for_task(&ModelKeys::new(), &needs(model.task().unwrap().name)).unwrap()),
        declared(model)
    );
}

#[test]
fn every_family_makes_what_it_promises_to_make() {
    let registry = Registry::standard();
    for family in registry.families() {
        assert!(!family.about().is_empty() && !family.forms().is_empty(), "{}", family.name());
        let mut names: Vec<&str> = family.keys().iter().map(|key| key.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "{} has a key twice", family.name());
        for task in family.tasks() {
            let model = made(&registry, family, task, &small(family)).unwrap();
            assert_eq!(model.task().unwrap().name, *task);
            comes_back(&registry, &*model);
            record(&*model);
            let quiet = model.without_dropout().unwrap();
            let random = |model: &dyn Model| {
                let graph = model.graph(SIZES, Precision::F32).unwrap();
                graph.inputs().any(|(name, _)| name == regard_ops::RANDOM_INPUT)
            };
            assert!(random(&*model) && !random(&*quiet), "{}", family.name());
        }
        for preset in family.presets() {
            let keys = ModelKeys::new().with("preset", preset);
            registry.check_keys(Some(family), &keys).unwrap();
        }
    }
}

/// Every mechanism, as keys.
fn mechanisms() -> Vec<(&'static str, ModelKeys)> {
    let one = |name: &str, value: Value| ModelKeys::new().with(name, value);
    let mut all = Vec::new();
    for word in ["none", "learned", "sinusoidal", "rotary", "alibi", "buckets", "clipped"] {
        all.push((word, one("positions", json!(word))));
    }
    for word in ["soft", "hard", "straight-through", "gumbel", "gumbel-straight-through"] {
        all.push((word, one("attention", json!(word))));
    }
    for word in ["layer", "rms", "batch"] {
        all.push((word, one("norm", json!(word))));
    }
    for word in ["pre", "post"] {
        all.push((word, one("norm_place", json!(word))));
    }
    for word in ["relu", "gelu", "gelu-tanh", "silu", "gated-silu", "gated-gelu"] {
        all.push((word, one("activation", json!(word))));
    }
    all.extend([
        ("β learned", one("scale", json!("learned"))),
        ("β constant", one("scale", json!(0.3))),
        ("groups", one("groups", json!(1))),
        ("head_width", one("head_width", json!(6))),
        ("window", one("window", json!(3))),
        ("no attention bias", one("attention_bias", json!(false))),
        ("no feed-forward bias", one("feed_forward_bias", json!(false))),
        ("epsilon", one("epsilon", json!(0.001))),
        (
            "turned in neighbours",
            one("positions", json!("rotary"))
                .with("rotary_pairing", "interleaved")
                .with("rotary_base", 100.0),
        ),
        ("few buckets", one("positions", json!("buckets")).with("buckets", 8).with("max_distance", 9)),
        ("a short reach", one("positions", json!("clipped")).with("reach", 2)),
        ("cold noise", one("attention", json!("gumbel")).with("temperature", 0.5)),
    ]);
    all
}

/// What a family refuses in words of its own, and why. What no causal family can have, and what is not among
/// the keys of a family, needs no line.
const REFUSED: [(&str, &str, &str); 11] = [
    ("perceiver", "post", "norms behind each part; leave norm_place at pre"),
    ("perceiver", "rotary", "latents that stand nowhere; choose learned, sinusoidal or none"),
    ("perceiver", "turned in neighbours", "latents that stand nowhere"),
    ("perceiver", "alibi", "latents that stand nowhere"),
    ("perceiver", "buckets", "latents that stand nowhere"),
    ("perceiver", "few buckets", "latents that stand nowhere"),
    ("perceiver", "clipped", "latents that stand nowhere"),
    ("perceiver", "a short reach", "latents that stand nowhere"),
    ("perceiver", "window", "what a token sees is settled by the masking"),
    ("t5", "learned", "a table of positions, where T5 tells distances; choose none, rotary"),
    ("t5", "sinusoidal", "a table of positions, where T5 tells distances; choose none, rotary"),
];

#[test]
fn every_mechanism_is_had_or_refused_with_a_reason() {
    let registry = Registry::standard();
    for family in registry.families() {
        for (title, mechanism) in mechanisms() {
            let mut keys = small(family);
            if let Value::Object(own) = mechanism.to_json() {
                for (name, value) in own {
                    keys = keys.with(&name, value);
                }
            }
            let task = family.tasks()[0];
            let own = REFUSED.iter().find(|(name, what, _)| (*name, *what) == (family.name(), title));
            let causal = made(&registry, family, task, &small(family)).unwrap().promises().causal;
            let absent = mechanism.names().find(|name| !family.keys().iter().any(|key| key.name == *name));
            let reason = match (own, absent) {
                (Some((.., why)), _) => Some(why.to_string()),
                (None, Some(key)) => {
                    Some(format!("a model of the family `{}` has no `{key}`; leave", family.name()))
                }
                (None, None) if causal && title == "batch" => {
                    Some("BatchNorm mixes later positions into earlier ones; choose".into())
                }
                (None, None) => None,
            };
            match (made(&registry, family, task, &keys), reason) {
                (Ok(model), None) => {
                    comes_back(&registry, &*model);
                    record(&*model);
                }
                (Err(message), Some(why)) => {
                    assert!(message.contains(&why), "{}, {title}: {message}", family.name())
                }
                (Err(message), None) => panic!("{} cannot have {title}: {message}", family.name()),
                (Ok(_), Some(_)) => panic!("{} can have {title}", family.name()),
            }
        }
    }
}

#[test]
fn noise_and_batches_are_for_training() {
    let registry = Registry::standard();
    let bert = registry.family("bert").unwrap();
    let keys = small(bert).with("attention", "gumbel").with("temperature", 0.5).with("norm", "batch");
    let model = made(&registry, bert, "masked", &keys).unwrap().without_dropout().unwrap();
    let names = |graph: &Graph| {
        let mut names: Vec<&str> = graph.nodes().iter().map(|node| node.op.name()).collect();
        names.sort_unstable();
        names.dedup();
        names.into_iter().map(String::from).collect::<Vec<_>>()
    };
    let graph = model.graph(SIZES, Precision::F32).unwrap();
    assert!(!graph.inputs().any(|(name, _)| name == regard_ops::RANDOM_INPUT), "{:?}", names(&graph));
    // The running statistics belong to the model: they are saved and loaded with it.
    let kept = model.parameters().all().filter(|one| one.name.ends_with("running_mean")).count();
    assert_eq!(kept, 6, "one for each norm of two blocks, of the embedding and of the head");
    assert_eq!(model.parameters().all().count() - model.parameters().declared().count(), 12);
}

#[test]
fn what_a_family_cannot_open_make_or_learn_is_said() {
    let registry = Registry::standard();
    let text = |result: regard_graph::Result<Arc<dyn Model>>| result.unwrap_err().to_string();
    let gpt = registry.family("gpt").unwrap();
    assert_eq!(
        text(gpt.open("gpt3", &json!({}), &NoWeights)),
        "no form of a GPT is called `gpt3`; did you mean `gpt2`?"
    );
    assert_eq!(
        text(registry.open(&json!({ "model_type": "gpt2", "n_layer": "two" }), &NoWeights)),
        "gpt2: the config has no `n_positions`; give the whole config.json of the model"
    );
    assert!(
        text(gpt.make(&ModelKeys::new().with("preset", "gpt-5"), &needs("language")))
            .starts_with("no preset of a GPT is called")
    );
    let model = made(&registry, gpt, "language", &small(gpt)).unwrap();
    assert_eq!(
        text(model.for_task(&ModelKeys::new(), &needs("images"))),
        "regard-gpt: a model of this family does not do the task `images`; start from a model that was made for such a task"
    );
    assert_eq!(
        text(model.for_task(&ModelKeys::new().with("layers", 3), &needs("language"))),
        "model: model.layers is given, and so is from.model, whose weights decide it; leave model.layers out, or from.model"
    );
    assert_eq!(
        text(model.with_dropout(Dropout { activations: 1.5, ..Dropout::NONE })),
        "gpt: dropout is 1.5; choose a probability from 0 up to, not including, 1"
    );
    let vit = registry.family("vit").unwrap();
    let vit = made(&registry, vit, "images", &small(vit)).unwrap();
    assert!(
        text(vit.for_task(&ModelKeys::new(), &Needs { image: [3, 8, 8], ..needs("images") }))
            .contains("the images are [3, 8, 8] (channels, height, width), the model takes [1, 8, 8]")
    );
    let llama = Gpt::new(GptConfig { layers: 1, ..GptConfig::LLAMA }).unwrap();
    assert_eq!(
        text(mingpt::config_to_json(llama.config()).map(|_| model.clone())),
        "mingpt: minGPT has no words for some of these settings; save it as another family"
    );
    let foreign: Arc<dyn Model> = Arc::new(llama.in_form(&GPT2));
    assert_eq!(
        text(foreign.config_to_json().map(|_| model.clone())),
        "gpt2: GPT-2 has learned positions, LayerNorm and no window; export it as another family"
    );
    // A BERT without a head has nothing to learn, and says what would give it one.
    let bare = registry.open(&json!({ "model_type": "bert" }), &NoWeights).unwrap();
    assert_eq!(bare.task(), None);
    let mut g = Graph::new();
    let scale = g.input("scale", DType::F32, shape![]).unwrap();
    let labels = g.input("labels", DType::I32, [2, 4]).unwrap();
    let inputs = bare.reads().declare(&mut g, SIZES).unwrap();
    assert_eq!(
        bare.loss(&mut g, &inputs, labels, scale, CrossEntropyOptions::default()).unwrap_err().to_string(),
        "bert: a model with the head None has no loss; choose the task `classify` or `masked`"
    );
    assert!(
        model
            .pass(&mut g, &Inputs::default())
            .unwrap_err()
            .to_string()
            .contains("the pass has no input `ids`")
    );
}

#[test]
fn texts_that_are_too_long_have_no_vector() {
    let registry = Registry::standard();
    let bert = registry.family("bert").unwrap();
    let model = made(&registry, bert, "masked", &small(bert)).unwrap();
    let mut g = Graph::inference();
    let inputs = model.reads().declare(&mut g, Sizes { ids: 9, ..SIZES }).unwrap();
    let encoder = model.as_sentence_encoder().unwrap();
    assert_eq!(
        encoder.sentence(&mut g, &inputs, SentencePooling::Mean).unwrap_err().to_string(),
        "bert: texts of up to T=9 tokens, the model has positions for 8; cut the texts, or use a model with more positions"
    );
}

#[test]
fn keys_of_another_family_are_refused() {
    let registry = Registry::standard();
    let gpt = registry.family("gpt").unwrap();
    assert!(
        registry
            .check_keys(Some(gpt), &ModelKeys::new().with("latents", 3))
            .unwrap_err()
            .to_string()
            .starts_with(
                "a model of the family `gpt` has no `latents`; leave model.latents out; it has preset, layers"
            )
    );
    assert_eq!(
        registry.check_keys(None, &ModelKeys::new().with("latent", 3)).unwrap_err().to_string(),
        "there is no key `latent` in [model]; did you mean `latents`?"
    );
}

#[test]
fn inputs_that_are_not_there_are_named() {
    let text = |result: regard_graph::Result<regard_graph::Var>| result.unwrap_err().to_string();
    let none = Inputs::default();
    assert!(text(none.ids()).contains("no input `ids`"));
    assert!(text(none.source()).contains("no input `source`"));
    assert!(text(none.pixels()).contains("no input `pixels`"));
    assert!(none.batch(&Graph::new()).unwrap_err().to_string().contains("no input `ids`"));
    let reads = Reads::text(Tokens::masked(5, None));
    let mut g = Graph::new();
    let placed = Sizes { placed: true, ..SIZES };
    assert!(reads.declare(&mut g, placed).unwrap_err().to_string().contains("counts them from the edge"));
    g.open('T', 9).unwrap();
    assert!(
        reads
            .declare_open(&mut g, SIZES)
            .unwrap_err()
            .to_string()
            .starts_with("letter `T` is declared twice")
    );
    let images = Reads::images(Pixels { channels: 1, height: 2, width: 2 });
    let inputs = images.declare(&mut Graph::new(), SIZES).unwrap();
    let labels = regard_models::Task { name: "x", labels: regard_models::Labels::Next, choices: 2 };
    assert!(text(labels.declare_labels(&mut Graph::new(), &inputs)).contains("no input `ids`"));
}
