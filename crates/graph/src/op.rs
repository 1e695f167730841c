//! The contract of an operation: what each reader of the graph asks of it. There are no default methods, so
//! an op that lacks a reader does not compile. How an op is *computed* is the `Kernels` trait of the ops
//! crate; this one is only what can be said without numbers.

use crate::{DType, Dims, Graph, Layout, Relation, Result, Shape, Var, Work};
use std::any::Any;
use std::fmt::Debug;

/// The shape and dtype of a value: all that recording knows of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fact {
    /// Its shape, with open letters.
    pub shape: Shape,
    /// What its elements are.
    pub dtype: DType,
}

impl Fact {
    /// A fact from its parts.
    pub fn new(shape: impl Into<Shape>, dtype: DType) -> Self {
        Fact { shape: shape.into(), dtype }
    }

    /// An f32 value of this shape.
    pub fn f32(shape: impl Into<Shape>) -> Self {
        Fact::new(shape, DType::F32)
    }

    /// The most bytes that the value can take.
    pub fn bytes(&self) -> usize {
        self.shape.bound().count().saturating_mul(self.dtype.bytes())
    }
}

impl std::fmt::Display for Fact {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.dtype, self.shape)
    }
}

/// How an output of an op shares memory with one of its inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alias {
    /// The output is the same bytes under another shape; nothing runs. (reshape, stop_gradient)
    View {
        /// Which output.
        output: usize,
        /// Of which input.
        input: usize,
    },
    /// The output replaces the state that the input reads: same bytes, next version. (adamw, cache_write)
    Update {
        /// Which output.
        output: usize,
        /// Of which input.
        input: usize,
    },
    /// The kernel can write the output over the input, should nobody read the input afterwards.
    Reuse {
        /// Which output.
        output: usize,
        /// Of which input.
        input: usize,
    },
}

impl Alias {
    /// The output and the input that share memory.
    pub fn output_and_input(self) -> (usize, usize) {
        match self {
            Alias::View { output, input }
            | Alias::Update { output, input }
            | Alias::Reuse { output, input } => (output, input),
        }
    }
}

/// What an op said of itself when it was recorded. Readers go by these answers and never ask again: memory is
/// planned by them, and an op that answered otherwise the next time would write where others live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// The names of the inputs, one for each.
    pub operands: Vec<&'static str>,
    /// Which outputs share memory with which inputs.
    pub aliases: Vec<Alias>,
    /// What is known of the derivative with respect to each input.
    pub derivatives: Vec<Derivative>,
}

impl Declared {
    /// Asks an op once for each of its answers.
    pub(crate) fn by(op: &dyn Op) -> Declared {
        let operands = op.operands();
        let derivatives = (0..operands.len()).map(|input| op.derivative(input)).collect();
        Declared { operands, aliases: op.aliases(), derivatives }
    }

    /// Whether the op replaces state.
    pub fn updates(&self) -> bool {
        self.aliases.iter().any(|alias| matches!(alias, Alias::Update { .. }))
    }

    /// Whether an output is the bytes of an input under another shape: then no kernel writes it.
    pub fn views(&self, output: usize) -> bool {
        self.aliases.iter().any(|alias| matches!(alias, Alias::View { output: o, .. } if *o == output))
    }
}

/// What is known of the derivative with respect to one input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Derivative {
    /// `gradient` returns it.
    Exists,
    /// It is zero by definition: stop_gradient, integer operands, the scores of hard attention.
    Zero,
    /// There is none; the reason is shown to the user.
    Missing(&'static str),
}

/// What `Op::gradient` works with: one node of the forward pass and the gradients of its outputs.
pub struct Tape<'a> {
    /// The node's inputs.
    pub inputs: &'a [Var],
    /// The node's outputs.
    pub outputs: &'a [Var],
    /// The gradient with respect to each output, where one arrived.
    pub grads: &'a [Option<Var>],
    /// Which inputs want a gradient; the others may be left `None`.
    pub wanted: &'a [bool],
}

/// A node with actual sizes and the integers that are known: what cost and reach are asked about.
pub struct Concrete<'a> {
    /// The actual shapes of the inputs.
    pub inputs: &'a [Dims],
    /// The actual shapes of the outputs.
    pub outputs: &'a [Dims],
    /// The dtypes of the inputs.
    pub input_dtypes: &'a [DType],
    /// The dtypes of the outputs.
    pub output_dtypes: &'a [DType],
    /// The elements of integer and boolean inputs, where they are known.
    pub integers: &'a [Option<&'a [i64]>],
    /// Which outputs anybody reads; the others are not computed.
    pub used: &'a [bool],
}

impl Concrete<'_> {
    /// Bytes of all inputs, each read once.
    pub fn bytes_in(&self) -> u64 {
        self.inputs
            .iter()
            .zip(self.input_dtypes)
            .map(|(d, t)| d.count().saturating_mul(t.bytes()) as u64)
            .sum()
    }

    /// Bytes of all outputs that are used, each written once.
    pub fn bytes_out(&self) -> u64 {
        let sizes = self.outputs.iter().zip(self.output_dtypes).zip(self.used);
        sizes.filter(|(_, used)| **used).map(|((d, t), _)| d.count().saturating_mul(t.bytes()) as u64).sum()
    }
}

/// One operation with its settings. Recorded into a [`Graph`] by the ops crate or by a user's own crate. It
/// is [`Any`], so that who knows a kind of op finds its settings again in a recorded graph.
pub trait Op: Any + Debug + Send + Sync {
    /// The op's name, as errors and descriptions show it.
    fn name(&self) -> &'static str;

    /// The settings worth showing, as (name, value).
    fn attributes(&self) -> Vec<(&'static str, String)>;

    /// The names of the inputs, in order, for errors and descriptions.
    fn operands(&self) -> Vec<&'static str>;

    /// Shape reader: do the inputs fit, and what comes out?
    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>>;

    /// Plan reader: which outputs share memory with which inputs?
    fn aliases(&self) -> Vec<Alias>;

    /// Gradient reader: is there a derivative with respect to this input?
    fn derivative(&self, input: usize) -> Derivative;

    /// Gradient reader: records the gradient with respect to each wanted input, given those of the outputs.
    /// That of a bf16 input may be f32 where the op has it so: it is rounded once, after what it meets has
    /// been added.
    fn gradient(&self, g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>>;

    /// Cost reader: the work of one call as the mathematics has it, equal to what the reference counts while
    /// it runs.
    fn cost(&self, call: &Concrete<'_>) -> Work;

    /// Reach reader: which elements of the input can change which elements of the output?
    fn reach(&self, call: &Concrete<'_>, output: usize, input: usize) -> Relation;

    /// Axes reader: which axes of the inputs does each axis of the output continue? (Not what an element
    /// depends on, but what it stands for: a softmax over positions feels all of them, and still has one
    /// result for each.)
    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout;
}
