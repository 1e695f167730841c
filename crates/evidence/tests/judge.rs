//! Verdicts: on small texts by hand, and on the real birth places where their files are.

mod scratch;

use regard_evidence::{Index, Judgement, Match, Settings, Verdict, judge, lines_about, subject};
use scratch::{Draws, Scratch};
use std::fs;
use std::path::{Path, PathBuf};

const TEXT: &str = "\
Ada Byron. Ada Byron was born in London, and wrote of engines.
Ludwig van Beethoven (Bonn, 1770) was a composer.
Albert Einstein was born in Ulm.
Albert Einstein moved to Princeton in 1933.
Mary Shelley met Percy Florence in Paris.
The moons of Jupiter were seen in Padua.
Jean Petit was born in Besançon.
Carl Smith was born in Milano.
Rosa Blum was born in New York.
Paul Two was born in Rome.
Paul Two was born in Athens.
";

fn index(scratch: &Scratch, text: &str) -> Index {
    let file = scratch.put("text.txt", text);
    let path = scratch.0.join("text.index");
    Index::build(&[file], &path, &Settings { shard: 100, threads: 2 }, &mut |_| {}).unwrap();
    Index::open(path).unwrap()
}

#[test]
fn the_subject_is_the_rarest_of_the_longest() {
    let scratch = Scratch::new();
    let index = index(&scratch, TEXT);
    let of = |question: &str| subject(&index, question).unwrap().map(|found| (found.text, found.count));
    let some = |text: &str, count: usize| Some((text.to_string(), count));
    assert_eq!(of("Where was Ada Byron born?"), some("Ada Byron", 2));
    assert_eq!(of("Where was Ludwig van Beethoven born?"), some("Ludwig van Beethoven", 1));
    assert_eq!(of("Albert Einstein was born where?"), some("Albert Einstein", 2));
    assert_eq!(of("What are the moons of Jupiter?"), some("moons of Jupiter", 1));
    assert_eq!(of("Where was Ada Lovelace born?"), some("Ada Lovelace", 0), "Ada is known, she is not");
    assert_eq!(of("Where was Zeno Quux born?"), some("Zeno Quux", 0));
    assert_eq!(of("where was the composer born?"), some("composer", 1), "small letters: rare words");
    assert_eq!(of("why is it so?"), None);
    assert_eq!(
        subject(&index, "?!").unwrap_err().to_string(),
        "the question `?!` has no words; ask about something"
    );
}

#[test]
fn answers_are_supported_contradicted_or_without_evidence() {
    let scratch = Scratch::new();
    let index = index(&scratch, TEXT);
    let of =
        |name: &str, answer: &str| judge(&index, &format!("Where was {name} born?"), None, answer).unwrap();
    let first = |judged: &Judgement| judged.lines.first().map(|one| one.line.place.line);
    let told = |name: &str, answer: &str| {
        let judged = of(name, answer);
        (judged.verdict, judged.how, first(&judged))
    };
    use Match::{Exact, Folded, Near, Part};
    use Verdict::{Contradicted, NoEvidence, Supported};
    assert_eq!(told("Ada Byron", "London"), (Supported, Some(Exact), Some(1)));
    assert_eq!(told("Ada Byron", "london."), (Supported, Some(Folded), Some(1)));
    assert_eq!(told("Ada Byron", "Paris"), (Contradicted, None, Some(1)));
    assert_eq!(told("Ada Byron", "Byron"), (Contradicted, None, Some(1)), "her own name is no place");
    assert_eq!(told("Ada Lovelace", "London"), (NoEvidence, None, None));
    assert_eq!(told("Jean Petit", "Besancon"), (Supported, Some(Folded), Some(7)));
    assert_eq!(told("Carl Smith", "Milan"), (Supported, Some(Near), Some(8)));
    assert_eq!(told("Rosa Blum", "York"), (NoEvidence, Some(Part), Some(9)));
    assert_eq!(
        told("Ludwig van Beethoven", "Bonn"),
        (Supported, Some(Exact), Some(2)),
        "a line that begins with him"
    );
    assert_eq!(told("Albert Einstein", "Ulm"), (Supported, Some(Exact), Some(3)));
    assert_eq!(
        told("Albert Einstein", "Princeton"),
        (Contradicted, None, Some(3)),
        "of birth, not of moving"
    );
    assert_eq!(told("Percy Florence", "Paris"), (NoEvidence, None, Some(5)), "only mentioned");
    assert_eq!(told("Ada Byron", ""), (NoEvidence, None, Some(1)), "nothing was answered");
    assert!(of("Ada Byron", "London").is_strict() && !of("Carl Smith", "Milan").is_strict());

    // Two lines that say two things: both are shown.
    let both = of("Paul Two", "Rome");
    assert_eq!((both.verdict, first(&both)), (Supported, Some(10)));
    assert_eq!(both.against[0].line.text, "Paul Two was born in Athens.");
    let named = both.lines[0].names.clone().unwrap();
    assert_eq!(&both.lines[0].line.text[named.1], "Rome");
    assert_eq!(told("Paul Two", "Oslo"), (Contradicted, None, Some(10)));

    let given = judge(&index, "Where was she born?", Some("Ada Byron"), "London").unwrap();
    assert_eq!(given.verdict, Supported);
    let text = judge(&index, "Where?", Some("?"), "London").unwrap_err().to_string();
    assert_eq!(text, "the subject `?` has no words; name somebody");

    // What a reader is given: the lines that decide first.
    let (about, lines) = lines_about(&index, "Where was Albert Einstein born?", None).unwrap();
    assert_eq!(about.unwrap().text, "Albert Einstein");
    assert_eq!(lines.iter().map(|line| line.place.line).collect::<Vec<_>>(), [3, 4]);
    assert_eq!(lines_about(&index, "Where was Zeno born?", None).unwrap().1, []);
    let text = lines_about(&index, "?", None).unwrap_err().to_string();
    assert_eq!(text, "the question `?` has no words; ask about something");
}

