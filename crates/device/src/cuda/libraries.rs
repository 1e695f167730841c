//! Finding the three libraries: the driver's `libcuda`, the compiler `libnvrtc` and the products'
//! `libcublasLt`.
//!
//! The bindings open a library by its name at the first call and panic when there is none, so it is loaded
//! here first: from the folders in [`FOLDERS`], else by the loader, else from CUDA toolkits and Python
//! packages. A library that is loaded already is found by its name again, and that is how the bindings come
//! to use it.

use super::error::{CudaError, check};
use cudarc::{cublaslt::sys as lt, driver::sys as cu, nvrtc::sys as rtc};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The environment variable that names folders to look in first, separated by colons.
pub const FOLDERS: &str = "REGARD_CUDA_LIBRARIES";

/// The CUDA version that the bindings are made for: the driver's least, and the libraries' major one.
pub const NEEDED: (u32, u32) = (13, 0);

/// A library as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    /// Where it lies, if the system tells.
    pub path: Option<PathBuf>,
    /// Major and minor version.
    pub version: (u32, u32),
}

/// A library that may lie in many places.
struct Wanted {
    name: &'static str,
    package: &'static str,
}

const NVRTC: Wanted = Wanted { name: "nvrtc", package: "pip install nvidia-cuda-nvrtc" };
const CUBLASLT: Wanted = Wanted { name: "cublasLt", package: "pip install nvidia-cublas" };

/// The command that installs the compiler.
pub(super) const NVRTC_PACKAGE: &str = NVRTC.package;

impl Wanted {
    fn file(&self) -> String {
        format!("lib{}.so.{}", self.name, NEEDED.0)
    }

    /// Loads it for good, from wherever it is.
    fn load(&self, variable: &dyn Fn(&str) -> Option<OsString>) -> Result<(), CudaError> {
        let asked: Vec<PathBuf> =
            variable(FOLDERS).map(|list| std::env::split_paths(&list).collect()).unwrap_or_default();
        if asked.iter().any(|folder| keep(&folder.join(self.file()))) {
            return Ok(());
        }
        // The two names by which the bindings would take it before any other version of it.
        if [format!("lib{}.so", self.name), self.file()].iter().any(|name| keep(Path::new(name))) {
            return Ok(());
        }
        let folders = folders(variable);
        if folders.iter().any(|folder| keep(&folder.join(self.file()))) {
            return Ok(());
        }
        let searched = asked.len() + folders.len();
        Err(CudaError::NoLibrary { library: self.file(), package: self.package, searched })
    }

    fn checked(&self, version: (u32, u32)) -> Result<Library, CudaError> {
        let path = loaded(&format!("lib{}.so", self.name));
        if version.0 == NEEDED.0 {
            return Ok(Library { path, version });
        }
        Err(CudaError::LibraryVersion {
            library: self.file(),
            path: path.map_or("place unknown".into(), |path| path.display().to_string()),
            found: version,
            needed: NEEDED.0,
            package: self.package,
        })
    }
}

/// The driver, started: its version. The answer is the same for the whole life of the process.
pub fn driver() -> Result<(u32, u32), CudaError> {
    static FOUND: OnceLock<Result<(u32, u32), CudaError>> = OnceLock::new();
    FOUND.get_or_init(start_driver).clone()
}

/// The compiler. The answer is the same for the whole life of the process.
pub fn nvrtc() -> Result<Library, CudaError> {
    static FOUND: OnceLock<Result<Library, CudaError>> = OnceLock::new();
    let find = || {
        NVRTC.load(&|name| std::env::var_os(name))?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the library is loaded and found by its name; the call writes two numbers.
        if unsafe { rtc::nvrtcVersion(&mut major, &mut minor) } as u32 != 0 {
            return Err(CudaError::Compiler { doing: "asking for the version", text: "an error".into() });
        }
        let library = NVRTC.checked((major as u32, minor as u32))?;
        load_builtins(&library);
        Ok(library)
    };
    FOUND.get_or_init(find).clone()
}

/// The library of products. The answer is the same for the whole life of the process.
pub fn cublaslt() -> Result<Library, CudaError> {
    static FOUND: OnceLock<Result<Library, CudaError>> = OnceLock::new();
    let find = || {
        CUBLASLT.load(&|name| std::env::var_os(name))?;
        // SAFETY: the library is loaded and found by its name; the call takes nothing.
        let version = unsafe { lt::cublasLtGetVersion() } as u32;
        CUBLASLT.checked((version / 10_000, version / 100 % 100))
    };
    FOUND.get_or_init(find).clone()
}

fn start_driver() -> Result<(u32, u32), CudaError> {
    // SAFETY: opens and closes libraries whose initialisers are the driver's own.
    if !unsafe { cu::is_culib_present() } {
        return Err(CudaError::NoDriver { reason: "libcuda.so.1 was not found".into() });
    }
    let mut version = 0;
    // SAFETY: the library is there; the call needs no initialisation and writes one number.
    check(unsafe { cu::cuDriverGetVersion(&mut version) }, "asking for the driver's version")?;
    let found = (version as u32 / 1000, version as u32 % 1000 / 10);
    if found < NEEDED {
        return Err(CudaError::DriverTooOld { found, needed: NEEDED });
    }
    // SAFETY: may be called at any time and from any thread.
    match check(unsafe { cu::cuInit(0) }, "starting the driver") {
        Ok(()) => Ok(found),
        Err(CudaError::Refused { code: 100, .. }) => Err(CudaError::NoCard),
        Err(error) => Err(CudaError::NoDriver { reason: error.to_string() }),
    }
}

