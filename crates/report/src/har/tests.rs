//! Exchanges of every kind, held against the format; `schema.json` is what the format demands, in our own words.

use expect_test::expect;
use session::RequestId;

use super::*;

/// Returns the mistakes in a value, by place. Names that the schema does not know must begin with `_`.
fn complaints(schema: &Value, value: &Value, all: &Value, place: &str) -> Vec<String> {
    if let Some(name) = schema["$ref"].as_str() {
        let named = all.pointer(name.trim_start_matches('#')).expect("the schema defines it");
        return complaints(named, value, all, place);
    }
    let fits = match schema["type"].as_str().expect("each part of the schema has a type") {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        other => panic!("the schema says {other}"),
    };
    if !fits {
        return vec![format!("{place} is no {}", schema["type"])];
    }
    let mut wrong = Vec::new();
    let is_low = |least: f64| value.as_f64().is_some_and(|number| number < least);
    if schema["minimum"].as_f64().is_some_and(is_low) {
        wrong.push(format!("{place} is too low"));
    }
    if schema.get("const").is_some_and(|only| only != value) {
        wrong.push(format!("{place} is not {}", schema["const"]));
    }
    if schema["format"] == "date-time" {
        let text = value.as_str().expect("it is a string");
        if recording::iso_of(text).is_none() || !text.ends_with('Z') {
            wrong.push(format!("{place} is no time"));
        }
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        if value.get(name.as_str().expect("a name")).is_none() {
            wrong.push(format!("{place} has no {name}"));
        }
    }
    for (name, member) in value.as_object().into_iter().flatten() {
        match schema["properties"].get(name) {
            Some(schema) => wrong.extend(complaints(schema, member, all, &format!("{place}/{name}"))),
            None if name.starts_with('_') => {}
            None if schema.get("properties").is_none() => {}
            None => wrong.push(format!("{place} has a `{name}`, which the format does not know")),
        }
    }
    for (n, item) in value.as_array().into_iter().flatten().enumerate() {
        wrong.extend(complaints(&schema["items"], item, all, &format!("{place}/{n}")));
    }
    wrong
}

fn check(har: &Value) -> Vec<String> {
    let schema = serde_json::from_str(include_str!("schema.json")).expect("the schema is JSON");
    complaints(&schema, har, &schema, "")
}

fn plain(name: &str, value: &str) -> Header {
    Header::Plain { name: name.into(), value: value.into() }
}

fn body(bytes: &[u8]) -> Content {
    Content { bytes: Some(bytes.to_vec()), sha256: None, origin: Origin::Raw }
}

fn lost() -> Content {
    Content { bytes: None, sha256: None, origin: Origin::Lost }
}

fn asked(body: Content, headers: Vec<Header>) -> SourceRequest {
    SourceRequest {
        id: RequestId::nth(1),
        timestamp: Some("2026-11-15T10:00:00.000123Z".into()),
        method: "POST".into(),
        url: "https://provider.test/v1/messages?beta=true&key=offshoot-redacted-0123".into(),
        headers,
        sender: recording::source::SenderIds::default(),
        body,
    }
}

fn answered(body: Content, times: [Option<u64>; 2]) -> SourceResponse {
    SourceResponse {
        timestamp: None,
        status: Some(200),
        headers: vec![
            plain("Content-Type", "text/event-stream"),
            plain("Set-Cookie", "a=b=c; Path=/; HttpOnly; Expires=tomorrow"),
        ],
        ending: Some(wire::Ending::Complete),
        error: None,
        first_byte_us: times[0],
        end_us: times[1],
        body,
    }
}

fn entry<'e>(
    asked: &'e SourceRequest,
    answered: Option<&'e SourceResponse>,
    sending_us: Option<u64>,
) -> HarEntry<'e> {
    HarEntry { asked, answered, place: None, sending_us, http: Some("HTTP/1.1") }
}

