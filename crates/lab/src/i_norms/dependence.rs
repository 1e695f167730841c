//! What a norm depends on: by the relations of the graph, and in numbers.

use super::layer_norm::VANISHING;
use crate::compute::{array, compute, largest_difference};
use crate::picture::{Colours, Heat};
use crate::{Context, Finding, Number, Verdict};
use regard::Result;
use regard::check::{Case, Exactness};
use regard::prelude::*;
use regard_graph::reach::{Query, reach};

const ROWS: usize = 3;
const WIDTH: usize = 4;

type Record = fn(&mut Graph, Var) -> regard_graph::Result<Var>;

fn running(g: &mut Graph) -> regard_graph::Result<[Var; 2]> {
    Ok([
        g.state("mean", DType::F32, [WIDTH], Init::Zeros)?,
        g.state("variance", DType::F32, [WIDTH], Init::Ones)?,
    ])
}

const NORMS: [(&str, Record, [bool; 2]); 3] = [
    ("layer norm", |g, x| g.layer_norm(x, None, None, NormSpec::default()), [true, false]),
    (
        "batch norm in training",
        |g, x| {
            let running = running(g)?;
            Ok(g.batch_norm(x, running, None, None, BatchNormSpec::default())?.normed)
        },
        [false, true],
    ),
    (
        "batch norm in evaluation",
        |g, x| {
            let running = running(g)?;
            g.batch_norm_eval(x, running, None, None, BatchNormSpec::default())
        },
        [true, true],
    ),
];

/// I2: row, column, or itself alone.
pub fn norms(context: &Context) -> Result<Finding> {
    let mut finding = Finding::new(
        Verdict::Holds,
        "Layer norm sees the features of its own example; batch norm the same feature of all examples, in training only. In \
         evaluation each number is by itself.",
    );
    for (name, record, [same_row, same_column]) in NORMS {
        let mut g = Graph::new();
        let x = g.input("x", DType::F32, [ROWS, WIDTH])?;
        let y = record(&mut g, x)?;
        let reaches = reach(&g, &Query { from: vec![x], to: vec![y], ..Default::default() })?;
        // Who reaches the number in the middle of the batch.
        let target = reaches.cell(y, &[1, 2])?;
        let mut map = vec![];
        let (mut wrong, mut seen) = (0, 0);
        for row in 0..ROWS {
            for column in 0..WIDTH {
                let can = reaches.can(reaches.cell(x, &[row, column])?, target)?;
                let wanted = (!same_row || row == 1) && (!same_column || column == 2);
                wrong += usize::from(can != wanted);
                seen += usize::from(can);
                map.push(f64::from(u8::from(can)));
            }
        }
        let numbers = Case::new(move |g| {
            let x = g.input("x", DType::F32, [ROWS, WIDTH])?;
            Ok(vec![record(g, x)?])
        });
        let agree = numbers.reach(Exactness::Equal).is_ok();
        let number = Number::count(
            format!("{name}: inputs that y₂₃ depends on"),
            seen,
            if same_row && same_column {
                1
            } else if same_row {
                WIDTH
            } else {
                ROWS
            },
        );
        finding = finding
            .number(if same_row && same_column { number.erratum("E29") } else { number })
            .number(Number::count(format!("{name}: inputs for which that is not as claimed"), wrong, 0))
            .number(Number::count(
                format!("{name}: moved numbers agree with the relation"),
                usize::from(agree),
                1,
            ))
            .picture(Heat::new(
                format!("{name}: what y of example 2, feature 3 depends on"),
                "example",
                "feature",
                WIDTH,
                map,
                Colours::Rising,
            ));
    }
    // Narrow rows: constant at width 1, ±1 at width 2.
    let mut draws = context.draws("I2");
    let narrow = |x: &[f64]| -> Result<Vec<f64>> {
        let feed = Feed::new().with("x", array(&[1, x.len()], x)?);
        let found = compute(&feed, |g| {
            let x = g.input("x", DType::F32, [1, x.len()])?;
            Ok(vec![g.layer_norm(x, None, None, NormSpec { epsilon: VANISHING, output: None })?])
        })?;
        Ok(found[0].data().to_vec())
    };
    let small = |x: &[f64]| -> Result<Vec<f64>> {
        let feed = Feed::new().with("x", array(&[1, x.len()], x)?);
        let found = compute(&feed, |g| {
            let x = g.input("x", DType::F32, [1, x.len()])?;
            Ok(vec![g.layer_norm(x, None, None, NormSpec::default())?])
        })?;
        Ok(found[0].data().to_vec())
    };
    let one = small(&[draws.normal() * 7.0])?[0];
    let two = narrow(&draws.normals(2))?;
    let again = narrow(&[two[0] * 5.0 + 1.0, two[1] * 5.0 + 1.0])?;
    Ok(finding
        .number(Number::equal("d = 1: the only value there is", one, 0.0, 0.0).erratum("E29"))
        .number(Number::at_most("d = 2: change when both features are stretched and shifted", largest_difference(&two, &again), 1e-14).erratum("E29"))
        .how("The reach reader on each norm of a 3 × 4 batch, and every input moved twenty times with every output watched."))
}
