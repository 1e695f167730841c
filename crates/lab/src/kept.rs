//! Results that are kept: findings of full runs in one JSON file, claim by claim, so that a claim can be run
//! alone and take its place among the others. Those of this repository come with the program, and pages of
//! quick runs show them.

use crate::{Claim, Context, SEEDS, claims, counted};
use regard_graph::{Error, Result};
use serde_json::{Map, Value, json};
use std::sync::OnceLock;

/// Where and with what a run was done.
#[derive(Clone, Debug)]
pub struct Provenance {
    /// The commit of the sources, as far as it is known.
    pub commit: String,
    /// The processor and what of it was used.
    pub machine: String,
}

/// True if a file of results has this claim's outcome already: found by the same sources, settings and data,
/// at this effort and with this seed, and not broken.
pub fn is_kept(kept: &Value, claim: &Claim, context: &Context) -> bool {
    kept["effort"] == context.effort.name()
        && kept["seed"] == context.seed
        && kept["claims"].as_array().is_some_and(|claims| {
            claims.iter().any(|own| own["id"] == claim.id && own["digest"] == claim.digest() && !broken(own))
        })
}

fn broken(claim: &Value) -> bool {
    claim["faults"].as_array().is_none_or(|faults| !faults.is_empty())
}

/// Puts what a run told ([`crate::outcomes_json`]) among results that were kept, each in place of an earlier
/// one of its claim, with where and by what it was found. Pending claims leave no trace; everything else in
/// the file stays.
pub fn merged(kept: Option<&str>, outcomes_json: &Value, provenance: &Provenance) -> Result<Value> {
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
    for claim in &mut all {
        claim["commit"] = json!(provenance.commit);
        claim["machine"] = json!(provenance.machine);
    }
    let new: Vec<Value> = all.iter().map(|claim| claim["id"].clone()).collect();
    let old = file.get("claims").and_then(Value::as_array).cloned().unwrap_or_default();
    all.extend(old.into_iter().filter(|claim| !new.contains(&claim["id"])));
    let place = |claim: &Value| claims().position(|known| claim["id"] == known.id);
    // What is no claim any more has no place among them.
    all.retain(|claim| place(claim).is_some());
    all.sort_by_key(place);
    let failed: Vec<Value> = all.iter().filter(|own| broken(own)).map(|own| own["id"].clone()).collect();
    let counts = counted(all.iter().filter_map(|claim| claim["state"].as_str()));
    file.insert("commit".into(), json!(provenance.commit));
    file.insert("machine".into(), json!(provenance.machine));
    file.insert(
        "versions".into(),
        json!({ "regard": env!("CARGO_PKG_VERSION"), "rustc": env!("REGARD_COMPILER") }),
    );
    file.insert("seeds".into(), json!(if outcomes_json["effort"] == "full" { SEEDS } else { 1 }));
    file.insert("confidence".into(), outcomes_json["confidence"].clone());
    file.insert("counts".into(), json!(counts));
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

/// The results of the full run that comes with the program.
pub(crate) fn whole() -> &'static Value {
    static KEPT: OnceLock<Value> = OnceLock::new();
    KEPT.get_or_init(|| serde_json::from_str(include_str!("../results/full.json")).unwrap_or_default())
}

/// What that run has about a claim.
pub(crate) fn outcome(id: &str) -> Option<&'static Value> {
    whole()["claims"].as_array()?.iter().find(|claim| claim["id"] == id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{outcomes_json, run, select};

    fn here() -> Provenance {
        Provenance { commit: "abc".into(), machine: "ours".into() }
    }

    #[test]
    fn a_claim_that_is_run_again_takes_its_own_place() {
        let context = Context::default();
        let of = |ids: &[&str]| outcomes_json(&run(&select(ids).unwrap(), &context, &|_| ()), &context);
        let first = merged(None, &of(&["A2", "D6"]), &here()).unwrap();
        let mut old: Value = first.clone();
        old["remark"] = json!("ours");
        old["claims"][1]["seconds"] = json!(-1.0);
        let elsewhere = Provenance { machine: "another".into(), ..here() };
        let both = merged(Some(&old.to_string()), &of(&["B1", "D6"]), &elsewhere).unwrap();
        let ids: Vec<&str> =
            both["claims"].as_array().unwrap().iter().map(|c| c["id"].as_str().unwrap()).collect();
        assert_eq!(ids, ["A2", "B1", "D6"]);
        assert_eq!(both["remark"], "ours");
        assert!(both["claims"][2]["seconds"].as_f64().unwrap() >= 0.0);
        assert_eq!(both["failed"], json!([]));
        assert_eq!([&both["claims"][0]["machine"], &both["claims"][1]["machine"]], ["ours", "another"]);
        assert_eq!(both["counts"], "3 hold");
        assert_eq!(both["seeds"], 1);
    }

    #[test]
    fn what_other_sources_found_is_not_kept() {
        let context = Context::default();
        let claim = select(&["A2"]).unwrap()[0];
        let told = outcomes_json(&run(&[claim], &context, &|_| ()), &context);
        let mut kept = merged(None, &told, &here()).unwrap();
        assert!(is_kept(&kept, claim, &context));
        assert!(!is_kept(&kept, select(&["A3"]).unwrap()[0], &context));
        assert!(!is_kept(&kept, claim, &Context { seed: 1, ..context }));
        kept["claims"][0]["digest"] = json!("0");
        assert!(!is_kept(&kept, claim, &context));
    }

    #[test]
    fn results_that_do_not_belong_together_are_refused() {
        let outcomes_json = json!({"effort": "full", "seed": 0, "confidence": 0.9999, "claims": []});
        let refused = |kept: &str| merged(Some(kept), &outcomes_json, &here()).unwrap_err().to_string();
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
    fn the_full_run_that_comes_with_the_program_is_that_of_these_sources() {
        let full = Context { effort: crate::Effort::Full, ..Default::default() };
        let stale: Vec<&str> = claims()
            .filter(|claim| claim.experiment().is_some() && !is_kept(whole(), claim, &full))
            .map(|claim| claim.id)
            .collect();
        assert!(
            stale.is_empty(),
            "run: regard claims --full --results crates/lab/results/full.json (absent, broken or of other sources: {stale:?})"
        );
        for of in ["commit", "machine", "versions", "seeds", "counts"] {
            assert!(!whole()[of].is_null(), "no {of}");
        }
        assert_eq!(whole()["seeds"], SEEDS);
    }
}
