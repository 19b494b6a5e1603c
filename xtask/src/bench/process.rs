//! What a process and its children have used, as Linux counts it.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::command::wait;

/// Linux reports times in hundredths of a second on every platform, whatever its own clock does.
const TICK: Duration = Duration::from_millis(10);

/// What a program used from its beginning to its end.
pub(super) struct Used {
    pub(super) took: Duration,
    /// User and system time.
    pub(super) cpu: Duration,
    /// The most memory it ever held, in bytes.
    pub(super) memory: u64,
    pub(super) status: ExitStatus,
}

/// Runs `command` to its end; what it prints is nobody's business.
pub(super) fn run(command: &mut Command) -> Result<Used> {
    let begin = Instant::now();
    let mut child = command.stdout(Stdio::null()).spawn().context("could not start what is measured")?;
    let (mut memory, mut cpu) = (0, Duration::ZERO);
    loop {
        // Only this one process is looked at: to look for others among all would take time from what is measured.
        let read = |name: &str| fs::read_to_string(format!("/proc/{}/{name}", child.id())).ok();
        memory = memory.max(read("status").and_then(|status| peak_memory(&status)).unwrap_or_default());
        cpu =
            cpu.max(read("stat").and_then(|line| Some(TICK * Stat::parse(&line)?.ticks)).unwrap_or_default());
        if let Some(status) = child.try_wait()? {
            return Ok(Used { took: begin.elapsed(), cpu, memory, status });
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Runs `command` to its end, and counts whatever it starts too; ends it when it takes longer than `patience`.
///
/// Nobody else may wait for a child of ours meanwhile: its time would be counted, too.
pub(super) fn run_tree(command: &mut Command, patience: Duration) -> Result<Used> {
    let before = waited_for()?;
    let begin = Instant::now();
    let mut child = command.spawn().context("could not start what is measured")?;
    let tree = Tree::of(child.id());
    let is_running = AtomicBool::new(true);
    let (ended, took, memory) = thread::scope(|scope| {
        let memory = scope.spawn(|| tree.watch_memory(&is_running));
        let ended = wait(&mut child, begin + patience, "it did not come to an end");
        let took = begin.elapsed();
        is_running.store(false, Ordering::Relaxed);
        (ended, took, memory.join().expect("it only reads files"))
    });
    Ok(Used { took, cpu: waited_for()?.saturating_sub(before), memory, status: ended? })
}

/// User and system time of all our children that have ended, and of theirs.
fn waited_for() -> Result<Duration> {
    let line = fs::read_to_string("/proc/self/stat").context("could not read `/proc/self/stat`")?;
    Ok(TICK * Stat::parse(&line).context("`/proc/self/stat` is not as it should be")?.waited_for)
}

/// A process and everything it started.
#[derive(Clone, Copy)]
pub(super) struct Tree {
    root: u32,
}

impl Tree {
    pub(super) fn of(root: u32) -> Tree {
        Tree { root }
    }

    /// User and system time of all threads of all its processes so far.
    pub(super) fn cpu(self) -> Duration {
        self.processes().values().map(|stat| TICK * stat.ticks).sum()
    }

    /// The most memory its processes ever held, in bytes; pages they share count for each.
    pub(super) fn peak_memory(self) -> u64 {
        self.processes()
            .keys()
            .filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/status")).ok())
            .filter_map(|status| peak_memory(&status))
            .sum()
    }

    /// The most memory its processes held at any time, while it runs.
    fn watch_memory(self, is_running: &AtomicBool) -> u64 {
        let own = || peak_memory(&fs::read_to_string(format!("/proc/{}/status", self.root)).ok()?);
        let mut most = 0;
        for look in 0.. {
            if !is_running.load(Ordering::Relaxed) {
                break;
            }
            // To look for others among all takes time from what is measured, so that is done less often.
            let now = if look % 16 == 0 { self.peak_memory() } else { own().unwrap_or_default() };
            most = most.max(now);
            thread::sleep(Duration::from_millis(2));
        }
        most
    }

    /// Waits until nothing has been used for a while; `false` when that takes longer than `patience`.
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

    /// The living processes of the tree by their ids.
    fn processes(self) -> BTreeMap<u32, Stat> {
        let Ok(entries) = fs::read_dir("/proc") else { return BTreeMap::new() };
        let all: BTreeMap<u32, Stat> = entries
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .filter_map(|pid| {
                Some((pid, Stat::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?))
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
struct Stat {
    parent: u32,
    ticks: u32,
    /// Of its children that have ended.
    waited_for: u32,
}

impl Stat {
    /// Reads a line of `/proc/PID/stat`, in which the second field, the name, may hold anything.
    fn parse(line: &str) -> Option<Stat> {
        let mut fields = line.rsplit_once(')')?.1.split_ascii_whitespace();
        let parent = fields.nth(1)?.parse().ok()?;
        let user: u32 = fields.nth(9)?.parse().ok()?;
        let mut next = || fields.next()?.parse::<u32>().ok();
        let (system, their_user, their_system) = (next()?, next()?, next()?);
        Some(Stat { parent, ticks: user + system, waited_for: their_user + their_system })
    }
}

/// The high-water mark in a `/proc/PID/status`, in bytes.
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
        assert_eq!(Stat::parse(line), Some(Stat { parent: 7, ticks: 42, waited_for: 11 }));
    }

    #[test]
    fn the_high_water_mark_is_in_kilobytes() {
        assert_eq!(peak_memory("Name:\tx\nVmHWM:\t    1536 kB\nVmRSS:\t 12 kB\n"), Some(1536 * 1024));
        assert_eq!(peak_memory("Name:\tkthread\n"), None);
    }

    #[test]
    fn what_a_child_starts_is_counted_with_it() {
        let script = "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'; exit 3";
        let used = run_tree(Command::new("sh").args(["-c", script]), Duration::from_secs(60)).expect("ran");
        assert_eq!(used.status.code(), Some(3));
        assert!(used.cpu >= TICK, "{:?} in {:?}", used.cpu, used.took);
        assert!(used.memory > 100_000);
        let hangs = run_tree(Command::new("sleep").arg("60"), Duration::from_millis(50));
        assert!(hangs.is_err());
    }

    #[test]
    fn our_own_work_is_counted() {
        let us = Tree::of(std::process::id());
        let before = us.cpu();
        let end = Instant::now() + Duration::from_secs(20);
        while us.cpu() == before {
            assert!(Instant::now() < end, "20 s of work, and none was counted");
        }
        assert!(us.peak_memory() > 1024 * 1024);
    }
}
