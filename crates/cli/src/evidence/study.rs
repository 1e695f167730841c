//! The examination at the end of a study: every model asked all questions, with the lines that it read as the
//! text; one page for all of them.

use super::Asker;
use super::examination::{Examination, Questions, examine};
use crate::ask::learned_to_read;
use anyhow::{Context, Result};
use regard::models::Registry;
use regard::prelude::*;
use regard_data::dataset::{Amount, held_out};
use regard_data::whole;
use regard_evidence::{Index, Settings, words};
use regard_picture::document;
use regard_recipe::study::StudyData;
use regard_runtime::{OpenOptions, Session};
use std::collections::HashSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The most tokens of an answer.
const MOST: usize = 32;

/// Leaves out the lines of a share of the people who are asked about at the end, and says whose: nothing can
/// be known of them, and nothing should be said.
pub fn withhold(data: &mut StudyData, share: f64, seed: u64) -> Result<HashSet<String>> {
    if share == 0.0 {
        return Ok(HashSet::new());
    }
    let (_, left_out) = held_out(data.dev.len(), Amount::Fraction(share), seed).context("--withhold")?;
    let questions: HashSet<String> = left_out.iter().map(|&at| data.dev[at].text.clone()).collect();
    let names: Vec<Vec<String>> = questions
        .iter()
        .map(|text| text.trim_start_matches("Where was ").trim_end_matches(" born?"))
        .map(|name| words(name).iter().map(|word| word.text.to_string()).collect())
        .collect();
    data.lines.retain(|line| {
        let own: Vec<&str> = words(line).iter().map(|word| word.text).collect();
        !names.iter().any(|name| own.windows(name.len().max(1)).any(|run| run.iter().eq(name.iter())))
    });
    Ok(questions)
}

/// Examines models, each with its name, and writes the page.
pub fn examined(
    models: &[(String, String)],
    data: &StudyData,
    withheld: &HashSet<String>,
    folder: &Path,
    device: &Device,
    registry: &Registry,
) -> Result<(Vec<(String, Examination)>, PathBuf)> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let (text, place) = (folder.join("evidence.txt"), folder.join(super::INDEX));
    whole::write(&text, |file| data.lines.iter().try_for_each(|line| writeln!(file, "{line}")))?;
    Index::build(std::slice::from_ref(&text), &place, &Settings::default(), &mut |_| {})?;
    let index = Index::open(&place)?;
    let dev: Vec<(String, String)> =
        data.dev.iter().map(|one| (one.text.clone(), one.place.clone())).collect();
    let questions = Questions { dev: &dev, test: &data.test, withheld };
    let (mut all, mut sections) = (Vec::new(), Vec::new());
    for (name, path) in models {
        let mut session = Session::open(path, &OpenOptions::new(registry), device)?;
        let reads = learned_to_read(path, registry)?;
        let asker = Asker { index: Some(&index), subject: None, reads, most: MOST, samples: 0, kept: None };
        let examination = examine(&mut session, &asker, &questions)?;
        sections.extend(examination.sections(name, &index));
        all.push((name.clone(), examination));
    }
    let lead = format!(
        "{} questions with answers, {} without, {} lines of text; the lines of {} people were left out.",
        dev.len(),
        data.test.len(),
        data.lines.len(),
        withheld.len()
    );
    let page = folder.join("evidence.html");
    let html = document("Retrieved or made up?", &lead, &sections);
    whole::write(&page, |file| file.write_all(html.as_bytes()))?;
    Ok((all, page))
}
