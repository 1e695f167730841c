//! The parts that others use by themselves, and what they say when something cannot be.

use crate::{LETTERS, REGISTRY, SMALL, Scratch, cpu, goldens, session, strings};
use regard_data::{Batch, Source, Tokenizer};
use regard_engine::Store;
use regard_graph::{Init, Precision};
use regard_models::sentence::SentenceHead;
use regard_models::{Bert, BertConfig, BertHead, Gpt, GptConfig, Pixels, Transformer, TransformerConfig};
use regard_runtime::special::Written;
use regard_runtime::{
    Answerer, Classifier, Companions, Embedder, OpenOptions, PixelScale, TooLong, Translating, Translator,
    open, sureness, unheard,
};
use std::fs;
use std::path::Path;

fn text<T, E: std::fmt::Display>(result: Result<T, E>) -> String {
    match result {
        Ok(_) => panic!("an error was expected"),
        Err(error) => error.to_string(),
    }
}

fn gpt() -> Gpt {
    let config = GptConfig { layers: 1, heads: 1, width: 4, context: 8, vocabulary: 256, ..GptConfig::SMALL };
    Gpt::new(GptConfig { dropout: 0.0, ..config }).unwrap()
}

fn bert() -> Bert {
    let config = BertConfig {
        layers: 1,
        heads: 1,
        width: 4,
        hidden: 8,
        vocabulary: 16,
        head: BertHead::Classes(2),
        ..regard_models::bert::PRESETS[0].1
    };
    Bert::new(config.without_dropout()).unwrap()
}

/// A store in which the embedding has a shape of its own.
fn foreign() -> Store {
    let mut store = Store::new(0);
    store.declare("token_embedding.weight", [3, 3], Init::Zeros).unwrap();
    store
}

/// Batches that are none.
struct Broken;

impl Source for Broken {
    fn batches(&self, _: u64) -> usize {
        1
    }

    fn batch(&self, _: u64, _: usize) -> regard_data::Result<Batch> {
        regard_data::dataset::Lines::open("a file that is not there").map(|_| Batch::default())
    }
}

#[test]
fn classes_of_what_has_none() {
    let none = text(Classifier::new(&gpt(), 2, 4, Precision::F32, &mut Store::new(0), &cpu()));
    assert!(none.contains("has no classes; give a classifier of text or of images"), "{none}");
    let mut store = Store::new(0);
    let mut classifier = Classifier::new(&bert(), 2, 4, Precision::F32, &mut store, &cpu()).unwrap();
    let unfed = classifier.scores(&Batch::default(), &mut store).unwrap_err().to_string();
    assert!(unfed.contains("asks for `ids`"), "{unfed}");
    let lost = classifier.all(&Broken, &mut store).unwrap_err().to_string();
    assert!(lost.contains("a file that is not there"), "{lost}");
}

#[test]
fn translations_of_what_does_not_translate() {
    let how = Translating { batch: 1, beams: 1, most: 4, ..Translating::default() };
    assert_eq!(
        Translating { beams: 0, ..how }.check().unwrap_err().to_string(),
        "beams: the width is 0; 1 is greedy, 4 or 5 are usual"
    );
    let none = text(Translator::new(&gpt(), how, 3, 0, vec![], &mut Store::new(0), &cpu()));
    assert!(none.contains("does not translate; give an encoder-decoder"), "{none}");
    let config = TransformerConfig {
        encoder_layers: 1,
        decoder_layers: 1,
        heads: 1,
        width: 4,
        hidden: 8,
        context: 8,
        dropout: 0.0,
        ..TransformerConfig::base(256)
    };
    let (model, mut store) = (Transformer::new(config).unwrap(), Store::new(0));
    let mut translator = Translator::new(&model, how, 3, 0, vec![], &mut store, &cpu()).unwrap();
    let long = translator.translate(&[vec![1; 9]], &mut store, &mut unheard).unwrap_err().to_string();
    assert!(long.contains("it has 9 tokens, there is room for 3"), "{long}");
}

#[test]
fn vectors_of_what_does_not_fit() {
    let bert = bert();
    let head = SentenceHead::default();
    let other = text(Embedder::new(&bert, &head, [1, 4], &mut foreign(), &cpu()));
    assert!(other.contains("token_embedding.weight") && other.contains("[3 3]"), "{other}");
    let mut store = Store::new(0);
    let mut embedder = Embedder::new(&bert, &head, [1, 4], &mut store, &cpu()).unwrap();
    let long = embedder.vectors(&[vec![1; 9]], &mut store, &mut unheard).unwrap_err().to_string();
    assert!(long.contains('9') && long.contains('4'), "{long}");
}

