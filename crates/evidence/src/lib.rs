//! Retrieved or made up? An [`Index`] of the text that a model learned from says where every string of an
//! answer stands in it; [`trace`] shows which parts of a text are copied; [`judge`] holds an answer against
//! the lines about the subject of its question: supported, contradicted, no evidence, with the line.
//! [`Calibration`] makes a confidence mean something, and [`Threshold`] chooses from which confidence on to
//! answer, so that errors stay within a budget with a guarantee for finite samples.
//!
//! ```
//! use regard_evidence::{Index, Settings, Verdict, judge};
//!
//! let folder = std::env::temp_dir().join(format!("regard-evidence-doc-{}", std::process::id()));
//! std::fs::create_dir_all(&folder).unwrap();
//! let text = folder.join("text.txt");
//! std::fs::write(&text, "Ada Byron was born in London.\nMary Naylor was a writer.\n").unwrap();
//! Index::build(&[text], folder.join("text.index"), &Settings::default(), &mut |_| {})?;
//!
//! let index = Index::open(folder.join("text.index"))?;
//! assert_eq!(index.find("was ")?.count(), 2);
//! let judged = judge(&index, "Where was Ada Byron born?", None, "London")?;
//! assert_eq!(judged.verdict, Verdict::Supported);
//! assert_eq!(judged.lines[0].line.place.line, 1);
//! # std::fs::remove_dir_all(&folder).ok();
//! # Ok::<(), regard_evidence::Error>(())
//! ```

#![forbid(unsafe_code)]

mod abstention;
mod binomial;
mod calibration;
mod error;
mod index;
mod judge;
mod kept;
mod matching;
mod reliability;
mod subject;
mod trace;
mod words;

pub use abstention::{Budget, Threshold};
pub use binomial::{at_most, lower_bound, upper_bound};
pub use calibration::{Calibration, Example, Isotonic};
pub use error::{Error, Result};
pub use index::{Found, Index, Line, Place, Settings, SourceFile, Stale};
pub use judge::{Evidence, Judgement, Verdict, judge, lines_about};
pub use kept::{Kept, Stamp};
pub use matching::Match;
pub use reliability::{Bin, Interval, Scored, area_above, calibration_error, reliability, risk_coverage};
pub use subject::{Subject, subject};
pub use trace::{Novelty, Rule, Span, Trace, trace};
pub use words::{Word, folded, words};
