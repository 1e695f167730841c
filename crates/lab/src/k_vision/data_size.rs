//! A CNN and ViTs on training sets of different sizes: a small glyph stands anywhere on a noisy image and is
//! to be named. Where it stands means nothing, which a CNN assumes and a ViT must learn.

use super::cnn::{Cnn, places};
use super::vit::config;
use crate::experiment::{Learner, carries, number, one_cpu, over_seeds, seeds};
use crate::picture::{Axis, Chart, figure};
use crate::statistics::Estimate;
use crate::{Context, Draws, Effort, Finding, Number, Table, Verdict};
use regard::Result;
use regard::models::{Vit, VitConfig, VitHead};
use regard::ops::CrossEntropyOptions;
use regard::prelude::*;
use std::collections::HashMap;
use std::sync::{Mutex, OnceLock};

const CLASSES: usize = 6;
const ROWS: usize = 32;
const TEST: usize = 400;

/// Six glyphs of 3 by 3.
const GLYPHS: [[u8; 9]; CLASSES] = [
    [0, 1, 0, 1, 1, 1, 0, 1, 0],
    [1, 0, 1, 0, 1, 0, 1, 0, 1],
    [1, 1, 1, 1, 0, 1, 1, 1, 1],
    [1, 1, 1, 0, 1, 0, 0, 1, 0],
    [1, 0, 0, 1, 0, 0, 1, 1, 1],
    [0, 0, 1, 0, 1, 0, 1, 0, 0],
];

/// Images and their classes.
#[derive(Clone)]
struct Set {
    pixels: Vec<f32>,
    classes: Vec<i32>,
}

const IMAGE: usize = 2 * 64;

/// A glyph with its corner at a place, in the first of two channels of noise.
fn image(draws: &mut Draws, class: usize, [y, x]: [usize; 2]) -> Vec<f32> {
    let mut pixels: Vec<f32> = draws.normals(IMAGE).iter().map(|n| 0.3 * *n as f32).collect();
    for (at, &lit) in GLYPHS[class].iter().enumerate() {
        pixels[(y + at / 3) * 8 + x + at % 3] += 1.5 * f32::from(lit);
    }
    pixels
}

fn images(draws: &mut Draws, count: usize) -> Set {
    let mut set = Set { pixels: vec![], classes: vec![] };
    for _ in 0..count {
        let (class, place) = (draws.below(CLASSES), [draws.below(6), draws.below(6)]);
        set.pixels.extend(image(draws, class, place));
        set.classes.push(class as i32);
    }
    set
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Cnn,
    /// Two layers of width 16.
    Vit,
    /// Three layers of width 48.
    LargeVit,
}

enum Model {
    Cnn(Cnn),
    Vit(Box<Vit>),
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Cnn => "CNN",
            Kind::Vit => "ViT",
            Kind::LargeVit => "larger ViT",
        }
    }

    fn model(self) -> Result<Model> {
        let head = VitHead::Linear(CLASSES);
        let base = VitConfig { head, std: 0.15, ..config() };
        Ok(match self {
            Kind::Cnn => Model::Cnn(Cnn::new(2, 16, CLASSES)?),
            Kind::Vit => Model::Vit(Box::new(Vit::new(base)?)),
            Kind::LargeVit => {
                let large = VitConfig { layers: 3, heads: 4, width: 48, hidden: 96, std: 0.1, ..base };
                Model::Vit(Box::new(Vit::new(large)?))
            }
        })
    }
}

impl Model {
    fn logits(&self, g: &mut Graph, image: Var) -> regard_graph::Result<Var> {
        match self {
            Model::Cnn(model) => model.logits(g, image),
            Model::Vit(model) => model.logits(g, image),
        }
    }

    fn parameters(&self) -> usize {
        match self {
            Model::Cnn(model) => model.parameters().count(),
            Model::Vit(model) => model.parameters().count(),
        }
    }

    fn prepare(&self, program: &mut Program) -> Result<()> {
        match self {
            Model::Cnn(_) => places(program),
            Model::Vit(_) => Ok(()),
        }
    }

