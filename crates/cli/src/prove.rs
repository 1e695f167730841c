//! `regard prove`: what a model's family promises, proved on its recorded graph or refuted with the guilty
//! node named. No weight is read: the proof holds for all of them.

use crate::model::Weights;
use anyhow::{Result, bail};
use clap::Args;
use regard_inspect::proofs::{self, Proof};
use regard_inspect::{Finding, Guilty, Outcome, Sight, Unfollowed, prove, sight};
use regard_models::{Model, Registry};
use serde_json::{Value, json};
use std::io::Write;

/// Options of `regard prove`.
#[derive(Args)]
#[command(after_help = "\
A decoder promises causality, an encoder that padding cannot be felt, an encoder-decoder both in its three attentions; none
lets examples of a batch meet. Ends with status 0 if all of it holds and with 1 if something is broken or unknown, so that
it can stand in a test. The proof is by the graph, at the lengths given: no weights, no numbers, no luck.

Axes are told apart by where they come from, not by their lengths. Each line says how many of the values that the input can
change were judged, and names those that could not be followed, with the reason. A promise is unknown if nothing breaks it,
but an output that it rests on could not be followed.

Example:  regard prove crates/conformance/goldens/parity/gpt2/model --lengths 5,12")]
pub struct Options {
    /// A folder with config.json and weights, a run, organisation/name from a local Hugging Face cache, a
    /// .gguf file, or a `.bin` of llama2.c
    #[arg(value_name = "MODEL")]
    model: String,
    /// Positions of the texts, with commas between them [default: 5 and 24, or what the model has room for]
    #[arg(long, value_name = "N,N", value_delimiter = ',')]
    lengths: Vec<usize>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    weights: Weights,
}

/// Lengths that show windows and cost nothing.
const LENGTHS: [usize; 2] = [5, 24];

struct Row {
    length: usize,
    title: &'static str,
    promised: bool,
    finding: Finding,
}

/// Proves.
pub fn run(options: &Options, registry: &Registry) -> Result<()> {
    let opened = options.weights.open(&options.model, registry)?;
    let model = &*opened.model;
    let lengths = lengths(options, model)?;
    let (mut rows, mut sights) = (Vec::new(), Vec::new());
    for &length in &lengths {
        for Proof { case, claims, sight: along } in proofs::of(model, length)? {
            let promises: Vec<_> = claims.iter().map(|(_, _, promise)| promise.clone()).collect();
            let findings = prove(&case, &promises)?;
            rows.extend(claims.iter().zip(findings).map(|((title, promised, _), finding)| Row {
                length,
                title,
                promised: *promised,
                finding,
            }));
            if let Some(input) = along {
                sights = sight(&case, input)?;
            }
        }
    }
    let count = |outcome| rows.iter().filter(|row| row.promised && row.finding.outcome == outcome).count();
    let (broken, unknown) = (count(Outcome::Broken), count(Outcome::Unknown));
    let promised = rows.iter().filter(|row| row.promised).count();
    let ahead = sights.iter().map(|sight| sight.ahead).max();
    let mut out = std::io::stdout().lock();
    if options.json {
        let page = json!({
            "family": model.family(), "kind": model.kind(), "lengths": lengths,
            "holds": broken + unknown == 0, "broken": broken, "unknown": unknown,
            "look_ahead": ahead,
            "proofs": rows.iter().map(row_json).collect::<Vec<_>>(),
            "receptive_fields": sights.iter().map(sight_json).collect::<Vec<_>>(),
        });
        writeln!(out, "{page}")?;
    } else {
        writeln!(out, "{}, {}, {}", model.family(), model.kind(), opened.path.display())?;
        write_rows(&mut out, &rows)?;
        write_sights(&mut out, &sights)?;
        let all = lengths.last().copied().unwrap_or(0);
        match ahead {
            Some(0) => {
                writeln!(out, "\nLook-ahead 0: an answer for a position needs nothing that comes after it.")?
            }
            Some(ahead) if ahead + 1 >= all => {
                writeln!(out, "\nLook-ahead without end: every answer needs the whole text.")?
            }
            Some(ahead) => writeln!(out, "\nLook-ahead {ahead}: answers need so many positions more.")?,
            None => {}
        }
    }
    out.flush()?;
    let are = |count: usize| if count == 1 { "is" } else { "are" };
    match (broken, unknown) {
        (0, 0) => Ok(()),
        (broken, 0) => bail!("{broken} of {promised} promises {} broken", are(broken)),
        (0, unknown) => {
            bail!("{unknown} of {promised} promises {} unknown: not all could be followed", are(unknown))
        }
        (broken, unknown) => {
            bail!(
                "{broken} of {promised} promises {} broken, {unknown} {} unknown",
                are(broken),
                are(unknown)
            )
        }
    }
}

