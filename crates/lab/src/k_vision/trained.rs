//! A tiny ViT trained on images that are drawn: a bright square on noise, to be named by its place. What its
//! positions and its class token learn.

use super::vit::config;
use crate::compute::{dot, length};
use crate::experiment::{carries, each_seed, each_setting, less, mean, number};
use crate::picture::{Colours, Heat, figure};
use crate::remembered::Remembered;
use crate::{Context, Draws, Effort, Finding, Number};
use regard::Result;
use regard::models::{Vit, VitConfig, VitHead, VitPooling};
use regard::ops::{AdamW, Attention, AttentionOp, CrossEntropyOptions, WeightsRequest};
use regard::prelude::*;

const SIDE: usize = 4;
const PATCHES: usize = SIDE * SIDE;
const ROWS: usize = 16;

/// Noise with a bright square of 2 by 2 pixels anywhere; its class is the quarter of the image that its
/// middle lies in.
fn images(draws: &mut Draws, count: usize) -> (Vec<f32>, Vec<i32>, Vec<[usize; 2]>) {
    let (mut pixels, mut classes, mut places) = (vec![], vec![], vec![]);
    for _ in 0..count {
        let mut image: Vec<f32> = draws.normals(2 * 64).iter().map(|x| 0.3 * *x as f32).collect();
        let (y, x) = (draws.below(7), draws.below(7));
        for (dy, dx) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            image[(y + dy) * 8 + x + dx] += 2.0;
        }
        pixels.extend(image);
        classes.push(((y + 1) / 4 * 2 + (x + 1) / 4) as i32);
        places.push([y, x]);
    }
    (pixels, classes, places)
}

fn model(pooling: VitPooling) -> Result<Vit> {
    Ok(Vit::new(VitConfig { head: VitHead::Linear(4), std: 0.2, pooling, ..config() })?)
}

/// A trained model, made once for each seed: its parameters and its accuracy on new images.
fn trained(context: &Context, model: &Vit, seed: u64) -> Result<(Store, f64)> {
    type Numbers = Vec<(String, Vec<f32>)>;
    static KNOWN: Remembered<(Effort, bool, bool, u64), (Numbers, f64)> = Remembered::new();
    let by_class = model.config().pooling == VitPooling::Class;
    let names = || model.parameters().declared().map(|declared| declared.name.clone());
    let found = KNOWN.get(context, (context.effort, context.device.is_some(), by_class, seed), || {
        let (store, right) = train(context, model, seed)?;
        let numbers = names().map(|name| Ok((name.clone(), store.f32(&name)?.to_vec())));
        Ok((numbers.collect::<Result<Numbers>>()?, right))
    })?;
    let mut store = fresh(model, seed)?;
    for (name, numbers) in &found.0 {
        store.set_f32(name, numbers)?;
    }
    Ok((store, found.1))
}

/// What a seed begins with.
fn fresh(model: &Vit, seed: u64) -> Result<Store> {
    let mut store = Store::new(seed);
    for declared in model.parameters().declared() {
        store.declare(&declared.name, declared.shape.clone(), declared.init.clone())?;
    }
    Ok(store)
}

fn train(context: &Context, model: &Vit, seed: u64) -> Result<(Store, f64)> {
    let steps = context.size(150, 900);
    let mut g = Graph::new();
    let image = g.input("image", DType::F32, [ROWS, 2, 8, 8])?;
    let classes = g.input("classes", DType::I32, [ROWS])?;
    let (lr, step) = (g.input("lr", DType::F32, shape![])?, g.input("step", DType::I32, shape![])?);
    let logits = model.logits(&mut g, image)?;
    let losses = g.cross_entropy(logits, classes, CrossEntropyOptions::default())?;
    let loss = g.mean_all(losses)?;
    let parameters = g.parameters();
    let gradients = g.gradient(loss, &parameters)?;
    let (_, factor) = g.clip_norm(&gradients, 1.0)?;
    let pairs: Vec<(Var, Var)> = parameters.into_iter().zip(gradients).collect();
    g.adamw_step(&pairs, &AdamW { weight_decay: 0.0, ..Default::default() }, lr, step, Some(factor))?;
    let mut store = Store::new(seed);
    let device = context.engine()?;
    let mut program = Program::new(g, &[], &mut store, &device)?;
    let mut draws = Context { seed, ..*context }.draws("vision.train");
    for at in 0..steps {
        let (pixels, own, _) = images(&mut draws, ROWS);
        program.set_f32("image", &[ROWS, 2, 8, 8], &pixels)?;
        program.set_i32("classes", &[ROWS], &own)?;
        program.set_f32("lr", &[], &[(3e-3 * (1.0 - at as f64 / steps as f64)) as f32])?;
        program.set_i32("step", &[], &[at as i32 + 1])?;
        program.run(&mut store)?;
    }
    let many = 256;
    let mut g = Graph::inference();
    let image = g.input("image", DType::F32, [many, 2, 8, 8])?;
    let logits = model.logits(&mut g, image)?;
    let chosen = g.argmax(logits, 1)?;
    g.output("chosen", chosen)?;
    let mut program = Program::new(g, &[], &mut store, &device)?;
    let (pixels, own, _) = images(&mut Context { seed, ..*context }.draws("vision.test"), many);
    program.set_f32("image", &[many, 2, 8, 8], &pixels)?;
    program.run(&mut store)?;
    let right = program.i32("chosen")?.iter().zip(&own).filter(|(a, b)| a == b).count();
    Ok((store, right as f64 / many as f64))
}

