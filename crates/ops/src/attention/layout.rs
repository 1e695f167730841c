//! What the axes of attention's results are: rows are those of the query, whatever they look at.

use super::form::{Extra, Form};
use regard_graph::{Concrete, Layout};

/// y [B T H E], lse or choice [B T H].
pub fn forward(form: &Form, call: &Concrete<'_>, output: usize) -> Layout {
    let (batch, heads) = (call.inputs[0][0], call.inputs[0][2]);
    let mut layout = Layout::own(call, output).leading(0, 3);
    for input in [1, 2] {
        if !form.has(Extra::KeyRow) {
            layout = layout.with(0, input, 0);
        }
        if call.inputs[input][2] == heads {
            layout = layout.with(2, input, 2);
        }
    }
    if output == 0 {
        layout = layout.with(3, 2, 3);
    }
    let Some(bias) = form.place(3, Extra::Bias) else { return layout };
    let dims = call.inputs[bias];
    match dims.len() {
        1 => layout.with(2, bias, 0), // a slope for each head
        2 => layout.with(2, bias, 1), // a table with a column for each head
        _ => {
            let layout = if dims[0] == batch { layout.with(0, bias, 0) } else { layout };
            let layout = if dims[1] == heads { layout.with(2, bias, 1) } else { layout };
            layout.with(1, bias, 2)
        }
    }
}

/// The gradients of query, key and value, then of the scale and the bias where there are such: each like its
/// operand.
pub fn backward(form: &Form, base: usize, call: &Concrete<'_>, output: usize) -> Layout {
    if output >= 3 {
        let mut extras = [Extra::Scale, Extra::Bias].into_iter().filter_map(|extra| form.place(base, extra));
        return Layout::aligned(call, output, extras.nth(output - 3));
    }
    let layout = Layout::own(call, output).leading(output, 4);
    if form.has(Extra::KeyRow) {
        return layout;
    }
    (0..base).fold(layout, |layout, input| layout.with(0, input, 0))
}
