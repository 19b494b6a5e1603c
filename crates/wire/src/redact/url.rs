//! URLs: the password before the host, and parameters that are named like secrets.

use super::plain::Plain;
use super::search::Terms;
use super::{Redactor, hit};

impl Redactor {
    /// Takes the secrets out of a URL, whole or from its path on.
    pub fn url(&mut self, place: &str, url: &str) -> String {
        let text = Plain::of_escaped(url.as_bytes());
        let mut hits = self.search.by_rule(place, &text, Terms::default());
        hits.extend(self.search.by_value(&text));
        let hits = hit::settle(hits);
        self.count(place, &hits);
        let bytes = hit::edits(&hits).apply(url.as_bytes()).expect("settled hits do not overlap");
        // A hit may end inside a character only where the value learned did.
        String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
    }
}
