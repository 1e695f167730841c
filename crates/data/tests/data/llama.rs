//! Files of llama2.c: a small one made here, the real one where it is, and lies of every kind.

use crate::noise::Noise;
use crate::scratch::Scratch;
use crate::{shared, text};
use regard_data::llama2c::{self, Config};

const SIZES: [i32; 7] = [8, 6, 2, 2, 1, 5, 3];

/// A model whose every weight is its own place in the file.
fn model(sizes: [i32; 7]) -> Vec<u8> {
    let [c, f, l, h, g, v, t] = sizes.map(|n| n.unsigned_abs() as usize);
    let kv = c / h * g;
    let layer = 2 * c + 2 * c * c + 2 * kv * c + 3 * c * f;
    let head = if sizes[5] < 0 { v * c } else { 0 };
    let count = v * c + l * layer + c + t * (c / h) + head;
    let mut bytes: Vec<u8> = sizes.iter().flat_map(|n| n.to_le_bytes()).collect();
    bytes.extend((0..count).flat_map(|i| (i as f32).to_le_bytes()));
    bytes
}

#[test]
fn a_small_model_is_read() {
    let scratch = Scratch::new();
    let path = scratch.put("tiny.bin", model(SIZES));
    let tiny = llama2c::open(&path).unwrap();
    let expected = Config {
        dim: 8,
        hidden_dim: 6,
        layers: 2,
        heads: 2,
        kv_heads: 1,
        vocab: 5,
        positions: 3,
        tied: true,
    };
    assert_eq!(tiny.config, expected);
    assert_eq!(tiny.checkpoint.len(), 2 + 2 * 9);
    let first = |name: &str| tiny.checkpoint.get(name).unwrap().f32s()[0];
    let shape = |name: &str| tiny.checkpoint.get(name).unwrap().shape.to_vec();
    assert_eq!(first("model.embed_tokens.weight"), 0.0);
    assert_eq!(first("model.layers.0.input_layernorm.weight"), 40.0);
    assert_eq!(first("model.layers.1.input_layernorm.weight"), 48.0);
    assert_eq!(first("model.layers.0.self_attn.q_proj.weight"), 56.0);
    assert_eq!(first("model.layers.0.self_attn.k_proj.weight"), 184.0);
    assert_eq!(first("model.layers.0.self_attn.v_proj.weight"), 248.0);
    assert_eq!(first("model.layers.0.self_attn.o_proj.weight"), 312.0);
    assert_eq!(first("model.layers.0.post_attention_layernorm.weight"), 440.0);
    assert_eq!(first("model.layers.0.mlp.gate_proj.weight"), 456.0);
    assert_eq!(first("model.layers.0.mlp.down_proj.weight"), 552.0);
    assert_eq!(first("model.layers.1.mlp.up_proj.weight"), 696.0);
    assert_eq!(first("model.norm.weight"), 744.0);
    assert_eq!(shape("model.layers.1.self_attn.k_proj.weight"), [4, 8]);
    assert_eq!(shape("model.layers.1.mlp.down_proj.weight"), [8, 6]);
    let config = tiny.config.hugging_face();
    assert_eq!(
        (config["hidden_size"].as_u64(), config["tie_word_embeddings"].as_bool()),
        (Some(8), Some(true))
    );

    // Head 0 of the queries has the rows 0 1 2 3; as halves, 0 2 1 3.
    let query = tiny.checkpoint.get("model.layers.0.self_attn.q_proj.weight").unwrap().f32s();
    let rows: Vec<f32> = query.chunks(8).map(|row| (row[0] - 56.0) / 8.0).collect();
    assert_eq!(rows, [0.0, 2.0, 1.0, 3.0, 4.0, 6.0, 5.0, 7.0]);
}

#[test]
fn a_negative_vocabulary_is_an_output_of_its_own() {
    let scratch = Scratch::new();
    let mut sizes = SIZES;
    sizes[5] = -5;
    let tiny = llama2c::open(scratch.put("tiny.bin", model(sizes))).unwrap();
    assert!(!tiny.config.tied && tiny.config.vocab == 5);
    let head = tiny.checkpoint.get("lm_head.weight").unwrap();
    assert_eq!(head.shape, [5, 8]);
    assert_eq!(head.f32s()[0], (744 + 8 + 3 * 4) as f32);
}

/// Rotating neighbours of the old rows gives the scores of rotating halves of the new ones.
#[test]
fn rotary_scores_do_not_change() {
    let (width, half) = (8, 4);
    let mut noise = Noise(3);
    let mut draw = || (0..width).map(|_| noise.below(1000) as f64 / 500.0 - 1.0).collect::<Vec<f64>>();
    let (q, k) = (draw(), draw());
    let angle = |position: f64, i: usize| position * 10000f64.powf(-2.0 * i as f64 / width as f64);
    let rotate = |x: &[f64], position: f64, pair: &dyn Fn(usize) -> (usize, usize)| {
        let mut y = x.to_vec();
        for i in 0..half {
            let ((a, b), (sin, cos)) = (pair(i), angle(position, i).sin_cos());
            (y[a], y[b]) = (x[a] * cos - x[b] * sin, x[a] * sin + x[b] * cos);
        }
        y
    };
    let order =
        |x: &[f64]| -> Vec<f64> { (0..2).flat_map(|p| x.iter().skip(p).step_by(2).copied()).collect() };
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    let neighbours = |i: usize| (2 * i, 2 * i + 1);
    let halves = |i: usize| (i, i + half);
    for (m, n) in [(0.0, 0.0), (5.0, 2.0), (100.0, 3.0)] {
        let old = dot(&rotate(&q, m, &neighbours), &rotate(&k, n, &neighbours));
        let new = dot(&rotate(&order(&q), m, &halves), &rotate(&order(&k), n, &halves));
        assert!((old - new).abs() < 1e-12, "{old} {new}");
    }
}

