//! Beam search and generation with encoder-decoders: transformers' beams on the tiny goldens, the true best
//! where the search is wide enough to see everything, greedy where it is one wide; a batch is its rows one by
//! one, and caches shared by beams change no bit.

use regard::prelude::*;
use regard_conformance::encoder_decoder::{CAPACITY, Model, SEED};
use regard_conformance::parity::{Golden, folder, json};
use regard_conformance::place::device;
use regard_generate::{Beam, Beams, Early, Ended, Examples, Generator, Request, Sampling, Settings};
use regard_models::import::{bart, gpt2, t5};
use regard_models::{Gpt, GptConfig, T5, T5Config, Transformer, TransformerConfig};
use serde_json::Value;

const TINY: T5Config = T5Config {
    vocabulary: 5,
    width: 12,
    heads: 2,
    head_width: 5,
    hidden: 16,
    encoder_layers: 1,
    decoder_layers: 2,
    buckets: 8,
    max_distance: 12,
    gated: false,
    tied: false,
    scaled: false,
    multilingual: false,
    own_tables: false,
    epsilon: 1e-6,
    dropout: 0.0,
    mechanisms: regard_models::Mechanisms::NONE,
};

const PAPER: TransformerConfig = TransformerConfig {
    source_vocabulary: 23,
    vocabulary: 23,
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

fn models() -> [(&'static str, Model); 2] {
    let t5 = T5Config { vocabulary: 23, ..TINY };
    [
        ("t5", Model::T5(T5::new(t5).unwrap())),
        ("transformer", Model::Transformer(Transformer::new(PAPER).unwrap())),
    ]
}

fn cpu() -> Device {
    device()
}

fn ids(count: usize, salt: usize, vocabulary: usize) -> Vec<i32> {
    (0..count).map(|i| ((i * i + 7 * i + salt * 13) % (vocabulary - 1) + 1) as i32).collect()
}

fn settings(rows: usize, beams: usize) -> Settings {
    Settings { rows, beams, capacity: Some(CAPACITY[0]), source: Some(16), ..Settings::default() }
}

/// A generator of its own store, with the sources read.
fn reading(model: &Model, sources: &[Vec<i32>], settings: Settings) -> (Generator, Store) {
    let mut store = Store::new(SEED);
    let mut generator = Generator::with_sources(model.face(), settings, &mut store, &cpu()).unwrap();
    generator.read(sources, &mut store).unwrap();
    (generator, store)
}

/// The scores of what follows a target, by a whole pass without caches.
fn uncached(model: &Model, source: &[i32], target: &[i32]) -> Vec<f32> {
    let mask = vec![true; source.len()];
    let [_, logits] = model.run(1, (source, &mask), target, Precision::F32, &cpu()).unwrap();
    let vocabulary = logits.len() / target.len();
    logits[logits.len() - vocabulary..].to_vec()
}

/// ln softmax(scores)[id], as the search computes it.
fn log_probability(before: f64, scores: &[f32], id: i32) -> f64 {
    let most = scores.iter().fold(f32::NEG_INFINITY, |most, &score| most.max(score));
    let sum: f64 = scores.iter().map(|&score| (f64::from(score) - f64::from(most)).exp()).sum();
    before - f64::from(most) - sum.ln() + f64::from(scores[id as usize])
}

#[test]
fn beams_are_those_of_transformers() {
    let golden = json(&folder("beams.json"));
    let cases = golden["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 45);
    for case in cases {
        let name = case["model"].as_str().unwrap();
        let numbers = |value: &Value| -> Vec<i32> {
            value.as_array().unwrap().iter().map(|id| id.as_i64().unwrap() as i32).collect()
        };
        let rows: Vec<Vec<i32>> = case["rows"].as_array().unwrap().iter().map(numbers).collect();
        let (stop, width) = (numbers(&case["stop"]), case["width"].as_u64().unwrap() as usize);
        let weights = Golden::read(name);
        let mut store = Store::new(0);
        let plan = settings(rows.len(), width);
        let mut generator = if name == "gpt2" {
            let gpt = Gpt::new(gpt2::config_from_json(&weights.config).unwrap()).unwrap();
            let generator = Generator::new(&gpt, plan, &mut store, &cpu()).unwrap();
            weights.weights.fill(&mut store, &gpt2::imports(gpt.config(), "transformer."));
            generator
        } else if ["bart", "marian"].contains(&name) {
            let config = bart::config_from_json(&weights.config).unwrap();
            let model = Transformer::new(config).unwrap();
            let mut generator = Generator::with_sources(&model, plan, &mut store, &cpu()).unwrap();
            let table = bart::imports(&model, config.descent.unwrap().kin, None);
            weights.weights.fill(&mut store, &table);
            generator.read(&rows, &mut store).unwrap();
            generator
        } else {
            let model = T5::new(t5::config_from_json(&weights.config).unwrap()).unwrap();
            let mut generator = Generator::with_sources(&model, plan, &mut store, &cpu()).unwrap();
            weights.weights.fill(&mut store, &t5::imports(&model));
            generator.read(&rows, &mut store).unwrap();
            generator
        };
        let start = weights.config["decoder_start_token_id"].as_i64().unwrap_or(0) as i32;
        let prompts = if name == "gpt2" { rows } else { vec![vec![start]; rows.len()] };
        let beams = Beams {
            length_penalty: case["length_penalty"].as_f64().unwrap(),
            stop: &stop,
            early: match &case["early_stopping"] {
                Value::Bool(true) => Early::AtOnce,
                Value::Bool(false) => Early::Unlikely,
                _ => Early::Hopeless,
            },
            ..Beams::new(&prompts, width, case["most"].as_u64().unwrap() as usize)
        };
        let found = generator.search(&beams, &mut store).unwrap();
        for (row, (found, wanted)) in found.iter().zip(case["beams"].as_array().unwrap()).enumerate() {
            let what = format!("{name}, width {width}, row {row}: {case}");
            assert_eq!(found.len(), width, "{what}");
            for (found, wanted) in found.iter().zip(wanted.as_array().unwrap()) {
                assert_eq!(found.ids, numbers(&wanted["ids"]), "{what}");
                assert_eq!(matches!(found.ended, Ended::Stop(_)), wanted["stopped"] == true, "{what}");
                let score = wanted["score"].as_f64().unwrap();
                assert!((found.score - score).abs() <= 1e-5, "{what}: {} is not {score}", found.score);
            }
        }
    }
}

/// Every target of at most `most` tokens, with its log probability and length.
fn every(model: &Model, source: &[i32], stop: i32, most: usize) -> Vec<(Vec<i32>, f64, usize)> {
    let (mut open, mut ended) = (vec![(Vec::new(), 0.0)], Vec::new());
    for length in 1..=most {
        let mut next = Vec::new();
        for (ids, before) in open {
            let target = [&[0][..], &ids].concat();
            let scores = uncached(model, source, &target);
            for id in 0..scores.len() as i32 {
                let sum = log_probability(before, &scores, id);
                let mut whole = ids.clone();
                whole.extend((id != stop).then_some(id));
                if id == stop || length == most {
                    ended.push((whole, sum, length));
                } else {
                    next.push((whole, sum));
                }
            }
        }
        open = next;
    }
    ended
}

#[test]
fn wide_enough_finds_the_true_best() {
    let model = Model::T5(T5::new(TINY).unwrap());
    let (source, most, stop) = (ids(6, 3, 5), 4, 1);
    let all = every(&model, &source, stop, most);
    // 1 + 4 + 16 end early, 64 · 5 at the end.
    assert_eq!(all.len(), 341);
    for length_penalty in [0.0, 1.0, 2.0, -1.0] {
        let score = |(_, sum, length): &(Vec<i32>, f64, usize)| sum / (*length as f64).powf(length_penalty);
        let mut wanted: Vec<_> = all.iter().map(|one| (score(one), one)).collect();
        wanted.sort_by(|a, b| b.0.total_cmp(&a.0));
        let (mut generator, mut store) = reading(&model, std::slice::from_ref(&source), settings(1, 341));
        let starts = [vec![0]];
        let beams = Beams { length_penalty, stop: &[stop], ..Beams::new(&starts, 341, most) };
        let found = generator.search(&beams, &mut store).unwrap().remove(0);
        assert_eq!(found.len(), 341);
        for (found, (score, (ids, sum, _))) in found.iter().zip(&wanted) {
            assert_eq!((found.score, found.log_probability), (*score, *sum), "no bit of difference");
            assert_eq!(found.ids, *ids);
        }
    }
}

#[test]
fn one_wide_is_greedy_and_greedy_is_that_of_whole_passes() {
    for (name, model) in models() {
        let sources = [ids(9, 1, 23), ids(2, 2, 23), ids(14, 5, 23)];
        let starts = vec![vec![0]; 3];
        let (mut generator, mut store) = reading(&model, &sources, settings(3, 1));
        let greedy = generator.generate(&Request::greedy(&starts, 12), &mut store).unwrap();
        let beams = generator.search(&Beams::new(&starts, 1, 12), &mut store).unwrap();
        for (row, source) in sources.iter().enumerate() {
            let mut target = vec![0];
            for _ in 0..12 {
                let scores = uncached(&model, source, &target);
                let best = (0..23).fold(0, |best, id| if scores[id] > scores[best] { id } else { best });
                target.push(best as i32);
            }
            assert_eq!(greedy[row].ids, target[1..], "{name}: row {row}");
            assert_eq!(beams[row].len(), 1);
            assert_eq!(beams[row][0].ids, target[1..], "{name}: row {row}");
        }
        // With a stop, both end at the same place.
        let stop = [greedy[0].ids[3]];
        let stopped = Request { stop: &stop, ..Request::greedy(&starts, 12) };
        let stopped = generator.generate(&stopped, &mut store).unwrap();
        let beams = Beams { stop: &stop, ..Beams::new(&starts, 1, 12) };
        let beams = generator.search(&beams, &mut store).unwrap();
        for (row, (greedy, beams)) in stopped.iter().zip(&beams).enumerate() {
            assert_eq!((&greedy.ids, greedy.ended), (&beams[0].ids, beams[0].ended), "{name}: row {row}");
        }
    }
}

#[test]
fn a_batch_is_its_rows_one_by_one() {
    let drawn = Sampling { temperature: 1.2, top_k: Some(9), ..Sampling::plain(4) };
    for (name, model) in models() {
        let sources = [ids(9, 1, 23), ids(2, 2, 23), ids(14, 5, 23)];
        let starts = [vec![0], vec![0, 7, 3], vec![5]];
        // One row more than needed, and a chunk that cuts a start.
        let (mut generator, mut store) = reading(&model, &sources, Settings { chunk: 2, ..settings(4, 4) });
        let beams = Beams { length_penalty: 0.7, stop: &[9], ..Beams::new(&starts, 4, 10) };
        let together = generator.search(&beams, &mut store).unwrap();
        let request =
            Request { sampling: drawn, examples: Examples::From(3), ..Request::greedy(&starts, 10) };
        let sampled = generator.generate(&request, &mut store).unwrap();
        for row in 0..3 {
            let (mut generator, mut store) = reading(&model, &sources[row..row + 1], settings(1, 4));
            let alone = Beams { prompts: &starts[row..row + 1], ..beams };
            assert_eq!(generator.search(&alone, &mut store).unwrap()[0], together[row], "{name}: row {row}");
            let (mut generator, mut store) = reading(&model, &sources[row..row + 1], settings(1, 1));
            let examples = Examples::From(3 + row as u64);
            let alone = Request { prompts: &starts[row..row + 1], examples, ..request };
            assert_eq!(generator.generate(&alone, &mut store).unwrap()[0], sampled[row], "{name}: row {row}");
        }
    }
}

/// Panics unless a beam's log probability is, to the bit, what whole passes say.
fn check_bits(name: &str, beam: &Beam, scores_after: impl Fn(&[i32]) -> Vec<f32>) {
    let mut sum = 0.0;
    let stop = if let Ended::Stop(id) = beam.ended { Some(id) } else { None };
    for (at, id) in beam.ids.iter().copied().chain(stop).enumerate() {
        sum = log_probability(sum, &scores_after(&beam.ids[..at]), id);
    }
    assert_eq!(sum, beam.log_probability, "{name}: {beam:?}");
}

#[test]
fn shared_caches_change_no_bit() {
    for (name, model) in models() {
        let sources = [ids(9, 1, 23), ids(4, 2, 23)];
        let starts = [vec![0], vec![0, 7, 3]];
        let (mut generator, mut store) = reading(&model, &sources, settings(2, 3));
        let beams = Beams { stop: &[9], ..Beams::new(&starts, 3, 8) };
        for (row, found) in generator.search(&beams, &mut store).unwrap().iter().enumerate() {
            for beam in found {
                check_bits(name, beam, |ids| uncached(&model, &sources[row], &[&starts[row], ids].concat()));
            }
        }
    }
}

#[test]
fn decoders_of_one_stream_are_searched_too() {
    let small = GptConfig {
        layers: 2,
        heads: 4,
        width: 24,
        context: 40,
        vocabulary: 23,
        dropout: 0.0,
        std: 0.4,
        ..GptConfig::LLAMA
    };
    for (name, config) in
        [("rotary", small), ("learned", GptConfig { positions: regard_models::Positions::Learned, ..small })]
    {
        let gpt = Gpt::new(config).unwrap();
        let prompts = [ids(9, 1, 23), ids(1, 2, 23)];
        let mut store = Store::new(3);
        let plan = Settings { rows: 2, beams: 3, chunk: 4, ..Settings::default() };
        let mut generator = Generator::new(&gpt, plan, &mut store, &cpu()).unwrap();
        let beams = Beams { stop: &[9], ..Beams::new(&prompts, 3, 12) };
        let found = generator.search(&beams, &mut store).unwrap();
        let mut g = Graph::inference();
        let t = g.open('T', 40).unwrap();
        let input = g.input("ids", DType::I32, shape![1, t]).unwrap();
        let logits = gpt.logits(&mut g, input).unwrap();
        g.output("logits", logits).unwrap();
        let mut whole = Store::new(3);
        let program = std::cell::RefCell::new((Program::new(g, &[], &mut whole, &cpu()).unwrap(), whole));
        for (prompt, found) in prompts.iter().zip(&found) {
            for beam in found {
                check_bits(name, beam, |ids| {
                    let (program, store) = &mut *program.borrow_mut();
                    let seen = [prompt, ids].concat();
                    program.set_i32("ids", &[1, seen.len()], &seen).unwrap();
                    program.run(store).unwrap();
                    program.f32("logits").unwrap()[(seen.len() - 1) * 23..].to_vec()
                });
            }
        }
    }
    // A ring that went round several times gives what caches give that forget nothing.
    let gpt = Gpt::new(GptConfig { window: Some(5), ..small }).unwrap();
    let prompts = [ids(9, 1, 23), ids(3, 2, 23)];
    let searched = |capacity: Option<usize>| {
        let mut store = Store::new(3);
        let plan = Settings { rows: 2, beams: 3, chunk: 2, capacity, ..Settings::default() };
        let mut generator = Generator::new(&gpt, plan, &mut store, &cpu()).unwrap();
        let found = generator.search(&Beams::new(&prompts, 3, 24), &mut store).unwrap();
        (generator.capacity(), found)
    };
    let ((ring, found), (_, wanted)) = (searched(None), searched(Some(40)));
    assert_eq!(ring, 6);
    for (found, wanted) in found.iter().flatten().zip(wanted.iter().flatten()) {
        assert_eq!(found.ids, wanted.ids);
        assert!((found.score - wanted.score).abs() < 1e-5, "{found:?} {wanted:?}");
    }
}

#[test]
fn a_full_context_ends_a_search() {
    let (_, model) = models().into_iter().next_back().unwrap();
    let (mut generator, mut store) =
        reading(&model, &[ids(3, 1, 23)], Settings { capacity: None, ..settings(1, 2) });
    let starts = [vec![0, 4]];
    // 20 positions: 2 are taken, 18 more can be fed, and what follows the last needs none.
    for beam in &generator.search(&Beams::new(&starts, 2, 100), &mut store).unwrap()[0] {
        assert_eq!((beam.ids.len(), beam.ended), (19, Ended::Context));
    }
    for beam in &generator.search(&Beams::new(&starts, 2, 19), &mut store).unwrap()[0] {
        assert_eq!((beam.ids.len(), beam.ended), (19, Ended::Most));
    }
    assert!(generator.search(&Beams::new(&starts, 2, 0), &mut store).unwrap()[0].is_empty());
}

#[test]
fn nonsense_is_refused() {
    let (_, model) = models().into_iter().next().unwrap();
    let mut store = Store::new(0);
    let plan = |settings: Settings, store: &mut Store| {
        Generator::with_sources(model.face(), settings, store, &cpu()).err().unwrap().to_string()
    };
    assert_eq!(
        plan(Settings { source: None, ..settings(1, 1) }, &mut store),
        "generate: the model reads sources of any length; give the most positions of a source"
    );
    assert_eq!(
        plan(settings(1, 0), &mut store),
        "generate: beams is 0; 1 is a single continuation of each prompt, more are for a search"
    );
    assert_eq!(
        plan(settings(2, usize::MAX), &mut Store::new(0)),
        "generate: rows times beams is beyond counting; choose fewer"
    );
    let mut generator = Generator::with_sources(model.face(), settings(2, 2), &mut store, &cpu()).unwrap();
    let starts = vec![vec![0]; 2];
    let mut searched =
        |beams: Beams<'_>, store: &mut Store| generator.search(&beams, store).unwrap_err().to_string();
    assert_eq!(
        searched(Beams::new(&starts, 3, 4), &mut store),
        "beams: a width of 3, planned were 2; set `beams` of the settings"
    );
    assert_eq!(
        searched(Beams::new(&starts, 2, 4), &mut store),
        "generate: 2 prompts, but 0 sources were read; read the sources first, and begin a target for each"
    );
    let mut read = |sources: &[Vec<i32>]| generator.read(sources, &mut store).unwrap_err().to_string();
    assert_eq!(
        read(&[]),
        "generate: 0 sources for 2 rows; give at least one, and at most as many as there are rows"
    );
    assert_eq!(read(&[vec![3], vec![]]), "source 1: it is empty; begin with at least one token");
    assert_eq!(
        read(&[vec![3, 23]]),
        "source 0: it has the token 23, the vocabulary has 23; use the tokenizer of this model"
    );
    assert_eq!(read(&[vec![3; 17]]), "source 0: it has 17 tokens, there is room for 16; shorten it");
    let gpt =
        Gpt::new(GptConfig { layers: 1, width: 8, heads: 2, vocabulary: 9, context: 8, ..GptConfig::SMALL });
    let mut store = Store::new(0);
    let mut generator = Generator::new(&gpt.unwrap(), Settings::default(), &mut store, &cpu()).unwrap();
    assert_eq!(
        generator.read(&[vec![1]], &mut store).unwrap_err().to_string(),
        "generate: this model has one stream, and sources were given; give them as prompts"
    );
}
