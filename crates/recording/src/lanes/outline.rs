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
    pub replies_digest: u64,
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
    replies_digests: HashMap<String, u64>,
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
        let followed = identity.follows.as_ref().and_then(|reply| self.replies_digests.get(reply)).copied();
        Outline {
            replies_digest: followed.unwrap_or(request.replies_digest()),
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

    /// Stores a reply to a request with that `replies_digest`. Returns the digest after the reply.
    pub fn learn(&mut self, replies_digest: u64, response: &LaneResponse) -> u64 {
        let Some(reply) = &response.reply else { return replies_digest };
        let atoms = atoms(reply);
        let after = atoms.iter().fold(replies_digest, |digest, atom| extended(digest, *atom));
        self.replies_digests.insert(reply.id.clone(), after);
        self.items.extend(response.items.iter().map(|item| (item.clone(), atoms.clone())));
        after
    }
}
