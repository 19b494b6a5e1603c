//! Detects whether a harness is idle: none of its processes has used a processor for a while.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Time without activity after which a harness counts as idle.
const QUIET: Duration = Duration::from_millis(20);
/// Time between two samples.
const INTERVAL: Duration = Duration::from_millis(4);
/// Processor time in nanoseconds that an idle harness may use: timers that only read a clock.
const NEGLIGIBLE: u64 = 400_000;

/// Processor usage of a process and all its descendants.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CpuUsage {
    /// Nanoseconds on a processor, by thread.
    threads: HashMap<u32, u64>,
    /// True if a thread runs now, or waits for the disk.
    is_running: bool,
}

/// Waits until the process and all its descendants are idle or have ended, at most for `limit`. Returns whether they are.
pub(super) async fn wait_until_idle(pid: u32, limit: Duration) -> bool {
    let begun = Instant::now();
    let mut since = Instant::now();
    let mut base = sample(pid);
    loop {
        sleep(INTERVAL).await;
        let now = sample(pid);
        if now.threads.is_empty() {
            return true; // it has ended
        }
        if now.is_running || used_since(&base, &now) > NEGLIGIBLE {
            base = now;
            since = Instant::now();
        } else if since.elapsed() >= QUIET {
            return true;
        }
        if begun.elapsed() >= limit {
            return false;
        }
    }
}

fn used_since(before: &CpuUsage, now: &CpuUsage) -> u64 {
    let used = |(thread, used): (&u32, &u64)| {
        used.saturating_sub(before.threads.get(thread).copied().unwrap_or_default())
    };
    now.threads.iter().map(used).sum()
}

fn sample(root: u32) -> CpuUsage {
    let mut usage = CpuUsage { threads: HashMap::new(), is_running: false };
    let mut pids = vec![root];
    while let Some(pid) = pids.pop() {
        let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { continue };
        for task in tasks.flatten() {
            let Some(tid) = task.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let read = |file: &str| fs::read_to_string(task.path().join(file)).unwrap_or_default();
            let runtime = read("schedstat").split_whitespace().next().and_then(|ns| ns.parse().ok());
            usage.threads.insert(tid, runtime.unwrap_or_default());
            // The state follows the name, which may contain any character and ends with the last bracket.
            let stat = read("stat");
            let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
            usage.is_running |= matches!(state, Some('R' | 'D'));
            pids.extend(read("children").split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
    }
    usage
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_waiting_process_is_idle_and_a_working_one_is_not() {
        use std::os::unix::process::CommandExt as _;
        let shell = |script: &str| {
            let mut shell = std::process::Command::new("sh");
            shell.args(["-c", script]).process_group(0).spawn().expect("there is a shell")
        };
        let mut waiting = shell("sleep 60 & wait");
        let is_idle = wait_until_idle(waiting.id(), Duration::from_secs(20)).await;
        let mut working = shell("while :; do :; done & wait");
        let is_busy = !wait_until_idle(working.id(), Duration::from_millis(300)).await;
        for process in [&mut waiting, &mut working] {
            let group = format!("-{}", process.id());
            let killed = std::process::Command::new("kill").args(["-KILL", "--", &group]).status();
            assert!(killed.expect("there is a kill").success());
            process.wait().expect("it was killed");
        }
        assert!(is_idle && is_busy, "{is_idle} {is_busy}");
    }
}
