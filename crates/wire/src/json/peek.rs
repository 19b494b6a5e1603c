//! Reads one member without parsing the rest.

use super::unescape;

/// Returns the string value of the first top-level member `name`. Returns `None` if there is no such string, or if
/// the text before it is invalid.
///
/// Reads only up to that member: bodies are long, and their `model` is near the start.
pub fn peek_string(bytes: &[u8], name: &str) -> Option<String> {
    let mut at = 0;
    let mut depth = 0_usize;
    while at < bytes.len() {
        match bytes[at] {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.checked_sub(1)?,
            b'"' => {
                let inner = string_at(bytes, at)?;
                let after = at + inner.len() + 2;
                let value_at = after_colon(bytes, after);
                if let Some(value_at) = value_at.filter(|_| depth == 1 && inner == name.as_bytes()) {
                    let value =
                        (bytes.get(value_at) == Some(&b'"')).then(|| string_at(bytes, value_at))??;
                    return std::str::from_utf8(value).ok().map(|value| unescape(value).into_owned());
                }
                at = value_at.unwrap_or(after);
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Returns the content of the string whose opening quote is at `at`.
fn string_at(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let mut end = at + 1;
    loop {
        end += memchr::memchr2(b'"', b'\\', bytes.get(end..)?)?;
        if bytes[end] == b'"' {
            return Some(&bytes[at + 1..end]);
        }
        end += 2;
    }
}

fn after_colon(bytes: &[u8], at: usize) -> Option<usize> {
    let skip = |at: usize| at + bytes[at..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let colon = skip(at);
    (bytes.get(colon) == Some(&b':')).then(|| skip(colon + 1))
}

#[cfg(test)]
mod tests {
    use super::peek_string;

    #[test]
    fn only_a_string_at_the_top_counts() {
        for (text, found) in [
            (r#"{"model":"a"}"#, Some("a")),
            (r#"{"x":{"model":"no"},"y":["model","model"], "model" : "\u0062\/c" }"#, Some("b/c")),
            (r#"{"x":"model","model":7}"#, None),
            (r#"{"x":"a\"model\":\"no","model":"yes"}"#, Some("yes")),
            (r#"{"model":"cut"#, None),
            (r#"{"model""#, None),
            ("]", None),
            ("", None),
        ] {
            assert_eq!(peek_string(text.as_bytes(), "model").as_deref(), found, "{text}");
        }
    }
}
