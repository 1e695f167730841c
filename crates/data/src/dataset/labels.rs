//! Labels: the distinct names of a training set, sorted, and the class number of each.

use super::nearest::nearest;
use crate::error::{listed, shown};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The names of classes; the class of a name is its place. In JSON, a list of names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct Labels {
    names: Vec<String>,
}

impl Labels {
    /// The distinct names among these, sorted: as numbers if all are numbers, else as texts.
    pub fn of<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Result<Labels> {
        let mut distinct: BTreeSet<String> = BTreeSet::new();
        for name in names {
            if !distinct.contains(name.as_ref()) {
                distinct.insert(name.as_ref().to_owned());
            }
        }
        let mut names: Vec<String> = distinct.into_iter().collect();
        let numbers: Option<Vec<i64>> = names.iter().map(|name| name.parse().ok()).collect();
        if let Some(numbers) = numbers {
            let mut both: Vec<(i64, String)> = numbers.into_iter().zip(names).collect();
            both.sort();
            names = both.into_iter().map(|(_, name)| name).collect();
        }
        Labels::in_order(names)
    }

    /// These names, in this order.
    pub fn in_order<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Result<Labels> {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        let distinct: BTreeSet<&String> = names.iter().collect();
        if distinct.len() < names.len() {
            return Err(Error::invalid(
                format!("the labels {} are not distinct", listed(&names)),
                "name each class once",
            ));
        }
        if names.len() < 2 {
            return Err(Error::invalid(
                match names.first() {
                    Some(only) => format!("all labels are `{}`, expected at least two classes", shown(only)),
                    None => "there are no labels, expected at least two classes".into(),
                },
                "check that the right column or folder was taken",
            ));
        }
        Ok(Labels { names })
    }

    /// How many classes there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// False: there are at least two.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The class of a name.
    pub fn class(&self, name: &str) -> Result<usize> {
        if let Some(class) = self.names.iter().position(|known| known == name) {
            return Ok(class);
        }
        let advice = match nearest(name, &self.names) {
            Some(known) => format!("the nearest is `{}`", shown(known)),
            None => format!("the labels of the training set are {}", listed(&self.names)),
        };
        Err(Error::Unknown { kind: "label", name: shown(name), advice })
    }

    /// The name of a class.
    pub fn name(&self, class: usize) -> Option<&str> {
        self.names.get(class).map(String::as_str)
    }

    /// All names, in the order of their classes.
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

impl TryFrom<Vec<String>> for Labels {
    type Error = Error;

    fn try_from(names: Vec<String>) -> Result<Labels> {
        Labels::in_order(names)
    }
}

impl From<Labels> for Vec<String> {
    fn from(labels: Labels) -> Vec<String> {
        labels.names
    }
}
