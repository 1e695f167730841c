//! BERT as transformers keeps it, and the encoders that descend from it: RoBERTa, XLM-RoBERTa, DistilBERT,
//! MPNet, ELECTRA, ALBERT. What differs between them stands in the tables of `bert_forms`.

use super::bert_forms::{BertForm, FORMS, HeadDropout, form_of};
use super::encoder::{activation_at, activation_name, architecture, classes, labels, short};
use super::json::Fields;
use super::{Files, Import, Map};
use crate::Mechanisms;
use crate::bert::{BertConfig, BertFamily, BertHead, BertVariant};
use crate::family::{Form, Weights};
use regard_graph::{Error, Result};
use serde_json::{Value, json};

/// The forms of all these families.
pub(crate) fn forms() -> Vec<Form> {
    FORMS.iter().map(|form| Form { model_type: form.model_type, architectures: form.architectures }).collect()
}

/// The settings that a `config.json` speaks of; the head is that of its architecture. Of which family it is
/// says its `model_type`, or its architecture where there is none.
pub fn config_from_json(config: &Value) -> Result<BertConfig> {
    let of_type = |form: &&BertForm| config["model_type"] == form.model_type;
    let of_architecture =
        |form: &&BertForm| architecture(config).is_some_and(|name| form.architectures.contains(&name));
    let by_architecture = || FORMS.iter().find(of_architecture).filter(|_| config["model_type"].is_null());
    let form = FORMS.iter().find(of_type).or_else(by_architecture).unwrap_or(form_of(BertFamily::Bert));
    let fields = Fields::new(form.model_type, config)?;
    fields.must_be("is_decoder", false)?;
    fields.must_be("add_cross_attention", false)?;
    if let Some(kind @ ("relative_key" | "relative_key_query")) = fields.text("position_embedding_type")? {
        return Err(fields.wrong(
            format!("`position_embedding_type` is \"{kind}\""),
            "only models with absolute positions can be imported",
        ));
    }
    let head = head_of(form, &fields, config)?;
    if let BertHead::Masked | BertHead::Pretraining = head {
        fields.must_be("tie_word_embeddings", true)?;
    }
    let (keys, plain) = (&form.keys, form.defaults);
    let size = |name: &str, default: usize| Ok(fields.size_or_none(name)?.unwrap_or(default));
    let first = |names: &[&str], default: usize| {
        let mut found = names.iter().map(|name| fields.size_or_none(name));
        Ok(found.find_map(|size| size.transpose()).transpose()?.unwrap_or(default))
    };
    let number = |name: &str, default: f32| Ok(fields.number(name)?.map_or(default, |number| number as f32));
    let width = first(keys.width, plain.width)?;
    let variant = variant_of(form, &fields, head, width)?;
    let rows = size("max_position_embeddings", plain.context)?;
    let offset = variant.position_offset;
    let context = rows.checked_sub(offset).filter(|&context| context > 0).ok_or_else(|| {
        fields.wrong(
            format!(
                "`max_position_embeddings` is {rows}, of which the first {offset} are no positions of tokens"
            ),
            format!("give at least {}", offset + 1),
        )
    })?;
    Ok(BertConfig {
        layers: first(keys.layers, plain.layers)?,
        heads: first(keys.heads, plain.heads)?,
        width,
        hidden: size(keys.hidden, plain.hidden)?,
        context,
        vocabulary: size("vocab_size", plain.vocabulary)?,
        token_types: keys.types.map_or(Ok(plain.token_types), |key| size(key, plain.token_types))?,
        activation: match fields.text(keys.activation)? {
            None => plain.activation,
            Some(_) => activation_at(&fields, keys.activation)?,
        },
        epsilon: keys.epsilon.map_or(Ok(plain.epsilon), |key| number(key, plain.epsilon))?,
        dropout: number(keys.dropout, plain.dropout)?,
        attention_dropout: number(keys.attention_dropout, plain.attention_dropout)?,
        std: number("initializer_range", plain.std)?,
        head,
        mechanisms: Mechanisms::default(),
        variant,
    })
}

