//! Vectors of texts learned by comparison: which encoder, pairs out of files, and how well the second text of
//! a pair is found by the first among all seconds.

use crate::language::Recipe;
use crate::{Error, Result};
use regard_data::dataset::{Format, Table};
use regard_models::{Contrastive, Model};
use regard_runtime::sentence_pooling;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What cosines are divided by, if a recipe does not say.
const TEMPERATURE: f32 = 0.05;

/// An encoder that learns by comparison, by the pooling of its folder.
pub(super) fn model(inner: Arc<dyn Model>, recipe: &Recipe, folder: Option<&Path>) -> Result<Arc<dyn Model>> {
    let pooling = folder.map(sentence_pooling).transpose()?.unwrap_or_default();
    let temperature = recipe.train.temperature.unwrap_or(TEMPERATURE);
    Ok(Arc::new(Contrastive::new(inner, pooling, temperature)?))
}

/// The pairs of files: the first two columns, or those that are named.
pub(super) fn read(files: &[PathBuf], named: &[String]) -> Result<Vec<(String, String)>> {
    let mut all = Vec::new();
    for path in files {
        let format = Format::of(path).unwrap_or(Format::Tsv);
        let table = Table::open(path, format, !named.is_empty())?;
        let [first, second] = match named {
            [first, second] => [table.column(first)?, table.column(second)?],
            [] if format == Format::Jsonl => [table.column("anchor")?, table.column("positive")?],
            [] => [table.column_at(0)?, table.column_at(1)?],
            other => {
                let what = format!("data.columns has {} names", other.len());
                return Err(Error::invalid(what, "give two: those of the two texts that belong together"));
            }
        };
        for row in 0..first.len() {
            let (one, two) = (first.get(row)?.into_owned(), second.get(row)?.into_owned());
            if one.trim().is_empty() || two.trim().is_empty() {
                let place = format!("{}:{}", path.display(), row + 1);
                return Err(Error::at(
                    &place,
                    "a text of the pair is empty",
                    "give both words, or leave it out",
                ));
            }
            all.push((one, two));
        }
    }
    Ok(all)
}

/// How often the second text is the nearest of all to its first, and the mean of one over its rank. Of equal
/// ones the pair's own counts last.
pub(super) fn retrieval(first: &[Vec<f32>], second: &[Vec<f32>]) -> (f64, f64) {
    let (mut right, mut sum) = (0usize, 0.0);
    for (at, vector) in first.iter().enumerate() {
        let likeness = |other: &Vec<f32>| -> f64 {
            vector.iter().zip(other).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
        };
        let own = likeness(&second[at]);
        let before =
            second.iter().enumerate().filter(|(other, vector)| *other != at && likeness(vector) >= own);
        let rank = before.count() + 1;
        right += usize::from(rank == 1);
        sum += 1.0 / rank as f64;
    }
    let count = first.len().max(1) as f64;
    (right as f64 / count, sum / count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_counted() {
        let [x, y] = [vec![1.0, 0.0], vec![0.0, 1.0]];
        assert_eq!(retrieval(&[x.clone(), y.clone()], &[x.clone(), y.clone()]), (1.0, 1.0));
        assert_eq!(retrieval(&[x.clone(), y.clone()], &[y.clone(), x.clone()]), (0.0, 0.5));
        // Two that are the same are no answer.
        assert_eq!(retrieval(&[x.clone(), y], &[x.clone(), x]), (0.0, 0.5));
    }
}
