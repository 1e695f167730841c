//! The memory that `inspect::price` predicts is what the process really uses: passes and steps of training of
//! several families, f32 and bf16, the peak of the resident memory of a process of its own against the
//! prediction.

use regard::device::{Level, machine};
use regard::graph::Precision;
use regard::hub::forward::record_in_precision;
use regard::hub::step;
use regard::models::{Model, Sizes};
use regard::prelude::*;
use regard_conformance::sized::{self, Size};
use regard_inspect::price;
use std::process::Command;
use std::sync::Arc;

/// The most that a prediction may be off.
const MOST: f64 = 0.05;
/// Names the case that a child measures.
const MEASURE: &str = "REGARD_MEASURE_PRICED_MEMORY";

/// A name, a model, batch and positions, whether it is trained, and in which precision.
struct Case {
    name: &'static str,
    model: Arc<dyn Model>,
    batch: usize,
    tokens: usize,
    train: bool,
    precision: Precision,
}

fn cases() -> Vec<Case> {
    let size = |layers, heads, width, vocabulary, context, dropout| Size {
        layers,
        heads,
        width,
        vocabulary,
        context,
        dropout,
    };
    let case =
        |name, model, batch, tokens, train, precision| Case { name, model, batch, tokens, train, precision };
    let (f32, bf16) = (Precision::F32, Precision::Bf16);
    vec![
        case("gpt, a pass", sized::gpt(size(6, 8, 512, 8000, 128, 0.0)), 2, 128, false, f32),
        case("gpt, a step", sized::gpt(size(4, 4, 256, 4000, 128, 0.0)), 4, 128, true, f32),
        case("llama, a pass in bf16", sized::llama(size(6, 8, 512, 8000, 128, 0.0)), 2, 128, false, bf16),
        case("llama, a step in bf16", sized::llama(size(4, 4, 256, 4000, 128, 0.0)), 4, 128, true, bf16),
        case("bert, a pass", sized::bert(size(5, 8, 480, 9000, 96, 0.0)), 4, 96, false, f32),
        case("bert, a step with dropout", sized::bert(size(3, 4, 288, 3000, 96, 0.1)), 4, 96, true, f32),
        case("vit, a step in bf16", sized::vit(size(4, 4, 320, 100, 144, 0.0)), 3, 144, true, bf16),
        case("t5, a step", sized::t5(size(3, 4, 256, 5000, 64, 0.1)), 3, 64, true, f32),
        case("perceiver, a pass", sized::perceiver(size(6, 8, 512, 9000, 256, 0.0)), 2, 256, false, f32),
    ]
}

fn record(case: &Case) -> Graph {
    let Case { model, batch, tokens, train, precision, .. } = case;
    let sizes = Sizes { batch: *batch, ids: *tokens, source: *tokens, ..Default::default() };
    if *train {
        step::record(&**model, sizes, *precision)
    } else {
        record_in_precision(&**model, sizes, *precision)
    }
    .unwrap()
}

fn measure(case: &Case) {
    let cpu = || Cpu::with(2, Level::best()).unwrap();
    let predicted = price::memory(record(case), &cpu()).unwrap();
    if !machine::reset_peak() {
        println!("note: the peak of the resident memory cannot be reset here");
    }
    let before = machine::resident().unwrap() as usize;
    let (cpu, mut store) = (cpu(), Store::new(1));
    let mut program = Program::new(record(case), &[], &mut store, &cpu).unwrap();
    step::feed(&mut program, &*case.model).unwrap();
    program.run(&mut store).unwrap();
    let used = machine::peak().unwrap() as usize - before;
    let off = predicted.total() as f64 / used as f64 - 1.0;
    let mib = |bytes: usize| bytes as f64 / f64::from(1 << 20);
    let text = format!(
        "{}: predicted {:.1} MiB, used {:.1} MiB ({:+.2} %): {predicted:?}",
        case.name,
        mib(predicted.total()),
        mib(used),
        100.0 * off
    );
    println!("{text}");
    assert!(off.abs() <= MOST, "{text}");
}

#[test]
fn priced_memory_is_what_the_process_uses() {
    if machine::peak().is_none() {
        println!("skipped: /proc/self/status does not tell the resident memory here");
        return;
    }
    if let Ok(asked) = std::env::var(MEASURE) {
        return cases().iter().filter(|case| case.name == asked).for_each(measure);
    }
    for case in cases() {
        // Each in a process of its own: what the allocator kept of the first would be missed in the second.
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "priced_memory_is_what_the_process_uses", "--nocapture"])
            .env(MEASURE, case.name)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&child.stdout);
        let line = text.lines().find(|line| line.contains("predicted"));
        println!("{}", line.unwrap_or_default());
        assert!(child.status.success() && line.is_some(), "{}:\n{text}", case.name);
    }
}
