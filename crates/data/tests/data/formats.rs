//! Round trips, the same bytes as the reference implementation, conversions, shards, checksums.

use crate::scratch::Scratch;
use crate::{again, shared, text};
use half::{bf16, f16};
use regard_data::{Checkpoint, DType, Data, Save, SaveOptions, save_file, save_folder};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

fn golden() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/mixed.safetensors")
}

fn plain() -> SaveOptions {
    SaveOptions { checksum: false, ..SaveOptions::default() }
}

#[test]
fn reads_what_the_reference_wrote() {
    let golden = Checkpoint::open(golden()).unwrap();
    assert_eq!(golden.len(), 20);
    assert_eq!(golden.metadata("format"), Some("pt"));
    let mut seen: Vec<DType> = golden.tensors().map(|t| t.dtype).collect();
    seen.sort();
    seen.dedup();
    assert_eq!(seen, DType::ALL, "the golden file has every dtype");
    for tensor in golden.tensors() {
        let modulus = if tensor.dtype == DType::Bool { 2 } else { 251 };
        for (i, &byte) in tensor.bytes.iter().enumerate() {
            assert_eq!(usize::from(byte), (37 * i + tensor.name.len()) % 251 % modulus, "{}", tensor.name);
        }
    }
    let shape = |name: &str| golden.get(name).unwrap().shape.to_vec();
    assert_eq!(shape("b.weight"), [2, 3]);
    assert_eq!(shape("scalar"), [0usize; 0]);
    assert_eq!(shape("empty"), [0, 7]);
    assert_eq!(shape("tab\tnew\n\u{1}"), [1]);
}

#[test]
fn writes_the_bytes_of_the_reference() {
    let scratch = Scratch::new();
    let tensors = Checkpoint::open(golden()).unwrap();
    let mut list = again(&tensors);
    list.reverse();
    let saved = save_file(scratch.join("ours.safetensors"), &list, &plain()).unwrap();
    let ours = std::fs::read(&saved.files[0]).unwrap();
    assert_eq!(ours, std::fs::read(golden()).unwrap());
    assert_eq!(saved.bytes, ours.len() as u64);
    assert_eq!(saved.digest, tensors.checksum());
}

#[test]
fn every_dtype_becomes_f32() {
    let scratch = Scratch::new();
    let cases: Vec<(DType, Vec<u8>, Vec<f32>)> = vec![
        (DType::Bool, vec![0, 1, 7], vec![0.0, 1.0, 1.0]),
        (DType::U8, vec![0, 255], vec![0.0, 255.0]),
        (DType::I8, vec![128, 255, 1], vec![-128.0, -1.0, 1.0]),
        (DType::I16, (-300i16).to_le_bytes().to_vec(), vec![-300.0]),
        (DType::U16, 65535u16.to_le_bytes().to_vec(), vec![65535.0]),
        (DType::F16, f16::from_f32(-0.333).to_le_bytes().to_vec(), vec![f16::from_f32(-0.333).to_f32()]),
        (DType::BF16, bf16::from_f32(3e38).to_le_bytes().to_vec(), vec![bf16::from_f32(3e38).to_f32()]),
        (DType::I32, (-16_777_217i32).to_le_bytes().to_vec(), vec![-16_777_216.0]),
        (DType::U32, u32::MAX.to_le_bytes().to_vec(), vec![4_294_967_296.0]),
        (DType::F32, 1.5f32.to_le_bytes().to_vec(), vec![1.5]),
        (DType::F64, 0.1f64.to_le_bytes().to_vec(), vec![0.1]),
        (DType::I64, i64::MIN.to_le_bytes().to_vec(), vec![-9_223_372_036_854_775_808.0]),
        (DType::U64, 3u64.to_le_bytes().to_vec(), vec![3.0]),
    ];
    assert_eq!(cases.len(), DType::ALL.len());
    for (dtype, bytes, expected) in cases {
        let shape = [expected.len()];
        let save = Save { name: "x", shape: &shape, data: Data::Bytes(dtype, &bytes) };
        let path = scratch.join("x.safetensors");
        save_file(&path, &[save], &plain()).unwrap();
        let checkpoint = Checkpoint::open(&path).unwrap();
        assert_eq!(checkpoint.get("x").unwrap().f32s(), expected, "{dtype}");
    }
}

#[test]
fn the_room_must_fit() {
    let golden = Checkpoint::open(golden()).unwrap();
    let mut room = [0.0; 5];
    let error = golden.get("b.weight").unwrap().to_f32(&mut room).unwrap_err().to_string();
    assert_eq!(
        error,
        "tensor `b.weight` [2, 3] has 6 elements, but the room given holds 5; give a slice of exactly that length"
    );
}

