//! What sessions do: many inputs as each alone, one session for several requests, and models that are none
//! for what is asked.

use crate::{LETTERS, SMALL, Scratch, goldens, session, strings};
use regard_generate::Sampling;
use regard_runtime::{End, Prompts, Searching, TooLong, Translating, Writing};
use serde_json::{Value, json};
use std::ops::ControlFlow;

fn on<T>(_: usize, _: &T) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

#[test]
fn prompts_become_what_each_becomes_alone() {
    let gpt = Scratch::model("gpt2", LETTERS);
    gpt.config(json!({"eos_token_id": Value::Null, "bos_token_id": Value::Null}));
    let prompts = strings(&["a cat sits", "b", "the dog", "on a hill", "z z"]);
    let sampling = Sampling { temperature: 0.9, ..Sampling::plain(3) };
    for search in [None, Some(Searching { width: 3, length_penalty: 0.7 })] {
        // Longer than the context, where nothing is searched for.
        let most = if search.is_none() { 30 } else { 6 };
        let writing = Writing { most, sampling, batch: 2, search, ..Writing::default() };
        let mut heard = vec![String::new(); prompts.len()];
        let mut own = session(gpt.path());
        let together = own
            .generate(Prompts::Texts(&prompts), &writing, &mut |piece| {
                heard[piece.prompt].push_str(piece.text);
                ControlFlow::Continue(())
            })
            .unwrap();
        for (at, written) in together.iter().enumerate() {
            assert_eq!(written.text.as_deref(), Some(heard[at].as_str()), "all of it was told");
            assert_eq!(written.given.len(), prompts[at].chars().count());
            assert_eq!(written.beams.len(), search.map_or(0, |search| search.width));
            assert_eq!(written.reread.is_empty(), search.is_some());
            let alone = match search {
                // Draws depend on the place of a prompt, not on its batch.
                None => own
                    .generate(
                        Prompts::Texts(&prompts[..=at]),
                        &Writing { batch: 9, ..writing.clone() },
                        &mut |_| ControlFlow::Continue(()),
                    )
                    .unwrap()
                    .remove(at),
                Some(_) => session(gpt.path())
                    .generate(Prompts::Texts(&prompts[at..=at]), &writing, &mut |_| ControlFlow::Continue(()))
                    .unwrap()
                    .remove(0),
            };
            assert_eq!(*written, alone);
        }
    }
}

