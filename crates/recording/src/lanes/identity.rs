//! Ids of the sender of a request.

use wire::dialect::Prompt;

/// Header of our own runs with the id of the run.
const OWN_AGENT: &str = "x-offshoot-agent";

/// Ids of a request's sender. Each may be missing: some versions of harnesses send none.
///
/// Ids separate requests that look alike. They join requests only as evidence of a compaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Session of the harness.
    pub session: Option<String>,
    /// Agent within the session.
    pub agent: Option<String>,
    /// Session that started this one.
    pub parent: Option<String>,
    /// Session id in the body, which all agents of a session may share.
    pub body: Option<String>,
    /// End user, if the program names one.
    pub user: Option<String>,
    /// Address that the request was sent to, without its query.
    pub endpoint: Option<String>,
    /// Id of the reply that the request continues, if it is sent instead of a history.
    pub follows: Option<String>,
}

impl Identity {
    /// Reads ids from headers by the words in their names, and from the known members of the body.
    pub fn of<'h>(
        headers: impl Iterator<Item = (&'h str, &'h str)>,
        body: &[u8],
        prompt: Option<&Prompt>,
    ) -> Self {
        let mut identity = Self::default();
        for (name, value) in headers {
            let name = name.to_ascii_lowercase();
            let names = |word: &str| name.split(['-', '_']).any(|part| part == word);
            let is_session = names("session") || names("conversation") || names("thread");
            let slot = match () {
                () if names("user") || names("stainless") => continue,
                () if names("parent") && (is_session || names("agent")) => &mut identity.parent,
                () if names("agent") && names("id") || name == OWN_AGENT => &mut identity.agent,
                () if is_session => &mut identity.session,
                () => continue,
            };
            slot.get_or_insert_with(|| value.to_owned());
        }
        if let Some(prompt) = prompt {
            identity.body = body_id(prompt, body);
            identity.user = plain(prompt, body, "user").or_else(|| plain(prompt, body, "safety_identifier"));
            identity.follows = plain(prompt, body, "previous_response_id");
        }
        identity
    }

    /// Takes the session from the header that the user named.
    pub fn with_session_header<'h>(
        mut self,
        name: Option<&str>,
        mut headers: impl Iterator<Item = (&'h str, &'h str)>,
    ) -> Self {
        if let Some(name) = name
            && let Some((_, value)) = headers.find(|(header, _)| header.eq_ignore_ascii_case(name))
        {
            self.session = Some(value.to_owned());
        }
        self
    }

    /// Returns whether both can be the same agent.
    pub(super) fn agrees_with(&self, other: &Self) -> bool {
        let differ = |a: &Option<String>, b: &Option<String>| matches!((a, b), (Some(a), Some(b)) if a != b);
        // With sessions named, a missing agent id means the session's main agent.
        let named = self.session.is_some() && other.session.is_some();
        let one_is_an_agent = named && self.agent.is_some() != other.agent.is_some();
        !differ(&self.session, &other.session)
            && !differ(&self.agent, &other.agent)
            && !differ(&self.body, &other.body)
            && !differ(&self.user, &other.user)
            && !one_is_an_agent
    }

    /// Returns whether an id shows that both are the same agent.
    pub(super) fn names_the_same_as(&self, other: &Self) -> bool {
        let same = |a: &Option<String>, b: &Option<String>| a.is_some() && a == b;
        self.agrees_with(other) && (same(&self.session, &other.session) || same(&self.agent, &other.agent))
    }

    /// Returns whether both may have been sent to the same address.
    pub(super) fn shares_endpoint_with(&self, other: &Self) -> bool {
        self.endpoint.is_none() || other.endpoint.is_none() || self.endpoint == other.endpoint
    }

    /// Copies the ids that are missing here.
    pub(super) fn learn(&mut self, other: &Self) {
        for (mine, theirs) in [
            (&mut self.session, &other.session),
            (&mut self.agent, &other.agent),
            (&mut self.parent, &other.parent),
            (&mut self.body, &other.body),
            (&mut self.user, &other.user),
            (&mut self.endpoint, &other.endpoint),
        ] {
            if mine.is_none() {
                mine.clone_from(theirs);
            }
        }
    }
}

/// Reads Anthropic's `metadata.user_id` or OpenAI's `prompt_cache_key`, which harnesses use for their session.
fn body_id(prompt: &Prompt, body: &[u8]) -> Option<String> {
    let metadata = || wire::json::peek_string(member(prompt, body, "metadata")?, "user_id");
    plain(prompt, body, "prompt_cache_key").or_else(metadata)
}

fn plain(prompt: &Prompt, body: &[u8], name: &str) -> Option<String> {
    serde_json::from_slice(member(prompt, body, name)?).ok()
}

fn member<'b>(prompt: &Prompt, body: &'b [u8], name: &str) -> Option<&'b [u8]> {
    body.get(prompt.setting(name)?.span.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(headers: &[(&str, &str)]) -> Identity {
        Identity::of(headers.iter().copied(), b"", None)
    }

    #[test]
    fn header_names_decide_the_kind_of_an_id() {
        let sub = identity(&[
            ("User-Agent", "x"),
            ("X-Claude-Code-Session-Id", "s"),
            ("x-claude-code-agent-id", "a"),
        ]);
        assert_eq!((sub.session.as_deref(), sub.agent.as_deref()), (Some("s"), Some("a")));
        let main = identity(&[("x-claude-code-session-id", "s")]);
        assert!(!main.agrees_with(&sub) && sub.agrees_with(&sub.clone()));
        let child = identity(&[("x-session-affinity", "c"), ("x-parent-session-id", "p")]);
        assert_eq!((child.session.as_deref(), child.parent.as_deref()), (Some("c"), Some("p")));
        assert_eq!(identity(&[("Session_Id", "s")]).session.as_deref(), Some("s"));
        assert!(identity(&[]).agrees_with(&sub), "who says nothing may be anyone");
        let ours = identity(&[("x-offshoot-session", "r"), ("x-offshoot-agent", "a"), ("x-agent", "b")]);
        assert_eq!((ours.session.as_deref(), ours.agent.as_deref()), (Some("r"), Some("a")));
        let named = |header: &str| {
            let headers = [("x-session-id", "one"), ("X-Chat", "two")];
            Identity::of(headers.into_iter(), b"", None)
                .with_session_header(Some(header), headers.into_iter())
                .session
        };
        assert_eq!(named("x-chat").as_deref(), Some("two"), "what the user says goes first");
        assert_eq!(named("x-other").as_deref(), Some("one"));
        assert_eq!(identity(&[("x-stainless-retry-count", "0"), ("user-agent", "id")]), Identity::default());
    }
}
