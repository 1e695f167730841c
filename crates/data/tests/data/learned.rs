//! Tokenizers that are made here: from characters and by training; the same every time, saved and opened
//! again.

use crate::many::sentences;
use crate::scratch::Scratch;
use crate::{shared, text};
use regard_data::Tokenizer;
use regard_data::dataset::Lines;
use regard_data::tokenizer::{Method, Reserved, Special, Training};

fn trainings() -> [Training; 3] {
    [Training::bpe(420), Training::word_piece(350), Training::unigram(160)]
}

fn message<T>(result: regard_data::Result<T>) -> String {
    result.err().expect("an error").to_string()
}

#[test]
fn training_gives_the_same_file_every_time_and_in_any_order() {
    let scratch = Scratch::new();
    let mut texts = sentences(300);
    for training in trainings() {
        let mut first = None;
        for _ in 0..4 {
            texts.rotate_left(101);
            let path = scratch.join("tokenizer.json");
            Tokenizer::train(&training, &texts).unwrap().save(&path).unwrap();
            let file = std::fs::read(path).unwrap();
            assert!(*first.get_or_insert_with(|| file.clone()) == file, "{training:?}");
        }
    }
}

#[test]
fn a_trained_tokenizer_is_saved_and_found_again() {
    for training in trainings() {
        let scratch = Scratch::new();
        let tokenizer = Tokenizer::train(&training, sentences(300)).unwrap();
        assert_eq!(tokenizer.vocabulary(), training.vocabulary, "{training:?}");
        for (id, special) in (0..).zip(&training.specials) {
            assert_eq!(tokenizer.id(special), Some(id));
        }
        tokenizer.save(scratch.join("tokenizer.json")).unwrap();
        let again = Tokenizer::of_model(scratch.path(), 0).unwrap();
        for sentence in sentences(50) {
            let ids = tokenizer.encode(&sentence).unwrap();
            assert_eq!(again.encode(&sentence).unwrap(), ids);
            let unknown = tokenizer.special(Special::Unknown);
            assert!(!ids.iter().any(|&id| Some(id) == unknown), "{training:?} {sentence}");
            assert_eq!(again.decode(&ids).unwrap(), tokenizer.decode(&ids).unwrap());
            if !matches!(training.method, Method::WordPiece { .. }) {
                assert_eq!(tokenizer.decode(&ids).unwrap(), sentence);
            }
        }
        for id in 0..training.vocabulary as u32 {
            assert_eq!(again.token_of(id), tokenizer.token_of(id));
            assert_eq!(tokenizer.id_of(&tokenizer.token_of(id).unwrap()).unwrap(), id);
        }
    }
}

#[test]
fn learned_tokens_are_parts_of_the_texts() {
    let tokenizer = Tokenizer::train(&Training::word_piece(400), sentences(300)).unwrap();
    let lighthouse = tokenizer.encode_bare("Lighthouse").unwrap();
    assert_eq!(lighthouse.len(), 1);
    assert_eq!(tokenizer.token_of(lighthouse[0]).as_deref(), Some("lighthouse"));
    let cased = Training { method: Method::WordPiece { lowercase: false }, ..Training::word_piece(400) };
    let cased = Tokenizer::train(&cased, sentences(300)).unwrap();
    let viktor = cased.encode_bare("Viktor").unwrap();
    assert_eq!(cased.decode(&viktor).unwrap(), "Viktor");
}

