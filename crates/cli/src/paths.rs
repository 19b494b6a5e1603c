//! Folders that offshoot keeps the user's data in.

use std::path::PathBuf;

/// Returns the data folder: `OFFSHOOT_DATA_DIR`, else `$XDG_DATA_HOME/offshoot`, else under HOME.
pub(crate) fn data_dir() -> anyhow::Result<PathBuf> {
    folder("OFFSHOOT_DATA_DIR", "XDG_DATA_HOME", ".local/share")
}

/// Returns the cache folder: `OFFSHOOT_CACHE_DIR`, else `$XDG_CACHE_HOME/offshoot`, else under HOME.
pub(crate) fn cache_dir() -> anyhow::Result<PathBuf> {
    folder("OFFSHOOT_CACHE_DIR", "XDG_CACHE_HOME", ".cache")
}

/// Returns the folder of the user's settings and scenarios: `OFFSHOOT_CONFIG_DIR`, else `$XDG_CONFIG_HOME/offshoot`, else
/// under HOME.
pub(crate) fn config_dir() -> anyhow::Result<PathBuf> {
    folder("OFFSHOOT_CONFIG_DIR", "XDG_CONFIG_HOME", ".config")
}

/// Returns the folder that harnesses work in while they are recorded.
///
/// It is not below HOME: harnesses read instructions and settings from all parent folders, and those in HOME are the
/// user's own.
pub(crate) fn slots_dir() -> PathBuf {
    match variable("OFFSHOOT_SLOTS_DIR") {
        Some(slots) => slots,
        None => PathBuf::from(format!("/tmp/offshoot-{}", uid())),
    }
}

fn folder(own: &str, xdg: &str, below_home: &str) -> anyhow::Result<PathBuf> {
    variable(own)
        .or_else(|| variable(xdg).map(|base| base.join("offshoot")))
        .or_else(|| variable("HOME").map(|home| home.join(below_home).join("offshoot")))
        .ok_or_else(|| anyhow::anyhow!("neither {own} nor {xdg} nor HOME is set"))
}

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

#[allow(unsafe_code, reason = "getuid(2) has no safe wrapper in std")]
fn uid() -> u32 {
    // SAFETY: getuid takes no arguments and cannot fail.
    unsafe { libc::getuid() }
}

/// Quotes a word for a shell if needed.
pub(crate) fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}
