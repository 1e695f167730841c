//! What holds for every decoder, whatever its weights: no position sees a later one, caches change no bit,
//! padding and company change nothing, and a ring forgets what is out of sight and nothing else.

use regard::graph::Integers;
use regard::ops::{Pairing, RotarySpec};
use regard::prelude::*;
use regard::reach::{Grain, Query, reach};
use regard_conformance::place::{device, same};
use regard_generate::{Ended, Enough, Examples, Full, Generated, Generator, Request, Sampling, Settings};
use regard_layers::{KeepMask, NormKind, NormPlace, NormSpan};
use regard_models::{Cached, Gpt, GptConfig, LayerSet, Multipliers, OtherLayers, Positions, SoftCaps, View};
use std::ops::ControlFlow;

const VOCABULARY: usize = 37;

/// One small model of each family, its weights large enough for scores that differ.
fn families() -> Vec<(&'static str, Gpt)> {
    let small = GptConfig {
        layers: 2,
        heads: 4,
        width: 24,
        context: 48,
        vocabulary: VOCABULARY,
        dropout: 0.0,
        std: 0.4,
        ..GptConfig::SMALL
    };
    let llama = GptConfig {
        layers: 2,
        heads: 4,
        groups: Some(2),
        width: 20,
        head_width: Some(6),
        hidden: Some(28),
        context: 48,
        vocabulary: VOCABULARY,
        std: 0.4,
        ..GptConfig::LLAMA
    };
    let second = LayerSet::of(2, |layer| layer == 1).unwrap();
    let neighbours = RotarySpec { pairing: Pairing::Interleaved, ..Default::default() };
    [
        ("minGPT", small),
        ("GPT-2", GptConfig { tied: true, feed_forward: GptConfig::GPT2.feed_forward, ..small }),
        ("Llama", llama),
        ("llama2.c", GptConfig { tied: true, positions: Positions::Rotary(neighbours), ..llama }),
        ("sinusoids", GptConfig { positions: Positions::Sinusoidal, ..small }),
        ("ALiBi", GptConfig { positions: Positions::Alibi, ..small }),
        ("window", GptConfig { window: Some(7), ..llama }),
        ("GPT-NeoX", GptConfig { place: NormPlace::Parallel, ..llama }),
        ("GPT-J", GptConfig { place: NormPlace::ParallelShared, head_bias: true, ..llama }),
        (
            "local and global",
            GptConfig {
                others: Some(OtherLayers { layers: second, window: Some(5), rotary: Some(neighbours) }),
                place: NormPlace::Sandwich,
                norm: NormKind::RmsAboveOne,
                query_key_norm: Some(NormSpan::Head),
                caps: SoftCaps { scores: Some(2.0), logits: Some(9.0) },
                multipliers: Multipliers { embedding: 3.0, residual: 0.7, logits: 0.5 },
                ..llama
            },
        ),
        (
            "two windows",
            GptConfig {
                window: Some(7),
                others: Some(OtherLayers { layers: second, window: Some(3), rotary: None }),
                place: NormPlace::Output,
                query_key_norm: Some(NormSpan::Width),
                ..llama
            },
        ),
    ]
    .into_iter()
    .map(|(name, config)| (name, Gpt::new(config).unwrap()))
    .collect()
}

fn ids(count: usize, seed: usize) -> Vec<i32> {
    (0..count).map(|i| ((i * i * 5 + (3 + seed) * i + 11 * seed + 1) % VOCABULARY) as i32).collect()
}

/// A program for the logits of whole sequences.
fn whole(gpt: &Gpt, store: &mut Store) -> Program {
    let mut g = Graph::inference();
    let (b, t) = (g.open('B', 4).unwrap(), g.open('T', 48).unwrap());
    let ids = g.input("ids", DType::I32, shape![b, t]).unwrap();
    let logits = gpt.logits(&mut g, ids).unwrap();
    g.output("logits", logits).unwrap();
    Program::new(g, &[], store, &device()).unwrap()
}

