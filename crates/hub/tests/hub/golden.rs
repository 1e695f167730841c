//! The goldens of all families, and folders of one's own for a test.

use regard_data::Checkpoint;
use regard_hub::{Batch, Images, Opened};
use regard_models::{Model, Registry};
use std::path::{Path, PathBuf};

/// Every case with weights of its own that names its scores `logits`, a row for each position or text.
pub const CASES: [&str; 55] = [
    "albert_classify",
    "albert_masked",
    "albert_pretraining",
    "bart",
    "bert_classify",
    "bert_labels",
    "bert_masked",
    "bert_pretraining",
    "bert_value",
    "deit",
    "deit_taught",
    "dinov2",
    "dinov2_gated",
    "distilbert_classify",
    "distilbert_masked",
    "electra_classify",
    "electra_masked",
    "gemma",
    "gemma2",
    "gemma3",
    "gpt2",
    "gpt_neox",
    "gpt_neox_in_turn",
    "gptj",
    "granite",
    "llama",
    "llama_dynamic",
    "llama_linear",
    "llama_stretched",
    "llama_tied",
    "llama_yarn",
    "marian",
    "marian_separate",
    "mbart",
    "mingpt",
    "mistral",
    "mpnet_classify",
    "mpnet_masked",
    "mt5",
    "olmo2",
    "phi3",
    "qwen2",
    "qwen3",
    "roberta_classify",
    "roberta_masked",
    "smollm3",
    "stablelm",
    "stablelm_parallel",
    "t5",
    "t5_gated",
    "transformer",
    "transformer_shared",
    "umt5",
    "vit",
    "vit_resized",
];

/// Where a case lies.
pub fn folder(case: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/goldens/parity").join(case)
}

/// Opens a model of a family that is known.
pub fn open(model: &str) -> regard_hub::Result<Opened> {
    regard_hub::open(model, &Registry::standard())
}

/// The model of a case.
pub fn model(case: &str) -> Opened {
    open(folder(case).join("model").to_str().unwrap()).unwrap()
}

/// A folder that is removed in the end.
pub struct Own(pub PathBuf);

impl Own {
    /// An empty one.
    pub fn new(name: &str) -> Own {
        let path = std::env::temp_dir().join(format!("regard-hub-{}-{name}", std::process::id()));
        std::fs::remove_dir_all(&path).ok();
        std::fs::create_dir_all(&path).unwrap();
        Own(path)
    }

    /// As text.
    pub fn text(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// One set of inputs of a golden, with the scores that PyTorch gives and which of their rows count.
pub struct Asked {
    pub batch: Batch,
    pub logits: Vec<f32>,
    pub counts: Vec<bool>,
}

/// All sets with padding on the right or none.
pub fn asked(case: &str, model: &dyn Model) -> Vec<Asked> {
    let golden = Checkpoint::open(folder(case).join("golden.safetensors")).unwrap();
    let mut all = Vec::new();
    for set in ["one", "right", "batch", "same"] {
        let find = |name: &str| golden.find(&format!("{set}.{name}"));
        let Some(logits) = find("logits") else { continue };
        let rows = |name: &str| {
            find(name).map(|tensor| {
                let numbers: Vec<i32> = tensor
                    .bytes
                    .as_chunks::<8>()
                    .0
                    .iter()
                    .map(|&bytes| i64::from_le_bytes(bytes) as i32)
                    .collect();
                numbers.chunks(tensor.shape[1]).map(<[i32]>::to_vec).collect::<Vec<_>>()
            })
        };
        let either = |a: &str, b: &str| rows(a).or_else(|| rows(b)).unwrap_or_default();
        let batch = match find("pixel_values") {
            Some(pixels) => {
                Batch::images(Images { shape: pixels.shape.to_vec(), pixels: pixels.f32s().to_vec() })
            }
            None => {
                let mut texts = either("input_ids", "source");
                let mut types = either("token_type_ids", "");
                for (row, mask) in either("attention_mask", "source_mask").into_iter().enumerate() {
                    let real = mask.iter().filter(|&&real| real != 0).count();
                    texts[row].truncate(real);
                    types.iter_mut().skip(row).take(1).for_each(|types| types.truncate(real));
                }
                let mut batch = Batch { types, ..Batch::texts(&model.reads(), texts) };
                if model.reads().source.is_some() {
                    batch.ids = either("decoder_input_ids", "target");
                }
                batch
            }
        };
        // Scores for each position of a padded text count where there is a token.
        let scored: usize = logits.shape[..logits.shape.len() - 1].iter().product();
        let mut counts = vec![true; scored];
        if model.reads().source.is_none() && logits.shape.len() == 3 {
            let longest = logits.shape[1];
            counts = batch.ids.iter().flat_map(|row| (0..longest).map(|at| at < row.len())).collect();
        }
        all.push(Asked { batch, logits: logits.f32s().to_vec(), counts });
    }
    assert!(!all.is_empty(), "{case} asks nothing");
    all
}
