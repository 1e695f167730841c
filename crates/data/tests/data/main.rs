//! The disk, tested from outside: what a person, another program or an enemy can put there, and what must be
//! there after we wrote.

mod biographies;
mod disk;
mod facts;
mod folders;
mod foreign;
mod formats;
mod gguf;
mod hostile;
mod kinds;
mod learned;
mod llama;
mod many;
mod noise;
mod pickles;
mod pictures;
mod scratch;
mod tables;
mod texts;
mod tokens;

/// The text of an error, with the scratch folder cut out.
fn text<T>(result: regard_data::Result<T>, scratch: &scratch::Scratch) -> String {
    let error = result.err().expect("an error").to_string();
    error
        .replace(&format!("{}/", scratch.path().display()), "")
        .replace(&scratch.path().display().to_string(), "DIR")
}

/// The shared real data, if this checkout has them; says so if not.
fn shared(name: &str) -> Option<std::path::PathBuf> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let found = ["../../../shared/data", "../../../../shared/data"]
        .map(|up| root.join(up).join(name))
        .into_iter()
        .find(|path| path.exists());
    if found.is_none() {
        println!("skipped: ../shared/data/{name} is not here");
    }
    found
}

/// Tensors of a checkpoint, to be saved again.
fn again(checkpoint: &regard_data::Checkpoint) -> Vec<regard_data::Save<'_>> {
    checkpoint
        .tensors()
        .map(|t| regard_data::Save {
            name: t.name,
            shape: t.shape,
            data: regard_data::Data::Bytes(t.dtype, t.bytes),
        })
        .collect()
}
