//! BLEU and chrF are sacrebleu's: 200 random cases (scripts, punctuation, numbers, entities, odd spaces,
//! empty lines, several references) with all settings, made by `sacrebleu_golden.py`.

use regard_evaluate::{Bleu, Chrf, Smoothing, Tokens};
use serde_json::Value;

#[track_caller]
fn same(what: &str, got: f64, wanted: &Value) {
    let wanted = wanted.as_f64().unwrap();
    assert!((got - wanted).abs() <= 1e-9, "{what}: {got}, sacrebleu says {wanted}");
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// The signature without who computed it.
fn settings(signature: &str) -> &str {
    signature.rsplit_once("|version:").unwrap().0
}

#[test]
fn numbers_are_sacrebleus() {
    let golden: Value = serde_json::from_str(include_str!("goldens/sacrebleu.json")).unwrap();
    let cases = golden["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 200);
    for (number, case) in cases.iter().enumerate() {
        let lines = |value: &Value| -> Vec<String> {
            value.as_array().unwrap().iter().map(|line| text(line).to_owned()).collect()
        };
        let hypotheses = lines(&case["hypotheses"]);
        let references: Vec<Vec<String>> = case["references"].as_array().unwrap().iter().map(lines).collect();
        let tokens = [Tokens::V13a, Tokens::International, Tokens::Characters, Tokens::None];
        let lowercase = case["lowercase"] == true;
        let bleu = Bleu {
            tokens: tokens.into_iter().find(|tokens| tokens.name() == text(&case["tokenize"])).unwrap(),
            lowercase,
            smoothing: match text(&case["smooth_method"]) {
                "exp" => Smoothing::Exponential,
                "floor" => Smoothing::Floor(0.1),
                "add-k" => Smoothing::AddK(1.0),
                _ => Smoothing::None,
            },
            effective_order: false,
        };
        let whole = bleu.corpus(&hypotheses, &references).unwrap();
        let name = format!("case {number}");
        same(&name, whole.score, &case["bleu"]);
        same(&name, whole.brevity_penalty, &case["bp"]);
        for (got, wanted) in whole.precisions.iter().zip(case["precisions"].as_array().unwrap()) {
            same(&name, *got, wanted);
        }
        assert_eq!(case["lengths"], serde_json::json!([whole.length, whole.reference_length]), "{name}");
        assert_eq!(whole.to_string(), text(&case["text"]), "{name}");
        assert_eq!(settings(&bleu.signature(&references)), settings(text(&case["bleu_signature"])), "{name}");

        let chrf = Chrf {
            words: case["word_order"].as_u64().unwrap() as usize,
            spaces: case["whitespace"] == true,
            lowercase,
            ..Chrf::default()
        };
        same(&format!("{name}, chrF"), chrf.corpus(&hypotheses, &references).unwrap(), &case["chrf"]);
        assert_eq!(chrf.name(), text(&case["chrf_name"]));
        assert_eq!(settings(&chrf.signature(&references)), settings(text(&case["chrf_signature"])), "{name}");
        for (row, (hypothesis, own)) in hypotheses.iter().zip(&references).enumerate() {
            let name = format!("{name}, sentence {row}");
            same(&name, bleu.sentence(hypothesis, own).unwrap().score, &case["sentence_bleu"][row]);
            same(&name, chrf.sentence(hypothesis, own).unwrap(), &case["sentence_chrf"][row]);
        }
    }
}

#[test]
fn references_may_differ_in_number() {
    let references = [vec!["a b c d"], vec!["x", "y z"]];
    let score = Bleu::default().corpus(&["a b c d", "y z"], &references).unwrap();
    assert!((score.score - 100.0).abs() < 1e-9 && score.reference_length == 6, "{score}");
    assert!(Bleu::default().signature(&references).starts_with("nrefs:var|case:mixed|eff:no|tok:13a|"));
    assert!(Chrf::plus_plus().signature(&references).starts_with("nrefs:var|case:mixed|eff:yes|nc:6|nw:2|"));
}

#[test]
fn nonsense_is_refused() {
    let bleu = Bleu::default();
    let none: [Vec<&str>; 0] = [];
    assert_eq!(
        bleu.corpus(&["a"], &none).unwrap_err().to_string(),
        "BLEU: 1 predictions for 0 answers; give each answer its prediction, in the same order"
    );
    assert_eq!(
        bleu.corpus::<&str, _>(&[], &none).unwrap_err().to_string(),
        "BLEU: there are no predictions; give at least one"
    );
    assert_eq!(
        Chrf::default().corpus(&["a", "b"], &[vec!["a"], vec![]]).unwrap_err().to_string(),
        "chrF: hypothesis 1 has no reference; give it at least one"
    );
    assert_eq!(
        Chrf::default().sentence::<&str>("a", &[]).unwrap_err().to_string(),
        "chrF: hypothesis 0 has no reference; give it at least one"
    );
    let odd = Bleu { smoothing: Smoothing::AddK(f64::NAN), ..bleu };
    assert_eq!(
        odd.sentence("a", &["a"]).unwrap_err().to_string(),
        "BLEU: the smoothing value is NaN; choose 0 or more; usual are 0.1 for floor, 1 for add-k"
    );
}
