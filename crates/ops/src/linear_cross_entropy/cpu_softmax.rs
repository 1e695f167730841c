//! The softmax of transposed logits [V n], in blocks of the vocabulary: each block has a maximum of its own, so
//! that it is read once; the blocks are put together afterwards, in order.

#![allow(unsafe_code)]

use super::cpu::{MOST_ROWS, Pass};
use crate::cross_entropy::cpu::row_loss;
use regard_device::{Disjoint, math, multiversion, reduce};

/// How many entries of the vocabulary one task turns into exponentials; they share a maximum.
pub const BLOCK: usize = 64;

impl Pass<'_> {
    /// In every block: the bias added, each row's maximum, target's logit and sums, and exp(logit − maximum) in
    /// the place of the logits.
    pub(super) fn exponentials(&mut self, n: usize) {
        let (level, bias, ids) = (self.call.level, self.bias, &self.ids[..n]);
        let smooth = self.op.label_smoothing != 0.0;
        let (maxima, sums) = (Disjoint::new(&mut *self.maxima), Disjoint::new(&mut *self.sums));
        let (totals, own) = (Disjoint::new(&mut *self.totals), Disjoint::new(&mut *self.own));
        self.call.pool.rows(&mut self.logits[..self.v * n], n, BLOCK, |first, tile, _| {
            let place = first / BLOCK * n..(first / BLOCK + 1) * n;
            let width = tile.len() / n;
            // SAFETY: each block has its own places, and is worked on by one task.
            let (maxima, sums) = unsafe { (maxima.range(place.clone()), sums.range(place.clone())) };
            block_maxima(level, tile, bias.map(|bias| &bias[first..first + width]), maxima);
            for (r, &id) in ids.iter().enumerate() {
                if (first..first + width).contains(&(id as usize)) {
                    // SAFETY: a row's target lies in one block.
                    let own = unsafe { own.range(r..r + 1) };
                    own[0] = tile[(id as usize - first) * n + r];
                }
            }
            if smooth {
                // SAFETY: as for the maxima.
                sum_tile(level, tile, unsafe { totals.range(place) });
            }
            block_exponentials(level, tile, maxima, sums);
        });
    }

    /// The losses of the chosen rows; the blocks' maxima become the factors, scale included, that make
    /// probabilities of their exponentials.
    pub(super) fn losses(&mut self, chosen: &[u32], losses: &mut [f32]) {
        let (n, smoothing) = (chosen.len(), self.op.label_smoothing);
        let blocks = self.v.div_ceil(BLOCK);
        let (maxima, sums) = (&mut self.maxima[..blocks * n], &self.sums[..blocks * n]);
        let (mut most, mut sum, mut total) = ([f32::MIN; MOST_ROWS], [0.0; MOST_ROWS], [0.0; MOST_ROWS]);
        let (most, sum, total) = (&mut most[..n], &mut sum[..n], &mut total[..n]);
        combine(self.call.level, maxima, sums, most, sum);
        if smoothing != 0.0 {
            for block in self.totals[..blocks * n].chunks_exact(n) {
                total.iter_mut().zip(block).for_each(|(total, &x)| *total += x as f64);
            }
        }
        for (r, &row) in chosen.iter().enumerate() {
            let below = self.v as f64 * most[r] as f64 - total[r];
            losses[row as usize] = row_loss(most[r], sum[r], below, self.own[r], self.v, smoothing);
            most[r] = (self.scale as f64 / sum[r]) as f32;
        }
        for block in maxima.chunks_exact_mut(n) {
            block.iter_mut().zip(&*most).for_each(|(factor, by)| *factor *= by);
        }
    }

    /// Exponentials to gradients: d = scale · (softmax − target), and the bias's sums of them.
    pub(super) fn logit_gradients(&mut self, n: usize, first_group: bool) {
        let (level, ids, factors) = (self.call.level, &self.ids[..n], &*self.maxima);
        let smoothing = self.op.label_smoothing;
        let spread = self.scale * (smoothing / self.v as f32);
        let peak = self.scale * (1.0 - smoothing);
        // SAFETY: taken once for this pass over the blocks.
        let dbias = self.wants(4).then(|| Disjoint::new(unsafe { self.call.out_f32(4) }));
        self.call.pool.rows(&mut self.logits[..self.v * n], n, BLOCK, |first, tile, _| {
            let block = first / BLOCK;
            block_gradients(level, tile, &factors[block * n..(block + 1) * n], spread);
            let width = tile.len() / n;
            for (r, &id) in ids.iter().enumerate() {
                if (first..first + width).contains(&(id as usize)) {
                    tile[(id as usize - first) * n + r] -= peak;
                }
            }
            if let Some(dbias) = &dbias {
                // SAFETY: each entry of the vocabulary lies in one block.
                let into = unsafe { dbias.range(first..first + width) };
                for (into, row) in into.iter_mut().zip(tile.chunks_exact(n)) {
                    let sum = reduce::sum(level, row);
                    *into = if first_group { sum } else { *into + sum };
                }
            }
        });
    }
}

multiversion! {
    fn block_maxima(tile: &mut [f32], bias: Option<&[f32]>, maxima: &mut [f32]) {
        // Not minus infinity: a block of logits that all are would then give NaN instead of 0.
        maxima.fill(f32::MIN);
        for (entry, row) in tile.chunks_exact_mut(maxima.len()).enumerate() {
            if let Some(bias) = bias {
                row.iter_mut().for_each(|x| *x += bias[entry]);
            }
            maxima.iter_mut().zip(row).for_each(|(most, x)| *most = reduce::larger(*most, *x));
        }
    }

    fn sum_tile(tile: &[f32], totals: &mut [f32]) {
        totals.fill(0.0);
        for row in tile.chunks_exact(totals.len()) {
            totals.iter_mut().zip(row).for_each(|(total, x)| *total += x);
        }
    }

    fn block_exponentials(tile: &mut [f32], maxima: &[f32], sums: &mut [f32]) {
        sums.fill(0.0);
        for row in tile.chunks_exact_mut(maxima.len()) {
            for ((x, most), sum) in row.iter_mut().zip(maxima).zip(&mut *sums) {
                *x = math::exp(*x - most);
                *sum += *x;
            }
        }
    }

    /// The rows' maxima and sums from those of the blocks; a block's maximum becomes exp(it − the row's).
    fn combine(maxima: &mut [f32], sums: &[f32], most: &mut [f32], sum: &mut [f64]) {
        let n = most.len();
        for block in maxima.chunks_exact(n) {
            most.iter_mut().zip(block).for_each(|(most, x)| *most = reduce::larger(*most, *x));
        }
        for (block, sums) in maxima.chunks_exact_mut(n).zip(sums.chunks_exact(n)) {
            for (((x, part), most), sum) in block.iter_mut().zip(sums).zip(&*most).zip(&mut *sum) {
                *x = math::exp(*x - most);
                *sum += (*x * part) as f64;
            }
        }
    }

    fn block_gradients(tile: &mut [f32], factors: &[f32], spread: f32) {
        for row in tile.chunks_exact_mut(factors.len()) {
            row.iter_mut().zip(factors).for_each(|(x, factor)| *x = x.mul_add(*factor, -spread));
        }
    }
}
