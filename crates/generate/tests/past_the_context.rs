//! Generation beyond a model's positions: the newest half is read again as a fresh prompt, whatever the model
//! keeps, and whatever else is in the batch. And decoders that keep nothing, which go through the same loop.

use regard_device::Level;
use regard_engine::{Cpu, Store};
use regard_generate::{
    Beams, Decoder, Ended, Enough, Examples, Full, Generated, Generator, Request, Sampling, Settings, Token,
};
use regard_graph::{Graph, Result, Var};
use regard_models::{
    Caches, Gpt, GptConfig, Known, Mechanisms, Perceiver, PerceiverConfig, PerceiverMasking, Positions,
    Transformer, TransformerConfig,
};
use regard_ops::RotarySpec;
use std::ops::ControlFlow;

const VOCABULARY: usize = 37;
const CONTEXT: usize = 24;
const HALF: usize = CONTEXT / 2;

/// A GPT that reads its whole text in every run, as a model without caches does.
struct Forgetful(Gpt);

impl Decoder for Forgetful {
    fn vocabulary(&self) -> usize {
        self.0.vocabulary()
    }

    fn context(&self) -> Option<usize> {
        self.0.context()
    }

    fn window(&self) -> Option<usize> {
        None
    }

    fn caches(&self) -> Caches {
        Caches::None
    }

    fn resume(&self, g: &mut Graph, ids: Var, known: Known) -> Result<Var> {
        self.0.resume(g, ids, known)
    }

    fn scores(&self, g: &mut Graph, x: Var) -> Result<Var> {
        self.0.scores(g, x)
    }
}

fn gpt(positions: Positions, window: Option<usize>) -> Gpt {
    let sizes = GptConfig { layers: 2, heads: 2, width: 16, context: CONTEXT, ..GptConfig::SMALL };
    let config = GptConfig { vocabulary: VOCABULARY, dropout: 0.0, tied: false, positions, window, ..sizes };
    Gpt::new(config).unwrap()
}

fn perceiver() -> Perceiver {
    let masking = PerceiverMasking::Prefix;
    let (layers, heads, width, latents) = (3, 2, 16, 6);
    let (context, vocabulary, dropout) = (CONTEXT, VOCABULARY, 0.0);
    let mechanisms = Mechanisms::default();
    Perceiver::new(PerceiverConfig {
        layers,
        heads,
        width,
        latents,
        context,
        vocabulary,
        masking,
        dropout,
        mechanisms,
    })
    .unwrap()
}

/// Every decoder that has an end, by name.
fn decoders() -> Vec<(&'static str, Box<dyn Decoder>)> {
    let rotary = Positions::Rotary(RotarySpec::default());
    vec![
        ("learned", Box::new(gpt(Positions::Learned, None))),
        ("rotary", Box::new(gpt(rotary, None))),
        // A ring, for the window; and an end, for the table of positions.
        ("window", Box::new(gpt(Positions::Learned, Some(5)))),
        ("forgetful", Box::new(Forgetful(gpt(Positions::Learned, None)))),
        ("perceiver", Box::new(perceiver())),
    ]
}

fn cpu() -> Cpu {
    Cpu::with(2, Level::best()).unwrap()
}

fn ids(length: usize, seed: usize) -> Vec<i32> {
    (0..length).map(|at| ((at * 7 + seed * 13 + at * at) % VOCABULARY) as i32).collect()
}

/// A model with weights far from 0, so that every token counts, and texts do not fall into a loop.
fn planned(model: &dyn Decoder, settings: Settings) -> (Generator, Store) {
    let mut store = Store::new(11);
    let generator = Generator::new(model, settings, &mut store, &cpu()).unwrap();
    loud(&mut store);
    (generator, store)
}

fn loud(store: &mut Store) {
    let names: Vec<String> = store.names().filter(|name| !name.contains("norm")).map(str::to_owned).collect();
    for name in names {
        let numbers: Vec<f32> = store.f32(&name).unwrap().iter().map(|x| x * 12.0).collect();
        store.set_f32(&name, &numbers).unwrap();
    }
}

