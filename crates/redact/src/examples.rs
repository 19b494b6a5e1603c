//! Example values that documentation uses in place of secrets.

use super::names;
use super::values::is_word;

/// Returns true for the example keys of AWS, which have a common ending.
pub(super) fn is_aws_example(key: &[u8]) -> bool {
    let id = key.len() == 20 && (key.starts_with(b"AKIA") || key.starts_with(b"ASIA"));
    (id && key.ends_with(b"EXAMPLE")) || (key.len() == 40 && key.ends_with(b"EXAMPLEKEY"))
}

/// Returns true for a password that readers are to replace: `password`, `$PASS`, `YOUR_API_KEY`, `my-password`.
pub(super) fn is_placeholder_text(value: &[u8]) -> bool {
    let words = value.iter().all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'-'));
    let shouted = value.iter().all(|byte| byte.is_ascii_uppercase() || matches!(byte, b'_' | b'-'));
    let opens = value.first().is_some_and(|byte| matches!(byte, b'$' | b'<' | b'{' | b'[' | b'%'));
    shouted || opens || is_word(value) || is_reference(value) || (words && names::family(value).is_some())
}

/// Returns true if a value only refers to a secret: `$TOKEN`, `${{ secrets.X }}`, `<your key>`.
pub(super) fn is_reference(value: &[u8]) -> bool {
    let name = |rest: &[u8]| {
        !rest.is_empty()
            && rest.iter().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_')
    };
    begins_reference(value)
        || (value.starts_with(b"<") && value.ends_with(b">"))
        || value.strip_prefix(b"$").is_some_and(name)
        || value.strip_prefix(b"%").and_then(|rest| rest.strip_suffix(b"%")).is_some_and(name)
        || value.ends_with(b"(")
        || value.iter().all(|byte| matches!(byte, b'*' | b'x' | b'X' | b'.' | b'-' | b'_'))
}

/// Returns true if a text begins with a reference, wherever that ends.
pub(super) fn begins_reference(value: &[u8]) -> bool {
    let begins = [
        "${",
        "$(",
        "{{",
        "{env:",
        "{file:",
        "process.env",
        "os.environ",
        "os.getenv",
        "env.",
        "secrets.",
        "op://",
    ];
    begins.iter().any(|begin| value.starts_with(begin.as_bytes())) || begins_placeholder(value)
}

/// Returns true for a placeholder that readers are to replace, such as `<your key>`. It may contain spaces.
fn begins_placeholder(value: &[u8]) -> bool {
    let Some(inside) = value.strip_prefix(b"<") else { return false };
    let is_text = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b' ' | b'-' | b'_' | b'.');
    let length = inside.iter().take(LONGEST_PLACEHOLDER).take_while(is_text).count();
    length > 0 && inside[0].is_ascii_alphabetic() && inside.get(length) == Some(&b'>')
}

const LONGEST_PLACEHOLDER: usize = 64;
