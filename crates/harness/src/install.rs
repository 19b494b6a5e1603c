//! Installs pinned versions of harnesses from npm, once each.
//!
//! An installation is created in a temporary folder and renamed when complete, so a folder with its program
//! is always complete. A lock makes concurrent installers wait.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::adapter::{HarnessAdapter, Install, Package, Release};
use crate::error::HarnessError;
use crate::programs::on_path;

/// Receives progress messages for people.
pub type Progress<'a> = &'a (dyn Fn(&str) + Send + Sync);

/// The npm package of ripgrep, which some harnesses expect on the machine.
const RIPGREP: (&str, &str) = ("@vscode/ripgrep", "1.18.0");

/// An installed harness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    /// The folder that npm installed into.
    pub prefix: PathBuf,
    /// The program.
    pub program: PathBuf,
}

/// Determines the versions of a harness and its host: the requested ones, otherwise the newest tested ones.
pub fn release(
    harness: &dyn HarnessAdapter,
    version: Option<&str>,
    host_version: Option<&str>,
) -> Result<Release, HarnessError> {
    let name = harness.name();
    let tested = harness.versions();
    let version = match (version, tested.last()) {
        (Some(version), _) => checked(version, "--harness-version")?,
        (None, Some(newest)) => (*newest).to_owned(),
        (None, None) => "none".to_owned(),
    };
    let host = match (harness.host(), host_version) {
        (None, Some(_)) => {
            return Err(HarnessError::usage(
                format!("`{name}` is not a plugin and has no host"),
                "omit `--host-version`",
            ));
        }
        (None, None) => None,
        (Some(host), Some(version)) => Some((host.name.to_owned(), checked(version, "--host-version")?)),
        (Some(host), None) => {
            // The host that is tested with this version of the plugin, otherwise the newest.
            let same = tested.iter().position(|tested| *tested == version);
            let host_version = same.and_then(|at| host.versions.get(at)).or(host.versions.last());
            Some((host.name.to_owned(), (*host_version.unwrap_or(&"latest")).to_owned()))
        }
    };
    Ok(Release { name: name.to_owned(), version, host })
}

/// Checks a version, which becomes part of paths and of npm's command line.
fn checked(version: &str, flag: &str) -> Result<String, HarnessError> {
    let fits = version.starts_with(|first: char| first.is_ascii_digit())
        && version.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-+".contains(&byte));
    if fits {
        return Ok(version.to_owned());
    }
    Err(HarnessError::usage(
        format!("`{version}` is not a version"),
        format!("use a version such as `{flag} 1.2.3`; `npm view PACKAGE versions` lists them"),
    ))
}

/// Installs a release below `cache_dir` unless it exists. Returns `None` for a harness that is not installed.
pub async fn install(
    harness: &dyn HarnessAdapter,
    release: &Release,
    cache_dir: &Path,
    tell: Progress<'_>,
) -> Result<Option<Installation>, HarnessError> {
    let Some(install) = harness.install(release)? else { return Ok(None) };
    let folder = cache_dir.join("harness").join(harness.name()).join(release.folder());
    let find = |prefix: &Path| harness.program(prefix);
    let label = match &release.host {
        Some((host, version)) => format!("{} {} with {host} {version}", release.name, release.version),
        None => format!("{} {}", release.name, release.version),
    };
    let program = provide(&folder, &label, &install, &find, tell).await?;
    Ok(Some(Installation { prefix: folder, program }))
}

/// Finds a ripgrep: in the cache, on the machine, or from npm.
pub async fn install_ripgrep(cache_dir: &Path, tell: Progress<'_>) -> Result<PathBuf, HarnessError> {
    if let Some(program) = find_ripgrep(cache_dir) {
        return Ok(program);
    }
    let folder = ripgrep_folder(cache_dir);
    let install = Install { packages: vec![Package { name: RIPGREP.0.into(), version: RIPGREP.1.into() }] };
    provide(&folder, "ripgrep", &install, &ripgrep_in, tell).await
}

/// Installs a program from npm that tests need. `program` is its path in the package.
pub async fn install_tool(
    cache_dir: &Path,
    (package, version): (&str, &str),
    program: &str,
    tell: Progress<'_>,
) -> Result<PathBuf, HarnessError> {
    let name = package.rsplit('/').next().unwrap_or(package);
    let folder = cache_dir.join("tools").join(name).join(version);
    let install = Install { packages: vec![Package { name: package.into(), version: version.into() }] };
    let find = |prefix: &Path| {
        let path = prefix.join("node_modules").join(package).join(program);
        let missing =
            || HarnessError::outside(format!("`{package}` has no `{program}`"), "try another version");
        path.is_file().then_some(path).ok_or_else(missing)
    };
    provide(&folder, name, &install, &find, tell).await
}

/// Finds a ripgrep in the cache or on the machine.
pub(crate) fn find_ripgrep(cache_dir: &Path) -> Option<PathBuf> {
    ripgrep_in_cache(cache_dir).or_else(|| on_path("rg"))
}

