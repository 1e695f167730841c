//! Checkpoints of a run: parameters, moments, states and the trainer's own state in one `safetensors` file,
//! written whole or not at all. There is no time in it: the same state gives the same bytes.

use crate::{Error, Result, Settings, State};
use regard_data::{Checkpoint, Data, Save, SaveOptions, save_file};
use regard_engine::Store;
use regard_graph::DType;
use regard_ops::Array;
use serde_json::{Map, Value, json};
use std::path::Path;

/// The tensor of bytes that is the trainer's own part, as JSON: its state, the settings, the recipe's text. A
/// tensor and not metadata, because the file's checksum covers tensors.
const TRAINER: &str = "trainer";

/// Writes these entries of a store.
pub(crate) fn save(
    path: &Path,
    names: &[String],
    store: &Store,
    state: &State,
    settings: &Settings,
    recipe: &str,
) -> Result<()> {
    let facts = settings.facts().into_iter().map(|(name, text)| (name, Value::String(text)));
    let trainer =
        json!({ "recipe": recipe, "settings": Map::from_iter(facts), "state": state.json() }).to_string();
    // What a store lends, or the bytes that are made of it.
    enum Numbers<'a> {
        Floats(regard_engine::Numbers<'a, f32>),
        Bytes(regard_data::DType, Vec<u8>),
    }
    let mut entries = Vec::with_capacity(names.len());
    for name in names {
        let fact = store.fact(name)?;
        let numbers = match fact.dtype {
            DType::F32 => Numbers::Floats(store.f32(name)?),
            dtype => {
                let (dtype, bytes) = bytes_of(&store.array(name)?, dtype);
                Numbers::Bytes(dtype, bytes)
            }
        };
        entries.push((name, fact.shape.bound().to_vec(), numbers));
    }
    let mut tensors: Vec<Save<'_>> = entries
        .iter()
        .map(|(name, shape, numbers)| {
            let data = match numbers {
                Numbers::Floats(numbers) => Data::F32(numbers),
                Numbers::Bytes(dtype, bytes) => Data::Bytes(*dtype, bytes),
            };
            Save { name, shape, data }
        })
        .collect();
    let length = [trainer.len()];
    let data = Data::Bytes(regard_data::DType::U8, trainer.as_bytes());
    tensors.push(Save { name: TRAINER, shape: &length, data });
    save_file(path, &tensors, &SaveOptions::default())?;
    Ok(())
}

/// The little-endian bytes of what is not f32.
fn bytes_of(array: &Array, dtype: DType) -> (regard_data::DType, Vec<u8>) {
    let numbers = array.data().iter();
    match dtype {
        DType::F32 => (regard_data::DType::F32, numbers.flat_map(|&x| (x as f32).to_le_bytes()).collect()),
        // Exact: f32 has every bf16.
        DType::BF16 => (regard_data::DType::F32, numbers.flat_map(|&x| (x as f32).to_le_bytes()).collect()),
        DType::I32 => (regard_data::DType::I32, numbers.flat_map(|&x| (x as i32).to_le_bytes()).collect()),
        DType::Bool => (regard_data::DType::Bool, numbers.map(|&x| u8::from(x != 0.0)).collect()),
    }
}

/// A checkpoint of a run that was opened and whose checksum is right.
#[derive(Debug)]
pub struct Snapshot {
    checkpoint: Checkpoint,
    /// Where the run was.
    pub state: State,
    /// What the run was, as a name and a text for each: what its caller said about it, such as its `model`,
    /// and its settings.
    pub settings: Map<String, Value>,
}

impl Snapshot {
    /// Opens the checkpoint of a run. One that is damaged, or that no run wrote, is refused.
    pub fn open(path: &Path) -> Result<Snapshot> {
        let checkpoint = Checkpoint::open(path)?;
        if !checkpoint.verify()? {
            return Err(Error::folder(
                path,
                "it carries no checksum",
                "a run's checkpoint has one; this is none",
            ));
        }
        let text = checkpoint.find(TRAINER).map(|tensor| serde_json::from_slice::<Value>(tensor.bytes));
        let part = |key: &str| match &text {
            Some(Ok(Value::Object(map))) => map.get(key).and_then(Value::as_object).cloned(),
            _ => None,
        };
        let (Some(state), Some(settings)) = (part("state"), part("settings")) else {
            let what = format!("the trainer's part, the tensor `{TRAINER}`, is missing or no proper JSON");
            return Err(Error::folder(path, what, "it was not written by a training run"));
        };
        let state = State::read(path, &state)?;
        Ok(Snapshot { checkpoint, state, settings })
    }

    /// Its tensors: parameters, moments and states under their names in the store.
    pub fn into_checkpoint(self) -> Checkpoint {
        self.checkpoint
    }

    /// Puts everything into the store. Nothing is written before all of it is known to fit.
    pub(crate) fn fill(&self, path: &Path, names: &[String], store: &mut Store) -> Result<()> {
        for name in names {
            let (fact, tensor) = (store.fact(name)?, self.checkpoint.find(name));
            let expected = fact.shape.bound();
            let Some(tensor) = tensor else {
                return Err(Error::folder(
                    path,
                    format!("it has no `{name}`"),
                    "the model or the optimizer has changed since; use the recipe of this run",
                ));
            };
            if tensor.shape != &expected[..] {
                return Err(Error::folder(
                    path,
                    format!("`{name}` is {:?}, the model has {expected}", tensor.shape),
                    "the model has changed since; use the recipe of this run",
                ));
            }
        }
        for name in names {
            let tensor = self.checkpoint.get(name)?;
            match (store.fact(name)?.dtype, tensor.dtype) {
                (DType::F32, _) => store.set_f32(name, &tensor.f32s())?,
                (dtype, _) => {
                    let numbers: Vec<f64> = match dtype {
                        DType::I32 => tensor
                            .bytes
                            .chunks_exact(4)
                            .map(|b| f64::from(i32::from_le_bytes([b[0], b[1], b[2], b[3]])))
                            .collect(),
                        DType::Bool => tensor.bytes.iter().map(|&b| f64::from(b)).collect(),
                        DType::F32 | DType::BF16 => tensor.f32s().into_iter().map(f64::from).collect(),
                    };
                    let array = Array::new(tensor.shape, numbers).ok_or_else(|| {
                        Error::folder(
                            path,
                            format!("`{name}` is {}", tensor.dtype),
                            "it is not of this model",
                        )
                    })?;
                    store.set_array(name, &array)?;
                }
            }
        }
        Ok(())
    }
}
