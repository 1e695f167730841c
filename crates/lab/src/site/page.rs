//! The page of one claim: statement, verdict, formula, numbers, pictures, tables, errata, how it was
//! computed, and the command that repeats it.

use super::{badge, class_of, class_of_state, file_of, whole};
use crate::json::criterion;
use crate::picture::{escaped, figure, marked};
use crate::predicate::Role;
use crate::statistics::{CONFIDENCE, TRAINED_CONFIDENCE};
use crate::{
    Context, ERRATA, Effort, Erratum, Evidence, Finding, Number, Outcome, Predicate, Run, Table, Verdict,
};
use serde_json::Value;
use std::fmt::Write;

pub(super) fn page(
    outcome: &Outcome,
    before: Option<&Outcome>,
    after: Option<&Outcome>,
    context: &Context,
) -> String {
    let claim = outcome.claim;
    let mut body = String::from("<nav class=\"way\">");
    let neighbour = |other: Option<&Outcome>, arrow: &str| match other {
        Some(other) => format!(
            "<a href=\"{}\" title=\"{}\">{}</a>",
            file_of(other.claim.id),
            escaped(other.claim.title),
            arrow.replace("ID", other.claim.id)
        ),
        None => "<span></span>".into(),
    };
    let _ = write!(
        body,
        "{}<a href=\"index.html#{}\">All claims</a>{}</nav><main class=\"claim\"><h1><span class=\"id\">{}</span> {}</h1>\
         <p class=\"said\">{}<span class=\"quiet\"> (notes {})</span></p>",
        neighbour(before, "← ID"),
        claim.group(),
        neighbour(after, "ID →"),
        claim.id,
        marked(claim.title),
        marked(claim.statement),
        escaped(claim.note)
    );
    match &outcome.found {
        Some(Ok(finding)) => answer(&mut body, outcome, finding),
        Some(Err(error)) => {
            let _ = write!(
                body,
                "<div class=\"verdict failed\">{}<p>The experiment failed: {}</p></div>",
                badge(outcome),
                escaped(&error.to_string())
            );
        }
        None => {
            let waits = if let Run::Pending(waits) = claim.run { waits } else { "" };
            let _ = write!(
                body,
                "<div class=\"verdict pending\">{}<p>Not yet run. It waits for {}.</p></div>",
                badge(outcome),
                escaped(waits)
            );
        }
    }
    if !claim.formula.is_empty() {
        let _ = write!(body, "<p class=\"formula\">{}</p>", marked(claim.formula));
    }
    if let Some(Ok(finding)) = &outcome.found {
        follows_from(&mut body, outcome);
        evidence(&mut body, finding, claim.evidence());
    }
    if context.effort == Effort::Quick && claim.evidence() == Evidence::Trained {
        in_full(&mut body, claim.id);
    }
    errata_of(&mut body, outcome);
    if let Some(Ok(finding)) = &outcome.found {
        let _ = write!(
            body,
            "<h2>How it was computed</h2><p>{}</p><p class=\"quiet\">Evidence: {}; seed {}; {:.2} seconds. To repeat it:</p>\
             <pre>regard claims {} --{} --seed {}</pre>",
            marked(&finding.how),
            claim.evidence().name(),
            context.seed,
            outcome.seconds,
            claim.id,
            context.effort.name(),
            context.seed
        );
    }
    body.push_str("</main>");
    whole(&format!("{} {}", claim.id, claim.title), &body)
}

/// What was found, in words that its numbers bear out: the sentence of the experiment, unless it was written
/// for another verdict; and why nothing was decided where nothing was.
pub(super) fn sentence(outcome: &Outcome, finding: &Finding) -> String {
    let Some(judgement) = outcome.judgement() else { return String::new() };
    let own = match finding.written_for {
        Some(verdict) if verdict != judgement.verdict => "Its numbers are not what they were.",
        _ => &finding.summary,
    };
    match (&judgement.undecided, judgement.condition) {
        (Some(why), _) => format!("Undecided: {why}. {own}"),
        (None, Some(condition)) => format!("Only {condition}. {own}"),
        (None, None) => own.to_string(),
    }
}

fn answer(body: &mut String, outcome: &Outcome, finding: &Finding) {
    let _ = write!(
        body,
        "<div class=\"verdict {}\">{}<p>{}</p>",
        class_of(outcome),
        badge(outcome),
        marked(&sentence(outcome, finding))
    );
    let refuted = matches!(outcome.verdict(), Some(Verdict::Wrong | Verdict::Conditional));
    if let Some(example) = finding.counter_example.as_ref().filter(|_| refuted) {
        let _ = write!(body, "<p><b>Counter-example.</b> {}</p>", marked(example));
    }
    for fault in outcome.faults() {
        let _ = write!(body, "<p class=\"fault\"><b>Broken:</b> {}</p>", marked(&fault));
    }
    body.push_str("</div>");
}

