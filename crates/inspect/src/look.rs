//! Who attends to whom: the attentions of a recorded graph, found in it, and their weights on request.
//! Nothing of size T·S is made: rows are asked for, all of a short text and some of a long one. The outputs
//! of the pass have the same bits whether anybody looks or not.

use crate::{Error, Result};
use regard_engine::Program;
use regard_graph::Graph;
use regard_ops::prelude::*;
use regard_ops::{AttentionOp, WeightsRequest};
use regard_picture::{Colours, Heat};

/// An attention of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attention {
    /// Its dotted name: `block.2.attention`, `decoder.block.0.cross`.
    pub name: String,
    /// The number of its node.
    pub node: usize,
    /// H.
    pub heads: usize,
    /// T, queries.
    pub queries: usize,
    /// S, keys.
    pub keys: usize,
}

impl Attention {
    /// Whether it looks at another stream than its own.
    pub fn is_cross(&self) -> bool {
        let last = self.name.rsplit('.').next().unwrap_or_default();
        last == "cross" || self.queries != self.keys
    }
}

/// The attentions of a graph, in the order of running; open sizes at their bounds.
pub fn attentions(g: &Graph) -> Vec<Attention> {
    let all = g.nodes().iter().enumerate().filter(|(_, node)| node.is::<AttentionOp>());
    all.map(|(at, node)| {
        let (query, key) = (g.shape(node.inputs[0]).bound(), g.shape(node.inputs[1]).bound());
        let name = node.name.strip_suffix(".attention").unwrap_or(&node.name).to_string();
        Attention { name, node: at, heads: query[2], queries: query[1], keys: key[1] }
    })
    .collect()
}

/// Attentions whose name begins with this dotted part, or that belong to the block of this number.
pub fn find<'a>(all: &'a [Attention], layer: &str) -> Result<Vec<&'a Attention>> {
    let dotted = match layer.parse::<usize>() {
        Ok(number) => format!("block.{number}"),
        Err(_) => layer.to_string(),
    };
    let under = |name: &str| {
        name == dotted
            || name.starts_with(&format!("{dotted}."))
            || (layer.parse::<usize>().is_ok() && format!(".{name}.").contains(&format!(".{dotted}.")))
    };
    let found: Vec<&Attention> = all.iter().filter(|attention| under(&attention.name)).collect();
    if found.is_empty() {
        let known = all.iter().map(|attention| attention.name.as_str());
        return Err(regard_graph::Error::unknown("attention", &dotted, known).into());
    }
    Ok(found)
}

/// A head by name: `block.2.head.5`, `block.2.attention.head.5`, `decoder.block.0.cross.head.1`.
pub fn find_head(all: &[Attention], name: &str) -> Result<(Attention, usize)> {
    let wrong = || {
        Error::invalid(
            format!("`{name}` is no head"),
            "name one as in `block.2.head.5`, or `decoder.block.0.cross.head.1`",
        )
    };
    let (layer, head) = name.rsplit_once(".head.").ok_or_else(wrong)?;
    let head: usize = head.parse().map_err(|_| wrong())?;
    let exact = all
        .iter()
        .find(|attention| attention.name == layer || attention.name == format!("{layer}.attention"));
    let Some(attention) = exact else {
        let known = all.iter().map(|attention| attention.name.as_str());
        return Err(regard_graph::Error::unknown("attention", layer, known).into());
    };
    if head >= attention.heads {
        let last = attention.heads - 1;
        return Err(Error::invalid(
            format!("`{}` has no head {head}", attention.name),
            format!("its heads are 0 to {last}"),
        ));
    }
    Ok((attention.clone(), head))
}

/// Which rows of a text are asked for: all of a short one, some of a long one, and in any case those wanted.
pub fn rows(queries: usize, most: usize, wanted: &[usize]) -> Vec<usize> {
    let mut rows: Vec<usize> = match queries <= most {
        true => (0..queries).collect(),
        // Evenly, the last one among them.
        false => (1..=most).map(|i| i * queries / most - 1).chain(wanted.iter().copied()).collect(),
    };
    rows.retain(|&row| row < queries);
    rows.sort_unstable();
    rows.dedup();
    rows
}

/// Asks for rows of an attention's weights: one more output of the graph.
pub fn ask(g: &mut Graph, attention: &Attention, rows: &[usize]) -> Result<()> {
    let found = g.weights_of(attention.node, WeightsRequest::Rows(rows.to_vec()))?;
    g.output(&format!("look.{}", attention.name), found.values)?;
    Ok(())
}

/// Rows of one head's weights in one text.
#[derive(Clone, Debug, PartialEq)]
pub struct Map {
    /// The attention's dotted name.
    pub attention: String,
    /// The head.
    pub head: usize,
    /// Whether it looks at another stream.
    pub cross: bool,
    /// Which queries.
    pub rows: Vec<usize>,
    /// S.
    pub keys: usize,
    /// Weights, a row of S for each query.
    pub weights: Vec<f32>,
}

