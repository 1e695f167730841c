//! Files of the first BERTs, which differ from those of today: norms with `gamma` and `beta`, a prefix
//! without a head, heads that the architecture does not name. And what is passed over on purpose.

use crate::golden::{Own, asked, model, open};
use crate::hostile::{Part, edited};
use regard_data::Checkpoint;
use regard_engine::{Cpu, Store};
use regard_hub::{Batch, Opened, SaveOptions, forward, open_ignoring, save};
use regard_models::Registry;
use serde_json::{Value, json};

fn older(parts: &mut Vec<Part>) {
    for part in parts {
        part.name = part
            .name
            .replace("LayerNorm.weight", "LayerNorm.gamma")
            .replace("LayerNorm.bias", "LayerNorm.beta");
    }
}

fn answer(opened: &Opened, batch: &Batch, name: &str) -> Vec<f32> {
    let (mut store, cpu) = (Store::new(0), Cpu::with(1, regard_device::Level::best()).unwrap());
    opened.load_into(&mut store).unwrap();
    let answers = forward(&*opened.model, &mut store, &cpu, batch, &[]).unwrap();
    answers.into_iter().find(|answer| answer.name == name).unwrap().numbers
}

fn architecture(name: &'static str) -> impl FnOnce(&mut Value) {
    move |config| config["architectures"] = json!([name])
}

#[test]
fn a_first_bert_is_read_and_what_is_not_read_is_said() {
    let own = Own::new("original");
    edited(&own, "bert_pretraining", older, architecture("BertForMaskedLM"));
    let opened = open(own.text()).unwrap();
    let heads = [
        "bert.pooler.dense.bias",
        "bert.pooler.dense.weight",
        "cls.seq_relationship.bias",
        "cls.seq_relationship.weight",
    ];
    assert_eq!(opened.unread, heads);
    let today = model("bert_pretraining");
    assert!(today.unread.is_empty());
    let one = &asked("bert_pretraining", &*today.model)[0];
    let scores = answer(&opened, &one.batch, "logits");
    assert_eq!(scores, answer(&today, &one.batch, "logits"));
    assert_eq!(scores.len(), one.logits.len());
}

#[test]
fn without_a_head_the_prefix_is_seen() {
    let own = Own::new("prefixed");
    edited(&own, "bert_pretraining", older, architecture("BertModel"));
    let opened = open(own.text()).unwrap();
    assert!(
        opened.unread.iter().all(|name| name.starts_with("cls.")) && opened.unread.len() == 7,
        "{:?}",
        opened.unread
    );
    let today = model("bert_pretraining");
    let batch = &asked("bert_pretraining", &*today.model)[0].batch;
    assert_eq!(answer(&opened, batch, "hidden"), answer(&today, batch, "hidden"));
    assert!(!answer(&opened, batch, "pooled").is_empty(), "its pooler stands under the prefix, too");
    // It is written as it is today.
    let mut store = Store::new(0);
    opened.load_into(&mut store).unwrap();
    let there = Own::new("written");
    save(&*opened.model, &store, &there.0, &SaveOptions { like: Some(&opened), ..Default::default() })
        .unwrap();
    let written = Checkpoint::open(&there.0).unwrap();
    assert!(
        written.find("embeddings.LayerNorm.weight").is_some()
            && written.find("pooler.dense.weight").is_some()
    );
}

#[test]
fn what_nobody_knows_is_passed_over_only_where_that_is_asked_for() {
    let own = Own::new("adapter");
    let adapter = |name: &str| Part { name: name.into(), shape: vec![1], bytes: vec![0; 4] };
    edited(
        &own,
        "bert_labels",
        |parts| parts.extend([adapter("adapter.0.down.weight"), adapter("adapter.0.up.weight")]),
        |_| {},
    );
    let text = open(own.text()).unwrap_err().to_string();
    assert!(
        text.contains(
            "2 in the checkpoint but not in the model (use its own model, or pass over them: --ignore)"
        ),
        "{text}"
    );
    let tried = |patterns: &[&str]| {
        let patterns: Vec<String> = patterns.iter().map(|pattern| pattern.to_string()).collect();
        open_ignoring(own.text(), &Registry::standard(), &patterns)
    };
    assert_eq!(tried(&["adapter.*"]).unwrap().unread, ["adapter.0.down.weight", "adapter.0.up.weight"]);
    assert_eq!(tried(&["*down*", "a*.up.weight"]).unwrap().unread.len(), 2);
    let refused = |patterns: &[&str]| tried(patterns).unwrap_err().to_string().replace(own.text(), "HERE");
    assert!(refused(&["*.down.*"]).contains("1 in the checkpoint but not in the model"));
    assert_eq!(
        refused(&["adaptor.*"]),
        "HERE: `adaptor.*` is to be passed over, and no tensor has such a name; leave it out, or see which there are: the \
         message without it lists them"
    );
    assert_eq!(
        refused(&["adapter.*", "classifier.*"]),
        "HERE: `classifier.*` is to be passed over, and `classifier.bias`, which it names, is read by the model; name only \
         what the model does not have"
    );
    let none: [String; 1] = ["x".into()];
    assert_eq!(
        open_ignoring(own.text(), &Registry::standard(), &none)
            .unwrap_err()
            .to_string()
            .replace(own.text(), "HERE"),
        "HERE: `x` is to be passed over, and no tensor has such a name; leave it out, or see which there are: the message \
         without it lists them"
    );
}

#[test]
fn labels_that_the_weights_do_not_have_are_named() {
    let own = Own::new("labels");
    edited(&own, "bert_labels", |_| {}, |config| config["id2label"] = json!({"0": "O", "1": "B"}));
    let text = open(own.text()).unwrap_err().to_string().replace(own.text(), "HERE");
    assert_eq!(
        text,
        "HERE: bert: config.json counts 2 labels, and `classifier.weight` has scores for 5; give `id2label` 5 names, or \
         leave it out and set `num_labels` to 5"
    );
    // Older files name two labels whatever they have; `num_labels` settles it, and the two names are
    // nobody's.
    let older = |config: &mut Value| {
        config["id2label"] = json!({"0": "LABEL_0", "1": "LABEL_1"});
        config["num_labels"] = 5.into();
    };
    edited(&own, "bert_labels", |_| {}, older);
    let opened = open(own.text()).unwrap();
    let mut store = Store::new(0);
    opened.load_into(&mut store).unwrap();
    let there = Own::new("counted");
    save(&*opened.model, &store, &there.0, &SaveOptions { like: Some(&opened), ..Default::default() })
        .unwrap();
    assert_eq!(open(there.text()).unwrap().config["id2label"].as_object().unwrap().len(), 5);
}
