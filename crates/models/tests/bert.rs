//! Properties of BERT: padding and neighbours change nothing, by bits and by reach; nonsense is refused in
//! words.

use regard_engine::check::{Case, relative_error};
use regard_engine::{Cpu, Program, Result, Store};
use regard_graph::Integers;
use regard_graph::reach::{Grain, Query, reach};
use regard_layers::FeedForwardKind;
use regard_models::{Bert, BertConfig, BertHead, BertText, BertVariant};
use regard_ops::Array;
use regard_ops::prelude::*;

const SMALL: BertConfig = BertConfig {
    layers: 2,
    heads: 3,
    width: 24,
    hidden: 40,
    context: 150,
    vocabulary: 50,
    token_types: 2,
    activation: FeedForwardKind::Gelu,
    epsilon: 1e-12,
    dropout: 0.0,
    attention_dropout: 0.0,
    std: 0.3,
    head: BertHead::Classes(5),
    mechanisms: regard_models::Mechanisms::NONE,
    variant: BertVariant::BERT,
};

/// Lengths around a tile of keys, padded to the longest and beyond.
const LENGTHS: [usize; 4] = [1, 7, 64, 131];

fn text(g: &mut Graph) -> regard_graph::Result<BertText> {
    let (b, t) = (g.open('B', LENGTHS.len())?, g.open('T', SMALL.context)?);
    let ids = g.input("ids", DType::I32, shape![b, t])?;
    let token_types = Some(g.input("token_types", DType::I32, shape![b, t])?);
    let key_mask = Some(g.input("key_mask", DType::Bool, shape![b, t])?);
    Ok(BertText { ids, token_types, key_mask })
}

type Recording = fn(&Bert, &mut Graph, &BertText) -> regard_graph::Result<Var>;

/// What a recording gives for rows of these lengths, padded to `width`.
fn answers(
    head: BertHead,
    record: Recording,
    lengths: &[usize],
    width: usize,
    first: usize,
) -> Result<Array> {
    let bert = Bert::new(BertConfig { head, ..SMALL })?;
    let mut g = Graph::inference();
    let text = text(&mut g)?;
    let answer = record(&bert, &mut g, &text)?;
    g.output("answer", answer)?;
    let mut store = Store::new(7);
    let mut program = Program::new(g, &[], &mut store, &Cpu::new()?)?;
    let dims = [lengths.len(), width];
    // Rows have ids of their own, wherever they stand; padding is full of other tokens.
    let cells = || (0..lengths.len()).flat_map(|row| (0..width).map(move |at| (row, at)));
    let ids: Vec<i32> = cells()
        .map(|(row, at)| match at < lengths[row] {
            true => ((at * at + 11 * at + 5 * (row + first)) % 50) as i32,
            false => ((3 * at + width) % 50) as i32,
        })
        .collect();
    program.set_i32("ids", &dims, &ids)?;
    let types: Vec<i32> = cells().map(|(row, at)| i32::from(at > lengths[row] / 2)).collect();
    program.set_i32("token_types", &dims, &types)?;
    let mask: Vec<bool> = cells().map(|(row, at)| at < lengths[row]).collect();
    program.set_bools("key_mask", &dims, &mask)?;
    program.run(&mut store)?;
    program.array("answer")
}

#[test]
fn padding_and_neighbours_change_no_bit() -> Result<()> {
    let whole: [(BertHead, Recording); 4] = [
        (BertHead::Classes(5), Bert::logits),
        (BertHead::Pooler, Bert::pooled),
        (BertHead::None, Bert::mean),
        (BertHead::None, Bert::sentence),
    ];
    let each: [(BertHead, Recording); 3] = [
        (BertHead::None, Bert::hidden),
        (BertHead::Masked, Bert::logits),
        (BertHead::Labels(4), Bert::logits),
    ];
    for (row, &length) in LENGTHS.iter().enumerate() {
        for (head, record) in whole {
            let together = answers(head, record, &LENGTHS, 150, 0)?;
            let alone = answers(head, record, &[length], length, row)?;
            let width = alone.dims().last_size();
            assert_eq!(together.data()[row * width..][..width], *alone.data(), "{head:?}, row {row}");
        }
        for (head, record) in each {
            let together = answers(head, record, &LENGTHS, 150, 0)?;
            let alone = answers(head, record, &[length], length, row)?;
            let width = alone.dims().last_size();
            let own = &together.data()[row * 150 * width..][..length * width];
            assert_eq!(*own, *alone.data(), "{head:?}, row {row}");
        }
    }
    Ok(())
}

