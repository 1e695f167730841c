//! The softmax of transposed logits [V n], in blocks of the vocabulary: each block has a maximum of its own,
//! so that it is read once; the blocks are put together afterwards, in order.

#![allow(unsafe_code)]

use super::cpu::MOST_ROWS;
use crate::cross_entropy::cpu::row_loss;
use regard_device::{Disjoint, Level, math, multiversion, reduce};

/// How many entries of the vocabulary share a maximum.
pub const BLOCK: usize = 64;

/// What the softmax of one group of rows at a time needs to know, and its scratch.
pub struct Softmax<'a> {
    pub level: Level,
    pub v: usize,
    pub smoothing: f32,
    pub scale: f32,
    pub bias: Option<&'a [f32]>,
    /// In every block, each row's maximum; after the losses, its factor.
    pub maxima: &'a mut [f32],
    /// In every block, each row's sum of exponentials.
    pub sums: &'a mut [f32],
    /// In every block, each row's sum of logits, if labels are smoothed.
    pub totals: &'a mut [f32],
    /// Each row's logit of its target.
    pub own: &'a mut [f32],
    /// Each row's target.
    pub ids: &'a mut [u32],
}

/// From logits to exponentials, block by block, on any thread.
pub struct Exponentials<'a> {
    level: Level,
    bias: Option<&'a [f32]>,
    ids: &'a [u32],
    maxima: Disjoint<'a, f32>,
    sums: Disjoint<'a, f32>,
    totals: Option<Disjoint<'a, f32>>,
    own: Disjoint<'a, f32>,
}

/// From exponentials to gradients, block by block, on any thread.
pub struct Gradients<'a> {
    level: Level,
    ids: &'a [u32],
    factors: &'a [f32],
    spread: f32,
    peak: f32,
    dbias: Option<Disjoint<'a, f32>>,
    first_group: bool,
}

impl Softmax<'_> {
    /// For a group of `n` rows.
    pub fn exponentials(&mut self, n: usize) -> Exponentials<'_> {
        Exponentials {
            level: self.level,
            bias: self.bias,
            ids: &self.ids[..n],
            maxima: Disjoint::new(self.maxima),
            sums: Disjoint::new(self.sums),
            totals: (self.smoothing != 0.0).then(|| Disjoint::new(&mut *self.totals)),
            own: Disjoint::new(self.own),
        }
    }

    /// The losses of the chosen rows; the blocks' maxima become the factors, scale included, that make
    /// probabilities of their exponentials.
    pub fn losses(&mut self, chosen: &[u32], losses: &mut [f32]) {
        let n = chosen.len();
        let blocks = self.v.div_ceil(BLOCK);
        let (maxima, sums) = (&mut self.maxima[..blocks * n], &self.sums[..blocks * n]);
        let (mut most, mut sum, mut total) = ([f32::MIN; MOST_ROWS], [0.0; MOST_ROWS], [0.0; MOST_ROWS]);
        let (most, sum, total) = (&mut most[..n], &mut sum[..n], &mut total[..n]);
        combine(self.level, maxima, sums, most, sum);
        if self.smoothing != 0.0 {
            for block in self.totals[..blocks * n].chunks_exact(n) {
                total.iter_mut().zip(block).for_each(|(total, &x)| *total += x as f64);
            }
        }
        for (r, &row) in chosen.iter().enumerate() {
            let below = self.v as f64 * most[r] as f64 - total[r];
            losses[row as usize] = row_loss(most[r], sum[r], below, self.own[r], self.v, self.smoothing);
            most[r] = (self.scale as f64 / sum[r]) as f32;
        }
        for block in maxima.chunks_exact_mut(n) {
            block.iter_mut().zip(&*most).for_each(|(factor, by)| *factor *= by);
        }
    }

    /// For a group of `n` rows whose losses are known: d = scale · (softmax − target), and perhaps the bias's
    /// sums of them, which the first group of rows begins.
    pub fn gradients<'a>(
        &'a self,
        n: usize,
        dbias: Option<Disjoint<'a, f32>>,
        first_group: bool,
    ) -> Gradients<'a> {
        Gradients {
            level: self.level,
            ids: &self.ids[..n],
            factors: self.maxima,
            spread: self.scale * (self.smoothing / self.v as f32),
            peak: self.scale * (1.0 - self.smoothing),
            dbias,
            first_group,
        }
    }
}

impl Exponentials<'_> {
    /// The block from entry `first` on, worked on once: the bias added, each row's maximum, target's logit
    /// and sums, and exp(logit − maximum) in the place of the logits.
    pub fn block(&self, first: usize, tile: &mut [f32]) {
        let n = self.ids.len();
        let width = tile.len() / n;
        let place = first / BLOCK * n..(first / BLOCK + 1) * n;
        // SAFETY: each block has its own places, and is worked on once.
        let (maxima, sums) = unsafe { (self.maxima.range(place.clone()), self.sums.range(place.clone())) };
        block_maxima(self.level, tile, self.bias.map(|bias| &bias[first..first + width]), maxima);
        for (r, &id) in self.ids.iter().enumerate() {
            if (first..first + width).contains(&(id as usize)) {
                // SAFETY: a row's target lies in one block.
                let own = unsafe { self.own.range(r..r + 1) };
                own[0] = tile[(id as usize - first) * n + r];
            }
        }
        if let Some(totals) = &self.totals {
            // SAFETY: as for the maxima.
            sum_tile(self.level, tile, unsafe { totals.range(place) });
        }
        block_exponentials(self.level, tile, maxima, sums);
    }
}

impl Gradients<'_> {
    /// The gradients of the block from entry `first` on, worked on once. The exponentials stay as they are:
    /// memory need not hear of them again.
    pub fn block(&self, first: usize, exponentials: &[f32], out: &mut [f32]) {
        let n = self.ids.len();
        let (width, block) = (out.len() / n, first / BLOCK);
        block_gradients(
            self.level,
            exponentials,
            &self.factors[block * n..(block + 1) * n],
            self.spread,
            out,
        );
        for (r, &id) in self.ids.iter().enumerate() {
            if (first..first + width).contains(&(id as usize)) {
                out[(id as usize - first) * n + r] -= self.peak;
            }
        }
        if let Some(dbias) = &self.dbias {
            // SAFETY: each entry of the vocabulary lies in one block.
            let into = unsafe { dbias.range(first..first + width) };
            for (into, row) in into.iter_mut().zip(out.chunks_exact(n)) {
                let sum = reduce::sum(self.level, row);
                *into = if self.first_group { sum } else { *into + sum };
            }
        }
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

    fn block_gradients(exponentials: &[f32], factors: &[f32], spread: f32, out: &mut [f32]) {
        let n = factors.len();
        for (row, out) in exponentials.chunks_exact(n).zip(out.chunks_exact_mut(n)) {
            for ((x, factor), out) in row.iter().zip(factors).zip(out) {
                *out = x.mul_add(*factor, -spread);
            }
        }
    }
}
