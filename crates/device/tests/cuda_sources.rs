//! Every CUDA source compiles with NVRTC for every architecture that we serve, within bounds of registers and
//! without spills. No card is needed. Where the compiler is not found this says so and passes, unless
//! `REGARD_CUDA_LIBRARIES` says where it is: then it must be there.

use regard_device::cuda::{
    Architecture, Compiler, CubinCache, CudaError, Source, kernels, libraries, resources,
};

/// With 64 registers a multiprocessor holds four blocks of 256 threads.
const REGISTERS: u32 = 64;

const ARCHITECTURES: [((u32, u32), bool); 6] =
    [((8, 0), false), ((8, 6), false), ((8, 9), false), ((9, 0), true), ((10, 0), false), ((12, 0), false)];

fn architectures() -> [Architecture; 6] {
    ARCHITECTURES.map(|(capability, exact)| Architecture { capability, exact })
}

fn compiler(cache: Option<CubinCache>) -> Option<Compiler> {
    match Compiler::new(None, cache) {
        Ok(compiler) => Some(compiler),
        Err(error) if std::env::var_os(libraries::FOLDERS).is_none() => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn every_source_compiles_without_spills() {
    let Some(compiler) = compiler(None) else { return };
    let sources = kernels::every_source();
    for architecture in architectures() {
        let compiled = compiler.compile_all(&sources, architecture, 2).unwrap();
        assert_eq!(compiled.len(), sources.len());
        for (source, compiled) in sources.iter().zip(compiled) {
            let place = format!("{} {:?} for {architecture}", source.name, source.defines);
            assert_eq!(compiled.cubin[..4], *b"\x7fELF", "{place}");
            let kernels = resources(&compiled.log);
            // A macro may make several kernels.
            let named = source.text.matches("__global__").count();
            assert!(kernels.len() >= named, "{place}: {}", compiled.log);
            for needs in kernels {
                assert!((1..=REGISTERS).contains(&needs.registers), "{place}: {needs:?}");
                assert_eq!((needs.spills, needs.stack), ((0, 0), 0), "{place}: {needs:?}");
            }
            let rest: Vec<&str> = compiled.log.lines().filter(|line| !line.starts_with("ptxas ")).collect();
            assert!(rest.iter().all(|line| line.trim().is_empty()), "{place}: {rest:?}");
        }
    }
}

#[test]
fn what_does_not_compile_is_shown() {
    let Some(compiler) = compiler(None) else { return };
    let sm_80 = architectures()[0];
    let wrong =
        Source::new("wrong.cu", "#include \"prelude.cuh\"\n__global__ void k(f32* y) { *y = nothing; }");
    let error = compiler.compile(&wrong, sm_80).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("wrong.cu does not compile for sm_80:\n"), "{text}");
    assert!(text.contains("wrong.cu(2): error: identifier \"nothing\" is undefined"), "{text}");
    // Of many the first error is told, whichever thread met it.
    let right = Source::new("right.cu", "__global__ void k() {}");
    let all = [right.clone(), wrong, right, Source::new("later.cu", "?")];
    assert_eq!(compiler.compile_all(&all, sm_80, 4).unwrap_err(), error);
    let text = compiler.compile(&Source::new("zero.cu", "a\0b"), sm_80).unwrap_err().to_string();
    assert!(text.contains("the source holds a zero byte"), "{text}");
    let unknown = Architecture { capability: (6, 6), exact: false };
    let text = compiler.compile(&all[0], unknown).unwrap_err().to_string();
    assert!(text.starts_with("compiling: NVRTC refused with"), "{text}");
}

#[test]
fn a_card_that_the_compiler_does_not_know_is_told() {
    let Some(compiler) = compiler(None) else { return };
    assert_eq!(compiler.architecture((9, 0)).unwrap().to_string(), "sm_90a");
    assert_eq!(compiler.architecture((8, 0)).unwrap().to_string(), "sm_80");
    let text = compiler.architecture((99, 0)).unwrap_err().to_string();
    assert!(text.contains("cannot compile for compute capability 99.0, only up to sm_"), "{text}");
}

#[test]
fn the_cache_gives_the_same_cubin() {
    let folder = std::env::temp_dir().join(format!("regard-cubins-of-sources-{}", std::process::id()));
    let Some(compiler) = compiler(Some(CubinCache::at(&folder))) else { return };
    let sm_90a = architectures()[3];
    let source = &kernels::every_source()[0];
    let first = compiler.compile(source, sm_90a).unwrap();
    let second = compiler.compile(source, sm_90a).unwrap();
    assert!(!first.log.is_empty() && second.log.is_empty(), "the second is from the cache");
    assert_eq!(first.cubin, second.cubin);
    let other = compiler.compile(&source.clone().define("ANY", 1), sm_90a).unwrap();
    assert!(!other.log.is_empty(), "another define is another cubin");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 2);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn without_a_compiler_there_is_a_sentence() {
    // Where it is found there is nothing to refuse.
    if let Some(error) = Compiler::new(None, None).err() {
        assert!(matches!(error, CudaError::NoLibrary { .. } | CudaError::LibraryVersion { .. }), "{error}");
        assert!(error.to_string().contains("pip install nvidia-cuda-nvrtc"), "{error}");
    }
}
