//! File and network access of a command, restricted by Landlock for good.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, PathBeneath, PathFd,
    Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetStatus, Scope,
};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, openat2};

use super::{SandboxSpec, is_below};

/// Minimum version: before it, any file could be truncated (Linux 6.2).
const REQUIRED_ABI: ABI = ABI::V3;
/// Version that is used if available: also blocks TCP, device ioctls, and signals and sockets to other
/// processes.
const WANTED_ABI: ABI = ABI::V6;

/// Devices that commands need.
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Returns true if the system supports the minimum version.
pub(super) fn is_available() -> bool {
    let required = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    required.handle_access(AccessFs::from_all(REQUIRED_ABI)).and_then(Ruleset::create).is_ok()
}

pub(super) fn restrict(order: &SandboxSpec) -> Result<(), String> {
    let none = |error: &dyn std::error::Error| format!("{NO_LANDLOCK}: {error}");
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(REQUIRED_ABI))
        .map_err(|error| none(&error))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(WANTED_ABI))
        .and_then(|rules| rules.handle_access(AccessNet::from_all(WANTED_ABI)))
        .and_then(|rules| rules.scope(Scope::from_all(WANTED_ABI)))
        .and_then(Ruleset::create)
        .map_err(|error| none(&error))?;
    let read = AccessFs::from_read(WANTED_ABI);
    let special = AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev;
    let write = AccessFs::from_all(WANTED_ABI) & !special;
    let kept = [&order.hidden[..], if order.namespaces { &[] } else { &order.protected }].concat();
    for path in &order.read {
        rules = grant(rules, path, read, &order.hidden)?;
    }
    for path in &order.write {
        rules = grant(rules, path, read, &order.hidden)?;
        rules = grant(rules, path, write, &kept)?;
    }
    for device in DEVICES {
        rules = grant(rules, Path::new(device), read | AccessFs::WriteFile | AccessFs::Truncate, &[])?;
    }
    let status = rules.restrict_self().map_err(|error| none(&error))?;
    match status.ruleset {
        RulesetStatus::NotEnforced => Err(NO_LANDLOCK.to_owned()),
        _ => Ok(()),
    }
}

/// Error if the system does not support it.
pub(super) const NO_LANDLOCK: &str = "this system has no Landlock (needs Linux 6.2 or newer)";

/// Allows access below a path. Landlock cannot take back access that was granted further up, so a folder with
/// an exception below it is granted entry by entry, and nothing can be created in it.
fn grant(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
    except: &[PathBuf],
) -> Result<RulesetCreated, String> {
    // A path that is missing or inaccessible needs no grant.
    let Ok(open) = PathFd::new(path) else { return Ok(rules) };
    grant_open(rules, open.as_fd(), path, access, except)
}

fn grant_open(
    rules: RulesetCreated,
    open: BorrowedFd<'_>,
    path: &Path,
    access: BitFlags<AccessFs>,
    except: &[PathBuf],
) -> Result<RulesetCreated, String> {
    if except.iter().any(|kept| is_below(path, kept)) {
        return Ok(rules);
    }
    let Ok(found) = fstat(open) else { return Ok(rules) };
    let kind = FileType::from_raw_mode(found.st_mode);
    let add = |rules: RulesetCreated, access| {
        rules
            .add_rule(PathBeneath::new(open, access))
            .map_err(|error| format!("no right can be given on `{}`: {error}", path.display()))
    };
    if kind != FileType::Directory {
        return add(rules, access & AccessFs::from_file(WANTED_ABI));
    }
    if !except.iter().any(|kept| is_below(kept, path)) {
        return add(rules, access);
    }
    let listed = access & AccessFs::ReadDir;
    let mut rules = if listed.is_empty() { rules } else { add(rules, listed)? };
    for entry in std::fs::read_dir(path).into_iter().flatten().filter_map(Result::ok) {
        // A link's target has its own rights. Another command may replace a folder by a link, so nothing is
        // followed from this folder on.
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let name = entry.file_name();
        if let Ok(inner) = openat2(open, Path::new(&name), flags, Mode::empty(), resolve) {
            rules = grant_open(rules, inner.as_fd(), &path.join(name), access, except)?;
        }
    }
    Ok(rules)
}
