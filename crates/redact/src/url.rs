//! Secrets in URLs: the password before the host, and parameters with secret names.

use super::plain::PlainText;
use super::{Redactor, hit};

/// Parameters that are credentials in a URL, although their names are common elsewhere.
const CREDENTIALS: &[&str] = &["key", "sig", "signature", "x-amz-signature", "x-goog-signature", "jwt"];
/// The minimum length of their values. A shorter one is a word.
const SHORTEST: usize = 16;

impl Redactor {
    /// Redacts a URL, with or without its origin.
    pub fn redact_url(&mut self, place: &str, url: &str) -> String {
        let query = url.split_once('?').map_or("", |(_, query)| query);
        for (name, value) in query.split(['&', '#']).filter_map(|parameter| parameter.split_once('=')) {
            if value.len() >= SHORTEST && CREDENTIALS.contains(&name.to_ascii_lowercase().as_str()) {
                self.learn(&format!("parameter {}", name.to_ascii_lowercase()), value.as_bytes());
            }
        }
        let text = PlainText::from_escaped(url.as_bytes());
        let hits = hit::merge_overlaps(self.search.find_all(place, &text));
        self.count(place, &hits);
        let bytes = hit::to_edits(&hits).apply(url.as_bytes()).expect("settled hits do not overlap");
        // A hit can end inside a character only if the learned value does.
        String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FingerprintKey, Redactor};

    #[test]
    fn credentials_with_common_names_are_redacted() {
        let mut redactor = Redactor::new(FingerprintKey::from_bytes([1; 32]));
        for (url, gone) in [
            ("https://a.test/v1?key=Zx81kk02LLmm93pqRs7t&alt=sse", true),
            ("/bucket/file?X-Amz-Signature=0123abcd4567ef890123abcd4567ef89", true),
            ("/v1/list?key=name&sort_key=created", false),
        ] {
            let kept = redactor.redact_url("address", url);
            assert_eq!(kept.contains("offshoot-redacted-"), gone, "{kept}");
            assert_eq!(kept.contains("alt=sse"), url.contains("alt=sse"));
        }
    }
}
