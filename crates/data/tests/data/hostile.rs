//! Files from an enemy, or from a broken download: every one is an error with a text, or a valid checkpoint;
//! none is a panic, a hang or a large allocation.

use crate::noise::Noise;
use crate::scratch::Scratch;
use crate::text;
use regard_data::{Checkpoint, Error};
use std::path::Path;

/// A file with this header and so many bytes of tensors.
fn file(header: &str, room: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(std::iter::repeat_n(0x3f, room));
    bytes
}

fn refused(header: &str, room: usize) -> String {
    Checkpoint::from_bytes("x", file(header, room)).unwrap_err().to_string()
}

fn one(name: &str, dtype: &str, shape: &str, offsets: &str) -> String {
    format!(r#"{{"{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}}}"#)
}

fn golden() -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/mixed.safetensors")).unwrap()
}

/// Everything that a reader does with a checkpoint.
fn use_all(checkpoint: &Checkpoint) {
    for tensor in checkpoint.tensors() {
        assert_eq!(tensor.f32s().len(), tensor.len());
        assert_eq!(Some(tensor.bytes.len()), tensor.dtype.size(tensor.len()));
    }
    checkpoint.checksum();
    let _ = checkpoint.verify();
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let whole = golden();
    use_all(&Checkpoint::from_bytes("x", whole.clone()).unwrap());
    for length in 0..whole.len() {
        let error = Checkpoint::from_bytes("x", whole[..length].to_vec()).unwrap_err();
        assert!(matches!(error, Error::File { .. } | Error::Tensor { .. }), "{length}: {error}");
    }
}

#[test]
fn random_bytes_and_lengths_never_panic() {
    let mut noise = Noise(2);
    for _ in 0..2000 {
        let mut bytes: Vec<u8> = (0..noise.below(200)).map(|_| noise.next() as u8).collect();
        if bytes.len() >= 8 && noise.below(2) == 0 {
            let claim = noise.below(bytes.len()) as u64;
            bytes[..8].copy_from_slice(&claim.to_le_bytes());
        }
        assert!(Checkpoint::from_bytes("x", bytes).is_err());
    }
}

#[test]
fn claimed_lengths_are_compared_with_the_file() {
    let with = |claim: u64| {
        let mut bytes = claim.to_le_bytes().to_vec();
        bytes.extend(b"{}");
        Checkpoint::from_bytes("x", bytes).map(|c| c.len()).map_err(|e| e.to_string())
    };
    assert_eq!(with(2), Ok(0));
    assert_eq!(
        with(3).unwrap_err(),
        "x: claims a header of 3 bytes, but only 2 bytes follow; it is cut short or no safetensors file: copy or \
         download it again"
    );
    assert_eq!(
        with(u64::MAX).unwrap_err(),
        "x: claims a header of 18446744073709551615 bytes; at most 100000000 are read, here and in other programs; it \
         is damaged, hostile or no safetensors file"
    );
    assert!(with(100_000_000).unwrap_err().contains("only 2 bytes follow"));
    assert!(with(100_000_001).unwrap_err().contains("at most 100000000 are read"));
    assert!(with(0).unwrap_err().starts_with("x: the header is not what it should be: EOF while parsing"));
    let short = Checkpoint::from_bytes("x", vec![1, 2, 3]).unwrap_err().to_string();
    assert_eq!(
        short,
        "x: has 3 bytes; a safetensors file has at least 8, the length of its header; copy or download it again"
    );
}

