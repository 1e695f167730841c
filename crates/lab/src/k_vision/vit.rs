//! The ViT of the library: patches, the class token, positions on grids, order, probabilities, fields.

use crate::compute::{array, compute, differing, largest_difference};
use crate::experiment::Learner;
use crate::picture::{Axis, Chart, Colours, Heat};
use crate::specimens::other_bits;
use crate::{Context, Finding, Number, Table, Verdict};
use regard::layers::FeedForwardKind;
use regard::models::grid::interpolate_positions;
use regard::models::{Vit, VitConfig, VitHead, VitPooling};
use regard::ops::{CrossEntropyOptions, LinearOptions};
use regard::prelude::*;
use regard::{Array, Result, reach};

/// Images of 8 by 8 with 2 channels, patches of 2 by 2: a grid of 4 by 4.
pub fn config() -> VitConfig {
    VitConfig {
        image: [8, 8],
        patch: [2, 2],
        channels: 2,
        layers: 2,
        heads: 2,
        width: 16,
        hidden: 32,
        activation: FeedForwardKind::Gelu,
        input_bias: true,
        positions: true,
        pooling: VitPooling::Class,
        head: VitHead::Linear(5),
        epsilon: 1e-6,
        dropout: 0.0,
        attention_dropout: 0.0,
        std: 0.3,
        mechanisms: Default::default(),
        form: Default::default(),
    }
}

const PIXELS: usize = 2 * 8 * 8;
const PATCHES: usize = 16;

fn run(
    image: &[f64],
    record: impl FnOnce(&mut Graph, Var) -> regard_graph::Result<Vec<Var>>,
) -> Result<Vec<Array>> {
    let feed = Feed::new().with("image", array(&[1, 2, 8, 8], image)?);
    compute(&feed, |g| {
        let image = g.input("image", DType::F32, [1, 2, 8, 8])?;
        record(g, image)
    })
}

/// The image with its patches in another order.
fn shuffled(image: &[f64], order: &[usize]) -> Vec<f64> {
    let at = |channel: usize, y: usize, x: usize| (channel * 8 + y) * 8 + x;
    let mut moved = vec![0.0; PIXELS];
    for (to, &from) in order.iter().enumerate() {
        for place in 0..8 {
            let (channel, y, x) = (place / 4, place / 2 % 2, place % 2);
            let pixel = |patch: usize| at(channel, patch / 4 * 2 + y, patch % 4 * 2 + x);
            moved[pixel(to)] = image[pixel(from)];
        }
    }
    moved
}

/// K1: patches and a linear map are a convolution whose stride is its size.
pub fn patches(context: &Context) -> Result<Finding> {
    let image = context.draws("K1").normals(PIXELS);
    let model = Vit::new(config())?;
    let found = run(&image, |g, image| {
        let y = model.patch_embedding(g, image)?;
        let weight = g.parameter("patch_embedding.weight", [16, 8], Init::Zeros)?;
        Ok(vec![y, weight])
    })?;
    let weight = found[1].data();
    // A convolution by its definition: kernel [out, channel, y, x], stride 2.
    let mut wanted = Vec::new();
    for patch in 0..PATCHES {
        for out in 0..16 {
            let mut sum = 0.0;
            for channel in 0..2 {
                for (y, x) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                    let pixel = image[(channel * 8 + patch / 4 * 2 + y) * 8 + patch % 4 * 2 + x];
                    sum += weight[((out * 2 + channel) * 2 + y) * 2 + x] * pixel;
                }
            }
            wanted.push(sum);
        }
    }
    Ok(Finding::new(
        Verdict::Holds,
        "Cutting into P × P patches and a linear map are a convolution with kernel and stride P.",
    )
    .number(Number::at_most(
        "patch embedding against the convolution",
        largest_difference(found[0].data(), &wanted),
        1e-14,
    ))
    .number(Number::count("vectors: (8/2)²", found[0].data().len() / 16, PATCHES))
    .picture(Heat::new("An image, one channel", "row", "column", 8, &image[..64], Colours::Signed))
    .picture(Heat::new(
        "Its patch embeddings, patch × channel",
        "patch",
        "channel",
        16,
        found[0].data(),
        Colours::Signed,
    ))
    .how("The patch embedding of the ViT by the reference engine, against loops over kernel and stride."))
}

