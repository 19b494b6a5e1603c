//! All combinations of source, encoding and place: no canary may remain.

use super::*;

/// Names of shapes, with a canary of each.
fn shapes() -> Vec<(&'static str, String)> {
    let join = |parts: &[&str]| parts.concat();
    vec![
        ("anthropic", join(&["sk-", "ant-", "api03-", &random(ALNUM, 93, 1), "AA"])),
        (
            "anthropic oauth",
            join(&["sk-", "ant-", "oat01-", &random(ALNUM, 40, 2), "-", &random(ALNUM, 30, 3)]),
        ),
        ("openai", join(&["sk-", &random(ALNUM, 48, 4)])),
        ("openai project", join(&["sk-", "proj-", &random(ALNUM, 60, 5), "_", &random(ALNUM, 40, 6)])),
        ("openai service", join(&["sk-", "svcacct-", &random(ALNUM, 40, 7)])),
        ("openai session", join(&["sess", "-", &random(ALNUM, 40, 8)])),
        ("openrouter", join(&["sk-", "or-v1-", &random(HEX, 64, 9)])),
        ("google", join(&["AI", "za", &random(ALNUM, 35, 10)])),
        ("google oauth", join(&["ya", "29.", &random(ALNUM, 60, 11)])),
        ("google client", join(&["GOC", "SPX-", &random(ALNUM, 28, 12)])),
        ("aws id", join(&["AK", "IA", &random(UPPER, 16, 13)])),
        ("aws session id", join(&["AS", "IA", &random(UPPER, 16, 14)])),
        ("github", join(&["gh", "p_", &random(ALNUM, 36, 15)])),
        ("github oauth", join(&["gh", "o_", &random(ALNUM, 36, 16)])),
        ("github server", join(&["gh", "s_", &random(ALNUM, 36, 17)])),
        ("github fine", join(&["github", "_pat_", &random(ALNUM, 22, 18), "_", &random(ALNUM, 59, 19)])),
        ("gitlab", join(&["gl", "pat-", &random(ALNUM, 20, 20)])),
        ("slack bot", join(&["xo", "xb-", &random("0123456789", 12, 21), "-", &random(ALNUM, 24, 22)])),
        ("slack user", join(&["xo", "xp-", &random("0123456789", 12, 23), "-", &random(ALNUM, 24, 24)])),
        ("slack app", join(&["xa", "pp-1-", &random(UPPER, 11, 25), "-", &random(HEX, 64, 26)])),
        ("stripe", join(&["sk", "_live_", &random(ALNUM, 24, 27)])),
        ("stripe restricted", join(&["rk", "_live_", &random(ALNUM, 24, 28)])),
        ("npm", join(&["np", "m_", &random(ALNUM, 36, 29)])),
        ("pypi", join(&["py", "pi-AgEIcHlwaS5vcmc", &random(ALNUM, 60, 30)])),
        ("hugging face", join(&["h", "f_", &random(ALNUM, 34, 31)])),
        ("groq", join(&["gs", "k_", &random(ALNUM, 52, 32)])),
        ("xai", join(&["xa", "i-", &random(ALNUM, 80, 33)])),
        ("databricks", join(&["da", "pi", &random(HEX, 32, 34)])),
        ("digitalocean", join(&["do", "p_v1_", &random(HEX, 64, 35)])),
        ("sendgrid", join(&["S", "G.", &random(ALNUM, 22, 36), ".", &random(ALNUM, 43, 37)])),
        ("twilio", join(&["S", "K", &random(HEX, 32, 38)])),
        (
            "jwt",
            join(&[
                "ey",
                "J",
                &random(ALNUM, 33, 39),
                ".ey",
                "J",
                &random(ALNUM, 80, 40),
                ".",
                &random(ALNUM, 43, 41),
            ]),
        ),
    ]
}

