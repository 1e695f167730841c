//! Where a command writes: over nothing that is there unless it is asked to, over nothing that it reads in
//! any case, and no two things to one place. Checked before the work, not after it.

use anyhow::{Result, bail};
use clap::Args;
use std::fs;
use std::path::{Path, PathBuf};

/// Whether files that are there may go.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct Replace {
    /// Write over files that are there
    #[arg(long, alias = "force")]
    pub replace: bool,
}

impl Replace {
    /// Refuses outputs, each with the option that names it, that would replace a file unasked, one of the
    /// inputs, or each other.
    pub fn check(self, outputs: &[(&str, &Path)], inputs: &[PathBuf]) -> Result<()> {
        for (at, (option, path)) in outputs.iter().enumerate() {
            let shown = path.display();
            if let Some((other, _)) = outputs[..at].iter().find(|(_, other)| is_same(path, other)) {
                bail!("{other} and {option} both name {shown}; give each a file of its own");
            }
            if inputs.iter().any(|input| is_same(path, input)) {
                bail!("{option} {shown}: is read by the same command; name another file");
            }
            if !self.replace && path.is_file() {
                bail!("{option} {shown}: is there already; name another file, or add --replace");
            }
        }
        Ok(())
    }

    /// Refuses a folder in which an earlier run left this file.
    pub fn check_folder(self, option: &str, folder: &Path, file: &str) -> Result<()> {
        if !self.replace && folder.join(file).exists() {
            bail!(
                "{option} {}: has a {file} already; name another folder, or add --replace",
                folder.display()
            );
        }
        Ok(())
    }
}

/// The files of a model, or of a run: those in its folder and in the folders inside.
pub fn files_of(model: &Path) -> Vec<PathBuf> {
    fn below(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
        for item in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = item.path();
            match path.is_dir() {
                true if depth > 0 => below(&path, depth - 1, found),
                true => {}
                false => found.push(path),
            }
        }
    }
    let mut found = Vec::new();
    match model.is_dir() {
        true => below(model, 2, &mut found),
        false => found.extend(model.is_file().then(|| model.to_path_buf())),
    }
    found
}

/// Whether two paths lead to one file, also by links, and also where there is none yet.
fn is_same(a: &Path, b: &Path) -> bool {
    match (identity(a), identity(b)) {
        (Some(a), Some(b)) => a == b,
        _ => place(a) == place(b),
    }
}

/// What the system knows a file by.
#[cfg(unix)]
fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).ok().map(|known| (known.dev(), known.ino()))
}

#[cfg(not(unix))]
fn identity(path: &Path) -> Option<PathBuf> {
    fs::canonicalize(path).ok()
}

/// The real folder of a path, and the name in it.
fn place(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_path_buf());
    path.file_name().map_or_else(|| folder.clone(), |name| folder.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_has_many_names() {
        let folder = std::env::temp_dir().join(format!("regard-output-{}", std::process::id()));
        fs::create_dir_all(folder.join("inside")).unwrap();
        let file = folder.join("a");
        fs::write(&file, "a").unwrap();
        fs::hard_link(&file, folder.join("b")).unwrap();
        for other in ["a", "b", "inside/../a", "./a"] {
            assert!(is_same(&file, &folder.join(other)), "{other}");
        }
        assert!(!is_same(&file, &folder.join("c")));
        assert!(is_same(&folder.join("c"), &folder.join("inside/../c")), "also where there is none");
        assert_eq!(files_of(&folder).len(), 2);
        fs::remove_dir_all(&folder).unwrap();
    }
}
