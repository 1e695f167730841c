//! Conversations as models read them: the template that lies beside a model turns messages into the text that
//! it was trained on. [`ChatTemplate`] renders as `apply_chat_template` of transformers does, within limits
//! that no template can leave; [`Replies`] says which part of the text the model itself wrote, and
//! [`Chat`] keeps a conversation within a model's positions.

mod bound;
mod conversation;
mod date;
mod guarded;
mod message;
mod python;
mod python_text;
mod replies;
mod template;
mod template_files;

pub use conversation::{Chat, Fitted};
pub use message::Message;
pub use replies::{Marked, Replies};
pub use template::{ChatTemplate, Rendered};
