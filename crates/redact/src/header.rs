//! Headers: a secret one keeps its name and loses its value.

use wire::Header;

use super::names::{self, Family};
use super::plain::Plain;
use super::{Redactor, assign, hit, placeholder, shapes};

impl Redactor {
    /// Takes the secrets out of a list of headers, as they were sent.
    pub fn redact_headers(&mut self, place: &str, raw: &[(String, Vec<u8>)]) -> Vec<Header> {
        // All names first: a header may repeat what a later one gives away.
        for (name, value) in raw {
            if let Some(family) = secret(name) {
                let source = format!("header {}", name.to_ascii_lowercase());
                self.search.learn_parts(&source, family, value);
            }
        }
        raw.iter().map(|(name, value)| self.header(place, name, value)).collect()
    }

    fn header(&mut self, place: &str, name: &str, value: &[u8]) -> Header {
        let credential = secret(name).map(|family| credential(family, value));
        let Some(credential) =
            credential.filter(|credential| !value.is_empty() && !placeholder::is(credential))
        else {
            let place = format!("{place} {}", name.to_ascii_lowercase());
            return Header::Plain { name: name.to_owned(), value: self.header_value(&place, value) };
        };
        self.counts.add("header", None, &format!("{place} {}", name.to_ascii_lowercase()), self.late);
        let decoded = shapes::decode_basic(credential).filter(|_| credential.len() < value.len());
        let plain = Plain::of_escaped(decoded.as_deref().unwrap_or(credential));
        let fingerprint = self.search.key.fingerprint(plain.bytes());
        Header::Secret { name: name.to_owned(), present: true, fingerprint }
    }

    fn header_value(&mut self, place: &str, value: &[u8]) -> String {
        let text = Plain::of_escaped(value);
        let hits = hit::settle(self.search.everything(place, &text));
        self.count(place, &hits);
        let bytes = hit::edits(&hits).apply(value).expect("settled hits do not overlap");
        String::from_utf8(bytes).unwrap_or_else(|e| e.into_bytes().into_iter().map(char::from).collect())
    }
}

/// What kind of secret a header of that name holds. A header says less in passing than a text does,
/// so a name that is doubtful elsewhere (`X-Auth`, `X-Functions-Key`) counts here.
pub(super) fn secret(name: &str) -> Option<Family> {
    names::family(name.as_bytes()).or_else(|| {
        let name = name.to_ascii_lowercase();
        if name.ends_with("authentication") {
            return Some(Family::Authorization);
        }
        let owner = name.strip_suffix("-key")?;
        (!names::PLAIN_KEYS.iter().any(|plain| owner.ends_with(plain))).then_some(Family::Key)
    })
}

/// A header's value without `Bearer `.
fn credential(family: Family, value: &[u8]) -> &[u8] {
    let value = value.trim_ascii();
    let any = || assign::any_scheme(value).filter(|_| family == Family::Authorization);
    &value[assign::scheme(value).or_else(any).unwrap_or(0)..]
}

#[cfg(test)]
mod tests {
    use super::secret;

    #[test]
    fn doubtful_names_count_in_headers() {
        for name in [
            "X-Auth",
            "X-Functions-Key",
            "x-key",
            "Ocp-Apim-Subscription-Key",
            "X-Api-Key",
            "Cookie",
            "X-Authentication",
        ] {
            assert!(secret(name).is_some(), "{name}");
        }
        for name in [
            "Idempotency-Key",
            "Sec-WebSocket-Key",
            "X-Session-Id",
            "HTTP-Referer",
            "X-Author",
            "Accept",
            "WWW-Authenticate",
            "Authentication-Info",
        ] {
            assert!(secret(name).is_none(), "{name}");
        }
    }
}
