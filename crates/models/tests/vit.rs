//! Properties of ViT: patches are a strided convolution, their order means nothing without positions, images
//! do not see each other; nonsense is refused in words.

use regard_engine::check::{Case, relative_error};
use regard_engine::{Cpu, Program, Result, Store};
use regard_graph::reach::{Grain, Query, reach};
use regard_layers::FeedForwardKind;
use regard_models::grid::interpolate_positions;
use regard_models::{Model, Vit, VitConfig, VitForm, VitHead, VitPooling};
use regard_ops::Array;
use regard_ops::prelude::*;

/// Patches of 2 by 3 in 4 rows and 5 columns: nothing is square.
const SMALL: VitConfig = VitConfig {
    image: [8, 15],
    patch: [2, 3],
    channels: 3,
    layers: 2,
    heads: 2,
    width: 16,
    hidden: 20,
    activation: FeedForwardKind::Gelu,
    input_bias: true,
    positions: true,
    pooling: VitPooling::Class,
    head: VitHead::Linear(6),
    epsilon: 1e-6,
    dropout: 0.0,
    attention_dropout: 0.0,
    std: 0.3,
    mechanisms: regard_models::Mechanisms::NONE,
    form: VitForm::Plain,
};

type Recording = fn(&Vit, &mut Graph, Var) -> regard_graph::Result<Var>;

fn pixels(count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * i + 13 * i) % 29) as f32 / 15.0 - 1.0).collect()
}

fn answer(config: VitConfig, record: Recording, images: &[f32], store: &mut Store) -> Result<Array> {
    let vit = Vit::new(config)?;
    let [height, width] = config.image;
    let mut g = Graph::inference();
    let b = g.open('B', 4)?;
    let image = g.input("image", DType::F32, shape![b, config.channels, height, width])?;
    let answer = record(&vit, &mut g, image)?;
    g.output("answer", answer)?;
    let mut program = Program::new(g, &[], store, &Cpu::new()?)?;
    let batch = images.len() / (config.channels * height * width);
    program.set_f32("image", &[batch, config.channels, height, width], images)?;
    program.run(store)?;
    program.array("answer")
}

