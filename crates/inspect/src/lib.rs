//! Questions to a recorded model, whichever it is: can later positions be seen, and where does that begin
//! ([`prove()`]); do two ways to the same answer agree, and if not, from which node on ([`audit`]); who
//! attends to whom ([`look`]), do two ways to the same answer agree, and if not, from which node on
//! ([`audit`]); who attends to whom ([`look`]), what changes without some of it, or with some of it taken
//! from another run ([`rewrite()`], [`patch_taps`]), and what a pass will cost in time and memory
//! ([`price`]). [`proofs`] and [`executions`] make the cases of any model out of what it says of itself; no
//! family is named.

#![forbid(unsafe_code)]

pub mod audit;
mod chance;
mod error;
pub mod executions;
pub mod look;
mod patch;
pub mod price;
pub mod proofs;
mod prove;
mod rewrite;
mod sight;

pub use chance::{Chance, chances};
pub use error::{Error, Result};
pub use patch::{keep_taps, patch_taps, patched_taps, without_taps};
pub use prove::{Coverage, Finding, Guilty, Outcome, Promise, ProofCase, Stream, Unfollowed, prove};
pub use rewrite::{keep_heads, patch_heads, patched, rewrite, without_heads};
pub use sight::{Sight, sight};
