//! The study on paper: its table, its answers for the report, and the file of predictions.

use super::{Answer, ArmResult, Study, StudyData};
use crate::{Error, Result};
use regard_data::whole;
use regard_picture::{Section, Table, document, escaped};
use regard_train::History;
use regard_train::report::loss_curves;
use std::io::Write;
use std::path::Path;

impl Study {
    /// The table, as plain text.
    pub fn table(&self) -> String {
        self.results().text()
    }

    fn results(&self) -> Table {
        let heads = ["", "parameters", "seconds", "loss (reading)", "loss (answers)", "right (dev)"];
        let mut table = Table::new(heads);
        for result in &self.arms {
            let loss = |loss: Option<f64>| loss.map_or("–".to_string(), |loss| format!("{loss:.3}"));
            table = table.row([
                result.arm.title().into(),
                result.parameters.to_string(),
                format!("{:.0}", result.seconds),
                loss(result.reading_loss()),
                loss(result.answering_loss()),
                percent(result.accuracy()),
            ]);
        }
        let always = format!("always “{}”", self.baseline.0);
        let none = String::new;
        table.row([always, none(), none(), none(), none(), percent(self.baseline.1)])
    }

    /// A page of its own: table, curves, wrong answers. `lead` says what the study was made of.
    pub fn report(&self, title: &str, lead: &str, data: &StudyData) -> String {
        document(title, lead, &self.sections(data))
    }

    /// The table, the curves, and the wrong answers of each arm with the line that would have told, for a
    /// report.
    pub fn sections(&self, data: &StudyData) -> Vec<Section> {
        let table = Section { title: "The study".into(), html: self.results().html(escaped) };
        let runs = |of: fn(&ArmResult) -> &History| -> Vec<(&str, &History)> {
            self.arms.iter().map(|result| (result.arm.title(), of(result))).collect()
        };
        let figures = [
            ("Loss while reading", runs(|result| &result.reading)),
            ("Loss while learning to answer", runs(|result| &result.answering)),
        ];
        let curves = Section { title: "Curves".into(), html: loss_curves(&figures) };
        let browsers = self.arms.iter().map(|result| Section {
            title: format!("Wrong answers: {}", result.arm.title()),
            html: wrong_answers(result, data),
        });
        [table, curves].into_iter().chain(browsers).collect()
    }
}

impl ArmResult {
    /// Writes the answers to the test questions, one on each line: the form in which the course takes them.
    pub fn write_predictions(&self, path: impl AsRef<Path>) -> Result<()> {
        if self.test.is_empty() {
            return Err(Error::invalid("there are no test questions", "name their file"));
        }
        write_predictions(&self.test, path)
    }
}

/// Writes answers, one on each line: the form in which the course takes them. The end of a line that a model
/// says inside of an answer becomes a space, so that answers and lines stay in step.
pub(crate) fn write_predictions<S: AsRef<str>>(answers: &[S], path: impl AsRef<Path>) -> Result<()> {
    let text: String =
        answers.iter().map(|answer| answer.as_ref().replace(['\n', '\r'], " ") + "\n").collect();
    Ok(whole::write(path.as_ref(), |file| file.write_all(text.as_bytes()))?)
}

fn percent(fraction: f64) -> String {
    format!("{:.1} %", 100.0 * fraction)
}

fn wrong_answers(result: &ArmResult, data: &StudyData) -> String {
    let wrong: Vec<&Answer> = result.dev.iter().filter(|answer| !answer.is_right()).collect();
    let rows = wrong.iter().map(|answer| {
        let line = data.line_of(&answer.question).unwrap_or("no line tells of this person");
        [&answer.question, &answer.answered, &answer.place, line]
    });
    let table = rows.fold(Table::new(["question", "said", "right", "the line"]), Table::row);
    format!(
        "<details><summary>{} of {} answers are wrong</summary>{}</details>",
        wrong.len(),
        result.dev.len(),
        table.html(escaped)
    )
}