/// K2: a class token in front, with a position of its own.
pub fn class_token(context: &Context) -> Result<Finding> {
    let image = context.draws("K2").normals(PIXELS);
    let model = Vit::new(config())?;
    let shape_of = |name: &str| {
        model
            .parameters()
            .declared()
            .find(|d| d.name == name)
            .map(|d| d.shape.to_string())
            .unwrap_or_default()
    };
    let found = run(&image, |g, image| Ok(vec![model.hidden(g, image)?]))?;
    let tokens = found[0].data().len() / 16;
    // The first token's state before the blocks does not depend on the image; its state after them does.
    let mut g = Graph::inference();
    let input = g.input("image", DType::F32, [1, 2, 8, 8])?;
    let hidden = model.hidden(&mut g, input)?;
    let stream = g.find("embedding.stream")?;
    let query = reach::Query {
        from: vec![input],
        to: vec![stream, hidden],
        grain: reach::Grain::Position,
        ..Default::default()
    };
    let reaches = reach::reach(&g, &query)?;
    let (before, after) = (
        reaches.row(reaches.cell(stream, &[0, 0])?)?.count(),
        reaches.row(reaches.cell(hidden, &[0, 0])?)?.count(),
    );
    let mean = Vit::new(VitConfig { pooling: VitPooling::Mean, ..config() })?;
    let [by_class, by_mean] =
        [&model, &mean].map(|model| run(&image, |g, image| Ok(vec![model.logits(g, image)?])));
    let (by_class, by_mean) = (by_class?, by_mean?);
    let mut table = Table::new("Parameters", &["parameter", "shape"]);
    for name in ["class_token", "position_embedding.weight", "patch_embedding.weight"] {
        table.row([name.to_string(), shape_of(name)]);
    }
    Ok(Finding::new(Verdict::Holds, "N + 1 tokens: a learned vector stands first, has a row of its own in the table of positions, and knows nothing of the image until it attends. The mean of the patches is the other way to pool.")
        .number(Number::count("tokens", tokens, PATCHES + 1))
        .number(Number::count("rows of the position table: N + 1", usize::from(shape_of("position_embedding.weight") == "[17 16]"), 1))
        .number(Number::count("rows of pixels that reach the class token before the blocks", before, 0))
        .number(Number::count("rows of pixels that reach it after them, all", after, 16))
        .number(Number::shown("largest difference of scores between the class token and the mean of patches", largest_difference(by_class[0].data(), by_mean[0].data())))
        .table(table)
        .picture(Heat::new("Tokens after the last block, token × channel", "token", "channel", 16, found[0].data(), Colours::Signed))
        .how("The ViT of the library: its parameters, numbers by the reference engine, dependence by the reach reader."))
}