#[test]
fn sentences_have_length_one_and_no_sentence_none() -> Result<()> {
    let sentences = answers(BertHead::None, Bert::sentence, &[7, 0, 30], 30, 0)?;
    let lengths: Vec<f64> =
        sentences.data().chunks(24).map(|row| row.iter().map(|x| x * x).sum::<f64>().sqrt()).collect();
    assert!((lengths[0] - 1.0).abs() < 1e-6 && (lengths[2] - 1.0).abs() < 1e-6, "{lengths:?}");
    assert_eq!(lengths[1], 0.0);
    Ok(())
}

#[test]
fn the_mean_is_over_tokens_alone() -> Result<()> {
    let hidden = answers(BertHead::None, Bert::hidden, &[7, 30], 30, 0)?;
    let mean = answers(BertHead::None, Bert::mean, &[7, 30], 30, 0)?;
    for (row, length) in [(0, 7), (1, 30)] {
        for channel in 0..24 {
            let sum: f64 = (0..length).map(|at| hidden.data()[(row * 30 + at) * 24 + channel]).sum();
            assert!((mean.data()[row * 24 + channel] - sum / length as f64).abs() < 1e-6);
        }
    }
    Ok(())
}

#[test]
fn token_types_are_zero_unless_given() -> Result<()> {
    let bert = Bert::new(BertConfig { head: BertHead::None, ..SMALL })?;
    let mut store = Store::new(3);
    let mut run = |given: bool| -> Result<Array> {
        let mut g = Graph::inference();
        let ids = g.input("ids", DType::I32, [1, 5])?;
        let token_types = if given { Some(g.input("token_types", DType::I32, [1, 5])?) } else { None };
        let hidden = bert.hidden(&mut g, &BertText { ids, token_types, key_mask: None })?;
        g.output("hidden", hidden)?;
        let mut program = Program::new(g, &[], &mut store, &Cpu::new()?)?;
        program.set_i32("ids", &[1, 5], &[3, 1, 4, 1, 5])?;
        if given {
            program.set_i32("token_types", &[1, 5], &[0; 5])?;
        }
        program.run(&mut store)?;
        program.array("hidden")
    };
    assert_eq!(run(true)?, run(false)?);
    Ok(())
}

#[test]
fn readers_agree_on_every_head() -> Result<()> {
    let tiny = BertConfig { layers: 1, heads: 2, width: 6, hidden: 5, context: 4, vocabulary: 7, ..SMALL };
    let recordings: [(BertHead, Recording); 6] = [
        (BertHead::Masked, Bert::logits),
        (BertHead::Classes(3), Bert::logits),
        (BertHead::Labels(2), Bert::logits),
        (BertHead::Pooler, Bert::pooled),
        (BertHead::None, Bert::mean),
        (BertHead::None, Bert::sentence),
    ];
    for (head, record) in recordings {
        let bert = Bert::new(BertConfig { head, ..tiny })?;
        let case = Case::new(move |g| {
            let ids = g.input("ids", DType::I32, [2, 4])?;
            let key_mask = Some(g.input("key_mask", DType::Bool, [2, 4])?);
            Ok(vec![record(&bert, g, &BertText { ids, token_types: None, key_mask })?])
        });
        let case = case.given("ids", &[2, 4], &[3.0, 1.0, 6.0, 0.0, 5.0, 3.0, 3.0, 2.0]);
        let case = case.given("key_mask", &[2, 4], &[1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0]);
        case.gradients()?;
        case.cost()?;
    }
    Ok(())
}

#[test]
fn bf16_is_near_f32() -> Result<()> {
    for head in [BertHead::Masked, BertHead::Classes(5), BertHead::Labels(4)] {
        let bert = Bert::new(BertConfig { head, ..SMALL })?;
        let mut store = Store::new(6);
        let mut run = |precision: Precision| -> Result<Array> {
            let mut g = Graph::new();
            g.set_precision(precision);
            let ids = g.input("ids", DType::I32, [2, 9])?;
            let logits = bert.logits(&mut g, &BertText { ids, token_types: None, key_mask: None })?;
            g.output("logits", logits)?;
            let mut program = Program::new(g, &[], &mut store, &Cpu::new()?)?;
            program.set_i32("ids", &[2, 9], &(0..18).map(|i| i * 7 % 50).collect::<Vec<i32>>())?;
            program.run(&mut store)?;
            program.array("logits")
        };
        let (exact, rounded) = (run(Precision::F32)?, run(Precision::Bf16)?);
        let error = relative_error(rounded.data(), exact.data());
        assert!(error > 0.0 && error < 0.03, "{head:?}: {error}");
        // A training step records as well.
        let mut g = Graph::new();
        g.set_precision(Precision::Bf16);
        let ids = g.input("ids", DType::I32, [2, 9])?;
        let shape = if let BertHead::Classes(_) = head { shape![2] } else { shape![2, 9] };
        let targets = g.input("targets", DType::I32, shape)?;
        let scale = g.input("scale", DType::F32, shape![])?;
        let loss = bert.loss(&mut g, &BertText { ids, token_types: None, key_mask: None }, targets, scale)?;
        let parameters = g.parameters();
        g.gradient(loss, &parameters)?;
    }
    Ok(())
}