fn logits(program: &mut Program, dims: [usize; 2], ids: &[i32], store: &mut Store) -> Vec<f32> {
    program.set_i32("ids", &dims, ids).unwrap();
    program.run(store).unwrap();
    program.f32("logits").unwrap().to_vec()
}

#[test]
fn no_position_sees_a_later_one_by_the_graph() {
    for (name, gpt) in families() {
        let mut g = Graph::inference();
        let ids = g.input("ids", DType::I32, [2, 12]).unwrap();
        let logits = gpt.logits(&mut g, ids).unwrap();
        let query = Query {
            from: vec![ids],
            to: vec![logits],
            integers: Integers::none(),
            grain: Grain::Position,
            ..Default::default()
        };
        let reach = reach(&g, &query).unwrap();
        assert!(reach.is_causal(ids, 1, logits, 1).unwrap().holds(), "{name}");
        assert!(reach.depends_only_on_same(ids, 0, logits, 0).unwrap().holds(), "{name}");
    }
}

#[test]
fn no_position_sees_a_later_one_by_trying() {
    let length = 12;
    for (name, gpt) in families() {
        let mut store = Store::new(3);
        let mut program = whole(&gpt, &mut store);
        let tokens = ids(length, 0);
        let before = logits(&mut program, [1, length], &tokens, &mut store);
        for changed in 0..length {
            let mut other = tokens.clone();
            other[changed] = (other[changed] + 1) % VOCABULARY as i32;
            let after = logits(&mut program, [1, length], &other, &mut store);
            let same =
                |at: usize| before[at * VOCABULARY..][..VOCABULARY] == after[at * VOCABULARY..][..VOCABULARY];
            assert!((0..changed).all(same), "{name}: the id at {changed} is seen before");
            assert!(!same(changed), "{name}: the id at {changed} is seen at its own place");
        }
    }
}

#[test]
fn padding_on_the_right_changes_no_bit() {
    for (name, gpt) in families() {
        let mut store = Store::new(3);
        let mut program = whole(&gpt, &mut store);
        let alone = logits(&mut program, [1, 5], &ids(5, 1), &mut store);
        let mut batch = ids(13, 0);
        batch.extend(ids(5, 1));
        batch.extend([9; 8]);
        let together = logits(&mut program, [2, 13], &batch, &mut store);
        let own = &together[13 * VOCABULARY..][..5 * VOCABULARY];
        assert!(same(&alone, own, Precision::F32), "{name}");
    }
}

#[test]
fn padding_on_the_left_changes_nothing_but_rounding() {
    for (name, gpt) in families() {
        let mut store = Store::new(3);
        let mut program = whole(&gpt, &mut store);
        let alone = logits(&mut program, [1, 5], &ids(5, 1), &mut store);
        let mut g = Graph::inference();
        let ids_var = g.input("ids", DType::I32, [2, 13]).unwrap();
        let position = g.input("position", DType::I32, [2, 13]).unwrap();
        let mask = g.input("mask", DType::Bool, [2, 13]).unwrap();
        let x = gpt.hidden(&mut g, ids_var, View::Padded { position, mask }).unwrap();
        let scores = gpt.head(&mut g, x).unwrap();
        g.output("logits", scores).unwrap();
        let mut program = Program::new(g, &[], &mut store, &device()).unwrap();
        let mask = KeepMask::from_lengths_at_end(&[13, 5], 13).unwrap();
        program.set_i32("position", &[2, 13], &mask.positions(13)).unwrap();
        program.set_bools("mask", &[2, 13], &mask.0).unwrap();
        for padding in [0, 9] {
            let batch = [ids(13, 0), vec![padding; 8], ids(5, 1)].concat();
            let together = logits(&mut program, [2, 13], &batch, &mut store);
            let own = &together[(13 + 8) * VOCABULARY..];
            let largest = alone.iter().fold(0f32, |most, x| most.max(x.abs()));
            for (a, b) in alone.iter().zip(own) {
                assert!((a - b).abs() <= 1e-5 * largest, "{name}: {a} alone, {b} padded");
            }
        }
    }
}

