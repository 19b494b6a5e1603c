//! The outermost process of a command: all others descend from it, and it ends them all.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode, ExitStatus, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, StatVfsMountFlags, statvfs};
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount_bind_recursive, mount_change,
    mount_remount, move_mount, open_tree,
};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, pidfd_open};
use rustix::thread::{
    CapabilitySet, UnshareFlags, capabilities, configure_capability_in_ambient_set, set_capabilities,
    unshare_unsafe,
};

use super::{SandboxEvent, is_below, read_spec, report, send_spec, step_command};

/// Maximum number of processes. Builds need far fewer, and a fork bomb reaches it at once.
const MAX_PROCESSES: usize = 1_000;
/// Interval between counts of the processes.
const COUNT_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

pub(super) fn run() -> ExitCode {
    let order = match read_spec() {
        Ok(order) => order,
        Err(why) => return refuse(why),
    };
    // Orphans become our children, so that we can end them.
    if let Err(error) = rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
        return refuse(error.to_string());
    }
    if order.namespaces {
        if let Err(error) = enter_namespaces().and_then(|()| make_rest_read_only(&order.write)) {
            report(&SandboxEvent::NoNamespaces { why: error.to_string() });
            return ExitCode::FAILURE;
        }
        // Landlock does not cover modes and times. What is hidden must not be changed either.
        let hidden = order.hidden.iter().filter(|place| place.exists());
        let hidden = hidden.filter(|place| order.write.iter().any(|open| is_below(place, open)));
        for place in order.protected.iter().chain(hidden) {
            if let Err(error) = make_read_only(place) {
                // A command in the background created it, and the watcher has renamed it since the scan.
                if std::fs::symlink_metadata(place)
                    .is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
                {
                    report(&SandboxEvent::Moved { path: place.clone() });
                    return ExitCode::FAILURE;
                }
                return refuse(format!("cannot protect `{}`: {error}", place.display()));
            }
        }
    }
    let step = if order.namespaces { "keeper" } else { "inner" };
    let started = step_command(step).stdin(Stdio::piped()).spawn().and_then(|mut child| {
        send_spec(&order, &mut child)?;
        Ok(child)
    });
    match started {
        Ok(child) => supervise(child),
        Err(error) => refuse(error.to_string()),
    }
}

fn refuse(why: String) -> ExitCode {
    report(&SandboxEvent::Refused { why });
    ExitCode::FAILURE
}

/// Creates namespaces for users, mounts, processes, network and shared memory.
fn enter_namespaces() -> io::Result<()> {
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    unshare(
        UnshareFlags::NEWUSER
            | UnshareFlags::NEWNS
            | UnshareFlags::NEWPID
            | UnshareFlags::NEWNET
            | UnshareFlags::NEWIPC,
    )?;
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
    std::fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    // The keeper mounts a `/proc`. Capabilities are lost at an `exec` unless they are ambient.
    let mut sets = capabilities(None)?;
    sets.inheritable |= CapabilitySet::SYS_ADMIN;
    set_capabilities(None, sets)?;
    Ok(configure_capability_in_ambient_set(CapabilitySet::SYS_ADMIN, true)?)
}

#[allow(unsafe_code, reason = "rustix has no safe form of unshare(2)")]
pub(super) fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: file descriptors are not unshared, which is the only hazard.
    Ok(unsafe { unshare_unsafe(flags) }?)
}