#[test]
fn parts_are_told_by_name() {
    let [bpe, word_piece, unigram] =
        trainings().map(|training| Tokenizer::train(&training, sentences(300)).unwrap());
    let all = [
        Special::Pad,
        Special::Mask,
        Special::Class,
        Special::Separator,
        Special::Unknown,
        Special::Begin,
        Special::End,
    ];
    let ids = |tokenizer: &Tokenizer| all.map(|special| tokenizer.special(special));
    assert_eq!(ids(&bpe), [Some(0), Some(3), None, None, None, Some(1), Some(2)]);
    assert_eq!(ids(&word_piece), [Some(0), Some(4), Some(2), Some(3), Some(1), None, None]);
    assert_eq!(ids(&unigram), [Some(0), None, None, None, Some(2), None, Some(1)]);
    assert_eq!(ids(&Tokenizer::bytes()), [None; 7]);
    assert_eq!(bpe.needed(Special::Mask).unwrap(), 3);
    assert_eq!(
        message(unigram.needed(Special::Mask)),
        "the tokenizer has no token that masks; give it one of [MASK], <mask>, <|mask|> when it is trained"
    );
    assert_eq!(
        message(Tokenizer::bytes().needed(Special::Pad)),
        "the tokenizer has no token that pads; use a tokenizer that has one"
    );
    assert_eq!(
        message(word_piece.id_of("<eos>")),
        "no token is called `<eos>`; the tokenizer knows 350 others; use one that has it"
    );
}

#[test]
fn texts_stand_bare_or_in_pairs() {
    let [bpe, _, unigram] = trainings().map(|training| Tokenizer::train(&training, sentences(300)).unwrap());
    // More than the texts have parts for: every word is one.
    let word_piece = Tokenizer::train(&Training::word_piece(400), sentences(300)).unwrap();
    assert!(word_piece.vocabulary() < 400);
    let (the, cat) = (word_piece.id("the").unwrap(), word_piece.id("cat").unwrap());
    assert_eq!(word_piece.encode("the cat").unwrap(), [2, the, cat, 3]);
    assert_eq!(word_piece.encode_bare("the cat").unwrap(), [the, cat]);
    // What was never seen is unknown.
    assert_eq!(word_piece.encode("the \u{16a0}").unwrap(), [2, the, 1, 3]);
    assert!(unigram.encode("\u{16a0}").unwrap().ends_with(&[2, 1]));
    let pair = word_piece.encode_pair("the", "cat").unwrap();
    assert_eq!((pair.ids, pair.segments), (vec![2, the, 3, cat, 3], vec![0, 0, 0, 1, 1]));
    let pair = unigram.encode_pair("the", "cat").unwrap();
    assert_eq!(pair.ids.iter().filter(|&&id| id == 1).count(), 2);
    assert_eq!(unigram.encode("the").unwrap(), [unigram.encode_bare("the").unwrap(), vec![1]].concat());
    assert_eq!(bpe.encode("the").unwrap(), bpe.encode_bare("the").unwrap());
    assert_eq!(
        message(Tokenizer::bytes().encode_pair("a", "b")),
        "this kind of tokenizer does not say how two texts stand in one row; put a token of the task between them, or \
         train a WordPiece tokenizer"
    );
}

#[test]
fn training_says_what_it_cannot_do() {
    let train = |training: &Training| message(Tokenizer::train(training, sentences(20)));
    assert_eq!(
        train(&Training::bpe(259)),
        "a vocabulary of 259 cannot hold 4 special tokens and 256 bytes; ask for at least 260"
    );
    assert_eq!(
        train(&Training::bpe(usize::MAX)),
        "a vocabulary of 18446744073709551615 is more than a text can fill; ask for at most 2097152"
    );
    let text = train(&Training::word_piece(50));
    assert!(text.starts_with("a vocabulary of 50 cannot hold 5 special tokens and "), "{text}");
    assert!(text.contains(" letters, at the beginning and inside of words; ask for at least "), "{text}");
    let text = train(&Training::unigram(20));
    assert!(text.starts_with("a vocabulary of 20 cannot hold 3 special tokens and "), "{text}");
    assert!(text.contains(" characters of the texts; ask for at least "), "{text}");
    let with = |specials: &[&str]| Training {
        specials: specials.iter().map(|&name| name.into()).collect(),
        ..Training::unigram(300)
    };
    assert_eq!(
        train(&with(&["<pad>", "</s>"])),
        "the special tokens lack `<unk>`; add them: this kind of tokenizer cannot do without"
    );
    assert_eq!(
        train(&with(&["<unk>", "</s>", "<unk>"])),
        "the special tokens `<unk>`, `</s>`, `<unk>` are not distinct names; give each once, and none without a name"
    );
    for training in trainings() {
        let text = message(Tokenizer::train(&training, [""; 3]));
        assert_eq!(text, "there are no words to learn from; give texts that are not empty");
    }
    // As small as it may be, and from next to nothing.
    assert_eq!(Tokenizer::train(&Training::bpe(260), ["a"]).unwrap().vocabulary(), 260);
    assert_eq!(Tokenizer::train(&Training::word_piece(8), ["ab"]).unwrap().encode("ab").unwrap().len(), 4);
    let least = Tokenizer::train(&Training::unigram(5), ["a a a ab"; 9]);
    assert!(message(least).starts_with("a vocabulary of 5 cannot hold 3 special tokens and 3 characters"));
    let least = Tokenizer::train(&Training::unigram(6), ["a a a ab"; 9]).unwrap();
    assert_eq!((least.vocabulary(), least.encode("ab").unwrap().len()), (6, 4));
}

