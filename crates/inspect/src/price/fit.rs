//! Times as sums of a few amounts of work, each at a rate of its own: the rates that come nearest to what was measured, none
//! below zero. Errors count relative to the measured time, so that a node of a microsecond says as much as one of a second,
//! and one that was disturbed, and looks too long, pulls but little.

/// How many amounts a time is a sum of.
pub const TERMS: usize = 4;

/// Turns of the search; a handful of numbers is still after some hundreds.
const TURNS: usize = 2000;

/// The rates that make the sums of the amounts nearest to the times. Minimises Σ (Σ rate · amount / time − 1)² over rates
/// that are not negative, one rate at a time, round and round.
pub fn rates(samples: &[([f64; TERMS], f64)]) -> [f64; TERMS] {
    let mut squares = [[0.0; TERMS]; TERMS];
    let mut sums = [0.0; TERMS];
    for (amounts, time) in samples {
        let parts = amounts.map(|amount| amount / time.max(1.0));
        for i in 0..TERMS {
            sums[i] += parts[i];
            for j in 0..TERMS {
                squares[i][j] += parts[i] * parts[j];
            }
        }
    }
    let mut rates = [0.0; TERMS];
    for _ in 0..TURNS {
        for i in 0..TERMS {
            if squares[i][i] > 0.0 {
                let others: f64 = (0..TERMS).filter(|&j| j != i).map(|j| squares[i][j] * rates[j]).sum();
                rates[i] = f64::max((sums[i] - others) / squares[i][i], 0.0);
            }
        }
    }
    rates
}

/// The sum at these rates.
pub fn sum(rates: &[f64; TERMS], amounts: &[f64; TERMS]) -> f64 {
    rates.iter().zip(amounts).map(|(rate, amount)| rate * amount).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_found_again() {
        let wanted = [700.0, 1.25, 0.0, 3.0];
        let samples: Vec<_> = (0..24)
            .map(|i| {
                let x = f64::from(i);
                let amounts = [1.0, 10f64.powf(x / 4.0), x * x, 50.0 * (x + 1.0) * f64::from(i % 3)];
                (amounts, sum(&wanted, &amounts))
            })
            .collect();
        for (found, wanted) in rates(&samples).iter().zip(wanted) {
            assert!((found - wanted).abs() <= 1e-3 * wanted.max(1.0), "{found} for {wanted}");
        }
    }

    #[test]
    fn what_was_disturbed_pulls_but_little() {
        let mut samples: Vec<_> =
            (1..20).map(|i| ([0.0, f64::from(i), 0.0, 0.0], 2.0 * f64::from(i))).collect();
        samples.push(([0.0, 10.0, 0.0, 0.0], 2000.0));
        let found = rates(&samples)[1];
        assert!((1.9..2.1).contains(&found), "{found}");
        assert_eq!(rates(&[]), [0.0; TERMS]);
    }
}
