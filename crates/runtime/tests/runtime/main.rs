//! Sessions on small committed models and on runs made here, with what a person can get wrong.

mod companions;
mod obeyed;
mod places;
mod sentences;
mod sessions;
mod workers;
mod writes;

use regard_device::Level;
use regard_engine::Cpu;
use regard_models::Registry;
use regard_runtime::{OpenOptions, Session, Which};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

static REGISTRY: LazyLock<Registry> = LazyLock::new(Registry::standard);

fn cpu() -> Cpu {
    Cpu::with(2, Level::best()).unwrap()
}

fn goldens(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/goldens/parity").join(name).join("model")
}

fn session(name: &str) -> Session {
    Session::open(name, &OpenOptions::new(&REGISTRY), &cpu()).unwrap()
}

fn refused(name: &str, which: Which) -> String {
    let options = OpenOptions { which, ..OpenOptions::new(&REGISTRY) };
    Session::open(name, &options, &cpu()).err().unwrap().to_string()
}

/// A folder of a test's own, removed when it ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("regard-runtime-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    /// A copy of a committed model, with a tokenizer of these signs.
    fn model(name: &str, signs: &str) -> Scratch {
        let scratch = Scratch::new();
        for file in fs::read_dir(goldens(name)).unwrap() {
            let file = file.unwrap();
            // What it says about writing is each test's own.
            if file.file_name() != "generation_config.json" {
                fs::copy(file.path(), scratch.0.join(file.file_name())).unwrap();
            }
        }
        scratch.put("tokenizer.json", &tokenizer(signs, &[]));
        scratch
    }

    fn put(&self, name: &str, text: &str) {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Changes the config: keys of null go.
    fn config(&self, changes: Value) {
        let path = self.0.join("config.json");
        let mut config: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        for (key, value) in changes.as_object().unwrap() {
            match value {
                Value::Null => drop(config.as_object_mut().unwrap().remove(key)),
                value => config[key] = value.clone(),
            }
        }
        fs::write(path, config.to_string()).unwrap();
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const SMALL: &str = "abcdefghijklmnopqrstuvwxyz .";
const LETTERS: &str = "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// A tokenizer whose tokens are these signs, and behind them these special ones.
fn tokenizer(signs: &str, special: &[&str]) -> String {
    let tokens = signs.chars().map(|c| c.to_string()).chain(special.iter().map(|name| name.to_string()));
    let vocabulary: serde_json::Map<String, Value> =
        tokens.enumerate().map(|(id, token)| (token, id.into())).collect();
    json!({
        "version": "1.0",
        "added_tokens": [],
        "decoder": { "type": "Fuse" },
        "model": { "type": "BPE", "vocab": vocabulary, "merges": [] },
    })
    .to_string()
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| text.to_string()).collect()
}
