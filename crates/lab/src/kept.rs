//! Results that are kept: findings of full runs in one JSON file, claim by claim, so that a claim can be run
//! alone and take its place among the others. Those of this repository come with the program, and pages of
//! quick runs show them.

use crate::claims;
use regard_graph::{Error, Result};
use serde_json::{Map, Value, json};
use std::sync::OnceLock;

/// Puts what a run told ([`crate::outcomes_json`]) among results that were kept, each in place of an earlier
/// one of its claim. Pending claims leave no trace; everything else in the file stays.
pub fn merged(kept: Option<&str>, outcomes_json: &Value) -> Result<Value> {
    let mut file = match kept {
        Some(text) => read(text)?,
        None => Map::new(),
    };
    for of in ["effort", "seed"] {
        let own = &outcomes_json[of];
        match file.get(of) {
            Some(there) if there != own => {
                return Err(Error::invalid(
                    "results",
                    format!("those kept have {of} {there}, these have {own}"),
                    "keep these in a file of their own",
                ));
            }
            _ => file.insert(of.into(), own.clone()),
        };
    }
    let mut all: Vec<Value> = outcomes_json["claims"].as_array().cloned().unwrap_or_default();
    all.retain(|claim| claim["state"] != "pending");
    let new: Vec<Value> = all.iter().map(|claim| claim["id"].clone()).collect();
    let old = file.get("claims").and_then(Value::as_array).cloned().unwrap_or_default();
    all.extend(old.into_iter().filter(|claim| !new.contains(&claim["id"])));
    let place = |claim: &Value| claims().position(|known| claim["id"] == known.id);
    // What is no claim any more has no place among them.
    all.retain(|claim| place(claim).is_some());
    all.sort_by_key(place);
    let bad = |claim: &&Value| ["outside", "failed"].iter().any(|state| claim["state"] == *state);
    let failed: Vec<Value> = all.iter().filter(bad).map(|claim| claim["id"].clone()).collect();
    file.insert("confidence".into(), outcomes_json["confidence"].clone());
    file.insert("failed".into(), json!(failed));
    file.insert("claims".into(), json!(all));
    Ok(Value::Object(file))
}

fn read(text: &str) -> Result<Map<String, Value>> {
    let wrong =
        |what: String| Error::invalid("results", what, "give a file that `regard claims --results` wrote");
    match serde_json::from_str(text) {
        Ok(Value::Object(file)) if file.get("claims").is_some_and(Value::is_array) => Ok(file),
        Ok(_) => Err(wrong("the file has no list `claims`".into())),
        Err(error) => Err(wrong(format!("the file is no JSON: {error}"))),
    }
}

/// What a full run that comes with the program found about a claim: its `finding`.
pub(crate) fn finding(id: &str) -> Option<&'static Value> {
    static KEPT: OnceLock<Value> = OnceLock::new();
    let kept =
        KEPT.get_or_init(|| serde_json::from_str(include_str!("../results/full.json")).unwrap_or_default());
    kept["claims"].as_array()?.iter().find(|claim| claim["id"] == id)?.get("finding")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Context, Evidence, outcomes_json, run, select};

    #[test]
    fn a_claim_that_is_run_again_takes_its_own_place() {
        let context = Context::default();
        let of = |ids: &[&str]| outcomes_json(&run(&select(ids).unwrap(), &context, 1, &|_| ()), &context);
        let first = merged(None, &of(&["A2", "D6"])).unwrap();
        let mut old: Value = first.clone();
        old["machine"] = json!("ours");
        old["claims"][1]["seconds"] = json!(-1.0);
        let both = merged(Some(&old.to_string()), &of(&["B1", "D6"])).unwrap();
        let ids: Vec<&str> =
            both["claims"].as_array().unwrap().iter().map(|c| c["id"].as_str().unwrap()).collect();
        assert_eq!(ids, ["A2", "B1", "D6"]);
        assert_eq!(both["machine"], "ours");
        assert!(both["claims"][2]["seconds"].as_f64().unwrap() >= 0.0);
        assert_eq!(both["failed"], json!([]));
    }

    #[test]
    fn results_that_do_not_belong_together_are_refused() {
        let outcomes_json = json!({"effort": "full", "seed": 0, "confidence": 0.9999, "claims": []});
        let refused = |kept: &str| merged(Some(kept), &outcomes_json).unwrap_err().to_string();
        assert_eq!(
            refused(r#"{"effort": "quick", "seed": 0, "claims": []}"#),
            "results: those kept have effort \"quick\", these have \"full\"; keep these in a file of their own"
        );
        assert_eq!(
            refused("[]"),
            "results: the file has no list `claims`; give a file that `regard claims --results` wrote"
        );
        assert!(refused("{").starts_with("results: the file is no JSON: EOF"), "{}", refused("{"));
    }

    #[test]
    fn every_trained_claim_was_run_in_full() {
        let missing: Vec<&str> = claims()
            .filter(|claim| claim.evidence() == Evidence::Trained && finding(claim.id).is_none())
            .map(|claim| claim.id)
            .collect();
        assert!(
            missing.is_empty(),
            "run: regard claims --full --results crates/lab/results/full.json {missing:?}"
        );
    }
}
