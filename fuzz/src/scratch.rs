//! A folder for parsers that read files: what is fuzzed is put there under the name that they look for. The
//! script that starts the fuzzer names one in memory by `REGARD_FUZZ_SCRATCH`, and removes it; by hand it is
//! one beside others.

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

/// The folder of this process.
pub fn folder() -> &'static PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let own = || std::env::temp_dir().join(format!("regard-fuzz-{}", std::process::id()));
        let folder = std::env::var_os("REGARD_FUZZ_SCRATCH").map_or_else(own, PathBuf::from);
        fs::create_dir_all(&folder).expect("a folder for the inputs");
        folder
    })
}

/// A file of this name with these bytes.
pub fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder().join(name);
    fs::write(&path, bytes).expect("an input in the folder");
    path
}
