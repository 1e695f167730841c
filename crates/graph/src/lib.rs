//! The language of Regard: a model records a [`Graph`] of typed, fused operations on symbolic values with
//! known shapes, and everything that Regard can say or do about it is a reader of that one graph.
//!
//! This crate holds the language (shapes in the alphabet, dtypes, the graph, the contract of an [`Op`]) and
//! the readers that need no numbers: [`gradient()`], [`plan()`], [`cost()`], [`reach()`], [`axes`] and
//! [`describe`].

#![forbid(unsafe_code)]

mod dim;
mod dotted;
mod dtype;
mod effort;
mod error;
mod gradient;
mod graph;
mod human;
mod integers;
mod largest;
#[cfg(test)]
mod mock;
mod needed;
mod op;
mod rewrite;
mod shape;

pub mod axes;
pub mod cost;
pub mod describe;
pub mod plan;
pub mod reach;

pub use axes::{Axes, AxisOf, Label, Layout};
pub use cost::{CostRow, Costs, Work, cost};
pub use dim::{Dim, Letter, MAX_LETTERS, Sizes};
pub use dtype::{DType, Precision};
pub use error::{Error, Result, nearest, offer};
pub use gradient::{Calculus, gradient, pullback};
pub use graph::{Attachment, Flow, Graph, Init, Joins, Node, Origin, Pass, Role, Stored, Value, Var};
pub use integers::Integers;
pub use largest::{MOST_ELEMENTS, check_size};
pub use needed::{Needed, everything, needed};
pub use op::{Alias, Concrete, Declared, Derivative, Fact, Op, Tape};
pub use plan::{Place, Plan, Request, Slot, Step, plan};
pub use reach::{Along, Cell, Grain, Query, Reach, Relation, Verdict, reach};
pub use rewrite::rewrite;
pub use shape::{Dims, Letters, MAX_RANK, Shape};
