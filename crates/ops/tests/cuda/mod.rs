//! What tests of CUDA lists share: the lists of every node of a graph at fake addresses, and the compiler
//! with what it says of kernels. No card is needed. Where the compiler is not found this says so and passes,
//! unless `REGARD_CUDA_LIBRARIES` says where it is.

#![allow(dead_code)] // every test takes what it needs

use regard_device::cuda::{Address, Architecture, Compiled, Compiler, Source, libraries, resources};
use regard_graph::{Concrete, DType, Dims, Graph, Node, Var};
use regard_ops::{CudaCall, CudaList, NotYet, kernels_of};
use std::collections::{BTreeMap, HashMap, HashSet};

/// What a block may have on an H200, and on the cards with the least.
pub const MUCH: usize = 227 * 1024;
pub const LITTLE: usize = 99 * 1024;
/// An upper half that no two sizes side by side have.
pub const SCRATCH: u64 = 0x7abc << 32;

/// How fake calls are made.
#[derive(Clone, Copy)]
pub struct Made {
    /// Shared memory of a block.
    pub shared: usize,
    /// How far every value lies from where it should begin, in its own numbers: views may begin anywhere.
    pub off: usize,
}

impl Default for Made {
    fn default() -> Self {
        Made { shared: MUCH, off: 0 }
    }
}

/// The list of one node at its largest sizes, every result used.
pub fn list_of(graph: &Graph, node: &Node, made: Made) -> Result<CudaList, NotYet> {
    let at = |vars: &[Var]| vars.iter().map(|&var| graph.shape(var).bound()).collect::<Vec<Dims>>();
    let of = |vars: &[Var]| vars.iter().map(|&var| graph.dtype(var)).collect::<Vec<DType>>();
    let call = Concrete {
        inputs: &at(&node.inputs),
        outputs: &at(&node.outputs),
        input_dtypes: &of(&node.inputs),
        output_dtypes: &of(&node.outputs),
        integers: &vec![None; node.inputs.len()],
        used: &vec![true; node.outputs.len()],
    };
    let addresses = |vars: &[Var], first: u64| {
        let off = |var: &Var| (graph.dtype(*var).bytes() * made.off) as u64;
        vars.iter().enumerate().map(|(i, var)| Address(((first + i as u64) << 20) + off(var))).collect()
    };
    let (inputs, outputs): (Vec<Address>, Vec<Address>) =
        (addresses(&node.inputs, 1), addresses(&node.outputs, 256));
    let call = CudaCall {
        call: &call,
        inputs: &inputs,
        outputs: &outputs,
        scratch: Address(SCRATCH),
        copies: &vec![None; node.inputs.len()],
        fault: Address(0),
        stop: Address(0),
        shared: made.shared,
        tf32: false,
    };
    kernels_of(node).expect("recorded with its kernels").cuda(&call)
}

/// Every address of scratch among the arguments is inside of what was asked for.
pub fn scratch_suffices(list: &CudaList) {
    for launch in list.launches() {
        let words = launch.arguments.bytes().chunks_exact(8);
        for word in words.map(|word| u64::from_le_bytes(word.try_into().unwrap())) {
            if word >> 32 == SCRATCH >> 32 {
                assert!(word - SCRATCH < list.scratch as u64 && word % 8 == 0, "{}", launch.kernel);
            }
        }
    }
}

/// The sources of some lists, each once.
pub fn sources<'a>(lists: impl IntoIterator<Item = &'a CudaList>) -> Vec<Source> {
    let mut seen = HashSet::new();
    let launches = lists.into_iter().flat_map(CudaList::launches);
    launches.map(|launch| &launch.source).filter(|source| seen.insert(*source)).cloned().collect()
}

pub fn compiler() -> Option<Compiler> {
    match Compiler::new(None, None) {
        Ok(compiler) => Some(compiler),
        Err(error) if std::env::var_os(libraries::FOLDERS).is_none() => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Offset and length of each parameter of each kernel, from the cubin's own notes.
fn parameters(cubin: &[u8]) -> BTreeMap<String, Vec<(usize, usize)>> {
    let number = |at: usize, bytes: usize| {
        cubin[at..at + bytes].iter().rev().fold(0usize, |number, &byte| number << 8 | byte as usize)
    };
    let (table, entry, count, names) = (number(0x28, 8), number(0x3a, 2), number(0x3c, 2), number(0x3e, 2));
    let section = |index: usize| {
        let at = table + index * entry;
        (number(at, 4), number(at + 0x18, 8), number(at + 0x20, 8))
    };
    let text = section(names).1;
    let mut found = BTreeMap::new();
    for index in 0..count {
        let (name, start, length) = section(index);
        let name: Vec<u8> = cubin[text + name..].iter().copied().take_while(|&byte| byte != 0).collect();
        let name = String::from_utf8(name).unwrap();
        let Some(kernel) = name.strip_prefix(".nv.info.") else { continue };
        let mut layout = BTreeMap::new();
        let mut at = start;
        while at + 4 <= start + length {
            // A note: its format, what it is about, and a size where the format is 4.
            let (format, about, size) = (cubin[at], cubin[at + 1], number(at + 2, 2));
            at += 4;
            if format == 4 {
                if about == 0x17 {
                    layout.insert(number(at + 4, 2), (number(at + 6, 2), number(at + 8, 4) >> 18));
                }
                at += size;
            }
        }
        found.insert(kernel.to_string(), layout.into_values().collect());
    }
    found
}

/// The kernels of a source stay within what `bounds` allows: registers, and bytes that did not fit into them.
/// The compiler has nothing else to say.
pub fn are_within_bounds(
    source: &Source,
    compiled: &Compiled,
    architecture: Architecture,
    bounds: fn(&str) -> (u32, u32),
) {
    let place = format!("{} {:?} for {architecture}", source.name, source.defines);
    for needs in resources(&compiled.log) {
        let (registers, spills) = bounds(&needs.kernel);
        assert!((1..=registers).contains(&needs.registers), "{place}: {needs:?}");
        assert!(needs.spills.0 <= spills && needs.spills.1 <= spills, "{place}: {needs:?}");
    }
    let rest: Vec<&str> = compiled.log.lines().filter(|line| !line.starts_with("ptxas ")).collect();
    assert!(rest.iter().all(|line| line.trim().is_empty()), "{place}: {rest:?}");
}

/// Compiles all sources of some lists for sm_90a: within bounds, arguments where the kernels read them. Gives
/// the kernels that no list launches.
pub fn compiled_as_launched(
    compiler: &Compiler,
    lists: &[CudaList],
    bounds: fn(&str) -> (u32, u32),
) -> Vec<String> {
    let sm_90a = Architecture { capability: (9, 0), exact: true };
    let sources = sources(lists);
    let compiled = compiler.compile_all(&sources, sm_90a, 2).unwrap();
    let mut layouts = HashMap::new();
    for (source, compiled) in sources.iter().zip(&compiled) {
        are_within_bounds(source, compiled, sm_90a, bounds);
        layouts.insert(source, parameters(&compiled.cubin));
    }
    let mut left: HashSet<String> = layouts.values().flat_map(|kernels| kernels.keys().cloned()).collect();
    for launch in lists.iter().flat_map(CudaList::launches) {
        let place = format!("{} of {}", launch.kernel, launch.source.name);
        assert_eq!(layouts[&launch.source][launch.kernel], launch.arguments.layout(), "{place}");
        left.remove(launch.kernel);
    }
    left.into_iter().collect()
}
