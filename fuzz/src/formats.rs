//! What each format does with bytes: it reads them as a command would and uses all that it was given. Errors
//! are welcome; panics, overflows, reads outside of memory, and memory or time that the bytes do not explain
//! are findings. What was accepted must also hold: what is written of it is read again.

use crate::scratch;
use regard_data::dataset::{
    Cifar100, Cut, Format as TableFormat, ImageForm, Images, Resample, Table, TextRows,
};
use regard_data::dataset::{Parallel, read_image};
use regard_data::{Checkpoint, DType, Data, Save, SaveOptions, Tokenizer, gguf, llama2c, pickle, save_file};
use regard_graph::Precision;
use regard_hub::Mapping;
use regard_models::{Model, Registry, Sizes, Weights};
use regard_recipe::Recipe;
use regard_runtime::{ChatTemplate, Companions, Message, OpenOptions};
use regard_train::{History, Snapshot};
use serde_json::Value;
use std::path::Path;
use std::sync::OnceLock;

/// Reads bytes as a format.
pub type Format = fn(&[u8]);

/// Every format, by the name of its corpus.
pub const FORMATS: &[(&str, Format)] = &[
    ("safetensors", safetensors),
    ("pickle", pickles),
    ("gguf", ggufs),
    ("sentencepiece", sentencepiece),
    ("names", names),
    ("index", index),
    ("config", config),
    ("beside", beside),
    ("tokenizer", tokenizer),
    ("llama2c", llama2),
    ("pieces", pieces),
    ("idx", idx),
    ("cifar", cifar),
    ("table", table),
    ("text", text),
    ("recipe", recipe),
    ("snapshot", snapshot),
    ("metrics", metrics),
    ("image", image),
    ("template", template),
    ("adapter", adapter),
];

fn registry() -> &'static Registry {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    REGISTRY.get_or_init(Registry::standard)
}

/// Reads every number of a checkpoint, and what it says of itself.
fn use_checkpoint(checkpoint: &Checkpoint) {
    let numbers: usize = checkpoint.tensors().map(|tensor| tensor.f32s().len()).sum();
    let lengths: usize = checkpoint.tensors().map(|tensor| tensor.len()).sum();
    assert_eq!(numbers, lengths);
    let _ = (checkpoint.verify(), checkpoint.checksum(), checkpoint.bytes(), checkpoint.get("weight"));
}

fn safetensors(bytes: &[u8]) {
    if let Ok(checkpoint) = Checkpoint::from_bytes("model.safetensors", bytes.to_vec()) {
        use_checkpoint(&checkpoint);
    }
}

/// What `torch.save` writes, of either form.
fn pickles(bytes: &[u8]) {
    if let Ok(checkpoint) = pickle::from_bytes("model.pt", bytes.to_vec()) {
        use_checkpoint(&checkpoint);
    }
}

/// A GGUF file: its numbers, its tokenizer, and the model that it holds.
fn ggufs(bytes: &[u8]) {
    let Ok(file) = gguf::File::from_bytes("model.gguf", bytes.to_vec()) else { return };
    use_checkpoint(&file.checkpoint);
    if let Ok(tokenizer) = gguf::tokenizer::of(&file) {
        use_tokenizer(&tokenizer);
        let _ = gguf::tokenizer::settings(&tokenizer);
    }
    if let Ok(model) = gguf::Model::of(file) {
        use_checkpoint(&model.checkpoint);
        let _ = registry().open(&model.config, &FewWeights);
    }
}

