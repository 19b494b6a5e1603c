//! Decides before a request is forwarded whether it may be.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use session::RequestId;

/// Decides whether requests are forwarded.
pub trait RequestGate: Send + Sync {
    /// Waits as long as needed. The error is the reason of a refusal, which the harness gets with status 402. If the
    /// harness leaves first, the future is dropped, and the request must then count as never admitted.
    fn admit<'a>(
        &'a self,
        request: GatedRequest<'a>,
    ) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;

    /// Takes note that nothing of an admitted request was sent to the provider.
    fn not_sent(&self, id: &RequestId);
}

/// Request that waits for a decision.
#[derive(Clone, Debug)]
pub struct GatedRequest<'r> {
    /// Exchange id in the recording.
    pub id: RequestId,
    /// HTTP method.
    pub method: &'r str,
    /// Address of the request.
    pub url: &'r str,
    /// Coding of a compressed body.
    pub coding: Option<String>,
    /// Whole body as it was sent.
    pub body: &'r [u8],
}

/// Gate of a proxy, if it has one.
#[derive(Clone, Default)]
pub(crate) struct Gate(pub(crate) Option<Arc<dyn RequestGate>>);

impl Gate {
    /// Reports to the gate that nothing of a request was sent.
    pub(crate) fn not_sent(&self, id: &RequestId) {
        if let Some(gate) = &self.0 {
            gate.not_sent(id);
        }
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Gate" } else { "no gate" })
    }
}
