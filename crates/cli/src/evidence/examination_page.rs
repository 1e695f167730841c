//! An examination on paper: tables, diagrams, the worst mistakes with their lines; and for programs.

use super::examination::{Examination, Kept, SPLITS};
use super::{confidence_figures, plain, source};
use regard_evidence::{Index, Verdict};
use regard_picture::{Section, Table, escaped};
use serde_json::{Value, json};

/// The worst mistakes that a page shows.
const WORST: usize = 25;

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

fn share(part: usize, all: usize) -> String {
    if all == 0 { "–".into() } else { percent(part as f64 / all as f64) }
}

impl Examination {
    /// What the text says, how right that is, and the same for questions without answers.
    fn verdict_table(&self) -> Table {
        let asked: usize = self.test.iter().sum();
        let mut table = Table::new(["verdict", "answers", "right", "share", "of the test questions"]);
        for ((verdict, (all, right)), test) in Verdict::ALL.iter().zip(self.verdicts).zip(self.test) {
            let cells = [
                verdict.name().to_string(),
                all.to_string(),
                right.to_string(),
                share(right, all),
                share(test, asked),
            ];
            table = table.row(cells);
        }
        table
    }

    fn budget_table(&self) -> Table {
        let heads = [
            "error budget",
            "by",
            "answered",
            "wrong of these",
            "splits beyond it",
            "splits without a threshold",
        ];
        let mut table = Table::new(heads);
        for (own, raw) in &self.budgets {
            for (name, kept) in [("calibrated", own), ("the model's own", raw)] {
                table = table.row([
                    percent(kept.budget),
                    name.to_string(),
                    format!("{} ± {}", percent(kept.coverage), percent(kept.coverage_spread)),
                    match kept.coverage > 0.0 {
                        true => format!("{} ± {}", percent(kept.errors), percent(kept.errors_spread)),
                        false => "–".into(),
                    },
                    percent(kept.beyond),
                    percent(kept.none),
                ]);
            }
        }
        table
    }

    fn numbers_table(&self) -> Table {
        let mut rows: Vec<[String; 2]> = vec![
            ["right answers".into(), percent(self.accuracy())],
            [
                "right answers that stand in a line about the person, called supported".into(),
                format!(
                    "{} of {} ({})",
                    self.standing.1,
                    self.standing.0,
                    share(self.standing.1, self.standing.0)
                ),
            ],
            [
                "answers in strict mode".into(),
                format!("{}, {} of them without a line", self.strict.0, self.strict.1),
            ],
        ];
        for (name, error) in ["the model's own confidence is off by", "calibrated confidence is off by"]
            .iter()
            .zip(&self.errors)
        {
            let text = format!("{:.3} ({:.3} to {:.3})", error.value, error.low, error.high);
            rows.push([name.to_string(), text]);
        }
        let crossed = &self.crossed;
        rows.push(["people who do not exist: names of two, crossed".into(), crossed.asked.to_string()]);
        rows.push([
            "… answered with the place of the first name's owner".into(),
            share(crossed.first, crossed.asked),
        ]);
        rows.push([
            "… answered with the place of the last name's owner".into(),
            share(crossed.last, crossed.asked),
        ]);
        rows.push(["… found to be without evidence".into(), share(crossed.without, crossed.asked)]);
        if let Some(found) = &self.detected {
            rows.push(["people whose lines were left out".into(), found.unknown.to_string()]);
            rows.push([
                "… told from the others by the model's own confidence (area)".into(),
                format!("{:.3}", found.raw),
            ]);
            rows.push(["… by evidence".into(), format!("{:.3}", found.evidence)]);
            rows.push(["… by both".into(), format!("{:.3}", found.both)]);
        }
        rows.into_iter().fold(Table::new(["", ""]), Table::row)
    }

    /// What people read in a terminal.
    pub fn text(&self) -> String {
        format!(
            "{}\n{}\n{}",
            self.numbers_table().text(),
            self.verdict_table().text(),
            self.budget_table().text()
        )
    }

    /// What programs read.
    pub fn json(&self) -> Value {
        let kept = |kept: &Kept| {
            json!({"budget": kept.budget, "coverage": kept.coverage, "coverage_spread": kept.coverage_spread,
                   "errors": kept.errors, "errors_spread": kept.errors_spread, "beyond": kept.beyond, "none": kept.none})
        };
        let verdicts = Verdict::ALL.iter().zip(self.verdicts).zip(self.test).map(|((verdict, (all, right)), test)| {
            json!({"verdict": verdict.name(), "answers": all, "right": right, "test": test})
        });
        let error = |at: usize| {
            let error = &self.errors[at];
            json!({"value": error.value, "low": error.low, "high": error.high})
        };
        json!({
            "accuracy": self.accuracy(), "verdicts": verdicts.collect::<Vec<_>>(),
            "standing": {"answers": self.standing.0, "supported": self.standing.1},
            "strict": {"given": self.strict.0, "unsupported": self.strict.1},
            "calibration_error": {"raw": error(0), "calibrated": error(1)}, "splits": SPLITS,
            "budgets": self.budgets.iter().map(|(own, raw)| json!({"calibrated": kept(own), "raw": kept(raw)})).collect::<Vec<_>>(),
            "crossed": {"asked": self.crossed.asked, "first": self.crossed.first, "last": self.crossed.last,
                        "without_evidence": self.crossed.without},
            "withheld": self.detected.map(|found| json!({"people": found.unknown, "auroc_raw": found.raw,
                        "auroc_evidence": found.evidence, "auroc_both": found.both})),
        })
    }

    /// The parts of a report page about one model.
    pub fn sections(&self, name: &str, index: &Index) -> Vec<Section> {
        let figures = confidence_figures(self.scored.each_ref().map(Vec::as_slice));
        let heads = ["question", "said", "right", "probability", "verdict", "line"];
        let worst = self.worst().into_iter().take(WORST).fold(Table::new(heads), |table, (one, gold)| {
            let judged = one.judgement.as_ref();
            let line = judged.and_then(|judged| judged.lines.first());
            let line = line
                .map(|found| format!("{}  {}", source(index, &found.line.place), plain(&found.line.text)));
            table.row([
                one.question.clone(),
                plain(&one.answer),
                gold.to_string(),
                format!("{:.2}", one.sureness.probability),
                judged.map_or("", |judged| judged.verdict.name()).to_string(),
                line.unwrap_or_else(|| "–".into()),
            ])
        });
        let budgets = format!(
            "<p>{SPLITS} times, half of the questions calibrate and the other half examines; mean ± deviation. With a certainty of \
             0.95, no more than 5 % of splits should be beyond a budget, but for the chance of the examined half itself.</p>{}",
            self.budget_table().html(escaped)
        );
        let part = |title: &str, html: String| Section { title: format!("{name}: {title}"), html };
        vec![
            part("in numbers", self.numbers_table().html(escaped) + &figures),
            part("what the text says", self.verdict_table().html(escaped)),
            part("error budgets", budgets),
            part("the worst mistakes", worst.html(escaped)),
        ]
    }
}
