//! Relations of mock ops against enumeration, the coarse grain against the fine one, and every refusal.

use super::*;
use crate::mock::{Dice, Mock, causal, gather, ids, map, mix, one, pair, record, sum, text, update, view};
use crate::{DType, Dims, Fact, Graph, Init, Letter, Result, Shape, shape};

fn ask(g: &Graph, from: Var, to: Var, grain: Grain) -> Reach {
    reach(g, &Query { from: vec![from], to: vec![to], grain, ..Query::default() }).unwrap()
}

/// An op with this relation to its first input, and an output of this shape.
fn related(shape: Shape, relation: Relation) -> Mock {
    Mock {
        name: "related",
        infer: Box::new(move |inputs| Ok(vec![Fact::new(shape.clone(), inputs[0].dtype)])),
        aliases: Vec::new(),
        reach: Box::new(move |_, _, _| relation.clone()),
        ..map(1)
    }
}

fn data(g: &mut Graph, shape: Shape) -> Var {
    g.input("x", DType::F32, shape).unwrap()
}

#[test]
fn a_causal_model_is_causal_and_keeps_examples_apart() {
    for grain in [Grain::Element, Grain::Position] {
        let mut g = Graph::new();
        let x = data(&mut g, shape![2, 5, 3]);
        let mut y = x;
        for _ in 0..2 {
            y = one(&mut g, causal(1), &[y]);
            y = one(&mut g, mix(2), &[y]);
        }
        let answer = ask(&g, x, y, grain);
        assert!(answer.is_causal(x, 1, y, 1).unwrap().holds());
        assert!(answer.depends_only_on_same(x, 0, y, 0).unwrap().holds());
        let (early, late) = (answer.cell(x, &[1, 1, 0]).unwrap(), answer.cell(y, &[1, 3, 2]).unwrap());
        assert!(answer.can(early, late).unwrap());
        let row: Vec<Vec<usize>> =
            answer.row(late).unwrap().map(|cell| answer.coordinates(cell).unwrap()).collect();
        assert_eq!(row.len(), if grain == Grain::Element { 12 } else { 4 });
        assert_eq!(row[0][..2], [1, 0]);

        let z = one(&mut g, mix(1), &[y]);
        let broken = one(&mut g, mix(0), &[y]);
        let answer = ask(&g, x, z, grain);
        let verdict = answer.is_causal(x, 1, z, 1).unwrap();
        let tail = if grain == Grain::Element { " 0" } else { "" };
        assert_eq!(
            verdict.to_string(),
            format!("input `x` at [0 1{tail}] can change output 0 of `mix#3` at [0 0{tail}]")
        );
        assert!(!verdict.holds());
        let answer = ask(&g, x, broken, grain);
        let Verdict::Fails { from, to, .. } = answer.depends_only_on_same(x, 0, broken, 0).unwrap() else {
            panic!("the batch was mixed")
        };
        assert_eq!((from[0], to[0]), (1, 0));
    }
}

#[test]
fn integers_select_and_unknown_ones_may_be_anything() {
    let mut g = Graph::inference();
    let table = g.parameter("table", shape![4, 2], Init::Ones).unwrap();
    let tokens = ids(&mut g, "tokens", shape![3]);
    let y = one(&mut g, gather(), &[table, tokens]);
    let query = |integers| Query {
        from: vec![table, tokens],
        to: vec![y],
        integers,
        grain: Grain::Position,
        ..Query::default()
    };
    let rows = |answer: &Reach| -> Vec<Vec<(Var, usize)>> {
        let cells = answer.cells(y).unwrap();
        cells.map(|to| answer.row(to).unwrap().map(|from| (from.var(), from.index())).collect()).collect()
    };
    let known = reach(&g, &query(Integers::none().with(tokens, [3, 0, 3]))).unwrap();
    // Ids have no features: the coarse grain tells them apart.
    assert_eq!(
        rows(&known),
        [vec![(table, 3), (tokens, 0)], vec![(table, 0), (tokens, 1)], vec![(table, 3), (tokens, 2)]]
    );
    let unknown = reach(&g, &query(Integers::none())).unwrap();
    assert_eq!(rows(&unknown)[1].len(), 5);
}

