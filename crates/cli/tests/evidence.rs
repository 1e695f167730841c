//! Journeys about evidence: a text is indexed, copied spans are traced to it, answers are held against it,
//! confidence is calibrated, and what cannot be answered is not.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU64, Ordering};

/// A folder of a test's own, in which commands run.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("regard-cli-evidence-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Scratch(fs::canonicalize(path).unwrap())
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.0.join(name), text).unwrap();
    }

    fn regard(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_regard"));
        command.args(arguments).current_dir(&self.0).output().expect("the command starts")
    }

    /// What a command that ends with this code prints, and what it notes.
    fn ended(&self, code: i32, arguments: &[&str]) -> (String, String) {
        let output = self.regard(arguments);
        let notes = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {notes}");
        assert!(!notes.contains("panicked"), "{arguments:?}: {notes}");
        (String::from_utf8(output.stdout).unwrap(), notes)
    }

    fn printed(&self, arguments: &[&str]) -> String {
        self.ended(0, arguments).0
    }

    fn refused(&self, arguments: &[&str]) -> String {
        let (printed, notes) = self.ended(1, arguments);
        assert_eq!(printed, "", "{arguments:?} printed although it failed");
        notes
    }

    fn page(&self, code: i32, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.ended(code, &[arguments, &["--json"]].concat()).0).expect("JSON")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const TEXT: &str = "Once upon a time there was a little fox.\nThe little fox was red.\n";

#[test]
fn a_text_is_traced_to_where_it_stands() {
    let scratch = Scratch::new();
    scratch.write("text.txt", TEXT);
    fs::create_dir(scratch.0.join("more")).unwrap();
    scratch.write("more/b.txt", "There was a little fox in the wood.\n");
    scratch.write("more/.hidden", "not this one");
    let told =
        scratch.printed(&["index", "--corpus", "text.txt", "--corpus", "more", "--index", "all.index"]);
    assert!(told.starts_with("all.index: ") && told.contains(" of 2 files in "), "{told}");

    let trace = ["trace", "--index", "all.index", "--text", "He saw that there was a little fox, and ran."];
    let shown = scratch.printed(&trace);
    assert!(shown.starts_with("He saw that [there was a little fox](1), and ran.\n"), "{shown}");
    assert!(shown.contains("(1)  5 words, at text.txt:1\n"), "{shown}");
    assert!(shown.contains("Once upon a time [there was a little fox]."), "{shown}");
    assert!(shown.contains("1 spans have 50 % of 10 words"), "{shown}");
    let page = scratch.page(0, &[&trace[..], &["--words", "3", "--html", "trace.html"]].concat());
    assert_eq!(page["spans"][0]["text"], "there was a little fox");
    assert_eq!(
        (&page["spans"][0]["count"], &page["spans"][0]["places"][0]["offset"]),
        (&1.into(), &17.into())
    );
    assert_eq!(page["novelty"][0]["all"], 10);
    let html = fs::read_to_string(scratch.0.join("trace.html")).unwrap();
    assert!(html.contains("<mark>there was a little fox</mark><sup>"), "{html}");

    assert_eq!(scratch.printed(&["index", "--index", "all.index", "--check"]), "all.index: sound, 2 files\n");
    scratch.write("text.txt", "Something else.\n");
    let (printed, notes) = scratch.ended(1, &["index", "--index", "all.index", "--check"]);
    assert!(printed.contains("text.txt has changed since it was indexed"), "{printed}");
    assert!(notes.contains("1 files are not as they were indexed; build it again"), "{notes}");
    let (_, notes) = scratch.ended(0, &trace);
    assert!(
        notes.contains("text.txt has changed since it was indexed; all.index is of the text as it was"),
        "{notes}"
    );
    // Named again, it is indexed again.
    let (shown, notes) = scratch.ended(0, &[&trace[..], &["--corpus", "text.txt"]].concat());
    assert!(notes.contains("all.index is of another text, and is made anew"), "{notes}");
    assert!(shown.contains("0 spans have 0 % of 10 words"), "{shown}");
}

