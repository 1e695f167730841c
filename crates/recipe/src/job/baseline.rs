//! Simple methods on the same data, so that a result can be read: what a model should beat. All of them are
//! deterministic, and learn from the training part alone.

use super::examples::Examples;
use super::read::Raw;
use crate::Result;
use regard_evaluate::Bleu;
use std::collections::{BTreeMap, HashMap};

/// A simple method and what it comes to.
#[derive(Clone, Debug, PartialEq)]
pub struct Baseline {
    /// What it does.
    pub name: String,
    /// The metric that it is compared by.
    pub metric: String,
    /// Its value.
    pub value: f64,
}

/// The baselines of an examination.
pub(super) fn baselines(
    train: &Raw,
    exam: &Raw,
    ids: (&Examples, &Examples),
    vocabulary: usize,
) -> Result<Vec<Baseline>> {
    let one =
        |name: &str, metric: &str, value: f64| Baseline { name: name.into(), metric: metric.into(), value };
    Ok(match (train, exam) {
        (Raw::Classes(train), Raw::Classes(exam)) => vec![
            one(
                "the most frequent class",
                "accuracy",
                most_frequent(train.iter().map(|(_, class)| *class), exam.iter().map(|(_, class)| *class)),
            ),
            one("bag of words, logistic regression", "accuracy", bag_of_words(train, exam)),
        ],
        (Raw::Images(train, rows), Raw::Images(exam, asked)) => {
            let frequent = most_frequent(
                rows.iter().map(|&row| train.label(row)),
                asked.iter().map(|&row| exam.label(row)),
            );
            let nearest = nearest_mean(
                rows.iter().map(|&row| (train.pixels(row), train.label(row))),
                asked.iter().map(|&row| (exam.pixels(row), exam.label(row))),
            );
            vec![
                one("the most frequent class", "accuracy", frequent),
                one("the nearest mean image", "accuracy", nearest),
            ]
        }
        (Raw::Pairs(_), Raw::Pairs(exam)) => {
            let copied: Vec<&str> = exam.iter().map(|(source, _)| source.as_str()).collect();
            let right: Vec<Vec<&str>> = exam.iter().map(|(_, target)| vec![target.as_str()]).collect();
            vec![one("the source as it is", "bleu", Bleu::default().corpus(&copied, &right)?.score)]
        }
        (Raw::Questions(train), Raw::Questions(exam)) => {
            let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
            train.iter().for_each(|(_, place)| *counts.entry(place).or_default() += 1);
            let best = counts.iter().fold(
                ("", 0),
                |best, (place, &count)| {
                    if count > best.1 { (place, count) } else { best }
                },
            );
            let right = exam.iter().filter(|(_, place)| place == best.0).count();
            let name = format!("always {}", best.0);
            vec![one(&name, "exact", right as f64 / exam.len().max(1) as f64)]
        }
        (Raw::Chats(..), Raw::Chats(..)) => match (ids.0.said(), ids.1.said()) {
            (Some(train), Some(exam)) => {
                vec![one("tokens of replies, counted", "loss", counted_tokens(train, exam, vocabulary))]
            }
            _ => Vec::new(),
        },
        (Raw::Text(_), Raw::Text(_)) => match (ids.0.text(), ids.1.text()) {
            (Some(train), Some(exam)) if vocabulary <= MOST_PAIRS => {
                vec![one("pairs of tokens, counted", "loss", pairs_of_tokens(train, exam, vocabulary))]
            }
            _ => Vec::new(),
        },
        _ => Vec::new(),
    })
}

/// The mean surprise at tokens, each as likely as it was often, once more than it was.
fn counted_tokens(
    train: impl Iterator<Item = i32>,
    exam: impl Iterator<Item = i32>,
    vocabulary: usize,
) -> f64 {
    let (mut counts, mut all) = (vec![1u64; vocabulary.max(1)], vocabulary.max(1) as u64);
    for id in train {
        if let Some(count) = usize::try_from(id).ok().and_then(|id| counts.get_mut(id)) {
            *count += 1;
            all += 1;
        }
    }
    let (mut sum, mut tokens) = (0.0, 0usize);
    for id in exam {
        let count = usize::try_from(id).ok().and_then(|id| counts.get(id)).copied().unwrap_or(1);
        sum -= (count as f64 / all as f64).ln();
        tokens += 1;
    }
    sum / tokens.max(1) as f64
}

