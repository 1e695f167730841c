//! The tests of every op, kept in the op's own folder. They are compiled here, outside of the crate, because
//! they use the engine, which stands above it.

#[path = "../src/accumulate/tests.rs"]
mod accumulate;
#[path = "../src/adamw/tests.rs"]
mod adamw;
#[path = "../src/add_integers/tests.rs"]
mod add_integers;
#[path = "../src/add_position/tests.rs"]
mod add_position;
#[path = "../src/assign/tests.rs"]
mod assign;
#[path = "../src/attention/tests.rs"]
mod attention;
#[path = "../src/attention/tests_bits.rs"]
mod attention_bits;
#[path = "../src/attention/tests_cases.rs"]
mod attention_cases;
#[path = "../src/attention/tests_growing.rs"]
mod attention_growing;
#[path = "../src/attention/tests_kinds.rs"]
mod attention_kinds;
#[path = "../src/attention_weights/tests.rs"]
mod attention_weights;
#[path = "../src/batch_norm/tests.rs"]
mod batch_norm;
#[path = "../src/binary/tests.rs"]
mod binary;
#[path = "../src/broadcast_to/tests.rs"]
mod broadcast_to;
#[path = "../src/cache_write/tests.rs"]
mod cache_write;
#[path = "../src/cast/tests.rs"]
mod cast;
#[path = "../src/clip_norm/tests.rs"]
mod clip_norm;
#[path = "../src/compare/tests.rs"]
mod compare;
#[path = "../src/concat/tests.rs"]
mod concat;
#[path = "../src/cross_entropy/tests.rs"]
mod cross_entropy;
#[path = "../src/differentiate/tests.rs"]
mod differentiate;
#[path = "../src/dropout/tests.rs"]
mod dropout;
#[path = "../src/embedding/tests.rs"]
mod embedding;
#[path = "../src/empty_rows/tests.rs"]
mod empty_rows;
#[path = "../src/fill/tests.rs"]
mod fill;
#[path = "../src/gated/tests.rs"]
mod gated;
#[path = "../src/gather/tests.rs"]
mod gather;
#[path = "../src/join/tests.rs"]
mod join;
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
#[path = "../src/quantised_linear/tests.rs"]
mod quantised_linear;
#[path = "../src/reduce_max/tests.rs"]
mod reduce_max;
#[path = "../src/reshape/tests.rs"]
mod reshape;
#[path = "../src/rotary/tests.rs"]
mod rotary;
#[path = "../src/scale/tests.rs"]
mod scale;
#[path = "../src/select/tests.rs"]
mod select;
#[path = "../src/sgd/tests.rs"]
mod sgd;
#[path = "../src/slice/tests.rs"]
mod slice;
#[path = "../src/softmax/tests.rs"]
mod softmax;
#[path = "../src/split/tests.rs"]
mod split;
#[path = "../src/steps/tests.rs"]
mod steps;
#[path = "../src/stop_gradient/tests.rs"]
mod stop_gradient;
#[path = "../src/sum_to/tests.rs"]
mod sum_to;
#[path = "../src/transpose/tests.rs"]
mod transpose;
#[path = "../src/unary/tests.rs"]
mod unary;
