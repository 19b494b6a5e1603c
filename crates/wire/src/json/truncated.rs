//! Truncated JSON texts.

/// Closes the strings, objects and arrays that are open at the end of a truncated text, so that it parses.
///
/// Bytes before the cut keep their offsets. A truncated token without meaning of its own, such as half an escape or
/// half a number, is removed.
pub fn close_truncated(cut: &[u8]) -> Vec<u8> {
    let mut open = Vec::new();
    let mut last_string = 0;
    let mut at = 0;
    while let Some(&byte) = cut.get(at) {
        match byte {
            b'{' => open.push(b'}'),
            b'[' => open.push(b']'),
            b'}' | b']' => drop(open.pop()),
            b'"' => {
                let end = string_end(cut, at + 1);
                if end.is_complete {
                    last_string = at;
                    at = end.at;
                } else {
                    let mut text = [&cut[..end.at], b"\""].concat();
                    text.extend(if is_key(cut, at, &open) { &b":null"[..] } else { b"" });
                    return closed(text, open);
                }
            }
            _ => {}
        }
        at += 1;
    }
    let is_structural = |byte: &u8| !(byte.is_ascii_alphanumeric() || b"+-. \t\r\n".contains(byte));
    let mut text = cut[..cut.iter().rposition(is_structural).map_or(0, |last| last + 1)].to_vec();
    match text.last() {
        Some(b',') => drop(text.pop()),
        Some(b':') => text.extend(b"null"),
        Some(b'"') if is_key(cut, last_string, &open) => text.extend(b":null"),
        _ => {}
    }
    closed(text, open)
}

fn closed(mut text: Vec<u8>, open: Vec<u8>) -> Vec<u8> {
    text.extend(open.into_iter().rev());
    text
}

/// Returns true if the string at `at` is the name of a member.
fn is_key(text: &[u8], at: usize, open: &[u8]) -> bool {
    let before = text[..at].trim_ascii_end().last();
    open.last() == Some(&b'}') && matches!(before, Some(b'{' | b','))
}

/// The end of a string, or of its complete part.
struct StringEnd {
    at: usize,
    is_complete: bool,
}

/// Finds the end of the string whose content starts at `start`.
fn string_end(text: &[u8], start: usize) -> StringEnd {
    let mut at = start;
    while let Some(more) = memchr::memchr2(b'"', b'\\', &text[at..]) {
        at += more;
        if text[at] == b'"' {
            return StringEnd { at, is_complete: true };
        }
        let length = if text.get(at + 1) == Some(&b'u') { 6 } else { 2 };
        if at + length > text.len() {
            return StringEnd { at, is_complete: false };
        }
        at += length;
    }
    // The cut may be inside a UTF-8 character.
    let valid = std::str::from_utf8(&text[start..]).map_or_else(|error| error.valid_up_to(), str::len);
    StringEnd { at: start + valid, is_complete: false }
}

#[cfg(test)]
mod tests {
    use super::close_truncated;

    #[test]
    fn every_prefix_is_closed_to_valid_json() {
        let whole = r#" {"a": [1, -2.5e3, {"b": "x\"y\u00e9\ud83d\ude00é"}, true], "c\"d": {"e": null, "f": []}, "g": "h"}"#;
        for cut in 2..whole.len() {
            let text = close_truncated(&whole.as_bytes()[..cut]);
            let parsed = serde_json::from_slice::<serde_json::Value>(&text);
            let shown = String::from_utf8_lossy(&text);
            // A caller that joins fragments also joins halves of a surrogate pair.
            assert!(parsed.is_ok() || shown.contains("\\ud83d\""), "{shown}");
            let same = text.iter().zip(whole.as_bytes()).take_while(|(one, other)| one == other).count();
            assert!(same + 8 >= cut, "{shown}");
        }
    }
}
