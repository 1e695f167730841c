//! Answers of a model that read about some people and not about others: what its confidence tells, what the
//! text tells, and what a name alone does.

use crate::experiment::{carries, number, over_seeds};
use crate::l_pretraining::study::{Asked, Evidence, Student, above, students};
use crate::picture::{Axis, Chart, figure};
use crate::{Context, Finding, Number, Table, Verdict};
use regard::Result;
use regard::evidence::{Budget, upper_bound};
use regard::recipe::study::Arm;
use std::sync::Arc;

const HOW: &str = "The pretrained model of L2 and its dev people, half of whose lines it read; its confidence is the probability of the whole answer.";

fn read(context: &Context) -> Result<Arc<Vec<Student>>> {
    students(context, Arm::Pretrained)
}

/// One number of these people.
fn of(student: &Student, which: impl Fn(&Asked) -> bool, number: impl Fn(&Asked) -> f64) -> Vec<f64> {
    student.dev.iter().filter(|asked| which(asked)).map(number).collect()
}

/// Bars of a histogram between 0 and 1.
fn bars(numbers: &[f64]) -> Vec<(f64, f64)> {
    crate::statistics::histogram(numbers, 0.0, 1.0, 10)
}

/// M1: what confidence tells about right and wrong, and about read and unread.
pub fn output_alone(context: &Context) -> Result<Finding> {
    let students = read(context)?;
    let area = |high: &dyn Fn(&Asked) -> bool| {
        let each = |student: &Student| {
            let sure = |asked: &Asked| asked.confidence;
            above(&of(student, high, sure), &of(student, |asked| !high(asked), sure))
        };
        over_seeds(&students.iter().map(each).collect::<Vec<_>>())
    };
    let (right, known) = (area(&|asked| asked.right()), area(&|asked| asked.read));
    let invented = over_seeds(
        &students
            .iter()
            .map(|s| {
                let middle = crate::statistics::median(&of(s, |a| a.read, |a| a.confidence)).value;
                let unread = of(s, |a| !a.read, |a| a.confidence);
                unread.iter().filter(|sure| **sure > middle).count() as f64 / unread.len().max(1) as f64
            })
            .collect::<Vec<_>>(),
    );
    let first = &students[0];
    Ok(Finding::new(
        Verdict::Measured,
        format!(
            "The text of an answer tells nothing: both kinds are names of places. The model’s own probability tells something: it ranks a \
             right answer above a wrong one in {} of pairs, a person it read of above one it did not in {}; ½ would be nothing, 1 \
             everything. {} of the invented answers are surer than the median retrieved one. {}",
            figure(right.value),
            figure(known.value),
            figure(invented.value),
            carries(context, students.len())
        ),
    )
    .number(number("area under the curve: confidence for right against wrong", right))
    .number(number("area under the curve: confidence for read against unread", known))
    .number(number("share of unread people answered more surely than the median read one", invented))
    .picture(
        Chart::new("Confidence", Axis::new("probability of the answer"), Axis::new("share of its kind").covering(&[0.0]))
            .bars("people read of", bars(&of(first, |a| a.read, |a| a.confidence)))
            .points("people never read of", bars(&of(first, |a| !a.read, |a| a.confidence))),
    )
    .how(HOW))
}

