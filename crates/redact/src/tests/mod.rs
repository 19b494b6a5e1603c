//! Canaries: generated secrets that are put into every place and searched for afterwards in every form.
//!
//! No literal in these files has the shape of a real key. All of them are built at run time.

mod commands;
mod encodings;
mod everywhere;
mod false_positives;
mod logins;
mod lookalikes;
mod packed;
mod placements;
mod properties;
mod rules;
mod schemes;
mod shown;
mod streams;
mod tables;
mod tokens;
mod windows;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use super::*;

fn redactor() -> Redactor {
    Redactor::new(FingerprintKey::from_bytes([7; 32]))
}

/// Returns random text that is the same in every run.
fn random(alphabet: &str, length: usize, seed: u64) -> String {
    let letters: Vec<char> = alphabet.chars().collect();
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        letters[(state >> 33) as usize % letters.len()]
    };
    let mut text: String = (0..length).map(|_| next()).collect();
    // Always at least one letter and one digit.
    if alphabet.contains('7') && alphabet.contains('d') && length > 4 {
        text.replace_range(2..4, "d7");
    }
    text
}

const ALNUM: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const HEX: &str = "0123456789abcdef";
const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// Returns every form in which a canary would be a leak.
fn forms(canary: &str) -> Vec<(String, String)> {
    let mut forms = vec![("raw".to_owned(), canary.to_owned())];
    for shift in 0..3 {
        let shifted = [vec![0; shift], canary.as_bytes().to_vec()].concat();
        let core = (shift * 8).div_ceil(6)..shifted.len() * 8 / 6;
        forms.push((format!("base64+{shift}"), STANDARD_NO_PAD.encode(&shifted)[core.clone()].to_owned()));
        forms.push((format!("base64url+{shift}"), URL_SAFE_NO_PAD.encode(&shifted)[core].to_owned()));
    }
    forms.push(("percent".into(), percent(canary, false)));
    forms.push(("percent lower".into(), percent(canary, true)));
    forms.push(("percent all".into(), canary.bytes().map(|byte| format!("%{byte:02X}")).collect()));
    forms.push(("json".into(), inner(canary)));
    forms.push(("json twice".into(), inner(&inner(canary))));
    forms.push(("json with \\/".into(), inner(canary).replace('/', "\\/")));
    forms
        .push(("json with \\u".into(), canary.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect()));
    forms.push(("hex".into(), canary.bytes().map(|byte| format!("{byte:02x}")).collect()));
    forms
}

fn percent(text: &str, lower: bool) -> String {
    let escape = |byte: u8| if lower { format!("%{byte:02x}") } else { format!("%{byte:02X}") };
    text.bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => (byte as char).to_string(),
            other => escape(other),
        })
        .collect()
}

/// Returns the content of a JSON string.
fn inner(text: &str) -> String {
    let quoted = wire::json::quote(text);
    quoted[1..quoted.len() - 1].to_owned()
}

/// Asserts that no form of the canary is in a text, or in the texts that its events form.
#[track_caller]
fn assert_gone(what: &str, out: &[u8], canary: &str) {
    let text = String::from_utf8_lossy(out).into_owned();
    let mut views = vec![("the text", text.clone())];
    let mut joined = std::collections::BTreeMap::<String, String>::new();
    if let Ok(items @ serde_json::Value::Array(_)) = serde_json::from_str(&text) {
        join("", &items, &mut joined);
    }
    for line in text.lines() {
        let data = line.strip_prefix("data:").unwrap_or(line).trim();
        if let Ok(value) = serde_json::from_str::<serde_json::Value>(data) {
            join("", &value, &mut joined);
        }
    }
    views.extend(joined.into_values().map(|text| ("the joined events", text)));
    let unwrapped: Vec<_> =
        views.iter().map(|(_, text)| ("the text without line breaks", unwrap(text))).collect();
    views.extend(unwrapped);
    for (view, text) in &views {
        for (form, needle) in forms(canary) {
            assert!(!text.contains(&needle), "{what}: the canary is left in {view} as {form}:\n{text}");
        }
    }
}

/// Removes line breaks, also escaped ones.
fn unwrap(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['\n', '\r', '\\']) {
        out.push_str(&rest[..at]);
        let run = rest[at..].trim_start_matches('\\');
        let slashes = rest.len() - at - run.len();
        let is_break = slashes == 0 || run.starts_with(['n', 'r']);
        out.push_str(if is_break { "" } else { &rest[at..at + slashes] });
        rest = if is_break { &run[1..] } else { run };
    }
    out + rest
}

/// Returns wrapped base64 with so much text before it that the first line ends inside `text`.
fn wrapped(text: &str, url_safe: bool, ahead: usize, width: usize, end: &str) -> String {
    let padded = format!("{}{text} and more behind it", "-".repeat(ahead));
    let encoded = if url_safe { URL_SAFE_NO_PAD.encode(padded) } else { STANDARD_NO_PAD.encode(padded) };
    let lines: Vec<&str> =
        encoded.as_bytes().chunks(width).map(|line| std::str::from_utf8(line).expect("ASCII")).collect();
    lines.join(end)
}

/// Escapes a text for HTML.
fn html(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}

/// Joins the strings at each path over all events.
fn join(path: &str, value: &serde_json::Value, out: &mut std::collections::BTreeMap<String, String>) {
    match value {
        serde_json::Value::String(text) => out.entry(path.to_owned()).or_default().push_str(text),
        serde_json::Value::Array(items) => items.iter().for_each(|item| join(path, item, out)),
        serde_json::Value::Object(members) => {
            let index = members.get("index").or(members.get("output_index")).map(ToString::to_string);
            let path = format!("{path}{}", index.unwrap_or_default());
            members.iter().for_each(|(key, member)| join(&format!("{path}/{key}"), member, out));
        }
        _ => {}
    }
}

/// Asserts that valid JSON, or a stream of it, is still valid.
#[track_caller]
fn assert_valid(what: &str, before: &[u8], after: &[u8]) {
    let parses = |text: &[u8]| serde_json::from_slice::<serde_json::Value>(text).is_ok();
    if parses(before) {
        assert!(parses(after), "{what}: no longer JSON:\n{}", String::from_utf8_lossy(after));
    }
    if before.starts_with(b"data:") || before.starts_with(b"event:") {
        let (was, _) = wire::sse::decode(before);
        let (is, _) = wire::sse::decode(after);
        assert_eq!(was.len(), is.len(), "{what}: events were lost");
        for (was, is) in was.iter().zip(&is) {
            assert_eq!(was.event, is.event, "{what}");
            let both = (parses(was.data.as_bytes()), parses(is.data.as_bytes()));
            assert!(both != (true, false), "{what}: no longer JSON: {}", is.data);
        }
    }
}