/// A SentencePiece model; the first byte says of which class of tokenizers.
fn sentencepiece(bytes: &[u8]) {
    let Some((&class, rest)) = bytes.split_first() else { return };
    let class = ["LlamaTokenizer", "T5Tokenizer", "XLMRobertaTokenizer"][usize::from(class % 3)];
    scratch::file("tokenizer_config.json", format!(r#"{{"tokenizer_class": "{class}"}}"#).as_bytes());
    scratch::file("tokenizer.model", rest);
    if let Ok(tokenizer) = Tokenizer::of_model(scratch::folder(), 0) {
        use_tokenizer(&tokenizer);
    }
}

/// A table of names. The sizes that it gives are those of whoever wrote it, as in a recipe: a small model is
/// asked for its names instead.
fn names(bytes: &[u8]) {
    let (Ok(text), path) = (std::str::from_utf8(bytes), Path::new("names.toml")) else { return };
    let Ok(mapping) = Mapping::parse(path, text) else { return };
    static VIT: OnceLock<std::sync::Arc<dyn Model>> = OnceLock::new();
    let vit = VIT.get_or_init(|| {
        let text = "family = \"vit\"\nimage = [1, 8, 8]\nclasses = 2\n[model]\nlayers = 1\nwidth = 8\nheads = 2\n[names]";
        Mapping::parse(path, text).expect("a table").model(path, registry()).expect("a model")
    });
    let _ = mapping.imports(path, &**vit);
}

/// An index of shards; of its shards one is there.
fn index(bytes: &[u8]) {
    static SHARD: OnceLock<()> = OnceLock::new();
    SHARD.get_or_init(|| {
        let tensor = Save { name: "a", shape: &[2], data: Data::F32(&[1.0, 2.0]) };
        let shard = scratch::folder().join("model-00001-of-00002.safetensors");
        save_file(&shard, &[tensor], &SaveOptions::default()).expect("a shard");
    });
    if let Ok(checkpoint) = Checkpoint::open(scratch::file("model.safetensors.index.json", bytes)) {
        use_checkpoint(&checkpoint);
    }
}

/// A checkpoint of a few tensors whose names nobody knows: it bounds the layers that a config may claim.
struct FewWeights;

impl Weights for FewWeights {
    fn has(&self, name: &str) -> bool {
        name.len().is_multiple_of(2)
    }

    fn same(&self, _: &str, _: &str) -> Option<bool> {
        Some(true)
    }

    fn count(&self) -> Option<usize> {
        Some(24)
    }
}

fn config(bytes: &[u8]) {
    let Ok(config) = serde_json::from_slice::<Value>(bytes) else { return };
    let Ok(model) = registry().open(&config, &FewWeights) else { return };
    let Ok(model) = model.without_dropout() else { return };
    let _ = (model.files(Some(&FewWeights)), model.files(None), model.reads(), model.task());
    for (batch, ids) in [(1, 3), (2, 700)] {
        let sizes = Sizes { batch, ids, source: 5, ..Sizes::default() };
        let _ = model.graph(sizes, Precision::F32);
    }
    let _ = model.config_to_json();
}

/// What lies beside a model: each kind of file is given the same bytes, for the readers differ.
fn beside(bytes: &[u8]) {
    static MODELS: OnceLock<Vec<(Value, std::sync::Arc<dyn Model>)>> = OnceLock::new();
    let models = MODELS.get_or_init(|| {
        let configs = [
            r#"{"model_type": "vit", "architectures": ["ViTForImageClassification"], "hidden_size": 8,
                "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16, "image_size": 8,
                "patch_size": 4, "num_channels": 3, "hidden_act": "gelu", "layer_norm_eps": 1e-12,
                "id2label": {"0": "a", "1": "b"}}"#,
            r#"{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 16, "n_positions": 8,
                "n_embd": 8, "n_layer": 1, "n_head": 2}"#,
        ];
        let open = |text: &&str| {
            let config: Value = serde_json::from_str(text).expect("a config");
            let model = registry().open(&config, &FewWeights).expect("a model");
            (config, model)
        };
        configs.iter().map(open).collect()
    });
    scratch::file("preprocessor_config.json", bytes);
    scratch::file("generation_config.json", bytes);
    let own: Option<Value> = serde_json::from_slice(bytes).ok();
    for (config, model) in models {
        let _ = Companions::open(&**model, config, scratch::folder());
        if let Some(own) = &own {
            let _ = Companions::open(&**model, own, scratch::folder());
        }
    }
}

fn tokenizer(bytes: &[u8]) {
    if let Ok(tokenizer) = Tokenizer::open(scratch::file("tokenizer.json", bytes)) {
        use_tokenizer(&tokenizer);
    }
}

fn use_tokenizer(tokenizer: &Tokenizer) {
    for text in ["", "a", "Hello, world 12!", "\u{e9}\u{301} \u{1f600}\n\t<s></s>"] {
        let Ok(ids) = tokenizer.encode(text) else { continue };
        let _ = (tokenizer.decode(&ids), tokenizer.encode_bare(text), tokenizer.encode_pair(text, "b"));
        let mut stream = tokenizer.stream(&[]);
        for &id in ids.iter().take(64) {
            let _ = stream.push(id);
        }
        let _ = stream.finish();
    }
    let _ =
        (tokenizer.vocabulary(), tokenizer.token_of(3), tokenizer.token_of(u32::MAX), tokenizer.id_of("a"));
    let _ = tokenizer.decode(&[0, 1, u32::MAX]);
}

fn llama2(bytes: &[u8]) {
    let Ok(model) = llama2c::open(scratch::file("model.bin", bytes)) else { return };
    use_checkpoint(&model.checkpoint);
    let _ = registry().open(&model.config.hugging_face(), &FewWeights);
}

/// A tokenizer of llama2.c; the first byte says for how many pieces.
fn pieces(bytes: &[u8]) {
    let Some((&count, rest)) = bytes.split_first() else { return };
    if let Ok(tokenizer) = Tokenizer::llama2c(scratch::file("tokenizer.bin", rest), usize::from(count)) {
        use_tokenizer(&tokenizer);
    }
}

/// Two files; the first two bytes say how long the first is.
fn in_two(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))
}

fn use_images(images: &Images) {
    let size = images.channels() * images.width() * images.height();
    for index in 0..images.len() {
        assert_eq!(images.pixels(index).len(), size);
        assert!(images.label(index) < images.labels().len());
    }
}

