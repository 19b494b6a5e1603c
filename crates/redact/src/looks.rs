//! Tests of a value's appearance, for names that alone do not make it a secret.

use super::runs::is_mixed;
use super::values::is_word;
use super::{names, placeholder};

const SHORTEST: usize = 8;

/// Returns true for one word that is too random to be a word, a name, a type or a path.
pub(super) fn is_random(value: &[u8]) -> bool {
    is_one_word(value) && ((is_mixed(value) && !is_wordy(value)) || is_unpronounceable(value))
}

/// Returns true for a random word that is not the name of a file.
pub(super) fn is_key(value: &[u8]) -> bool {
    let name = value.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let is_file = name.len() < value.len() && name.contains(&b'.');
    is_random(value) && !is_file
}

/// Shorter values have too few pairs of letters for a decision.
const SHORTEST_PRONOUNCED: usize = 16;

/// Returns true for mixed case as no name has it, such as `YKbPizDmbX1rpXjYdOhC`, with or without digits. Names
/// contain few rare pairs of letters, and their words seldom have only two letters.
fn is_unpronounceable(value: &[u8]) -> bool {
    let cased = value.iter().any(u8::is_ascii_uppercase) && value.iter().any(u8::is_ascii_lowercase);
    if value.len() < SHORTEST_PRONOUNCED || !cased {
        return false;
    }
    let pairs = value.windows(2).filter(|pair| pair.iter().all(u8::is_ascii_alphabetic));
    let (mut all, mut odd) = (0, 0);
    for pair in pairs {
        let hump = pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase();
        all += 1;
        odd += usize::from(!hump && is_rare(pair));
    }
    // The `b` in `YbP` and in `7bP`: the words of a name are longer.
    odd += value
        .windows(3)
        .filter(|three| {
            let before = three[0].is_ascii_uppercase() || three[0].is_ascii_digit();
            let behind = three[2].is_ascii_uppercase() || three[2].is_ascii_digit();
            before && three[1].is_ascii_lowercase() && behind
        })
        .count();
    odd >= 4 && odd * 4 >= all
}

/// The letters that often follow each letter of the alphabet, in words and in the names of programs.
const FOLLOWERS: [&str; 26] = [
    "bcdfgiklmnprstuvwxy",
    "aceijlorsuy",
    "abcdehiklmoprstuy",
    "abdefilorstuw",
    "abcdefgilmnopqrstuvwxy",
    "acdefilorstu",
    "aeghilnorstu",
    "adeimorstu",
    "abcdefglmnoprstvxz",
    "aeou",
    "aeis",
    "acdefilopstuy",
    "abdeimopstu",
    "acdefgiklnopstuv",
    "abcdfgiklmnoprstuvw",
    "acdehiloprstuy",
    "u",
    "acdefgiklmnoprstuvy",
    "acdefghiklmnoprstuwyz",
    "acdefhilmnoprstuxy",
    "abcdefgilmnprst",
    "aeio",
    "aehinors",
    "aceipt",
    "ilmnpst",
    "aeio",
];

/// Returns true if two letters are seldom adjacent. Equal letters and neighbours in the alphabet are common in
/// examples.
fn is_rare(pair: &[u8]) -> bool {
    let [first, second] = [pair[0], pair[1]].map(|byte| byte.to_ascii_lowercase());
    let listed = first == second || first + 1 == second;
    !listed && !FOLLOWERS[usize::from(first - b'a')].as_bytes().contains(&second)
}

/// Returns true for a word of a sentence, also with a space before it.
pub(super) fn is_plain_word(value: &[u8]) -> bool {
    let word = value.trim_ascii();
    word.len() <= 20
        && word.first().is_some_and(u8::is_ascii_alphabetic)
        && word[1..].iter().all(u8::is_ascii_lowercase)
}

/// Returns true for the name of a program element: `comment.block`, `StringLiteral`.
pub(super) fn is_plain_name(value: &[u8]) -> bool {
    let letters = value.split(|byte| *byte == b'.').all(|word| {
        word.len() >= 2
            && word.iter().all(u8::is_ascii_alphabetic)
            && !word.iter().all(u8::is_ascii_uppercase)
    });
    letters && (value.contains(&b'.') || is_hump(value)) && !is_unpronounceable(value)
}

/// Returns true for words and small numbers with separators: `us-east-1`, `America/Los_Angeles`.
pub(super) fn is_joined_words(value: &[u8]) -> bool {
    !value.iter().all(u8::is_ascii_alphanumeric) && is_wordy(value)
}

/// Returns true for such words in a name or path: `ANTHROPIC_BASE_URL/v1/messages`.
pub(super) fn is_named_words(value: &[u8]) -> bool {
    is_joined_words(value) && !is_unpronounceable(value)
}

