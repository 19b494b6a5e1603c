//! A request's place in a conversation that is known already: what a replay goes by.

use std::collections::HashMap;

use session::Role;
use wire::dialect::Prompt;

use super::asking::{Asking, Atom, Said, Voices, atoms, extended};
use super::{Heard, Identity};

/// What tells one request of a recording from another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outline {
    /// Everything the model had said, as a number: equal where it had said the same.
    pub spine: u64,
    /// What it had said last.
    pub last: Option<u64>,
    /// The same with what the harness said in between.
    pub history: u64,
    /// The model had said nothing yet.
    pub is_first: bool,
    /// The harness offers tools of its own.
    pub has_tools: bool,
    /// Room for one word only: it warms up or probes.
    pub is_probe: bool,
    /// What the instructions look like, numbers and ids aside.
    pub system: u64,
    /// The names of the tools.
    pub tools: u64,
    /// The texts behind the model's last words.
    pub texts: Vec<String>,
}

/// What replies have said, for requests that refer to them instead of carrying them.
#[derive(Clone, Debug, Default)]
pub struct Replies {
    items: HashMap<String, Vec<Atom>>,
    spines: HashMap<String, u64>,
}

/// What the user's side said; what versions put beside it in the system's name tells nobody apart.
fn said_by_user(newest: Vec<Said>) -> Vec<String> {
    let is_user = |said: &Said| said.role == Role::User;
    let any = newest.iter().any(is_user);
    newest.into_iter().filter(|said| !any || is_user(said)).map(|said| said.text).collect()
}

impl Replies {
    /// Distils a request.
    pub fn outline(&self, prompt: &Prompt, identity: &Identity) -> Outline {
        let asking = Asking::of(prompt, &self.items, &mut Voices::default());
        let followed = identity.follows.as_ref().and_then(|reply| self.spines.get(reply)).copied();
        Outline {
            spine: followed.unwrap_or(asking.spine()),
            last: asking.last,
            history: asking.history,
            is_first: followed.is_none() && asking.is_first(),
            has_tools: asking.has_tools,
            is_probe: asking.is_probe,
            system: asking.system,
            tools: asking.tools,
            texts: said_by_user(asking.newest),
        }
    }

    /// Remembers a reply to a request with that spine; gives the spine of what is said with it.
    pub fn learn(&mut self, spine: u64, heard: &Heard) -> u64 {
        let Some(reply) = &heard.reply else { return spine };
        let atoms = atoms(reply);
        let after = atoms.iter().fold(spine, |spine, atom| extended(spine, *atom));
        self.spines.insert(reply.id.clone(), after);
        self.items.extend(heard.items.iter().map(|item| (item.clone(), atoms.clone())));
        after
    }
}
