//! RequestSource, taken apart while their recording is put in order, so that each is read and decoded once.

use std::collections::HashMap;

use recording::lanes::Heard;
use recording::source::{Answered, Asked, Watch};
use session::RequestId;
use wire::dialect::Prompt;
use wire::json::Document;

use super::unit::{Pool, Projected};

/// The requests of a recording, taken apart. Whatever is not here is read when it is asked for.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    pub(super) requests: HashMap<RequestId, Projected>,
    pub(super) pool: Pool,
}

impl Watch for Gathered {
    fn decoded(&mut self, asked: &Asked, document: &Document<'_>, prompt: &Prompt) {
        let projected = Projected::of_prompt(asked, document, prompt, &mut self.pool);
        self.requests.insert(asked.id.clone(), projected);
    }

    fn asked(&mut self, _: usize, _: &Asked, _: Option<&Prompt>) {}
    fn answered(&mut self, _: usize, _: &Answered, _: &Heard) {}
}