/// The largest difference.
fn apart(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

#[test]
fn patches_are_a_convolution_with_a_stride() -> Result<()> {
    let (images, mut store) = (pixels(2 * 3 * 8 * 15), Store::new(5));
    let got = answer(SMALL, Vit::patch_embedding, &images, &mut store)?;
    let (weight, bias) = (store.array("patch_embedding.weight")?, store.array("patch_embedding.bias")?);
    // out[b, c, i, j] = bias[c] + Σ weight[c, ch, y, x] image[b, ch, 2 i + y, 3 j + x], as PyTorch lays it
    // out.
    let mut wanted = Vec::new();
    for b in 0..2 {
        for i in 0..4 {
            for j in 0..5 {
                for c in 0..16 {
                    let mut sum = bias.data()[c];
                    for ch in 0..3 {
                        for y in 0..2 {
                            for x in 0..3 {
                                let pixel = images[((b * 3 + ch) * 8 + 2 * i + y) * 15 + 3 * j + x];
                                sum += weight.data()[((c * 3 + ch) * 2 + y) * 3 + x] * f64::from(pixel);
                            }
                        }
                    }
                    wanted.push(sum);
                }
            }
        }
    }
    assert_eq!(got.dims().to_vec(), [2, 20, 16]);
    assert!(apart(got.data(), &wanted) < 1e-5);
    Ok(())
}

/// An image whose patch p is patch `order[p]` of the given one.
fn shuffled(image: &[f32], order: &[usize]) -> Vec<f32> {
    let mut out = vec![0.0; image.len()];
    for (to, &from) in order.iter().enumerate() {
        for ch in 0..3 {
            for y in 0..2 {
                for x in 0..3 {
                    let at = |patch: usize| (ch * 8 + patch / 5 * 2 + y) * 15 + patch % 5 * 3 + x;
                    out[at(to)] = image[at(from)];
                }
            }
        }
    }
    out
}

#[test]
fn without_positions_the_order_of_patches_means_nothing() -> Result<()> {
    let image = pixels(3 * 8 * 15);
    let order: Vec<usize> = (0..20).map(|patch| (7 * patch + 3) % 20).collect();
    let other = shuffled(&image, &order);
    for pooling in [VitPooling::Class, VitPooling::Mean] {
        let config = VitConfig { positions: false, pooling, ..SMALL };
        let mut store = Store::new(9);
        let logits = answer(config, Vit::logits, &image, &mut store)?;
        let again = answer(config, Vit::logits, &other, &mut store)?;
        assert!(apart(logits.data(), again.data()) < 1e-5, "{pooling:?}: scores stay");

        let hidden = answer(config, Vit::hidden, &image, &mut store)?;
        let moved = answer(config, Vit::hidden, &other, &mut store)?;
        let row = |array: &Array, at: usize| array.data()[at * 16..][..16].to_vec();
        assert!(apart(&row(&hidden, 0), &row(&moved, 0)) < 1e-5, "the class token stays");
        for (to, &from) in order.iter().enumerate() {
            assert!(
                apart(&row(&moved, 1 + to), &row(&hidden, 1 + from)) < 1e-5,
                "patches move with their pixels"
            );
        }

        let config = VitConfig { pooling, ..SMALL };
        let logits = answer(config, Vit::logits, &image, &mut store)?;
        let again = answer(config, Vit::logits, &other, &mut store)?;
        assert!(apart(logits.data(), again.data()) > 1e-2, "{pooling:?}: with positions they do not");
    }
    Ok(())
}

#[test]
fn every_head_and_pooling_is_what_it_says() -> Result<()> {
    let images = pixels(2 * 3 * 8 * 15);
    let head = VitHead::Mlp { hidden: 9, classes: 6 };
    for pooling in [VitPooling::Class, VitPooling::Mean, VitPooling::ClassAndMean] {
        let (config, mut store) = (VitConfig { pooling, head, ..SMALL }, Store::new(2));
        let hidden = answer(config, Vit::hidden, &images, &mut store)?;
        let logits = answer(config, Vit::logits, &images, &mut store)?;
        assert_eq!(logits.dims().to_vec(), [2, 6]);
        for b in 0..2 {
            let rows: Vec<&[f64]> = hidden.data()[b * 21 * 16..][..21 * 16].chunks(16).collect();
            let mean: Vec<f64> =
                (0..16).map(|c| rows[1..].iter().map(|row| row[c]).sum::<f64>() / 20.0).collect();
            let pooled: Vec<f64> = match pooling {
                VitPooling::Class => rows[0].to_vec(),
                VitPooling::Mean => mean,
                VitPooling::ClassAndMean => [rows[0].to_vec(), mean].concat(),
            };
            let linear = |x: &[f64], name: &str| -> Result<Vec<f64>> {
                let (weight, bias) =
                    (store.array(&format!("{name}.weight"))?, store.array(&format!("{name}.bias"))?);
                let rows = weight.data().chunks(x.len()).zip(bias.data());
                Ok(rows
                    .map(|(row, bias)| row.iter().zip(x).map(|(w, x)| w * x).sum::<f64>() + bias)
                    .collect())
            };
            let hidden: Vec<f64> = linear(&pooled, "head_hidden")?.into_iter().map(f64::tanh).collect();
            assert!(apart(&linear(&hidden, "head")?, &logits.data()[b * 6..][..6]) < 1e-5, "{pooling:?}");
        }
    }
    Ok(())
}

#[test]
fn images_of_other_grids_have_positions_of_their_own() -> Result<()> {
    // 2 by 8 patches, then 4 by 4: as many tokens, another picture.
    let wide = VitConfig { image: [4, 24], ..SMALL };
    let square = VitConfig { image: [8, 12], ..SMALL };
    let mut from = Store::new(4);
    answer(wide, Vit::logits, &pixels(3 * 4 * 24), &mut from)?;
    let names: Vec<String> = from.names().map(String::from).collect();
    let moved =
        interpolate_positions(&from.f32("position_embedding.weight")?, 16, wide.grid(), square.grid())?;
    let image = pixels(3 * 8 * 12);
    let run = |positions: &[f32]| -> Result<Array> {
        let mut to = Store::new(0);
        answer(square, Vit::logits, &image, &mut to)?;
        for name in &names {
            let own = from.f32(name)?;
            to.set_f32(name, if name == "position_embedding.weight" { positions } else { &own })?;
        }
        answer(square, Vit::logits, &image, &mut to)
    };
    let (interpolated, copied) = (run(&moved)?, run(&from.f32("position_embedding.weight")?)?);
    assert!(
        apart(interpolated.data(), copied.data()) > 1e-3,
        "a table that fits by count alone is the wrong one"
    );
    Ok(())
}

#[test]
fn neighbours_in_the_batch_change_no_bit() -> Result<()> {
    let (images, mut store) = (pixels(4 * 3 * 8 * 15), Store::new(1));
    let together = answer(SMALL, Vit::logits, &images, &mut store)?;
    for (row, image) in images.chunks(3 * 8 * 15).enumerate() {
        let alone = answer(SMALL, Vit::logits, image, &mut store)?;
        assert_eq!(together.data()[row * 6..][..6], *alone.data());
    }
    Ok(())
}

#[test]
fn images_cannot_see_each_other() -> Result<()> {
    for pooling in [VitPooling::Class, VitPooling::Mean] {
        let vit = Vit::new(VitConfig { pooling, ..SMALL })?;
        let mut g = Graph::inference();
        let image = g.input("image", DType::F32, [2, 3, 8, 15])?;
        let logits = vit.logits(&mut g, image)?;
        let hidden = g.find("final_norm.stream")?;
        let query = Query {
            from: vec![image],
            to: vec![hidden, logits],
            grain: Grain::Position,
            ..Default::default()
        };
        let answer = reach(&g, &query)?;
        for to in [hidden, logits] {
            let verdict = answer.depends_only_on_same(image, 0, to, 0)?;
            assert!(verdict.holds(), "{verdict}");
        }
        for from in answer.cells(image)? {
            let row = answer.coordinates(from)?[0];
            assert!(answer.can(from, answer.cell(logits, &[row])?)?, "every pixel row can change the scores");
        }
    }
    Ok(())
}

#[test]
fn readers_agree_on_every_head() -> Result<()> {
    let tiny = VitConfig { image: [4, 6], layers: 1, width: 6, hidden: 5, ..SMALL };
    for (head, pooling, positions) in [
        (VitHead::Linear(3), VitPooling::Class, true),
        (VitHead::Linear(3), VitPooling::Mean, false),
        (VitHead::Mlp { hidden: 4, classes: 3 }, VitPooling::Mean, true),
    ] {
        let vit = Vit::new(VitConfig { head, pooling, positions, ..tiny })?;
        let case = Case::new(move |g| {
            let image = g.input_with_gradient("image", [2, 3, 4, 6])?;
            Ok(vec![vit.logits(g, image)?])
        });
        case.gradients()?;
        case.cost()?;
    }
    Ok(())
}

#[test]
fn bf16_is_near_f32() -> Result<()> {
    let images = pixels(2 * 3 * 8 * 15);
    for head in [VitHead::Linear(6), VitHead::Mlp { hidden: 9, classes: 6 }] {
        let (config, mut store) = (VitConfig { head, ..SMALL }, Store::new(2));
        let exact = answer(config, Vit::logits, &images, &mut store)?;
        let rounded = |vit: &Vit, g: &mut Graph, image: Var| {
            g.set_precision(Precision::Bf16);
            vit.logits(g, image)
        };
        let rounded = answer(config, rounded, &images, &mut store)?;
        let error = relative_error(rounded.data(), exact.data());
        assert!(error > 0.0 && error < 0.03, "{head:?}: {error}");
        // A training step records as well.
        let mut g = Graph::new();
        g.set_precision(Precision::Bf16);
        let image = g.input("image", DType::F32, [2, 3, 8, 15])?;
        let targets = g.input("targets", DType::I32, [2])?;
        let scale = g.input("scale", DType::F32, shape![])?;
        let loss = Vit::new(config)?.loss(&mut g, image, targets, scale)?;
        let parameters = g.parameters();
        g.gradient(loss, &parameters)?;
    }
    Ok(())
}

// ---- what is refused ---------------------------------------------------------------------------------

#[test]
fn nonsense_is_refused_in_words() {
    let huge = VitConfig { image: [1 << 40, 1 << 40], patch: [1, 1], channels: 1 << 63, ..SMALL };
    assert!(Vit::new(huge).is_ok(), "sizes that no machine holds are for the plan to refuse");
    let form = VitForm::Dinov2 { scale: 1.0, learned: None };
    let dinov2 = Vit::new(VitConfig { form, ..SMALL }).unwrap();
    assert_eq!(
        dinov2.for_images([9, 15]).unwrap_err().to_string(),
        "vit: images of 9 by 15 cannot be cut into patches of 2 by 3; choose an image size that the patch divides"
    );
    assert!(
        Vit::new(SMALL).unwrap().for_images([16, 15]).unwrap().is_none(),
        "positions of a plain ViT stay"
    );
    let refused = |config: VitConfig| Vit::new(config).unwrap_err().to_string();
    assert_eq!(
        refused(VitConfig { image: [8, 16], ..SMALL }),
        "vit: images of 8 by 16 cannot be cut into patches of 2 by 3; choose an image size that the patch divides"
    );
    assert_eq!(
        refused(VitConfig { heads: 3, ..SMALL }),
        "vit: a width of 16 cannot be shared by 3 heads; choose a width that is a multiple of the heads"
    );
    assert!(
        refused(VitConfig { patch: [0, 3], ..SMALL }).starts_with("vit: one of the sizes is 0: VitConfig {")
    );
    assert_eq!(
        refused(VitConfig { dropout: -0.1, ..SMALL }),
        "vit: dropout is -0.1; choose a probability from 0 up to, not including, 1"
    );
    assert_eq!(
        refused(VitConfig { head: VitHead::Mlp { hidden: 0, classes: 3 }, ..SMALL }),
        "vit: the head is Mlp { hidden: 0, classes: 3 }; give every size at least 1"
    );
    assert_eq!(
        refused(VitConfig { std: f32::INFINITY, ..SMALL }),
        "vit: the standard deviation of the weights is inf; give a number that is not negative"
    );
    assert_eq!(
        VitConfig::preset("vit-base").unwrap_err().to_string(),
        "no preset is called `vit-base`; did you mean `vit-base-16`?"
    );
}

#[test]
fn images_of_the_wrong_kind_are_refused_when_recorded() {
    let vit = Vit::new(SMALL).unwrap();
    let refused = |shape: &[usize]| {
        let mut g = Graph::inference();
        let image = g.input("image", DType::F32, shape).unwrap();
        vit.logits(&mut g, image).unwrap_err().to_string()
    };
    let advice = "expected [B Ch Hh Ww] = [B 3 8 15]; resize the images, or make a model for their size and \
                  interpolate its positions";
    assert_eq!(refused(&[2, 1, 8, 15]), format!("vit: image is [2 1 8 15], {advice}"));
    assert_eq!(refused(&[2, 3, 8, 12]), format!("vit: image is [2 3 8 12], {advice}"));
    assert_eq!(refused(&[3, 8, 15]), format!("vit: image is [3 8 15], {advice}"));

    let headless = Vit::new(VitConfig { head: VitHead::None, ..SMALL }).unwrap();
    let mut g = Graph::inference();
    let image = g.input("image", DType::F32, [1, 3, 8, 15]).unwrap();
    assert_eq!(
        headless.logits(&mut g, image).unwrap_err().to_string(),
        "vit: a model with the head None has no scores; make it with the head Linear, Taught or Mlp"
    );
}
