//! Who is asked: a provider, or whoever stands in for one.

use bytes::Bytes;
use wire::dialect::Dialect;

use crate::provider::{Attempt, Provider, Seen};
use crate::tool::Doing;

/// Somebody who answers requests.
pub trait Model: Send + Sync {
    /// The language it speaks.
    fn dialect(&self) -> Dialect;

    /// Sends one request and reads its answer, once.
    fn attempt<'a>(&'a self, body: Bytes, on: &'a mut (dyn FnMut(Seen<'_>) + Send)) -> Doing<'a, Attempt>;
}

impl Model for Provider {
    fn dialect(&self) -> Dialect {
        self.dialect
    }

    fn attempt<'a>(&'a self, body: Bytes, on: &'a mut (dyn FnMut(Seen<'_>) + Send)) -> Doing<'a, Attempt> {
        Box::pin(Self::attempt(self, body, on))
    }
}
