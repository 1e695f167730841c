//! Attention on NVIDIA cards: from settings, sizes and addresses to a list of launches, made without a card.
//!
//! Three families of kernels serve it. *Rows* (`kernel_rows*.cu`) do every form and size in true f32. *Tiles*
//! (`kernel_forward.cu`, `kernel_query_gradients.cu`, `kernel_key_gradients.cu`) do soft attention without
//! caps on tensor cores where the precision is bf16 and the widths suit. *Decode* (`kernel_decode.cu`) does
//! the forward of soft attention for few queries, split over the keys. Which one is taken depends on settings
//! and sizes alone, never on time: same sizes, same bits.

use super::cuda_arguments::Common;
use super::cuda_sources::{Tile, Unit};
use super::form::{BiasForm, Extent, Extra, Form};
use super::{AttentionBackward, AttentionKind, AttentionOp};
use crate::{CudaCall, CudaList};
use regard_device::cuda::kernels::Launch;
use regard_device::cuda::{Address, Arguments, Grid};
use regard_graph::Precision;

/// Queries and keys of a tile of `kernel_rows*.cu`.
const ROW_TILE: usize = 64;
const ROW_THREADS: u32 = 256;
/// Threads of a block of the kernels on tensor cores.
const TILE_THREADS: u32 = 128;
/// The most queries of a call that is split over the keys; the keys, and rows that share them, of a block of
/// it.
const FEW_QUERIES: usize = 4;
const CHUNK: usize = 128;
const CHUNK_ROWS: usize = 4;
/// Every value that a kernel touches with vectors begins at a multiple of this.
const ALIGNMENT: u64 = 16;

/// Puts a kernel of a source on the list; one without blocks is left out.
pub(super) fn push(
    list: &mut CudaList,
    unit: Unit<'_>,
    kernel: &'static str,
    grid: Grid,
    arguments: Arguments,
) {
    list.launch(Launch { source: unit.source(), kernel, grid, arguments });
}

/// Whether tensor cores serve a call: where they do not, kernels in true f32 do. `aligned` where all values
/// begin at multiples of 16 bytes.
pub(super) fn on_tensor_cores(form: &Form, extent: &Extent, aligned: bool) -> bool {
    let width = extent.d;
    let fits = width == extent.e && width.is_multiple_of(16) && (16..=128).contains(&width);
    let served = form.kind == AttentionKind::Soft && form.precision == Precision::Bf16 && form.cap.is_none();
    fits && aligned && served
}

pub(crate) fn line(blocks: usize, threads: u32, shared: usize) -> Grid {
    assert!(blocks < 1 << 31, "{blocks} blocks in one launch");
    Grid { shared: shared as u32, ..Grid::line(blocks as u32, threads) }
}

fn tiles(count: usize, tile: usize) -> usize {
    count.div_ceil(tile)
}

fn aligned(addresses: &[Address]) -> bool {
    addresses.iter().all(|at| at.0 % ALIGNMENT == 0)
}

impl AttentionOp {
    /// The launches that compute y, lse and choice.
    pub(super) fn cuda_list(&self, call: &CudaCall<'_>) -> CudaList {
        let mut plan = CudaList::default();
        let common = Common::new(&self.form, call, 3, &mut plan);
        let extent = common.extent;
        let [y, lse, choice] = [0, 1, 2].map(|output| call.outputs[output]);
        common.lay_out_table(&mut plan);
        let few = extent.t <= FEW_QUERIES && extent.s > 0 && decode_shared(extent.d) <= call.shared;
        if few && self.form.kind == AttentionKind::Soft {
            self.split_over_keys(&mut plan, &common, call);
            return plan;
        }
        let aligned = aligned(&call.inputs[..3]) && aligned(&[y]);
        let tile = Tile::forward(extent.d, call.shared);
        if let Some(tile) = tile.filter(|_| on_tensor_cores(&self.form, &extent, aligned)) {
            let blocks = tiles(extent.t, tile.queries) * extent.h * extent.b;
            let grid = line(blocks, TILE_THREADS, tile.shared);
            let arguments = common.arguments().with(y).with(lse).with(choice);
            push(&mut plan, common.unit("forward", Some(tile)), "attend", grid, arguments);
            return plan;
        }
        let rows = extent.b * extent.t * extent.h;
        let statistics = plan.room(call, rows * 8);
        // What is mixed follows from the choice, whether anybody reads it or not.
        let choice = match self.form.kind.is_hard() && !call.used(2) {
            true => plan.room(call, rows * 4),
            false => choice,
        };
        let blocks = tiles(extent.t, ROW_TILE) * extent.h * extent.b;
        let arguments = common.arguments().with(lse).with(choice).with(statistics);
        push(&mut plan, common.unit("rows", None), "row_statistics", line(blocks, ROW_THREADS, 0), arguments);
        if call.used(0) {
            let arguments = common.arguments().with(y).with(choice).with(statistics);
            let blocks = blocks * tiles(extent.e, ROW_TILE);
            push(&mut plan, common.unit("rows", None), "mix", line(blocks, ROW_THREADS, 0), arguments);
        }
        plan
    }

