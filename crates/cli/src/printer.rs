//! Prints what a model writes as it comes, without what could paint a terminal.

use std::io::{self, IsTerminal, Write, stdout};

/// Prints text as it comes; a quiet one prints nothing.
pub struct Printer {
    quiet: bool,
    terminal: bool,
}

impl Printer {
    /// A printer to standard output.
    pub fn new(quiet: bool) -> Printer {
        Printer { quiet, terminal: stdout().is_terminal() }
    }

    /// Prints text, at once.
    pub fn write(&self, text: &str) -> io::Result<()> {
        if self.quiet || text.is_empty() {
            return Ok(());
        }
        let mut out = stdout().lock();
        if self.terminal {
            // A model may have learned to paint terminals.
            let plain = |c: char| if c.is_control() && !"\n\t".contains(c) { '\u{fffd}' } else { c };
            write!(out, "{}", text.chars().map(plain).collect::<String>())?;
        } else {
            write!(out, "{text}")?;
        }
        out.flush()
    }
}
