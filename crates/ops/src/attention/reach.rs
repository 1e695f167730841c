//! What can change what. Masks with known integers are exact. A row with a single key puts all weight on it,
//! whatever the score, so that nothing of the score can be felt in y.

use super::bias::table_row;
use super::form::{BiasForm, Extent, Extra, Form};
use super::mask::Known;
use regard_graph::{Along, Concrete, Relation};

/// y [B T H E], lse or choice [B T H] on one operand.
pub fn forward(form: &Form, call: &Concrete<'_>, output: usize, input: usize) -> Relation {
    let extent = Extent::new(call.inputs[0], call.inputs[1], Some(call.inputs[2]));
    let known = Known::of_reader(form, extent, call, 3);
    let rows = Rows::new(&known, extent);
    // Weights move only where there is more than one key; the log-sum-exp where there is any.
    let least = if output == 1 { 1 } else { 2 };
    let scored = |keys: &[usize]| keys.len() >= least;
    let extra = form.extras().find(|&extra| form.place(3, extra) == Some(input));
    match (input, extra) {
        (0, _) => {
            let own = rows.along(|_, t, _, keys| if scored(keys) { vec![t] } else { vec![] });
            Relation::Axes(vec![Along::Same(0), own, Along::Same(2), Along::All])
        }
        (1, _) => {
            let keys = |keys: &[usize]| if scored(keys) { keys.to_vec() } else { vec![] };
            let picked = rows.along(|_, _, _, own| keys(own));
            Relation::Axes(vec![rows.batch(form, &known), picked, group(&extent), Along::All])
        }
        (2, _) if output != 0 => Relation::Nothing,
        (2, _) => {
            let picked = rows.along(|_, _, _, keys| keys.to_vec());
            Relation::Axes(vec![rows.batch(form, &known), picked, group(&extent), Along::Same(3)])
        }
        (_, Some(Extra::Scale)) => Relation::Axes(vec![rows.heads(|_, _, _, keys| scored(keys))]),
        (_, Some(Extra::Bias)) => {
            bias(form, call.inputs[input][0], call.inputs[input].len(), &known, &rows, least).unwrap_or_else(
                || {
                    let dims = call.inputs[input];
                    let axis = |at: usize, size: usize| {
                        if dims[at] == size { Along::Same([0, 2][at]) } else { Along::All }
                    };
                    let picked =
                        rows.along(|_, _, _, keys| if scored(keys) { keys.to_vec() } else { vec![] });
                    Relation::Axes(vec![axis(0, extent.b), axis(1, extent.h), Along::Same(1), picked])
                },
            )
        }
        _ => Relation::Everything,
    }
}

/// Tables and slopes; `None` for a dense bias.
fn bias(form: &Form, rows: usize, rank: usize, known: &Known, all: &Rows, least: usize) -> Option<Relation> {
    let allowed = known.allowed();
    let distance = |b: usize, t: usize, s: usize| allowed.key_at(b, s) as i64 - allowed.query_at(b, t) as i64;
    match form.bias {
        BiasForm::Dense | BiasForm::None => None,
        _ if !known.positions && rank == 1 => Some(Relation::Axes(vec![Along::Same(2)])),
        _ if !known.positions => Some(Relation::Axes(vec![Along::All, Along::Same(2)])),
        BiasForm::Alibi => Some(Relation::Axes(vec![
            all.heads(|b, t, _, keys| keys.len() >= least && keys.iter().any(|&s| distance(b, t, s) != 0)),
        ])),
        form => {
            let felt = all.along(|b, t, _, keys| {
                let mut felt: Vec<usize> =
                    keys.iter().map(|&s| table_row(form, rows, distance(b, t, s))).collect();
                felt.sort_unstable();
                felt.dedup();
                if keys.len() >= least { felt } else { vec![] }
            });
            Some(Relation::Axes(vec![felt, Along::Same(2)]))
        }
    }
}

/// The head's key/value head.
fn group(extent: &Extent) -> Along {
    if extent.share() == 1 {
        return Along::Same(2);
    }
    Along::Listed { axes: vec![2], lists: (0..extent.h).map(|h| vec![h / extent.share()]).collect() }
}

/// The allowed keys of each row; heads share them unless an explicit mask tells them apart.
struct Rows {
    extent: Extent,
    per_head: bool,
    keys: Vec<Vec<usize>>,
}

impl Rows {
    fn new(known: &Known, extent: Extent) -> Self {
        let allowed = known.allowed();
        let per_head = allowed.per_head();
        let mut keys = Vec::new();
        for b in 0..extent.b {
            for t in 0..extent.t {
                for h in 0..if per_head { extent.h } else { 1 } {
                    keys.push((0..extent.s).filter(|&s| allowed.allows(b, h, t, s)).collect());
                }
            }
        }
        Rows { extent, per_head, keys }
    }

    fn of(&self, b: usize, t: usize, h: usize) -> &[usize] {
        let at = b * self.extent.t + t;
        &self.keys[if self.per_head { at * self.extent.h + h } else { at }]
    }

    /// A list for each row, from its (b, t, h) and keys.
    fn along(&self, list: impl Fn(usize, usize, usize, &[usize]) -> Vec<usize>) -> Along {
        let heads = if self.per_head { self.extent.h } else { 1 };
        let axes = if self.per_head { vec![0, 1, 2] } else { vec![0, 1] };
        let row = |at: usize| {
            let (b, t, h) = (at / heads / self.extent.t, at / heads % self.extent.t, at % heads);
            list(b, t, h, &self.keys[at])
        };
        Along::Listed { axes, lists: (0..self.keys.len()).map(row).collect() }
    }

    /// The row's own head where the condition holds, none elsewhere.
    fn heads(&self, felt: impl Fn(usize, usize, usize, &[usize]) -> bool) -> Along {
        let mut lists = Vec::new();
        for b in 0..self.extent.b {
            for t in 0..self.extent.t {
                for h in 0..self.extent.h {
                    lists.push(if felt(b, t, h, self.of(b, t, h)) { vec![h] } else { vec![] });
                }
            }
        }
        Along::Listed { axes: vec![0, 1, 2], lists }
    }

    /// Which rows of the key/value batch matter.
    fn batch(&self, form: &Form, known: &Known) -> Along {
        match &known.key_row {
            _ if !form.has(Extra::KeyRow) => Along::Same(0),
            None => Along::All,
            Some(rows) => self.along(|b, _, _, keys| {
                let mut picked: Vec<usize> =
                    keys.iter().map(|&s| rows[b * self.extent.s + s].max(0) as usize).collect();
                picked.sort_unstable();
                picked.dedup();
                picked.retain(|&row| row < self.extent.rows);
                picked
            }),
        }
    }
}
