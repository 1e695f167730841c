//! What a person at a terminal sees: help, slips of the finger, sizes that make no sense, a closed pipe, and
//! a demo whose figures can be read by a program.

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

fn regard(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_regard")).args(arguments).output().expect("the command starts")
}

/// What a command that fails says; it says it without a backtrace, on the right stream, with the right
/// status.
fn refused(arguments: &[&str]) -> String {
    let output = regard(arguments);
    let message = String::from_utf8(output.stderr).expect("text");
    assert!(!message.contains("panicked"), "{arguments:?}: {message}");
    assert!(matches!(output.status.code(), Some(1 | 2)), "{arguments:?}: {:?} {message}", output.status);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{arguments:?} printed although it failed");
    message
}

#[test]
fn help_names_every_command_and_where_to_start() {
    let output = regard(&["--help"]);
    let message = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    let commands = [
        "demo",
        "train",
        "study",
        "ask",
        "calibrate",
        "index",
        "trace",
        "evaluate",
        "classify",
        "data",
        "runs",
        "prove",
        "audit",
        "look",
        "cost",
        "describe",
        "forward",
        "embed",
        "generate",
        "translate",
        "import",
        "export",
        "bench",
        "claims",
    ];
    for part in commands.into_iter().chain(["Start with:  regard demo"]) {
        assert!(message.contains(part), "no {part} in {message}");
    }
    for command in commands {
        let output = regard(&[command, "--help"]);
        assert!(output.status.success());
        let message = String::from_utf8(output.stdout).unwrap();
        assert!(message.contains("Example:  regard ") || message.contains("Examples:  regard "), "{command}");
    }
    let message = refused(&[]);
    assert!(message.contains("Usage: regard <COMMAND>"), "{message}");
}

#[test]
fn slips_are_met_with_a_suggestion() {
    let message = refused(&["dmeo"]);
    assert!(message.contains("unrecognized subcommand 'dmeo'") && message.contains("'demo'"), "{message}");
    let message = refused(&["demo", "--epoch", "3"]);
    assert!(message.contains("unexpected argument '--epoch'") && message.contains("'--epochs'"), "{message}");
    let message = refused(&["bench", "matmul", "--m", "many"]);
    assert!(message.contains("invalid value 'many' for '--m <M>'"), "{message}");
    let message = refused(&["bench", "matmul", "--precision", "f16"]);
    assert!(message.contains("invalid value 'f16'") && message.contains("bf16"), "{message}");
    for (workload, has) in
        [("matmul", "a matrix product"), ("attention", "attention"), ("train", "a training step")]
    {
        for kind in ["int8", "q8", "q4"] {
            let message = refused(&["bench", workload, "--precision", kind]);
            assert!(
                message.contains(&format!("--precision {kind}: {has} has no weights that are only read")),
                "{message}"
            );
        }
    }
}

#[test]
fn the_machine_is_chosen_with_sense() {
    let commands: [&[&str]; 2] = [&["demo"], &["bench", "matmul", "--m", "4"]];
    for command in commands {
        let message = refused(&[command, &["--threads", "0"]].concat());
        assert!(
            message.starts_with("regard: --threads 0: choose between 1 and 4096; this machine has "),
            "{message}"
        );
        let message = refused(&[command, &["--threads", "1000000"]].concat());
        assert!(message.starts_with("regard: --threads 1000000: choose between 1 and 4096"), "{message}");
        let message = refused(&[command, &["--simd", "neon"]].concat());
        let expected =
            "regard: --simd neon: SIMD level `neon` is not to be had here; this machine has: portable";
        assert!(message.starts_with(expected), "{message}");
    }
}

#[test]
fn a_bench_of_nonsense_is_refused() {
    let huge = usize::MAX.to_string();
    for size in ["--m", "--k", "--n"] {
        let message = refused(&["bench", "matmul", size, "0"]);
        assert!(
            message.starts_with("regard: matmul ") && message.contains("give every size at least 1"),
            "{message}"
        );
        let message = refused(&["bench", "matmul", size, &huge]);
        assert!(message.contains("large, more than any machine holds; lower the bounds"), "{message}");
        let message = refused(&["bench", "matmul", size, "1099511627776"]);
        assert!(message.contains("large, more than any machine holds; lower the bounds"), "{message}");
    }
    for size in ["--batch", "--heads", "--width", "--length"] {
        for causal in [&[][..], &["--causal"], &["--backward"]] {
            let with = |number: &str| refused(&[&["bench", "attention", size, number], causal].concat());
            let message = with("0");
            assert!(message.starts_with("regard: attention"), "{message}");
            let message = with(&huge);
            assert!(message.contains("large, more than any machine holds; lower the bounds"), "{message}");
            let message = with("1099511627776");
            assert!(message.contains("large, more than any machine holds; lower the bounds"), "{message}");
        }
    }
    let message = refused(&["bench", "matmul", "--repeat", "0"]);
    assert_eq!(message, "regard: --repeat 0: choose between 1 and 1000000 timed runs\n");
    let message = refused(&["bench", "matmul", "--repeat", &huge]);
    assert!(message.contains("choose between 1 and 1000000 timed runs"), "{message}");
}

