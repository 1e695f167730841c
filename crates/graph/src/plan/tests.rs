//! Plans of small graphs by hand, of random graphs by playing them, and the text of every refusal.

use super::*;
use crate::mock::{Dice, Mock, Mocks, gather, map, one, pair, record, sum, text, update, view};
use crate::{DType, Fact, Init, Shape, gradient, shape};

fn planned(g: &Graph, keep: &[Var]) -> Plan {
    let plan = plan(g, &Request { keep: keep.to_vec(), scratch: &|_| 0 }).unwrap();
    plan.check(g).unwrap();
    plan
}

fn refused(g: &Graph, keep: &[Var]) -> String {
    text(plan(g, &Request { keep: keep.to_vec(), scratch: &|_| 0 }))
}

/// Elementwise, but never in place.
fn apart(operands: usize) -> Mock {
    Mock { aliases: Vec::new(), ..map(operands) }
}

fn data(g: &mut Graph, name: &str) -> Var {
    g.input(name, DType::F32, shape![100]).unwrap()
}

#[test]
fn a_chain_lives_in_two_slots_or_in_one() {
    let mut g = Graph::new();
    let x = data(&mut g, "x");
    let mut y = x;
    for _ in 0..5 {
        y = one(&mut g, apart(1), &[y]);
    }
    let made = planned(&g, &[y]);
    assert_eq!((made.arena_bytes, made.live_bytes_peak, made.io_bytes), (2 * 448, 2 * 448, 2 * 448));
    assert_eq!(made.place(x), Some(Place::Io { offset: 0, bytes: 400 }));
    assert_eq!(made.place(y), Some(Place::Io { offset: 448, bytes: 400 }));

    let mut g = Graph::new();
    let mut y = data(&mut g, "x");
    for _ in 0..5 {
        y = one(&mut g, map(1), &[y]);
    }
    assert_eq!(planned(&g, &[y]).arena_bytes, 448, "in place, but never over an input nor over what is kept");
}

#[test]
fn in_place_only_over_what_nobody_else_reads() {
    let mut g = Graph::new();
    let x = data(&mut g, "x");
    let a = one(&mut g, map(1), &[x]);
    let twice = one(&mut g, map(2), &[a, a]); // the other operand is the same memory
    let b = one(&mut g, map(1), &[twice]); // read again below
    let c = one(&mut g, map(2), &[twice, b]); // over the first or the second
    let looked = one(&mut g, view(shape![10, 10]), &[c]);
    let d = one(&mut g, map(1), &[c]); // the view of c is read below
    let e = one(&mut g, view(shape![100]), &[looked]);
    let last = one(&mut g, map(2), &[d, e]);
    let made = planned(&g, &[last]);
    let at = |var| made.place(var).unwrap();
    assert_ne!(at(twice), at(a));
    assert_ne!(at(b), at(twice));
    assert_eq!(at(c), at(twice));
    assert_eq!(at(looked), at(c));
    assert_ne!(at(d), at(c));
    assert_eq!(made.steps.len(), 6, "views do not run");
    assert_eq!(made.arena_bytes, 2 * 448);
}

#[test]
fn one_input_is_never_reused_for_two_outputs() {
    let mut g = Graph::new();
    let x = data(&mut g, "x");
    let a = one(&mut g, map(1), &[x]);
    let both = Mock {
        infer: Box::new(|inputs| Ok(vec![inputs[0].clone(), inputs[0].clone()])),
        aliases: vec![Alias::Reuse { output: 0, input: 0 }, Alias::Reuse { output: 1, input: 0 }],
        ..map(1)
    };
    let made = record(&mut g, both, &[a]).unwrap();
    let sum = one(&mut g, map(2), &made);
    let result = one(&mut g, map(1), &[sum]);
    let p = planned(&g, &[result]);
    assert_eq!(p.place(made[0]), p.place(a));
    assert_ne!(p.place(made[1]), p.place(a));
}

