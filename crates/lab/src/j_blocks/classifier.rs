//! An encoder that classifies texts: short reviews from a small grammar, praise or blame. “Not” and “never”
//! turn round the clause that they stand in, so that counting words is not enough.

use crate::experiment::{Learner, Trained, carries, each_seed, less, mean, share};
use crate::picture::{Axis, Chart, figure};
use crate::{Context, Draws, Finding, Number, Table};
use regard::Result;
use regard::layers::FeedForwardKind;
use regard::models::inputs::{Padded, padded_to};
use regard::models::{Bert, BertConfig, BertHead, BertText};
use regard::prelude::*;
use std::collections::HashSet;

const WORDS: [&str; 31] = [
    "[pad]", "[cls]", "the", "was", "and", "not", "never", // grammar
    "film", "music", "plot", "acting", "ending", "sound", "story", "hero", // things
    "good", "lovely", "fresh", "clever", "warm", "bright", "rich", "fine", // praise
    "bad", "dull", "stale", "silly", "cold", "grey", "poor", "weak", // blame
];
const THINGS: usize = 7;
const PRAISE: usize = 15;
const BLAME: usize = 23;
const EACH: usize = 8;
const CLAUSES: usize = 3;
/// Clauses of at most five words, “and” between them, and the class token.
const LENGTH: usize = CLAUSES * 5 + CLAUSES;
const ROWS: usize = 32;
/// Texts to learn from, and texts that are asked: so few that the rule is not found to perfection.
const TRAIN: usize = 500;
const TEST: usize = 400;

/// A review of three clauses: its words, and whether it praises: two clauses or more do.
fn review(draws: &mut Draws) -> (Vec<usize>, bool) {
    let mut ids = vec![1];
    let mut praising = 0;
    for clause in 0..CLAUSES {
        if clause > 0 {
            ids.push(4);
        }
        ids.extend([2, THINGS + draws.below(EACH), 3]);
        let turned = draws.uniform() < 0.5;
        if turned {
            ids.push(5 + draws.below(2));
        }
        let praise = draws.uniform() < 0.55;
        ids.push(if praise { PRAISE } else { BLAME } + draws.below(EACH));
        praising += usize::from(praise != turned);
    }
    (ids, 2 * praising > CLAUSES)
}

/// So many reviews, none of which is in `but`.
fn reviews(draws: &mut Draws, count: usize, but: &HashSet<Vec<usize>>) -> Vec<(Vec<usize>, bool)> {
    std::iter::repeat_with(|| review(draws)).filter(|(ids, _)| !but.contains(ids)).take(count).collect()
}

/// Naive Bayes on the words of a review: what can be had without their order.
fn by_words(train: &[(Vec<usize>, bool)], test: &[(Vec<usize>, bool)]) -> f64 {
    let mut counts = [[1.0; WORDS.len()]; 2];
    let mut classes = [0.0; 2];
    for (ids, class) in train {
        classes[usize::from(*class)] += 1.0;
        ids.iter().for_each(|&id| counts[usize::from(*class)][id] += 1.0);
    }
    let score = |ids: &[usize], class: usize| {
        let all: f64 = counts[class].iter().sum();
        f64::ln(classes[class]) + ids.iter().map(|&id| f64::ln(counts[class][id] / all)).sum::<f64>()
    };
    let right = test.iter().filter(|(ids, class)| (score(ids, 1) > score(ids, 0)) == *class).count();
    right as f64 / test.len() as f64
}

/// Ids with padding on the right, and where there is a word.
fn padded(texts: &[(Vec<usize>, bool)]) -> (Vec<i32>, Vec<bool>) {
    let rows: Vec<Vec<i32>> =
        texts.iter().map(|(ids, _)| ids.iter().map(|&id| id as i32).collect()).collect();
    let Padded { values, mask, .. } = padded_to(&rows, 0, LENGTH);
    (values, mask)
}

fn bert() -> Result<Bert> {
    Ok(Bert::new(BertConfig {
        layers: 2,
        heads: 4,
        width: 32,
        hidden: 64,
        context: LENGTH,
        vocabulary: WORDS.len(),
        token_types: 1,
        activation: FeedForwardKind::Gelu,
        epsilon: 1e-12,
        dropout: 0.0,
        attention_dropout: 0.0,
        std: 0.15,
        head: BertHead::Classes(2),
        mechanisms: Default::default(),
        variant: Default::default(),
    })?)
}

