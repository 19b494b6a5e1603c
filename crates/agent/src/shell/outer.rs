//! The process that everything of a command descends from, and that ends all of it.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode, Stdio};
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

use super::{News, hand_on, is_below, next, read_order, tell};

/// More than any build needs; a fork bomb has them in no time.
const MOST_PROCESSES: usize = 1_000;
/// How often they are counted.
const COUNT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

pub(super) fn run() -> ExitCode {
    let order = match read_order() {
        Ok(order) => order,
        Err(why) => return refuse(why),
    };
    // Whatever loses its parent becomes ours, and can be ended.
    if let Err(error) = rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
        return refuse(error.to_string());
    }
    if order.namespaces {
        if let Err(error) = leave().and_then(|()| hold_the_rest(&order.write)) {
            tell(&News::NoNamespaces { why: error.to_string() });
            return ExitCode::FAILURE;
        }
        // Rights on files say nothing of modes and times; what may not be seen is not to be changed either.
        let hidden = order.hidden.iter().filter(|place| place.exists());
        let hidden = hidden.filter(|place| order.write.iter().any(|open| is_below(place, open)));
        for place in order.protected.iter().chain(hidden) {
            if let Err(error) = make_read_only(place) {
                return refuse(format!("`{}` cannot be protected: {error}", place.display()));
            }
        }
    }
    let step = if order.namespaces { "keeper" } else { "inner" };
    let started = next(step).stdin(Stdio::piped()).spawn().and_then(|mut child| {
        hand_on(&order, &mut child)?;
        Ok(child)
    });
    match started {
        Ok(child) => watch(child),
        Err(error) => refuse(error.to_string()),
    }
}

fn refuse(why: String) -> ExitCode {
    tell(&News::Refused { why });
    ExitCode::FAILURE
}

/// Takes a world of its own: users, mounts, processes, network, and memory to share.
fn leave() -> io::Result<()> {
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
    // The keeper mounts a `/proc`; rights are lost at an `exec` unless they are asked for.
    let mut sets = capabilities(None)?;
    sets.inheritable |= CapabilitySet::SYS_ADMIN;
    set_capabilities(None, sets)?;
    Ok(configure_capability_in_ambient_set(CapabilitySet::SYS_ADMIN, true)?)
}

#[allow(unsafe_code, reason = "rustix has no safe form of unshare(2)")]
pub(super) fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: no file descriptors are unshared, which is all that could go wrong.
    Ok(unsafe { unshare_unsafe(flags) }?)
}

/// Makes everything read-only but these folders: Landlock does not hold modes, owners, times and attributes.
fn hold_the_rest(open: &[PathBuf]) -> io::Result<()> {
    // Nothing can be put in the place of the root, and there is no rest.
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

/// All mounts at once, and nothing else about them is changed.
#[allow(unsafe_code, reason = "rustix has no mount_setattr(2)")]
fn read_only_below_root() -> io::Result<()> {
    let change =
        libc::mount_attr { attr_set: libc::MOUNT_ATTR_RDONLY, attr_clr: 0, propagation: 0, userns_fd: 0 };
    // SAFETY: the path ends with a NUL byte, and the size is that of what is pointed to.
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

/// Nothing below can be written, moved or taken away in this world.
fn make_read_only(place: &Path) -> io::Result<()> {
    mount_bind_recursive(place, place)?;
    // What the mount had before has to stay, or the kernel refuses.
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

/// Until the command ends, whoever started us is gone, or it gets too much.
fn watch(mut child: Child) -> ExitCode {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a child has a number");
    // Who has to end thousands must not stand in a line with them; only root may ask for that.
    let _ = rustix::process::setpriority_process(None, -10);
    let Ok(ended) = pidfd_open(pid, PidfdFlags::empty()) else {
        strike(pid);
        end_all();
        return refuse("this system has no `pidfd_open` (Linux 5.3)".to_owned());
    };
    let stdin = io::stdin();
    loop {
        let mut waiting =
            [PollFd::new(&ended, PollFlags::IN), PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN)];
        let _ = poll(&mut waiting, Some(&COUNT)); // an interrupted wait is a short one
        let (has_ended, is_told) = (!waiting[0].revents().is_empty(), !waiting[1].revents().is_empty());
        if has_ended {
            strike(pid); // before its number is free for others
            let code = child.wait().map_or(1, super::inner::code);
            end_all();
            tell(&News::Exited { code });
            return ExitCode::SUCCESS;
        }
        if is_told {
            strike(pid);
            end_all();
            return ExitCode::SUCCESS;
        }
        let processes = descendants(std::process::id()).len();
        if processes > MOST_PROCESSES {
            strike(pid);
            end_all();
            tell(&News::TooMany { processes });
            return ExitCode::SUCCESS;
        }
    }
}

/// Ends the command's first process and its group. With a keeper goes its whole world, and a group goes at once: nobody
/// in them is faster.
fn strike(first: Pid) {
    let _ = rustix::process::kill_process(first, Signal::KILL);
    let _ = rustix::process::kill_process_group(first, Signal::KILL);
}

/// Ends all that descends from us. Each round sees what the last one's victims have started meanwhile.
fn end_all() {
    loop {
        for pid in descendants(std::process::id()) {
            kill(pid);
        }
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
                Ok(None) => break,
                Err(_) => return, // nobody is left
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Ends a process of a former life of ours, and all that descends from it.
pub(super) fn end_tree(root: u32) {
    for pid in descendants(root).into_iter().chain([root]) {
        kill(pid);
    }
}

fn kill(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, Signal::KILL); // it may be gone
    }
}

/// All processes that descend from one, parents first.
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
        // Taken out, since numbers may be given anew while we read: nobody is counted twice.
        family.extend(children.remove(&family[at]).unwrap_or_default());
        at += 1;
    }
    family.split_off(1)
}

fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name, in brackets, may hold anything.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}
