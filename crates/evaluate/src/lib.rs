//! How good predictions are. Every metric is a pure function of what was predicted and what was right; none
//! knows a model, a file or a loop. [`Bleu`] and [`Chrf`] give the numbers of sacrebleu, and say with a
//! signature how they came about.
//!
//! ```
//! use regard_evaluate::{Bleu, accuracy};
//!
//! assert_eq!(accuracy(&[1, 2, 0, 2], &[1, 2, 1, 2])?, 0.75);
//! let score = Bleu::default().corpus(&["the cat sat on the mat"], &[vec!["the cat sat on a mat"]])?;
//! assert_eq!(
//!     score.to_string(),
//!     "BLEU = 53.73 83.3/60.0/50.0/33.3 (BP = 1.000 ratio = 1.000 hyp_len = 6 ref_len = 6)"
//! );
//! # Ok::<(), regard_evaluate::Error>(())
//! ```

#![forbid(unsafe_code)]

mod bleu;
mod chrf;
mod confusion;
mod error;
mod exact;
mod loss;
mod ngrams;
mod tokens;

pub use bleu::{Bleu, BleuScore, Smoothing};
pub use chrf::Chrf;
pub use confusion::{Confusion, Score};
pub use error::{Error, Result};
pub use exact::{MASK, accuracy, exact_match, marked_answer};
pub use loss::perplexity;
pub use tokens::Tokens;
