//! The package `minijinja` returns errors for most of what a template can do wrong, and panics at some (a
//! slice of nothing with a negative step): here a panic of its is an error, too, and told as nothing else.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

/// Runs a function of the package; nothing if it panicked.
pub(super) fn guarded<T>(run: impl FnOnce() -> T) -> Option<T> {
    thread_local! {
        static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
    }
    // What becomes an error is not told as a panic as well; any other panic is, as before.
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !IS_GUARDED.get() {
                before(panic);
            }
        }));
    });
    let outer = IS_GUARDED.replace(true);
    // What may be left half done is dropped with the closure, or only read.
    let result = catch_unwind(AssertUnwindSafe(run));
    IS_GUARDED.set(outer);
    result.ok()
}