/// Values that only a secret name identifies: simple ones, and ones with characters that need escapes.
fn values() -> Vec<(&'static str, String)> {
    vec![
        ("letters", random(ALNUM, 32, 50)),
        (
            "slashes",
            format!("{}/{}+{}==", random(ALNUM, 12, 51), random(ALNUM, 12, 52), random(ALNUM, 12, 53)),
        ),
        (
            "quotes",
            format!("{}\"{}\\{}'&<>", random(ALNUM, 9, 54), random(ALNUM, 9, 55), random(ALNUM, 9, 56)),
        ),
        ("short", random(ALNUM, 8, 57)),
        ("accents", format!("{}\u{e9}\u{df}\u{1f600}{}", random(ALNUM, 9, 58), random(ALNUM, 9, 59))),
        ("reads as an escape", format!("n{}", random(ALNUM, 20, 60))),
    ]
}

type Encode = fn(&str) -> String;

/// The encodings in which a learned value may appear.
const ENCODINGS: &[(&str, Encode)] = &[
    ("raw", |text| text.to_owned()),
    ("base64", |text| STANDARD_NO_PAD.encode(text)),
    ("base64 behind one byte", |text| STANDARD_NO_PAD.encode(format!("x{text}yz"))),
    ("base64 behind two bytes", |text| STANDARD_NO_PAD.encode(format!("xy{text}z"))),
    ("base64 of a login", |text| STANDARD_NO_PAD.encode(format!("user:{text}"))),
    ("base64 url-safe", |text| URL_SAFE_NO_PAD.encode(format!("x{text}"))),
    ("percent", |text| percent(text, false)),
    ("percent in lower case", |text| percent(text, true)),
    ("percent all", |text| text.bytes().map(|byte| format!("%{byte:02x}")).collect()),
    ("percent twice", |text| percent(&percent(text, false), false)),
    ("json", inner),
    ("json twice", |text| inner(&inner(text))),
    ("json, slashes escaped", |text| inner(text).replace('/', "\\/")),
    ("json, all escaped", |text| text.encode_utf16().map(|unit| format!("\\u{unit:04X}")).collect()),
    ("base64 in lines of 76", |text| wrapped(text, false, 50, 76, "\n")),
    ("base64 in lines of 64, two bytes on", |text| wrapped(text, false, 44, 64, "\r\n")),
    ("base64 url-safe in lines of 76", |text| wrapped(text, true, 52, 76, "\n  ")),
    ("html", html),
    ("html twice", |text| html(&html(text))),
    ("html, all in decimals", |text| text.chars().map(|c| format!("&#{};", c as u32)).collect()),
    ("html, all in hex", |text| text.chars().map(|c| format!("&#x{:X};", c as u32)).collect()),
    ("hex", |text| text.bytes().map(|byte| format!("{byte:02x}")).collect()),
    ("hex in upper case", |text| text.bytes().map(|byte| format!("{byte:02X}")).collect()),
];

/// Puts a text into a place and returns the original and the redacted bytes.
type Place = fn(&mut Redactor, &str) -> (Vec<u8>, Vec<u8>);

fn body(redactor: &mut Redactor, content_type: &str, text: String) -> (Vec<u8>, Vec<u8>) {
    let hints = BodyHints { content_type: Some(content_type), content_encoding: None };
    let out = redactor.redact_body("r000001 body", hints, text.as_bytes()).bytes.into_owned();
    (text.into_bytes(), out)
}

/// Splits a text into events of a few characters each.
fn events(text: &str, event: impl Fn(&str) -> String) -> String {
    let characters: Vec<char> = text.chars().collect();
    let piece = |piece: &[char]| event(&inner(&piece.iter().collect::<String>()));
    characters.chunks(5).map(piece).collect()
}

const JSON: &str = "application/json";
const SSE: &str = "text/event-stream; charset=utf-8";

