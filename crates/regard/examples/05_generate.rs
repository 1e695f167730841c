//! Continues a sequence with a decoder: a session opens the model with all that lies beside it, and tells of
//! every piece.
//!
//!     cargo run --release -p regard --example 05_generate
//!     cargo run --release -p regard --example 05_generate path/to/stories260K.bin "Once upon a time"
//!
//! Without a path it takes a small Llama with random weights and no tokenizer, and prints ids.

use regard::generate::Sampling;
use regard::models::Registry;
use regard::prelude::*;
use regard::runtime::{OpenOptions, Prompts, Session, Writing};
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next();
    let text = arguments.next().unwrap_or_else(|| "Once upon a time".into());
    let small = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/goldens/parity/llama/model");
    let name = path.clone().unwrap_or_else(|| small.display().to_string());
    let mut session = Session::open(&name, &OpenOptions::new(&Registry::standard()), &Cpu::new()?)?;

    if path.is_none() {
        let prompts = [vec![45, 4, 51, 32, 39, 37, 18]];
        let writing = Writing { most: 6, ..Writing::default() };
        let written =
            session.generate(Prompts::Ids(&prompts), &writing, &mut |_| ControlFlow::Continue(()))?;
        println!("{:?} -> {:?}", prompts[0], written[0].ids);
        assert_eq!(written[0].ids, [21, 37, 31, 24, 37, 14], "what transformers generates");
        return Ok(());
    }
    let sampling = Sampling { temperature: 0.8, top_p: 0.9, ..Sampling::plain(7) };
    let writing = Writing { most: 200, sampling, ..Writing::default() };
    print!("{text}");
    let written = session.generate(Prompts::Texts(&[text]), &writing, &mut |piece| {
        // A character is there once it is whole.
        print!("{}", piece.text);
        match std::io::stdout().flush() {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    })?;
    println!("\n({})", written[0].end);
    Ok(())
}
