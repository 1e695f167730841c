//! Training: one loop that knows no model by name. What is trained records its loss ([`Task`]); what it is trained on
//! gives batches ([`regard_data::Source`]).

#![forbid(unsafe_code)]

mod task;

pub use task::{Mode, Task};
