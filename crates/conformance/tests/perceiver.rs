//! A Perceiver: which token can see which, by `reach` and by changing tokens, for every masking; lengths
//! change no bit; it learns; and sizes that make no sense are refused.

use regard::ops::AdamW;
use regard::prelude::*;
use regard::reach::{Grain, Query, reach};
use regard_conformance::place::{device, same};
use regard_models::{Perceiver, PerceiverConfig, PerceiverMasking};

const SIZES: PerceiverConfig = PerceiverConfig {
    layers: 4,
    heads: 2,
    width: 16,
    latents: 8,
    context: 32,
    vocabulary: 30,
    masking: PerceiverMasking::Prefix,
    dropout: 0.0,
    mechanisms: regard_models::Mechanisms::NONE,
};

/// Those that nothing leaks through.
const CLOSED: [PerceiverMasking; 4] =
    [PerceiverMasking::Prefix, PerceiverMasking::Chunk, PerceiverMasking::Tapered, PerceiverMasking::Corner];

fn all() -> impl Iterator<Item = PerceiverMasking> {
    CLOSED.into_iter().chain([PerceiverMasking::Open])
}

/// What each masking promises: whether position t can see the token at s.
fn promised(config: &PerceiverConfig, t: usize, s: usize) -> bool {
    let chunk = config.context.div_ceil(config.latents);
    s == t
        || match config.masking {
            PerceiverMasking::Open => true,
            // All chunks that are over.
            PerceiverMasking::Prefix | PerceiverMasking::Chunk => s < (t + 1) / chunk * chunk,
            // Each of the first three quarters of M; of the others, what is over.
            PerceiverMasking::Tapered => {
                let fine = config.latents - config.latents / 4;
                let ends = (1..=config.latents - fine)
                    .map(|n| fine + (n * (config.context - fine)).div_ceil(config.latents - fine));
                let over = (1..=fine).chain(ends).filter(|&end| end <= t + 1).max();
                s < over.unwrap_or(0)
            }
            // The first M, as far as they are not ahead.
            PerceiverMasking::Corner => s < t && s < config.latents,
        }
}

/// By `reach`: one line for each position, an x for each token that it can see.
fn relation(config: PerceiverConfig) -> Vec<String> {
    let mut g = Graph::inference();
    let ids = g.input("ids", DType::I32, [1, config.context]).unwrap();
    let logits = Perceiver::new(config).unwrap().logits(&mut g, ids).unwrap();
    let query = Query { from: vec![ids], to: vec![logits], grain: Grain::Position, ..Default::default() };
    let reach = reach(&g, &query).unwrap();
    assert_eq!(
        reach.is_causal(ids, 1, logits, 1).unwrap().holds(),
        config.masking != PerceiverMasking::Open,
        "{:?}",
        config.masking
    );
    let line = |to| -> String {
        reach.cells(ids).unwrap().map(|from| if reach.can(from, to).unwrap() { 'x' } else { '.' }).collect()
    };
    reach.cells(logits).unwrap().map(line).collect()
}

#[test]
fn the_relations_written_out() {
    let small = PerceiverConfig { latents: 4, context: 12, ..SIZES };
    // Nothing leaks, and of what came before all but the chunk that is going on is seen.
    let chunks = [
        "x...........",
        ".x..........",
        "xxx.........",
        "xxxx........",
        "xxx.x.......",
        "xxxxxx......",
        "xxxxxxx.....",
        "xxxxxx.x....",
        "xxxxxxxxx...",
        "xxxxxxxxxx..",
        "xxxxxxxxx.x.",
        "xxxxxxxxxxxx",
    ];
    for masking in [PerceiverMasking::Prefix, PerceiverMasking::Chunk] {
        assert_eq!(relation(PerceiverConfig { masking, ..small }), chunks, "{masking:?}");
    }
    // Tapered, the beginning is seen token by token, and the rest in one large chunk.
    let tapered = [
        "x...........",
        "xx..........",
        "xxx.........",
        "xxxx........",
        "xxx.x.......",
        "xxx..x......",
        "xxx...x.....",
        "xxx....x....",
        "xxx.....x...",
        "xxx......x..",
        "xxx.......x.",
        "xxxxxxxxxxxx",
    ];
    assert_eq!(relation(PerceiverConfig { masking: PerceiverMasking::Tapered, ..small }), tapered);
    // The corner of a triangle leaks nothing, either, but from position M on nobody sees a token but the
    // first M and its own: the latents never learn of the rest, however long the context.
    let corner = [
        "x...........",
        "xx..........",
        "xxx.........",
        "xxxx........",
        "xxxxx.......",
        "xxxx.x......",
        "xxxx..x.....",
        "xxxx...x....",
        "xxxx....x...",
        "xxxx.....x..",
        "xxxx......x.",
        "xxxx.......x",
    ];
    assert_eq!(relation(PerceiverConfig { masking: PerceiverMasking::Corner, ..small }), corner);
    assert_eq!(relation(PerceiverConfig { masking: PerceiverMasking::Open, ..small }), ["xxxxxxxxxxxx"; 12]);
}