/// The cosines of all pairs of patches' position embeddings.
fn cosines(store: &Store) -> Result<Vec<f64>> {
    let table: Vec<f64> = store.f32("position_embedding.weight")?.iter().map(|x| f64::from(*x)).collect();
    let row = |patch: usize| &table[(1 + patch) * 16..(2 + patch) * 16];
    Ok((0..PATCHES * PATCHES)
        .map(|at| (row(at / PATCHES), row(at % PATCHES)))
        .map(|(a, b)| dot(a, b) / (length(a) * length(b)))
        .collect())
}

/// The mean cosine of some pairs of patches.
fn mean_cosine(found: &[f64], of: impl Fn(usize, usize) -> bool) -> f64 {
    let pairs = (0..PATCHES * PATCHES).filter(|at| of(at / PATCHES, at % PATCHES));
    mean(&pairs.map(|at| found[at]).collect::<Vec<f64>>())
}

/// Steps between two patches.
fn apart(a: usize, b: usize) -> usize {
    (a / SIDE).abs_diff(b / SIDE) + (a % SIDE).abs_diff(b % SIDE)
}

/// K3 and K12: what the table of positions learns.
pub fn positions(context: &Context) -> Result<Finding> {
    let model = model(VitPooling::Class)?;
    let shape = model
        .parameters()
        .declared()
        .find(|d| d.name == "position_embedding.weight")
        .map(|d| d.shape.to_string());
    let found = each_seed(context, |seed| {
        let (store, right) = trained(context, &model, seed)?;
        let (learned, begun) = (cosines(&store)?, cosines(&fresh(&model, seed)?)?);
        let near = |of: &[f64]| mean_cosine(of, |a, b| apart(a, b) == 1);
        let far = |of: &[f64]| mean_cosine(of, |a, b| apart(a, b) >= 4);
        let line = mean_cosine(&learned, |a, b| a != b && (a / SIDE == b / SIDE || a % SIDE == b % SIDE));
        let numbers = [
            right,
            near(&learned),
            far(&learned),
            line,
            near(&learned) - far(&learned),
            near(&begun) - far(&begun),
        ];
        Ok((numbers, learned))
    })?;
    let [accuracy, near, far, line, gain, begun] =
        [0, 1, 2, 3, 4, 5].map(|at| found.iter().map(|run| run.0[at]).collect::<Vec<f64>>());
    let mut picture = vec![0.0; PATCHES * PATCHES];
    for (_, own) in &found {
        picture.iter_mut().zip(own).for_each(|(sum, x)| *sum += x / found.len() as f64);
    }
    // One map for each patch, laid out as the grid is.
    let wide = PATCHES;
    let laid: Vec<f64> = (0..wide * wide)
        .map(|at| (at / wide, at % wide))
        .map(|(y, x)| picture[(y / SIDE * SIDE + x / SIDE) * PATCHES + y % SIDE * SIDE + x % SIDE])
        .collect();
    Ok(Finding::measured(format!(
        "One learned vector for each of N + 1 tokens, indexed in one dimension. After training neighbours have a cosine of {}, patches \
         four or more steps apart {}, those of one row or column {}. {}",
        figure(mean(&near)),
        figure(mean(&far)),
        figure(mean(&line)),
        carries(context)
    ))
    .seeds(found.len())
    .number(Number::count("the table is (N + 1) × d", usize::from(shape.as_deref() == Some("[17 16]")), 1).erratum("E39"))
    .number(number("accuracy of the model, chance is 0.25", &accuracy))
    .number(number("cosine of neighbours", &near))
    .number(number("cosine of patches four or more steps apart", &far))
    .number(number("cosine of neighbours less distant ones, trained", &gain))
    .number(number("cosine of neighbours less distant ones, before training", &begun))
    .number(less("cosine of neighbours less distant ones, trained less before", &gain, &begun))
    .picture(Heat::new("Cosines with every patch, one map of 4 × 4 for each, laid out as the grid", "row", "column", wide, laid, Colours::Signed))
    .how("A ViT of two layers and width 16, trained to say in which quarter of a noisy image of 8 × 8 a bright square stands."))
}

