//! Offsets of blocks with lifetimes in one arena: greedy, the largest first, each in the tightest gap left by
//! those already placed that live at the same time. That takes the square of their number, so a program of
//! very many is played through instead, each block in the tightest stretch that is free when it begins.
//! Deterministic.

use super::free::Free;
use crate::effort;

/// A piece of memory that is needed from one step to another, both included.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub bytes: usize,
    pub first: usize,
    pub last: usize,
}

impl Block {
    fn steps(&self) -> u128 {
        (self.last - self.first + 1) as u128
    }
}

/// What blocks are ordered by, the largest first.
type Key = fn(&Block) -> (u128, u128);

/// The most bytes that are needed at one step: no arena can be smaller.
pub(super) fn peak(blocks: &[Block], steps: usize) -> usize {
    let (mut begins, mut ends) = (vec![0usize; steps + 1], vec![0usize; steps + 1]);
    for block in blocks {
        begins[block.first] += block.bytes;
        ends[block.last + 1] += block.bytes;
    }
    let mut live = 0;
    let levels = begins.iter().zip(&ends).map(|(begin, end)| {
        live = live + begin - end;
        live
    });
    levels.max().unwrap_or(0)
}

/// From here on a program is played through: some hundreds of layers in training.
const VERY_MANY: usize = 16_384;

/// An offset for each block, and the size of the arena. No single order is best for every graph, so a few
/// are tried; from the best of them the block that reaches highest is placed earlier, as long as time allows
/// and the lower bound `peak` is not reached.
pub(super) fn assign(blocks: &[Block], peak: usize) -> (Vec<usize>, usize) {
    if blocks.len() > VERY_MANY {
        return place_in_time(blocks);
    }
    let by_size: Key = |b| (b.bytes as u128, b.steps());
    let by_area: Key = |b| (b.bytes as u128 * b.steps(), b.bytes as u128);
    let by_length: Key = |b| (b.steps(), b.bytes as u128);
    let mut best: Option<(Vec<usize>, usize, Vec<usize>)> = None;
    for key in [by_size, by_area, by_length] {
        let mut order: Vec<usize> = (0..blocks.len()).collect();
        order.sort_by_key(|&i| (std::cmp::Reverse(key(&blocks[i])), blocks[i].first, i));
        let (offsets, size) = place(blocks, &order);
        if best.as_ref().is_none_or(|(_, least, _)| size < *least) {
            best = Some((offsets, size, order));
        }
    }
    let Some((mut offsets, mut size, mut order)) = best else { return (Vec::new(), 0) };
    // Placing is quadratic: a small program can afford many rounds, a very large one none.
    let rounds = (20_000_000 / (blocks.len() * blocks.len() + 1)).min(64);
    let mut now = (offsets.clone(), size);
    for _ in 0..rounds {
        if size <= peak {
            break;
        }
        let top = |&i: &usize| now.0[i] + blocks[i].bytes == now.1;
        let Some(at) = order.iter().position(top) else { break };
        let highest = order.remove(at);
        order.insert(at / 2, highest);
        now = place(blocks, &order);
        if now.1 < size {
            (offsets, size) = now.clone();
        }
    }
    (offsets, size)
}

/// An offset for each block as its steps come: what is over is given back, and of what begins the largest
/// comes first.
fn place_in_time(blocks: &[Block]) -> (Vec<usize>, usize) {
    let mut order: Vec<usize> = (0..blocks.len()).collect();
    order.sort_by_key(|&i| (blocks[i].first, std::cmp::Reverse(blocks[i].bytes), i));
    let mut over: Vec<usize> = (0..blocks.len()).collect();
    over.sort_by_key(|&i| (blocks[i].last, i));
    let mut over = over.into_iter().peekable();
    let mut offsets = vec![0usize; blocks.len()];
    let mut free = Free::default();
    for index in order {
        effort::add(1);
        while let Some(old) = over.next_if(|&old| blocks[old].last < blocks[index].first) {
            effort::add(1);
            if blocks[old].bytes > 0 {
                free.give(offsets[old], blocks[old].bytes);
            }
        }
        if blocks[index].bytes > 0 {
            offsets[index] = free.take(blocks[index].bytes);
        }
    }
    (offsets, free.end)
}