fn run(model: &dyn Decoder, rows: usize, request: &Request<'_>) -> (Vec<Generated>, Vec<Token>) {
    let (mut generator, mut store) = planned(model, Settings { rows, chunk: 5, ..Settings::default() });
    let mut heard = Vec::new();
    let generated = generator
        .stream(request, &mut store, &mut |token| {
            heard.push(token);
            ControlFlow::Continue(())
        })
        .unwrap();
    (generated, heard)
}

#[test]
fn past_the_context_comes_what_follows_the_newest_half() {
    for (name, model) in decoders() {
        let prompts = [ids(7, 3)];
        let found = run(model.as_ref(), 1, &Request::greedy(&prompts, 60)).0.remove(0);
        assert_eq!((found.ids.len(), found.ended), (60, Ended::Most), "{name}");
        let kinds: std::collections::BTreeSet<i32> = found.ids.iter().copied().collect();
        assert!(kinds.len() > 5, "{name}: a text that says nothing: {:?}", found.ids);
        // The token after the last position comes out, and cannot be fed; then a half is free again.
        let first = CONTEXT - 7 + 1;
        let half = CONTEXT - HALF + 1;
        let expected: Vec<usize> = (0..).map(|n| first + n * half).take_while(|&at| at < 60).collect();
        assert_eq!(found.reread, expected, "{name}");
        let text = [prompts[0].clone(), found.ids.clone()].concat();
        for at in found.reread {
            let end = prompts[0].len() + at;
            let fresh = [text[end - HALF..end].to_vec()];
            let most = half.min(60 - at);
            let alone = run(model.as_ref(), 1, &Request::greedy(&fresh, most)).0.remove(0);
            assert_eq!(found.ids[at..at + most], alone.ids, "{name}, after {at}");
            assert!(alone.reread.is_empty(), "{name}");
        }
    }
}

#[test]
fn scores_after_a_reread_have_the_bits_of_a_fresh_prompt() {
    for (name, model) in decoders() {
        let settings = Settings { rows: 3, chunk: 5, ..Settings::default() };
        let (mut generator, mut store) = planned(model.as_ref(), settings);
        // The second row is as full as can be when the first begins again.
        let prompts = [ids(9, 1), ids(8, 2)];
        let most = CONTEXT - 9 + 1 + 1;
        let found = generator.generate(&Request::greedy(&prompts, most), &mut store).unwrap();
        assert_eq!((&found[0].reread[..], &found[1].reread[..]), (&[most - 1][..], &[][..]), "{name}");
        let bits = |generator: &Generator, row: usize| -> Vec<u32> {
            let scores = generator.program().f32("scores").unwrap();
            scores[row * VOCABULARY..][..VOCABULARY].iter().map(|x| x.to_bits()).collect()
        };
        let after: Vec<Vec<u32>> = (0..2).map(|row| bits(&generator, row)).collect();
        assert_ne!(after[0], after[1], "{name}");
        for row in 0..2 {
            let text = [prompts[row].clone(), found[row].ids[..most - 1].to_vec()].concat();
            let fresh = [text[if row == 0 { text.len() - HALF } else { 0 }..].to_vec()];
            generator.generate(&Request::greedy(&fresh, 1), &mut store).unwrap();
            assert_eq!(bits(&generator, 0), after[row], "{name}, row {row}");
        }
    }
}

#[test]
fn rows_that_are_full_at_different_times_keep_to_themselves() {
    let prompts = [ids(3, 1), ids(24, 2), ids(11, 3), ids(10, 4), ids(1, 5)];
    let sampling = Sampling { temperature: 0.9, repetition_penalty: 1.1, ..Sampling::plain(5) };
    for (name, model) in decoders() {
        let request = Request { sampling, ..Request::greedy(&prompts, 70) };
        let (together, heard) = run(model.as_ref(), prompts.len(), &request);
        for (row, prompt) in prompts.iter().enumerate() {
            let (prompts, numbers) = ([prompt.clone()], [row as u64]);
            let request =
                Request { sampling, examples: Examples::Are(&numbers), ..Request::greedy(&prompts, 70) };
            let alone = run(model.as_ref(), 1, &request).0.remove(0);
            assert_eq!(together[row], alone, "{name}, row {row}");
            assert!(alone.reread.len() >= 3, "{name}: {:?}", alone.reread);
            // Every token was told of, and where the row read again.
            let own: Vec<Token> = heard.iter().copied().filter(|token| token.row == row).collect();
            assert_eq!(own.iter().map(|token| token.id).collect::<Vec<_>>(), alone.ids, "{name}");
            let again: Vec<usize> = (0..own.len()).filter(|&at| own[at].reread).collect();
            assert_eq!(again, alone.reread, "{name}");
        }
    }
}

