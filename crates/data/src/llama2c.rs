//! Reads the files of karpathy's llama2.c: `.bin` (seven integers, then f32 weights in a fixed order) and its
//! tokenizer. Neither has a magic number nor lengths of its own, so that the size of the file is the only
//! witness: it must be exactly what the seven integers imply. The weights appear under Hugging Face's names
//! for Llama.
//!
//! **Rotary pairs.** llama2.c rotates neighbours (2i, 2i + 1); Hugging Face, and the name `q_proj` with it,
//! rotates halves (i, i + D/2). So the rows of `q_proj` and `k_proj` are put in the order of halves here,
//! within each head: row i of ours is row 2i of theirs, row D/2 + i is row 2i + 1. Scores are sums over
//! pairs, so they do not change.

use crate::checkpoint::{Bytes, Checkpoint, DType, Entry, JSON_LIMIT, Source, read_small};
use crate::{Error, Result};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

/// The seven integers at the head of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// C, the width.
    pub dim: usize,
    /// F, the width inside of the feed-forward.
    pub hidden_dim: usize,
    /// L, the layers.
    pub layers: usize,
    /// H, the query heads.
    pub heads: usize,
    /// G, the key and value heads.
    pub kv_heads: usize,
    /// V, the tokens.
    pub vocab: usize,
    /// The longest sequence.
    pub positions: usize,
    /// True if the output shares the embedding; the file says so by the sign of the vocabulary.
    pub tied: bool,
}

/// A model of llama2.c.
#[derive(Debug)]
pub struct Model {
    /// Its sizes.
    pub config: Config,
    /// Its weights, under Hugging Face's names, rotary pairs in halves.
    pub checkpoint: Checkpoint,
}

/// The seven integers.
const HEADER: usize = 28;

/// What the newer exports of llama2.c begin with ("ak42").
const VERSIONED: i32 = 0x616b_3432;

impl Config {
    /// The same as Hugging Face's `config.json` says it.
    pub fn hugging_face(&self) -> Value {
        json!({
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_act": "silu",
            "hidden_size": self.dim,
            "intermediate_size": self.hidden_dim,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "vocab_size": self.vocab,
            "max_position_embeddings": self.positions,
            "rms_norm_eps": 1e-5,
            "rope_theta": 10000.0,
            "tie_word_embeddings": self.tied,
            "bos_token_id": 1,
            "eos_token_id": 2,
        })
    }

    fn read(path: &Path, file: &[u8]) -> Result<Config> {
        let Some(head) = file.first_chunk::<HEADER>() else {
            let what = format!("has {} bytes; a model of llama2.c begins with {HEADER}", file.len());
            return Err(Error::file(path, what, "copy or download it again"));
        };
        let mut numbers = [0i32; 7];
        for (number, bytes) in numbers.iter_mut().zip(head.as_chunks::<4>().0) {
            *number = i32::from_le_bytes(*bytes);
        }
        if numbers[0] == VERSIONED {
            let advice = "export it with `export.py --version 0`";
            return Err(Error::file(path, "is a llama2.c export of version 1 or 2", advice));
        }
        let names = ["dim", "hidden_dim", "n_layers", "n_heads", "n_kv_heads", "vocab_size", "seq_len"];
        let mut sizes = [0usize; 7];
        for (i, (size, number)) in sizes.iter_mut().zip(numbers).enumerate() {
            // Only the vocabulary has a sign: it says whether the output is tied.
            let number = if i == 5 { number.checked_abs().unwrap_or(0) } else { number };
            *size = usize::try_from(number).unwrap_or(0);
            if *size == 0 {
                let what = format!("says {} = {}, which is no size", names[i], numbers[i]);
                return Err(Error::file(path, what, "it is no model of llama2.c"));
            }
        }
        let [dim, hidden_dim, layers, heads, kv_heads, vocab, positions] = sizes;
        if dim % heads != 0 || (dim / heads) % 2 != 0 || heads % kv_heads != 0 {
            let what = format!(
                "says dim = {dim}, n_heads = {heads}, n_kv_heads = {kv_heads}, which do not divide: heads need an \
                 even width, key heads an equal share of heads"
            );
            return Err(Error::file(path, what, "it is no model of llama2.c"));
        }
        Ok(Config { dim, hidden_dim, layers, heads, kv_heads, vocab, positions, tied: numbers[5] > 0 })
    }

