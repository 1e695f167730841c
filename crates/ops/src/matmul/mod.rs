//! The product of two values, matrix by matrix: a [... M K] · b [... K N] → [... M N]. Either may lie
//! transposed, and either may lack the leading axes, when one matrix meets all of the other's.

mod cpu;
mod cuda;
mod reference;

use crate::{
    CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, Record, ReferenceCall, Request, ScaleOps,
    SumToOps, WeightGradient, check_float,
};
use regard_graph::*;

/// `out = scale · a · b`, matrix by matrix.
#[derive(Clone, Copy, Debug)]
pub struct Matmul {
    /// a is [... K M].
    pub transpose_a: bool,
    /// b is [... N K].
    pub transpose_b: bool,
    /// Factor of the product.
    pub scale: f32,
    /// The dtype of the result.
    pub output: DType,
    /// Whether the operands are rounded to bf16; sums are f32 either way.
    pub precision: Precision,
}

/// How the operands of a product lie; the default is a [... M K] · b [... K N].
#[derive(Clone, Copy, Debug)]
pub struct MatmulOptions {
    /// a is [... K M].
    pub transpose_a: bool,
    /// b is [... N K].
    pub transpose_b: bool,
    /// Factor of the product, 1 by default.
    pub scale: f32,
    /// The dtype of the result, by default that of the graph's precision: bf16 in bf16 programs.
    pub output: Option<DType>,
}

impl Default for MatmulOptions {
    fn default() -> Self {
        MatmulOptions { transpose_a: false, transpose_b: false, scale: 1.0, output: None }
    }
}

/// Records products of two values.
pub trait MatmulOps {
    /// `scale · a · b`, matrix by matrix: a [... M K], b [... K N] → [... M N], in the precision of the
    /// graph. Leading axes are equal, or one of the two is a single matrix.
    fn matmul(&mut self, a: Var, b: Var, options: MatmulOptions) -> Result<Var>;
}

impl MatmulOps for Graph {
    fn matmul(&mut self, a: Var, b: Var, options: MatmulOptions) -> Result<Var> {
        let MatmulOptions { transpose_a, transpose_b, scale, output } = options;
        let precision = self.precision();
        let output = output.unwrap_or(precision.activation());
        self.apply_one(Matmul { transpose_a, transpose_b, scale, output, precision }, &[a, b])
    }
}

/// M, K, N, how many products there are, and whether each operand is one matrix for all of them.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    m: usize,
    k: usize,
    n: usize,
    batch: usize,
    one_a: bool,
    one_b: bool,
}

impl Matmul {
    fn sizes(&self, a: Dims, b: Dims) -> Sizes {
        let matrix = |dims: Dims, transposed: bool| {
            let (rows, columns) = (dims[dims.len() - 2], dims[dims.len() - 1]);
            if transposed { (columns, rows) } else { (rows, columns) }
        };
        let ((m, k), (_, n)) = (matrix(a, self.transpose_a), matrix(b, self.transpose_b));
        let leading = |dims: Dims| dims[..dims.len() - 2].iter().product::<usize>();
        let (one_a, one_b) = (a.len() == 2, b.len() == 2);
        Sizes { m, k, n, batch: if one_a { leading(b) } else { leading(a) }, one_a, one_b }
    }

    fn product(&self, transpose_a: bool, transpose_b: bool, output: DType) -> Matmul {
        Matmul { transpose_a, transpose_b, output, ..*self }
    }
}