#[test]
fn reach_is_what_is_promised() {
    // 29 positions: the last chunk is not full. Two layers: nothing between down and up.
    for config in [SIZES, PerceiverConfig { context: 29, ..SIZES }, PerceiverConfig { layers: 2, ..SIZES }] {
        for masking in all() {
            let config = PerceiverConfig { masking, ..config };
            let line = |t| -> String {
                (0..config.context).map(|s| if promised(&config, t, s) { 'x' } else { '.' }).collect()
            };
            let promised: Vec<String> = (0..config.context).map(line).collect();
            assert_eq!(relation(config), promised, "{config:?}");
        }
    }
}

/// A program with an open batch and length; weights eight times as large as they begin, so that all influence
/// is felt. Norms stay, lest scores become so large that one key has all the weight.
struct Runner {
    program: Program,
    store: Store,
}

impl Runner {
    fn new(config: PerceiverConfig, fixed: Option<usize>) -> Runner {
        let model = Perceiver::new(config).unwrap();
        let mut g = Graph::inference();
        let (b, t) = (g.open('B', 2).unwrap(), g.open('T', config.context).unwrap());
        let shape = fixed.map_or(shape![b, t], |length| shape![b, length]);
        let ids = g.input("ids", DType::I32, shape).unwrap();
        let logits = model.logits(&mut g, ids).unwrap();
        g.output("logits", logits).unwrap();
        let mut store = Store::new(3);
        let cpu = device();
        let program = Program::new(g, &[], &mut store, &cpu).unwrap();
        for declared in model.parameters().declared().filter(|d| matches!(d.init, Init::Normal(_))) {
            let larger: Vec<f32> = store.f32(&declared.name).unwrap().iter().map(|x| 8.0 * x).collect();
            store.set_f32(&declared.name, &larger).unwrap();
        }
        Runner { program, store }
    }

    /// The logits, one vector for each position.
    fn run(&mut self, rows: usize, ids: &[i32]) -> Vec<Vec<f32>> {
        self.program.set_i32("ids", &[rows, ids.len() / rows], ids).unwrap();
        self.program.run(&mut self.store).unwrap();
        self.program.f32("logits").unwrap().chunks(30).map(<[f32]>::to_vec).collect()
    }
}

fn ids(count: usize, salt: usize) -> Vec<i32> {
    (0..count).map(|i| ((i * i + 5 * i + salt * 11) % 30) as i32).collect()
}

#[test]
fn a_changed_token_changes_what_may_see_it_and_nothing_else() {
    for masking in all() {
        let config = PerceiverConfig { masking, ..SIZES };
        let mut runner = Runner::new(config, None);
        let tokens = ids(32, 1);
        let usual = runner.run(1, &tokens);
        for s in 0..32 {
            let mut other = tokens.clone();
            other[s] = (tokens[s] + 1) % 30;
            let changed = runner.run(1, &other);
            for t in 0..32 {
                assert_eq!(usual[t] != changed[t], promised(&config, t, s), "{masking:?}: token {s} at {t}");
            }
        }
    }
}