/// The most tokens of which all pairs are counted.
const MOST_PAIRS: usize = 2000;

/// The class that training has most often, the lowest of several.
fn most_frequent(train: impl Iterator<Item = usize>, exam: impl Iterator<Item = usize>) -> f64 {
    let mut counts: Vec<usize> = Vec::new();
    for class in train {
        if class >= counts.len() {
            counts.resize(class + 1, 0);
        }
        counts[class] += 1;
    }
    let mut best = 0;
    for (class, count) in counts.iter().enumerate() {
        if *count > counts[best] {
            best = class;
        }
    }
    let (mut right, mut all) = (0usize, 0usize);
    for class in exam {
        right += usize::from(class == best);
        all += 1;
    }
    right as f64 / all.max(1) as f64
}

/// Logistic regression on which words and pairs of words a text has: AdaGrad over the examples in their
/// order, with a little decay.
fn bag_of_words(train: &[(String, usize)], exam: &[(String, usize)]) -> f64 {
    const EPOCHS: usize = 20;
    const RATE: f32 = 0.3;
    const DECAY: f32 = 1e-4;
    let classes = train.iter().map(|(_, class)| class + 1).max().unwrap_or(1);
    let mut places: HashMap<String, usize> = HashMap::new();
    let bags: Vec<Vec<usize>> = train
        .iter()
        .map(|(text, _)| {
            let words = words(text);
            let bag = words.into_iter().map(|word| {
                let next = places.len();
                *places.entry(word).or_insert(next)
            });
            distinct(bag.collect())
        })
        .collect();
    // A weight for each word and class; the last word is in every text.
    let mut weights = vec![0.0f32; (places.len() + 1) * classes];
    let mut squares = vec![1e-6f32; weights.len()];
    let always = places.len();
    let scores = |bag: &[usize], weights: &[f32]| -> Vec<f32> {
        let of = |class: usize| {
            bag.iter().chain([&always]).map(|&word| weights[word * classes + class]).sum::<f32>()
        };
        (0..classes).map(of).collect()
    };
    for _ in 0..EPOCHS {
        for (bag, (_, right)) in bags.iter().zip(train) {
            let chances = regard_runtime::probabilities(&scores(bag, &weights));
            for &word in bag.iter().chain([&always]) {
                for (class, chance) in chances.iter().enumerate() {
                    let at = word * classes + class;
                    let wrong = *chance as f32 - f32::from(u8::from(class == *right));
                    let slope = wrong + DECAY * weights[at];
                    squares[at] += slope * slope;
                    weights[at] -= RATE * slope / squares[at].sqrt();
                }
            }
        }
    }
    let right = exam.iter().filter(|(text, class)| {
        let bag = distinct(words(text).iter().filter_map(|word| places.get(word).copied()).collect());
        regard_generate::highest(&scores(&bag, &weights)) == Some(*class)
    });
    right.count() as f64 / exam.len().max(1) as f64
}

/// The words of a text in small letters, and each two that follow each other.
fn words(text: &str) -> Vec<String> {
    let single: Vec<String> = text
        .split(|c: char| !c.is_alphanumeric() && c != '\'')
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    let pairs: Vec<String> = single.windows(2).map(|two| two.join(" ")).collect();
    single.into_iter().chain(pairs).collect()
}

fn distinct(mut bag: Vec<usize>) -> Vec<usize> {
    bag.sort_unstable();
    bag.dedup();
    bag
}