fn written(entries: &[HarEntry<'_>]) -> Value {
    let mut har = HarWriter::begin(Vec::new(), "1.0.0").expect("a vector takes everything");
    entries.iter().for_each(|entry| har.entry(entry).expect("a vector takes everything"));
    serde_json::from_slice(&har.end().expect("a vector takes everything")).expect("it is JSON")
}

#[test]
fn an_exchange_is_an_entry() {
    let secret =
        Header::Secret { name: "X-Api-Key".into(), present: true, fingerprint: "0123456789abcdef".into() };
    let asked = asked(body(b"{}"), vec![secret, plain("Cookie", "x=1; y=2")]);
    let answered = answered(body(b"data: 1\n\n"), [Some(2_500), Some(4_000)]);
    let place = ExchangePosition { lane: "sub-1", turn: 2, attempt: 1, seq: 7 };
    let whole = HarEntry { place: Some(place), ..entry(&asked, Some(&answered), Some(500)) };
    let har = written(&[whole]);
    assert_eq!(check(&har), [""; 0]);
    expect![[r#"
        {
          "startedDateTime": "2026-11-15T10:00:00.000123Z",
          "time": 4.0,
          "request": {
            "method": "POST",
            "url": "https://provider.test/v1/messages?beta=true&key=offshoot-redacted-0123",
            "httpVersion": "HTTP/1.1",
            "cookies": [
              {
                "name": "x",
                "value": "1"
              },
              {
                "name": "y",
                "value": "2"
              }
            ],
            "headers": [
              {
                "name": "X-Api-Key",
                "value": "offshoot-redacted-0123456789abcdef",
                "_redacted": true
              },
              {
                "name": "Cookie",
                "value": "x=1; y=2"
              }
            ],
            "queryString": [
              {
                "name": "beta",
                "value": "true"
              },
              {
                "name": "key",
                "value": "offshoot-redacted-0123"
              }
            ],
            "headersSize": -1,
            "bodySize": 2,
            "postData": {
              "mimeType": "",
              "text": "{}"
            }
          },
          "response": {
            "status": 200,
            "statusText": "",
            "httpVersion": "HTTP/1.1",
            "cookies": [
              {
                "name": "a",
                "value": "b=c",
                "httpOnly": true,
                "secure": false,
                "path": "/"
              }
            ],
            "headers": [
              {
                "name": "Content-Type",
                "value": "text/event-stream"
              },
              {
                "name": "Set-Cookie",
                "value": "a=b=c; Path=/; HttpOnly; Expires=tomorrow"
              }
            ],
            "content": {
              "size": 9,
              "mimeType": "text/event-stream",
              "text": "data: 1\n\n"
            },
            "redirectURL": "",
            "headersSize": -1,
            "bodySize": 9
          },
          "cache": {},
          "timings": {
            "blocked": -1,
            "dns": -1,
            "connect": -1,
            "ssl": -1,
            "send": 0.5,
            "wait": 2.0,
            "receive": 1.5
          },
          "_requestId": "r000001",
          "_ending": "complete",
          "_lane": "sub-1",
          "_turn": 2,
          "_attempt": 1,
          "_seq": 7
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&har["log"]["entries"][0]).expect("it is JSON"));
}

#[test]
fn incomplete_recordings_give_valid_files() {
    let requests = [
        asked(body(b""), vec![]),
        asked(body(&[0xff, 0x00]), vec![plain("cookie", "nothing")]),
        asked(lost(), vec![]),
        SourceRequest {
            timestamp: Some("1794736800.5".into()),
            url: String::new(),
            ..asked(body(b"x"), vec![])
        },
        SourceRequest { timestamp: Some("yesterday".into()), ..asked(body(b"x"), vec![]) },
    ];
    let responses = [
        None,
        Some(answered(body(&[0xfe]), [Some(9), Some(3)])),
        Some(answered(lost(), [None, None])),
        Some(SourceResponse {
            status: None,
            headers: vec![plain("Set-Cookie", "odd")],
            ..answered(lost(), [None, Some(7)])
        }),
        Some(answered(Content { origin: Origin::Unpacked, ..body(b"unpacked") }, [Some(u64::MAX), Some(1)])),
    ];
    let mut entries = Vec::new();
    for request in &requests {
        for response in &responses {
            for sending in [None, Some(4), Some(u64::MAX)] {
                entries.push(entry(request, response.as_ref(), sending));
            }
        }
    }
    let har = written(&entries);
    assert_eq!(check(&har), [""; 0]);
    for entry in har["log"]["entries"].as_array().expect("entries") {
        let part = |name: &str| entry["timings"][name].as_f64().expect("a number");
        let sum = part("send") + part("wait") + part("receive");
        let time = entry["time"].as_f64().expect("a number");
        assert!((time - sum).abs() <= time * 1e-9, "{time} is not {sum}");
    }
    let odd = &har["log"]["entries"];
    assert_eq!(
        odd[15]["request"]["postData"],
        json!({"mimeType": "", "text": "/wA=", "_encoding": "base64"})
    );
    assert_eq!(odd[3]["response"]["content"]["encoding"], "base64");
    assert_eq!(odd[12]["response"]["bodySize"], -1, "of what was unpacked nobody counted the bytes");
}

#[test]
fn the_check_finds_every_mistake() {
    let asked = asked(body(b"{}"), vec![plain("a", "b")]);
    let good = written(&[entry(&asked, None, None)]);
    type Break = fn(&mut Value);
    let breaks: [(Break, &str); 7] = [
        (|har| har["log"]["version"] = json!("1.1"), "/log/version is not \"1.2\""),
        (|har| har["log"]["entries"][0]["time"] = json!("1"), "/log/entries/0/time is no \"number\""),
        (
            |har| har["log"]["entries"][0]["timings"]["send"] = json!(-1),
            "/log/entries/0/timings/send is too low",
        ),
        (
            |har| har["log"]["entries"][0]["startedDateTime"] = json!("x"),
            "/log/entries/0/startedDateTime is no time",
        ),
        (
            |har| har["log"]["entries"][0]["request"]["headers"][0] = json!({"name": "a"}),
            "/log/entries/0/request/headers/0 has no \"value\"",
        ),
        (
            |har| har["log"]["entries"][0]["lane"] = json!("main"),
            "/log/entries/0 has a `lane`, which the format does not know",
        ),
        (|har| har["log"]["creator"] = json!({"name": "offshoot"}), "/log/creator has no \"version\""),
    ];
    for (damage, expected) in breaks {
        let mut har = good.clone();
        damage(&mut har);
        assert_eq!(check(&har), [expected]);
    }
}