    /// Trains on a set, from a store's numbers or from the seed.
    fn train(&self, set: &Set, steps: usize, seed: u64, from: Option<&Store>) -> Result<Store> {
        let mut g = Graph::new();
        let image = g.input("image", DType::F32, [ROWS, 2, 8, 8])?;
        let classes = g.input("classes", DType::I32, [ROWS])?;
        let logits = self.logits(&mut g, image)?;
        let losses = g.cross_entropy(logits, classes, CrossEntropyOptions::default())?;
        let loss = g.mean_all(losses)?;
        let mut learner = Learner::new(g, loss, seed, steps, if from.is_some() { 1e-3 } else { 4e-3 })?;
        if let Some(from) = from {
            let names: Vec<String> = learner.store.names().map(str::to_string).collect();
            // The body is taken over, the head begins anew; the optimizer's memory too.
            for name in names.iter().filter(|name| !name.starts_with("head") && !name.contains("adamw")) {
                if let Ok(numbers) = from.f32(name) {
                    learner.store.set_f32(name, &numbers)?;
                }
            }
        }
        self.prepare(&mut learner.program)?;
        let mut draws = Context { seed, ..Default::default() }.draws("vision.order");
        for _ in 0..steps {
            let rows: Vec<usize> = (0..ROWS).map(|_| draws.below(set.classes.len())).collect();
            let pixels: Vec<f32> =
                rows.iter().flat_map(|&row| set.pixels[row * IMAGE..(row + 1) * IMAGE].to_vec()).collect();
            let classes: Vec<i32> = rows.iter().map(|&row| set.classes[row]).collect();
            learner.program.set_f32("image", &[ROWS, 2, 8, 8], &pixels)?;
            learner.program.set_i32("classes", &[ROWS], &classes)?;
            learner.step()?;
        }
        Ok(learner.store)
    }

    /// The class of each image.
    fn classes(&self, store: &mut Store, pixels: &[f32]) -> Result<Vec<i32>> {
        let count = pixels.len() / IMAGE;
        let mut g = Graph::inference();
        let image = g.input("image", DType::F32, [count, 2, 8, 8])?;
        let logits = self.logits(&mut g, image)?;
        let chosen = g.argmax(logits, 1)?;
        g.output("chosen", chosen)?;
        let mut program = Program::new(g, &[], store, &one_cpu()?)?;
        self.prepare(&mut program)?;
        program.set_f32("image", &[count, 2, 8, 8], pixels)?;
        program.run(store)?;
        Ok(program.i32("chosen")?.to_vec())
    }
}

fn right(chosen: &[i32], set: &Set) -> f64 {
    chosen.iter().zip(&set.classes).filter(|(a, b)| a == b).count() as f64 / chosen.len() as f64
}

/// What one training came to: accuracy on its own set, on new images, and predictions that a shift by one and
/// by two pixels changes.
#[derive(Clone, Copy, Debug)]
struct Came {
    own: f64,
    new: f64,
    shifted: [f64; 2],
}

/// One training, remembered: several claims look at the same.
fn trained(context: &Context, kind: Kind, size: usize, seed: u64) -> Result<Came> {
    type Key = (Effort, Kind, usize, u64);
    static KNOWN: OnceLock<Mutex<HashMap<Key, Came>>> = OnceLock::new();
    let known = KNOWN.get_or_init(Mutex::default);
    let key = (context.effort, kind, size, seed);
    if let Some(found) = known.lock().ok().and_then(|known| known.get(&key).copied()) {
        return Ok(found);
    }
    let model = kind.model()?;
    let set = images(&mut Context { seed, ..*context }.draws("vision.set"), size);
    let mut store = model.train(&set, context.size(200, 500), seed, None)?;
    let own = Set {
        pixels: set.pixels[..size.min(TEST) * IMAGE].to_vec(),
        classes: set.classes[..size.min(TEST)].to_vec(),
    };
    let test = images(&mut Context { seed, ..*context }.draws("vision.new"), TEST);
    let chosen = model.classes(&mut store, &own.pixels)?;
    let own = right(&chosen, &own);
    let new = right(&model.classes(&mut store, &test.pixels)?, &test);
    let shifted = shifts(&model, &mut store, seed)?;
    let found = Came { own, new, shifted };
    if let Ok(mut known) = known.lock() {
        known.insert(key, found);
    }
    Ok(found)
}

/// The share of images whose class changes when glyph and noise move by one pixel, and by two, which is one
/// patch.
fn shifts(model: &Model, store: &mut Store, seed: u64) -> Result<[f64; 2]> {
    let mut draws = Context { seed, ..Default::default() }.draws("vision.shift");
    let (mut still, mut moved) = (vec![], [vec![], vec![]]);
    for _ in 0..200 {
        let place = [draws.below(6), draws.below(4)];
        let class = draws.below(CLASSES);
        let pixels = image(&mut draws, class, place);
        for (moved, by) in moved.iter_mut().zip([1usize, 2]) {
            // Around the border, so that nothing is lost or made.
            moved.extend((0..IMAGE).map(|at| pixels[at / 8 * 8 + (at % 8 + 8 - by) % 8]));
        }
        still.extend(pixels);
    }
    let before = model.classes(store, &still)?;
    let mut changed = [0.0; 2];
    for (changed, moved) in changed.iter_mut().zip(&moved) {
        let after = model.classes(store, moved)?;
        *changed = before.iter().zip(&after).filter(|(a, b)| a != b).count() as f64 / 200.0;
    }
    Ok(changed)
}