#[test]
fn every_lie_of_a_header_has_its_text() {
    let again = "copy or download it again";
    let cases: Vec<(String, usize, String)> = vec![
        (
            one("w", "F8_E4M3", "[1]", "[0,1]"),
            1,
            "x: tensor `w` has the dtype F8_E4M3; read are BOOL, U8, I8, I16, U16, F16, BF16, I32, U32, F32, F64, \
             I64, U64; convert it to one of these"
                .into(),
        ),
        (
            one("w", "F32", "[2]", "[0,4]"),
            4,
            format!("x: tensor `w` F32 [2] needs 8 bytes, but 4 are set aside; {again}"),
        ),
        (
            one("w", "F32", "[9000000000000000000,4]", "[0,4]"),
            4,
            format!(
                "x: tensor `w` has the shape [9000000000000000000, 4], more elements than can be counted; {again}"
            ),
        ),
        (one("w", "F32", "[1]", "[4,0]"), 4, format!("x: tensor `w` ends at 0, before its begin 4; {again}")),
        (
            one("w", "F32", "[1]", "[0,4]"),
            3,
            format!(
                "x: tensor `w` lies at 0..4, but the file holds 3 bytes of tensors; it is cut short: {again}"
            ),
        ),
        (
            one("w", "F32", "[1]", "[4,8]"),
            8,
            format!("x: tensor `w` begins at 4, but the tensor before it ends at 0: a hole; {again}"),
        ),
        (
            one("w", "F32", "[1]", "[0,4]"),
            6,
            format!("x: has 2 bytes after the last tensor, which belong to none; {again}"),
        ),
        (
            r#"{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}}"#
                .into(),
            6,
            format!("x: tensor `b` begins at 2, inside of the tensor before it, which ends at 4; {again}"),
        ),
        (
            r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#
                .into(),
            1,
            "x: the header is not what it should be: tensor `a` occurs twice at line 1 column 105; it is damaged or no \
             safetensors file"
                .into(),
        ),
        (
            one("w", "F32", "[-1]", "[0,4]"),
            4,
            "x: the header is not what it should be: tensor `w`: invalid value: integer `-1`, expected usize at line 1 \
             column 31; it is damaged or no safetensors file"
                .into(),
        ),
        (
            r#"{"w":{"dtype":"F32"}}"#.into(),
            0,
            "x: the header is not what it should be: tensor `w`: missing field `shape` at line 1 column 20; it is \
             damaged or no safetensors file"
                .into(),
        ),
        (
            r#"{"__metadata__":{"a":1}}"#.into(),
            0,
            "x: the header is not what it should be: `__metadata__`: invalid type: integer `1`, expected a string at \
             line 1 column 22; it is damaged or no safetensors file"
                .into(),
        ),
        (
            "[1]".into(),
            0,
            "x: the header is not what it should be: invalid type: sequence, expected an object of tensors at line 1 \
             column 0; it is damaged or no safetensors file"
                .into(),
        ),
    ];
    for (header, room, expected) in cases {
        assert_eq!(refused(&header, room), expected, "{header}");
    }
}

#[test]
fn what_the_reference_tolerates_is_read() {
    // Empty tensors anywhere, offsets in any order, spaces, fields of the future, no or null metadata.
    let header = r#"  {"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]},"e":{"shape":[3,0],"dtype":"F64","data_offsets":[1,1]},
        "__metadata__":null,"a":{"dtype":"U8","shape":[],"data_offsets":[0,1],"more":[{}]},"":{"dtype":"U8","shape":[0],"data_offsets":[3,3]}} "#;
    let checkpoint = Checkpoint::from_bytes("x", file(header, 3)).unwrap();
    assert_eq!(checkpoint.names().collect::<Vec<_>>(), ["", "a", "b", "e"]);
    assert_eq!(checkpoint.get("b").unwrap().shape, [2]);
    use_all(&checkpoint);
    assert!(Checkpoint::from_bytes("x", file("{}", 0)).unwrap().is_empty());
    // An extent of 0 first makes any other extent possible; the tensor is empty all the same.
    let odd = one("w", "F64", "[0,9000000000000000000,9000000000000000000]", "[0,0]");
    use_all(&Checkpoint::from_bytes("x", file(&odd, 0)).unwrap());
}

#[test]
fn deep_and_long_headers_end_early() {
    let deep = format!("{{\"w\":{}1{}}}", "[".repeat(200_000), "]".repeat(200_000));
    assert!(refused(&deep, 0).contains("tensor `w`: invalid type: sequence"), "{}", refused(&deep, 0));
    let inner = format!("{{\"a\":{}", "{\"a\":".repeat(200_000));
    assert!(refused(&format!("{{\"w\":{inner}"), 0).starts_with("x: the header is not what it should be"));
    let rank = one("w", "U8", &format!("[{}1]", "1,".repeat(1_000_000)), "[0,1]");
    assert!(
        refused(&rank, 1).contains("tensor `w`: a shape of more than 64 extents"),
        "{}",
        refused(&rank, 1)
    );
    let long = "n".repeat(1_000_000);
    let error = refused(&one(&long, "F32", "[1]", "[0,1]"), 1);
    assert!(error.len() < 400 && error.contains("… (1000000 bytes)"), "{}", error.len());
}

