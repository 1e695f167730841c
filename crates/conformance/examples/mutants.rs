//! Writes the table of mutants, `goldens/mutants.txt`, or says which mutants would pass.
//!
//!     cargo run --release -p regard-conformance --example mutants

use regard_conformance::mutant_table::MutantTable;
use std::error::Error;
use std::path::Path;

const HEAD: &str = "\
# Broken gradients and what refuses them: folder/op | gradient of | precision | mutants | bound that refuses them.
# The bound is that of agreement.rs, where every_op_alone_agrees_with_the_reference fails with each of the mutants.
# Made by `cargo run --release -p regard-conformance --example mutants`; read by tests/mutants.rs.
";

fn main() -> Result<(), Box<dyn Error>> {
    let table = MutantTable::new();
    if !table.passing.is_empty() {
        return Err(format!("these would pass:\n{}", table.passing.join("\n")).into());
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("goldens/mutants.txt");
    std::fs::write(&path, format!("{HEAD}{}\n", table.lines.join("\n")))?;
    println!("{} gradients in {}", table.lines.len(), path.display());
    Ok(())
}
