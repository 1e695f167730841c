//! What forward, backward and the weights on request share on the CPU: tiles of keys, what is added to the
//! scores of a row, which weights are dropped, and the loading of heads out of B T H D.

use super::bias::{radius, table_row};
use super::form::{BiasForm, Extent, Extra, Form};
use super::mask::{Allowed, Cover, Pairs};
use super::random::{Randomness, channel};
use super::reference::check_key_rows;
use crate::{CpuCall, Fault};
use regard_device::{Data, Level, Matrix, PANEL, convert, multiversion, random::fill_bits};
use regard_graph::{DType, Dims, Precision};

/// A number that vectors like: parts of scratch begin at multiples of it.
const ALIGN: usize = 16;

/// Cuts scratch into parts of these lengths.
pub fn carve<const N: usize>(mut scratch: &mut [f32], lengths: [usize; N]) -> [&mut [f32]; N] {
    lengths.map(|length| {
        let (part, rest) = std::mem::take(&mut scratch).split_at_mut(length.next_multiple_of(ALIGN));
        scratch = rest;
        &mut part[..length]
    })
}

/// Bytes of a scratch that [`carve`] can cut into parts of these lengths.
pub fn carved_bytes<const N: usize>(lengths: [usize; N]) -> usize {
    lengths.iter().map(|length| length.next_multiple_of(ALIGN) * 4).sum()
}

