//! Words that may be names which a harness invented: ids, numbers with letters, paths.

/// Minimum length of an id of letters only.
const MIN_ID: usize = 6;
/// Minimum length of an id of letters and digits.
const MIN_MIXED: usize = 3;
/// Minimum length of an id of digits only.
const MIN_NUMBER: usize = 4;
/// Minimum length of a number that a shorter one follows, in an id of two numbers.
const MIN_LONG: usize = 6;
/// Maximum length of a unit after a number.
const MAX_UNIT: usize = 2;
/// Minimum length of an id of words with dashes.
const MIN_DASHED: usize = 8;

/// Splits a text into words, paths and single other characters.
pub(super) fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match rest.find(|c: char| !(is_word_char(c) || matches!(c, '/' | '.' | '~'))) {
            Some(0) => first.len_utf8(),
            Some(length) => length,
            None => rest.len(),
        };
        let (run, after) = rest.split_at(length);
        rest = after;
        if run.contains('/') {
            // A full stop after a path ends the sentence.
            let path = run.trim_end_matches('.');
            tokens.push(path);
            tokens.extend(run[path.len()..].split_inclusive(|_: char| true));
        } else {
            tokens.extend(run.split_inclusive(['.', '~']).flat_map(|part| {
                let word = part.trim_end_matches(['.', '~']);
                [word, &part[word.len()..]].into_iter().filter(|token| !token.is_empty())
            }));
        }
    }
    tokens
}

fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-')
}

pub(super) fn is_path(token: &str) -> bool {
    token.starts_with('/') && token.len() > 1
}

/// Returns whether a word may be an id: letters with digits, many digits, hex, capitals, or words with a dash. An ordinary
/// word is not.
pub(super) fn is_id(token: &str) -> bool {
    let count = |is: fn(&u8) -> bool| token.bytes().filter(is).count();
    let digits = count(u8::is_ascii_digit);
    let letters = count(u8::is_ascii_alphabetic);
    let is_long = token.len() >= MIN_ID;
    let is_hex = is_long && token.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_capitals = is_long && count(u8::is_ascii_uppercase) == token.len();
    let is_dashed = token.len() >= MIN_DASHED && token.trim_matches('-').contains('-') && digits == 0;
    token.chars().all(is_word_char)
        && ((digits > 0 && letters > 0 && token.len() >= MIN_MIXED)
            || digits >= MIN_NUMBER
            || is_hex
            || is_capitals
            || is_dashed)
}

/// Returns whether only a program generates such a name: a path, or letters and digits in a mixture that no word has.
/// Numbers, counts (`1st`, `20ms`), versions (`utf8`, `step-3`) and words with a dash (`read-only`) do not qualify.
pub(super) fn is_generated(name: &str) -> bool {
    let is_numbered =
        || has_letters_and_digits(name) && !is_count(name) && longest_number(name) >= MIN_NUMBER;
    is_path(name) || name.split(['-', '_']).any(is_mixed) || is_numbered() || is_long_and_counted(name)
}

/// Returns whether a name is a long number with a shorter one after it, as a day and a count. A date is not.
fn is_long_and_counted(name: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    name.split_once(['-', '_']).is_some_and(|(long, rest)| {
        long.len() >= MIN_LONG && is_number(long) && rest.len() < long.len() && is_number(rest)
    })
}

/// Returns whether a part of a name is hex with digits, or has letters between digits.
fn is_mixed(part: &str) -> bool {
    let is_digit = |pair: &[u8]| [pair[0].is_ascii_digit(), pair[1].is_ascii_digit()];
    let changes = part.as_bytes().windows(2).filter(|pair| is_digit(pair)[0] != is_digit(pair)[1]).count();
    let is_hex = part.bytes().all(|byte| byte.is_ascii_hexdigit());
    part.len() >= MIN_ID && has_letters_and_digits(part) && (is_hex || changes > 1)
}

/// Returns whether a word is a number with a unit.
fn is_count(word: &str) -> bool {
    let unit = word.trim_start_matches(|c: char| c.is_ascii_digit());
    unit.len() < word.len() && unit.len() <= MAX_UNIT && unit.bytes().all(|byte| byte.is_ascii_alphabetic())
}

fn has_letters_and_digits(word: &str) -> bool {
    word.bytes().any(|byte| byte.is_ascii_digit()) && word.bytes().any(|byte| byte.is_ascii_alphabetic())
}

fn longest_number(word: &str) -> usize {
    word.split(|c: char| !c.is_ascii_digit()).map(str::len).max().unwrap_or_default()
}

