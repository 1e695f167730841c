//! Writes new keys or values into a cache, in place: `cache[row[b], slot[b, t]] = new[b, t]`. The cache is a
//! state `[R S G D]`; where each position goes is said by `slot`, so that growing and ring caches are the
//! same.

mod cpu;
mod cuda;

use crate::rows::{Target, check_indices};
use crate::{
    CpuCall, CudaCall, CudaList, Fault, Kernels, Needs, NotYet, Record, ReferenceCall, Request, check_dtype,
    check_float,
};
use regard_graph::*;
use std::collections::HashSet;

/// `cache[row[b], slot[b, t], g, d] = new[b, t, g, d]`, in place.
#[derive(Clone, Copy, Debug)]
pub struct CacheWrite {
    /// Whether the rows of the cache are given; otherwise example b has row b.
    pub rows: bool,
}

/// Records writes into caches.
pub trait CacheWriteOps {
    /// Writes into a cache and returns its next version. cache `[R S G D]` is a state, f32 or bf16; new
    /// `[B T G D]`; slot `[B T]` i32, where along S; row `[B]` i32 (b if not given). No gradient flows.
    fn cache_write(&mut self, cache: Var, new: Var, slot: Var, row: Option<Var>) -> Result<Var>;
}

impl CacheWriteOps for Graph {
    fn cache_write(&mut self, cache: Var, new: Var, slot: Var, row: Option<Var>) -> Result<Var> {
        let inputs: Vec<Var> = [cache, new, slot].into_iter().chain(row).collect();
        self.apply_one(CacheWrite { rows: row.is_some() }, &inputs)
    }
}

fn row_target(size: usize) -> Target {
    let advice = "feed rows from 0 to R−1";
    Target { op: "cache_write", operand: "row", letter: "R", size, advice }
}

fn slot_target(size: usize) -> Target {
    let advice =
        "feed slots from 0 to S−1: a ring takes the position modulo S, otherwise record a longer cache";
    Target { op: "cache_write", operand: "slot", letter: "S", size, advice }
}

fn twice(b: usize, t: usize, row: usize, slot: usize) -> Fault {
    let what = format!("slot[{b} {t}] is {slot}, which was written before in row {row}");
    Fault { op: "cache_write", what, advice: "give each slot of a row once" }
}

impl Op for CacheWrite {
    fn name(&self) -> &'static str {
        "cache_write"
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    fn operands(&self) -> Vec<&'static str> {
        if self.rows { vec!["cache", "new", "slot", "row"] } else { vec!["cache", "new", "slot"] }
    }

    fn infer(&self, inputs: &[Fact]) -> Result<Vec<Fact>> {
        let mut letters = Letters::new("cache_write");
        check_float("cache_write", "cache", inputs[0].dtype)?;
        letters.bind("cache", &inputs[0].shape, "R S G D")?;
        check_float("cache_write", "new", inputs[1].dtype)?;
        letters.bind("new", &inputs[1].shape, "B T G D")?;
        check_dtype("cache_write", "slot", inputs[2].dtype, DType::I32)?;
        letters.bind("slot", &inputs[2].shape, "B T")?;
        if self.rows {
            check_dtype("cache_write", "row", inputs[3].dtype, DType::I32)?;
            letters.bind("row", &inputs[3].shape, "B")?;
        } else if inputs[1].shape[0].bound() > inputs[0].shape[0].bound() {
            let (b, r) = (inputs[1].shape[0].bound(), inputs[0].shape[0].bound());
            return Err(Error::invalid(
                "cache_write",
                format!("new may have B={b} examples, the cache has R={r} rows"),
                "use a cache with a row for each example, or give the rows",
            ));
        }
        Ok(vec![inputs[0].clone()])
    }

    fn aliases(&self) -> Vec<Alias> {
        vec![Alias::Update { output: 0, input: 0 }]
    }

    fn derivative(&self, _input: usize) -> Derivative {
        Derivative::Missing("a cache is state, through which no gradient flows")
    }

    fn gradient(&self, _g: &mut Graph, tape: &Tape<'_>) -> Result<Vec<Option<Var>>> {
        Ok(vec![None; tape.inputs.len()])
    }

    fn cost(&self, call: &Concrete<'_>) -> Work {
        let count = |input: usize| call.inputs[input].count() * call.input_dtypes[input].bytes();
        let read = (1..call.inputs.len()).map(count).sum::<usize>() as u64;
        let written = (call.inputs[1].count() * call.output_dtypes[0].bytes()) as u64;
        Work { macs: 0, flops: 0, read, written }
    }

    fn reach(&self, call: &Concrete<'_>, _output: usize, input: usize) -> Relation {
        let (cache, new) = (call.inputs[0], call.inputs[1]);
        let [rows, slots, b, t] = [cache[0], cache[1], new[0], new[1]];
        let known = match (call.integers[2], self.rows) {
            (Some(slot), false) => Some((slot, None)),
            (Some(slot), true) => call.integers[3].map(|row| (slot, Some(row))),
            (None, _) => None,
        };
        let Some((slot, row)) = known else {
            return match input {
                0 => Relation::Same,
                1 => Relation::Axes(vec![Along::All, Along::All, Along::Same(2), Along::Same(3)]),
                _ => Relation::Everything,
            };
        };
        if input > 1 {
            return Relation::Everything;
        }
        // Which example and position each slot of the cache took over.
        let mut writer = vec![None; rows * slots];
        for i in 0..b * t {
            let r = row.map_or((i / t) as i64, |row| row[i / t]);
            let inside = |index: i64, size: usize| usize::try_from(index).ok().filter(|&index| index < size);
            if let (Some(r), Some(s)) = (inside(r, rows), inside(slot[i], slots)) {
                writer[r * slots + s] = Some((i / t, i % t));
            }
        }
        let lists = |of: &dyn Fn(usize) -> Option<usize>| Along::Listed {
            axes: vec![0, 1],
            lists: (0..rows * slots).map(|at| of(at).into_iter().collect()).collect(),
        };
        let (first, second) = match input {
            0 => (Along::Same(0), lists(&|at| writer[at].is_none().then_some(at % slots))),
            _ => (lists(&|at| writer[at].map(|(b, _)| b)), lists(&|at| writer[at].map(|(_, t)| t))),
        };
        Relation::Axes(vec![first, second, Along::Same(2), Along::Same(3)])
    }

    fn axes(&self, call: &Concrete<'_>, output: usize) -> Layout {
        let layout = Layout::own(call, output).leading(0, 4).with(2, 1, 2).with(3, 1, 3);
        let layout = if self.rows { layout } else { layout.with(0, 1, 0) };
        // Positions follow one another in the cache, from the same slot on in every row, if they are known
        // to.
        let (t, known) = (call.inputs[1][1], call.integers[2]);
        match known.and_then(|slot| Some((slot, *slot.first()?))) {
            Some((slot, first)) if slot.iter().enumerate().all(|(i, &at)| at == first + (i % t) as i64) => {
                layout.shifted(1, 1, 1, first as isize)
            }
            _ => layout,
        }
    }
}

