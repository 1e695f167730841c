//! Numbers as people write them.

/// Four digits, and a power of ten where it is far from 1.
///
/// ```
/// use regard_picture::figure;
///
/// assert_eq!([figure(0.001835), figure(-2.5), figure(2.5e-9)], ["0.001835", "−2.5", "2.5e−9"]);
/// ```
pub fn figure(x: f64) -> String {
    if x == 0.0 {
        return "0".into();
    }
    if !x.is_finite() {
        return match (x.is_nan(), x > 0.0) {
            (true, _) => "NaN".into(),
            (_, true) => "∞".into(),
            (_, false) => "−∞".into(),
        };
    }
    let size = x.abs().log10().floor();
    let text = match (-4.0..5.0).contains(&size) {
        true => without_zeros(format!("{x:.*}", (3.0 - size).max(0.0) as usize)),
        false => scientific(x, 3),
    };
    text.replace('-', "−")
}

/// A tick among others that are `step` apart: as many decimals as tell neighbours apart, in the shorter of
/// the two ways.
pub(crate) fn tick(x: f64, step: f64) -> String {
    if x == 0.0 {
        return "0".into();
    }
    // A step is 1, 2 or 5 times a power of ten, whose logarithm may come out a hair below the whole number.
    let last = (step.log10() + 1e-9).floor() as i32;
    let first = x.abs().log10().floor() as i32;
    let powers = scientific(x, (first - last).clamp(0, 17) as usize);
    let plain = format!("{x:.*}", last.min(0).unsigned_abs().min(340) as usize);
    let plain = if plain.len() <= 24 { without_zeros(plain) } else { plain };
    let crowded = plain.trim_start_matches('-').len() > 6 && powers.len() < plain.len();
    (if crowded { powers } else { plain }).replace('-', "−")
}

fn scientific(x: f64, digits: usize) -> String {
    let text = format!("{x:.digits$e}");
    let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
    format!("{}e{power}", without_zeros(digits.into()))
}

fn without_zeros(text: String) -> String {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}

/// 1234567 as 1,234,567.
///
/// ```
/// assert_eq!(regard_picture::grouped(1_234_567), "1,234,567");
/// ```
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A number of bytes.
///
/// ```
/// assert_eq!(regard_picture::bytes(3 << 30), "3.0 GiB");
/// ```
pub fn bytes(n: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(unit, _)| n >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", n as f64 / unit as f64),
        None => format!("{n} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        let cases = [
            (0.0, "0"),
            (0.001835, "0.001835"),
            (-2.5, "−2.5"),
            (1234.0, "1234"),
            (2.5e-9, "2.5e−9"),
            (123456.0, "1.235e5"),
            (f64::NEG_INFINITY, "−∞"),
            (f64::NAN, "NaN"),
            (1.0, "1"),
            (100.0, "100"),
            (f64::MAX, "1.798e308"),
        ];
        for (x, text) in cases {
            assert_eq!(figure(x), text);
        }
        assert_eq!([0, 999, 1000].map(grouped), ["0", "999", "1,000"]);
        assert_eq!([1000, 1 << 20].map(bytes), ["1000 bytes", "1.0 MiB"]);
    }

    #[test]
    fn ticks_tell_neighbours_apart() {
        assert_eq!([tick(100.2, 0.2), tick(100.0, 0.2), tick(-0.05, 0.05)], ["100.2", "100", "−0.05"]);
        assert_eq!([tick(200_000.0, 1e5), tick(2e9, 1e9), tick(2e-7, 1e-7)], ["200000", "2e9", "2e−7"]);
        assert_eq!(tick(1_000_001.0, 1.0), "1000001");
        assert_eq!(tick(0.3 + 0.3 + 0.3, 0.1), "0.9");
    }
}
