//! Tiny ops for the tests of this crate: no mathematics, only what the readers ask about.

use crate::{
    Alias, Along, Calculus, Concrete, DType, Derivative, Error, Fact, Graph, Layout, Op, Relation, Result,
    Shape, Tape, Var, Work,
};
use std::sync::Arc;

type Infer = Box<dyn Fn(&[Fact]) -> Result<Vec<Fact>> + Send + Sync>;
type Rule = Box<dyn Fn(&mut Graph, &Tape<'_>) -> Result<Vec<Option<Var>>> + Send + Sync>;
type Lay = Box<dyn Fn(&Concrete<'_>, usize) -> Layout + Send + Sync>;
type Relate = Box<dyn Fn(&Concrete<'_>, usize, usize) -> Relation + Send + Sync>;

/// An op whose every answer can be set.
pub struct Mock {
    pub name: &'static str,
    pub operands: Vec<&'static str>,
    pub infer: Infer,
    pub aliases: Vec<Alias>,
    pub derivative: Derivative,
    pub gradient: Rule,
    pub reach: Relate,
    pub axes: Lay,
}

impl std::fmt::Debug for Mock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Op for Mock {
    fn name(&self) -> &'static str {
        self.name
    }
    fn attributes(&self) -> Vec<(&'static str, String)> {
        vec![("operands", self.operands.len().to_string())]
    }
    fn operands(&self) -> Vec<&'static str> {
        self.operands.clone()
    }
    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        (self.infer)(inputs)
    }
    fn aliases(&self) -> Vec<Alias> {
        self.aliases.clone()
    }
    fn derivative(&self, _input: usize) -> Derivative {
        self.derivative
    }
    fn gradient(&self, g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        (self.gradient)(g, tape)
    }
    fn cost(&self, call: &Concrete<'_>) -> Work {
        let macs =
            call.outputs.iter().zip(call.used).filter(|(_, used)| **used).map(|(d, _)| d.count() as u64);
        let known = call.integers.iter().flatten().map(|list| list.len() as u64);
        let (macs, flops) = (macs.sum(), known.sum());
        Work { macs, flops, read: call.bytes_in(), written: call.bytes_out() }
    }
    fn reach(&self, call: &Concrete<'_>, output: usize, input: usize) -> Relation {
        (self.reach)(call, output, input)
    }
    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        (self.axes)(call, output)
    }
}

const OPERANDS: [&str; 4] = ["a", "b", "c", "d"];

/// Elementwise: so many operands of one shape in, the same shape out, over the first operand if possible.
pub fn map(operands: usize) -> Mock {
    Mock {
        name: "map",
        operands: OPERANDS[..operands].to_vec(),
        infer: Box::new(|inputs| {
            for (operand, fact) in OPERANDS.iter().zip(inputs) {
                if *fact != inputs[0] {
                    return Err(Error::Shape {
                        op: "map".into(),
                        operand: operand.to_string(),
                        got: fact.to_string(),
                        expected: inputs[0].to_string(),
                        origin: "; as a".into(),
                    });
                }
            }
            Ok(vec![inputs[0].clone()])
        }),
        aliases: (0..operands).map(|input| Alias::Reuse { output: 0, input }).collect(),
        derivative: Derivative::Exists,
        gradient: Box::new(|g, tape| {
            let Some(grad) = tape.grads[0] else { return Ok(vec![None; tape.inputs.len()]) };
            let each = tape.inputs.iter().zip(tape.wanted).map(|(&input, &wanted)| -> Result<Option<Var>> {
                Ok(if wanted { Some(record(g, map(2), &[grad, input])?[0]) } else { None })
            });
            each.collect()
        }),
        reach: Box::new(|_, _, _| Relation::Same),
        axes: Box::new(Layout::elementwise),
    }
}

/// Mixes along one axis: each element depends on the whole of it.
pub fn mix(axis: usize) -> Mock {
    Mock {
        name: "mix",
        aliases: Vec::new(),
        reach: Box::new(move |call, _, _| {
            let along = |a| if a == axis { Along::All } else { Along::Same(a) };
            Relation::Axes((0..call.inputs[0].len()).map(along).collect())
        }),
        ..map(1)
    }
}

/// Each position of one axis sees itself and what came before.
pub fn causal(axis: usize) -> Mock {
    Mock {
        name: "causal",
        aliases: Vec::new(),
        reach: Box::new(move |call, _, _| {
            let lists: Vec<Vec<usize>> = (0..call.outputs[0][axis]).map(|t| (0..=t).collect()).collect();
            let along = |a| match a == axis {
                true => Along::Listed { axes: vec![axis], lists: lists.clone() },
                false => Along::Same(a),
            };
            Relation::Axes((0..call.inputs[0].len()).map(along).collect())
        }),
        ..map(1)
    }
}

/// The same bytes under another shape.
pub fn view(shape: Shape) -> Mock {
    Mock {
        name: "view",
        infer: Box::new(move |inputs| Ok(vec![Fact::new(shape.clone(), inputs[0].dtype)])),
        aliases: vec![Alias::View { output: 0, input: 0 }],
        axes: Box::new(|_, _| Layout::Flat(0)),
        ..map(1)
    }
}

