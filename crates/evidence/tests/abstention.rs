//! The budget on populations whose risk is known: it must be kept as often as was promised, and where it can
//! be kept, questions must be answered.

use regard_evidence::{Budget, Threshold};

/// Numbers between 0 and 1 that look drawn (splitmix64).
struct Draws(u64);

impl Draws {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// How often an answer is right, by its confidence, which is even between 0 and 1.
type Right = fn(f64) -> f64;

/// The risk of answering from a confidence on, by summing over it.
fn risk(right: Right, from: f64) -> f64 {
    let from = from.clamp(0.0, 1.0);
    let parts = 400;
    let at = |part: usize| from + (1.0 - from) * (part as f64 + 0.5) / f64::from(parts);
    1.0 - (0..parts as usize).map(|part| right(at(part))).sum::<f64>() / f64::from(parts)
}

const DRAWS: usize = 2000;

/// How often the true risk was beyond the budget, and which share of questions was answered on average.
fn broken(right: Right, budget: f64, certainty: f64, questions: usize, seed: u64) -> (f64, f64) {
    let mut draws = Draws(seed);
    let (mut beyond, mut covered) = (0, 0.0);
    // Risks are summed once for a thousand thresholds: the sum is smooth.
    let risks: Vec<f64> = (0..=1000).map(|at| risk(right, f64::from(at) / 1000.0)).collect();
    for _ in 0..DRAWS {
        let mut some = |count: usize| -> Vec<(f64, bool)> {
            (0..count)
                .map(|_| {
                    let confidence = draws.unit();
                    (confidence, draws.unit() < right(confidence))
                })
                .collect()
        };
        let (order, test) = (some(questions / 3), some(questions - questions / 3));
        let chosen = Threshold::learn(&order, &test, Budget::new(budget, certainty).unwrap()).unwrap();
        if let Some(from) = chosen.from {
            let at = 1000.0 * from.clamp(0.0, 1.0);
            let (low, part) = (at.floor() as usize, at.fract());
            let own = risks[low] * (1.0 - part) + risks[(low + 1).min(1000)] * part;
            beyond += usize::from(own > budget + 1e-4);
            covered += 1.0 - from.clamp(0.0, 1.0);
        }
    }
    (beyond as f64 / DRAWS as f64, covered / DRAWS as f64)
}

#[test]
fn the_budget_is_kept_as_often_as_was_promised() {
    // Confidence that is right; that is too sure; that tells nothing; that is wrong where it is surest; that
    // has a cliff at the budget.
    let populations: [(&str, Right); 5] = [
        ("fair", |p| p),
        ("too sure", |p| 0.6 * p + 0.3),
        ("blind", |_| 0.9),
        ("upside down", |p| if p > 0.8 { 0.6 } else { 0.95 }),
        ("cliff", |p| if p > 0.5 { 0.95 } else { 0.2 }),
    ];
    for budget in [0.05, 0.1, 0.2] {
        for (name, right) in populations {
            let (beyond, _) = broken(right, budget, 0.95, 250, 11);
            // Two standard errors of so many draws.
            let slack = 2.0 * (0.05 * 0.95 / DRAWS as f64).sqrt();
            assert!(beyond <= 0.05 + slack, "{name}, {budget}: {beyond}");
        }
    }
    let (beyond, _) = broken(|p| p, 0.2, 0.8, 250, 12);
    assert!(beyond <= 0.2 + 2.0 * (0.2 * 0.8 / DRAWS as f64).sqrt() && beyond > 0.02, "{beyond}");
}

#[test]
fn where_the_budget_can_be_kept_questions_are_answered() {
    // Fair confidence can be wrong in a fifth of answers from 0.6 on: two fifths of the questions.
    let (_, covered) = broken(|p| p, 0.2, 0.95, 1500, 3);
    assert!(covered > 0.25 && covered < 0.4, "{covered}");
    // Nineteen of twenty right, a budget of a tenth: nearly all.
    let (_, covered) = broken(|_| 0.97, 0.1, 0.95, 500, 4);
    assert!(covered > 0.95, "{covered}");
}

#[test]
fn what_a_budget_takes_is_said_beforehand() {
    let budget = Budget::new(0.1, 0.95).unwrap();
    // 0.9²⁸ is above 0.05, 0.9²⁹ below.
    assert_eq!(budget.fewest(), 29);
    assert!((budget.declined(0.6) - 0.5 / 0.9).abs() < 1e-12);
    assert_eq!(budget.declined(0.05), 0.0);
    assert_eq!((budget.questions(0.05), budget.questions(0.6)), (Some(29), Some(66)));
    assert_eq!(budget.questions(1.0), None, "nothing is right");
    assert_eq!(
        Budget::new(1.0, 0.95).unwrap_err().to_string(),
        "an error budget of 1; choose a share between 0 and 1, such as 0.1"
    );
}

#[test]
fn too_few_answers_show_nothing() {
    let budget = Budget::new(0.1, 0.95).unwrap();
    let right = vec![(0.9, true); 28];
    let none = Threshold::learn(&right, &right, budget).unwrap();
    assert_eq!((none.from, none.gives(1.0), none.bound, none.coverage()), (None, false, 1.0, 0.0));
    let enough = Threshold::learn(&right, &[(0.9, true); 29], budget).unwrap();
    assert!(enough.gives(0.9) && enough.bound <= 0.1 && enough.coverage() == 1.0);
    assert_eq!(
        Threshold::learn(&[], &right, budget).unwrap_err().to_string(),
        "0 answers to order thresholds by, 28 to test them with; give at least one of each"
    );
}
