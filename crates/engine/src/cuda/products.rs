//! Which algorithm of cuBLASLt a product takes: the heuristic's first for its widths, numbers and epilogue,
//! asked once for few rows and once for many. Never by the clock, and never by the exact number of rows: an
//! algorithm gives a row the same bits however many there are beside it.

use crate::Result;
use regard_device::cuda::{Algorithm, Card, Planned, Product, Products};
use regard_ops::CudaProduct;
use std::collections::HashMap;

/// Up to so many rows are few: a decoding step, not a batch.
const FEW: usize = 64;
/// What the heuristic is asked for in place of few rows and of many.
const FEW_ASKED: usize = 16;
const MANY_ASKED: usize = 4096;

pub(crate) struct Algorithms {
    products: Products,
    known: HashMap<Product, Algorithm>,
}

impl Algorithms {
    pub fn new(card: &Card) -> Result<Algorithms> {
        Ok(Algorithms { products: Products::new(card)?, known: HashMap::new() })
    }

    /// A product ready to run, its alignment taken from where its operands are.
    pub fn plan(&mut self, wanted: &CudaProduct, workspace: usize) -> Result<Planned> {
        let product = Product { alignment: alignment(wanted), ..wanted.product };
        let asked = Product { m: rows_asked(&product), ..product };
        let algorithm = match self.known.get(&asked) {
            Some(&known) => known,
            None => {
                // What the heuristic offers for other rows may not do for these: the first that does.
                let offered = self.products.choices(&asked, workspace, 8)?;
                let does = |choice: &&regard_device::cuda::Choice| {
                    let planned = self.products.plan(&product, choice.algorithm);
                    planned.is_ok_and(|planned| planned.workspace() <= workspace)
                };
                let first = match offered.iter().find(does) {
                    Some(choice) => choice.algorithm,
                    None => self.products.choices(&product, workspace, 1)?[0].algorithm,
                };
                self.known.insert(asked, first);
                first
            }
        };
        match self.products.plan(&product, algorithm) {
            Ok(planned) if planned.workspace() <= workspace => Ok(planned),
            // An algorithm that serves some numbers of rows and not these.
            _ => Ok(self.products.plan_first(&product, workspace)?),
        }
    }
}

fn rows_asked(product: &Product) -> usize {
    match product.m {
        // A turned left operand is a gradient of weights: its rows are no batch. And how far the products of
        // a batch lie apart follows from their rows.
        m if product.a.transposed || product.batch > 1 => m,
        m if m <= FEW => FEW_ASKED,
        _ => MANY_ASKED,
    }
}

/// The largest power of two up to 256 that divides all addresses.
fn alignment(wanted: &CudaProduct) -> u32 {
    let o = &wanted.operands;
    let c = if wanted.beta == 0.0 { o.d } else { o.c };
    let all = o.a.0 | o.b.0 | c.0 | o.d.0 | 256;
    1 << all.trailing_zeros()
}