#[test]
fn an_unknown_tensor_offers_the_nearest() {
    let golden = Checkpoint::open(golden()).unwrap();
    assert_eq!(
        golden.get("c.weight").unwrap_err().to_string(),
        "no tensor is called `c.weight`; the nearest are `A.weight`, `a.weight`, `b.weight`"
    );
    assert_eq!(
        golden.get("zzz").unwrap_err().to_string(),
        "no tensor is called `zzz`; the checkpoint has 20 tensors, none with a similar name"
    );
    assert!(golden.find("zzz").is_none());
}

#[test]
fn floats_are_converted_and_integers_kept() {
    let scratch = Scratch::new();
    let wide = [0.1f32, -2.5, 65504.0, f32::INFINITY, f32::NAN];
    let brain = [bf16::from_f32(1.25)];
    let list = [
        Save { name: "wide", shape: &[5], data: Data::F32(&wide) },
        Save { name: "brain", shape: &[], data: Data::BF16(&brain) },
        Save { name: "ids", shape: &[2], data: Data::I32(&[7, -1]) },
    ];
    for dtype in [None, Some(DType::F32), Some(DType::F16), Some(DType::BF16)] {
        let saved =
            save_folder(scratch.path(), &list, &SaveOptions { dtype, ..SaveOptions::default() }).unwrap();
        let read = Checkpoint::open(scratch.path()).unwrap();
        assert!(read.verify().unwrap());
        assert_eq!(read.checksum(), saved.digest);
        let got = read.get("wide").unwrap();
        assert_eq!(got.dtype, dtype.unwrap_or(DType::F32));
        let round = |x: f32| match got.dtype {
            DType::F16 => f16::from_f32(x).to_f32(),
            DType::BF16 => bf16::from_f32(x).to_f32(),
            _ => x,
        };
        for (x, y) in wide.iter().zip(got.f32s()) {
            assert_eq!(round(*x).to_bits(), y.to_bits(), "{dtype:?}: {x} became {y}");
        }
        assert_eq!(read.get("brain").unwrap().dtype, dtype.unwrap_or(DType::BF16));
        assert_eq!(read.get("brain").unwrap().f32s(), [1.25]);
        assert_eq!(read.get("ids").unwrap().dtype, DType::I32);
        assert_eq!(read.get("ids").unwrap().f32s(), [7.0, -1.0]);
    }
}

#[test]
fn a_number_that_would_become_infinite_is_refused_and_the_old_file_stays() {
    let scratch = Scratch::new();
    let path = scratch.put("model.safetensors", "old");
    let f16 = SaveOptions { dtype: Some(DType::F16), ..SaveOptions::default() };
    let large = [1.0, 7e4];
    let error = save_file(&path, &[Save { name: "w", shape: &[2], data: Data::F32(&large) }], &f16);
    assert_eq!(
        error.unwrap_err().to_string(),
        "tensor `w` holds 7e4, which does not fit in F16; save in a wider dtype, or as it is"
    );
    let huge = 1e300f64.to_le_bytes();
    let f32 = SaveOptions { dtype: Some(DType::F32), ..SaveOptions::default() };
    let error =
        save_file(&path, &[Save { name: "w", shape: &[1], data: Data::Bytes(DType::F64, &huge) }], &f32);
    assert_eq!(
        error.unwrap_err().to_string(),
        "tensor `w` holds 1e300, which does not fit in F32; save in a wider dtype, or as it is"
    );
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
    assert_eq!(scratch.names(), ["model.safetensors"]);
}

#[test]
fn nonsense_is_not_saved() {
    let scratch = Scratch::new();
    let path = scratch.join("x.safetensors");
    let x = [1.0f32, 2.0];
    let one = |name: &'static str, shape: &'static [usize]| Save { name, shape, data: Data::F32(&x) };
    let save =
        |list: &[Save], options: &SaveOptions| save_file(&path, list, options).unwrap_err().to_string();
    assert_eq!(
        save(&[one("w", &[3])], &plain()),
        "tensor `w` [3] is given 8 bytes of F32, which is not what that shape holds; give shape and data of the same \
         tensor"
    );
    assert_eq!(
        save(&[one("w", &[usize::MAX, 16])], &plain()),
        format!(
            "tensor `w` [{}, 16] is given 8 bytes of F32, which is not what that shape holds; give shape and data of \
             the same tensor",
            usize::MAX
        )
    );
    assert_eq!(save(&[one("w", &[2]), one("w", &[2])], &plain()), "two tensors are called `w`; rename one");
    assert_eq!(
        save(&[one("__metadata__", &[2])], &plain()),
        "no tensor can be called `__metadata__`; choose another name"
    );
    let mut options = plain();
    options.dtype = Some(DType::I32);
    assert_eq!(save(&[], &options), "floats cannot be saved as I32; choose F32, F16 or BF16");
    let mut options = plain();
    options.metadata.insert("format".into(), "x".into());
    assert_eq!(save(&[], &options), "the metadata `format` is written here; choose another key");
    assert!(scratch.names().is_empty());
}

