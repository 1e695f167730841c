//! Asks every node that has to run for its cost, and adds up by name, pass and op.

use super::Work;
use crate::dotted::{is_under, prefixes};
use crate::integers::Call;
use crate::needed::{everything, walk};
use crate::{Concrete, Error, Graph, Integers, Node, Pass, Result, Sizes, Var, check_size, human};
use std::collections::BTreeMap;

/// The cost of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostRow {
    /// Its index in [`Graph::nodes`].
    pub node: usize,
    /// Its dotted name.
    pub name: String,
    /// The name of its op.
    pub op: &'static str,
    /// Its part of the step.
    pub pass: Pass,
    /// Its work.
    pub cost: Work,
}

/// The cost of a program, node by node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Costs {
    /// One row for each node that runs, in order.
    pub rows: Vec<CostRow>,
}

/// Counts the work of a program at actual sizes. With `keep` only what has to run counts (the ancestors of
/// `keep` and every update of state), without it everything that was recorded.
pub fn cost(g: &Graph, sizes: &Sizes, integers: &Integers, keep: Option<&[Var]>) -> Result<Costs> {
    count(g, sizes, integers, keep, &|node, call| node.op.cost(call))
}

/// The same walk with another count of the work of a node: an engine's own.
pub fn count(
    g: &Graph,
    sizes: &Sizes,
    integers: &Integers,
    keep: Option<&[Var]>,
    work: &dyn Fn(&Node, &Concrete<'_>) -> Work,
) -> Result<Costs> {
    let needed = match keep {
        Some(keep) => walk(g, "cost", keep, true)?,
        None => everything(g),
    };
    let known = integers.resolve(g, sizes, "cost")?;
    let mut rows = Vec::new();
    for (node, recorded) in g.nodes().iter().enumerate().filter(|(node, _)| needed.nodes[*node]) {
        let touched = recorded.inputs.iter().chain(&recorded.outputs);
        touched.copied().try_for_each(|var| check_size(g, "cost", var, Some(sizes)))?;
        let call = Call::new(g, node, sizes, &known, &needed)?;
        let cost = work(recorded, &call.concrete());
        let (name, op, pass) = (recorded.name.clone(), recorded.op.name(), recorded.pass);
        rows.push(CostRow { node, name, op, pass, cost });
    }
    Ok(Costs { rows })
}

impl Costs {
    /// Everything together.
    pub fn total(&self) -> Work {
        sum(self.rows.iter())
    }

    /// Everything under a dotted prefix: `block.1` covers `block.1.norm`, but not `block.10.norm`.
    pub fn under(&self, prefix: &str) -> Result<Work> {
        let mut rows = self.rows.iter().filter(|row| is_under(&row.name, prefix)).peekable();
        if rows.peek().is_none() && !prefix.is_empty() {
            let mut known: Vec<&str> = self.rows.iter().flat_map(|row| prefixes(&row.name)).collect();
            known.sort();
            known.dedup();
            return Err(Error::unknown("part of the program", prefix, known));
        }
        Ok(sum(rows))
    }

    /// Everything by the part of the step.
    pub fn by_pass(&self) -> BTreeMap<Pass, Work> {
        self.grouped(|row| row.pass)
    }

    /// Everything by the name of the op.
    pub fn by_op(&self) -> BTreeMap<&'static str, Work> {
        self.grouped(|row| row.op)
    }

    /// Everything by the first components of the dotted names, as many as `depth`.
    pub fn by_scope(&self, depth: usize) -> BTreeMap<&str, Work> {
        self.grouped(|row| {
            depth.checked_sub(1).map_or("", |at| prefixes(&row.name).nth(at).unwrap_or(&row.name))
        })
    }

    fn grouped<'a, K: Ord>(&'a self, key: impl Fn(&'a CostRow) -> K) -> BTreeMap<K, Work> {
        let mut groups: BTreeMap<K, Work> = BTreeMap::new();
        for row in &self.rows {
            *groups.entry(key(row)).or_default() += row.cost;
        }
        groups
    }

    /// A table with one line for each node and a total; beside what an engine executes, where its count of
    /// the same graph is given.
    pub fn table(&self, executed: Option<&Costs>) -> String {
        let executed_here = |node: usize| {
            let row = executed.and_then(|costs| costs.rows.iter().find(|row| row.node == node));
            row.map(|row| row.cost)
        };
        let rows = self.rows.iter().map(|row| {
            let pass = match row.pass {
                Pass::Forward => "",
                Pass::Recompute => " (recompute)",
                Pass::Backward => " (backward)",
            };
            (format!("{}{pass}", row.name), row.cost, executed_here(row.node))
        });
        table("node", rows.collect(), self.total(), executed.map(Costs::total))
    }

    /// A table with one line for each op, the most multiply-adds first, and a total; beside what an engine
    /// executes, where its count of the same graph is given.
    pub fn table_by_op(&self, executed: Option<&Costs>) -> String {
        let executed_here = executed.map(Costs::by_op);
        let of = |op: &str| executed_here.as_ref().and_then(|ops| ops.get(op).copied());
        let mut rows: Vec<(String, Work, Option<Work>)> =
            self.by_op().into_iter().map(|(op, cost)| (op.into(), cost, of(op))).collect();
        rows.sort_by_key(|(_, cost, _)| std::cmp::Reverse(cost.macs));
        table("op", rows, self.total(), executed.map(Costs::total))
    }
}

fn sum<'a>(rows: impl Iterator<Item = &'a CostRow>) -> Work {
    let mut total = Work::default();
    rows.for_each(|row| total += row.cost);
    total
}

fn table(
    first: &str,
    rows: Vec<(String, Work, Option<Work>)>,
    total: Work,
    executed: Option<Work>,
) -> String {
    let cells = |title: String, work: Work, executed_here: Option<Work>| -> Vec<String> {
        let Work { macs, flops, read, written } = work;
        let mut cells =
            vec![title, human::count(macs), human::count(flops), human::bytes(read), human::bytes(written)];
        cells.extend(executed.map(|_| human::count(executed_here.unwrap_or_default().macs)));
        cells
    };
    let mut header = [first, "multiply-adds", "other", "read", "written"].map(String::from).to_vec();
    header.extend(executed.map(|_| "executed".to_string()));
    let mut lines = vec![header];
    lines.extend(rows.into_iter().map(|(title, work, executed_here)| cells(title, work, executed_here)));
    lines.push(cells("total".into(), total, executed));
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..lines[0].len()).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        text.push_str(&format!("{:<width$}", line[0], width = widths[0]));
        for (cell, &width) in line.iter().zip(&widths).skip(1) {
            text.push_str(&format!("  {cell:>width$}"));
        }
        text.push('\n');
    }
    text
}
