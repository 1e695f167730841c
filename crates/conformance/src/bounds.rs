//! How far a node of a CPU program may be from the reference: at most twice the error that PyTorch itself
//! shows against f64 on the same kind of op, with operands that are no harder.
//!
//! Two committed tables, both measured: on easy operands, drawn from the normal distribution
//! (`goldens/torch_error.json`, made by `bench/torch_error.py`), and on the hard ones that random programs
//! meet (`goldens/torch_error_same_operands.json`, made by `bench/torch_error_same_operands.py`).

use crate::nodes::NodeRun;
use regard::graph::Precision;
use serde_json::Value;

/// PyTorch's errors.
pub struct Bounds {
    kinds: Value,
    same_operands: Value,
}

/// Twice half an ulp of the result, in each dtype: a correctly rounded op shows half an ulp where the largest
/// number is just above a power of two, in PyTorch as here, so no bound of an op that rounds is below it.
const ROUNDING_F32: f64 = 1.0 / (1u64 << 23) as f64;
const ROUNDING_BF16: f64 = 1.0 / (1u64 << 7) as f64;

impl Default for Bounds {
    fn default() -> Self {
        Bounds::new()
    }
}

impl Bounds {
    /// The committed tables.
    pub fn new() -> Self {
        let table =
            |text: &str| -> Value { serde_json::from_str(text).expect("the committed table is JSON") };
        Bounds {
            kinds: table(include_str!("../goldens/torch_error.json"))["kinds"].clone(),
            same_operands: table(include_str!("../goldens/torch_error_same_operands.json"))["ops"].clone(),
        }
    }

    /// The bound for one result of a node: twice PyTorch's error on easy operands, or twice its largest error
    /// on operands of the same op whose condition is at most that of this result, whichever is more.
    pub fn of(&self, run: &NodeRun, result: usize) -> f64 {
        let mut bound = self.easy(run);
        let steps = &self.same_operands[run.op.as_str()][dtype(run.precision)]["stairs"];
        for step in steps.as_array().into_iter().flatten() {
            let (condition, error) = (step[0].as_f64(), step[1].as_f64());
            let (condition, error) = (condition.expect("a condition"), error.expect("an error"));
            if condition <= run.results[result].condition {
                bound = bound.max(2.0 * error);
            }
        }
        bound
    }

    /// The bound on easy operands: twice PyTorch's error on numbers drawn from the normal distribution.
    pub fn easy(&self, run: &NodeRun) -> f64 {
        let kinds = kinds_of(run);
        assert!(!kinds.is_empty(), "no kind of PyTorch's is known for `{}`: add it to kinds_of", run.op);
        if kinds == EXACT {
            return 0.0;
        }
        let mut bound = match run.precision {
            Precision::F32 => ROUNDING_F32,
            Precision::Bf16 => ROUNDING_BF16,
        };
        for kind in kinds {
            let measured = &self.kinds[kind][dtype(run.precision)];
            assert!(measured["forward"].is_number(), "PyTorch's error for `{kind}` is not in the table");
            let forward = measured["forward"].as_f64().unwrap_or(0.0);
            // What the backward pass records is judged as PyTorch's gradients are, and no stricter than its
            // values.
            let gradient = measured["gradient"].as_f64().unwrap_or(0.0);
            bound = f64::max(bound, 2.0 * if run.backward { forward.max(gradient) } else { forward });
        }
        bound
    }
}

fn dtype(precision: Precision) -> &'static str {
    match precision {
        Precision::F32 => "f32",
        Precision::Bf16 => "bf16",
    }
}

/// Numbers are moved, not computed.
const EXACT: &[&str] = &["movement"];

/// PyTorch's kinds that correspond to an op of ours, forward or backward; the largest of their errors counts.
fn kinds_of(run: &NodeRun) -> &'static [&'static str] {
    match run.op.as_str() {
        // The backward of a mean, which divides.
        "broadcast_to" if run.attributes.contains(&("mean", "true".into())) => &["reduce_mean"],
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
        "adamw" => &["adamw"],
        "sgd" => &["sgd"],
        "clip_norm" => &["clip_norm"],
        "max" | "max_backward" | "patches" | "join_patches" | "gather" | "concat" | "split" | "slice"
        | "pad_slice" | "transpose" | "reshape" | "broadcast_to" | "fill" | "cast" | "select"
        | "stop_gradient" | "assign" | "cache_write" => EXACT,
        _ => &[],
    }
}