/// The head of an architecture; that of the model without one where none is named.
fn head_of(form: &BertForm, fields: &Fields<'_>, config: &Value) -> Result<BertHead> {
    let name = architecture(config).unwrap_or(form.architectures[0]);
    let known = form.architectures.iter().zip(form.heads).find(|(known, _)| **known == name);
    let Some((_, head)) = known else {
        return Err(fields.wrong(
            format!("the config is one of a {name}"),
            format!("give one of a {}", or(form.architectures)),
        ));
    };
    match head.head {
        BertHead::Classes(_) => Ok(BertHead::Classes(classes(fields, config)?)),
        BertHead::Labels(_) => Ok(BertHead::Labels(classes(fields, config)?)),
        BertHead::Span => match classes(fields, config)? {
            2 => Ok(BertHead::Span),
            other => Err(fields.wrong(
                format!("a {name} with {other} labels"),
                "it should have 2: where an answer begins, and where it ends",
            )),
        },
        head => Ok(head),
    }
}

/// What a config says about that in which the family differs from BERT.
fn variant_of(form: &BertForm, fields: &Fields<'_>, head: BertHead, width: usize) -> Result<BertVariant> {
    let mut variant = form.defaults.variant;
    if let BertFamily::Roberta | BertFamily::XlmRoberta = form.family {
        // MPNet counts from 2 whatever its config says of padding.
        let padding = fields.size_or_none("pad_token_id")?.unwrap_or(1);
        variant.padding = Some(padding);
        variant.position_offset = padding.saturating_add(1);
    }
    if let (Some(ours), Some(theirs)) =
        (variant.buckets, fields.size_or_none("relative_attention_num_buckets")?)
        && ours != theirs
    {
        return Err(fields.wrong(
            format!("`relative_attention_num_buckets` is {theirs}"),
            format!("only models with {ours} can be imported: that many are what MPNet tells apart, whatever its table"),
        ));
    }
    for key in ["num_hidden_groups", "inner_group_num"] {
        if let (true, Some(blocks @ (0 | 2..))) = (variant.shared, fields.size_or_none(key)?) {
            return Err(fields.wrong(
                format!("`{key}` is {blocks}"),
                "only models with 1 can be imported: one block that runs again and again",
            ));
        }
    }
    if let Some(key) = form.keys.embedding_width {
        let own = fields.size_or_none(key)?.or(variant.embedding_width);
        // ALBERT has the layer between them whatever their widths are.
        variant.embedding_width = own.filter(|&own| own != width || variant.shared);
    }
    if let Some(HeadDropout { key, default }) = dropout_of(form, head) {
        variant.head_dropout = fields.number(key)?.map(|number| number as f32).or(*default);
    }
    Ok(variant)
}

fn dropout_of(form: &BertForm, head: BertHead) -> Option<&HeadDropout> {
    match head {
        BertHead::Classes(_) => form.keys.classes_dropout.as_ref(),
        BertHead::Labels(_) => form.keys.labels_dropout.as_ref(),
        BertHead::Span => form.keys.span_dropout.as_ref(),
        _ => None,
    }
}