#[test]
fn in_place_only_over_the_same_layout() {
    let mut g = Graph::new();
    let t = g.open('T', 4).unwrap();
    let x = g.input("x", DType::F32, shape![25, t]).unwrap();
    let a = one(&mut g, map(1), &[x]);
    // 400 bytes at the bound, like a, and yet no element lies where one of a does.
    let narrow = |shape: Shape, dtype: DType| Mock {
        infer: Box::new(move |_| Ok(vec![Fact::new(shape.clone(), dtype)])),
        ..map(1)
    };
    let b = one(&mut g, narrow(shape![50, t], DType::BF16), &[a]);
    let c = one(&mut g, narrow(shape![200], DType::BF16), &[b]);
    let last = one(&mut g, apart(1), &[c]);
    let made = planned(&g, &[last]);
    assert_ne!(made.place(b), made.place(a), "elements of another width");
    assert_ne!(made.place(c), made.place(b), "another number of elements below the bound");
}

#[test]
fn outputs_that_nobody_reads_have_no_place() {
    let mut g = Graph::new();
    let x = data(&mut g, "x");
    let made = record(&mut g, pair(), &[x]).unwrap();
    let dead = one(&mut g, map(1), &[made[1]]);
    let p = planned(&g, &[made[0]]);
    assert_eq!(p.steps, [Step { node: 0, scratch: None, used: vec![true, false] }]);
    assert_eq!((p.place(made[1]), p.place(dead)), (None, None));
    assert_eq!(p.arena_bytes, 0);
}

#[test]
fn views_live_where_their_root_lives() {
    let mut g = Graph::inference();
    let x = data(&mut g, "x");
    let w = g.parameter("w", shape![100], Init::Ones).unwrap();
    let k = g.constant(DType::I32, shape![3], &[1.0, 2.0, 3.0]).unwrap();
    let unread = g.constant(DType::F32, shape![], &[1.0]).unwrap();
    let square = || view(shape![10, 10]);
    let (vx, vw) = (one(&mut g, square(), &[x]), one(&mut g, square(), &[w]));
    let vk = one(&mut g, view(shape![3]), &[k]);
    let rows = one(&mut g, gather(), &[vw, vk]);
    let y = one(&mut g, map(1), &[vx]);
    let kept = one(&mut g, view(shape![100]), &[y]);
    let z = one(&mut g, map(1), &[y]);
    let p = planned(&g, &[kept, z, rows, w]);
    assert_eq!(p.place(vx), p.place(x));
    assert_eq!((p.place(w), p.place(vw)), (Some(Place::Stored(0)), Some(Place::Stored(0))));
    assert_eq!(p.place(vk), Some(Place::Constant { offset: 0, bytes: 12 }));
    assert_eq!(p.place(unread), None);
    assert!(matches!(p.place(y), Some(Place::Io { .. })), "a kept view keeps what it views");
    assert_eq!(p.place(kept), p.place(y));
    assert_eq!((p.arena_bytes, p.constant_bytes, p.stored_bytes), (0, 64, 400));
}

#[test]
fn updates_stay_in_the_store() {
    let mut g = Graph::new();
    let x = data(&mut g, "x");
    let w = g.parameter("w", shape![100], Init::Ones).unwrap();
    let y = one(&mut g, map(2), &[w, x]);
    let w2 = one(&mut g, update(2), &[w, y]);
    let after = one(&mut g, map(1), &[w2]);
    let w3 = one(&mut g, update(2), &[w2, x]);
    let p = planned(&g, &[after, w3]);
    assert_eq!(p.places[w3.index()], Some(Place::Stored(0)));
    assert_eq!(p.place(w2), Some(Place::Stored(0)));
    let p = planned(&g, &[]);
    assert_eq!(
        p.steps.iter().map(|s| (s.node, s.used[0])).collect::<Vec<_>>(),
        [(0, true), (1, true), (3, true)]
    );
}

#[test]
fn state_is_not_read_through_a_view_once_it_was_replaced() {
    let mut g = Graph::inference();
    let x = data(&mut g, "x");
    let w = g.parameter("w", shape![100], Init::Ones).unwrap();
    let seen = one(&mut g, view(shape![10, 10]), &[w]);
    let before = one(&mut g, map(1), &[seen]);
    let w2 = g.scope("optimizer", |g| one(g, update(2), &[w, x]));
    planned(&g, &[before, w2]);
    let stale = "reads `w` as it was before optimizer.update replaced it; use the value that optimizer.update returned";
    assert_eq!(refused(&g, &[seen]), format!("keep: {stale}"));
    assert_eq!(refused(&g, &[w]), format!("keep: {stale}"));
    let late = g.scope("head", |g| one(g, map(1), &[seen]));
    assert_eq!(refused(&g, &[late]), format!("head.map: {stale}"));
    planned(&g, &[before]); // nobody reads `late`: it does not run

    let again = one(&mut g, view(shape![100]), &[w2]);
    one(&mut g, update(2), &[w2, again]);
    assert_eq!(refused(&g, &[]), "update: reads `w` as b while it replaces it; give each state once");
}

