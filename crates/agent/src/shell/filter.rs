//! System calls that a command may not make, filtered by seccomp.
//!
//! The list names what is refused, not what is allowed: builds and tests use nearly every call, and the
//! [rights](super::rights) protect files and network. The filter closes ways around them.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter, sock_filter,
};

/// Refused with any arguments.
const REFUSED_CALLS: &[i64] = &[
    // other processes
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // namespaces and mounts
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_fsconfig,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    // the kernel
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    // Sockets of other programs have a path or an abstract name. Landlock does not cover the former before
    // Linux 7. Socket pairs, and servers within the command that nothing connects to, work without `connect`.
    libc::SYS_connect,
];

#[cfg(target_arch = "x86_64")]
const REFUSED_ON_THIS_ARCH: &[i64] =
    &[libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_kexec_file_load, libc::SYS_modify_ldt];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_ON_THIS_ARCH: &[i64] = &[libc::SYS_kexec_file_load];

/// Refused where no read-only mounts protect files outside the workspace: Landlock covers neither owners nor
/// attributes, and access lists are attributes.
const REFUSED_WITHOUT_MOUNTS: &[i64] = &[
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    SETXATTRAT,
    REMOVEXATTRAT,
    FILE_SETATTR,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
];

/// Not in `libc` yet. The number is the same on all architectures.
const SETXATTRAT: i64 = 463;
const REMOVEXATTRAT: i64 = 466;
const FILE_SETATTR: i64 = 469;

/// Calls that set a file's mode, with the index of the mode argument.
const MODE_CALLS: &[(i64, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (FCHMODAT2, 2),
];
const FCHMODAT2: i64 = 452;

/// Calls that can create a file with a mode: the index of the flags argument, if the mode only counts with some
/// flags, and of the mode argument. `mkdir` is not among them, since the kernel drops set-id bits there.
const CREATING_CALLS: &[(i64, Option<u8>, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, Some(1), 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, None, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, None, 1),
    (libc::SYS_openat, Some(2), 3),
    (libc::SYS_mknodat, None, 2),
    (libc::SYS_mq_open, Some(1), 2),
];

/// Flags of `open` with which it creates a file: a named one, or one without a name.
const CREATING_FLAGS: &[i32] = &[libc::O_CREAT, libc::O_TMPFILE & !libc::O_DIRECTORY];

/// Mode bits that lend the rights of the owner or group to anyone who runs the file.
const SET_ID: &[u32] = &[libc::S_ISUID, libc::S_ISGID];

/// `ioctl` requests that set a file's attributes.
const ATTRIBUTE_REQUESTS: &[u64] = &[0x4008_6602, 0x4004_6602, 0x401c_5820];

/// `clone` flags that create a namespace.
const NAMESPACE_FLAGS: &[i32] = &[
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];

/// `ioctl` requests that type into terminals or control virtual consoles.
const TERMINAL_REQUESTS: &[u64] = &[0x5412, 0x541c, 0x4b33];

pub(super) fn apply(mounts: bool) -> Result<(), String> {
    for filter in [refuse_x32_calls(), refused_calls(mounts)?, unfilterable_calls()?] {
        apply_filter(&filter).map_err(|error| format!("cannot filter system calls: {error}"))?;
    }
    Ok(())
}

fn refused_calls(mounts: bool) -> Result<BpfProgram, String> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    let (unheld, attributes) =
        if mounts { (&[][..], &[][..]) } else { (REFUSED_WITHOUT_MOUNTS, ATTRIBUTE_REQUESTS) };
    for number in REFUSED_CALLS.iter().chain(REFUSED_ON_THIS_ARCH).chain(unheld) {
        rules.insert(*number, Vec::new());
    }
    let requests = TERMINAL_REQUESTS.iter().chain(attributes);
    rules.insert(libc::SYS_ioctl, any_of(1, requests.map(|request| (SeccompCmpOp::Eq, *request)))?);
    // Without mounts, world-writable modes are refused as well.
    let bits = SET_ID.iter().chain(if mounts { &[][..] } else { &[libc::S_IWOTH] });
    let bits: Vec<u64> = bits.map(|bit| u64::from(*bit)).collect();
    for (call, argument) in MODE_CALLS {
        let tests = bits.iter().map(|bit| (SeccompCmpOp::MaskedEq(*bit), *bit));
        rules.insert(*call, any_of(*argument, tests)?);
    }
    for (call, flags, mode) in CREATING_CALLS {
        rules.insert(*call, creates_set_id(*flags, *mode)?);
    }
    let worlds = NAMESPACE_FLAGS.iter().map(|flag| *flag as u32 as u64);
    rules.insert(libc::SYS_clone, any_of(0, worlds.map(|flag| (SeccompCmpOp::MaskedEq(flag), flag)))?);
    // Only UNIX sockets between the command's processes, and not datagrams, which can be sent to any name.
    for call in [libc::SYS_socket, libc::SYS_socketpair] {
        let family = any_of(0, [(SeccompCmpOp::Ne, libc::AF_UNIX as u64)])?;
        let kinds = [libc::SOCK_DGRAM, libc::SOCK_RAW].map(|kind| (SeccompCmpOp::MaskedEq(0xf), kind as u64));
        rules.insert(call, [family, any_of(1, kinds)?].concat());
    }
    compile(rules, libc::EPERM)
}

