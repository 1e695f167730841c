//! Opens a folder as Hugging Face keeps it, reads weights and tokenizer, and turns sentences into vectors.
//!
//!     cargo run --release -p regard --example 04_load_and_embed
//!     cargo run --release -p regard --example 04_load_and_embed path/to/all-MiniLM-L6-v2
//!
//! Without a path it takes a small BERT with random weights, which knows letters only: its cosines mean nothing.

use regard::data::Tokenizer;
use regard::hub::{self, AnyModel};
use regard::models::BertText;
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

    let opened = hub::open(&folder)?; // reads the config, compares every name and shape
    let AnyModel::Bert(bert) = &opened.model else { return Err("not of the BERT family".into()) };
    let mut store = Store::new(0);
    opened.load_into(&mut store)?;
    println!("{}: {} numbers in {} tensors", folder, opened.report.numbers, opened.report.tensors);

    let tokenizer = Tokenizer::open(tokens)?;
    let rows: Vec<Vec<u32>> =
        SENTENCES.iter().map(|text| tokenizer.encode(text)).collect::<Result<_, _>>()?;
    let (b, t) = (rows.len(), rows.iter().map(Vec::len).max().unwrap_or(0));
    let at = |row: usize, i: usize| rows[row].get(i).map(|&id| id as i32);
    let cells: Vec<Option<i32>> = (0..b * t).map(|cell| at(cell / t, cell % t)).collect();

    let mut g = Graph::inference();
    let ids = g.input("ids", DType::I32, [b, t])?;
    let mask = g.input("mask", DType::Bool, [b, t])?;
    let sentence = bert.sentence(&mut g, &BertText { ids, token_types: None, key_mask: Some(mask) })?; // B T -> B C
    let cosines = g.matmul(sentence, sentence, MatmulOptions { transpose_b: true, ..Default::default() })?; // B B
    g.output("cosines", cosines)?;
    let mut program = Program::new(g, &[], &mut store, &Cpu::new()?)?;
    program.set_i32("ids", &[b, t], &cells.iter().map(|cell| cell.unwrap_or(0)).collect::<Vec<_>>())?;
    program.set_bools("mask", &[b, t], &cells.iter().map(Option::is_some).collect::<Vec<_>>())?;
    program.run(&mut store)?;

    let cosines = program.f32("cosines")?;
    for (text, row) in SENTENCES.iter().zip(cosines.chunks(b)) {
        println!("{row:>7.3?}  {text}");
    }
    assert!((0..b).all(|i| (cosines[i * b + i] - 1.0).abs() < 1e-5), "every vector has length 1");
    Ok(())
}
