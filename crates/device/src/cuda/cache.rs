//! Cubins on disk, each under a hash of everything that it depends on. A file is written whole or not at all,
//! and carries a hash of its content: what was damaged is compiled again.

use sha2::{Digest, Sha256};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

const MAGIC: &[u8] = b"regard cubin 1\n";
const HASH: usize = 32;

/// A folder of cubins.
#[derive(Clone, Debug)]
pub struct CubinCache {
    folder: PathBuf,
}

impl CubinCache {
    /// A cache in this folder, which is made when it is first written.
    pub fn at(folder: impl Into<PathBuf>) -> CubinCache {
        CubinCache { folder: folder.into() }
    }

    /// The cache of this user; `None` where there is no home.
    pub fn of_user() -> Option<CubinCache> {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let caches = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")))?;
        Some(CubinCache::at(caches.join("regard/cubins")))
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The name for these parts: another part, or the same cut elsewhere, is another name.
    pub(super) fn key(parts: &[String]) -> String {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// What is kept under this name, if it is whole.
    pub(super) fn read(&self, key: &str) -> Option<Vec<u8>> {
        let mut file = std::fs::read(self.file(key)).ok()?;
        let rest = file.strip_prefix(MAGIC)?;
        let (hash, cubin) = rest.split_at_checked(HASH)?;
        if Sha256::digest(cubin)[..] != *hash {
            return None;
        }
        Some(file.split_off(MAGIC.len() + HASH))
    }

    /// Keeps a cubin under this name.
    pub(super) fn write(&self, key: &str, cubin: &[u8]) -> io::Result<()> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        std::fs::create_dir_all(&self.folder)?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        // Processes and threads that compile the same write files of their own; the last to rename wins with
        // equal bytes.
        let temporary = self.folder.join(format!("{key}.{}.{number}", std::process::id()));
        let content = [MAGIC, &Sha256::digest(cubin)[..], cubin].concat();
        let written =
            std::fs::write(&temporary, content).and_then(|()| std::fs::rename(&temporary, self.file(key)));
        if written.is_err() {
            let _ = std::fs::remove_file(&temporary);
        }
        written
    }

    fn file(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{key}.cubin"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_damaged_is_not_read() {
        let folder = std::env::temp_dir().join(format!("regard-cubins-{}", std::process::id()));
        let cache = CubinCache::at(&folder);
        assert_eq!(cache.read("k"), None);
        cache.write("k", b"machine code").unwrap();
        assert_eq!(cache.read("k").unwrap(), b"machine code");
        assert_eq!(cache.read("other"), None);
        let whole = std::fs::read(cache.file("k")).unwrap();
        for cut in 0..whole.len() {
            std::fs::write(cache.file("k"), &whole[..cut]).unwrap();
            assert_eq!(cache.read("k"), None, "cut at {cut}");
            let mut flipped = whole.clone();
            flipped[cut] ^= 1;
            std::fs::write(cache.file("k"), flipped).unwrap();
            assert_eq!(cache.read("k"), None, "flipped at {cut}");
        }
        cache.write("k", b"").unwrap();
        assert_eq!(cache.read("k").unwrap(), b"");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "nothing is left beside");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn where_parts_are_cut_matters() {
        let key =
            |parts: &[&str]| CubinCache::key(&parts.iter().map(|part| part.to_string()).collect::<Vec<_>>());
        assert_ne!(key(&["ab", "c"]), key(&["a", "bc"]));
        assert_ne!(key(&["ab"]), key(&["ab", ""]));
        assert_eq!(key(&["ab", "c"]), key(&["ab", "c"]));
    }
}