const TOKENS: usize = PATCHES + 1;

/// What the layers of a model attend to on new images.
struct Looked {
    /// Of each layer, by image, head, query and key.
    weights: Vec<Array>,
    pixels: Vec<f32>,
    /// Where the squares stand.
    places: Vec<[usize; 2]>,
}

impl Looked {
    fn new(context: &Context, model: &Vit, store: &mut Store, seed: u64, many: usize) -> Result<Looked> {
        let mut g = Graph::inference();
        let image = g.input("image", DType::F32, [many, 2, 8, 8])?;
        let logits = model.logits(&mut g, image)?;
        g.output("logits", logits)?;
        let found: Vec<[Var; 3]> = g
            .nodes()
            .iter()
            .filter(|node| node.is::<AttentionOp>())
            .map(|node| [node.inputs[0], node.inputs[1], node.outputs[1]])
            .collect();
        for (layer, &[q, k, lse]) in found.iter().enumerate() {
            let all = WeightsRequest::Block { queries: 0..TOKENS, keys: 0..TOKENS };
            let weights = g.attention_weights(q, k, lse, &Attention::default(), all)?.values;
            g.output(&format!("weights.{layer}"), weights)?;
        }
        let mut program = Program::new(g, &[], store, &context.engine()?)?;
        let (pixels, _, places) = images(&mut Context { seed, ..*context }.draws("vision.look"), many);
        program.set_f32("image", &[many, 2, 8, 8], &pixels)?;
        program.run(store)?;
        let weights = (0..found.len())
            .map(|layer| Ok(program.array(&format!("weights.{layer}"))?))
            .collect::<Result<Vec<_>>>()?;
        Ok(Looked { weights, pixels, places })
    }

    /// The mean over heads of a layer's weights, for one image: tokens × tokens.
    fn of(&self, layer: usize, row: usize) -> Vec<f64> {
        let (heads, size) = (2, TOKENS * TOKENS);
        let own = |head: usize| {
            &self.weights[layer].data()[(row * heads + head) * size..(row * heads + head + 1) * size]
        };
        own(0).iter().zip(own(1)).map(|(a, b)| (a + b) / 2.0).collect()
    }

    /// Rollout: each layer is half its weights, half the way past it.
    fn rollout(&self, row: usize) -> Vec<f64> {
        let mut through: Vec<f64> =
            (0..TOKENS * TOKENS).map(|at| f64::from(u8::from(at / TOKENS == at % TOKENS))).collect();
        for layer in 0..self.weights.len() {
            let own = self.of(layer, row);
            let mixed: Vec<f64> = own
                .iter()
                .enumerate()
                .map(|(at, w)| w / 2.0 + if at / TOKENS == at % TOKENS { 0.5 } else { 0.0 })
                .collect();
            through = (0..TOKENS * TOKENS)
                .map(|at| {
                    (0..TOKENS)
                        .map(|j| mixed[at / TOKENS * TOKENS + j] * through[j * TOKENS + at % TOKENS])
                        .sum()
                })
                .collect();
        }
        through
    }

    /// The patches that the square of an image touches.
    fn lit(&self, row: usize) -> Vec<usize> {
        let [y, x] = self.places[row];
        let touched = [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(dy, dx)| (y + dy) / 2 * SIDE + (x + dx) / 2);
        (0..PATCHES).filter(|patch| touched.contains(patch)).collect()
    }

    /// An image, and the class token's rollout over its patches.
    fn pictures(&self, row: usize, through: &[f64]) -> [Heat; 2] {
        let bright: Vec<f64> = self.pixels[row * 128..row * 128 + 64].iter().map(|x| f64::from(*x)).collect();
        let title = format!("Image {}: rollout of the class token over the patches", row + 1);
        [
            Heat::new(format!("Image {}", row + 1), "row", "column", 8, bright, Colours::Signed),
            Heat::new(title, "row", "column", SIDE, &through[1..TOKENS], Colours::Rising),
        ]
    }
}

