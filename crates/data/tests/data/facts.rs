//! Facts as spans: what cannot be taken out of a line.

use regard_data::corruption::{Line, Salient, Spans};

#[test]
fn a_line_with_a_mark_in_it_is_refused() {
    let salient = Salient { spans: Spans::new(3, 1, 64).unwrap(), share: 1.0 };
    let marked = Line { ids: vec![10, 1, 12], title: 1, facts: std::iter::once(2..3).collect() };
    assert_eq!(
        salient.example(0, 0, &marked).unwrap_err().to_string(),
        "the text has the token 1 at position 1, which is kept as a mark; take another token as the mark, or the token \
         out of the text"
    );
}
