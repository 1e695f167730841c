//! What every kernel of attention is told: addresses, sizes and factors, laid out as `kernel_pairs.cuh` reads
//! them.

use super::bias::radius;
use super::cuda::{line, push};
use super::cuda_sources::{Tile, Unit};
use super::form::{BiasForm, Extent, Extra, Form};
use super::reference::no_such_row;
use super::spec::Window;
use crate::{CudaCall, CudaList};
use regard_device::cuda::{Address, Arguments};
use regard_device::random::name_hash;

const OPERANDS: usize = 16;
const SIZES: usize = 22;
const FACTORS: usize = 5;
const TABLE_THREADS: u32 = 256;

/// Operands, sizes and factors of one call.
pub struct Common<'a> {
    pub form: &'a Form,
    pub extent: Extent,
    /// The types of query, key and value in memory.
    pub types: [&'static str; 3],
    pub sizes: [u32; SIZES],
    operands: [Address; OPERANDS],
    factors: [f32; FACTORS],
    radius: usize,
    table_rows: usize,
}

impl<'a> Common<'a> {
    /// The optional operands begin at `base`. Takes scratch for a table laid out by distance.
    pub fn new(form: &'a Form, call: &CudaCall<'_>, base: usize, plan: &mut CudaList) -> Self {
        Common::build(form, call, base, true, plan)
    }

    /// The same where operand 2 is no value.
    pub fn without_value(form: &'a Form, call: &CudaCall<'_>, base: usize, plan: &mut CudaList) -> Self {
        Common::build(form, call, base, false, plan)
    }

    fn build(form: &'a Form, call: &CudaCall<'_>, base: usize, has_value: bool, plan: &mut CudaList) -> Self {
        let shapes = call.call.inputs;
        let extent = Extent::new(shapes[0], shapes[1], has_value.then(|| shapes[2]));
        let place = |extra: Extra| form.place(base, extra);
        let at = |extra: Extra| place(extra).map_or(Address(0), |input| call.inputs[input]);
        let per = |extra: Extra, axis: usize| {
            let all = [extent.b, extent.h][axis];
            place(extra).is_some_and(|input| shapes[input].len() == 4 && shapes[input][axis] == all)
        };
        let by_distance = matches!(form.bias, BiasForm::Buckets { .. } | BiasForm::Clipped);
        let table_rows = place(Extra::Bias).filter(|_| by_distance).map_or(0, |input| shapes[input][0]);
        let radius = radius(form.bias, table_rows);
        let distances = if by_distance { 2 * radius + 1 } else { 0 };
        let mut room = |count: usize| match count {
            0 => Address(0),
            _ => plan.room(call, count * 4),
        };
        let operands = [
            call.inputs[0],
            call.inputs[1],
            if has_value { call.inputs[2] } else { Address(0) },
            at(Extra::Scale),
            at(Extra::KeyLengths),
            at(Extra::KeyMask),
            at(Extra::Mask),
            at(Extra::QueryPosition),
            at(Extra::KeyPosition),
            at(Extra::KeyRow),
            at(Extra::Bias),
            at(Extra::Random),
            room(distances * extent.h),
            room(distances),
            call.fault,
            call.stop,
        ];
        if form.has(Extra::KeyRow) {
            let (s, rows) = (extent.s.max(1), extent.rows);
            plan.on_fault(move |place, row| {
                let place = place as usize;
                no_such_row([place / s, place % s], row, rows)
            });
        }
        let (ways, span) = ways_of(form.bias, table_rows);
        let distance = |far: usize| u32::try_from(far).unwrap_or(u32::MAX);
        let Window { before, after } =
            form.window.unwrap_or(Window { before: usize::MAX, after: usize::MAX });
        let after = if form.causal { 0 } else { after };
        let [dropout, noise] = [&form.dropout_stream, &form.noise_stream].map(|name| halves(name_hash(name)));
        let threshold = (form.dropout as f64 * (1u64 << 32) as f64) as u32;
        let small = |size: usize| u32::try_from(size).expect("sizes of an attention are below 2^32");
        let sizes = [
            small(extent.b),
            small(extent.t),
            small(extent.s),
            small(extent.h),
            small(extent.g),
            small(extent.d),
            small(extent.e),
            small(extent.rows),
            u32::from(per(Extra::Mask, 0)),
            u32::from(per(Extra::Mask, 1)),
            u32::from(form.bias == BiasForm::Dense && per(Extra::Bias, 0)),
            u32::from(form.bias == BiasForm::Dense && per(Extra::Bias, 1)),
            distance(before),
            distance(after),
            small(radius),
            small(table_rows),
            ways,
            threshold,
            dropout[0],
            dropout[1],
            noise[0],
            noise[1],
        ];
        let factors = [
            form.constant(extent.d) as f32,
            form.kind.temperature().unwrap_or(1.0),
            (1.0 / (1.0 - form.dropout as f64)) as f32,
            span,
            form.cap.unwrap_or(0.0),
        ];
        let types = [0, 1, 2].map(|input| if input < 2 || has_value { call.type_of(input) } else { "f32" });
        Common { form, extent, types, sizes, operands, factors, radius, table_rows }
    }

    /// The first arguments of every kernel that reads operands.
    pub fn arguments(&self) -> Arguments {
        Arguments::new().with(self.operands).with(self.sizes).with(self.factors)
    }

    /// Rows of a table of biases; 0 where there is none.
    pub fn table_rows(&self) -> usize {
        self.table_rows
    }

    /// A source with this call's settings, and with a tile for kernels on tensor cores. Forms of which
    /// kernels in f32 are asked are many, and the products outweigh what a form costs at run time: these have
    /// no plain kind of their own.
    pub fn unit(&self, file: &'static str, tile: Option<Tile>) -> Unit<'_> {
        let rare = [
            Extra::Scale,
            Extra::KeyMask,
            Extra::Mask,
            Extra::QueryPosition,
            Extra::KeyPosition,
            Extra::KeyRow,
            Extra::Bias,
        ];
        let plain =
            tile.is_some() && self.factors[0] > 0.0 && !rare.iter().any(|&extra| self.form.has(extra));
        Unit { file, form: self.form, types: self.types, tile, plain }
    }

    /// Lays a table out by distance, where there is one.
    pub fn lay_out_table(&self, plan: &mut CudaList) {
        if self.table_rows > 0 {
            let blocks = (2 * self.radius + 1).div_ceil(TABLE_THREADS as usize);
            let grid = line(blocks, TABLE_THREADS, 0);
            push(plan, self.unit("parameters", None), "lay_out_table", grid, self.arguments());
        }
    }
}

/// How a table's rows follow from distances: which rule, and the logarithm that buckets of far distances
/// share.
fn ways_of(bias: BiasForm, rows: usize) -> (u32, f32) {
    match bias {
        BiasForm::Buckets { bidirectional, max_distance } => {
            let side = if bidirectional { rows / 2 } else { rows };
            let exact = (side / 2).max(1);
            (1 + u32::from(bidirectional), (max_distance as f64 / exact as f64).ln() as f32)
        }
        _ => (0, 1.0),
    }
}

fn halves(word: u64) -> [u32; 2] {
    [word as u32, (word >> 32) as u32]
}
