//! What the system says about this machine and this process, read from `/proc`. Every answer is `None` where
//! there is no such thing: nobody may depend on one. And which signals this process passes over.

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

/// What the processor calls itself.
pub fn processor() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    name.map(|(_, name)| name.trim().to_string())
}

/// What the system sends a process, and a program may want to pass over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// The terminal is gone. `nohup` passes it over.
    HangUp,
    /// A file may not grow as large as it is written. Passed over, the write fails with an error that says
    /// so.
    FileTooLarge,
}

impl Signal {
    #[cfg(target_os = "linux")]
    fn number(self) -> i32 {
        match self {
            Signal::HangUp => 1,
            Signal::FileTooLarge => 25,
        }
    }

    /// Whether this process passes it over.
    #[cfg(target_os = "linux")]
    pub fn is_ignored(self) -> bool {
        let Ok(status) = fs::read_to_string("/proc/self/status") else { return false };
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
            .is_some_and(|mask| mask & (1 << (self.number() - 1)) != 0)
    }

    /// Makes this process pass it over from now on.
    #[cfg(target_os = "linux")]
    pub fn ignore(self) {
        unsafe extern "C" {
            fn signal(number: i32, handler: usize) -> usize;
        }
        const SIG_IGN: usize = 1;
        // SAFETY: `signal` of the C library, which every Rust program here links, with one of its numbers;
        // the handler is no function of ours but the word for none.
        unsafe { signal(self.number(), SIG_IGN) };
    }

    /// Whether this process passes it over: nobody knows here.
    #[cfg(not(target_os = "linux"))]
    pub fn is_ignored(self) -> bool {
        false
    }

    /// Nothing, where signals have other numbers or are none.
    #[cfg(not(target_os = "linux"))]
    pub fn ignore(self) {}
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

    #[cfg(target_os = "linux")]
    #[test]
    fn a_signal_can_be_passed_over() {
        assert!(!Signal::FileTooLarge.is_ignored());
        Signal::FileTooLarge.ignore();
        assert!(Signal::FileTooLarge.is_ignored());
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