/// M2: supported, contradicted, or no evidence.
pub fn evidence(context: &Context) -> Result<Finding> {
    let students = read(context)?;
    let student = &students[0];
    let kinds = [
        ("supported", Evidence::Supported),
        ("contradicted", Evidence::Contradicted),
        ("no evidence", Evidence::None),
    ];
    let mut table = Table::new("Answers of the first seed", &["evidence", "answers", "right"]);
    let (mut counted, mut unread_with, mut supported_wrong) = (0, 0, 0);
    let mut points = vec![];
    for (at, (name, kind)) in kinds.iter().enumerate() {
        let own: Vec<&Asked> = student.dev.iter().filter(|asked| asked.evidence == *kind).collect();
        let right = own.iter().filter(|asked| asked.right()).count();
        counted += own.len();
        if *kind != Evidence::None {
            unread_with += own.iter().filter(|asked| !asked.read).count();
        }
        if *kind == Evidence::Supported {
            supported_wrong = own.len() - right;
        }
        table.row([name.to_string(), own.len().to_string(), right.to_string()]);
        points.push((at as f64, own.len() as f64 / student.dev.len() as f64));
    }
    let mut shown = Table::new(
        "Some answers with their line",
        &["question", "said", "evidence", "line in the text", "at character"],
    );
    for (name, kind) in kinds {
        for asked in student.dev.iter().filter(|asked| asked.evidence == kind).take(3) {
            let line = student.lines_of(asked);
            let best = line.iter().find(|line| line.contains(&asked.answered)).or(line.first()).copied();
            let offset =
                best.and_then(|line| line.find(&asked.answered)).map_or("–".into(), |at| at.to_string());
            shown.row([
                asked.question.clone(),
                asked.answered.clone(),
                name.to_string(),
                best.unwrap_or("–").to_string(),
                offset,
            ]);
        }
    }
    Ok(Finding::new(
        Verdict::Works,
        "Each answer comes with what the text says to it: a line that names the place, lines that do not, or none. In the invented text a \
         supported answer is right, always; in the course’s, the right place stands in the person’s own line for 95.8 % of dev questions, \
         and a reader of that line alone gets 86.4 %: the ceiling there.",
    )
    .number(Number::count("answers that were judged", counted, student.dev.len()))
    .number(Number::count("people without lines for whom evidence was found", unread_with, 0))
    .number(Number::count("supported answers that are wrong", supported_wrong, 0))
    .table(table)
    .table(shown)
    .picture(
        Chart::new("What the text says to the answers", Axis::names("", ["supported", "contradicted", "none"]), Axis::new("share").covering(&[0.0, 1.0]))
            .bars("", points),
    )
    .how(HOW))
}

/// The largest error rate that so many errors of so many leave possible at 95 %.
fn error_bound(errors: usize, of: usize) -> Result<f64> {
    Ok(upper_bound(errors, of, 0.95)?)
}

