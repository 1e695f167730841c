//! What becomes of axes when all of them are as long as each other, and what cannot be followed.

use super::*;
use crate::mock::{Mock, causal, gather, ids, map, mix, one, sum, text, view};
use crate::{DType, Fact, Graph, Init, Integers, Relation, Result, Shape, Sizes, shape};

/// B = T = H = …: no length says anything.
const N: usize = 4;

fn positions(stream: &str) -> Label {
    Label::Positions(stream.into())
}

fn stream(name: &str) -> Vec<Option<Label>> {
    vec![Some(Label::Batch), Some(positions(name))]
}

fn read(g: &Graph, declared: &[Declared]) -> Axes {
    axes(g, declared, &Sizes::none(), &Integers::none()).unwrap()
}

/// An op that lays its result out like this, with a shape of its own.
fn laid(
    operands: usize,
    shape: Shape,
    layout: impl Fn(&Concrete<'_>) -> Layout + Send + Sync + 'static,
) -> Mock {
    Mock {
        name: "laid",
        infer: Box::new(move |_| Ok(vec![Fact::f32(shape.clone())])),
        aliases: Vec::new(),
        reach: Box::new(|_, _, _| Relation::Everything),
        axes: Box::new(move |call, _| layout(call)),
        ..map(operands)
    }
}

fn transposed(g: &mut Graph, x: Var, order: &'static [usize], shape: Shape) -> Var {
    let layout = |call: &Concrete<'_>| {
        let axes = order.iter().enumerate();
        axes.fold(Layout::own(call, 0), |layout, (axis, &of)| layout.with(axis, 0, of))
    };
    one(g, laid(1, shape, layout), &[x])
}

fn lost(reason: &str) -> Standing {
    Standing::Lost(reason.into())
}

fn names(axes: &Axes, var: Var) -> Vec<String> {
    axes.of(var).iter().map(Axis::to_string).collect()
}

/// ids [N N] and their embedding [N N N].
fn embedded(g: &mut Graph, name: &str) -> (Declared, Var) {
    let tokens = ids(g, name, shape![N, N]);
    let table = g.parameter(&format!("{name}.table"), shape![N, N], Init::Ones).unwrap();
    let flat = one(g, view(shape![N * N]), &[tokens]);
    let rows = one(g, gather(), &[table, flat]);
    ((tokens, stream(name)), one(g, view(shape![N, N, N]), &[rows]))
}

#[test]
fn merged_axes_come_apart_again_and_mixing_keeps_them() {
    let mut g = Graph::inference();
    let (declared, x) = embedded(&mut g, "ids");
    let rows = g.nodes()[1].outputs[0];
    let mixed = one(&mut g, mix(0), &[x]);
    let later = one(&mut g, causal(1), &[mixed]);
    let total = one(&mut g, sum(), &[later]);
    let axes = read(&g, &[declared]);
    assert_eq!(names(&axes, rows), ["examples × positions of `ids`", "4 of its own"]);
    for var in [x, mixed, later] {
        assert_eq!(names(&axes, var), ["examples", "positions of `ids`", "4 of its own"]);
        assert_eq!(axes.standing_for(var, &Label::Batch, &[3, 1]), [3]);
        assert_eq!(axes.standing_for(var, &positions("ids"), &[3, 1]), [1]);
    }
    assert_eq!(axes.standing_for(rows, &Label::Batch, &[3 * N + 1]), [3]);
    assert_eq!(axes.standing_for(rows, &positions("ids"), &[3 * N + 1]), [1]);
    assert_eq!(axes.standing(total, &Label::Batch), Standing::Unrelated);
    assert_eq!(axes.standing(x, &positions("ids")), Standing::Along);
    assert_eq!(axes.standing(x, &positions("targets")), Standing::Unrelated);
}

#[test]
fn a_permutation_is_followed_where_all_axes_are_as_long() {
    let mut g = Graph::inference();
    let (declared, x) = embedded(&mut g, "ids");
    let heads = one(&mut g, view(shape![N, N, 2, 2]), &[x]);
    let turned = transposed(&mut g, heads, &[0, 2, 1, 3], shape![N, 2, N, 2]);
    let merged = one(&mut g, view(shape![N, 2 * N, 2]), &[turned]);
    let swapped = transposed(&mut g, x, &[2, 1, 0], shape![N, N, N]);
    let both = one(&mut g, map(2), &[x, swapped]);
    let axes = read(&g, &[declared]);
    assert_eq!(names(&axes, turned), ["examples", "2 of its own", "positions of `ids`", "2 of its own"]);
    assert_eq!(names(&axes, merged)[1], "2 of its own × positions of `ids`");
    assert_eq!(axes.standing_for(merged, &positions("ids"), &[0, N + 3]), [3]);
    assert!(axes.last_is_labelled(swapped) && !axes.last_is_labelled(x));
    // Examples meet features and features examples: the first operand says which axis is which.
    assert_eq!(names(&axes, both), names(&axes, x));
}

