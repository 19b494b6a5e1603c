//! Where offshoot keeps what is the user's.

use std::path::PathBuf;

/// The data folder: `OFFSHOOT_DATA_DIR`, else `$XDG_DATA_HOME/offshoot`, else under HOME.
pub(crate) fn data_dir() -> anyhow::Result<PathBuf> {
    folder("OFFSHOOT_DATA_DIR", "XDG_DATA_HOME", ".local/share")
}

/// The cache folder: `OFFSHOOT_CACHE_DIR`, else `$XDG_CACHE_HOME/offshoot`, else under HOME.
pub(crate) fn cache_dir() -> anyhow::Result<PathBuf> {
    folder("OFFSHOOT_CACHE_DIR", "XDG_CACHE_HOME", ".cache")
}

/// The folder of the user's settings and scenarios: `OFFSHOOT_CONFIG_DIR`, else `$XDG_CONFIG_HOME/offshoot`, else
/// under HOME.
pub(crate) fn config_dir() -> anyhow::Result<PathBuf> {
    folder("OFFSHOOT_CONFIG_DIR", "XDG_CONFIG_HOME", ".config")
}

/// Where harnesses live while they are recorded.
///
/// Not below HOME: harnesses read instructions and settings from all folders above the one they work in, and those
/// in a HOME are somebody's own.
pub(crate) fn slots_dir() -> PathBuf {
    match set("OFFSHOOT_SLOTS_DIR") {
        Some(slots) => slots,
        None => PathBuf::from(format!("/tmp/offshoot-{}", uid())),
    }
}

fn folder(own: &str, xdg: &str, below_home: &str) -> anyhow::Result<PathBuf> {
    set(own)
        .or_else(|| set(xdg).map(|base| base.join("offshoot")))
        .or_else(|| set("HOME").map(|home| home.join(below_home).join("offshoot")))
        .ok_or_else(|| anyhow::anyhow!("neither {own} nor {xdg} nor HOME is set"))
}

fn set(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

#[allow(unsafe_code, reason = "getuid(2) has no safe wrapper in std")]
fn uid() -> u32 {
    // SAFETY: it takes nothing and cannot fail.
    unsafe { libc::getuid() }
}

/// A word as a shell wants it.
pub(crate) fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}