#[test]
fn odd_names_are_shown_escaped() {
    let error = refused(r#"{"\u001b[31mred\n\u202e":{"dtype":"F32","shape":[1],"data_offsets":[0,1]}}"#, 1);
    assert_eq!(
        error,
        r"x: tensor `\u{1b}[31mred\n\u{202e}` F32 [1] needs 4 bytes, but 1 are set aside; copy or download it again"
    );
}

#[test]
fn an_index_is_not_believed_either() {
    let scratch = Scratch::new();
    scratch.put("a.safetensors", file(&one("w", "U8", "[1]", "[0,1]"), 1));
    scratch.put("b.safetensors", file(&one("w", "U8", "[1]", "[0,1]"), 1));
    let index = |json: &str| {
        scratch.put("model.safetensors.index.json", json);
        text(Checkpoint::open(scratch.path()), &scratch)
    };
    let start = "model.safetensors.index.json";
    for bad in
        ["../a.safetensors", "/etc/a.safetensors", "x/a.safetensors", "..", "", "x\\\\a.safetensors", "a.bin"]
    {
        let error = index(&format!(r#"{{"weight_map":{{"w":"{bad}"}}}}"#));
        let bad = bad.replace("\\\\", "\\");
        let expected = format!(
            "{start}: names the shard `{bad}`, which is not a plain name ending in .safetensors; shards lie beside \
             their index; do not trust this file"
        );
        assert_eq!(error, expected);
    }
    assert_eq!(
        index(r#"{"weight_map":{"w":"a.safetensors","v":"c.safetensors","u":"d.safetensors"}}"#),
        format!(
            "{start}: names 2 of 3 shards that are not there: `c.safetensors`, `d.safetensors`; copy or download them \
             to DIR"
        )
    );
    assert_eq!(
        index(r#"{"weight_map":{"w":"a.safetensors","v":"a.safetensors"}}"#),
        format!(
            "{start}: names 1 tensors that are not in their shards: `v in a.safetensors`; index and shards are of \
             different checkpoints: copy all of them again"
        )
    );
    scratch.put("b2.safetensors", file(r#"{"v":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"w":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}"#, 2));
    assert_eq!(
        index(r#"{"weight_map":{"w":"a.safetensors","v":"b2.safetensors"}}"#),
        "b2.safetensors: tensor `w` is also in a.safetensors; a name may occur once; save it again"
    );
    assert_eq!(
        index(r#"{"weight_map":{"w":"a.safetensors","w":"b.safetensors"}}"#),
        format!(
            "{start}:1:55: tensor `w` occurs twice; an index is an object with `weight_map`: which tensor lies in \
             which file"
        )
    );
    assert!(index("").starts_with(&format!("{start}:1:0: EOF while parsing a value")));
    assert!(index("{}").contains("missing field `weight_map`"));
}

#[test]
fn what_is_no_checkpoint_says_so() {
    let scratch = Scratch::new();
    let open = |name: &str| text(Checkpoint::open(scratch.join(name)), &scratch);
    assert_eq!(open("no"), "cannot open no: No such file or directory (os error 2); check the path");
    let looked = "looked for model.safetensors, model.safetensors.index.json, any single *.safetensors, and \
                  pytorch_model.bin";
    assert_eq!(
        text(Checkpoint::open(scratch.path()), &scratch),
        format!(
            "DIR: no weights here: {looked}; name the folder or the file that holds them; on a model's page they stand \
             under \"Files\", beside config.json"
        )
    );
    scratch.put("model.onnx", "no tensors of ours");
    let foreign = text(Checkpoint::open(scratch.path()), &scratch);
    assert!(foreign.contains(&format!("{looked}, and found `model.onnx`; read are safetensors, GGUF")));
    assert!(open("model.onnx").contains("is no safetensors file; read are safetensors, GGUF"));
    scratch.put("pytorch_model.bin", "pickle");
    assert_eq!(
        text(Checkpoint::open(scratch.path()), &scratch),
        "pytorch_model.bin: is no file of `torch.save`: it begins neither as a zip nor as a pickle; name the file that \
         holds the weights"
    );
    scratch.put("a.safetensors", "");
    assert!(text(Checkpoint::open(scratch.path()), &scratch).starts_with("a.safetensors: has 0 bytes"));
    scratch.put("model.fp16.safetensors", "");
    assert_eq!(
        text(Checkpoint::open(scratch.path()), &scratch),
        "DIR: holds several files of weights: `a.safetensors`, `model.fp16.safetensors`; name the one to read"
    );
    if Path::new("/dev/zero").exists() {
        let error = Checkpoint::open("/dev/zero").unwrap_err().to_string();
        assert_eq!(error, "/dev/zero: is not a regular file; name a file");
    }
}

#[test]
fn a_variant_is_found_when_it_is_the_only_one() {
    let scratch = Scratch::new();
    scratch.put("model.fp16.safetensors", golden());
    scratch.put("config.json", "{}");
    scratch.put(".model.safetensors.1-0.partial", "half");
    assert_eq!(Checkpoint::open(scratch.path()).unwrap().len(), 20);
    scratch.put("model.safetensors.index.fp16.json", r#"{"weight_map":{"half":"model.fp16.safetensors"}}"#);
    assert_eq!(Checkpoint::open(scratch.path()).unwrap().len(), 20);
}
