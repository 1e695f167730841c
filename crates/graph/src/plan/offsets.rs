//! Offsets of blocks with lifetimes in one arena: greedy, the largest first, each in the tightest gap left by
//! those already placed that live at the same time. Deterministic.

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

/// An offset for each block, and the size of the arena. No single order is best for every graph, so a few
/// are tried; from the best of them the block that reaches highest is placed earlier, as long as time allows
/// and the lower bound `peak` is not reached.
pub(super) fn assign(blocks: &[Block], peak: usize) -> (Vec<usize>, usize) {
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

fn place(blocks: &[Block], order: &[usize]) -> (Vec<usize>, usize) {
    let mut offsets = vec![0usize; blocks.len()];
    // Those already placed, by offset.
    let mut placed: Vec<usize> = Vec::new();
    let mut size = 0;
    for &index in order {
        let block = blocks[index];
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
