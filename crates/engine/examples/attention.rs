//! Times attention, forward and with its gradients, on the CPU.
//!
//!     cargo run --release -p regard-engine --example attention [threads]

use regard_engine::{Cpu, Program, Store};
use regard_graph::Graph;
use regard_ops::prelude::*;
use regard_ops::{Attention, AttentionMask};
use std::time::Instant;

const HEADS: usize = 8;
const WIDTH: usize = 64;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let threads = std::env::args().nth(1).map_or(Ok(2), |text| text.parse::<usize>())?;
    let cpu = Cpu::with(threads, regard_device::Level::best())?;
    println!("{HEADS} heads of {WIDTH}, f32, {threads} threads; best of several, in ms");
    println!("     n  causal   forward  with gradients");
    for n in [512, 2048] {
        for causal in [false, true] {
            let forward = time(&cpu, n, causal, false)?;
            let both = time(&cpu, n, causal, true)?;
            println!("{n:6}  {causal:6}  {forward:8.2}  {both:14.2}");
        }
    }
    println!("one query against a cache of 1024: {:.3}", decode(&cpu)?);
    Ok(())
}

/// The best time of one query against a filled cache, in milliseconds.
fn decode(cpu: &Cpu) -> Result<f64, Box<dyn std::error::Error>> {
    const KEYS: usize = 1024;
    let mut g = Graph::inference();
    let q = g.input("q", DType::F32, [1, 1, HEADS, WIDTH])?;
    let k = g.input("k", DType::F32, [1, KEYS, HEADS, WIDTH])?;
    let v = g.input("v", DType::F32, [1, KEYS, HEADS, WIDTH])?;
    let key_lengths = Some(g.input("lengths", DType::I32, [1])?);
    let mask = AttentionMask { key_lengths, ..Default::default() };
    let y = g.attention(q, k, v, &Attention { mask, ..Attention::default() })?.y;
    g.output("y", y)?;
    let mut store = Store::new(0);
    let mut program = Program::new(g, &[], &mut store, cpu)?;
    program.set_i32("lengths", &[1], &[KEYS as i32])?;
    program.set_f32("q", &[1, 1, HEADS, WIDTH], &[0.5; HEADS * WIDTH])?;
    for name in ["k", "v"] {
        program.set_f32(name, &[1, KEYS, HEADS, WIDTH], &vec![0.25; KEYS * HEADS * WIDTH])?;
    }
    let mut best = f64::MAX;
    for _ in 0..200 {
        let start = Instant::now();
        program.run(&mut store)?;
        best = best.min(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(best)
}

/// The best time of several runs, in milliseconds.
fn time(cpu: &Cpu, n: usize, causal: bool, gradients: bool) -> Result<f64, Box<dyn std::error::Error>> {
    let mut g = Graph::new();
    let dims = [1, n, HEADS, WIDTH];
    let q = g.input_with_gradient("q", dims)?;
    let k = g.input_with_gradient("k", dims)?;
    let v = g.input_with_gradient("v", dims)?;
    let spec = if causal { Attention::causal() } else { Attention::default() };
    let y = g.attention(q, k, v, &spec)?.y;
    g.output("y", y)?;
    if gradients {
        let dy = g.input("dy", DType::F32, dims)?;
        let product = g.mul(y, dy)?;
        let loss = g.sum_all(product)?;
        for (index, grad) in g.gradient(loss, &[q, k, v])?.into_iter().enumerate() {
            g.output(&format!("gradient.{index}"), grad)?;
        }
    }
    let mut store = Store::new(0);
    let mut program = Program::new(g, &[], &mut store, cpu)?;
    let count: usize = dims.iter().product();
    for (seed, name) in ["q", "k", "v", "dy"].into_iter().enumerate().take(if gradients { 4 } else { 3 }) {
        let stream = regard_device::Stream::new(seed as u64, 0, name);
        let numbers: Vec<f32> = (0..count).map(|i| stream.normal(0, 0, i as u32) as f32).collect();
        program.set_f32(name, &dims, &numbers)?;
    }
    let mut best = f64::MAX;
    for _ in 0..if n > 1000 { 7 } else { 30 } {
        let start = Instant::now();
        program.run(&mut store)?;
        best = best.min(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(best)
}
