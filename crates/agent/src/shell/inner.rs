//! The keeper, first process of a command's world, and the process that becomes the shell.

use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use rustix::mount::{MountFlags, mount};
use rustix::process::{Resource, Rlimit, Signal, WaitOptions, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, UnshareFlags, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities,
};

use super::{News, Order, filter, hand_on, next, outer, read_order, rights, tell};

/// How many processes and threads a command may have, where the system can hold its world to that.
const MOST_NUMBERS: &str = "4000";

/// What a command may use up. Threads count as processes; who has rights over the whole system is not held by that one.
const LIMITS: &[(Resource, u64)] =
    &[(Resource::Core, 0), (Resource::Fsize, 8 << 30), (Resource::Nofile, 8_192), (Resource::Nproc, 4_000)];

/// Reaps what loses its parent, until the shell has ended. Then the system ends everything else in this world.
pub(super) fn keep() -> ExitCode {
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    // In mounts of its own, since the outer process looks at all of us through the `/proc` it has. Not everywhere
    // allowed; then commands see the numbers of the processes outside, and can do nothing with them.
    let apart = outer::unshare(UnshareFlags::NEWNS);
    if apart.is_ok() {
        let _ =
            mount("proc", "/proc", "proc", MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC, None);
    }
    hold_down();
    let started = read_order().and_then(|order| {
        let mut child = next("inner").stdin(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
        hand_on(&order, &mut child).map_err(|error| error.to_string())?;
        Ok(child)
    });
    let shell = match started {
        Ok(child) => child.id() as i32,
        Err(why) => {
            tell(&News::Refused { why });
            return ExitCode::FAILURE;
        }
    };
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid.as_raw_nonzero().get() == shell => {
                return ExitCode::from(code(ExitStatus::from_raw(status.as_raw())) as u8);
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return ExitCode::FAILURE,
        }
    }
}

/// Gives this world only so many numbers for processes and threads: the limit that root is not held by otherwise. Before
/// Linux 6.14 that number was the whole system's, and not ours to change.
fn hold_down() {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut parts = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    if (parts.next(), parts.next()) >= (Some(6), Some(14)) {
        let _ = std::fs::write("/proc/sys/kernel/pid_max", MOST_NUMBERS); // the processes are counted as well
    }
}

/// As a shell counts: a signal from 128 on.
pub(super) fn code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1)
}

/// Gives up what a command may not, and becomes the shell.
pub(super) fn run() -> ExitCode {
    let why = match become_shell() {
        Ok(never) => match never {},
        Err(why) => why,
    };
    tell(&News::Refused { why });
    ExitCode::FAILURE
}

fn become_shell() -> Result<std::convert::Infallible, String> {
    let order = read_order()?;
    let failed = |doing: &'static str| move |error: rustix::io::Errno| format!("cannot {doing}: {error}");
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(failed("follow its parent"))?;
    rustix::process::setsid().map_err(failed("begin a session"))?;
    let nothing = std::fs::File::open("/dev/null").map_err(|error| error.to_string())?;
    rustix::stdio::dup2_stdin(&nothing).map_err(failed("close its input"))?;
    std::env::set_current_dir(&order.workspace)
        .map_err(|error| format!("cannot enter `{}`: {error}", order.workspace.display()))?;
    for (resource, most) in LIMITS {
        let hard = rustix::process::getrlimit(*resource).maximum;
        let most = Some(hard.map_or(*most, |hard| hard.min(*most)));
        setrlimit(*resource, Rlimit { current: most, maximum: most }).map_err(failed("set limits"))?;
    }
    if order.sandbox {
        give_up_capabilities().map_err(failed("give up capabilities"))?;
        rights::give_up(&order)?;
        filter::apply(order.namespaces)?;
    }
    tell(&News::Begun);
    // From here on nobody of ours is asked: what was said to us goes where the command's output goes.
    rustix::stdio::dup2_stdout(io::stderr()).map_err(failed("join its outputs"))?;
    let error = shell(&order).exec();
    Err(format!("no shell can be started: {error}"))
}

fn shell(order: &Order) -> Command {
    let bash = ["/bin/bash", "/usr/bin/bash"].into_iter().find(|path| std::path::Path::new(path).exists());
    let mut command = Command::new(bash.unwrap_or("/bin/sh"));
    if bash.is_some() {
        command.args(["--noprofile", "--norc"]);
    }
    command.args(["-c", &order.command]).env_clear().envs(&order.env);
    command
}

/// Whoever is root outside is nobody special inside.
fn give_up_capabilities() -> Result<(), rustix::io::Errno> {
    clear_ambient_capability_set()?;
    for capability in CapabilitySet::all().iter() {
        match remove_capability_from_bounding_set(capability) {
            // Who has no right to do so has none to lose; newer capabilities than the system's do not exist.
            Ok(()) | Err(rustix::io::Errno::PERM | rustix::io::Errno::INVAL) => {}
            Err(errno) => return Err(errno),
        }
    }
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
}
