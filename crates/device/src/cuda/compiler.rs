//! From CUDA C++ to cubins with NVRTC. It needs no driver, so that sources are checked where there is no
//! card, and no headers but our own. What was compiled once is taken from the cache; the rest is compiled on
//! several threads.

use super::error::CudaError;
use super::{CubinCache, libraries};
use cudarc::nvrtc::sys as rtc;
use std::borrow::Cow;
use std::ffi::{CStr, CString, c_char};
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a cubin is for: `sm_80`, `sm_90a`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Architecture {
    /// The compute capability.
    pub capability: (u32, u32),
    /// With the instructions that only this very architecture has (`wgmma` of sm_90a).
    pub exact: bool,
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let (major, minor) = self.capability;
        write!(f, "sm_{major}{minor}{}", if self.exact { "a" } else { "" })
    }
}

/// A source with the defines that make one kernel of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Source {
    /// Its name in errors.
    pub name: Cow<'static, str>,
    /// CUDA C++, which may include the headers below.
    pub text: Cow<'static, str>,
    /// Names and texts of headers.
    pub headers: Vec<(&'static str, &'static str)>,
    /// Names and values of macros.
    pub defines: Vec<(String, String)>,
}

impl Source {
    /// A source that may include `prelude.cuh`.
    pub fn new(name: impl Into<Cow<'static, str>>, text: impl Into<Cow<'static, str>>) -> Source {
        let headers = vec![("prelude.cuh", super::kernels::PRELUDE)];
        Source { name: name.into(), text: text.into(), headers, defines: Vec::new() }
    }

    /// With one more macro.
    pub fn define(mut self, name: impl Into<String>, value: impl ToString) -> Source {
        self.defines.push((name.into(), value.to_string()));
        self
    }

    /// What the compiler is told. No fast math: a sum or an `exp` has the same bits on every architecture and
    /// version as far as the compiler can promise it.
    fn options(&self, architecture: Architecture) -> Vec<String> {
        let mut options = vec![
            format!("--gpu-architecture={architecture}"),
            "--std=c++17".into(),
            "--fmad=true".into(),
            "--ftz=false".into(),
            "--prec-div=true".into(),
            "--prec-sqrt=true".into(),
            "--ptxas-options=-v".into(),
        ];
        options.extend(self.defines.iter().map(|(name, value)| format!("--define-macro={name}={value}")));
        options
    }
}

/// A cubin and what the compiler said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    /// Machine code for one architecture.
    pub cubin: Vec<u8>,
    /// Warnings and what each kernel needs, see [`resources`](super::resources). Empty when the cubin is from
    /// the cache.
    pub log: String,
}

/// NVRTC with a cache.
#[derive(Debug)]
pub struct Compiler {
    version: (u32, u32),
    driver: Option<(u32, u32)>,
    cache: Option<CubinCache>,
}

impl Compiler {
    /// A compiler. The driver's version, where there is one, is a part of the cache's keys.
    pub fn new(driver: Option<(u32, u32)>, cache: Option<CubinCache>) -> Result<Compiler, CudaError> {
        Ok(Compiler { version: libraries::nvrtc()?.version, driver, cache })
    }

    /// What to compile for a card: its own architecture, with all of its instructions on sm_90; else the
    /// nearest older one of the same generation, whose code it runs.
    pub fn architecture(&self, capability: (u32, u32)) -> Result<Architecture, CudaError> {
        let mut count = 0;
        // SAFETY: the library is loaded; one number is written.
        answer(unsafe { rtc::nvrtcGetNumSupportedArchs(&mut count) }, "asking for architectures")?;
        let mut known = vec![0; count as usize];
        // SAFETY: the list has room for as many as there are.
        answer(unsafe { rtc::nvrtcGetSupportedArchs(known.as_mut_ptr()) }, "asking for architectures")?;
        let known: Vec<(u32, u32)> = known.iter().map(|&arch| (arch as u32 / 10, arch as u32 % 10)).collect();
        choose(&known, capability).ok_or_else(|| CudaError::NoArchitecture {
            version: self.version,
            capability,
            newest: known.iter().max().map_or("none".into(), |(major, minor)| format!("sm_{major}{minor}")),
            package: libraries::NVRTC_PACKAGE,
        })
    }

