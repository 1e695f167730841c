//! A journey of learning by comparison: from pairs of texts to an encoder whose vectors find the second text
//! of a pair by its first, in a folder that `regard embed` and sentence-transformers read.

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn regard(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_regard")).args(arguments).output().expect("the command starts")
}

#[test]
fn pairs_of_texts_find_each_other() {
    let folder = std::env::temp_dir().join(format!("regard-contrast-{}", std::process::id()));
    let model = folder.join("model");
    fs::create_dir_all(model.join("1_Pooling")).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for file in ["config.json", "model.safetensors"] {
        let golden = root.join("conformance/goldens/parity/bert_masked/model");
        fs::copy(golden.join(file), model.join(file)).unwrap();
    }
    fs::copy(root.join("regard/examples/letters.json"), model.join("tokenizer.json")).unwrap();
    fs::write(
        model.join("1_Pooling/config.json"),
        r#"{"word_embedding_dimension": 24, "pooling_mode_mean_tokens": true}"#,
    )
    .unwrap();
    let words = ["cat", "dog", "fish", "bird", "tree", "rock", "moon", "star"];
    let (mut pairs, mut lines) = (String::new(), String::new());
    for word in words {
        let backwards: String = word.chars().rev().collect();
        pairs += &format!("a {word}\tno {backwards}\n");
        lines += &format!("{{\"anchor\": \"a {word}\", \"positive\": \"no {backwards}\"}}\n");
    }
    fs::write(folder.join("pairs.tsv"), pairs).unwrap();
    fs::write(folder.join("pairs.jsonl"), lines).unwrap();
    let recipe = format!(
        "task = \"contrast\"\n[from]\nmodel = {:?}\n[data]\nkind = \"couples\"\ntrain = [{:?}]\nevaluate = [{:?}]\n\
         [train]\nsteps = 60\nbatch = 8\nlr = 0.01\ndropout = 0.0\nweight_decay = 0.0\nevaluate_every = 20\ntemperature = 0.1\n",
        model,
        folder.join("pairs.tsv"),
        folder.join("pairs.jsonl")
    );
    fs::write(folder.join("recipe.toml"), &recipe).unwrap();
    let (path, run) = (folder.join("recipe.toml"), folder.join("run"));
    let (path, run) = (path.to_str().unwrap(), run.to_str().unwrap());
    let output = regard(&["train", path, "--out", run]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result: Value =
        serde_json::from_str(&fs::read_to_string(Path::new(run).join("result.json")).unwrap()).unwrap();
    assert!(result["metrics"]["mrr"].as_f64().unwrap() > 0.9, "{result}");
    assert!(result["metrics"]["accuracy"].as_f64().unwrap() > 0.8, "{result}");
    // What lies beside a sentence-transformer came along, and vectors are made by it.
    assert!(Path::new(run).join("model/1_Pooling/config.json").is_file());
    let vectors =
        regard(&["embed", run, "--text", "a cat", "--text", "no tac", "--text", "no god", "--json"]);
    assert!(vectors.status.success(), "{}", String::from_utf8_lossy(&vectors.stderr));
    let examined = regard(&["evaluate", run, "--json"]);
    let text = String::from_utf8_lossy(&examined.stdout).into_owned();
    assert!(
        examined.status.success() && text.contains("mrr"),
        "{text} {}",
        String::from_utf8_lossy(&examined.stderr)
    );
    // What has nothing to start from is refused.
    fs::write(folder.join("recipe.toml"), recipe.replace("[from]\nmodel", "[from]\n# model")).unwrap();
    let output = regard(&["train", path, "--out", &format!("{run}-2")]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("vectors are learned by comparison from an encoder that there is"), "{message}");
    fs::remove_dir_all(&folder).unwrap();
}
