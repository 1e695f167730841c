//! The work that the CPU executes for the output projection with cross-entropy.

use super::{LinearCrossEntropy, cpu};
use crate::cpu_product::storage;
use crate::cross_entropy::loss_flops;
use crate::cross_entropy::targets::live_rows;
use regard_device::PANEL;
use regard_graph::{Concrete, Op, Work};

/// Rows are padded to whole panels, and for dW the columns are. Every group of rows reads the weight once for
/// each product and adds to its gradient. The softmax is kept, not taken again; the gradients of the logits
/// are written beside it, as the products read them.
pub fn work(op: &LinearCrossEntropy, call: &Concrete<'_>) -> Work {
    let math = op.cost(call);
    let live = live_rows(call, op.targets_input(), op.ignore_index);
    let (v, c) = (call.inputs[1][0], call.inputs[1][1]);
    let gradients = (2..call.outputs.len()).any(|output| call.used[output]);
    let (dx, dw) = (usize::from(call.used[2]), usize::from(call.used[3]));
    let dbias = usize::from(op.bias && call.used[4]);
    let loss_row = usize::from(op.bias) * v + loss_flops(v, op.label_smoothing) + 1;
    let padded = live.next_multiple_of(PANEL);
    let groups = live.div_ceil(cpu::rows_at_once(live, v));
    let (weight, logits) = ((groups * v * c * 4) as u64, (live * v * 4) as u64);
    let d = (live * v * storage(op.precision).bytes()) as u64;
    let softmax = if gradients { live * v * (2 + dbias) } else { 0 };
    Work {
        macs: (v * (padded * c * (1 + dx) + live * c.next_multiple_of(PANEL) * dw)) as u64,
        flops: (live * loss_row + softmax + 1) as u64,
        read: math.read
            + weight * (1 + dx + dw) as u64
            + logits * (1 + u64::from(gradients))
            + d * (dx + dw) as u64,
        written: math.written + weight * dw as u64 + logits * 2 + d * u64::from(gradients),
    }
}
