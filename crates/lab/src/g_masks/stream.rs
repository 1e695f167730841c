//! Sound as it arrives: what a recogniser costs in time and memory while it listens, and what it loses
//! without the future.

use super::recogniser::{FEATURES, Recogniser, SYMBOLS, text, utterance};
use crate::experiment::{carries, each_setting, less, mean, number, one_cpu};
use crate::picture::{Axis, Chart, figure};
use crate::{Context, Effort, Finding, Number, Table, Verdict};
use regard::prelude::*;
use regard::{Result, cost};
use regard_graph::{Integers, Sizes};
use std::time::Instant;

/// Milliseconds of sound in a frame, as recognisers cut it.
const FRAME_MS: f64 = 10.0;
/// Frames that a position sees of the past.
const WINDOW: usize = 48;

/// A recogniser that hears frames in chunks, through caches that are a ring: a slot is taken over when its
/// key is out of sight.
struct Listening {
    program: Program,
    slots: usize,
    heard: usize,
    held: Vec<Option<usize>>,
}

impl Listening {
    fn new(model: &Recogniser, chunk: usize, store: &mut Store) -> Result<Listening> {
        let slots = WINDOW + chunk - 1;
        let mut g = Graph::inference();
        let frames = g.input("frames", DType::F32, [1, chunk, FEATURES])?;
        let scores = model.scores_of_more(&mut g, frames, slots)?;
        g.output("scores", scores)?;
        let program = Program::new(g, &[], store, &one_cpu()?)?;
        Ok(Listening { program, slots, heard: 0, held: vec![None; slots] })
    }

    /// The scores of the next frames.
    fn hear(&mut self, frames: &[f32], store: &mut Store) -> Result<Vec<f32>> {
        let count = frames.len() / FEATURES;
        let positions: Vec<usize> = (self.heard..self.heard + count).collect();
        for &position in &positions {
            self.held[position % self.slots] = Some(position);
        }
        self.heard += count;
        let ids = |numbers: &[usize]| numbers.iter().map(|&n| n as i32).collect::<Vec<i32>>();
        let slot: Vec<usize> = positions.iter().map(|position| position % self.slots).collect();
        let held: Vec<usize> = self.held.iter().map(|held| held.unwrap_or(0)).collect();
        let counts: Vec<bool> = self.held.iter().map(Option::is_some).collect();
        self.program.set_f32("frames", &[1, count, FEATURES], frames)?;
        self.program.set_i32("position", &[1, count], &ids(&positions))?;
        self.program.set_i32("slot", &[1, count], &ids(&slot))?;
        self.program.set_i32("key_position", &[1, self.slots], &ids(&held))?;
        self.program.set_bools("key_mask", &[1, self.slots], &counts)?;
        self.program.run(store)?;
        Ok(self.program.f32("scores")?.to_vec())
    }
}

/// The symbol with the highest score of each frame.
fn chosen(scores: &[f32]) -> Vec<usize> {
    let best = |row: &[f32]| (0..SYMBOLS).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap_or(0);
    scores.chunks(SYMBOLS).map(best).collect()
}

/// G9: a stream of frames in bounded memory, and how much faster than real time.
pub fn real_time(context: &Context) -> Result<Finding> {
    let model = Recogniser::new(true, Some(WINDOW))?;
    let frames = context.size(480, 1920);
    let sound = utterance(&mut context.draws("G9"), frames);
    let mut store = Store::new(context.seed);
    let offline = {
        let mut g = Graph::inference();
        let input = g.input("frames", DType::F32, [1, frames, FEATURES])?;
        let scores = model.scores(&mut g, input)?;
        g.output("scores", scores)?;
        let mut program = Program::new(g, &[], &mut store, &one_cpu()?)?;
        program.set_f32("frames", &[1, frames, FEATURES], &sound.frames)?;
        program.run(&mut store)?;
        program.f32("scores")?.to_vec()
    };
    let mut table = Table::new(
        "One thread, frames of 10 ms, a view of 48 frames",
        &[
            "frames in a chunk",
            "latency of the chunk, ms",
            "work on it, ms",
            "real-time factor",
            "multiply-adds a frame",
            "bytes of caches",
        ],
    );
    let (mut off, mut other, mut line, mut factors) = (0.0f64, 0, vec![], vec![]);
    let mut grown = 0;
    for chunk in [1usize, 4, 16, 48] {
        let mut own = Store::new(context.seed);
        let mut listening = Listening::new(&model, chunk, &mut own)?;
        let found = cost::cost(listening.program.graph(), &Sizes::none(), &Integers::none(), None)?;
        let each = found.by_op().values().map(|cost| cost.macs).sum::<u64>() / chunk as u64;
        let (mut scores, mut times) = (vec![], vec![]);
        let before = own.bytes();
        for frames in sound.frames.chunks(chunk * FEATURES) {
            let begun = Instant::now();
            scores.extend(listening.hear(frames, &mut own)?);
            times.push(begun.elapsed().as_secs_f64() * 1e3);
        }
        off = scores.iter().zip(&offline).map(|(a, b)| f64::from((a - b).abs())).fold(off, f64::max);
        other += usize::from(text(&chosen(&scores)) != text(&chosen(&offline)));
        grown += own.bytes().abs_diff(before);
        times.sort_by(f64::total_cmp);
        let typical = times[times.len() / 2];
        let factor = typical / (chunk as f64 * FRAME_MS);
        let caches: Vec<&str> = own.names().filter(|name| name.starts_with("cache.")).collect();
        let numbers = caches.iter().map(|name| Ok(own.f32(name)?.len())).sum::<Result<usize>>()?;
        let cells = [chunk as f64 * FRAME_MS, typical, factor].map(figure);
        let row =
            [vec![chunk.to_string()], cells.to_vec(), vec![each.to_string(), (4 * numbers).to_string()]];
        table.row(row.concat());
        line.push((chunk as f64, factor));
        factors.push(factor);
    }
    Ok(Finding::new(
        Verdict::Holds,
        format!(
            "Heard in chunks through a ring of keys, the text is that of the whole recording, whatever the chunk; memory does not grow with \
             what was heard. Here a second of sound takes {} s in chunks of one frame and {} s in chunks of 16.",
            figure(factors[0]),
            figure(factors[2])
        ),
    )
    .number(Number::count("chunkings whose text differs from the whole recording’s", other, 0))
    .number(Number::at_most("largest difference of a score", off, 1e-4))
    .number(Number::count("bytes by which the model’s memory grew while it listened, all chunkings", grown, 0))
    .numbers([1usize, 4, 16, 48].iter().zip(&factors).map(|(chunk, factor)| {
        Number::at_most(format!("chunks of {chunk}: real-time factor (below 1 keeps up)"), *factor, 1.0)
    }))
    .table(table)
    .picture(
        Chart::new("Real-time factor against the chunk", Axis::log("frames in a chunk"), Axis::log("seconds of work for a second"))
            .line("measured", line)
            .dashed("real time", [(1.0, 1.0), (48.0, 1.0)]),
    )
    .how("The recogniser of G10 with a window and ring caches, untrained; times are medians over chunks on one thread. Latency is the chunk, plus the delay of G10 where there is one."))
}