// ---- reach -------------------------------------------------------------------------------------------

#[test]
fn examples_and_padding_cannot_be_seen() -> Result<()> {
    let bert = Bert::new(SMALL)?;
    let mut g = Graph::inference();
    let [ids, token_types] = ["ids", "token_types"].map(|name| g.input(name, DType::I32, [2, 4]));
    let (ids, token_types) = (ids?, token_types?);
    let key_mask = g.input("key_mask", DType::Bool, [2, 4])?;
    let text = BertText { ids, token_types: Some(token_types), key_mask: Some(key_mask) };
    let logits = bert.logits(&mut g, &text)?;
    let hidden = g.find("block.1.stream")?;
    let kept = [[true, true, true, false], [true, true, false, false]];
    let integers = Integers::none()
        .with(key_mask, kept.as_flattened().iter().map(|&x| i64::from(x)).collect::<Vec<_>>());
    let query = Query {
        from: vec![ids, token_types],
        to: vec![hidden, logits],
        integers,
        grain: Grain::Position,
        ..Default::default()
    };
    let answer = reach(&g, &query)?;
    for from in [ids, token_types] {
        for to in [hidden, logits] {
            let verdict = answer.depends_only_on_same(from, 0, to, 0)?;
            assert!(verdict.holds(), "{verdict}");
        }
        let verdict = answer.all(from, hidden, |from, to| kept[from[0]][from[1]] || from == to)?;
        assert!(verdict.holds(), "{verdict}");
        let verdict = answer.all(from, logits, |from, _| kept[from[0]][from[1]])?;
        assert!(verdict.holds(), "{verdict}");
        // And every token can be seen from everywhere in its own text, in both directions.
        for (row, kept) in kept.iter().enumerate() {
            for at in (0..4).filter(|&at| kept[at]) {
                for to in 0..4 {
                    assert!(answer.can(answer.cell(from, &[row, at])?, answer.cell(hidden, &[row, to])?)?);
                }
            }
        }
    }
    Ok(())
}

// ---- what is refused ---------------------------------------------------------------------------------

#[test]
fn nonsense_is_refused_in_words() {
    let refused = |config: BertConfig| Bert::new(config).unwrap_err().to_string();
    assert_eq!(
        refused(BertConfig { heads: 5, ..SMALL }),
        "bert: a width of 24 cannot be shared by 5 heads; choose a width that is a multiple of the heads"
    );
    assert!(
        refused(BertConfig { context: 0, ..SMALL }).starts_with("bert: one of the sizes is 0: BertConfig {")
    );
    assert_eq!(
        refused(BertConfig { attention_dropout: 1.0, ..SMALL }),
        "bert: attention_dropout is 1; choose a probability from 0 up to, not including, 1"
    );
    assert_eq!(
        refused(BertConfig { dropout: f32::NAN, ..SMALL }),
        "bert: dropout is NaN; choose a probability from 0 up to, not including, 1"
    );
    assert_eq!(
        refused(BertConfig { activation: FeedForwardKind::GatedSilu, ..SMALL }),
        "bert: the feed-forward parts are GatedSilu; choose Gelu, GeluTanh or Relu"
    );
    assert_eq!(
        refused(BertConfig { head: BertHead::Labels(0), ..SMALL }),
        "bert: the head is Labels(0); give at least 1 class or label"
    );
    assert_eq!(
        refused(BertConfig { epsilon: -1.0, ..SMALL }),
        "norm: width 24, epsilon -1; give a width of at least 1 and an epsilon that is not negative"
    );
    assert_eq!(
        refused(BertConfig { std: f32::INFINITY, ..SMALL }),
        "bert: the standard deviation of the weights is inf; give a number that is not negative"
    );
    assert_eq!(
        BertConfig::preset("bert-bass").unwrap_err().to_string(),
        "no preset is called `bert-bass`; did you mean `bert-base`?"
    );
}

