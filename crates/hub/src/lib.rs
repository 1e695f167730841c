//! From a folder to a model in a store, and back. A model's `config.json` says which family it is of; that
//! family's table of names says where each of our parameters stands in its files, and the same table read
//! backwards writes files that transformers loads.
//!
//! ```no_run
//! use regard_engine::Store;
//! use regard_hub::SaveOptions;
//! use regard_models::Registry;
//!
//! // A folder, a cached name, or a llama2.c `.bin`
//! let opened = regard_hub::open("openai-community/gpt2", &Registry::standard())?;
//! let mut store = Store::new(0);
//! opened.load_into(&mut store)?;
//! println!("{}, {} numbers", opened.model.kind(), opened.model.parameters().count());
//! let options = SaveOptions { like: Some(&opened), ..Default::default() };
//! regard_hub::save(&*opened.model, &store, "here/gpt2", &options)?;
//! # Ok::<(), regard_hub::Error>(())
//! ```

#![forbid(unsafe_code)]

mod error;
pub mod forward;
mod lent;
mod mapping;
mod open;
mod peft;
mod save;
mod save_gguf;
mod side_files;
pub mod step;
mod store_files;
pub mod table;

pub use error::{Error, Result};
pub use forward::{Batch, Images, forward};
pub use mapping::Mapping;
pub use open::{Opened, open, open_ignoring, open_named};
pub use peft::{ADAPTER_CONFIG, ADAPTER_WEIGHTS, merge_adapters, save_adapters};
pub use regard_data::DType;
pub use save::{SaveOptions, save};
pub use save_gguf::save_gguf;
pub use store_files::StoreFiles;