/// Finds the ripgrep in the cache.
pub(crate) fn ripgrep_in_cache(cache_dir: &Path) -> Option<PathBuf> {
    ripgrep_in(&ripgrep_folder(cache_dir)).ok()
}

fn ripgrep_folder(cache_dir: &Path) -> PathBuf {
    cache_dir.join("tools/ripgrep").join(RIPGREP.1)
}

/// Finds the ripgrep for this platform; npm installs only the fitting package.
fn ripgrep_in(prefix: &Path) -> Result<PathBuf, HarnessError> {
    let scope = prefix.join("node_modules/@vscode");
    let packages = fs::read_dir(&scope).map_err(HarnessError::io("read", &scope))?;
    let programs = packages.filter_map(Result::ok).map(|package| package.path().join("bin/rg"));
    programs.into_iter().find(|program| program.is_file()).ok_or_else(|| {
        HarnessError::outside("npm has no ripgrep for this platform", "sudo apt-get install ripgrep")
    })
}

type Find<'a> = &'a (dyn Fn(&Path) -> Result<PathBuf, HarnessError> + Sync);

async fn provide(
    folder: &Path,
    label: &str,
    install: &Install,
    find: Find<'_>,
    tell: Progress<'_>,
) -> Result<PathBuf, HarnessError> {
    if let Ok(program) = find(folder) {
        return Ok(program);
    }
    let parent = folder.parent().expect("a cached folder has a parent");
    fs::create_dir_all(parent).map_err(HarnessError::io("make", parent))?;
    let _lock = lock(folder, tell).await?;
    if let Ok(program) = find(folder) {
        return Ok(program); // another process installed it while we waited
    }
    tell(&format!("installing {label}, once"));
    let partial = Partial::beside(folder)?;
    npm(&partial.0, label, install).await?;
    find(&partial.0).map_err(|error| {
        let what = format!("npm installed {label}, but its program is not there: {error}");
        HarnessError::outside(what, "try another version")
    })?;
    if folder.exists() {
        // Installations are created elsewhere, so this folder is outdated or damaged.
        fs::remove_dir_all(folder).map_err(HarnessError::io("remove", folder))?;
    }
    fs::rename(&partial.0, folder).map_err(HarnessError::io("make", folder))?;
    find(folder)
}

/// A folder that is deleted on drop unless it was renamed.
struct Partial(PathBuf);

impl Partial {
    fn beside(folder: &Path) -> Result<Self, HarnessError> {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let partial = folder.with_file_name(format!(".partial-{name}"));
        match fs::remove_dir_all(&partial) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(HarnessError::io("remove", partial)(error));
            }
            _ => {} // left over from a killed process
        }
        fs::create_dir(&partial).map_err(HarnessError::io("make", &partial))?;
        Ok(Self(partial))
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0); // usually renamed before
    }
}

async fn lock(folder: &Path, tell: Progress<'_>) -> Result<File, HarnessError> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let path = folder.with_file_name(format!(".{name}.lock"));
    let failed = || HarnessError::io("lock", &path);
    let file = File::options().create(true).append(true).open(&path).map_err(failed())?;
    if file.try_lock().is_ok() {
        return Ok(file);
    }
    tell("waiting for another process that installs it");
    let locked = tokio::task::spawn_blocking(move || file.lock().map(|()| file)).await;
    locked.expect("locking does not panic").map_err(failed())
}

/// Limits of npm's downloads. By default, npm waits for minutes if the registry does not answer.
const NPM_LIMITS: [&str; 3] = ["--fetch-retries=1", "--fetch-retry-maxtimeout=5000", "--fetch-timeout=60000"];

