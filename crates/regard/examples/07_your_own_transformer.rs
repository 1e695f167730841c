//! A Transformer of your own, out of layers: trained on a nursery rhyme, saved, loaded, proved, and asked to
//! go on.
//!
//!     cargo run --release -p regard --example 07_your_own_transformer

use regard::data::{Tokenizer, batching::TokenRows};
use regard::generate::{Generator, Request, Settings as Room};
use regard::graph::Result;
use regard::inspect::{Promise, ProofCase, Stream, prove};
use regard::models::{Caches, Decoder, Known};
use regard::ops::{CrossEntropyOptions, RotarySpec};
use regard::prelude::*;
use regard::train::{Length, Mode, Run, Settings, Task, Trainer};
use std::sync::Arc;

const RHYME: &str = "This is the house that Jack built.\n\
    This is the malt that lay in the house that Jack built.\n\
    This is the rat that ate the malt that lay in the house that Jack built.\n\
    This is the cat that killed the rat that ate the malt that lay in the house that Jack built.\n\
    This is the dog that worried the cat that killed the rat that ate the malt that lay in the house that Jack built.\n";
const CONTEXT: usize = 64;

/// A decoder. The head is the table of the embedding.
struct Mine {
    vocabulary: usize,
    tokens: EmbeddingLayer,
    stack: Stack,
}

impl Mine {
    fn new(vocabulary: usize, width: usize) -> Result<Mine> {
        let p = &mut Parameters::new();
        let tokens =
            p.under("tokens", |p| EmbeddingLayer::new(EmbeddingConfig::new(vocabulary, width), p))?;
        let relative = RelativeConfig::Rotary(RotarySpec::default());
        let stack = Stack::new(StackConfig { relative, ..StackConfig::new(2, width, 4)? }, p)?;
        Ok(Mine { vocabulary, tokens, stack })
    }

    /// B T -> B T C
    fn hidden(&self, g: &mut Graph, ids: Var, seen: &Context) -> Result<Var> {
        let x = self.tokens.forward(g, ids)?;
        self.stack.forward(g, x, seen, None)
    }
}

/// How it learns: every token is to foretell the next.
impl Task for Mine {
    fn record(&self, g: &mut Graph, scale: Var, _: Mode) -> Result<Var> {
        let b = g.open('B', 16)?;
        let [ids, labels] = ["ids", "labels"].map(|name| g.input(name, DType::I32, shape![b, CONTEXT]));
        let x = self.hidden(g, ids?, &Context::causal())?;
        let table = self.tokens.weight(g)?;
        Ok(g.linear_cross_entropy(x, table, None, labels?, scale, CrossEntropyOptions::default())?.loss)
    }
}

/// How it writes: with keys and values kept from step to step.
impl Decoder for Mine {
    fn vocabulary(&self) -> usize {
        self.vocabulary
    }
    fn context(&self) -> Option<usize> {
        Some(CONTEXT)
    }
    fn window(&self) -> Option<usize> {
        None
    }
    fn caches(&self) -> Caches {
        Caches::Keys
    }
    fn resume(&self, g: &mut Graph, ids: Var, known: Known) -> Result<Var> {
        let seen = match known {
            Known::Cached(cached) => cached.context(g, ids)?,
            Known::Nothing { .. } => Context::causal(),
        };
        self.hidden(g, ids, &seen)
    }
    fn scores(&self, g: &mut Graph, x: Var) -> Result<Var> {
        self.tokens.head(g, x)
    }
}

fn main() -> regard::Result<()> {
    let cpu = Cpu::new()?;
    let tokenizer = Tokenizer::bytes();
    let model = Mine::new(tokenizer.vocabulary(), 64)?;

    // Train.
    let source = TokenRows::random(tokenizer.encode(RHYME)?, CONTEXT, 8, 150, 1)?;
    let settings = Settings { learning_rate: 3e-3, length: Length::Epochs(1), ..Settings::default() };
    let mut store = Store::new(1);
    let mut trainer = Trainer::new(&model, settings, &mut store, &cpu)?;
    let outcome = trainer.run(&mut store, Run::new(Arc::new(source)))?;
    let losses: Vec<f64> = outcome.history.steps.iter().map(|step| step.loss).collect();
    println!("trained: {}, loss {:.2} -> {:.2}", outcome.sentence(None), losses[0], losses[losses.len() - 1]);

    // Save and load.
    let path = std::env::temp_dir().join(format!("mine-{}.safetensors", std::process::id()));
    println!("saved: {} bytes", store.save(&path)?.bytes);
    let mut store = Store::load(&path)?;
    let _ = std::fs::remove_file(&path);

    // Prove, for every input that there can be: nothing is seen before it is there.
    let mut graph = Graph::inference();
    let ids = graph.input("ids", DType::I32, [2, 8])?;
    let x = model.hidden(&mut graph, ids, &Context::causal())?;
    let logits = model.scores(&mut graph, x)?;
    graph.output("logits", logits)?;
    let case = ProofCase { graph, batch: 2, streams: vec![Stream::whole("ids", 2, 8)], known: Vec::new() };
    for finding in prove(&case, &[Promise::Causal("ids".into()), Promise::Batch])? {
        println!("proved: {}", finding.sentence);
        assert!(finding.holds());
    }

    // Generate.
    let prompt = "This is the cat that";
    let ids = tokenizer.encode(prompt)?.into_iter().map(|id| id as i32).collect();
    let mut generator = Generator::new(&model, Room::default(), &mut store, &cpu)?;
    let written = generator.generate(&Request::greedy(&[ids], 40), &mut store)?;
    let new: Vec<u32> = written[0].ids.iter().map(|&id| id as u32).collect();
    let text = tokenizer.decode(&new)?;
    println!("generated: {prompt}|{text}");
    assert!(text.starts_with(" killed the rat"), "it knows the rhyme");
    Ok(())
}
