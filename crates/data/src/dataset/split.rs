//! Which rows are for training and which are held out: by chance, the same ones for the same seed, or by
//! place, such as the last tenth.

use crate::error::shown;
use crate::{Error, Result};
use regard_device::random::Stream;
use std::ops::Range;
use std::str::FromStr;

/// How many rows: a number of them or a fraction of all. As text: `500`, `10 %` or `0.1`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// So many.
    Count(usize),
    /// This fraction of all, from 0 to 1, rounded to the nearest whole row.
    Fraction(f64),
}

/// A part of the rows, by place. As text: `all`, `first 90 %`, `last 500` or `100..200`.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// All rows.
    All,
    /// So many from the front.
    First(Amount),
    /// So many at the end.
    Last(Amount),
    /// From one row up to, and without, another; the first one is 0.
    Rows(Range<usize>),
}

impl Amount {
    /// How many rows of so many. More than there are is an error.
    pub fn of(self, rows: usize) -> Result<usize> {
        let count = match self {
            Amount::Count(count) => count,
            Amount::Fraction(part) if (0.0..=1.0).contains(&part) => (part * rows as f64).round() as usize,
            Amount::Fraction(part) => {
                return Err(Error::invalid(
                    format!("{part} is no fraction"),
                    "give one from 0 to 1, or a number of rows",
                ));
            }
        };
        match count <= rows {
            true => Ok(count),
            false => Err(Error::invalid(
                format!("{count} rows were asked for, but there are {rows}"),
                "ask for fewer, or for a fraction",
            )),
        }
    }
}

impl Part {
    /// The rows of this part, out of so many.
    pub fn of(&self, rows: usize) -> Result<Range<usize>> {
        match self {
            Part::All => Ok(0..rows),
            Part::First(amount) => Ok(0..amount.of(rows)?),
            Part::Last(amount) => Ok(rows - amount.of(rows)?..rows),
            Part::Rows(range) if range.start <= range.end && range.end <= rows => Ok(range.clone()),
            Part::Rows(range) => Err(Error::invalid(
                format!("there are no rows {}..{}, but 0..{rows}", range.start, range.end),
                "give a range inside of these",
            )),
        }
    }
}

/// Divides rows by chance: those that are left for training, and those held out, both in order and neither
/// empty. Each row's lot depends on seed and row alone, and the lowest lots are held out, so that holding out
/// more keeps those that were.
pub fn held_out(rows: usize, amount: Amount, seed: u64) -> Result<(Vec<usize>, Vec<usize>)> {
    let mut count = amount.of(rows)?;
    if rows < 2 {
        return Err(Error::invalid(
            format!("{rows} row cannot be divided into training and held out"),
            "give at least two rows, or a second file to evaluate on",
        ));
    }
    if matches!(amount, Amount::Fraction(part) if part > 0.0 && part < 1.0) {
        // A small fraction of a small file is one row rather than none.
        count = count.clamp(1, rows - 1);
    }
    if count == 0 || count == rows {
        return Err(Error::invalid(
            format!("{count} of {rows} rows would be held out"),
            "leave at least one row on either side",
        ));
    }
    let stream = Stream::new(seed, 0, "held out");
    let lot = |row: usize| {
        let [low, high, ..] = stream.block((row as u64 >> 32) as u32, row as u32, 0);
        (u64::from(high) << 32 | u64::from(low), row)
    };
    let mut lots: Vec<(u64, usize)> = (0..rows).map(lot).collect();
    lots.select_nth_unstable(count);
    let mut held: Vec<usize> = lots[..count].iter().map(|&(_, row)| row).collect();
    let mut left: Vec<usize> = lots[count..].iter().map(|&(_, row)| row).collect();
    held.sort_unstable();
    left.sort_unstable();
    Ok((left, held))
}

impl FromStr for Amount {
    type Err = Error;

    fn from_str(text: &str) -> Result<Amount> {
        let wrong = || {
            Error::invalid(
                format!("`{}` is no amount of rows", shown(text)),
                "write a number such as 500, a percentage such as 10 %, or a fraction such as 0.1",
            )
        };
        let fraction = |number: &str, whole: f64| -> Result<Amount> {
            let number: f64 = number.trim().parse().map_err(|_| wrong())?;
            let part = number / whole;
            if (0.0..=1.0).contains(&part) { Ok(Amount::Fraction(part)) } else { Err(wrong()) }
        };
        let text = text.trim();
        match text.strip_suffix('%') {
            Some(number) => fraction(number, 100.0),
            None if text.contains('.') => fraction(text, 1.0),
            None => text.parse().map(Amount::Count).map_err(|_| wrong()),
        }
    }
}

impl FromStr for Part {
    type Err = Error;

    fn from_str(text: &str) -> Result<Part> {
        let trimmed = text.trim();
        if trimmed == "all" {
            return Ok(Part::All);
        }
        if let Some(amount) = trimmed.strip_prefix("first ") {
            return Ok(Part::First(amount.parse()?));
        }
        if let Some(amount) = trimmed.strip_prefix("last ") {
            return Ok(Part::Last(amount.parse()?));
        }
        if let Some((start, end)) = trimmed.split_once("..")
            && let (Ok(start), Ok(end)) = (start.trim().parse(), end.trim().parse())
        {
            return Ok(Part::Rows(start..end));
        }
        Err(Error::invalid(
            format!("`{}` is no part of the rows", shown(text)),
            "write `all`, `first 90 %`, `last 500` or `100..200`",
        ))
    }
}