/// The class whose mean image is nearest.
fn nearest_mean<'a>(
    train: impl Iterator<Item = (&'a [u8], usize)>,
    exam: impl Iterator<Item = (&'a [u8], usize)>,
) -> f64 {
    let mut sums: Vec<(Vec<f64>, f64)> = Vec::new();
    for (pixels, class) in train {
        if class >= sums.len() {
            sums.resize(class + 1, (vec![0.0; pixels.len()], 0.0));
        }
        sums[class].0.iter_mut().zip(pixels).for_each(|(sum, &byte)| *sum += f64::from(byte));
        sums[class].1 += 1.0;
    }
    let means: Vec<Option<Vec<f64>>> = sums
        .into_iter()
        .map(|(sum, count)| (count > 0.0).then(|| sum.into_iter().map(|sum| sum / count).collect()))
        .collect();
    let (mut right, mut all) = (0usize, 0usize);
    for (pixels, class) in exam {
        let apart = |mean: &Vec<f64>| -> f64 {
            mean.iter().zip(pixels).map(|(mean, &byte)| (mean - f64::from(byte)).powi(2)).sum()
        };
        let mut best = (f64::INFINITY, 0);
        for (class, mean) in means.iter().enumerate() {
            if let Some(apart) = mean.as_ref().map(apart).filter(|apart| *apart < best.0) {
                best = (apart, class);
            }
        }
        right += usize::from(best.1 == class);
        all += 1;
    }
    right as f64 / all.max(1) as f64
}

/// The mean loss of a model that knows how often each token follows each other, counted in the training text
/// with a hundredth added to every pair.
fn pairs_of_tokens(train: &[u32], exam: &[u32], vocabulary: usize) -> f64 {
    const ADDED: f64 = 0.01;
    let mut counts = vec![0u32; vocabulary * vocabulary];
    let mut sums = vec![0u64; vocabulary];
    let pair = |two: &[u32]| (two[0] as usize, two[1] as usize);
    for (first, second) in train.windows(2).map(pair).filter(|(a, b)| *a.max(b) < vocabulary) {
        counts[first * vocabulary + second] += 1;
        sums[first] += 1;
    }
    let mut loss = 0.0;
    for (first, second) in exam.windows(2).map(pair).filter(|(a, b)| *a.max(b) < vocabulary) {
        let count = f64::from(counts[first * vocabulary + second]) + ADDED;
        loss -= (count / (sums[first] as f64 + ADDED * vocabulary as f64)).ln();
    }
    loss / (exam.len().saturating_sub(1)).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_class_is_that_of_training() {
        assert_eq!(most_frequent([1, 1, 0].into_iter(), [1, 0, 0, 0].into_iter()), 0.25);
        assert_eq!(most_frequent([1, 0].into_iter(), [0, 0].into_iter()), 1.0, "the lowest of equals");
    }

    #[test]
    fn words_are_learned() {
        let text = |text: &str, class| (text.to_string(), class);
        let train = [text("a good film", 1), text("a bad film", 0), text("Good fun", 1), text("bad, bad", 0)];
        let exam = [text("good", 1), text("bad", 0), text("film good", 1), text("nothing known, bad", 0)];
        assert_eq!(bag_of_words(&train, &exam), 1.0);
    }

    #[test]
    fn the_nearest_mean_is_found() {
        let train: [(&[u8], usize); 3] = [(&[0, 0], 0), (&[10, 0], 0), (&[200, 255], 1)];
        let exam: [(&[u8], usize); 3] = [(&[20, 20], 0), (&[255, 255], 1), (&[255, 200], 0)];
        assert_eq!(nearest_mean(train.into_iter(), exam.into_iter()), 2.0 / 3.0);
    }

    #[test]
    fn pairs_are_counted() {
        // After 0 comes 1 always, after 1 half of the time 0.
        let train = [0, 1, 0, 1, 1, 0, 1, 1];
        let loss = pairs_of_tokens(&train, &[0, 1], 2);
        assert!((loss - -(3.01f64 / 3.02).ln()).abs() < 1e-12, "{loss}");
    }
}
