//! The demo's last page: the trained model, forward and backward, on the CPU engine and on the f64 reference.

use super::Page;
use super::text::Characters;
use anyhow::Result;
use regard::check::{error_of_scale, largest};
use regard::prelude::*;
use regard::reference::{Mode, run};
use regard_models::Gpt;
use serde_json::json;

/// A length at which the reference is done in a moment.
const LENGTH: usize = 24;

/// Compares and prints.
pub fn show(page: &mut Page, gpt: &Gpt, characters: &Characters, store: &mut Store, cpu: &Cpu) -> Result<()> {
    page.title("Do the engines agree?")?;
    let mut feed = Feed::new();
    let row =
        |from: usize| characters.ids[from..from + LENGTH].iter().map(|&id| id as f64).collect::<Vec<_>>();
    for (name, from) in [("ids", 0), ("targets", 1)] {
        if let Some(array) = Array::new(&[1, LENGTH], row(from)) {
            feed = feed.with(name, array);
        }
    }
    feed = feed.with("scale", Array::scalar(1.0 / LENGTH as f64));

    let (graph, names) = record(gpt)?;
    for stored in graph.stored() {
        feed = feed.with_stored(&stored.name, store.array(&stored.name)?);
    }
    let exact = run(&graph, &feed, Mode::Exact)?;
    let (graph, _) = record(gpt)?;
    let mut program = Program::new(graph, &[], store, cpu)?;
    for (name, array) in &feed.inputs {
        program.set_array(name, array)?;
    }
    program.run(store)?;

    // Some gradients are zero (a bias of all keys changes no weight): all are measured by the largest of all.
    let mut wanted = Vec::new();
    for name in &names {
        wanted.push((name, exact.value(program.graph().find(name)?)));
    }
    let scale = wanted.iter().map(|(_, want)| largest(want.data())).fold(0.0, f64::max);
    let mut worst: f64 = 0.0;
    for (name, want) in wanted {
        worst = worst.max(error_of_scale(program.array(name)?.data(), want.data(), scale));
    }
    let loss = program.scalar("loss")?;
    let want = exact.value(program.graph().find("loss")?).data()[0];
    page.line(&format!("  loss: CPU {loss:.7}, f64 reference {want:.7}"))?;
    page.line(&format!(
        "  loss and the gradients of all {} parameters: no difference above {worst:.1e} of the largest.",
        names.len() - 1,
    ))?;
    page.fact("largest_relative_error", json!(worst));
    Ok(())
}

/// Loss and the gradient of every parameter, as outputs.
fn record(gpt: &Gpt) -> Result<(Graph, Vec<String>)> {
    let mut g = Graph::new();
    let ids = g.input("ids", DType::I32, [1, LENGTH])?;
    let targets = g.input("targets", DType::I32, [1, LENGTH])?;
    let scale = g.input("scale", DType::F32, shape![])?;
    let loss = gpt.loss(&mut g, ids, targets, scale)?;
    let parameters = g.parameters();
    let gradients = g.gradient(loss, &parameters)?;
    let mut names = vec!["loss".to_string()];
    g.output("loss", loss)?;
    let stored: Vec<String> = g.stored().iter().map(|stored| stored.name.clone()).collect();
    for (name, gradient) in stored.iter().zip(gradients) {
        names.push(format!("d {name}"));
        g.output(&names[names.len() - 1], gradient)?;
    }
    Ok((g, names))
}