/// K4: positions on other grids.
pub fn resolutions(context: &Context) -> Result<Finding> {
    let width = 4;
    let mut draws = context.draws("K4");
    let table: Vec<f32> = draws.normals(17 * width).iter().map(|x| *x as f32).collect();
    let same = interpolate_positions(&table, width, [4, 4], [4, 4])?;
    let wide = interpolate_positions(&table, width, [2, 8], [4, 4])?;
    let large = interpolate_positions(&table, width, [4, 4], [8, 8])?;
    // Row and column as channels, and a constant. Bicubic with a = −¾ keeps constants, and bends planes a
    // little.
    let plane = |rows: usize, columns: usize, per: f32| -> Vec<f32> {
        let cell = |r: usize, c: usize| [(r as f32 + 0.5) / per, (c as f32 + 0.5) / per, 1.0, 0.0];
        [0.0; 4]
            .into_iter()
            .chain((0..rows).flat_map(|r| (0..columns).flat_map(move |c| cell(r, c))))
            .collect()
    };
    let moved = interpolate_positions(&plane(8, 8, 1.0), width, [8, 8], [16, 16])?;
    let wanted = plane(16, 16, 2.0);
    let error = |channel: usize| {
        let inside = (4..12).flat_map(|r| (4..12).map(move |c| 1 + r * 16 + c));
        let off = inside.map(|at| f64::from((moved[at * 4 + channel] - wanted[at * 4 + channel]).abs()));
        off.fold(0.0, f64::max)
    };
    let refused =
        interpolate_positions(&table, width, [3, 4], [4, 4]).err().map(|e| e.to_string()).unwrap_or_default();
    let channel =
        |table: &[f32]| table[width..].iter().step_by(width).map(|x| f64::from(*x)).collect::<Vec<f64>>();
    Ok(Finding::new(Verdict::Holds, "Positions move to other grids by bicubic interpolation: on the same grid no bit changes, the class token keeps its row, and (2, 8) → (4, 4) is a real change although both have 16 patches.")
        .number(Number::count("numbers that differ on the same grid", same.iter().zip(&table).filter(|(a, b)| a.to_bits() != b.to_bits()).count(), 0))
        .number(Number::count("numbers of the class token that differ on another grid", large[..width].iter().zip(&table).filter(|(a, b)| a != b).count(), 0))
        .number(Number::count("rows of an 8 × 8 grid", large.len() / width, 65))
        .number(Number::at_least("numbers that differ between (2, 8) and (4, 4)", wide.iter().zip(&table).filter(|(a, b)| a != b).count() as f64, 1.0))
        .number(Number::at_most("a constant: largest error inside, 8 × 8 to 16 × 16", error(2), 1e-6))
        .number(Number::shown("a plane: largest error inside, in rows of the old grid", error(0)))
        .number(Number::count("a table that does not fit its grid is refused", usize::from(!refused.is_empty()), 1))
        .picture(Heat::new("One channel on 4 × 4", "row", "column", 4, channel(&table), Colours::Signed))
        .picture(Heat::new("The same on 8 × 8", "row", "column", 8, channel(&large), Colours::Signed))
        .how("The interpolation of the library, on random tables and on a plane. Accuracy at other sizes is a matter of training on images."))
}

/// K5: without positions a shuffle of patches cannot be seen.
pub fn shuffle(context: &Context) -> Result<Finding> {
    let mut draws = context.draws("K5");
    let image = draws.normals(PIXELS);
    let mut finding = Finding::new(
        Verdict::Holds,
        "Without positions the class scores are the same for every order of the patches; with them they are not. (The patches’ own outputs \
         move with them: equivariant, not invariant.)",
    );
    // Scores and tokens are two recordings: a graph names each of its values once.
    let both = |model: &Vit, image: &[f64]| -> Result<[Array; 2]> {
        let mut logits = run(image, |g, image| Ok(vec![model.logits(g, image)?]))?;
        let mut hidden = run(image, |g, image| Ok(vec![model.hidden(g, image)?]))?;
        Ok([logits.remove(0), hidden.remove(0)])
    };
    let mut bars = vec![];
    for (name, positions) in [("without positions", false), ("with positions", true)] {
        let model = Vit::new(VitConfig { positions, ..config() })?;
        let before = both(&model, &image)?;
        let (mut most, mut least, mut moved) = (0.0f64, f64::INFINITY, 0.0f64);
        for _ in 0..8 {
            let order = draws.permutation(PATCHES);
            let after = both(&model, &shuffled(&image, &order))?;
            let off = largest_difference(before[0].data(), after[0].data());
            most = most.max(off);
            least = least.min(off);
            for (to, &from) in order.iter().enumerate() {
                let token =
                    |found: &Array, patch: usize| found.data()[(1 + patch) * 16..(2 + patch) * 16].to_vec();
                moved = moved.max(largest_difference(&token(&after[1], to), &token(&before[1], from)));
            }
        }
        bars.push(most);
        finding = match positions {
            false => finding
                .number(Number::at_most(
                    format!("{name}: largest change of a score over 8 shuffles"),
                    most,
                    1e-12,
                ))
                .number(
                    Number::at_most(
                        "without positions: patches’ outputs against their moved selves",
                        moved,
                        1e-12,
                    )
                    .erratum("E16"),
                ),
            true => finding.number(Number::at_least(
                format!("{name}: least change of the scores over 8 shuffles"),
                least,
                1e-6,
            )),
        };
    }
    Ok(finding
        .picture(
            Chart::new("Largest change of a score under shuffles", Axis::names("", ["without positions", "with positions"]), Axis::new("change").covering(&[0.0]))
                .bars("", bars.iter().enumerate().map(|(at, x)| (at as f64, *x))),
        )
        .how("A ViT of two layers with random parameters, by the reference engine, on an image and on shuffles of its patches."))
}

