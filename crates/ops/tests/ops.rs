//! The tests of every op, kept in the op's own folder. They are compiled here, outside of the crate, because
//! they use the engine, which stands above it.

#[path = "../src/binary/tests.rs"]
mod binary;
#[path = "../src/cross_entropy/tests.rs"]
mod cross_entropy;
#[path = "../src/linear/tests.rs"]
mod linear;
#[path = "../src/linear_cross_entropy/tests.rs"]
mod linear_cross_entropy;
#[path = "../src/matmul/tests.rs"]
mod matmul;
