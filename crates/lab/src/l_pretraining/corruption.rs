//! Span corruption as the study does it, and what a constant answer is worth.

use crate::picture::{Axis, Chart};
use crate::statistics::{histogram, mean};
use crate::{Context, Finding, Number, Table, Verdict};
use regard::Result;
use regard::data::biographies::{Biographies, Settings};
use regard::data::corruption::Spans;

/// L1: deterministic, undone by its inverse, a quarter masked.
pub fn spans(context: &Context) -> Result<Finding> {
    let spans = Spans::new(context.seed, 1, 128)?;
    let text: Vec<u32> = (0..150).map(|i| 2 + i).collect();
    let many = context.size(20_000, 200_000) as u64;
    let (mut lengths, mut shares, mut lost, mut other, mut long) = (vec![], vec![], 0, 0, 0);
    for example in 0..many {
        let cut = spans.cut(0, example, text.len());
        lengths.push(cut.length as f64);
        shares.push(cut.masked as f64 / cut.length as f64);
        if example < 5000 {
            let corrupted = spans.corrupt(0, example, &text)?;
            lost += usize::from(spans.restore(&corrupted)? != text[..cut.length]);
            other += usize::from(spans.corrupt(0, example, &text)? != corrupted);
            long += usize::from(corrupted.len() > 128);
        }
    }
    let changed = (0..1000).filter(|&e| spans.cut(0, e, 150) != spans.cut(1, e, 150)).count();
    let shown = spans.corrupt(0, 0, &text[..40])?;
    let mut table = Table::new("One example: the mark is 1", &["prefix, mark, suffix, mark, masked, mark"]);
    table.row([shown.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")]);
    Ok(Finding::new(Verdict::Works, "A text is cut to between 4 and 7/8 of the context, a quarter of it in the mean is taken out and put at the end, and restoring gives back what was not cut off.")
        .number(Number::count("texts that restoring does not give back, of 5000", lost, 0))
        .number(Number::count("texts that come out differently the second time", other, 0))
        .number(Number::count("texts that do not fit the context", long, 0))
        .number(Number::theory("mean length, even from 4 to 112", mean(&lengths), 58.0))
        .number(Number::sampled("mean share that is masked", mean(&shares)))
        .number(Number::at_most("its distance from a quarter", (mean(&shares).value - 0.25).abs(), 0.005))
        .number(Number::at_least("cuts of 1000 that change with the epoch", changed as f64, 900.0))
        .table(table)
        .picture(Chart::new("Share that is masked", Axis::new("share"), Axis::new("of all texts")).bars("", histogram(&shares, 0.0, 0.5, 25)))
        .how("The span corruption of the library on a text of 150 tokens and a context of 128."))
}

/// L5: the constant answer.
pub fn constant_answer(context: &Context) -> Result<Finding> {
    let mut shares = vec![];
    let mut table = Table::new(
        "Invented people, by seed",
        &["seed", "dev questions", "most frequent answer of train", "right for dev"],
    );
    for seed in 0..context.size(5, 20) as u64 {
        let made = Biographies::new(Settings { seed, people: 1000, dev: 0.5, ..Default::default() })?;
        let common = made
            .places()
            .iter()
            .max_by_key(|place| made.train().filter(|(_, own)| own == &place.as_str()).count());
        let common = common.cloned().unwrap_or_default();
        let dev = made.dev().count();
        let right = made.dev().filter(|(_, place)| *place == common).count();
        table.row([seed.to_string(), dev.to_string(), common, format!("{right}")]);
        shares.push(right as f64 / dev as f64);
    }
    Ok(Finding::new(
        Verdict::Works,
        "The most frequent place, said always, is right for 5 % of the questions: 25 of 500 in the course’s data (“London”), and the invented \
         people of the library are made so that the same holds. It stands beside every result of the study.",
    )
    .number(Number::equal("25 of 500", 25.0 / 500.0, 0.05, 0.0))
    .number(Number::quoted("invented people: mean share over seeds", shares.iter().sum::<f64>() / shares.len() as f64, 0.05, 0.005))
    .table(table)
    .picture(
        Chart::new("Share of dev questions that the constant answer gets", Axis::new("seed"), Axis::new("share").covering(&[0.0, 0.1]))
            .points("invented people", shares.iter().enumerate().map(|(at, x)| (at as f64, *x)))
            .dashed("London in the course’s data", [(0.0, 0.05), (shares.len() as f64 - 1.0, 0.05)]),
    )
    .how("The invented biographies of the library; the course’s own data is not part of it, its count is quoted."))
}
