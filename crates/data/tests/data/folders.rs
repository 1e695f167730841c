//! A model as a person names it: folders, configurations, a local cache.

use crate::scratch::Scratch;
use crate::text;
use regard_data::Folder;
use regard_data::folder::read_json_list;

#[test]
fn a_folder_is_a_model_or_says_why_not() {
    let scratch = Scratch::new();
    let looked = "is no model's folder: looked for config.json, model.safetensors, model.safetensors.index.json, any \
                  *.safetensors, and pytorch_model.bin";
    assert_eq!(
        text(Folder::open(scratch.path()), &scratch),
        format!("DIR: {looked}; the folder is empty; name the folder that holds these")
    );
    scratch.put("notes.txt", "");
    assert_eq!(
        text(Folder::around(&scratch.join("notes.txt")), &scratch),
        format!("DIR: {looked}; it holds `notes.txt`; name the folder that holds these")
    );
    let file = scratch.join("notes.txt").display().to_string();
    assert_eq!(
        text(Folder::find_in(&file, &[]), &scratch),
        "notes.txt: is a file, not a model's folder; name the folder that it lies in"
    );
    scratch.put("config.json", r#"{"model_type": "gpt2", "n_layer": 12}"#);
    let folder = Folder::find_in(scratch.path().to_str().unwrap(), &[]).unwrap();
    assert_eq!(folder.config().unwrap()["n_layer"], 12);
    assert_eq!(
        text(folder.tokenizer(), &scratch),
        "DIR: no tokenizer.json here; copy it from where the model came from, or convert the tokenizer with \
         `tokenizers`"
    );
    scratch.put("tokenizer.json", "{}");
    assert_eq!(folder.tokenizer().unwrap(), scratch.join("tokenizer.json"));
    assert!(text(folder.checkpoint(), &scratch).contains("no weights here"));
}

#[test]
fn a_broken_configuration_says_where() {
    let scratch = Scratch::new();
    scratch.put("model.safetensors", "");
    let folder = Folder::open(scratch.path()).unwrap();
    let config = |bytes: &[u8]| {
        scratch.put("config.json", bytes);
        text(folder.config(), &scratch)
    };
    assert_eq!(
        text(folder.config(), &scratch),
        "DIR: no config.json here; copy it from where the model came from: it holds the sizes of the model"
    );
    assert_eq!(config(b" \n"), "config.json: is empty; copy or download it again");
    let list = |bytes: &[u8]| {
        scratch.put("modules.json", bytes);
        text(read_json_list(&scratch.join("modules.json")), &scratch)
    };
    assert_eq!(list(b"{}"), "modules.json: is JSON, but not a list; copy or download it again");
    assert_eq!(list(b"[1,"), "modules.json:1:3: EOF while parsing a value; mend the JSON or copy it again");
    assert_eq!(
        config(b"{\n  \"a\": 1\n  \"b\": 2\n}"),
        "config.json:3:3: expected `,` or `}`; mend the JSON or copy it again"
    );
    assert_eq!(config(b"[1]"), "config.json: is JSON, but not an object; a configuration begins with `{`");
    assert!(config(b"<html>").starts_with("config.json:1:1: expected value; "));
    assert!(config(b"{\"a\": \"\xff\"}").starts_with("config.json:1:8: invalid unicode code point; "));
    assert!(config("[".repeat(100_000).as_bytes()).contains("recursion limit exceeded"));
    scratch.put("config.json", b"\xef\xbb\xbf{\"a\": 1}");
    assert_eq!(folder.config().unwrap()["a"], 1);
    let sparse = std::fs::File::create(scratch.join("config.json")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    assert_eq!(
        text(folder.config(), &scratch),
        "config.json: has 1099511627776 bytes, over the limit of 100000000 for such a file; it cannot be what its name \
         says"
    );
    assert_eq!(
        text(regard_data::folder::read_json(&scratch.join("none.json")), &scratch),
        "cannot read none.json: No such file or directory (os error 2); check the path"
    );
}

#[test]
fn a_name_is_found_in_a_local_cache() {
    let scratch = Scratch::new();
    let caches = [scratch.join("first"), scratch.join("hub")];
    let find = |name: &str| Folder::find_in(name, &caches);
    assert!(text(find("org/tiny"), &scratch).contains(
        "then in first, hub; no model is there. Nothing is downloaded: from the model's page take config.json"
    ));
    scratch.put("hub/models--org--tiny/snapshots/abc123/config.json", "{}");
    scratch.put("hub/models--gpt2/snapshots/1/config.json", "{}");
    scratch.put("hub/models--gpt2/snapshots/2/config.json", "{}");
    assert_eq!(
        find("org/tiny").unwrap().path(),
        scratch.join("hub/models--org--tiny/snapshots/abc123"),
        "the only snapshot, without refs"
    );
    assert_eq!(
        text(find("gpt2"), &scratch),
        "hub/models--gpt2: has no refs/main and 2 snapshots: `1`, `2`; name the folder of the snapshot"
    );
    scratch.put("hub/models--gpt2/refs/main", "2\n");
    assert_eq!(find("gpt2").unwrap().path(), scratch.join("hub/models--gpt2/snapshots/2"));
    scratch.put("hub/models--gpt2/refs/main", "3");
    assert_eq!(
        text(find("gpt2"), &scratch),
        "hub/models--gpt2/refs/main: points to the revision 3, which is not in hub/models--gpt2/snapshots; the download \
         was not finished: download the model again"
    );
    scratch.put("hub/models--gpt2/refs/main", "../../../x");
    assert_eq!(
        text(find("gpt2"), &scratch),
        "hub/models--gpt2/refs/main: holds `../../../x`, which is no revision; download the model again"
    );
    assert_eq!(
        text(find("org/tinny"), &scratch),
        "no model is called `org/tinny`; looked for a folder of that name, then in first, hub; did you mean \
         `org/tiny`?"
    );
    assert_eq!(
        text(find("llama"), &scratch),
        "no model is called `llama`; looked for a folder of that name, then in first, hub; there is `gpt2`, `org/tiny`"
    );
    assert_eq!(
        text(find("../no/such"), &scratch),
        "no folder is called `../no/such`; a model is a folder, or a name like `organisation/name` from a local cache"
    );
    assert_eq!(
        text(Folder::find("../no/such"), &scratch),
        "no folder is called `../no/such`; a model is a folder, or a name like `organisation/name` from a local cache"
    );
    std::fs::create_dir_all(scratch.join("first/models--empty/snapshots")).unwrap();
    assert_eq!(
        text(find("empty"), &scratch),
        "first/models--empty: the cache holds no snapshot of this model; download it again"
    );
}