#[test]
fn scratch_is_apart_from_what_its_kernel_touches() {
    let mut g = Graph::new();
    let x = data(&mut g, "x");
    let a = one(&mut g, map(1), &[x]);
    let b = one(&mut g, map(1), &[a]);
    let c = one(&mut g, map(1), &[b]);
    let request = Request { keep: vec![c], scratch: &|node| [1000, 0, 10][node] };
    let p = plan(&g, &request).unwrap();
    p.check(&g).unwrap();
    let scratch: Vec<_> = p.steps.iter().map(|s| s.scratch.map(|slot| slot.bytes)).collect();
    assert_eq!(scratch, [Some(1000), None, Some(10)]);
    assert_eq!((p.arena_bytes, p.live_bytes_peak), (448 + 1024, 448 + 1024));
}

#[test]
fn sizes_are_at_the_bound_and_empty_values_are_fine() {
    let mut g = Graph::new();
    let t = g.open('T', 50).unwrap();
    let x = g.input("x", DType::BF16, shape![t, 2]).unwrap();
    let empty = g.input("empty", DType::F32, shape![0, 4]).unwrap();
    let y = one(&mut g, apart(1), &[x]);
    let z = one(&mut g, apart(1), &[y]);
    let e = one(&mut g, apart(1), &[empty]);
    let f = one(&mut g, apart(1), &[e]);
    let p = planned(&g, &[z, f]);
    assert_eq!(p.place(y), Some(Place::Arena { offset: 0, bytes: 200 }));
    assert!(matches!(p.place(e), Some(Place::Arena { bytes: 0, .. })));
}

#[test]
fn sizes_that_cannot_be_addressed_are_refused() {
    let huge = usize::MAX / 2;
    let mut g = Graph::new();
    let t = g.open('T', huge).unwrap();
    let x = data(&mut g, "x");
    let wide = Mock { infer: Box::new(move |_| Ok(vec![Fact::f32(shape![t, 8])])), ..apart(1) };
    let y = g.scope("head", |g| one(g, wide, &[x]));
    let z = one(&mut g, apart(1), &[y]);
    let advice = "would take more bytes than can be addressed; lower the bounds of the open letters, or the fixed sizes";
    assert_eq!(refused(&g, &[z]), format!("plan: output 0 of `head.map`, f32 [T 8], {advice}"));
    planned(&g, &[]);
    g.input("ids", DType::I32, shape![t]).unwrap();
    assert_eq!(refused(&g, &[]), format!("plan: input `ids`, i32 [T], {advice}"));

    let mut g = Graph::new();
    let quarter = g.open('T', usize::MAX / 16).unwrap();
    for name in ["a", "b", "c"] {
        g.input(name, DType::F32, shape![quarter]).unwrap();
    }
    assert_eq!(refused(&g, &[]), format!("plan: the values of the program together {advice}"));
    let mut g = Graph::new();
    let x = data(&mut g, "x");
    let y = one(&mut g, map(1), &[x]);
    assert_eq!(
        text(plan(&g, &Request { keep: vec![y], scratch: &|_| usize::MAX })),
        format!("plan: the scratch of `map` of {} bytes {advice}", usize::MAX)
    );
    assert_eq!(
        refused(&Graph::new(), &[y]),
        "plan: operand 0 belongs to another graph; record it in this one"
    );
}

