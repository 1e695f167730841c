//! Group H: complexity, crossovers, parallelism.

mod lines;
mod path;
mod rearranging;
mod runs;

pub(crate) use runs::perceiver as perceiver_cost;

use crate::predicate::{at_least, at_most, is};
use crate::{Claim, Predicate, Run};

/// The claims of this group.
pub const CLAIMS: &[Claim] = &[
    Claim {
        id: "H1",
        title: "Cost of attention, line by line",
        note: "S3 §2c",
        statement: "Attention costs Θ(n_t d² + n_s d² + n_t n_s d).",
        formula: "MACs of projections, scores, weighted sum, output",
        errata: &["E27"],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(lines::line_by_line),
    },
    Claim {
        id: "H2",
        title: "Where the costs cross",
        note: "S3 §2d",
        statement: "For short sequences projections dominate, for long ones the scores.",
        formula: "n = 2d; n = 6d with the feed-forward part",
        errata: &["E28"],
        predicate: Predicate::says(&[
            at_most("n = 96, d = 32: work of scores over work of weights", 1.0),
            at_most("n = d: work of scores over work of weights, largest over d", 1.0),
            at_least("n = 4d: work of scores over work of weights, smallest over d", 1.0),
        ])
        .or_if(
            "where short and long are meant against 2d, or 6d with the feed-forward part",
            &[
                at_most("n = d: work of scores over work of weights, largest over d", 1.0),
                at_least("n = 4d: work of scores over work of weights, smallest over d", 1.0),
            ],
        ),
        run: Run::Exact(lines::crossover),
    },
    Claim {
        id: "H3",
        title: "Against recurrence",
        note: "S2 §1.4a, S0 §1.4b",
        statement: "A recurrent layer costs n·d² in sequence, attention n²·d; attention is cheaper only if n < d.",
        formula: "n²d < nd² ⇔ n < d",
        errata: &["E19"],
        predicate: Predicate::says(&[
            is("lengths for which “scores are cheaper” and “n < d” agree", 5.0, 0.0),
            is("lengths for which the whole layer with projections is cheaper", 2.0, 0.0),
        ])
        .or_if(
            "if the projections are left out of the count",
            &[is("lengths for which “scores are cheaper” and “n < d” agree", 5.0, 0.0)],
        ),
        run: Run::Exact(lines::against_recurrence),
    },
    Claim {
        id: "H4",
        title: "Path length",
        note: "S2 §1.4a",
        statement: "Attention joins any two positions in one step, recurrence in n.",
        formula: "",
        errata: &[],
        predicate: Predicate::says(&[
            at_least("powers of ten left of a gradient after 40 places, attention less recurrent", 0.0),
            at_least("accuracy at distance 12, attention less recurrent", 0.0),
        ]),
        run: Run::Trained(path::path_length),
    },
    Claim {
        id: "H5",
        title: "Parallel over positions",
        note: "S0 §1.4a, S2 §1.4a",
        statement: "One pass in training does all positions at once.",
        formula: "one forward = n token-by-token forwards",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(runs::parallel),
    },
    Claim {
        id: "H6",
        title: "Is inference parallel too?",
        note: "S2 §1.4a",
        statement: "Training and inference are both parallel.",
        formula: "",
        errata: &["E18"],
        predicate: Predicate::says(&[is("runs of the model for 64 more", 1.0, 0.0)]),
        run: Run::Exact(runs::inference),
    },
    Claim {
        id: "H7",
        title: "Vanilla against Perceiver",
        note: "S4 §2(g)ii",
        statement: "Costs are Θ(Lℓ²) and Θ((L−2)m² + 2ℓm).",
        formula: "",
        errata: &["E37"],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(runs::perceiver),
    },
    Claim {
        id: "H8",
        title: "Memory of attention",
        note: "implied",
        statement: "Weights take n_t·n_s·h numbers; tiled attention takes O(n).",
        formula: "",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(runs::memory),
    },
    Claim {
        id: "H9",
        title: "Rearranging and softmax",
        note: "S3 §2c",
        statement: "Rearranging into heads is Θ(nd), the softmax Θ(h·n_t·n_s).",
        formula: "",
        errata: &[],
        predicate: Predicate::EveryNumber,
        run: Run::Exact(rearranging::two_lines),
    },
];
