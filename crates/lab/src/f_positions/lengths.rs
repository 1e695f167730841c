//! Trained at one length and asked at others, with every way to tell order; and tasks on which absolute or
//! relative positions win. What did not learn the trained length says nothing about others.

use crate::experiment::{
    Encoding, Model, Task, Tiny, Training, carries, each_setting, evaluate, less, mean, number, share, train,
};
use crate::picture::{Axis, Chart, figure};
use crate::remembered::Remembered;
use crate::{Context, Effort, Finding, Number, Table};
use regard::Result;
use std::sync::Arc;

/// Sequences that are asked at each length.
const ROWS: usize = 64;
/// The trained length.
const TRAINED: usize = 12;
/// What is asked at.
const LENGTHS: [usize; 4] = [12, 24, 36, 48];

/// Ways to tell order by the place.
const ABSOLUTE: [Encoding; 2] = [Encoding::Learned, Encoding::Sinusoidal];
/// Ways to tell it by distances.
const RELATIVE: [Encoding; 3] = [Encoding::Rotary, Encoding::Alibi, Encoding::Buckets];

/// By encoding, then seed, then length.
type Accuracies = Vec<Vec<Vec<f64>>>;

/// Accuracies after training at one length for so many steps.
pub fn accuracies(
    context: &Context,
    task: Task,
    encodings: &[Encoding],
    [trained_at, steps]: [usize; 2],
    lengths: &[usize],
) -> Result<Accuracies> {
    each_setting(context, encodings, |&encoding, seed| {
        let most = lengths.iter().copied().max().unwrap_or(trained_at);
        let tiny = Tiny {
            encoding,
            causal: task.causal(),
            most,
            heads: 4,
            layers: 2,
            ..Tiny::new(task.vocabulary(), 32)
        };
        let model = Model::new(tiny)?;
        let training = Training { seed, steps, batch: 16, length: trained_at, rate: 4e-3, watch: &[] };
        let mut trained = train(context, &model, task, &training)?;
        let of =
            |length: &usize| Ok(evaluate(context, &model, &mut trained.store, task, ROWS, *length)?.accuracy);
        lengths.iter().map(of).collect()
    })
}

/// The value that a key was given last: content finds the key, and only order tells which value is the last.
const LATEST: Task = Task::Latest { keys: 2, values: 4 };

/// F-5 and F-14 look at the same trainings: by encoding, then seed, then length.
fn latest(context: &Context) -> Result<Arc<Accuracies>> {
    static KNOWN: Remembered<(Effort, bool, u64), Accuracies> = Remembered::new();
    KNOWN.get(context, (context.effort, context.device.is_some(), context.seed), || {
        let steps = context.size(200, 1000);
        accuracies(context, LATEST, &all(), [TRAINED, steps], &LENGTHS)
    })
}

fn all() -> Vec<Encoding> {
    ABSOLUTE.into_iter().chain(RELATIVE).chain([Encoding::None]).collect()
}

/// The numbers, table and picture of both.
fn shown(found: &[Vec<Vec<f64>>]) -> (Vec<Number>, Table, Chart) {
    let mut table = Table::new("Accuracy, trained at 12", &["positions", "12", "24", "36", "48"]);
    let mut chart = Chart::new(
        "Lengths beyond training",
        Axis::new("length"),
        Axis::new("accuracy").covering(&[0.0, 1.0]),
    );
    let mut numbers = vec![];
    for (runs, encoding) in found.iter().zip(all()) {
        let kind = match encoding {
            _ if ABSOLUTE.contains(&encoding) => "absolute",
            _ if RELATIVE.contains(&encoding) => "relative",
            _ => "no positions",
        };
        let of = |at: usize| runs.iter().map(|run| run[at]).collect::<Vec<f64>>();
        let means: Vec<f64> = (0..LENGTHS.len()).map(|at| mean(&of(at))).collect();
        table.row([vec![encoding.name().to_string()], means.iter().map(|x| figure(*x)).collect()].concat());
        chart = chart.line(encoding.name(), LENGTHS.iter().zip(&means).map(|(&n, &x)| (n as f64, x)));
        for (at, length) in LENGTHS.iter().enumerate() {
            numbers.push(share(format!("{kind}, accuracy at {length}: {}", encoding.name()), &of(at), ROWS));
        }
    }
    (numbers, table, chart)
}

const HOW: &str = "Two causal layers of width 32 and four heads. Tokens give one of two keys one of four values, or ask for a key; the answer is the value that it was given last. Learned tables have rows for 48 positions, of which training sees 12. Accuracy over 64 sequences of each length.";

