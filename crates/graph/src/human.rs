//! Numbers for people: three digits and a unit.

/// A count: `999`, `1.50k`, `12.3M`, `1.24G`.
pub(crate) fn count(n: u64) -> String {
    scaled(n, 1000.0, &["", "k", "M", "G", "T", "P", "E"])
}

/// A number of bytes: `64 B`, `1.50 KiB`, `2.00 GiB`.
pub(crate) fn bytes(n: u64) -> String {
    scaled(n, 1024.0, &[" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"])
}

fn scaled(n: u64, base: f64, units: &[&str]) -> String {
    if (n as f64) < base {
        return format!("{n}{}", units[0]);
    }
    let (mut x, mut unit) = (n as f64, 0);
    // 999.5 would print as 1000: it belongs to the next unit.
    while x >= base || (unit > 0 && x >= 999.5) {
        x /= base;
        unit += 1;
    }
    let digits = if x < 9.995 { 2 } else { usize::from(x < 99.95) };
    format!("{x:.digits$}{}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_a_unit() {
        let counts = [0, 999, 1000, 12_345, 999_499, 999_999, 1_500_000_000, u64::MAX].map(count);
        assert_eq!(counts, ["0", "999", "1.00k", "12.3k", "999k", "1.00M", "1.50G", "18.4E"]);
        let sizes = [64, 1023, 1024, 1536, 1 << 31, 1_047_552].map(bytes);
        assert_eq!(sizes, ["64 B", "1023 B", "1.00 KiB", "1.50 KiB", "2.00 GiB", "1.00 MiB"]);
    }
}