const PLACES: &[(&str, Place)] = &[
    ("header", |r, text| {
        let raw = [("x-note".to_owned(), format!("a {text} b").into_bytes())];
        let out = r.redact_headers("r000001", &raw);
        (Vec::new(), serde_json::to_vec(&out).expect("headers serialize"))
    }),
    ("referer", |r, text| {
        let raw = [("HTTP-Referer".to_owned(), format!("https://example.com/{text}").into_bytes())];
        let out = r.redact_headers("r000001", &raw);
        assert_eq!(out[0].name(), "HTTP-Referer");
        assert!(out[0].value().is_some_and(|value| value.starts_with("https://example.com/")));
        (Vec::new(), serde_json::to_vec(&out).expect("headers serialize"))
    }),
    ("url", |r, text| {
        (
            Vec::new(),
            r.redact_url(
                "r000001 url",
                &format!("https://api.example.com/v1/x?note={}&z=1", percent(text, false)),
            )
            .into_bytes(),
        )
    }),
    ("url path", |r, text| {
        (Vec::new(), r.redact_url("r000001 url", &format!("/v1/{}/x", percent(text, true))).into_bytes())
    }),
    ("request json", |r, text| {
        body(
            r,
            JSON,
            format!(
                r#"{{"model":"m","messages":[{{"role":"user","content":"see {} here"}}],"n":1e3}}"#,
                inner(text)
            ),
        )
    }),
    ("request json, nested", |r, text| {
        let result = format!("{{\"note\": \"{}\", \"n\": 1}}", inner(text));
        body(r, JSON, format!(r#"{{"content":[{{"type":"tool_result","content":"{}"}}]}}"#, inner(&result)))
    }),
    ("request json, key", |r, text| body(r, JSON, format!(r#"{{"map":{{"{}":true}}}}"#, inner(text)))),
    ("form", |r, text| {
        body(r, "application/x-www-form-urlencoded", format!("a=1&note={}&b=2", percent(text, false)))
    }),
    ("multipart", |r, text| {
        body(
            r,
            "multipart/form-data; boundary=x",
            format!("--x\r\nContent-Disposition: form-data; name=\"note\"\r\n\r\n{text}\r\n--x--\r\n"),
        )
    }),
    ("plain body", |r, text| body(r, "text/plain", format!("see {text} here"))),
    ("not utf-8", |r, text| {
        let bytes = [b"\xff\xfe\x00", text.as_bytes(), b"\x00\xff"].concat();
        let out = r.redact_body("r000001 body", BodyHints::default(), &bytes).bytes.into_owned();
        (bytes, out)
    }),
    ("gzip", |r, text| {
        let bytes = wire::encoding::encode("gzip", format!(r#"{{"note":"{}"}}"#, inner(text)).as_bytes())
            .expect("gzip");
        let hints = BodyHints { content_type: Some(JSON), content_encoding: Some("gzip") };
        let out = r.redact_body("r000001 body", hints, &bytes);
        assert!(out.decoded && out.edits.is_none(), "a compressed secret is stored decoded");
        (Vec::new(), out.bytes.into_owned())
    }),
    ("gzip, cut off", |r, text| {
        let whole = wire::encoding::encode("gzip", format!("{text} {}", random(ALNUM, 4_000, 77)).as_bytes())
            .expect("gzip");
        let hints = BodyHints { content_type: None, content_encoding: Some("gzip") };
        (Vec::new(), r.redact_body("r000001 body", hints, &whole[..whole.len() - 100]).bytes.into_owned())
    }),
    ("response json", |r, text| {
        body(
            r,
            JSON,
            format!(
                r#"{{"id":"msg_1","content":[{{"type":"text","text":"{}"}}],"usage":{{"input_tokens":5}}}}"#,
                inner(text)
            ),
        )
    }),
    ("sse whole", |r, text| {
        body(r, SSE, format!("event: a\ndata: {{\"text\":\"{}\"}}\n\n: {text}\n\n", inner(text)))
    }),
    ("sse anthropic text", |r, text| {
        body(
            r,
            SSE,
            events(text, |piece| {
                format!(
                    "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"{piece}\"}}}}\n\n"
                )
            }),
        )
    }),
    ("sse anthropic thinking", |r, text| {
        body(
            r,
            SSE,
            events(text, |piece| {
                format!(
                    "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":1,\"delta\":{{\"type\":\"thinking_delta\",\"thinking\":\"{piece}\"}}}}\n\n"
                )
            }),
        )
    }),
    ("sse anthropic start and text", |r, text| {
        let start = "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"";
        let first: String = text.chars().take(3).collect();
        let rest: String = text.chars().skip(3).collect();
        let deltas = events(&rest, |piece| {
            format!(
                "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"{piece}\"}}}}\n\n"
            )
        });
        body(r, SSE, format!("{start}{}\"}}}}\n\n{deltas}", inner(&first)))
    }),
    ("sse anthropic tool input", |r, text| {
        let input = format!("{{\"path\": \"a\", \"note\": \"{}\"}}", inner(text));
        body(
            r,
            SSE,
            events(&input, |piece| {
                format!(
                    "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":2,\"delta\":{{\"type\":\"input_json_delta\",\"partial_json\":\"{piece}\"}}}}\n\n"
                )
            }),
        )
    }),
    ("sse chat text", |r, text| {
        body(
            r,
            SSE,
            events(text, |piece| {
                format!(
                    "data: {{\"id\":\"chatcmpl-1\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{piece}\"}},\"finish_reason\":null}}]}}\n\n"
                )
            }) + "data: [DONE]\n\n",
        )
    }),
    ("sse chat tool arguments", |r, text| {
        let input = format!("{{\"note\":\"{}\"}}", inner(text));
        body(
            r,
            SSE,
            events(&input, |piece| {
                format!(
                    "data: {{\"id\":\"chatcmpl-1\",\"choices\":[{{\"index\":0,\"delta\":{{\"tool_calls\":[{{\"index\":1,\"function\":{{\"arguments\":\"{piece}\"}}}}]}}}}]}}\r\n\r\n"
                )
            }),
        )
    }),
    ("sse responses text", |r, text| {
        let deltas = events(text, |piece| {
            format!(
                "event: response.output_text.delta\ndata: {{\"type\":\"response.output_text.delta\",\"item_id\":\"msg_1\",\"output_index\":0,\"content_index\":0,\"delta\":\"{piece}\",\"obfuscation\":\"x1\"}}\n\n"
            )
        });
        let done = format!(
            "event: response.output_text.done\ndata: {{\"type\":\"response.output_text.done\",\"item_id\":\"msg_1\",\"output_index\":0,\"content_index\":0,\"text\":\"{}\"}}\n\n",
            inner(text)
        );
        body(r, SSE, deltas + &done)
    }),
    ("sse responses text, another id in each event", |r, text| {
        let stream = events(text, |piece| {
            format!(
                "event: response.output_text.delta\ndata: {{\"type\":\"response.output_text.delta\",\"item_id\":\"ID\",\"output_index\":0,\"content_index\":0,\"delta\":\"{piece}\"}}\n\n"
            )
        });
        let id =
            |(n, part): (usize, &str)| part.replace("\"ID\"", &format!("\"{}\"", random(HEX, 8, n as u64)));
        let changing: String = stream.split_inclusive("\"ID\"").enumerate().map(id).collect();
        body(r, SSE, changing)
    }),
    ("sse behind a comment, called text", |r, text| {
        let stream = events(text, |piece| {
            format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{piece}\"}}}}]}}\n\n")
        });
        body(r, "text/plain", format!("\u{feff}: ping\n\n: ping\n\n{stream}"))
    }),
    ("sse behind an id, called text", |r, text| {
        let stream = events(text, |piece| {
            format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{piece}\"}}}}]}}\r\n\r\n")
        });
        body(r, "text/plain", format!("id: 1\r\nretry: 5\r\n{stream}"))
    }),
    ("a json array, item by item", |r, text| {
        let items = events(text, |piece| {
            format!("{{\"candidates\":[{{\"content\":{{\"parts\":[{{\"text\":\"{piece}\"}}]}}}}]}},\r\n")
        });
        body(r, JSON, format!("[{} ]", items.trim_end().trim_end_matches(',')))
    }),
    ("sse responses arguments", |r, text| {
        let input = format!("{{\"note\":\"{}\"}}", inner(text));
        let deltas = events(&input, |piece| {
            format!(
                "event: response.function_call_arguments.delta\ndata: {{\"type\":\"response.function_call_arguments.delta\",\"item_id\":\"fc_1\",\"output_index\":1,\"delta\":\"{piece}\"}}\n\n"
            )
        });
        let done = format!(
            "event: response.function_call_arguments.done\ndata: {{\"type\":\"response.function_call_arguments.done\",\"item_id\":\"fc_1\",\"output_index\":1,\"arguments\":\"{}\"}}\n\n",
            inner(&input)
        );
        body(r, SSE, deltas + &done)
    }),
    ("sse, two lanes interleaved", |r, text| {
        let characters: Vec<char> = text.chars().collect();
        let mut stream = String::new();
        for piece in characters.chunks(3) {
            let piece = inner(&piece.iter().collect::<String>());
            for index in 0..2 {
                stream += &format!(
                    "data: {{\"type\":\"content_block_delta\",\"index\":{index},\"delta\":{{\"type\":\"text_delta\",\"text\":\"{piece}\"}}}}\n\n"
                );
            }
        }
        body(r, SSE, stream)
    }),
    ("sse, data over two lines", |r, text| {
        body(r, SSE, events(text, |piece| format!("data: {{\"index\":0,\ndata: \"text\":\"{piece}\"}}\n\n")))
    }),
    ("json lines", |r, text| {
        body(
            r,
            "application/x-ndjson",
            events(text, |piece| format!("{{\"message\":{{\"content\":\"{piece}\"}}}}\n")),
        )
    }),
    ("stdout, events in lines", |r, text| {
        let lines = events(text, |piece| {
            format!(
                "{{\"type\":\"stream_event\",\"event\":{{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"text\":\"{piece}\"}}}},\"session_id\":\"s\",\"uuid\":\"{}\"}}\n",
                random(HEX, 8, piece.len() as u64)
            )
        });
        let out = r.redact_text("stdout", lines.as_bytes()).bytes.into_owned();
        (lines.into_bytes(), out)
    }),
    ("stdout", |r, text| {
        let out =
            r.redact_text("stdout", format!("one\nvalue is {text}\ntwo\n").as_bytes()).bytes.into_owned();
        assert!(
            out.starts_with(b"one\nvalue is ") && out.ends_with(b"\ntwo\n"),
            "{}",
            String::from_utf8_lossy(&out)
        );
        (Vec::new(), out)
    }),
    ("window, byte by byte", |r, text| {
        let text = format!("one two three {text} four five six {}", "seven ".repeat(100));
        let mut window = RedactionWindow::sized("stdout", None, 512, 64);
        let mut out = Vec::new();
        text.bytes().for_each(|byte| out.extend(window.push(r, &[byte])));
        out.extend(window.finish(r));
        assert!(
            out.starts_with(b"one two three ") && out.ends_with(b"seven "),
            "{}",
            String::from_utf8_lossy(&out)
        );
        (Vec::new(), out)
    }),
];

/// Puts one text into a place and asserts that nothing of the canary remains.
#[track_caller]
fn plant(what: &str, redactor: &mut Redactor, place: Place, text: &str, canary: &str) {
    let (before, after) = place(redactor, text);
    assert_gone(what, &after, canary);
    assert_valid(what, &before, &after);
    let left = redactor.find_residues("file", &after);
    assert!(left.is_empty(), "{what}: {left:?} in\n{}", String::from_utf8_lossy(&after));
    let report = serde_json::to_vec(&redactor.report()).expect("a report serializes");
    assert_gone(what, &report, canary);
    assert!(!redactor.report().findings.is_empty(), "{what}: nothing in the report");
}

#[test]
fn known_shapes_everywhere() {
    let mut placements = 0;
    for (shape, canary) in shapes() {
        for (place, run) in PLACES {
            plant(&format!("{shape} in {place}"), &mut redactor(), *run, &canary, &canary);
            placements += 1;
        }
    }
    assert!(placements >= 200, "{placements}");
}

#[test]
fn learned_values_everywhere_in_every_encoding() {
    let mut placements = 0;
    for (kind, canary) in values() {
        for (encoding, encode) in ENCODINGS {
            for (place, run) in PLACES {
                let mut redactor = redactor();
                redactor.learn("test", canary.as_bytes());
                plant(
                    &format!("{kind}, {encoding}, in {place}"),
                    &mut redactor,
                    *run,
                    &encode(&canary),
                    &canary,
                );
                placements += 1;
            }
        }
    }
    assert!(placements >= 200, "{placements}");
}

/// Shows a value to the redactor under a secret name.
type Teach = fn(&mut Redactor, &str);

const SOURCES: &[(&str, Teach)] = &[
    ("x-api-key", |r, value| header(r, "x-api-key", value.to_owned())),
    ("anthropic-api-key", |r, value| header(r, "Anthropic-API-Key", value.to_owned())),
    ("openai-api-key", |r, value| header(r, "openai-api-key", value.to_owned())),
    ("x-goog-api-key", |r, value| header(r, "x-goog-api-key", value.to_owned())),
    ("bearer", |r, value| header(r, "authorization", format!("Bearer {value}"))),
    ("proxy", |r, value| header(r, "Proxy-Authorization", format!("Bearer {value}"))),
    ("basic", |r, value| {
        header(
            r,
            "Authorization",
            format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(format!("me:{value}"))),
        )
    }),
    ("cookie", |r, value| header(r, "Cookie", format!("a=b; session={value}; c=d"))),
    ("set-cookie", |r, value| header(r, "set-cookie", format!("sid={value}; Path=/; HttpOnly"))),
    ("environment", |r, value| r.learn_env([("MY_API_KEY".to_owned(), value.to_owned())])),
    ("url query", |r, value| {
        drop(r.redact_url("u", &format!("https://h/p?x=1&api_key={}", percent(value, false))))
    }),
    ("url password", |r, value| {
        drop(r.redact_url("u", &format!("https://me:{}@host/p", percent(value, false))))
    }),
    ("json key", |r, value| {
        drop(r.redact_text("t", format!("{{\"apiKey\": \"{}\"}}", inner(value)).as_bytes()))
    }),
    ("json key, nested", |r, value| {
        drop(
            r.redact_text(
                "t",
                format!("{{\"a\": \"{}\"}}", inner(&format!("{{\"client_secret\":\"{}\"}}", inner(value))))
                    .as_bytes(),
            ),
        )
    }),
    ("form", |r, value| {
        drop(r.redact_body(
            "b",
            BodyHints { content_type: Some("application/x-www-form-urlencoded"), content_encoding: None },
            format!("password={}&x=1", percent(value, false)).as_bytes(),
        ))
    }),
    ("output", |r, value| drop(r.redact_text("stdout", format!("export DEPLOY_TOKEN={value}\n").as_bytes()))),
];

fn header(redactor: &mut Redactor, name: &str, value: String) {
    let out = redactor.redact_headers("r000001", &[(name.to_owned(), value.into_bytes())]);
    assert!(matches!(&out[0], Header::Secret { present: true, fingerprint, .. } if fingerprint.len() == 16));
}

use wire::Header;

#[test]
fn values_of_secret_names_are_redacted_everywhere() {
    let canary = random(ALNUM, 24, 70);
    for (source, teach) in SOURCES {
        for (encoding, encode) in &ENCODINGS[..6] {
            for (place, run) in PLACES {
                let mut redactor = redactor();
                teach(&mut redactor, &canary);
                assert_eq!(redactor.generation().min(1), 1, "{source} teaches nothing");
                plant(
                    &format!("{source}, {encoding}, in {place}"),
                    &mut redactor,
                    *run,
                    &encode(&canary),
                    &canary,
                );
            }
        }
    }
}