#[test]
fn who_listens_may_break_off_and_keeps_what_there_is() {
    let gpt = Scratch::model("gpt2", LETTERS);
    let prompts = strings(&["a", "bb", "ccc", "dddd"]);
    let writing = Writing { most: 10, batch: 2, ..Writing::default() };
    let mut heard = 0;
    let written = session(gpt.path())
        .generate(Prompts::Texts(&prompts), &writing, &mut |_| {
            heard += 1;
            if heard == 5 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .unwrap();
    let lengths: Vec<usize> = written.iter().map(|one| one.ids.len()).collect();
    assert_eq!(lengths, [3, 3, 0, 0], "the token in progress is everybody's; what was not begun stays so");
    assert!(written.iter().all(|one| one.end == End::Broken));
}

#[test]
fn a_session_serves_requests_of_any_size_one_after_the_other() {
    let gpt = Scratch::model("llama", LETTERS);
    let mut own = session(gpt.path());
    let mut write = |prompt: &str, most: usize, search: Option<Searching>| {
        let writing = Writing { most, search, ..Writing::default() };
        let prompts = [prompt.to_string()];
        let mut fresh = session(gpt.path());
        let listen = &mut |_: regard_runtime::Piece<'_>| ControlFlow::Continue(());
        let one = own.generate(Prompts::Texts(&prompts), &writing, listen).unwrap();
        assert_eq!(one, fresh.generate(Prompts::Texts(&prompts), &writing, listen).unwrap());
    };
    write("a cat", 3, None);
    write("a cat sits on", 12, None);
    write("a", 2, None);
    write("a dog", 5, Some(Searching { width: 3, length_penalty: 1.0 }));
    write("a dog", 5, None);
}

#[test]
fn translations_come_in_the_order_of_their_texts() {
    let t5 = Scratch::model("t5", SMALL);
    t5.config(json!({"decoder_start_token_id": 0, "eos_token_id": 1}));
    let texts = strings(&["a long text about a cat", "", "cat", "dogs and cats", "  "]);
    let how = Translating { batch: 2, beams: 3, most: 9, ..Translating::default() };
    let mut heard = Vec::new();
    let found = session(t5.path())
        .translate(&texts, how, None, &mut |at, _| {
            heard.push(at);
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(heard, [2, 3, 0], "the shortest first, and nothing about texts without words");
    for (at, translation) in found.iter().enumerate() {
        let alone = session(t5.path()).translate(&texts[at..=at], how, None, &mut on).unwrap();
        assert_eq!(alone[0], *translation);
        assert_eq!(translation.beam.is_none(), texts[at].trim().is_empty());
    }
    let message = session(t5.path())
        .translate(&texts, how, None, &mut |_, _| ControlFlow::Break(()))
        .unwrap_err()
        .to_string();
    assert_eq!(message, "broken off after 1 of 3");
}

#[test]
fn texts_are_classified_and_embedded_in_batches_as_alone() {
    let bert = Scratch::model("bert_classify", &SMALL[..20]);
    let texts: Vec<String> = (1..40).map(|at| "abcdefghijk"[..1 + at % 9].to_string()).collect();
    let mut own = session(bert.path());
    let classified = own.classify_texts(&texts, TooLong::Refuse).unwrap();
    let embedded = own.embed(&texts, TooLong::Refuse).unwrap();
    for at in [0, 17, 38] {
        let alone = &texts[at..=at];
        assert_eq!(own.classify_texts(alone, TooLong::Refuse).unwrap()[0], classified[at]);
        assert_eq!(own.embed(alone, TooLong::Refuse).unwrap()[0], embedded[at]);
        let ranked = classified[at].ranked();
        assert!(ranked.windows(2).all(|pair| pair[0].1 >= pair[1].1));
        assert!((ranked.iter().map(|(_, share)| share).sum::<f64>() - 1.0).abs() < 1e-9);
    }
    let long = strings(&["a", &"ab".repeat(60)]);
    let message = own.classify_texts(&long, TooLong::Refuse).unwrap_err().to_string();
    assert!(message.starts_with("text 2 has 120 tokens, the model has room for "), "{message}");
    assert!(message.ends_with("; shorten it, or say --cut"), "{message}");
    assert_eq!(own.classify_texts(&long, TooLong::Cut).unwrap().len(), 2);
    let message = own.embed(&strings(&["a", ""]), TooLong::Refuse).unwrap_err().to_string();
    assert_eq!(message, "text 2 has no tokens; give it words; or is the tokenizer not the model's own?");
}

#[test]
fn a_model_that_is_none_for_it_says_what_it_is() {
    let vit = goldens("vit");
    let vit = vit.to_str().unwrap();
    let texts = strings(&["a"]);
    let mut own = session(vit);
    let listen = &mut |_: regard_runtime::Piece<'_>| ControlFlow::Continue(());
    let message = own.generate(Prompts::Texts(&texts), &Writing::default(), listen).unwrap_err().to_string();
    assert_eq!(
        message,
        format!("{vit} is a model of images (vit); generate needs a decoder or an encoder-decoder")
    );
    let message = own.translate(&texts, Translating::default(), None, &mut on).unwrap_err().to_string();
    assert_eq!(message, format!("{vit} is a model of images (vit); translate needs an encoder-decoder"));
    let message = own.embed(&texts, TooLong::Refuse).unwrap_err().to_string();
    assert!(
        message.starts_with(&format!("{vit} is a model of images (vit); embed needs an encoder of text")),
        "{message}"
    );
    let message = own.ask(&texts, 3, &mut on).unwrap_err().to_string();
    assert_eq!(
        message,
        format!("{vit} is a model of images (vit); ask needs a decoder that learned to answer")
    );
    let message = own.classify_texts(&texts, TooLong::Refuse).unwrap_err().to_string();
    assert_eq!(message, format!("{vit} classifies images; give it images"));

    let gpt = Scratch::model("gpt2", LETTERS);
    let mut own = session(gpt.path());
    let message = own.classify_images(&["x.png"]).unwrap_err().to_string();
    assert!(message.contains("is a decoder (gpt2); classify needs a classifier: train one"), "{message}");
    let message = own.ask(&texts, 3, &mut on).unwrap_err().to_string();
    assert_eq!(
        message,
        "the tokenizer has no mask, which closes questions; use a model that learned to answer"
    );
    let mut write = |prompts: Prompts<'_>, writing: Writing| {
        own.generate(prompts, &writing, listen).unwrap_err().to_string()
    };
    assert_eq!(
        write(Prompts::Texts(&strings(&["a", ""])), Writing::default()),
        "prompt 2 is empty, and this model has no token that begins a text; give it a word to begin with"
    );
    assert_eq!(write(Prompts::Ids(&[]), Writing::default()), "there is no prompt; give at least one");
    assert_eq!(
        write(Prompts::Texts(&texts), Writing { start: Some(1), ..Writing::default() }),
        "a start token is for encoder-decoders; leave it out: a decoder begins with the prompt"
    );
    let writing = Writing { stop: strings(&["a", ""]), ..Writing::default() };
    assert_eq!(writing.check().unwrap_err().to_string(), write(Prompts::Texts(&texts), writing.clone()));
    assert_eq!(
        write(Prompts::Texts(&texts), writing),
        "stop text 2 is empty, which every text ends with; give it letters"
    );
}

#[test]
fn answers_say_how_sure_they_are() {
    let vit = goldens("vit");
    let vit = vit.to_str().unwrap();
    let message = session(vit).answer(&strings(&["a"]), 3, &mut on).unwrap_err().to_string();
    assert_eq!(
        message,
        format!("{vit} is a model of images (vit); ask needs a decoder that learned to answer")
    );
    // One that did not learn to answer goes on from the question.
    let gpt = Scratch::model("gpt2", LETTERS);
    let mut own = session(gpt.path());
    let questions = strings(&["ab", "c"]);
    let answers = own.answer(&questions, 4, &mut on).unwrap();
    let listen = &mut |_: regard_runtime::Piece<'_>| ControlFlow::Continue(());
    let writing = Writing { most: 4, stop: strings(&["\n"]), ..Writing::default() };
    let written = own.generate(Prompts::Texts(&questions), &writing, listen).unwrap();
    for (answer, written) in answers.iter().zip(&written) {
        assert_eq!(answer.text, written.text.as_deref().unwrap().trim());
        let sure = answer.sureness;
        assert!(
            sure.probability > 0.0 && sure.probability <= sure.weakest && sure.weakest <= 1.0,
            "{sure:?}"
        );
        assert!(sure.margin >= 0.0 && sure.entropy > 0.0 && sure.tokens >= written.ids.len(), "{sure:?}");
    }
}

#[test]
fn drawn_answers_agree_more_or_less() {
    let vit = goldens("vit");
    let vit = vit.to_str().unwrap();
    let message = session(vit).agreement(&strings(&["a"]), &["b"], 3, 4, 0).unwrap_err().to_string();
    assert_eq!(
        message,
        format!("{vit} is a model of images (vit); ask needs a decoder that learned to answer")
    );
    let gpt = Scratch::model("gpt2", LETTERS);
    let mut own = session(gpt.path());
    let questions = strings(&["ab", "c"]);
    let mut shares = |answers: &[&str], seed| own.agreement(&questions, answers, 1, 16, seed).unwrap();
    // All letters together are all that was drawn, and the same seed draws the same.
    let letters: Vec<String> = (b'a'..=b'z').map(|letter| (letter as char).to_string()).collect();
    let sum: f64 = letters.iter().map(|letter| shares(&[letter, letter], 3)[0]).sum();
    assert!(sum > 0.0 && sum <= 1.0, "{sum}");
    assert_eq!(shares(&["a", "b"], 3), shares(&["a", "b"], 3));
    assert_eq!(shares(&["not an answer", "nor this"], 3), [0.0, 0.0]);
}
