//! Named points at which a test may kill the process.
//!
//! Without the feature `crash-points` they do nothing. With it, `OFFSHOOT_CRASH=ask.intent.after:2` kills the process when
//! that point is reached for the second time, and `OFFSHOOT_CRASH_LOG=FILE` logs every point.

/// All points, in the order in which a run reaches them first.
pub const POINTS: &[&str] = &[
    "run.start.before",
    "run.start.after",
    "ask.intent.before",
    "ask.intent.after",
    "ask.first_byte",
    "ask.mid_stream",
    "ask.last_byte",
    "ask.commit.after",
    "hook.answer.before",
    "hook.answer.after",
    "call.intent.before",
    "call.intent.after",
    "call.effect.after",
    "call.commit.after",
    "ask.failed.before",
    "ask.failed.after",
    "ask.gave_up.before",
    "ask.gave_up.after",
    "ask.other.before",
    "ask.other.after",
    "compact.commit.before",
    "compact.commit.after",
    "run.end.before",
    "run.end.after",
    "resume.lease.before",
    "resume.lease.after",
    "resume.reopen.before",
    "resume.reopen.after",
    "resume.prompt.before",
    "resume.prompt.after",
    "spawn.before",
    "spawn.after",
    "send.before",
    "send.after",
    "continue.before",
    "continue.after",
    "park.before",
    "park.after",
    "wake.before",
    "wake.after",
    "inbox.before",
    "inbox.after",
    "fetch.before",
    "fetch.after",
    "cancel.before",
    "cancel.after",
    "job.end.before",
    "job.end.after",
    "job.made.before",
    "job.made.after",
    "child.resume.before",
    "child.resume.after",
    "fork.start.before",
    "fork.start.after",
];

#[cfg(not(feature = "crash-points"))]
pub(crate) fn point(_: &'static str) {}

/// Logs a line for a test.
#[cfg(not(feature = "crash-points"))]
pub(crate) fn note(_: &str) {}

#[cfg(feature = "crash-points")]
pub(crate) fn note(line: &str) {
    use std::io::Write as _;
    if let Some(log) = std::env::var_os("OFFSHOOT_CRASH_LOG") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(log);
        // One write, because other processes log at the same time.
        let _ = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
    }
}

#[cfg(feature = "crash-points")]
pub(crate) fn point(name: &'static str) {
    use std::collections::HashMap;
    use std::sync::{Mutex, OnceLock};

    static HITS: OnceLock<Mutex<HashMap<&'static str, u64>>> = OnceLock::new();

    debug_assert!(POINTS.contains(&name), "`{name}` is not in the list");
    let hits = HITS.get_or_init(Mutex::default).lock();
    let mut hits = hits.expect("lock is not poisoned");
    let hit = hits.entry(name).or_default();
    *hit += 1;
    note(name);
    let wanted = std::env::var("OFFSHOOT_CRASH").ok();
    let wanted = wanted.as_deref().and_then(|wanted| wanted.split_once(':'));
    if wanted.is_some_and(|(at, nth)| at == name && nth.parse() == Ok(*hit)) {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        loop {
            std::thread::park(); // the signal is on its way
        }
    }
}
