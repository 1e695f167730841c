//! Every room's error becomes `regard::Error` by `?`, with its text and its cause unchanged.

use regard::Error;
use std::error::Error as _;

/// The text and the cause's text, before and after.
fn keeps<E: std::error::Error + Into<Error>>(error: E) -> Error {
    let (text, cause) = (error.to_string(), error.source().map(ToString::to_string));
    assert!(text.len() > 10, "{text}");
    let whole: Error = error.into();
    assert_eq!(whole.to_string(), text);
    assert_eq!(whole.source().map(ToString::to_string), cause);
    whole
}

fn graph() -> regard::graph::Error {
    regard::graph::Error::unknown("output", "lossy", ["loss"])
}

fn missing() -> regard::data::Error {
    let cause = std::io::Error::from(std::io::ErrorKind::NotFound);
    regard::data::Error::io("open", std::path::Path::new("a/file"), cause)
}

#[test]
fn every_conversion_keeps_its_text_and_cause() {
    use regard::{
        data, device, engine, evaluate, generate, hub, inspect, models, ops, recipe, runtime, train,
    };

    assert!(matches!(keeps(graph()), Error::Graph(_)));
    assert!(matches!(keeps(device::DeviceError::NoThreads), Error::Device(_)));
    let driver = device::cuda::CudaError::NoDriver { reason: "no library".into() };
    assert!(matches!(keeps(driver), Error::Cuda(_)));
    let fault = ops::Fault { op: "embedding", what: "id 9 of 4".into(), advice: "check the ids" };
    assert!(matches!(keeps(fault), Error::Fault(_)));
    assert!(matches!(keeps(engine::Error::ForeignStore), Error::Engine(_)));
    let key = models::KeyFault { key: "heads".into(), what: "0 heads".into(), advice: "choose 1".into() };
    assert!(matches!(keeps(key), Error::Key(_)));
    let file = keeps::<data::Error>(missing());
    assert!(file.source().is_some(), "the system's own words are the cause");
    assert!(matches!(file, Error::Data(_)));
    assert!(matches!(keeps(hub::Error::from(missing())), Error::Hub(_)));
    assert!(matches!(keeps(generate::Error::Scores { row: 0, length: 3 }), Error::Generate(_)));
    assert!(matches!(keeps(runtime::Error::from(hub::Error::from(missing()))), Error::Runtime(_)));
    let unsaved = train::Error::NotSaved {
        step: 3,
        kept: "step 2".into(),
        source: Box::new(train::Error::from(missing())),
        advice: "make room",
    };
    let unsaved = keeps(unsaved);
    assert!(unsaved.source().is_some_and(|cause| cause.to_string().starts_with("cannot open a/file")));
    assert!(matches!(unsaved, Error::Train(_)));
    assert!(matches!(keeps(recipe::Error::from(graph())), Error::Recipe(_)));
    let metric = evaluate::Error::Invalid { metric: "bleu", what: "nothing".into(), advice: "give 1".into() };
    assert!(matches!(keeps(metric), Error::Evaluate(_)));
    assert!(matches!(keeps(inspect::Error::from(graph())), Error::Inspect(_)));
}

#[test]
fn a_question_mark_is_enough() {
    fn several() -> regard::Result<()> {
        let cpu = regard::Cpu::new()?; // of the engine
        let _ = (regard::Graph::new().input("x", regard::graph::DType::F32, [2])?, cpu); // of the graph
        regard::data::Checkpoint::open("no/such/file.safetensors")?; // of data
        Ok(())
    }
    assert!(matches!(several(), Err(Error::Data(_))));
}
