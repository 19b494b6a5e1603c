//! Targets of the proxy benchmark: direct, nginx, `offshoot proxy`, mitmproxy.

use std::env;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::server::{Server, StopSignal, free_address};
use crate::command::{cargo, find, output, run};
use crate::debian::{self, Program};

/// One way to the upstream.
pub(super) struct ProxyTarget {
    pub(super) kind: ProxyTargetKind,
    /// Version and configuration.
    pub(super) description: String,
    pub(super) address: SocketAddr,
    pub(super) server: Option<Server>,
}

/// Kinds of targets in the order of the table.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ProxyTargetKind {
    Direct,
    Nginx,
    /// Another build of our program, usually the version before.
    Before(PathBuf),
    Offshoot,
    Mitmproxy,
}

impl ProxyTargetKind {
    /// Returns all kinds, with another build of our program if one is given.
    pub(super) fn selected(before: Option<&Path>) -> Vec<ProxyTargetKind> {
        let mut kinds = vec![ProxyTargetKind::Direct, ProxyTargetKind::Nginx];
        kinds.extend(before.map(|program| ProxyTargetKind::Before(program.to_owned())));
        kinds.extend([ProxyTargetKind::Offshoot, ProxyTargetKind::Mitmproxy]);
        kinds
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            ProxyTargetKind::Direct => "direct",
            ProxyTargetKind::Nginx => "nginx",
            ProxyTargetKind::Before(_) => "offshoot proxy, before",
            ProxyTargetKind::Offshoot => "offshoot proxy",
            ProxyTargetKind::Mitmproxy => "mitmproxy",
        }
    }

    /// Starts the target for `upstream`, with its files in `folder`.
    pub(super) fn start(&self, upstream: SocketAddr, folder: &Path) -> Result<ProxyTarget> {
        fs::create_dir(folder).with_context(|| format!("cannot create `{}`", folder.display()))?;
        match self {
            ProxyTargetKind::Direct => Ok(ProxyTarget {
                kind: self.clone(),
                description: "direct".to_owned(),
                address: upstream,
                server: None,
            }),
            ProxyTargetKind::Nginx => nginx(upstream, folder),
            ProxyTargetKind::Before(program) => offshoot(self, program, upstream, folder),
            ProxyTargetKind::Offshoot => offshoot(self, &offshoot_program()?, upstream, folder),
            ProxyTargetKind::Mitmproxy => mitmproxy(upstream, folder),
        }
    }
}

impl ProxyTarget {
    fn start(
        kind: ProxyTargetKind,
        description: String,
        address: SocketAddr,
        mut server: Server,
    ) -> Result<ProxyTarget> {
        server.wait_for_port(address)?;
        Ok(ProxyTarget { kind, description, address, server: Some(server) })
    }
}

fn nginx(upstream: SocketAddr, folder: &Path) -> Result<ProxyTarget> {
    let upstreams =
        format!("upstream provider {{ server {upstream}; keepalive 64; keepalive_requests 1000000000; }}");
    // No buffering, and persistent connections.
    let location = "proxy_pass http://provider;
      proxy_http_version 1.1;
      proxy_set_header Connection \"\";
      proxy_buffering off;
      proxy_request_buffering off;";
    let (version, address, server) = start_nginx(folder, &upstreams, location)?;
    ProxyTarget::start(ProxyTargetKind::Nginx, format!("nginx {version}, proxying only"), address, server)
}

/// Starts nginx with one worker and no log. Returns its version and address.
pub(super) fn start_nginx(folder: &Path, http: &str, location: &str) -> Result<(String, SocketAddr, Server)> {
    debian::provide(&[Program { name: "nginx", package: "nginx" }])?;
    let program = find("nginx").context("cannot find the installed `nginx`")?;
    let version = Command::new(&program).arg("-v").output().context("cannot start `nginx`")?;
    let version = String::from_utf8_lossy(&version.stderr).trim().replace("nginx version: nginx/", "");
    let address = free_address()?;
    let config = folder.join("nginx.conf");
    fs::write(&config, nginx_config(address, http, location))
        .context("cannot write the configuration of nginx")?;
    let server = Server::start(
        Command::new(program).arg("-p").arg(folder).arg("-c").arg(&config).args(["-e", "stderr"]),
        &folder.join("log"),
        StopSignal::Terminate,
    )?;
    Ok((version, address, server))
}

fn nginx_config(listen: SocketAddr, http: &str, location: &str) -> String {
    format!(
        "daemon off;
worker_processes 1;
pid nginx.pid;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  keepalive_requests 1000000000;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  {http}
  server {{
    listen {listen};
    client_max_body_size 0;
    location / {{
      {location}
    }}
  }}
}}
"
    )
}

/// Name of the folder of the recording in the folder of the target.
pub(super) const RECORDING: &str = "recording";

/// Builds our program in release mode, and returns its path.
pub(super) fn offshoot_program() -> Result<PathBuf> {
    run(&mut cargo(["build", "--release", "--quiet", "--package", "cli"]))?;
    let program = env::current_exe()?.with_file_name("offshoot");
    ensure!(program.is_file(), "there is no `offshoot` beside the optimized `xtask`");
    Ok(program)
}

fn offshoot(
    kind: &ProxyTargetKind,
    program: &Path,
    upstream: SocketAddr,
    folder: &Path,
) -> Result<ProxyTarget> {
    let address = free_address()?;
    let server = Server::start(
        Command::new(program)
            .args([
                "proxy",
                "--upstream",
                &format!("http://{upstream}"),
                "--listen",
                &address.to_string(),
                "--out",
            ])
            .arg(folder.join(RECORDING))
            .env("OFFSHOOT_DATA_DIR", folder.join("data")),
        &folder.join("log"),
        StopSignal::Interrupt,
    )?;
    ProxyTarget::start(kind.clone(), format!("{}, redacting and recording", kind.name()), address, server)
}

fn mitmproxy(upstream: SocketAddr, folder: &Path) -> Result<ProxyTarget> {
    let program = find("mitmdump").context("`mitmdump` is not installed")?;
    let version = output(Command::new(&program).arg("--version"))?;
    let version = version.lines().next().unwrap_or_default().trim_start_matches("Mitmproxy: ");
    // Older versions do not store streamed bodies, which the table mentions.
    let stores = output(Command::new(&program).arg("--options"))?.contains("store_streamed_bodies");
    let address = free_address()?;
    let mut command = Command::new(program);
    command
        .args(["--quiet", "--mode", &format!("reverse:http://{upstream}")])
        .args(["--listen-host", &address.ip().to_string(), "--listen-port", &address.port().to_string()])
        .args(["--set", "stream_large_bodies=1"])
        .arg("--set")
        .arg(format!("confdir={}", folder.join("conf").display()))
        .arg("-w")
        .arg(folder.join("flows"));
    if stores {
        command.args(["--set", "store_streamed_bodies=true"]);
    }
    let server = Server::start(&mut command, &folder.join("log"), StopSignal::Terminate)?;
    let mode = if stores { "streaming and storing" } else { "streaming, bodies not stored" };
    ProxyTarget::start(ProxyTargetKind::Mitmproxy, format!("mitmproxy {version}, {mode}"), address, server)
}