/// The settings with as many labels as the weights have scores for, where `num_labels` says so too: older
/// files name two labels in `id2label` whatever they have. A config that counts otherwise is refused.
pub(crate) fn with_labels_of(config: BertConfig, json: &Value, weights: &dyn Weights) -> Result<BertConfig> {
    let (BertHead::Classes(named) | BertHead::Labels(named)) = config.head else { return Ok(config) };
    let table = imports(&config);
    let Some(head) = table.iter().find(|line| line.ours == "head.weight") else { return Ok(config) };
    match weights.shape(&head.theirs).as_deref() {
        Some(&[scores, _]) if scores == named => Ok(config),
        Some(&[scores, _]) if json["num_labels"] == scores => {
            let head = match config.head {
                BertHead::Classes(_) => BertHead::Classes(scores),
                _ => BertHead::Labels(scores),
            };
            Ok(BertConfig { head, ..config })
        }
        Some(&[scores, _]) => Err(Error::invalid(
            form_of(config.variant.family).model_type,
            format!("config.json counts {named} labels, and `{}` has scores for {scores}", head.theirs),
            format!("give `id2label` {scores} names, or leave it out and set `num_labels` to {scores}"),
        )),
        _ => Ok(config),
    }
}

/// `a, b or c`.
fn or(names: &[&str]) -> String {
    match names {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        names => names.join(""),
    }
}

/// Why transformers has no form for these settings; none if it has one.
pub(crate) fn departs(config: &BertConfig) -> Option<String> {
    let form = form_of(config.variant.family);
    if let BertHead::MeanClasses(_) = config.head {
        return Some(format!("transformers has no {} that classifies by the mean", form.name));
    }
    if form.head_form(config.head).is_none() {
        return Some(format!("transformers has no {} with the head {:?}", form.name, config.head));
    }
    if !config.mechanisms.are_the_family_s() {
        return Some("transformers has no words for the mechanisms of these blocks".into());
    }
    None
}

/// The `model_type` of a family.
pub(crate) fn model_type(family: BertFamily) -> &'static str {
    form_of(family).model_type
}

/// The `config.json` of these settings, as transformers reads it.
pub fn config_to_json(config: &BertConfig) -> Result<Value> {
    let form = form_of(config.variant.family);
    let (Some(architecture), None) = (form.architecture(config.head), departs(config)) else {
        let what = departs(config).unwrap_or_default();
        return Err(Error::invalid(form.model_type, what, "save it in our own form"));
    };
    let (keys, variant) = (&form.keys, config.variant);
    let mut json = json!({
        "architectures": [architecture],
        "model_type": form.model_type,
        (keys.layers[0]): config.layers,
        (keys.heads[0]): config.heads,
        (keys.width[0]): config.width,
        (keys.hidden): config.hidden,
        "max_position_embeddings": config.context.saturating_add(variant.position_offset),
        "vocab_size": config.vocabulary,
        (keys.activation): activation_name(form.model_type, config.activation)?,
        (keys.dropout): short(config.dropout),
        (keys.attention_dropout): short(config.attention_dropout),
        "initializer_range": short(config.std),
        "tie_word_embeddings": true,
        "pad_token_id": variant.padding.unwrap_or(0),
    });
    if let Some(key) = keys.types {
        json[key] = config.token_types.into();
    }
    if let Some(key) = keys.epsilon {
        json[key] = short(config.epsilon);
    }
    if let Some(key) = keys.embedding_width {
        json[key] = config.embedding_width().into();
    }
    if variant.shared {
        json["num_hidden_groups"] = 1.into();
        json["inner_group_num"] = 1.into();
    }
    if let Some(buckets) = variant.buckets {
        json["relative_attention_num_buckets"] = buckets.into();
    }
    if form.family == BertFamily::Bert {
        json["position_embedding_type"] = "absolute".into();
    }
    if let Some(HeadDropout { key, default }) = dropout_of(form, config.head) {
        // Silence means that of the blocks in some families, a number in others.
        let usual = if config.head == BertHead::Span { 0.0 } else { config.dropout };
        if let Some(dropout) = variant.head_dropout.or(default.map(|_| usual)) {
            json[*key] = short(dropout);
        }
    }
    if let BertHead::Classes(count) | BertHead::Labels(count) = config.head {
        json["id2label"] = labels(count);
    }
    Ok(json)
}

/// Where each parameter stands: in a model without a head without prefix, in a model with one under `bert.`.
pub fn imports(config: &BertConfig) -> Vec<Import> {
    imports_under(config, prefix_of(config))
}

