//! Continues a sequence with a decoder: prompt through the caches, then a token at a time.
//!
//!     cargo run --release -p regard --example 05_generate
//!     cargo run --release -p regard --example 05_generate path/to/stories260K.bin "Once upon a time"
//!
//! Without a path it takes a small Llama with random weights and no tokenizer, and prints ids.

use regard::data::Tokenizer;
use regard::generate::{Generator, Request, Sampling, Settings};
use regard::hub;
use regard::models::Registry;
use regard::prelude::*;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next();
    let text = arguments.next().unwrap_or_else(|| "Once upon a time".into());
    let small = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/goldens/parity/llama/model");
    let opened =
        hub::open(path.clone().unwrap_or_else(|| small.display().to_string()), &Registry::standard())?;
    let Some(decoder) = opened.model.as_decoder() else { return Err("not a decoder".into()) };
    let mut store = Store::new(0);
    opened.load_into(&mut store)?;
    let mut generator = Generator::new(decoder, Settings::default(), &mut store, &Cpu::new()?)?;

    if path.is_none() {
        let prompts = [vec![45, 4, 51, 32, 39, 37, 18]];
        let generated = generator.generate(&Request::greedy(&prompts, 6), &mut store)?;
        println!("{:?} -> {:?}", prompts[0], generated[0].ids);
        assert_eq!(generated[0].ids, [21, 37, 31, 24, 37, 14], "what transformers generates");
        return Ok(());
    }
    let tokenizer = Tokenizer::beside(&opened.path, decoder.vocabulary())?;
    let ids = tokenizer.encode_for(&text, decoder.vocabulary())?;
    let mut stream = tokenizer.stream(&ids);
    let sampling = Sampling { temperature: 0.8, top_p: 0.9, ..Sampling::plain(7) };
    let prompts = [ids.iter().map(|&id| id as i32).collect()];
    let request = Request { stop: &[1, 2], sampling, ..Request::greedy(&prompts, 200) };
    print!("{text}");
    generator.stream(&request, &mut store, &mut |token| {
        // A character is printed once it is whole.
        let printed = stream.push(token.id as u32).map(|part| print!("{part}"));
        if printed.is_ok() && std::io::stdout().flush().is_ok() {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    })?;
    println!("{}", stream.finish()?);
    Ok(())
}