#[test]
fn what_cannot_be_traced_is_said() {
    let scratch = Scratch::new();
    scratch.write("text.txt", TEXT);
    fs::create_dir(scratch.0.join("empty")).unwrap();
    let trace = |more: &[&str]| scratch.refused(&[&["trace", "--text", "a"], more].concat());
    assert_eq!(trace(&[]), "regard: --corpus: say where its index is to be kept: --index FILE\n");
    assert!(trace(&["--index", "no.index"]).contains("cannot open no.index"));
    assert_eq!(
        trace(&["--index", "text.txt"]),
        "regard: text.txt: does not begin as an index of evidence does; the index is damaged or none of ours: remove it, and \
         build it again\n"
    );
    assert!(
        trace(&["--corpus", "empty", "--index", "x.index"])
            .contains("the folder has no files; put texts there")
    );
    assert!(trace(&["--corpus", "no.txt", "--index", "x.index"]).contains("--corpus no.txt"));
    let same = trace(&["--corpus", "text.txt", "--index", "text.txt"]);
    assert!(same.contains("does not begin as an index of evidence does"), "{same}");
    assert_eq!(fs::read_to_string(scratch.0.join("text.txt")).unwrap(), TEXT, "nothing was written over");
    scratch.printed(&["index", "--corpus", "text.txt", "--index", "x.index"]);
    let none = scratch.refused(&["trace", "--index", "x.index"]);
    assert_eq!(none, "regard: give what to trace: --text, --file, or a model and a --prompt\n");
    assert_eq!(
        scratch.refused(&["index", "--corpus", "text.txt"]),
        "regard: say where the index is to be kept: name a model, or --index FILE\n"
    );
    assert_eq!(scratch.refused(&["index", "--index", "x.index"]), "regard: name the text: --corpus FILE\n");
}

/// A recipe of one stage that learns to answer, or to read, from invented people; far too short to learn it.
fn recipe(form: &str) -> String {
    format!(
        "[model]\nfamily = \"gpt\"\nlayers = 1\nheads = 2\nwidth = 16\ncontext = 160\n\
         [data]\nkind = \"biographies\"\ntext = \"people/text.txt\"\ntrain = [\"people/train.tsv\"]\n\
         evaluate = [\"people/dev.tsv\"]\nform = \"{form}\"\n[train]\nsteps = 3\nbatch = 8\n[evaluate]\nmost = 8\n"
    )
}

fn people(scratch: &Scratch, form: &str) -> (String, String) {
    scratch.printed(&["data", "generate", "people", "--people", "250"]);
    scratch.write("recipe.toml", recipe(form));
    scratch.printed(&["train", "recipe.toml", "--out", "runs/people"]);
    let dev = fs::read_to_string(scratch.0.join("people/dev.tsv")).unwrap();
    let (question, place) = dev.lines().next().unwrap().split_once('\t').unwrap();
    (question.to_string(), place.to_string())
}

#[test]
fn answers_come_with_what_the_text_says() {
    let scratch = Scratch::new();
    let (question, _) = people(&scratch, "questions");
    // Without a text all is as it was: the answer alone.
    let plain = scratch.printed(&["ask", "runs/people", &question]);
    assert_eq!(plain.lines().count(), 1, "{plain}");
    let bare = scratch.page(0, &["ask", "runs/people", &question]);
    assert_eq!(bare["answers"][0]["answer"], plain.trim_end_matches('\n'));
    assert!(bare["answers"][0]["model"]["probability"].as_f64().unwrap() > 0.0);
    assert_eq!(
        scratch.refused(&["ask", "runs/people", &question, "--strict"]),
        "regard: --strict: there is no text that could support an answer; name it: --corpus FILE\n"
    );
    let budget = scratch.refused(&["ask", "runs/people", &question, "--error-budget", "0.1"]);
    assert!(
        budget.contains("runs/people is not calibrated")
            && budget.contains("regard calibrate runs/people --data FILE")
    );
    let wrong = scratch.refused(&["ask", "runs/people", &question, "--error-budget", "2"]);
    assert_eq!(wrong, "regard: an error budget of 2; choose a share between 0 and 1, such as 0.1\n");

    // A run knows its text.
    let told = scratch.printed(&["index", "runs/people"]);
    assert!(told.starts_with("runs/people/evidence.index: "), "{told}");
    let page = scratch.page(0, &["ask", "runs/people", &question]);
    let evidence = &page["answers"][0]["evidence"];
    assert_eq!(evidence["verdict"], "contradicted", "three steps teach nothing: {page}");
    let name = question.strip_prefix("Where was ").unwrap().strip_suffix(" born?").unwrap();
    assert_eq!(evidence["subject"], name);
    assert!(evidence["lines"][0]["text"].as_str().unwrap().contains(name), "{page}");
    let shown = scratch.printed(&["ask", "runs/people", &question]);
    assert!(shown.contains(&format!("\n  contradicted; about “{name}”\n  text.txt:")), "{shown}");
    assert!(
        shown.contains("the model's own probability: ") && shown.contains("; not calibrated\n"),
        "{shown}"
    );

    // Nothing that no line names leaves in strict mode, and programs can tell.
    let (shown, _) = scratch.ended(3, &["ask", "runs/people", &question, "--strict"]);
    assert!(shown.starts_with("(no answer: no line of the text names it)\n"), "{shown}");
    let page = scratch.page(3, &["ask", "runs/people", &question, "--strict"]);
    assert_eq!(
        (&page["answers"][0]["answer"], &page["answers"][0]["evidence"]["lines"]),
        (&Value::Null, &serde_json::json!([]))
    );
    let page = scratch.page(0, &["ask", "runs/people", "Where was Zeno Quux born?"]);
    assert_eq!(page["answers"][0]["evidence"]["verdict"], "no evidence");
    let page = scratch.page(0, &["ask", "runs/people", "Where?", "--subject", name]);
    assert_eq!(page["answers"][0]["evidence"]["subject"], name);

    // Nothing was answered rightly: that is no calibration, and it is said.
    let text = scratch.refused(&["calibrate", "runs/people", "--data", "people/dev.tsv"]);
    assert!(text.contains("answers to calibrate with are right; give some that are right"), "{text}");
    scratch.write("few.tsv", "Where?\tThere\n");
    let text = scratch.refused(&["calibrate", "runs/people", "--data", "few.tsv"]);
    assert_eq!(text, "regard: --data: 1 questions tell nothing; give at least 20, better some hundred\n");
}

