//! Answers of a model that read about some people and not about others: what its confidence tells, what the
//! text tells, and what a name alone does.

use crate::experiment::{carries, less, mean, number};
use crate::l_pretraining::study::{Asked, Evidence, Student, above, students};
use crate::picture::{Axis, Chart, figure};
use crate::statistics::{error_bound, exact_share};
use crate::{Context, Finding, Number, Table};
use regard::Result;
use regard::recipe::study::Arm;
use std::sync::Arc;

const HOW: &str = "The pretrained model of L2 and its dev people, half of whose lines it read; its confidence is the probability of the whole answer.";

fn read(context: &Context) -> Result<Arc<Vec<Student>>> {
    students(context, Arm::Pretrained)
}

/// One number for each student.
fn each(students: &[Student], of: impl Fn(&Student) -> f64) -> Vec<f64> {
    students.iter().map(of).collect()
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
        each(&students, |student| {
            let sure = |asked: &Asked| asked.confidence;
            above(&of(student, high, sure), &of(student, |asked| !high(asked), sure))
        })
    };
    let (right, known) = (area(&|asked| asked.right()), area(&|asked| asked.read));
    let invented = each(&students, |own| {
        let middle = crate::statistics::median(&of(own, |a| a.read, |a| a.confidence)).value;
        let unread = of(own, |a| !a.read, |a| a.confidence);
        unread.iter().filter(|sure| **sure > middle).count() as f64 / unread.len().max(1) as f64
    });
    let letters = each(&students, |own| {
        let long = |asked: &Asked| asked.answered.chars().count() as f64;
        above(&of(own, |asked| asked.read, long), &of(own, |asked| !asked.read, long))
    });
    let first = &students[0];
    Ok(Finding::measured(format!(
        "The text of an answer: its length ranks a person that was read of above one that was not in {} of pairs; ½ is nothing, 1 is \
         everything. The model’s own probability, which is not in the text, ranks a right answer above a wrong one in {}, a person it read \
         of above one it did not in {}. {} of the invented answers are surer than the median retrieved one. {}",
        figure(mean(&letters)),
        figure(mean(&right)),
        figure(mean(&known)),
        figure(mean(&invented)),
        carries(context)
    ))
    .seeds(students.len())
    .number(number("area under the curve: letters of the answer for read against unread", &letters))
    .number(number("area under the curve: confidence for right against wrong", &right))
    .number(number("area under the curve: confidence for read against unread", &known))
    .number(number("share of unread people answered more surely than the median read one", &invented))
    .picture(
        Chart::new("Confidence", Axis::new("probability of the answer"), Axis::new("share of its kind").covering(&[0.0]))
            .bars("people read of", bars(&of(first, |a| a.read, |a| a.confidence)))
            .points("people never read of", bars(&of(first, |a| !a.read, |a| a.confidence))),
    )
    .how(HOW))
}

