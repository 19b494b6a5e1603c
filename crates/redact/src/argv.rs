//! Secrets in command lines. The value of an option is a word of its own, so the rules for texts cannot relate it
//! to the option.

use std::ops::Range;

use super::hit::{self, Hit, Rank};
use super::names::{self, Family};
use super::{Redactor, TextFormat, assign, header, login, looks};

/// Options whose value is a header.
const HEADERS: &[&str] = &["H", "header", "headers", "proxy-header"];
/// Options whose value is `user:password`.
const LOGINS: &[&str] = &["u", "U", "user", "proxy-user"];

/// The secret part of a word.
struct OptionSecret {
    range: Range<usize>,
    family: Family,
    /// True if the value may also be a common word. It is redacted here, but not learned.
    only_here: bool,
}

impl Redactor {
    /// Redacts the words of a command and learns their secrets: the value of an option with a secret name is a
    /// secret, whatever it looks like.
    pub fn redact_command_line(&mut self, place: &str, words: &[String]) -> Vec<String> {
        let before = std::iter::once(None).chain(words.iter().map(|word| option_name(word)));
        let values: Vec<Option<OptionSecret>> = before
            .zip(words)
            .map(|(option, word)| secret_after_option(option, word).or_else(|| secret_in_word(word)))
            .collect();
        // Learns from all words first, because a word may repeat the secret of a later one.
        for (value, word) in values.iter().zip(words) {
            if let Some(OptionSecret { range, family, only_here: false }) = value {
                self.search.learn_parts(place, *family, &word.as_bytes()[range.clone()]);
            }
        }
        values.into_iter().zip(words).map(|(value, word)| self.redact_word(place, word, value)).collect()
    }

    fn redact_word(&mut self, place: &str, word: &str, value: Option<OptionSecret>) -> String {
        let bytes = word.as_bytes();
        let mut hits = self.find_hits(place, TextFormat::of(None, bytes), bytes);
        hits.extend(value.map(|OptionSecret { range, family, .. }| {
            let with = self.search.key.placeholder(&bytes[range.clone()]);
            Hit { range, with, rule: family.rule(), secret: None, rank: Rank::Seen }
        }));
        let hits = hit::merge_overlaps(hits);
        self.count(place, &hits);
        let kept = hit::to_edits(&hits).apply(bytes).expect("settled hits do not overlap");
        String::from_utf8_lossy(&kept).into_owned()
    }
}

/// Returns the name of an option if the next word may be its value.
fn option_name(word: &str) -> Option<&str> {
    let name = word.trim_start_matches('-');
    (name.len() < word.len() && !name.is_empty() && !name.contains('=')).then_some(name)
}

/// Finds the secret in the value of the option before it.
fn secret_after_option(option: Option<&str>, word: &str) -> Option<OptionSecret> {
    find_secret(option.filter(|_| !word.starts_with('-'))?, word, 0)
}

/// Finds the secret in a word that contains an option and its value: `--token=…`, `-Hx-api-key: …`, `-ume:…`.
fn secret_in_word(word: &str) -> Option<OptionSecret> {
    if let Some((name, _)) = word.split_once('=').filter(|(name, _)| name.starts_with('-')) {
        return find_secret(name.trim_start_matches('-'), word, name.len() + 1);
    }
    let short = ["-H", "-u", "-U"].into_iter().find(|short| word.starts_with(short))?;
    find_secret(&short[1..], word, short.len())
}

/// Finds the secret in `word[start..]`, which is the value of the option `name`.
fn find_secret(name: &str, word: &str, start: usize) -> Option<OptionSecret> {
    let bytes = word.as_bytes();
    if HEADERS.contains(&name) {
        let colon = start + word[start..].find(':')?;
        // In a header, an ambiguous name is a secret one.
        let family = match header::secret_family(word[start..colon].trim())? {
            Family::Weak => Family::Authorization,
            family => family,
        };
        let rest = &bytes[colon + 1..];
        let blank = rest.len() - rest.trim_ascii_start().len();
        let value = colon + 1 + blank..bytes.len();
        return check_secret(name.as_bytes(), family, bytes, value);
    }
    if LOGINS.contains(&name) {
        let range = login::password(bytes, &(start..bytes.len()))?;
        // The value may also be a group: `docker run -u me:staff`.
        let only_here = bytes[range.clone()].iter().all(u8::is_ascii_lowercase);
        return Some(OptionSecret { range, family: Family::Password, only_here });
    }
    let may_be_key = || names::may_be_key(name.as_bytes()) && looks::is_key(&bytes[start..]);
    let family = names::family(name.as_bytes()).or_else(|| may_be_key().then_some(Family::Key))?;
    check_secret(name.as_bytes(), family, bytes, start..bytes.len())
}

