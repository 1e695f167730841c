//! Perplexity: how many equally likely tokens the model was in doubt between.

use crate::{Error, Result};

/// exp(loss / count), of losses in nats summed over `count` targets.
pub fn perplexity(summed_loss: f64, count: u64) -> Result<f64> {
    if count == 0 {
        return Err(Error::invalid("perplexity", "there are no targets", "give at least one"));
    }
    if !summed_loss.is_finite() {
        let what = format!("the summed loss is {summed_loss}");
        return Err(Error::invalid("perplexity", what, "look for the first batch whose loss is no number"));
    }
    Ok((summed_loss / count as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fair_die_has_six() {
        let loss = 10.0 * 6f64.ln();
        assert!((perplexity(loss, 10).unwrap() - 6.0).abs() < 1e-12);
        assert_eq!(perplexity(0.0, 3), Ok(1.0));
    }

    #[test]
    fn nothing_has_none() {
        assert_eq!(
            perplexity(0.0, 0).unwrap_err().to_string(),
            "perplexity: there are no targets; give at least one"
        );
        assert_eq!(
            perplexity(f64::NAN, 1).unwrap_err().to_string(),
            "perplexity: the summed loss is NaN; look for the first batch whose loss is no number"
        );
    }
}
