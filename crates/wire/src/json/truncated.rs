//! JSON text that was cut off.

/// Closes the strings, objects and arrays that are open at the end of a truncated text, so that it parses.
///
/// Bytes before the cut keep their offsets. A token that is cut and has no meaning by itself (half an escape, half a
/// number) is left out.
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
                if end.whole {
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
    let said = |byte: &u8| !(byte.is_ascii_alphanumeric() || b"+-. \t\r\n".contains(byte));
    let mut text = cut[..cut.iter().rposition(said).map_or(0, |last| last + 1)].to_vec();
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

/// Whether the string that begins at `at` stands where a member's name does.
fn is_key(text: &[u8], at: usize, open: &[u8]) -> bool {
    let before = text[..at].trim_ascii_end().last();
    open.last() == Some(&b'}') && matches!(before, Some(b'{' | b','))
}

/// Where a string ends, or what of it is whole.
struct End {
    at: usize,
    whole: bool,
}

/// The end of the string whose inside begins at `start`.
fn string_end(text: &[u8], start: usize) -> End {
    let mut at = start;
    while let Some(more) = memchr::memchr2(b'"', b'\\', &text[at..]) {
        at += more;
        if text[at] == b'"' {
            return End { at, whole: true };
        }
        let length = if text.get(at + 1) == Some(&b'u') { 6 } else { 2 };
        if at + length > text.len() {
            return End { at, whole: false };
        }
        at += length;
    }
    // A character may be cut as well.
    let valid = std::str::from_utf8(&text[start..]).map_or_else(|error| error.valid_up_to(), str::len);
    End { at: start + valid, whole: false }
}

#[cfg(test)]
mod tests {
    use super::close_truncated;

    #[test]
    fn wherever_it_is_cut_it_parses_and_says_no_more() {
        let whole = r#" {"a": [1, -2.5e3, {"b": "x\"y\u00e9\ud83d\ude00é"}, true], "c\"d": {"e": null, "f": []}, "g": "h"}"#;
        for cut in 2..whole.len() {
            let text = close_truncated(&whole.as_bytes()[..cut]);
            let parsed = serde_json::from_slice::<serde_json::Value>(&text);
            let shown = String::from_utf8_lossy(&text);
            // Half of a pair of surrogates is for those who put the pieces together.
            assert!(parsed.is_ok() || shown.contains("\\ud83d\""), "{shown}");
            let same = text.iter().zip(whole.as_bytes()).take_while(|(one, other)| one == other).count();
            assert!(same + 8 >= cut, "{shown}");
        }
    }
}