impl Op for Matmul {
    fn name(&self) -> &'static str {
        "matmul"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        vec![
            ("transpose_a", self.transpose_a.to_string()),
            ("transpose_b", self.transpose_b.to_string()),
            ("scale", self.scale.to_string()),
            ("precision", format!("{:?}", self.precision)),
        ]
    }

    fn operands(&self) -> Vec<&'static str> {
        vec!["a", "b"]
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        check_float("matmul", "a", inputs[0].dtype)?;
        check_float("matmul", "b", inputs[1].dtype)?;
        check_float("matmul", "the result", self.output)?;
        if !self.scale.is_finite() {
            return Err(Error::invalid(
                "matmul",
                format!("the scale is {}", self.scale),
                "give a finite number, such as 1",
            ));
        }
        let mut letters = Letters::new("matmul");
        for (input, name, letters_of) in [
            (0, "a", if self.transpose_a { "K M" } else { "M K" }),
            (1, "b", if self.transpose_b { "N K" } else { "K N" }),
        ] {
            let shape = &inputs[input].shape;
            let pattern = if shape.len() == 2 { letters_of.to_string() } else { format!("... {letters_of}") };
            letters.bind(name, shape, &pattern)?;
        }
        Ok(vec![Fact::new(letters.shape("... M N"), self.output)])
    }

    fn aliases(&self) -> Vec<Alias> {
        Vec::new()
    }

    fn derivative(&self, _input: usize) -> Derivative {
        Derivative::Exists
    }

    fn gradient(&self, g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        let Some(dy) = tape.grads[0] else { return Ok(vec![None, None]) };
        let [a, b] = [tape.inputs[0], tape.inputs[1]];
        let mut grads = vec![None, None];
        // Where one matrix meets many, its gradient is a sum over them: taken in f32 and rounded once.
        let dtype_of = |g: &Graph, operand: Var| {
            if g.shape(operand) != g.shape(dy) && g.shape(operand).len() < g.shape(dy).len() {
                DType::F32
            } else {
                g.dtype(operand)
            }
        };
        if tape.wanted[0] {
            // y = s·a·b, so da = s·dy·bᵀ, and daᵀ = s·b·dyᵀ.
            let output = dtype_of(g, a);
            let da = if self.transpose_a {
                g.apply_one(self.product(self.transpose_b, true, output), &[b, dy])?
            } else {
                g.apply_one(self.product(false, !self.transpose_b, output), &[dy, b])?
            };
            grads[0] = Some(g.sum_to(da, a)?);
        }
        if tape.wanted[1] {
            // y = s·a·b, so db = s·aᵀ·dy, and dbᵀ = s·dyᵀ·a.
            let shared = g.shape(b).len() == 2 && g.shape(a).len() > 2;
            let db = if shared && !self.transpose_a {
                // One matrix for all rows of a: the gradient of a weight, without a product for each matrix.
                let op = WeightGradient { output: g.dtype(b), precision: self.precision, sums: false };
                let db = g.apply_one(op, &if self.transpose_b { [dy, a] } else { [a, dy] })?;
                if self.scale == 1.0 { db } else { g.scale(db, self.scale)? }
            } else {
                let output = dtype_of(g, b);
                if self.transpose_b {
                    g.apply_one(self.product(true, self.transpose_a, output), &[dy, a])?
                } else {
                    g.apply_one(self.product(!self.transpose_a, false, output), &[a, dy])?
                }
            };
            grads[1] = Some(g.sum_to(db, b)?);
        }
        Ok(grads)
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        let Sizes { m, k, n, batch, .. } = self.sizes(call.inputs[0], call.inputs[1]);
        let scaled = if self.scale == 1.0 { 0 } else { batch * m * n };
        Work {
            macs: (batch * m * n * k) as u64,
            flops: scaled as u64,
            read: call.bytes_in(),
            written: call.bytes_out(),
        }
    }

    fn reach(&self, call: &Concrete<'_>, _output: usize, input: usize) -> Relation {
        let (rank, leading) = (call.outputs[0].len(), call.inputs[input].len() - 2);
        // The axis of the result that this operand's rows (a) or columns (b) become.
        let (own, transposed) =
            if input == 0 { (rank - 2, self.transpose_a) } else { (rank - 1, !self.transpose_b) };
        let matrix = if transposed { [Along::All, Along::Same(own)] } else { [Along::Same(own), Along::All] };
        if self.scale == 0.0 {
            return Relation::Nothing;
        }
        Relation::Axes((0..leading).map(Along::Same).chain(matrix).collect())
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        let rank = call.outputs[output].len();
        let mut layout = Layout::own(call, output);
        for input in 0..2 {
            layout = layout.leading(input, call.inputs[input].len() - 2);
        }
        let of = |input: usize, transposed: bool| call.inputs[input].len() - if transposed { 1 } else { 2 };
        layout.with(rank - 2, 0, of(0, self.transpose_a)).with(rank - 1, 1, of(1, !self.transpose_b))
    }
}

impl Kernels for Matmul {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        reference::run(self, call);
        Ok(())
    }

    fn cpu_work(&self, call: &Concrete<'_>) -> Work {
        cpu::work(self, call)
    }

    fn needs(&self, request: &Request<'_>) -> Needs {
        cpu::needs(self, request)
    }

    fn cpu(&self, call: &CpuCall<'_>) -> std::result::Result<(), Fault> {
        cpu::run(self, call);
        Ok(())
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        Ok(cuda::list(self, call))
    }
}
