//! What only a card can answer about cuBLASLt: whether an algorithm repeats its bits, whether it can be
//! written down, and whether a row's bits depend on how many rows there are.

use crate::products::KINDS;
use crate::reference::Values;
use crate::{Report, Room};
use regard_device::cuda::{Algorithm, CudaError, Memory, Operands, Product, Products};
use std::collections::BTreeSet;

const WORKSPACE: usize = 32 << 20;

pub fn ask(room: &Room, report: &mut Report) -> Result<(), CudaError> {
    let products = Products::new(&room.card)?;
    for (operands, result, compute) in KINDS {
        let product = |m, n, k| Product::new(m, n, k, operands, result).by(compute);
        repeats(room, report, &products, &product)?;
        rows(room, report, &products, &product)?;
    }
    Ok(())
}

/// Operands of a product, and the bytes of its result. Memory is poisoned before each run.
struct Run {
    a: Memory,
    b: Memory,
    d: Memory,
    workspace: Memory,
}

impl Run {
    fn new(room: &Room, product: &Product) -> Result<Run, CudaError> {
        let of = |name, number, count| Memory::of(&room.stream, &Values::normal(name, number, count).bytes());
        Ok(Run {
            a: of("a", product.a.number, product.m * product.k)?,
            b: of("b", product.b.number, product.k * product.n)?,
            d: room.poisoned(product.m * product.n * product.d.number.bytes())?,
            workspace: room.poisoned(WORKSPACE)?,
        })
    }

    fn bytes(
        &self,
        room: &Room,
        products: &Products,
        product: &Product,
        algorithm: Algorithm,
        poison: u8,
    ) -> Result<Vec<u8>, CudaError> {
        let mut planned = products.plan(product, algorithm)?;
        let operands = Operands {
            a: self.a.start(),
            b: self.b.start(),
            d: self.d.start(),
            workspace: self.workspace.region(),
            ..Operands::default()
        };
        // SAFETY: memory of at least the product's sizes, which lives until the result is read.
        unsafe {
            room.stream.fill(self.d.region(), 0xff)?;
            room.stream.fill(self.workspace.region(), poison)?;
            planned.run(&room.stream, 1.0, 0.0, &operands)?;
        }
        let mut bytes = self.d.to_vec::<u8>(&room.stream)?;
        bytes.truncate(product.m * product.n * product.d.number.bytes());
        Ok(bytes)
    }
}

/// Same algorithm, same sizes: same bits, whatever is in the workspace, and from its text as well. The long
/// sums are where a library splits them and adds the parts in some order.
fn repeats(
    room: &Room,
    report: &mut Report,
    products: &Products,
    product: &dyn Fn(usize, usize, usize) -> Product,
) -> Result<(), CudaError> {
    for product in [product(64, 64, 16_384), product(768, 768, 8192).transposed_a(), product(2048, 768, 768)]
    {
        let run = Run::new(room, &product)?;
        let choices = products.choices(&product, WORKSPACE, 8)?;
        let (mut same, mut results) = (0, BTreeSet::new());
        for choice in &choices {
            let read_again: Algorithm = choice.algorithm.to_string().parse()?;
            let first = run.bytes(room, products, &product, choice.algorithm, 0xff)?;
            let mut equal = true;
            for i in 0..6 {
                equal &=
                    run.bytes(room, products, &product, read_again, if i % 2 == 0 { 0 } else { 0xff })?
                        == first;
            }
            same += usize::from(equal);
            results.insert(first);
        }
        let detail = format!("{same} of {} algorithms, {} different results", choices.len(), results.len());
        report.check(&format!("repeats: {product}"), same == choices.len(), detail);
    }
    Ok(())
}

/// Whether the first rows of a product have the same bits when there are fewer of them, with the algorithm of
/// many rows and with the one that the heuristic would take.
fn rows(
    room: &Room,
    report: &mut Report,
    products: &Products,
    product: &dyn Fn(usize, usize, usize) -> Product,
) -> Result<(), CudaError> {
    const MOST: usize = 4096;
    const ROWS: [usize; 9] = [1, 2, 8, 16, 64, 128, 300, 1024, 2048];
    for (n, k) in [(768, 768), (3072, 768), (768, 3072)] {
        let whole = product(MOST, n, k).transposed_b();
        let run = Run::new(room, &whole)?;
        let algorithm = products.choices(&whole, WORKSPACE, 1)?[0].algorithm;
        let all = run.bytes(room, products, &whole, algorithm, 0xff)?;
        let (mut fixed, mut chosen, mut used) = (Vec::new(), Vec::new(), BTreeSet::new());
        for m in ROWS {
            let part = product(m, n, k).transposed_b();
            let first = products.choices(&part, WORKSPACE, 1)?[0].algorithm;
            used.insert(first.to_string());
            let same = |got: Result<Vec<u8>, CudaError>| match got {
                Ok(bytes) => Ok(if all[..bytes.len()] == bytes[..] { "=" } else { "x" }),
                Err(error) if error.is_final() => Err(error),
                Err(_) => Ok("-"),
            };
            fixed.push(same(run.bytes(room, products, &part, algorithm, 0xff))?);
            chosen.push(same(run.bytes(room, products, &part, first, 0xff))?);
        }
        let name = format!("rows of {whole}");
        let detail = format!(
            "M {ROWS:?}: its algorithm {}, the heuristic's {} ({} algorithms)",
            fixed.join(""),
            chosen.join(""),
            used.len()
        );
        report.fact(&name, detail);
    }
    Ok(())
}
