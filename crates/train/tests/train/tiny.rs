//! The small task of these tests: points of a few classes, a network of two layers with dropout.

use regard_data::{Batch, Error, Field, Source};
use regard_device::Stream;
use regard_engine::{Cpu, Store};
use regard_graph::{DType, Graph, Init, Result, Var, shape};
use regard_ops::prelude::*;
use regard_ops::{Activation, CrossEntropyOptions, LinearOptions};
use regard_train::{
    Examiner, Length, Listener, Mode, Outcome, Run, RunFolder, Settings, Silent, StepRecord, Task, Trainer,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub const FEATURES: usize = 8;
pub const CLASSES: usize = 4;

/// Two layers: `hidden` and `head`.
pub struct Network {
    pub width: usize,
    pub dropout: f32,
    pub biases: bool,
}

pub const SMALL: Network = Network { width: 16, dropout: 0.1, biases: true };

impl Task for Network {
    fn record(&self, g: &mut Graph, scale: Var, mode: Mode) -> Result<Var> {
        let b = g.open('B', 4096)?;
        let x = g.input("x", DType::F32, shape![b, FEATURES])?;
        let class = g.input("class", DType::I32, shape![b])?;
        let x = g.scope("hidden", |g| -> Result<Var> {
            let weight = g.parameter("hidden.weight", [self.width, FEATURES], Init::Normal(0.3))?;
            let bias =
                if self.biases { Some(g.parameter("hidden.bias", [self.width], Init::Zeros)?) } else { None };
            let x = g.linear(
                x,
                weight,
                LinearOptions { bias, activation: Activation::Gelu, ..Default::default() },
            )?;
            g.dropout(x, if mode == Mode::Train { self.dropout } else { 0.0 })
        })?;
        g.scope("head", |g| {
            let weight = g.parameter("head.weight", [CLASSES, self.width], Init::Normal(0.3))?;
            let logits =
                g.linear(x, weight, LinearOptions { output: Some(DType::F32), ..Default::default() })?;
            let losses = g.cross_entropy(logits, class, CrossEntropyOptions::default())?;
            let scaled = g.mul(losses, scale)?;
            g.sum_all(scaled)
        })
    }
}

/// Points around the corners of a cube, drawn anew by epoch, index and example.
#[derive(Clone)]
pub struct Points {
    pub batches: usize,
    pub batch: usize,
    pub seed: u64,
}

pub const POINTS: Points = Points { batches: 10, batch: 12, seed: 5 };

impl Points {
    /// Example `number` of an epoch.
    fn example(&self, epoch: u64, number: usize) -> (Vec<f32>, i32) {
        let stream = Stream::new(self.seed, epoch, "points");
        let class = (number % CLASSES) as i32;
        let noise = (0..FEATURES).map(|i| 0.5 * stream.normal(number as u32, 0, i as u32) as f32);
        let corner = (0..FEATURES).map(|i| if i % CLASSES == class as usize { 1.0 } else { -0.5 });
        (noise.zip(corner).map(|(a, b): (f32, f32)| a + b).collect(), class)
    }
}

impl Source for Points {
    fn batches(&self, _epoch: u64) -> usize {
        self.batches
    }

    fn batch(&self, epoch: u64, index: usize) -> Result<Batch, Error> {
        let examples = (0..self.batch).map(|i| self.example(epoch, index * self.batch + i));
        let (x, class): (Vec<Vec<f32>>, Vec<i32>) = examples.unzip();
        let count = self.batch as u64;
        Ok(Batch {
            fields: vec![
                Field::f32("x", &[self.batch, FEATURES], x.concat()),
                Field::i32("class", &[self.batch], class),
            ],
            targets: count,
            tokens: count,
            examples: count,
        })
    }
}

/// Settings at which the small network learns.
pub fn settings(steps: u64) -> Settings {
    Settings { learning_rate: 0.02, length: Length::Steps(steps), seed: 3, ..Settings::default() }
}

/// A folder that is removed again.
pub struct Temporary(PathBuf);

impl Temporary {
    pub fn new(name: &str) -> Temporary {
        let path = std::env::temp_dir().join(format!("regard-train-{}-{name}", std::process::id()));
        std::fs::remove_dir_all(&path).ok();
        Temporary(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// What a run of these tests varies.
pub struct Trial<'a> {
    pub network: Network,
    pub settings: Settings,
    pub source: Points,
    pub evaluation: Option<Points>,
    pub folder: Option<&'a RunFolder>,
    pub threads: usize,
}

impl Trial<'_> {
    pub fn new(settings: Settings) -> Trial<'static> {
        Trial { network: SMALL, settings, source: POINTS, evaluation: None, folder: None, threads: 2 }
    }

    /// Runs it, and returns what it came to with the store.
    pub fn run(self) -> regard_train::Result<(Outcome, Store)> {
        self.run_with(&mut Silent, None, &AtomicBool::new(false))
    }

    pub fn run_with(
        self,
        listener: &mut dyn Listener,
        examiner: Option<&mut dyn Examiner>,
        stop: &AtomicBool,
    ) -> regard_train::Result<(Outcome, Store)> {
        let cpu = Cpu::with(self.threads, regard_device::Level::best()).unwrap();
        let mut store = Store::new(11);
        let mut trainer = Trainer::new(&self.network, self.settings, &mut store, &cpu)?;
        let mut run = Run::new(Arc::new(self.source));
        run.evaluation = self.evaluation.map(|points| Arc::new(points) as Arc<dyn Source>);
        (run.folder, run.stop) = (self.folder, Some(stop));
        run.listener = Some(listener);
        if let Some(examiner) = examiner {
            run.examiner = Some(examiner);
        }
        let outcome = trainer.run(&mut store, run)?;
        Ok((outcome, store))
    }
}

/// Raises the flag after a step.
pub struct StopAt<'a>(pub u64, pub &'a AtomicBool);

impl Listener for StopAt<'_> {
    fn stepped(&mut self, record: &StepRecord) {
        if record.step == self.0 {
            self.1.store(true, Ordering::Relaxed);
        }
    }
}

/// The bits of everything in a store.
pub fn bits(store: &Store) -> Vec<(String, Vec<u32>)> {
    let bits = |name: &str| store.f32(name).unwrap().iter().map(|x| x.to_bits()).collect();
    store.names().map(|name| (name.to_string(), bits(name))).collect()
}
