//! The loop on a task so small that a step takes microseconds: what it learns, that nothing changes its bits
//! which should not, that kills do no harm, and what it says when something is wrong.

mod accumulation;
mod errors;
mod failing;
mod groups;
mod kill;
mod learning;
mod outside;
mod reading;
mod tiny;