fn place(blocks: &[Block], order: &[usize]) -> (Vec<usize>, usize) {
    let mut offsets = vec![0usize; blocks.len()];
    // Those already placed, by offset.
    let mut placed: Vec<usize> = Vec::new();
    let mut size = 0;
    for &index in order {
        let block = blocks[index];
        effort::add(placed.len());
        let mut free_from = 0;
        let mut best: Option<(usize, usize)> = None; // gap, offset
        for &other in &placed {
            let there = blocks[other];
            if there.last < block.first || block.last < there.first {
                continue;
            }
            let gap = offsets[other].saturating_sub(free_from);
            if gap >= block.bytes && best.is_none_or(|(tightest, _)| gap < tightest) {
                best = Some((gap, free_from));
            }
            free_from = free_from.max(offsets[other] + there.bytes);
        }
        let offset = best.map_or(free_from, |(_, offset)| offset);
        offsets[index] = offset;
        size = size.max(offset + block.bytes);
        let at = placed.partition_point(|&other| offsets[other] <= offset);
        placed.insert(at, index);
    }
    (offsets, size)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(bytes: usize, first: usize, last: usize) -> Block {
        Block { bytes, first, last }
    }

    #[test]
    fn blocks_that_never_meet_share_and_gaps_are_filled() {
        let blocks = [block(64, 0, 1), block(64, 2, 3), block(128, 0, 3), block(0, 1, 1)];
        assert_eq!(peak(&blocks, 4), 192);
        let (offsets, size) = assign(&blocks, 192);
        assert_eq!(size, 192);
        assert_eq!((offsets[0], offsets[1], offsets[2]), (128, 128, 0));
        assert_eq!(assign(&[], 0), (vec![], 0));
    }

    /// Blocks as training has them: some kept from a layer's forward pass to its backward pass, some short.
    fn layered(layers: usize) -> Vec<Block> {
        let mut blocks = Vec::new();
        for layer in 0..layers {
            let (forward, backward) = (8 * layer, 8 * (2 * layers - 1 - layer));
            for (part, bytes) in [256usize, 1024, 320, 4096, 64].into_iter().enumerate() {
                blocks.push(block(bytes, forward + part, backward + 4 - part));
                blocks.push(block(2 * bytes, forward + part, forward + part + 1));
                blocks.push(block(bytes, backward + part, backward + part + 2));
            }
            blocks.push(block(512, forward + 6, forward + 14));
            blocks.push(block(0, backward + 6, backward + 14));
        }
        blocks
    }

    /// No two blocks that live at the same time share a byte, and all lie in the arena.
    fn check(blocks: &[Block], offsets: &[usize], size: usize) {
        let ends = |i: usize| offsets[i]..offsets[i] + blocks[i].bytes;
        for i in 0..blocks.len() {
            assert!(ends(i).end <= size);
            for j in 0..i {
                let together = blocks[i].first <= blocks[j].last && blocks[j].first <= blocks[i].last;
                let shared = ends(i).start < ends(j).end && ends(j).start < ends(i).end;
                assert!(!(together && shared), "{i} and {j}");
            }
        }
    }

    #[test]
    fn a_program_that_is_played_through_is_packed_nearly_as_well() {
        for (layers, percent) in [(1, 116), (7, 105), (60, 104)] {
            let blocks = layered(layers);
            let (offsets, size) = place_in_time(&blocks);
            check(&blocks, &offsets, size);
            let least = peak(&blocks, 16 * layers + 16);
            assert!(100 * size <= percent * least, "{layers} layers: {size} bytes for {least}");
        }
    }

    #[test]
    fn placing_grows_as_the_program_does() {
        let steps = |layers| {
            let blocks = layered(layers);
            assert!(blocks.len() > VERY_MANY);
            let ((_, size), steps) = effort::of(|| assign(&blocks, 0));
            let least = peak(&blocks, 16 * layers + 16);
            assert!(100 * size <= 102 * least, "{layers} layers: {size} bytes for {least}");
            (blocks.len(), steps)
        };
        for layers in [1000, 2000, 4000] {
            let (blocks, steps) = steps(layers);
            // Each block is placed once and given back once, at the cost of a search in a tree.
            assert!(steps <= 2 * blocks, "{steps} steps for {blocks} blocks");
        }
    }

    #[test]
    fn the_tightest_gap_is_taken() {
        // At step 1 there are gaps of 256 (at 512) and 128 (at 1024) between the long-lived blocks.
        let blocks = [
            block(512, 0, 9),
            block(256, 0, 0),
            block(256, 0, 9),
            block(128, 0, 0),
            block(64, 0, 9),
            block(128, 1, 1),
        ];
        let order: Vec<usize> = (0..6).collect();
        let (offsets, _) = place(&blocks, &order);
        assert_eq!(offsets, [0, 512, 768, 1024, 1152, 1024]);
    }
}