/// What is added to β·q·k.
enum Bias<'a> {
    None,
    /// For each head, one number for each distance from −R to R.
    ByDistance(&'a [f32], usize),
    Alibi(&'a [f32]),
    Dense(Pairs<'a, f32>),
}

/// Everything that decides the final score of a pair, beside q·k.
pub struct Terms<'a> {
    pub form: &'a Form,
    pub extent: Extent,
    pub allowed: Allowed<'a>,
    pub random: Randomness,
    pub level: Level,
    key_row: Option<&'a [i32]>,
    beta: Option<&'a [f32]>,
    bias: Bias<'a>,
}

/// A run of `N` keys of one example, the last run filled up with keys that do not exist.
pub struct KeyTile<const N: usize> {
    pub start: usize,
    pub position: [i32; N],
    pub exists: [u8; N],
    pub whole: bool,
    /// Positions grow by one from key to key.
    pub consecutive: bool,
}

/// Floats of the table by distance: `bias` is the shape of the bias operand.
pub fn by_distance_floats(form: &Form, heads: usize, bias: Option<Dims>) -> usize {
    match (form.bias, bias) {
        (BiasForm::Buckets { .. } | BiasForm::Clipped, Some(bias)) => {
            heads * (2 * radius(form.bias, bias[0]) + 1)
        }
        _ => 0,
    }
}

impl<'a> Terms<'a> {
    /// Of one call whose optional operands begin at `base`; `table` is scratch for the bias by distance.
    pub fn new(
        form: &'a Form,
        call: &CpuCall<'a>,
        extent: Extent,
        base: usize,
        table: &'a mut [f32],
    ) -> Result<Self, Fault> {
        let integers = |extra: Extra| form.place(base, extra).map(|input| call.i32(input));
        let pairs = |input: usize| {
            let dims = call.dims(input);
            (dims[0] == extent.b, dims[1] == extent.h)
        };
        let allowed = Allowed {
            extent,
            causal: form.causal,
            window: form.window,
            key_lengths: integers(Extra::KeyLengths),
            key_mask: form.place(base, Extra::KeyMask).map(|input| call.bools(input)),
            explicit: form.place(base, Extra::Mask).map(|input| {
                let (per_batch, per_head) = pairs(input);
                Pairs { data: call.bools(input), per_batch, per_head }
            }),
            query_position: integers(Extra::QueryPosition),
            key_position: integers(Extra::KeyPosition),
        };
        let key_row = integers(Extra::KeyRow);
        check_key_rows(key_row, &extent, |b, s| allowed.exists(b, s))?;
        let bias = match form.place(base, Extra::Bias).map(|input| (form.bias, input)) {
            None | Some((BiasForm::None, _)) => Bias::None,
            Some((BiasForm::Alibi, input)) => Bias::Alibi(call.f32(input)),
            Some((BiasForm::Dense, input)) => {
                let (per_batch, per_head) = pairs(input);
                Bias::Dense(Pairs { data: call.f32(input), per_batch, per_head })
            }
            Some((_, input)) => {
                let (source, rows) = (call.f32(input), call.dims(input)[0]);
                let reach = radius(form.bias, rows);
                for at in 0..2 * reach + 1 {
                    let row = table_row(form.bias, rows, at as i64 - reach as i64);
                    for h in 0..extent.h {
                        table[h * (2 * reach + 1) + at] = source[row * extent.h + h];
                    }
                }
                Bias::ByDistance(table, reach)
            }
        };
        Ok(Terms {
            form,
            extent,
            allowed,
            random: Randomness::new(form, integers(Extra::Random)),
            level: call.level,
            key_row,
            beta: form.place(base, Extra::Scale).map(|input| call.f32(input)),
            bias,
        })
    }

    /// What q·k is multiplied by in the final score: β over the temperature.
    pub fn factor(&self, h: usize) -> f32 {
        let beta = self.beta.map_or_else(|| self.form.constant(self.extent.d), |all| all[h] as f64);
        (beta / self.temperature()) as f32
    }

    /// β over the soft cap, and the cap, where there is one.
    pub fn cap(&self, h: usize) -> Option<(f32, f32)> {
        let cap = self.form.cap?;
        let beta = self.beta.map_or_else(|| self.form.constant(self.extent.d), |all| all[h] as f64);
        Some(((beta / cap as f64) as f32, cap))
    }

    /// What q·k, or the capped score where there is a cap, is multiplied by in the final score.
    pub fn outer_factor(&self, h: usize) -> f32 {
        if self.form.cap.is_some() { self.per_temperature() as f32 } else { self.factor(h) }
    }

    /// β over the temperature, over β: how a gradient of the final score reaches β and the bias.
    pub fn per_temperature(&self) -> f64 {
        1.0 / self.temperature()
    }

    fn temperature(&self) -> f64 {
        self.form.kind.temperature().map_or(1.0, |temperature| temperature as f64)
    }

    /// The row of the key/value batch that (b, s) comes from.
    pub fn row_of(&self, b: usize, s: usize) -> usize {
        self.key_row.map_or(b, |rows| rows[b * self.extent.s + s] as usize)
    }

    /// The keys from `start` on.
    pub fn key_tile<const N: usize>(&self, b: usize, start: usize) -> KeyTile<N> {
        let end = self.allowed.end(b).min(start + N).max(start);
        let mut tile =
            KeyTile { start, position: [0; N], exists: [0; N], whole: end == start + N, consecutive: true };
        for (j, position) in tile.position.iter_mut().enumerate() {
            *position = (start as i32).wrapping_add(j as i32);
        }
        tile.exists[..end - start].fill(1);
        if let Some(all) = self.allowed.key_position {
            for j in 0..N {
                // Beyond the end, positions go on as they would, so that a short tile stays consecutive.
                if start + j < end {
                    tile.position[j] = all[b * self.extent.s + start + j];
                } else if j > 0 {
                    tile.position[j] = tile.position[j - 1].wrapping_add(1);
                }
                tile.consecutive &= j == 0 || tile.position[j].checked_sub(1) == Some(tile.position[j - 1]);
            }
        }
        if let Some(mask) = self.allowed.key_mask {
            let mask = &mask[b * self.extent.s + start..b * self.extent.s + end.max(start)];
            for (exists, &bit) in tile.exists.iter_mut().zip(mask) {
                *exists &= u8::from(bit != 0);
            }
            tile.whole &= tile.exists.iter().all(|&exists| exists != 0);
        }
        tile
    }

    /// The keys of a tile that any of some queries may attend to, from one panel's edge to another; the
    /// others have weight 0 for all of them.
    pub fn live<const N: usize>(
        &self,
        b: usize,
        queries: std::ops::Range<usize>,
        tile: &KeyTile<N>,
    ) -> std::ops::Range<usize> {
        let (first, last) = self.allowed.query_span(b, queries);
        let (low, high) = (self.allowed.range(first).0, self.allowed.range(last).1);
        if tile.consecutive && self.allowed.key_mask.is_none() {
            let there = self.allowed.end(b).saturating_sub(tile.start).min(N) as i64;
            let place = |position: i64| (position - tile.position[0] as i64).clamp(0, there) as usize;
            let (start, end) = (place(low as i64), place(high as i64 + 1));
            return match start < end {
                true => start / PANEL * PANEL..end.next_multiple_of(PANEL).min(N),
                false => 0..0,
            };
        }
        let live = |j: &usize| tile.exists[*j] != 0 && (low..=high).contains(&tile.position[*j]);
        match ((0..N).find(live), (0..N).rfind(live)) {
            (Some(start), Some(end)) => start / PANEL * PANEL..(end + 1).next_multiple_of(PANEL).min(N),
            _ => 0..0,
        }
    }

    /// Whether anything is added to the scores of a tile with this cover.
    pub fn adds(&self, cover: Cover) -> bool {
        cover != Cover::All || self.adds_numbers()
    }

    /// Whether numbers are added to all scores: a bias or noise.
    pub fn adds_numbers(&self) -> bool {
        !matches!(self.bias, Bias::None) || self.random.noise.is_some()
    }

    /// Whether all that is added to scores is −∞ outside of a range of positions and where there is no key.
    pub fn adds_ranges(&self) -> bool {
        !self.adds_numbers() && self.allowed.explicit.is_none()
    }

    /// What is added to factor·q·k in one row of a tile: bias and noise over the temperature, −∞ where
    /// masked.
    pub fn additive<const N: usize>(
        &self,
        (b, h, t): (usize, usize, usize),
        tile: &KeyTile<N>,
        cover: Cover,
        out: &mut [f32; N],
    ) {
        let query = self.allowed.query_at(b, t);
        match &self.bias {
            Bias::None => out.fill(0.0),
            Bias::ByDistance(table, reach) => {
                let length = 2 * reach + 1;
                by_distance(tile, query, &table[h * length..(h + 1) * length], *reach as i64, out);
            }
            Bias::Alibi(slopes) => {
                for (out, &at) in out.iter_mut().zip(&tile.position) {
                    *out = -slopes[h] * (at as i64 - query as i64).unsigned_abs() as f32;
                }
            }
            Bias::Dense(pairs) => {
                let row = &pairs.row(&self.extent, b, h, t)[tile.start.min(self.extent.s)..];
                let length = row.len().min(N);
                out[..length].copy_from_slice(&row[..length]);
                out[length..].fill(0.0);
            }
        }
        if self.random.noise.is_some() {
            let per_temperature = self.per_temperature() as f32;
            for (out, &at) in out.iter_mut().zip(&tile.position) {
                let noise = self.random.gumbel(b, h, query, at) as f32;
                *out = (*out + noise) * per_temperature;
            }
        }
        if cover == Cover::All {
            return;
        }
        let (low, high) = self.allowed.range(query);
        forbid(self.level, out, &tile.position, &tile.exists, low, high);
        if let Some(pairs) = self.allowed.explicit {
            let row = &pairs.row(&self.extent, b, h, t)[tile.start.min(self.extent.s)..];
            for (out, &bit) in out.iter_mut().zip(row) {
                *out = if bit == 0 { f32::NEG_INFINITY } else { *out };
            }
        }
    }

    /// What dropout multiplies the weights of one row of a tile by, for some of its keys.
    pub fn keep<const N: usize>(
        &self,
        (b, h, t): (usize, usize, usize),
        tile: &KeyTile<N>,
        keys: std::ops::Range<usize>,
        out: &mut [f32; N],
    ) {
        let (positions, out) = (&tile.position[keys.clone()], &mut out[keys]);
        let (Some(dropout), Some(&first)) = (&self.random.dropout, positions.first()) else {
            return out.fill(1.0);
        };
        let (example, query) = (self.random.example(b), self.allowed.query_at(b, t) as u32);
        let growth = dropout.growth as f32;
        let first = channel(h, first);
        let last = channel(h, positions[positions.len() - 1]);
        let mut bits = [0u32; MOST_DRAWS];
        let skip = (first % 4) as usize;
        if tile.consecutive && last.wrapping_sub(first) as usize == out.len() - 1 && skip + N <= MOST_DRAWS {
            // Channels in a row: whole blocks of four draws, from the one that the first channel is in, many
            // at a time.
            let many = (skip + out.len()).next_multiple_of(DRAWS_AT_ONCE).min(MOST_DRAWS);
            fill_bits(self.level, &dropout.stream, example, query, first / 4, &mut bits[..many]);
            return kept(self.level, &bits[skip..], dropout.threshold, growth, out);
        }
        for (out, &at) in out.iter_mut().zip(positions) {
            let bits = dropout.stream.bits(example, query, channel(h, at));
            *out = if bits < dropout.threshold { 0.0 } else { growth };
        }
    }

    /// One key/value head of some keys of a tile, a key to a row: in place where it can be read as it lies,
    /// else copied to `rows`, with zeros for keys that do not exist.
    pub fn keys<'r, const N: usize>(
        &self,
        call: &CpuCall<'r>,
        input: usize,
        (b, g): (usize, usize),
        tile: &KeyTile<N>,
        keys: std::ops::Range<usize>,
        rows: &'r mut [f32],
    ) -> Matrix<'r> {
        let width = call.dims(input)[3];
        if self.key_row.is_none() && tile.exists[keys.clone()].iter().all(|&exists| exists != 0) {
            let start = ((b * self.extent.s + tile.start + keys.start) * self.extent.g + g) * width;
            if let Some(data) = self.in_place(call, input, start) {
                return Matrix::rows(data, self.extent.g * width);
            }
        }
        self.load_some_keys(call, input, (b, g), tile, keys, rows);
        Matrix::rows(&*rows, width)
    }

    /// The same of some queries, as many as there is room for; those that do not exist are zeros.
    pub fn queries<'r>(
        &self,
        call: &CpuCall<'r>,
        input: usize,
        (b, h): (usize, usize),
        start: usize,
        rows: &'r mut [f32],
    ) -> Matrix<'r> {
        let width = call.dims(input)[3];
        if start + rows.len() / width.max(1) <= self.extent.t {
            let from = self.extent.row(b, start, h) * width;
            if let Some(data) = self.in_place(call, input, from) {
                return Matrix::rows(data, self.extent.h * width);
            }
        }
        self.load_queries(call, input, (b, h), start, rows);
        Matrix::rows(&*rows, width)
    }

    /// An operand from an element on, if the products read its dtype as fast as a copy.
    fn in_place<'r>(&self, call: &CpuCall<'r>, input: usize, start: usize) -> Option<Data<'r>> {
        match (call.dtype(input), self.form.precision) {
            (DType::F32, _) => Some(Data::F32(&call.f32(input)[start..])),
            (DType::BF16, Precision::Bf16) => Some(Data::Bf16(&call.bf16(input)[start..])),
            _ => None,
        }
    }

    /// Copies one key/value head of a tile into rows of f32, zeros for keys that do not exist.
    pub fn load_keys<const N: usize>(
        &self,
        call: &CpuCall<'_>,
        input: usize,
        at: (usize, usize),
        tile: &KeyTile<N>,
        out: &mut [f32],
    ) {
        self.load_some_keys(call, input, at, tile, 0..N, out);
    }

    /// The same for some keys of the tile.
    fn load_some_keys<const N: usize>(
        &self,
        call: &CpuCall<'_>,
        input: usize,
        (b, g): (usize, usize),
        tile: &KeyTile<N>,
        keys: std::ops::Range<usize>,
        out: &mut [f32],
    ) {
        let width = call.dims(input)[3];
        for (j, out) in keys.zip(out.chunks_exact_mut(width)) {
            if tile.exists[j] == 0 {
                out.fill(0.0);
                continue;
            }
            let s = tile.start + j;
            let from = ((self.row_of(b, s) * self.extent.s + s) * self.extent.g + g) * width;
            call.load(input, from..from + width, out);
        }
        self.round(call.dtype(input), out);
    }

    /// Copies one head of some queries into rows of f32, zeros for queries that do not exist.
    pub fn load_queries(
        &self,
        call: &CpuCall<'_>,
        input: usize,
        (b, h): (usize, usize),
        start: usize,
        out: &mut [f32],
    ) {
        load_rows(call, input, &self.extent, (b, h), start, out);
        self.round(call.dtype(input), out);
    }

    /// Rounds what a bf16 product is about to read.
    pub fn round(&self, dtype: DType, values: &mut [f32]) {
        if self.form.precision == Precision::Bf16 && dtype == DType::F32 {
            convert::round_to_bf16(self.level, values);
        }
    }
}