fn lengths(options: &Options, model: &dyn Model) -> Result<Vec<usize>> {
    if model.reads().given().is_none() {
        if !options.lengths.is_empty() {
            bail!(
                "--lengths: this is a model of images, whose patches are given by its config; leave it out"
            );
        }
        return Ok(vec![0]);
    }
    // Padding needs a position, and a text one more.
    let most = model.context().unwrap_or(usize::MAX);
    let asked = match options.lengths.as_slice() {
        [] => LENGTHS.iter().map(|&length| length.min(most)).collect(),
        given => given.to_vec(),
    };
    if let Some(length) = asked.iter().find(|&&length| length < 2 || length > most) {
        bail!("--lengths {length}: choose between 2 and {most}, which is all that this model has room for");
    }
    let mut lengths: Vec<usize> = asked;
    lengths.sort_unstable();
    lengths.dedup();
    Ok(lengths)
}

fn verdict(row: &Row) -> &'static str {
    match (row.promised, row.finding.outcome) {
        (true, Outcome::Holds) => "holds",
        (true, Outcome::Broken) => "BROKEN",
        (true, Outcome::Unknown) => "UNKNOWN",
        (false, Outcome::Holds) => "yes",
        (false, Outcome::Broken) => "no, nor promised",
        (false, Outcome::Unknown) => "unknown",
    }
}

fn write_rows(out: &mut impl Write, rows: &[Row]) -> Result<()> {
    let widest = rows.iter().map(|row| row.title.len()).max().unwrap_or(0);
    let mut length = usize::MAX;
    for row in rows {
        if row.length != length {
            length = row.length;
            match length {
                0 => writeln!(out, "\nWhat the graph says, for all weights")?,
                _ => writeln!(out, "\nWhat the graph says at {length} positions, for all weights and ids")?,
            }
        }
        writeln!(out, "  {:<widest$}  {:<16}  {}", row.title, verdict(row), row.finding.sentence)?;
    }
    Ok(())
}

fn write_sights(out: &mut impl Write, sights: &[Sight]) -> Result<()> {
    if sights.is_empty() {
        return Ok(());
    }
    let widest = sights.iter().map(|sight| sight.name.len()).max().unwrap_or(0);
    writeln!(out, "\nHow far each layer sees, in positions")?;
    writeln!(out, "  {:<widest$}  {:>10}  {:>10}", "", "back", "ahead")?;
    for Sight { name, back, ahead, to_the_beginning, to_the_end } in sights {
        let reach = |far: usize, all: bool| if all { "all".to_string() } else { far.to_string() };
        let (back, ahead) = (reach(*back, *to_the_beginning), reach(*ahead, *to_the_end));
        writeln!(out, "  {name:<widest$}  {back:>10}  {ahead:>10}")?;
    }
    Ok(())
}

fn row_json(row: &Row) -> Value {
    let guilty = row.finding.guilty.as_ref().map(|Guilty { node, op, input, from, to }| {
        json!({ "node": node, "op": op, "input": input, "from": from, "to": to })
    });
    let coverage = &row.finding.coverage;
    let unfollowed = coverage
        .unfollowed
        .iter()
        .map(|Unfollowed { node, op, reason }| json!({ "node": node, "op": op, "reason": reason }));
    let verdict = match row.finding.outcome {
        Outcome::Holds => "holds",
        Outcome::Broken => "broken",
        Outcome::Unknown => "unknown",
    };
    json!({
        "length": row.length, "title": row.title, "promised": row.promised, "holds": row.finding.holds(),
        "verdict": verdict, "sentence": row.finding.sentence, "guilty": guilty, "judged": coverage.judged,
        "values": coverage.values(), "not_followed": unfollowed.collect::<Vec<_>>(),
    })
}

fn sight_json(sight: &Sight) -> Value {
    json!({
        "name": sight.name, "back": sight.back, "ahead": sight.ahead, "to_the_beginning": sight.to_the_beginning,
        "to_the_end": sight.to_the_end,
    })
}