fn sizes(context: &Context) -> &'static [usize] {
    match context.effort {
        Effort::Quick => &[32, 256, 2048],
        Effort::Full => &[32, 128, 512, 2048, 8192],
    }
}

/// One number of a kind at a size, over seeds.
fn over(context: &Context, kind: Kind, size: usize, of: impl Fn(Came) -> f64) -> Result<Estimate> {
    let own = seeds(context, 3)
        .into_iter()
        .map(|seed| Ok(of(trained(context, kind, size, seed)?)))
        .collect::<Result<Vec<f64>>>()?;
    Ok(over_seeds(&own))
}

const HOW: &str = "Images of 8 × 8 with one of six glyphs of 3 × 3 anywhere on noise. A CNN of three convolutions of 3 × 3 and width 16, recorded with the ops of the library; a ViT of two layers and width 16 over patches of 2 × 2. The same steps, rate and batches; no augmentation.";

/// Some number against the size of the training set, for several kinds.
struct Curves {
    table: Table,
    chart: Chart,
    numbers: Vec<Number>,
    /// Kinds, then sizes.
    found: Vec<Vec<f64>>,
}

fn curves(context: &Context, kinds: &[Kind], what: &str, of: fn(Came) -> f64) -> Result<Curves> {
    let names: Vec<&str> = std::iter::once("images").chain(kinds.iter().map(|kind| kind.name())).collect();
    let mut table = Table::new(what, &names);
    let mut found = vec![vec![]; kinds.len()];
    let mut numbers = vec![];
    for &size in sizes(context) {
        let mut cells = vec![size.to_string()];
        for (found, &kind) in found.iter_mut().zip(kinds) {
            let one = over(context, kind, size, of)?;
            cells.push(figure(one.value));
            numbers.push(number(format!("{}, {size} images: {what}", kind.name()), one));
            found.push(one.value);
        }
        table.row(cells);
    }
    let mut chart = Chart::new(what, Axis::log("training images"), Axis::new("share").covering(&[0.0, 1.0]));
    for (found, kind) in found.iter().zip(kinds) {
        chart = chart.line(kind.name(), sizes(context).iter().zip(found).map(|(&size, &x)| (size as f64, x)));
    }
    Ok(Curves { table, chart, numbers, found })
}

/// K9: accuracy against the size of the training set.
pub fn little_and_much(context: &Context) -> Result<Finding> {
    let Curves { table, chart, numbers, found } =
        curves(context, &[Kind::Cnn, Kind::Vit], "accuracy on new images", |found| found.new)?;
    let last = sizes(context).len() - 1;
    Ok(Finding::new(
        Verdict::Measured,
        format!(
            "On {} images the CNN gets {} and the ViT {}; on {} images {} and {}. The claim is about hundreds of millions of images: at this scale \
             only the trend can be seen. {}",
            sizes(context)[0],
            figure(found[0][0]),
            figure(found[1][0]),
            sizes(context)[last],
            figure(found[0][last]),
            figure(found[1][last]),
            carries(context, 3)
        ),
    )
    .numbers(numbers)
    .table(table)
    .picture(chart)
    .how(HOW))
}

/// K10: how much better a model is on its own images.
pub fn overfits(context: &Context) -> Result<Finding> {
    let Curves { table, chart, numbers, found } =
        curves(context, &[Kind::Cnn, Kind::Vit], "accuracy on its own images less on new ones", |found| {
            found.own - found.new
        })?;
    Ok(Finding::new(
        Verdict::Measured,
        format!(
            "On {} images the ViT is better on its own than on new ones by {}, the CNN by {}. {}",
            sizes(context)[0],
            figure(found[1][0]),
            figure(found[0][0]),
            carries(context, 3)
        ),
    )
    .numbers(numbers)
    .table(table)
    .picture(chart)
    .how(HOW))
}