/// A few steps of training on random images and classes, for a body that has learned something.
fn a_few_steps(context: &Context, model: &Vit, classes: usize, seed: u64) -> Result<Store> {
    const ROWS: usize = 8;
    let mut g = Graph::new();
    let image = g.input("image", DType::F32, [ROWS, 2, 8, 8])?;
    let given = g.input("classes", DType::I32, [ROWS])?;
    let logits = model.logits(&mut g, image)?;
    let losses = g.cross_entropy(logits, given, CrossEntropyOptions::default())?;
    let loss = g.mean_all(losses)?;
    let mut learner = Learner::new(context, g, loss, seed, 20, 3e-3)?;
    let mut draws = Context { seed, ..*context }.draws("K7.steps");
    for _ in 0..20 {
        let pixels: Vec<f32> = draws.normals(ROWS * PIXELS).iter().map(|x| *x as f32).collect();
        let own: Vec<i32> = (0..ROWS).map(|_| draws.below(classes) as i32).collect();
        learner.program.set_f32("image", &[ROWS, 2, 8, 8], &pixels)?;
        learner.program.set_i32("classes", &[ROWS], &own)?;
        learner.step()?;
    }
    Ok(learner.store)
}

/// What a model makes of an image before its head, and its scores, with these parameters.
fn before_and_after(
    context: &Context,
    model: &Vit,
    store: &mut Store,
    image: &[f64],
) -> Result<[Vec<f32>; 2]> {
    let pixels: Vec<f32> = image.iter().map(|x| *x as f32).collect();
    let mut run = |record: &dyn Fn(&mut Graph, Var) -> regard_graph::Result<Var>| -> Result<Vec<f32>> {
        let mut g = Graph::inference();
        let input = g.input("image", DType::F32, [1, 2, 8, 8])?;
        let wanted = record(&mut g, input)?;
        g.output("wanted", wanted)?;
        let mut program = Program::new(g, &[], store, &context.engine()?)?;
        program.set_f32("image", &[1, 2, 8, 8], &pixels)?;
        program.run(store)?;
        Ok(program.f32("wanted")?.to_vec())
    };
    Ok([run(&|g, image| model.pooled(g, image))?, run(&|g, image| model.logits(g, image))?])
}

/// The op that made what the head reads: the nearest norm or attention before it, taking nothing but rows and
/// shapes for nothing.
fn last_before_head(model: &Vit) -> Result<String> {
    let mut g = Graph::inference();
    let input = g.input("image", DType::F32, [1, 2, 8, 8])?;
    model.logits(&mut g, input)?;
    let head = g.nodes().iter().find(|node| node.name.starts_with("head") && node.op.name() == "linear");
    let mut wanted = head.map(|node| node.inputs[0]);
    while let Some(var) = wanted {
        let Some(node) = g.nodes().iter().find(|node| node.outputs.contains(&var)) else { break };
        if ["layer_norm", "attention", "linear"].contains(&node.op.name()) {
            return Ok(node.op.name().to_string());
        }
        wanted = node.inputs.first().copied();
    }
    Ok(String::new())
}

