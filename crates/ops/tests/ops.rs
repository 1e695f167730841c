//! The tests of every op, kept in the op's own folder. They are compiled here, outside of the crate, because
//! they use the engine, which stands above it.

#[path = "../src/attention/tests.rs"]
mod attention;
#[path = "../src/attention/tests_bits.rs"]
mod attention_bits;
#[path = "../src/attention/tests_cases.rs"]
mod attention_cases;
#[path = "../src/attention/tests_kinds.rs"]
mod attention_kinds;
#[path = "../src/attention_weights/tests.rs"]
mod attention_weights;
#[path = "../src/binary/tests.rs"]
mod binary;
