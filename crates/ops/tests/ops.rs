//! The tests of every op, kept in the op's own folder. They are compiled here, outside of the crate, because
//! they use the engine, which stands above it.

#[path = "../src/binary/tests.rs"]
mod binary;
#[path = "../src/norm/tests.rs"]
mod norm;
