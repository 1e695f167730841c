//! Looking inside: a small GPT learns to repeat the letter before, and then shows how it does that. Taps by
//! name, the weights of its heads, what happens without a part, and what happens with a part of another run.
//!
//!     cargo run --release -p regard --example 08_looking_inside

use regard::data::{Batch, Field, Source};
use regard::inspect::{keep_taps, look, patch_taps, patched_taps, without_taps};
use regard::layers::taps::taps;
use regard::models::{Gpt, GptConfig, View};
use regard::ops::IGNORE_INDEX;
use regard::prelude::*;
use regard::train::{Length, Mode, Run, Settings, Task, Trainer};
use std::sync::Arc;

const LENGTH: usize = 12;
const LETTERS: usize = 10;

/// Rows of letters drawn at random; the target of each is the one before it.
struct Before;

impl Source for Before {
    fn batches(&self, _epoch: u64) -> usize {
        1
    }

    fn batch(&self, epoch: u64, _index: usize) -> regard::data::Result<Batch> {
        let (rows, mut state) = (32, epoch.wrapping_add(1));
        let mut letter = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as i32 % LETTERS as i32
        };
        let ids: Vec<i32> = (0..rows * LENGTH).map(|_| letter()).collect();
        let before = |at: usize| if at.is_multiple_of(LENGTH) { IGNORE_INDEX } else { ids[at - 1] };
        let targets = (0..ids.len()).map(before).collect();
        let fields =
            vec![Field::i32("ids", &[rows, LENGTH], ids), Field::i32("targets", &[rows, LENGTH], targets)];
        Ok(Batch {
            fields,
            targets: (rows * (LENGTH - 1)) as u64,
            tokens: (rows * LENGTH) as u64,
            examples: rows as u64,
        })
    }
}

struct Learner(Gpt);

impl Task for Learner {
    fn record(&self, g: &mut Graph, scale: Var, _: Mode) -> regard::graph::Result<Var> {
        let b = g.open('B', 32)?;
        let [ids, targets] = ["ids", "targets"].map(|name| g.input(name, DType::I32, shape![b, LENGTH]));
        self.0.loss(g, ids?, targets?, scale)
    }
}

/// Runs a pass over some letters.
fn run(graph: Graph, letters: &str, store: &mut Store, cpu: &Cpu) -> regard::Result<Program> {
    let mut program = Program::new(graph, &[], store, cpu)?;
    let ids: Vec<i32> = letters.bytes().map(|letter| i32::from(letter - b'a')).collect();
    program.set_i32("ids", &[1, LENGTH], &ids)?;
    Ok(program)
}

/// The likeliest letter at each position but the first.
fn answer(program: &Program) -> regard::Result<String> {
    let logits = program.f32("logits")?;
    let best = |row: &[f32]| (0..LETTERS).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap_or_default();
    Ok(logits.chunks(LETTERS).skip(1).map(|row| char::from(b'a' + best(row) as u8)).collect())
}

fn main() -> regard::Result<()> {
    let (cpu, mut store) = (Cpu::new()?, Store::new(2));
    let config = GptConfig {
        layers: 1,
        heads: 2,
        width: 32,
        context: LENGTH,
        vocabulary: LETTERS,
        dropout: 0.0,
        ..Default::default()
    };
    let learner = Learner(Gpt::new(config)?);
    let settings = Settings { learning_rate: 1e-2, length: Length::Steps(300), ..Settings::default() };
    Trainer::new(&learner, settings, &mut store, &cpu)?.run(&mut store, Run::new(Arc::new(Before)))?;

    // The pass to look into is recorded for inference: what has learned is in the store.
    let mut pass = Graph::inference();
    let ids = pass.input("ids", DType::I32, [1, LENGTH])?;
    let x = learner.0.hidden(&mut pass, ids, View::Whole)?;
    let logits = learner.0.head(&mut pass, x)?;
    pass.output("logits", logits)?;

    println!("What can be tapped:");
    for tap in taps(&pass) {
        println!("  {:<28} {:<12} {}", tap.name, tap.shape.to_string(), tap.about);
    }

    // Who attends to whom.
    let (one, other) = ("abcdefghijab", "jihgfedcbaji");
    let mut seen = pass.duplicate();
    let attention = look::attentions(&seen).remove(0);
    let rows: Vec<usize> = (0..LENGTH).collect();
    look::ask(&mut seen, &attention, &rows)?;
    let mut program = run(seen, one, &mut store, &cpu)?;
    program.run(&mut store)?;
    println!("Weight of each head of {} on the letter before:", attention.name);
    for map in look::maps(&program, &attention, &rows)? {
        let before = map.metrics(&[]).previous.unwrap_or_default();
        println!("  head {}: {before:.2}; the row of the last letter: {:.2?}", map.head, map.row(LENGTH - 1));
    }

    // What the attention adds to the stream, taken from a run on another text, and left out.
    let added = ["block.0.attention.added"];
    let mut kept = pass.duplicate();
    keep_taps(&mut kept, &added)?;
    let mut source = run(kept, other, &mut store, &cpu)?;
    source.run(&mut store)?;
    let mut patched = run(patch_taps(&pass, &added)?, one, &mut store, &cpu)?;
    patched_taps(&mut patched, &source, &added)?;
    patched.run(&mut store)?;
    let mut without = run(without_taps(&pass, &added)?, one, &mut store, &cpu)?;
    without.run(&mut store)?;
    println!("{one} is answered {}", answer(&program)?);
    println!("{other} is answered {}", answer(&source)?);
    println!("{one} with {} of the other is answered {}", added[0], answer(&patched)?);
    println!("{one} without it is answered {}", answer(&without)?);
    assert_eq!(answer(&program)?, one[..LENGTH - 1], "it has learned to repeat");
    assert_eq!(answer(&patched)?, other[..LENGTH - 1], "what it repeats, attention has brought");
    assert_ne!(answer(&without)?, one[..LENGTH - 1]);
    Ok(())
}