#[test]
fn two_words_that_both_are_known_are_two_words() {
    let scratch = Scratch::new();
    let text = "Una Orr was born in Iceland.\nIceland is cold. Ireland is green.\n";
    let index = index(&scratch, text);
    let verdict = |answer: &str| judge(&index, "Where was Una Orr born?", None, answer).unwrap().verdict;
    assert_eq!(verdict("Ireland"), Verdict::Contradicted);
    assert_eq!(verdict("Icelnad"), Verdict::Supported, "a word that nobody wrote is a slip");
}

/// The files of the study, where they are.
fn study(name: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let up = ["../../../shared/data/a5", "../../../../shared/data/a5"];
    let found = up.map(|up| root.join(up).join(name)).into_iter().find(|path| path.exists());
    if found.is_none() {
        println!("skipped: ../shared/data/a5/{name} is not here");
    }
    found
}

/// Gold answers, and other people's answers, as if a model had given them.
#[test]
fn verdicts_on_real_birth_places_can_be_relied_on() {
    let (Some(text), Some(dev)) = (study("wiki.txt"), study("birth_dev.tsv")) else { return };
    let scratch = Scratch::new();
    let path = scratch.0.join("wiki.index");
    Index::build(&[text], &path, &Settings::default(), &mut |_| {}).unwrap();
    let index = Index::open(path).unwrap();
    let dev = fs::read_to_string(dev).unwrap();
    let questions: Vec<(&str, &str)> = dev.lines().filter_map(|line| line.split_once('\t')).collect();
    assert_eq!(questions.len(), 500);
    let mut draws = Draws(3);
    let (mut right, mut wrong) = ([0; 3], [0; 3]);
    let (mut stands, mut found) = (0, 0);
    for &(question, gold) in &questions {
        let judged = judge(&index, question, None, gold).unwrap();
        right[judged.verdict as usize] += 1;
        let name = question.strip_prefix("Where was ").unwrap().strip_suffix(" born?").unwrap();
        let about = judged.subject.unwrap();
        assert_eq!(about.text, name.trim_end_matches('.'), "{question}");
        let own = index.find(&format!("{name}.")).unwrap().places(9).unwrap();
        if own.iter().any(|place| index.line(place).text.contains(gold)) {
            stands += 1;
            found += usize::from(judged.verdict == Verdict::Supported);
        }
        for _ in 0..4 {
            let (_, other) = questions[draws.below(questions.len())];
            if other != gold {
                let judged = judge(&index, question, None, other).unwrap();
                wrong[judged.verdict as usize] += 1;
            }
        }
    }
    println!(
        "right answers: {right:?}; other people's: {wrong:?}; {found} of {stands} that stand in the line"
    );
    // As many right answers as wrong ones, which is more than a closed book gives.
    let share = |part: usize, verdict: usize, all: usize| {
        let scale = 500.0 / wrong.iter().sum::<usize>() as f64;
        part as f64 / (right[verdict] as f64 + scale * wrong[verdict] as f64) * all as f64
    };
    assert!(share(right[0], 0, 1) >= 0.97, "{right:?} {wrong:?}");
    assert!(share(right[1], 1, 1) <= 0.05, "{right:?} {wrong:?}");
    assert!(found as f64 >= 0.9 * stands as f64, "{found} of {stands}");
}