#[test]
fn views_states_and_several_outputs() {
    let mut g = Graph::inference();
    let x = data(&mut g, shape![4, 6]);
    let cache = g.state("cache", DType::F32, shape![4, 6], Init::Zeros).unwrap();
    let cache2 = one(&mut g, update(2), &[cache, x]);
    let seen = one(&mut g, view(shape![8, 3]), &[cache2]);
    let made = record(&mut g, pair(), &[seen]).unwrap();
    let nowhere = one(&mut g, related(shape![2], Relation::Nothing), &[x]);
    let to = vec![made[0], made[1], nowhere, x];
    let answer =
        reach(&g, &Query { from: vec![x, cache], to, grain: Grain::Position, ..Query::default() }).unwrap();
    let at = |var, c: &[usize]| answer.cell(var, c).unwrap();
    // Rows of 6 under a view of rows of 3: row 5 of the view is the second half of row 2.
    assert!(answer.can(at(cache, &[2]), at(made[0], &[5])).unwrap());
    assert!(answer.can(at(x, &[2]), at(made[0], &[5])).unwrap());
    assert!(!answer.can(at(x, &[1]), at(made[0], &[5])).unwrap());
    assert_eq!(answer.row(at(made[1], &[])).unwrap().count(), 8);
    assert_eq!(answer.row(at(nowhere, &[])).unwrap().count(), 0);
    assert!(answer.all(x, nowhere, |_, _| false).unwrap().holds());
    assert_eq!(answer.row(at(x, &[3])).unwrap().collect::<Vec<_>>(), [at(x, &[3])], "a source is itself");
}

#[test]
fn a_last_axis_of_positions_can_be_told_apart() {
    let mut g = Graph::inference();
    let tokens = ids(&mut g, "tokens", shape![2, 5]);
    let along = Relation::Axes(vec![Along::Same(0), Along::Same(1)]);
    let sums = Mock { infer: Box::new(|_| Ok(vec![Fact::f32([2, 5])])), ..related(shape![2, 5], along) };
    let sums = one(&mut g, sums, &[tokens]);
    let later = one(&mut g, causal(1), &[sums]);
    let query = |apart: Vec<Var>| Query {
        from: vec![tokens],
        to: vec![later],
        grain: Grain::Position,
        apart,
        ..Query::default()
    };
    let whole = reach(&g, &query(Vec::new())).unwrap();
    assert_eq!(whole.row(whole.cell(later, &[1]).unwrap()).unwrap().count(), 5);
    let apart = reach(&g, &query(vec![sums, later])).unwrap();
    assert!(apart.is_causal(tokens, 1, later, 1).unwrap().holds());
    assert_eq!(apart.row(apart.cell(later, &[1, 2]).unwrap()).unwrap().count(), 3);
}

/// What the documentation of [`Relation`] says, pair by pair.
fn depends(relation: &Relation, output: &Dims, to: usize, input: &Dims, from: usize) -> bool {
    let (o, i) = (output.coordinates(to), input.coordinates(from));
    match relation {
        Relation::Nothing => false,
        Relation::Everything => true,
        Relation::Same => to == from,
        Relation::Axes(alongs) => alongs.iter().enumerate().all(|(axis, along)| match along {
            Along::All => true,
            Along::Same(a) => i[axis] == if input[axis] == 1 { 0 } else { o[*a] },
            Along::Shifted { axis: a, by } => i[axis] as isize == o[*a] as isize + by,
            Along::Listed { axes, lists } => {
                let list = axes.iter().fold(0, |index, &a| index * output[a] + o[a]);
                lists[list].contains(&i[axis])
            }
        }),
    }
}

fn random_relation(dice: &mut Dice, input: &Dims, output: &Dims) -> Relation {
    match dice.below(8) {
        0 => return Relation::Everything,
        1 if input.count() == output.count() => return Relation::Same,
        _ => {}
    }
    let along = |dice: &mut Dice, size: usize| {
        let axis = dice.below(output.len().max(1));
        match (output.is_empty(), dice.below(4)) {
            (true, _) | (_, 0) => Along::All,
            (_, 1) if output[axis] == size || size == 1 => Along::Same(axis),
            (_, 2) => Along::Shifted { axis, by: dice.below(5) as isize - 2 },
            _ => {
                let mut axes: Vec<usize> = (0..output.len()).filter(|_| dice.below(2) == 0).collect();
                if dice.below(2) == 0 {
                    axes.reverse();
                }
                let count = axes.iter().map(|&a| output[a]).product();
                let mut list = || (0..size).filter(|_| dice.below(3) == 0).collect();
                Along::Listed { axes, lists: (0..count).map(|_| list()).collect() }
            }
        }
    };
    Relation::Axes(input.iter().map(|&size| along(dice, size)).collect())
}

