//! A row's bits depend neither on the other examples of its batch, nor on more queries, nor on padded keys.

use crate::Report;
use crate::room::{Call, Op, Room, Value};
use crate::speed::{drawn, ops_of};
use regard_device::cuda::CudaError;
use regard_graph::{DType, Dims, Precision};
use regard_ops::{Attention, AttentionMask};

const HEADS: usize = 4;
const GROUPS: usize = 2;

fn dims(sizes: &[usize]) -> Dims {
    Dims::new(sizes).expect("at most the highest rank")
}

/// The first `kept` rows of axis 1 of [B N ...], for examples from `first` on.
fn cut(value: &Value, first: usize, kept: usize) -> Value {
    let (batch, rows) = (value.dims[0], value.dims[1]);
    let row = value.bytes.len() / (batch * rows);
    let mut bytes = Vec::new();
    for b in first..batch {
        bytes.extend(&value.bytes[b * rows * row..][..kept * row]);
    }
    let mut sizes = value.dims.to_vec();
    (sizes[0], sizes[1]) = (batch - first, kept);
    Value { dtype: value.dtype, dims: dims(&sizes), bytes }
}

pub fn check(room: &Room, report: &mut Report) -> Result<(), CudaError> {
    let widths = [
        (Precision::F32, 24),
        (Precision::F32, 64),
        (Precision::Bf16, 32),
        (Precision::Bf16, 64),
        (Precision::Bf16, 128),
    ];
    // Whole tiles of queries, and few that are split over the keys: T, S, how many of both are kept, and the
    // lengths.
    let many = Sizes { queries: [150, 99], keys: [170, 140], lengths: [120.0, 77.0, 131.0] };
    let few = Sizes { queries: [4, 1], keys: [700, 530], lengths: [512.0, 77.0, 513.0] };
    for (precision, width) in widths {
        for dropout in [0.0, 0.2] {
            one(room, report, precision, width, dropout, &many)?;
            one(room, report, precision, width, dropout, &few)?;
        }
    }
    Ok(())
}

/// All and some of the queries and keys; fewer keys exist than are kept, so that what is cut away was
/// padding.
struct Sizes {
    queries: [usize; 2],
    keys: [usize; 2],
    lengths: [f64; 3],
}

fn one(
    room: &Room,
    report: &mut Report,
    precision: Precision,
    width: usize,
    dropout: f32,
    sizes: &Sizes,
) -> Result<(), CudaError> {
    let (batch, lengths) = (3, sizes.lengths);
    let ([queries, some_queries], [keys, some_keys]) = (sizes.queries, sizes.keys);
    // The last queries are not at the last keys: few of them would see next to nothing.
    let causal = queries > 4;
    let dtype = if precision == Precision::Bf16 { DType::BF16 } else { DType::F32 };
    let (forward, backward) = ops_of(precision, dtype, [batch, queries, keys, HEADS, GROUPS, width], |g| {
        let lengths = g.input("lengths", DType::I32, [batch])?;
        let mask = AttentionMask { causal, key_lengths: Some(lengths), ..Default::default() };
        Ok(Attention { mask, dropout, ..Attention::default() })
    });
    let name =
        |what: &str| format!("{precision:?}, {queries} queries, width {width}, dropout {dropout}: {what}");
    let q = drawn("q", dtype, &[batch, queries, HEADS, width]);
    let k = drawn("k", dtype, &[batch, keys, GROUPS, width]);
    let v = drawn("v", dtype, &[batch, keys, GROUPS, width]);
    let dy = drawn("dy", dtype, &[batch, queries, HEADS, width]);
    let run = |first: usize, queries: usize, keys: usize| -> Result<Vec<Value>, CudaError> {
        let batch = batch - first;
        let mut inputs = vec![cut(&q, first, queries), cut(&k, first, keys), cut(&v, first, keys)];
        let mut extras = vec![Value::new(DType::I32, dims(&[batch]), &lengths[first..])];
        if dropout > 0.0 {
            // Examples are told apart by their index in the global batch.
            extras.push(Value::new(DType::I32, dims(&[5]), &[7.0, 0.0, 3.0, 0.0, 11.0 + first as f64]));
        }
        let rows = dims(&[batch, queries, HEADS]);
        let outputs = vec![(dtype, inputs[0].dims), (DType::F32, rows), (DType::I32, rows)];
        let call = Call {
            op: Op::Forward(forward.clone()),
            inputs: [inputs.clone(), extras.clone()].concat(),
            outputs,
            used: vec![true; 3],
        };
        let mut found = room.run(&call)?.0;
        let outputs = inputs.iter().map(|value| (value.dtype, value.dims)).collect();
        inputs.extend([found[1].clone(), cut(&dy, first, queries), found[0].clone()]);
        let call = Call {
            op: Op::Backward(backward.clone()),
            inputs: [inputs, extras].concat(),
            outputs,
            used: vec![true; 3],
        };
        found.extend(room.run(&call)?.0);
        Ok(found)
    };
    let whole = run(0, queries, keys)?;
    let names = ["y", "lse", "choice", "dq", "dk", "dv"];
    // The last example alone; keys that only padding reached cut away; and fewer queries.
    for (what, first, kept_queries, kept_keys) in [
        ("alone", batch - 1, queries, keys),
        ("without padded keys", 0, queries, some_keys),
        ("fewer queries", 0, some_queries, keys),
    ] {
        let part = run(first, kept_queries, kept_keys)?;
        for (output, name_of) in names.into_iter().enumerate() {
            // The gradients of keys are sums over the queries.
            if what == "fewer queries" && output >= 4 {
                continue;
            }
            let rows = if output >= 4 { kept_keys } else { kept_queries };
            let same = cut(&whole[output], first, rows).bytes == part[output].bytes;
            report.check(&name(&format!("{name_of}, {what}")), same, "other bits");
        }
    }
    Ok(())
}