#[test]
fn caches_change_no_bit() {
    for (name, gpt) in families() {
        let mut store = Store::new(3);
        let mut program = whole(&gpt, &mut store);
        let tokens = [ids(23, 0), ids(23, 1)].concat();
        let wanted = logits(&mut program, [2, 23], &tokens, &mut store);
        let mut g = Graph::inference();
        let t = g.open('T', 16).unwrap();
        let ids_var = g.input("ids", DType::I32, shape![2, t]).unwrap();
        let position = g.input("position", DType::I32, shape![2, t]).unwrap();
        let lengths = g.input("lengths", DType::I32, [2]).unwrap();
        let scores = gpt.decode(&mut g, ids_var, Cached::growing(position, lengths, 24)).unwrap();
        g.output("logits", scores).unwrap();
        let mut decode = Program::new(g, &[], &mut store, &device()).unwrap();
        let mut start = 0;
        for width in [16, 1, 3, 1, 1, 1] {
            let now = start..start + width;
            let chunk = [&tokens[now.clone()], &tokens[23 + start..23 + start + width]].concat();
            let position: Vec<i32> = now.clone().chain(now.clone()).map(|at| at as i32).collect();
            decode.set_i32("position", &[2, width], &position).unwrap();
            decode.set_i32("lengths", &[2], &[now.end as i32; 2]).unwrap();
            let found = logits(&mut decode, [2, width], &chunk, &mut store);
            for row in 0..2 {
                let wanted = &wanted[(row * 23 + start) * VOCABULARY..][..width * VOCABULARY];
                let found = &found[row * width * VOCABULARY..][..width * VOCABULARY];
                assert!(same(wanted, found, Precision::F32), "{name}: row {row}, positions {now:?}");
            }
            start = now.end;
        }
        assert_eq!(start, 23);
    }
}

// ---- generation --------------------------------------------------------------------------------------

fn generate(gpt: &Gpt, settings: Settings, request: &Request<'_>) -> Vec<Generated> {
    let mut store = Store::new(3);
    let mut generator = Generator::new(gpt, settings, &mut store, &device()).unwrap();
    generator.generate(request, &mut store).unwrap()
}

#[test]
fn a_padded_batch_is_generated_as_its_rows_one_by_one() {
    let prompts = vec![ids(13, 0), ids(1, 1), ids(7, 2), ids(13, 3)];
    let drawn = Sampling { temperature: 1.3, top_k: Some(20), ..Sampling::plain(5) };
    for (name, gpt) in families() {
        for sampling in [Sampling::greedy(), drawn] {
            let request = Request { sampling, examples: Examples::From(40), ..Request::greedy(&prompts, 20) };
            let together = generate(&gpt, Settings { rows: 5, chunk: 6, ..Settings::default() }, &request);
            for (row, found) in together.iter().enumerate() {
                let examples = Examples::From(40 + row as u64);
                let prompt = &prompts[row..row + 1];
                let alone = Request { prompts: prompt, examples, ..request };
                // Another chunk, so that nothing can depend on it either.
                let alone = generate(&gpt, Settings { chunk: 16, ..Settings::default() }, &alone);
                assert_eq!(*found, alone[0], "{name}: row {row}, {sampling:?}");
                assert_eq!(found.ids.len(), 20);
            }
        }
    }
}