#[test]
fn length_and_company_change_no_bit() {
    for masking in CLOSED {
        let config = PerceiverConfig { masking, ..SIZES };
        let mut runner = Runner::new(config, None);
        let tokens = [ids(32, 1), ids(32, 2)].concat();
        let both = runner.run(2, &tokens);
        for length in [1, 3, 4, 17, 32] {
            let alone = runner.run(1, &tokens[32..32 + length]).concat();
            let wanted = both[32..32 + length].concat();
            assert!(same(&alone, &wanted, Precision::F32), "{masking:?}: {length}");
            // A length that is known while recording has masks of its own.
            let mut fixed = Runner::new(config, Some(length));
            let alone = fixed.run(1, &tokens[..length]).concat();
            assert!(same(&alone, &both[..length].concat(), Precision::F32), "{masking:?}: {length} fixed");
        }
    }
}

#[test]
fn it_learns_next_tokens() {
    for masking in CLOSED {
        let config = PerceiverConfig { masking, dropout: 0.0, ..SIZES };
        let mut g = Graph::new();
        let ids = g.input("ids", DType::I32, [4, 32]).unwrap();
        let targets = g.input("targets", DType::I32, [4, 32]).unwrap();
        let scale = g.constant(DType::F32, shape![], &[1.0 / 128.0]).unwrap();
        let rate = g.constant(DType::F32, shape![], &[3e-3]).unwrap();
        let step = g.input("step", DType::I32, shape![]).unwrap();
        let loss = Perceiver::new(config).unwrap().loss(&mut g, ids, targets, scale).unwrap();
        g.output("loss", loss).unwrap();
        let parameters = g.parameters();
        let gradients = g.gradient(loss, &parameters).unwrap();
        let pairs: Vec<(Var, Var)> = parameters.into_iter().zip(gradients).collect();
        g.adamw_step(&pairs, &AdamW::default(), rate, step, None).unwrap();
        let mut store = Store::new(4);
        let cpu = device();
        let mut program = Program::new(g, &[], &mut store, &cpu).unwrap();
        let began = store.f32("latents").unwrap().to_vec();
        // Each token follows from the one before by a rule that differs from row to row.
        let next = |row: i32, id: i32| (id * 7 + row * 3 + 1) % 30;
        let rows = |from: usize| -> Vec<i32> {
            let row = |row: i32| std::iter::successors(Some(row), move |&id| Some(next(row, id)));
            (0..4).flat_map(|own| row(own).skip(from).take(32)).collect()
        };
        program.set_i32("ids", &[4, 32], &rows(0)).unwrap();
        program.set_i32("targets", &[4, 32], &rows(1)).unwrap();
        let mut losses = Vec::new();
        for step in 1..=80 {
            program.set_i32("step", &[], &[step]).unwrap();
            program.run(&mut store).unwrap();
            losses.push(program.scalar("loss").unwrap());
        }
        let chance = 30f32.ln();
        assert!((losses[0] - chance).abs() < 0.1, "{masking:?} begins at {}", losses[0]);
        assert!(losses[79] < 0.5 * chance, "{masking:?} ends at {}", losses[79]);
        assert_ne!(store.f32("latents").unwrap(), began, "the latents learn, too");
    }
}

#[test]
fn nonsense_is_refused() {
    let text = |config| Perceiver::new(config).unwrap_err().to_string();
    assert!(
        text(PerceiverConfig { latents: 0, ..SIZES })
            .starts_with("perceiver: one of the sizes is 0: PerceiverConfig {")
    );
    assert_eq!(
        text(PerceiverConfig { layers: 1, ..SIZES }),
        "perceiver: 1 layers; give at least 2: one goes down to the latents, one comes up again"
    );
    assert_eq!(
        text(PerceiverConfig { latents: 40, ..SIZES }),
        "perceiver: 40 latents for 32 positions; choose at most as many latents as positions: they are there to be fewer"
    );
    assert_eq!(
        text(PerceiverConfig { dropout: -0.5, ..SIZES }),
        "perceiver: dropout is -0.5; choose a probability from 0 up to, not including, 1"
    );
    let mut g = Graph::inference();
    let ids = g.input("ids", DType::I32, [5]).unwrap();
    let error = Perceiver::new(SIZES).unwrap().logits(&mut g, ids).unwrap_err().to_string();
    assert_eq!(error, "perceiver: ids are [5]; give ids [B T]");
    let ids = g.input("long", DType::I32, [1, 33]).unwrap();
    assert!(Perceiver::new(SIZES).unwrap().logits(&mut g, ids).is_err(), "more positions than the context");
}
