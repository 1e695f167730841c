//! `prove` on every family, with as many examples as positions, heads, channels of a head and latents: each
//! keeps its promises, every value is followed, and nothing hangs on a length.

use regard::graph::Precision;
use regard_conformance::sized::{self, Size};
use regard_inspect::{Finding, Outcome, Promise, ProofCase, Stream, prove};
use regard_models::inputs::{IDS, MASK, SOURCE, SOURCE_MASK};
use regard_models::{Model, Sizes};
use std::sync::Arc;

/// B = T = S = H = D = M = V.
const N: usize = 4;

/// Streams by the inputs that a pass has, each padded on the right.
fn case(model: &dyn Model) -> ProofCase {
    let sizes = Sizes { batch: N, ids: N, source: N, ..Default::default() };
    let graph = model.graph(sizes, Precision::F32).unwrap();
    let has = |name: &str| graph.inputs().any(|(input, _)| input == name);
    let real: Vec<bool> = (0..N).flat_map(|b| (0..N).map(move |t| t < N - b % 3)).collect();
    let stream = |input: &str, mask: &str| Stream {
        input: input.into(),
        length: N,
        mask: has(mask).then(|| mask.into()),
        real: real.clone(),
    };
    let known = [(SOURCE, SOURCE_MASK), (IDS, MASK)].into_iter().filter(|(input, _)| has(input));
    let streams = known.map(|(input, mask)| stream(input, mask)).collect();
    ProofCase { graph, batch: N, streams, known: Vec::new() }
}

fn causal(input: &str) -> Promise {
    Promise::Causal(input.into())
}

fn padding(input: &str) -> Promise {
    Promise::Padding(input.into())
}

/// A family, what it promises, and who breaks what it does not promise.
type Family = (&'static str, Arc<dyn Model>, Vec<Promise>, Vec<(Promise, &'static str)>);

fn families() -> Vec<Family> {
    let size = Size { layers: 3, heads: N, width: N * N, vocabulary: N, context: 4 * N, dropout: 0.0 };
    let decoder = || vec![causal(IDS), padding(IDS), Promise::Batch];
    let pair = || {
        let sees = |to: &str, by: &str| Promise::Sees { from: SOURCE.into(), to: to.into(), by: by.into() };
        vec![
            causal(IDS),
            padding(IDS),
            padding(SOURCE),
            sees(SOURCE, "memory"),
            sees(IDS, "hidden"),
            Promise::Batch,
        ]
    };
    let encoder = "encoder.block.0.attention.attention";
    vec![
        ("gpt", sized::gpt(size), decoder(), vec![]),
        ("llama", sized::llama(size), decoder(), vec![]),
        ("perceiver", sized::perceiver(size), decoder(), vec![]),
        (
            "bert",
            sized::bert(size),
            vec![padding(IDS), Promise::Batch],
            vec![(causal(IDS), "block.0.attention.attention")],
        ),
        ("vit", sized::vit(Size { context: N, ..size }), vec![Promise::Batch], vec![]),
        ("t5", sized::t5(size), pair(), vec![(causal(SOURCE), encoder)]),
        ("transformer", sized::transformer(size), pair(), vec![(causal(SOURCE), encoder)]),
    ]
}

#[test]
fn every_family_is_followed_to_the_last_value() {
    for (name, model, promised, others) in families() {
        let case = case(&*model);
        let found = prove(&case, &promised).unwrap();
        for finding in &found {
            assert_eq!(finding.outcome, Outcome::Holds, "{name}: {}", finding.sentence);
        }
        let refuted: Vec<Finding> = others
            .iter()
            .map(|(promise, node)| {
                let finding = prove(&case, std::slice::from_ref(promise)).unwrap().remove(0);
                assert_eq!(finding.guilty.as_ref().map(|guilty| guilty.node.as_str()), Some(*node), "{name}");
                finding
            })
            .collect();
        for finding in found.iter().chain(&refuted) {
            assert_eq!(finding.coverage.unfollowed, [], "{name}: {}", finding.sentence);
            println!("{name}: {}", finding.sentence);
        }
        // All values but those that stand for latents or for a whole example have positions, and all have
        // examples.
        let batch = found.iter().find(|finding| finding.promise == Promise::Batch).unwrap();
        assert_eq!(batch.coverage.judged, batch.coverage.values(), "{name}: {}", batch.sentence);
        if let Some(causal) = found.iter().find(|finding| matches!(finding.promise, Promise::Causal(_))) {
            let aside = causal.coverage.aside;
            assert_eq!(aside > 0, name == "perceiver", "{name}: {}", causal.sentence);
        }
    }
}