#[test]
fn confidence_is_calibrated_and_a_budget_kept() {
    let scratch = Scratch::new();
    let (question, _) = people(&scratch, "questions");
    scratch.printed(&["index", "runs/people"]);
    // What the model says is right for every other question.
    let dev = fs::read_to_string(scratch.0.join("people/train.tsv")).unwrap();
    let asked: Vec<&str> = dev.lines().filter_map(|line| line.split('\t').next()).take(40).collect();
    scratch.write("asked.txt", asked.join("\n"));
    let page = scratch.page(0, &["ask", "runs/people", "--file", "asked.txt", "--max", "8"]);
    let lines: Vec<String> = page["answers"]
        .as_array()
        .unwrap()
        .iter()
        .enumerate()
        .map(|(at, one)| {
            let said = one["answer"].as_str().unwrap().replace(['\t', '\n', '\r', '"'], "");
            format!("{}\t{}", one["question"].as_str().unwrap(), if at % 2 == 0 { &said } else { "Nowhere" })
        })
        .collect();
    scratch.write("data.tsv", lines.join("\n"));
    let calibrate = ["calibrate", "runs/people", "--data", "data.tsv", "--max", "8"];
    let told = scratch.printed(&[&calibrate[..], &["--html", "page.html"]].concat());
    assert!(told.starts_with("40 questions, ") && told.contains("tested on 27 of them"), "{told}");
    assert!(told.contains("A budget of 5 % is not shown to be kept: with "), "{told}");
    assert!(told.ends_with("calibration: runs/people/calibration.json\n"), "{told}");
    assert!(fs::read_to_string(scratch.0.join("page.html")).unwrap().contains("Error budgets"));
    let page = scratch.page(0, &calibrate);
    assert_eq!((&page["questions"], &page["tested"]), (&40.into(), &27.into()));

    // With drawn answers beside each there is one sign more, and whoever asks draws as many.
    scratch.printed(&[&calibrate[..], &["--samples", "3"]].concat());
    let kept = fs::read_to_string(scratch.0.join("runs/people/calibration.json")).unwrap();
    assert!(kept.contains("\"agreement of 3\""), "{kept}");
    let page = scratch.page(0, &["ask", "runs/people", &question, "--max", "8"]);
    assert!(page["answers"][0]["confidence"].as_f64().is_some_and(|p| p > 0.0 && p < 1.0), "{page}");
    scratch.printed(&calibrate);

    // Half of the answers are wrong, and nothing tells which: a budget of a twentieth declines all.
    let ask = ["ask", "runs/people", &question, "--max", "8"];
    let (shown, notes) = scratch.ended(3, &[&ask[..], &["--error-budget", "0.05"]].concat());
    assert!(shown.starts_with("(no answer: it is not sure enough for the error budget)\n"), "{shown}");
    assert!(notes.contains("no threshold keeps an error budget of 0.05 with certainty 0.95"), "{notes}");
    // One that allows nearly everything gives an answer, with its confidence.
    let page = scratch.page(0, &[&ask[..], &["--error-budget", "0.9"]].concat());
    let confidence = page["answers"][0]["confidence"].as_f64().unwrap();
    assert!(confidence > 0.1 && confidence < 0.9, "{page}");
    assert_eq!(page["threshold"]["budget"]["errors"], 0.9);
    assert!(scratch.printed(&ask).contains("right with probability "));

    // Other weights are not calibrated.
    let weights = scratch.0.join("runs/people/model/model.safetensors");
    let bytes = fs::read(&weights).unwrap();
    fs::write(&weights, bytes).unwrap();
    let text = scratch.refused(&[&ask[..], &["--error-budget", "0.9"]].concat());
    assert!(text.contains("calibration.json is of other weights than these; calibrate again"), "{text}");
}

