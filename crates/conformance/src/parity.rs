//! What parity tests share: goldens made by PyTorch and transformers, foreign weights on their way into a
//! store, and comparisons that say where and by how much two answers differ.

use regard::hub::table;
use regard::{Array, Store};
use regard_data::{DType, Tensor};
use regard_models::import::{Import, Map};
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The tensors of a file by name. Integers are exact: they are small.
pub struct Tensors(BTreeMap<String, Array>);

impl Tensors {
    /// All tensors of a safetensors file.
    pub fn read(path: &Path) -> Tensors {
        let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let file =
            SafeTensors::deserialize(&bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let tensors = file.iter().map(|(name, view)| {
            let data: Vec<f64> = match view.dtype() {
                Dtype::F32 => numbers(view.data(), |x| f64::from(f32::from_le_bytes(x))),
                Dtype::F64 => numbers(view.data(), f64::from_le_bytes),
                Dtype::I64 => numbers(view.data(), |x| i64::from_le_bytes(x) as f64),
                other => panic!("{name} is {other:?}"),
            };
            (name.to_string(), Array::new(view.shape(), data).expect("as many numbers as the shape says"))
        });
        Tensors(tensors.collect())
    }

    /// A tensor that must be there.
    pub fn get(&self, name: &str) -> &Array {
        self.0.get(name).unwrap_or_else(|| panic!("the golden has no {name}"))
    }

    /// Whether it is there.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// A tensor of integers, with its shape.
    pub fn integers(&self, name: &str) -> (Vec<usize>, Vec<i32>) {
        let array = self.get(name);
        (array.dims().to_vec(), array.data().iter().map(|&x| x as i32).collect())
    }

    /// A tensor of ones and zeros, with its shape.
    pub fn truths(&self, name: &str) -> (Vec<usize>, Vec<bool>) {
        let array = self.get(name);
        (array.dims().to_vec(), array.data().iter().map(|&x| x != 0.0).collect())
    }

    /// One of our parameters, or its gradient: `prefix` comes before their name.
    pub fn ours(&self, import: &Import, prefix: &str) -> Vec<f32> {
        let array = self.get(&format!("{prefix}{}", import.theirs));
        let numbers: Vec<f32> = array.data().iter().map(|&x| x as f32).collect();
        let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
        let dims = array.dims();
        let theirs = Tensor { name: &import.theirs, dtype: DType::F32, shape: &dims, bytes: &bytes };
        table::ours(import, &theirs).unwrap_or_else(|error| panic!("{}: {error}", import.ours))
    }

    /// Puts all parameters of a table into a store that has them declared.
    pub fn fill(&self, store: &mut Store, table: &[Import]) {
        for import in table {
            let numbers = self.ours(import, "");
            let shape = self.get(&import.theirs).dims().to_vec();
            let ours = store.fact(&import.ours).unwrap().shape.bound().to_vec();
            let same = match import.map {
                Map::Same => ours == shape,
                _ => ours.iter().product::<usize>() == numbers.len(),
            };
            assert!(same, "{} is {ours:?}, {} is {shape:?}", import.ours, import.theirs);
            store.set_f32(&import.ours, &numbers).unwrap();
        }
    }
}

fn numbers<const N: usize>(bytes: &[u8], read: impl Fn([u8; N]) -> f64) -> Vec<f64> {
    bytes.as_chunks::<N>().0.iter().map(|&chunk| read(chunk)).collect()
}

/// A golden: config, weights and answers of one case.
pub struct Golden {
    /// The model's config.json.
    pub config: Value,
    /// Its weights.
    pub weights: Tensors,
    /// What PyTorch says about it.
    pub answers: Tensors,
}

impl Golden {
    /// The golden of a case that has weights of its own.
    pub fn read(case: &str) -> Golden {
        let folder = folder(case);
        Golden {
            config: json(&folder.join("model/config.json")),
            weights: Tensors::read(&folder.join("model/model.safetensors")),
            answers: Tensors::read(&folder.join("golden.safetensors")),
        }
    }
}

/// Where this crate lies: as cargo says while the tests run, for they may run on another machine than they
/// were built on, and else as it was when they were built.
fn here() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into()).into()
}

/// Where a case lies.
pub fn folder(case: &str) -> PathBuf {
    here().join("goldens/parity").join(case)
}

/// A JSON file.
pub fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The folder of real data, if it is at hand: `REGARD_DATA`, or `shared/data` beside the repository.
pub fn data() -> Option<PathBuf> {
    let here = here();
    let root = here.ancestors().nth(2)?;
    let named = std::env::var_os("REGARD_DATA").map(PathBuf::from);
    Some(named.unwrap_or_else(|| root.join("../shared/data"))).filter(|path| path.is_dir())
}

/// Says that a test was skipped and why, past the harness, which hides what passing tests print.
pub fn skipped(why: &str) {
    writeln!(std::io::stderr(), "skipped: {why}").unwrap_or_default();
}

/// Panics unless all numbers are within `bound` of the largest wanted one.
pub fn close(what: &str, got: &[f64], wanted: &[f64], bound: f64) {
    let largest = wanted.iter().fold(0f64, |most, x| most.max(x.abs()));
    within(what, got, wanted, bound * largest);
}

/// Panics unless all numbers are within `most` of the wanted ones.
pub fn within(what: &str, got: &[f64], wanted: &[f64], most: f64) {
    assert_eq!(got.len(), wanted.len(), "{what}: as many numbers");
    for (at, (x, y)) in got.iter().zip(wanted).enumerate() {
        assert!((x - y).abs() <= most, "{what}: element {at} is {x}, wanted {y}, allowed are {most:.1e}");
    }
}

/// Rows of `width` numbers for which the mask is true.
pub fn kept(numbers: &[f64], mask: &[bool], width: usize) -> Vec<f64> {
    assert_eq!(numbers.len(), mask.len() * width);
    let rows = numbers.chunks(width).zip(mask).filter(|(_, keep)| **keep);
    rows.flat_map(|(row, _)| row.to_vec()).collect()
}
