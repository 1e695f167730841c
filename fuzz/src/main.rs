//! One program for every parser: `REGARD_FUZZ` names the format, libFuzzer does the rest. One binary, because
//! building with a sanitizer takes minutes and fifteen of them would take an hour; `fuzz/run` builds and runs
//! it.

#![no_main]

mod formats;
mod scratch;

use formats::{FORMATS, Format};
use libfuzzer_sys::fuzz_target;
use std::sync::OnceLock;

static CHOSEN: OnceLock<Format> = OnceLock::new();

/// The format that was asked for. Without one, all are named.
fn chosen() -> Format {
    // A panic that our own code catches and says in words is no finding; one that comes through to libFuzzer
    // is, and ends the process there. (libFuzzer's own hook would end it at either.) What is caught is not
    // told, either.
    drop(std::panic::take_hook());
    let asked = std::env::var("REGARD_FUZZ").unwrap_or_default();
    match FORMATS.iter().find(|(name, _)| *name == asked) {
        Some((_, format)) => *format,
        None => {
            let known: Vec<&str> = FORMATS.iter().map(|(name, _)| *name).collect();
            eprintln!("REGARD_FUZZ={asked} names no format; give one of {}", known.join(", "));
            std::process::exit(2);
        }
    }
}

fuzz_target!(|bytes: &[u8]| CHOSEN.get_or_init(chosen)(bytes));
