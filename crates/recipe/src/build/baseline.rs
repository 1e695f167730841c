//! What can be had without a model: the most frequent class, and for texts a logistic regression on the words that occur.
//! Shown beside a result, so that it says something.

use regard_data::dataset::Labels;
use std::collections::{BTreeMap, HashMap};

/// A simple method and how good it is on the same data.
#[derive(Clone, Debug, PartialEq)]
pub struct Baseline {
    /// What it is: `always “1”`, `bag of words`.
    pub name: String,
    /// The metric of the result that it stands beside.
    pub metric: &'static str,
    /// How good it is.
    pub value: f64,
}

/// Always the class that is most frequent in training; the first of several.
pub(crate) fn most_frequent(counts: &[usize], answers: &[usize], labels: &Labels) -> Baseline {
    let best = (0..counts.len()).max_by(|&a, &b| counts[a].cmp(&counts[b]).then(b.cmp(&a))).unwrap_or(0);
    let right = answers.iter().filter(|&&class| class == best).count();
    let value = right as f64 / answers.len().max(1) as f64;
    Baseline { name: format!("always “{}”", labels.name(best).unwrap_or("?")), metric: "accuracy", value }
}

/// Both baselines of texts.
pub(crate) fn of_texts(
    (texts, classes): (&[String], &[usize]),
    (asked, answers): (&[String], &[usize]),
    labels: &Labels,
) -> Vec<Baseline> {
    let mut counts = vec![0; labels.len()];
    classes.iter().for_each(|&class| counts[class] += 1);
    let words = BagOfWords::fit(texts, classes, labels.len());
    let right = asked.iter().zip(answers).filter(|(text, class)| words.class(text) == **class).count();
    let value = right as f64 / answers.len().max(1) as f64;
    let bag = Baseline { name: "bag of words".into(), metric: "accuracy", value };
    vec![most_frequent(&counts, answers, labels), bag]
}

/// A logistic regression on which words and pairs of neighbours occur. Deterministic: the texts are gone through in order.
struct BagOfWords {
    features: HashMap<String, usize>,
    /// A row of scores for each feature.
    weights: Vec<f32>,
    classes: usize,
}

const EPOCHS: usize = 12;
const DECAY: f32 = 1e-5;

impl BagOfWords {
    fn fit(texts: &[String], classes: &[usize], count: usize) -> BagOfWords {
        let mut seen: BTreeMap<String, u32> = BTreeMap::new();
        for text in texts {
            features_of(text, |feature| *seen.entry(feature.to_string()).or_default() += 1);
        }
        // What occurs once teaches nothing about others.
        let kept = seen.into_iter().filter(|(_, times)| *times > 1).map(|(feature, _)| feature);
        let features: HashMap<String, usize> =
            kept.enumerate().map(|(at, feature)| (feature, at + 1)).collect();
        let weights = vec![0.0; (features.len() + 1) * count];
        let mut bag = BagOfWords { features, weights, classes: count };
        let rows: Vec<Vec<usize>> = texts.iter().map(|text| bag.row(text)).collect();
        for epoch in 0..EPOCHS {
            let rate = 0.5 / (1.0 + epoch as f32);
            for (row, &class) in rows.iter().zip(classes) {
                let scale = 1.0 / (row.len() as f32).sqrt();
                let mut scores = bag.scores(row, scale);
                let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                scores.iter_mut().for_each(|score| *score = (*score - most).exp());
                let sum: f32 = scores.iter().sum();
                for (at, score) in scores.iter().enumerate() {
                    let error = score / sum - f32::from(u8::from(at == class));
                    for &feature in row {
                        let weight = &mut bag.weights[feature * count + at];
                        *weight -= rate * (error * scale + DECAY * *weight);
                    }
                }
            }
        }
        bag
    }

    /// The features of a text that are known; 0 is one that all have.
    fn row(&self, text: &str) -> Vec<usize> {
        let mut row = vec![0];
        features_of(text, |feature| row.extend(self.features.get(feature)));
        row.sort_unstable();
        row.dedup();
        row
    }

    fn scores(&self, row: &[usize], scale: f32) -> Vec<f32> {
        let score =
            |class: usize| row.iter().map(|at| self.weights[at * self.classes + class]).sum::<f32>() * scale;
        (0..self.classes).map(score).collect()
    }

    fn class(&self, text: &str) -> usize {
        let row = self.row(text);
        let scores = self.scores(&row, 1.0);
        (0..self.classes).max_by(|&a, &b| scores[a].total_cmp(&scores[b]).then(b.cmp(&a))).unwrap_or(0)
    }
}

/// The words of a text, and pairs of neighbours.
fn features_of(text: &str, mut tell: impl FnMut(&str)) {
    let text = text.to_lowercase();
    let words: Vec<&str> =
        text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    words.iter().for_each(|word| tell(word));
    words.windows(2).for_each(|pair| tell(&pair.join(" ")));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_decide_are_found() {
        let labels = Labels::of(["bad", "good"]).unwrap();
        let text = |i: usize, good: bool| {
            format!("film {} was {} indeed", i % 7, if good { "fine" } else { "dull" })
        };
        let texts: Vec<String> = (0..60).map(|i| text(i, i % 3 == 0)).collect();
        let classes: Vec<usize> = (0..60).map(|i| usize::from(i % 3 == 0)).collect();
        let asked: Vec<String> = (60..80).map(|i| text(i, i % 2 == 0)).collect();
        let answers: Vec<usize> = (60..80).map(|i| usize::from(i % 2 == 0)).collect();
        let found = of_texts((&texts, &classes), (&asked, &answers), &labels);
        assert_eq!(found[0], Baseline { name: "always “bad”".into(), metric: "accuracy", value: 0.5 });
        assert_eq!(found[1], Baseline { name: "bag of words".into(), metric: "accuracy", value: 1.0 });
    }
}
