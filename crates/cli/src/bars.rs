//! How a run looks from the terminal: what it will take, a bar with rate, remaining time and loss, a line for
//! every evaluation. Where there is no terminal, a line now and then instead of the bar.

use crate::printer::note;
use indicatif::{HumanBytes, HumanDuration, ProgressBar, ProgressStyle};
use regard_recipe::job::JobListener;
use regard_train::{EvaluationRecord, Listener, Prediction, StepRecord};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Without a terminal, a line after so long.
const NOW_AND_THEN: Duration = Duration::from_secs(30);

/// No time is shown as longer: a duration has an end.
const MOST_SECONDS: f64 = 1e9;

/// Draws a run on the standard error stream.
pub struct Bars {
    bar: ProgressBar,
    terminal: bool,
    quiet: bool,
    /// The loss as it is shown: a mean that forgets.
    loss: Option<f64>,
    began: Instant,
    first: u64,
    steps: u64,
    last_line: Instant,
}

impl Bars {
    /// Nothing is drawn if `quiet`.
    pub fn new(quiet: bool) -> Bars {
        Bars {
            bar: ProgressBar::hidden(),
            terminal: std::io::stderr().is_terminal(),
            quiet,
            loss: None,
            began: Instant::now(),
            first: 0,
            steps: 0,
            last_line: Instant::now(),
        }
    }

    /// A line above the bar.
    pub fn print_line(&self, text: &str) {
        if !self.quiet {
            self.bar.suspend(|| note(text));
        }
    }

    /// Takes the bar away.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }

    /// How long the rest will take, by the mean of the steps so far.
    fn left(&self, step: u64) -> Duration {
        let done = step.saturating_sub(self.first).max(1) as f64;
        let left = self.steps.saturating_sub(step) as f64;
        Duration::from_secs_f64((self.began.elapsed().as_secs_f64() / done * left).min(MOST_SECONDS))
    }
}

impl Listener for Bars {
    fn began(&mut self, step: u64, prediction: &Prediction) {
        let Prediction { available, steps, .. } = prediction;
        let mut line = format!("{} of memory", HumanBytes(prediction.memory()));
        if let Some(available) = available {
            line += &format!(" ({} available)", HumanBytes(*available));
        }
        line += &format!(", {} steps", steps.saturating_sub(step));
        if let Some(seconds) = prediction.seconds(step).filter(|_| *steps > step) {
            let time = Duration::from_secs_f64(seconds.min(MOST_SECONDS));
            line += &format!(", about {} without evaluations", HumanDuration(time));
        }
        if step > 0 {
            line = format!("resumed after step {step}: {line}");
        }
        self.print_line(&line);
        (self.began, self.last_line, self.first, self.steps) = (Instant::now(), Instant::now(), step, *steps);
        if self.terminal && !self.quiet {
            self.bar = ProgressBar::new(*steps).with_position(step);
            let form = "{pos}/{len} {wide_bar} {msg}";
            if let Ok(style) = ProgressStyle::with_template(form) {
                self.bar.set_style(style);
            }
        }
    }

    fn stepped(&mut self, record: &StepRecord) {
        let StepRecord { step, loss, tokens_per_second, .. } = *record;
        let shown = self.loss.map_or(loss, |before| before + 0.05 * (loss - before));
        self.loss = Some(shown);
        let line = || {
            let left = HumanDuration(self.left(step));
            format!("loss {shown:.4}, {tokens_per_second:.0} tokens/s, {left} left")
        };
        if self.terminal {
            self.bar.set_position(step);
            self.bar.set_message(line());
        } else if self.last_line.elapsed() > NOW_AND_THEN {
            self.print_line(&format!("step {step} of {}: {}", self.steps, line()));
            self.last_line = Instant::now();
        }
    }

    fn evaluated(&mut self, record: &EvaluationRecord) {
        let metrics: Vec<String> =
            record.metrics.iter().map(|(name, value)| format!("{name} {value:.4}")).collect();
        let best = if record.best { ", the best so far" } else { "" };
        self.print_line(&format!("after step {}: {}{best}", record.step, metrics.join(", ")));
    }
}

impl JobListener for Bars {
    fn stage(&mut self, name: &str, number: usize, of: usize) {
        self.bar.finish_and_clear();
        self.loss = None;
        if of > 1 {
            self.print_line(&format!("stage {number} of {of}: {name}"));
        }
    }

    fn note(&mut self, text: &str) {
        self.print_line(text);
    }
}
