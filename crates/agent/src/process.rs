//! Processes, identified by number and start time.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};

use session::RunId;
use store::{Lease, Store};

use crate::error::RunError;

/// Returns the lease of this process.
pub(crate) fn lease() -> Lease {
    let pid = std::process::id();
    Lease { pid, start: started(pid).unwrap_or(0) }
}

/// Returns whether the process of a lease still runs. A later process with the same number is another one.
pub fn is_lease_holder_alive(lease: Lease) -> bool {
    started(lease.pid) == Some(lease.start)
}

/// Returns the start time of a process, in ticks since the system was booted. `None` if it is gone or a zombie.
#[cfg(target_os = "linux")]
pub(crate) fn started(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may contain a closing bracket, so the fields start after the last one.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let start = fields.nth(18)?;
    if matches!(state, "Z" | "X") { None } else { start.parse().ok() }
}

/// Other systems only know the number.
#[cfg(not(target_os = "linux"))]
pub(crate) fn started(pid: u32) -> Option<u64> {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).ok()?)?;
    rustix::process::test_kill_process(pid).is_ok().then_some(0)
}

/// The runs whose loops run in this process. A lease excludes other processes, this set excludes a second loop.
static AT_WORK: Mutex<BTreeSet<(PathBuf, RunId)>> = Mutex::new(BTreeSet::new());

/// Excludes other loops of the run in this process while it lives.
pub(crate) struct AtWork((PathBuf, RunId));

impl AtWork {
    pub(crate) fn on(store: &Store, run: &RunId) -> Result<Self, RunError> {
        let run = (store.path().to_owned(), run.clone());
        match at_work().insert(run.clone()) {
            true => Ok(Self(run)),
            false => Err(RunError::AlreadyRunning(run.1)),
        }
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        at_work().remove(&self.0);
    }
}

fn at_work() -> MutexGuard<'static, BTreeSet<(PathBuf, RunId)>> {
    AT_WORK.lock().expect("lock is not poisoned")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_an_earlier_one_with_its_number_does_not() {
        let ours = lease();
        assert!(is_lease_holder_alive(ours));
        assert!(!is_lease_holder_alive(Lease { start: ours.start + 1, ..ours }));
        let mut child = std::process::Command::new("true").spawn().expect("`true` can be started");
        let theirs = Lease { pid: child.id(), start: started(child.id()).unwrap_or(0) };
        child.wait().expect("it can be waited for");
        assert!(!is_lease_holder_alive(theirs));
    }
}