#[test]
fn the_check_finds_what_is_broken() {
    let mut g = Graph::new();
    let x = data(&mut g, "x");
    let a = one(&mut g, apart(1), &[x]);
    let b = one(&mut g, apart(1), &[x]);
    let c = one(&mut g, apart(2), &[a, b]);
    let d = one(&mut g, apart(1), &[c]);
    let whole = plan(&g, &Request { keep: vec![d], scratch: &|_| 64 }).unwrap();
    whole.check(&g).unwrap();
    let broken = |change: &dyn Fn(&mut Plan)| {
        let mut plan = whole.clone();
        change(&mut plan);
        let text = text(plan.check(&g));
        let advice = "; the plan is broken: make it anew from the graph that it belongs to";
        text.strip_prefix("plan: ").and_then(|t| t.strip_suffix(advice)).unwrap().to_string()
    };
    let place = |var: Var| whole.places[var.index()];
    assert_eq!(
        broken(&|p| p.places[b.index()] = place(a)),
        "map#3 reads output 0 of `map`, which was overwritten"
    );
    assert_eq!(
        broken(&|p| p.places[c.index()] = place(a)),
        "output 0 of `map#3` lies over output 0 of `map`, which its kernel reads"
    );
    assert_eq!(broken(&|p| p.places[a.index()] = None), "output 0 of `map` is used but has no place");
    assert_eq!(broken(&|p| p.steps.truncate(3)), "keep reads output 0 of `map#4`, which was overwritten");
    assert_eq!(
        broken(&|p| p.places[a.index()] = Some(Place::Arena { offset: 8, bytes: 400 })),
        "output 0 of `map` begins at 8, which is not aligned"
    );
    assert_eq!(
        broken(&|p| p.places[a.index()] = Some(Place::Arena { offset: 64000, bytes: 400 })),
        format!("output 0 of `map` ends outside of its memory of {} bytes", whole.arena_bytes)
    );
    assert_eq!(
        broken(&|p| p.places[a.index()] = Some(Place::Arena { offset: 0, bytes: 4 })),
        "output 0 of `map` has 4 bytes of the 400 that it needs"
    );
    let Some(Place::Arena { offset, .. }) = place(c) else { panic!("c is in the arena") };
    assert_eq!(
        broken(&|p| p.steps[2].scratch = Some(Slot { offset, bytes: 64 })),
        "the scratch of `map#3` lies over output 0 of `map#3`"
    );
    assert_eq!(
        broken(&|p| p.steps[3].scratch = Some(Slot { offset, bytes: 64 })),
        "the scratch of `map#4` lies over output 0 of `map#3`, which its kernel reads"
    );
    assert_eq!(broken(&|p| p.places[x.index()] = None), "map reads input `x`, which has no place");
    assert_eq!(
        broken(&|p| p.places[x.index()] = Some(Place::Stored(0))),
        "input `x` is stored value 0, which is none"
    );
    assert_eq!(
        broken(&|p| p.steps[3].scratch = Some(Slot { offset: 1 << 20, bytes: 64 })),
        format!("the scratch of `map#4` ends outside of its memory of {} bytes", whole.arena_bytes)
    );
}

#[test]
fn a_result_over_its_operand_lies_over_all_of_it() {
    let mut g = Graph::new();
    let x = data(&mut g, "x");
    let a = one(&mut g, apart(1), &[x]);
    let b = one(&mut g, map(1), &[a]);
    let c = one(&mut g, apart(1), &[b]);
    let mut made = plan(&g, &Request { keep: vec![c], scratch: &|_| 0 }).unwrap();
    made.check(&g).unwrap();
    assert_eq!(made.place(a), made.place(b), "in place");
    made.places[b.index()] = Some(Place::Arena { offset: 64, bytes: 400 });
    made.arena_bytes += 64;
    assert_eq!(
        text(made.check(&g)),
        "plan: output 0 of `map#2` lies over a part of output 0 of `map`, which its kernel reads; the plan is broken: \
         make it anew from the graph that it belongs to"
    );
}

#[test]
fn recompute_trades_memory_for_work() {
    let arena = |recompute: bool| {
        let mut g = Graph::new();
        let w = g.parameter("w", shape![100], Init::Ones).unwrap();
        let mut x = w;
        for _ in 0..8 {
            let block = |g: &mut Graph| (0..4).fold(x, |y, _| one(g, map(1), &[y]));
            x = if recompute { g.recompute(block) } else { block(&mut g) };
        }
        let loss = one(&mut g, sum(), &[x]);
        let grad = gradient(&mut g, loss, &[w], &Mocks).unwrap()[0];
        let p = planned(&g, &[loss, grad]);
        (p.arena_bytes, p.steps.len())
    };
    let (kept, again) = (arena(false), arena(true));
    // 31 inner values, a gradient and the single number that it is spread from, all at once; against 7
    // values at the borders, 3 within a block, and a gradient.
    assert_eq!(kept.0, 448 * 32 + 64);
    assert_eq!(again.0, 448 * 11);
    assert!(again.1 > kept.1);
}