#[test]
fn a_bench_can_be_read_by_a_program() {
    let sizes = ["bench", "matmul", "--m", "3", "--k", "5", "--n", "7", "--repeat", "2", "--json"];
    let output = regard(&sizes);
    assert!(output.status.success());
    let line: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&line["workload"], &line["multiply_adds"]), (&"matmul 3x5x7".into(), &105.into()));
    assert!(line["median_ms"].as_f64().unwrap() >= line["best_ms"].as_f64().unwrap());
    let output = regard(&[&sizes[..], &["--weight-gradient"]].concat());
    let line: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&line["workload"], &line["multiply_adds"]), (&"weight gradient 3x5x7".into(), &105.into()));
}

#[test]
fn every_workload_runs_at_any_size() {
    let gpt = [
        "--layers",
        "1",
        "--heads",
        "2",
        "--width",
        "8",
        "--vocab",
        "11",
        "--repeat",
        "2",
        "--json",
        "--profile",
    ];
    let workloads: [(&[&str], u64); 7] = [
        (&["train", "--model", "gpt", "--block", "5", "--batch", "3", "--dropout", "0.1", "--clip", "1"], 15),
        (&["train", "--block", "4", "--batch", "2", "--precision", "bf16"], 8),
        (&["decode", "--batch", "2", "--past", "3"], 2),
        (&["prefill", "--batch", "2", "--length", "6"], 12),
        (&["forward", "--model", "gpt", "--batch", "2", "--length", "6"], 12),
        (&["forward", "--model", "bert", "--batch", "1", "--length", "6", "--padded"], 5),
        (&["forward", "--model", "vit", "--batch", "2", "--image", "8", "--patch", "4"], 2),
    ];
    for (workload, tokens) in workloads {
        let output = regard(&[&["bench"], workload, &gpt].concat());
        assert!(output.status.success(), "{workload:?}: {}", String::from_utf8_lossy(&output.stderr));
        let line: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let number = |name: &str| line[name].as_f64().unwrap_or_else(|| panic!("{workload:?} has no {name}"));
        let counted = number("tokens_per_second") * number("median_ms") / 1e3;
        assert!((counted - tokens as f64).abs() < 1e-6, "{workload:?}: {counted}");
        assert!(number("planned_bytes") > 0.0 && number("multiply_adds") > 0.0);
        let ops = line["profile"]["ops"].as_array().unwrap();
        assert!(ops.iter().any(|op| op["op"] == "attention"), "{workload:?}: {ops:?}");
        assert!(line["profile"]["ceilings"]["gflops"].as_f64().unwrap() > 0.0);
    }
    let message = refused(&["bench", "train", "--width", "10", "--heads", "4"]);
    assert!(message.contains("width of 10") && message.contains("heads"), "{message}");
    assert!(refused(&["bench", "attention", "--window", "0"]).contains("choose at least 1"));
    assert!(refused(&["bench", "prefill", "--length", "0"]).contains("at least 1 position"));
}

#[test]
fn a_demo_of_nothing_is_refused() {
    assert!(refused(&["demo", "--epochs", "0"]).contains("0 is not in 1.."));
    assert!(refused(&["demo", "--epochs", "-1"]).contains("'-1'"));
    assert!(refused(&["demo", "--seed", "x"]).contains("invalid value 'x' for '--seed <N>'"));
    let message = refused(&["study", "--arms", "rotery"]);
    assert_eq!(message, "regard: --arms rotery: there are alone, pretrained, rotary, perceiver\n");
    let message = refused(&["study", "--pretrain-epochs", "0"]);
    assert!(message.contains("leave the models that read out instead: --arms alone"), "{message}");
    let message = refused(&["study", "--finetune-epochs", "0"]);
    assert!(message.contains("a model has to learn to answer; choose at least 1"), "{message}");
    assert!(refused(&["study", "--text", "x.txt"]).contains("--train <FILE>"));
    assert!(refused(&["study", "--text", "no.txt", "--train", "no.tsv", "--dev", "no.tsv"]).contains("no.t"));
    assert!(refused(&["ask", "nowhere", "Who?"]).contains("nowhere"));
    assert!(refused(&["ask", "nowhere"]).contains("<QUESTIONS>"));
}

