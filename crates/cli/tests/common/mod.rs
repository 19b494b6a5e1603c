//! The binary in a world of its own: own home, own data, loopback only.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

pub(crate) mod browser;
pub(crate) mod lanes;
pub(crate) mod provider;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use tempfile::TempDir;

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct TestEnv {
    folder: TempDir,
}

impl TestEnv {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// In a folder that is in memory, where the machine has one: no disk of its to wait for.
    pub(crate) fn in_memory() -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        Self { folder: folder.unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `offshoot` with these arguments, and nothing in its environment but what it needs.
    pub(crate) fn offshoot(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_offshoot"));
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.path("home"))
            .env("OFFSHOOT_DATA_DIR", self.path("data"))
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> CommandOutput {
        CommandOutput::of(self.offshoot(arguments).output().unwrap())
    }

    /// Returns the output of `show --format json`.
    pub(crate) fn show(&self, recording: &str) -> serde_json::Value {
        let said = self.run(&["show", recording, "--format", "json"]);
        serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said:?}"))
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

/// A message as it would be in any folder: each test has one of its own, and the first message names it.
pub(crate) fn anywhere(message: &str) -> String {
    let Some((before, rest)) = message.split_once("Workspace: ") else { return message.to_owned() };
    let end = rest.find('\\').unwrap_or(rest.len());
    format!("{before}Workspace: /w{}", &rest[end..])
}

/// Replays a recording of a real harness to it, and checks that the harness does the same.
pub(crate) fn replays(env: &TestEnv, recording: &str, again: &str) {
    let said = CommandOutput::of(
        env.offshoot(&["replay", recording, "--out", again, "--order", "recorded"])
            .args(["--env", "SERVICE_PASSWORD"])
            .env("SERVICE_PASSWORD", CANARY)
            .env("OFFSHOOT_CACHE_DIR", cache_dir())
            .env("OFFSHOOT_SLOTS_DIR", env.path("slots"))
            .output()
            .unwrap(),
    );
    assert_eq!(said.code, Some(0), "{said:?}");
    let verdict = env.run(&["verify", recording, again, "--level", "E3", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&verdict.stdout).unwrap();
    // Some harnesses race by themselves, whatever the model does. The verdict says so, by a rule and for each place;
    // `docs/guide/verify.md` has the rules. Nothing else may differ.
    let holds = |of: &serde_json::Value| matches!(of.as_str(), Some("E3" | "E4"));
    let failing: Vec<&serde_json::Value> =
        json["differences"].as_array().unwrap().iter().filter(|it| !holds(&it["holds"])).collect();
    let is_racy = !failing.is_empty() && failing.iter().all(|it| it["racy"].is_string());
    assert!(
        verdict.code == Some(0) || is_racy,
        "{}\n{said:?}",
        env.run(&["verify", recording, again]).stdout
    );
}

/// Checks the calls of a run that was killed and resumed: a call with a stored result is not repeated, and `once` happens
/// at most once.
pub(crate) fn nothing_twice(points: &[String], once: &str, case: &str) {
    for line in points {
        let Some(call) = line.strip_prefix("recorded ") else { continue };
        let recorded = points.iter().position(|other| other == line).unwrap();
        let again = points[recorded..].iter().any(|later| *later == format!("effect {call}"));
        assert!(!again, "{case}: {call} was made again");
    }
    let times = points.iter().filter(|line| **line == format!("effect {once}")).count();
    assert!(times <= 1, "{case}: what must not happen twice happened {times} times");
}

/// A secret that no recording may hold.
pub(crate) const CANARY: &str = "wX4jPq9TzR2bLm7";

/// Returns the cache folder with the real harnesses.
pub(crate) fn cache_dir() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("OFFSHOOT_CACHE_DIR")
        .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("offshoot")))
        .unwrap_or_else(|| set("HOME").unwrap().join(".cache/offshoot"))
}

#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl CommandOutput {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// A proxy without a command, running.
pub(crate) struct Proxy {
    /// Until it was ended.
    child: Option<Child>,
    pub(crate) addr: SocketAddr,
}

impl Proxy {
    pub(crate) fn start(env: &TestEnv, arguments: &[&str]) -> Self {
        Self::spawn(env.offshoot(arguments))
    }

    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let Some(addr) = line.trim().strip_prefix("http://").and_then(|addr| addr.parse().ok()) else {
            panic!("no address: {line:?} {:?}", CommandOutput::of(child.wait_with_output().unwrap()));
        };
        Self { child: Some(child), addr }
    }

    pub(crate) fn signal(&self, signal: i32) {
        let pid = self.child.as_ref().unwrap().id().to_string();
        let sent = Command::new("kill").arg(format!("-{signal}")).arg(pid).status();
        assert!(sent.unwrap().success());
    }

    /// Ends it like Ctrl-C does.
    pub(crate) fn interrupt(mut self) -> CommandOutput {
        self.signal(2);
        CommandOutput::of(self.child.take().unwrap().wait_with_output().unwrap())
    }

    pub(crate) fn kill(self) {
        drop(self);
    }
}

/// A test that forgets it, or fails, leaves no process behind.
impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill(); // it may have ended by itself
            let _ = child.wait();
        }
    }
}

/// Sends raw bytes and returns everything until the connection closes.
pub(crate) fn ask(addr: SocketAddr, request: &[u8]) -> Vec<u8> {
    let mut tcp = TcpStream::connect(addr).unwrap();
    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
    tcp.write_all(request).unwrap();
    let mut answer = Vec::new();
    let _ = tcp.read_to_end(&mut answer); // a reset ends it too
    answer
}

pub(crate) fn post(path: &str, headers: &str, body: &str) -> Vec<u8> {
    let head = format!("POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}");
    format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// A provider on a thread: hands every connection to `serve` after its request has come.
pub(crate) fn provider(serve: impl Fn(String, TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let serve = std::sync::Arc::new(serve);
    std::thread::spawn(move || {
        for tcp in listener.incoming() {
            let serve = serve.clone();
            std::thread::spawn(move || {
                let mut tcp = tcp.unwrap();
                let request = read_request(&mut tcp);
                serve(request, tcp);
            });
        }
    });
    addr
}

pub(crate) fn read_request(tcp: &mut TcpStream) -> String {
    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0_usize) {
                return text;
            }
        }
        match tcp.read(&mut buffer) {
            Ok(read @ 1..) => bytes.extend_from_slice(&buffer[..read]),
            _ => return text,
        }
    }
}

/// Every file below a folder with its bytes.
pub(crate) fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let bytes = std::fs::read(&path).unwrap();
                found.push((path, bytes));
            }
        }
    }
    found
}

/// Returns the output of `cache --format json`.
pub(crate) fn cached(env: &TestEnv, recording: &str) -> serde_json::Value {
    let said = env.run(&["cache", recording, "--format", "json"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said:?}"))
}

/// Returns reason and pointer of every cache miss that is the fault of the harness. First requests and prompts that are
/// too short are not.
pub(crate) fn cache_breaks(cached: &serde_json::Value) -> Vec<(String, String)> {
    let requests = cached["requests"].as_array().unwrap().iter();
    let told =
        requests.filter_map(|it| Some((it["reason"].as_str()?, it["pointer"].as_str().unwrap_or_default())));
    let told =
        told.filter(|(reason, _)| !["cold", "below_minimum", "unmarked", "unanswered"].contains(reason));
    told.map(|(reason, pointer)| (reason.to_owned(), pointer.to_owned())).collect()
}
