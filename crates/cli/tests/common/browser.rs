//! A headless Chromium, controlled over a pipe.

use std::cell::Cell;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

/// A browser with one page open.
pub(crate) struct Browser {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    session: String,
    last: Cell<u64>,
    /// Complaints of the page: script errors, and violations of its content security policy.
    pub(crate) complaints: Vec<String>,
    _profile: TempDir,
}

impl Browser {
    /// Opens a file in a window of that size.
    pub(crate) fn open(file: &Path, width: u32, height: u32) -> Self {
        let profile = tempfile::tempdir().unwrap();
        // It talks on descriptors 3 and 4; a shell puts our pipe there.
        let mut child = Command::new("sh")
            .args(["-c", "exec chromium \"$@\" 3<&0 4>&1 0</dev/null 1>&2", "sh"])
            .args(["--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu"])
            .args(["--no-first-run", "--disable-quic", "--disable-background-networking"])
            .args(["--disable-component-update", "--disable-sync", "--disable-extensions"])
            .args(["--disable-dev-shm-usage", "--hide-scrollbars", "--force-color-profile=srgb"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .env("HOME", profile.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (to, from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut browser = Self {
            child,
            to,
            from,
            session: String::new(),
            last: Cell::new(0),
            complaints: Vec::new(),
            _profile: profile,
        };
        let made = browser.tell("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": made["targetId"], "flatten": true});
        browser.session =
            browser.tell("Target.attachToTarget", attach)["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Runtime", "Log"] {
            browser.tell(&format!("{domain}.enable"), json!({}));
        }
        browser.resize(width, height);
        browser.go(&format!("file://{}", file.canonicalize().unwrap().display()));
        browser
    }

    /// Loads an address, and waits until all of it is there.
    pub(crate) fn go(&mut self, url: &str) {
        self.tell("Page.navigate", json!({"url": url}));
        self.eval("new Promise(done => document.readyState === 'complete' ? done() : addEventListener('load', () => done()))");
        self.eval("window.offshootReport && window.offshootReport.ready");
    }

    pub(crate) fn resize(&mut self, width: u32, height: u32) {
        let of = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.tell("Emulation.setDeviceMetricsOverride", of);
    }

    /// `dark` or `light`, as the system says it.
    pub(crate) fn scheme(&mut self, scheme: &str) {
        let wanted = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.tell("Emulation.setEmulatedMedia", wanted);
    }

    /// The value of an expression, awaited.
    pub(crate) fn eval(&mut self, expression: &str) -> Value {
        let ask = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let said = self.tell("Runtime.evaluate", ask);
        assert!(said["exceptionDetails"].is_null(), "{expression}: {said}");
        said["result"]["value"].clone()
    }

    /// Waits until an expression holds: the page says when it has drawn.
    pub(crate) fn until(&mut self, condition: &str) {
        let wait = format!(
            "new Promise((done, fail) => {{ const from = Date.now(); const look = () => {{ \
             if ({condition}) done(); else if (Date.now() - from > 30000) fail(new Error('it never came')); \
             else requestAnimationFrame(look); }}; look(); }})"
        );
        self.eval(&wait);
    }

    /// Presses a key, as in `j`, `Enter`, `Escape`.
    pub(crate) fn press(&mut self, key: &str) {
        let mut event = json!({"type": "keyDown", "key": key});
        if key.chars().count() == 1 {
            event["text"] = key.into();
        }
        self.tell("Input.dispatchKeyEvent", event);
        self.tell("Input.dispatchKeyEvent", json!({"type": "keyUp", "key": key}));
    }

    pub(crate) fn type_text(&mut self, text: &str) {
        self.tell("Input.insertText", json!({"text": text}));
    }

    /// Takes a screenshot, as PNG in base64.
    pub(crate) fn screenshot(&mut self) -> String {
        self.tell("Page.captureScreenshot", json!({"format": "png"}))["data"].as_str().unwrap().to_owned()
    }

    fn tell(&mut self, method: &str, params: Value) -> Value {
        let id = self.last.get() + 1;
        self.last.set(id);
        let mut message = json!({"id": id, "method": method, "params": params});
        if !self.session.is_empty() {
            message["sessionId"] = self.session.as_str().into();
        }
        self.to.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let mut said = Vec::new();
            self.from.read_until(0, &mut said).unwrap();
            assert_eq!(said.pop(), Some(0), "the browser is gone while `{method}` was asked");
            let said: Value = serde_json::from_slice(&said).unwrap();
            if said["id"] == id {
                assert!(said["error"].is_null(), "{method}: {said}");
                return said["result"].clone();
            }
            self.notice(&said);
        }
    }

    fn notice(&mut self, said: &Value) {
        let params = &said["params"];
        match said["method"].as_str() {
            Some("Runtime.exceptionThrown") => self.complaints.push(params["exceptionDetails"].to_string()),
            Some("Log.entryAdded") if params["entry"]["level"] != "info" => {
                self.complaints.push(params["entry"].to_string());
            }
            Some("Runtime.consoleAPICalled") if params["type"] == "error" => {
                self.complaints.push(params["args"].to_string());
            }
            _ => {}
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it may have ended by itself
        let _ = self.child.wait();
    }
}
