//! aimock, from npm: it records what a provider said as text, and makes new events of that text for every answer.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::target::{Kind, Pace, Target};
use crate::bench::load::{self, Call};
use crate::bench::on_runtime;
use crate::bench::server::{Server, Signal, free_address};
use crate::bench::traffic::Traffic;
use crate::cache;
use crate::command::{find, output};

const PACKAGE: &str = "@copilotkit/aimock";
const VERSION: &str = "1.43.0";

/// Has it record one call; returns the folder of its fixtures, and what the client saw.
pub(super) fn record(
    traffic: Traffic,
    upstream: SocketAddr,
    folder: &Path,
) -> Result<(PathBuf, load::Reads)> {
    let fixtures = folder.join("fixtures");
    fs::create_dir(&fixtures).context("could not create a folder for fixtures")?;
    let more = ["--record", "--provider-anthropic", &format!("http://{upstream}")];
    let (address, mut server) = start(&fixtures, &more, &folder.join("recorder.log"))?;
    server.wait_for_port(address)?;
    let call = Call { request: traffic.request(address), expected: None };
    let reads = on_runtime(load::once(address, &call))?;
    let (_, said) = server.stop()?;
    ensure!(!files(&fixtures)?.is_empty(), "it recorded nothing\n{said}");
    Ok((fixtures, reads))
}

/// Starts it on what it recorded.
pub(super) fn replay(traffic: Traffic, fixtures: &Path, pace: Pace, folder: &Path) -> Result<Target> {
    if pace == Pace::Instant {
        forget_timings(fixtures)?;
    }
    // It cuts the text anew. In pieces of 20 characters, as it does by itself, the events would be four times as many.
    let length = traffic.delta_length().to_string();
    let (address, server) = start(fixtures, &["--strict", "--chunk-size", &length], &folder.join("log"))?;
    Target::start(Kind::Aimock, format!("aimock {VERSION}"), address, server)
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
    Ok((address, Server::start(&mut command, log, Signal::Terminate)?))
}

/// The pinned version, installed once into the cache.
fn provide() -> Result<PathBuf> {
    let folder = cache::folder()?.join("tools/aimock").join(VERSION);
    cache::provide(&folder, "node_modules/@copilotkit/aimock/dist/cli.js", |prefix| {
        eprintln!("installing aimock {VERSION}, once");
        let npm = find("npm").context("`npm` is not installed\nhint: sudo apt-get install npm")?;
        // Without a file of its own, npm would look for one in the folders above.
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

/// Takes the recorded times out of the fixtures: with them it would wait a millisecond before each event at least,
/// at whatever speed.
fn forget_timings(fixtures: &Path) -> Result<()> {
    for file in files(fixtures)? {
        let mut value: Value = serde_json::from_slice(&fs::read(&file)?)
            .with_context(|| format!("`{}` is no fixture", file.display()))?;
        let entries = value.get_mut("fixtures").and_then(Value::as_array_mut);
        for entry in entries.into_iter().flatten().filter_map(Value::as_object_mut) {
            entry.remove("recordedTimings");
        }
        fs::write(&file, serde_json::to_vec(&value)?)?;
    }
    Ok(())
}

/// All files below a folder.
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
