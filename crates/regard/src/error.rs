//! One error for a program that uses several rooms. Each room has its own enum, whose texts say what, where,
//! expected, got and what to do; here they are the variants of one, with their texts and their causes
//! unchanged, so that `?` is enough and whoever wants to act on an error can still match it.

use regard_device::cuda::CudaError;

/// A result of any room.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can be wrong, by the room that found it.
///
/// ```
/// use regard::prelude::*;
///
/// fn weights() -> regard::Result<()> {
///     let mut store = Store::load("no/such/file.safetensors")?; // of the hub
///     let mut g = Graph::inference(); // of the graph
///     let x = g.input("x", DType::F32, [2])?;
///     g.output("x", x)?;
///     Program::new(g, &[], &mut store, &Cpu::new()?)?; // of the engine
///     Ok(())
/// }
/// let error = weights().unwrap_err();
/// assert!(matches!(error, regard::Error::Hub(_)));
/// assert!(error.to_string().ends_with("; check the path"));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A recording: shapes, dtypes, names, derivatives; layers and models, too.
    #[error(transparent)]
    Graph(#[from] regard_graph::Error),

    /// Memory, threads, SIMD levels.
    #[error(transparent)]
    Device(#[from] regard_device::DeviceError),

    /// The way to a card.
    #[error(transparent)]
    Cuda(#[from] CudaError),

    /// Numbers that a kernel cannot take.
    #[error(transparent)]
    Fault(#[from] regard_ops::Fault),

    /// A program: what is fed, read and stored.
    #[error(transparent)]
    Engine(#[from] regard_engine::Error),

    /// A setting of a model in a recipe.
    #[error(transparent)]
    Key(#[from] regard_models::KeyFault),

    /// A file, a tokenizer, a data set.
    #[error(transparent)]
    Data(#[from] regard_data::Error),

    /// A folder with a model.
    #[error(transparent)]
    Hub(#[from] regard_hub::Error),

    /// A request to generate.
    #[error(transparent)]
    Generate(#[from] regard_generate::Error),

    /// The use of a model with what lies beside it.
    #[error(transparent)]
    Runtime(#[from] regard_runtime::Error),

    /// A run.
    #[error(transparent)]
    Train(#[from] regard_train::Error),

    /// A recipe.
    #[error(transparent)]
    Recipe(#[from] regard_recipe::Error),

    /// Predictions that cannot be judged.
    #[error(transparent)]
    Evaluate(#[from] regard_evaluate::Error),

    /// An index of a text, or what is asked of one.
    #[error(transparent)]
    Evidence(#[from] regard_evidence::Error),

    /// A question to a recorded model.
    #[error(transparent)]
    Inspect(#[from] regard_inspect::Error),
}
