//! Stands on the wire: forwards a harness's requests to its provider, and tells the recorder.
//!
//! Start at [`RecordingProxy`]. On HTTP/1.1 the bytes of both sides are passed on as they come; only the
//! request's target and `Host` are rewritten. The recorder gets copies, a disk that stands still is never
//! waited for, and no verdict is made here.

mod cache_sim;
mod capture;
mod connection;
mod exchange;
mod h1;
mod h2;
mod hangup;
mod refusal;
pub mod replay;
mod script;
mod serve;
mod server;
mod upstream;

pub use cache_sim::CachedRequest;
pub use capture::{BindError, BoundProxy, RecordingProxy, UpstreamStatus};
pub use script::{PriorConversation, Script, ScriptError, ScriptReport, ScriptedModel, UnusedTurn};
pub use upstream::{Upstream, UpstreamError, Upstreams};
