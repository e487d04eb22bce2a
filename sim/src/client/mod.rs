//! A client as an application is one: sends chats, reads the stream, and measures what it sees; or sends token ids.
//!
//! Not here: which chats (`workload`) and ids (`events`), and to whom (`demo`, `race`). Upholds: an answer that is not exactly the scripted one is
//! an error, so a stream that a gateway garbles cannot look like success.

mod chat;
mod ids;
mod sse;

pub use chat::{Chat, Client, Failure, Reply};
pub use ids::{Ids, IdsReply};
