//! Where offshoot keeps what is the user's.

use std::path::PathBuf;

/// The data folder: `OFFSHOOT_DATA_DIR`, else `$XDG_DATA_HOME/offshoot`, else under HOME.
pub(crate) fn data_dir() -> anyhow::Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("OFFSHOOT_DATA_DIR")
        .or_else(|| set("XDG_DATA_HOME").map(|data| data.join("offshoot")))
        .or_else(|| set("HOME").map(|home| home.join(".local/share/offshoot")))
        .ok_or_else(|| anyhow::anyhow!("neither OFFSHOOT_DATA_DIR nor XDG_DATA_HOME nor HOME is set"))
}
