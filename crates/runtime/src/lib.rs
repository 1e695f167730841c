//! From a name to something that can be used. A [`Session`] opens a folder, a run (what it exported, or its
//! best or newest checkpoint, also of one that is not finished), a name in a local Hugging Face cache or a
//! file of llama2.c, with all that lies beside the weights: tokenizers, start and stop tokens, classes, the
//! scale of pixels. It generates, translates, classifies, embeds, answers, and runs single passes with taps.
//!
//! Nothing is printed here, and nothing ends the process: what takes long tells a callback, which may break
//! off. Many inputs go in batches of about the same length, and results come in the caller's order; what an
//! input becomes does not depend on the others.
//!
//! ```no_run
//! use regard_engine::Cpu;
//! use regard_models::Registry;
//! use regard_runtime::{OpenOptions, Prompts, Session, Writing};
//! use std::ops::ControlFlow;
//!
//! let registry = Registry::standard();
//! let mut session = Session::open("runs/shakespeare", &OpenOptions::new(&registry), &Cpu::new()?)?;
//! let prompts = ["ROMEO:".to_string()];
//! session.generate(Prompts::Texts(&prompts), &Writing::default(), &mut |piece| {
//!     print!("{}", piece.text);
//!     ControlFlow::Continue(())
//! })?;
//! # Ok::<(), regard_runtime::Error>(())
//! ```
//!
//! Those that have a model in a store already, as training has, use [`Classifier`], [`Translator`] and
//! [`Answerer`] themselves.

#![forbid(unsafe_code)]

mod ask;
mod batches;
mod chat;
mod classify;
mod companions;
mod embed;
mod error;
mod open;
mod pieces;
mod pixels;
mod place;
mod sentence;
mod session;
pub mod special;
mod sure;
mod translate;
mod write;

pub use ask::Answerer;
pub use batches::{Progress, image_batch, in_batches, text_batch, unheard};
pub use chat::{Chat, ChatTemplate, Fitted, Marked, Message, Rendered, Replies};
pub use classify::{Classifier, Problem, probabilities};
pub use companions::Companions;
pub use embed::Embedder;
pub use error::{Error, Result};
pub use open::{OpenOptions, open};
pub use pieces::Pieces;
pub use pixels::PixelScale;
pub use place::{Place, Which, is_run};
pub use sentence::{Prompt, sentence_pooling};
pub use session::{Classified, Embedded, Session, TooLong, Translation};
pub use sure::{Answered, Sureness, sureness};
pub use translate::{Translating, Translator};
pub use write::{End, Listener, Piece, Prompts, Searching, Writing, Written};
