//! The cases of ops whose gradients are moved, not computed: not a bit of them may differ.

use super::{OpCase, ROWS};
use regard::graph::Dim;
use regard::prelude::*;

/// Ops whose gradients are moved.
pub const MOVING: [OpCase; 13] = [
    OpCase {
        folder: "gather",
        op: "scatter_add",
        what: "",
        masked: true,
        record: |s| {
            let (x, indices) = (s.x("x", &[3, 4, 10])?, s.whole(DType::I32, &[4], &[4.0, 1.0, 2.0])?);
            Ok(vec![s.g.scatter_add(x, indices, 1, 5)?])
        },
    },
    OpCase {
        folder: "embedding",
        op: "embedding_backward",
        what: "",
        masked: true,
        record: |s| {
            let (table, dy) = (s.weight("table", &[9, 10])?, s.x("dy", &[3, 4, 10])?);
            let ids = s.whole(DType::I32, &[3, 4], &[2.0, 0.0, 8.0, 5.0, 2.0])?;
            let y = s.g.embedding(table, ids, s.bf16.then_some(DType::BF16))?;
            s.g.pullback(y, dy, &[table])
        },
    },
    OpCase {
        folder: "cast",
        op: "cast",
        what: "",
        masked: false,
        record: |s| {
            let x = s.g.input_with_gradient("x", ROWS)?;
            Ok(vec![s.g.cast(x, DType::BF16)?])
        },
    },
    OpCase {
        folder: "split",
        op: "split",
        what: "",
        masked: false,
        record: |s| {
            let x = s.x("x", &ROWS)?;
            s.g.split(x, 1, &[Dim::from(3), Dim::from(7)])
        },
    },
    OpCase {
        folder: "select",
        op: "select",
        what: "",
        masked: true,
        record: |s| {
            let (a, b) = (s.x("a", &ROWS)?, s.x("b", &ROWS)?);
            let mask = s.whole(DType::Bool, &ROWS, &[1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0])?;
            Ok(vec![s.g.select(mask, a, b)?])
        },
    },
    OpCase {
        folder: "concat",
        op: "concat",
        what: "",
        masked: false,
        record: |s| {
            let (a, b) = (s.x("a", &ROWS)?, s.x("b", &[12, 4])?);
            Ok(vec![s.g.concat(&[a, b], 1)?])
        },
    },
    OpCase {
        folder: "reshape",
        op: "reshape",
        what: "",
        masked: false,
        record: |s| {
            let x = s.x("x", &ROWS)?;
            Ok(vec![s.g.reshape(x, [10, 12])?])
        },
    },
    OpCase {
        folder: "transpose",
        op: "transpose",
        what: "",
        masked: false,
        record: |s| {
            let x = s.x("x", &ROWS)?;
            Ok(vec![s.g.transpose(x, &[1, 0])?])
        },
    },
    OpCase {
        folder: "slice",
        op: "slice",
        what: "",
        masked: true,
        record: |s| {
            let (x, start) = (s.x("x", &ROWS)?, 2 + usize::from(s.off));
            Ok(vec![s.g.slice(x, 1, start, 6)?])
        },
    },
    OpCase {
        folder: "slice",
        op: "pad_slice",
        what: "",
        masked: true,
        record: |s| {
            let (x, dy, start) = (s.x("x", &ROWS)?, s.x("dy", &[12, 6])?, 2 + usize::from(s.off));
            let y = s.g.slice(x, 1, start, 6)?;
            s.g.pullback(y, dy, &[x])
        },
    },
    OpCase {
        folder: "reduce_max",
        op: "max",
        what: "",
        masked: false,
        record: |s| {
            let x = s.x("x", &ROWS)?;
            Ok(vec![s.g.max_keep(x, &[1])?])
        },
    },
    OpCase {
        folder: "patches",
        op: "patches",
        what: "",
        masked: false,
        record: |s| {
            let image = s.x("image", &[2, 3, 4, 6])?;
            Ok(vec![s.g.patches(image, [2, 3])?])
        },
    },
    OpCase {
        folder: "patches",
        op: "join_patches",
        what: "",
        masked: false,
        record: |s| {
            let x = s.x("x", &[2, 4, 18])?;
            Ok(vec![s.g.join_patches(x, [2, 3], [Dim::from(3), Dim::from(4), Dim::from(6)])?])
        },
    },
];
