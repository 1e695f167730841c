//! Dropout: each element is kept with probability 1 − p and scaled by 1/(1 − p) (Srivastava et al. 2014).
//!
//! Whether an element is kept is a pure function of (seed, step, index of the example in the global batch,
//! name of the op, position, channel): the same whatever the micro-batching, the padding or the threads. The
//! backward pass is the same op under the same name, so the mask is drawn again instead of stored.

mod cpu;
mod cuda;
mod reference;

use crate::{
    CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, RANDOM_LENGTH, RandomOps, Record,
    ReferenceCall, Request,
};
use crate::{check_float, stream_of};
use regard_graph::*;

/// `y = x · mask / (1 − p)`.
#[derive(Clone, Debug)]
pub struct Dropout {
    /// p, the probability that an element is dropped.
    pub probability: f32,
    /// The name of the random stream: the dotted name of the op.
    pub stream: String,
    /// Whether positions are given; without them they are counted from 0 along the second axis.
    pub positioned: bool,
}

/// Records dropout.
pub trait DropoutOps {
    /// x (`B ... C`) with elements dropped with probability p, keyed by their place along the middle axes.
    fn dropout(&mut self, x: Var, probability: f32) -> Result<Var>;
    /// The same for x (`B T ... C`), keyed by given positions (`B T`, i32).
    fn dropout_at(&mut self, x: Var, probability: f32, position: Var) -> Result<Var>;
}

impl DropoutOps for Graph {
    fn dropout(&mut self, x: Var, probability: f32) -> Result<Var> {
        record(self, x, probability, None)
    }

    fn dropout_at(&mut self, x: Var, probability: f32, position: Var) -> Result<Var> {
        record(self, x, probability, Some(position))
    }
}

fn record(g: &mut Graph, x: Var, probability: f32, position: Option<Var>) -> Result<Var> {
    g.check_operands("dropout", &[x])?;
    if probability == 0.0 {
        return Ok(x);
    }
    let stream = g.next_name("dropout");
    let random = g.random()?;
    let op = Dropout { probability, stream, positioned: position.is_some() };
    let inputs: Vec<Var> = [x, random].into_iter().chain(position).collect();
    g.apply_one(op, &inputs)
}

impl Dropout {
    /// An element is dropped if its 32 random bits, as a number, are below this.
    fn threshold(&self) -> u64 {
        (self.probability as f64 * 4_294_967_296.0).round() as u64
    }

    /// What elements that are kept are multiplied by.
    fn scale(&self) -> f64 {
        1.0 / (1.0 - self.probability as f64)
    }

    /// How many positions a row of `B T` stands for: the product of the axes between T and C.
    fn rest(x: &Dims) -> usize {
        if x.len() > 3 { x[2..x.len() - 1].iter().product() } else { 1 }
    }
}

