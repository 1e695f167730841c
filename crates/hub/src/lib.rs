//! From a folder to a model in a store, and back. A model's `config.json` says which family it is of; that family's
//! table of names says where each of our parameters stands in its files, and the same table read backwards writes
//! files that transformers loads.
//!
//! ```no_run
//! use regard_engine::Store;
//! use regard_hub::{AnyModel, SaveOptions};
//!
//! let opened = regard_hub::open("openai-community/gpt2")?; // a folder, a cached name, or a llama2.c `.bin`
//! let mut store = Store::new(0);
//! opened.load_into(&mut store)?;
//! if let AnyModel::Gpt(gpt, _) = &opened.model {
//!     println!("{} numbers in {} blocks", gpt.parameters().count(), gpt.config().layers);
//! }
//! regard_hub::save(&opened.model, &store, "here/gpt2", &SaveOptions { like: Some(&opened), ..Default::default() })?;
//! # Ok::<(), regard_hub::Error>(())
//! ```

#![forbid(unsafe_code)]

mod error;
pub mod forward;
mod model;
mod open;
mod save;
pub mod step;
mod table;

pub use error::{Error, Result};
pub use forward::{Batch, Images, Rows, forward};
pub use model::{AnyModel, FAMILIES, GptForm};
pub use open::{Opened, open};
pub use regard_data::DType;
pub use save::{SaveOptions, save};