#[test]
fn two_streams_of_one_length_are_told_apart() {
    let mut g = Graph::inference();
    let (ids, source) = embedded(&mut g, "ids");
    let (targets, target) = embedded(&mut g, "targets");
    // Scores: B T S, from B T C and B S C.
    let layout = |call: &Concrete<'_>| Layout::own(call, 0).leading(0, 2).with(0, 1, 0).with(2, 1, 1);
    let scores = one(&mut g, laid(2, shape![N, N, N], layout), &[target, source]);
    let own = one(&mut g, laid(2, shape![N, N, N], layout), &[target, target]);
    let added = one(&mut g, map(2), &[source, target]);
    let axes = read(&g, &[ids, targets]);
    assert_eq!(names(&axes, scores), ["examples", "positions of `targets`", "positions of `ids`"]);
    assert_eq!(axes.standing_for(scores, &positions("ids"), &[0, 1, 2]), [2]);
    assert_eq!(axes.standing_for(scores, &positions("targets"), &[0, 1, 2]), [1]);
    assert_eq!(axes.standing_for(own, &positions("targets"), &[0, 1, 2]), [1, 2], "a pair stands for two");
    assert_eq!(names(&axes, added)[1], "positions of `ids` and positions of `targets`");
}

/// `a` in front of `b` along axis 1.
fn joined(a: usize, b: usize) -> Mock {
    laid(2, shape![N, a + b, N], move |call| {
        let layout = Layout::own(call, 0).with(0, 0, 0).with(0, 1, 0).with(2, 0, 2).with(2, 1, 2);
        layout.with(1, 0, 1).shifted(1, 1, 1, a as isize)
    })
}

fn sliced(start: usize, length: usize) -> Mock {
    laid(1, shape![N, length, N], move |call| Layout::moved(call, 0, 1, -(start as isize)))
}

#[test]
fn stretches_keep_their_places() {
    let mut g = Graph::inference();
    let (ids, x) = embedded(&mut g, "ids");
    let (targets, y) = embedded(&mut g, "targets");
    let class = g.parameter("class", shape![N, 1, N], Init::Zeros).unwrap();
    let with_class = one(&mut g, joined(1, N), &[class, x]);
    let prefix = one(&mut g, joined(N, N), &[x, y]);
    let last = one(&mut g, sliced(N - 1, 1), &[x]);
    let back = one(&mut g, sliced(1, N), &[with_class]);
    let early = one(&mut g, sliced(0, N), &[with_class]);
    let shifted = one(&mut g, map(2), &[x, early]);
    let (first, second) = (one(&mut g, sliced(0, N - 1), &[x]), one(&mut g, sliced(1, N - 1), &[x]));
    let pairs = one(&mut g, map(2), &[first, second]);
    let pick = laid(1, shape![N, 3, N], |call| {
        Layout::own(call, 0).with(0, 0, 0).picked(1, 0, 1, &[2, 3, 0]).with(2, 0, 2)
    });
    let picked = one(&mut g, pick, &[x]);
    let axes = read(&g, &[ids, targets]);
    let place = |var, name: &str, at| axes.standing_for(var, &positions(name), &[0, at]);
    assert_eq!((place(with_class, "ids", 0), place(with_class, "ids", 3)), (vec![], vec![2]));
    assert_eq!((place(prefix, "ids", 2), place(prefix, "targets", 2)), (vec![2], vec![]));
    assert_eq!((place(prefix, "ids", N + 2), place(prefix, "targets", N + 2)), (vec![], vec![2]));
    assert_eq!(place(last, "ids", 0), [N - 1]);
    assert_eq!(names(&axes, back)[1], "positions of `ids`");
    assert_eq!(names(&axes, early)[1], "positions of `ids` 0..3 at 1");
    assert_eq!(names(&axes, shifted)[1], "positions of `ids`", "the stream itself wins over a shifted copy");
    assert_eq!([0, 1, 2].map(|at| place(picked, "ids", at)[0]), [2, 3, 0]);
    assert_eq!(
        axes.standing(pairs, &positions("ids")),
        lost(
            "axis 1: it is the positions of `ids` 0..3 at 0 in one operand and others of them (positions of `ids` 1..4 at 0) in \
             another"
        )
    );
    assert_eq!(names(&axes, pairs)[0], "examples", "what is known of other axes stays known");
}

