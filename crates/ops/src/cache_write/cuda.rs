//! Writes into a cache on a card: in one launch for few positions, as in decoding; else in three that first
//! see to it that nothing is wrong.

use super::{CacheWrite, row_target, slot_target, twice};
use crate::rows::outside_of;
use crate::{CudaCall, CudaList, Fault};
use regard_device::cuda::kernels::Launch;
use regard_device::cuda::{Address, Arguments, Grid, Source};
use regard_graph::Dims;

/// Up to so many positions a block looks at all of them.
const FEW: usize = 256;

pub fn list(op: &CacheWrite, call: &CudaCall<'_>) -> CudaList {
    let (cache, new) = (call.call.inputs[0], call.call.inputs[1]);
    let (count, width) = (new[0] * new[1], cache[2] * cache[3]);
    assert!(count < 1 << 30 && cache[0] * cache[1] < 1 << 31, "{count} positions of a cache {cache}");
    let [at, news, slot] = [0, 1, 2].map(|input| call.inputs[input]);
    let row = if op.rows { call.inputs[3] } else { Address(0) };
    let wide = width.is_multiple_of(8) && [at, news].iter().all(|at| at.0 % 16 == 0);
    let sizes = [cache[0], cache[1], count, new[1], width, usize::from(wide)].map(|size| size as u32);
    let source = Source::new("cache_write/kernel.cu", include_str!("kernel.cu"));
    let source = source.define("C", call.type_of(0)).define("N", call.type_of(1));
    let mut list = CudaList::new();
    let push = |list: &mut CudaList, kernel, grid, addresses: &[Address]| {
        let arguments = Arguments::new().with_each(addresses.iter().copied()).with(sizes);
        list.launch(Launch { source: source.clone(), kernel, grid, arguments });
    };
    let each = CudaCall::threads(count);
    let words = CudaCall::threads(count * if wide { width / 8 } else { width });
    let (fault, stop) = (call.fault, call.stop);
    if count <= FEW {
        // Positions without numbers are still looked at.
        let blocks = if count > 0 { words.blocks[0].max(1) } else { 0 };
        push(&mut list, "write_few", Grid::line(blocks, 256), &[at, news, slot, row, fault, stop]);
    } else {
        let bytes = cache[0] * cache[1] * size_of::<u32>();
        let owner = list.room(call, bytes);
        list.set(owner, bytes);
        push(&mut list, "claim", each, &[owner, slot, row, fault, stop]);
        push(&mut list, "check_owners", each, &[owner, slot, row, fault, stop]);
        push(&mut list, "write_many", words, &[at, news, slot, row, stop]);
    }
    let row_given = op.rows.then(|| call.call.inputs[3]);
    let slots = call.call.inputs[2];
    list.on_fault(move |place, number| sentence(cache, slots, row_given, place, number));
    list
}

/// What `kernel.cu` means by a place and a number.
fn sentence(cache: Dims, slot: Dims, row: Option<Dims>, place: u32, number: i32) -> Fault {
    let (kind, at) = (place >> 30, (place & ((1 << 30) - 1)) as usize);
    match (kind, row) {
        (0, Some(row)) => outside_of(row_target(cache[0]), row, at, number.into()),
        (0 | 1, _) => outside_of(slot_target(cache[1]), slot, at, number.into()),
        _ => {
            let (t, slots, number) = (slot[1], cache[1], number as usize);
            twice(at / t, at % t, number / slots, number % slots)
        }
    }
}
