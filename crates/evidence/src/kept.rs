//! A calibration as it lies beside a model: how signs become a confidence, what it was learned from, and the
//! answers by which any error budget can be turned into a threshold later. Knows which weights it is of.

use crate::reliability::Scored;
use crate::{Budget, Calibration, Error, Result, Threshold};
use regard_data::whole;
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::path::Path;

/// A file as it was: enough to notice that it is another one now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// Its name, without the folder.
    pub name: String,
    /// How long it was.
    pub bytes: u64,
    /// When it was last changed: seconds and nanoseconds since 1970, if the system knew.
    pub modified: Option<(u64, u32)>,
}

impl Stamp {
    /// The stamp of a file; none of what cannot be looked at.
    pub fn of(path: &Path) -> Option<Stamp> {
        let known = std::fs::metadata(path).ok()?;
        let since = known.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
        let name = path.file_name()?.to_string_lossy().into_owned();
        Some(Stamp { name, bytes: known.len(), modified: since.map(|t| (t.as_secs(), t.subsec_nanos())) })
    }
}

/// A calibration with its provenance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// The weights that it is of.
    pub weights: Vec<Stamp>,
    /// The questions that it was made with: their files, and how many there were.
    pub questions: (Vec<String>, usize),
    /// The text that answers were held against, if they were: its files.
    pub corpus: Option<Vec<String>>,
    /// From this number the questions were divided.
    pub seed: u64,
    /// From signs to confidence.
    pub calibration: Calibration,
    /// Answers by which the calibration was learned and thresholds are put in an order: confidence, and
    /// whether it was right.
    pub order: Vec<Scored>,
    /// Answers that were used for nothing else: thresholds are tested with them.
    pub test: Vec<Scored>,
}

/// Beyond this no calibration goes: a million questions have less.
const LARGEST: u64 = 256 << 20;

impl Kept {
    /// Reads a calibration.
    pub fn read(path: impl AsRef<Path>) -> Result<Kept> {
        let path = path.as_ref();
        let wrong = |error| Error::from(regard_data::Error::io("read", path, error));
        let mut text = String::new();
        let file = std::fs::File::open(path).map_err(wrong)?;
        file.take(LARGEST).read_to_string(&mut text).map_err(wrong)?;
        serde_json::from_str(&text).map_err(|error| {
            Error::invalid(
                format!("{}: is no calibration ({error})", path.display()),
                "remove it, and calibrate again",
            )
        })
    }

    /// Writes it, whole or not at all.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<()> {
        // Numbers, strings and lists of them: nothing that JSON cannot hold.
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        Ok(whole::write(path, |file| writeln!(file, "{text}"))?)
    }

    /// From which confidence on to answer, to keep a budget.
    pub fn threshold(&self, budget: Budget) -> Result<Threshold> {
        Threshold::learn(&self.order, &self.test, budget)
    }

    /// The share of wrong answers among those that were tested, if all were given.
    pub fn risk(&self) -> f64 {
        let wrong = self.test.iter().filter(|(_, right)| !right).count();
        wrong as f64 / self.test.len().max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Example;

    #[test]
    fn what_is_no_calibration_is_said() {
        let folder = std::env::temp_dir().join(format!("regard-kept-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("calibration.json");
        let examples = [(0.0, false), (1.0, true)].map(|(sign, right)| Example { signs: vec![sign], right });
        let kept = Kept {
            weights: Stamp::of(&folder).into_iter().collect(),
            questions: (vec!["dev.tsv".into()], 4),
            corpus: None,
            seed: 7,
            calibration: Calibration::fit(&["sign"], &examples).unwrap(),
            order: vec![(0.25, false), (0.5, true)],
            test: Vec::new(),
        };
        kept.write(&path).unwrap();
        let again = Kept::read(&path).unwrap();
        assert_eq!((again.seed, &again.order, again.risk()), (7, &kept.order, 0.0));
        let budget = Budget::new(0.1, 0.95).unwrap();
        assert_eq!(
            again.threshold(budget).unwrap_err().to_string(),
            "2 answers to order thresholds by, 0 to test them with; give at least one of each"
        );
        std::fs::write(&path, "{").unwrap();
        let text = Kept::read(&path).unwrap_err().to_string();
        assert!(text.contains("calibration.json: is no calibration (EOF"), "{text}");
        assert!(text.ends_with("; remove it, and calibrate again"), "{text}");
        let text = kept.write(&folder).unwrap_err().to_string();
        assert!(text.ends_with("is a folder; name a file to write"), "{text}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
