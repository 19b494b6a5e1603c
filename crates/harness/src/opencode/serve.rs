//! Drives a conversation with `opencode serve`: sends the prompt and waits until all agents are idle.
//!
//! The API does not report the end of a run. An idle main agent is woken when its background tasks end: at
//! once or after some seconds, once for each or once for all. So a run has ended when no agent has worked for
//! a while. The wait is longer if a sub-agent worked last.

use std::collections::BTreeSet;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::api::Api;
use super::model::Model;
use super::{ABORT, SERVE};
use crate::adapter::Plan;
use crate::error::HarnessError;
use crate::launch::HarnessFuture;
use crate::sandbox::Sandbox;
use crate::supervisor::{ProgramExit, Supervisor};

/// Interval between two checks.
const LOOK: Duration = Duration::from_millis(200);
/// Idle time after the main agent's last work. oh-my-opencode 4 takes up to seven seconds to report a task.
const SETTLED: Duration = Duration::from_secs(8);
/// Idle time after a sub-agent's last work, which the main agent may not know of yet.
const UNHEARD: Duration = Duration::from_secs(20);
/// Time for which a sub-agent must be the only busy one before it is aborted: longer than others need to
/// start.
const ALONE: Duration = Duration::from_secs(3);
const SIGTERM: i32 = 15;
/// Ports that a capture may use itself.
const TAKEN: std::ops::Range<u16> = 47_600..47_900;

/// Waits for `run`, or drives `serve` until its run has ended.
pub(crate) fn drive<'a>(
    plan: &'a Plan,
    sandbox: &'a Sandbox,
    supervisor: &'a mut Supervisor,
) -> HarnessFuture<'a, Result<ProgramExit, HarnessError>> {
    match plan.mode.as_deref() {
        Some(SERVE | ABORT) => Box::pin(run_session(plan, sandbox, supervisor)),
        _ => supervisor.wait(),
    }
}

async fn run_session(
    plan: &Plan,
    sandbox: &Sandbox,
    supervisor: &mut Supervisor,
) -> Result<ProgramExit, HarnessError> {
    let model = Model::of(&plan.model)?;
    let mut api = Api::reach(&mut *supervisor, chosen_port(sandbox)?).await?;
    let main = api.create().await?;
    api.prompt(&main, &model, &plan.prompt).await?;
    let mut watch = ActivityWatch::begin(main, Instant::now());
    let mut to_abort = plan.mode.as_deref() == Some(ABORT);
    loop {
        sleep(LOOK).await;
        let busy = api.busy().await?;
        watch.observe(&busy, Instant::now());
        if to_abort && let Some(last) = watch.last_at_work(Instant::now()) {
            api.abort(&last).await?;
            to_abort = false;
        }
        if watch.is_quiet(Instant::now()) {
            // Work between two checks shows in the number of messages.
            let messages = api.messages(&watch.main).await?;
            if !watch.has_more(messages, Instant::now()) {
                break;
            }
        }
    }
    let sessions = descendants(&mut api, &watch.main).await?;
    let list = sessions_file(sandbox);
    fs::write(&list, sessions.join("\n")).map_err(HarnessError::io("write", &list))?;
    let ended = supervisor.end().await?;
    // Ending by SIGTERM is a success.
    let code = if ended.code == 128 + SIGTERM { 0 } else { ended.code };
    Ok(ProgramExit { code, ..ended })
}

/// The observed activity of a run.
struct ActivityWatch {
    main: String,
    main_last: Instant,
    sub_last: Option<Instant>,
    /// The only busy sub-agent and since when it is the only one.
    alone: Option<(String, Instant)>,
    messages: usize,
}

impl ActivityWatch {
    fn begin(main: String, now: Instant) -> Self {
        Self { main, main_last: now, sub_last: None, alone: None, messages: 0 }
    }

    fn observe(&mut self, busy: &BTreeSet<String>, now: Instant) {
        if busy.contains(&self.main) {
            self.main_last = now;
        }
        let subs: Vec<&String> = busy.iter().filter(|session| **session != self.main).collect();
        if !subs.is_empty() {
            self.sub_last = Some(now);
        }
        self.alone = match (subs.as_slice(), self.alone.take()) {
            ([one], Some((was, since))) if **one == was => Some((was, since)),
            ([one], _) => Some(((*one).clone(), now)),
            _ => None,
        };
    }

    fn is_quiet(&self, now: Instant) -> bool {
        match self.sub_last {
            Some(last) if last > self.main_last => now - last > UNHEARD,
            Some(last) => now - self.main_last.max(last) > SETTLED,
            None => now - self.main_last > SETTLED,
        }
    }

