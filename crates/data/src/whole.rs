//! Files written whole or not at all: bytes go to a hidden temporary file in the same folder, reach the disk,
//! and only then take the final name, in one step that the file system makes indivisible. A full disk, an
//! error or a killed process leaves what was there before.

use crate::{Error, Result};
use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind::{AlreadyExists, InvalidInput, PermissionDenied, Unsupported};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A temporary file older than this belongs to no living writer: one that works changes its file all the
/// time.
const ABANDONED: Duration = Duration::from_secs(3600);

const ENDING: &str = ".partial";

/// Replaces or creates the file at `path` with what `fill` writes.
///
/// ```
/// let path = std::env::temp_dir().join(format!("regard-whole-{}", std::process::id()));
/// regard_data::whole::write(&path, |file| std::io::Write::write_all(file, b"all of it"))?;
/// assert_eq!(std::fs::read(&path).unwrap(), b"all of it");
/// # std::fs::remove_file(&path).ok();
/// # Ok::<(), regard_data::Error>(())
/// ```
pub fn write(path: impl AsRef<Path>, fill: impl FnOnce(&mut File) -> io::Result<()>) -> Result<()> {
    write_for(path, Access::default(), fill)
}

/// The same for those who may read it.
pub fn write_for(
    path: impl AsRef<Path>,
    access: Access,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> Result<()> {
    let path = path.as_ref();
    let mut pending = Pending::for_file(path, access)?;
    fill(pending.file()).map_err(|e| Error::io("write", path, e))?;
    pending.settle(path)?;
    pending.rename(path)?;
    sync_folder(folder_of(path))
}

/// Who may read and write a new file: never more than the system lets anybody by itself, and never more than
/// may read the file that it is made from or takes the place of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// The bits of a Unix mode; all of them where nothing is said.
    mode: Option<u32>,
}

impl Access {
    /// Those who may do the same with each of these files.
    pub fn of(files: &[PathBuf]) -> Access {
        files.iter().fold(Access::default(), |access, file| access.within(file))
    }

    #[cfg(unix)]
    fn within(self, file: &Path) -> Access {
        use std::os::unix::fs::PermissionsExt;
        match fs::metadata(file) {
            Ok(known) if known.is_file() => {
                Access { mode: Some(self.mode.unwrap_or(0o666) & known.permissions().mode() & 0o666) }
            }
            _ => self,
        }
    }

    #[cfg(not(unix))]
    fn within(self, _: &Path) -> Access {
        self
    }

    #[cfg(unix)]
    fn set(self, options: &mut OpenOptions) {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(self.mode.unwrap_or(0o666));
    }

    #[cfg(not(unix))]
    fn set(self, _: &mut OpenOptions) {}
}

/// A file that has no final name yet. Dropped without [`Pending::rename`], it is removed.
pub(crate) struct Pending {
    path: PathBuf,
    file: File,
    named: bool,
}

impl Pending {
    /// A new temporary file in the folder of `path`.
    pub fn for_file(path: &Path, access: Access) -> Result<Pending> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let Some(name) = path.file_name() else {
            return Err(Error::file(path, "is no name for a file", "name a file to write"));
        };
        if path.is_dir() {
            return Err(Error::file(path, "is a folder", "name a file to write"));
        }
        let folder = folder_of(path);
        let stem = format!(".{}.", name.to_string_lossy());
        sweep(folder, &stem);
        let mut options = OpenOptions::new();
        access.within(path).set(options.write(true).read(true).create_new(true));
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let temporary = folder.join(format!("{stem}{}-{number}{ENDING}", std::process::id()));
            match options.open(&temporary) {
                Ok(file) => return Ok(Pending { path: temporary, file, named: false }),
                // Left by a process of the same number, before this one.
                Err(e) if e.kind() == AlreadyExists => {}
                Err(e) => return Err(Error::io("write", path, e)),
            }
        }
    }

    /// The file to write to.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Waits until the bytes are on the disk; `path` is what an error speaks of.
    pub fn settle(&mut self, path: &Path) -> Result<()> {
        self.file.flush().and_then(|()| self.file.sync_all()).map_err(|e| Error::io("write", path, e))
    }

    /// Gives the file its final name, in place of whatever had it.
    pub fn rename(mut self, path: &Path) -> Result<()> {
        fs::rename(&self.path, path).map_err(|e| Error::io("write", path, e))?;
        self.named = true;
        Ok(())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.named {
            // Nothing is lost if this fails: the name is hidden, and the next writer sweeps.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The folder in which a path lies.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Makes new names in a folder last: without it, a loss of power can undo a rename. Where a folder cannot be
/// read or its file system does not know how, the new file is in its place all the same, and that is no
/// error.
pub(crate) fn sync_folder(folder: &Path) -> Result<()> {
    if !cfg!(unix) {
        return Ok(());
    }
    match File::open(folder).and_then(|f| f.sync_all()) {
        Err(e) if matches!(e.kind(), PermissionDenied | InvalidInput | Unsupported) => Ok(()),
        result => result.map_err(|e| Error::io("write", folder, e)),
    }
}

/// Removes what killed writers of the same file left behind; failing to is no reason not to write.
fn sweep(folder: &Path, stem: &str) {
    let Ok(items) = fs::read_dir(folder) else { return };
    for item in items.flatten() {
        let name = item.file_name();
        let name = name.to_string_lossy();
        if !(name.starts_with(stem) && name.ends_with(ENDING)) {
            continue;
        }
        let age = item.metadata().and_then(|m| m.modified()).map(|time| time.elapsed().unwrap_or_default());
        if age.is_ok_and(|age| age > ABANDONED) {
            let _ = fs::remove_file(item.path());
        }
    }
}
