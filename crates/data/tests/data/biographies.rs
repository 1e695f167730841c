//! The files of the birth-place study: ours have the form of the real ones.

use crate::scratch::Scratch;
use regard_data::biographies::{Biographies, Settings};
use std::path::Path;

/// Lines and questions with their answers, read as the study reads them: so many lines for each person, in
/// the order of the questions.
fn read([text, train, dev, inputs]: [&Path; 4], tellings: usize) -> (Vec<String>, Vec<(String, String)>) {
    let lines = |path: &Path| -> Vec<String> {
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.ends_with('\n') && !text.contains('\r'), "{}", path.display());
        text.lines().map(str::to_owned).collect()
    };
    let mut questions = Vec::new();
    for line in lines(train).iter().chain(&lines(dev)) {
        let (question, place) = line.split_once('\t').expect("a tab");
        questions.push((question.to_owned(), place.to_owned()));
    }
    questions.extend(lines(inputs).into_iter().map(|question| (question, String::new())));
    let text = lines(text);
    assert_eq!(text.len(), tellings * questions.len(), "lines for each question");
    for (line, (question, place)) in text.iter().zip(questions.iter().cycle()) {
        let name = question.strip_prefix("Where was ").and_then(|rest| rest.strip_suffix(" born?"));
        assert!(line.contains(name.expect("a name")), "{line}: {question}");
        assert!(!place.contains('\t'));
    }
    (text, questions)
}

#[test]
fn files_have_the_form_of_the_real_ones() {
    let scratch = Scratch::new();
    let made = Biographies::new(Settings { people: 400, ..Default::default() }).unwrap();
    made.write(scratch.join("deep/study")).unwrap();
    let at = |name: &str| scratch.join(&format!("deep/study/{name}"));
    let paths = ["text.txt", "train.tsv", "dev.tsv", "test_inputs.tsv"].map(at);
    let (text, questions) = read([0, 1, 2, 3].map(|index| paths[index].as_path()), 4);
    assert_eq!(text.join("\n") + "\n", made.text());
    let asked = made.train().chain(made.dev()).map(|(question, place)| (question, place.to_owned()));
    assert_eq!(questions[..360], asked.collect::<Vec<_>>());
    assert_eq!(questions[360..].len(), made.test().count());

    if let Some(real) = crate::shared("a5") {
        let names = ["wiki.txt", "birth_places_train.tsv", "birth_dev.tsv", "birth_test_inputs.tsv"];
        let [text, train, dev, inputs] = names.map(|name| real.join(name));
        read([&text, &train, &dev, &inputs], 1);
    }
}

#[test]
fn writing_again_replaces_and_what_cannot_be_written_is_said() {
    let scratch = Scratch::new();
    let make = |seed| Biographies::new(Settings { seed, people: 300, ..Default::default() }).unwrap();
    make(1).write(scratch.path()).unwrap();
    make(2).write(scratch.path()).unwrap();
    assert_eq!(scratch.names(), ["dev.tsv", "test_inputs.tsv", "text.txt", "train.tsv"]);
    assert_eq!(std::fs::read_to_string(scratch.join("text.txt")).unwrap(), make(2).text());
    scratch.put("file", "");
    let text = crate::text(make(1).write(scratch.join("file")), &scratch);
    assert!(text.starts_with("cannot make the folder file: "), "{text}");
}