/// Hides calls whose arguments are in memory, where a filter cannot read them. Programs use `clone` and `openat`
/// instead.
fn unfilterable_calls() -> Result<BpfProgram, String> {
    let calls = [libc::SYS_clone3, libc::SYS_openat2];
    compile(calls.into_iter().map(|call| (call, Vec::new())).collect(), libc::ENOSYS)
}

/// Matches any of these values.
fn any_of(
    argument: u8,
    tests: impl IntoIterator<Item = (SeccompCmpOp, u64)>,
) -> Result<Vec<SeccompRule>, String> {
    tests.into_iter().map(|(test, value)| all_of(vec![condition(argument, test, value)?])).collect()
}

/// Matches a call that creates a file with a set-id mode.
fn creates_set_id(flags: Option<u8>, mode: u8) -> Result<Vec<SeccompRule>, String> {
    let has = |argument, bit: u64| condition(argument, SeccompCmpOp::MaskedEq(bit), bit);
    let mut rules = Vec::new();
    for bit in SET_ID.iter().map(|bit| u64::from(*bit)) {
        let Some(flags) = flags else {
            rules.push(all_of(vec![has(mode, bit)?])?);
            continue;
        };
        for flag in CREATING_FLAGS {
            rules.push(all_of(vec![has(flags, *flag as u64)?, has(mode, bit)?])?);
        }
    }
    Ok(rules)
}

fn all_of(conditions: Vec<SeccompCondition>) -> Result<SeccompRule, String> {
    SeccompRule::new(conditions).map_err(|error| error.to_string())
}

/// The kernel reads these arguments as 32 bits, so the upper half must not matter.
fn condition(argument: u8, test: SeccompCmpOp, value: u64) -> Result<SeccompCondition, String> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, test, value).map_err(|error| error.to_string())
}

fn compile(rules: BTreeMap<i64, Vec<SeccompRule>>, errno: i32) -> Result<BpfProgram, String> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| error.to_string())?;
    let refused = SeccompAction::Errno(errno as u32);
    let filter =
        SeccompFilter::new(rules, SeccompAction::Allow, refused, arch).map_err(|error| error.to_string())?;
    filter.try_into().map_err(|error: seccompiler::BackendError| error.to_string())
}

