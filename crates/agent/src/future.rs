//! The type of boxed futures.

use std::pin::Pin;

/// A boxed future that can be sent to another thread.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