    /// Compiles one source, or takes it from the cache.
    pub fn compile(&self, source: &Source, architecture: Architecture) -> Result<Compiled, CudaError> {
        let Some(cache) = &self.cache else { return compile(source, architecture) };
        let key = self.key(source, architecture);
        if let Some(cubin) = cache.read(&key) {
            return Ok(Compiled { cubin, log: String::new() });
        }
        let compiled = compile(source, architecture)?;
        // A cache that cannot be written costs time at the next start, and nothing else.
        let _ = cache.write(&key, &compiled.cubin);
        Ok(compiled)
    }

    /// Compiles many on several threads; the results are in the order of the sources, the error is the first
    /// one's.
    pub fn compile_all(
        &self,
        sources: &[Source],
        architecture: Architecture,
        threads: usize,
    ) -> Result<Vec<Compiled>, CudaError> {
        let results: Vec<Mutex<Option<Result<Compiled, CudaError>>>> =
            sources.iter().map(|_| Mutex::new(None)).collect();
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..threads.clamp(1, sources.len().max(1)) {
                scope.spawn(|| {
                    loop {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        let Some(source) = sources.get(at) else { break };
                        let compiled = self.compile(source, architecture);
                        *results[at].lock().expect("no thread panicked") = Some(compiled);
                    }
                });
            }
        });
        let results = results.into_iter().map(|result| result.into_inner().expect("no thread panicked"));
        results.map(|result| result.expect("each source was compiled")).collect()
    }

    /// Everything on which the cubin depends.
    fn key(&self, source: &Source, architecture: Architecture) -> String {
        let mut parts = vec![
            format!("nvrtc {}.{}", self.version.0, self.version.1),
            self.driver.map_or("no driver".into(), |(major, minor)| format!("driver {major}.{minor}")),
            source.name.to_string(),
            source.text.to_string(),
        ];
        parts.extend(source.headers.iter().flat_map(|(name, text)| [name.to_string(), text.to_string()]));
        parts.extend(source.options(architecture));
        CubinCache::key(&parts)
    }
}

fn choose(known: &[(u32, u32)], capability: (u32, u32)) -> Option<Architecture> {
    let older = known.iter().filter(|arch| arch.0 == capability.0 && **arch <= capability);
    older.max().map(|&capability| Architecture { capability, exact: capability == (9, 0) })
}

/// A program of NVRTC, destroyed on drop.
struct Program(rtc::nvrtcProgram);

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: made by `nvrtcCreateProgram` and destroyed only here.
        unsafe { rtc::nvrtcDestroyProgram(&mut self.0) };
    }
}

