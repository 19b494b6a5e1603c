//! Recognition of ids by their shape.

/// Length of the shortest word that may be an id by its shape.
pub(super) const SHORTEST: usize = 6;

/// Returns whether a word mixes letters and digits as ids do, and is not an ordinary word with a number.
pub(super) fn looks_like_id(word: &str) -> bool {
    let bytes = word.as_bytes();
    if bytes.len() < SHORTEST || !bytes.iter().any(u8::is_ascii_digit) {
        return false;
    }
    if !bytes.iter().any(u8::is_ascii_alphabetic) {
        return false;
    }
    let hex = bytes.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'-');
    // `sha256` has one run of digits, `v1beta1` two of one each. A random word changes more often, or is long.
    let turns = bytes.windows(2).filter(|two| two[0].is_ascii_digit() != two[1].is_ascii_digit()).count();
    let digits = bytes.iter().filter(|byte| byte.is_ascii_digit()).count();
    hex || (turns >= 3 && digits >= 3) || bytes.len() >= 20
}

/// Returns whether a value, such as a header's, contains a word that looks like an id.
pub(super) fn has_made_up_id(value: &str) -> bool {
    value.split(|c: char| !c.is_ascii_alphanumeric()).any(looks_like_id)
}