/// Refuses the second set of numbers that system calls have on x86-64, which a list of numbers would miss.
fn refuse_x32_calls() -> BpfProgram {
    const LOAD: u16 = 0x20;
    const JUMP_IF_GREATER_OR_EQUAL: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const ALLOW: u32 = 0x7fff_0000;
    const REFUSE: u32 = 0x0005_0000 | libc::EPERM as u32;
    vec![
        sock_filter { code: LOAD, jt: 0, jf: 0, k: 0 },
        sock_filter { code: JUMP_IF_GREATER_OR_EQUAL, jt: 0, jf: 1, k: 0x4000_0000 },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: REFUSE },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: ALLOW },
    ]
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    #[test]
    fn every_filter_can_be_compiled() {
        assert!(!super::refused_calls(true).expect("a filter").is_empty());
        assert!(!super::refused_calls(false).expect("a filter").is_empty());
        assert!(!super::unfilterable_calls().expect("a filter").is_empty());
    }

    /// A way to create a file or to change its mode.
    type Attempt = (&'static str, fn(&Target, i64) -> Result<i64, i32>);

    struct Target {
        file: CString,
        folder: CString,
    }

    const CREATE: i64 = (libc::O_CREAT | libc::O_WRONLY) as i64;
    const UNNAMED: i64 = (libc::O_TMPFILE | libc::O_WRONLY) as i64;
    const HERE: i64 = libc::AT_FDCWD as i64;

    const CREATIONS: &[Attempt] = &[
        #[cfg(target_arch = "x86_64")]
        ("open", |at, mode| call(libc::SYS_open, [pointer(&at.file), CREATE, mode, 0])),
        #[cfg(target_arch = "x86_64")]
        ("open, unnamed", |at, mode| call(libc::SYS_open, [pointer(&at.folder), UNNAMED, mode, 0])),
        #[cfg(target_arch = "x86_64")]
        ("creat", |at, mode| call(libc::SYS_creat, [pointer(&at.file), mode, 0, 0])),
        #[cfg(target_arch = "x86_64")]
        ("mknod", |at, mode| call(libc::SYS_mknod, [pointer(&at.file), mode | regular(), 0, 0])),
        ("openat", |at, mode| call(libc::SYS_openat, [HERE, pointer(&at.file), CREATE, mode])),
        ("openat, unnamed", |at, mode| call(libc::SYS_openat, [HERE, pointer(&at.folder), UNNAMED, mode])),
        ("mknodat", |at, mode| call(libc::SYS_mknodat, [HERE, pointer(&at.file), mode | regular(), 0])),
        ("mknodat, pipe", |at, mode| {
            call(libc::SYS_mknodat, [HERE, pointer(&at.file), mode | i64::from(libc::S_IFIFO), 0])
        }),
    ];

    const CHANGES: &[Attempt] = &[
        #[cfg(target_arch = "x86_64")]
        ("chmod", |at, mode| call(libc::SYS_chmod, [pointer(&at.file), mode, 0, 0])),
        ("fchmod", |at, mode| {
            let file = call(libc::SYS_openat, [HERE, pointer(&at.file), libc::O_RDONLY.into(), 0])?;
            call(libc::SYS_fchmod, [file, mode, 0, 0])
        }),
        ("fchmodat", |at, mode| call(libc::SYS_fchmodat, [HERE, pointer(&at.file), mode, 0])),
        ("fchmodat2", |at, mode| call(super::FCHMODAT2, [HERE, pointer(&at.file), mode, 0])),
    ];

    /// No call leaves a set-id file, with any bits beside the mode that the kernel ignores.
    #[test]
    fn no_call_makes_a_set_id_file() {
        let folder = tempfile::tempdir().expect("a folder");
        for mounts in [true, false] {
            for (number, (name, attempt)) in CREATIONS.iter().chain(CHANGES).enumerate() {
                let path = folder.path().join(format!("{mounts}{number}"));
                let at = Target { file: c_string(&path), folder: c_string(folder.path()) };
                let changes = number >= CREATIONS.len();
                if changes {
                    std::fs::write(&path, "#!/bin/sh").expect("written");
                }
                for mode in [0o4755, 0o2755, 0o6755, 0o4000, 0o7777, 0o4755 | 1 << 32] {
                    let done = filtered(mounts, || attempt(&at, mode));
                    assert_eq!(done, Err(libc::EPERM), "{name} {mode:o}");
                    assert_eq!(set_id_bits(&path), 0, "{name} {mode:o}");
                }
                assert!(filtered(mounts, || attempt(&at, 0o755)).is_ok(), "{name} without set-id bits");
            }
        }
    }

    /// `openat2` has its mode in memory. Programs use `openat` if it does not exist.
    #[test]
    fn openat2_does_not_exist_in_the_sandbox() {
        let path = c_string(Path::new("/"));
        let how = [i64::from(libc::O_RDONLY), 0, 0];
        let done = filtered(true, || {
            call(libc::SYS_openat2, [HERE, pointer(&path), how.as_ptr() as i64, size_of_val(&how) as i64])
        });
        assert_eq!(done, Err(libc::ENOSYS));
    }

    /// The mode argument means nothing unless a file is created, so programs may leave anything in it.
    #[test]
    fn a_mode_that_the_kernel_ignores_is_no_reason_to_refuse() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = c_string(folder.path());
        let opened =
            filtered(true, || call(libc::SYS_openat, [HERE, pointer(&path), libc::O_RDONLY.into(), 0o6755]));
        assert!(opened.is_ok(), "{opened:?}");
        // The kernel itself drops set-id bits of new folders.
        let inner = c_string(&folder.path().join("inner"));
        assert!(filtered(true, || call(libc::SYS_mkdirat, [HERE, pointer(&inner), 0o6755, 0])).is_ok());
        assert_eq!(set_id_bits(&folder.path().join("inner")), 0);
    }

    /// Runs a check on a thread with the filter, which ends with the thread.
    fn filtered<T: Send>(mounts: bool, check: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let filtered = scope.spawn(|| {
                super::apply(mounts).expect("a filter");
                check()
            });
            filtered.join().expect("no panic")
        })
    }

    #[allow(unsafe_code, reason = "there is no safe form of syscall(2)")]
    fn call(number: i64, [a, b, c, d]: [i64; 4]) -> Result<i64, i32> {
        // SAFETY: all pointers among the arguments are to memory that outlives the call.
        let done = unsafe { libc::syscall(number, a, b, c, d) };
        if done >= 0 { Ok(done) } else { Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)) }
    }

    fn pointer(path: &CString) -> i64 {
        path.as_ptr() as i64
    }

    fn c_string(path: &Path) -> CString {
        CString::new(path.to_str().expect("plain")).expect("no NUL byte")
    }

    fn regular() -> i64 {
        libc::S_IFREG.into()
    }

    fn set_id_bits(path: &Path) -> u32 {
        std::fs::symlink_metadata(path).map_or(0, |found| found.permissions().mode() & 0o6000)
    }
}
