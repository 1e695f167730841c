//! How much work planning does, counted where its loops are: tests show by it that the work grows as the
//! graph does, which a clock could not. Outside of this crate's tests nothing is counted.

#[cfg(test)]
thread_local! {
    static STEPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// So many steps were done.
#[cfg(test)]
pub(crate) fn add(steps: usize) {
    STEPS.set(STEPS.get() + steps);
}

/// So many steps were done.
#[cfg(not(test))]
#[inline(always)]
pub(crate) fn add(_: usize) {}

/// The steps that something takes.
#[cfg(test)]
pub(crate) fn of<R>(run: impl FnOnce() -> R) -> (R, usize) {
    let before = STEPS.get();
    let result = run();
    (result, STEPS.get() - before)
}
