//! Span corruption as the study does it, and what a constant answer is worth.

use crate::picture::{Axis, Chart};
use crate::statistics::{exact_share, histogram, mean, share};
use crate::{Context, Finding, Number, Table, Verdict};
use regard::Result;
use regard::data::biographies::{Biographies, Settings};
use regard::data::corruption::Spans;
use regard::recipe::study::{StudyData, Vocabulary};

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
    Ok(Finding::new(Verdict::Holds, "A text is cut to between 4 and 7/8 of the context, a quarter of it in the mean is taken out and put at the end, and restoring gives back what was not cut off.")
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
    let (mut hits, mut asked, mut other) = (0, 0, 0);
    let mut table = Table::new(
        "Invented people, by seed",
        &["seed", "dev questions", "most frequent answer of train", "right for dev"],
    );
    let mut shares = vec![];
    for seed in 0..context.size(8, 40) as u64 {
        let settings = Settings { seed, people: 1000, dev: 0.5, ..Default::default() };
        let made = Biographies::new(settings)?;
        // By counting here; the study counts for itself.
        let count = |place: &str| made.train().filter(|(_, own)| *own == place).count();
        let most = made.places().iter().map(|place| count(place)).max().unwrap_or(0);
        let study = StudyData::invented(settings, Vocabulary::Characters)?;
        let (common, right) = study.most_frequent();
        let dev = made.dev().count();
        let again = made.dev().filter(|(_, place)| *place == common).count();
        other += usize::from(count(&common) != most || right != again || study.dev.len() != dev);
        table.row([seed.to_string(), dev.to_string(), common, right.to_string()]);
        shares.push(right as f64 / dev as f64);
        (hits, asked) = (hits + right, asked + dev);
    }
    Ok(Finding::new(
        Verdict::Holds,
        "The most frequent place of the training questions, said always, is right for about one dev question in twenty, and it is what \
         the study shows beside its results. The course’s own figure, 25 of 500 for “London”, is quoted: its data is not part of this \
         program.",
    )
    .number(Number::sampled("share that is right, all seeds", share(hits, asked)))
    .number(Number::shown("seeds for which the study’s baseline is not what counting gives", other as f64))
    .number(Number::sampled("quoted: 25 of 500, as a share with its exact interval of 95 %", exact_share(25, 500)))
    .table(table)
    .picture(
        Chart::new("Share of dev questions that the constant answer gets", Axis::new("seed"), Axis::new("share").covering(&[0.0, 0.1]))
            .points("invented people", shares.iter().enumerate().map(|(at, x)| (at as f64, *x)))
            .dashed("London in the course’s data", [(0.0, 0.05), (shares.len() as f64 - 1.0, 0.05)]),
    )
    .how("The invented biographies of the library: the place that most training questions have, counted here and by the study, and how many dev questions it answers."))
}