/// A model trained on these texts, and the loss of every step.
fn trained(
    context: &Context,
    model: &Bert,
    texts: &[(Vec<usize>, bool)],
    steps: usize,
    seed: u64,
) -> Result<(Store, Vec<f64>)> {
    let mut g = Graph::new();
    let ids = g.input("ids", DType::I32, [ROWS, LENGTH])?;
    let key_mask = Some(g.input("mask", DType::Bool, [ROWS, LENGTH])?);
    let classes = g.input("classes", DType::I32, [ROWS])?;
    let scale = g.fill(DType::F32, shape![], 1.0 / ROWS as f32)?;
    let loss = model.loss(&mut g, &BertText { ids, token_types: None, key_mask }, classes, scale)?;
    let mut learner = Learner::new(context, g, loss, seed, steps, 4e-3)?;
    let mut losses = vec![];
    for at in 0..steps {
        let own: Vec<_> = (0..ROWS).map(|row| texts[(at * ROWS + row) % texts.len()].clone()).collect();
        let (ids, mask) = padded(&own);
        learner.program.set_i32("ids", &[ROWS, LENGTH], &ids)?;
        learner.program.set_bools("mask", &[ROWS, LENGTH], &mask)?;
        let classes: Vec<i32> = own.iter().map(|(_, class)| i32::from(*class)).collect();
        learner.program.set_i32("classes", &[ROWS], &classes)?;
        losses.push(learner.step()?);
    }
    Ok((learner.store, losses))
}

/// What it says to these texts.
fn said(
    context: &Context,
    model: &Bert,
    store: &mut Store,
    texts: &[(Vec<usize>, bool)],
) -> Result<Vec<bool>> {
    let many = texts.len();
    let mut g = Graph::inference();
    let ids = g.input("ids", DType::I32, [many, LENGTH])?;
    let key_mask = Some(g.input("mask", DType::Bool, [many, LENGTH])?);
    let scores = model.logits(&mut g, &BertText { ids, token_types: None, key_mask })?;
    let chosen = g.argmax(scores, 1)?;
    g.output("chosen", chosen)?;
    let mut program = Program::new(g, &[], store, &context.engine()?)?;
    let (ids, mask) = padded(texts);
    program.set_i32("ids", &[many, LENGTH], &ids)?;
    program.set_bools("mask", &[many, LENGTH], &mask)?;
    program.run(store)?;
    Ok(program.i32("chosen")?.iter().map(|&class| class == 1).collect())
}

/// J7: a BERT from nothing to held-out texts.
pub fn classifies(context: &Context) -> Result<Finding> {
    let steps = context.size(200, 700);
    let model = bert()?;
    let found = each_seed(context, |seed| {
        let mut draws = Context { seed, ..*context }.draws("J7");
        let train = reviews(&mut draws, TRAIN, &HashSet::new());
        let known: HashSet<Vec<usize>> = train.iter().map(|(ids, _)| ids.clone()).collect();
        let test = reviews(&mut draws, TEST, &known);
        let (mut store, losses) = trained(context, &model, &train, steps, seed)?;
        let said = said(context, &model, &mut store, &test)?;
        let right = said.iter().zip(&test).filter(|(said, (_, class))| *said == class).count();
        let praised = test.iter().filter(|(_, class)| *class).count() as f64 / TEST as f64;
        let scores = [right as f64 / TEST as f64, praised.max(1.0 - praised), by_words(&train, &test)];
        let mut shown = Table::new("Held-out reviews", &["text", "praise?", "said"]);
        let word = |class: bool| if class { "praise" } else { "blame" };
        for ((ids, class), said) in test.iter().zip(&said).take(6) {
            let text: Vec<&str> = ids[1..].iter().map(|&id| WORDS[id]).collect();
            shown.row([text.join(" "), word(*class).to_string(), word(*said).to_string()]);
        }
        Ok((scores, Trained::curve(&losses, 40), shown))
    })?;
    let [own, most, words] = [0, 1, 2].map(|at| found.iter().map(|run| run.0[at]).collect::<Vec<f64>>());
    let means = [mean(&most), mean(&words), mean(&own)];
    let (_, curve, shown) = found[0].clone();
    Ok(Finding::measured(format!(
        "A BERT of two layers, trained from nothing on {TRAIN} reviews, is right for {} of {TEST} that it never saw; the majority class for \
         {}, naive Bayes on the words alone for {}. {}",
        figure(means[2]),
        figure(means[0]),
        figure(means[1]),
        carries(context)
    ))
    .seeds(found.len())
    .number(share("accuracy on held-out texts", &own, TEST))
    .number(share("the majority class", &most, TEST))
    .number(share("naive Bayes on words without order", &words, TEST))
    .number(less("accuracy less the majority class", &own, &most))
    .number(less("accuracy less naive Bayes on words without order", &own, &words))
    .number(Number::shown("parameters", model.parameters().count() as f64))
    .table(shown)
    .picture(Chart::new("Training", Axis::new("step"), Axis::new("loss").covering(&[0.0])).line("", curve))
    .picture(
        Chart::new("Held-out accuracy", Axis::names("", ["majority", "words alone", "BERT"]), Axis::new("accuracy").covering(&[0.0, 1.0]))
            .bars("", means.iter().enumerate().map(|(at, x)| (at as f64, *x))),
    )
    .how("Reviews of three clauses from a grammar of 31 words, half of the clauses turned round by “not” or “never”; praise if two clauses praise. Width 32, four heads, the class token read through the pooler, padding masked; AdamW. Differences seed by seed."))
}
