//! The laboratory: what course notes say about attention and Transformers, claim by claim, put to the test.
//!
//! A [`Claim`] is a sentence in our words, the section it comes from, a [`Predicate`] on numbers that are not
//! yet known, and an experiment from a seed and an effort to a [`Finding`]: numbers with intervals, tables,
//! pictures. [`judge`] computes the verdict from both. Experiments run the real thing wherever they can: they
//! record a graph and ask its readers. [`run`] does many at once; [`site`] makes pages of them. Nothing here
//! touches a disk.
//!
//! One folder for each group of claims; a claim is added there, by a line of its list and a function.

#![forbid(unsafe_code)]

mod attend;
mod catalogue;
mod claim;
mod compute;
mod context;
mod errata;
mod experiment;
mod finding;
mod jacobian;
mod json;
mod kept;
mod predicate;
mod recurrent;
mod remembered;
mod run;
pub mod site;
mod specimens;
pub mod statistics;
mod workers;

mod a_primitive;
mod b_scale;
mod c_perturbation;
mod d_copying;
mod e_heads;
mod f_positions;
mod g_masks;
mod h_cost;
mod i_norms;
mod j_blocks;
mod k_vision;
mod l_pretraining;
mod m_evidence;
mod n_properties;

pub use catalogue::{GROUPS, Group, claims, find, select};
pub use claim::{Claim, Evidence, Run};
pub use context::{Context, Draws, Effort};
pub use errata::{ERRATA, Erratum};
pub use finding::{Finding, Number, Table};
pub use json::{in_words, listed, outcomes_json};
pub use kept::{Provenance, is_kept, merged};
pub use predicate::{Judgement, Predicate, SEEDS, Verdict, judge};
pub use regard_picture as picture;
pub use run::{Outcome, counted, run};
pub use workers::Workers;
