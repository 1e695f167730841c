//! Weights on request are those of transformers' eager attention (`parity/attentions.py`), on committed tiny
//! models and, where its weights are, on MiniLM; and looking changes no bit of an answer.

use regard::hub::forward::record;
use regard::hub::open;
use regard::models::{Model, Registry, Sizes};
use regard::ops::WeightsRequest;
use regard::prelude::*;
use regard_conformance::parity::Tensors;
use regard_conformance::place::device;
use regard_inspect::look::{self, Attention, attentions};
use regard_inspect::{keep_heads, patch_heads, patched, without_heads};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const BOUND: f64 = 1e-5;

fn goldens(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("goldens").join(name)
}

/// A model, its weights and a golden.
struct Case {
    model: Arc<dyn Model>,
    store: Store,
    golden: Tensors,
    cpu: Device,
}

impl Case {
    fn new(folder: &Path, golden: &str) -> Case {
        let opened = open(folder.to_str().unwrap(), &Registry::standard()).unwrap();
        let mut store = Store::new(0);
        opened.load_into(&mut store).unwrap();
        let golden = Tensors::read(&goldens("attentions").join(format!("{golden}.safetensors")));
        Case { model: opened.model, store, golden, cpu: device() }
    }

    fn committed(name: &str) -> Case {
        Case::new(&goldens("parity").join(name).join("model"), name)
    }

    fn graph(&self) -> Graph {
        let dims = self.golden.get("ids").dims();
        let mut sizes = Sizes { batch: dims[0], ids: dims[1], ..Default::default() };
        if self.golden.has("targets") {
            (sizes.source, sizes.ids) = (dims[1], self.golden.get("targets").dims()[1]);
        }
        record(&*self.model, sizes).unwrap()
    }

    fn run(&mut self, graph: Graph) -> Program {
        let mut program = Program::new(graph, &[], &mut self.store, &self.cpu).unwrap();
        let names: Vec<String> = program.graph().inputs().map(|(name, _)| name.to_string()).collect();
        for name in names {
            // The goldens have transformers' words: `ids` is what is read, `targets` what is written.
            let theirs = match (name.as_str(), self.model.reads().source) {
                ("source", _) => "ids",
                ("source_mask", _) => "mask",
                ("ids", Some(_)) => "targets",
                (name, _) => name,
            };
            program.set_array(&name, self.golden.get(theirs)).unwrap();
        }
        program.run(&mut self.store).unwrap();
        program
    }

    /// All weights of all attentions against transformers'.
    fn compare(&mut self, theirs: impl Fn(&Attention) -> String) {
        let plain = self.graph();
        let all = attentions(&plain);
        assert!(!all.is_empty());
        let plain = self.run(plain);
        let mut graph = self.graph();
        for attention in &all {
            look::ask(&mut graph, attention, &(0..attention.queries).collect::<Vec<_>>()).unwrap();
        }
        let looked = self.run(graph);
        for attention in &all {
            let ours = looked.array(&format!("look.{}", attention.name)).unwrap();
            let theirs = self.golden.get(&theirs(attention));
            assert_eq!(ours.dims(), theirs.dims(), "{}", attention.name);
            let worst =
                ours.data().iter().zip(theirs.data()).fold(0f64, |most, (a, b)| most.max((a - b).abs()));
            assert!(worst <= BOUND, "{}: {worst:e}", attention.name);
            assert!(theirs.data().iter().any(|&w| w > 0.3), "weights that say something");
        }
        for (name, _) in plain.graph().outputs() {
            let same = plain.array(name).unwrap() == looked.array(name).unwrap();
            assert!(same, "{name} has other bits when looked at");
        }
    }
}

/// `block.3.attention` is `attention.3` there.
fn layer(prefix: &str, attention: &Attention) -> String {
    let number = attention.name.split('.').find(|part| part.parse::<usize>().is_ok()).unwrap();
    format!("{prefix}.{number}")
}

#[test]
fn weights_are_those_of_transformers() {
    for name in ["gpt2", "bert_masked"] {
        Case::committed(name).compare(|attention| layer("attention", attention));
    }
    Case::committed("t5").compare(|attention| match attention.name.as_str() {
        name if name.starts_with("encoder") => layer("attention", attention),
        name if name.ends_with("cross") => layer("cross", attention),
        _ => layer("decoder", attention),
    });
}

#[test]
fn weights_of_minilm_are_those_of_transformers() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let places = ["../../../shared/data/weights", "../../../../shared/data/weights"];
    let found =
        places.map(|up| root.join(up).join("all-MiniLM-L6-v2")).into_iter().find(|path| path.exists());
    match found {
        Some(folder) => Case::new(&folder, "minilm").compare(|attention| layer("attention", attention)),
        None => println!("skipped: ../shared/data/weights/all-MiniLM-L6-v2 is not here"),
    }
}