impl Op for Dropout {
    fn name(&self) -> &'static str {
        "dropout"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        vec![("probability", self.probability.to_string()), ("stream", self.stream.clone())]
    }

    fn operands(&self) -> Vec<&'static str> {
        if self.positioned { vec!["x", "random", "position"] } else { vec!["x", "random"] }
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        check_float("dropout", "x", inputs[0].dtype)?;
        if !(0.0..1.0).contains(&self.probability) {
            return Err(Error::invalid(
                "dropout",
                format!("the probability is {}", self.probability),
                "give a number from 0 to below 1",
            ));
        }
        let shape = &inputs[0].shape;
        if shape.len() < if self.positioned { 3 } else { 2 } {
            return Err(Error::Shape {
                op: "dropout".into(),
                operand: "x".into(),
                got: shape.to_string(),
                expected: if self.positioned { "[B T ... C]" } else { "[B ... C]" }.into(),
                origin: "; examples, then positions, then channels".into(),
            });
        }
        let mut letters = Letters::new("dropout");
        letters.bind("random", &inputs[1].shape, &RANDOM_LENGTH.to_string())?;
        let mut integers = vec![("random", inputs[1].dtype)];
        if self.positioned {
            letters.bind("x", &Shape::new(shape[..2].to_vec()), "B T")?;
            letters.bind("position", &inputs[2].shape, "B T")?;
            integers.push(("position", inputs[2].dtype));
        }
        for (operand, dtype) in integers {
            if dtype != DType::I32 {
                return Err(Error::DType {
                    op: "dropout".into(),
                    operand: operand.into(),
                    got: dtype.to_string(),
                    expected: "i32".into(),
                    advice: "random and position are integers".into(),
                });
            }
        }
        Ok(vec![inputs[0].clone()])
    }

    fn aliases(&self) -> Vec<Alias> {
        vec![Alias::Reuse { output: 0, input: 0 }]
    }

    fn derivative(&self, input: usize) -> Derivative {
        if input == 0 { Derivative::Exists } else { Derivative::Zero }
    }

    fn gradient(&self, g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        let mut grads = vec![None; tape.inputs.len()];
        if let Some(dy) = tape.grads[0] {
            // y = x·mask/(1 − p), so dx = dy·mask/(1 − p): the same op, the same stream.
            let mut inputs = tape.inputs.to_vec();
            inputs[0] = dy;
            grads[0] = Some(g.apply_one(self.clone(), &inputs)?);
        }
        Ok(grads)
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        let flops = 2 * call.inputs[0].count() as u64; // compare, multiply
        Work { macs: 0, flops, read: call.bytes_in(), written: call.bytes_out() }
    }

    fn reach(&self, call: &Concrete<'_>, _output: usize, input: usize) -> Relation {
        let dims = call.inputs[0];
        match (input, call.integers[1]) {
            // The numbers are known, so the mask is.
            (0, Some(random))
                if dims.count() <= LISTED && (!self.positioned || call.integers[2].is_some()) =>
            {
                let random: Vec<i32> = random.iter().map(|&x| x as i32).collect();
                let position = call.integers.get(2).copied().flatten();
                self.mask_relation(&dims, &random, position)
            }
            (0, _) => Relation::Same,
            (1, _) => Relation::Everything,
            _ => Relation::Axes(vec![Along::Same(0), Along::Same(1)]),
        }
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        let layout = Layout::aligned(call, output, [0]);
        if self.positioned { layout.leading(2, 2) } else { layout }
    }
}

/// Up to this many elements the mask is listed; beyond, every element is said to pass.
const LISTED: usize = 1 << 16;

impl Dropout {
    fn mask_relation(&self, dims: &Dims, random: &[i32], position: Option<&[i64]>) -> Relation {
        let last = dims.len() - 1;
        let (stream, first) = stream_of(random, &self.stream);
        let (width, rest) = (dims[last], Dropout::rest(dims));
        let mut lists = Vec::new();
        for i in 0..dims.count() {
            let (row, channel) = (i / width, i % width);
            let given = position.map(|position| |flat: usize| position[flat] as i32);
            let (example, at) = place(dims, rest, row, given);
            let bits = stream.bits(first.wrapping_add(example), at, channel as u32);
            lists.push(if u64::from(bits) < self.threshold() { Vec::new() } else { vec![channel] });
        }
        let mut along: Vec<Along> = (0..last).map(Along::Same).collect();
        along.push(Along::Listed { axes: (0..=last).collect(), lists });
        Relation::Axes(along)
    }
}

/// The example and the position of a row of x. Where positions are given (by the flat index in `B T`), T
/// counts as they say; axes between T and C subdivide a position.
fn place(x: &Dims, rest: usize, row: usize, given: Option<impl Fn(usize) -> i32>) -> (u32, u32) {
    let middle: usize = x[1..x.len() - 1].iter().product();
    let (example, flat) = (row / middle, row % middle);
    let position = match given {
        None => flat as u32,
        Some(given) => {
            let at = given(example * x[1] + flat / rest) as u32;
            at.wrapping_mul(rest as u32).wrapping_add((flat % rest) as u32)
        }
    };
    (example as u32, position)
}

impl Kernels for Dropout {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        reference::run(self, call);
        Ok(())
    }

    fn cpu_work(&self, call: &Concrete<'_>) -> Work {
        self.cost(call)
    }

    fn needs(&self, _request: &Request<'_>) -> Needs {
        Needs::default()
    }

    fn cpu(&self, call: &CpuCall<'_>) -> std::result::Result<(), Fault> {
        cpu::run(self, call);
        Ok(())
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        Ok(cuda::list(self, call))
    }
}
