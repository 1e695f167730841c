//! Ctrl-C: the first one asks for an orderly end, the second one ends at once.

use anyhow::{Context, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The flag of this process: a program may run several commands, and a signal has one handler.
static FLAG: Mutex<Option<Arc<AtomicBool>>> = Mutex::new(None);

/// A flag that the first Ctrl-C raises; lowered for a new command.
pub fn on_interrupt() -> Result<Arc<AtomicBool>> {
    let mut known = FLAG.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(flag) = &*known {
        flag.store(false, Ordering::SeqCst);
        return Ok(flag.clone());
    }
    let flag = Arc::new(AtomicBool::new(false));
    let raised = flag.clone();
    ctrlc::set_handler(move || {
        if raised.swap(true, Ordering::SeqCst) {
            std::process::exit(130);
        }
        eprintln!("\nending after this step; once more ends at once");
    })
    .context("cannot listen for Ctrl-C")?;
    *known = Some(flag.clone());
    Ok(flag)
}
