//! Measuring the rates: ceilings and small programs, in rounds that lie moments apart, of which the best
//! counts. A machine that others use, or that shares its metal, is slow for seconds at a time. Whoever
//! measures a model as well does so between the rounds, so that rates and model meet the machine in the same
//! moods.

use super::cards::{Cards, Sample};
use super::clock::Nodes;
use super::load::{Machine, loads};
use super::usual::{self, Size, Style};
use crate::{Error, Result};
use regard_device::cpu::ceiling;
use regard_engine::{Cpu, Program, Store};
use regard_graph::{Init, Precision, Role};

/// As many rounds are enough on a machine that is calm now and then. Each takes two seconds, with training
/// three.
pub const ROUNDS: usize = 4;

/// In a round each small program is run for so many nanoseconds, but no fewer and no more times than these.
const PATIENCE: f64 = 8e6;
const TIMES: (usize, usize) = (4, 12);

/// Rates that are being measured.
pub struct Calibration {
    cpu: Cpu,
    training: bool,
    precision: Precision,
    machine: Option<Machine>,
    programs: Vec<(Size, Style, Nodes)>,
}

impl Calibration {
    /// Nothing is measured yet.
    pub fn new(cpu: &Cpu, training: bool, precision: Precision) -> Calibration {
        let programs = usual::programs(training).map(|(size, style)| (size, style, Nodes::none())).collect();
        Calibration { cpu: cpu.clone(), training, precision, machine: None, programs }
    }

    /// Measures everything once more.
    pub fn round(&mut self) -> Result<()> {
        let (pool, level) = (self.cpu.pool(), self.cpu.level());
        let ceilings = ceiling::measure(pool, level).map_err(regard_engine::Error::from)?;
        let reading = ceiling::reading(pool, level).map_err(regard_engine::Error::from)?;
        let machine = Machine { ceilings, reading };
        self.machine = Some(match self.machine.take() {
            Some(before) => before.or(&machine),
            None => machine,
        });
        // Each program is made anew: together they would fill a gigabyte.
        for (size, style, nodes) in &mut self.programs {
            let mut store = Store::new(1);
            let graph = usual::record(*size, *style, self.training, self.precision)?;
            // Zeros are as fast to multiply as anything, and are there at once.
            for stored in graph.stored().iter().filter(|stored| stored.role == Role::Parameter) {
                store.declare(&stored.name, &stored.fact.shape, Init::Zeros)?;
            }
            let mut program = Program::new(graph, &[], &mut store, &self.cpu)?;
            usual::feed(&mut program, *size)?;
            // Pages that are touched and weights that are packed for the first time.
            program.run(&mut store)?;
            let (mut times, mut passed) = (0, 0.0);
            while times < TIMES.0 || (times < TIMES.1 && passed < PATIENCE) {
                passed += nodes.run(&mut program, &mut store)?;
                times += 1;
            }
        }
        Ok(())
    }

    /// What the rounds so far say.
    pub fn cards(&self) -> Result<Cards> {
        let Some(machine) = &self.machine else {
            return Err(Error::invalid("no round of measuring rates", "measure at least one"));
        };
        let (mut samples, mut wholes) = (Vec::new(), Vec::new());
        for (size, style, nodes) in &self.programs {
            wholes.push(nodes.whole);
            let graph = usual::record(*size, *style, self.training, self.precision)?;
            for (_, load) in loads(&graph, machine)? {
                if let Some(&nanoseconds) = nodes.least.get(&load.node) {
                    samples.push(Sample { load, nanoseconds: nanoseconds.max(1.0) });
                }
            }
        }
        Ok(Cards::fit(machine.clone(), self.cpu.pool().threads(), &samples, wholes))
    }
}