fn idx(bytes: &[u8]) {
    let Some((images, labels)) = in_two(bytes) else { return };
    if let Ok(images) = Images::idx(scratch::file("images", images), scratch::file("labels", labels)) {
        use_images(&images);
    }
}

fn cifar(bytes: &[u8]) {
    let path = scratch::file("cifar.bin", bytes);
    for images in
        [Images::cifar10(&[&path]), Images::cifar100(&[&path], Cifar100::Fine)].into_iter().flatten()
    {
        use_images(&images);
    }
}

fn table(bytes: &[u8]) {
    let Some((&how, rest)) = bytes.split_first() else { return };
    let format = [TableFormat::Tsv, TableFormat::Csv, TableFormat::Jsonl][usize::from(how % 3)];
    let Ok(table) = Table::open(scratch::file("table", rest), format, how & 4 == 0) else { return };
    for name in table.names() {
        let Ok(column) = table.column(name) else { continue };
        column.iter().for_each(|cell| drop(cell));
        if let Ok(labels) = column.labels() {
            assert_eq!(column.classes(&labels).expect("its own labels").len(), table.len());
        }
    }
}

fn text(bytes: &[u8]) {
    let path = scratch::file("text", bytes);
    for cut in [Cut::Lines, Cut::Documents, Cut::Whole] {
        let Ok(rows) = TextRows::open(&path, cut) else { continue };
        rows.iter().for_each(|row| drop(row.expect("a row that was checked")));
    }
    let Some((one, other)) = in_two(bytes) else { return };
    if let Ok(pairs) = Parallel::open(scratch::file("source", one), scratch::file("target", other)) {
        (0..pairs.len()).for_each(|index| drop(pairs.get(index)));
    }
}

/// A recipe; what stands after a zero are overrides, one a line.
fn recipe(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (text, over) = text.split_once('\0').unwrap_or((text, ""));
    let over: Vec<String> = over.lines().take(8).map(str::to_owned).collect();
    let Ok(recipe) = Recipe::parse(text, "recipe.toml", &over, registry()) else { return };
    let written = recipe.to_toml().expect("a recipe that was read can be written");
    if let Err(error) = Recipe::parse(&written, "written.toml", &[], registry()) {
        panic!("what was written of a recipe cannot be read: {error}\n{written}");
    }
}

/// A run's checkpoint: as it is, and with the bytes as the trainer's part under a checksum that is right.
fn snapshot(bytes: &[u8]) {
    let path = scratch::file("last.safetensors", bytes);
    let _ = Snapshot::open(&path);
    let shape = [bytes.len()];
    let trainer = Save { name: "trainer", shape: &shape, data: Data::Bytes(DType::U8, bytes) };
    let weight = Save { name: "weight", shape: &[1], data: Data::F32(&[1.0]) };
    save_file(&path, &[trainer, weight], &SaveOptions::default()).expect("a checkpoint");
    if let Ok(snapshot) = Snapshot::open(&path) {
        use_checkpoint(&snapshot.into_checkpoint());
    }
}

fn metrics(bytes: &[u8]) {
    let _ = History::read(&scratch::file("metrics.jsonl", bytes));
}

fn image(bytes: &[u8]) {
    let path = scratch::file("picture", bytes);
    for (grey, resample) in [(false, Resample::Bilinear), (true, Resample::Lanczos)] {
        if let Ok(pixels) = read_image(&path, ImageForm { width: 8, height: 6, grey, resample }) {
            assert_eq!(pixels.len(), if grey { 48 } else { 144 });
        }
    }
}

/// A chat template, and after a line of dashes the messages that it renders; two plain ones if there are
/// none.
fn template(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (source, messages) = text.split_once("\n---\n").unwrap_or((&text, ""));
    let usual = || vec![Message::new("user", "Hello"), Message::new("assistant", "Hi")];
    let messages = Message::list(messages).unwrap_or_else(|_| usual());
    let tokens = [("bos_token".to_string(), "<s>".to_string()), ("eos_token".to_string(), "</s>".to_string())];
    let Ok(template) = ChatTemplate::new(source, tokens, "template") else { return };
    for reply in [false, true] {
        if let Ok(rendered) = template.render(&messages, reply) {
            for part in rendered.marked {
                assert!(rendered.text.get(part).is_some(), "a mark inside of a character");
            }
        }
    }
    if let Ok((texts, _)) = template.replies(&messages) {
        for one in texts {
            assert!(one.parts.iter().all(|part| one.text.get(part.clone()).is_some()));
        }
    }
}

/// The settings of an adapter, beside weights that are none.
fn adapter(bytes: &[u8]) {
    scratch::file("adapter_config.json", bytes);
    let _ = regard_runtime::open(&scratch::folder().display().to_string(), &OpenOptions::new(registry()));
    let _ = std::fs::remove_file(scratch::folder().join("adapter_config.json"));
}
