//! What the study of birthplaces finds, in small: reading against not reading, a Perceiver, lines left out,
//! names never seen, answers side by side.

use super::study::{Asked, Evidence, Student, baseline, students};
use crate::experiment::{carries, less, mean, number, share};
use crate::picture::{Axis, Chart, figure};
use crate::{Context, Finding, Number, Table};
use regard::Result;
use regard::recipe::study::Arm;
use std::collections::HashSet;

const HOW: &str = "Invented people with 25 places of birth; a GPT of two layers and width 64 reads four lines about each with spans taken out, then learns to answer from other people’s questions. The lines of every other dev person are left out of what it reads. The study of the library, `regard::recipe::study`, in small; seeds take turns in whose lines are left out.";

/// One share for each student.
fn shares(students: &[Student], of: impl Fn(&Student) -> f64) -> Vec<f64> {
    students.iter().map(of).collect()
}

/// The share of dev people with or without lines for whom something holds.
fn among(student: &Student, read: bool, holds: impl Fn(&Asked) -> bool) -> f64 {
    let own: Vec<&Asked> = student.dev.iter().filter(|asked| asked.read == read).collect();
    own.iter().filter(|asked| holds(asked)).count() as f64 / own.len().max(1) as f64
}

/// Questions about people with lines, or without: half of all.
fn questions(students: &[Student]) -> usize {
    students[0].dev.len() / 2
}

/// L2: with and without reading, beside the constant answer.
pub fn pretraining_helps(context: &Context) -> Result<Finding> {
    let (alone, read) = (students(context, Arm::Alone)?, students(context, Arm::Pretrained)?);
    let (place, constant) = baseline(context)?;
    let never = shares(&alone, |student| among(student, true, Asked::right));
    let known = shares(&read, |student| among(student, true, Asked::right));
    let mut table = Table::new("Dev questions about the same people that are right", &["", "share"]);
    table.row(["no pretraining".to_string(), figure(mean(&never))]);
    table.row(["pretrained, people it read of".to_string(), figure(mean(&known))]);
    table.row([format!("always “{place}”"), figure(constant)]);
    Ok(Finding::measured(format!(
        "After reading, {} of the birthplaces of people in the text are right; without, {}; always saying “{place}” gets {}. The notes: \
         above 10 % with, below without, 5 % for London. {}",
        figure(mean(&known)),
        figure(mean(&never)),
        figure(constant),
        carries(context)
    ))
    .seeds(read.len())
    .number(share("pretrained: share of right answers, people it read of", &known, questions(&read)))
    .number(share("no pretraining: share of right answers, the same people", &never, questions(&read)))
    .number(less("share of right answers: pretrained less not", &known, &never))
    .number(Number::shown("the most frequent place of the training questions", constant))
    .table(table)
    .picture(
        Chart::new(
            "Right answers to dev questions",
            Axis::names("", ["constant", "no pretraining", "pretrained"]),
            Axis::new("share").covering(&[0.0, 1.0]),
        )
        .bars("", [constant, mean(&never), mean(&known)].iter().enumerate().map(|(at, x)| (at as f64, *x))),
    )
    .how(HOW))
}

/// L3: the Perceiver beside the vanilla model.
pub fn perceiver(context: &Context) -> Result<Finding> {
    let (plain, small) = (students(context, Arm::Pretrained)?, students(context, Arm::Perceiver)?);
    let (_, constant) = baseline(context)?;
    let [a, b] = [&plain, &small].map(|own| shares(own, |student| among(student, true, Asked::right)));
    let [slow, fast] = [&plain, &small].map(|own| shares(own, |student| student.seconds));
    let mut table =
        Table::new("People that both read of", &["", "parameters", "seconds", "share of right answers"]);
    for (name, own, right, seconds) in [("vanilla", &plain, &a, &slow), ("Perceiver", &small, &b, &fast)] {
        let cells = [figure(mean(seconds)), figure(mean(right))];
        table.row([name.to_string(), own[0].parameters.to_string()].into_iter().chain(cells));
    }
    Ok(Finding::measured(format!(
        "The vanilla model is right for {}, the Perceiver with 24 latents over 40 positions for {}; the constant answer for {}. The \
         Perceiver takes {} times as long here: what it saves begins at longer texts (H7). {}",
        figure(mean(&a)),
        figure(mean(&b)),
        figure(constant),
        figure(mean(&fast) / mean(&slow)),
        carries(context)
    ))
    .seeds(plain.len())
    .number(share("vanilla: share of right answers", &a, questions(&plain)))
    .number(share("Perceiver: share of right answers", &b, questions(&plain)))
    .number(less("share of right answers: Perceiver less vanilla", &b, &a))
    .number(number("Perceiver: seconds over the vanilla model’s", &fast.iter().zip(&slow).map(|(a, b)| a / b).collect::<Vec<_>>()))
    .number(Number::shown("the constant answer", constant))
    .table(table)
    .picture(
        Chart::new(
            "Right answers, people who were read of",
            Axis::names("", ["constant", "Perceiver", "vanilla"]),
            Axis::new("share").covering(&[0.0, 1.0]),
        )
        .bars("", [constant, mean(&b), mean(&a)].iter().enumerate().map(|(at, x)| (at as f64, *x))),
    )
    .how(HOW))
}

