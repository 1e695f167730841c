//! What the system says about this machine and this process, read from `/proc`. Every answer is `None` where
//! there is no such thing: nobody may depend on one.

use std::fs;

/// Bytes that can be taken without pushing others out.
pub fn memory_available() -> Option<u64> {
    bytes_of(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable")
}

/// Bytes that this process holds.
pub fn resident() -> Option<u64> {
    status("VmRSS")
}

/// Bytes that this process holds beside mapped files.
pub fn resident_anonymous() -> Option<u64> {
    status("RssAnon")
}

/// The most bytes that this process ever held, or held since [`reset_peak`].
pub fn peak() -> Option<u64> {
    status("VmHWM")
}

/// Makes the peak begin anew; false where that is not permitted.
pub fn reset_peak() -> bool {
    fs::write("/proc/self/clear_refs", "5").is_ok()
}

/// Nanoseconds that this thread has waited for a core so far.
pub fn waited() -> Option<f64> {
    second(&fs::read_to_string("/proc/thread-self/schedstat").ok()?)
}

fn status(name: &str) -> Option<u64> {
    bytes_of(&fs::read_to_string("/proc/self/status").ok()?, name)
}

/// A line `name: 123 kB` in bytes.
fn bytes_of(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The second number of a line: before it stands how long the thread ran, behind it how often.
fn second(line: &str) -> Option<f64> {
    line.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_is_read_as_it_writes() {
        let text = "MemTotal:  100 kB\nMemAvailable:   24000 kB\nMemAvailableToo: 1 kB\n";
        assert_eq!(bytes_of(text, "MemAvailable"), Some(24_000 * 1024));
        assert_eq!((bytes_of(text, "MemFree"), bytes_of(text, "Mem")), (None, None));
        assert_eq!(bytes_of("MemAvailable: many", "MemAvailable"), None);
        assert_eq!(bytes_of("VmRSS: 99999999999999999999 kB", "VmRSS"), None);
        assert_eq!(bytes_of("VmRSS: 18446744073709551615 kB", "VmRSS"), None);
        assert_eq!((second("12 34 5\n"), second(""), second("1 x 2")), (Some(34.0), None, None));
    }

    #[test]
    fn what_is_told_fits_together() {
        let (Some(anonymous), Some(now), Some(most)) = (resident_anonymous(), resident(), peak()) else {
            println!("skipped: /proc/self/status does not tell the memory of this process here");
            return;
        };
        assert!(0 < anonymous && anonymous <= now && now <= most, "{anonymous} {now} {most}");
    }
}
