//! Outline of a request, which replay compares with recorded requests.

use std::collections::HashMap;

use session::Role;
use wire::dialect::Prompt;

use super::request::{Atom, InjectedText, InstructionDigests, LaneRequest, atoms, extended};
use super::{Identity, LaneResponse};

/// Features that distinguish the requests of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outline {
    /// Digest of all replies.
    pub spine: u64,
    /// Digest of the last reply's last call, or of its text.
    pub last: Option<u64>,
    /// Digest of all replies and of the harness's texts and results between them.
    pub history: u64,
    /// True if the request has no replies yet.
    pub is_first: bool,
    /// True if the harness offers tools of its own.
    pub has_tools: bool,
    /// True if the reply may have one token only: a warm-up or probe.
    pub is_probe: bool,
    /// Digest of the instructions without words that contain digits.
    pub system: u64,
    /// Digest of the tool names.
    pub tools: u64,
    /// Texts after the last reply.
    pub texts: Vec<String>,
}

/// Known replies, for requests that refer to them by id instead of carrying them.
#[derive(Clone, Debug, Default)]
pub struct Replies {
    items: HashMap<String, Vec<Atom>>,
    spines: HashMap<String, u64>,
}

/// Returns the texts of user messages, or all if there are none. System messages differ between versions.
fn said_by_user(newest: Vec<InjectedText>) -> Vec<String> {
    let is_user = |said: &InjectedText| said.role == Role::User;
    let any = newest.iter().any(is_user);
    newest.into_iter().filter(|said| !any || is_user(said)).map(|said| said.text).collect()
}

impl Replies {
    /// Builds the outline of a request.
    pub fn outline(&self, prompt: &Prompt, identity: &Identity) -> Outline {
        let request = LaneRequest::of(prompt, &self.items, &mut InstructionDigests::default());
        let followed = identity.follows.as_ref().and_then(|reply| self.spines.get(reply)).copied();
        Outline {
            spine: followed.unwrap_or(request.spine()),
            last: request.last_atom,
            history: request.history,
            is_first: followed.is_none() && request.is_first(),
            has_tools: request.has_tools,
            is_probe: request.is_probe,
            system: request.system,
            tools: request.tools,
            texts: said_by_user(request.new_texts),
        }
    }

    /// Stores a reply to a request with that spine. Returns the spine after the reply.
    pub fn learn(&mut self, spine: u64, response: &LaneResponse) -> u64 {
        let Some(reply) = &response.reply else { return spine };
        let atoms = atoms(reply);
        let after = atoms.iter().fold(spine, |spine, atom| extended(spine, *atom));
        self.spines.insert(reply.id.clone(), after);
        self.items.extend(response.items.iter().map(|item| (item.clone(), atoms.clone())));
        after
    }
}
