//! Times questions to an index: strings of its own text, and some that it has not. `bench/evidence` runs it.
//!
//!     cargo run --release -p regard-evidence --example queries -- text.index [questions]

use regard_evidence::{Index, Rule, trace};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::time::Instant;

/// Numbers that look drawn, the same at every run.
struct Draws(u64);

impl Draws {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 20) % most.max(1)
    }
}

/// The median, the 99th of a hundred, and the largest, in milliseconds.
fn shown(name: &str, mut seconds: Vec<f64>) -> String {
    seconds.sort_by(f64::total_cmp);
    let at = |part: f64| 1e3 * seconds[((seconds.len() - 1) as f64 * part) as usize];
    format!(
        "\"{name}\": {{\"median_ms\": {:.4}, \"p99_ms\": {:.4}, \"max_ms\": {:.4}}}",
        at(0.5),
        at(0.99),
        at(1.0)
    )
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let index = Index::open(arguments.next().ok_or("name an index")?)?;
    let count: usize = arguments.next().map_or(Ok(1000), |count| count.parse())?;
    let first = &index.files()[0];
    let mut file = File::open(&first.path)?;
    let mut draws = Draws(1);
    let mut strings = Vec::new();
    while strings.len() < count {
        let mut own = vec![0; 5 + draws.below(40) as usize];
        file.seek(SeekFrom::Start(draws.below(first.bytes - own.len() as u64)))?;
        file.read_exact(&mut own)?;
        if let Ok(text) = String::from_utf8(own) {
            // Every tenth is one that the text has not.
            strings.push(if strings.len() % 10 == 9 { text.chars().rev().collect() } else { text });
        }
    }
    let mut told = Vec::new();
    for round in ["cold", "warm"] {
        let mut seconds = Vec::new();
        let mut found = 0;
        for text in &strings {
            let began = Instant::now();
            let all = index.find(text)?;
            found += all.count();
            all.places(3)?;
            seconds.push(began.elapsed().as_secs_f64());
        }
        assert!(found >= count as u64 / 2, "strings of the text are in the text");
        told.push(shown(round, seconds));
    }
    // A text of about a thousand characters, traced whole.
    let mut seconds = Vec::new();
    for part in strings.chunks(40).take(20) {
        let text = part.join(" ");
        let began = Instant::now();
        trace(&index, &text, Rule::default())?;
        seconds.push(began.elapsed().as_secs_f64());
    }
    told.push(shown("trace_1000_characters", seconds));
    println!("{{\"questions\": {count}, {}}}", told.join(", "));
    Ok(())
}