#[test]
fn a_model_that_reads_is_given_the_line() {
    let scratch = Scratch::new();
    let (question, _) = people(&scratch, "reading");
    let text = scratch.refused(&["ask", "runs/people", &question]);
    assert!(text.contains("runs/people learned to read, and there is no text to read in"), "{text}");
    let page =
        scratch.page(0, &["ask", "runs/people", &question, "--corpus", "people/text.txt", "--max", "8"]);
    let answer = &page["answers"][0];
    let name = question.strip_prefix("Where was ").unwrap().strip_suffix(" born?").unwrap();
    assert!(answer["read"]["text"].as_str().unwrap().contains(name), "{page}");
    assert_eq!(answer["read"]["file"], scratch.0.join("people/text.txt").display().to_string());
    assert!(scratch.0.join("runs/people/evidence.index").is_file(), "kept for the next time");
    scratch.printed(&["ask", "runs/people", &question, "--max", "8"]);
}

/// A model from elsewhere, and a text of one's own.
#[test]
fn a_story_is_traced_to_a_text_of_ones_own() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let up = ["../../../shared/data/weights", "../../../../shared/data/weights"];
    let Some(from) = up.map(|up| root.join(up).join("stories260K")).into_iter().find(|path| path.exists())
    else {
        println!("skipped: ../shared/data/weights/stories260K is not here");
        return;
    };
    let scratch = Scratch::new();
    for item in fs::read_dir(from).unwrap() {
        let path = item.unwrap().path();
        fs::write(scratch.0.join(path.file_name().unwrap()), fs::read(&path).unwrap()).unwrap();
    }
    let story = scratch.printed(&[
        "generate",
        "stories260K.bin",
        "--prompt",
        "Once upon a time",
        "--greedy",
        "--max",
        "60",
    ]);
    // A text that has the second half of what the model will write.
    let half = story.len() / 2;
    let half = (half..).find(|&at| story.is_char_boundary(at)).unwrap();
    scratch.write("mine.txt", format!("Another text.\n{}\n", story[half..].trim()));
    let trace =
        ["trace", "stories260K.bin", "--prompt", "Once upon a time", "--max", "60", "--corpus", "mine.txt"];
    let page = scratch.page(0, &trace);
    let covered = page["covered"].as_f64().unwrap();
    assert!(covered > 0.4 && covered < 0.8, "{page}");
    assert!(scratch.0.join("stories260K.bin.evidence.index").is_file(), "beside the file of the model");
    scratch.write("mine.txt", "Lily was a girl who lived in a house.\nTim was a boy.\n");
    let page = scratch.page(
        0,
        &["ask", "stories260K.bin", "Lily was a girl who lived in", "--corpus", "mine.txt", "--max", "12"],
    );
    let answer = &page["answers"][0];
    assert_eq!(answer["evidence"]["subject"], "Lily was a girl who lived");
    assert!(!answer["answer"].as_str().unwrap().contains('\n'));
    assert!(answer["model"]["probability"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_study_examines_its_answers() {
    let scratch = Scratch::new();
    let study =
        ["study", "--evidence", "--arms", "pretrained", "--pretrain-epochs", "1", "--finetune-epochs", "1"];
    let page = scratch.page(0, &[&study[..], &["--withhold", "0.1", "--out", "runs/study"]].concat());
    let own = &page["evidence"]["models"][0];
    let answers = own["verdicts"].as_array().unwrap().iter().map(|one| one["answers"].as_u64().unwrap());
    assert_eq!(answers.sum::<u64>(), 80, "{own}");
    // Eight of eighty people are in no line: all of them, and nobody else, are without evidence.
    assert_eq!((&own["withheld"]["people"], &own["withheld"]["auroc_evidence"]), (&8.into(), &1.0.into()));
    assert_eq!(own["verdicts"][2]["answers"], 8);
    assert_eq!(own["strict"]["unsupported"], 0);
    assert_eq!(own["crossed"]["asked"], own["crossed"]["without_evidence"], "nobody has such a name");
    assert_eq!((own["budgets"].as_array().unwrap().len(), &own["splits"]), (3, &200.into()));
    let html = fs::read_to_string(scratch.0.join("runs/study/evidence.html")).unwrap();
    assert!(html.contains("pretrained: the worst mistakes") && html.contains("pretrained: error budgets"));
    let text = scratch.refused(&[&study[..], &["--withhold", "2", "--out", "runs/other"]].concat());
    assert!(text.contains("--withhold"), "{text}");
    // Models that are there are examined without training.
    scratch.printed(&["data", "generate", "people", "--people", "250"]);
    let files = ["--text", "people/text.txt", "--train", "people/train.tsv", "--dev", "people/dev.tsv"];
    let again =
        [&["study", "--evidence", "--models", "runs/study/pretrained", "--out", "runs/again"], &files[..]]
            .concat();
    let page = scratch.page(0, &again);
    assert_eq!(page["models"][0]["model"], "runs/study/pretrained");
}
