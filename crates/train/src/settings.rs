//! How a run is trained: everything that decides its bits, and a little that does not.

use crate::{Error, Result, Schedule, matches};
use regard_graph::{Graph, Precision, Role, Var};
use regard_ops::{AdamW, Optimizer, Sgd, StepGroup};

/// How long a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// So many updates.
    Steps(u64),
    /// So many times through the source.
    Epochs(u64),
}

/// How often something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Every {
    /// At the end of the run only.
    End,
    /// After so many steps, and at the end.
    Steps(u64),
    /// After so many epochs, and at the end.
    Epochs(u64),
}

/// Which parameters weight decay is for, unless a group says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Decay {
    /// All of them.
    Everything,
    /// All but those whose name ends in `bias`.
    NotBiases,
    /// Those with two axes or more: no biases, no norms.
    #[default]
    Matrices,
}

/// Parameters that are trained differently. The first group whose pattern fits a parameter's name takes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Which parameters, see [`matches()`].
    pub pattern: String,
    /// What the learning rate is multiplied by.
    pub rate: f64,
    /// Their weight decay, whatever [`Decay`] says.
    pub weight_decay: Option<f64>,
    /// They stay as they are: no gradient is computed for them.
    pub frozen: bool,
}

impl Group {
    /// A group that changes nothing yet.
    pub fn of(pattern: impl Into<String>) -> Group {
        Group { pattern: pattern.into(), rate: 1.0, weight_decay: None, frozen: false }
    }

    /// A group that is not trained.
    pub fn frozen(pattern: impl Into<String>) -> Group {
        Group { frozen: true, ..Group::of(pattern) }
    }
}

/// The metric by which checkpoints are compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Goal {
    /// `loss` (of the evaluation), or a name that the [`Examiner`](crate::Examiner) gives.
    pub metric: String,
    /// True for accuracies, false for losses.
    pub higher: bool,
    /// Stop after so many evaluations without a better one.
    pub patience: Option<u64>,
}

impl Default for Goal {
    fn default() -> Self {
        Goal { metric: "loss".into(), higher: false, patience: None }
    }
}

/// When a run is given up although its numbers are finite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Divergence {
    /// The loss counts as lost above this many times the lowest loss of a step so far.
    pub factor: f64,
    /// Stop after so many such steps in a row.
    pub steps: u64,
}

/// How a run is trained.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// How parameters are updated; its weight decay is for those that `decay` chooses.
    pub optimizer: Optimizer,
    /// Which parameters decay.
    pub decay: Decay,
    /// Parameters that are trained differently.
    pub groups: Vec<Group>,
    /// The learning rate, before schedule and groups.
    pub learning_rate: f64,
    /// Its course.
    pub schedule: Schedule,
    /// The largest global norm of the gradients.
    pub clip: Option<f64>,
    /// Precision of products and attention.
    pub precision: Precision,
    /// How many batches of the source make one step.
    pub micro_batches: usize,
    /// How long the run is.
    pub length: Length,
    /// Seeds dropout; the order of the data is the source's.
    pub seed: u64,
    /// When to evaluate.
    pub evaluate: Every,
    /// When to save, besides after every evaluation.
    pub save: Every,
    /// What "better" means.
    pub goal: Goal,
    /// When to give up.
    pub divergence: Option<Divergence>,
    /// A line of metrics for every so many steps. Changes no bit of the run.
    pub log_every: u64,
    /// Reads the loss and the norm of the gradients after every so many steps, of which `log_every` is a
    /// multiple. In between, nothing waits for the device: a line then also says the mean loss of all steps
    /// since the line before, which is summed up where the losses are. Changes no bit of what is learnt. What
    /// is not finite, or far above the best, is noticed at the next reading, and before anything is evaluated
    /// or saved at the latest; what is found to be wrong may then be a parameter that an earlier step has
    /// spoilt, instead of the layer that did it.
    pub read_every: u64,
    /// Parameters that never change and come from elsewhere, such as the model under adapters: checkpoints
    /// leave them out, and whoever resumes has them in the store.
    pub elsewhere: Vec<String>,
    /// What else decides the run, by name, as its caller knows it: the model, the data. Shown in the report,
    /// and compared when the run is resumed.
    pub about: Vec<(String, String)>,
}