/// A folder of a test's own, removed when it ends.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        Scratch(std::env::temp_dir().join(format!("regard-{name}-{}", std::process::id())))
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a plain name")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

#[test]
fn whoever_stops_reading_is_not_answered_with_an_error() {
    let out = Scratch::new("demo-unread");
    let mut child = Command::new(env!("CARGO_BIN_EXE_regard"))
        .args(["demo", "--epochs", "1", "--out", out.path()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    let mut reader = BufReader::with_capacity(1, child.stdout.take().unwrap());
    reader.read_line(&mut first).unwrap();
    drop(reader);
    let output = child.wait_with_output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !message.contains("panicked"), "{:?}: {message}", output.status);
}

#[test]
fn the_demo_compares_four_models_and_leaves_them_and_a_report() {
    let out = Scratch::new("demo");
    let output = regard(&["demo", "--epochs", "1", "--json", "--out", out.path()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let names: Vec<&str> =
        page["arms"].as_array().unwrap().iter().map(|arm| arm["arm"].as_str().unwrap()).collect();
    assert_eq!(names, ["alone", "pretrained", "rotary", "perceiver"]);
    let baseline = page["baseline"]["accuracy"].as_f64().unwrap();
    assert!((0.04..=0.06).contains(&baseline), "{baseline}");
    let report = std::fs::read_to_string(out.0.join("report.html")).unwrap();
    assert_eq!(regard_picture::check::fault(&report), None);
    assert!(report.contains("<svg") && report.contains("answers are wrong") && !report.contains("http"));
    // What the demo was told, anybody is told who asks the model in the folder.
    let asked = page["asked"].as_array().unwrap();
    assert_eq!(asked.len(), 3);
    let best = page["arms"]
        .as_array()
        .unwrap()
        .iter()
        .skip(1)
        .max_by(|a, b| a["accuracy"].as_f64().unwrap().total_cmp(&b["accuracy"].as_f64().unwrap()));
    let model = best.unwrap()["model"].as_str().unwrap();
    let question = asked[0]["question"].as_str().unwrap();
    let answer = regard(&["ask", model, question]);
    assert_eq!(String::from_utf8(answer.stdout).unwrap().trim_end(), asked[0]["said"].as_str().unwrap());
}

#[test]
fn claims_are_listed_run_and_written() {
    let output = regard(&["claims"]);
    let message = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    assert!(message.contains("C7    Monte-Carlo  Is the expected change zero?"), "{message}");
    assert!(message.contains("161 claims"), "{message}");
    assert_eq!(refused(&["claims", "C77"]), "regard: no claim is called `C77`; did you mean `C7`?\n");
    let message = refused(&["claims", "A1", "--threads", "0"]);
    assert_eq!(message, "regard: --threads 0: choose between 1 and 256\n");

    let folder = std::env::temp_dir().join(format!("regard-claims-{}", std::process::id()));
    let place = folder.to_str().expect("a plain name");
    let output = regard(&["claims", "A1-A3", "G2", "E-7", "--json", "--html", place]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let message = String::from_utf8(output.stdout).unwrap();
    assert!(
        message.contains("\"state\":\"wrong in the notes\"") && message.contains("\"failed\":[]"),
        "{message}"
    );
    for name in ["index", "errata", "A1", "G2", "E-7"] {
        let page = std::fs::read_to_string(folder.join(format!("{name}.html"))).expect("a page");
        assert!(page.contains("</html>") && !page.contains("http"), "{name}");
    }
    // One by one into a file: each takes its place, and what cannot be kept is said before the work.
    let results = folder.join("results.json");
    let kept = results.to_str().expect("a plain name");
    for id in ["B1", "A2", "A2"] {
        assert!(regard(&["claims", id, "--results", kept]).status.success());
    }
    let page: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&results).unwrap()).expect("a JSON file");
    let ids: Vec<&str> = page["claims"].as_array().unwrap().iter().filter_map(|c| c["id"].as_str()).collect();
    assert_eq!(ids, ["A2", "B1"]);
    assert_eq!(page["counts"], "2 hold");
    for of in ["commit", "machine", "versions", "seeds"] {
        assert!(!page[of].is_null(), "no {of}");
    }
    let message = refused(&["claims", "A2", "--full", "--results", kept]);
    assert!(message.contains("those kept have effort \"quick\", these have \"full\""), "{message}");
    let message = refused(&["claims", "A2", "--results", folder.join("no/where.json").to_str().unwrap()]);
    assert!(message.contains("where.json") && !message.contains("A2"), "{message}");
    std::fs::remove_dir_all(&folder).ok();
}
