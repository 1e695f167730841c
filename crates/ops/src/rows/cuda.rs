//! Rows moved by index on a card, and the sums of those that meet at one index.

use super::cpu::Scatter;
use super::{Target, outside_of};
use crate::cuda::teams::{PART, THREADS, blocks, in_vectors, size};
use crate::{CudaCall, CudaList};
use regard_device::cuda::kernels::Launch;
use regard_device::cuda::{Arguments, Grid, Source};
use regard_graph::Dims;

/// Tables of walkers have at most so many bytes, unless one walker's are more already.
const TABLES: usize = 32 << 20;
/// The most walkers of a group.
const MOST_WALKERS: usize = 512;
/// Threads of a warp: places that a walker takes at a time.
const WARP: usize = 32;

fn line(items: usize) -> Grid {
    Grid::line(blocks(items, THREADS as usize), THREADS)
}

/// What is said of an index, in operand 1 of a call, that points to nothing.
fn with_sentence(list: &mut CudaList, call: &CudaCall<'_>, target: Target) {
    let dims: Dims = call.call.inputs[1];
    list.on_fault(move |place, index| outside_of(target, dims, place as usize, i64::from(index)));
}

/// `y[o, m] = x[o, indices[m]]`, rows of `inner` numbers: operands x and indices, result y.
#[derive(Clone, Copy, Debug)]
pub struct Gathered {
    pub outer: usize,
    pub count: usize,
    pub size: usize,
    pub inner: usize,
    /// Whether each of the leading ones has indices of its own.
    pub batched: bool,
}

impl Gathered {
    pub fn cuda(&self, call: &CudaCall<'_>, target: Target) -> CudaList {
        let mut list = CudaList::new();
        with_sentence(&mut list, call, target);
        let bytes = self.inner * call.call.input_dtypes[0].bytes();
        if !call.used(0) || self.outer * self.count * bytes == 0 {
            return list;
        }
        let (y, x) = (call.outputs[0], call.inputs[0]);
        let units = [(16, "uint4"), (8, "uint2"), (4, "u32"), (2, "u16"), (1, "u8")];
        let fits = |unit: u64| [bytes as u64, y.0, x.0].iter().all(|at| at % unit == 0);
        let (unit, name) = units.into_iter().find(|&(unit, _)| fits(unit)).unwrap_or((1, "u8"));
        let units = bytes / unit as usize;
        let source = Source::new("rows/kernel_move.cu", include_str!("kernel_move.cu")).define("UNIT", name);
        let sizes = [self.outer, self.count, self.size, units].map(size);
        let [outer, count, rows, units] = sizes;
        let arguments = Arguments::new().with(y).with(x).with(call.inputs[1]);
        let arguments = arguments.with([outer, count, rows, units, u32::from(self.batched)]);
        let arguments = arguments.with(call.fault).with(call.stop);
        let grid = line(self.outer * self.count * (bytes / unit as usize));
        list.launch(Launch { source, kernel: "gather", grid, arguments });
        list
    }
}

/// `y[n] = table[ids[n]]`: operands table and ids, result y.
pub fn embed(call: &CudaCall<'_>, target: Target) -> CudaList {
    let mut list = CudaList::new();
    with_sentence(&mut list, call, target);
    let (count, [rows, width]) = (call.count(1), [call.call.inputs[0][0], call.call.inputs[0][1]]);
    if !call.used(0) || count * width == 0 {
        return list;
    }
    let (y, table) = (call.outputs[0], call.inputs[0]);
    let each = if in_vectors(width, &[y, table]) == 1 { PART } else { 1 };
    let source = Source::new("rows/kernel_embed.cu", include_str!("kernel_embed.cu"));
    let source = source.define("EACH", each).define("Y", call.out_type_of(0));
    let arguments = Arguments::new().with(y).with(table).with(call.inputs[1]);
    let arguments = arguments.with(size(count)).with(size(rows)).with(size(width));
    let arguments = arguments.with(call.fault).with(call.stop);
    list.launch(Launch { source, kernel: "embed", grid: line(count * width / each), arguments });
    list
}

