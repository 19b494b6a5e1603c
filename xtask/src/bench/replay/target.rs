//! Targets of the replay benchmark: nginx with a file, `offshoot replay`, aimock.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::aimock;
use crate::bench::load::{self, LoadCall};
use crate::bench::server::{Server, StopSignal, free_address};
use crate::bench::target::{self, RECORDING, start_nginx};
use crate::bench::traffic::Traffic;

/// A server that has the recorded response.
pub(super) struct Target {
    pub(super) kind: Kind,
    /// Version and configuration.
    pub(super) description: String,
    pub(super) address: SocketAddr,
    pub(super) server: Server,
}

/// Kinds of targets in the order of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Nginx,
    Offshoot,
    Aimock,
}

/// Pace of a replay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Pace {
    Instant,
    Recorded,
}

impl Kind {
    pub(super) const ALL: [Kind; 3] = [Kind::Nginx, Kind::Offshoot, Kind::Aimock];

    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Nginx => "nginx",
            Kind::Offshoot => "offshoot replay",
            Kind::Aimock => "aimock",
        }
    }

    /// Records one call to `upstream` in `folder`, and starts the target at instant pace.
    pub(super) fn start(self, traffic: Traffic, upstream: SocketAddr, folder: &Path) -> Result<Target> {
        fs::create_dir_all(folder).with_context(|| format!("cannot create `{}`", folder.display()))?;
        match self {
            Kind::Nginx => nginx(traffic, folder),
            Kind::Offshoot => {
                let (recording, _) = record(traffic, upstream, folder)?;
                offshoot(&recording, Pace::Instant, folder)
            }
            Kind::Aimock => {
                let (fixtures, _) = aimock::record(traffic, upstream, folder)?;
                aimock::replay(traffic, &fixtures, Pace::Instant, folder)
            }
        }
    }
}

impl Target {
    pub(super) fn start(
        kind: Kind,
        description: String,
        address: SocketAddr,
        mut server: Server,
    ) -> Result<Target> {
        server.wait_for_port(address)?;
        Ok(Target { kind, description, address, server })
    }

    /// Returns the required response body; `None` for aimock, which does not keep the bytes.
    pub(super) fn expected(&self, traffic: Traffic) -> Option<Vec<u8>> {
        (self.kind != Kind::Aimock).then(|| traffic.events().concat().into_bytes())
    }

    /// Returns the peak memory in megabytes.
    pub(super) fn peak_memory(&self) -> f64 {
        self.server.tree().peak_memory() as f64 / 1e6
    }
}

/// Starts nginx with a static file. nginx refuses a POST to a file; the file is its error page.
fn nginx(traffic: Traffic, folder: &Path) -> Result<Target> {
    let file = folder.join("files/v1/messages");
    fs::create_dir_all(file.parent().context("a file is in a folder")?)?;
    fs::write(&file, traffic.events().concat()).context("cannot write the file of nginx")?;
    let http = "sendfile on; tcp_nopush on; open_file_cache max=10; default_type text/event-stream;";
    let location = format!("root {}; error_page 405 =200 $uri;", folder.join("files").display());
    let (version, address, server) = start_nginx(folder, http, &location)?;
    Target::start(Kind::Nginx, format!("nginx {version}, a static file"), address, server)
}

/// Records one call with `offshoot proxy`. Returns the recording and the reads of the client.
pub(super) fn record(
    traffic: Traffic,
    upstream: SocketAddr,
    folder: &Path,
) -> Result<(PathBuf, load::Reads)> {
    let folder = folder.join("recorder");
    let proxy = target::Kind::Offshoot.start(upstream, &folder)?;
    let expected = Some(traffic.events().concat().into_bytes());
    let call = LoadCall { request: traffic.request(proxy.address), expected };
    let reads = crate::bench::on_runtime(load::once(proxy.address, &call))?;
    let (status, log) = proxy.server.context("the proxy is a process")?.stop()?;
    ensure!(status.success(), "`offshoot proxy` ended with {status}\n{log}");
    Ok((folder.join(RECORDING), reads))
}

pub(super) fn offshoot(recording: &Path, pace: Pace, folder: &Path) -> Result<Target> {
    let program = target::offshoot_program()?;
    let address = free_address()?;
    let pace = if pace == Pace::Instant { "instant" } else { "recorded" };
    let server = Server::start(
        Command::new(program)
            .arg("replay")
            .arg(recording)
            .args(["--listen", &address.to_string(), "--order", "free", "--pace", pace])
            .env("OFFSHOOT_DATA_DIR", folder.join("data")),
        &folder.join("log"),
        StopSignal::Interrupt,
    )?;
    Target::start(Kind::Offshoot, "offshoot replay".to_owned(), address, server)
}
