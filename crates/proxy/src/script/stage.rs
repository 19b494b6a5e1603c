//! The play under its lock, and the waiting for each other.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard};

use recording::lanes::{Heard, LaneTracker};
use session::RequestId;
use tokio::sync::watch;
use tokio::time::Instant;
use wire::dialect::{DecodedResponse, Dialect, Prompt};

use super::format::Pace;
use super::play::{Line, Miss, Play, Ticket};
use super::server::PriorConversation;
use super::{Script, ScriptReport, ask};
use crate::serve::identity;

/// What all connections share. Position and progress are decided under one lock, so that requests
/// that come at the same time still come one after the other.
#[derive(Debug)]
pub(super) struct Stage {
    state: Mutex<State>,
    /// Something was sent: whoever waits may look again.
    moved: watch::Sender<()>,
}

#[derive(Debug)]
struct State {
    tracker: LaneTracker,
    play: Play,
    arrivals: u64,
    report: ScriptReport,
    /// Reasons that were told already; harnesses try again, and once is enough.
    told: HashSet<String>,
}

impl Stage {
    pub(super) fn new(script: Script, workspace: String) -> Self {
        let state = State {
            tracker: LaneTracker::new(),
            play: Play::new(script, workspace),
            arrivals: 0,
            report: ScriptReport::default(),
            told: HashSet::new(),
        };
        Self { state: Mutex::new(state), moved: watch::Sender::new(()) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics while holding it")
    }

    /// A request came: its number, and its turn where there is one.
    pub(super) fn arrive(
        &self,
        prompt: &Prompt,
        headers: &[(String, Vec<u8>)],
        body: &[u8],
    ) -> (RequestId, Result<Ticket, Miss>) {
        let identity = identity(headers, body, prompt);
        let continues = ask::continued(prompt, body);
        let mut state = self.lock();
        state.arrivals += 1;
        let id = RequestId::nth(state.arrivals);
        let position = state.tracker.asked(&id, prompt, &identity);
        (id, state.play.take(prompt, position, continues))
    }

    /// Waits for whatever the turn waits for; then gives its words and their pace.
    pub(super) async fn cue(&self, ticket: &Ticket, prompt: &Prompt) -> Result<(Line, Pace), Miss> {
        let begun = Instant::now();
        // PriorConversation the first look, so that nothing is missed between two.
        let mut moved = self.moved.subscribe();
        loop {
            let deadline = {
                let mut state = self.lock();
                let unmet = state.play.unmet(ticket);
                let Some(first) = unmet.iter().min_by_key(|wait| wait.timeout()) else {
                    let line = state.play.say(ticket, prompt)?;
                    return Ok((line, state.play.pace(ticket)));
                };
                let deadline = begun + first.timeout();
                if deadline <= Instant::now() {
                    return Err(state.play.in_vain(ticket, first));
                }
                deadline
            };
            tokio::select! {
                _ = moved.changed() => {}
                () = tokio::time::sleep_until(deadline) => {}
            }
        }
    }

    /// A request that came before this script was there.
    pub(super) fn restore(&self, dialect: Dialect, before: &PriorConversation<'_>) {
        let PriorConversation { last_request: request, answered, failures: failed } = *before;
        let Ok(prompt) = dialect.decode_request(request) else { return };
        let said = answered.and_then(|(said, reply)| {
            let DecodedResponse::Reply(answer) = dialect.decode_reply(reply).ok()? else { return None };
            Some((dialect.decode_request(said).ok()?, answer.reply.calls().next().is_some()))
        });
        if answered.is_some() && said.is_none() {
            return; // where it stands cannot be told
        }
        let identity = identity(&[], request, &prompt);
        let mut state = self.lock();
        state.arrivals += 1;
        let id = RequestId::nth(state.arrivals);
        let position = state.tracker.asked(&id, &prompt, &identity);
        let heard = match answered {
            Some((_, reply)) => Heard::of(dialect, 200, reply),
            None => Heard::of(dialect, 500, b""), // whoever asks the same next is no twin
        };
        state.tracker.answered(&id, &heard);
        state.play.remember(&prompt, said.as_ref(), position, failed);
    }

    /// What a request is about to get in full, or what it got before its sender left.
    pub(super) fn answered(&self, id: &RequestId, heard: &Heard) {
        self.lock().tracker.answered(id, heard);
    }

    /// The last byte is out.
    pub(super) fn sent(&self, ticket: &Ticket, line: &Line) {
        let mut state = self.lock();
        state.play.sent(ticket, line);
        state.report.answered += 1;
        drop(state);
        self.moved.send_replace(());
    }

    /// A request that the script has nothing for.
    pub(super) fn missed(&self, miss: &Miss) {
        let mut state = self.lock();
        state.report.unanswered += 1;
        if state.told.insert(miss.0.clone()) {
            tracing::warn!("the scripted model cannot answer: {}", miss.0);
        }
        state.report.first_unanswered.get_or_insert_with(|| miss.0.clone());
    }

    pub(super) fn report(&self) -> ScriptReport {
        let state = self.lock();
        ScriptReport { unused: state.play.unused(), ..state.report.clone() }
    }

    /// The models that the script names.
    pub(super) fn models(&self) -> Vec<String> {
        self.lock().play.models().map(str::to_owned).collect()
    }
}