/// L6: the same questions with and without the lines.
pub fn from_reading(context: &Context) -> Result<Finding> {
    let read = students(context, Arm::Pretrained)?;
    let (_, constant) = baseline(context)?;
    let [with, without] = [true, false].map(|lines| shares(&read, |own| among(own, lines, Asked::right)));
    let asked = read.iter().map(|student| student.dev.len()).sum::<usize>();
    let trained: HashSet<&str> = read[0].lines.train.iter().map(|question| question.text.as_str()).collect();
    let both = read[0].dev.iter().filter(|asked| trained.contains(asked.question.as_str())).count();
    let over: Vec<f64> = without.iter().map(|share| share - constant).collect();
    Ok(Finding::measured(format!(
        "Whose lines are in the text was drawn, so the difference is caused by them: {} right with the lines, {} without, where the \
         constant answer has {}. No dev person is in a fine-tuning question, so that nothing was “seen more often” there. {}",
        figure(mean(&with)),
        figure(mean(&without)),
        figure(constant),
        carries(context)
    ))
    .seeds(read.len())
    .number(share("share of right answers, lines read", &with, questions(&read)))
    .number(share("share of right answers, lines left out", &without, questions(&read)))
    .number(less("share of right answers: lines read less left out", &with, &without))
    .number(number("share of right answers: lines left out less the constant answer", &over))
    .number(Number::shown("the constant answer", constant))
    .number(Number::count("dev people who occur in fine-tuning questions", both, 0).erratum("E36"))
    .number(Number::shown("questions asked", asked as f64))
    .picture(
        Chart::new(
            "Right answers by what was read",
            Axis::names("", ["constant", "lines left out", "lines read"]),
            Axis::new("share").covering(&[0.0, 1.0]),
        )
        .bars("", [constant, mean(&without), mean(&with)].iter().enumerate().map(|(at, x)| (at as f64, *x))),
    )
    .how(HOW))
}

/// The places that fine-tuning answers with.
fn places(student: &Student) -> HashSet<&str> {
    student.lines.train.iter().map(|question| question.place.as_str()).collect()
}

/// L7: names that were never seen.
pub fn unseen_names(context: &Context) -> Result<Finding> {
    let students = students(context, Arm::Pretrained)?;
    let (_, constant) = baseline(context)?;
    let answered = shares(&students, |own| among(own, false, |asked| !asked.answered.is_empty()));
    let [real, known] = [false, true].map(|read| {
        shares(&students, |own| among(own, read, |asked| places(own).contains(asked.answered.as_str())))
    });
    let right = shares(&students, |own| among(own, false, Asked::right));
    let over: Vec<f64> = right.iter().map(|share| share - constant).collect();
    let means = [mean(&answered), mean(&real), mean(&right)];
    Ok(Finding::measured(format!(
        "Asked about people of whom no line was read, the model answers in {} of cases, in {} with a real place; {} are right, where the best \
         constant answer has {}. {}",
        figure(means[0]),
        figure(means[1]),
        figure(means[2]),
        figure(constant),
        carries(context)
    ))
    .seeds(students.len())
    .number(share("unseen names: share with an answer", &answered, questions(&students)))
    .number(share("unseen names: share answered with a place that exists", &real, questions(&students)))
    .number(share("names it read of: share answered with a place that exists", &known, questions(&students)))
    .number(share("unseen names: share that is right", &right, questions(&students)))
    .number(number("unseen names: share that is right less the constant answer", &over))
    .picture(
        Chart::new("Answers to unseen names", Axis::names("", ["answered", "a real place", "right"]), Axis::new("share").covering(&[0.0, 1.0]))
            .bars("", means.iter().enumerate().map(|(at, x)| (at as f64, *x))),
    )
    .how(HOW))
}