    fn head_width(&self) -> usize {
        self.dim / self.heads
    }

    fn kv_dim(&self) -> usize {
        self.kv_heads * self.head_width()
    }

    /// The parts of a file in their order: name (`*` is the layer), how often, shape of one.
    fn parts(&self) -> Vec<(&'static str, usize, Vec<usize>)> {
        let &Config { dim: c, hidden_dim: f, layers: l, vocab: v, positions, .. } = self;
        let (g, half) = (self.kv_dim(), self.head_width() / 2);
        let mut parts = vec![
            ("model.embed_tokens.weight", 1, vec![v, c]),
            ("model.layers.*.input_layernorm.weight", l, vec![c]),
            (QUERY, l, vec![c, c]),
            (KEY, l, vec![g, c]),
            ("model.layers.*.self_attn.v_proj.weight", l, vec![g, c]),
            ("model.layers.*.self_attn.o_proj.weight", l, vec![c, c]),
            ("model.layers.*.post_attention_layernorm.weight", l, vec![c]),
            ("model.layers.*.mlp.gate_proj.weight", l, vec![f, c]),
            ("model.layers.*.mlp.down_proj.weight", l, vec![c, f]),
            ("model.layers.*.mlp.up_proj.weight", l, vec![f, c]),
            ("model.norm.weight", 1, vec![c]),
            // Cosines and sines, which everybody computes; kept by the format for its first readers.
            ("", 1, vec![positions, half]),
            ("", 1, vec![positions, half]),
        ];
        if !self.tied {
            parts.push(("lm_head.weight", 1, vec![v, c]));
        }
        parts
    }
}

const QUERY: &str = "model.layers.*.self_attn.q_proj.weight";
const KEY: &str = "model.layers.*.self_attn.k_proj.weight";

/// Opens a model of llama2.c. All weights stay in the mapped file except `q_proj` and `k_proj`, which are
/// copied to change the order of their rows.
pub fn open(path: impl AsRef<Path>) -> Result<Model> {
    let path = path.as_ref();
    let bytes = Bytes::map(path)?;
    let config = Config::read(path, bytes.as_slice())?;
    let parts = config.parts();
    let claimed = parts.iter().try_fold(HEADER, |sum, (_, times, shape)| {
        let one = shape.iter().try_fold(4usize, |n, &extent| n.checked_mul(extent))?;
        sum.checked_add(one.checked_mul(*times)?)
    });
    let size = bytes.as_slice().len();
    if claimed != Some(size) {
        let claimed = claimed.map_or("more bytes than can be counted".into(), |n| format!("{n} bytes"));
        let what = format!("its sizes ({config:?}) need {claimed}, the file has {size}");
        return Err(Error::file(path, what, "it is cut short or no model of llama2.c"));
    }

    let mut straight = Vec::new();
    let mut turned = Vec::new();
    let mut copies: Vec<u8> = Vec::new();
    let mut at = HEADER;
    for (name, times, shape) in parts {
        // No overflow from here on: the sum of all of these is the size of the file.
        let length = 4 * shape.iter().product::<usize>();
        for layer in 0..times {
            let mut range = at..at + length;
            at = range.end;
            let rotated = [QUERY, KEY].contains(&name);
            let name = name.replacen('*', &layer.to_string(), 1);
            let place =
                |range: Range<usize>| Entry { source: 0, dtype: DType::F32, shape: shape.clone(), range };
            if rotated {
                let begin = copies.len();
                in_halves(&bytes.as_slice()[range], 4 * config.dim, config.head_width(), &mut copies);
                range = begin..copies.len();
                turned.push((name, place(range)));
            } else if !name.is_empty() {
                straight.push((name, place(range)));
            }
        }
    }
    let source = |bytes: Bytes| Source { path: path.to_path_buf(), bytes, metadata: BTreeMap::new() };
    let checkpoint =
        Checkpoint::assemble(vec![(source(bytes), straight), (source(Bytes::Owned(copies)), turned)])?;
    Ok(Model { config, checkpoint })
}