    /// Compares the number of main messages with the last call. A higher number means unseen work.
    fn has_more(&mut self, messages: usize, now: Instant) -> bool {
        let first = self.messages == 0;
        let more = messages > self.messages;
        self.messages = messages;
        // The first count only serves as a baseline.
        if more && !first {
            self.main_last = now;
        }
        more
    }

    /// Returns the sub-agent that has been the only busy one for a while.
    fn last_at_work(&self, now: Instant) -> Option<String> {
        let (session, since) = self.alone.as_ref()?;
        (now - *since > ALONE).then(|| session.clone())
    }
}

/// Returns a session and all its descendants, itself first.
async fn descendants(api: &mut Api<'_>, main: &str) -> Result<Vec<String>, HarnessError> {
    let mut sessions = vec![main.to_owned()];
    let mut next = 0;
    while let Some(session) = sessions.get(next).cloned() {
        next += 1;
        let children = api.children(&session).await?;
        sessions.extend(children.into_iter().filter(|child| *child != session));
    }
    Ok(sessions)
}

/// The file with the sessions of a run, the main one first, one per line. Only `serve` writes it.
pub(super) fn sessions_file(sandbox: &Sandbox) -> PathBuf {
    sandbox.scratch().join("sessions.txt")
}

fn port_file(sandbox: &Sandbox) -> PathBuf {
    sandbox.scratch().join("port.txt")
}

/// Chooses a port for the server and stores it.
pub(super) fn choose_port(sandbox: &Sandbox) -> Result<u16, HarnessError> {
    let failed = || HarnessError::io("listen on", "loopback");
    let port = loop {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed())?;
        let port = free.local_addr().map_err(failed())?.port();
        if !TAKEN.contains(&port) {
            break port;
        }
    };
    let path = port_file(sandbox);
    fs::write(&path, port.to_string()).map_err(HarnessError::io("write", &path))?;
    Ok(port)
}

fn chosen_port(sandbox: &Sandbox) -> Result<u16, HarnessError> {
    let path = port_file(sandbox);
    let noted = fs::read_to_string(&path).map_err(HarnessError::io("read", &path))?;
    Ok(noted.trim().parse().expect("we wrote a port into it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy(sessions: &[&str]) -> BTreeSet<String> {
        sessions.iter().map(|session| (*session).to_owned()).collect()
    }

    /// Creates a watch with these observations, a second apart. Returns it with the time of the last one.
    fn watched(looks: &[&[&str]]) -> (ActivityWatch, Instant) {
        let begin = Instant::now();
        let mut watch = ActivityWatch::begin("main".into(), begin);
        for (second, sessions) in (1..).zip(looks) {
            watch.observe(&busy(sessions), begin + Duration::from_secs(second));
        }
        (watch, begin + Duration::from_secs(looks.len() as u64))
    }

    #[test]
    fn an_unseen_sub_agent_gets_a_longer_wait() {
        let after = |seconds| Duration::from_secs(seconds);
        let (alone, end) = watched(&[&["main"], &["main"]]);
        assert!(!alone.is_quiet(end + after(7)) && alone.is_quiet(end + after(9)));
        let (unheard, end) = watched(&[&["main"], &["main", "a"], &["a"]]);
        assert!(!unheard.is_quiet(end + after(15)) && unheard.is_quiet(end + after(21)));
        let (heard, end) = watched(&[&["main"], &["main", "a"], &["a"], &["main"]]);
        assert!(heard.is_quiet(end + after(9)));
    }

    #[test]
    fn unexpected_messages_restart_the_wait() {
        let (mut watch, end) = watched(&[&["main"]]);
        let later = end + Duration::from_secs(9);
        assert!(watch.has_more(3, later) && watch.is_quiet(later), "the first count is only compared with");
        assert!(!watch.has_more(3, later));
        assert!(watch.has_more(4, later) && !watch.is_quiet(later));
    }

    #[test]
    fn the_last_at_work_has_been_alone_for_a_while() {
        let (both, end) = watched(&[&["main", "a", "b"], &["a", "b"], &["a", "b"], &["a", "b"], &["a"]]);
        assert_eq!(both.last_at_work(end), None);
        let (last, end) = watched(&[&["main", "a"], &["b"], &["b"], &["main", "b"], &["b"], &["b"]]);
        assert_eq!(last.last_at_work(end), Some("b".to_owned()));
    }
}