impl Scatter {
    /// The sums of operand 0's rows by the indices of operand 1, to result 0.
    pub fn cuda(&self, call: &CudaCall<'_>, target: Target) -> CudaList {
        let mut list = CudaList::new();
        with_sentence(&mut list, call, target);
        let Scatter { outer, batched, count, size: rows, inner } = *self;
        if !call.used(0) || outer * rows * inner == 0 {
            return list;
        }
        let (y, x, indices) = (call.outputs[0], call.inputs[0], call.inputs[1]);
        list.clear(y, outer * rows * inner * call.call.output_dtypes[0].bytes());
        let groups = if batched { outer } else { 1 };
        if count == 0 {
            return list;
        }
        let each = if in_vectors(inner, &[y, x]) == 1 { PART } else { 1 };
        let source = Source::new("rows/kernel_scatter.cu", include_str!("kernel_scatter.cu"))
            .define("EACH", each)
            .define("X", call.type_of(0))
            .define("Y", call.out_type_of(0));
        let push = |list: &mut CudaList, kernel, grid, arguments| {
            list.launch(Launch { source: source.clone(), kernel, grid, arguments });
        };
        // The lists.
        let (keys, places) = (groups * rows, groups * count);
        let (walkers, length) = walkers(groups, count, rows);
        let sort = [groups, count, rows, walkers, length].map(size);
        let bytes = groups * walkers * rows * 4;
        let table = list.room(call, bytes);
        let starts = list.room(call, (keys + 1) * 4);
        let listed = list.room(call, places * 4);
        list.clear(table, bytes);
        let arguments =
            Arguments::new().with(table).with(indices).with(sort).with(call.fault).with(call.stop);
        push(&mut list, "count_places", line(places), arguments);
        let arguments = Arguments::new().with(table).with(starts).with(sort);
        push(&mut list, "add_walkers", line(keys), arguments);
        let arguments = Arguments::new().with(starts).with(size(keys));
        push(&mut list, "add_starts", Grid::line(1, 1024), arguments);
        let arguments = Arguments::new().with(listed).with(table).with(starts).with(indices).with(sort);
        push(&mut list, "list_places", line(groups * walkers * WARP), arguments);
        // The sums.
        let walks = if batched { 1 } else { outer };
        let (units, slots) = (inner / each, places / 32 + 2);
        let partial = list.room(call, walks * slots * inner * 4);
        let [walked, of_places, of_count, of_keys, of_rows, of_units, of_slots] =
            [walks, places, count, keys, rows, units, slots].map(size);
        let sums = [walked, of_places, of_count, of_keys, of_rows, of_units, u32::from(batched), of_slots];
        let grid = line(walks * places * units);
        let arguments = Arguments::new().with(y).with(partial).with(x).with(indices);
        push(&mut list, "sum_places", grid, arguments.with(starts).with(listed).with(sums));
        let arguments = Arguments::new().with(y).with(partial).with(indices);
        push(&mut list, "join_places", grid, arguments.with(starts).with(listed).with(sums));
        list
    }
}

/// Warps that share the places of a group, and how many places each takes: as many as there is room for their
/// tables.
fn walkers(groups: usize, count: usize, rows: usize) -> (usize, usize) {
    let room = (TABLES / 4 / (groups * rows)).clamp(1, MOST_WALKERS);
    let length = count.div_ceil(count.div_ceil(WARP).clamp(1, room)).next_multiple_of(WARP);
    (count.div_ceil(length).max(1), length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walkers_cover_the_places_and_fit() {
        for (groups, count, rows) in
            [(1, 65536, 50257), (1, 1, 3), (512, 100, 1024), (1, 1 << 20, 256), (1, 33, 1 << 24)]
        {
            let (walkers, length) = walkers(groups, count, rows);
            assert!(walkers * length >= count && (walkers - 1) * length < count, "{groups} {count} {rows}");
            assert!(walkers == 1 || groups * walkers * rows * 4 <= TABLES, "{groups} {count} {rows}");
        }
    }

    #[test]
    fn sums_of_long_lists_have_slots_of_their_own() {
        // An index with c > 64 places from `begin` on has c.div_ceil(64) slots from begin / 32 on; the next
        // index begins at begin + c.
        for begin in 0..70 {
            for c in 65..1000usize {
                assert!(begin / 32 + c.div_ceil(64) <= (begin + c) / 32);
            }
        }
    }
}
