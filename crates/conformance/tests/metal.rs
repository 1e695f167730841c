//! Metal stays behind the engine: the language, the contracts of ops, layers and models name no device, so
//! that another device adds files and changes none of them. Read from the sources and manifests.

use std::fs;
use std::path::{Path, PathBuf};

/// Files of `ops` that may name the device crate besides kernels (`cpu*.rs`, `cuda*.rs`, `cuda/`) and what
/// they are handed: random numbers, which are the same on every device, and ops so small that contract and
/// kernel share a file. The list only shrinks.
const OPS_LIST: [&str; 5] = [
    "accumulate/mod.rs",
    "attention/random.rs",
    "linear/activation_backward.rs",
    "random.rs",
    "scale/mod.rs",
];
/// What kernels are handed, and the trait that they are written in.
const HANDED: [&str; 3] = ["call.rs", "call/part.rs", "kernels.rs"];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The Rust files below a folder of the crates, by their path from there, with their texts; tests left out.
fn sources(folder: &str) -> Vec<(String, String)> {
    fn walk(folder: &Path, root: &Path, found: &mut Vec<(String, String)>) {
        for item in fs::read_dir(folder).unwrap() {
            let path = item.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                walk(&path, root, found);
            } else if name.ends_with(".rs") && !name.starts_with("tests") {
                let shown = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
                found.push((shown, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    let root = crates().join(folder);
    let mut found = Vec::new();
    walk(&root, &root, &mut found);
    assert!(!found.is_empty(), "{folder} has no sources");
    found.sort();
    found
}

fn is_kernel(file: &str) -> bool {
    let name = file.rsplit('/').next().unwrap();
    file.starts_with("cuda/") || name.starts_with("cpu") || name.starts_with("cuda")
}

#[test]
fn the_language_layers_and_models_name_no_device() {
    for room in ["graph", "layers", "models"] {
        for (file, text) in sources(&format!("{room}/src")) {
            assert!(!text.contains("regard_device"), "{room}/src/{file} names the device crate");
        }
        let manifest = fs::read_to_string(crates().join(room).join("Cargo.toml")).unwrap();
        let shipped = manifest.split("[dev-dependencies]").next().unwrap();
        assert!(!shipped.contains("regard-device"), "{room}/Cargo.toml depends on the device crate");
    }
}

#[test]
fn in_ops_only_kernels_name_the_device() {
    let mut listed = Vec::new();
    for (file, text) in sources("ops/src").iter().filter(|(_, text)| text.contains("regard_device")) {
        if is_kernel(file) || HANDED.contains(&file.as_str()) {
            continue;
        }
        // A link in a comment is no dependency.
        let names =
            text.lines().any(|line| !line.trim_start().starts_with("//") && line.contains("regard_device"));
        if names {
            listed.push(file.clone());
        }
    }
    assert_eq!(listed, OPS_LIST, "ops/src: move kernels to a `cpu*.rs`; the list only shrinks");
}

/// Shapes, costs, gradients and reach are asked of `Op`: nothing there may ask a kernel.
#[test]
fn contracts_ask_no_kernel() {
    let mut contracts = 0;
    for (file, text) in sources("ops/src") {
        for part in text.split("\nimpl Op for ").skip(1) {
            let contract = part.split("\n}\n").next().unwrap();
            let code = contract.lines().filter(|line| !line.trim_start().starts_with("//"));
            for line in code {
                for word in ["cpu", "PANEL", "storage(", "Storage", "Level", "multiversion"] {
                    assert!(!line.contains(word), "ops/src/{file}: the contract says `{}`", line.trim());
                }
            }
            contracts += 1;
        }
    }
    assert!(contracts > 50, "{contracts} contracts were read");
}

/// The list of devices is one file: nothing else may tell them apart.
#[test]
fn devices_are_told_apart_in_one_file() {
    for room in fs::read_dir(crates()).unwrap() {
        let room = room.unwrap().file_name().to_string_lossy().into_owned();
        if !crates().join(&room).join("src").is_dir() {
            continue;
        }
        for (file, text) in sources(&format!("{room}/src")) {
            let own = room == "engine" && file == "device.rs";
            assert!(own || !text.contains("Device::Cpu"), "{room}/src/{file} tells devices apart");
        }
    }
}
