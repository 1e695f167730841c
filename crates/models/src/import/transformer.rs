//! The Transformer around PyTorch's `nn.Transformer`: names of its parameters, and a small `config.json` in
//! torch's words. The embeddings stand beside it as `embedding`, or as `source_embedding`, `target_embedding`
//! and `output`.

use super::json::Fields;
use super::{Import, Map};
use crate::{Mechanisms, Transformer, TransformerConfig};
use regard_graph::Result;
use serde_json::{Value, json};

/// Where each parameter of a model stands in a torch checkpoint.
pub fn imports(model: &Transformer) -> Vec<Import> {
    let config = model.config();
    let both = |ours: &str, theirs: &str| {
        ["weight", "bias"].map(|kind| same(format!("{ours}.{kind}"), format!("{theirs}.{kind}")))
    };
    let mut table = Vec::new();
    if config.shared {
        table.push(same("token_embedding.weight", "embedding.weight"));
    } else {
        for name in ["source_embedding.weight", "target_embedding.weight"] {
            table.push(same(name, name));
        }
        table.extend(both("head", "output"));
    }
    for (stack, layers, decoder) in
        [("encoder", config.encoder_layers, false), ("decoder", config.decoder_layers, true)]
    {
        for layer in 0..layers {
            let (ours, theirs) =
                (format!("{stack}.block.{layer}"), format!("transformer.{stack}.layers.{layer}"));
            let mut parts = vec![("attention", "self_attn")];
            parts.extend(decoder.then_some(("cross", "multihead_attn")));
            for &(own, foreign) in &parts {
                for (index, projection) in ["query", "key", "value"].into_iter().enumerate() {
                    for kind in ["weight", "bias"] {
                        table.push(Import::new(
                            format!("{ours}.{own}.{projection}.{kind}"),
                            format!("{theirs}.{foreign}.in_proj_{kind}"),
                            Map::Split { index, parts: 3 },
                        ));
                    }
                }
                let (own, foreign) = (format!("{ours}.{own}.output"), format!("{theirs}.{foreign}.out_proj"));
                table.extend(both(&own, &foreign));
            }
            let parts = parts.into_iter().map(|(own, _)| own).chain(["feed_forward"]);
            for (index, own) in parts.enumerate() {
                table.extend(both(&format!("{ours}.{own}_norm"), &format!("{theirs}.norm{}", index + 1)));
            }
            for (own, foreign) in [("up", "linear1"), ("down", "linear2")] {
                table.extend(both(&format!("{ours}.feed_forward.{own}"), &format!("{theirs}.{foreign}")));
            }
        }
        if config.final_norm {
            table.extend(both(&format!("{stack}.final_norm"), &format!("transformer.{stack}.norm")));
        }
    }
    table
}

/// Reads a `config.json` in the words of `nn.Transformer`; `context` is not among them and is given.
pub fn config_from_json(json: &Value, context: usize) -> Result<TransformerConfig> {
    let fields = Fields::new("transformer", json)?;
    let shared = fields.truth("shared")?.unwrap_or(false);
    let vocabulary = fields.size("vocab_size")?;
    let dropout = fields.number("dropout")?.unwrap_or(0.0);
    Ok(TransformerConfig {
        source_vocabulary: if shared { vocabulary } else { fields.size("source_vocab_size")? },
        vocabulary,
        width: fields.size("d_model")?,
        heads: fields.size("nhead")?,
        hidden: fields.size("dim_feedforward")?,
        encoder_layers: fields.size("num_encoder_layers")?,
        decoder_layers: fields.size("num_decoder_layers")?,
        context,
        shared,
        final_norm: !shared,
        dropout: dropout as f32,
        mechanisms: Mechanisms::default(),
        descent: None,
    })
}

/// Writes a `config.json` in the words of `nn.Transformer`.
pub fn config_to_json(config: &TransformerConfig) -> Value {
    json!({
        "model_type": "transformer",
        "source_vocab_size": config.source_vocabulary,
        "vocab_size": config.vocabulary,
        "d_model": config.width,
        "nhead": config.heads,
        "dim_feedforward": config.hidden,
        "num_encoder_layers": config.encoder_layers,
        "num_decoder_layers": config.decoder_layers,
        "shared": config.shared,
        "dropout": config.dropout,
    })
}

fn same(ours: impl Into<String>, theirs: impl Into<String>) -> Import {
    Import::new(ours, theirs, Map::Same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_parameter_has_one_source() {
        let paper = TransformerConfig {
            encoder_layers: 2,
            decoder_layers: 3,
            dropout: 0.5,
            ..TransformerConfig::base(50)
        };
        for config in [paper, TransformerConfig { shared: false, final_norm: true, ..paper }] {
            let model = Transformer::new(config).unwrap();
            let table = imports(&model);
            let mut ours: Vec<&str> = table.iter().map(|import| import.ours.as_str()).collect();
            let mut declared: Vec<&str> = model.parameters().declared().map(|d| d.name.as_str()).collect();
            ours.sort_unstable();
            declared.sort_unstable();
            assert_eq!(ours, declared);
            assert_eq!(config_from_json(&config_to_json(&config), config.context).unwrap(), config);
        }
    }

    #[test]
    fn strange_configs_are_refused() {
        let mut json = config_to_json(&TransformerConfig::base(50));
        json["nhead"] = json!("eight");
        assert_eq!(
            config_from_json(&json, 10).unwrap_err().to_string(),
            "transformer: `nhead` is \"eight\"; it should be a whole number"
        );
    }
}
