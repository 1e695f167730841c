//! What is said of operands that do not fit a GPT, and of sizes that no machine holds.

use regard_engine::{Cpu, Program, Store};
use regard_models::{Gpt, GptConfig, View};
use regard_ops::prelude::*;

const SMALL: GptConfig =
    GptConfig { layers: 1, heads: 2, width: 8, context: 4, vocabulary: 5, dropout: 0.0, ..GptConfig::SMALL };

fn text<T>(result: Result<T, impl std::fmt::Display>) -> String {
    match result {
        Ok(_) => panic!("an error was expected"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn operands_that_do_not_fit() {
    let gpt = Gpt::new(SMALL).unwrap();
    let mut g = Graph::new();
    let floats = g.input("floats", DType::F32, [1, 3]).unwrap();
    let expected = "embedding: ids is f32, expected i32; ids, positions and lengths are i32";
    assert_eq!(text(gpt.hidden(&mut g, floats, View::Whole)), expected);
    assert_eq!(text(gpt.logits(&mut g, floats)), expected);
    let long = g.input("long", DType::I32, [1, 5]).unwrap();
    let said = text(gpt.logits(&mut g, long));
    assert!(said.starts_with("add_position: "), "{said}");
    let ids = g.input("ids", DType::I32, [1, 3]).unwrap();
    let targets = g.input("targets", DType::I32, [1, 4]).unwrap();
    let scale = g.input("scale", DType::F32, shape![]).unwrap();
    let said = text(gpt.loss(&mut g, ids, targets, scale));
    assert!(said.starts_with("linear_cross_entropy: targets is [1 4], expected "), "{said}");
}

#[test]
fn a_gpt_of_any_size_is_recorded_or_refused() {
    for width in [2, 1 << 40, usize::MAX - 1] {
        let config = GptConfig { width, ..SMALL };
        let gpt = Gpt::new(config).unwrap();
        let mut g = Graph::inference();
        let ids = g.input("ids", DType::I32, [1, 3]).unwrap();
        let logits = gpt.logits(&mut g, ids).unwrap();
        g.output("logits", logits).unwrap();
        let cpu = Cpu::new().unwrap();
        let made = Program::new(g, &[], &mut Store::new(0), &cpu);
        assert_eq!(made.is_ok(), width == 2, "{width}");
    }
}
