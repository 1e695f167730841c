//! From a folder to a model and back: every family that has a golden, and folders that are no model.

mod contrast;
mod families;
mod files;
mod golden;
mod hostile;
mod kept;
mod lent;
mod native;
mod originals;
mod peft;
mod store_files;
