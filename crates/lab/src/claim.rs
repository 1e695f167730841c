//! What a claim is: a sentence of the notes in our words, what must be so for it to hold, and the experiment
//! that tells.

use crate::{Context, Finding, Predicate};
use regard::Result;

/// One claim. Its id is a letter for the group and a number.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// `A1`, or `E-1` in the groups E and F, whose letters errata and figures use too.
    pub id: &'static str,
    /// A few words.
    pub title: &'static str,
    /// Where the notes say it: `S0 §1.1a`.
    pub note: &'static str,
    /// What they say, in our words.
    pub statement: &'static str,
    /// The formula that decides; empty where there is none.
    pub formula: &'static str,
    /// Where the notes are wrong or incomplete about it: `E1`.
    pub errata: &'static [&'static str],
    /// What its numbers must be for it to hold.
    pub predicate: Predicate,
    /// The experiment.
    pub run: Run,
}

/// An experiment.
pub type Experiment = fn(&Context) -> Result<Finding>;

/// How a claim is answered.
#[derive(Clone, Copy, Debug)]
pub enum Run {
    /// By identities and constructions: the answer has no chance in it.
    Exact(Experiment),
    /// By many draws: the answer has a confidence interval.
    Sampled(Experiment),
    /// By training: indicative when quick, over several random seeds in full.
    Trained(Experiment),
    /// Not yet, and what it waits for.
    Pending(&'static str),
}

/// What kind of answer a claim has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Identities and constructions.
    Exact,
    /// Many draws.
    Sampled,
    /// Training.
    Trained,
    /// None yet.
    Pending,
}

impl Evidence {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Evidence::Exact => "exact",
            Evidence::Sampled => "Monte-Carlo",
            Evidence::Trained => "trained",
            Evidence::Pending => "pending",
        }
    }
}

impl Claim {
    /// The digest of what its finding follows from: the sources of its group, what all share, and the data
    /// and settings of other crates that it uses.
    pub fn digest(&self) -> &'static str {
        macro_rules! of {
            ($($letter:literal)*) => {
                match self.group() {
                    $($letter => env!(concat!("REGARD_CLAIMS_", $letter)),)*
                    _ => "",
                }
            };
        }
        of!('A' 'B' 'C' 'D' 'E' 'F' 'G' 'H' 'I' 'J' 'K' 'L' 'M' 'N')
    }

    /// The letter of its group.
    pub fn group(&self) -> char {
        self.id.chars().next().unwrap_or('?')
    }

    /// What kind of answer it has.
    pub fn evidence(&self) -> Evidence {
        match self.run {
            Run::Exact(_) => Evidence::Exact,
            Run::Sampled(_) => Evidence::Sampled,
            Run::Trained(_) => Evidence::Trained,
            Run::Pending(_) => Evidence::Pending,
        }
    }

    /// The experiment, if there is one.
    pub fn experiment(&self) -> Option<Experiment> {
        match self.run {
            Run::Exact(run) | Run::Sampled(run) | Run::Trained(run) => Some(run),
            Run::Pending(_) => None,
        }
    }
}
