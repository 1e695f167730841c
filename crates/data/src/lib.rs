//! The only disk: checkpoints, model folders, and the names under which others keep their weights. This crate
//! knows files, not models: of the other rooms it knows only the random numbers of `device`, and hands out
//! plain slices.
//!
//! What comes from a file is hostile until it is checked: no size that a file claims is believed, multiplied
//! or allocated before it was compared with the file itself. What goes to a file goes there whole or not at
//! all.
//!
//! ```
//! use regard_data::{Checkpoint, Data, Save, SaveOptions, save_folder};
//!
//! let folder = std::env::temp_dir().join(format!("regard-doc-{}", std::process::id()));
//! let weight = Save { name: "layer.weight", shape: &[2, 2], data: Data::F32(&[1.0, 2.0, 3.0, 4.0]) };
//! save_folder(&folder, &[weight], &SaveOptions::default())?;
//!
//! let checkpoint = Checkpoint::open(&folder)?;
//! assert_eq!(checkpoint.get("layer.weight")?.f32s(), [1.0, 2.0, 3.0, 4.0]);
//! assert!(checkpoint.verify()?);
//! # std::fs::remove_dir_all(&folder).ok();
//! # Ok::<(), regard_data::Error>(())
//! ```

mod error;

pub mod batch;
pub mod batching;
pub mod biographies;
pub mod checkpoint;
pub mod corruption;
pub mod dataset;
mod draws;
pub mod folder;
pub mod gguf;
pub mod llama2c;
pub mod loader;
pub mod names;
pub mod pickle;
pub mod reading;
pub mod tokenizer;
pub mod whole;

pub use batch::{Batch, Field, Source, Values};
pub use checkpoint::{
    Checkpoint, DType, Data, Digest, MappedFile, Save, SaveOptions, Saved, Tensor, save_file, save_folder,
};
pub use error::{Error, Result};
pub use folder::Folder;
pub use loader::Loader;
pub use names::{Import, Map, Problems, Report};
pub use tokenizer::Tokenizer;
