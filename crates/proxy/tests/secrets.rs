//! Secrets in all known places and encodings, sent through the proxy: no file contains one.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

mod common;

use std::io::Write as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use common::*;

/// Returns letters and digits that look random and are equal in each run.
fn noise(seed: usize, length: usize) -> String {
    let mut state = (seed as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"[(state % 62) as usize] as char
    };
    (0..length).map(|_| next()).collect()
}

/// Returns lower-case letters only.
fn near_word(seed: usize) -> String {
    noise(seed, 40).chars().filter(char::is_ascii_lowercase).collect()
}

/// Returns secrets with a known shape: the text, and the part that must be removed. They are assembled from parts, so that
/// this file contains no such text.
fn shapes(seed: usize) -> Vec<(&'static str, String, String)> {
    let same = |kind, secret: String| (kind, secret.clone(), secret);
    let n = |length| noise(seed, length);
    let pem_body = n(64);
    let token = format!("ey{}.ey{}.{}", format_args!("J{}", n(30)), format_args!("J{}", n(40)), n(43));
    vec![
        same("anthropic", ["sk", "ant", "api03", &n(40)].join("-")),
        same("openai", ["sk", "proj", &n(48)].join("-")),
        same(
            "openrouter",
            ["sk", "or", "v1", &n(64).to_lowercase().replace(|c: char| !c.is_ascii_hexdigit(), "a")]
                .join("-"),
        ),
        same("google", format!("AI{}{}", "za", n(35))),
        same("aws", format!("AK{}{}", "IA", n(16).to_uppercase())),
        same("github", ["ghp", &n(36)].join("_")),
        same("slack", ["xoxb", "123456789012", "1234567890123", &n(24)].join("-")),
        same("jwt", token),
        ("bearer", format!("Authorization: Bearer {}", n(44)), n(44)),
        ("basic auth", format!("see https://robot:{}@internal.test/x", n(20)), n(20)),
        ("cookie", format!("Cookie: session={}; theme=dark", n(32)), n(32)),
        ("curl login", format!("curl -s -u robot:{} https://internal.test/x", n(12)), n(12)),
        ("netrc", format!("machine internal.test\n  login robot\n  password {}\n", n(12)), n(12)),
        ("near word", format!("password: {}99", near_word(seed)), format!("{}99", near_word(seed))),
        (
            "private key",
            format!("-----BEGIN {0} KEY-----\n{1}\n-----END {0} KEY-----", "PRIVATE", pem_body),
            pem_body.clone(),
        ),
    ]
}

/// A response and its form.
struct Reply {
    headers: &'static str,
    pieces: Vec<Vec<u8>>,
}

