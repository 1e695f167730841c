//! Costs of mock ops: an op costs one multiply-add for each element of an output that is used, and one other
//! operation for each integer that is known.

use super::*;
use crate::mock::{Mocks, gather, ids, map, one, pair, record, sum, text, update, view};
use crate::{DType, Graph, Init, Integers, Pass, Sizes, gradient, shape};

#[test]
fn costs_add_up_by_name_pass_and_op() {
    let mut g = Graph::new();
    let t = g.open('T', 16).unwrap();
    let x = g.input_with_gradient("x", shape![t, 3]).unwrap();
    let mut y = x;
    for block in [1, 10] {
        y = g.scope(format!("block.{block}"), |g| one(g, map(1), &[y]));
    }
    let y = record(&mut g, pair(), &[y]).unwrap()[0];
    let loss = one(&mut g, sum(), &[y]);
    let sizes = Sizes::none().with(t, 4).unwrap();
    let costs = cost(&g, &sizes, &Integers::none(), Some(&[loss])).unwrap();
    assert_eq!(costs.total().macs, 12 + 12 + 12 + 1, "the second output of pair is not used");
    assert_eq!(costs.under("block.1").unwrap(), Work { macs: 12, flops: 0, read: 48, written: 48 });
    assert_eq!(costs.under("block").unwrap().macs, 24);
    assert_eq!(costs.under("").unwrap(), costs.total());
    assert_eq!(
        text(costs.under("blok.1")),
        "no part of the program is called `blok.1`; did you mean `block.1`?"
    );
    assert_eq!(costs.by_op()["map"].macs, 24);
    assert_eq!(costs.by_scope(1).keys().copied().collect::<Vec<_>>(), ["block", "pair", "sum"]);
    assert_eq!(costs.by_scope(0)[""], costs.total());

    gradient(&mut g, loss, &[x], &Mocks).unwrap();
    let all = cost(&g, &sizes, &Integers::none(), None).unwrap();
    assert_eq!(all.by_pass()[&Pass::Forward].macs, 37, "only what is read of each node counts");
    assert!(all.by_pass()[&Pass::Backward].macs > 0);
    let forward = cost(&g, &sizes, &Integers::none(), Some(&[loss])).unwrap();
    assert_eq!(forward, costs, "what is not needed does not count");
}

#[test]
fn integers_are_known_from_constants_views_and_the_caller() {
    let mut g = Graph::inference();
    let table = g.parameter("table", shape![8, 2], Init::Ones).unwrap();
    let fixed = g.constant(DType::I32, shape![1, 3], &[1.0, 2.0, 3.0]).unwrap();
    let fixed = one(&mut g, view(shape![3]), &[fixed]);
    let fed = ids(&mut g, "fed", shape![5]);
    one(&mut g, gather(), &[table, fixed]);
    one(&mut g, gather(), &[table, fed]);
    let flops = |integers: &Integers| {
        let costs = cost(&g, &Sizes::none(), integers, None).unwrap();
        costs.rows.iter().map(|row| row.cost.flops).collect::<Vec<_>>()
    };
    assert_eq!(flops(&Integers::none()), [3, 3, 0]);
    assert_eq!(flops(&Integers::none().with(fed, [0, 1, 2, 3, 4])), [3, 3, 5]);
}

