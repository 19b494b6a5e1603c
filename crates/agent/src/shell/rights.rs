//! What a command may do with files, given up through Landlock for good.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, PathBeneath, PathFd,
    Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetStatus, Scope,
};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, openat2};

use super::{Order, is_below};

/// What cannot be done without: before it, any file could be truncated (Linux 6.2).
const NEEDED: ABI = ABI::V3;
/// What is used where the system has it: no TCP, no devices' own commands, no signals and sockets to others.
const WANTED: ABI = ABI::V6;

/// Devices that everybody needs.
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Whether the system has what it takes.
pub(super) fn are_there() -> bool {
    let required = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    required.handle_access(AccessFs::from_all(NEEDED)).and_then(Ruleset::create).is_ok()
}

pub(super) fn give_up(order: &Order) -> Result<(), String> {
    let none = |error: &dyn std::error::Error| format!("{NO_LANDLOCK}: {error}");
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(NEEDED))
        .map_err(|error| none(&error))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(WANTED))
        .and_then(|rules| rules.handle_access(AccessNet::from_all(WANTED)))
        .and_then(|rules| rules.scope(Scope::from_all(WANTED)))
        .and_then(Ruleset::create)
        .map_err(|error| none(&error))?;
    let read = AccessFs::from_read(WANTED);
    let special = AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev;
    let write = AccessFs::from_all(WANTED) & !special;
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

/// Why nothing is run.
pub(super) const NO_LANDLOCK: &str = "this system has no Landlock that could hold it (Linux 6.2 or newer)";

/// Allows something below a path. Landlock cannot take away again what it gave further up, so a folder with an
/// exception below it is given piece by piece, and nothing can be made in it.
fn grant(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
    except: &[PathBuf],
) -> Result<RulesetCreated, String> {
    // What vanished meanwhile, or may not even be looked at, is nothing to have rights on.
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
        return add(rules, access & AccessFs::from_file(WANTED));
    }
    if !except.iter().any(|kept| is_below(kept, path)) {
        return add(rules, access);
    }
    let listed = access & AccessFs::ReadDir;
    let mut rules = if listed.is_empty() { rules } else { add(rules, listed)? };
    for entry in std::fs::read_dir(path).into_iter().flatten().filter_map(Result::ok) {
        // A link is only a name, and what it leads to has its own rights. Another command may be at work, and put one
        // in a folder's place: so nothing is followed here, from this folder on.
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let name = entry.file_name();
        if let Ok(inner) = openat2(open, Path::new(&name), flags, Mode::empty(), resolve) {
            rules = grant_open(rules, inner.as_fd(), &path.join(name), access, except)?;
        }
    }
    Ok(rules)
}
