//! Opens a folder as Hugging Face keeps it, reads weights and tokenizer, and turns sentences into vectors.
//!
//!     cargo run --release -p regard --example 04_load_and_embed
//!     cargo run --release -p regard --example 04_load_and_embed path/to/all-MiniLM-L6-v2
//!
//! Without a path it takes a small BERT with random weights, which knows letters only: its cosines mean
//! nothing.

use regard::data::{Field, Tokenizer};
use regard::hub::{self, Batch};
use regard::models::{Registry, SentencePooling, Sizes};
use regard::ops::MatmulOptions;
use regard::prelude::*;
use std::path::Path;

const SENTENCES: [&str; 3] = ["A cat sits there.", "A kitten rests.", "Stocks fell."];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let small = here.join("../conformance/goldens/parity/bert_masked/model");
    let (folder, tokens) = match std::env::args().nth(1) {
        Some(folder) => (folder.clone(), Path::new(&folder).join("tokenizer.json")),
        None => (small.display().to_string(), here.join("examples/letters.json")),
    };

    // Reads the config, compares every name and shape.
    let opened = hub::open(&folder, &Registry::standard())?;
    let model = &*opened.model;
    let Some(encoder) = model.as_sentence_encoder() else { return Err("no encoder of text".into()) };
    let mut store = Store::new(0);
    opened.load_into(&mut store)?;
    println!("{}: {} numbers in {} tensors", folder, opened.report.numbers, opened.report.tensors);

    let tokenizer = Tokenizer::open(tokens)?;
    let mut rows = Vec::new();
    for text in SENTENCES {
        rows.push(tokenizer.encode(text)?.into_iter().map(|id| id as i32).collect());
    }
    let texts = Batch::texts(&model.reads(), rows);
    let (sizes, fields) = hub::forward::fields(&model.reads(), &texts)?; // padded, with a mask
    let Sizes { batch: b, .. } = sizes;

    let mut g = Graph::inference();
    let inputs = model.reads().declare(&mut g, sizes)?;
    let sentence = encoder.sentence(&mut g, &inputs, SentencePooling::Mean)?; // B T -> B C
    let cosines = g.matmul(sentence, sentence, MatmulOptions { transpose_b: true, ..Default::default() })?; // B B
    g.output("cosines", cosines)?;
    let mut program = Program::new(g, &[], &mut store, &Cpu::new()?)?;
    program.feed(fields.iter().map(Field::parts), &[])?;
    program.run(&mut store)?;

    let cosines = program.f32("cosines")?;
    for (text, row) in SENTENCES.iter().zip(cosines.chunks(b)) {
        println!("{row:>7.3?}  {text}");
    }
    assert!((0..b).all(|i| (cosines[i * b + i] - 1.0).abs() < 1e-5), "every vector has length 1");
    Ok(())
}
