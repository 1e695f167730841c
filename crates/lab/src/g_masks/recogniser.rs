//! A recogniser of frames as sound gives them, small enough to train here: frames of features go through
//! causal blocks with rotary positions and a bounded view of the past. The frames are drawn, not recorded:
//! symbols last a few frames, come in pairs that sound alike, and only the last frame of a symbol tells which
//! of the two it was, so that hearing a little of the future is worth something. Letters: B utterances, T
//! frames, F features, C width, V symbols, S slots of the caches.

use crate::experiment::Learner;
use crate::{Context, Draws};
use regard::Result;
use regard::layers::{
    AttentionConfig, BlockConfig, Context as Surroundings, FeedForwardConfig, FeedForwardKind, LinearConfig,
    LinearLayer, NormConfig, NormPlace, Parameters, RelativeConfig, Stack, StackConfig,
};
use regard::ops::{AttentionMask, CrossEntropyOptions, IGNORE_INDEX, Window};
use regard::prelude::*;
use strsim::generic_levenshtein;

/// F.
pub const FEATURES: usize = 12;
/// V.
pub const SYMBOLS: usize = 8;
/// T of the utterances that it learns from, before any delay.
pub const FRAMES: usize = 36;
const WIDTH: usize = 32;
const LAYERS: usize = 2;
const ROWS: usize = 16;

/// An utterance: its frames and the symbol of each.
#[derive(Clone, Debug)]
pub struct Utterance {
    /// T × F.
    pub frames: Vec<f32>,
    /// T.
    pub symbols: Vec<usize>,
}

/// Draws an utterance of so many frames. What the pairs sound like is the same for every seed.
pub fn utterance(draws: &mut Draws, frames: usize) -> Utterance {
    let templates = Context::default().draws("recogniser.sounds").normals(SYMBOLS / 2 * FEATURES);
    let release = Context::default().draws("recogniser.release").normals(FEATURES);
    let (mut numbers, mut symbols) = (Vec::new(), Vec::new());
    while symbols.len() < frames {
        let symbol = loop {
            let symbol = draws.below(SYMBOLS);
            // Two of a kind in a row would be read as one.
            if symbols.last() != Some(&symbol) {
                break symbol;
            }
        };
        let length = 3 + draws.below(4);
        for at in 0..length {
            let last = at + 1 == length;
            let strength = if last { 1.5 * (2.0 * (symbol % 2) as f64 - 1.0) } else { 0.0 };
            let template = &templates[symbol / 2 * FEATURES..][..FEATURES];
            let frame = template.iter().zip(&release).map(|(sound, release)| sound + strength * release);
            numbers.extend(frame.map(|x| (x + 0.7 * draws.normal()) as f32));
            symbols.push(symbol);
        }
    }
    numbers.truncate(frames * FEATURES);
    symbols.truncate(frames);
    Utterance { frames: numbers, symbols }
}

/// What stands in a row of frames: repeats are one symbol.
pub fn text(symbols: &[usize]) -> Vec<usize> {
    let mut text = symbols.to_vec();
    text.dedup();
    text
}

/// The recogniser. Parameters: `input`, the blocks, `head`.
pub struct Recogniser {
    input: LinearLayer,
    stack: Stack,
    head: LinearLayer,
    causal: bool,
    window: Option<usize>,
}

impl Recogniser {
    /// One that sees only the past, or all; and of the past so many frames, its own among them, or all.
    pub fn new(causal: bool, window: Option<usize>) -> regard_graph::Result<Recogniser> {
        let std = 1.0 / (WIDTH as f32).sqrt();
        let p = &mut Parameters::new();
        let linear = |inputs, outputs| LinearConfig { inputs, outputs, bias: true, std };
        let input = p.under("input", |p| LinearLayer::new(linear(FEATURES, WIDTH), p))?;
        let kind = FeedForwardKind::Relu;
        let block = BlockConfig {
            attention: AttentionConfig { std, ..AttentionConfig::new(WIDTH, 4)? },
            cross: None,
            feed_forward: FeedForwardConfig {
                width: WIDTH,
                hidden: 2 * WIDTH,
                kind,
                bias: true,
                dropout: 0.0,
                std,
            },
            norm: NormConfig::layer(WIDTH),
            place: NormPlace::Pre,
            dropout: 0.0,
        };
        let relative = RelativeConfig::Rotary(RotarySpec::default());
        let stack = Stack::new(StackConfig { layers: LAYERS, block, final_norm: true, relative }, p)?;
        let head = p.under("head", |p| LinearLayer::new(linear(WIDTH, SYMBOLS), p))?;
        Ok(Recogniser { input, stack, head, causal, window })
    }

    fn mask(&self) -> AttentionMask {
        let window = self.window.map(|window| Window { before: window - 1, after: 0 });
        AttentionMask { causal: self.causal, window, ..Default::default() }
    }

    /// The scores of all frames: B T F -> B T V
    pub fn scores(&self, g: &mut Graph, frames: Var) -> regard_graph::Result<Var> {
        self.scores_in(g, frames, &Surroundings { mask: self.mask(), ..Default::default() })
    }