impl Default for Settings {
    /// AdamW at 1e-3 with a clip of 1, one epoch.
    fn default() -> Self {
        Settings {
            optimizer: Optimizer::AdamW(AdamW::default()),
            decay: Decay::default(),
            groups: Vec::new(),
            learning_rate: 1e-3,
            schedule: Schedule::CONSTANT,
            clip: Some(1.0),
            precision: Precision::F32,
            micro_batches: 1,
            length: Length::Epochs(1),
            seed: 0,
            evaluate: Every::Epochs(1),
            save: Every::Epochs(1),
            goal: Goal::default(),
            divergence: None,
            log_every: 1,
            read_every: 1,
            elsewhere: Vec::new(),
            about: Vec::new(),
        }
    }
}

/// Settings that may differ between a run and its resumption: they decide how long and how loudly, not what
/// is learnt.
const FREE: [&str; 3] = ["length", "save", "log_every"];
/// A fact only where it is not 1.
const READ_EVERY: &str = "read_every";

impl Settings {
    /// Everything that was said about the run, then every setting, as a name and a text: what a checkpoint
    /// holds, a report shows and a resumption compares.
    pub fn facts(&self) -> Vec<(String, String)> {
        let optimizer = match self.optimizer {
            Optimizer::AdamW(AdamW { beta1, beta2, epsilon, weight_decay }) => {
                format!("AdamW, betas {beta1} and {beta2}, epsilon {epsilon:e}, weight decay {weight_decay}")
            }
            Optimizer::Sgd(Sgd { momentum, nesterov, weight_decay }) => {
                let kind = if nesterov { "Nesterov momentum" } else { "momentum" };
                format!("SGD, {kind} {momentum}, weight decay {weight_decay}")
            }
        };
        let groups: Vec<String> = self.groups.iter().map(group_text).collect();
        let Schedule { shape, unit, warm_up, end, floor } = self.schedule;
        let lower = |thing: &dyn std::fmt::Debug| format!("{thing:?}").to_lowercase();
        let schedule =
            format!("{} by {}, warm-up {warm_up}, end {end}, floor {floor}", lower(&shape), lower(&unit));
        let every = |every: Every| match every {
            Every::End => "at the end".to_string(),
            Every::Steps(n) => format!("every {n} steps"),
            Every::Epochs(n) => format!("every {n} epochs"),
        };
        let decay = match self.decay {
            Decay::Everything => "of everything",
            Decay::NotBiases => "of everything but biases",
            Decay::Matrices => "of matrices",
        };
        let length = match self.length {
            Length::Steps(n) => format!("{n} steps"),
            Length::Epochs(n) => format!("{n} epochs"),
        };
        let own = [
            ("optimizer", optimizer),
            ("decay", decay.into()),
            ("groups", if groups.is_empty() { "none".into() } else { groups.join("; ") }),
            ("learning_rate", self.learning_rate.to_string()),
            ("schedule", schedule),
            ("clip", self.clip.map_or("none".into(), |most| most.to_string())),
            ("precision", lower(&self.precision)),
            ("micro_batches", self.micro_batches.to_string()),
            ("length", length),
            ("seed", self.seed.to_string()),
            ("evaluate", every(self.evaluate)),
            ("save", every(self.save)),
            ("goal", format!("{}, {}", self.goal.metric, if self.goal.higher { "higher" } else { "lower" })),
            ("patience", self.goal.patience.map_or("none".into(), |patience| patience.to_string())),
            (
                "divergence",
                self.divergence.map_or("none".into(), |d| format!("{} times, {} steps", d.factor, d.steps)),
            ),
            ("log_every", self.log_every.to_string()),
        ];
        let reading = (self.read_every > 1).then(|| (READ_EVERY, self.read_every.to_string()));
        let own = own.into_iter().chain(reading).map(|(name, text)| (name.to_string(), text));
        self.about.iter().cloned().chain(own).collect()
    }

    /// What has changed since these facts were written, apart from what may.
    pub(crate) fn changes(&self, facts: &serde_json::Map<String, serde_json::Value>) -> Vec<String> {
        let now = self.facts().into_iter().filter(|(name, _)| name != READ_EVERY);
        let reading = (READ_EVERY.to_string(), self.read_every.to_string());
        let now = now.filter(|(name, _)| !FREE.contains(&name.as_str())).chain([reading]);
        now.filter_map(|(name, now)| {
            let absent = if name == READ_EVERY { "1" } else { "not given" };
            let before = facts.get(&name).and_then(|value| value.as_str()).unwrap_or(absent);
            (before != now).then(|| format!("{name} was `{before}`, is `{now}`"))
        })
        .collect()
    }

