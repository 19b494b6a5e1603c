//! The keeper, which is the first process of a command's namespaces, and the process that becomes the shell.

use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use rustix::mount::{MountFlags, mount};
use rustix::process::{Resource, Rlimit, Signal, WaitOptions, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, UnshareFlags, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities,
};

use super::{SandboxEvent, SandboxSpec, filter, outer, read_spec, report, rights, send_spec, step_command};

/// Maximum number of processes and threads in a command's namespace, where the system supports it.
const MAX_PIDS: &str = "4000";

/// Resource limits of a command. Threads count as processes. That limit does not bind root.
const LIMITS: &[(Resource, u64)] =
    &[(Resource::Core, 0), (Resource::Fsize, 8 << 30), (Resource::Nofile, 8_192), (Resource::Nproc, 4_000)];

/// Reaps orphans until the shell has ended. Then the kernel kills everything else in the PID namespace.
pub(super) fn run_keeper() -> ExitCode {
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    // Uses a mount namespace of its own, since the outer process watches all processes through its own `/proc`.
    // Some systems refuse; then commands see outside process numbers, but can do nothing with them.
    let apart = outer::unshare(UnshareFlags::NEWNS);
    if apart.is_ok() {
        let _ =
            mount("proc", "/proc", "proc", MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC, None);
    }
    limit_pids();
    let started = read_spec().and_then(|order| {
        let mut child =
            step_command("inner").stdin(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
        send_spec(&order, &mut child).map_err(|error| error.to_string())?;
        Ok(child)
    });
    let shell = match started {
        Ok(child) => child.id() as i32,
        Err(why) => {
            report(&SandboxEvent::Refused { why });
            return ExitCode::FAILURE;
        }
    };
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid.as_raw_nonzero().get() == shell => {
                return ExitCode::from(outer::exit_code(ExitStatus::from_raw(status.as_raw())) as u8);
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return ExitCode::FAILURE,
        }
    }
}

/// Limits the process numbers of this PID namespace. Root ignores the other limit. Before Linux 6.14 the value
/// applied to the whole system, so it is left alone there.
fn limit_pids() {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut parts = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    if (parts.next(), parts.next()) >= (Some(6), Some(14)) {
        let _ = std::fs::write("/proc/sys/kernel/pid_max", MAX_PIDS); // the outer process counts, too
    }
}

/// Restricts this process and becomes the shell.
pub(super) fn run() -> ExitCode {
    let why = match become_shell() {
        Ok(never) => match never {},
        Err(why) => why,
    };
    report(&SandboxEvent::Refused { why });
    ExitCode::FAILURE
}

fn become_shell() -> Result<std::convert::Infallible, String> {
    let order = read_spec()?;
    let failed = |doing: &'static str| move |error: rustix::io::Errno| format!("cannot {doing}: {error}");
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(failed("follow its parent"))?;
    rustix::process::setsid().map_err(failed("begin a session"))?;
    let input = standard_input(order.input.as_deref()).map_err(|error| error.to_string())?;
    rustix::stdio::dup2_stdin(&input).map_err(failed("set its input"))?;
    std::env::set_current_dir(&order.workspace)
        .map_err(|error| format!("cannot enter `{}`: {error}", order.workspace.display()))?;
    for (resource, most) in LIMITS {
        let hard = rustix::process::getrlimit(*resource).maximum;
        let most = Some(hard.map_or(*most, |hard| hard.min(*most)));
        setrlimit(*resource, Rlimit { current: most, maximum: most }).map_err(failed("set limits"))?;
    }
    if order.sandbox {
        give_up_capabilities().map_err(failed("give up capabilities"))?;
        rights::restrict(&order)?;
        filter::apply(order.namespaces)?;
    }
    report(&SandboxEvent::Begun);
    // From here on our own messages would mix with the command's output.
    rustix::stdio::dup2_stdout(io::stderr()).map_err(failed("join its outputs"))?;
    let error = shell(&order).exec();
    Err(format!("no shell can be started: {error}"))
}

/// Opens the standard input of a command: a file in memory, which no other process can reach, or nothing.
fn standard_input(text: Option<&str>) -> io::Result<File> {
    let Some(text) = text else { return File::open("/dev/null") };
    let mut file = File::from(rustix::fs::memfd_create("input", rustix::fs::MemfdFlags::CLOEXEC)?);
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file)
}

fn shell(order: &SandboxSpec) -> Command {
    let bash = ["/bin/bash", "/usr/bin/bash"].into_iter().find(|path| std::path::Path::new(path).exists());
    let mut command = Command::new(bash.unwrap_or("/bin/sh"));
    if bash.is_some() {
        command.args(["--noprofile", "--norc"]);
    }
    command.args(["-c", &order.command]).env_clear().envs(&order.env);
    command
}

/// Drops all capabilities, so that root outside has no privileges inside.
fn give_up_capabilities() -> Result<(), rustix::io::Errno> {
    clear_ambient_capability_set()?;
    for capability in CapabilitySet::all().iter() {
        match remove_capability_from_bounding_set(capability) {
            // Without the right to drop it, there is no capability to drop. Newer capabilities may not exist on
            // this system.
            Ok(()) | Err(rustix::io::Errno::PERM | rustix::io::Errno::INVAL) => {}
            Err(errno) => return Err(errno),
        }
    }
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
}