/// M3: abstaining on one's own probability, at an error budget.
pub fn calibrated(context: &Context) -> Result<Finding> {
    const BUDGET: f64 = 0.25;
    let students = read(context)?;
    let mut all: Vec<(&Asked, usize)> = vec![];
    for student in students.iter() {
        all.extend(student.dev.iter().enumerate().map(|(at, asked)| (asked, at)));
    }
    // Pairs of neighbours, of whom one was read of and one was not, go to either side by turns.
    let side = |half: usize| all.iter().filter(move |(_, at)| at / 2 % 2 == half).map(|(asked, _)| *asked);
    let mut first: Vec<&Asked> = side(0).collect();
    first.sort_by(|a, b| b.confidence.total_cmp(&a.confidence));
    // The most answers such that the bound stays in the budget. It is tried from the fewest at which it could
    // hold, one more at a time, up to the first failure: an order fixed beforehand, so that trying many costs
    // no confidence.
    let least = Budget::new(BUDGET, 0.95)?.fewest();
    let (mut errors, mut threshold, mut chosen, mut curve) = (0, f64::INFINITY, 0, vec![]);
    let mut holds = true;
    for (at, asked) in first.iter().enumerate() {
        errors += usize::from(!asked.right());
        curve.push(((at + 1) as f64 / first.len() as f64, errors as f64 / (at + 1) as f64));
        holds &= at + 1 < least || error_bound(errors, at + 1)? <= BUDGET;
        if holds && at + 1 >= least {
            (threshold, chosen) = (asked.confidence, at + 1);
        }
    }
    let held: Vec<&Asked> = side(1).collect();
    let given: Vec<&&Asked> = held.iter().filter(|asked| asked.confidence >= threshold).collect();
    let wrong = given.iter().filter(|asked| !asked.right()).count();
    let risk = if given.is_empty() { 0.0 } else { wrong as f64 / given.len() as f64 };
    let everything = held.iter().filter(|asked| !asked.right()).count() as f64 / held.len() as f64;
    let (mut off, mut bins) = (0.0, vec![]);
    for bin in 0..10 {
        let own: Vec<&(&Asked, usize)> =
            all.iter().filter(|(asked, _)| ((asked.confidence * 10.0) as usize).min(9) == bin).collect();
        if !own.is_empty() {
            let n = own.len() as f64;
            let sure = own.iter().map(|(asked, _)| asked.confidence).sum::<f64>() / n;
            let right = own.iter().filter(|(asked, _)| asked.right()).count() as f64 / n;
            off += n / all.len() as f64 * (sure - right).abs();
            bins.push((sure, right));
        }
    }
    let share = given.len() as f64 / held.len().max(1) as f64;
    let kept = match chosen {
        0 => format!(
            "No confidence of the half that chooses keeps errors within {} with a bound: the surest answers are wrong too often, and \
             nobody is answered",
            figure(BUDGET)
        ),
        _ => format!(
            "Answering only above a confidence that one half of the people chose, the other half is answered in {} of cases, with {} \
             errors",
            figure(share),
            figure(risk)
        ),
    };
    Ok(Finding::new(
        Verdict::Measured,
        format!(
            "{kept}; answering always has {} errors. The raw probability is {} off on average (expected calibration error): evidence (M4), not \
             confidence, is what can be trusted. {}",
            figure(everything),
            figure(off),
            carries(context, students.len())
        ),
    )
    .number(Number::shown("error budget", BUDGET))
    .number(Number::shown("bound on the error of those chosen, 95 %", if chosen == 0 { 1.0 } else { error_bound(first[..chosen].iter().filter(|a| !a.right()).count(), chosen)? }))
    .number(Number::shown("share of held-out people who are answered", share))
    .number(Number::shown("errors among them", risk))
    .number(Number::shown("errors if everybody is answered", everything))
    .number(Number::shown("expected calibration error, ten bins", off))
    .number(Number::equal("bound of 0 errors in 10, by its closed form 1 − 0.05^(1/10)", error_bound(0, 10)?, 1.0 - 0.05f64.powf(0.1), 1e-9))
    .picture(
        Chart::new("Errors against how many are answered, the surest first", Axis::new("share answered"), Axis::new("share of errors").covering(&[0.0, 1.0]))
            .line("people who choose the threshold", curve)
            .dashed("the budget", [(0.0, BUDGET), (1.0, BUDGET)]),
    )
    .picture(
        Chart::new("Confidence and how often it is right", Axis::new("mean confidence").covering(&[0.0, 1.0]), Axis::new("right").covering(&[0.0, 1.0]))
            .points("ten bins", bins)
            .dashed("calibrated", [(0.0, 0.0), (1.0, 1.0)]),
    )
    .how(format!("{HOW} The threshold is the lowest at which the Clopper–Pearson bound of the chosen half stays within the budget; bins of a tenth for calibration.")))
}

/// M4: no answer without a line that supports it.
pub fn strict(context: &Context) -> Result<Finding> {
    let students = read(context)?;
    let (mut unsupported, mut given, mut right, mut refused, mut unread) = (0, 0, 0, 0, 0);
    for student in students.iter() {
        for asked in &student.dev {
            // The rule: an answer leaves only with a line that names it.
            let answer = (asked.evidence == Evidence::Supported).then_some(&asked.answered);
            match answer {
                Some(answered) => {
                    given += 1;
                    right += usize::from(*answered == asked.place);
                    unsupported +=
                        usize::from(!student.lines_of(asked).iter().any(|line| line.contains(answered)));
                    unread += usize::from(!asked.read);
                }
                None => refused += 1,
            }
        }
    }
    let all = (given + refused) as f64;
    Ok(Finding::new(
        Verdict::Works,
        format!(
            "In strict mode an answer leaves only with a line of the text that names it: {} of the questions are answered, none without \
             support, and none about a person of whom nothing was read. {}",
            figure(given as f64 / all),
            carries(context, students.len())
        ),
    )
    .number(Number::count("unsupported answers given", unsupported, 0))
    .number(Number::count("answers about people of whom nothing was read", unread, 0))
    .number(Number::shown("share of questions that are answered", given as f64 / all))
    .number(Number::shown("share of given answers that are right", right as f64 / f64::max(given as f64, 1.0)))
    .picture(
        Chart::new("Strict mode", Axis::names("", ["answered", "refused"]), Axis::new("share").covering(&[0.0, 1.0]))
            .bars("", [(0.0, given as f64 / all), (1.0, refused as f64 / all)]),
    )
    .how(HOW))
}