fn prefix_of(config: &BertConfig) -> &'static str {
    match config.head {
        BertHead::None | BertHead::Pooler => "",
        _ => form_of(config.variant.family).prefix,
    }
}

/// The same with the encoder under any prefix.
fn imports_under(config: &BertConfig, prefix: &str) -> Vec<Import> {
    let form = form_of(config.variant.family);
    let mut table = Vec::new();
    let mut line = |ours: String, theirs: String| match theirs.ends_with('.') {
        false => table.push(Import::new(ours, theirs, Map::Same)),
        true => table.extend(
            ["weight", "bias"]
                .map(|part| Import::new(format!("{ours}{part}"), format!("{theirs}{part}"), Map::Same)),
        ),
    };
    for (ours, theirs) in form.embedding {
        let is_there = match *ours {
            "token_type_embedding.weight" => config.token_types > 0,
            "embedding_projection." => config.variant.embedding_width.is_some(),
            _ => true,
        };
        if is_there {
            line((*ours).into(), format!("{prefix}{theirs}"));
        }
    }
    let blocks = if config.variant.shared { config.layers.min(1) } else { config.layers };
    for layer in 0..blocks {
        for (ours, theirs) in form.block {
            line(format!("block.{layer}.{ours}"), format!("{prefix}{}.{layer}.{theirs}", form.blocks));
        }
    }
    let names = match config.head {
        BertHead::None => &[],
        head => form.head_form(head).map_or(&[][..], |form| form.names),
    };
    for (ours, theirs) in names {
        match theirs.strip_prefix('.') {
            Some(inside) => line((*ours).into(), format!("{prefix}{inside}")),
            None => line((*ours).into(), (*theirs).into()),
        }
    }
    table
}

/// How the files look. Those of the first BERTs are read as well: with a prefix where there is no head, with
/// `gamma` and `beta` in their norms, and with heads besides that which the architecture names.
pub(crate) fn files(config: &BertConfig, weights: Option<&dyn Weights>) -> Files {
    let form = form_of(config.variant.family);
    let mut imports = match weights {
        Some(weights) if has_prefix(config, weights) => imports_under(config, form.prefix),
        _ => imports(config),
    };
    if let Some(weights) = weights {
        for line in &mut imports {
            let older = line.theirs.replace("LayerNorm.weight", "LayerNorm.gamma");
            let older = older.replace("LayerNorm.bias", "LayerNorm.beta");
            if !weights.has(&line.theirs) && weights.has(&older) {
                line.theirs = older;
            }
        }
    }
    let unread = weights.map_or(Vec::new(), |weights| unread(form, &imports, weights));
    Files { ignored: form.ignored, copies: form.copies, unread, ..Files::new(imports) }
}

/// Whether a model without a head stands under the prefix of one with a head.
pub(crate) fn has_prefix(config: &BertConfig, weights: &dyn Weights) -> bool {
    let first = form_of(config.variant.family).embedding[0].1;
    let prefix = form_of(config.variant.family).prefix;
    prefix_of(config).is_empty() && !weights.has(first) && weights.has(&format!("{prefix}{first}"))
}

/// Whether a checkpoint has the pooler of a model without a head.
pub(crate) fn has_pooler(config: &BertConfig, weights: &dyn Weights) -> bool {
    let imports = files(config, Some(weights)).imports;
    imports.iter().any(|line| line.ours == "pooler.weight" && weights.has(&line.theirs))
}