    /// Refuses what makes no sense, before anything is recorded.
    pub(crate) fn check(&self) -> Result<()> {
        let positive = |what: &str, number: f64| match number > 0.0 && number.is_finite() {
            true => Ok(()),
            false => Err(Error::invalid(format!("the {what} is {number}"), "give a number above 0")),
        };
        let some = |what: &str, number: u64| match number {
            0 => Err(Error::invalid(format!("{what} is 0"), "give at least 1")),
            _ => Ok(()),
        };
        positive("learning rate", self.learning_rate)?;
        self.clip.map_or(Ok(()), |most| positive("clip", most))?;
        self.schedule.check()?;
        some("micro_batches", self.micro_batches as u64)?;
        some("log_every", self.log_every)?;
        some("read_every", self.read_every)?;
        if !self.log_every.is_multiple_of(self.read_every) {
            return Err(Error::invalid(
                format!(
                    "a line is due every {} steps, the loss is read every {}",
                    self.log_every, self.read_every
                ),
                "give a `log_every` that is a multiple of `read_every`",
            ));
        }
        match self.length {
            Length::Steps(n) | Length::Epochs(n) => some("the length of the run", n)?,
        }
        for (what, every) in [("evaluate", self.evaluate), ("save", self.save)] {
            match every {
                Every::Steps(n) | Every::Epochs(n) => some(&format!("`{what}` every"), n)?,
                Every::End => {}
            }
        }
        self.goal.patience.map_or(Ok(()), |patience| some("patience", patience))?;
        if let Some(Divergence { factor, steps }) = self.divergence {
            some("the steps of a divergence", steps)?;
            if factor.is_nan() || factor <= 1.0 {
                return Err(Error::invalid(
                    format!("a loss of {factor} times the best counts as divergence"),
                    "give a factor above 1",
                ));
            }
        }
        Ok(())
    }

    /// The trained parameters of a graph by group, in the order of their declaration.
    pub(crate) fn step_groups(&self, g: &Graph) -> Result<Vec<StepGroup>> {
        let mut used = vec![false; self.groups.len()];
        let mut found: Vec<((f64, f64), Vec<Var>)> = Vec::new();
        for stored in g.stored().iter().filter(|stored| stored.role == Role::Parameter) {
            let group = self.groups.iter().position(|group| matches(&group.pattern, &stored.name));
            let group = group.map(|index| {
                used[index] = true;
                &self.groups[index]
            });
            if group.is_some_and(|group| group.frozen) {
                continue;
            }
            let is_bias = stored.name == "bias" || stored.name.ends_with(".bias");
            let decays = match self.decay {
                Decay::Everything => true,
                Decay::NotBiases => !is_bias,
                Decay::Matrices => stored.fact.shape.len() >= 2,
            };
            let own = group.and_then(|group| group.weight_decay);
            let decay = own.unwrap_or(if decays { self.weight_decay() } else { 0.0 });
            let key = (group.map_or(1.0, |group| group.rate), decay);
            match found.iter_mut().find(|(known, _)| *known == key) {
                Some((_, parameters)) => parameters.push(stored.current),
                None => found.push((key, vec![stored.current])),
            }
        }
        if let Some(unused) = used.iter().position(|used| !used) {
            let names: Vec<&str> = g.stored().iter().map(|stored| stored.name.as_str()).take(4).collect();
            return Err(Error::invalid(
                format!("no parameter is left for the group `{}`", self.groups[unused].pattern),
                format!(
                    "parameters have names such as {}; an earlier group may have taken them",
                    names.join(", ")
                ),
            ));
        }
        if found.is_empty() {
            return Err(Error::invalid("every parameter is frozen", "leave one that can learn"));
        }
        let group =
            |((rate, decay), parameters)| StepGroup { parameters, optimizer: self.decayed(decay), rate };
        Ok(found.into_iter().map(group).collect())
    }

    fn weight_decay(&self) -> f64 {
        match self.optimizer {
            Optimizer::AdamW(settings) => settings.weight_decay,
            Optimizer::Sgd(settings) => settings.weight_decay,
        }
    }

    fn decayed(&self, weight_decay: f64) -> Optimizer {
        match self.optimizer {
            Optimizer::AdamW(settings) => Optimizer::AdamW(AdamW { weight_decay, ..settings }),
            Optimizer::Sgd(settings) => Optimizer::Sgd(Sgd { weight_decay, ..settings }),
        }
    }
}

fn group_text(group: &Group) -> String {
    if group.frozen {
        return format!("{} frozen", group.pattern);
    }
    let decay = group.weight_decay.map_or(String::new(), |decay| format!(", weight decay {decay}"));
    format!("{} at {} of the rate{decay}", group.pattern, group.rate)
}