#[test]
fn characters_are_sorted_behind_the_reserved_ones() {
    let scratch = Scratch::new();
    let tokenizer = Tokenizer::characters(["bca", "é\n😀⁇"], Reserved::study()).unwrap();
    assert_eq!(tokenizer.vocabulary(), 8);
    let ids = tokenizer.encode("□⁇\nabcé😀").unwrap();
    assert_eq!(ids, [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(tokenizer.decode(&ids).unwrap(), "\nabcé😀");
    assert_eq!((tokenizer.id("é"), tokenizer.id("ab"), tokenizer.id("")), (Some(6), None, None));
    assert_eq!(tokenizer.token_of(1).as_deref(), Some("⁇"));
    assert_eq!(tokenizer.token_of(8), None);
    assert_eq!(
        (tokenizer.special(Special::Pad), tokenizer.special(Special::Mask), tokenizer.special(Special::End)),
        (Some(0), Some(1), None)
    );
    assert_eq!(
        message(tokenizer.encode("ab\u{202e}")),
        "character 3 of the text is `\\u{202e}` (U+202E), which is not among the 8 that the tokenizer knows; leave it \
         out, build the vocabulary from a text that has it, or reserve an unknown character"
    );
    assert!(
        message(tokenizer.encode_bare("ab\u{202e}")).starts_with("character 3 of the text is `\\u{202e}`")
    );
    assert_eq!(
        message(tokenizer.needed(Special::End)),
        "the tokenizer has no token that ends a text; reserve a character for it, or train a tokenizer that has one"
    );
    assert!(tokenizer.decode(&[8]).is_err());
    let mut stream = tokenizer.stream(&[]);
    let parts: Vec<String> = ids.iter().map(|&id| stream.push(id).unwrap()).collect();
    assert_eq!(parts.concat(), "\nabcé😀");

    tokenizer.save(scratch.join("tokenizer.json")).unwrap();
    let again = Tokenizer::of_model(scratch.path(), 0).unwrap();
    assert_eq!(again.encode("□⁇\nabcé😀").unwrap(), ids);
    assert_eq!(again.special(Special::Mask), Some(1));
}

#[test]
fn an_unknown_character_can_have_a_token() {
    let reserved = Reserved { unknown: Some('�'), ..Reserved::default() };
    let tokenizer = Tokenizer::characters(["ab"], reserved).unwrap();
    assert_eq!(tokenizer.encode("axb").unwrap(), [1, 0, 2]);
    assert_eq!(tokenizer.decode(&[1, 0, 2]).unwrap(), "a�b");
    let both = Reserved { pad: Some('_'), mask: Some('_'), unknown: None };
    assert_eq!(
        message(Tokenizer::characters(["ab"], both)),
        "the character `_` (U+005F) has two ids; each may occur once, the reserved ones included"
    );
    assert_eq!(
        message(Tokenizer::characters([""; 2], Reserved::study())),
        "the text has no characters to make a vocabulary of; give a text that is not empty"
    );
}

#[test]
fn files_of_ours_are_checked() {
    let scratch = Scratch::new();
    Tokenizer::bytes().save(scratch.join("tokenizer.json")).unwrap();
    assert_eq!(Tokenizer::of_model(scratch.path(), 0).unwrap().encode("é").unwrap(), [195, 169]);
    let refused = |file: &str| text(Tokenizer::open(scratch.put("tokenizer.json", file)), &scratch);
    assert_eq!(
        refused(r#"{"regard_tokenizer": "words"}"#),
        "tokenizer.json:1:28: unknown variant `words`, expected `bytes` or `characters`; copy it again from where the \
         model came from"
    );
    assert_eq!(
        refused(r#"{"regard_tokenizer": "characters"}"#),
        "tokenizer.json: has no `characters`; copy it again from where the model came from"
    );
    assert_eq!(
        refused(r#"{"regard_tokenizer": "characters", "characters": "aba"}"#),
        "tokenizer.json: the character `a` (U+0061) has two ids; each may occur once, the reserved ones included; copy \
         it again"
    );
    let message = refused(r#"{"regard_tokenizer": "bytes", "size": 3}"#);
    assert!(message.contains("unknown field `size`"), "{message}");
    // The word may stand in a vocabulary of somebody else's.
    let foreign = r#"{"model": {"type": "WordLevel", "vocab": {"regard_tokenizer": 0}, "unk_token": "regard_tokenizer"}}"#;
    assert_eq!(Tokenizer::open(scratch.put("tokenizer.json", foreign)).unwrap().vocabulary(), 1);
}

#[test]
fn pieces_of_llama2c_keep_their_file() {
    let scratch = Scratch::new();
    let mut file = 1i32.to_le_bytes().to_vec();
    for piece in [b"?", b"<", b">", b" ", b"a"] {
        file.extend([0f32.to_le_bytes(), 1i32.to_le_bytes()].concat());
        file.extend(piece);
    }
    let tokenizer = Tokenizer::llama2c(scratch.put("tok5.bin", &file), 5).unwrap();
    assert_eq!(tokenizer.encode("a").unwrap(), [1, 3, 4]);
    assert_eq!(tokenizer.encode_bare("a").unwrap(), [3, 4]);
    assert_eq!(tokenizer.token_of(4).as_deref(), Some("a"));
    assert_eq!(
        [Special::Unknown, Special::Begin, Special::End, Special::Pad].map(|part| tokenizer.special(part)),
        [Some(0), Some(1), Some(2), None]
    );
    assert_eq!(
        text(tokenizer.save(scratch.join("tokenizer.json")), &scratch),
        "tokenizer.json: the tokenizer cannot be written: a tokenizer of llama2.c has a format of its own; copy the \
         file that it was read from"
    );
    assert_eq!(scratch.names(), ["tok5.bin"]);
}

/// The vocabulary of the birth-place study: 254 characters behind the two reserved ones.
#[test]
fn the_study_has_its_256_characters() {
    let Some(path) = shared("a5/wiki.txt") else { return };
    let wiki = std::fs::read_to_string(path).unwrap();
    let tokenizer = Tokenizer::characters([&wiki], Reserved::study()).unwrap();
    assert_eq!(tokenizer.vocabulary(), 256);
    assert_eq!(tokenizer.decode(&tokenizer.encode(&wiki).unwrap()).unwrap(), wiki);
}

/// On real sentences each kind reaches the size asked for, knows every word of its texts, and saves letters.
#[test]
fn real_sentences_are_learned() {
    let Some(path) = shared("multi30k/train.de") else { return };
    let lines = Lines::open(path).unwrap();
    let texts: Vec<&str> = lines.iter().take(5000).map(|line| line.unwrap()).collect();
    let letters: usize = texts.iter().map(|text| text.chars().count()).sum();
    for training in [Training::bpe(3000), Training::word_piece(3000), Training::unigram(3000)] {
        let tokenizer = Tokenizer::train(&training, &texts).unwrap();
        assert_eq!(tokenizer.vocabulary(), 3000, "{training:?}");
        let unknown = tokenizer.special(Special::Unknown);
        let mut tokens = 0;
        for text in &texts {
            let ids = tokenizer.encode_bare(text).unwrap();
            assert!(!ids.iter().any(|&id| Some(id) == unknown), "{training:?} {text}");
            tokens += ids.len();
        }
        assert!(tokens * 3 < letters, "{training:?}: {tokens} tokens of {letters} letters");
    }
}
