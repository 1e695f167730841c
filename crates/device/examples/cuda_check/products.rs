//! Products of every kind of number, layout and epilogue against f64, and a table of which of them cuBLASLt
//! has.

use crate::reference::{self, Values};
use crate::{Report, Room};
use regard_device::cuda::{
    Algorithm, Compute, CudaError, Epilogue, Layout, Memory, Number, Operands, Product, Products,
};

const WORKSPACE: usize = 32 << 20;

/// How far the results of a product are from the expected ones.
struct Errors {
    d: f64,
    bias: Option<f64>,
    aux: Option<f64>,
}

/// Operands and numbers on both sides.
struct Trial {
    a: Values,
    b: Values,
    c: Values,
    bias: Values,
    aux: Values,
}

impl Trial {
    fn new(product: &Product) -> Trial {
        // Whatever the strides are, the memory is full of numbers: a wrong one reads a wrong number.
        let size = |layout: &Layout, rows: usize, columns: usize| {
            let rows = if layout.transposed { columns } else { rows };
            layout.batch_stride * (product.batch - 1) + layout.stride * rows
        };
        let Product { m, n, k, .. } = *product;
        Trial {
            a: Values::normal("a", product.a.number, size(&product.a, m, k)),
            b: Values::normal("b", product.b.number, size(&product.b, k, n)),
            c: Values::normal("c", product.d.number, size(&product.d, m, n)),
            bias: Values::normal("bias", product.bias, product.bias_len()),
            aux: Values::normal("aux", product.aux, size(&product.d, m, n)),
        }
    }

    /// Runs it and compares. `beta` adds C, which lies where D is written.
    fn run(
        &self,
        room: &Room,
        products: &Products,
        product: &Product,
        algorithm: Option<Algorithm>,
        beta: f64,
    ) -> Result<Errors, CudaError> {
        let mut planned = match algorithm {
            Some(algorithm) => products.plan(product, algorithm)?,
            None => products.plan_first(product, WORKSPACE)?,
        };
        let of = |values: &Values| Memory::of(&room.stream, &values.bytes());
        let (a, b, workspace) = (of(&self.a)?, of(&self.b)?, room.poisoned(WORKSPACE)?);
        let d = if beta == 0.0 { room.poisoned(self.c.bytes().len())? } else { of(&self.c)? };
        let reads_bias =
            matches!(product.epilogue, Epilogue::Bias | Epilogue::Relu { .. } | Epilogue::Gelu { .. });
        let bias = if reads_bias { of(&self.bias)? } else { room.poisoned(self.bias.bytes().len())? };
        let reads_aux = matches!(product.epilogue, Epilogue::GeluBackward { .. });
        let aux = if reads_aux { of(&self.aux)? } else { room.poisoned(self.aux.bytes().len())? };
        let operands = Operands {
            a: a.start(),
            b: b.start(),
            c: d.start(),
            d: d.start(),
            bias: bias.start(),
            aux: aux.start(),
            workspace: workspace.region(),
        };
        // SAFETY: memory of the product's sizes, which lives until the results are read.
        unsafe { planned.run(&room.stream, 0.5, beta as f32, &operands) }?;
        let read = |memory: &Memory, number| -> Result<Vec<f64>, CudaError> {
            Ok(reference::read(number, &memory.to_vec::<u8>(&room.stream)?))
        };
        let (d, bias, aux) =
            (read(&d, product.d.number)?, read(&bias, product.bias)?, read(&aux, product.aux)?);
        let expected = self.expected(product, beta);
        let result = |got: &[f64], expected: &[f64]| {
            let cells = cells(product);
            reference::distance(&cells.iter().map(|&at| got[at]).collect::<Vec<_>>(), expected)
        };
        let writes_bias = product.epilogue.has_bias() && !reads_bias;
        let writes_aux = product.epilogue.has_aux() && !reads_aux;
        Ok(Errors {
            d: result(&d, &expected.d),
            bias: writes_bias.then(|| reference::distance(&bias, &expected.bias)),
            aux: writes_aux.then(|| result(&aux, &expected.aux)),
        })
    }

