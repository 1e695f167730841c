//! Forward and backward at the shapes of the bars, in TFLOP/s: medians of many runs by events.

use crate::Report;
use crate::room::{Call, Op, Room, Value};
use regard_device::Stream as Draws;
use regard_device::cuda::CudaError;
use regard_graph::{DType, Dims, Graph, Precision};
use regard_ops::prelude::*;
use regard_ops::{Attention, AttentionBackward, AttentionOp};
use std::any::Any;

/// Random numbers for a value.
pub fn drawn(name: &str, dtype: DType, sizes: &[usize]) -> Value {
    let dims = Dims::new(sizes).expect("at most the highest rank");
    let count = dims.count();
    let stream = Draws::new(5, 0, name);
    let pairs = (0..count.div_ceil(2)).flat_map(|i| stream.normal_pair((i >> 31) as u32, 0, i as u32));
    let numbers: Vec<f64> = pairs.take(count).collect();
    Value::new(dtype, dims, &numbers)
}

/// The two ops of an attention of these sizes (B T S H G and the width).
pub fn ops_of(
    precision: Precision,
    dtype: DType,
    [b, t, s, h, groups, width]: [usize; 6],
    spec: impl Fn(&mut Graph) -> regard_graph::Result<Attention>,
) -> (AttentionOp, AttentionBackward) {
    let record = || -> regard_graph::Result<Graph> {
        let mut g = Graph::new();
        g.set_precision(precision);
        let mut operands = Vec::new();
        for (name, dims) in
            [("q", [b, t, h, width]), ("k", [b, s, groups, width]), ("v", [b, s, groups, width])]
        {
            let value = g.input_with_gradient(name, dims)?;
            operands.push((value, if dtype == DType::F32 { value } else { g.cast(value, dtype)? }));
        }
        let spec = spec(&mut g)?;
        let y = g.attention(operands[0].1, operands[1].1, operands[2].1, &spec)?.y;
        let y = g.cast(y, DType::F32)?;
        let loss = g.sum_all(y)?;
        g.gradient(loss, &[operands[0].0, operands[1].0, operands[2].0])?;
        Ok(g)
    };
    let graph = record().expect("these settings fit together");
    fn find<T: Any + Clone>(graph: &Graph) -> T {
        let mut ops =
            graph.nodes().iter().filter_map(|node| (node.op.as_ref() as &dyn Any).downcast_ref::<T>());
        ops.next().expect("the op was recorded").clone()
    }
    (find(&graph), find(&graph))
}

struct Shape {
    heads: usize,
    width: usize,
    keys: usize,
    causal: bool,
}

pub fn measure(room: &Room, report: &mut Report) -> Result<(), CudaError> {
    const TOKENS: usize = 16 * 1024;
    report.line(
        "attention, bf16                          forward ms  TFLOP/s   backward ms  TFLOP/s   both TFLOP/s"
            .into(),
    );
    for (heads, width) in [(32, 64), (16, 128)] {
        for causal in [false, true] {
            for keys in [1024, 4096, 16384] {
                one(room, report, &Shape { heads, width, keys, causal }, TOKENS / keys, Precision::Bf16)?;
            }
        }
    }
    one(room, report, &Shape { heads: 8, width: 32, keys: 128, causal: true }, 128, Precision::Bf16)?;
    one(room, report, &Shape { heads: 12, width: 64, keys: 1024, causal: true }, 32, Precision::Bf16)?;
    report.line("attention of one query, bf16                      us     GB/s".into());
    decode(room, report, [1, 1024, 12, 12, 64])?;
    decode(room, report, [32, 4096, 32, 8, 128])?;
    report.line("attention, true f32".into());
    one(room, report, &Shape { heads: 8, width: 32, keys: 128, causal: true }, 128, Precision::F32)?;
    one(room, report, &Shape { heads: 12, width: 64, keys: 1024, causal: true }, 4, Precision::F32)
}

fn one(
    room: &Room,
    report: &mut Report,
    shape: &Shape,
    batch: usize,
    precision: Precision,
) -> Result<(), CudaError> {
    let &Shape { heads, width, keys, causal } = shape;
    let dtype = if precision == Precision::Bf16 { DType::BF16 } else { DType::F32 };
    let spec = |_: &mut Graph| Ok(if causal { Attention::causal() } else { Attention::default() });
    let (forward, backward) = ops_of(precision, dtype, [batch, keys, keys, heads, heads, width], spec);
    let sizes = [batch, keys, heads, width];
    let [q, k, v, dy] = ["q", "k", "v", "dy"].map(|name| drawn(name, dtype, &sizes));
    let rows = Dims::new(&sizes[..3]).expect("three axes");
    let call = Call {
        op: Op::Forward(forward),
        inputs: vec![q.clone(), k.clone(), v.clone()],
        outputs: vec![(dtype, q.dims), (DType::F32, rows), (DType::I32, rows)],
        used: vec![true; 3],
    };
    let (found, _) = room.run(&call)?;
    let times = if keys <= 4096 { 31 } else { 11 };
    let forward_ms = room.time(&room.place(&call)?, times)?;
    let call = Call {
        op: Op::Backward(backward),
        outputs: vec![(dtype, q.dims); 3],
        inputs: vec![q, k, v, found[1].clone(), dy, found[0].clone()],
        used: vec![true; 3],
    };
    let backward_ms = room.time(&room.place(&call)?, times)?;
    let pairs = (batch * heads * keys * keys) as f64 * if causal { 0.5 } else { 1.0 };
    let forward_flops = 4.0 * pairs * width as f64;
    let rate = |flops: f64, ms: f64| flops / ms / 1e9;
    report.line(format!(
        "{:<40} {forward_ms:>10.3} {:>8.1} {backward_ms:>13.3} {:>8.1} {:>14.1}",
        format!("{batch} x {heads} heads x {width}, n {keys}{}", if causal { ", causal" } else { "" }),
        rate(forward_flops, forward_ms),
        rate(2.5 * forward_flops, backward_ms),
        rate(3.5 * forward_flops, forward_ms + backward_ms)
    ));
    Ok(())
}

/// One query of each example over so many keys: B S H G and the width. What it reads decides, so that bytes
/// are told.
fn decode(
    room: &Room,
    report: &mut Report,
    [batch, keys, heads, groups, width]: [usize; 5],
) -> Result<(), CudaError> {
    let dtype = DType::BF16;
    let sizes = [batch, 1, keys, heads, groups, width];
    let (forward, _) = ops_of(Precision::Bf16, dtype, sizes, |_| Ok(Attention::default()));
    let q = drawn("q", dtype, &[batch, 1, heads, width]);
    let [k, v] = ["k", "v"].map(|name| drawn(name, dtype, &[batch, keys, groups, width]));
    let rows = Dims::new(&[batch, 1, heads]).expect("three axes");
    let outputs = vec![(dtype, q.dims), (DType::F32, rows), (DType::I32, rows)];
    let bytes = (k.bytes.len() + v.bytes.len()) as f64;
    let call = Call { op: Op::Forward(forward), inputs: vec![q, k, v], outputs, used: vec![true; 3] };
    let ms = room.time(&room.place(&call)?, 31)?;
    let name = format!("{batch} x {heads} heads ({groups}) x {width}, {keys} keys");
    report.line(format!("{name:<42} {:>8.1} {:>8.0}", ms * 1e3, bytes / ms / 1e6));
    Ok(())
}
