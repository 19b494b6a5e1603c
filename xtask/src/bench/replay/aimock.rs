//! Installs and starts aimock from npm, which records the text of a response and divides it into new events.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::target::{ReplayPace, ReplayTarget, ReplayTargetKind};
use crate::bench::load::{self, LoadCall};
use crate::bench::on_runtime;
use crate::bench::server::{Server, StopSignal, free_address};
use crate::bench::traffic::Traffic;
use crate::cache;
use crate::command::{find, output};

const PACKAGE: &str = "@copilotkit/aimock";
const VERSION: &str = "1.43.0";

/// Records one call. Returns the folder of fixtures and the reads of the client.
pub(super) fn record(
    traffic: Traffic,
    upstream: SocketAddr,
    folder: &Path,
) -> Result<(PathBuf, load::Reads)> {
    let fixtures = folder.join("fixtures");
    fs::create_dir(&fixtures).context("cannot create a folder for fixtures")?;
    let more = ["--record", "--provider-anthropic", &format!("http://{upstream}")];
    let (address, mut server) = start(&fixtures, &more, &folder.join("recorder.log"))?;
    server.wait_for_port(address)?;
    let call = LoadCall { request: traffic.request(address), expected: None };
    let reads = on_runtime(load::once(address, &call))?;
    let (_, log) = server.stop()?;
    ensure!(!files(&fixtures)?.is_empty(), "aimock recorded nothing\n{log}");
    Ok((fixtures, reads))
}

/// Starts aimock with its fixtures.
pub(super) fn replay(
    traffic: Traffic,
    fixtures: &Path,
    pace: ReplayPace,
    folder: &Path,
) -> Result<ReplayTarget> {
    if pace == ReplayPace::Instant {
        remove_timings(fixtures)?;
    }
    // aimock divides the text into new events. Its default of 20 characters would produce four times as many.
    let length = traffic.delta_length().to_string();
    let (address, server) = start(fixtures, &["--strict", "--chunk-size", &length], &folder.join("log"))?;
    ReplayTarget::start(ReplayTargetKind::Aimock, format!("aimock {VERSION}"), address, server)
}

fn start(fixtures: &Path, more: &[&str], log: &Path) -> Result<(SocketAddr, Server)> {
    let program = provide()?;
    let node = find("node").context("`node` is not installed")?;
    let address = free_address()?;
    let mut command = Command::new(node);
    command
        .arg(program)
        .args(["--host", &address.ip().to_string(), "--port", &address.port().to_string()])
        .args(["--log-level", "warn", "--fixtures"])
        .arg(fixtures)
        .args(more);
    Ok((address, Server::start(&mut command, log, StopSignal::Terminate)?))
}

/// Returns the pinned version, which is installed once into the cache.
fn provide() -> Result<PathBuf> {
    let folder = cache::folder()?.join("tools/aimock").join(VERSION);
    cache::provide(&folder, "node_modules/@copilotkit/aimock/dist/cli.js", |prefix| {
        eprintln!("installing aimock {VERSION} once");
        let npm = find("npm").context("`npm` is not installed\nhint: sudo apt-get install npm")?;
        // Without this file, npm would search for one in the folders above.
        fs::write(prefix.join("package.json"), "{\"private\":true}\n")?;
        output(
            Command::new(npm)
                .args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"])
                .arg("--prefix")
                .arg(prefix)
                .arg(format!("{PACKAGE}@{VERSION}")),
        )?;
        Ok(())
    })
}

/// Removes the recorded times from the fixtures, because with them aimock waits at least a millisecond before each event.
fn remove_timings(fixtures: &Path) -> Result<()> {
    for file in files(fixtures)? {
        let mut value: Value = serde_json::from_slice(&fs::read(&file)?)
            .with_context(|| format!("`{}` is not a fixture", file.display()))?;
        let entries = value.get_mut("fixtures").and_then(Value::as_array_mut);
        for entry in entries.into_iter().flatten().filter_map(Value::as_object_mut) {
            entry.remove("recordedTimings");
        }
        fs::write(&file, serde_json::to_vec(&value)?)?;
    }
    Ok(())
}

/// Returns all files below a folder.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else {
            found.push(path);
        }
    }
    Ok(found)
}