#[test]
fn questions_to_what_does_not_answer() {
    let letters = Tokenizer::open(Scratch::model("gpt2", LETTERS).0.join("tokenizer.json")).unwrap();
    let mut store = Store::new(0);
    let deaf = text(Answerer::new(&gpt(), &letters, 1, 5, Precision::F32, &mut store, &cpu()));
    assert_eq!(deaf, "the tokenizer has no mask, which closes questions; use a model that learned to answer");
    let scratch = Scratch::new();
    scratch.put("tokenizer.json", &crate::tokenizer(SMALL, &["[MASK]"]));
    let marked = Tokenizer::open(scratch.0.join("tokenizer.json")).unwrap();
    let dumb = text(Answerer::new(&bert(), &marked, 1, 5, Precision::F32, &mut store, &cpu()));
    assert!(dumb.ends_with("does not answer questions; give a decoder"), "{dumb}");
    let mut answerer = Answerer::new(&gpt(), &marked, 1, 5, Precision::F32, &mut store, &cpu()).unwrap();
    let long = answerer.answer(&["abcdefghij"], &mut store, &mut unheard).unwrap_err().to_string();
    assert!(long.contains("has 11 tokens; the model has room for 8, its answer included"), "{long}");
}

#[test]
fn what_is_sure_has_probabilities() {
    let (gpt, mut store) = (gpt(), Store::new(3));
    let rows = [(1, vec![5, 6, 7]), (3, vec![5, 6, 7]), (2, vec![5, 6, 7]), (0, vec![1]), (1, vec![5; 20])];
    let sure = sureness(&gpt, &rows, &mut store, &cpu()).unwrap();
    assert_eq!(
        sure.iter().map(|sure| sure.tokens).collect::<Vec<_>>(),
        [2, 0, 1, 0, 8],
        "as far as it reads"
    );
    // The whole is its first token times the rest, and no row depends on the others.
    let first = sureness(&gpt, &[(1, vec![5, 6])], &mut store, &cpu()).unwrap()[0];
    assert!((first.probability * sure[2].probability - sure[0].probability).abs() < 1e-9);
    let dumb = text(sureness(&bert(), &rows, &mut store, &cpu()));
    assert!(dumb.ends_with("gives no probabilities of texts; give a decoder"), "{dumb}");
}

#[test]
fn what_lies_beside_a_model_or_does_not() {
    assert_eq!(
        text(Companions::made(None).tokenizer()),
        "there is no tokenizer beside the model; put its tokenizer.json there"
    );
    let bare = goldens("gpt2");
    let own = session(bare.to_str().unwrap());
    for message in [
        text(own.companions().tokenizer()),
        text(own.companions().target()),
        text(own.companions().encode("a")),
        text(own.companions().encode_target("a")),
        text(own.companions().decode(&[1])),
    ] {
        assert!(message.contains("no tokenizer here"), "{message}");
    }
    // What stands in the way of a file is said.
    let scratch = Scratch::model("gpt2", LETTERS);
    let opened = open(scratch.path(), &OpenOptions::new(&REGISTRY)).unwrap();
    let companions = Companions::open(&*opened.model, &opened.config, &opened.path).unwrap();
    companions.tokenizer().unwrap();
    let file = scratch.0.join("config.json");
    for message in [text(companions.save(&file)), text(companions.save_for(&*opened.model, &file))] {
        assert!(message.contains("config.json"), "{message}");
    }
    fs::write(scratch.0.join("generation_config.json"), "{").unwrap();
    for message in [
        text(Companions::open(&*opened.model, &opened.config, &opened.path)),
        text(Written::read(&opened.path, &opened.config, false)),
    ] {
        assert!(message.contains("generation_config.json:1:1"), "{message}");
    }
    let scale = PixelScale::new(vec![0.5], vec![0.5]);
    let message = text(scale.read(Path::new("no.png"), Pixels { channels: 1, height: 2, width: 2 }));
    assert!(message.contains("no.png"), "{message}");
}

#[test]
fn a_session_without_its_weights_says_so() {
    // The header is whole, and the numbers are not there.
    let scratch = Scratch::model("vit", SMALL);
    let mut own = session(scratch.path());
    let message = own.forward(&Default::default(), &[]).unwrap_err().to_string();
    assert_eq!(message, "this is a model of images, and ids were given; give it pixels");
    let message = own.classify_images(&["nowhere.png"]).unwrap_err().to_string();
    assert!(message.contains("nowhere.png"), "{message}");
    let message = own.classify_texts(&strings(&["a"]), TooLong::Refuse).unwrap_err().to_string();
    assert!(message.ends_with("classifies images; give it images"), "{message}");
    assert!(own.store().unwrap().names().count() > 0);
}
