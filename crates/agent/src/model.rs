//! Clients of models.

use bytes::Bytes;
use wire::dialect::Dialect;

use crate::future::BoxFuture;
use crate::provider::{AttemptEvent, FailureKind, HttpAttempt, ProviderClient, RequestSender};

/// Sends requests to a model.
pub trait ModelClient: Send + Sync {
    /// Returns the dialect of its requests.
    fn dialect(&self) -> Dialect;

    /// Redacts the key in the received bytes of a dropped attempt.
    fn hide_key(&self, _bytes: &mut Vec<u8>) {}

    /// Makes one attempt to send a request of a run and read its reply.
    fn attempt<'a>(
        &'a self,
        body: Bytes,
        sender: &'a RequestSender,
        on: &'a mut (dyn FnMut(AttemptEvent<'_>) + Send),
    ) -> BoxFuture<'a, HttpAttempt>;
}

impl ModelClient for ProviderClient {
    fn dialect(&self) -> Dialect {
        self.dialect
    }

    fn hide_key(&self, bytes: &mut Vec<u8>) {
        Self::hide_key(self, bytes);
    }

    fn attempt<'a>(
        &'a self,
        body: Bytes,
        sender: &'a RequestSender,
        on: &'a mut (dyn FnMut(AttemptEvent<'_>) + Send),
    ) -> BoxFuture<'a, HttpAttempt> {
        Box::pin(self.attempt_for(body, Some(sender), on))
    }
}

impl FailureKind {
    /// Returns the name of the kind in the journal and the log.
    pub fn word(self) -> &'static str {
        match self {
            Self::Connect => "no_connection",
            Self::Stalled => "stalled",
            Self::Cut => "cut",
            Self::Status(_) => "refused",
            Self::Redirect => "redirected",
            Self::StreamError => "error_in_stream",
            Self::Garbage => "garbage",
            Self::OutputLimit => "output_limit",
            Self::TooLarge => "too_large",
            Self::Auth => "unauthorized",
            Self::NotFound => "not_found",
            Self::RequestTooLarge => "request_too_large",
            Self::Overloaded => "overloaded",
            Self::RateLimited => "rate_limited",
        }
    }
}
