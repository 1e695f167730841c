//! The CUDA sources of attention and the macros that make one of them serve one form.

use super::AttentionKind;
use super::form::{BiasForm, Form};
use regard_device::cuda::Source;
use regard_graph::Precision;

/// A source with the settings of one call.
#[derive(Clone, Copy)]
pub struct Unit<'a> {
    /// Which file.
    pub file: &'static str,
    pub form: &'a Form,
    /// The types of query, key and value in memory.
    pub types: [&'static str; 3],
    /// The tile, for kernels on tensor cores.
    pub tile: Option<Tile>,
    /// Whether nothing is asked for but masks by position and length and dropout, and the scale is a constant
    /// above 0.
    pub plain: bool,
}

impl Unit<'_> {
    pub fn source(&self) -> Source {
        let form = self.form;
        let (name, text) = match self.file {
            "rows" => ("attention/kernel_rows.cu", include_str!("kernel_rows.cu")),
            "rows_backward" => ("attention/kernel_rows_backward.cu", include_str!("kernel_rows_backward.cu")),
            "query_gradients" => {
                ("attention/kernel_query_gradients.cu", include_str!("kernel_query_gradients.cu"))
            }
            "key_gradients" => ("attention/kernel_key_gradients.cu", include_str!("kernel_key_gradients.cu")),
            "bias_gradients" => {
                ("attention/kernel_bias_gradients.cu", include_str!("kernel_bias_gradients.cu"))
            }
            "parameters" => return parameters(),
            "decode" => ("attention/kernel_decode.cu", include_str!("kernel_decode.cu")),
            "weights" => ("attention_weights/kernel.cu", include_str!("../attention_weights/kernel.cu")),
            _ => ("attention/kernel_forward.cu", include_str!("kernel_forward.cu")),
        };
        let mut source = Source::new(name, text);
        source.headers.push(("pairs.cuh", include_str!("kernel_pairs.cuh")));
        match self.tile {
            None if matches!(self.file, "decode" | "weights") => {}
            None => {
                source.headers.push(("rows.cuh", include_str!("kernel_rows.cuh")));
                source.headers.push(("score_gradients.cuh", include_str!("kernel_score_gradients.cuh")));
            }
            Some(_) => {
                source.headers.push(("tensor.cuh", include_str!("kernel_tensor.cuh")));
                source.headers.push(("tiles.cuh", include_str!("kernel_tiles.cuh")));
            }
        }
        for (name, value) in ["Q", "K", "V"].into_iter().zip(self.types) {
            source = source.define(name, value);
        }
        let flags = [
            ("PLAIN", self.plain),
            ("DROPOUT", form.dropout > 0.0),
            ("ROUND", form.precision == Precision::Bf16),
            ("CAPPED", form.cap.is_some()),
        ];
        for (name, on) in flags {
            source = source.define(name, u8::from(on));
        }
        let bias = match form.bias {
            BiasForm::None => 0,
            BiasForm::Buckets { .. } | BiasForm::Clipped => 1,
            BiasForm::Alibi => 2,
            BiasForm::Dense => 3,
        };
        let kind = match form.kind {
            AttentionKind::Soft => 0,
            AttentionKind::Hard => 1,
            AttentionKind::StraightThrough => 2,
            AttentionKind::Gumbel { hard: false, .. } => 3,
            AttentionKind::Gumbel { hard: true, .. } => 4,
        };
        source = source.define("BIAS", bias).define("KIND", kind);
        if let Some(tile) = self.tile {
            source = source.define("WIDTH", tile.width);
            // What a block's own rows are follows from TILES; the other side comes in tiles of this many.
            source = match self.file {
                "forward" => source.define("KEYS", tile.keys),
                "query_gradients" => source.define("KEYS", tile.keys).define("TILES", tile.queries / 64),
                _ => source.define("QUERIES", tile.queries).define("TILES", tile.keys / 64),
            };
        }
        source
    }
}

/// The kernels around the others, which are the same for all forms.
fn parameters() -> Source {
    let mut source = Source::new("attention/kernel_parameters.cu", include_str!("kernel_parameters.cu"));
    source.headers.push(("pairs.cuh", include_str!("kernel_pairs.cuh")));
    for name in ["Q", "K", "V"] {
        source = source.define(name, "f32");
    }
    for name in ["PLAIN", "DROPOUT", "ROUND", "CAPPED", "BIAS", "KIND"] {
        source = source.define(name, 0);
    }
    source
}

/// The tile of a kernel on tensor cores: how many queries and keys lie in shared memory, and how much of it
/// they take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    pub width: usize,
    pub queries: usize,
    pub keys: usize,
    /// Bytes.
    pub shared: usize,
}

impl Tile {
    /// The first of some tiles that a block has room for.
    fn fitting(
        width: usize,
        room: usize,
        tiles: &[(usize, usize)],
        bytes: impl Fn(usize, usize) -> usize,
    ) -> Option<Tile> {
        let tiles =
            tiles.iter().map(|&(queries, keys)| Tile { width, queries, keys, shared: bytes(queries, keys) });
        tiles.into_iter().find(|tile| tile.shared <= room)
    }

    /// Queries once, keys and values twice: the next ones are copied while these are used.
    pub fn forward(width: usize, room: usize) -> Option<Tile> {
        Tile::fitting(width, room, &[(128, 64), (128, 32)], |queries, keys| {
            (queries + 4 * keys) * row_bytes(width)
        })
    }

    /// Queries and dy once, keys and values twice.
    pub fn query_gradients(width: usize, room: usize) -> Option<Tile> {
        let tiles: &[_] = if width <= 64 { &[(128, 64), (64, 64)] } else { &[(128, 32), (64, 32)] };
        Tile::fitting(width, room, tiles, |queries, keys| (2 * queries + 4 * keys) * row_bytes(width))
    }

    /// Keys and values once; queries, dy, and two numbers of each row twice. Both sums of a wide key do not
    /// fit into the registers of a warp with 32 keys.
    pub fn key_gradients(width: usize, room: usize) -> Option<Tile> {
        let tiles: &[_] = if width <= 64 { &[(64, 128), (64, 64)] } else { &[(64, 64), (32, 64)] };
        Tile::fitting(width, room, tiles, |queries, keys| {
            (2 * keys + 4 * queries) * row_bytes(width) + 4 * queries * 4
        })
    }
}

/// Bytes of a row in shared memory: bf16, and 16 more so that rows lie in different banks.
fn row_bytes(width: usize) -> usize {
    (width + 8) * 2
}
