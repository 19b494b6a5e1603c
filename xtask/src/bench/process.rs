//! Resource usage of a process and its children, as Linux counts it.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::command::wait;

/// Unit of the times that Linux reports.
const TICK: Duration = Duration::from_millis(10);

/// Resource usage of a program from start to end.
pub(super) struct ResourceUsage {
    pub(super) took: Duration,
    /// User and system time.
    pub(super) cpu: Duration,
    /// Peak memory in bytes.
    pub(super) memory: u64,
    pub(super) status: ExitStatus,
}

/// Runs `command` until it ends, without its output.
pub(super) fn run(command: &mut Command) -> Result<ResourceUsage> {
    let begin = Instant::now();
    let mut child = command.stdout(Stdio::null()).spawn().context("cannot start the measured program")?;
    let (mut memory, mut cpu) = (0, Duration::ZERO);
    loop {
        // Only this process is sampled, because a search among all processes would disturb the measurement.
        let read = |name: &str| fs::read_to_string(format!("/proc/{}/{name}", child.id())).ok();
        memory = memory.max(read("status").and_then(|status| peak_memory(&status)).unwrap_or_default());
        cpu = cpu.max(
            read("stat").and_then(|line| Some(TICK * ProcStat::parse(&line)?.ticks)).unwrap_or_default(),
        );
        if let Some(status) = child.try_wait()? {
            return Ok(ResourceUsage { took: begin.elapsed(), cpu, memory, status });
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Runs `command` until it ends, and counts its descendants. Kills it after `patience`.
///
/// No other child may be waited for meanwhile, because its time would be counted, too.
pub(super) fn run_tree(command: &mut Command, patience: Duration) -> Result<ResourceUsage> {
    let before = children_cpu()?;
    let begin = Instant::now();
    let mut child = command.spawn().context("cannot start the measured program")?;
    let tree = ProcessTree::new(child.id());
    let is_running = AtomicBool::new(true);
    let (ended, took, memory) = thread::scope(|scope| {
        let memory = scope.spawn(|| tree.watch_memory(&is_running));
        let ended = wait(&mut child, begin + patience, "the measured program did not end");
        let took = begin.elapsed();
        is_running.store(false, Ordering::Relaxed);
        (ended, took, memory.join().expect("the thread only reads files"))
    });
    Ok(ResourceUsage { took, cpu: children_cpu()?.saturating_sub(before), memory, status: ended? })
}

/// Returns user and system time of all descendants that have ended.
fn children_cpu() -> Result<Duration> {
    let line = fs::read_to_string("/proc/self/stat").context("cannot read `/proc/self/stat`")?;
    Ok(TICK * ProcStat::parse(&line).context("unknown format of `/proc/self/stat`")?.children_ticks)
}

/// A process and its descendants.
#[derive(Clone, Copy)]
pub(super) struct ProcessTree {
    root: u32,
}

impl ProcessTree {
    pub(super) fn new(root: u32) -> ProcessTree {
        ProcessTree { root }
    }

    /// Returns user and system time of all its processes so far.
    pub(super) fn cpu(self) -> Duration {
        self.processes().values().map(|stat| TICK * stat.ticks).sum()
    }

    /// Returns the sum of the peak memory of its processes in bytes. Shared pages count for each process.
    pub(super) fn peak_memory(self) -> u64 {
        self.processes()
            .keys()
            .filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/status")).ok())
            .filter_map(|status| peak_memory(&status))
            .sum()
    }

    /// Returns the peak memory of its processes while it runs.
    fn watch_memory(self, is_running: &AtomicBool) -> u64 {
        let own = || peak_memory(&fs::read_to_string(format!("/proc/{}/status", self.root)).ok()?);
        let mut most = 0;
        for sample in 0.. {
            if !is_running.load(Ordering::Relaxed) {
                break;
            }
            // The search for descendants disturbs the measurement, so it is done less often.
            let now = if sample % 16 == 0 { self.peak_memory() } else { own().unwrap_or_default() };
            most = most.max(now);
            thread::sleep(Duration::from_millis(2));
        }
        most
    }

    /// Waits until no CPU time is used for a while. Returns `false` after `patience`.
    pub(super) fn settle(self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        let mut quiet = 0;
        let mut before = self.cpu();
        while quiet < 4 {
            if Instant::now() > deadline {
                return false;
            }
            thread::sleep(Duration::from_millis(40));
            let now = self.cpu();
            quiet = if now == before { quiet + 1 } else { 0 };
            before = now;
        }
        true
    }

    /// Returns the living processes by their ids.
    fn processes(self) -> BTreeMap<u32, ProcStat> {
        let Ok(entries) = fs::read_dir("/proc") else { return BTreeMap::new() };
        let all: BTreeMap<u32, ProcStat> = entries
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter_map(|pid| {
                Some((pid, ProcStat::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?))
            })
            .collect();
        let descends = |mut pid: u32| {
            while pid != self.root {
                match all.get(&pid) {
                    Some(stat) => pid = stat.parent,
                    None => return false,
                }
            }
            true
        };
        all.iter().filter(|(pid, _)| descends(**pid)).map(|(pid, stat)| (*pid, *stat)).collect()
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct ProcStat {
    parent: u32,
    ticks: u32,
    /// Time of its children that have ended.
    children_ticks: u32,
}

impl ProcStat {
    /// Parses `/proc/PID/stat`. The second field is the name, which may contain any character.
    fn parse(line: &str) -> Option<ProcStat> {
        let mut fields = line.rsplit_once(')')?.1.split_ascii_whitespace();
        let parent = fields.nth(1)?.parse().ok()?;
        let user: u32 = fields.nth(9)?.parse().ok()?;
        let mut next = || fields.next()?.parse::<u32>().ok();
        let (system, their_user, their_system) = (next()?, next()?, next()?);
        Some(ProcStat { parent, ticks: user + system, children_ticks: their_user + their_system })
    }
}

/// Returns the peak memory in `/proc/PID/status` in bytes.
fn peak_memory(status: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_spaces_and_brackets() {
        let line = "42 (a) b (c) S 7 42 42 0 -1 4194304 100 0 0 0 31 11 5 6 20 0 1 0 100 1000 10";
        assert_eq!(ProcStat::parse(line), Some(ProcStat { parent: 7, ticks: 42, children_ticks: 11 }));
    }

    #[test]
    fn the_high_water_mark_is_in_kilobytes() {
        assert_eq!(peak_memory("Name:\tx\nVmHWM:\t    1536 kB\nVmRSS:\t 12 kB\n"), Some(1536 * 1024));
        assert_eq!(peak_memory("Name:\tkthread\n"), None);
    }

    #[test]
    fn descendants_are_counted() {
        let script = "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'; exit 3";
        let used = run_tree(Command::new("sh").args(["-c", script]), Duration::from_secs(60)).expect("ran");
        assert_eq!(used.status.code(), Some(3));
        assert!(used.cpu >= TICK, "{:?} in {:?}", used.cpu, used.took);
        assert!(used.memory > 100_000);
        let hangs = run_tree(Command::new("sleep").arg("60"), Duration::from_millis(50));
        assert!(hangs.is_err());
    }

    #[test]
    fn own_work_is_counted() {
        let us = ProcessTree::new(std::process::id());
        let before = us.cpu();
        let end = Instant::now() + Duration::from_secs(20);
        while us.cpu() == before {
            assert!(Instant::now() < end, "no CPU time was counted in 20 s");
        }
        assert!(us.peak_memory() > 1024 * 1024);
    }
}