/// The maps of all heads of an attention after a run, of the first text of the batch.
pub fn maps(program: &Program, attention: &Attention, rows: &[usize]) -> Result<Vec<Map>> {
    let name = format!("look.{}", attention.name);
    let numbers = program.f32(&name)?;
    let size = rows.len() * attention.keys;
    if numbers.len() < attention.heads * size {
        return Err(Error::invalid(
            format!(
                "`{name}` has {} weights, {} rows of it need {}",
                numbers.len(),
                rows.len(),
                attention.heads * size
            ),
            "read the rows that were asked for",
        ));
    }
    Ok((0..attention.heads)
        .map(|head| Map {
            attention: attention.name.clone(),
            head,
            cross: attention.is_cross(),
            rows: rows.to_vec(),
            keys: attention.keys,
            weights: numbers[head * size..][..size].to_vec(),
        })
        .collect())
}

/// What a head does, in numbers: means over its rows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Metrics {
    /// −Σ w ln w, in nats: 0 for one key, ln S for all alike.
    pub entropy: f64,
    /// Weight on the first key.
    pub first: f64,
    /// Σ w |t − s|; not for attention to another stream.
    pub distance: Option<f64>,
    /// Weight on the query's own position.
    pub own: Option<f64>,
    /// Weight on the position before, of all rows that have one.
    pub previous: Option<f64>,
    /// Weight on earlier tokens that are the same as the query's, of all rows that have some.
    pub copy: Option<f64>,
}

impl Map {
    /// The weights of a row, by its place among [`Map::rows`].
    pub fn row(&self, at: usize) -> &[f32] {
        &self.weights[at * self.keys..][..self.keys]
    }

    /// The largest weights of a row with their keys; of equal ones the first key comes first.
    pub fn top(&self, at: usize, count: usize) -> Vec<(usize, f32)> {
        let mut all: Vec<(usize, f32)> = self.row(at).iter().copied().enumerate().collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        all.truncate(count);
        all
    }

    /// What the head does. `ids` are the tokens of its own stream.
    pub fn metrics(&self, ids: &[i32]) -> Metrics {
        let mean = |of: &dyn Fn(usize, &[f32]) -> Option<f64>| {
            let (mut sum, mut count) = (0.0, 0usize);
            for (at, &t) in self.rows.iter().enumerate() {
                if let Some(x) = of(t, self.row(at)) {
                    (sum, count) = (sum + x, count + 1);
                }
            }
            (count > 0).then(|| sum / count as f64)
        };
        let weight = |row: &[f32], s: usize| row.get(s).map_or(0.0, |&w| f64::from(w));
        let entropy = |_: usize, row: &[f32]| {
            let each = row.iter().filter(|w| **w > 0.0).map(|&w| -f64::from(w) * f64::from(w).ln());
            Some(each.sum::<f64>())
        };
        let own = |of: &dyn Fn(usize, &[f32]) -> Option<f64>| if self.cross { None } else { mean(of) };
        Metrics {
            entropy: mean(&entropy).unwrap_or(0.0),
            first: mean(&|_, row| Some(weight(row, 0))).unwrap_or(0.0),
            distance: own(&|t, row| {
                Some(row.iter().enumerate().map(|(s, &w)| f64::from(w) * t.abs_diff(s) as f64).sum())
            }),
            own: own(&|t, row| Some(weight(row, t))),
            previous: own(&|t, row| t.checked_sub(1).map(|s| weight(row, s))),
            copy: own(&|t, row| {
                let id = ids.get(t)?;
                let same: Vec<usize> = (0..t).filter(|&s| ids.get(s) == Some(id)).collect();
                (!same.is_empty()).then(|| same.iter().map(|&s| weight(row, s)).sum())
            }),
        }
    }

    /// The map as a picture, with the tokens of its own stream and of the one it looks at beside it.
    pub fn heat(&self, queries: &[String], keys: &[String]) -> Heat {
        let numbers: Vec<f64> = self.weights.iter().map(|&w| f64::from(w)).collect();
        let names = self.rows.iter().map(|&row| queries.get(row).cloned().unwrap_or_default()).collect();
        let title = format!("{} head {}", self.attention, self.head);
        Heat::new(title, "", "", self.keys, numbers, Colours::Share).named(names, keys.to_vec())
    }

    /// Block and head as numbers: `3.11`; cross-attention has an x in front.
    pub fn number(&self) -> String {
        let layer = self.attention.split('.').find(|part| part.parse::<usize>().is_ok()).unwrap_or("");
        let cross = if self.cross { "x" } else { "" };
        format!("{cross}{layer}.{}", self.head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_is_drawn_with_its_tokens() {
        let map = Map {
            attention: "decoder.block.2.cross".into(),
            head: 5,
            cross: true,
            rows: vec![0, 3],
            keys: 2,
            weights: vec![1.0, 0.0, 0.25, 0.75],
        };
        let words = |text: &str| text.split(' ').map(String::from).collect::<Vec<_>>();
        let heat = map.heat(&words("a b c <d>"), &words("x y"));
        assert_eq!(
            (heat.characters(), map.number()),
            (vec!["██  ".to_string(), "▒▒██".into()], "x2.5".into())
        );
        let svg = heat.svg();
        assert_eq!(regard_picture::check::fault(&svg), None);
        assert!(svg.contains("decoder.block.2.cross head 5") && svg.contains("&lt;d&gt;, y: 0.75"), "{svg}");
    }
}