/// A random program: every kind of op, several sizes, states, views, values read far from where they arise.
fn random(seed: u64) -> (Graph, Vec<Var>) {
    let mut dice = Dice(seed);
    let mut g = Graph::inference();
    let t = g.open('T', 1 + dice.below(40)).unwrap();
    let sizes = [16, 24, 100, 1024, 3000];
    let mut values = Vec::new();
    for (index, &size) in sizes.iter().enumerate() {
        values.push(g.input(&format!("x{index}"), DType::F32, shape![t, size]).unwrap());
    }
    let mut states = Vec::new();
    for (index, &size) in sizes.iter().take(3).enumerate() {
        let shape = Shape::from([t.bound(), size]);
        states.push((g.state(&format!("s{index}"), DType::F32, shape, Init::Zeros).unwrap(), None::<Var>));
    }
    for _ in 0..40 + dice.below(160) {
        // Mostly recent values, as in a real program.
        let near = if dice.below(4) == 0 { values.len() } else { values.len().min(6) };
        let x = values[values.len() - 1 - dice.below(near)];
        let like: Vec<Var> = values.iter().copied().filter(|&v| g.fact(v) == g.fact(x)).collect();
        let other = like[dice.below(like.len())];
        let which = dice.below(3);
        match dice.below(10) {
            0..4 => values.push(one(&mut g, map(2), &[x, other])),
            4 => values.push(one(&mut g, apart(2), &[other, x])),
            5 => {
                let made = record(&mut g, pair(), &[x]).unwrap();
                values.push(made[dice.below(2)]);
            }
            6 => {
                let count = g.shape(x).count();
                values.push(one(&mut g, view(Shape::new(vec![count])), &[x]));
            }
            7 => {
                let (state, toward) = states[which];
                let made = match toward {
                    Some(toward) => one(&mut g, update(2), &[state, toward]),
                    None => one(&mut g, update(1), &[state]),
                };
                states[which] = (made, Some(one(&mut g, apart(1), &[made])));
            }
            _ => values.push(one(&mut g, map(1), &[x])),
        }
    }
    let keep = (0..3).map(|_| values[dice.below(values.len())]).chain(values.last().copied()).collect();
    (g, keep)
}

#[test]
fn random_programs_keep_every_value_whole() {
    let (mut arena, mut least, mut worst, mut exact) = (0, 0, 1.0f64, 0);
    for seed in 0..400 {
        let (g, keep) = random(seed);
        let scratch = |node: usize| (node * 7919) % 5 * 1000;
        let made = plan(&g, &Request { keep: keep.clone(), scratch: &scratch }).unwrap();
        made.check(&g).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!(made.arena_bytes >= made.live_bytes_peak, "seed {seed}");
        let again = plan(&g, &Request { keep, scratch: &scratch }).unwrap();
        assert_eq!((&again.places, &again.steps), (&made.places, &made.steps), "a plan is deterministic");
        arena += made.arena_bytes;
        least += made.live_bytes_peak;
        exact += usize::from(made.arena_bytes == made.live_bytes_peak);
        worst = worst.max(made.arena_bytes as f64 / made.live_bytes_peak.max(1) as f64);
    }
    let ratio = arena as f64 / least as f64;
    println!("arena / lower bound: {ratio:.4} on average, {worst:.4} at worst, {exact} of 400 exact");
    assert!(ratio < 1.01 && exact >= 360, "{ratio} {exact}");
}

#[test]
fn a_summary_names_the_largest_values() {
    let mut g = Graph::new();
    let x = data(&mut g, "x");
    g.parameter("w", shape![1000, 1000], Init::Ones).unwrap();
    let y = g.scope("block.0", |g| one(g, map(1), &[x]));
    let p = planned(&g, &[y]);
    let summary = p.summary(&g);
    assert_eq!(summary.biggest[0].title, "parameter `w`");
    assert_eq!(
        summary.to_string(),
        "1 steps\n\
         arena             0 B  (at least 0 B)\n\
         in and out      896 B\n\
         constants         0 B\n\
         store        3.81 MiB\n\
         largest values\n\
         \x20   3.81 MiB  parameter `w`  f32 [1000 1000]\n\
         \x20      400 B  input `x`  f32 [100]\n\
         \x20      400 B  output 0 of `block.0.map`  f32 [100]\n"
    );
}
