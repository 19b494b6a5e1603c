//! Selects the installed program that fits this machine.

use std::env::consts::{ARCH, OS};
use std::path::{Path, PathBuf};

use crate::error::HarnessError;

/// Finds the native program. npm installs all packages for the platform, including those for other C
/// libraries and older processors, so the choice is ours.
pub(crate) fn find(prefix: &Path) -> Result<PathBuf, HarnessError> {
    let platform = platform(OS, ARCH);
    let program = |kind: &str| prefix.join(format!("node_modules/opencode-{platform}{kind}/bin/opencode"));
    let kinds = kinds(is_musl(), has_avx2());
    kinds.iter().map(|kind| program(kind)).find(|program| program.is_file()).ok_or_else(|| {
        HarnessError::outside(
            format!("this version of OpenCode has no program for {platform}"),
            "try another one: `npm view opencode-ai versions`",
        )
    })
}

/// The platform in npm package names.
fn platform(os: &str, arch: &str) -> String {
    let os = if os == "macos" { "darwin" } else { os };
    let arch = match arch {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{os}-{arch}")
}

/// Suffixes of package names, best first.
fn kinds(musl: bool, avx2: bool) -> &'static [&'static str] {
    match (musl, avx2) {
        (false, true) => &["", "-baseline"],
        (false, false) => &["-baseline", ""],
        (true, true) => &["-musl", "-baseline-musl"],
        (true, false) => &["-baseline-musl", "-musl"],
    }
}

/// Returns whether the machine's C library is musl. Ours may differ.
fn is_musl() -> bool {
    let exists = |path: String| Path::new(&path).exists();
    exists(format!("/lib/ld-musl-{ARCH}.so.1"))
        && !["/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"]
            .iter()
            .any(|path| exists((*path).into()))
}

fn has_avx2() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("avx2");
    #[cfg(not(target_arch = "x86_64"))]
    return true;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn platforms_have_npm_names() {
        assert_eq!(platform("linux", "x86_64"), "linux-x64");
        assert_eq!(platform("macos", "aarch64"), "darwin-arm64");
    }

    #[test]
    fn an_old_processor_gets_the_program_it_can_run() {
        assert_eq!(kinds(false, false)[0], "-baseline");
        assert_eq!(kinds(true, true)[0], "-musl");
    }

    #[test]
    fn no_program_is_an_error_with_a_way_out() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let error = find(place.path()).expect_err("nothing is there");
        assert!(error.hint().expect("a hint").contains("npm view"), "{error}");
    }
}