/// K7: an MLP head in pretraining, swapped for a linear one.
pub fn heads(context: &Context) -> Result<Finding> {
    let image = context.draws("K7").normals(PIXELS);
    let deep = Vit::new(VitConfig { head: VitHead::Mlp { hidden: 12, classes: 7 }, ..config() })?;
    let linear = Vit::new(config())?;
    let names = |model: &Vit, of_head: bool| -> Vec<String> {
        let own = model.parameters().declared().filter(|d| d.name.starts_with("head") == of_head);
        own.map(|d| format!("{} {}", d.name, d.shape)).collect()
    };
    // Pretrained with the one head; its body goes into a model with the other, which begins its head anew.
    let mut pretrained = a_few_steps(context, &deep, 7, context.seed)?;
    let mut swapped = Store::new(context.seed + 1);
    for declared in linear.parameters().declared() {
        swapped.declare(&declared.name, declared.shape.clone(), declared.init.clone())?;
        if !declared.name.starts_with("head") {
            swapped.set_f32(&declared.name, &pretrained.f32(&declared.name)?)?;
        }
    }
    let [read, first] = before_and_after(context, &deep, &mut pretrained, &image)?;
    let [again, second] = before_and_after(context, &linear, &mut swapped, &image)?;
    let untrained = before_and_after(context, &deep, &mut Store::new(context.seed), &image)?;
    // The way of each head, from what it reads to its scores: tanh in one, nothing in the other.
    let curved = |model: &Vit| -> Result<usize> {
        let mut g = Graph::inference();
        let input = g.input("image", DType::F32, [1, 2, 8, 8])?;
        model.logits(&mut g, input)?;
        Ok(g.nodes()
            .iter()
            .filter(|node| node.name.starts_with("head") && node.op.name() == "linear")
            .count())
    };
    let read_after = last_before_head(&deep)?;
    let mut table = Table::new("Parameters of the heads", &["with a hidden layer", "linear"]);
    let (a, b) = (names(&deep, true), names(&linear, true));
    for at in 0..a.len().max(b.len()) {
        table.row([a.get(at).cloned().unwrap_or_default(), b.get(at).cloned().unwrap_or_default()]);
    }
    Ok(Finding::new(Verdict::Holds, "An MLP with one hidden layer, as in pretraining, or a single linear layer, as in fine-tuning, stands on the same body: after some steps of training with the one, the body reads the same under the other, to the bit.")
        .number(Number::count("parameters of the body that differ in name or shape", names(&deep, false).iter().zip(names(&linear, false)).filter(|(a, b)| *a != b).count(), 0))
        .number(Number::at_least("numbers before the head that training changed, of 16", other_bits(&read, &untrained[0]) as f64, 1.0))
        .number(Number::count("numbers before the head that the swap changed", other_bits(&read, &again), 0).erratum("E40"))
        .number(Number::count("the head reads what a norm made, and no attention", usize::from(read_after == "layer_norm"), 1).erratum("E44"))
        .number(Number::count("linear maps of the one head", curved(&deep)?, 2))
        .number(Number::count("linear maps of the other", curved(&linear)?, 1))
        .number(Number::count("scores of the one head", first.len(), 7))
        .number(Number::count("scores of the other", second.len(), 5))
        .table(table)
        .picture(Heat::new("What both heads read", "image", "channel", 16, read.iter().map(|x| f64::from(*x)).collect::<Vec<f64>>(), Colours::Signed))
        .how("Twenty steps of AdamW with the MLP head on random images; then its body’s numbers in a model with the other head; both on the CPU engine, compared to the bit."))
}

