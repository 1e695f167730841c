//! The tests of every op, kept in the op's own folder. They are compiled here, outside of the crate, because
//! they use the engine, which stands above it.

#[path = "../src/attention/tests_cases.rs"]
mod attention_cases;
#[path = "../src/binary/tests.rs"]
mod binary;