/// Makes everything else read-only: Landlock does not cover modes, owners, times and attributes.
fn make_rest_read_only(open: &[PathBuf]) -> io::Result<()> {
    // Everything is below the root, so no rest exists, and nothing can be mounted over it.
    if open.iter().any(|folder| folder.parent().is_none()) {
        return Ok(());
    }
    let tree =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    let open: Vec<(OwnedFd, &PathBuf)> =
        open.iter().map(|folder| Ok((open_tree(CWD, folder, tree)?, folder))).collect::<io::Result<_>>()?;
    read_only_below_root()?;
    for (mount, folder) in open {
        move_mount(mount, "", CWD, folder, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    }
    Ok(())
}

/// Sets all mounts read-only at once, and changes nothing else about them.
#[allow(unsafe_code, reason = "rustix has no mount_setattr(2)")]
fn read_only_below_root() -> io::Result<()> {
    let change =
        libc::mount_attr { attr_set: libc::MOUNT_ATTR_RDONLY, attr_clr: 0, propagation: 0, userns_fd: 0 };
    // SAFETY: the path ends with a NUL byte, and the size is that of the struct.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            c"/".as_ptr(),
            libc::AT_RECURSIVE,
            &raw const change,
            size_of::<libc::mount_attr>(),
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Prevents writes, renames and removals below a place in this mount namespace.
fn make_read_only(place: &Path) -> io::Result<()> {
    mount_bind_recursive(place, place)?;
    // The kernel refuses a remount that drops existing flags.
    let had = statvfs(place)?.f_flag;
    let mut flags = MountFlags::BIND | MountFlags::RDONLY;
    for (had_it, keep) in [
        (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
        (StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
        (StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
    ] {
        if had.contains(had_it) {
            flags |= keep;
        }
    }
    Ok(mount_remount(place, flags, c"")?)
}

/// Waits until the command ends, our starter is gone, or the command has too many processes.
fn supervise(mut child: Child) -> ExitCode {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a child has a number");
    // We must not compete with thousands of processes that we have to end. Only root may raise the priority.
    let _ = rustix::process::setpriority_process(None, -10);
    let Ok(ended) = pidfd_open(pid, PidfdFlags::empty()) else {
        kill_first(pid);
        kill_descendants();
        return refuse("this system has no `pidfd_open` (needs Linux 5.3)".to_owned());
    };
    let stdin = io::stdin();
    loop {
        let mut waiting =
            [PollFd::new(&ended, PollFlags::IN), PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN)];
        let _ = poll(&mut waiting, Some(&COUNT_INTERVAL)); // an interrupted wait is only shorter
        let (has_ended, is_told) = (!waiting[0].revents().is_empty(), !waiting[1].revents().is_empty());
        if has_ended {
            kill_first(pid); // before its number can be reused
            let code = child.wait().map_or(1, exit_code);
            kill_descendants();
            report(&SandboxEvent::Exited { code });
            return ExitCode::SUCCESS;
        }
        if is_told {
            kill_first(pid);
            kill_descendants();
            return ExitCode::SUCCESS;
        }
        let processes = descendants(std::process::id()).len();
        if processes > MAX_PROCESSES {
            kill_first(pid);
            kill_descendants();
            report(&SandboxEvent::TooMany { processes });
            return ExitCode::SUCCESS;
        }
    }
}

/// Kills the command's first process and its group. All processes of the keeper's namespace end with it, and a
/// group is killed at once, so that none can escape.
fn kill_first(first: Pid) {
    let _ = rustix::process::kill_process(first, Signal::KILL);
    let _ = rustix::process::kill_process_group(first, Signal::KILL);
}

/// Kills all our descendants. Each round finds the processes that the last round's victims started meanwhile.
fn kill_descendants() {
    loop {
        for pid in descendants(std::process::id()) {
            kill(pid);
        }
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
                Ok(None) => break,
                Err(_) => return, // no child is left
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Kills a process that an earlier process of ours left behind, with all its descendants.
pub(super) fn kill_tree(root: u32) {
    for pid in descendants(root).into_iter().chain([root]) {
        kill(pid);
    }
}

fn kill(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, Signal::KILL); // it may have ended
    }
}

/// Lists the descendants of a process, parents first.
pub(crate) fn descendants(root: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for pid in pids {
        if let Some(parent) = parent(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut family = vec![root];
    let mut at = 0;
    while at < family.len() {
        // Removed from the map, since process numbers may be reused while we read. So no process is counted
        // twice.
        family.extend(children.remove(&family[at]).unwrap_or_default());
        at += 1;
    }
    family.split_off(1)
}

fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name is in brackets and may contain any character.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Converts an exit status like a shell: signals count from 128.
pub(super) fn exit_code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1)
}
