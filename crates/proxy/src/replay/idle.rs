//! Whether a harness is at rest: none of its processes runs or has run for a while.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// For how long nothing may have run.
const REST: Duration = Duration::from_millis(20);
/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(4);
/// What may run within that time all the same: timers that only look at a clock.
const NEGLIGIBLE: u64 = 400_000;

/// What a process and all it started have used.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Used {
    /// Nanoseconds on a processor, by thread.
    threads: HashMap<u32, u64>,
    /// One of them runs now, or waits for the disk.
    is_running: bool,
}

/// Waits until the process and all it started have come to rest, at most for `limit`. Whether they have.
pub(super) async fn rest(pid: u32, limit: Duration) -> bool {
    let begun = Instant::now();
    let mut since = Instant::now();
    let mut base = used(pid);
    loop {
        sleep(LOOK).await;
        let now = used(pid);
        if now.threads.is_empty() {
            return true; // it has ended
        }
        if now.is_running || grown(&base, &now) > NEGLIGIBLE {
            base = now;
            since = Instant::now();
        } else if since.elapsed() >= REST {
            return true;
        }
        if begun.elapsed() >= limit {
            return false;
        }
    }
}

fn grown(before: &Used, now: &Used) -> u64 {
    let grown = |(thread, used): (&u32, &u64)| {
        used.saturating_sub(before.threads.get(thread).copied().unwrap_or_default())
    };
    now.threads.iter().map(grown).sum()
}

fn used(root: u32) -> Used {
    let mut used = Used { threads: HashMap::new(), is_running: false };
    let mut pids = vec![root];
    while let Some(pid) = pids.pop() {
        let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { continue };
        for task in tasks.flatten() {
            let Some(tid) = task.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let read = |file: &str| fs::read_to_string(task.path().join(file)).unwrap_or_default();
            let runtime = read("schedstat").split_whitespace().next().and_then(|ns| ns.parse().ok());
            used.threads.insert(tid, runtime.unwrap_or_default());
            // The state stands behind the name, which may hold anything but ends with the last bracket.
            let stat = read("stat");
            let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
            used.is_running |= matches!(state, Some('R' | 'D'));
            pids.extend(read("children").split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_process_that_waits_is_at_rest_and_one_that_works_is_not() {
        use std::os::unix::process::CommandExt as _;
        let shell = |script: &str| {
            let mut shell = std::process::Command::new("sh");
            shell.args(["-c", script]).process_group(0).spawn().expect("there is a shell")
        };
        let mut waits = shell("sleep 60 & wait");
        let rested = rest(waits.id(), Duration::from_secs(20)).await;
        let mut works = shell("while :; do :; done & wait");
        let worked = !rest(works.id(), Duration::from_millis(300)).await;
        for process in [&mut waits, &mut works] {
            let group = format!("-{}", process.id());
            let killed = std::process::Command::new("kill").args(["-KILL", "--", &group]).status();
            assert!(killed.expect("there is a kill").success());
            process.wait().expect("it was killed");
        }
        assert!(rested && worked, "{rested} {worked}");
    }
}
