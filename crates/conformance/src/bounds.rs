//! How far a node of a program may be from the specification: twice what PyTorch is off by in 99 of 100 nodes
//! of the same op, result, kind and precision, and never more than a cap far below the size of the result;
//! and a few times what rounding the operands does to the exact result, where they determine it badly.
//!
//! The table, `goldens/node_errors.json`, is made by `parity/node_errors.py` of PyTorch's errors alone, over
//! all nodes of random programs whose operands determine their results well; its seeds are not those of the
//! tests.

use crate::conditioning::{Conditioning, ROUNDOFF_BF16, ROUNDOFF_F32};
use crate::nodes::NodeRun;
use regard::check::Limit;
use regard::graph::Precision;
use serde_json::Value;

/// PyTorch's errors.
pub struct Bounds(Value);

/// How many times PyTorch's error an engine may be off by: both round, each in its own order.
const TIMES: f64 = 2.0;

/// How many times further than rounding its operands moves it, a result may be off by: an engine rounds what
/// is in between as well, a few times.
const NOISE_TIMES: f64 = 4.0;

/// The same for roundings to bf16, of which there is one where weights meet values, and one where score
/// gradients meet queries and keys.
const SCATTER_TIMES: f64 = 1.5;

/// The most that any bound may be, relative to the largest number of a result.
const CAP_F32: f64 = 1e-5;
const CAP_BF16: f64 = 0.025;

/// Ops that move numbers and compute nothing: not a bit may differ.
const EXACT: [&str; 18] = [
    "max",
    "max_backward",
    "patches",
    "join_patches",
    "gather",
    "concat",
    "split",
    "slice",
    "pad_slice",
    "transpose",
    "reshape",
    "fill",
    "cast",
    "select",
    "stop_gradient",
    "assign",
    "cache_write",
    "embedding",
];

impl Default for Bounds {
    fn default() -> Self {
        Bounds::new()
    }
}

impl Bounds {
    /// The committed table.
    pub fn new() -> Self {
        let table: Value = serde_json::from_str(include_str!("../goldens/node_errors.json"))
            .expect("the committed table is JSON");
        Bounds(table)
    }

    /// The first seed of the programs that the table was made of.
    pub fn first_seed(&self) -> u64 {
        self.0["seeds"][0].as_u64().expect("the table has its seeds")
    }

    /// The limit of one result of a node.
    pub fn of(&self, run: &NodeRun, index: usize) -> Limit {
        let result = &run.results[index];
        if run.is_exact() || result.whole {
            return Limit::relative(0.0);
        }
        let (dtype, roundoff, cap) = match run.precision {
            Precision::F32 => ("f32", ROUNDOFF_F32, CAP_F32),
            Precision::Bf16 => ("bf16", ROUNDOFF_BF16, CAP_BF16),
        };
        let measured = &self.0["ops"][run.key().as_str()][result.name.as_str()][dtype]["error"];
        let measured = measured.as_f64().unwrap_or_else(|| {
            panic!(
                "the table has no error of PyTorch's for result {} of `{}`, {dtype}",
                result.name,
                run.key()
            )
        });
        // A correctly rounded result is off by half an ulp, and where the two sides round to either side, by
        // a whole one.
        let relative = (TIMES * measured).max(2.0 * roundoff).min(cap);
        let &Conditioning { moved, moved_bf16, .. } = &result.conditioning;
        Limit { relative, noise: NOISE_TIMES * moved, scatter: SCATTER_TIMES * moved_bf16 }
    }
}

impl NodeRun {
    /// Where its errors stand in the table: op and kind.
    pub fn key(&self) -> String {
        format!("{} {}", self.op, self.variant).trim_end().into()
    }

    /// Whether its numbers are moved, not computed. The backward of a mean divides.
    pub fn is_exact(&self) -> bool {
        let broadcast = self.op == "broadcast_to" && !self.attributes.contains(&("mean", "true".into()));
        broadcast || EXACT.contains(&self.op.as_str())
    }
}