#[test]
fn a_listener_may_break_off_after_a_reread() {
    for (name, model) in decoders() {
        let settings = Settings { rows: 2, ..Settings::default() };
        let (mut generator, mut store) = planned(model.as_ref(), settings);
        let prompts = [ids(20, 1), ids(4, 2)];
        let mut heard = 0;
        let broken = generator
            .stream(&Request::greedy(&prompts, 60), &mut store, &mut |token| {
                heard += 1;
                if token.reread { ControlFlow::Break(Enough::All) } else { ControlFlow::Continue(()) }
            })
            .unwrap();
        // Both rows have the token in progress; the first was full after five.
        assert!(broken.iter().all(|row| row.ended == Ended::Broken && row.ids.len() == 6), "{name}");
        assert_eq!((heard, &broken[0].reread[..], &broken[1].reread[..]), (12, &[5][..], &[][..]), "{name}");
        // One row may end by itself.
        let mut first = 0;
        let one = generator
            .stream(&Request::greedy(&prompts, 30), &mut store, &mut |token| {
                first += usize::from(token.row == 0);
                match token.row == 0 && first == 3 {
                    true => ControlFlow::Break(Enough::Row),
                    false => ControlFlow::Continue(()),
                }
            })
            .unwrap();
        assert_eq!((one[0].ids.len(), one[0].ended), (3, Ended::Broken), "{name}");
        assert_eq!((one[1].ids.len(), one[1].ended), (30, Ended::Most), "{name}");
        // Nothing of it is left for the next.
        let again = generator.generate(&Request::greedy(&prompts, 60), &mut store).unwrap();
        assert_eq!(again[1], run(model.as_ref(), 1, &Request::greedy(&prompts[1..], 60)).0[0], "{name}");
    }
}

#[test]
fn a_request_may_end_where_the_positions_do() {
    for (name, model) in decoders() {
        let prompts = [ids(7, 3), ids(24, 1)];
        let request = Request { full: Full::End, ..Request::greedy(&prompts, 60) };
        let found = run(model.as_ref(), 2, &request).0;
        for (row, length) in [CONTEXT - 7 + 1, 1].into_iter().enumerate() {
            assert_eq!((found[row].ids.len(), found[row].ended), (length, Ended::Context), "{name}");
            assert!(found[row].reread.is_empty(), "{name}");
        }
        let beyond = run(model.as_ref(), 2, &Request::greedy(&prompts, 60)).0;
        assert_eq!(beyond[0].ids[..found[0].ids.len()], found[0].ids, "{name}");
    }
}

#[test]
fn a_capacity_of_one_position_reads_each_token_afresh() {
    let model = gpt(Positions::Learned, None);
    let settings = Settings { capacity: Some(1), ..Settings::default() };
    let (mut generator, mut store) = planned(&model, settings);
    let prompts = [vec![3]];
    let found = generator.generate(&Request::greedy(&prompts, 6), &mut store).unwrap().remove(0);
    assert_eq!(found.reread, [1, 2, 3, 4, 5]);
    for pair in found.ids.windows(2) {
        let alone = generator.generate(&Request::greedy(&[vec![pair[0]]], 1), &mut store).unwrap();
        assert_eq!(alone[0].ids[0], pair[1]);
    }
}