/// The compiler opens its built-in headers by name, which the loader finds only on its own path: loaded from
/// beside the compiler first, they are there already.
fn load_builtins(library: &Library) {
    let Some(folder) = library.path.as_ref().and_then(|path| path.parent()) else { return };
    let (major, minor) = library.version;
    keep(&folder.join(format!("libnvrtc-builtins.so.{major}.{minor}")));
}

/// Loads a library and keeps it until the process ends.
fn keep(path: &Path) -> bool {
    // SAFETY: the libraries looked for here are NVIDIA's, whose initialisers may run in any process.
    let library = unsafe { libloading::Library::new(path) };
    library.map(std::mem::forget).is_ok()
}

/// The file from which a library was loaded, whose name begins so.
fn loaded(name: &str) -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let paths = maps.lines().filter_map(|line| line.find('/').map(|at| Path::new(&line[at..])));
    let mut named =
        paths.filter(|path| path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(name)));
    named.next().map(Path::to_path_buf)
}

/// Every folder in which toolkits and Python packages keep these libraries, without those that are not there.
fn folders(variable: &dyn Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let paths = |name: &str| -> Vec<PathBuf> {
        variable(name).map(|list| std::env::split_paths(&list).collect()).unwrap_or_default()
    };
    let mut toolkits = [paths("CUDA_HOME"), paths("CUDA_PATH")].concat();
    toolkits.push("/usr/local/cuda".into());
    toolkits.extend(children("/usr/local".as_ref(), "cuda-13"));
    let mut found: Vec<PathBuf> =
        toolkits.iter().flat_map(|kit| [kit.join("lib64"), kit.join("targets/x86_64-linux/lib")]).collect();
    // Where a Python lies in `bin`, its packages lie in `lib` beside it.
    let mut prefixes = [paths("VIRTUAL_ENV"), paths("CONDA_PREFIX")].concat();
    prefixes.extend(paths("PATH").iter().flat_map(|bin| pythons(bin)));
    prefixes.extend(paths("HOME").iter().map(|home| home.join(".local")));
    for prefix in prefixes {
        let lib = prefix.join("lib");
        for python in children(&lib, "python3") {
            for packages in ["site-packages", "dist-packages"] {
                let nvidia = python.join(packages).join("nvidia");
                found.extend(["cu13", "cuda_nvrtc", "cublas"].map(|part| nvidia.join(part).join("lib")));
            }
        }
        found.push(lib);
    }
    let mut seen = BTreeSet::new();
    found.retain(|folder| folder.is_dir() && seen.insert(folder.clone()));
    found
}

/// The prefixes of the Python in a folder of programs: its own, and those of the files to which it is linked,
/// as a virtual environment may be reached by a link from elsewhere.
fn pythons(bin: &Path) -> Vec<PathBuf> {
    const LINKS: usize = 8;
    let mut python = bin.join("python3");
    let mut found = Vec::new();
    for _ in 0..LINKS {
        found.extend(python.parent().and_then(Path::parent).map(Path::to_path_buf));
        let Ok(to) = std::fs::read_link(&python) else { break };
        python = python.parent().unwrap_or(Path::new("/")).join(to);
    }
    found
}

/// What a folder holds whose name begins so, in the order of the names.
fn children(folder: &Path, begins: &str) -> Vec<PathBuf> {
    let Ok(items) = std::fs::read_dir(folder) else { return Vec::new() };
    let named = items.flatten().filter(|item| item.file_name().to_string_lossy().starts_with(begins));
    let mut found: Vec<PathBuf> = named.map(|item| item.path()).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_found_beside_the_python_on_the_path() {
        let root = std::env::temp_dir().join(format!("regard-libraries-{}", std::process::id()));
        let lib = root.join("lib/python3.12/site-packages/nvidia/cu13/lib");
        std::fs::create_dir_all(&lib).unwrap();
        std::fs::create_dir_all(root.join("bin")).unwrap();
        let bin = root.join("bin").into_os_string();
        let found = folders(&|name| (name == "PATH").then(|| bin.clone()));
        std::fs::remove_dir_all(&root).unwrap();
        assert!(found.contains(&lib), "{found:?}");
    }

    #[test]
    fn what_is_missing_names_its_package() {
        let nothing = Wanted { name: "regard-no-such-library", package: "pip install nothing" };
        let text = nothing.load(&|_| None).unwrap_err().to_string();
        assert!(text.starts_with("libregard-no-such-library.so.13 was not found"), "{text}");
        assert!(text.contains("`pip install nothing`") && text.contains(FOLDERS), "{text}");
    }

    #[test]
    fn another_version_is_refused() {
        let text = NVRTC.checked((12, 4)).unwrap_err().to_string();
        assert!(text.contains("is of CUDA 12.4, and CUDA 13 is needed"), "{text}");
    }
}
