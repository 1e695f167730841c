//! What can be wrong with a run: names, sizes and dtypes of what is fed, and what the kernels find.

use regard_device::DeviceError;
use regard_ops::Fault;

/// The result of a fallible function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can be wrong with preparing or running a program.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentence above each variant
pub enum Error {
    #[error(transparent)]
    Graph(#[from] regard_graph::Error),

    #[error(transparent)]
    Device(#[from] DeviceError),

    #[error(transparent)]
    Cuda(#[from] regard_device::cuda::CudaError),

    #[error(transparent)]
    NotYet(#[from] regard_ops::NotYet),

    #[error("{node}: {fault}")]
    Fault { node: String, fault: Fault },

    #[error("`{name}` is {got}, expected {expected}; feed what the graph declares")]
    Fed { name: String, got: String, expected: String },

    #[error("input `{name}` ({expected}) was never fed; set it before the run")]
    NotFed { name: String, expected: String },

    #[error(
        "`{name}` is {got} in the store, the graph declares {expected}; use another store or another name"
    )]
    StoreFact { name: String, got: String, expected: String },

    #[error("`{name}` is {got} with open letters; an entry of the store has fixed sizes")]
    OpenEntry { name: String, got: String },

    #[error("`{name}` is {got}, expected {expected}; ask for it in its own dtype")]
    Read { name: String, got: String, expected: String },

    #[error("this program was made for another store; run it with the store that it was made with")]
    ForeignStore,

    #[error("program: node `{node}` has no kernels; record it with `Record::apply`")]
    NoKernels { node: String },

    #[error("program: `{name}` was not kept; {advice}")]
    NotKept { name: String, advice: String },

    #[error("{check}: {what}")]
    Check { check: String, what: String },
}
