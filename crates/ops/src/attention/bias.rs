//! Biases by distance. T5's buckets and the clipped table are the same thing once the table is laid out by
//! distance: one number for each distance from −R to R, and the ends for all beyond.

use super::form::BiasForm;
use regard_graph::{Error, Result};

/// The largest distance that buckets may tell apart.
const MOST_DISTANCE: usize = 1 << 20;

/// The bucket of a distance (key position − query position), as T5 counts them: half of a side's buckets for
/// single distances, the other half growing with the logarithm up to `max_distance`.
pub fn bucket(distance: i64, buckets: usize, bidirectional: bool, max_distance: usize) -> usize {
    let (side, first, away) = if bidirectional {
        let half = buckets / 2;
        (half, if distance > 0 { half } else { 0 }, distance.unsigned_abs() as usize)
    } else {
        (buckets, 0, (-distance.min(0)) as usize)
    };
    let exact = side / 2;
    if away < exact {
        return first + away;
    }
    // In f32 as T5 does, so that distances on the edge of a bucket fall on its side.
    let ratio = (away as f32 / exact as f32) as f64;
    let span = (max_distance as f64 / exact as f64).ln() as f32;
    let steps = ratio.ln() as f32 / span * (side - exact) as f32;
    first + (exact + steps as usize).min(side - 1)
}

pub fn check_buckets(op: &str, rows: Option<usize>, bidirectional: bool, max_distance: usize) -> Result<()> {
    let least = if bidirectional { 4 } else { 2 };
    let Some(rows) = rows.filter(|&rows| rows >= least && (!bidirectional || rows % 2 == 0)) else {
        let what = match rows {
            Some(rows) => format!("the bias table has {rows} buckets"),
            None => "the bias table has an open number of buckets".into(),
        };
        let kind = if bidirectional { "an even number, at least 4, both ways" } else { "at least 2" };
        return Err(Error::invalid(op, what, format!("give it {kind}")));
    };
    let exact = if bidirectional { rows / 4 } else { rows / 2 };
    if max_distance <= exact || max_distance > MOST_DISTANCE {
        let what = format!("max_distance is {max_distance} with {exact} buckets for single distances");
        return Err(Error::invalid(op, what, format!("give more than {exact}, up to {MOST_DISTANCE}")));
    }
    Ok(())
}

/// R: distances beyond ±R share the ends. `rows` is the number of rows of the table; 0 for other biases.
pub fn radius(form: BiasForm, rows: usize) -> usize {
    match form {
        BiasForm::Buckets { max_distance, .. } => max_distance,
        BiasForm::Clipped => rows / 2,
        _ => 0,
    }
}

/// The row of the table for a distance.
pub fn table_row(form: BiasForm, rows: usize, distance: i64) -> usize {
    match form {
        BiasForm::Buckets { bidirectional, max_distance } => {
            let most = max_distance as i64;
            bucket(distance.clamp(-most, most), rows, bidirectional, max_distance)
        }
        _ => {
            let most = (rows / 2) as i64;
            (distance.clamp(-most, most) + most) as usize
        }
    }
}
