//! Character references of HTML: `&amp;`, `&#38;`, `&#x26;`.

/// The characters that HTML must escape, by name.
const NAMES: &[(&str, char)] = &[("amp;", '&'), ("lt;", '<'), ("gt;", '>'), ("quot;", '"'), ("apos;", '\'')];

/// The prefixes of all decoded references.
pub(super) const BEGINS: &[&str] = &[
    "&amp;", "&lt;", "&gt;", "&quot;", "&apos;", "&#x", "&#0", "&#1", "&#2", "&#3", "&#4", "&#5", "&#6",
    "&#7", "&#8", "&#9",
];

/// Decodes the reference at the start of `rest` and returns its character and length. A double escape such as
/// `&amp;lt;` is one character, too.
pub(super) fn entity(rest: &[u8]) -> Option<(char, usize)> {
    let mut at = 1;
    loop {
        let (character, len) = named(&rest[at..]).or_else(|| numbered(&rest[at..]))?;
        at += len;
        let deeper = character == '&' && (named(&rest[at..]).is_some() || numbered(&rest[at..]).is_some());
        if !deeper {
            return Some((character, at));
        }
    }
}

fn named(rest: &[u8]) -> Option<(char, usize)> {
    let (name, character) = NAMES.iter().find(|(name, _)| rest.starts_with(name.as_bytes()))?;
    Some((*character, name.len()))
}

/// Decodes `#38;` or `#x26;`, also with leading zeros.
fn numbered(rest: &[u8]) -> Option<(char, usize)> {
    let digits = rest.strip_prefix(b"#")?;
    let (digits, base) = match digits {
        [b'x' | b'X', digits @ ..] => (digits, 16),
        digits => (digits, 10),
    };
    let len = digits.iter().take(8).take_while(|byte| (**byte as char).is_digit(base)).count();
    if digits.get(len) != Some(&b';') {
        return None;
    }
    let number = u32::from_str_radix(std::str::from_utf8(&digits[..len]).ok()?, base).ok()?;
    Some((char::from_u32(number)?, rest.len() - digits.len() + len + 1))
}