#[test]
fn lies_about_sizes_are_found() {
    let scratch = Scratch::new();
    let whole = model(SIZES);
    for length in (0..whole.len()).filter(|n| *n < 64 || n % 97 == 0 || n + 8 > whole.len()) {
        assert!(llama2c::open(scratch.put("x.bin", &whole[..length])).is_err(), "{length}");
    }
    let with = |at: usize, value: i32| {
        let mut bytes = whole.clone();
        bytes[4 * at..4 * at + 4].copy_from_slice(&value.to_le_bytes());
        text(llama2c::open(scratch.put("x.bin", bytes)), &scratch)
    };
    assert_eq!(with(2, 0), "x.bin: says n_layers = 0, which is no size; it is no model of llama2.c");
    assert_eq!(
        with(5, i32::MIN),
        "x.bin: says vocab_size = -2147483648, which is no size; it is no model of llama2.c"
    );
    assert_eq!(
        with(3, 3),
        "x.bin: says dim = 8, n_heads = 3, n_kv_heads = 1, which do not divide: heads need an even width, key heads an \
         equal share of heads; it is no model of llama2.c"
    );
    assert!(
        with(1, 7)
            .contains("positions: 3, tied: true }) need 3276 bytes, the file has 3084; it is cut short")
    );
    assert_eq!(
        with(0, 0x616b_3432),
        "x.bin: is a llama2.c export of version 1 or 2; export it with `export.py --version 0`"
    );
    assert!(with(2, i32::MAX).contains("the file has 3084"));
    let huge: Vec<u8> = [1 << 30, i32::MAX, i32::MAX, 2, 1, i32::MAX, i32::MAX]
        .iter()
        .flat_map(|n: &i32| n.to_le_bytes())
        .collect();
    assert!(
        text(llama2c::open(scratch.put("x.bin", huge)), &scratch)
            .contains("need more bytes than can be counted, the file has 28")
    );
    // Every single bit of the seven integers changes the size that the file should have.
    for bit in 0..28 * 8 {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(llama2c::open(scratch.put("x.bin", bytes)).is_err(), "{bit}");
    }
}

fn pieces(list: &[(f32, &[u8])], longest: i32) -> Vec<u8> {
    let mut bytes = longest.to_le_bytes().to_vec();
    for (score, piece) in list {
        bytes.extend(score.to_le_bytes());
        bytes.extend((piece.len() as i32).to_le_bytes());
        bytes.extend(*piece);
    }
    bytes
}

#[test]
fn a_tokenizer_is_read_or_refused() {
    let scratch = Scratch::new();
    let whole = pieces(&[(0.0, b"<unk>"), (-1.5, b" a"), (0.0, b"\xff")], 5);
    let read = |bytes: &[u8], vocab: usize| llama2c::tokenizer(scratch.put("tok.bin", bytes), vocab);
    let good = read(&whole, 3).unwrap();
    assert_eq!((good.longest, good.pieces.len()), (5, 3));
    assert_eq!((good.pieces[1].score, good.pieces[1].bytes.as_slice()), (-1.5, &b" a"[..]));
    assert_eq!(good.pieces[2].bytes, b"\xff");
    // The oldest files do not begin with the longest length.
    assert_eq!(read(&whole[4..], 3).unwrap(), good);
    for length in 0..whole.len() {
        let error = text(read(&whole[..length], 3), &scratch);
        assert!(error.contains("ends inside of piece"), "{error}");
    }
    assert_eq!(
        text(read(&whole, usize::MAX), &scratch),
        format!("tok.bin: ends inside of piece 3 of {}; use the tokenizer of this model", usize::MAX)
    );
    assert_eq!(
        text(read(&whole, 2), &scratch),
        "tok.bin: has 9 bytes after piece 2; use the tokenizer of this model"
    );
    assert_eq!(
        text(read(&pieces(&[(0.0, b"long")], 3), 1), &scratch),
        "tok.bin: piece 0 has the length 4, the longest should have 3; it is damaged or no tokenizer of llama2.c"
    );
    assert_eq!(
        text(regard_data::Tokenizer::llama2c(scratch.put("tok.bin", &whole), 2), &scratch),
        "tok.bin: has 9 bytes after piece 2; use the tokenizer of this model"
    );
    let mut negative = whole.clone();
    negative[8..12].copy_from_slice(&(-1i32).to_le_bytes());
    assert!(text(read(&negative, 3), &scratch).contains("piece 0 has the length -1"));
}

#[test]
fn the_real_stories260k_is_read() {
    let Some(folder) = shared("weights/stories260K") else { return };
    let stories = llama2c::open(folder.join("stories260K.bin")).unwrap();
    let expected = Config {
        dim: 64,
        hidden_dim: 172,
        layers: 5,
        heads: 8,
        kv_heads: 4,
        vocab: 512,
        positions: 512,
        tied: true,
    };
    assert_eq!(stories.config, expected);
    for tensor in stories.checkpoint.tensors() {
        let values = tensor.f32s();
        assert!(values.iter().all(|x| x.is_finite() && x.abs() < 20.0), "{}", tensor.name);
        if tensor.name.ends_with("norm.weight") {
            assert!(values.iter().all(|x| *x > 0.0), "{}: {values:?}", tensor.name);
        }
    }
    let tokens = llama2c::tokenizer(folder.join("tok512.bin"), stories.config.vocab).unwrap();
    assert_eq!(tokens.pieces[0].bytes, b"<unk>");
    assert_eq!(tokens.pieces[3 + 0x41].bytes, b"<0x41>");
    assert!(tokens.pieces.iter().any(|piece| piece.bytes == b" was"));
}
