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
    for filter in [refuse_x32_calls(), refused_calls(mounts)?, no_clone3()?] {
        apply_filter(&filter).map_err(|error| format!("system calls cannot be filtered: {error}"))?;
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

/// Its arguments are in memory, where a filter cannot read them. Programs fall back to `clone` without it.
fn no_clone3() -> Result<BpfProgram, String> {
    compile(BTreeMap::from([(libc::SYS_clone3, Vec::new())]), libc::ENOSYS)
}

/// Matches any of these values. The kernel reads these arguments as 32 bits, so the upper half must not matter.
fn any_of(
    argument: u8,
    tests: impl IntoIterator<Item = (SeccompCmpOp, u64)>,
) -> Result<Vec<SeccompRule>, String> {
    let rule = |(test, value)| {
        let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, test, value)?;
        SeccompRule::new(vec![condition])
    };
    tests.into_iter().map(rule).collect::<Result<_, _>>().map_err(|error| error.to_string())
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
    #[test]
    fn every_filter_can_be_compiled() {
        assert!(!super::refused_calls(true).expect("a filter").is_empty());
        assert!(!super::refused_calls(false).expect("a filter").is_empty());
        assert!(!super::no_clone3().expect("a filter").is_empty());
    }
}