fn check_secret(name: &[u8], family: Family, word: &[u8], range: Range<usize>) -> Option<OptionSecret> {
    let skip = assign::scheme(&word[range.clone()]).unwrap_or(0);
    let range = range.start + skip..range.end;
    let value = &word[range.clone()];
    // `--private-key ~/.ssh/id` names a file that contains the key.
    let path = family == Family::Key && looks::is_path(value);
    (!path && assign::is_secret(name, family, value)).then_some(OptionSecret {
        range,
        family,
        only_here: false,
    })
}

#[cfg(test)]
mod tests {
    use super::super::{FingerprintKey, Redactor};

    /// Checks the words of a command after redaction, and a body that repeats all of them.
    fn check(words: &str, expected: &str, body: &str) {
        let mut redactor = Redactor::new(FingerprintKey::from_bytes([1; 32]));
        let words: Vec<String> = words.split('|').map(str::to_owned).collect();
        let short = |mut text: String| {
            while let Some(at) = text.find("offshoot-redacted-") {
                text.replace_range(at..at + 34, "‹›");
            }
            text
        };
        assert_eq!(short(redactor.redact_command_line("command line", &words).join("|")), expected);
        let said = words.join(" and ");
        let left = redactor.redact_text("body", said.as_bytes()).bytes.into_owned();
        assert_eq!(short(String::from_utf8_lossy(&left).into_owned()), body, "{expected}");
    }

    #[test]
    fn values_of_options_are_redacted_and_learned() {
        check("a|--api-key|my-secret-canary", "a|--api-key|‹›", "a and --api-key and ‹›");
        check("a|--token|winterlich|-v", "a|--token|‹›|-v", "a and --token and ‹› and -v");
        check("a|-token=winterlich", "a|-token=‹›", "a and -token=‹›");
        check("a|--password|Winter2024", "a|--password|‹›", "a and --password and ‹›");
        check("a|--api-key2|my-secret-canary", "a|--api-key2|‹›", "a and --api-key2 and ‹›");
        check("a|-u|bob:hunter2x", "a|-u|bob:‹›", "a and -u and bob:‹›");
        check("a|-ubob:hunter2x", "a|-ubob:‹›", "a and -ubob:‹›");
        check("a|--user=bob:pw12", "a|--user=bob:‹›", "a and --user=bob:pw12");
        check("a|-H|x-api-key: hunter-hunter", "a|-H|x-api-key: ‹›", "a and -H and x-api-key: ‹›");
        check("a|-HX-Auth: hunter2-hunter2-7", "a|-HX-Auth: ‹›", "a and -HX-Auth: ‹›");
        check(
            "a|--header|Authorization: Bearer abcdefgh",
            "a|--header|Authorization: Bearer ‹›",
            "a and --header and Authorization: Bearer ‹›",
        );
        check("hunter2-hunter2-7|--token|hunter2-hunter2-7", "‹›|--token|‹›", "‹› and --token and ‹›");
    }

    #[test]
    fn other_words_stay() {
        for words in [
            "a|--token|--verbose",
            "a|--max-tokens|12345678",
            "a|--private-key|/home/me/.ssh/id_rsa|--ssh-key|./key.pem",
            "a|--token|$TOKEN|--password|<password>|--secret",
            "a|-H|accept: application/json|-H|none",
            "docker|run|-u|1000:1000|--user|me|-u",
            "a|--keyboard|qwertz-de-12345678|-p|hello there|--tokenizer|cl100k_base",
            "a|--api-key|offshoot-redacted-0123456789abcdef",
        ] {
            let stay: Vec<String> = words.split('|').map(str::to_owned).collect();
            let mut redactor = Redactor::new(FingerprintKey::from_bytes([1; 32]));
            assert_eq!(redactor.redact_command_line("command line", &stay), stay);
            assert_eq!(redactor.generation(), 0, "{words}");
        }
        check(
            "docker|run|-u|me:developers",
            "docker|run|-u|me:‹›",
            "docker and run and -u and me:developers",
        );
    }
}
