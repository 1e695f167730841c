//! Names that several rooms could claim belong to one each: with all of these rooms in scope none of them is
//! ambiguous, which would not compile.

use regard::check::*;
use regard::data::*;
use regard::inspect::*;
use regard::layers::*;
use regard::ops::*;
use std::any::type_name;

#[test]
fn ops_layers_sources_and_cases_stand_side_by_side() {
    let rooms = [
        (type_name::<Linear>(), "regard_ops::"),
        (type_name::<LinearLayer>(), "regard_layers::"),
        (type_name::<Norm>(), "regard_ops::"),
        (type_name::<NormLayer>(), "regard_layers::"),
        (type_name::<Embedding>(), "regard_ops::"),
        (type_name::<EmbeddingLayer>(), "regard_layers::"),
        (type_name::<dyn Source>(), "dyn regard_data::"),
        (type_name::<KeySource>(), "regard_layers::"),
        (type_name::<Case>(), "regard_engine::"),
        (type_name::<ProofCase>(), "regard_inspect::"),
    ];
    for (name, room) in rooms {
        assert!(name.starts_with(room), "{name} is not of {room}");
    }
}
