//! A provider and a harness that exchange raw bytes, and the proxy between them.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

use std::io::Read as _;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use proxy::{RecordingProxy, RequestGate, Upstream, UpstreamStatus, Upstreams};
use recording::{Disk, FinishedRecording, FolderDisk, Manifest, Recorder, Recording, RecordingOptions};
use redact::{FingerprintKey, Redactor};
use tempfile::TempDir;
use wire::{Body, Exchange};

/// Timeout after which a test that hangs fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Accepts connections, and serves each on its own thread.
pub(crate) fn provider<F>(serve: F) -> SocketAddr
where
    F: Fn(TcpStream) + Send + Sync + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let serve = std::sync::Arc::new(serve);
    std::thread::spawn(move || {
        for tcp in listener.incoming() {
            let serve = serve.clone();
            std::thread::spawn(move || serve(tcp.unwrap()));
        }
    });
    addr
}

/// Starts a provider for one connection. Returns its address and its thread.
pub(crate) fn provider_once<T, F>(serve: F) -> (SocketAddr, JoinHandle<T>)
where
    T: Send + 'static,
    F: FnOnce(TcpStream) -> T + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    (addr, std::thread::spawn(move || serve(listener.accept().unwrap().0)))
}

pub(crate) fn connect(addr: SocketAddr) -> TcpStream {
    let tcp = TcpStream::connect(addr).unwrap();
    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
    tcp.set_write_timeout(Some(PATIENCE)).unwrap();
    tcp
}

pub(crate) fn read_exactly(tcp: &mut TcpStream, length: usize) -> Vec<u8> {
    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut bytes = vec![0; length];
    tcp.read_exact(&mut bytes).unwrap();
    bytes
}

pub(crate) fn read_to_close(tcp: &mut TcpStream) -> Vec<u8> {
    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut bytes = Vec::new();
    // A reset also ends it. Only the bytes until then count.
    let _ = tcp.read_to_end(&mut bytes);
    bytes
}

/// Reads until `end` has come.
pub(crate) fn read_until(tcp: &mut TcpStream, end: &[u8]) -> Vec<u8> {
    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    while !bytes.windows(end.len()).any(|window| window == end) {
        match tcp.read(&mut buffer).unwrap() {
            0 => break,
            read => bytes.extend_from_slice(&buffer[..read]),
        }
    }
    bytes
}

/// Resets a connection when it is closed.
pub(crate) fn reset(tcp: TcpStream) {
    let socket = socket2::SockRef::from(&tcp);
    socket.set_linger(Some(Duration::ZERO)).unwrap();
}

pub(crate) fn close(tcp: &TcpStream) {
    let _ = tcp.shutdown(Shutdown::Both);
}