/// Returns the possible names in a text: ids, also inside paths, and paths with all folders above them.
pub(super) fn possible_names(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let tokens = tokens(text);
    let mut start = 0;
    for (at, token) in tokens.iter().copied().enumerate() {
        if token.contains('/') && !is_path(token) {
            names.extend(path_words(token).filter(|word| is_id(word)));
        } else if is_path(token) {
            let ends = token.match_indices('/').map(|(at, _)| at).filter(|at| *at > 0);
            // Folders of the root (`/tmp`, `/home`) are not specific.
            names.extend(ends.skip(1).map(|end| &token[..end]));
            names.push(token.trim_end_matches('/'));
            names.extend(path_words(token).filter(|word| is_id(word)));
            let rest = rest_of_path(&tokens[at + 1..]);
            names.extend(rest.map(|rest| &text[start..start + token.len() + rest]));
        } else if is_id(token) {
            names.push(token);
        }
        start += token.len();
    }
    names
}

/// Returns the length of the rest of a path whose folder may contain spaces: a few words, the last of which has a `/`.
fn rest_of_path(after: &[&str]) -> Option<usize> {
    const MAX_WORDS: usize = 3;
    let pairs = after.chunks_exact(2).take(MAX_WORDS).take_while(|pair| pair[0] == " ");
    let end = pairs.clone().position(|pair| pair[1].contains('/'))?;
    let is_rest = !is_path(after[2 * end + 1]);
    is_rest.then(|| after[..2 * end + 2].iter().map(|token| token.len()).sum())
}

/// Returns the words of a path.
pub(super) fn path_words(path: &str) -> impl Iterator<Item = &str> {
    path.split(|c: char| !is_word_char(c)).filter(|word| !word.is_empty())
}

/// Returns the words that a text calls ids: `ID: bqwertyui`, `task_id=…`, `<agent-id>…`. They may consist of letters only.
pub(super) fn labelled_ids(text: &str) -> Vec<&str> {
    const MAX_MARKS: usize = 3;
    let tokens = tokens(text);
    let is_label = |token: &str| {
        let lower = token.to_ascii_lowercase();
        lower == "id" || lower.ends_with("_id") || lower.ends_with("-id") || token.ends_with("Id")
    };
    let follows_label = |at: usize| {
        let before = || tokens[..at].iter().rev();
        let marks = || before().take_while(|token| !token.starts_with(is_word_char)).take(MAX_MARKS);
        let is_assigned = marks().any(|mark| matches!(*mark, ":" | "=" | ">"));
        is_assigned && before().nth(marks().count()).is_some_and(|token| is_label(token))
    };
    let is_long = |token: &str| token.len() >= MIN_ID && token.chars().all(is_word_char);
    let found = (0..tokens.len()).filter(|at| is_long(tokens[*at]) && follows_label(*at));
    found.map(|at| tokens[at]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_ids_and_paths() {
        let text = "agentId: a1b2c3d, see /tmp/box/7/ws/src/lib.rs. It took 3s (bg_12ab34).";
        assert_eq!(
            possible_names(text).join(" "),
            "a1b2c3d /tmp/box /tmp/box/7 /tmp/box/7/ws /tmp/box/7/ws/src /tmp/box/7/ws/src/lib.rs bg_12ab34"
        );
        assert!(possible_names("just words, 12 of 34, and running").is_empty());
        assert_eq!(
            possible_names("job-7 4711 brave-otter ABCDEFGH src/a1b2c3d4/x").join(" "),
            "job-7 4711 brave-otter ABCDEFGH a1b2c3d4"
        );
    }

    #[test]
    fn generated_names_differ_from_words() {
        let generated = "a1b2c3d job_0011aa job_ccddee9 job_445566 bg_12ab34 ses_4567cdefXyZ 1m7g0ff540070000-2-0 \
                         550e8400-e29b-41d4-a716-446655440000 20261116_2 20261116-14 /tmp/box";
        let words = "read-only fast-forward brave-otter 1st 2nd 4711 20000ms 2026-01-01 20261116 12-30 1024_768 100000-200000 utf8 sha256 x86_64 step-3 job-7 \
                     e2e-tests i18n k8s ABCDEFGH facade";
        let missed: Vec<&str> = generated.split_whitespace().filter(|name| !is_generated(name)).collect();
        let wrong: Vec<&str> = words.split_whitespace().filter(|name| is_generated(name)).collect();
        assert_eq!((missed, wrong), (vec![], vec![]));
    }
}
