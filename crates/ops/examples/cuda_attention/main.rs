//! Attention on a card: every trial against the reference in f64, bits that must not depend on neighbours or
//! padding, and the time of forward and backward at the shapes of the bars.
//!
//! Run with `cargo run --release -p regard-ops --example cuda_attention`, or with the names of parts to run
//! these alone: `agreement`, `few` (a ninth of the trials, for sanitizers), `bits`, `speed`; `trials`
//! computes them by the reference alone and needs no card. The exit code is 0 when everything agrees, 1 when
//! something does not, and 2 when there is no card.

#![allow(unsafe_code)] // every use of an address on the card is

mod agreement;
mod bits;
mod room;
mod speed;
mod trials;

use room::Room;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Instant;

/// What was found.
#[derive(Default)]
pub struct Report {
    failures: Vec<String>,
    checked: usize,
    worst: BTreeMap<String, (f64, f64)>,
    table: Vec<String>,
}

impl Report {
    /// A promise that holds or not; only what does not hold is printed at once.
    pub fn check(&mut self, name: &str, holds: bool, detail: impl AsRef<str>) {
        self.checked += 1;
        if !holds {
            let line = format!("{name}: {}", detail.as_ref());
            println!("FAIL {line}");
            self.failures.push(line);
        }
    }

    /// The largest error of a kind, with its bound.
    pub fn worst(&mut self, name: &str, error: f64, bound: f64) {
        let worst = self.worst.entry(name.into()).or_insert((0.0, bound));
        if error > worst.0 {
            *worst = (error, bound);
        }
    }

    /// A line of the last table.
    pub fn line(&mut self, line: String) {
        println!("{line}");
        self.table.push(line);
    }
}

const PARTS: [&str; 4] = ["agreement", "few", "bits", "speed"];
const WITHOUT_CARD: &str = "trials";

fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    if let Some(unknown) = wanted.iter().find(|name| !PARTS.contains(&name.as_str()) && *name != WITHOUT_CARD)
    {
        println!("there is no part `{unknown}`; there are {}, {WITHOUT_CARD}", PARTS.join(", "));
        return ExitCode::from(2);
    }
    if wanted.iter().any(|name| name == WITHOUT_CARD) {
        return if agreement::prepare_all() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let room = match Room::open() {
        Ok(room) => room,
        Err(error) => {
            println!("{error}");
            return ExitCode::from(2);
        }
    };
    println!("{}", room.card.facts());
    let mut report = Report::default();
    for part in PARTS {
        let asked = wanted.iter().any(|name| name == part);
        if !asked && (!wanted.is_empty() || part == "few") {
            continue;
        }
        println!("\n== {part}");
        let began = Instant::now();
        let result = match part {
            "agreement" => agreement::check(&room, &mut report, false),
            "few" => agreement::check(&room, &mut report, true),
            "bits" => bits::check(&room, &mut report),
            _ => speed::measure(&room, &mut report),
        };
        if let Err(error) = result {
            report.check(part, false, error.to_string());
            if error.is_final() {
                break;
            }
        }
        println!("     ({:.1} s)", began.elapsed().as_secs_f64());
    }
    println!("\n{} checks, {} failed", report.checked, report.failures.len());
    for line in report.failures.iter().take(40) {
        println!("FAIL {}", line.chars().take(220).collect::<String>());
    }
    for (name, (error, bound)) in &report.worst {
        println!("worst {name:<24} {error:.1e} (bound {bound:.1e})");
    }
    report.table.iter().for_each(|line| println!("{line}"));
    ExitCode::from(u8::from(!report.failures.is_empty()))
}
