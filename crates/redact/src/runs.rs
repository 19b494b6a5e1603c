//! Runs of bytes around a trigger, and the secrets that grammars find in them.

use std::ops::Range;

/// A secret that was found by its shape.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ShapeMatch {
    pub(super) rule: &'static str,
    pub(super) range: Range<usize>,
    /// The secret, if it is not the text itself, as in Basic credentials.
    pub(super) secret: Option<Vec<u8>>,
}

impl ShapeMatch {
    pub(super) fn new(rule: &'static str, range: Range<usize>) -> Self {
        Self { rule, range, secret: None }
    }
}

/// Returns the start of the string that is the default in a block of HCL.
pub(super) fn hcl_default(text: &[u8], block: &Range<usize>) -> Option<usize> {
    let name = block.start + memchr::memmem::find(&text[block.clone()], b"default")? + "default".len();
    let sign = run(text, name, |byte| byte == b' ').end;
    let start = run(text, sign + 1, |byte| byte == b' ').end;
    (text.get(sign) == Some(&b'=') && text.get(start) == Some(&b'"')).then_some(start + 1)
}

/// Returns the byte before `at`, unless it ends an escape sequence for colour, which is not visible.
pub(super) fn before(text: &[u8], at: usize) -> Option<u8> {
    at.checked_sub(1).map(|at| text[at]).filter(|_| !ends_colour(&text[..at]))
}

/// Returns true if a text ends with an escape sequence for colour, raw or as written in code.
fn ends_colour(text: &[u8]) -> bool {
    let Some((0x40..=0x7e, rest)) = text.split_last() else { return false };
    let parameters = rest.iter().rev().take(24).take_while(|byte| matches!(byte, 0x30..=0x3f)).count();
    let Some(lead) = rest[..rest.len() - parameters].strip_suffix(b"[") else { return false };
    let is = |escape: &&[u8]| {
        lead.get(lead.len().wrapping_sub(escape.len())..).is_some_and(|end| end.eq_ignore_ascii_case(escape))
    };
    [&b"\x1b"[..], b"\\x1b", b"\\033", b"\\e"].iter().any(is)
}

/// The maximum length of a secret. It keeps hostile texts from being searched many times.
pub(super) const LONGEST: usize = 64 << 10;

/// Returns the longest run from `start` of bytes for which `of` holds.
pub(super) fn run(text: &[u8], start: usize, of: impl Fn(u8) -> bool) -> Range<usize> {
    let start = start.min(text.len());
    let near = &text[start..text.len().min(start + LONGEST)];
    start..start + near.iter().position(|&byte| !of(byte)).unwrap_or(near.len())
}

/// Returns true if there are letters and digits, as in random text.
pub(super) fn is_mixed(rest: &[u8]) -> bool {
    rest.iter().any(u8::is_ascii_digit) && rest.iter().any(u8::is_ascii_alphabetic)
}
