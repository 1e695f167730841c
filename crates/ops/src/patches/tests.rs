//! Patches of images: values by hand, every reader, the way back, sizes that do not divide.

use regard_engine::check::Case;
use regard_engine::{Feed, reference};
use regard_graph::{Dim, Graph, shape};
use regard_ops::Array;
use regard_ops::prelude::*;

#[test]
fn values_by_hand() {
    let mut g = Graph::new();
    let image = g.input("image", DType::F32, [1, 2, 2, 4]).unwrap();
    let square = g.patches(image, [2, 2]).unwrap();
    let flat = g.patches(image, [1, 4]).unwrap();
    let back = g.join_patches(square, [2, 2], [2, 2, 4].map(Dim::from)).unwrap();
    let numbers: Vec<f64> = (0..16).map(f64::from).collect();
    let feed = Feed::new().with("image", Array::new(&[1, 2, 2, 4], numbers.clone()).unwrap());
    let run = reference::run(&g, &feed, reference::Mode::Exact).unwrap();
    // Channel 0 is 0..8 in two lines of four, channel 1 is 8..16.
    let left = [0.0, 1.0, 4.0, 5.0, 8.0, 9.0, 12.0, 13.0];
    let right = [2.0, 3.0, 6.0, 7.0, 10.0, 11.0, 14.0, 15.0];
    assert_eq!(run.value(square).data(), [left, right].concat());
    assert_eq!(run.value(flat).data()[..8], [0.0, 1.0, 2.0, 3.0, 8.0, 9.0, 10.0, 11.0]);
    assert_eq!(run.value(back).data(), numbers);
}

#[test]
fn every_reader_agrees() {
    for (dims, patch) in [
        ([1, 1, 1, 1], [1, 1]),
        ([2, 3, 4, 6], [2, 3]),
        ([1, 2, 5, 7], [5, 1]),
        ([3, 1, 6, 4], [1, 4]),
        ([1, 1, 34, 34], [17, 2]),
    ] {
        let cut = Case::new(move |g| {
            let image = g.input_with_gradient("image", dims)?;
            Ok(vec![g.patches(image, patch)?])
        });
        cut.all(0.0).unwrap();
        let join = Case::new(move |g| {
            let count = dims[2] / patch[0] * (dims[3] / patch[1]);
            let x = g.input_with_gradient("x", [dims[0], count, dims[1] * patch[0] * patch[1]])?;
            Ok(vec![g.join_patches(x, patch, [dims[1], dims[2], dims[3]].map(Dim::from))?])
        });
        join.all(0.0).unwrap();
    }
}

#[test]
fn open_sizes_bf16_and_empty_batches() {
    for (b, t) in [(2, 3), (1, 1), (0, 2)] {
        let case = Case::new(|g| {
            let (b, t) = (g.open('B', 4)?, g.open('T', 5)?);
            // A spectrogram of 4 by 2·T.
            let width = Dim::from(t).times(&2.into());
            let x = g.input_with_gradient("x", shape![b, t, 8])?;
            let image = g.join_patches(x, [4, 2], [1.into(), 4.into(), width])?;
            Ok(vec![g.patches(image, [2, 1])?])
        });
        case.size('B', b).size('T', t).all(0.0).unwrap();
    }
    let case = Case::new(|g| {
        let image = g.input("image", DType::BF16, [2, 3, 4, 4])?;
        let rows = g.patches(image, [2, 2])?;
        assert_eq!(g.dtype(rows), DType::BF16);
        Ok(vec![rows, g.join_patches(rows, [2, 2], [3, 4, 4].map(Dim::from))?])
    });
    case.cpu(0.0).unwrap();
}

#[test]
fn errors() {
    let mut g = Graph::new();
    let t = g.open('T', 8).unwrap();
    let image = g.input("image", DType::F32, [2, 3, 8, 6]).unwrap();
    let open = g.input("open", DType::F32, shape![2, 3, 8, t]).unwrap();
    let ids = g.input("ids", DType::I32, [2, 3, 8, 6]).unwrap();
    let rows = g.input("rows", DType::F32, [2, 12, 12]).unwrap();
    let text = |result: regard_graph::Result<Var>| result.unwrap_err().to_string();
    for patch in [[3, 2], [2, 4], [0, 2], [2, 0]] {
        assert_eq!(
            text(g.patches(image, patch)),
            format!(
                "patches: images of Hh=8 by Ww=6 cannot be cut into patches of {} by {}; resize or pad the \
                 images so that the patch divides them",
                patch[0], patch[1]
            )
        );
    }
    assert_eq!(
        text(g.patches(open, [2, 2])),
        "patches: images of Hh=8 by Ww=T cannot be cut into patches of 2 by 2; resize or pad the images so \
         that the patch divides them"
    );
    assert_eq!(text(g.patches(rows, [2, 2])), "patches: image is [2 12 12], expected [B Ch Hh Ww]");
    assert_eq!(
        text(g.patches(ids, [2, 2])),
        "patches: image is i32, expected f32 or bf16; cast it to f32 first"
    );
    assert_eq!(
        text(g.join_patches(rows, [2, 2], [3, 8, 8].map(Dim::from))),
        "join_patches: x is [2 12 12], expected [B P=16 K=12]; P, K come from image"
    );
    assert_eq!(
        text(g.join_patches(image, [2, 2], [3, 8, 6].map(Dim::from))),
        "join_patches: x is [2 3 8 6], expected [B P=12 K=12]; P, K come from image"
    );
    assert_eq!(
        text(g.join_patches(rows, [2, 2], [3, 7, 8].map(Dim::from))),
        "join_patches: images of Hh=7 by Ww=8 cannot be cut into patches of 2 by 2; resize or pad the images \
         so that the patch divides them"
    );
}