/// What had to be so, and what was.
fn follows_from(body: &mut String, outcome: &Outcome) {
    body.push_str("<h2>What the verdict follows from</h2>");
    let (Predicate::Stated(stated), Some(judgement)) = (&outcome.claim.predicate, outcome.judgement()) else {
        body.push_str("<p>It holds if every number below is as expected.</p>");
        return;
    };
    for (role, text) in [
        (Role::Premise, "Nothing can be said unless".to_string()),
        (Role::Statement, "It holds if".to_string()),
        (Role::Condition, format!("Else it holds {} if", stated.condition.map_or("", |(text, _)| text))),
    ] {
        let own: Vec<String> = judgement
            .judged
            .iter()
            .filter(|judged| judged.role == role)
            .map(|judged| format!("<li>{}</li>", marked(&judged.in_words())))
            .collect();
        if !own.is_empty() {
            let _ = write!(body, "<p>{}:</p><ul>{}</ul>", marked(&text), own.concat());
        }
    }
}

fn evidence(body: &mut String, finding: &Finding, kind: Evidence) {
    for picture in &finding.pictures {
        body.push_str(&picture.captioned(marked));
    }
    if !finding.numbers.is_empty() {
        body.push_str(
            "<h2>Numbers</h2><div class=\"scroll\"><table class=\"numbers\"><tr><th>What</th><th>Found</th>",
        );
        let intervals = finding.numbers.iter().any(|number| number.interval.is_some());
        if intervals {
            let confidence = if kind == Evidence::Trained { TRAINED_CONFIDENCE } else { CONFIDENCE };
            let _ = write!(body, "<th>{confidence} interval</th>");
        }
        body.push_str("<th>Expected</th><th></th></tr>");
        for number in &finding.numbers {
            row_of(body, number, intervals);
        }
        body.push_str("</table></div>");
    }
    for table in &finding.tables {
        table_of(body, table);
    }
}

/// What the full run that comes with the program found: longer, over several seeds.
fn in_full(body: &mut String, id: &str) {
    let Some(outcome) = crate::kept::outcome(id) else { return };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let (kept, judgement) = (&outcome["finding"], &outcome["judgement"]);
    let state = text(&judgement["verdict"]);
    let why = match (judgement["undecided"].as_str(), judgement["condition"].as_str()) {
        (Some(why), _) => format!("Undecided: {why}. "),
        (None, Some(condition)) => format!("Only {condition}. "),
        (None, None) => String::new(),
    };
    let _ = write!(
        body,
        "<h2>In full, over {} seeds</h2><p><span class=\"badge {}\">{state}</span> {}</p>",
        kept["seeds"],
        class_of_state(&state),
        marked(&(why + &text(&kept["summary"])))
    );
    body.push_str("<div class=\"scroll\"><table class=\"numbers\"><tr><th>What</th><th>Found</th>");
    let _ = write!(body, "<th>{TRAINED_CONFIDENCE} interval</th></tr>");
    for number in kept["numbers"].as_array().into_iter().flatten() {
        let of = |value: &Value| value.as_f64().map(figure).unwrap_or_default();
        let ends = [&number["interval"][0], &number["interval"][1]].map(of);
        let interval = if ends[0].is_empty() { String::new() } else { ends.join(" … ") };
        let _ = write!(
            body,
            "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{interval}</td></tr>",
            marked(&text(&number["name"])),
            of(&number["value"])
        );
    }
    body.push_str("</table></div>");
}

fn row_of(body: &mut String, number: &Number, intervals: bool) {
    let mark = match number.ok() {
        Some(true) => "<span class=\"ok\">✓</span>",
        Some(false) => "<span class=\"fault\">✗</span>",
        None => "",
    };
    let _ =
        write!(body, "<tr><td>{}</td><td class=\"n\">{}</td>", marked(&number.name), figure(number.value));
    if intervals {
        let interval = number.interval.map(|(low, high)| format!("{} … {}", figure(low), figure(high)));
        let _ = write!(body, "<td class=\"n\">{}</td>", interval.unwrap_or_default());
    }
    let _ = write!(body, "<td>{}</td><td>{mark}</td></tr>", marked(&criterion(number)));
}

fn table_of(body: &mut String, table: &Table) {
    let grid = regard_picture::Table { columns: table.columns.clone(), rows: table.rows.clone() };
    let _ = write!(body, "<h2>{}</h2>{}", marked(&table.title), grid.html(marked));
}

fn errata_of(body: &mut String, outcome: &Outcome) {
    for erratum in ERRATA.iter().filter(|erratum| outcome.claim.errata.contains(&erratum.id)) {
        let _ = write!(body, "<div class=\"erratum\">{}", erratum_text(erratum));
        if let Some(Ok(finding)) = &outcome.found {
            for number in finding.numbers.iter().filter(|number| number.erratum == Some(erratum.id)) {
                let _ = write!(body, "<p><b>The number.</b> {}</p>", marked(&crate::json::in_words(number)));
            }
        }
        body.push_str("</div>");
    }
}

/// What the notes say and what is true.
pub(super) fn erratum_text(erratum: &Erratum) -> String {
    format!(
        "<h3>Erratum {} <span class=\"quiet\">notes {}</span></h3><p><b>They say:</b> {}.</p><p><b>True is:</b> {}.</p>",
        erratum.id,
        escaped(erratum.note),
        marked(erratum.claim),
        marked(erratum.truth)
    )
}
