//! A store as a file and back: every entry under its own name, as `safetensors`, which other tools read, too.
//! For a model that others should open by its family's names there is [`save`](crate::save()); this is for
//! whatever a store holds.

use crate::{Error, Result};
use half::bf16;
use regard_data::{Checkpoint, DType as Stored, Data, Save, SaveOptions, Saved, Tensor, save_file};
use regard_engine::Store;
use regard_graph::{DType, Fact, Init, Shape};
use regard_ops::Array;
use std::path::Path;

/// Stores in files.
///
/// ```
/// use regard_engine::Store;
/// use regard_graph::Init;
/// use regard_hub::StoreFiles;
///
/// # let folder = std::env::temp_dir().join(format!("regard-store-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder).map_err(|e| regard_data::Error::io("make", &folder, e))?;
/// # let path = folder.join("store.safetensors");
/// let mut store = Store::new(1);
/// store.declare("embedding.weight", [3, 2], Init::Normal(0.02))?;
/// store.save(&path)?;
///
/// let again = Store::load(&path)?;
/// assert_eq!(again.f32("embedding.weight")?, store.f32("embedding.weight")?);
/// # std::fs::remove_dir_all(&folder).map_err(|e| regard_data::Error::io("remove", &folder, e))?;
/// # Ok::<(), regard_hub::Error>(())
/// ```
pub trait StoreFiles: Sized {
    /// Writes every entry to one file, whole or not at all: what was there before stays until the new one is
    /// on the disk.
    fn save(&self, path: impl AsRef<Path>) -> Result<Saved>;

    /// A new store with every tensor of a file. Programs that are made with it find their parameters there,
    /// and say so where a shape is not theirs.
    fn load(path: impl AsRef<Path>) -> Result<Self>;

    /// Fills the entries that are here already. The file must have each of them in its shape and dtype, and
    /// no other; if it has not, nothing changes.
    fn restore(&mut self, path: impl AsRef<Path>) -> Result<()>;
}

impl StoreFiles for Store {
    fn save(&self, path: impl AsRef<Path>) -> Result<Saved> {
        let mut tensors = Vec::new();
        for name in self.names() {
            let Fact { dtype, shape } = self.fact(name)?;
            tensors.push((name, shape.bound().to_vec(), stored(*dtype), bytes(self, name, *dtype)?));
        }
        let saves: Vec<Save> = (tensors.iter())
            .map(|(name, shape, dtype, bytes)| Save { name, shape, data: Data::Bytes(*dtype, bytes) })
            .collect();
        Ok(save_file(path, &saves, &SaveOptions::default())?)
    }

    fn load(path: impl AsRef<Path>) -> Result<Store> {
        let path = path.as_ref();
        let file = opened(path)?;
        let mut store = Store::new(0);
        for tensor in file.tensors() {
            let fact = fact(path, &tensor)?;
            store.declare_fact(tensor.name, &fact, Init::Zeros)?;
            fill(&mut store, &tensor, fact.dtype)?;
        }
        Ok(store)
    }

    fn restore(&mut self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let file = opened(path)?;
        for tensor in file.tensors() {
            let got = fact(path, &tensor)?;
            if !self.names().any(|name| name == tensor.name) {
                let offer = regard_graph::offer("entry", tensor.name, self.names());
                let what = format!("holds `{}`, which this store has not", tensor.name);
                return Err(refused(path, what, format!("{offer}; or load the file as a store of its own")));
            }
            let expected = self.fact(tensor.name)?;
            if got != *expected {
                let what = format!("`{}` is {got}, the store has {expected}", tensor.name);
                return Err(refused(path, what, "restore what was saved from a store of the same model"));
            }
        }
        if let Some(missing) = self.names().find(|name| file.find(name).is_none()) {
            let what = format!("`{missing}` of the store is not in it");
            return Err(refused(path, what, "restore what was saved from a store of the same model"));
        }
        for tensor in file.tensors() {
            let dtype = fact(path, &tensor)?.dtype;
            fill(self, &tensor, dtype)?;
        }
        Ok(())
    }
}

/// A file whose checksum, if it carries one, is right.
fn opened(path: &Path) -> Result<Checkpoint> {
    let file = Checkpoint::open(path)?;
    file.verify()?;
    Ok(file)
}

fn refused(path: &Path, what: impl Into<String>, advice: impl Into<String>) -> Error {
    Error::Refused { path: path.display().to_string(), what: what.into(), advice: advice.into() }
}

fn stored(dtype: DType) -> Stored {
    match dtype {
        DType::F32 => Stored::F32,
        DType::BF16 => Stored::BF16,
        DType::I32 => Stored::I32,
        DType::Bool => Stored::Bool,
    }
}

/// What a tensor will be in a store.
fn fact(path: &Path, tensor: &Tensor) -> Result<Fact> {
    let dtype = [DType::F32, DType::BF16, DType::I32, DType::Bool];
    let Some(dtype) = dtype.into_iter().find(|&dtype| stored(dtype) == tensor.dtype) else {
        let what = format!("`{}` is {}", tensor.name, tensor.dtype);
        return Err(refused(path, what, "a store holds F32, BF16, I32 and BOOL: convert it first"));
    };
    if tensor.shape.len() > regard_graph::MAX_RANK {
        let what = format!("`{}` has {} axes", tensor.name, tensor.shape.len());
        let most = format!("a store holds values of at most {} axes", regard_graph::MAX_RANK);
        return Err(refused(path, what, most));
    }
    Ok(Fact { dtype, shape: Shape::from(tensor.shape) })
}

/// The little-endian bytes of an entry.
fn bytes(store: &Store, name: &str, dtype: DType) -> Result<Vec<u8>> {
    if dtype == DType::F32 {
        return Ok(store.f32(name)?.iter().flat_map(|x| x.to_le_bytes()).collect());
    }
    let array = store.array(name)?;
    let numbers = array.data().iter();
    Ok(match dtype {
        DType::F32 => numbers.flat_map(|&x| (x as f32).to_le_bytes()).collect(),
        DType::BF16 => numbers.flat_map(|&x| bf16::from_f64(x).to_le_bytes()).collect(),
        DType::I32 => numbers.flat_map(|&x| (x as i32).to_le_bytes()).collect(),
        DType::Bool => numbers.map(|&x| u8::from(x != 0.0)).collect(),
    })
}

/// Puts a tensor in the entry of its name, whose shape and dtype are the same.
fn fill(store: &mut Store, tensor: &Tensor, dtype: DType) -> Result<()> {
    if dtype == DType::F32 {
        return Ok(store.set_f32(tensor.name, &tensor.f32s())?);
    }
    let numbers = match dtype {
        // f32 would not have every integer.
        DType::I32 => (tensor.bytes.chunks_exact(4))
            .map(|b| f64::from(i32::from_le_bytes([b[0], b[1], b[2], b[3]])))
            .collect(),
        _ => tensor.f32s().into_iter().map(f64::from).collect(),
    };
    let Some(array) = Array::new(tensor.shape, numbers) else {
        unreachable!("the file was compared with its shapes when it was opened")
    };
    Ok(store.set_array(tensor.name, &array)?)
}
