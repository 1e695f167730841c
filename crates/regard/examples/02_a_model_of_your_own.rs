//! A model of your own, recorded, trained and used in forty lines: a small network learns the exclusive or.
//!
//!     cargo run --release -p regard --example 02_a_model_of_your_own

use regard::ops::{Activation, AdamW, LinearOptions};
use regard::prelude::*;

fn main() -> regard::Result<()> {
    let mut g = Graph::new();
    let x = g.input("x", DType::F32, [4, 2])?;
    let y = g.input("y", DType::F32, [4, 1])?;
    let up = g.parameter("up.weight", [16, 2], Init::Normal(1.0))?;
    let bias = g.parameter("up.bias", [16], Init::Normal(1.0))?;
    let down = g.parameter("down.weight", [1, 16], Init::Normal(0.3))?;
    let options = LinearOptions { bias: Some(bias), activation: Activation::Gelu, ..Default::default() };
    let hidden = g.linear(x, up, options)?; // 4 2 -> 4 16
    let guess = g.linear(hidden, down, LinearOptions::default())?; // 4 16 -> 4 1
    g.output("guess", guess)?;
    let error = g.sub(guess, y)?;
    let square = g.square(error)?;
    let loss = g.mean_all(square)?;
    g.output("loss", loss)?;

    let parameters = g.parameters();
    let gradients = g.gradient(loss, &parameters)?;
    let pairs: Vec<(Var, Var)> = parameters.into_iter().zip(gradients).collect();
    let (rate, step) = (g.input("rate", DType::F32, shape![])?, g.input("step", DType::I32, shape![])?);
    g.adamw_step(&pairs, &AdamW::default(), rate, step, None)?;

    let mut store = Store::new(1);
    let mut program = Program::new(g, &[], &mut store, &Cpu::new()?)?;
    program.set_f32("x", &[4, 2], &[0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0])?;
    program.set_f32("y", &[4, 1], &[0.0, 1.0, 1.0, 0.0])?;
    program.set_f32("rate", &[], &[0.01])?;
    for step in 1..=500 {
        program.set_i32("step", &[], &[step])?;
        program.run(&mut store)?;
    }
    println!("loss {:.6}, guesses {:.3?}", program.scalar("loss")?, program.f32("guess")?);
    assert!(program.scalar("loss")? < 1e-3);
    Ok(())
}
