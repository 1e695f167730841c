//! A CNN and ViTs on training sets of different sizes: a small glyph stands anywhere on a noisy image and is
//! to be named. Where it stands means nothing, which a CNN assumes and a ViT must learn.

use super::cnn::{Cnn, places};
use super::vit::config;
use crate::experiment::{Learner, carries, each_seed, each_setting, less, mean, number, share};
use crate::picture::{Axis, Chart, figure};
use crate::remembered::Remembered;
use crate::{Context, Draws, Effort, Finding, Number, Table};
use regard::Result;
use regard::models::{Vit, VitConfig, VitHead};
use regard::ops::CrossEntropyOptions;
use regard::prelude::*;
use std::sync::Arc;

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
    fn train(
        &self,
        context: &Context,
        set: &Set,
        steps: usize,
        seed: u64,
        from: Option<&Store>,
    ) -> Result<Store> {
        let mut g = Graph::new();
        let image = g.input("image", DType::F32, [ROWS, 2, 8, 8])?;
        let classes = g.input("classes", DType::I32, [ROWS])?;
        let logits = self.logits(&mut g, image)?;
        let losses = g.cross_entropy(logits, classes, CrossEntropyOptions::default())?;
        let loss = g.mean_all(losses)?;
        let rate = if from.is_some() { 1e-3 } else { 4e-3 };
        let mut learner = Learner::new(context, g, loss, seed, steps, rate)?;
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
    fn classes(&self, context: &Context, store: &mut Store, pixels: &[f32]) -> Result<Vec<i32>> {
        let count = pixels.len() / IMAGE;
        let mut g = Graph::inference();
        let image = g.input("image", DType::F32, [count, 2, 8, 8])?;
        let logits = self.logits(&mut g, image)?;
        let chosen = g.argmax(logits, 1)?;
        g.output("chosen", chosen)?;
        let mut program = Program::new(g, &[], store, &context.engine()?)?;
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
fn trained(context: &Context, kind: Kind, size: usize, seed: u64) -> Result<Arc<Came>> {
    static KNOWN: Remembered<(Effort, bool, Kind, usize, u64), Came> = Remembered::new();
    let key = (context.effort, context.device.is_some(), kind, size, seed);
    KNOWN.get(context, key, || {
        let model = kind.model()?;
        let set = images(&mut Context { seed, ..*context }.draws("vision.set"), size);
        let mut store = model.train(context, &set, context.size(200, 500), seed, None)?;
        let own = Set {
            pixels: set.pixels[..size.min(TEST) * IMAGE].to_vec(),
            classes: set.classes[..size.min(TEST)].to_vec(),
        };
        let test = images(&mut Context { seed, ..*context }.draws("vision.new"), TEST);
        let chosen = model.classes(context, &mut store, &own.pixels)?;
        let own = right(&chosen, &own);
        let new = right(&model.classes(context, &mut store, &test.pixels)?, &test);
        Ok(Came { own, new, shifted: shifts(context, &model, &mut store, seed)? })
    })
}

/// The share of images whose class changes when glyph and noise move by one pixel, and by two, which is one
/// patch.
fn shifts(context: &Context, model: &Model, store: &mut Store, seed: u64) -> Result<[f64; 2]> {
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
    let before = model.classes(context, store, &still)?;
    let mut changed = [0.0; 2];
    for (changed, moved) in changed.iter_mut().zip(&moved) {
        let after = model.classes(context, store, moved)?;
        *changed = before.iter().zip(&after).filter(|(a, b)| a != b).count() as f64 / 200.0;
    }
    Ok(changed)
}

/// Sizes of training sets; of the larger ViT, which takes longer, the first, one between and the last.
fn sizes(context: &Context) -> &'static [usize] {
    match context.effort {
        Effort::Quick => &[32, 2048],
        Effort::Full => &[32, 128, 512, 2048, 8192],
    }
}

const HOW: &str = "Images of 8 × 8 with one of six glyphs of 3 × 3 anywhere on noise. A CNN of three convolutions of 3 × 3 and width 16, recorded with the ops of the library; a ViT of two layers and width 16 over patches of 2 × 2. The same steps, rate and batches; no augmentation; 400 new images; differences seed by seed.";

/// Some number against the size of the training set, for two kinds.
struct Curves {
    table: Table,
    chart: Chart,
    numbers: Vec<Number>,
    /// Kinds, then sizes, then seeds.
    found: [Vec<Vec<f64>>; 2],
}

fn curves(
    context: &Context,
    kinds: [Kind; 2],
    sizes: &[usize],
    what: &str,
    of: fn(&Came) -> f64,
) -> Result<Curves> {
    let settings: Vec<(Kind, usize)> =
        kinds.iter().flat_map(|&kind| sizes.iter().map(move |&size| (kind, size))).collect();
    let mut found = each_setting(context, &settings, |&(kind, size), seed| {
        Ok(of(&*trained(context, kind, size, seed)?))
    })?;
    let second = found.split_off(sizes.len());
    let found = [found, second];
    let [first, second] = kinds.map(Kind::name);
    let mut table = Table::new(what, &["images", first, second]);
    let mut numbers = vec![];
    for (at, size) in sizes.iter().enumerate() {
        let [a, b] = [&found[0][at], &found[1][at]];
        table.row([size.to_string(), figure(mean(a)), figure(mean(b))]);
        numbers.push(number(format!("{first}, {size} images: {what}"), a));
        numbers.push(number(format!("{second}, {size} images: {what}"), b));
    }
    for (name, at) in [("the fewest images", 0), ("the most images", sizes.len() - 1)] {
        numbers.push(less(format!("{name}: {what}, {first} less {second}"), &found[0][at], &found[1][at]));
    }
    let mut chart = Chart::new(what, Axis::log("training images"), Axis::new("share").covering(&[0.0, 1.0]));
    for (found, kind) in found.iter().zip(kinds) {
        chart =
            chart.line(kind.name(), sizes.iter().zip(found).map(|(&size, runs)| (size as f64, mean(runs))));
    }
    Ok(Curves { table, chart, numbers, found })
}

impl Curves {
    fn finding(self, summary: String) -> Finding {
        Finding::measured(summary)
            .seeds(self.found[0][0].len())
            .numbers(self.numbers)
            .table(self.table)
            .picture(self.chart)
            .how(HOW)
    }

    /// The means of both kinds at the fewest and at the most images.
    fn ends(&self) -> [String; 4] {
        let last = self.found[0].len() - 1;
        [(0, 0), (1, 0), (0, last), (1, last)].map(|(kind, at)| figure(mean(&self.found[kind][at])))
    }
}

/// K9: accuracy against the size of the training set.
pub fn little_and_much(context: &Context) -> Result<Finding> {
    let sizes = sizes(context);
    let found = curves(context, [Kind::Cnn, Kind::Vit], sizes, "accuracy on new images", |found| found.new)?;
    let [a, b, c, d] = found.ends();
    let summary = format!(
        "On {} images the CNN gets {a} and the ViT {b}; on {} images {c} and {d}. The claim is about hundreds of millions of images: at this \
         scale only the trend can be seen. {}",
        sizes[0],
        sizes[sizes.len() - 1],
        carries(context)
    );
    Ok(found.finding(summary))
}

/// K10: how much better a model is on its own images.
pub fn overfits(context: &Context) -> Result<Finding> {
    let sizes = sizes(context);
    let what = "accuracy on its own images less on new ones";
    let found = curves(context, [Kind::Vit, Kind::Cnn], sizes, what, |found| found.own - found.new)?;
    let [a, b, ..] = found.ends();
    let summary = format!(
        "On {} images the ViT is better on its own than on new ones by {a}, the CNN by {b}. {}",
        sizes[0],
        carries(context)
    );
    Ok(found.finding(summary))
}

/// K11: predictions under shifts.
pub fn shifted(context: &Context) -> Result<Finding> {
    let size = 2048;
    let kinds = [Kind::Cnn, Kind::Vit];
    let found = each_setting(context, &kinds, |&kind, seed| Ok(trained(context, kind, size, seed)?.shifted))?;
    let of = |kind: usize, by: usize| found[kind].iter().map(|run| run[by]).collect::<Vec<f64>>();
    let mut table =
        Table::new("Predictions that change with a shift", &["", "by 1 pixel", "by 2 pixels, one patch"]);
    let mut finding = Finding::measured(format!(
        "Trained on {size} images, the CNN changes its mind for {} of new ones when they move by a pixel, the ViT for {}. Inside of the border \
         a convolution moves with its input exactly (a test of the layer says so); halving and the border are what it loses. {}",
        figure(mean(&of(0, 0))),
        figure(mean(&of(1, 0))),
        carries(context)
    ))
    .seeds(found[0].len());
    for (at, kind) in kinds.iter().enumerate() {
        table.row([kind.name().to_string(), figure(mean(&of(at, 0))), figure(mean(&of(at, 1)))]);
        finding = finding
            .number(share(format!("{}: changed by a shift of 1 pixel", kind.name()), &of(at, 0), 200))
            .number(share(format!("{}: changed by a shift of 2 pixels", kind.name()), &of(at, 1), 200));
    }
    let bars = |by: usize| (0..2).map(|at| (at as f64, mean(&of(at, by)))).collect::<Vec<_>>();
    Ok(finding
        .number(less("changed by a shift of 1 pixel, ViT less CNN", &of(1, 0), &of(0, 0)))
        .number(less("changed by a shift of 2 pixels, ViT less CNN", &of(1, 1), &of(0, 1)))
        .table(table)
        .picture(
            Chart::new(
                "Predictions that change",
                Axis::names("", ["CNN", "ViT"]),
                Axis::new("share").covering(&[0.0]),
            )
            .bars("by 1 pixel", bars(0))
            .points("by 2 pixels", bars(1)),
        )
        .how(HOW))
}

/// K13: a grid of model sizes and data sizes.
pub fn model_by_data(context: &Context) -> Result<Finding> {
    let all = sizes(context);
    let sizes = [all[0], all[all.len() / 2], all[all.len() - 1]];
    let sizes = if all.len() > 2 { &sizes[..] } else { all };
    let found =
        curves(context, [Kind::Vit, Kind::LargeVit], sizes, "accuracy on new images", |found| found.new)?;
    let count = |kind: Kind| Ok::<f64, regard::Error>(kind.model()?.parameters() as f64);
    let [a, b, c, d] = found.ends();
    let summary = format!(
        "On {} images the small ViT gets {a}, the large one {b}; on {} images {c} and {d}. {}",
        sizes[0],
        sizes[sizes.len() - 1],
        carries(context)
    );
    Ok(found
        .finding(summary)
        .number(Number::shown("parameters of the small one", count(Kind::Vit)?))
        .number(Number::shown("parameters of the large one", count(Kind::LargeVit)?)))
}

/// K14: pretraining, then fine-tuning on little.
pub fn pretraining(context: &Context) -> Result<Finding> {
    let (little, much) = (64usize, 4096usize);
    let vit = Kind::Vit.model()?;
    let found = each_seed(context, |seed| {
        let draws = |name: &str| Context { seed, ..*context }.draws(name);
        // Another task on the same kind of images: glyphs are named in another order, so that only the body
        // carries over.
        let mut more = images(&mut draws("vision.more"), much);
        more.classes.iter_mut().for_each(|class| *class = (*class * 5 + 2) % CLASSES as i32);
        let body = vit.train(context, &more, context.size(300, 800), seed, None)?;
        let few = images(&mut draws("vision.set"), little);
        let mut store = vit.train(context, &few, context.size(100, 250), seed, Some(&body))?;
        let test = images(&mut draws("vision.new"), TEST);
        Ok([
            trained(context, Kind::Cnn, little, seed)?.new,
            trained(context, Kind::Vit, little, seed)?.new,
            right(&vit.classes(context, &mut store, &test.pixels)?, &test),
        ])
    })?;
    let names = ["CNN, from nothing", "ViT, from nothing", "ViT, pretrained"];
    let of = |at: usize| found.iter().map(|run| run[at]).collect::<Vec<f64>>();
    let means = [0, 1, 2].map(|at| mean(&of(at)));
    let mut finding = Finding::measured(format!(
        "With {little} images: the CNN gets {}, the ViT from nothing {}, the ViT whose body learned on {much} others {}. {}",
        figure(means[0]),
        figure(means[1]),
        figure(means[2]),
        carries(context)
    ))
    .seeds(found.len());
    for (at, name) in names.iter().enumerate() {
        finding = finding.number(number(format!("{name}: accuracy on new images"), &of(at)));
    }
    Ok(finding
        .number(less("accuracy: ViT pretrained less from nothing", &of(2), &of(1)))
        .number(less("accuracy: ViT pretrained less CNN", &of(2), &of(0)))
        .picture(
            Chart::new(
                format!("Accuracy with {little} images"),
                Axis::names("", ["CNN", "ViT", "ViT, pretrained"]),
                Axis::new("accuracy").covering(&[0.0, 1.0]),
            )
            .bars("", means.iter().enumerate().map(|(at, mean)| (at as f64, *mean))),
        )
        .how(format!(
            "{HOW} For pretraining the glyphs have other names, and the head begins anew afterwards."
        )))
}
