//! `eval` and `eval_f32`: one call, one answer, whatever was computed before; and the text of every refusal.

use regard::graph::Result;
use regard::prelude::*;
use regard::{Var, eval, eval_f32};

fn text<T>(result: std::result::Result<T, regard::Error>) -> String {
    match result {
        Ok(_) => panic!("an error was expected"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn the_same_recording_gives_the_same_answer_again() {
    // An update moves its state; the next call must begin anew, as `eval` does.
    let count = |g: &mut Sheet| -> Result<Var> {
        let state = g.state("total", DType::F32, [1], Init::Zeros)?;
        let x = g.given(&[1], &[2.0])?;
        g.accumulate(state, x)
    };
    for _ in 0..3 {
        assert_eq!(eval(count).unwrap().data(), [2.0]);
        assert_eq!(eval_f32(count).unwrap().data(), [2.0]);
    }
}

#[test]
fn what_makes_another_program_is_not_mistaken_for_the_same() {
    let doubled = |init: Init| {
        move |g: &mut Sheet| -> Result<Var> {
            let w = g.parameter("w", [1], init)?;
            g.scale(w, 2.0)
        }
    };
    assert_eq!(eval_f32(doubled(Init::Ones)).unwrap().data(), [2.0]);
    assert_eq!(eval_f32(doubled(Init::Constant(3.0))).unwrap().data(), [6.0]);
    let drawn = |name: &'static str| {
        eval_f32(move |g| {
            let w = g.parameter(name, [4], Init::Normal(1.0))?;
            g.scale(w, 2.0)
        })
    };
    assert_ne!(drawn("a").unwrap(), drawn("b").unwrap(), "parameters are drawn by name");
}

#[test]
fn errors() {
    let few = |g: &mut Sheet| g.given(&[2, 2], &[1.0]);
    let expected = "given: 1 numbers do not fill the shape [2, 2]; give as many numbers as the product of the \
                    sizes, and at most 6 axes";
    assert_eq!(text(eval(few)), expected);
    assert_eq!(text(eval_f32(few)), expected);
    assert_eq!(text(eval(|g| g.given_integers(&[2, 2], &[1]))), expected);
    assert_eq!(text(eval(|g| g.given_truths(&[2, 2], &[true]))), expected);
    let huge = text(eval(|g| g.given(&[usize::MAX, 2], &[1.0])));
    assert!(huge.starts_with("given: 1 numbers do not fill the shape ["), "{huge}");
    let mut other = Graph::new();
    let foreign = other.input("x", DType::F32, [1]).unwrap();
    let expected = ": operand 0 belongs to another graph; record it in this one";
    assert_eq!(text(eval(|_| Ok(foreign))), format!("eval{expected}"));
    assert_eq!(text(eval_f32(|_| Ok(foreign))), format!("eval_f32{expected}"));
    let clash = |g: &mut Sheet| {
        let (a, b) = (g.given(&[2], &[1.0; 2])?, g.given(&[3], &[1.0; 3])?);
        g.add(a, b)
    };
    assert_eq!(text(eval(clash)), text(eval_f32(clash)));
    assert!(text(eval(clash)).starts_with("add: "));
}