/// K8: probabilities.
pub fn probabilities(context: &Context) -> Result<Finding> {
    let mut draws = context.draws("K8");
    let model = Vit::new(config())?;
    let images = draws.normals(20 * PIXELS);
    let feed = Feed::new().with("image", array(&[20, 2, 8, 8], &images)?);
    let found = compute(&feed, |g| {
        let image = g.input("image", DType::F32, [20, 2, 8, 8])?;
        let logits = model.logits(g, image)?;
        let p = g.softmax(logits)?;
        Ok(vec![p, g.argmax(logits, 1)?, g.argmax(p, 1)?])
    })?;
    let sums = found[0].data().chunks(5).map(|row| (row.iter().sum::<f64>() - 1.0).abs()).fold(0.0, f64::max);
    Ok(Finding::new(Verdict::Holds, "The softmax of the scores sums to 1, and its largest entry is that of the scores. Whether 0.9 is right nine times in ten is another matter: calibration.")
        .number(Number::at_most("Σ p against 1, 20 images", sums, 1e-14))
        .number(Number::count("images whose class differs by scores and by probabilities", differing(found[1].data(), found[2].data()), 0))
        .picture(Heat::new("Class probabilities of 20 images", "image", "class", 5, found[0].data(), Colours::Rising))
        .how("A ViT with random parameters, by the reference engine."))
}

/// K15: fields that grow, fields that are global at once.
pub fn fields(_context: &Context) -> Result<Finding> {
    let (n, width, deepest) = (16usize, 2usize, 6usize);
    let mut lines = [vec![], vec![]];
    let mut wrong = 0;
    let mut table = Table::new(
        "Inputs that reach the middle output of 16",
        &["layers", "convolutions of width 3", "attention"],
    );
    for layers in 1..=deepest {
        let count = |convolution: bool| -> Result<usize> {
            let mut g = Graph::inference();
            let x = g.input("x", DType::F32, [1, n, width])?;
            let mut y = x;
            for layer in 0..layers {
                y = match convolution {
                    true => {
                        // Three shifted copies side by side, one product: a convolution of width 3.
                        let nothing = g.fill(DType::F32, [1, 1, width], 0.0)?;
                        let padded = g.concat(&[nothing, y, nothing], 1)?;
                        let taps =
                            [g.slice(padded, 1, 0, n)?, g.slice(padded, 1, 1, n)?, g.slice(padded, 1, 2, n)?];
                        let taps = g.concat(&taps, 2)?;
                        let weight =
                            g.parameter(&format!("kernel.{layer}"), [width, 3 * width], Init::Ones)?;
                        g.linear(taps, weight, LinearOptions::default())?
                    }
                    false => {
                        let heads = g.split_heads(y, 1)?;
                        let y = g.attention(heads, heads, heads, &Default::default())?.y;
                        g.merge_heads(y)?
                    }
                };
            }
            let query = reach::Query {
                from: vec![x],
                to: vec![y],
                grain: reach::Grain::Position,
                ..Default::default()
            };
            let reaches = reach::reach(&g, &query)?;
            Ok(reaches.row(reaches.cell(y, &[0, n / 2])?)?.count())
        };
        let (grown, global) = (count(true)?, count(false)?);
        wrong += usize::from(grown != 2 * layers + 1) + usize::from(global != n);
        table.row([layers, grown, global].map(|x| x.to_string()));
        lines[0].push((layers as f64, grown as f64));
        lines[1].push((layers as f64, global as f64));
    }
    let model = Vit::new(VitConfig { layers: 1, ..config() })?;
    let mut g = Graph::inference();
    let image = g.input("image", DType::F32, [1, 2, 8, 8])?;
    let hidden = model.hidden(&mut g, image)?;
    let reaches =
        reach::reach(&g, &reach::Query { from: vec![image], to: vec![hidden], ..Default::default() })?;
    let seen = reaches.row(reaches.cell(hidden, &[0, 7, 3])?)?.count();
    let [grown, global] = lines;
    Ok(Finding::new(Verdict::Holds, "A convolution of width 3 sees 2L + 1 positions after L layers; attention sees all of them after one.")
        .number(Number::count("fields that differ from 2L + 1 and from all", wrong, 0))
        .number(Number::count("pixels that reach one number of one patch of a ViT after one block, all", seen, PIXELS))
        .table(table)
        .picture(
            Chart::new("Receptive field", Axis::new("layers"), Axis::new("positions").covering(&[0.0]))
                .line("convolutions of width 3", grown)
                .line("attention", global),
        )
        .how("The reach reader: convolutions in one dimension, recorded as shifted copies and a product, attention, and a whole ViT of one block."))
}
