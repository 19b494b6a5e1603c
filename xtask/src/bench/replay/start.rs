//! Starts the targets of the replay benchmark.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::aimock;
use super::target::{ReplayPace, ReplayTarget, ReplayTargetKind};
use crate::bench::load::{self, LoadCall};
use crate::bench::server::{Server, StopSignal, free_address};
use crate::bench::target::{self, RECORDING, start_nginx};
use crate::bench::traffic::Traffic;

/// Records one call to `upstream` in `folder`, and starts the target at instant pace.
pub(super) fn start(
    kind: &ReplayTargetKind,
    traffic: Traffic,
    upstream: SocketAddr,
    folder: &Path,
) -> Result<ReplayTarget> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create `{}`", folder.display()))?;
    match kind {
        ReplayTargetKind::Nginx => nginx(traffic, folder),
        ReplayTargetKind::Before(program) => {
            let proxy = target::ProxyTargetKind::Before(program.clone());
            let (recording, _) = record(&proxy, traffic, upstream, folder)?;
            offshoot(kind, program, &recording, ReplayPace::Instant, folder)
        }
        ReplayTargetKind::Offshoot => {
            let (recording, _) = record(&target::ProxyTargetKind::Offshoot, traffic, upstream, folder)?;
            offshoot(kind, &target::offshoot_program()?, &recording, ReplayPace::Instant, folder)
        }
        ReplayTargetKind::Aimock => {
            let (fixtures, _) = aimock::record(traffic, upstream, folder)?;
            aimock::replay(traffic, &fixtures, ReplayPace::Instant, folder)
        }
    }
}

/// Starts nginx with a static file. nginx refuses a POST to a file; the file is its error page.
fn nginx(traffic: Traffic, folder: &Path) -> Result<ReplayTarget> {
    let file = folder.join("files/v1/messages");
    fs::create_dir_all(file.parent().context("a file is in a folder")?)?;
    fs::write(&file, traffic.events().concat()).context("cannot write the file of nginx")?;
    let http = "sendfile on; tcp_nopush on; open_file_cache max=10; default_type text/event-stream;";
    let location = format!("root {}; error_page 405 =200 $uri;", folder.join("files").display());
    let (version, address, server) = start_nginx(folder, http, &location)?;
    ReplayTarget::start(ReplayTargetKind::Nginx, format!("nginx {version}, a static file"), address, server)
}

/// Records one call with `offshoot proxy`. Returns the recording and the reads of the client.
pub(super) fn record(
    kind: &target::ProxyTargetKind,
    traffic: Traffic,
    upstream: SocketAddr,
    folder: &Path,
) -> Result<(PathBuf, load::Reads)> {
    let folder = folder.join("recorder");
    let proxy = kind.start(upstream, &folder)?;
    let expected = Some(traffic.events().concat().into_bytes());
    let call = LoadCall { request: traffic.request(proxy.address), expected };
    let reads = crate::bench::on_runtime(load::once(proxy.address, &call))?;
    let (status, log) = proxy.server.context("the proxy is a process")?.stop()?;
    ensure!(status.success(), "`offshoot proxy` ended with {status}\n{log}");
    Ok((folder.join(RECORDING), reads))
}

pub(super) fn offshoot(
    kind: &ReplayTargetKind,
    program: &Path,
    recording: &Path,
    pace: ReplayPace,
    folder: &Path,
) -> Result<ReplayTarget> {
    let address = free_address()?;
    let pace = if pace == ReplayPace::Instant { "instant" } else { "recorded" };
    let server = Server::start(
        Command::new(program)
            .arg("replay")
            .arg(recording)
            .args(["--listen", &address.to_string(), "--order", "free", "--pace", pace])
            .env("OFFSHOOT_DATA_DIR", folder.join("data")),
        &folder.join("log"),
        StopSignal::Interrupt,
    )?;
    ReplayTarget::start(kind.clone(), kind.name().to_owned(), address, server)
}
