//! Spans and n-grams of a text against a plain search.

mod scratch;

use regard_evidence::{Index, Novelty, Rule, Settings, trace, words};
use scratch::{Draws, Scratch};

fn index(scratch: &Scratch, text: &str) -> Index {
    let file = scratch.put("text.txt", text);
    let path = scratch.0.join("text.index");
    Index::build(&[file], &path, &Settings { shard: 50, threads: 1 }, &mut |_| {}).unwrap();
    Index::open(path).unwrap()
}

#[test]
fn spans_are_the_longest_and_have_their_sources() {
    let scratch = Scratch::new();
    let index = index(&scratch, "Once upon a time there was a fox.\nThe fox was red. Once upon a hill.\n");
    let text = "He said: once there was a fox. Once upon a time, and the fox was red.";
    let rule = Rule { words: 3, places: 1, ngrams: 3 };
    let traced = trace(&index, text, rule).unwrap();
    let spans: Vec<(&str, usize, u64, u64)> = traced
        .spans
        .iter()
        .map(|span| (&text[span.at.clone()], span.words, span.count, span.places[0].line))
        .collect();
    assert_eq!(
        spans,
        [("there was a fox", 4, 1, 1), ("Once upon a time", 4, 1, 1), ("fox was red", 3, 1, 2)]
    );
    assert_eq!(traced.words, 16);
    assert!((traced.covered(text) - 11.0 / 16.0).abs() < 1e-12);
    // New are "He", "said", "once" and "and": capitals count.
    assert_eq!(traced.novelty[0], Novelty { words: 1, all: 16, new: 4 });
    assert_eq!(traced.novelty.len(), 3);
    assert_eq!(trace(&index, "", rule).unwrap().spans, []);
    assert_eq!(
        trace(&index, text, Rule { words: 0, ..rule }).unwrap_err().to_string(),
        "spans of 0 words, n-grams of up to 3; choose at least 1 word, and n-grams of at most 64"
    );
}

#[test]
fn drawn_texts_are_traced_as_a_plain_search_traces_them() {
    const WORDS: [&str; 6] = ["ab", "b", "é", "東", "a", "ba"];
    let mut draws = Draws(5);
    let text = |draws: &mut Draws, length: usize| {
        (0..length).map(|_| WORDS[draws.below(WORDS.len())]).collect::<Vec<_>>().join(" ")
    };
    for _ in 0..30 {
        let scratch = Scratch::new();
        let corpus = text(&mut draws, 60);
        let index = index(&scratch, &corpus);
        let output = text(&mut draws, 25);
        let rule = Rule { words: 2, places: 5, ngrams: 5 };
        let traced = trace(&index, &output, rule).unwrap();
        let all = words(&output);
        for novelty in &traced.novelty {
            let runs = all.windows(novelty.words);
            let new =
                runs.filter(|run| !corpus.contains(&output[run[0].at.start..run[run.len() - 1].at.end]));
            assert_eq!(novelty.new, new.count(), "{novelty:?} {output} {corpus}");
            assert!((novelty.share() - novelty.new as f64 / novelty.all as f64).abs() < 1e-12);
        }
        // Every run of words that stands in the text, and can be made longer to neither side.
        let stands =
            |first: usize, end: usize| corpus.contains(&output[all[first].at.start..all[end - 1].at.end]);
        let mut expected = Vec::new();
        for first in 0..all.len() {
            for end in first + 2..=all.len() {
                let longer =
                    (first > 0 && stands(first - 1, end)) || (end < all.len() && stands(first, end + 1));
                if stands(first, end) && !longer {
                    expected.push(all[first].at.start..all[end - 1].at.end);
                }
            }
        }
        let found: Vec<_> = traced.spans.iter().map(|span| span.at.clone()).collect();
        assert_eq!(found, expected, "{output} {corpus}");
        for span in &traced.spans {
            let wanted = &output[span.at.clone()];
            let plain = (0..corpus.len())
                .filter(|&at| corpus.is_char_boundary(at) && corpus[at..].starts_with(wanted));
            assert_eq!(span.count, plain.count() as u64);
        }
    }
}