    /// Few queries: each chunk of keys on its own, then the chunks of each row in order.
    fn split_over_keys(&self, plan: &mut CudaList, common: &Common<'_>, call: &CudaCall<'_>) {
        let Extent { b, t, s, h, g, d, e, .. } = common.extent;
        let (rows, chunks) = (b * t * h, s.div_ceil(CHUNK));
        let statistics = plan.room(call, rows * chunks * 8);
        let parts = plan.room(call, rows * chunks * e * 4);
        let blocks = chunks * (t * h / g).div_ceil(CHUNK_ROWS) * g * b;
        let grid = line(blocks, CHUNK as u32, CHUNK_ROWS * d * 4);
        let arguments = common.arguments().with(statistics).with(parts);
        push(plan, common.unit("decode", None), "attend_chunk", grid, arguments);
        let [y, lse, choice] = [0, 1, 2].map(|output| call.outputs[output]);
        let arguments = Arguments::new().with(common.sizes).with(y).with(lse).with(choice);
        let arguments = arguments.with(statistics).with(parts);
        push(plan, common.unit("decode", None), "join_chunks", line(rows, CHUNK as u32, 0), arguments);
    }
}

impl AttentionBackward {
    /// The launches that compute those gradients that anybody reads.
    pub(super) fn cuda_list(&self, call: &CudaCall<'_>) -> CudaList {
        let mut plan = CudaList::default();
        let common = Common::new(&self.form, call, self.base(), &mut plan);
        common.lay_out_table(&mut plan);
        let aligned = aligned(&call.inputs[..6]) && aligned(&call.outputs[..3]);
        let tensor = on_tensor_cores(&self.form, &common.extent, aligned);
        let (d, shared) = (common.extent.d, call.shared);
        let query_tile = Tile::query_gradients(d, shared).filter(|_| tensor);
        // Keys that are picked from other rows have sums over examples, which the kernels of rows do.
        let key_tile = Tile::key_gradients(d, shared).filter(|_| tensor && !self.form.has(Extra::KeyRow));
        let terms = self.row_terms(&mut plan, &common, call, query_tile);
        self.key_side(&mut plan, &common, call, terms, key_tile);
        self.query_side(&mut plan, &common, call, terms, query_tile);
        if let Some(output) = self.bias_output().filter(|&output| call.call.used[output]) {
            match self.form.bias {
                BiasForm::Buckets { .. } | BiasForm::Clipped => {
                    self.table(&mut plan, &common, call, terms, output)
                }
                BiasForm::Dense => self.dense(&mut plan, &common, call, terms, output),
                BiasForm::Alibi | BiasForm::None => {}
            }
        }
        plan
    }

    /// What the score gradients of each row are taken from.
    fn row_terms(
        &self,
        plan: &mut CudaList,
        common: &Common<'_>,
        call: &CudaCall<'_>,
        tile: Option<Tile>,
    ) -> Address {
        let Extent { b, t, h, .. } = common.extent;
        let terms = plan.room(call, b * t * h * 4);
        let [lse, dy, saved] = [3, 4, 5].map(|input| call.inputs[input]);
        let dlse = if self.dlse { call.inputs[6] } else { Address(0) };
        if self.form.kind.is_hard() && self.form.kind != AttentionKind::Hard {
            let arguments = common.arguments().with(terms).with(dy).with(lse).with(saved).with(dlse);
            let grid = line(tiles(t, ROW_TILE) * h * b, ROW_THREADS, 0);
            push(plan, common.unit("rows_backward", None), "row_terms_of_choice", grid, arguments);
        } else {
            let arguments = Arguments::new().with(common.sizes).with(terms).with(dy).with(saved).with(dlse);
            let (unit, kernel, rows) = match tile {
                // A warp has a row.
                Some(_) => (common.unit("query_gradients", tile), "row_products", ROW_THREADS / 32),
                None => (common.unit("rows_backward", None), "row_terms", ROW_THREADS),
            };
            push(plan, unit, kernel, line((b * t * h).div_ceil(rows as usize), ROW_THREADS, 0), arguments);
        }
        terms
    }

    /// dk and dv.
    fn key_side(
        &self,
        plan: &mut CudaList,
        common: &Common<'_>,
        call: &CudaCall<'_>,
        terms: Address,
        tile: Option<Tile>,
    ) {
        let Extent { s, g, d, e, rows, .. } = common.extent;
        let [lse, dy, saved] = [3, 4, 5].map(|input| call.inputs[input]);
        if let Some(tile) = tile {
            let [dk, dv] = [1, 2].map(|output| match call.call.used[output] {
                true => call.outputs[output],
                false => Address(0),
            });
            if dk != Address(0) || dv != Address(0) {
                let arguments = common.arguments().with(dk).with(dv).with(dy).with(lse).with(terms);
                let grid = line(tiles(s, tile.keys) * g * rows, TILE_THREADS, tile.shared);
                push(plan, common.unit("key_gradients", Some(tile)), "key_gradients", grid, arguments);
            }
            return;
        }
        let blocks =
            |width: usize| line(tiles(s, ROW_TILE) * g * rows * tiles(width, ROW_TILE), ROW_THREADS, 0);
        if call.call.used[1] {
            let arguments = common.arguments().with(call.outputs[1]).with(dy).with(lse).with(terms);
            push(plan, common.unit("rows_backward", None), "key_gradient", blocks(d), arguments);
        }
        if call.call.used[2] {
            let choice = if self.form.kind.is_hard() { saved } else { Address(0) };
            let arguments = common.arguments().with(call.outputs[2]).with(dy).with(lse).with(choice);
            push(plan, common.unit("rows_backward", None), "value_gradient", blocks(e), arguments);
        }
    }