/// Copies one head of some rows of B T H D as they are, zeros for those that do not exist.
pub fn load_rows(
    call: &CpuCall<'_>,
    input: usize,
    extent: &Extent,
    (b, h): (usize, usize),
    start: usize,
    out: &mut [f32],
) {
    let width = call.dims(input)[3];
    let there = (extent.t.saturating_sub(start) * width).min(out.len());
    out[there..].fill(0.0);
    call.load_rows(input, extent.row(b, start, h) * width, extent.h * width, width, &mut out[..there]);
}

/// The same matrix, turned.
pub fn turned(matrix: Matrix<'_>) -> Matrix<'_> {
    Matrix { row_stride: matrix.column_stride, column_stride: matrix.row_stride, ..matrix }
}

fn by_distance<const N: usize>(tile: &KeyTile<N>, query: i32, table: &[f32], reach: i64, out: &mut [f32; N]) {
    let first = tile.position[0] as i64 - query as i64;
    if tile.consecutive && first >= -reach && first + N as i64 - 1 <= reach {
        let from = (first + reach) as usize;
        return out.copy_from_slice(&table[from..from + N]);
    }
    for (out, &at) in out.iter_mut().zip(&tile.position) {
        let distance = at as i64 - query as i64;
        *out = table[(distance.clamp(-reach, reach) + reach) as usize];
    }
}

/// Most draws for one row of a tile, those of the first and the last block that it has no use for included.
const MOST_DRAWS: usize = 256 + DRAWS_AT_ONCE;
/// Draws that are made side by side.
const DRAWS_AT_ONCE: usize = 64;

multiversion! {
    /// 0 where a draw is below the threshold, else what makes up for the dropped ones.
    fn kept(bits: &[u32], threshold: u32, growth: f32, out: &mut [f32]) {
        for (out, &bits) in out.iter_mut().zip(bits) {
            *out = if bits < threshold { 0.0 } else { growth };
        }
    }

    /// Multiplies weights by what dropout leaves of them.
    pub fn drop_some(weights: &mut [f32], kept: &[f32]) {
        for (weight, kept) in weights.iter_mut().zip(kept) {
            *weight *= kept;
        }
    }
}

multiversion! {
    fn forbid(out: &mut [f32], position: &[i32], exists: &[u8], low: i32, high: i32) {
        for ((out, &at), &exists) in out.iter_mut().zip(position).zip(exists) {
            let allowed = (exists != 0) & (at >= low) & (at <= high);
            *out = if allowed { *out } else { f32::NEG_INFINITY };
        }
    }
}
