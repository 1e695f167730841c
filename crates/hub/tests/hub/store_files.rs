//! Stores in files: what was saved comes back bit by bit, and what does not fit is refused with nothing
//! changed.

use regard_data::{Data, Save, SaveOptions, save_file};
use regard_engine::Store;
use regard_graph::{DType, Fact, Init, Shape};
use regard_hub::StoreFiles;
use regard_ops::Array;
use std::path::PathBuf;

/// A folder of a test's own, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("regard-store-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn fact(dtype: DType, sizes: &[usize]) -> Fact {
    Fact { dtype, shape: Shape::from(sizes) }
}

fn store() -> Store {
    let mut store = Store::new(7);
    store.declare("weight", [3, 2], Init::Normal(1.0)).unwrap();
    store.declare_fact("half", &fact(DType::BF16, &[4]), Init::Normal(1.0)).unwrap();
    store.declare_fact("count", &fact(DType::I32, &[2]), Init::Zeros).unwrap();
    store.declare_fact("seen", &fact(DType::Bool, &[2]), Init::Zeros).unwrap();
    // More digits than f32 has.
    store.set_array("count", &Array::new(&[2], vec![16_777_217.0, -5.0]).unwrap()).unwrap();
    store.set_array("seen", &Array::new(&[2], vec![1.0, 0.0]).unwrap()).unwrap();
    store
}

fn sorted(store: &Store) -> Vec<&str> {
    let mut names: Vec<&str> = store.names().collect();
    names.sort_unstable();
    names
}

#[test]
fn every_dtype_comes_back() {
    let folder = Folder::new("whole");
    let (path, one) = (folder.file("one.safetensors"), store());
    let saved = one.save(&path).unwrap();
    assert_eq!(saved.files, std::slice::from_ref(&path));
    let other = Store::load(&path).unwrap();
    assert_eq!(sorted(&one), sorted(&other));
    for name in one.names() {
        assert_eq!(one.fact(name).unwrap(), other.fact(name).unwrap(), "{name}");
        assert_eq!(one.array(name).unwrap(), other.array(name).unwrap(), "{name}");
    }
    // Over numbers that have changed since.
    let mut changed = store();
    changed.set_f32("weight", &[0.0; 6]).unwrap();
    changed.restore(&path).unwrap();
    assert_eq!(changed.f32("weight").unwrap(), one.f32("weight").unwrap());
    assert_eq!(changed.array("count").unwrap(), one.array("count").unwrap());
}

#[test]
fn what_does_not_fit_is_refused() {
    let folder = Folder::new("refused");
    let path = folder.file("one.safetensors");
    let mut small = Store::new(0);
    small.declare("weight", [2, 2], Init::Ones).unwrap();
    small.save(&path).unwrap();
    let shown = path.display();

    let mut other = Store::new(0);
    other.declare("weight", [3, 2], Init::Zeros).unwrap();
    assert_eq!(
        other.restore(&path).unwrap_err().to_string(),
        format!(
            "{shown}: `weight` is f32 [2 2], the store has f32 [3 2]; restore what was saved from a store of the same model"
        )
    );
    let mut other = Store::new(0);
    other.declare("weights", [2, 2], Init::Zeros).unwrap();
    assert_eq!(
        other.restore(&path).unwrap_err().to_string(),
        format!(
            "{shown}: holds `weight`, which this store has not; did you mean `weights`?; or load the file as a store of its own"
        )
    );
    let mut other = Store::new(0);
    other.declare("weight", [2, 2], Init::Zeros).unwrap();
    other.declare("bias", [2], Init::Zeros).unwrap();
    assert_eq!(
        other.restore(&path).unwrap_err().to_string(),
        format!(
            "{shown}: `bias` of the store is not in it; restore what was saved from a store of the same model"
        )
    );
    assert_eq!(other.f32("weight").unwrap(), [0.0; 4], "nothing has changed");

    let wide = folder.file("wide.safetensors");
    let tensor = Save { name: "x", shape: &[1], data: Data::Bytes(regard_hub::DType::F64, &[0; 8]) };
    save_file(&wide, &[tensor], &SaveOptions::default()).unwrap();
    let loaded: regard_hub::Result<Store> = StoreFiles::load(&wide);
    assert_eq!(
        loaded.err().unwrap().to_string(),
        format!("{}: `x` is F64; a store holds F32, BF16, I32 and BOOL: convert it first", wide.display())
    );
    let nowhere = folder.file("no/such/folder/one.safetensors");
    let text = small.save(&nowhere).unwrap_err().to_string();
    assert!(text.starts_with("cannot ") && text.ends_with("; check the path"), "{text}");
}

#[test]
fn a_damaged_file_is_refused() {
    let folder = Folder::new("damaged");
    let path = folder.file("one.safetensors");
    store().save(&path).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let text = Store::load(&path).err().unwrap().to_string();
    assert!(text.contains("the tensors have the checksum"), "{text}");
}