#[test]
fn of_merged_axes_whole_groups_can_be_taken_out() {
    let mut g = Graph::inference();
    let (declared, _) = embedded(&mut g, "ids");
    let rows = g.nodes()[1].outputs[0];
    let cut = |start: isize, length: usize| {
        laid(1, shape![length, N], move |call| Layout::moved(call, 0, 0, -start))
    };
    let groups = one(&mut g, cut(4, 8), &[rows]);
    let crooked = [(1, 8), (4, 6)].map(|(start, length)| one(&mut g, cut(start, length), &[rows]));
    let axes = read(&g, &[declared]);
    assert_eq!(names(&axes, groups)[0], "examples 1..3 at 0 × positions of `ids`");
    assert_eq!(axes.standing_for(groups, &Label::Batch, &[N + 1, 0]), [2]);
    for (var, length) in crooked.into_iter().zip([8, 6]) {
        let reason = format!(
            "axis 0: a stretch of {length} does not fit the examples × positions of `ids` of an axis of 16"
        );
        assert_eq!(axes.standing(var, &Label::Batch), lost(&reason));
    }
}

#[test]
fn positions_cut_into_chunks_are_still_positions() {
    let mut g = Graph::inference();
    let (declared, x) = embedded(&mut g, "ids");
    let chunks = one(&mut g, view(shape![N * 2, 2, N]), &[x]);
    let pooled = laid(1, shape![N * 2, N], |call| Layout::own(call, 0).with(0, 0, 0).with(1, 0, 2));
    let pooled = one(&mut g, pooled, &[chunks]);
    let back = one(&mut g, view(shape![N, N, N]), &[chunks]);
    // Scores within a chunk: both positions share the outer digit.
    let layout = |call: &Concrete<'_>| Layout::own(call, 0).leading(0, 2).with(0, 1, 0).with(2, 1, 1);
    let scores = one(&mut g, laid(2, shape![N * 2, 2, 2], layout), &[chunks, chunks]);
    let crooked = one(&mut g, view(shape![8, N, 2]), &[x]);
    let axes = read(&g, &[declared]);
    assert_eq!(names(&axes, chunks)[0], "examples × positions of `ids` in steps of 2");
    assert_eq!(axes.standing_for(chunks, &positions("ids"), &[2 * 3 + 1, 1]), [3]);
    assert_eq!(axes.standing_for(chunks, &Label::Batch, &[2 * 3 + 1, 1]), [3]);
    assert_eq!(
        axes.standing(pooled, &positions("ids")),
        lost("its axes hold only parts of the positions of `ids`"),
        "a chunk is no position"
    );
    assert_eq!(axes.standing(pooled, &Label::Batch), Standing::Along);
    assert_eq!(names(&axes, back), names(&axes, x));
    assert_eq!(axes.standing_for(scores, &positions("ids"), &[1, 0, 1]), [2, 3]);
    assert_eq!(
        axes.standing_for(crooked, &positions("ids"), &[3, 1, 1]),
        [2],
        "[3 1 1] is element 27, row 6 of 16"
    );
    let mut g = Graph::inference();
    let tokens = ids(&mut g, "ids", shape![2, 3]);
    let broken = one(&mut g, view(shape![3, 2]), &[tokens]);
    assert_eq!(
        read(&g, &[(tokens, stream("ids"))]).standing(broken, &Label::Batch),
        lost("axis 0: the axes [2, 3] with examples, positions of `ids` do not come apart into [3, 2]")
    );
}

#[test]
fn an_axis_of_one_needs_no_place() {
    let mut g = Graph::inference();
    let tokens = ids(&mut g, "ids", shape![1, 5]);
    let flat = one(&mut g, view(shape![5]), &[tokens]);
    let axes = read(&g, &[(tokens, stream("ids"))]);
    assert_eq!(axes.standing_for(flat, &Label::Batch, &[3]), [0]);
    assert_eq!(axes.standing_for(flat, &positions("ids"), &[3]), [3]);
}

