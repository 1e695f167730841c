//! Ctrl-C, and what else asks a process to end (SIGTERM of a scheduler or a container, SIGHUP of a terminal
//! that is gone): the first one asks for an orderly end, the second one ends at once.

use crate::printer::note;
use anyhow::{Context, Result};
use regard::device::machine::Signal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The flag of this process: a program may run several commands, and a signal has one handler.
static FLAG: Mutex<Option<Arc<AtomicBool>>> = Mutex::new(None);

/// A flag that the first such signal raises; lowered for a new command.
pub fn on_interrupt() -> Result<Arc<AtomicBool>> {
    let mut known = FLAG.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(flag) = &*known {
        flag.store(false, Ordering::SeqCst);
        return Ok(flag.clone());
    }
    // Who began us with nohup wants us to outlive the terminal; the handler would be called all the same.
    let outlives = Signal::HangUp.is_ignored();
    let flag = Arc::new(AtomicBool::new(false));
    let raised = flag.clone();
    ctrlc::set_handler(move || {
        if raised.swap(true, Ordering::SeqCst) {
            std::process::exit(130);
        }
        note("\nending after this step; once more ends at once");
    })
    .context("cannot listen for Ctrl-C")?;
    if outlives {
        Signal::HangUp.ignore();
    }
    *known = Some(flag.clone());
    Ok(flag)
}
