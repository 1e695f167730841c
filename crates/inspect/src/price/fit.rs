//! Times as sums of a few amounts of work, each at a rate of its own: the rates that come nearest to what was
//! measured, none below zero. Errors count relative to the measured time, so that a node of a microsecond
//! says as much as one of a second, and one that was disturbed, and looks too long, pulls but little. Amounts
//! often grow together, as an op that adds has as much to read as to add: which of two rates it is then hangs
//! on noise, and other sizes would be priced by chance. So rates are expected to be like others, but not so
//! firmly that samples which tell them apart would not be believed.

/// How many amounts a time is a sum of.
pub const TERMS: usize = 4;

/// What is expected weighs as much as this part of a sample.
const EXPECTED: f64 = 0.3;

/// Turns of the search; a handful of numbers is still after some hundreds.
const TURNS: usize = 2000;

/// The rates that make the sums of the amounts nearest to the times, and are like the expected ones.
/// Minimises Σ (Σ rate · amount / time − 1)² over samples, and beside it w Σ (rate − expected)² · (amount /
/// time)² over amounts, the last square a mean over samples, for rates that are not negative, one rate at a
/// time, round and round. Amounts that no sample has are at the expected rate.
pub fn rates(samples: &[([f64; TERMS], f64)], expected: &[f64; TERMS]) -> [f64; TERMS] {
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
    for i in 0..TERMS {
        let firm = EXPECTED * squares[i][i] / samples.len().max(1) as f64;
        squares[i][i] += firm;
        sums[i] += firm * expected[i];
    }
    let mut rates = *expected;
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
        let samples: Vec<_> = (0..240)
            .map(|i| {
                let x = f64::from(i / 10);
                let amounts = [1.0, 10f64.powf(x / 4.0), x * x, 50.0 * (x + 1.0) * f64::from(i % 3)];
                (amounts, sum(&wanted, &amounts))
            })
            .collect();
        // What is expected pulls, but little beside so many samples.
        for (found, wanted) in rates(&samples, &[0.0, 1.0, 1.0, 1.0]).iter().zip(wanted) {
            assert!((found - wanted).abs() <= 0.1 * wanted.max(1.0), "{found} for {wanted}");
        }
        for (found, wanted) in rates(&samples, &wanted).iter().zip(wanted) {
            assert!((found - wanted).abs() <= 1e-3 * wanted.max(1.0), "{found} for {wanted}");
        }
    }

    #[test]
    fn what_was_disturbed_pulls_but_little() {
        let mut samples: Vec<_> =
            (1..20).map(|i| ([0.0, f64::from(i), 0.0, 0.0], 2.0 * f64::from(i))).collect();
        samples.push(([0.0, 10.0, 0.0, 0.0], 2000.0));
        let found = rates(&samples, &[0.0, 2.0, 5.0, 0.0]);
        assert!((1.9..2.1).contains(&found[1]), "{found:?}");
        assert_eq!(found[2], 5.0, "nothing was measured of it");
        assert_eq!(rates(&[], &[1.0; TERMS]), [1.0; TERMS]);
    }

    #[test]
    fn amounts_that_grow_together_share_as_expected() {
        // Twice as much to read as to add, every time: 4 in all, and nothing tells of which.
        let samples: Vec<_> =
            (1..30).map(|i| ([0.0, f64::from(i), 0.0, f64::from(2 * i)], 4.0 * f64::from(i))).collect();
        let found = rates(&samples, &[0.0, 1.0, 1.0, 1.0]);
        assert!((found[1] - 1.5).abs() < 0.01 && (found[3] - 1.25).abs() < 0.01, "{found:?}");
    }
}