async fn npm(prefix: &Path, label: &str, install: &Install) -> Result<(), HarnessError> {
    if on_path("npm").is_none() {
        return Err(HarnessError::usage(
            format!("cannot install {label}: `npm` is not installed"),
            "sudo apt-get install npm",
        ));
    }
    // Without this file, npm would search the parent folders for one.
    let manifest = prefix.join("package.json");
    fs::write(&manifest, "{\"private\":true}\n").map_err(HarnessError::io("write", &manifest))?;
    let specs: Vec<String> =
        install.packages.iter().map(|package| format!("{}@{}", package.name, package.version)).collect();
    // Install scripts may download anything and may fail on some machines.
    let mut command = tokio::process::Command::new("npm");
    command
        .args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-progress", "--loglevel=error"])
        .args(NPM_LIMITS)
        .arg("--prefix")
        .arg(prefix)
        .args(&specs)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = command.output().await.map_err(|error| {
        HarnessError::outside(format!("cannot start `npm`: {error}"), "try `npm --version`")
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = [&output.stderr, &output.stdout].map(|said| String::from_utf8_lossy(said).trim().to_owned());
    let said = said.into_iter().find(|said| !said.is_empty());
    let said = said.unwrap_or_else(|| format!("npm printed nothing and exited with {}", output.status));
    Err(npm_failure(label, install, &said))
}

/// Classifies an error of npm.
fn npm_failure(label: &str, install: &Install, said: &str) -> HarnessError {
    let is = |codes: &[&str]| codes.iter().any(|code| said.contains(code));
    let lines: Vec<&str> = said
        .lines()
        .filter_map(|line| line.strip_prefix("npm error").or_else(|| line.strip_prefix("npm ERR!")))
        .map(str::trim)
        .filter(|line| !line.starts_with("A complete log") && !line.starts_with("at ") && !line.is_empty())
        .collect();
    let code = lines.iter().find_map(|line| line.strip_prefix("code "));
    let is_number = |line: &&&str| ["code ", "errno ", "syscall "].iter().any(|name| line.starts_with(name));
    let told = lines.iter().filter(|line| !is_number(line)).take(3).map(|line| match (line, code) {
        // If npm tried several addresses, it gives no reason.
        (line, Some(code)) if line.ends_with("reason:") => format!("{line} {code}"),
        (line, _) => (*line).to_owned(),
    });
    let told: Vec<String> = told.collect();
    let words = match (code, told.is_empty()) {
        (Some(code), true) => code.to_owned(),
        (None, true) => said.split_whitespace().collect::<Vec<_>>().join(" "),
        (Some(code), false) if !told.iter().any(|line| line.contains(code)) => {
            format!("{code}: {}", told.join("; "))
        }
        (_, false) => told.join("; "),
    };
    let what = format!("cannot install {label}: {words}");
    if is(&["ETARGET", "E404"]) {
        let lists: Vec<String> =
            install.packages.iter().map(|package| format!("`npm view {} versions`", package.name)).collect();
        return HarnessError::usage(what, format!("available versions: {}", lists.join(" and ")));
    }
    if is(&["ENOTFOUND", "ECONNREFUSED", "ECONNRESET", "EAI_AGAIN", "ETIMEDOUT", "ENETUNREACH", "network"]) {
        return HarnessError::outside(what, "check the network: `npm ping`");
    }
    HarnessError::outside(what, "try the same by hand: `npm install` with `--prefix /tmp/try`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Blame;

    #[tokio::test]
    async fn a_tool_that_is_there_is_not_installed_again() {
        let cache = tempfile::tempdir().expect("a folder");
        let program = cache.path().join("tools/server/1.2.3/node_modules/@some/server/dist/index.js");
        fs::create_dir_all(program.parent().expect("it has one")).expect("a folder");
        fs::write(&program, "").expect("a program");
        let tell = |what: &str| panic!("{what}");
        let found = install_tool(cache.path(), ("@some/server", "1.2.3"), "dist/index.js", &tell).await;
        assert_eq!(found.expect("it is there"), program);
    }

    fn claude() -> Box<dyn HarnessAdapter> {
        crate::find("claude-code").expect("it is listed")
    }

    #[test]
    fn the_newest_tested_version_is_the_default_and_any_other_is_tried() {
        let harness = claude();
        let newest = release(&*harness, None, None).expect("a release");
        assert_eq!(Some(&newest.version.as_str()), harness.versions().last());
        assert_eq!(
            release(&*harness, Some("9.9.9-beta.1"), None).expect("a release").folder(),
            "9.9.9-beta.1"
        );
        for bad in ["", "latest", "../../etc", "1.0 --registry=x", "1.0/2"] {
            let error = release(&*harness, Some(bad), None).expect_err(bad);
            assert_eq!(error.blame(), Blame::User, "{error}");
        }
        assert!(release(&*harness, None, Some("1.0.0")).is_err(), "it has no host");
    }

    #[test]
    fn npm_s_failures_have_owners() {
        let install = Install { packages: vec![Package { name: "p".into(), version: "9".into() }] };
        for (said, blame) in [
            ("npm error code ETARGET\nnpm error notarget No matching version found for p@9.\n", Blame::User),
            ("npm ERR! code E404\nnpm ERR! 404 Not Found\n", Blame::User),
            ("npm error code ENOTFOUND\nnpm error network request failed\n", Blame::Outside),
            ("npm error code ENOSPC\n", Blame::Outside),
            (
                "npm error code ECONNREFUSED\nnpm error FetchError: p failed, reason: \nnpm error     at x.js:1\n",
                Blame::Outside,
            ),
            ("oh\nno\n", Blame::Outside),
        ] {
            let error = npm_failure("thing 9", &install, said);
            assert_eq!(error.blame(), blame, "{error}");
            assert!(!error.to_string().contains('\n') && error.hint().is_some(), "{error}");
            assert!(!error.to_string().trim_end().ends_with(':'), "a reason is told: {error}");
        }
    }

    #[tokio::test]
    async fn an_installed_version_is_not_installed_again() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let folder = place.path().join("tool/1.0");
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("entry"), "").expect("a file");
        let find = |prefix: &Path| {
            let entry = prefix.join("entry");
            entry.exists().then_some(entry).ok_or_else(|| HarnessError::outside("no entry", ""))
        };
        let silent = |_: &str| panic!("nothing is to be done");
        let install = Install { packages: Vec::new() };
        let program = provide(&folder, "tool", &install, &find, &silent).await.expect("found");
        assert_eq!(program, folder.join("entry"));
    }
}