/// The tensors of other heads of a family that a checkpoint has.
fn unread(form: &BertForm, imports: &[Import], weights: &dyn Weights) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let names = form.heads.iter().flat_map(|head| head.names).map(|(_, theirs)| *theirs);
    // Where masked tokens are scored, copies of tied matrices are compared with those, and nothing is lost.
    let is_scored = imports.iter().any(|line| line.ours == "transform_norm.weight");
    let copies = form.copies.iter().filter(|_| !is_scored).map(|(copy, _)| *copy);
    for name in names.chain(copies) {
        let places = match name.strip_prefix('.') {
            Some(inside) => vec![inside.to_owned(), format!("{}{inside}", form.prefix)],
            None => vec![name.to_owned()],
        };
        for place in places {
            let parts: &[&str] =
                if place.ends_with('.') { &["weight", "bias", "gamma", "beta"] } else { &[""] };
            for name in parts.iter().map(|part| format!("{place}{part}")) {
                let is_read = imports.iter().any(|line| line.theirs == name);
                if weights.has(&name) && !is_read && !found.contains(&name) {
                    found.push(name);
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bert::{Bert, PRESETS};

    /// A small model of each family with each of its heads.
    fn all() -> Vec<BertConfig> {
        let small = |plain: BertConfig| BertConfig { layers: 2, width: 8, heads: 2, hidden: 12, ..plain };
        let counted = |head: BertHead| match head {
            BertHead::Classes(_) => BertHead::Classes(3),
            BertHead::Labels(_) => BertHead::Labels(9),
            head => head,
        };
        let of = |form: &BertForm| {
            let heads: Vec<BertHead> = form.heads.iter().map(|head| counted(head.head)).collect();
            let plain = small(form.defaults);
            heads.into_iter().map(|head| BertConfig { head, ..plain }).collect::<Vec<_>>()
        };
        FORMS.iter().flat_map(of).collect()
    }

    #[test]
    fn every_parameter_stands_in_the_table_once() {
        let bare = BertConfig { head: BertHead::None, layers: 2, ..PRESETS[0].1 };
        for config in all().into_iter().chain([bare]) {
            let bert = Bert::new(config).unwrap();
            let mut ours: Vec<String> = bert.parameters().declared().map(|one| one.name.clone()).collect();
            let mut table: Vec<String> = imports(&config).into_iter().map(|one| one.ours).collect();
            ours.sort();
            table.sort();
            assert_eq!(ours, table, "{config:?}");
        }
    }

    #[test]
    fn a_config_survives_the_way_there_and_back() {
        let presets = PRESETS.map(|(_, preset)| BertConfig { head: BertHead::Pooler, ..preset });
        for config in all().into_iter().chain(presets) {
            // Where silence means a number, one is always written.
            let usual = if config.head == BertHead::Span { 0.0 } else { config.dropout };
            let mut wanted = config;
            let own = dropout_of(form_of(config.variant.family), config.head).and_then(|own| own.default);
            wanted.variant.head_dropout = own.map(|_| usual);
            assert_eq!(config_from_json(&config_to_json(&config).unwrap()).unwrap(), wanted);
            let given = BertVariant { head_dropout: Some(0.25), ..config.variant };
            let given = BertConfig { variant: given, ..config };
            let read = config_from_json(&config_to_json(&given).unwrap()).unwrap();
            let is_kept = dropout_of(form_of(config.variant.family), config.head).is_some();
            assert_eq!(read.variant.head_dropout, is_kept.then_some(0.25), "{config:?}");
        }
    }

    #[test]
    fn what_a_config_leaves_out_is_what_transformers_takes() {
        let read = |model_type: &str| config_from_json(&json!({"model_type": model_type})).unwrap();
        let roberta = read("roberta");
        assert_eq!((roberta.context, roberta.vocabulary, roberta.variant.position_offset), (510, 50265, 2));
        assert_eq!((read("xlm-roberta").vocabulary, read("xlm-roberta").token_types), (30522, 2));
        assert_eq!((read("distilbert").layers, read("distilbert").token_types), (6, 0));
        assert_eq!((read("mpnet").vocabulary, read("mpnet").variant.buckets), (30527, Some(32)));
        assert_eq!((read("electra").width, read("electra").embedding_width()), (256, 128));
        assert_eq!((read("albert").width, read("albert").embedding_width()), (4096, 128));
        let padded = config_from_json(&json!({"model_type": "roberta", "pad_token_id": 0})).unwrap();
        assert_eq!((padded.context, padded.variant.padding), (511, Some(0)));
        let by_name = json!({"architectures": ["MPNetForQuestionAnswering"]});
        assert_eq!(config_from_json(&by_name).unwrap().variant.family, BertFamily::Mpnet);
    }

    #[test]
    fn configs_of_the_others_that_are_not_ours_are_refused() {
        let refused = |config: Value| config_from_json(&config).unwrap_err().to_string();
        assert_eq!(
            refused(json!({"model_type": "mpnet", "relative_attention_num_buckets": 16})),
            "mpnet: `relative_attention_num_buckets` is 16; only models with 32 can be imported: that many are what MPNet \
             tells apart, whatever its table"
        );
        assert_eq!(
            refused(json!({"model_type": "roberta", "max_position_embeddings": 2})),
            "roberta: `max_position_embeddings` is 2, of which the first 2 are no positions of tokens; give at least 3"
        );
        assert_eq!(
            refused(json!({"model_type": "albert", "num_hidden_groups": 2})),
            "albert: `num_hidden_groups` is 2; only models with 1 can be imported: one block that runs again and again"
        );
        assert_eq!(
            refused(json!({
                "model_type": "distilbert", "architectures": ["DistilBertForQuestionAnswering"], "num_labels": 3,
            })),
            "distilbert: a DistilBertForQuestionAnswering with 3 labels; it should have 2: where an answer begins, and where \
             it ends"
        );
        assert_eq!(
            refused(json!({
                "model_type": "bert", "architectures": ["BertForMaskedLM"], "tie_word_embeddings": false,
            })),
            "bert: `tie_word_embeddings` is false; only models with `tie_word_embeddings` true can be imported"
        );
    }

    #[test]
    fn epsilons_are_written_as_people_write_them() {
        let json = config_to_json(&PRESETS[0].1).unwrap();
        assert_eq!(json["layer_norm_eps"].to_string(), "1e-12");
        assert_eq!(json["hidden_dropout_prob"].to_string(), "0.1");
    }

    #[test]
    fn configs_that_are_not_ours_are_refused() {
        let refused = |field: &str, value: Value| {
            let mut config = json!({"model_type": "bert"});
            config[field] = value;
            config_from_json(&config).unwrap_err().to_string()
        };
        assert_eq!(
            refused("model_type", json!("gpt2")),
            "bert: the config is one of model_type `gpt2`; give one of model_type `bert`, or import it as what it is"
        );
        assert_eq!(
            refused("hidden_size", json!("wide")),
            "bert: `hidden_size` is \"wide\"; it should be a whole number"
        );
        assert_eq!(
            refused("layer_norm_eps", json!([])),
            "bert: `layer_norm_eps` is []; it should be a number"
        );
        assert_eq!(
            refused("is_decoder", json!(true)),
            "bert: `is_decoder` is true; only models with `is_decoder` false can be imported"
        );
        assert_eq!(
            refused("position_embedding_type", json!("relative_key")),
            "bert: `position_embedding_type` is \"relative_key\"; only models with absolute positions can be imported"
        );
        assert_eq!(
            refused("hidden_act", json!("tanh")),
            "bert: `hidden_act` is \"tanh\"; it should be \"gelu\", \"gelu_new\", \"gelu_pytorch_tanh\", \"relu\" or \"silu\""
        );
        assert_eq!(
            refused("architectures", json!(["BertForNextSentencePrediction"])),
            "bert: the config is one of a BertForNextSentencePrediction; give one of a BertModel, BertForMaskedLM, \
             BertForPreTraining, BertForSequenceClassification, BertForTokenClassification or BertForQuestionAnswering"
        );
    }
}