/// The likeliest continuation by whole forward passes, no cache.
fn naive(gpt: &Gpt, prompt: &[i32], most: usize) -> Vec<i32> {
    let mut store = Store::new(3);
    let mut program = whole(gpt, &mut store);
    let mut seen = prompt.to_vec();
    for _ in 0..most {
        let scores = logits(&mut program, [1, seen.len()], &seen, &mut store);
        let last = &scores[(seen.len() - 1) * VOCABULARY..];
        seen.push((0..VOCABULARY).fold(0, |best, id| if last[id] > last[best] { id } else { best }) as i32);
    }
    seen[prompt.len()..].to_vec()
}

#[test]
fn generation_is_that_of_whole_forward_passes() {
    let prompt = vec![ids(9, 4)];
    for (name, gpt) in families() {
        let found =
            generate(&gpt, Settings { chunk: 4, ..Settings::default() }, &Request::greedy(&prompt, 30));
        assert_eq!(found[0].ids, naive(&gpt, &prompt[0], 30), "{name}");
    }
}

#[test]
fn a_ring_holds_what_is_in_sight_and_goes_on_beyond_the_context() {
    let (_, gpt) = families().pop().unwrap();
    let mut store = Store::new(3);
    let settings = Settings { rows: 2, chunk: 4, ..Settings::default() };
    let mut generator = Generator::new(&gpt, settings, &mut store, &device()).unwrap();
    let prompts = vec![ids(19, 4), ids(2, 5)];
    let found = generator.generate(&Request::greedy(&prompts, 29), &mut store).unwrap();
    for (prompt, found) in prompts.iter().zip(&found) {
        assert_eq!(found.ids, naive(&gpt, prompt, 29), "the ring went round several times");
    }
    assert_eq!(generator.capacity(), 7 + 4 - 1);
    // The context is 48.
    let long = generator.generate(&Request::greedy(&prompts, 100), &mut store).unwrap();
    assert_eq!(long[0].ids[..29], found[0].ids);
    assert!(long.iter().all(|row| row.ids.len() == 100 && row.ended == Ended::Most));
}

#[test]
fn scores_through_a_ring_are_those_of_whole_forward_passes() {
    let (_, gpt) = families().pop().unwrap();
    let mut store = Store::new(3);
    let settings = Settings { chunk: 4, ..Settings::default() };
    let mut generator = Generator::new(&gpt, settings, &mut store, &device()).unwrap();
    let mut program = whole(&gpt, &mut store);
    for length in 1..40 {
        let prompt = vec![ids(length, length)];
        generator.generate(&Request::greedy(&prompt, 1), &mut store).unwrap();
        let wanted = logits(&mut program, [1, length], &prompt[0], &mut store);
        let wanted = &wanted[(length - 1) * VOCABULARY..];
        let largest = wanted.iter().fold(0f32, |most, x| most.max(x.abs()));
        // The ring has the keys in another order, so sums round differently.
        for (a, b) in generator.program().f32("scores").unwrap().iter().zip(wanted) {
            assert!((a - b).abs() <= 1e-5 * largest, "{length} positions: {a} through the ring, {b} whole");
        }
    }
}

#[test]
fn rows_end_where_they_should() {
    let (_, gpt) = families().remove(0);
    let mut store = Store::new(3);
    let settings = Settings { rows: 2, ..Settings::default() };
    let mut generator = Generator::new(&gpt, settings, &mut store, &device()).unwrap();
    let prompts = vec![ids(3, 0), ids(5, 1)];
    let ending = Request { full: Full::End, ..Request::greedy(&prompts, 100) };
    let free = generator.generate(&ending, &mut store).unwrap();
    // The token after the last position comes out, and cannot be fed.
    assert_eq!(free.iter().map(|row| row.ids.len()).collect::<Vec<_>>(), [48 - 3 + 1, 48 - 5 + 1]);
    assert!(free.iter().all(|row| row.ended == Ended::Context));
    let stop = free[0].ids[4];
    let request = Request { stop: &[stop], ..Request::greedy(&prompts, 100) };
    let stopped = generator.generate(&request, &mut store).unwrap();
    let first = free[0].ids.iter().position(|&id| id == stop).unwrap();
    let (ids, reread) = (free[0].ids[..first].to_vec(), Vec::new());
    assert_eq!(stopped[0], Generated { ids, ended: Ended::Stop(stop), reread });
    let mut heard = Vec::new();
    let broken = generator
        .stream(&Request::greedy(&prompts, 100), &mut store, &mut |token| {
            heard.push((token.row, token.id));
            if heard.len() == 4 { ControlFlow::Break(Enough::All) } else { ControlFlow::Continue(()) }
        })
        .unwrap();
    let [a, b] = [&free[0].ids, &free[1].ids];
    assert_eq!(heard, [(0, a[0]), (1, b[0]), (0, a[1]), (1, b[1])]);
    assert!(broken.iter().all(|row| row.ended == Ended::Broken && row.ids.len() == 2));
    let none = generator.generate(&Request::greedy(&prompts, 0), &mut store).unwrap();
    assert!(none.iter().all(|row| row.ids.is_empty() && row.ended == Ended::Most));
}