/// Returns true for words joined by dashes, which may be a passphrase. Words without dashes are usually a type or a
/// label.
pub(super) fn is_passphrase(value: &[u8]) -> bool {
    let letters = value.iter().all(|byte| byte.is_ascii_alphabetic() || *byte == b'-');
    is_one_word(value) && letters && value.len() >= 12 && value.contains(&b'-')
}

/// Returns true for a word with digits after it, such as `Winter2024` or `correcthorse99`, that is no technical
/// term. A single digit is enough for the last word of a line or string (`last`).
pub(super) fn is_word_with_digits(value: &[u8], last: bool) -> bool {
    let count = |of: fn(&u8) -> bool| value.iter().filter(|byte| of(byte)).count();
    let plain = value.iter().all(|byte| byte.is_ascii_alphanumeric() || b"!?@#$%^*+~".contains(byte));
    let digits = count(u8::is_ascii_digit);
    let word = &value[..value.iter().take_while(|byte| byte.is_ascii_alphabetic()).count()];
    let fits = (SHORTEST..=LONGEST_WORD).contains(&value.len()) && plain && word.len() >= 3;
    let enough = digits >= 2 || (digits == 1 && last);
    fits && enough && !is_technical(word) && (!is_hump(word) || ends_in_year(value))
}

/// Returns true for a word with digits in the place of letters, such as `S3cret-Word` or `gr33nhouse`.
pub(super) fn is_leet(value: &[u8]) -> bool {
    let plain = value.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_!?@#$%^&*+~".contains(byte));
    let word = &value[..value.iter().take_while(|byte| byte.is_ascii_alphabetic()).count()];
    let is_inside = |at: usize, length: usize| {
        let inside = &value[at..at + length];
        inside[0].is_ascii_alphabetic()
            && inside[length - 1].is_ascii_lowercase()
            && inside[1..length - 1].iter().all(|byte| b"013457".contains(byte))
    };
    let fits = (SHORTEST..=LONGEST_WORD).contains(&value.len()) && plain && !is_technical(word);
    fits && [3, 4].iter().any(|&length| (0..=value.len() - length).any(|at| is_inside(at, length)))
}

const LONGEST_WORD: usize = 40;

/// Words that are often followed by a number and are no password, in lower case.
const TECHNICAL: &[&str] = &[
    "arg",
    "argon",
    "argument",
    "base",
    "binary",
    "bit",
    "bits",
    "byte",
    "bytes",
    "char",
    "chars",
    "column",
    "decimal",
    "double",
    "field",
    "fixed",
    "float",
    "hash",
    "hex",
    "input",
    "int",
    "integer",
    "item",
    "key",
    "latin",
    "level",
    "line",
    "md",
    "nvarchar",
    "oauth",
    "option",
    "output",
    "page",
    "param",
    "parameter",
    "pbkdf",
    "placeholder",
    "scrypt",
    "section",
    "sha",
    "step",
    "str",
    "text",
    "uint",
    "unsigned",
    "utf",
    "value",
    "varbinary",
    "varchar",
    "variable",
    "version",
];

fn is_technical(word: &[u8]) -> bool {
    let known = TECHNICAL.iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes()));
    known || is_word(word) || names::family(word).is_some()
}

/// Returns true for the name of a type or variable: `FixedBytes`, `newValue`.
fn is_hump(word: &[u8]) -> bool {
    word.windows(2).any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase())
}

fn ends_in_year(value: &[u8]) -> bool {
    let letters = value.trim_ascii_end();
    let end = letters.iter().rposition(u8::is_ascii_digit).map_or(0, |at| at + 1);
    let digits = letters[..end].iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    digits == 4 && (letters[..end - 2].ends_with(b"19") || letters[..end - 2].ends_with(b"20"))
}

fn is_one_word(value: &[u8]) -> bool {
    let words = value.iter().any(|byte| byte.is_ascii_whitespace() || *byte == b'(');
    let path = is_path(value) || memchr::memmem::find(value, b"://").is_some();
    value.len() >= SHORTEST && !words && !path && placeholder::find(value).is_none()
}

/// Returns true for words and type names with punctuation between them, each with a few digits at most:
/// `settings.api_key2`, `crate::__u32`, `Ed25519Key`, `gpt-4o`.
fn is_wordy(value: &[u8]) -> bool {
    let word = |part: &[u8]| {
        let letters = part.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        let behind = &part[letters..];
        let digits = behind.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let rest = &behind[digits..];
        let is_type =
            part.first().is_some_and(u8::is_ascii_uppercase) && rest.iter().all(u8::is_ascii_alphabetic);
        digits <= 5 && (rest.is_empty() || is_type)
    };
    value.split(|byte| !byte.is_ascii_alphanumeric()).all(word)
}

pub(super) fn is_path(value: &[u8]) -> bool {
    value.starts_with(b"/")
        || value.starts_with(b"./")
        || value.starts_with(b"~/")
        || value.ends_with(b".json")
}