/// Replaces the state `a` with something made from it and the other operands.
pub fn update(operands: usize) -> Mock {
    Mock {
        name: "update",
        aliases: vec![Alias::Update { output: 0, input: 0 }],
        derivative: Derivative::Missing("an update is not differentiated"),
        ..map(operands)
    }
}

/// Two outputs: one of the same shape, and a single number.
pub fn pair() -> Mock {
    Mock {
        name: "pair",
        infer: Box::new(|inputs| Ok(vec![inputs[0].clone(), Fact::f32([])])),
        reach: Box::new(|_, output, _| if output == 0 { Relation::Same } else { Relation::Everything }),
        ..map(1)
    }
}

/// Everything into a single number.
pub fn sum() -> Mock {
    Mock {
        name: "sum",
        infer: Box::new(|_| Ok(vec![Fact::f32([])])),
        aliases: Vec::new(),
        gradient: Box::new(|g, tape| {
            let fact = g.fact(tape.inputs[0]).clone();
            let Some(grad) = tape.grads[0] else { return Ok(vec![None]) };
            Ok(vec![Some(record(g, spread(fact), &[grad])?[0])])
        }),
        reach: Box::new(|_, _, _| Relation::Everything),
        ..map(1)
    }
}

/// A single number into a shape; has no derivative.
pub fn spread(fact: Fact) -> Mock {
    Mock {
        name: "spread",
        infer: Box::new(move |_| Ok(vec![fact.clone()])),
        aliases: Vec::new(),
        derivative: Derivative::Missing("a spread is the end"),
        reach: Box::new(|_, _, _| Relation::Everything),
        ..map(1)
    }
}

/// Rows of `a` chosen by the integers `b`: `[N C], [T] -> [T C]`.
pub fn gather() -> Mock {
    Mock {
        name: "gather",
        infer: Box::new(|inputs| {
            let shape = Shape::new(vec![inputs[1].shape[0].clone(), inputs[0].shape[1].clone()]);
            Ok(vec![Fact::new(shape, inputs[0].dtype)])
        }),
        aliases: Vec::new(),
        reach: Box::new(|call, _, input| {
            let rows = match call.integers[1] {
                Some(ids) => {
                    Along::Listed { axes: vec![0], lists: ids.iter().map(|&id| vec![id as usize]).collect() }
                }
                None => Along::All,
            };
            Relation::Axes(if input == 0 { vec![rows, Along::Same(1)] } else { vec![Along::Same(0)] })
        }),
        axes: Box::new(|call, output| Layout::own(call, output).with(0, 1, 0).with(1, 0, 1)),
        ..map(2)
    }
}

/// Records a mock without kernels.
pub fn record(g: &mut Graph, mock: Mock, inputs: &[Var]) -> Result<Vec<Var>> {
    g.record(Arc::new(mock), Arc::new(()), inputs)
}

/// Records a mock that has a single output and must fit.
pub fn one(g: &mut Graph, mock: Mock, inputs: &[Var]) -> Var {
    record(g, mock, inputs).expect("the mock fits")[0]
}

/// The text of an error.
pub fn text<T: std::fmt::Debug>(result: Result<T>) -> String {
    result.expect_err("should have failed").to_string()
}

/// The sums and constants of differentiation, as mocks.
pub struct Mocks;

impl Calculus for Mocks {
    fn ones_like(&self, g: &mut Graph, like: Var) -> Result<Var> {
        Ok(record(g, Mock { name: "ones", derivative: Derivative::Zero, ..map(1) }, &[like])?[0])
    }
    fn zeros_like(&self, g: &mut Graph, like: Var) -> Result<Var> {
        Ok(record(g, Mock { name: "zeros", derivative: Derivative::Zero, ..map(1) }, &[like])?[0])
    }
    fn add(&self, g: &mut Graph, a: Var, b: Var) -> Result<Var> {
        let infer = |inputs: &[Fact]| {
            let wide = inputs.iter().any(|fact| fact.dtype == DType::F32);
            Ok(vec![Fact::new(&inputs[0].shape, if wide { DType::F32 } else { inputs[0].dtype })])
        };
        Ok(record(g, Mock { name: "add", infer: Box::new(infer), ..map(2) }, &[a, b])?[0])
    }
    fn round(&self, g: &mut Graph, gradient: Var, to: DType) -> Result<Var> {
        let infer = move |inputs: &[Fact]| Ok(vec![Fact::new(&inputs[0].shape, to)]);
        Ok(record(g, Mock { name: "round", infer: Box::new(infer), ..map(1) }, &[gradient])?[0])
    }
}

/// A small counter-based generator, so that random graphs are the same in every run.
pub struct Dice(pub u64);

impl Dice {
    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) % n as u64) as usize
    }
}

/// An input of i32.
pub fn ids(g: &mut Graph, name: &str, shape: Shape) -> Var {
    g.input(name, DType::I32, shape).expect("a fresh name")
}
