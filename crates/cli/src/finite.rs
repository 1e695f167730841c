//! Numbers that are none, NaN or infinite, in a model's weights and in what it gives: the first of them
//! named, all of them counted. A model that holds one answers nonsense, in all ways alike.

use crate::printer::note;
use regard_hub::Opened;
use regard_hub::forward::Answer;

/// The numbers that are none among named ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NotFinite {
    /// The first: the name, its place along every axis, the number.
    first: Option<(String, Vec<usize>, f32)>,
    numbers: usize,
    tensors: usize,
}

impl NotFinite {
    /// Those of a model's files, in their order.
    pub fn in_weights(opened: &Opened) -> NotFinite {
        let mut found = NotFinite::default();
        for tensor in opened.checkpoint().tensors().filter(|tensor| tensor.dtype.is_float()) {
            found.add(tensor.name, tensor.shape, &tensor.f32s());
        }
        found
    }

    /// Those of a pass, in the order of its outputs.
    pub fn in_answers(answers: &[Answer]) -> NotFinite {
        let mut found = NotFinite::default();
        answers.iter().for_each(|answer| found.add(&answer.name, &answer.shape, &answer.numbers));
        found
    }

    /// Looks at more.
    pub fn add(&mut self, name: &str, shape: &[usize], numbers: &[f32]) {
        let mut none = numbers.iter().enumerate().filter(|(_, number)| !number.is_finite());
        let Some((at, &number)) = none.next() else { return };
        self.numbers += 1 + none.count();
        self.tensors += 1;
        self.first.get_or_insert_with(|| (name.into(), place(at, shape), number));
    }

    /// What there is to say, if anything.
    pub fn sentence(&self) -> Option<String> {
        let (name, place, number) = self.first.as_ref()?;
        let others = match (self.numbers, self.tensors) {
            (1, _) => "the only number that is not finite".into(),
            (numbers, 1) => format!("the first of {numbers} numbers that are not finite"),
            (numbers, tensors) => {
                format!("the first of {numbers} numbers, in {tensors} tensors, that are not finite")
            }
        };
        Some(format!("`{name}` is {number} at {place:?}, {others}"))
    }

    /// Says it on the standard error stream: what else the command has to say stands, for what it is worth.
    pub fn warn(&self, what: &str) {
        if let Some(sentence) = self.sentence() {
            note(&format!("regard: WARNING: {what} {sentence}; nothing that depends on it means anything"));
        }
    }
}

/// The place of a number along every axis.
fn place(mut at: usize, shape: &[usize]) -> Vec<usize> {
    let mut place: Vec<usize> = shape
        .iter()
        .rev()
        .map(|&extent| {
            let own = at % extent.max(1);
            at /= extent.max(1);
            own
        })
        .collect();
    place.reverse();
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_named_and_all_are_counted() {
        let mut found = NotFinite::default();
        found.add("a", &[2, 2], &[1.0, 2.0, 3.0, 4.0]);
        assert_eq!(found.sentence(), None);
        found.add("b", &[2, 3], &[0.0, 0.0, 0.0, 0.0, 0.0, f32::NAN]);
        assert_eq!(found.sentence().unwrap(), "`b` is NaN at [1, 2], the only number that is not finite");
        found.add("c", &[1], &[f32::NEG_INFINITY]);
        assert_eq!(
            found.sentence().unwrap(),
            "`b` is NaN at [1, 2], the first of 2 numbers, in 2 tensors, that are not finite"
        );
        let mut one = NotFinite::default();
        one.add("d", &[2], &[f32::INFINITY, f32::NAN]);
        assert_eq!(one.sentence().unwrap(), "`d` is inf at [0], the first of 2 numbers that are not finite");
        assert_eq!(place(0, &[]), [0; 0]);
    }
}
