//! Steps of optimizers: every parameter is a node of its own, and neighbours among them can share a launch. A
//! launch has a table of parameters as its last argument but one, and their number as its last.

use super::{CudaCall, CudaWork};
use regard_device::cuda::kernels::Launch;
use regard_device::cuda::{Address, Arguments, Grid, Source};

/// Parameters of a launch.
const ENTRIES: usize = 64;
/// Words of one: four addresses, where its fault is told, how many elements it has and its first block.
const WORDS: usize = 6;
const HEADER: (&str, &str) = ("table.cuh", include_str!("table.cuh"));

/// A launch for one parameter, whose elements are cut into blocks of `per_block`: `common` is what it shares
/// with others.
pub fn of_one(
    call: &CudaCall<'_>,
    (source, kernel): (Source, &'static str),
    common: Arguments,
    at: [Address; 4],
    per_block: usize,
) -> Launch {
    let count = call.count(0);
    assert!(count < 1 << 31, "{count} elements");
    let [a, b, c, d] = at.map(|at| at.0);
    let entry = [a, b, c, d, call.fault.0, count as u64];
    let mut source = source.define("PER_BLOCK", per_block);
    source.headers.push(HEADER);
    launch(source, kernel, common, &[entry], count.div_ceil(per_block) as u32)
}

fn launch(
    source: Source,
    kernel: &'static str,
    common: Arguments,
    entries: &[[u64; WORDS]],
    blocks: u32,
) -> Launch {
    let mut table = [[0; WORDS]; ENTRIES];
    table[..entries.len()].copy_from_slice(entries);
    let arguments = common.with(table).with(entries.len() as u32);
    Launch { source, kernel, grid: Grid::line(blocks, 256), arguments }
}

/// The same work with neighbouring steps of optimizers put into one launch, where they have all else in
/// common. What they compute is the same to the bit.
pub fn share_launches(work: impl IntoIterator<Item = CudaWork>) -> Vec<CudaWork> {
    let mut shared: Vec<CudaWork> = Vec::new();
    for work in work {
        if let (Some(CudaWork::Launch(last)), CudaWork::Launch(next)) = (shared.last_mut(), &work)
            && let Some(both) = joined(last, next)
        {
            *last = both;
            continue;
        }
        shared.push(work);
    }
    shared
}

/// Two launches as one.
fn joined(first: &Launch, second: &Launch) -> Option<Launch> {
    let is_table = first.source.headers.contains(&HEADER);
    if !is_table || first.source != second.source || first.kernel != second.kernel {
        return None;
    }
    let (common, mut entries) = taken_apart(&first.arguments);
    let (other, more) = taken_apart(&second.arguments);
    let blocks = first.grid.blocks[0];
    if common != other || entries.len() + more.len() > ENTRIES {
        return None;
    }
    // The first block of an entry is the upper half of its last word.
    let moved = |mut entry: [u64; WORDS]| {
        entry[WORDS - 1] += u64::from(blocks) << 32;
        entry
    };
    entries.extend(more.into_iter().map(moved));
    let all = blocks.checked_add(second.grid.blocks[0])?;
    Some(launch(first.source.clone(), first.kernel, common, &entries, all))
}

/// What launches share, and the entries of the table.
fn taken_apart(arguments: &Arguments) -> (Arguments, Vec<[u64; WORDS]>) {
    let [.., (table, length), (many, _)] = *arguments.layout() else {
        unreachable!("a table is the last but one")
    };
    let bytes = arguments.bytes();
    let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
    let many = bytes[many] as usize; // at most `ENTRIES`
    let entry = |i: usize| std::array::from_fn(|w| word(table + (i * WORDS + w) * 8));
    debug_assert_eq!(length, ENTRIES * WORDS * 8);
    (arguments.first(arguments.layout().len() - 2), (0..many).map(entry).collect())
}