#[test]
fn random_chains_agree_with_enumeration_and_the_coarse_grain_covers_the_fine_one() {
    let mut tight = 0;
    for seed in 0..300 {
        let mut dice = Dice(seed);
        let random_dims = |dice: &mut Dice| {
            let rank = dice.below(4);
            Dims::new(&(0..rank).map(|_| 1 + dice.below(4)).collect::<Vec<_>>()).unwrap()
        };
        let mut g = Graph::inference();
        let first = random_dims(&mut dice);
        let x = data(&mut g, Shape::from(&first[..]));
        let (mut y, mut dims) = (x, first);
        // The product of the relations, by enumeration.
        let mut product: Vec<Vec<bool>> =
            (0..first.count()).map(|a| (0..first.count()).map(|b| a == b).collect()).collect();
        for _ in 0..1 + dice.below(3) {
            let next = random_dims(&mut dice);
            let relation = random_relation(&mut dice, &dims, &next);
            product = (0..next.count())
                .map(|to| {
                    let sees: Vec<usize> = (0..dims.count())
                        .filter(|&from| depends(&relation, &next, to, &dims, from))
                        .collect();
                    (0..first.count()).map(|source| sees.iter().any(|&from| product[from][source])).collect()
                })
                .collect();
            y = one(&mut g, related(Shape::from(&next[..]), relation), &[y]);
            dims = next;
        }
        let (fine, coarse) = (ask(&g, x, y, Grain::Element), ask(&g, x, y, Grain::Position));
        let (mut pairs, mut covered) = (0, std::collections::BTreeSet::new());
        for (to, row) in product.iter().enumerate() {
            let there = dims.coordinates(to);
            for (from, &expected) in row.iter().enumerate() {
                let here = first.coordinates(from);
                let pair = |answer: &Reach| {
                    let from = answer.cell(x, &here[..first.len()]).unwrap();
                    let to = answer.cell(y, &there[..dims.len()]).unwrap();
                    (answer.can(from, to).unwrap(), from.index(), to.index())
                };
                assert_eq!(pair(&fine).0, expected, "seed {seed}: {from} to {to}");
                let (can, from, to) = pair(&coarse);
                assert!(can || !expected, "seed {seed}: the coarse grain misses {from} to {to}");
                if expected {
                    covered.insert((from, to));
                }
            }
        }
        for to in coarse.cells(y).unwrap() {
            pairs += coarse.row(to).unwrap().count();
        }
        tight += usize::from(pairs == covered.len());
    }
    println!("the coarse grain is no larger than the fine one in {tight} of 300 chains");
    assert!(tight >= 150, "{tight}");
}

#[test]
fn twelve_layers_of_attention_are_quick() {
    let (t, h, d) = (256, 12, 64);
    let mut g = Graph::new();
    let x = data(&mut g, shape![1, t, h * d]);
    let lists: Vec<Vec<usize>> = (0..t).map(|at| (0..=at).collect()).collect();
    let linear = Relation::Axes(vec![Along::Same(0), Along::Same(1), Along::All]);
    let heads = |along| Relation::Axes(vec![Along::Same(0), along, Along::Same(2), Along::All]);
    let mut y = x;
    for _ in 0..12 {
        let wide = one(&mut g, related(shape![1, t, h * d], linear.clone()), &[y]);
        let split = one(&mut g, view(shape![1, t, h, d]), &[wide]);
        let see = heads(Along::Listed { axes: vec![1], lists: lists.clone() });
        let seen = one(&mut g, related(shape![1, t, h, d], see), &[split]);
        let joined = one(&mut g, view(shape![1, t, h * d]), &[seen]);
        let out = one(&mut g, related(shape![1, t, h * d], linear.clone()), &[joined]);
        y = one(&mut g, map(2), &[y, out]);
    }
    let start = std::time::Instant::now();
    let answer = ask(&g, x, y, Grain::Position);
    assert!(answer.is_causal(x, 1, y, 1).unwrap().holds());
    let last = answer.cell(y, &[0, t - 1]).unwrap();
    assert_eq!(answer.row(last).unwrap().count(), t);
    println!("12 layers, T = {t}, H = {h}: {:?}", start.elapsed());
}