/// Right answers and all answers of one kind of evidence, over all students.
fn right_of(students: &[Student], kind: impl Fn(Evidence) -> bool) -> (usize, usize) {
    let own = students.iter().flat_map(|student| {
        student.dev.iter().filter(|asked| kind(asked.evidence)).map(|asked| asked.right())
    });
    own.fold((0, 0), |(right, all), own| (right + usize::from(own), all + 1))
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
    let mut table = Table::new("Answers of all seeds", &["evidence", "answers", "right"]);
    let all: usize = students.iter().map(|student| student.dev.len()).sum();
    let mut points = vec![];
    for (at, (name, kind)) in kinds.iter().enumerate() {
        let (right, own) = right_of(&students, |found| found == *kind);
        table.row([name.to_string(), own.to_string(), right.to_string()]);
        points.push((at as f64, own as f64 / all as f64));
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
    // What the text says is held against what is right, which the rule of evidence does not look at.
    let (right, supported) = right_of(&students, |kind| kind == Evidence::Supported);
    let (lucky, other) = right_of(&students, |kind| kind != Evidence::Supported);
    let (with, without) = (exact_share(right, supported.max(1)), exact_share(lucky, other.max(1)));
    Ok(Finding::measured(format!(
        "Each answer comes with what the text says to it: a line that names the place, lines that do not, or none. Of the answers that a line \
         supports {} are right, of the others {}. (In the course’s own data the right place stands in the person’s line for 95.8 % of dev \
         questions, and a reader of that line alone gets 86.4 %: quoted, not computed here.) {}",
        figure(with.value),
        figure(without.value),
        carries(context)
    ))
    .seeds(students.len())
    .number(Number::sampled("share of supported answers that are right", with))
    .number(Number::sampled("share of other answers that are right", without))
    .number(Number::shown("share of answers that are supported", supported as f64 / all as f64))
    .table(table)
    .table(shown)
    .picture(
        Chart::new("What the text says to the answers", Axis::names("", ["supported", "contradicted", "none"]), Axis::new("share").covering(&[0.0, 1.0]))
            .bars("", points),
    )
    .how(format!("{HOW} Shares over the answers of all seeds, with exact intervals.")))
}

/// Answering only above a confidence that one half of a student's people chose: how many of the other half
/// are answered, and how many of those wrongly.
struct Abstaining {
    answered: f64,
    wrong: f64,
    /// By share answered, the share of errors among the half that chooses.
    curve: Vec<(f64, f64)>,
}

const BUDGET: f64 = 0.25;

fn abstaining(student: &Student) -> Abstaining {
    // Pairs of neighbours, of whom one was read of and one was not, go to either side by turns.
    let side = |half: usize| student.dev.iter().enumerate().filter(move |(at, _)| at / 2 % 2 == half);
    let mut first: Vec<&Asked> = side(0).map(|(_, asked)| asked).collect();
    first.sort_by(|a, b| b.confidence.total_cmp(&a.confidence));
    // The most answers such that the bound stays in the budget. It is tried from the fewest at which it could
    // hold, one more at a time, up to the first failure: an order fixed beforehand, so that trying many costs
    // no confidence.
    let least = (1..100).find(|&n| error_bound(0, n, 0.05) <= BUDGET).unwrap_or(100);
    let (mut errors, mut threshold, mut curve, mut holds) = (0, f64::INFINITY, vec![], true);
    for (at, asked) in first.iter().enumerate() {
        errors += usize::from(!asked.right());
        curve.push(((at + 1) as f64 / first.len() as f64, errors as f64 / (at + 1) as f64));
        holds &= at + 1 < least || error_bound(errors, at + 1, 0.05) <= BUDGET;
        if holds && at + 1 >= least {
            threshold = asked.confidence;
        }
    }
    let held: Vec<&Asked> = side(1).map(|(_, asked)| asked).collect();
    let given: Vec<&&Asked> = held.iter().filter(|asked| asked.confidence >= threshold).collect();
    let wrong = given.iter().filter(|asked| !asked.right()).count();
    Abstaining {
        answered: given.len() as f64 / held.len().max(1) as f64,
        wrong: wrong as f64 / held.len().max(1) as f64,
        curve,
    }
}

/// M3: abstaining on one's own probability, at an error budget.
pub fn calibrated(context: &Context) -> Result<Finding> {
    let students = read(context)?;
    let found: Vec<Abstaining> = students.iter().map(abstaining).collect();
    let answered: Vec<f64> = found.iter().map(|own| own.answered).collect();
    let over: Vec<f64> = found.iter().map(|own| own.wrong - BUDGET * own.answered).collect();
    let everything = each(&students, |own| mean(&of(own, |_| true, |a| f64::from(u8::from(!a.right())))));
    let calibration = each(&students, |own| bins(own).iter().map(|bin| bin.2 * (bin.0 - bin.1).abs()).sum());
    Ok(Finding::measured(format!(
        "Answering only above a confidence that one half of the people chose, at most {} errors in mind, the other half is answered in {} of \
         cases; answering always has {} errors. The raw probability is {} off on average (expected calibration error). {}",
        figure(BUDGET),
        figure(mean(&answered)),
        figure(mean(&everything)),
        figure(mean(&calibration)),
        carries(context)
    ))
    .seeds(students.len())
    .number(Number::shown("error budget", BUDGET))
    .number(number("share of held-out people who are answered", &answered))
    .number(number("errors beyond the budget, as a share of held-out people", &over))
    .number(number("errors if everybody is answered", &everything))
    .number(number("expected calibration error, ten bins", &calibration))
    .picture(
        Chart::new("Errors against how many are answered, the surest first", Axis::new("share answered"), Axis::new("share of errors").covering(&[0.0, 1.0]))
            .line("people who choose the threshold, first seed", found[0].curve.iter().copied())
            .dashed("the budget", [(0.0, BUDGET), (1.0, BUDGET)]),
    )
    .picture(
        Chart::new("Confidence and how often it is right", Axis::new("mean confidence").covering(&[0.0, 1.0]), Axis::new("right").covering(&[0.0, 1.0]))
            .points("ten bins, first seed", bins(&students[0]).iter().map(|bin| (bin.0, bin.1)))
            .dashed("calibrated", [(0.0, 0.0), (1.0, 1.0)]),
    )
    .how(format!("{HOW} The threshold is the lowest at which the Clopper–Pearson bound of the chosen half stays within the budget; bins of a tenth for calibration.")))
}

/// Mean confidence, share that is right, and share of all answers, of each tenth of confidence that has any.
fn bins(student: &Student) -> Vec<(f64, f64, f64)> {
    let bin = |bin: usize| {
        let own = |a: &Asked| ((a.confidence * 10.0) as usize).min(9) == bin;
        let (sure, right) =
            (of(student, own, |a| a.confidence), of(student, own, |a| f64::from(u8::from(a.right()))));
        (!sure.is_empty()).then(|| (mean(&sure), mean(&right), sure.len() as f64 / student.dev.len() as f64))
    };
    (0..10).filter_map(bin).collect()
}

/// M4: no answer without a line that supports it.
pub fn strict(context: &Context) -> Result<Finding> {
    let students = read(context)?;
    // The rule looks at the text alone; what is right, and who was read of, it does not know.
    let given = |asked: &Asked| asked.evidence == Evidence::Supported;
    let share = |own: &Student, which: &dyn Fn(&Asked) -> bool| {
        own.dev.iter().filter(|asked| which(asked)).count() as f64 / own.dev.len() as f64
    };
    let answered = each(&students, |own| share(own, &|asked| given(asked)));
    let harmful = each(&students, |own| share(own, &|asked| given(asked) && !asked.right()));
    let free = each(&students, |own| share(own, &|asked| !asked.right()));
    let unread: usize =
        students.iter().map(|own| own.dev.iter().filter(|asked| !asked.read && given(asked)).count()).sum();
    let lost = each(&students, |own| share(own, &|asked| !given(asked) && asked.right()));
    let (right, supported) = right_of(&students, |kind| kind == Evidence::Supported);
    let wrong = exact_share(supported - right, supported.max(1));
    let means = [mean(&answered), 1.0 - mean(&answered)];
    Ok(Finding::measured(format!(
        "In strict mode an answer leaves only with a line of the text that names it: {} of the questions are answered. Of those answers {} are \
         wrong; without strict mode {} of all answers are. It costs {} of the questions a right answer. {}",
        figure(means[0]),
        figure(wrong.value),
        figure(mean(&free)),
        figure(mean(&lost)),
        carries(context)
    ))
    .seeds(students.len())
    .number(Number::sampled("share of given answers that are wrong", wrong))
    .number(less("wrong answers as a share of all questions: strict mode less without", &harmful, &free))
    .number(Number::shown("answers given about people of whom nothing was read", unread as f64))
    .number(number("share of questions that are answered", &answered))
    .number(number("share of questions whose right answer is withheld", &lost))
    .picture(
        Chart::new("Strict mode", Axis::names("", ["answered", "refused"]), Axis::new("share").covering(&[0.0, 1.0]))
            .bars("", means.iter().enumerate().map(|(at, x)| (at as f64, *x))),
    )
    .how(format!("{HOW} The share of wrong answers is over all seeds, with its exact interval.")))
}

/// M5: what follows from the name alone.
pub fn from_names(context: &Context) -> Result<Finding> {
    let students = read(context)?;
    let share = |which: &dyn Fn(&crate::l_pretraining::study::Crossed) -> bool| {
        each(&students, |own| {
            own.crossed.iter().filter(|c| which(c)).count() as f64 / own.crossed.len().max(1) as f64
        })
    };
    let first = share(&|crossed| crossed.answered == crossed.first);
    let last = share(&|crossed| crossed.answered == crossed.last);
    let neither = share(&|crossed| crossed.answered != crossed.last && crossed.answered != crossed.first);
    // What two places get that have nothing to do with the name: those of the pair asked before.
    let chance = each(&students, |own| {
        let pairs = own.crossed.iter().zip(own.crossed.iter().skip(1));
        let hits =
            pairs.filter(|(before, c)| c.answered == before.first || c.answered == before.last).count();
        hits as f64 / own.crossed.len().saturating_sub(1).max(1) as f64
    });
    let both: Vec<f64> = first.iter().zip(&last).map(|(a, b)| a + b).collect();
    let asked: usize = students.iter().map(|student| student.crossed.len()).sum();
    let means = [mean(&first), mean(&last), mean(&neither)];
    Ok(Finding::measured(format!(
        "A name made of one person’s first and another’s last name belongs to nobody; the model answers all the same: in {} of cases with the \
         place of the first name’s owner, in {} with that of the last name’s; the places of other pairs get {}. Whether it also follows the \
         origin of names cannot be asked of invented ones, which have none. {}",
        figure(means[0]),
        figure(means[1]),
        figure(mean(&chance)),
        carries(context)
    ))
    .seeds(students.len())
    .number(number("crossed names: answers that are the place of the first name’s owner", &first))
    .number(number("crossed names: answers that are the place of the last name’s owner", &last))
    .number(number("crossed names: neither", &neither))
    .number(less("crossed names: answers that follow either part less those of another pair", &both, &chance))
    .number(Number::shown("crossed names asked", asked as f64))
    .picture(
        Chart::new("Whom the answer to a crossed name follows", Axis::names("", ["first name", "last name", "neither"]), Axis::new("share").covering(&[0.0, 1.0]))
            .bars("", means.iter().enumerate().map(|(at, x)| (at as f64, *x))),
    )
    .how(HOW))
}

/// M6: telling the unread from the read.
pub fn unseen(context: &Context) -> Result<Finding> {
    let students = read(context)?;
    let area = |number: &dyn Fn(&Student, &Asked) -> f64| {
        each(&students, |student| {
            let own = |asked: &Asked| number(student, asked);
            above(&of(student, |asked| !asked.read, own), &of(student, |asked| asked.read, own))
        })
    };
    let entropy = area(&|_, asked| asked.entropy);
    // Part of a name is often in the text; all of it, for those who were read of.
    let parts = area(&|student, asked| {
        let name = asked.question.trim_start_matches("Where was ").trim_end_matches(" born?");
        let absent = |part: &str| student.lines.lines.iter().all(|line| !line.contains(part));
        name.split(' ').filter(|part| absent(part)).count() as f64
    });
    let first = &students[0];
    let most = first.dev.iter().map(|asked| asked.entropy).fold(0.1, f64::max);
    let bars = |read: bool| {
        crate::statistics::histogram(&of(first, |a| a.read == read, |a| a.entropy), 0.0, most, 10)
    };
    Ok(Finding::measured(format!(
        "The entropy of the answer’s first token ranks a person who was not read of above one who was in {} of pairs; how many parts of the \
         name the text lacks, in {}. (A search for the whole name tells by definition: “read of” means that it is there.) {}",
        figure(mean(&entropy)),
        figure(mean(&parts)),
        carries(context)
    ))
    .seeds(students.len())
    .number(number("area under the curve: entropy, unread above read", &entropy))
    .number(number("area under the curve: parts of the name that the text lacks", &parts))
    .picture(
        Chart::new("Entropy of the answer’s first token, nats", Axis::new("nats"), Axis::new("share of its kind").covering(&[0.0]))
            .bars("people read of", bars(true))
            .points("people never read of", bars(false)),
    )
    .how(HOW))
}
