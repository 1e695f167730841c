//! How far a node of a CPU program may be from the reference: at most twice the error that PyTorch itself
//! shows against f64 on the same kind of op (`goldens/torch_error.json`, made by `bench/torch_error.py`).

use regard::graph::{Node, Pass, Precision};
use serde_json::Value;

/// PyTorch's errors, by kind of op.
pub struct Bounds {
    kinds: Value,
}

/// Twice half an ulp of the result, in each dtype: a correctly rounded op shows half an ulp where the largest number
/// is just above a power of two, in PyTorch as here, so no bound is below it.
const ROUNDING_F32: f64 = 1.0 / (1u64 << 23) as f64;
const ROUNDING_BF16: f64 = 1.0 / (1u64 << 7) as f64;

impl Default for Bounds {
    fn default() -> Self {
        Bounds::new()
    }
}

impl Bounds {
    /// The committed table.
    pub fn new() -> Self {
        let text = include_str!("../goldens/torch_error.json");
        let table: Value = serde_json::from_str(text).expect("the committed table is JSON");
        Bounds { kinds: table["kinds"].clone() }
    }

    /// The bound for a node.
    pub fn of(&self, node: &Node, precision: Precision) -> f64 {
        let op = node.op.name();
        let kinds = kinds_of(op);
        assert!(!kinds.is_empty(), "no kind of PyTorch's is known for `{op}`: add it to kinds_of");
        let (dtype, rounding) = match precision {
            Precision::F32 => ("f32", ROUNDING_F32),
            Precision::Bf16 => ("bf16", ROUNDING_BF16),
        };
        let backward = node.pass == Pass::Backward || op.ends_with("_backward");
        let mut bound = rounding;
        for kind in kinds {
            let measured = &self.kinds[kind][dtype];
            assert!(measured["forward"].is_number(), "PyTorch's error for `{kind}` is not in the table");
            let forward = measured["forward"].as_f64().unwrap_or(0.0);
            // What the backward pass records is judged as PyTorch's gradients are, and no stricter than its values.
            let gradient = measured["gradient"].as_f64().unwrap_or(0.0);
            bound = f64::max(bound, 2.0 * if backward { forward.max(gradient) } else { forward });
        }
        bound
    }
}

/// PyTorch's kinds that correspond to an op of ours, forward or backward; the largest of their errors counts.
fn kinds_of(op: &str) -> &'static [&'static str] {
    match op {
        "linear" => &["linear", "linear_relu", "linear_gelu", "linear_gelu_tanh", "linear_silu"],
        "linear_activation_backward" => &["linear_relu", "linear_gelu", "linear_gelu_tanh", "linear_silu"],
        "weight_gradient" => &["linear"],
        "matmul" => &["matmul"],
        "attention" | "attention_backward" => &["attention"],
        "layer_norm" | "layer_norm_backward" => &["layer_norm"],
        "rms_norm" | "rms_norm_backward" => &["rms_norm"],
        "batch_norm" | "batch_norm_backward" => &["batch_norm"],
        "embedding" | "embedding_backward" | "add_position_backward" | "scatter_add" => &["embedding"],
        "rotary" => &["rotary_given_tables"],
        "unary_backward" => &["relu", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid", "exp", "log", "div"],
        "relu" => &["relu"],
        "gelu" => &["gelu"],
        "gelu_tanh" => &["gelu_tanh"],
        "silu" => &["silu"],
        "tanh" => &["tanh"],
        "sigmoid" => &["sigmoid"],
        "exp" => &["exp"],
        "log" => &["log"],
        "sqrt" | "recip" | "div" => &["div"],
        "square" | "abs" | "mul" | "scale" | "dropout" => &["mul"],
        "gated" | "gated_backward" => &["gated"],
        "add" | "sub" | "add_position" | "accumulate" => &["add"],
        "softmax" | "softmax_backward" => &["softmax"],
        "log_softmax" | "log_softmax_backward" => &["log_softmax"],
        "cross_entropy" | "cross_entropy_backward" => &["cross_entropy"],
        // Two kinds in one: the projection and the loss.
        "linear_cross_entropy" => &["cross_entropy", "linear"],
        "sum_to" | "sum" => &["reduce_sum"],
        "mean" | "mean_to" => &["reduce_mean"],
        "max" | "max_backward" => &["movement"],
        "adamw" => &["adamw"],
        "sgd" => &["sgd"],
        "clip_norm" => &["clip_norm"],
        "patches" | "join_patches" | "gather" | "concat" | "split" | "slice" | "pad_slice" | "transpose"
        | "reshape" | "broadcast_to" | "fill" | "cast" | "select" | "stop_gradient" | "assign"
        | "cache_write" => &["movement"],
        _ => &[],
    }
}
