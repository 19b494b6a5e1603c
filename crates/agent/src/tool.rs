//! What a model may call.

use std::pin::Pin;
use std::sync::Arc;

use session::Block;

/// Something that takes time.
pub type Doing<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A tool: what the model is told of it, and what it does.
pub trait Tool: Send + Sync {
    /// As the model calls it.
    fn name(&self) -> &'static str;

    /// What it is for, in words for the model.
    fn description(&self) -> &'static str;

    /// The JSON schema of its input, as compact JSON.
    fn schema(&self) -> &'static str;

    /// What may be done with a call that was started and never finished.
    fn policy(&self) -> Policy;

    /// Does it. `input` is a JSON object; whatever goes wrong is an answer for the model to act on.
    fn call<'a>(&'a self, input: &'a serde_json::Value, scene: &'a Scene) -> Doing<'a, Output>;
}

/// What may be done with a call that was started and never finished, and what may run beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// It changes nothing: run it again, and beside others.
    Pure,
    /// It changes something, and doing it twice is doing it once: run it again, but alone.
    Idempotent,
    /// Twice would be too often: never run it again, say that it may have run.
    Unsafe,
}

/// What a tool answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// The answer.
    pub blocks: Vec<Block>,
    /// The tool could not do what was asked.
    pub is_error: bool,
}

impl Output {
    /// An answer in words.
    pub fn text(text: impl Into<String>) -> Self {
        Self { blocks: vec![Block::Text { text: text.into() }], is_error: false }
    }

    /// Why it could not be done, and what the model can do about it.
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }
}

/// Where a call takes place.
#[derive(Clone)]
pub struct Scene {
    /// The files it may touch.
    pub workspace: Arc<crate::Workspace>,
    /// What the clock says.
    pub now: jiff::Zoned,
}