#[test]
fn shards_are_one_checkpoint() {
    let scratch = Scratch::new();
    let tensors = Checkpoint::open(golden()).unwrap();
    let list = again(&tensors);
    let single = save_folder(scratch.path(), &list, &SaveOptions::default()).unwrap();
    assert_eq!(scratch.names(), ["model.safetensors"]);

    let options = SaveOptions { shard_bytes: Some(24), ..SaveOptions::default() };
    let sharded = save_folder(scratch.path(), &list, &options).unwrap();
    assert_eq!(sharded.digest, single.digest);
    assert_eq!(sharded.files.len(), scratch.names().len(), "the single file is gone: {:?}", scratch.names());
    assert!(sharded.files.len() > 3);
    let read = Checkpoint::open(scratch.path()).unwrap();
    assert_eq!(read.checksum(), single.digest);
    assert!(read.verify().unwrap());
    assert!(read.tensors().eq(tensors.tensors()));
    for file in read.files() {
        let alone = Checkpoint::open(file).unwrap();
        assert!(alone.bytes() <= 24 || alone.len() == 1);
    }

    // Other numbers, other shards: none of the old ones is left.
    let x = [0.5f32; 32];
    let fewer = [
        Save { name: "p", shape: &[16], data: Data::F32(&x[..16]) },
        Save { name: "q", shape: &[16], data: Data::F32(&x[16..]) },
    ];
    let saved = save_folder(scratch.path(), &fewer, &options).unwrap();
    assert_eq!(scratch.names().len(), 3, "{:?}", scratch.names());
    assert_eq!(Checkpoint::open(scratch.path()).unwrap().checksum(), saved.digest);

    save_folder(scratch.path(), &fewer, &SaveOptions::default()).unwrap();
    assert_eq!(scratch.names(), ["model.safetensors"]);
}

#[test]
fn only_shards_are_cleaned_up() {
    let scratch = Scratch::new();
    scratch.put("mine.safetensors", "precious");
    let index = r#"{"weight_map": {"a": "mine.safetensors", "b": "model.safetensors", "c": "../out-00001-of-00002.safetensors"}}"#;
    scratch.put("model.safetensors.index.json", index);
    save_folder(scratch.path(), &[], &SaveOptions::default()).unwrap();
    assert_eq!(scratch.names(), ["mine.safetensors", "model.safetensors"]);
    assert!(Checkpoint::open(scratch.join("model.safetensors")).unwrap().is_empty());
}

#[test]
fn a_damaged_file_does_not_verify() {
    let scratch = Scratch::new();
    let x = [1.0f32, 2.0];
    let list = [Save { name: "w", shape: &[2], data: Data::F32(&x) }];
    let mut options = SaveOptions::default();
    options.metadata.insert("step".into(), "\"sha256\":\"00".into());
    let path = scratch.join("x.safetensors");
    let saved = save_file(&path, &list, &options).unwrap();
    let good = Checkpoint::open(&path).unwrap();
    assert!(good.verify().unwrap());
    assert_eq!(good.metadata("sha256"), Some(saved.digest.to_string().as_str()));
    assert_eq!(good.metadata("step"), Some("\"sha256\":\"00"));
    drop(good);

    let mut bytes = std::fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let bad = Checkpoint::open(&path).unwrap();
    assert_eq!(
        text(bad.verify(), &scratch),
        format!(
            "x.safetensors: the tensors have the checksum {}, the file says {}; the file is damaged: copy or download \
             it again",
            bad.checksum(),
            saved.digest
        )
    );
    save_file(&path, &list, &plain()).unwrap();
    assert!(!Checkpoint::open(&path).unwrap().verify().unwrap(), "a file without a checksum proves nothing");
}