/// K11: predictions under shifts.
pub fn shifted(context: &Context) -> Result<Finding> {
    let size = 2048;
    let mut table =
        Table::new("Predictions that change with a shift", &["", "by 1 pixel", "by 2 pixels, one patch"]);
    let (mut numbers, mut bars) = (vec![], [vec![], vec![]]);
    for (at, kind) in [Kind::Cnn, Kind::Vit].into_iter().enumerate() {
        let found = [0, 1].map(|by| over(context, kind, size, move |found| found.shifted[by]));
        let [one, two] = found;
        let (one, two) = (one?, two?);
        table.row([kind.name().to_string(), figure(one.value), figure(two.value)]);
        numbers.push(number(format!("{}: changed by a shift of 1 pixel", kind.name()), one));
        numbers.push(number(format!("{}: changed by a shift of 2 pixels", kind.name()), two));
        bars[0].push((at as f64, one.value));
        bars[1].push((at as f64, two.value));
    }
    let [one, two] = bars;
    Ok(Finding::new(
        Verdict::Measured,
        format!(
            "Trained on {size} images, the CNN changes its mind for {} of new ones when they move by a pixel, the ViT for {}. Inside of the border \
             a convolution moves with its input exactly (a test of the layer says so); halving and the border are what it loses. {}",
            figure(one[0].1),
            figure(one[1].1),
            carries(context, 3)
        ),
    )
    .numbers(numbers)
    .table(table)
    .picture(
        Chart::new("Predictions that change", Axis::names("", ["CNN", "ViT"]), Axis::new("share").covering(&[0.0]))
            .bars("by 1 pixel", one)
            .points("by 2 pixels", two),
    )
    .how(HOW))
}

/// K13: a grid of model sizes and data sizes.
pub fn model_by_data(context: &Context) -> Result<Finding> {
    let Curves { table, chart, numbers, found } =
        curves(context, &[Kind::Vit, Kind::LargeVit], "accuracy on new images", |found| found.new)?;
    let last = sizes(context).len() - 1;
    let count = |kind: Kind| Ok::<f64, regard::Error>(kind.model()?.parameters() as f64);
    Ok(Finding::new(
        Verdict::Measured,
        format!(
            "On {} images the small ViT gets {}, the large one {}; on {} images {} and {}. {}",
            sizes(context)[0],
            figure(found[0][0]),
            figure(found[1][0]),
            sizes(context)[last],
            figure(found[0][last]),
            figure(found[1][last]),
            carries(context, 3)
        ),
    )
    .number(Number::shown("parameters of the small one", count(Kind::Vit)?))
    .number(Number::shown("parameters of the large one", count(Kind::LargeVit)?))
    .numbers(numbers)
    .table(table)
    .picture(chart)
    .how(HOW))
}

/// K14: pretraining, then fine-tuning on little.
pub fn pretraining(context: &Context) -> Result<Finding> {
    let (little, much) = (64usize, 4096usize);
    let mut found = [vec![], vec![], vec![]];
    let vit = Kind::Vit.model()?;
    for seed in seeds(context, 3) {
        found[0].push(trained(context, Kind::Cnn, little, seed)?.new);
        found[1].push(trained(context, Kind::Vit, little, seed)?.new);
        let draws = |name: &str| Context { seed, ..*context }.draws(name);
        // Another task on the same kind of images: glyphs are named in another order, so that only the body
        // carries over.
        let mut more = images(&mut draws("vision.more"), much);
        more.classes.iter_mut().for_each(|class| *class = (*class * 5 + 2) % CLASSES as i32);
        let body = vit.train(&more, context.size(300, 800), seed, None)?;
        let few = images(&mut draws("vision.set"), little);
        let mut store = vit.train(&few, context.size(100, 250), seed, Some(&body))?;
        let test = images(&mut draws("vision.new"), TEST);
        found[2].push(right(&vit.classes(&mut store, &test.pixels)?, &test));
    }
    let names = ["CNN, from nothing", "ViT, from nothing", "ViT, pretrained"];
    let means: Vec<Estimate> = found.iter().map(|found| over_seeds(found)).collect();
    let mut finding = Finding::new(
        Verdict::Measured,
        format!(
            "With {little} images: the CNN gets {}, the ViT from nothing {}, the ViT whose body learned on {much} others {}. {}",
            figure(means[0].value),
            figure(means[1].value),
            figure(means[2].value),
            carries(context, 3)
        ),
    );
    for (name, mean) in names.iter().zip(&means) {
        finding = finding.number(number(format!("{name}: accuracy on new images"), *mean));
    }
    Ok(finding
        .picture(
            Chart::new(
                format!("Accuracy with {little} images"),
                Axis::names("", ["CNN", "ViT", "ViT, pretrained"]),
                Axis::new("accuracy").covering(&[0.0, 1.0]),
            )
            .bars("", means.iter().enumerate().map(|(at, mean)| (at as f64, mean.value))),
        )
        .how(format!(
            "{HOW} For pretraining the glyphs have other names, and the head begins anew afterwards."
        )))
}
