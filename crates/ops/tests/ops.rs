//! The tests of every op, kept in the op's own folder. They are compiled here, outside of the crate, because
//! they use the engine, which stands above it.

#[path = "../src/add_position/tests.rs"]
mod add_position;
#[path = "../src/argmax/tests.rs"]
mod argmax;
#[path = "../src/batch_norm/tests.rs"]
mod batch_norm;
#[path = "../src/binary/tests.rs"]
mod binary;
#[path = "../src/cache_write/tests.rs"]
mod cache_write;
#[path = "../src/cross_entropy/tests.rs"]
mod cross_entropy;
#[path = "../src/embedding/tests.rs"]
mod embedding;
#[path = "../src/gather/tests.rs"]
mod gather;
#[path = "../src/linear/tests.rs"]
mod linear;
#[path = "../src/linear_cross_entropy/tests.rs"]
mod linear_cross_entropy;
#[path = "../src/matmul/tests.rs"]
mod matmul;
#[path = "../src/norm/tests.rs"]
mod norm;
#[path = "../src/patches/tests.rs"]
mod patches;
#[path = "../src/rotary/tests.rs"]
mod rotary;