/// Appends the rows of every head with the even ones first: rotary pairs as halves.
pub(crate) fn in_halves(rows: &[u8], row: usize, head: usize, out: &mut Vec<u8>) {
    for head in rows.chunks_exact(row * head) {
        for parity in [0, 1] {
            head.chunks_exact(row).skip(parity).step_by(2).for_each(|row| out.extend_from_slice(row));
        }
    }
}

/// The tokenizer of llama2.c: pieces by id. Words begin with a space; the bytes 0 to 255 stand as `<0x00>`
/// from id 3 on; 1 begins a text, 2 ends it.
#[derive(Clone, Debug, PartialEq)]
pub struct Tokenizer {
    /// The longest piece, in bytes, as the file says and as was checked.
    pub longest: usize,
    /// The pieces, by id.
    pub pieces: Vec<Piece>,
}

/// A piece of text and how much it is worth when pieces are merged.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    /// Merges with the highest score go first.
    pub score: f32,
    /// The text; not always UTF-8.
    pub bytes: Vec<u8>,
}

/// Reads a tokenizer of llama2.c; the file does not say how many pieces it has, the model does
/// (`Config::vocab`). The oldest files do not say how long the longest piece is, either.
pub fn tokenizer(path: impl AsRef<Path>, vocab: usize) -> Result<Tokenizer> {
    let path = path.as_ref();
    let file = read_small(path, JSON_LIMIT)?;
    let mut rest = file.as_slice();
    let longest = take(&mut rest).map(i32::from_le_bytes).and_then(|longest| usize::try_from(longest).ok());
    match read_pieces(path, rest, longest.unwrap_or(0), vocab) {
        Ok(pieces) => Ok(Tokenizer { longest: longest.unwrap_or(0), pieces }),
        // What is wrong is said of the newer form, unless the older one fits to the last byte.
        Err(error) => match read_pieces(path, &file, file.len(), vocab) {
            Ok(pieces) if !pieces.is_empty() => {
                let longest = pieces.iter().map(|piece| piece.bytes.len()).max().unwrap_or(0);
                Ok(Tokenizer { longest, pieces })
            }
            _ => Err(error),
        },
    }
}

/// So many pieces, up to the end of the bytes.
fn read_pieces(path: &Path, mut rest: &[u8], longest: usize, vocab: usize) -> Result<Vec<Piece>> {
    let short = |id: usize| {
        Error::file(path, format!("ends inside of piece {id} of {vocab}"), "use the tokenizer of this model")
    };
    // No capacity for `vocab` pieces: the file shows how many there are.
    let mut pieces = Vec::new();
    for id in 0..vocab {
        let score = take(&mut rest).map(f32::from_le_bytes).ok_or_else(|| short(id))?;
        let length = take(&mut rest).map(i32::from_le_bytes).ok_or_else(|| short(id))?;
        let length = usize::try_from(length).ok().filter(|&n| n <= longest).ok_or_else(|| {
            let what = format!("piece {id} has the length {length}, the longest should have {longest}");
            Error::file(path, what, "it is damaged or no tokenizer of llama2.c")
        })?;
        let (bytes, after) = rest.split_at_checked(length).ok_or_else(|| short(id))?;
        pieces.push(Piece { score, bytes: bytes.to_vec() });
        rest = after;
    }
    if !rest.is_empty() {
        let what = format!("has {} bytes after piece {vocab}", rest.len());
        return Err(Error::file(path, what, "use the tokenizer of this model"));
    }
    Ok(pieces)
}

/// The next four bytes.
fn take(rest: &mut &[u8]) -> Option<[u8; 4]> {
    let (four, after) = rest.split_first_chunk::<4>()?;
    *rest = after;
    Some(*four)
}