    /// dq, and with it the gradients of the scale and of slopes.
    fn query_side(
        &self,
        plan: &mut CudaList,
        common: &Common<'_>,
        call: &CudaCall<'_>,
        terms: Address,
        tile: Option<Tile>,
    ) {
        let Extent { b, t, h, d, .. } = common.extent;
        let used = |output: &usize| call.call.used[*output];
        let scale = self.scale_output().filter(used);
        let slopes = self.bias_output().filter(used).filter(|_| self.form.bias == BiasForm::Alibi);
        if !call.call.used[0] && scale.is_none() && slopes.is_none() {
            return;
        }
        let mut part = |output: Option<usize>| match output {
            Some(_) => plan.room(call, b * t * h * 4),
            None => Address(0),
        };
        let (scale_parts, slope_parts) = (part(scale), part(slopes));
        let [lse, dy] = [3, 4].map(|input| call.inputs[input]);
        let arguments = common.arguments().with(call.outputs[0]).with(scale_parts).with(slope_parts);
        let arguments = arguments.with(dy).with(lse).with(terms);
        match tile {
            Some(tile) => {
                let grid = line(tiles(t, tile.queries) * h * b, TILE_THREADS, tile.shared);
                push(plan, common.unit("query_gradients", Some(tile)), "query_gradients", grid, arguments);
            }
            None => {
                let dlse = if self.dlse { call.inputs[6] } else { Address(0) };
                let arguments = arguments.with(dlse);
                let grid = line(tiles(t, ROW_TILE) * h * b * tiles(d, ROW_TILE), ROW_THREADS, 0);
                push(plan, common.unit("rows_backward", None), "query_gradient", grid, arguments);
            }
        }
        for (output, parts) in [(scale, scale_parts), (slopes, slope_parts)] {
            if let Some(output) = output {
                sum_parts(plan, common, call.outputs[output], parts, b * t, h);
            }
        }
    }

    /// The gradient of a table by distance.
    fn table(
        &self,
        plan: &mut CudaList,
        common: &Common<'_>,
        call: &CudaCall<'_>,
        terms: Address,
        output: usize,
    ) {
        let Extent { b, t, h, .. } = common.extent;
        let rows = common.table_rows();
        let parts = plan.room(call, b * tiles(t, ROW_TILE) * rows * h * 4);
        let [lse, dy] = [3, 4].map(|input| call.inputs[input]);
        let arguments = common.arguments().with(parts).with(dy).with(lse).with(terms);
        let blocks = tiles(t, ROW_TILE) * h * b * tiles(rows, ROW_TILE);
        let grid = line(blocks, ROW_THREADS, ROW_TILE * (ROW_TILE + 1) * 4);
        push(plan, common.unit("bias_gradients", None), "table_gradient", grid, arguments);
        sum_parts(plan, common, call.outputs[output], parts, b * tiles(t, ROW_TILE), rows * h);
    }

    /// The gradient of a bias with a number for each pair.
    fn dense(
        &self,
        plan: &mut CudaList,
        common: &Common<'_>,
        call: &CudaCall<'_>,
        terms: Address,
        output: usize,
    ) {
        let Extent { t, s, .. } = common.extent;
        let Some(input) = self.form.place(self.base(), Extra::Bias) else { return };
        let own = call.call.inputs[input];
        let [lse, dy] = [3, 4].map(|input| call.inputs[input]);
        let arguments = common.arguments().with(call.outputs[output]).with(dy).with(lse).with(terms);
        let grid = line(own[0] * own[1] * tiles(t, ROW_TILE) * tiles(s, ROW_TILE), ROW_THREADS, 0);
        push(plan, common.unit("bias_gradients", None), "dense_gradient", grid, arguments);
    }
}

/// to[width] = the sum of `count` rows of parts.
fn sum_parts(
    plan: &mut CudaList,
    common: &Common<'_>,
    to: Address,
    parts: Address,
    count: usize,
    width: usize,
) {
    let arguments = Arguments::new().with(to).with(parts).with(count as u64).with(width as u32);
    push(plan, common.unit("parameters", None), "sum_parts", line(width, ROW_THREADS, 0), arguments);
}

/// The shared memory of a block that has a chunk of keys: its queries, and what `kernel_decode.cu` declares
/// besides.
fn decode_shared(width: usize) -> usize {
    CHUNK_ROWS * width * 4 + (2 * CHUNK_ROWS + 1) * CHUNK * 4
}
