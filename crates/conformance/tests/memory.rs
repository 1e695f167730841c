//! Planned memory is what the process really uses: a training step of a 12-layer GPT, the peak of the
//! resident memory against the plan, in processes of their own.

use regard::device::machine;
use regard::prelude::*;
use regard_conformance::training::Training;
use regard_models::GptConfig;
use std::process::Command;

const CONFIG: GptConfig =
    GptConfig { layers: 12, heads: 4, width: 256, context: 192, vocabulary: 2048, ..GptConfig::SMALL };
const BATCH: usize = 4;

/// Names the precision that a child measures.
const MEASURE: &str = "REGARD_MEASURE_MEMORY";

fn measure(precision: Precision) {
    if !machine::reset_peak() {
        println!("note: the peak of the resident memory cannot be reset here");
    }
    let before = machine::resident().unwrap() as usize;
    let cpu = Cpu::with(2, regard::device::Level::best()).unwrap();
    let mut store = Store::new(1);
    let mut training = Training::new(CONFIG, BATCH, precision, &mut store, &cpu).unwrap();
    let ids = training.ids(BATCH * CONFIG.context + 1);
    training.feed(BATCH, CONFIG.context, &ids, 1).unwrap();
    training.program.run(&mut store).unwrap();
    let used = machine::peak().unwrap() as usize - before;
    let planned = training.program.memory();
    let off = used as f64 / planned.total() as f64 - 1.0;
    let text = format!(
        "{precision:?}: planned {:.1} MiB, used {:.1} MiB ({:+.2} %): {planned:?}",
        planned.total() as f64 / (1 << 20) as f64,
        used as f64 / (1 << 20) as f64,
        100.0 * off
    );
    println!("{text}");
    assert!(off.abs() <= 0.05, "{text}");
}

#[test]
fn planned_memory_is_what_the_process_uses() {
    if machine::peak().is_none() {
        println!("skipped: /proc/self/status does not tell the resident memory here");
        return;
    }
    // Each precision in a process of its own: what the allocator kept of the first would be missed in the
    // second.
    let precisions = [("f32", Precision::F32), ("bf16", Precision::Bf16)];
    if let Ok(asked) = std::env::var(MEASURE) {
        return precisions.iter().filter(|(name, _)| *name == asked).for_each(|(_, p)| measure(*p));
    }
    for (name, _) in precisions {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "planned_memory_is_what_the_process_uses", "--nocapture"])
            .env(MEASURE, name)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&child.stdout);
        print!("{text}");
        assert!(child.status.success() && text.contains("planned"), "{name}:\n{text}");
    }
}