#[test]
fn refusals_say_what_to_do() {
    let mut g = Graph::new();
    let t: Letter = g.open('T', 1 << 20).unwrap();
    let x = data(&mut g, shape![t, 4]);
    let y = one(&mut g, map(1), &[x]);
    let s = one(&mut g, sum(), &[y]);
    let unrelated = g.input("other", DType::F32, shape![2]).unwrap();
    let query = |size: usize, grain| Query {
        from: vec![x],
        to: vec![y],
        sizes: Sizes::none().with(t, size).unwrap(),
        grain,
        ..Query::default()
    };
    let ask = |query: &Query| -> Result<Reach> { reach(&g, query) };
    assert_eq!(
        text(ask(&query(1 << 15, Grain::Element))),
        "reach: 131k cells of input `x` on 131k source cells are too many; use Grain::Position, or smaller sizes"
    );
    assert_eq!(
        text(ask(&query(1 << 17, Grain::Position))),
        "reach: 131k cells of input `x` on 131k source cells are too many; use smaller sizes, or fewer sources"
    );
    assert_eq!(
        text(ask(&Query { sizes: Sizes::none(), ..query(1, Grain::Element) })),
        "size: the letter T is open and has no size yet; feed an input whose shape has T"
    );
    assert_eq!(
        text(reach(&Graph::new(), &query(1, Grain::Element))),
        "reach: operand 0 belongs to another graph; record it in this one"
    );
    let wrong = Query { integers: Integers::none().with(x, [1]), ..query(1, Grain::Element) };
    assert_eq!(
        text(ask(&wrong)),
        "reach: input `x` is f32, expected i32 or bool; only integers and booleans can be known"
    );

    let answer = ask(&query(3, Grain::Position)).unwrap();
    assert_eq!(
        text(answer.cell(x, &[3])),
        "reach: the cell of input `x` is [3], expected coordinates within [3 4]"
    );
    assert_eq!(
        text(answer.cell(x, &[])),
        "reach: the cell of input `x` is [], expected coordinates within [3 4]"
    );
    assert_eq!(
        text(answer.cell(s, &[])),
        "reach: the value was not part of the query; add it to `from` or `to`"
    );
    assert_eq!(
        text(answer.cells(s).map(|_| ())),
        "reach: the value was not part of the query; add it to `from` or `to`"
    );
    let (a, b) = (answer.cell(x, &[0]).unwrap(), answer.cell(y, &[0]).unwrap());
    assert_eq!(text(answer.can(b, b)), "reach: the source was not part of the query; add it to `from`");
    assert_eq!(text(answer.can(a, a)), "reach: the target was not part of the query; add it to `to`");
    assert_eq!(
        text(answer.row(a).map(|_| ())),
        "reach: the target was not part of the query; add it to `to`"
    );
    assert_eq!(
        text(answer.all(unrelated, y, |_, _| true)),
        "reach: the source was not part of the query; add it to `from`"
    );
    assert_eq!(text(answer.is_causal(x, 2, y, 0)), "reach: input `x` has no axis 2; its shape is [3 4]");
    assert_eq!(
        text(answer.depends_only_on_same(x, 0, y, 1)),
        "reach: axis 1 of output 0 of `map` is its last, which Grain::Position takes as a whole; use \
         Grain::Element, or a value with a feature axis behind it"
    );
    let larger = ask(&query(9, Grain::Position)).unwrap();
    let beyond = larger.cell(y, &[8]).unwrap();
    let outside =
        "reach: the cell is not of this answer: it is number 8 of a value with 3; ask this answer for it";
    assert_eq!(text(answer.can(a, beyond)), outside);
    assert_eq!(text(answer.row(beyond).map(|_| ())), outside);
    assert_eq!(text(answer.coordinates(beyond)), outside);
}

#[test]
fn relations_that_do_not_fit_are_refused() {
    let refused = |relation: Relation| {
        let mut g = Graph::new();
        let x = data(&mut g, shape![2, 3]);
        let y = g.scope("head", |g| one(g, related(shape![2], relation), &[x]));
        let text = text(reach(&g, &Query { from: vec![x], to: vec![y], ..Query::default() }));
        let (head, tail) = ("head.related: its reach from a to output 0 says ", "; mend `reach` of related");
        text.strip_prefix(head).and_then(|t| t.strip_suffix(tail)).unwrap().to_string()
    };
    let first = |along| Relation::Axes(vec![along, Along::All]);
    let listed = |axes, lists| first(Along::Listed { axes, lists });
    assert_eq!(refused(Relation::Same), "`Same` between [2 3] and [2]");
    assert_eq!(refused(Relation::Axes(vec![Along::All])), "1 entries for the 2 axes of the input");
    assert_eq!(refused(first(Along::Same(1))), "axis 1 of an output that has 1");
    assert_eq!(refused(first(Along::Shifted { axis: 3, by: 0 })), "axis 3 of an output that has 1");
    assert_eq!(refused(Relation::Axes(vec![Along::All, Along::Same(0)])), "`Same` between axes of 3 and 2");
    assert_eq!(refused(listed(vec![0], vec![vec![0]])), "1 lists for 2 combinations");
    assert_eq!(refused(listed(vec![0], vec![vec![0], vec![2]])), "coordinate 2 on an axis of 2");
}

#[test]
fn empty_values_depend_on_nothing() {
    let mut g = Graph::new();
    let x = data(&mut g, shape![0, 3]);
    let y = one(&mut g, sum(), &[x]);
    let answer = ask(&g, x, y, Grain::Position);
    assert_eq!(answer.row(answer.cell(y, &[]).unwrap()).unwrap().count(), 0);
}
