//! Questions to a recorded model, whichever it is: can later positions be seen, and where does that begin ([`prove()`]);
//! do two ways to the same answer agree, and if not, from which node on ([`audit`]). Everything here works on graphs, stores
//! and names of values; no model is named.

#![forbid(unsafe_code)]

pub mod audit;
mod chance;
mod error;
mod prove;
mod sight;

pub use chance::{Chance, chances};
pub use error::{Error, Result};
pub use prove::{Case, Finding, Guilty, Promise, Stream, prove};
pub use sight::{Sight, sight};
