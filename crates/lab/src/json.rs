//! Claims and findings for programs: one JSON object.

use crate::finding::Criterion;
use crate::picture::figure;
use crate::predicate::{Answer, Judged, Role};
use crate::{Claim, Context, Finding, Judgement, Number, Outcome, Run};
use serde_json::{Value, json};

/// All claims, without running any.
pub fn listed<'a>(claims: impl Iterator<Item = &'a Claim>) -> Value {
    let each = |claim: &Claim| {
        let mut value = head(claim);
        value["evidence"] = json!(claim.evidence().name());
        value
    };
    json!({ "claims": claims.map(each).collect::<Vec<_>>() })
}

/// What was found.
pub fn outcomes_json(outcomes: &[Outcome], context: &Context) -> Value {
    let each = |outcome: &Outcome| {
        let mut value = head(outcome.claim);
        value["state"] = json!(outcome.state());
        value["evidence"] = json!(outcome.claim.evidence().name());
        value["seconds"] = json!(outcome.seconds);
        value["digest"] = json!(outcome.claim.digest());
        value["faults"] = json!(outcome.faults());
        if let Some(judgement) = outcome.judgement() {
            value["judgement"] = judged(judgement);
        }
        match &outcome.found {
            Some(Ok(finding)) => value["finding"] = found(finding),
            Some(Err(error)) => value["error"] = json!(error.to_string()),
            None => {}
        }
        value
    };
    let failed: Vec<&str> = outcomes.iter().filter(|o| o.failed()).map(|o| o.claim.id).collect();
    json!({
        "seed": context.seed,
        "effort": context.effort.name(),
        "confidence": { "sampled": 0.9999, "trained": 0.95 },
        "failed": failed,
        "claims": outcomes.iter().map(each).collect::<Vec<_>>(),
    })
}

fn head(claim: &Claim) -> Value {
    let mut value = json!({
        "id": claim.id,
        "title": claim.title,
        "note": claim.note,
        "statement": claim.statement,
        "errata": claim.errata,
    });
    if let Run::Pending(waits) = claim.run {
        value["waits_for"] = json!(waits);
    }
    value
}

fn found(finding: &Finding) -> Value {
    let number = |number: &Number| {
        json!({
            "name": number.name,
            "value": number.value,
            "interval": number.interval.map(|(low, high)| [low, high]),
            "held": criterion(number),
            "ok": number.ok(),
            "erratum": number.erratum,
        })
    };
    let table = |t: &crate::Table| json!({ "title": t.title, "columns": t.columns, "rows": t.rows });
    json!({
        "summary": finding.summary,
        "seeds": finding.seeds,
        "numbers": finding.numbers.iter().map(number).collect::<Vec<_>>(),
        "tables": finding.tables.iter().map(table).collect::<Vec<_>>(),
        "pictures": finding.pictures.iter().map(|picture| picture.title()).collect::<Vec<_>>(),
        "how": finding.how,
        "counter_example": finding.counter_example,
    })
}

fn judged(judgement: &Judgement) -> Value {
    let each = |judged: &Judged| {
        json!({
            "for": match judged.role {
                Role::Premise => "premise",
                Role::Statement => "statement",
                Role::Condition => "condition",
            },
            "quantity": judged.name,
            "must": judged.relation.in_words(),
            "value": judged.value,
            "interval": judged.interval.map(|(low, high)| [low, high]),
            "answer": match judged.answer {
                Answer::Yes => "yes",
                Answer::No => "no",
                Answer::Straddles => "straddles",
            },
        })
    };
    json!({
        "verdict": judgement.verdict.name(),
        "condition": judgement.condition,
        "undecided": judgement.undecided,
        "tests": judgement.judged.iter().map(each).collect::<Vec<_>>(),
    })
}

/// What a number is held against, in words; empty if nothing.
pub(crate) fn criterion(number: &Number) -> String {
    match number.criterion {
        Criterion::Shown => String::new(),
        Criterion::Equal { to, within: 0.0 } => format!("exactly {}", figure(to)),
        Criterion::Equal { to, within } => format!("{} ± {}", figure(to), figure(within)),
        Criterion::Theory(theory) => format!("theory {} in the interval", figure(theory)),
        Criterion::Quoted { as_, within } => format!("quoted {} ± {}", figure(as_), figure(within)),
        Criterion::AtMost(bound) => format!("at most {}", figure(bound)),
        Criterion::AtLeast(bound) => format!("at least {}", figure(bound)),
    }
}

/// A number with its interval and what it is held against, in words.
pub fn in_words(number: &Number) -> String {
    let interval = match number.interval {
        Some((low, high)) => format!(" ({} to {})", figure(low), figure(high)),
        None => String::new(),
    };
    let criterion = criterion(number);
    let criterion = if criterion.is_empty() { criterion } else { format!("; expected {criterion}") };
    format!("{}: {}{interval}{criterion}", number.name, figure(number.value))
}