#[test]
fn refusals_say_what_is_missing() {
    let mut g = Graph::new();
    let t = g.open('T', 16).unwrap();
    let x = g.input("x", DType::F32, shape![t]).unwrap();
    let n = ids(&mut g, "n", shape![t]);
    one(&mut g, map(1), &[x]);
    let sizes = Sizes::none().with(t, 4).unwrap();
    let none = Integers::none();
    let nothing = |_: &crate::Node, _: &crate::Concrete<'_>| Work::default();
    assert_eq!(
        text(count(&g, &Sizes::none(), &none, None, &nothing)),
        "size: the letter T is open and has no size yet; feed an input whose shape has T"
    );
    assert_eq!(
        text(cost(&g, &Sizes::none(), &none, None)),
        "size: the letter T is open and has no size yet; feed an input whose shape has T"
    );
    assert_eq!(
        text(cost(&Graph::new(), &sizes, &none, Some(&[x]))),
        "cost: operand 0 belongs to another graph; record it in this one"
    );
    assert_eq!(
        text(cost(&Graph::new(), &sizes, &Integers::none().with(n, [1]), None)),
        "cost: operand 0 belongs to another graph; record it in this one"
    );
    assert_eq!(
        text(cost(&g, &sizes, &Integers::none().with(x, [1]), None)),
        "cost: input `x` is f32, expected i32 or bool; only integers and booleans can be known"
    );
    assert_eq!(
        text(cost(&g, &sizes, &Integers::none().with(n, [1]), None)),
        "cost: what is known of input `n` is 1 long, expected 4 for the shape [4]"
    );
}

#[test]
fn sizes_that_nothing_holds_are_not_counted() {
    let mut g = Graph::new();
    let x = g.input("x", crate::DType::F32, shape![1usize << 20, 1usize << 20]).unwrap();
    one(&mut g, map(1), &[x]);
    assert_eq!(
        text(cost(&g, &Sizes::none(), &Integers::none(), None)),
        "cost: input `x`, f32 [1048576 1048576], is [1048576 1048576] large, more than any machine holds; lower the \
         bounds of the open letters, or the fixed sizes"
    );
    let mut g = Graph::new();
    let empty = g.input("x", crate::DType::F32, shape![0, usize::MAX]).unwrap();
    one(&mut g, map(1), &[empty]);
    assert!(text(cost(&g, &Sizes::none(), &Integers::none(), None)).starts_with("cost: input `x`, f32 [0 "));
}

#[test]
fn the_table_is_aligned() {
    let mut g = Graph::new();
    let w = g.parameter("w", shape![100, 20], Init::Ones).unwrap();
    let y = g.scope("block.0", |g| one(g, map(1), &[w]));
    let loss = one(&mut g, sum(), &[y]);
    let grad = gradient(&mut g, loss, &[w], &Mocks).unwrap()[0];
    one(&mut g, update(2), &[w, grad]);
    let costs = cost(&g, &Sizes::none(), &Integers::none(), None).unwrap();
    // An engine that executes everything twice.
    let twice = |node: &crate::Node, call: &crate::Concrete<'_>| {
        let work = node.op.cost(call);
        Work { macs: 2 * work.macs, ..work }
    };
    let executed = count(&g, &Sizes::none(), &Integers::none(), None, &twice).unwrap();
    assert_eq!(
        costs.table(Some(&executed)),
        "node                      multiply-adds  other      read   written  executed\n\
         block.0.map                       2.00k      0  7.81 KiB  7.81 KiB     4.00k\n\
         sum                                   1      0  7.81 KiB       4 B         2\n\
         ones (backward)                       1      0       4 B       4 B         2\n\
         spread (backward)                 2.00k      0       4 B  7.81 KiB     4.00k\n\
         block.0.map#2 (backward)          2.00k      0  15.6 KiB  7.81 KiB     4.00k\n\
         update                            2.00k      0  15.6 KiB  7.81 KiB     4.00k\n\
         total                             8.00k      0  46.9 KiB  31.3 KiB     16.0k\n"
    );
    let by_op = costs.table_by_op(Some(&executed));
    assert!(by_op.starts_with("op      multiply-adds"), "{by_op}");
    assert!(by_op.ends_with("total           8.00k      0  46.9 KiB  31.3 KiB     16.0k\n"), "{by_op}");
    let alone = costs.table_by_op(None);
    assert!(alone.ends_with("total           8.00k      0  46.9 KiB  31.3 KiB\n"), "{alone}");
    assert_eq!(costs.table(None).lines().count(), 8);
}
