//! Example values that documentation uses in place of secrets.

use super::assign::is_reference;
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
