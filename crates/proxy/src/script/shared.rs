//! The state of a scripted model that all connections share, and the waits for each other.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard};

use recording::lanes::{LaneResponse, LaneTracker};
use session::RequestId;
use tokio::sync::watch;
use tokio::time::Instant;
use wire::dialect::{DecodedResponse, Dialect, Prompt};

use super::format::ScriptPace;
use super::player::{ClaimedTurn, ScriptMiss, ScriptPlayer, ScriptedReply};
use super::{Script, ScriptReport, prompt_text};
use crate::serve::identity;

/// The state that all connections share. Position and progress are decided under one lock, so that concurrent requests are
/// still ordered.
#[derive(Debug)]
pub(super) struct SharedScript {
    state: Mutex<ScriptState>,
    /// Notified when a request came or a reply was sent.
    progress: watch::Sender<()>,
}

/// A conversation that another scripted model served before this one started.
#[derive(Clone, Copy, Debug)]
pub struct PriorConversation<'a> {
    /// Last answered request, or the first request if none was answered.
    pub last_request: &'a [u8],
    /// That request with its reply appended to the messages, and the raw bytes of the reply.
    pub answered: Option<(&'a [u8], &'a [u8])>,
    /// Number of error responses since then.
    pub failures: u32,
}

#[derive(Debug)]
struct ScriptState {
    tracker: LaneTracker,
    player: ScriptPlayer,
    arrivals: u64,
    report: ScriptReport,
    /// Reasons that were logged. Harnesses retry, and one line is enough.
    logged: HashSet<String>,
}

impl SharedScript {
    pub(super) fn new(script: Script, workspace: String) -> Self {
        let state = ScriptState {
            tracker: LaneTracker::new(),
            player: ScriptPlayer::new(script, workspace),
            arrivals: 0,
            report: ScriptReport::default(),
            logged: HashSet::new(),
        };
        Self { state: Mutex::new(state), progress: watch::Sender::new(()) }
    }

    fn lock(&self) -> MutexGuard<'_, ScriptState> {
        self.state.lock().expect("lock is not poisoned")
    }

    /// Claims a turn for a request. Returns the number of the request, and its turn if there is one.
    pub(super) fn claim(
        &self,
        prompt: &Prompt,
        headers: &[(String, Vec<u8>)],
        body: &[u8],
    ) -> (RequestId, Result<ClaimedTurn, ScriptMiss>) {
        let identity = identity(headers, body, prompt);
        let continues = prompt_text::continued(prompt, body);
        let mut state = self.lock();
        state.arrivals += 1;
        let id = RequestId::nth(state.arrivals);
        let position = state.tracker.add_request(&id, prompt, &identity);
        let claimed = state.player.claim(prompt, position, continues);
        drop(state);
        self.progress.send_replace(());
        (id, claimed)
    }

    /// Waits as the turn demands, and returns its reply and pace.
    pub(super) async fn wait_for_reply(
        &self,
        claimed: &ClaimedTurn,
        prompt: &Prompt,
    ) -> Result<(ScriptedReply, ScriptPace), ScriptMiss> {
        let begun = Instant::now();
        // Subscribed before the first check, so that no change is missed between two checks.
        let mut progress = self.progress.subscribe();
        loop {
            let deadline = {
                let mut state = self.lock();
                let unmet = state.player.unmet_waits(claimed);
                let Some(first) = unmet.iter().min_by_key(|wait| wait.timeout()) else {
                    let reply = state.player.reply(claimed, prompt)?;
                    return Ok((reply, state.player.pace(claimed)));
                };
                let deadline = begun + first.timeout();
                if deadline <= Instant::now() {
                    return Err(state.player.timeout_miss(claimed, first));
                }
                deadline
            };
            tokio::select! {
                _ = progress.changed() => {}
                () = tokio::time::sleep_until(deadline) => {}
            }
        }
    }

    /// Adds a conversation that an earlier scripted model served.
    pub(super) fn restore(&self, dialect: Dialect, before: &PriorConversation<'_>) {
        let PriorConversation { last_request: request, answered, failures } = *before;
        let Ok(prompt) = dialect.decode_request(request) else { return };
        let last_reply = answered.and_then(|(request, reply)| {
            let DecodedResponse::Reply(answer) = dialect.decode_reply(reply).ok()? else { return None };
            Some((dialect.decode_request(request).ok()?, answer.reply.calls().next().is_some()))
        });
        if answered.is_some() && last_reply.is_none() {
            return; // its position is unknown
        }
        let identity = identity(&[], request, &prompt);
        let mut state = self.lock();
        state.arrivals += 1;
        let id = RequestId::nth(state.arrivals);
        let position = state.tracker.add_request(&id, &prompt, &identity);
        let heard = match answered {
            Some((_, reply)) => LaneResponse::decode(dialect, 200, reply),
            None => LaneResponse::decode(dialect, 500, b""), // the next equal request is a retry, not a twin
        };
        state.tracker.add_response(&id, &heard);
        state.player.restore(&prompt, last_reply.as_ref(), position, failures);
    }

    /// Notes the response that a request is about to get, or the part that it got before its client left.
    pub(super) fn answered(&self, id: &RequestId, heard: &LaneResponse) {
        self.lock().tracker.add_response(id, heard);
    }

    /// Notes that a reply was sent.
    pub(super) fn mark_sent(&self, claimed: &ClaimedTurn, reply: &ScriptedReply) {
        let mut state = self.lock();
        state.player.mark_sent(claimed, reply);
        state.report.answered += 1;
        drop(state);
        self.progress.send_replace(());
    }

    /// Counts a request without a reply.
    pub(super) fn add_miss(&self, miss: &ScriptMiss) {
        let mut state = self.lock();
        state.report.unanswered += 1;
        if state.logged.insert(miss.0.clone()) {
            tracing::warn!("scripted model: {}", miss.0);
        }
        state.report.first_unanswered.get_or_insert_with(|| miss.0.clone());
    }

    pub(super) fn report(&self) -> ScriptReport {
        let state = self.lock();
        ScriptReport { unused: state.player.unused(), ..state.report.clone() }
    }

    /// Returns the models that the script names.
    pub(super) fn models(&self) -> Vec<String> {
        self.lock().player.models().map(str::to_owned).collect()
    }
}
