//! From hidden states to the vector of a text: every pooling by hand, and heads that cannot be.

use regard_engine::{Cpu, Program, Result, Store};
use regard_graph::Init;
use regard_models::sentence::{Dense, DenseActivation, Pooling, SentenceHead, SentenceStep, States};
use regard_ops::prelude::*;

/// Two texts of two channels, of which the second is one token shorter.
const HIDDEN: [f32; 12] = [1.0, -4.0, 3.0, 2.0, 5.0, 0.5, -2.0, 6.0, 4.0, 1.0, 99.0, -99.0];

fn vectors(head: &SentenceHead) -> Result<Vec<f32>> {
    let mut g = Graph::inference();
    let hidden = g.input("hidden", DType::F32, [2, 3, 2])?;
    let pooled = Some(g.input("pooled", DType::Bool, [2, 3])?);
    let asks_last = head.poolings.contains(&Pooling::Last);
    let last = if asks_last { Some(g.input("last", DType::Bool, [2, 3])?) } else { None };
    let sentence = head.forward(&mut g, &States { hidden, pooled, last })?;
    g.output("sentence", sentence)?;
    let mut store = Store::new(0);
    for declared in head.parameters()?.all() {
        store.declare(&declared.name, &declared.shape, Init::Zeros)?;
        let size = declared.shape.bound().iter().product::<usize>();
        store.set_f32(&declared.name, &(0..size).map(|x| x as f32 - 1.0).collect::<Vec<_>>())?;
    }
    let mut program = Program::new(g, &[], &mut store, &Cpu::new()?)?;
    let [t, f] = [true, false];
    program.set_f32("hidden", &[2, 3, 2], &HIDDEN)?;
    program.set_bools("pooled", &[2, 3], &[t, t, t, t, t, f])?;
    if asks_last {
        program.set_bools("last", &[2, 3], &[f, f, t, f, t, f])?;
    }
    program.run(&mut store)?;
    Ok(program.f32("sentence")?.to_vec())
}

fn pooled(pooling: Pooling) -> Result<Vec<f32>> {
    vectors(&SentenceHead { poolings: vec![pooling], skipped: 0, steps: Vec::new() })
}

#[test]
fn states_are_pooled_in_every_way() -> Result<()> {
    assert_eq!(pooled(Pooling::First)?, [1.0, -4.0, -2.0, 6.0]);
    assert_eq!(pooled(Pooling::Max)?, [5.0, 2.0, 4.0, 6.0]);
    assert_eq!(pooled(Pooling::Mean)?, [3.0, -0.5, 1.0, 3.5]);
    assert_eq!(pooled(Pooling::Last)?, [5.0, 0.5, 4.0, 1.0]);
    let near = |got: Vec<f32>, wanted: [f32; 4]| {
        assert!(got.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-6), "{got:?}, not {wanted:?}");
    };
    let (two, three) = (2f32.sqrt(), 3f32.sqrt());
    near(pooled(Pooling::RootMean)?, [9.0 / three, -1.5 / three, 2.0 / two, 7.0 / two]);
    // 1, 2 and 3 times, over 6; 1 and 2 times, over 3.
    near(pooled(Pooling::WeightedMean)?, [22.0 / 6.0, 1.5 / 6.0, 2.0, 8.0 / 3.0]);
    Ok(())
}

#[test]
fn layers_follow_what_stands_side_by_side() -> Result<()> {
    let dense = Dense {
        name: "sentence.dense".into(),
        inputs: 4,
        outputs: 2,
        bias: true,
        activation: DenseActivation::Relu,
    };
    let poolings = vec![Pooling::First, Pooling::Mean];
    let head = SentenceHead { poolings, skipped: 0, steps: vec![SentenceStep::Dense(dense)] };
    assert_eq!((head.width(2), SentenceHead::default().width(5)), (2, 5));
    // Weights -1 0 1 2 and 3 4 5 6, biases -1 and 0.
    let by_hand = |x: [f32; 4]| {
        let dot = |w: [f32; 4]| w.iter().zip(x).map(|(w, x)| w * x).sum::<f32>();
        [(dot([-1.0, 0.0, 1.0, 2.0]) - 1.0).max(0.0), dot([3.0, 4.0, 5.0, 6.0]).max(0.0)]
    };
    let wanted = [by_hand([1.0, -4.0, 3.0, -0.5]), by_hand([-2.0, 6.0, 1.0, 3.5])].concat();
    assert_eq!(vectors(&head)?, wanted);
    let unit = vectors(&SentenceHead::default())?;
    assert!(unit.chunks(2).all(|x| (x[0] * x[0] + x[1] * x[1] - 1.0).abs() < 1e-6), "{unit:?}");
    Ok(())
}

#[test]
fn heads_that_cannot_be_are_refused() {
    let text = |head: &SentenceHead, last: bool| {
        let mut g = Graph::inference();
        let hidden = g.input("hidden", DType::F32, [2, 3, 2]).unwrap();
        let last = last.then(|| g.input("last", DType::Bool, [2, 3]).unwrap());
        head.forward(&mut g, &States { hidden, pooled: None, last }).unwrap_err().to_string()
    };
    let of = |poolings: Vec<Pooling>| SentenceHead { poolings, skipped: 0, steps: Vec::new() };
    assert_eq!(text(&of(vec![]), false), "sentence: states are pooled in no way; give at least one");
    assert_eq!(
        text(&of(vec![Pooling::Last]), false),
        "sentence: the last token is pooled, and nobody says where it is; give a mask of each text's last token"
    );
    let dense =
        Dense { name: "d".into(), inputs: 0, outputs: 2, bias: false, activation: DenseActivation::Identity };
    let nothing = SentenceHead { steps: vec![SentenceStep::Dense(dense)], ..SentenceHead::default() };
    assert_eq!(
        nothing.parameters().unwrap_err().to_string(),
        "linear: 0 inputs and 2 outputs; give both a size of at least 1"
    );
}
