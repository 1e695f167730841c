//! Where the time of a program goes, by op and pass, beside what the machine can do: the ceilings are
//! measured in the same process, and an op's least time is the longer of its arithmetic and its traffic at
//! those ceilings.

use anyhow::Result;
use regard::device::Ceilings;
use regard::graph::cost::{Costs, Work};
use regard::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;

/// Time by kind of op.
pub struct Profile {
    rows: Vec<Row>,
    /// Of the CPU; a card's are in its data sheet.
    ceilings: Option<Ceilings>,
}

struct Row {
    op: String,
    nodes: usize,
    ms: f64,
    work: Work,
}

impl Row {
    fn gflops(&self) -> f64 {
        flops(&self.work) / (self.ms * 1e6)
    }

    fn gbytes(&self) -> f64 {
        bytes(&self.work) / (self.ms * 1e6)
    }

    /// The least time at the ceilings, in ms.
    fn least(&self, ceilings: &Ceilings) -> f64 {
        (flops(&self.work) / ceilings.gflops).max(bytes(&self.work) / ceilings.gbytes) / 1e6
    }
}

fn flops(work: &Work) -> f64 {
    2.0 * work.macs as f64 + work.flops as f64
}

fn bytes(work: &Work) -> f64 {
    work.read as f64 + work.written as f64
}

/// Sorts what a program measured in `runs` runs by op, with the work that was executed.
pub fn of(program: &Program, executed: &Costs, runs: usize, device: &Device) -> Result<Profile> {
    let work: BTreeMap<usize, Work> = executed.rows.iter().map(|row| (row.node, row.cost)).collect();
    let mut rows: BTreeMap<&str, Row> = BTreeMap::new();
    for (node, spent) in program.spent() {
        let op = program.graph().nodes()[node].op.name();
        let row =
            rows.entry(op).or_insert_with(|| Row { op: op.into(), nodes: 0, ms: 0.0, work: Work::default() });
        row.nodes += 1;
        row.ms += spent as f64 / 1e6 / runs as f64;
        row.work += work.get(&node).copied().unwrap_or_default();
    }
    let mut rows: Vec<Row> = rows.into_values().collect();
    rows.sort_by(|a, b| b.ms.total_cmp(&a.ms));
    let measured = device.cpu().map(|cpu| regard::device::cpu::ceiling::measure(cpu.pool(), cpu.level()));
    let ceilings = measured.transpose()?;
    Ok(Profile { rows, ceilings })
}

impl Profile {
    fn total(&self) -> f64 {
        self.rows.iter().map(|row| row.ms).sum()
    }

    /// For programs.
    pub fn to_json(&self) -> Value {
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                json!({"op": row.op, "nodes": row.nodes, "ms": row.ms, "gflops": row.gflops(), "gbytes": row.gbytes(),
                       "least_ms": self.ceilings.as_ref().map(|ceilings| row.least(ceilings))})
            })
            .collect();
        let ceilings =
            self.ceilings.as_ref().map(|found| json!({"gflops": found.gflops, "gbytes": found.gbytes}));
        json!({"ceilings": ceilings, "ops": rows})
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.total();
        if let Some(Ceilings { gflops, gbytes }) = self.ceilings {
            let now = format!("{gflops:.0} GFLOP/s of f32 multiply-adds, {gbytes:.1} GB/s read from memory");
            writeln!(f, "\n  this machine now: {now}")?;
        }
        writeln!(
            f,
            "  {:30} {:>5} {:>10} {:>6} {:>9} {:>8} {:>9}",
            "op", "nodes", "ms", "share", "GFLOP/s", "GB/s", "of roof"
        )?;
        let of_roof = |row: &Row| match &self.ceilings {
            Some(ceilings) => format!("{:.0}%", 100.0 * row.least(ceilings) / row.ms),
            None => "-".into(),
        };
        for row in &self.rows {
            writeln!(
                f,
                "  {:30} {:>5} {:>10.3} {:>5.1}% {:>9.1} {:>8.1} {:>9}",
                row.op,
                row.nodes,
                row.ms,
                100.0 * row.ms / total,
                row.gflops(),
                row.gbytes(),
                of_roof(row)
            )?;
        }
        writeln!(
            f,
            "  {:30} {:>5} {:>10.3}",
            "all",
            self.rows.iter().map(|row| row.nodes).sum::<usize>(),
            total
        )?;
        let caches = "caches hold small values: GB/s and the share of the roof may exceed what memory gives.";
        writeln!(f, "  {caches}")
    }
}
