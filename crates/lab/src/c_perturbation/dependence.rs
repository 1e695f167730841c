//! One tool for every question of dependence: the relations of a graph against what numbers do.

use crate::picture::{Colours, Heat};
use crate::{Context, Finding, Number, Verdict};
use regard::Result;
use regard::check::{Case, Exactness};
use regard::layers::{
    AttentionConfig, AttentionLayer, Context as Surroundings, KeySource, NormConfig, NormLayer, Parameters,
};
use regard::ops::Attention;
use regard::prelude::*;
use regard_graph::Integers;
use regard_graph::reach::{Grain, Query, reach};

/// C15: reach equals the support of the Jacobian, and answers who sees whom through a stack.
pub fn reach_is_support(_context: &Context) -> Result<Finding> {
    let mut finding = Finding::new(
        Verdict::Holds,
        "What the graph’s relations say is what numbers do, element by element; the same tool shows who sees whom through layers.",
    );
    type Record = fn(&mut Graph) -> regard_graph::Result<Vec<Var>>;
    let cases: [(&str, Record); 4] = [
        ("attention", |g| attention(g, &Attention::default())),
        ("causal attention", |g| attention(g, &Attention::causal())),
        ("layer norm", |g| {
            let x = g.input("x", DType::F32, [3, 4])?;
            Ok(vec![g.layer_norm(x, None, None, NormSpec::default())?])
        }),
        ("a feature-wise function", |g| {
            let x = g.input("x", DType::F32, [3, 4])?;
            Ok(vec![g.gelu(x)?])
        }),
    ];
    for (name, record) in cases {
        // Each element of each input is moved twenty times, and every element of the output watched.
        let agrees = Case::new(record).reach(Exactness::Equal).is_ok();
        finding = finding.number(Number::count(
            format!("{name}: relation and numbers agree"),
            usize::from(agrees),
            1,
        ));
    }
    const T: usize = 10;
    let mut parameters = Parameters::new();
    let mut g = Graph::inference();
    let x = g.input("x", DType::F32, [1, T, 8])?;
    let mut stream = x;
    for layer in 0..2 {
        let own = parameters.under(layer, |p| AttentionLayer::new(AttentionConfig::new(8, 2)?, p))?;
        let norm = parameters.under(format!("norm.{layer}"), |p| NormLayer::new(NormConfig::layer(8), p))?;
        let mut surroundings = Surroundings::causal();
        surroundings.mask.window = Some(regard::ops::Window { before: 2, after: 0 });
        let normed = norm.forward(&mut g, stream)?;
        let added = own.forward(&mut g, normed, KeySource::Own, &surroundings)?;
        stream = g.add(stream, added)?;
    }
    let query = Query {
        from: vec![x],
        to: vec![stream],
        integers: Integers::none(),
        grain: Grain::Position,
        ..Default::default()
    };
    let reaches = reach(&g, &query)?;
    let mut map = vec![];
    for to in 0..T {
        for from in 0..T {
            map.push(f64::from(u8::from(
                reaches.can(reaches.cell(x, &[0, from])?, reaches.cell(stream, &[0, to])?)?,
            )));
        }
    }
    let seen = map.iter().filter(|x| **x == 1.0).count();
    // Two layers of a window of two before: up to four back.
    let wanted = (0..T).map(|to| to.min(4) + 1).sum();
    Ok(finding
        .number(Number::count("two causal layers with a window of 2: pairs that can influence each other", seen, wanted))
        .picture(Heat::new("Who reaches whom through two causal layers with a window of 2", "output", "input", T, map, Colours::Rising))
        .how("The reach reader against perturbed numbers on four ops; then on two recorded attention layers with norms."))
}

fn attention(g: &mut Graph, spec: &Attention) -> regard_graph::Result<Vec<Var>> {
    let q = g.input("q", DType::F32, [1, 4, 1, 2])?;
    let k = g.input("k", DType::F32, [1, 4, 1, 2])?;
    let v = g.input("v", DType::F32, [1, 4, 1, 3])?;
    Ok(vec![g.attention(q, k, v, spec)?.y])
}
