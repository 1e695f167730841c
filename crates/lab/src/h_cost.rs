//! Group H: complexity, crossovers, parallelism.

mod lines;
mod path;
mod runs;

pub(crate) use runs::perceiver as perceiver_cost;

use crate::{Claim, Run};

/// The claims of this group.
pub const CLAIMS: &[Claim] = &[
    Claim {
        id: "H1",
        title: "Cost of attention, line by line",
        note: "S3 §2c",
        statement: "Attention costs Θ(n_t d² + n_s d² + n_t n_s d).",
        formula: "MACs of projections, scores, weighted sum, output",
        errata: &["E27"],
        run: Run::Exact(lines::line_by_line),
    },
    Claim {
        id: "H2",
        title: "Where the costs cross",
        note: "S3 §2d",
        statement: "For short sequences projections dominate, for long ones the scores.",
        formula: "n = 2d; n = 6d with the feed-forward part",
        errata: &["E28"],
        run: Run::Exact(lines::crossover),
    },
    Claim {
        id: "H3",
        title: "Against recurrence",
        note: "S2 §1.4a, S0 §1.4b",
        statement: "A recurrent layer costs n·d² in sequence, attention n²·d; attention is cheaper only if n < d.",
        formula: "n²d < nd² ⇔ n < d",
        errata: &["E19"],
        run: Run::Exact(lines::against_recurrence),
    },
    Claim {
        id: "H4",
        title: "Path length",
        note: "S2 §1.4a",
        statement: "Attention joins any two positions in one step, recurrence in n.",
        formula: "",
        errata: &[],
        run: Run::Trained(path::path_length),
    },
    Claim {
        id: "H5",
        title: "Parallel over positions",
        note: "S0 §1.4a, S2 §1.4a",
        statement: "One pass in training does all positions at once.",
        formula: "one forward = n token-by-token forwards",
        errata: &[],
        run: Run::Exact(runs::parallel),
    },
    Claim {
        id: "H6",
        title: "Is inference parallel too?",
        note: "S2 §1.4a",
        statement: "Training and inference are both parallel.",
        formula: "",
        errata: &["E18"],
        run: Run::Exact(runs::inference),
    },
    Claim {
        id: "H7",
        title: "Vanilla against Perceiver",
        note: "S4 §2(g)ii",
        statement: "Costs are Θ(Lℓ²) and Θ((L−2)m² + 2ℓm).",
        formula: "",
        errata: &["E37"],
        run: Run::Exact(runs::perceiver),
    },
    Claim {
        id: "H8",
        title: "Memory of attention",
        note: "implied",
        statement: "Weights take n_t·n_s·h numbers; tiled attention takes O(n).",
        formula: "",
        errata: &[],
        run: Run::Exact(runs::memory),
    },
];
