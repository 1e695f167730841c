//! What encoder-decoders promise: who sees whom, by `reach` and by changing tokens; padding, batches and
//! caches change no bit; and sizes that make no sense are refused.

use regard::graph::Integers;
use regard::prelude::*;
use regard::reach::{Grain, Query, reach};
use regard_conformance::encoder_decoder::{Decoder, Model};
use regard_conformance::place::{device, same};
use regard_models::{EncoderDecoder, T5, T5Config, Transformer, TransformerConfig};

const T5_SIZES: T5Config = T5Config {
    vocabulary: 40,
    width: 24,
    heads: 3,
    head_width: 5,
    hidden: 20,
    encoder_layers: 2,
    decoder_layers: 2,
    buckets: 8,
    max_distance: 12,
    gated: true,
    tied: false,
    scaled: false,
    multilingual: false,
    own_tables: false,
    epsilon: 1e-6,
    dropout: 0.0,
    mechanisms: regard_models::Mechanisms::NONE,
};

const PAPER: TransformerConfig = TransformerConfig {
    source_vocabulary: 40,
    vocabulary: 40,
    width: 24,
    heads: 3,
    hidden: 20,
    encoder_layers: 2,
    decoder_layers: 2,
    context: 20,
    shared: true,
    final_norm: false,
    dropout: 0.0,
    mechanisms: regard_models::Mechanisms::NONE,
    descent: None,
};

fn models() -> [(&'static str, Model); 3] {
    let first = T5Config { gated: false, tied: true, scaled: true, ..T5_SIZES };
    [
        ("t5", Model::T5(T5::new(first).unwrap())),
        ("t5 v1.1", Model::T5(T5::new(T5_SIZES).unwrap())),
        ("transformer", Model::Transformer(Transformer::new(PAPER).unwrap())),
    ]
}

fn in_both_precisions() -> impl Iterator<Item = ((&'static str, Model), Precision)> {
    models().into_iter().flat_map(|model| [Precision::F32, Precision::Bf16].map(|p| (model.clone(), p)))
}

fn cpu() -> Device {
    device()
}

fn ids(count: usize, salt: usize) -> Vec<i32> {
    (0..count).map(|i| ((i * i + 7 * i + salt * 13) % 39 + 1) as i32).collect()
}

fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|x| x.to_bits()).collect()
}

#[test]
fn who_sees_whom() {
    const B: usize = 2;
    const S: usize = 7;
    const T: usize = 5;
    // The first source has a hole and left padding, the second right padding.
    let tokens = [[0, 1, 1, 0, 1, 1, 1], [1, 1, 1, 1, 0, 0, 0]];
    for (name, model) in models() {
        let mut g = Graph::inference();
        let source = g.input("source", DType::I32, [B, S]).unwrap();
        let mask = g.input("mask", DType::Bool, [B, S]).unwrap();
        let target = g.input("target", DType::I32, [B, T]).unwrap();
        let [memory, logits] = model.forward(&mut g, [source, mask, target]).unwrap();
        let query = Query {
            from: vec![source, target],
            to: vec![memory, logits],
            integers: Integers::none().with(mask, tokens.concat()),
            grain: Grain::Position,
            ..Default::default()
        };
        let reach = reach(&g, &query).unwrap();
        let can = |from: Var, at: [usize; 2], to: Var, there: [usize; 2]| {
            reach.can(reach.cell(from, &at).unwrap(), reach.cell(to, &there).unwrap()).unwrap()
        };
        for (b, other) in (0..B).flat_map(|b| (0..B).map(move |other| (b, other))) {
            for (s, &token) in tokens[b].iter().enumerate() {
                let real = token == 1;
                for own in 0..S {
                    // What stands at a padded position is seen there, by itself alone.
                    let expected = b == other && (real || s == own);
                    assert_eq!(can(source, [b, s], memory, [other, own]), expected, "{name}: {b} {s} {own}");
                }
                for t in 0..T {
                    let expected = b == other && real;
                    assert_eq!(can(source, [b, s], logits, [other, t]), expected, "{name}: {b} {s} {t}");
                }
            }
            for (t, own) in (0..T).flat_map(|t| (0..T).map(move |own| (t, own))) {
                let expected = b == other && t <= own;
                assert_eq!(can(target, [b, t], logits, [other, own]), expected, "{name}: {b} {t} {own}");
                assert!((0..S).all(|s| !can(target, [b, t], memory, [other, s])), "{name}: the encoder");
            }
        }
    }
}