#[test]
fn the_digest_sees_names_dtypes_shapes_and_bytes() {
    let scratch = Scratch::new();
    let zero = [0u8; 8];
    let variants: [(&str, DType, &[usize], &[u8]); 6] = [
        ("a", DType::F32, &[2], &zero),
        ("b", DType::F32, &[2], &zero),
        ("a", DType::I32, &[2], &zero),
        ("a", DType::F32, &[1, 2], &zero),
        ("a", DType::F32, &[2], &[0, 0, 0, 0, 0, 0, 0, 1]),
        ("a", DType::F64, &[1], &zero),
    ];
    let digests: BTreeSet<String> = variants
        .iter()
        .map(|&(name, dtype, shape, bytes)| {
            let save = Save { name, shape, data: Data::Bytes(dtype, bytes) };
            save_file(scratch.join("x"), &[save], &plain()).unwrap().digest.to_string()
        })
        .collect();
    assert_eq!(digests.len(), variants.len());
}

#[test]
fn a_large_tensor_goes_through_in_pieces() {
    let scratch = Scratch::new();
    let x: Vec<f32> = (0..40_001).map(|i| i as f32).collect();
    save_folder(
        scratch.path(),
        &[Save { name: "x", shape: &[40_001], data: Data::F32(&x) }],
        &SaveOptions::default(),
    )
    .unwrap();
    let read = Checkpoint::open(scratch.path()).unwrap();
    assert!(read.verify().unwrap());
    assert_eq!(read.get("x").unwrap().f32s(), x);
}

#[test]
fn many_readers_while_a_writer_replaces() {
    let scratch = Scratch::new();
    let options = SaveOptions::default();
    let write = |value: f32| {
        let x = [value; 1000];
        save_folder(scratch.path(), &[Save { name: "x", shape: &[1000], data: Data::F32(&x) }], &options)
            .unwrap();
    };
    write(0.0);
    let first = Checkpoint::open(scratch.path()).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100 {
                    assert_eq!(first.get("x").unwrap().bytes, [0; 4000]);
                    let checkpoint = Checkpoint::open(scratch.path()).unwrap();
                    assert!(checkpoint.verify().unwrap());
                    let x = checkpoint.get("x").unwrap().f32s();
                    assert!(x.iter().all(|y| *y == x[0]));
                }
            });
        }
        (1..30).for_each(|i| write(i as f32));
    });
    assert_eq!(first.get("x").unwrap().f32s(), [0.0; 1000], "an open checkpoint keeps what it opened");
    assert_eq!(scratch.names(), ["model.safetensors"]);
}

/// One file, shards, other shards, one file: readers find an old checkpoint or a new one, never a mixture or
/// nothing.
#[test]
fn many_readers_while_shards_come_and_go() {
    let scratch = Scratch::new();
    let write = |value: usize| {
        let x = [value as f32; 300];
        let list = ["a", "b", "c"].map(|name| Save { name, shape: &[300], data: Data::F32(&x) });
        let shard_bytes = [None, Some(1200), Some(2400)][value % 3];
        save_folder(scratch.path(), &list, &SaveOptions { shard_bytes, ..SaveOptions::default() }).unwrap();
    };
    write(0);
    let (done, begun) = (AtomicBool::new(false), Instant::now());
    std::thread::scope(|scope| {
        let readers = [0; 3].map(|_| {
            scope.spawn(|| {
                let mut seen = BTreeSet::new();
                while !done.load(Ordering::Relaxed) && begun.elapsed().as_secs() < 60 {
                    let checkpoint = Checkpoint::open(scratch.path()).unwrap();
                    assert!(checkpoint.verify().unwrap());
                    let all: Vec<f32> = checkpoint.tensors().flat_map(|t| t.f32s()).collect();
                    assert!(all.len() == 900 && all.iter().all(|x| *x == all[0]), "a mixture");
                    seen.insert(all[0] as usize);
                }
                seen.len()
            })
        });
        (1..40).for_each(write);
        done.store(true, Ordering::Relaxed);
        let most = readers.into_iter().map(|reader| reader.join().unwrap()).max();
        assert!(most > Some(3), "the readers saw the folder change: {most:?}");
    });
}

#[test]
fn a_real_half_precision_model_is_read() {
    let Some(folder) = shared("weights/all-MiniLM-L6-v2") else { return };
    let checkpoint = Checkpoint::open(&folder).unwrap();
    let words = checkpoint.get("embeddings.word_embeddings.weight").unwrap();
    assert_eq!((words.dtype, words.shape), (DType::F16, &[30522, 384][..]));
    assert!(words.f32s().iter().all(|x| x.is_finite() && x.abs() < 10.0));
    let positions = checkpoint.get("embeddings.position_ids").unwrap();
    let counted: Vec<f32> = (0..512).map(|i| i as f32).collect();
    assert_eq!(positions.f32s(), counted);
}
