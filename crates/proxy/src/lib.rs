//! HTTP servers between a harness and its model: recording proxy, scripted model, and replay.
//!
//! There are three starting points:
//!
//! - [`RecordingProxy`] forwards requests to a provider and records them. `server` accepts its connections.
//! - [`ScriptedModel`] answers from a script.
//! - [`ReplayServer`](replay::ReplayServer) answers from a recording. It and the scripted model share `serve`.
//!
//! On HTTP/1.1 the recording proxy passes on the bytes of both sides as they come; only the target of a request
//! and its `Host` are rewritten. The recorder gets copies, and a blocked disk never delays the traffic. No verdict is made
//! here.

mod cache_sim;
mod connection;
mod exchange;
mod gate;
mod h1;
mod h2;
mod hangup;
mod recording_proxy;
mod refusal;
pub mod replay;
mod script;
mod serve;
mod server;
mod state;
mod upstream;

pub use cache_sim::CachedRequest;
pub use gate::{GatedRequest, RequestGate};
pub use recording_proxy::{BindError, BoundProxy, RecordingProxy};
pub use script::{PriorConversation, Script, ScriptError, ScriptReport, ScriptedModel, UnusedTurn};
pub use state::UpstreamStatus;
pub use upstream::{Upstream, UpstreamError, Upstreams};
