//! Threads that come late. Whoever calls works at once; the other threads have to be woken, which takes a
//! while, and far longer where somebody else has their cores. A small kernel is over before they come, a
//! large one takes hardly longer for it, and no rate can say that: so times are told from what they would be
//! if all threads had been there from the start.

/// How late the other threads come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Late {
    /// How many there are, the caller counted.
    pub threads: f64,
    /// Nanoseconds that the caller works alone.
    pub alone: f64,
}

impl Late {
    /// What is worth trying: nanoseconds from none to half a millisecond, each half as many again as the one
    /// before.
    pub fn tried(threads: usize) -> impl Iterator<Item = Late> {
        let steps = if threads == 1 { 0 } else { 14 };
        let waits = (0..steps).map(|step| 2000.0 * 1.5f64.powi(step));
        std::iter::once(0.0).chain(waits).map(move |alone| Late { threads: threads as f64, alone })
    }

    /// What something takes that would take so long with all threads from the start.
    pub fn late(self, together: f64) -> f64 {
        (self.threads * together).min(together + self.lost())
    }

    /// What something would take with all threads from the start, that takes so long.
    pub fn together(self, late: f64) -> f64 {
        (late / self.threads).max(late - self.lost())
    }

    /// While the caller is alone, only its own share is done.
    fn lost(self) -> f64 {
        self.alone * (1.0 - 1.0 / self.threads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_things_are_done_alone_and_large_ones_take_a_little_longer() {
        let late = Late { threads: 4.0, alone: 1000.0 };
        assert_eq!(late.late(100.0), 400.0, "over before anybody comes");
        assert_eq!(late.late(10_000.0), 10_750.0, "a quarter was done in the first 1000");
        assert_eq!(late.late(250.0), 1000.0);
        for together in [0.0, 1.0, 249.0, 251.0, 1e6] {
            assert!((late.together(late.late(together)) - together).abs() < 1e-9, "{together}");
        }
        let never = Late { threads: 1.0, alone: 0.0 };
        assert_eq!((never.late(7.0), never.together(7.0)), (7.0, 7.0));
        assert_eq!(Late::tried(1).collect::<Vec<_>>(), [never]);
        assert!(Late::tried(2).all(|late| late.threads == 2.0 && late.alone < 6e5));
    }
}