fn compile(source: &Source, architecture: Architecture) -> Result<Compiled, CudaError> {
    let failed = |log: String| CudaError::Compile {
        source_name: source.name.to_string(),
        architecture: architecture.to_string(),
        log,
    };
    let text = |text: &str| CString::new(text).map_err(|_| failed("the source holds a zero byte".into()));
    let (code, name) = (text(&source.text)?, text(&source.name)?);
    let list = |texts: &mut dyn Iterator<Item = &str>| texts.map(text).collect::<Result<Vec<CString>, _>>();
    let names = list(&mut source.headers.iter().map(|header| header.0))?;
    let headers = list(&mut source.headers.iter().map(|header| header.1))?;
    let options = source.options(architecture);
    let options = list(&mut options.iter().map(String::as_str))?;
    let pointers = |texts: &[CString]| texts.iter().map(|text| text.as_ptr()).collect::<Vec<*const c_char>>();
    let (names, headers, flags) = (pointers(&names), pointers(&headers), pointers(&options));

    let mut program = std::ptr::null_mut();
    // SAFETY: C strings that live through the call, lists as long as said; one handle is written.
    let made = unsafe {
        rtc::nvrtcCreateProgram(
            &mut program,
            code.as_ptr(),
            name.as_ptr(),
            headers.len() as i32,
            headers.as_ptr(),
            names.as_ptr(),
        )
    };
    answer(made, "reading a source")?;
    let program = Program(program);
    // SAFETY: the program is alive, the options are C strings that live through the call.
    let result = unsafe { rtc::nvrtcCompileProgram(program.0, flags.len() as i32, flags.as_ptr()) };
    let mut size = 0;
    // SAFETY: the program is alive; one number is written.
    answer(unsafe { rtc::nvrtcGetProgramLogSize(program.0, &mut size) }, "reading the log")?;
    let mut log = vec![0u8; size.max(1)];
    // SAFETY: the buffer has the size that was asked for.
    answer(unsafe { rtc::nvrtcGetProgramLog(program.0, log.as_mut_ptr().cast()) }, "reading the log")?;
    let log = String::from_utf8_lossy(&log).trim_end_matches('\0').trim_end().to_string();
    match result as u32 {
        0 => {}
        // The log is what there is to say about a source.
        6 => return Err(failed(log)),
        _ => answer(result, "compiling")?,
    }
    // SAFETY: the program is alive and compiled; one number is written.
    answer(unsafe { rtc::nvrtcGetCUBINSize(program.0, &mut size) }, "reading the cubin")?;
    let mut cubin = vec![0u8; size];
    // SAFETY: the buffer has the size that was asked for.
    answer(unsafe { rtc::nvrtcGetCUBIN(program.0, cubin.as_mut_ptr().cast()) }, "reading the cubin")?;
    Ok(Compiled { cubin, log })
}

/// The compiler's answer as a result.
fn answer(code: rtc::nvrtcResult, doing: &'static str) -> Result<(), CudaError> {
    if code as u32 == 0 {
        return Ok(());
    }
    // SAFETY: the library is loaded; the text of any code is a static C string.
    let text = unsafe { CStr::from_ptr(rtc::nvrtcGetErrorString(code)) };
    Err(CudaError::Compiler { doing, text: text.to_string_lossy().into_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_older_architecture_of_the_generation_is_chosen() {
        let known = [(8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0)];
        let text = |capability| choose(&known, capability).map(|arch| arch.to_string());
        assert_eq!(text((8, 0)).unwrap(), "sm_80");
        assert_eq!(text((8, 7)).unwrap(), "sm_86");
        assert_eq!(text((9, 0)).unwrap(), "sm_90a");
        assert_eq!(text((12, 1)).unwrap(), "sm_120");
        assert_eq!(text((13, 0)), None);
        assert_eq!(text((7, 5)), None);
    }

    #[test]
    fn everything_that_a_cubin_depends_on_is_in_the_key() {
        let compiler = |version, driver| Compiler { version, driver, cache: None };
        let sm_80 = Architecture { capability: (8, 0), exact: false };
        let sm_90a = Architecture { capability: (9, 0), exact: true };
        let source = Source::new("a.cu", "code");
        let keys = [
            compiler((13, 0), Some((13, 0))).key(&source, sm_80),
            compiler((13, 1), Some((13, 0))).key(&source, sm_80),
            compiler((13, 0), Some((13, 1))).key(&source, sm_80),
            compiler((13, 0), None).key(&source, sm_80),
            compiler((13, 0), Some((13, 0))).key(&source, sm_90a),
            compiler((13, 0), Some((13, 0))).key(&source.clone().define("N", 4), sm_80),
            compiler((13, 0), Some((13, 0))).key(&source.clone().define("N", 8), sm_80),
            compiler((13, 0), Some((13, 0))).key(&Source::new("a.cu", "other"), sm_80),
        ];
        for (i, key) in keys.iter().enumerate() {
            assert!(!keys[..i].contains(key), "{i}");
        }
        assert_eq!(keys[0], compiler((13, 0), Some((13, 0))).key(&source, sm_80));
    }
}