/// G10: error against how much of the future is heard.
pub fn price_of_no_future(context: &Context) -> Result<Finding> {
    let steps = context.size(150, 500);
    let delays: &[usize] = match context.effort {
        Effort::Quick => &[0, 6],
        Effort::Full => &[0, 1, 2, 4, 6],
    };
    let views: Vec<(bool, usize)> = delays.iter().map(|&delay| (true, delay)).chain([(false, 0)]).collect();
    let found = each_setting(context, &views, |&(causal, delay), seed| {
        let model = Recogniser::new(causal, None)?;
        let mut store = model.train(context, delay, steps, seed)?;
        model.examine(context, delay, &mut store, 64)
    })?;
    let of = |view: usize, what: usize| found[view].iter().map(|run| run[what]).collect::<Vec<f64>>();
    let (far, all) = (delays.len() - 1, delays.len());
    let mut table = Table::new(
        "Held-out utterances",
        &["frames of the future", "latency, ms", "frames wrong", "errors of the text"],
    );
    let mut lines = [vec![], vec![]];
    let mut finding = Finding::measured(format!(
        "Without any of the future {} of the frames are named wrongly; with {} frames of it {}, with all of it {}. {}",
        figure(mean(&of(0, 0))),
        delays[far],
        figure(mean(&of(far, 0))),
        figure(mean(&of(all, 0))),
        carries(context)
    ))
    .seeds(found[0].len());
    for (view, (causal, delay)) in views.iter().enumerate() {
        let name = if *causal { delay.to_string() } else { "all".to_string() };
        let latency = if *causal { figure(*delay as f64 * FRAME_MS) } else { "the whole utterance".into() };
        let [frame, text] = [0, 1].map(|what| mean(&of(view, what)));
        table.row([name.clone(), latency, figure(frame), figure(text)]);
        finding = finding
            .number(number(
                format!("{name} frames of the future: share of frames that are wrong"),
                &of(view, 0),
            ))
            .number(number(
                format!("{name} frames of the future: errors over symbols of the text"),
                &of(view, 1),
            ));
        if *causal {
            lines[0].push((*delay as f64, frame));
            lines[1].push((*delay as f64, text));
        }
    }
    let [frame_line, text_line] = lines;
    let (last, wide) = (mean(&of(all, 0)), delays[far] as f64);
    Ok(finding
        .number(less("share of frames that are wrong: no future less the whole utterance", &of(0, 0), &of(all, 0)))
        .number(less("share of frames that are wrong: no future less six frames of it", &of(0, 0), &of(far, 0)))
        .table(table)
        .picture(
            Chart::new("Error against look-ahead", Axis::new("frames of the future"), Axis::new("error").covering(&[0.0]))
                .line("frames wrong", frame_line)
                .line("errors of the text", text_line)
                .dashed("frames wrong, the whole utterance", [(0.0, last), (wide, last)]),
        )
        .how("Frames of 12 features drawn like sound, not recorded: symbols of 3 to 6 frames in pairs that sound alike until their last frame. Two blocks of width 32; look-ahead is a delay of the answer, so that the model stays causal and streams as in G9. Errors of the text are edits over symbols after repeats are joined; differences seed by seed."))
}
