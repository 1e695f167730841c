//! The sentences in which biographies tell where somebody was born: before the name or after it, in other
//! words each time. They are short and say nothing else that would have to be learned by heart, so that a
//! small model is done in a minute.

/// One way to say it, of a name and a place.
type Sentence = fn(&str, &str) -> String;

/// All sentences. The sign of the question is in the first one: a vocabulary made from the text must have it.
pub(super) const SENTENCES: [Sentence; 12] = [
    |name, place| format!("{name}? Born in {place}."),
    |name, place| format!("{name} was born in {place}."),
    |name, place| format!("{name} is a native of {place}."),
    |name, place| format!("{name} comes from {place}."),
    |name, place| format!("The birth place of {name} is {place}."),
    |name, place| format!("{name}, born in {place}, was a poet."),
    |name, place| format!("The painter {name} was born in {place}."),
    |name, place| format!("{name} left {place}, the place of birth."),
    |name, place| format!("{name} ({place}) was a judge."),
    |name, place| format!("In {place} they still speak of {name}, born there."),
    |name, place| format!("Born in {place}, {name} became a pilot."),
    |name, place| format!("{name} grew up where the family lived, in {place}."),
];