#[test]
fn a_changed_token_changes_what_may_see_it_and_nothing_else() {
    let (source, mask, target) = (ids(8, 1), [true, true, true, true, true, true, false, false], ids(6, 2));
    for (name, model) in models() {
        let run = |source: &[i32], target: &[i32]| {
            model.run(1, (source, &mask), target, Precision::F32, &cpu()).unwrap()
        };
        let [memory, logits] = run(&source, &target);
        let (c, v) = (memory.len() / 8, logits.len() / 6);
        let differ = |a: &[f32], b: &[f32], row: usize, width: usize| {
            bits(&a[row * width..][..width]) != bits(&b[row * width..][..width])
        };
        for at in 0..6 {
            let mut other = target.clone();
            other[at] = if target[at] == 3 { 4 } else { 3 };
            let [kept, changed] = run(&source, &other);
            assert_eq!(bits(&kept), bits(&memory), "{name}: the encoder does not see the target");
            for t in 0..6 {
                assert_eq!(differ(&logits, &changed, t, v), t >= at, "{name}: target {at} at {t}");
            }
        }
        for at in 0..8 {
            let mut other = source.clone();
            other[at] = if source[at] == 3 { 4 } else { 3 };
            let [changed, scores] = run(&other, &target);
            for s in 0..8 {
                assert_eq!(
                    differ(&memory, &changed, s, c),
                    mask[at] || s == at,
                    "{name}: source {at} at {s}"
                );
            }
            for t in 0..6 {
                assert_eq!(differ(&logits, &scores, t, v), mask[at], "{name}: source {at} at target {t}");
            }
        }
    }
}

#[test]
fn padding_and_company_change_no_bit() {
    let lengths = [17usize, 9, 4];
    for ((name, model), precision) in in_both_precisions() {
        let (source, target) = (ids(3 * 17, 3), ids(3 * 7, 4));
        let mask: Vec<bool> = lengths.iter().flat_map(|&own| (0..17).map(move |s| s < own)).collect();
        let [memory, logits] = model.run(3, (&source, &mask), &target, precision, &cpu()).unwrap();
        let (c, v) = (memory.len() / 51, logits.len() / 21);
        for (row, &own) in lengths.iter().enumerate() {
            let alone = &source[row * 17..][..own];
            let given = &target[row * 7..][..7];
            let [m, l] = model.run(1, (alone, &vec![true; own]), given, precision, &cpu()).unwrap();
            let (memory, logits) = (&memory[row * 17 * c..][..own * c], &logits[row * 7 * v..][..7 * v]);
            assert!(same(&m, memory, precision), "{name}: memory of row {row}");
            assert!(same(&l, logits, precision), "{name}: logits of row {row}");
        }
    }
}

#[test]
fn cached_is_uncached_bit_for_bit() {
    const T: usize = 12;
    for ((name, model), precision) in in_both_precisions() {
        let (source, target) = (ids(2 * 11, 6), ids(2 * T, 7));
        let mask: Vec<bool> = [11, 6].iter().flat_map(|&own| (0..11).map(move |s| s < own)).collect();
        let [_, logits] = model.run(2, (&source, &mask), &target, precision, &cpu()).unwrap();
        let v = logits.len() / (2 * T);
        let mut decoder = Decoder::new(&model, 2, precision, &cpu()).unwrap();
        // A longer source before: what it left in the caches must not be seen.
        decoder.begin(&ids(2 * 20, 8), &[true; 40]).unwrap();
        decoder.go_on(&ids(2 * 16, 9), 0).unwrap();
        decoder.begin(&source, &mask).unwrap();
        let mut past = 0;
        for length in [5, 1, 1, 3, 1, 1] {
            let piece: Vec<i32> =
                (0..2).flat_map(|row| target[row * T + past..][..length].to_vec()).collect();
            let got = decoder.go_on(&piece, past).unwrap();
            for row in 0..2 {
                let want = &logits[(row * T + past) * v..][..length * v];
                let got = &got[row * length * v..][..length * v];
                assert!(same(got, want, precision), "{name}: {past} in {row}");
            }
            past += length;
        }
        assert_eq!(past, T);
    }
}

