//! Files of `torch.save`: the same tensors as the reference gives, of both forms; and files that want more
//! than tensors, lie about their sizes or are cut, which are refused.

use crate::scratch::Scratch;
use crate::text;
use regard_data::{Checkpoint, pickle};
use std::path::{Path, PathBuf};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens").join(name)
}

fn refused(bytes: &[u8]) -> String {
    pickle::from_bytes("model.pt", bytes.to_vec()).unwrap_err().to_string()
}

#[test]
fn both_forms_hold_the_tensors_of_the_reference() {
    let expected = Checkpoint::open(golden("pickled.safetensors")).unwrap();
    for name in ["pickled.pt", "pickled_old.pt"] {
        let read = Checkpoint::open(golden(name)).unwrap();
        assert_eq!(read.names().collect::<Vec<_>>(), expected.names().collect::<Vec<_>>());
        for tensor in expected.tensors() {
            let own = read.get(tensor.name).unwrap();
            assert_eq!(
                (own.dtype, own.shape, own.bytes),
                (tensor.dtype, tensor.shape, tensor.bytes),
                "{name}"
            );
        }
    }
}

#[test]
fn a_folder_with_pickles_is_a_checkpoint() {
    let scratch = Scratch::new();
    let bytes = std::fs::read(golden("pickled.pt")).unwrap();
    scratch.put("pytorch_model.bin", &bytes);
    scratch.put("training_args.bin", "not weights");
    scratch.put("scheduler.pt", "not weights either");
    assert_eq!(Checkpoint::open(scratch.path()).unwrap().len(), 24);
    std::fs::remove_file(scratch.join("pytorch_model.bin")).unwrap();
    scratch.put("pytorch_model-00001-of-00001.bin", &bytes);
    let index = |shard: &str| format!(r#"{{"weight_map":{{"base":"{shard}"}}}}"#);
    scratch.put("pytorch_model.bin.index.json", index("pytorch_model-00001-of-00001.bin"));
    assert_eq!(Checkpoint::open(scratch.path()).unwrap().len(), 24);
    scratch.put("pytorch_model.bin.index.json", index("../other.bin"));
    assert!(text(Checkpoint::open(scratch.path()), &scratch).contains("is not a plain name ending in .bin"));
}

#[test]
fn what_wants_to_run_code_is_named_and_refused() {
    // `cos\nsystem\n(S'…'\ntR.` in protocol 2, and the same by a name from the stack.
    let classic = b"\x80\x02cos\nsystem\nU\x04boom\x85R.";
    assert_eq!(
        pickle::from_bytes("model.pt", classic.to_vec()).unwrap_err().to_string(),
        "model.pt: this file wants to run `os.system`; nothing was run; only tensors, dictionaries and numbers are made \
         of a pickle: save `model.state_dict()` alone, best as safetensors, where you trust the file"
    );
    let newer = b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93\x8c\x011\x85R.";
    assert!(refused(newer).contains("this file wants to run `builtins.eval`; nothing was run"));
    let hidden = b"\x80\x02ctorch\n_utils._rebuild_tensor_v2\nosystem\n.";
    assert!(refused(hidden).contains("wants to run `torch._utils._rebuild_tensor_v2`"));
    let painted = b"\x80\x02c\x1b[31mos\nsystem\n.";
    assert!(refused(painted).contains(r"`\u{1b}[31mos.system`"));
    let script = b"\x80\x02c__torch__.Net\nNet\n.";
    assert!(refused(script).contains("it is a TorchScript program"));
    assert!(
        refused(b"\x80\x02}ccollections\nOrderedDict\n)\x81.")
            .contains("wants to make `an object of a class`")
    );
    assert!(refused(b"\x80\x02\x82\x01.").contains("wants to use `an extension registered in Python`"));
    assert!(refused(b"\x80\x02ctorch\nSize\n}b.").contains("wants to set `attributes of an object`"));
    // A call of what is known with arguments that it never gets.
    assert!(
        refused(b"\x80\x02ctorch._utils\n_rebuild_parameter\n)R.").contains("other arguments than PyTorch")
    );
    assert!(refused(b"\x80\x02ccollections\nOrderedDict\nK\x01R.").contains("calls what is no function"));
}

#[test]
fn programs_that_make_no_sense_are_refused() {
    for program in [
        &b"\x80\x02"[..],
        b"\x80\x02.",
        b"\x80\x02\x80\x09N.",
        b"\x80\x020.",
        b"\x80\x02t.",
        b"\x80\x02h\x00.",
        b"\x80\x02q\x00.",
        b"\x80\x02X\xff\xff\xff\xffab.",
        b"\x80\x02\x8d\xff\xff\xff\xff\xff\xff\xff\xffab.",
        b"\x80\x02Na.",
        b"\x80\x02](K\x01u.",
        b"\x80\x02N(0.",
        b"\x80\x02K\x01Q.",
        b"\x80\x02X\x01\x00\x00\x00xQ.",
        b"\x80\x02\xff.",
        b"\x80\x02cos",
        b"\x80\x02Ptext\n.",
    ] {
        let text = refused(program);
        assert!(text.contains("the pickle "), "{program:?}: {text}");
    }
    assert!(refused(b"\x80\x02N.").contains("is a pickle, but none of `torch.save`"));
    assert!(
        refused(b"MZ").contains("is no file of `torch.save`: it begins neither as a zip nor as a pickle")
    );
    // Nesting is no danger to who drops it, and repetition is bounded.
    let deep = [&b"\x80\x02)"[..], &vec![0x85; 1 << 20], b"."].concat();
    assert!(refused(&deep).contains("none of `torch.save`"));
    let again = b"ccollections\nOrderedDict\n(](K\x01K\x02eK\x03K\x04eetR".repeat(10);
    let many = [&b"\x80\x02]q\x00"[..], &b"h\x00".repeat(5 << 20), &again].concat();
    assert!(refused(&many).contains("makes more than 4194304 values"));
}

/// A file of the older form around a pickle of its tensors.
fn old(pickle: &[u8], keys: &[u8], storages: &[u8]) -> Vec<u8> {
    let mark = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
    [&mark[..], b"\x80\x02M\xe9\x03.", b"\x80\x02}.", pickle, keys, storages].concat()
}

/// A state_dict of one f32 tensor `w`: elements of its storage, offset, shape and strides, each one byte.
fn tensor(elements: u8, offset: u8, shape: [u8; 2], strides: [u8; 2]) -> Vec<u8> {
    let mut pickle = b"\x80\x02}U\x01wctorch._utils\n_rebuild_tensor_v2\n((U\x07storagectorch\nFloatStorage\nU\x010U\x03cpuK".to_vec();
    pickle.extend([elements, b't', b'Q', b'K', offset]);
    for [rows, columns] in [shape, strides] {
        pickle.extend([b'K', rows, b'K', columns, 0x86]);
    }
    pickle.extend(b"\x89}tRs.");
    pickle
}

const KEYS: &[u8] = b"\x80\x02]U\x010a.";

fn storage(count: u64, numbers: &[f32]) -> Vec<u8> {
    count.to_le_bytes().into_iter().chain(numbers.iter().flat_map(|x| x.to_le_bytes())).collect()
}

#[test]
fn sizes_are_compared_before_anything_is_made() {
    let six = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let good = old(&tensor(6, 1, [2, 2], [1, 2]), KEYS, &storage(6, &six));
    assert_eq!(pickle::from_bytes("x", good).unwrap().get("w").unwrap().f32s(), [2.0, 4.0, 3.0, 5.0]);
    let outside = old(&tensor(6, 1, [2, 3], [3, 1]), KEYS, &storage(6, &six));
    assert_eq!(
        refused(&outside),
        "model.pt: tensor `w` of the shape [2, 3] with the strides [3, 1] from element 1 on does not fit in its storage \
         of 6 elements; copy or download it again"
    );
    let repeated = old(&tensor(6, 0, [200, 200], [0, 0]), KEYS, &storage(6, &six));
    assert!(refused(&repeated).contains("repeats its numbers beyond four times the file"));
    let short = old(&tensor(6, 0, [2, 3], [3, 1]), KEYS, &storage(6, &six[..5]));
    assert!(refused(&short).contains("ends inside of the storage `0`; it is cut short"));
    let lie = old(&tensor(6, 0, [2, 3], [3, 1]), KEYS, &storage(5, &six));
    assert!(refused(&lie).contains("the storage `0` has 5 elements, its tensors say 6"));
    let negative = old(&tensor(6, 0, [2, 3], [3, 1]), KEYS, &storage(u64::MAX, &six));
    assert!(refused(&negative).contains("ends inside of the storage"));
    let more = old(&tensor(6, 0, [2, 3], [3, 1]), KEYS, &storage(6, &[&six[..], &six].concat()));
    assert!(refused(&more).contains("has 24 bytes after its last storage"));
    let strange = old(&tensor(6, 0, [2, 3], [3, 1]), b"\x80\x02]U\x011a.", &storage(6, &six));
    assert!(refused(&strange).contains("has a storage `1` that no tensor uses"));
    let nothing = old(b"\x80\x02}U\x05epochK\x01s.", b"\x80\x02].", b"");
    assert_eq!(
        refused(&nothing),
        "model.pt: has no tensors by name: it holds `epoch`; save `model.state_dict()`"
    );
}

#[test]
fn a_file_cut_or_changed_anywhere_is_refused_or_read() {
    for name in ["pickled.pt", "pickled_old.pt"] {
        let whole = std::fs::read(golden(name)).unwrap();
        for length in 0..whole.len() {
            assert!(pickle::from_bytes("x", whole[..length].to_vec()).is_err(), "{name} {length}");
        }
        for at in 0..whole.len() {
            for bit in [0, 3, 7] {
                let mut changed = whole.clone();
                changed[at] ^= 1 << bit;
                if let Ok(read) = pickle::from_bytes("x", changed) {
                    read.tensors().for_each(|tensor| assert_eq!(tensor.f32s().len(), tensor.len()));
                }
            }
        }
    }
}

#[test]
fn zips_are_not_believed() {
    let whole = std::fs::read(golden("pickled.pt")).unwrap();
    let directory = whole.windows(4).position(|four| four == b"PK\x01\x02").unwrap();
    let with = |at: usize, bytes: &[u8]| {
        let mut changed = whole.clone();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        refused(&changed)
    };
    assert!(with(directory + 10, &[8, 0]).contains("`pickled/data.pkl` is packed or locked in the zip"));
    assert!(with(directory + 24, &[0xff, 0xff, 0, 0]).contains("is not where its directory says"));
    assert!(with(directory + 42, &[1, 0, 0, 0]).contains("is not where its directory says"));
    let end = whole.len() - 22;
    assert!(
        with(end + 16, &[0xf0, 0xff, 0xff, 0]).contains("the directory of the zip does not lie in the file")
    );
    assert!(with(end + 10, &[0xfe, 0xff]).contains("the directory of the zip does not lie in the file"));
    let order = whole.windows(6).position(|six| six == b"little").unwrap();
    assert!(with(order, b"biggie").contains("with its bytes in the other order"));
}