    fn expected(&self, product: &Product, beta: f64) -> Expected {
        let Product { m, n, k, .. } = *product;
        let at = |values: &Values, layout: &Layout, batch: usize, row: usize, column: usize| {
            let (row, column) = if layout.transposed { (column, row) } else { (row, column) };
            values.exact[batch * layout.batch_stride + row * layout.stride + column]
        };
        let mut expected = Expected { d: Vec::new(), bias: vec![0.0; product.bias_len()], aux: Vec::new() };
        for batch in 0..product.batch {
            for i in 0..m {
                for j in 0..n {
                    let mut sum = 0.0;
                    for l in 0..k {
                        sum += at(&self.a, &product.a, batch, i, l) * at(&self.b, &product.b, batch, l, j);
                    }
                    let mut z = 0.5 * sum + beta * at(&self.c, &product.d, batch, i, j);
                    match product.epilogue {
                        Epilogue::Bias
                        | Epilogue::Relu { bias: true }
                        | Epilogue::Gelu { bias: true, .. } => {
                            z += self.bias.exact[j];
                        }
                        _ => {}
                    }
                    expected.aux.push(z);
                    let y = match product.epilogue {
                        Epilogue::Relu { .. } => z.max(0.0),
                        Epilogue::Gelu { .. } => reference::gelu_tanh(z),
                        Epilogue::GeluBackward { .. } => {
                            z * reference::gelu_tanh_derivative(at(&self.aux, &product.d, batch, i, j))
                        }
                        _ => z,
                    };
                    if let Epilogue::GeluBackward { sums: true } = product.epilogue {
                        expected.bias[j] += y;
                    }
                    expected.d.push(y);
                }
            }
        }
        for l in 0..k {
            match product.epilogue {
                Epilogue::SumsOfA => {
                    (0..m).for_each(|i| expected.bias[i] += at(&self.a, &product.a, 0, i, l))
                }
                Epilogue::SumsOfB => {
                    (0..n).for_each(|j| expected.bias[j] += at(&self.b, &product.b, 0, l, j))
                }
                _ => {}
            }
        }
        expected
    }
}

struct Expected {
    d: Vec<f64>,
    bias: Vec<f64>,
    aux: Vec<f64>,
}

/// Where each element of D lies.
fn cells(product: &Product) -> Vec<usize> {
    let Product { m, n, d, batch, .. } = *product;
    let row = |b: usize, i: usize| (0..n).map(move |j| b * d.batch_stride + i * d.stride + j);
    (0..batch).flat_map(|b| (0..m).flat_map(move |i| row(b, i))).collect()
}

/// What a result of this number may be wrong by, as a norm.
fn bound(product: &Product, result: Number) -> f64 {
    let multiplied: f64 = match product.compute {
        Compute::Exact => 2e-6,
        Compute::Tf32 => 1e-3,
    };
    // GELU may be computed by the card's approximate tanh.
    let activated: f64 = match product.epilogue {
        Epilogue::Gelu { .. } | Epilogue::GeluBackward { .. } => 1e-3,
        _ => 0.0,
    };
    let stored: f64 = if result == Number::Bf16 { 4e-3 } else { 0.0 };
    multiplied + activated + stored
}

fn holds(product: &Product, errors: &Errors) -> bool {
    errors.d <= bound(product, product.d.number)
        && errors.bias.is_none_or(|error| error <= bound(product, product.bias))
        && errors.aux.is_none_or(|error| error <= bound(product, product.aux))
}

fn shown(errors: &Errors) -> String {
    let mut text = format!("{:.1e}", errors.d);
    if let Some(error) = errors.bias {
        text += &format!(", sums {error:.1e}");
    }
    if let Some(error) = errors.aux {
        text += &format!(", aux {error:.1e}");
    }
    text
}

/// The kinds of product that a model has: operands, result, way of multiplying.
pub const KINDS: [(Number, Number, Compute); 4] = [
    (Number::F32, Number::F32, Compute::Exact),
    (Number::F32, Number::F32, Compute::Tf32),
    (Number::Bf16, Number::Bf16, Compute::Exact),
    (Number::Bf16, Number::F32, Compute::Exact),
];

pub fn check(room: &Room, report: &mut Report) -> Result<(), CudaError> {
    let products = Products::new(&room.card)?;
    for (operands, result, compute) in KINDS {
        plain(room, report, &products, |m, n, k| Product::new(m, n, k, operands, result).by(compute))?;
        views(room, report, &products, |m, n, k| Product::new(m, n, k, operands, result).by(compute))?;
        epilogues(room, report, &products, |m, n, k| Product::new(m, n, k, operands, result).by(compute))?;
    }
    Ok(())
}

/// Tries a product that must exist.
fn must(
    room: &Room,
    report: &mut Report,
    products: &Products,
    product: &Product,
    beta: f64,
) -> Result<(), CudaError> {
    let name = if beta == 0.0 { product.to_string() } else { format!("{product} added") };
    match Trial::new(product).run(room, products, product, None, beta) {
        Ok(errors) => report.check(&name, holds(product, &errors), shown(&errors)),
        Err(error) if error.is_final() => return Err(error),
        Err(error) => report.check(&name, false, error.to_string()),
    }
    Ok(())
}