/// M5: what follows from the name alone.
pub fn from_names(context: &Context) -> Result<Finding> {
    let students = read(context)?;
    let share = |which: &dyn Fn(&crate::l_pretraining::study::Crossed) -> bool| {
        let each = |s: &Student| {
            s.crossed.iter().filter(|c| which(c)).count() as f64 / s.crossed.len().max(1) as f64
        };
        over_seeds(&students.iter().map(each).collect::<Vec<_>>())
    };
    let first = share(&|crossed| crossed.answered == crossed.first);
    let last = share(&|crossed| crossed.answered == crossed.last);
    let neither = share(&|crossed| crossed.answered != crossed.last && crossed.answered != crossed.first);
    let asked: usize = students.iter().map(|student| student.crossed.len()).sum();
    Ok(Finding::new(
        Verdict::Measured,
        format!(
            "A name made of one person’s first and another’s last name belongs to nobody; the model answers all the same: in {} of cases with the \
             place of the first name’s owner, in {} with that of the last name’s. So the answer follows parts of the name. Whether it also \
             follows the origin of names cannot be asked of invented ones, which have none. {}",
            figure(first.value),
            figure(last.value),
            carries(context, students.len())
        ),
    )
    .number(number("crossed names: answers that are the place of the first name’s owner", first))
    .number(number("crossed names: answers that are the place of the last name’s owner", last))
    .number(number("crossed names: neither", neither))
    .number(Number::shown("crossed names asked", asked as f64))
    .picture(
        Chart::new("Whom the answer to a crossed name follows", Axis::names("", ["first name", "last name", "neither"]), Axis::new("share").covering(&[0.0, 1.0]))
            .bars("", [first.value, last.value, neither.value].iter().enumerate().map(|(at, x)| (at as f64, *x))),
    )
    .how(HOW))
}

/// M6: telling the unread from the read.
pub fn unseen(context: &Context) -> Result<Finding> {
    let students = read(context)?;
    let area = |number: &dyn Fn(&Student, &Asked) -> f64| {
        let each = |student: &Student| {
            let own = |asked: &Asked| number(student, asked);
            above(&of(student, |asked| !asked.read, own), &of(student, |asked| asked.read, own))
        };
        over_seeds(&students.iter().map(each).collect::<Vec<_>>())
    };
    let entropy = area(&|_, asked| asked.entropy);
    let lookup = area(&|student, asked| f64::from(u8::from(student.lines_of(asked).is_empty())));
    let first = &students[0];
    let most = first.dev.iter().map(|asked| asked.entropy).fold(0.1, f64::max);
    let bars = |read: bool| {
        crate::statistics::histogram(&of(first, |a| a.read == read, |a| a.entropy), 0.0, most, 10)
    };
    Ok(Finding::new(
        Verdict::Measured,
        format!(
            "Looking into the text tells read from unread always; the entropy of the answer’s first token tells them apart in {} of pairs. {}",
            figure(entropy.value),
            carries(context, students.len())
        ),
    )
    .number(number("area under the curve: entropy, unread above read", entropy))
    .number(Number::equal("area under the curve: lookup in the text", lookup.value, 1.0, 0.0))
    .picture(
        Chart::new("Entropy of the answer’s first token, nats", Axis::new("nats"), Axis::new("share of its kind").covering(&[0.0]))
            .bars("people read of", bars(true))
            .points("people never read of", bars(false)),
    )
    .how(HOW))
}

#[cfg(test)]
mod tests {
    use super::error_bound;

    #[test]
    fn bounds_are_those_of_tables() {
        // One-sided 95 %: 3 errors of 20 leave 0.3437 possible, none of 100 leave 0.0295.
        assert!((error_bound(3, 20).unwrap() - 0.3437).abs() < 1e-4);
        assert!((error_bound(0, 100).unwrap() - 0.0295).abs() < 1e-4);
        assert_eq!(error_bound(0, 0).unwrap(), 1.0);
        assert_eq!(error_bound(5, 5).unwrap(), 1.0);
    }
}