#[test]
fn a_head_is_left_out_as_if_its_output_weights_were_zero() {
    let mut case = Case::committed("gpt2");
    let graph = case.graph();
    let head = look::find_head(&attentions(&graph), "block.1.head.2").unwrap();
    let heads = head.0.heads;
    let without = without_heads(&graph, std::slice::from_ref(&head)).unwrap();
    let names = |g: &Graph| g.nodes().iter().map(|node| node.name.clone()).collect::<Vec<_>>();
    let kept: Vec<String> = names(&without)
        .into_iter()
        .filter(|name| !name.starts_with("without") && !name.contains(".without"))
        .collect();
    assert_eq!(kept, names(&graph), "names stay, for random numbers are drawn by them");
    let found = case.run(without).array("logits").unwrap();
    let name = "block.1.attention.output.weight";
    let mut weight = case.store.f32(name).unwrap().to_vec();
    let before = weight.clone();
    let dims = case.store.fact(name).unwrap().shape.bound();
    // y = x · Wᵀ: the head's columns of W [C (H E)] see nothing but the head.
    let columns = dims[1];
    let own = columns / heads;
    weight.chunks_mut(columns).for_each(|row| row[2 * own..3 * own].fill(0.0));
    case.store.set_f32(name, &weight).unwrap();
    let graph = case.graph();
    let wanted = case.run(graph).array("logits").unwrap();
    let worst = found.data().iter().zip(wanted.data()).fold(0f64, |most, (a, b)| most.max((a - b).abs()));
    assert!(worst <= 1e-5, "{worst:e}");
    case.store.set_f32(name, &before).unwrap();
    let graph = case.graph();
    let whole = case.run(graph).array("logits").unwrap();
    assert!(
        found.data().iter().zip(whole.data()).any(|(a, b)| (a - b).abs() > 1e-3),
        "the head did something"
    );
}

/// Answers with heads taken from a run on other ids.
fn patched_from(case: &mut Case, heads: &[(Attention, usize)], ids: &Array) -> Array {
    let mut source = case.graph();
    keep_heads(&mut source, heads).unwrap();
    let mut source = Program::new(source, &[], &mut case.store, &case.cpu).unwrap();
    source.set_array("ids", ids).unwrap();
    source.run(&mut case.store).unwrap();
    let graph = patch_heads(&case.graph(), heads).unwrap();
    let mut target = Program::new(graph, &[], &mut case.store, &case.cpu).unwrap();
    target.set_array("ids", case.golden.get("ids")).unwrap();
    patched(&mut target, &source, heads).unwrap();
    target.run(&mut case.store).unwrap();
    target.array("logits").unwrap()
}

#[test]
fn a_head_from_the_same_text_changes_no_bit_and_one_from_another_does() {
    let mut case = Case::committed("gpt2");
    let graph = case.graph();
    let all = attentions(&graph);
    let plain = case.run(graph).array("logits").unwrap();
    let own = case.golden.get("ids").clone();
    let every: Vec<(Attention, usize)> =
        all.iter().flat_map(|own| (0..own.heads).map(|head| (own.clone(), head))).collect();
    for heads in [&every[..1], &every[..]] {
        assert!(patched_from(&mut case, heads, &own) == plain, "the same text says the same");
    }
    let other = Array::new(&own.dims(), own.data().iter().map(|id| (id + 1.0) % 50.0).collect()).unwrap();
    let changed = patched_from(&mut case, &every[..1], &other);
    let worst = changed.data().iter().zip(plain.data()).fold(0f64, |most, (a, b)| most.max((a - b).abs()));
    assert!(worst > 1e-3, "{worst:e}");
    // The other way round nothing of the first text is left in the answer but its stream: not the other
    // answer either.
    let mut run = |ids: &Array| {
        let mut program = Program::new(case.graph(), &[], &mut case.store, &case.cpu).unwrap();
        program.set_array("ids", ids).unwrap();
        program.run(&mut case.store).unwrap();
        program.array("logits").unwrap()
    };
    assert!(run(&other) != changed);
}