/// Twelve greedy tokens after token 0.
fn greedy(model: &Model, rows: usize, source: &[i32], mask: &[bool]) -> Vec<Vec<i32>> {
    let mut decoder = Decoder::new(model, rows, Precision::F32, &cpu()).unwrap();
    decoder.begin(source, mask).unwrap();
    let (mut next, mut written) = (vec![0; rows], vec![Vec::new(); rows]);
    for step in 0..12 {
        let logits = decoder.go_on(&next, step).unwrap();
        for (row, own) in logits.chunks(logits.len() / rows).enumerate() {
            next[row] = (0..own.len()).max_by(|&a, &b| own[a].total_cmp(&own[b])).unwrap() as i32;
            written[row].push(next[row]);
        }
    }
    written
}

#[test]
fn a_padded_batch_writes_what_each_source_writes_alone() {
    let lengths = [13usize, 7, 2];
    let sources: Vec<Vec<i32>> = lengths.iter().enumerate().map(|(i, &own)| ids(own, 20 + i)).collect();
    for (name, model) in models() {
        let alone: Vec<Vec<i32>> =
            sources.iter().map(|own| greedy(&model, 1, own, &vec![true; own.len()]).remove(0)).collect();
        let padded = |left: bool| -> (Vec<i32>, Vec<bool>) {
            let row = |own: &Vec<i32>| -> Vec<(i32, bool)> {
                let tokens = own.iter().map(|&id| (id, true));
                let padding = std::iter::repeat_n((33, false), 13 - own.len());
                if left { padding.chain(tokens).collect() } else { tokens.chain(padding).collect() }
            };
            sources.iter().flat_map(row).unzip()
        };
        let (source, mask) = padded(false);
        assert_eq!(greedy(&model, 3, &source, &mask), alone, "{name}: padding on the right");
        // T5 knows distances alone; sinusoids count from the first slot, so there padding goes to the right.
        if let Model::T5(_) = model {
            let (source, mask) = padded(true);
            assert_eq!(greedy(&model, 3, &source, &mask), alone, "{name}: padding on the left");
        }
    }
}

#[test]
fn nonsense_is_refused() {
    let t5 = |config| T5::new(config).unwrap_err().to_string();
    assert!(t5(T5Config { heads: 0, ..T5_SIZES }).starts_with("t5: one of the sizes is 0: T5Config {"));
    assert_eq!(
        t5(T5Config { buckets: 7, ..T5_SIZES }),
        "t5: 7 buckets of distances; choose an even number of at least 4: half are for keys ahead"
    );
    assert_eq!(
        t5(T5Config { max_distance: 4, ..T5_SIZES }),
        "t5: distances up to 4 for 8 buckets; choose a max_distance above half of the buckets, which stand for one \
         distance each"
    );
    assert_eq!(
        t5(T5Config { dropout: 1.0, ..T5_SIZES }),
        "t5: dropout is 1; choose a probability from 0 up to, not including, 1"
    );
    let mut g = Graph::inference();
    let b = g.open('B', 3).unwrap();
    let memory = g.input("memory", DType::F32, shape![b, 5, 24]).unwrap();
    let slot = g.input("slot", DType::I32, shape![b, 5]).unwrap();
    assert_eq!(
        T5::new(T5_SIZES).unwrap().keep(&mut g, memory, slot, 5).unwrap_err().to_string(),
        "decoding: the batch of a run with caches is open; give ids of a fixed batch: each example has a row of its \
         own in the caches"
    );
    let transformer = |config| Transformer::new(config).unwrap_err().to_string();
    let none = transformer(TransformerConfig { decoder_layers: 0, ..PAPER });
    assert!(none.starts_with("transformer: one of the sizes is 0: TransformerConfig {"), "{none}");
    assert_eq!(
        transformer(TransformerConfig { source_vocabulary: 41, ..PAPER }),
        "transformer: one matrix for 41 source tokens and 40 target tokens; give both the same vocabulary, or do not \
         share the matrix"
    );
    assert_eq!(
        transformer(TransformerConfig { heads: 5, ..PAPER }),
        "attention: a width of 24 cannot be shared by 5 heads; choose a width that is a multiple of the heads, or set \
         head_width and value_width"
    );
}