impl Kernels for CacheWrite {
    fn reference(&self, call: &mut ReferenceCall<'_>) -> std::result::Result<(), Fault> {
        let [cache, new, slot] = [call.inputs[0], call.inputs[1], call.inputs[2]];
        let (dims, t) = (cache.dims(), new.dims()[1]);
        if self.rows {
            let row = call.inputs[3];
            check_indices(row_target(dims[0]), row.dims(), row.data().iter().map(|&row| row as i64))?;
        }
        check_indices(slot_target(dims[1]), slot.dims(), slot.data().iter().map(|&slot| slot as i64))?;
        let place = |b: usize, t_: usize| {
            let row = if self.rows { call.inputs[3].data()[b] as usize } else { b };
            (row, slot.data()[b * t + t_] as usize)
        };
        let all = (0..new.dims()[0]).flat_map(|b| (0..t).map(move |t| (b, t)));
        let mut seen = HashSet::new();
        for (b, t) in all.clone() {
            let (row, slot) = place(b, t);
            if !seen.insert((row, slot)) {
                return Err(twice(b, t, row, slot));
            }
        }
        call.outputs[0].data_mut().copy_from_slice(cache.data());
        let width = dims[2] * dims[3];
        for (b, t_) in all {
            let (row, slot) = place(b, t_);
            let (from, to) = ((b * t + t_) * width, (row * dims[1] + slot) * width);
            call.outputs[0].data_mut()[to..to + width].copy_from_slice(&new.data()[from..from + width]);
        }
        Ok(())
    }

    fn cpu_work(&self, call: &Concrete<'_>) -> Work {
        self.cost(call)
    }

    fn needs(&self, request: &Request<'_>) -> Needs {
        let cache = request.call.inputs[0];
        Needs { scratch: cpu::words(cache) * 4, ..Needs::default() }
    }

    fn cpu(&self, call: &CpuCall<'_>) -> std::result::Result<(), Fault> {
        let cache = call.dims(0);
        let row = self.rows.then(|| call.i32(3));
        if let Some(row) = row {
            check_indices(row_target(cache[0]), call.dims(3), row.iter().map(|&row| i64::from(row)))?;
        }
        let slots = call.i32(2).iter().map(|&slot| i64::from(slot));
        check_indices(slot_target(cache[1]), call.dims(2), slots)?;
        cpu::run(call, row)
    }

    fn cuda(&self, call: &CudaCall<'_>) -> std::result::Result<CudaList, NotYet> {
        Ok(cuda::list(self, call))
    }
}
