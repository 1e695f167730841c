//! Prints what a model writes as it comes, without what could paint a terminal; and notes, which nobody needs
//! to read.

use std::io::{self, IsTerminal, Write, stderr, stdout};

/// A line on the standard error stream. Whoever closed it does not want to know, and the work goes on.
pub fn note(text: &str) {
    let _ = writeln!(stderr().lock(), "{text}");
}

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
