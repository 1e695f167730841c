//! Planned memory is what the process really uses: a training step of a 12-layer GPT, the peak of the resident
//! memory against the plan, in processes of their own.

use regard::prelude::*;
use regard_conformance::training::Training;
use regard_models::GptConfig;
use std::fs;
use std::process::Command;

const CONFIG: GptConfig =
    GptConfig { layers: 12, heads: 4, width: 256, context: 192, vocabulary: 2048, ..GptConfig::SMALL };
const BATCH: usize = 4;

/// A line of /proc/self/status in bytes; `None` where there is no such thing.
fn status(line: &str) -> Option<usize> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let value = status.lines().find_map(|text| text.strip_prefix(line)?.strip_prefix(':'))?;
    Some(value.trim().strip_suffix(" kB")?.trim().parse::<usize>().ok()? * 1024)
}

/// Makes the peak begin anew; false where that is not permitted.
fn reset_peak() -> bool {
    fs::write("/proc/self/clear_refs", "5").is_ok()
}

/// Names the precision that a child measures.
const MEASURE: &str = "REGARD_MEASURE_MEMORY";

fn measure(precision: Precision) {
    if !reset_peak() {
        println!("note: the peak of the resident memory cannot be reset here");
    }
    let before = status("VmRSS").unwrap();
    let cpu = Cpu::with(2, regard::device::Level::best()).unwrap();
    let mut store = Store::new(1);
    let mut training = Training::new(CONFIG, BATCH, precision, &mut store, &cpu).unwrap();
    let ids = training.ids(BATCH * CONFIG.context + 1);
    training.feed(BATCH, CONFIG.context, &ids, 1).unwrap();
    training.program.run(&mut store).unwrap();
    let used = status("VmHWM").unwrap() - before;
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
    if status("VmHWM").is_none() {
        println!("skipped: /proc/self/status does not tell the resident memory here");
        return;
    }
    // Each precision in a process of its own: what the allocator kept of the first would be missed in the second.
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