#[test]
fn nothing_at_all_is_nothing_to_follow() {
    let mut g = Graph::inference();
    let tokens = ids(&mut g, "ids", shape![2, 0]);
    let flat = one(&mut g, view(shape![0, 3]), &[tokens]);
    let cut = laid(1, shape![2, 0], |call| Layout::moved(call, 0, 1, -1));
    let cut = one(&mut g, cut, &[tokens]);
    let axes = read(&g, &[(tokens, stream("ids"))]);
    assert_eq!(names(&axes, flat), ["0 of its own", "3 of its own"]);
    assert_eq!(names(&axes, cut), ["examples", "0 of its own"]);
}

#[test]
fn what_an_op_cannot_say_is_unknown_until_somebody_can() {
    let mut g = Graph::inference();
    let (declared, x) = embedded(&mut g, "ids");
    let dark = laid(1, shape![N, N, N], |_| Layout::Unknown("it is a riddle".into()));
    let dark = one(&mut g, dark, &[x]);
    let unrelated = g.parameter("beside", shape![N, N, N], Init::Zeros).unwrap();
    let still = one(&mut g, map(2), &[dark, unrelated]);
    let seen = one(&mut g, map(2), &[still, x]);
    let axes = read(&g, &[declared]);
    for var in [dark, still] {
        assert_eq!(axes.standing(var, &Label::Batch), lost("axis 0: it is a riddle"));
    }
    assert_eq!(names(&axes, seen)[..2], names(&axes, x)[..2]);
    assert_eq!(axes.standing(seen, &positions("ids")), Standing::Along);
}

#[test]
fn refusals_say_what_to_do() {
    let mut g = Graph::inference();
    let tokens = ids(&mut g, "ids", shape![2, 5]);
    let mask = ids(&mut g, "mask", shape![2, 6]);
    let ask =
        |declared: &[Declared]| -> Result<Axes> { axes(&g, declared, &Sizes::none(), &Integers::none()) };
    assert_eq!(
        text(ask(&[(tokens, vec![None])])),
        "axes: input `ids` is [2 5], and 1 of its axes are declared; say of each axis what it is"
    );
    assert_eq!(
        text(ask(&[(tokens, stream("ids")), (mask, stream("ids"))])),
        "axes: there are 5 positions of `ids`, and 6 in input `mask`, which is [2 6]; declare axes that are the same as \
         equally long"
    );
    let other = Graph::new();
    assert_eq!(
        text(axes(&other, &[(tokens, stream("ids"))], &Sizes::none(), &Integers::none())),
        "axes: operand 0 belongs to another graph; record it in this one"
    );
    let refused = |shape: Shape, layout: fn(&Concrete<'_>) -> Layout| {
        let mut g = Graph::inference();
        let x = g.input("x", DType::F32, shape![2, 5]).unwrap();
        one(&mut g, laid(1, shape, layout), &[x]);
        text(axes(&g, &[], &Sizes::none(), &Integers::none()))
    };
    assert_eq!(
        refused(shape![2], |_| Layout::Flat(0)),
        "laid: the axes of its output 0 say the elements of [2 5] in the same order under [2]; mend `axes` of laid"
    );
    assert_eq!(
        refused(shape![2], |call| Layout::own(call, 0).with(0, 0, 2)),
        "laid: the axes of its output 0 say axis 2 of operand 0, which is not there; mend `axes` of laid"
    );
    assert_eq!(
        refused(shape![2], |_| Layout::Axes(Vec::new())),
        "laid: the axes of its output 0 say 0 entries for the 1 axes of [2]; mend `axes` of laid"
    );
}

#[test]
fn layouts_that_forget_what_relations_follow_are_found() {
    let mut g = Graph::inference();
    let x = g.input("x", DType::F32, shape![2, 5]).unwrap();
    one(&mut g, map(1), &[x]);
    one(&mut g, mix(0), &[x]);
    check_layouts(&g, &Sizes::none(), &Integers::none()).unwrap();
    one(&mut g, Mock { axes: Box::new(Layout::own), ..mix(0) }, &[x]);
    assert_eq!(
        text(check_layouts(&g, &Sizes::none(), &Integers::none())),
        "mix#2: an element of output 0 depends on its own coordinate of axis 1 of operand 0, and its axes do not say so; \
         mend `axes` or `reach` of mix"
    );
}