/// K6: the class token's attention, and its rollout.
pub fn class_token(context: &Context) -> Result<Finding> {
    let model = model(VitPooling::Class)?;
    let many = 64;
    let found = each_seed(context, |seed| {
        let (mut store, right) = trained(context, &model, seed)?;
        let looked = Looked::new(context, &model, &mut store, seed, many)?;
        let (mut last, mut roll, mut pictures) = (0.0, 0.0, vec![]);
        for row in 0..many {
            let lit = looked.lit(row);
            let (top, through) = (looked.of(looked.weights.len() - 1, row), looked.rollout(row));
            let share = |row: &[f64]| {
                let lit: f64 = lit.iter().map(|&patch| row[1 + patch]).sum();
                lit / row[1..TOKENS].iter().sum::<f64>()
            };
            let even = lit.len() as f64 / PATCHES as f64;
            last += share(&top[..TOKENS]) / even / many as f64;
            roll += share(&through[..TOKENS]) / even / many as f64;
            if row < 2 {
                pictures.extend(looked.pictures(row, &through));
            }
        }
        Ok(([right, last, roll], pictures))
    })?;
    let [accuracy, on, rolled] = [0, 1, 2].map(|at| found.iter().map(|run| run.0[at]).collect::<Vec<f64>>());
    let mut finding = Finding::measured(format!(
        "The head reads the class token alone. It gives the patches of the bright square {} times the weight of an even spread in the last \
         layer, {} times by rollout. {}",
        figure(mean(&on)),
        figure(mean(&rolled)),
        carries(context)
    ))
    .seeds(found.len())
    .number(number("accuracy of the model, chance is 0.25", &accuracy))
    .number(number("weight of the class token on the square’s patches over an even spread, last layer", &on))
    .number(number("the same by rollout over both layers", &rolled))
    .how("The ViT of K3; weights of the class token’s query on 64 new images; rollout multiplies (A + I)/2 of all layers (Abnar and Zuidema 2020).");
    for picture in &found[0].1 {
        finding = finding.picture(picture.clone());
    }
    Ok(finding)
}

/// K2: a class token against the mean of the patches, trained alike.
pub fn pooled(context: &Context) -> Result<Finding> {
    let built = super::vit::class_token(context)?;
    let ways = [VitPooling::Class, VitPooling::Mean];
    let found =
        each_setting(context, &ways, |&pooling, seed| Ok(trained(context, &model(pooling)?, seed)?.1))?;
    let summary = format!(
        "{} Trained alike, the class token is right for {} of new images, the mean of the patches for {}. {}",
        built.summary,
        figure(mean(&found[0])),
        figure(mean(&found[1])),
        carries(context)
    );
    let how = format!("{} Both ways of pooling are trained on the task of K3.", built.how);
    Ok(Finding { summary, written_for: None, ..built }
        .seeds(found[0].len())
        .number(number("class token: accuracy on new images, chance is 0.25", &found[0]))
        .number(number("mean of patches: accuracy on new images, chance is 0.25", &found[1]))
        .number(less("accuracy: class token less mean of patches", &found[0], &found[1]))
        .how(how))
}

/// K8: probabilities that sum to 1, and how often they are right.
pub fn probabilities(context: &Context) -> Result<Finding> {
    let built = super::vit::probabilities(context)?;
    let model = model(VitPooling::Class)?;
    let many = 256;
    let found = each_seed(context, |seed| {
        let (mut store, _) = trained(context, &model, seed)?;
        let mut g = Graph::inference();
        let image = g.input("image", DType::F32, [many, 2, 8, 8])?;
        let logits = model.logits(&mut g, image)?;
        let p = g.softmax(logits)?;
        g.output("p", p)?;
        let mut program = Program::new(g, &[], &mut store, &context.engine()?)?;
        let (pixels, classes, _) = images(&mut Context { seed, ..*context }.draws("vision.sure"), many);
        program.set_f32("image", &[many, 2, 8, 8], &pixels)?;
        program.run(&mut store)?;
        let (mut sure, mut right) = (0.0, 0.0);
        for (row, class) in program.f32("p")?.chunks(4).zip(&classes) {
            let best = (0..4).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap_or(0);
            sure += f64::from(row[best]) / many as f64;
            right += f64::from(u8::from(best as i32 == *class)) / many as f64;
        }
        Ok((sure, right))
    })?;
    let (sure, right): (Vec<f64>, Vec<f64>) = found.into_iter().unzip();
    let summary = format!(
        "The softmax of the scores sums to 1, and its largest entry is that of the scores. A trained ViT gives its class {} in the mean and is \
         right for {}. {}",
        figure(mean(&sure)),
        figure(mean(&right)),
        carries(context)
    );
    let how = format!("{} The trained ViT is that of K3, on 256 new images.", built.how);
    Ok(Finding { summary, written_for: None, ..built }
        .seeds(sure.len())
        .number(number("mean probability of the chosen class", &sure))
        .number(number("share of chosen classes that are right", &right))
        .number(less("probability of the chosen class less how often it is right", &sure, &right))
        .how(how))
}