fn json_reply(body: String) -> Reply {
    Reply { headers: "Content-Type: application/json\r\n", pieces: vec![body.into_bytes()] }
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

/// Divides a text into events of three characters.
fn streamed(text: &str, event: impl Fn(String) -> String) -> Reply {
    let characters: Vec<char> = text.chars().collect();
    let pieces = characters.chunks(3).map(|piece| event(piece.iter().collect()).into_bytes());
    Reply { headers: "Content-Type: text/event-stream\r\n", pieces: pieces.collect() }
}

fn anthropic(kind: &'static str, field: &'static str) -> impl Fn(String) -> String {
    move |piece| {
        let delta = format!(r#"{{"type":"{kind}","{field}":{}}}"#, quoted(&piece));
        format!(
            "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{delta}}}\n\n"
        )
    }
}

fn chat(piece: String) -> String {
    format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":{}}}}}]}}\n\n", quoted(&piece))
}

fn responses(piece: String) -> String {
    let fields =
        format!("\"item_id\":\"m\",\"output_index\":0,\"content_index\":0,\"delta\":{}", quoted(&piece));
    format!(
        "event: response.output_text.delta\ndata: {{\"type\":\"response.output_text.delta\",{fields}}}\n\n"
    )
}

/// One place for a text: path, headers and body of the request, and the response.
struct Planted {
    name: String,
    path: String,
    headers: String,
    body: String,
    reply: Reply,
    secret: String,
}

impl Planted {
    fn nothing(name: String, secret: &str) -> Self {
        Self {
            name,
            path: "/v1/messages".into(),
            headers: String::new(),
            body: "{}".into(),
            reply: json_reply("{}".into()),
            secret: secret.into(),
        }
    }
}

/// Returns all places for a secret with a known shape.
fn places(kind: &str, text: &str, secret: &str) -> Vec<Planted> {
    let said = format!("here it is: {text} and so on");
    let one_line = !text.contains('\n');
    let place = |name: &str| Planted::nothing(format!("{kind} in {name}"), secret);
    let mut all = vec![
        Planted {
            body: format!(r#"{{"messages":[{{"role":"user","content":{}}}]}}"#, quoted(&said)),
            ..place("a message")
        },
        Planted {
            body: format!(r#"{{"tool_result":{}}}"#, quoted(&format!(r#"{{"log":{}}}"#, quoted(&said)))),
            ..place("JSON inside a string")
        },
        Planted { body: said.clone(), headers: "Content-Type: text/plain\r\n".into(), ..place("plain text") },
        Planted {
            reply: json_reply(format!(r#"{{"content":[{{"type":"text","text":{}}}]}}"#, quoted(&said))),
            ..place("a reply")
        },
        Planted { reply: streamed(&said, anthropic("text_delta", "text")), ..place("text deltas") },
        Planted {
            reply: streamed(&said, anthropic("thinking_delta", "thinking")),
            ..place("thinking deltas")
        },
        Planted {
            reply: streamed(
                &format!(r#"{{"note":{}}}"#, quoted(&said)),
                anthropic("input_json_delta", "partial_json"),
            ),
            ..place("tool input deltas")
        },
        Planted { reply: streamed(&said, chat), ..place("chat deltas") },
        Planted { reply: streamed(&said, responses), ..place("response deltas") },
        Planted {
            reply: Reply {
                headers: "Content-Type: text/plain\r\n",
                pieces: said.as_bytes().chunks(5).map(<[u8]>::to_vec).collect(),
            },
            ..place("chunks")
        },
        Planted {
            reply: Reply {
                headers: "Content-Type: application/json\r\nContent-Encoding: gzip\r\n",
                pieces: vec![
                    wire::encoding::encode("gzip", format!(r#"{{"text":{}}}"#, quoted(&said)).as_bytes())
                        .unwrap(),
                ],
            },
            ..place("a compressed reply")
        },
    ];
    let packed = |body: &str| wire::encoding::encode("gzip", body.as_bytes()).unwrap();
    let reply = Reply {
        headers: "Content-Encoding: identity\r\nContent-Encoding: gzip\r\n",
        pieces: vec![packed(&said)],
    };
    all.push(Planted { reply, ..place("a reply with two coding headers") });
    let reply = Reply { headers: "Content-Type: application/gzip\r\n", pieces: vec![packed(&said)] };
    all.push(Planted { reply, ..place("a packed file") });
    if one_line {
        all.push(Planted { headers: format!("X-Note: {said}\r\n"), ..place("a header") });
        all.push(Planted {
            reply: Reply { headers: "", pieces: vec![] },
            headers: format!("X-Echo: {text}\r\n"),
            ..place("an odd header")
        });
    }
    if one_line && !text.contains(' ') {
        all.push(Planted { path: format!("/v1/messages?note={text}"), ..place("the address") });
    }
    all
}

/// Returns all places for a value that only its name marks as secret, with the encodings in which it occurs again.
fn named(seed: usize) -> Vec<Planted> {
    let value = format!("{}/\"é{}", noise(seed, 9), noise(seed + 1, 9));
    let plain = noise(seed + 2, 18);
    let place = |name: &str, secret: &str| Planted::nothing(format!("value {seed} {name}"), secret);
    let ascii: String = value.chars().map(|c| format!("\\u{:04x}", c as u32)).collect();
    let percent: String = plain.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let mut all = vec![
        Planted { body: format!(r#"{{"api_key":{}}}"#, quoted(&value)), ..place("under its name", &value) },
        Planted { body: format!(r#"{{"x":"{ascii}"}}"#), ..place("as escapes", &value) },
        Planted { body: format!(r#"{{"x":{}}}"#, quoted(&quoted(&value))), ..place("quoted twice", &value) },
        Planted { reply: streamed(&value, anthropic("text_delta", "text")), ..place("in deltas", &value) },
        Planted { headers: format!("x-api-key: {plain}\r\n"), ..place("in a secret header", &plain) },
        Planted { path: format!("/v1/{plain}/files"), ..place("in a path", &plain) },
        Planted { path: format!("/v1/messages?x={percent}"), ..place("percent-encoded", &plain) },
        Planted { headers: format!("X-Trace: a-{plain}-b\r\n"), ..place("in another header", &plain) },
        Planted { reply: streamed(&plain, chat), ..place("in chat deltas", &plain) },
        Planted {
            reply: streamed(
                &format!(r#"{{"password":"{plain}"}}"#),
                anthropic("input_json_delta", "partial_json"),
            ),
            ..place("with its name in deltas", &plain)
        },
    ];
    for ahead in ["", "x", "xy"] {
        let encoded = STANDARD.encode(format!("{ahead}{plain} behind"));
        all.push(Planted {
            body: format!(r#"{{"x":"{encoded}"}}"#),
            ..place(&format!("as base64 behind {ahead:?}"), &plain)
        });
        let padded = format!("{ahead}{}{plain} behind", "-".repeat(45));
        let lines: Vec<_> = STANDARD.encode(padded).into_bytes().chunks(76).map(<[u8]>::to_vec).collect();
        let lines = String::from_utf8(lines.join(&b'\n')).unwrap();
        all.push(Planted {
            body: format!(r#"{{"x":{}}}"#, quoted(&lines)),
            reply: streamed(&lines, anthropic("text_delta", "text")),
            ..place(&format!("as base64 in lines behind {ahead:?}"), &plain)
        });
        let reply = json_reply(format!(r#"{{"x":"{encoded}"}}"#));
        all.push(Planted { reply, ..place(&format!("as base64 behind {ahead:?} in a reply"), &plain) });
    }
    all
}

fn table() -> Vec<Planted> {
    let mut table = Vec::new();
    for at in 0..shapes(0).len() {
        for variant in 0..20 {
            // Each place has its own value, so that no place depends on another.
            let (kind, text, secret) = shapes(1000 * at + 31 * variant + 7).remove(at);
            let mut all = places(kind, &text, &secret);
            if variant < all.len() {
                table.push(all.remove(variant));
            }
        }
    }
    (0..4).for_each(|n| table.extend(named(50_000 + 10 * n)));
    table
}

/// Starts a provider that answers request `n`, named by a header, with the reply of row `n`.
fn serve(table: &'static [Planted]) -> std::net::SocketAddr {
    provider(move |mut tcp| {
        let head = String::from_utf8_lossy(&read_until(&mut tcp, b"\r\n\r\n")).into_owned();
        let n: usize = head.lines().find_map(|line| line.strip_prefix("X-Row: ")).unwrap().parse().unwrap();
        let Reply { headers, pieces } = &table[n].reply;
        tcp.write_all(
            format!("HTTP/1.1 200 OK\r\n{headers}Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n")
                .as_bytes(),
        )
        .unwrap();
        for piece in pieces {
            tcp.write_all(format!("{:x}\r\n", piece.len()).as_bytes()).unwrap();
            tcp.write_all(piece).unwrap();
            tcp.write_all(b"\r\n").unwrap();
        }
        tcp.write_all(b"0\r\n\r\n").unwrap();
        // Closing with an unread request would reset the connection.
        tcp.shutdown(std::net::Shutdown::Write).unwrap();
        read_to_close(&mut tcp);
    })
}

/// Returns the encodings in which a secret can be recovered.
fn forms(secret: &str) -> Vec<Vec<u8>> {
    let mut forms = vec![secret.as_bytes().to_vec(), quoted(secret).trim_matches('"').as_bytes().to_vec()];
    forms.push(secret.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>().into_bytes());
    forms.push(secret.chars().map(|c| format!("\\u{:04x}", c as u32)).collect::<String>().into_bytes());
    for ahead in 0..3 {
        let encoded = STANDARD.encode([&b"xyz"[..ahead], secret.as_bytes()].concat());
        // Without the characters that depend on the text around it.
        let (from, to) = ([0, 2, 3][ahead], encoded.trim_end_matches('=').len() - 1);
        forms.push(encoded.as_bytes()[from..to].to_vec());
    }
    forms
}

fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push((path.display().to_string(), std::fs::read(&path).unwrap()));
            }
        }
    }
    found
}

/// Removes line breaks in strings, at any depth of escaping.
fn without_breaks(bytes: &[u8]) -> Vec<u8> {
    let mut text = String::from_utf8_lossy(bytes).into_owned();
    for depth in [4, 3, 2, 1] {
        text = text.replace(&format!("{}n", "\\".repeat(depth)), "");
    }
    text.into_bytes()
}

/// Joins the strings of a stream's events as a harness does.
fn reassembled(body: &[u8]) -> String {
    let mut text = String::new();
    for frame in wire::sse::decode(body).0 {
        let Ok(document) = wire::json::Document::parse(frame.data.as_bytes()) else { continue };
        for pointer in
            ["/delta/text", "/delta/thinking", "/delta/partial_json", "/choices/0/delta/content", "/delta"]
        {
            text.extend(document.root().pointer(pointer).and_then(|value| value.as_str()).as_deref());
        }
    }
    text
}

#[test]
fn none_of_them_is_in_any_file() {
    let table: &'static [Planted] = Vec::leak(table());
    assert!(table.len() >= 200, "only {} placements", table.len());
    let station = Station::before(serve(table));
    for (n, planted) in table.iter().enumerate() {
        let mut harness = connect(station.addr);
        let Planted { path, headers, body, .. } = planted;
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nX-Row: {n}\r\n{headers}Content-Length: {}\r\n\r\n",
            body.len()
        );
        harness.write_all((head + body).as_bytes()).unwrap();
        let received = read_to_close(&mut harness);
        assert!(received.ends_with(b"0\r\n\r\n"), "{}", planted.name);
        let whole = planted
            .reply
            .pieces
            .iter()
            .all(|piece| received.windows(piece.len()).any(|window| window == piece));
        assert!(whole, "{}: the harness got it as it was", planted.name);
    }
    let opened = station.seal();
    assert_eq!(opened.recording.len(), table.len());
    let files = files(&opened.folder.path().join("recording"));
    let joined: Vec<u8> = files.iter().flat_map(|(_, bytes)| without_breaks(bytes)).collect();
    let mut leaks = Vec::new();
    for planted in table {
        for form in forms(&planted.secret) {
            if planted.name.contains("in lines") && memchr::memmem::find(&joined, &form).is_some() {
                leaks.push(format!("{}: over the end of a line", planted.name));
            }
            for (path, bytes) in &files {
                if memchr::memmem::find(bytes, &form).is_some() {
                    leaks.push(format!(
                        "{}: as {:?} in {path}",
                        planted.name,
                        String::from_utf8_lossy(&form)
                    ));
                }
            }
        }
    }
    for (exchange, planted) in opened.exchanges().iter().zip(table) {
        let body = opened.response_body(exchange);
        if let Ok(unpacked) = wire::encoding::decode("gzip", &body, 1 << 20)
            && memchr::memmem::find(&unpacked, planted.secret.as_bytes()).is_some()
        {
            leaks.push(format!("{}: packed", planted.name));
        }
        let text = reassembled(&body);
        let wrapped = text.replace('\n', "");
        let encoded = forms(&planted.secret);
        if text.contains(&planted.secret)
            || encoded.iter().any(|form| memchr::memmem::find(wrapped.as_bytes(), form).is_some())
        {
            leaks.push(format!("{}: put together from the stream", planted.name));
        }
        if planted.reply.headers.contains("event-stream") {
            let valid = wire::sse::decode(&body)
                .0
                .iter()
                .all(|frame| wire::json::Document::parse(frame.data.as_bytes()).is_ok());
            assert!(valid, "{}: the stream stays valid", planted.name);
        }
    }
    assert!(leaks.is_empty(), "{} leaks:\n{}", leaks.len(), leaks.join("\n"));
}

#[test]
fn late_secrets_are_removed_from_written_files() {
    let value = noise(99, 24);
    let echo = provider(|mut tcp| {
        read_until(&mut tcp, b"end");
        tcp.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok").unwrap();
    });
    let station = Station::before(echo);
    let send = |headers: &str, body: &str| {
        let mut harness = connect(station.addr);
        let head = format!("POST / HTTP/1.1\r\nHost: x\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
        harness.write_all((head + body).as_bytes()).unwrap();
        read_to_close(&mut harness);
    };
    let long = format!("{} {value} {} end", "word ".repeat(300_000), "word ".repeat(30_000));
    send("", &format!("the word is {value}, end"));
    send("", &long);
    wait_until(|| station.dir().join("provider_dumps/r000002_response.json").exists());
    let dump = std::fs::read(station.dir().join("provider_dumps/r000001_request.json")).unwrap();
    assert!(memchr::memmem::find(&dump, value.as_bytes()).is_some(), "it was unknown by then");
    send(&format!("x-api-key: {value}\r\n"), "end");
    let opened = station.seal();
    for (path, bytes) in files(&opened.folder.path().join("recording")) {
        assert!(memchr::memmem::find(&bytes, value.as_bytes()).is_none(), "{path}");
    }
    let exchanges = opened.exchanges();
    let first = String::from_utf8(opened.request_body(&exchanges[0])).unwrap();
    let (before, behind) = first.split_once("offshoot-redacted-").unwrap();
    assert_eq!((before, &behind[16..]), ("the word is ", ", end"));
    assert!(opened.request_body(&exchanges[1]).starts_with(b"word word "));
    let report = serde_json::to_value(&opened.recording.manifest().unwrap().redaction).unwrap();
    assert!(report.as_array().unwrap().iter().any(|finding| finding["late"] == true), "{report}");
}