#[test]
fn requests_that_cannot_be_are_refused() {
    let (_, gpt) = families().remove(0);
    let (mut store, cpu) = (Store::new(3), device());
    let mut generator = Generator::new(&gpt, Settings::default(), &mut store, &cpu).unwrap();
    let mut text = |prompts: &[Vec<i32>]| {
        generator.generate(&Request::greedy(prompts, 3), &mut store).unwrap_err().to_string()
    };
    assert_eq!(
        text(&[vec![1], vec![2]]),
        "generate: 2 prompts for 1 rows; give at least one, and at most as many as there are rows"
    );
    assert_eq!(text(&[vec![]]), "prompt 0: it is empty; begin with at least one token");
    assert_eq!(
        text(&[vec![1, 37]]),
        "prompt 0: it has the token 37, the vocabulary has 37; use the tokenizer of this model"
    );
    assert_eq!(text(&[vec![1; 49]]), "prompt 0: it has 49 tokens, there is room for 48; shorten it");
    let request = Request::greedy(&[], 3);
    let error = generator.stream(&request, &mut store, &mut |_| ControlFlow::Continue(())).unwrap_err();
    assert_eq!(
        error.to_string(),
        "generate: 0 prompts for 1 rows; give at least one, and at most as many as there are rows"
    );
    let request = Request { sampling: Sampling { temperature: -1.0, ..Sampling::greedy() }, ..request };
    let error = generator.generate(&request, &mut store).unwrap_err().to_string();
    assert_eq!(error, "sampling: temperature is -1; choose 0 for the likeliest, or more");
    let name = "token_embedding.weight";
    let ruined = vec![f32::NAN; store.f32(name).unwrap().len()];
    store.set_f32(name, &ruined).unwrap();
    let error = generator.generate(&Request::greedy(&[vec![1, 2]], 3), &mut store).unwrap_err().to_string();
    assert_eq!(
        error,
        "generate: the scores of row 0 are not numbers after 2 tokens; check the model's weights"
    );
    let settings = Settings { chunk: 0, ..Settings::default() };
    let error = Generator::new(&gpt, settings, &mut store, &cpu).err().unwrap().to_string();
    assert_eq!(error, "generate: rows, chunk or capacity is 0; give each at least 1");
    let (_, window) = families().pop().unwrap();
    // A ring that is small for its chunks gets smaller ones; below the window nothing helps.
    let settings = Settings { capacity: Some(8), chunk: 4, ..Settings::default() };
    assert!(Generator::new(&window, settings, &mut Store::new(0), &cpu).is_ok());
    let settings = Settings { capacity: Some(6), ..settings };
    let error = Generator::new(&window, settings, &mut Store::new(0), &cpu).err().unwrap().to_string();
    assert_eq!(
        error,
        "gpt: caches of 6 slots for runs of up to 1 ids; give them at least 7, or fewer ids at a time"
    );
}