#[test]
fn targets_of_sources_go_on_as_well() {
    let config = TransformerConfig {
        encoder_layers: 1,
        decoder_layers: 1,
        heads: 2,
        width: 16,
        hidden: 32,
        context: CONTEXT,
        dropout: 0.0,
        ..TransformerConfig::base(VOCABULARY)
    };
    let model = Transformer::new(config).unwrap();
    let mut store = Store::new(11);
    let settings = Settings { rows: 2, chunk: 5, ..Settings::default() };
    let mut generator = Generator::with_sources(&model, settings, &mut store, &cpu()).unwrap();
    loud(&mut store);
    generator.read(&[ids(9, 1), ids(4, 2)], &mut store).unwrap();
    let starts = [vec![0], vec![0, 5, 6]];
    let long = generator.generate(&Request::greedy(&starts, 40), &mut store).unwrap();
    assert_eq!(long.iter().map(|row| row.reread[0]).collect::<Vec<_>>(), [CONTEXT, CONTEXT - 2]);
    let fresh: Vec<Vec<i32>> = starts
        .iter()
        .zip(&long)
        .map(|(start, row)| {
            let text = [start.clone(), row.ids[..row.reread[0]].to_vec()].concat();
            text[text.len() - HALF..].to_vec()
        })
        .collect();
    let short = generator.generate(&Request::greedy(&fresh, 13), &mut store).unwrap();
    for (long, short) in long.iter().zip(&short) {
        assert_eq!(long.ids[long.reread[0]..][..13], short.ids);
    }
}

#[test]
fn a_model_without_caches_writes_what_one_with_caches_writes() {
    let kept = gpt(Positions::Learned, None);
    let forgetful = Forgetful(kept.clone());
    let prompts = [ids(3, 1), ids(12, 2), ids(7, 9)];
    for sampling in [Sampling::greedy(), Sampling { top_k: Some(9), ..Sampling::plain(3) }] {
        let request = Request { sampling, stop: &[4], ..Request::greedy(&prompts, 50) };
        let (one, heard) = run(&kept, 3, &request);
        let (other, again) = run(&forgetful, 3, &request);
        assert_eq!(one, other);
        assert_eq!(heard, again);
    }
    let searched = |model: &dyn Decoder| {
        let settings = Settings { rows: 3, beams: 4, ..Settings::default() };
        let (mut generator, mut store) = planned(model, settings);
        generator.search(&Beams { stop: &[4], ..Beams::new(&prompts, 4, 15) }, &mut store).unwrap()
    };
    assert_eq!(searched(&kept), searched(&forgetful));
}

#[test]
fn perceivers_keep_nothing_and_say_so() {
    let model = perceiver();
    let mut g = Graph::inference();
    let ids = g.input("ids", regard_graph::DType::I32, [1, 3]).unwrap();
    let lengths = g.input("lengths", regard_graph::DType::I32, [1]).unwrap();
    let cached = regard_models::Cached::growing(ids, lengths, 4);
    assert_eq!(
        model.next(&mut g, ids, cached.into()).unwrap_err().to_string(),
        "perceiver: it keeps nothing from run to run; give it whole texts, and where each ends"
    );
    let open = PerceiverConfig { masking: PerceiverMasking::Open, ..*model.config() };
    let text =
        Generator::new(&Perceiver::new(open).unwrap(), Settings::default(), &mut Store::new(0), &cpu());
    assert_eq!(
        text.err().unwrap().to_string(),
        "perceiver: with open masks a token sees what follows it, padding too; give it another masking to continue texts"
    );
    let (mut planned, mut own) = planned(&model, Settings::default());
    let prompts = [vec![1]];
    let request = Request { examples: Examples::Are(&[1, 2]), ..Request::greedy(&prompts, 3) };
    assert_eq!(
        planned.generate(&request, &mut own).unwrap_err().to_string(),
        "generate: 2 numbers of examples for 1 prompts; give one for each"
    );
    // Sources are for models that read them.
    let mut generator = Generator::new(&model, Settings::default(), &mut Store::new(0), &cpu()).unwrap();
    assert_eq!(
        generator.read(&[vec![1]], &mut Store::new(0)).unwrap_err().to_string(),
        "generate: this model has one stream, and sources were given; give them as prompts"
    );
}