/// Tries a product that may be missing.
fn may(room: &Room, report: &mut Report, products: &Products, product: &Product) -> Result<(), CudaError> {
    match Trial::new(product).run(room, products, product, None, 0.0) {
        Ok(errors) => report.check(&product.to_string(), holds(product, &errors), shown(&errors)),
        Err(error @ (CudaError::NoAlgorithm { .. } | CudaError::Product { .. })) => {
            let text = if let CudaError::Product { .. } = error {
                error.to_string()
            } else {
                "does not exist".into()
            };
            report.fact(&product.to_string(), text);
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

fn plain(
    room: &Room,
    report: &mut Report,
    products: &Products,
    product: impl Fn(usize, usize, usize) -> Product,
) -> Result<(), CudaError> {
    for sizes in [(192, 320, 256), (1, 320, 256), (129, 8, 1032)] {
        let plain = product(sizes.0, sizes.1, sizes.2);
        must(room, report, products, &plain, 0.0)?;
        must(room, report, products, &plain.transposed_b(), 0.0)?;
        must(room, report, products, &plain.transposed_a(), 0.0)?;
    }
    must(room, report, products, &product(192, 320, 256), 1.0)?;
    // Sizes that no vector of 16 bytes divides.
    let odd = product(13, 17, 19);
    may(room, report, products, &odd)?;
    may(room, report, products, &odd.transposed_b())?;
    may(room, report, products, &odd.transposed_a())?;
    may(room, report, products, &product(1, 1, 1))
}

/// Batches, and operands that are parts of wider matrices.
fn views(
    room: &Room,
    report: &mut Report,
    products: &Products,
    product: impl Fn(usize, usize, usize) -> Product,
) -> Result<(), CudaError> {
    let (heads, width, t) = (3, 64, 48);
    // Scores of heads that lie side by side: q of T x (H D) and k of T x (H D).
    let mut scores = product(t, t, width).transposed_b();
    let head = |layout: Layout| Layout { stride: heads * width, batch_stride: width, ..layout };
    (scores.a, scores.b) = (head(scores.a), head(scores.b));
    scores.d.batch_stride = t * t;
    scores.batch = heads;
    scores.alignment = (width * scores.a.number.bytes()) as u32;
    must(room, report, products, &scores, 0.0)?;
    // One weight for a batch, into columns of a wider result.
    let mut wide = product(40, 64, 96).transposed_b();
    wide.batch = 2;
    wide.a.batch_stride = 40 * 96;
    wide.d = Layout { stride: 200, batch_stride: 40 * 200, ..wide.d };
    wide.alignment = 16;
    must(room, report, products, &wide, 0.0)
}

fn epilogues(
    room: &Room,
    report: &mut Report,
    products: &Products,
    product: impl Fn(usize, usize, usize) -> Product,
) -> Result<(), CudaError> {
    let forward = [
        Epilogue::Bias,
        Epilogue::Relu { bias: false },
        Epilogue::Relu { bias: true },
        Epilogue::Gelu { bias: false, keep: false },
        Epilogue::Gelu { bias: true, keep: false },
        Epilogue::Gelu { bias: false, keep: true },
        Epilogue::Gelu { bias: true, keep: true },
    ];
    let backward = [Epilogue::GeluBackward { sums: false }, Epilogue::GeluBackward { sums: true }];
    let weight = [Epilogue::SumsOfA, Epilogue::SumsOfB];
    let plain = product(192, 320, 256);
    let all = (forward.map(|epilogue| plain.transposed_b().with(epilogue)).into_iter())
        .chain(backward.map(|epilogue| plain.with(epilogue)))
        .chain(weight.map(|epilogue| plain.transposed_a().with(epilogue)));
    for product in all {
        may(room, report, products, &product)?;
        // A bias, or sums, of f32 beside a result of bf16; and kept values of bf16 beside a result of f32.
        if product.epilogue.has_bias() && product.a.number == Number::Bf16 {
            let other = if product.bias == Number::F32 { Number::Bf16 } else { Number::F32 };
            may(room, report, products, &Product { bias: other, ..product })?;
        }
        if product.epilogue.has_aux() && product.a.number == Number::Bf16 && product.d.number == Number::F32 {
            may(room, report, products, &Product { aux: Number::Bf16, ..product })?;
        }
    }
    Ok(())
}