/// F-5: train at n, test at 2n to 4n.
pub fn extrapolation(context: &Context) -> Result<Finding> {
    let found = latest(context)?;
    let (numbers, table, chart) = shown(&found);
    let far = all().into_iter().zip(found.iter()).map(|(encoding, runs)| {
        let of = |at: usize| figure(mean(&runs.iter().map(|run| run[at]).collect::<Vec<f64>>()));
        format!("{} {} and {}", encoding.name(), of(0), of(3))
    });
    Ok(Finding::measured(format!(
        "Trained at 12, asked for the value that a key was given last at 12 and at 48: {}. {}",
        far.collect::<Vec<_>>().join(", "),
        carries(context)
    ))
    .seeds(found[0].len())
    .numbers(numbers)
    .table(table)
    .picture(chart)
    .how(HOW))
}

/// F-14: what sinusoids do beyond the trained length.
pub fn sinusoids_beyond(context: &Context) -> Result<Finding> {
    let found = latest(context)?;
    let (numbers, table, chart) = shown(&found);
    let of = |at: usize| found[1].iter().map(|run| run[at]).collect::<Vec<f64>>();
    Ok(Finding::measured(format!(
        "Sinusoids trained at 12 are right {} there, {} at 24 and {} at 48. {}",
        figure(mean(&of(0))),
        figure(mean(&of(1))),
        figure(mean(&of(3))),
        carries(context)
    ))
    .seeds(found[0].len())
    .numbers(numbers)
    .number(less("sinusoidal: accuracy at 24 less at 12", &of(1), &of(0)))
    .number(less("sinusoidal: accuracy at 48 less at 12", &of(3), &of(0)))
    .table(table)
    .picture(chart)
    .how(HOW))
}

/// F-13: a place that carries meaning, and a relation that does.
pub fn absolute_or_relative(context: &Context) -> Result<Finding> {
    let steps = context.size(160, 600);
    let encodings: Vec<Encoding> = ABSOLUTE.into_iter().chain(RELATIVE).collect();
    let place =
        accuracies(context, Task::At { symbols: 8, place: 3 }, &encodings, [TRAINED, steps], &[TRAINED])?;
    let relation = accuracies(
        context,
        Task::Back { symbols: 8, distance: 2 },
        &encodings,
        [TRAINED, steps],
        &[TRAINED, 2 * TRAINED],
    )?;
    let columns = [
        ("a fixed place, at 12", &place, 0usize),
        ("a fixed distance, at 12", &relation, 0),
        ("a fixed distance, at 24", &relation, 1),
    ];
    let seeds = place[0].len();
    let mut table = Table::new("Accuracy", &["positions", columns[0].0, columns[1].0, columns[2].0]);
    for (at, encoding) in encodings.iter().enumerate() {
        let cells = columns.iter().map(|(_, found, length)| {
            figure(mean(&found[at].iter().map(|run| run[*length]).collect::<Vec<f64>>()))
        });
        table.row([encoding.name().to_string()].into_iter().chain(cells));
    }
    // The best of each kind in every seed: one that did not learn the trained length speaks for nobody.
    let best = |found: &[Vec<Vec<f64>>], length: usize, which: std::ops::Range<usize>| -> Vec<f64> {
        (0..seeds).map(|seed| which.clone().map(|at| found[at][seed][length]).fold(0.0, f64::max)).collect()
    };
    let mut finding = Finding::measured("").seeds(seeds);
    let mut bars = [vec![], vec![]];
    for (at, (name, found, length)) in columns.iter().enumerate() {
        let (absolute, relative) = (best(found, *length, 0..2), best(found, *length, 2..5));
        finding = finding
            .number(share(format!("{name}: best absolute"), &absolute, ROWS))
            .number(share(format!("{name}: best relative"), &relative, ROWS))
            .number(less(format!("{name}: best absolute less best relative"), &absolute, &relative));
        bars[0].push((at as f64, mean(&absolute)));
        bars[1].push((at as f64, mean(&relative)));
    }
    for (at, encoding) in encodings.iter().enumerate() {
        let own: Vec<f64> = relation[at].iter().map(|run| run[0]).collect();
        finding = finding.number(number(format!("{}: a fixed distance, at 12", encoding.name()), &own));
    }
    finding.summary = format!(
        "A fixed place: the best absolute encoding reaches {}, the best relative one {}. A fixed distance at twice the length: {} and {}. {}",
        figure(bars[0][0].1),
        figure(bars[1][0].1),
        figure(bars[0][2].1),
        figure(bars[1][2].1),
        carries(context)
    );
    let [absolute, relative] = bars;
    Ok(finding
        .table(table)
        .picture(
            Chart::new("Accuracy of the best of each kind", Axis::names("", columns.map(|column| column.0)), Axis::new("accuracy").covering(&[0.0, 1.0]))
                .bars("absolute", absolute)
                .points("relative", relative),
        )
        .how("Two layers of width 32, trained at 12 tokens: the token at place 3, and the token two places before. The ends of a sequence tell relative encodings something of places: that is why they are not at chance. ALiBi’s biases fall with the distance alone, so that it can hardly single out the second token before: the table says whether it learned even the trained length."))
}
