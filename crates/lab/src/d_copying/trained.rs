//! How diffuse the weights of trained heads are, beside those of random queries and keys.

use crate::experiment::{
    INDUCTION, INDUCTION_LENGTH, carries, each_seed, induction, mean, number, over_seeds, patterns,
};
use crate::picture::{Axis, Chart, figure};
use crate::statistics::histogram;
use crate::{Context, Finding};
use regard::Result;

/// D3: entropies of random and of trained weights.
pub fn diffuse(context: &Context) -> Result<Finding> {
    let random = super::copy::diffuse(context)?;
    let n = INDUCTION_LENGTH;
    let entropy = |weights: &[f64]| -weights.iter().filter(|w| **w > 0.0).map(|w| w * w.ln()).sum::<f64>();
    let all = each_seed(context, |seed| {
        let mut trained = induction(context, seed)?;
        let batch = INDUCTION.batch(&mut Context { seed: seed + 1, ..*context }.draws("D3.batch"), 64, n);
        let mut own = vec![];
        for (pattern, _) in patterns(context, &trained.model, &mut trained.learned, &batch)? {
            for head in 0..pattern.heads {
                // As a share of the most that so many keys allow.
                let rows = pattern.queries(head).filter(|(query, _)| *query >= n / 2);
                own.extend(rows.map(|(query, weights)| entropy(weights) / (query as f64 + 1.0).ln()));
            }
        }
        Ok(own)
    })?;
    let means: Vec<f64> = all.iter().map(|own| mean(own)).collect();
    let summary = format!(
        "{} Trained heads: {} of the largest entropy in the mean. {}",
        random.summary,
        figure(over_seeds(&means).value),
        carries(context)
    );
    let how = format!(
        "{} The heads of a model of two layers trained on repeating sequences (E-7), queries of the second half.",
        random.how
    );
    Ok(Finding { summary, ..random }
        .seeds(means.len())
        .number(number("trained heads: mean entropy as a share of ln of the keys", &means))
        .picture(
            Chart::new(
                "Entropy of trained heads",
                Axis::new("entropy / ln of the keys").covering(&[0.0, 1.0]),
                Axis::new("share"),
            )
            .bars("", histogram(&all[0], 0.0, 1.0, 25)),
        )
        .how(how))
}