#[test]
fn a_head_that_is_told_to_say_nothing_is_left_out() {
    let mut case = Case::committed("gpt2");
    let graph = case.graph();
    let heads = [look::find_head(&attentions(&graph), "block.1.head.2").unwrap()];
    let without = case.run(without_heads(&graph, &heads).unwrap()).array("logits").unwrap();
    let mut silent =
        Program::new(patch_heads(&graph, &heads).unwrap(), &[], &mut case.store, &case.cpu).unwrap();
    let name = format!("patch.{}", heads[0].0.name);
    let input = silent.graph().inputs().find(|(known, _)| *known == name).unwrap().1;
    let dims = silent.graph().shape(input).bound();
    silent.set_f32(&name, &dims, &vec![0.0; dims.count()]).unwrap();
    silent.set_array("ids", case.golden.get("ids")).unwrap();
    silent.run(&mut case.store).unwrap();
    assert!(silent.array("logits").unwrap() == without, "to the last bit");
    // A head before it that was left out in the other run is felt in what it says.
    let first = look::find_head(&attentions(&graph), "block.0.head.0").unwrap();
    let mut ablated = without_heads(&graph, &[first]).unwrap();
    let again = [look::find_head(&attentions(&ablated), "block.1.head.2").unwrap()];
    keep_heads(&mut ablated, &again).unwrap();
    let source = case.run(ablated);
    let mut target =
        Program::new(patch_heads(&graph, &heads).unwrap(), &[], &mut case.store, &case.cpu).unwrap();
    target.set_array("ids", case.golden.get("ids")).unwrap();
    patched(&mut target, &source, &heads).unwrap();
    target.run(&mut case.store).unwrap();
    let plain = case.run(graph).array("logits").unwrap();
    let answered = target.array("logits").unwrap();
    assert!(answered != plain && answered != without);
}

#[test]
fn long_texts_are_looked_at_by_rows() {
    let folder = goldens("parity").join("t5/model");
    let opened = open(folder.to_str().unwrap(), &Registry::standard()).unwrap();
    let (mut store, cpu) = (Store::new(0), device());
    opened.load_into(&mut store).unwrap();
    let length = 8192;
    let mut graph =
        record(&*opened.model, Sizes { batch: 1, ids: 1, source: length, ..Default::default() }).unwrap();
    let all = attentions(&graph);
    let rows = look::rows(length, 8, &[4000]);
    assert_eq!((rows.len(), rows.last().copied()), (9, Some(length - 1)));
    look::ask(&mut graph, &all[0], &rows).unwrap();
    let top = graph.weights_of(all[0].node, WeightsRequest::TopK(3)).unwrap();
    graph.output("top", top.values).unwrap();
    let memory_of_one_map = length * length * all[0].heads * 4;
    let mut program = Program::new(graph, &[], &mut store, &cpu).unwrap();
    assert!(program.memory().total() < memory_of_one_map / 4, "{:?}", program.memory());
    let ids: Vec<i32> = (0..length as i32).map(|i| i % 40 + 1).collect();
    program.set_i32("source", &[1, length], &ids).unwrap();
    program.set_bools("source_mask", &[1, length], &vec![true; length]).unwrap();
    program.set_i32("ids", &[1, 1], &[0]).unwrap();
    program.run(&mut store).unwrap();
    for map in look::maps(&program, &all[0], &rows).unwrap() {
        for (at, row) in rows.iter().enumerate() {
            let sum: f64 = map.row(at).iter().map(|&w| f64::from(w)).sum();
            assert!((sum - 1.0).abs() < 1e-4, "{sum}");
            let top = program.f32("top").unwrap()[(row * all[0].heads + map.head) * 3];
            assert_eq!(map.top(at, 1)[0].1, top, "the largest weight by either request");
        }
    }
}

#[test]
fn what_is_not_there_is_refused() {
    let case = Case::committed("gpt2");
    let all = attentions(&case.graph());
    let text = |name: &str| look::find_head(&all, name).unwrap_err().to_string();
    assert_eq!(
        text("block.1"),
        "`block.1` is no head; name one as in `block.2.head.5`, or `decoder.block.0.cross.head.1`"
    );
    assert_eq!(
        text("blok.1.head.0"),
        "no attention is called `blok.1`; there are `block.0.attention`, `block.1.attention`"
    );
    let last = all[0].heads - 1;
    assert_eq!(
        text("block.1.head.99"),
        format!("`block.1.attention` has no head 99; its heads are 0 to {last}")
    );
    let error = look::find(&all, "7").unwrap_err().to_string();
    assert!(error.starts_with("no attention is called `block.7`"), "{error}");
    assert_eq!(look::find(&all, "1").unwrap().len(), 1);
    let graph = case.graph();
    let stranger = Attention { name: "else".into(), ..all[0].clone() };
    let error = without_heads(&graph, &[(stranger, 0)]).err().unwrap().to_string();
    assert!(error.starts_with("`else` has no head 0"), "{error}");
}
