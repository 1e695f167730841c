//! The `regard` command with the families of the library.

use regard_models::Registry;
use std::process::ExitCode;

fn main() -> ExitCode {
    regard_cli::run(&Registry::standard())
}