/// Waits for a condition that another thread fulfils without a notification.
pub(crate) fn wait_until(happened: impl Fn() -> bool) {
    let until = std::time::Instant::now() + PATIENCE;
    while !happened() {
        assert!(std::time::Instant::now() < until, "it did not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The proxy and its recording.
pub(crate) struct Station {
    pub(crate) addr: SocketAddr,
    capture: Option<RecordingProxy>,
    pub(crate) recorder: Recorder,
    manifest: Manifest,
    folder: TempDir,
    runtime: tokio::runtime::Runtime,
}

pub(crate) struct Stopped {
    pub(crate) reach: Vec<UpstreamStatus>,
    pub(crate) finished: FinishedRecording,
    manifest: Manifest,
    folder: TempDir,
}

impl Station {
    /// Starts a proxy for upstreams given as `[PREFIX=]URL`.
    pub(crate) fn new(upstreams: &[&str]) -> Self {
        Self::with_disk(upstreams, |dir| Box::new(FolderDisk::new(dir)))
    }

    pub(crate) fn before(provider: SocketAddr) -> Self {
        Self::new(&[&format!("http://{provider}")])
    }

    pub(crate) fn gated(upstreams: &[&str], gate: Arc<dyn RequestGate>) -> Self {
        Self::start(upstreams, |dir| Box::new(FolderDisk::new(dir)), Some(gate))
    }

    pub(crate) fn with_disk(upstreams: &[&str], disk: impl FnOnce(&Path) -> Box<dyn Disk>) -> Self {
        Self::start(upstreams, disk, None)
    }

    fn start(
        upstreams: &[&str],
        disk: impl FnOnce(&Path) -> Box<dyn Disk>,
        gate: Option<Arc<dyn RequestGate>>,
    ) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut settings = RecordingOptions {
            dir: folder.path().join("recording"),
            started_at: SystemTime::UNIX_EPOCH,
            manifest: Manifest::default(),
        };
        let redactor = Redactor::new(FingerprintKey::from_bytes([7; 32]));
        let recorder = Recorder::create(&mut settings, redactor, disk).unwrap();
        let list = upstreams.iter().map(|text| Upstream::parse(text).unwrap()).collect();
        let upstreams = Upstreams::new(list).unwrap();
        let (addr, capture) = runtime.block_on(async {
            let bound = RecordingProxy::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
            let (addr, recorder) = (bound.addr(), recorder.clone());
            let capture = match gate {
                Some(gate) => bound.start_gated(upstreams, recorder, gate),
                None => bound.start(upstreams, recorder),
            };
            (addr, capture)
        });
        Self { addr, capture: Some(capture), recorder, manifest: settings.manifest, folder, runtime }
    }

    pub(crate) fn dir(&self) -> std::path::PathBuf {
        self.folder.path().join("recording")
    }

    pub(crate) fn stop(self) -> Stopped {
        self.stop_within(PATIENCE)
    }

    pub(crate) fn stop_within(mut self, deadline: Duration) -> Stopped {
        let capture = self.capture.take().unwrap();
        let reach = self.runtime.block_on(async { capture.stop(tokio::time::sleep(deadline)).await });
        let finished = self.recorder.finish(PATIENCE).unwrap();
        Stopped { reach, finished, manifest: self.manifest, folder: self.folder }
    }

    /// Stops the proxy, seals the recording, and reads it.
    pub(crate) fn seal(self) -> Opened {
        self.stop().seal()
    }
}

impl Stopped {
    pub(crate) fn dir(&self) -> std::path::PathBuf {
        self.folder.path().join("recording")
    }

    pub(crate) fn seal(self) -> Opened {
        let dir = self.dir();
        let sealed = self.finished.seal(&dir, self.manifest).unwrap();
        let recording = Recording::open(&dir).unwrap();
        assert_eq!(recording.damage().unwrap(), Vec::<String>::new());
        recording::source::Source::open(&dir).unwrap(); // a recording with losses is readable
        Opened { recording, sealed, folder: self.folder }
    }
}

pub(crate) struct Opened {
    pub(crate) recording: Recording,
    pub(crate) sealed: recording::SealReport,
    pub(crate) folder: TempDir,
}

impl Opened {
    pub(crate) fn exchanges(&self) -> Vec<Exchange> {
        self.recording.exchanges().map(|exchange| exchange.unwrap()).collect()
    }

    pub(crate) fn only(&self) -> Exchange {
        let mut exchanges = self.exchanges();
        assert_eq!(exchanges.len(), 1);
        exchanges.remove(0)
    }

    pub(crate) fn bytes(&self, body: &Body) -> Vec<u8> {
        self.recording.bytes_of(body).unwrap().expect("it was kept")
    }

    pub(crate) fn request_body(&self, exchange: &Exchange) -> Vec<u8> {
        self.bytes(&exchange.request.body)
    }

    pub(crate) fn response_body(&self, exchange: &Exchange) -> Vec<u8> {
        self.bytes(&exchange.response.as_ref().expect("answered").body)
    }
}

/// Returns a request that closes its connection.
pub(crate) fn post(path: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// Returns status and body of a response.
pub(crate) fn response(bytes: &[u8]) -> (u16, Vec<u8>) {
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    if !head.contains("transfer-encoding: chunked") {
        return (status, body.as_bytes().to_vec());
    }
    let mut whole = String::new();
    let mut rest = body;
    loop {
        let (length, after) = rest.split_once("\r\n").unwrap();
        let length = usize::from_str_radix(length, 16).unwrap();
        if length == 0 {
            return (status, whole.into_bytes());
        }
        whole.push_str(&after[..length]);
        rest = &after[length + 2..];
    }
}
