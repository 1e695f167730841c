//! Weights on request on a card. They are for looking, so that the kernels are plain: a thread makes the
//! score of a pair.

use super::{AttentionWeights, WeightsRequest};
use crate::attention::{CudaCommon, Extra, cuda_line};
use crate::{CudaCall, CudaList};
use regard_device::cuda::kernels::Launch;
use regard_device::cuda::{Address, Arguments, Source};

const THREADS: usize = 256;
const WARP: usize = 32;
/// Indices that one launch takes along.
const MOST_LISTED: usize = 128;

/// Some of the queries or keys that were asked for, as the kernel reads them: how many were asked for in all,
/// which of these are meant, where they begin, and whether they are listed.
fn picked(total: usize, offset: usize, count: usize, first: usize, list: &[usize]) -> [u32; 5 + MOST_LISTED] {
    let mut words = [0; 5 + MOST_LISTED];
    let small = |size: usize| u32::try_from(size).expect("sizes of an attention are below 2^32");
    words[..4].copy_from_slice(&[total, offset, count, first].map(small));
    words[4] = u32::from(!list.is_empty());
    words[5..].iter_mut().zip(list).for_each(|(word, &at)| *word = small(at));
    words
}

/// All of a run.
fn run(range: std::ops::Range<usize>) -> Vec<[u32; 5 + MOST_LISTED]> {
    vec![picked(range.len(), 0, range.len(), range.start, &[])]
}

/// Those of a list, some to a launch.
fn listed(list: &[usize]) -> Vec<[u32; 5 + MOST_LISTED]> {
    let some = list.chunks(MOST_LISTED).enumerate();
    some.map(|(i, some)| picked(list.len(), i * MOST_LISTED, some.len(), 0, some)).collect()
}

pub fn list(op: &AttentionWeights, call: &CudaCall<'_>) -> CudaList {
    let mut list = CudaList::new();
    let common = CudaCommon::without_value(&op.form, call, 3, &mut list);
    let extent = common.extent;
    if let Err(fault) = op.check_run(extent.t, extent.s) {
        list.tell(call, fault);
        return list;
    }
    common.lay_out_table(&mut list);
    let source: Source = common.unit("weights", None).source();
    let push = |list: &mut CudaList, kernel, items: usize, arguments: Arguments| {
        let grid = cuda_line(items.div_ceil(THREADS), THREADS as u32, 0);
        list.launch(Launch { source: source.clone(), kernel, grid, arguments });
    };
    if op.form.has(Extra::KeyRow) {
        push(&mut list, "check_rows", extent.b * extent.s, common.arguments());
    }
    let held = call.inputs[2];
    let output = |at: usize| match at < call.outputs.len() && call.used(at) {
        true => call.outputs[at],
        false => Address(0),
    };
    let y = output(0);
    let (heads, rows) = (extent.b * extent.h, extent.b * extent.t * extent.h);
    let (queries, keys) = match &op.request {
        WeightsRequest::Rows(list) => (listed(list), run(0..extent.s)),
        WeightsRequest::Columns(list) => (run(0..extent.t), listed(list)),
        WeightsRequest::Block { queries, keys } => (run(queries.clone()), run(keys.clone())),
        WeightsRequest::ColumnSums => {
            push(&mut list, "sum_columns", heads * extent.s, common.arguments().with(y).with(held));
            return list;
        }
        WeightsRequest::Entropy => {
            push(&mut list, "entropy", rows * WARP, common.arguments().with(y).with(held));
            return list;
        }
        WeightsRequest::TopK(k) => {
            let arguments = common.arguments().with(y).with(output(1)).with(held);
            let k = u32::try_from(*k).expect("a number of keys is below 2^32");
            push(&mut list, "largest", rows * WARP, arguments.with(k));
            return list;
        }
    };
    for queries in queries {
        for keys in &keys {
            let items = heads * queries[2] as usize * keys[2] as usize;
            let arguments = common.arguments().with(y).with(held).with(queries).with(*keys);
            push(&mut list, "pick", items, arguments);
        }
    }
    list
}