    /// The same for frames that follow those of earlier runs, with caches of so many slots; one utterance.
    pub fn scores_of_more(&self, g: &mut Graph, frames: Var, slots: usize) -> regard_graph::Result<Var> {
        let [_, t, _] = g.dims(frames, "B T F")?;
        let position = g.input("position", DType::I32, shape![1, t.clone()])?;
        let slot = g.input("slot", DType::I32, shape![1, t])?;
        let key_position = g.input("key_position", DType::I32, [1, slots])?;
        let key_mask = g.input("key_mask", DType::Bool, [1, slots])?;
        let around = Surroundings {
            mask: AttentionMask { key_mask: Some(key_mask), ..self.mask() },
            query_position: Some(position),
            key_position: Some(key_position),
            cached: Some(regard::layers::Cached { slot, rows: 1, capacity: slots }),
            ..Default::default()
        };
        self.scores_in(g, frames, &around)
    }

    fn scores_in(&self, g: &mut Graph, frames: Var, around: &Surroundings) -> regard_graph::Result<Var> {
        let x = self.input.forward(g, frames)?; // B T F -> B T C
        let x = self.stack.forward(g, x, around, None)?;
        self.head.forward(g, x)
    }

    /// Trains it to name each frame `delay` frames later: what it may hear of the future.
    pub fn train(&self, context: &Context, delay: usize, steps: usize, seed: u64) -> Result<Store> {
        let length = FRAMES + delay;
        let mut g = Graph::new();
        let frames = g.input("frames", DType::F32, [ROWS, length, FEATURES])?;
        let targets = g.input("targets", DType::I32, [ROWS, length])?;
        let scores = self.scores(&mut g, frames)?;
        let losses = g.cross_entropy(scores, targets, CrossEntropyOptions::default())?;
        let sum = g.sum_all(losses)?;
        let loss = g.scale(sum, 1.0 / (ROWS * FRAMES) as f32)?;
        let mut learner = Learner::new(context, g, loss, seed, steps, 6e-3)?;
        let mut draws = Context { seed, ..Default::default() }.draws("recogniser.train");
        for _ in 0..steps {
            let (mut frames, mut targets) = (Vec::new(), Vec::new());
            for _ in 0..ROWS {
                let own = delayed(&utterance(&mut draws, FRAMES), delay);
                frames.extend(own.frames);
                targets.extend((0..delay).map(|_| IGNORE_INDEX));
                targets.extend(own.symbols.iter().map(|&symbol| symbol as i32));
            }
            learner.program.set_f32("frames", &[ROWS, length, FEATURES], &frames)?;
            learner.program.set_i32("targets", &[ROWS, length], &targets)?;
            learner.step()?;
        }
        Ok(learner.store)
    }

    /// What it makes of held-out utterances: the share of frames that are wrong, and edits over symbols of
    /// the texts.
    pub fn examine(
        &self,
        context: &Context,
        delay: usize,
        store: &mut Store,
        count: usize,
    ) -> Result<[f64; 2]> {
        let length = FRAMES + delay;
        let mut g = Graph::inference();
        let frames = g.input("frames", DType::F32, [count, length, FEATURES])?;
        let scores = self.scores(&mut g, frames)?;
        let chosen = g.argmax(scores, 2)?;
        g.output("chosen", chosen)?;
        let mut program = Program::new(g, &[], store, &context.engine()?)?;
        let mut draws = Context { seed: 77, ..Default::default() }.draws("recogniser.held out");
        let utterances: Vec<Utterance> = (0..count).map(|_| utterance(&mut draws, FRAMES)).collect();
        let frames: Vec<f32> = utterances.iter().flat_map(|own| delayed(own, delay).frames).collect();
        program.set_f32("frames", &[count, length, FEATURES], &frames)?;
        program.run(store)?;
        let (mut wrong, mut off, mut symbols) = (0, 0, 0);
        for (own, chosen) in utterances.iter().zip(program.i32("chosen")?.chunks(length)) {
            let heard: Vec<usize> = chosen[delay..].iter().map(|&id| id as usize).collect();
            wrong += heard.iter().zip(&own.symbols).filter(|(a, b)| a != b).count();
            off += generic_levenshtein(&text(&heard), &text(&own.symbols));
            symbols += text(&own.symbols).len();
        }
        Ok([wrong as f64 / (count * FRAMES) as f64, off as f64 / symbols as f64])
    }
}

/// Silence at the end, so that the last frames are answered too.
fn delayed(own: &Utterance, delay: usize) -> Utterance {
    let mut frames = own.frames.clone();
    frames.extend(vec![0.0; delay * FEATURES]);
    Utterance { frames, symbols: own.symbols.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_are_one_symbol() {
        assert_eq!(text(&[1, 1, 2, 2, 1]), [1, 2, 1]);
    }

    #[test]
    fn an_utterance_has_a_symbol_for_each_frame() {
        let own = utterance(&mut Context::default().draws("test"), 40);
        assert_eq!((own.frames.len(), own.symbols.len()), (40 * FEATURES, 40));
        assert!(text(&own.symbols).len() >= 6);
    }
}
