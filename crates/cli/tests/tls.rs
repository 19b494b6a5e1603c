//! TLS towards the provider, with the system's certificates.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

mod common;

use std::net::SocketAddr;
use std::sync::Arc;

use common::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// A provider with a certificate of its own making; what a client must trust to believe it.
fn tls_provider() -> (SocketAddr, String) {
    tls_server(b"POST /v1/messages HTTP/1.1\r\nHost: localhost")
}

/// The same for another request.
fn tls_server(asked: &'static [u8]) -> (SocketAddr, String) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.key_pair.serialize_der()).unwrap();
    let config =
        rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            send.send(listener.local_addr().unwrap()).unwrap();
            loop {
                let (tcp, _) = listener.accept().await.unwrap();
                let Ok(mut tls) = acceptor.accept(tcp).await else { continue };
                let mut buffer = vec![0; 4096];
                let read = tls.read(&mut buffer).await.unwrap();
                assert!(buffer[..read].starts_with(asked));
                let head =
                    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\nConnection: close";
                tls.write_all(format!("{head}\r\n\r\nsecure").as_bytes()).await.unwrap();
                tls.shutdown().await.unwrap();
            }
        });
    });
    (receive.recv().unwrap(), made.cert.pem())
}

/// The proxy's answer and the end of its recording, with these certificates as the system's.
fn through_the_proxy(env: &TestEnv, port: u16, trusted: &str) -> (String, CommandOutput) {
    env.write("trusted.pem", trusted);
    let mut command =
        env.offshoot(&["proxy", "--upstream", &format!("https://localhost:{port}"), "--out", "rec"]);
    command.env("SSL_CERT_FILE", env.path("trusted.pem"));
    let proxy = Proxy::spawn(command);
    let answer = String::from_utf8(ask(proxy.addr, &post("/v1/messages", "", "{}"))).unwrap();
    (answer, proxy.interrupt())
}

#[test]
fn a_provider_that_is_trusted_answers() {
    let (addr, certificate) = tls_provider();
    let env = TestEnv::new();
    let (answer, said) = through_the_proxy(&env, addr.port(), &certificate);
    assert!(answer.ends_with("\r\n\r\nsecure"), "{answer}");
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(
        env.read("rec/provider_dumps/r000001_request.json")
            .contains(&format!("https://localhost:{}/v1/messages", addr.port()))
    );
}

#[test]
fn a_provider_that_is_not_trusted_is_not_spoken_to() {
    let (addr, _) = tls_provider();
    let (_, another) = tls_provider();
    let env = TestEnv::new();
    let (answer, said) = through_the_proxy(&env, addr.port(), &another);
    assert!(answer.starts_with("HTTP/1.1 502") && answer.contains("certificate"), "{answer}");
    assert_eq!(said.code, Some(3), "{said:?}");
}

/// Fetches a page over TLS with these certificates as the system's; what the tool answered.
fn fetched(port: u16, trusted: &str) -> String {
    let env = TestEnv::new();
    env.write("trusted.pem", trusted);
    std::fs::create_dir_all(env.path("home/.config/offshoot")).unwrap();
    let allow = format!("[web_fetch]\nallow = [\"localhost:{port}\"]\n");
    env.write("home/.config/offshoot/offshoot.toml", &allow);
    let call = format!("{{ tool: web_fetch, id: t1, input: {{ url: \"https://localhost:{port}/page\" }} }}");
    env.write(
        "script.yaml",
        &format!(
            "format: 1\nlanes:\n  - lane: main\n    match: {{ any: true }}\n    turns:\n      - reply: [ {{ call: {call} }} ]\n      - reply: [ {{ text: done }} ]\n"
        ),
    );
    let mut command = env.offshoot(&["run", "--script", "script.yaml", "--json", "Go."]);
    let said = CommandOutput::of(command.env("SSL_CERT_FILE", env.path("trusted.pem")).output().unwrap());
    let finished =
        said.stdout.lines().find(|line| line.contains("\"tool_finished\"")).unwrap_or(&said.stdout);
    finished.to_owned()
}

#[test]
fn a_page_is_fetched_with_the_system_s_certificates() {
    let (addr, certificate) = tls_server(b"GET /page HTTP/1.1\r\nhost: localhost:");
    let trusted = fetched(addr.port(), &certificate);
    assert!(trusted.contains("\\n\\nsecure"), "{trusted}");
    let (_, another) = tls_provider();
    let refused = fetched(addr.port(), &another);
    assert!(refused.contains("cannot connect") && refused.contains("certificate"), "{refused}");
}
