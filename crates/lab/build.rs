//! Digests of what the claims of each group follow from: their own sources, the sources that all groups
//! share, and the data and settings that they take from other crates. Results that are kept carry the digest
//! of their group, and a test fails when it is no longer that of the sources.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// What shows findings and changes none: its sources are not part of any digest.
const SHOWN: [&str; 8] =
    ["catalogue.rs", "errata.rs", "json.rs", "kept.rs", "lib.rs", "run.rs", "site", "site.rs"];

/// What groups take from each other and from other crates.
const TAKEN: [(&str, &[&str]); 2] = [
    (
        "l",
        &["src/h_cost/runs.rs", "../data/src/biographies", "../data/src/corruption", "../recipe/src/study"],
    ),
    ("m", &["src/l_pretraining/study.rs", "../data/src/biographies", "../recipe/src/study"]),
];

fn main() -> io::Result<()> {
    let mut shared = vec![];
    let mut groups: Vec<(String, Vec<PathBuf>)> = vec![];
    for path in sorted(Path::new("src"))? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_string();
        match name.split_once('_') {
            Some((letter, _)) if letter.len() == 1 => match groups.iter_mut().find(|own| own.0 == letter) {
                Some((_, own)) => own.push(path),
                None => groups.push((letter.to_string(), vec![path])),
            },
            _ if SHOWN.contains(&name.as_str()) => {}
            _ => shared.push(path),
        }
    }
    for (letter, mut own) in groups {
        let taken = TAKEN.iter().filter(|(by, _)| *by == letter).flat_map(|(_, paths)| *paths);
        own.extend(taken.map(PathBuf::from).chain(shared.iter().cloned()));
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        for path in own {
            digest(&path, &mut hash)?;
        }
        println!("cargo:rustc-env=REGARD_CLAIMS_{}={hash:016x}", letter.to_uppercase());
    }
    for watched in
        ["build.rs", "src", "../data/src/biographies", "../data/src/corruption", "../recipe/src/study"]
    {
        println!("cargo:rerun-if-changed={watched}");
    }
    let compiler = env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let version = std::process::Command::new(compiler).arg("--version").output()?;
    println!("cargo:rustc-env=REGARD_COMPILER={}", String::from_utf8_lossy(&version.stdout).trim());
    Ok(())
}

fn sorted(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    paths.sort();
    Ok(paths)
}

/// FNV-1a over names and lines, folders in the order of their names. A comment changes no finding, nor does a
/// new setting that is left as it usually is: lines that are one of these are left out.
fn digest(path: &Path, hash: &mut u64) -> io::Result<()> {
    let mut add = |bytes: &[u8]| {
        for byte in bytes {
            *hash = (*hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    if path.is_dir() {
        for inner in sorted(path)? {
            digest(&inner, hash)?;
        }
        return Ok(());
    }
    add(path.to_string_lossy().as_bytes());
    let text = fs::read_to_string(path)?;
    let says_nothing = |line: &str| line.trim_start().starts_with("//") || is_usual(line.trim());
    for line in text.lines().filter(|line| !says_nothing(line)) {
        add(line.as_bytes());
        add(b"\n");
    }
    Ok(())
}

/// Whether a line of a record leaves a setting as it usually is: `window: None,`.
fn is_usual(line: &str) -> bool {
    let setting = line.strip_suffix(": None,").or_else(|| line.strip_suffix(": Default::default(),"));
    setting.is_some_and(|name| {
        !name.is_empty() && name.chars().all(|one| one.is_ascii_alphanumeric() || one == '_')
    })
}