#[test]
fn heads_that_are_not_there_are_named() {
    let bert = Bert::new(BertConfig { head: BertHead::None, ..SMALL }).unwrap();
    let mut g = Graph::inference();
    let text = text(&mut g).unwrap();
    assert_eq!(
        bert.pooled(&mut g, &text).unwrap_err().to_string(),
        "bert: a model with the head None has no pooler; make it with the head Pooler, Classes or Pretraining"
    );
    assert_eq!(
        bert.logits(&mut g, &text).unwrap_err().to_string(),
        "bert: a model with the head None has no scores; make it with the head Masked, Pretraining, Classes, \
         MeanClasses, Labels, Span or Replaced"
    );
}

#[test]
fn texts_that_are_too_long_are_refused_when_recorded() {
    let bert = Bert::new(SMALL).unwrap();
    let mut g = Graph::inference();
    let t = g.open('T', 151).unwrap();
    let ids = g.input("ids", DType::I32, shape![2, t]).unwrap();
    let text = BertText { ids, token_types: None, key_mask: None };
    assert_eq!(
        bert.hidden(&mut g, &text).unwrap_err().to_string(),
        "bert: texts of up to T=151 tokens, the model has positions for 150; cut the texts, or use a model with more \
         positions"
    );
}

#[test]
fn ids_out_of_range_are_faults_of_the_run() -> Result<()> {
    let bert = Bert::new(SMALL)?;
    let mut g = Graph::inference();
    let text = text(&mut g)?;
    let logits = bert.logits(&mut g, &text)?;
    g.output("logits", logits)?;
    let mut store = Store::new(0);
    let mut program = Program::new(g, &[], &mut store, &Cpu::new()?)?;
    program.set_bools("key_mask", &[1, 3], &[true; 3])?;
    for (ids, types, text) in [
        (
            [4, 50, 2],
            [0, 1, 1],
            "embedding.tokens.embedding: embedding: ids[0 1] is 50, outside of V=50; feed ids from 0 to V−1",
        ),
        (
            [4, 5, -1],
            [0, 1, 1],
            "embedding.tokens.embedding: embedding: ids[0 2] is -1, outside of V=50; feed ids from 0 to V−1",
        ),
        (
            [4, 5, 2],
            [0, 1, 2],
            "embedding.token_types.embedding: embedding: ids[0 2] is 2, outside of V=2; feed ids from 0 to V−1",
        ),
    ] {
        program.set_i32("ids", &[1, 3], &ids)?;
        program.set_i32("token_types", &[1, 3], &types)?;
        let error = program.run(&mut store).unwrap_err().to_string();
        assert_eq!(error, text);
    }
    Ok(())
}

/// The hidden states of one text, with the learned positions as they are or taken away.
fn hidden_of(ids: &[i32], positions: bool) -> Result<Array> {
    let bert = Bert::new(BertConfig { head: BertHead::None, ..SMALL })?;
    let mut g = Graph::inference();
    let ids_in = g.input("ids", DType::I32, [1, ids.len()])?;
    let hidden = bert.hidden(&mut g, &BertText { ids: ids_in, token_types: None, key_mask: None })?;
    g.output("hidden", hidden)?;
    let mut store = Store::new(7);
    let mut program = Program::new(g, &[], &mut store, &Cpu::new()?)?;
    if !positions {
        let zeros = vec![0.0; store.f32("position_embedding.weight")?.len()];
        store.set_f32("position_embedding.weight", &zeros)?;
    }
    program.set_i32("ids", &[1, ids.len()], ids)?;
    program.run(&mut store)?;
    program.array("hidden")
}

#[test]
fn without_positions_the_order_of_tokens_is_that_of_the_answers_alone() -> Result<()> {
    let ids = [4, 17, 9, 33, 17, 2, 41];
    let order = [3, 0, 6, 2, 5, 1, 4];
    let shuffled: Vec<i32> = order.iter().map(|&at| ids[at]).collect();
    for positions in [false, true] {
        let (plain, moved) = (hidden_of(&ids, positions)?, hidden_of(&shuffled, positions)?);
        let expected: Vec<f64> = order.iter().flat_map(|&at| plain.row(at).to_vec()).collect();
        let error = relative_error(moved.data(), &expected);
        // Keys are added up in another order, so the last bits differ; positions change whole numbers.
        assert!(if positions { error > 1e-2 } else { error < 1e-5 }, "positions {positions}: {error:.1e}");
    }
    Ok(())
}