/// L8: right and wrong answers beside each other, with the line that tells.
pub fn side_by_side(context: &Context) -> Result<Finding> {
    let students = students(context, Arm::Pretrained)?;
    let student = &students[0];
    let mut table = Table::new(
        "First the surest right answers, then the surest wrong ones",
        &["question", "said", "right", "confidence", "evidence", "line"],
    );
    let mut sorted: Vec<&Asked> = student.dev.iter().collect();
    sorted.sort_by(|a, b| b.confidence.total_cmp(&a.confidence));
    for right in [true, false] {
        for asked in sorted.iter().filter(|asked| asked.right() == right).take(8) {
            let evidence = match asked.evidence {
                Evidence::Supported => "supported",
                Evidence::Contradicted => "contradicted",
                Evidence::None => "no line",
            };
            let line = student.lines_of(asked).first().copied().unwrap_or("–").to_string();
            table.row([
                asked.question.clone(),
                asked.answered.clone(),
                asked.place.clone(),
                figure(asked.confidence),
                evidence.to_string(),
                line,
            ]);
        }
    }
    let confidences = |student: &Student, right: bool| -> Vec<f64> {
        student.dev.iter().filter(|asked| asked.right() == right).map(|asked| asked.confidence).collect()
    };
    let wrong_places = shares(&students, |own| {
        let wrong: Vec<&Asked> = own.dev.iter().filter(|asked| !asked.right()).collect();
        let real = wrong.iter().filter(|asked| places(own).contains(asked.answered.as_str())).count();
        real as f64 / wrong.len().max(1) as f64
    });
    let surer = shares(&students, |own| {
        let middle = crate::statistics::median(&confidences(own, true)).value;
        let wrong = confidences(own, false);
        wrong.iter().filter(|sure| **sure > middle).count() as f64 / wrong.len().max(1) as f64
    });
    let told: usize = students
        .iter()
        .flat_map(|own| &own.dev)
        .filter(|asked| !(0.0..=1.0).contains(&asked.confidence))
        .count();
    let bars = |right: bool| crate::statistics::histogram(&confidences(student, right), 0.0, 1.0, 10);
    Ok(Finding::measured(format!(
        "Every answer stands beside the right one, its confidence and the line that would have told. {} of the wrong answers are real places, \
         as the right ones are; {} of them are surer than the median right one. {}",
        figure(mean(&wrong_places)),
        figure(mean(&surer)),
        carries(context)
    ))
    .seeds(students.len())
    .number(Number::count("answers without a confidence between 0 and 1", told, 0))
    .number(number("share of wrong answers that are places", &wrong_places))
    .number(number("share of wrong answers that are surer than the median right one", &surer))
    .number(Number::shown("mean confidence of right answers, first seed", mean(&confidences(student, true))))
    .number(Number::shown("mean confidence of wrong answers, first seed", mean(&confidences(student, false))))
    .table(table)
    .picture(
        Chart::new("Confidence of answers", Axis::new("confidence"), Axis::new("share of its kind").covering(&[0.0]))
            .bars("right", bars(true))
            .points("wrong", bars(false)),
    )
    .how(HOW))
}

/// L9: the test questions, answered by both models.
pub fn test_questions(context: &Context) -> Result<Finding> {
    let mut table = Table::new("First test questions", &["model", "said", "right"]);
    let (mut numbers, mut bars, mut seeds) = (vec![], vec![], 0);
    for (name, arm) in [("vanilla", Arm::Pretrained), ("Perceiver", Arm::Perceiver)] {
        let own = students(context, arm)?;
        let asked = own[0].lines.test.len();
        let missing = own.iter().map(|student| asked.abs_diff(student.test.len())).sum::<usize>();
        numbers.push(Number::shown(
            format!("{name}: questions of {asked} left out by any model"),
            missing as f64,
        ));
        let right = shares(&own, |student| {
            let right = student.test.iter().filter(|(answered, place)| answered == place).count();
            right as f64 / asked.max(1) as f64
        });
        numbers.push(share(format!("{name}: share that is right"), &right, asked));
        bars.push(mean(&right));
        seeds = own.len();
        for (answered, place) in own[0].test.iter().take(4) {
            table.row([name.to_string(), answered.clone(), place.clone()]);
        }
    }
    Ok(Finding::measured(format!(
        "Every test question gets an answer from both models, one on each line, as the course takes them; `regard study` writes the file. \
         The answers to invented people are known: {} of the vanilla model’s are right, {} of the Perceiver’s. {}",
        figure(bars[0]),
        figure(bars[1]),
        carries(context)
    ))
    .seeds(seeds)
    .numbers(numbers)
    .table(table)
    .picture(
        Chart::new("Right answers to test questions", Axis::names("", ["vanilla", "Perceiver"]), Axis::new("share").covering(&[0.0, 1.0]))
            .bars("", bars.iter().enumerate().map(|(at, x)| (at as f64, *x))),
    )
    .how(HOW))
}
