//! Secrets in headers. A secret header keeps its name and loses its value.

use wire::Header;

use super::names::{self, Family};
use super::plain::PlainText;
use super::{Redactor, assign, hit, placeholder, shapes};

impl Redactor {
    /// Redacts a list of headers.
    pub fn redact_headers(&mut self, place: &str, raw: &[(String, Vec<u8>)]) -> Vec<Header> {
        // Learns from all headers first, because a header may repeat the secret of a later one.
        for (name, value) in raw {
            if let Some(family) = secret_family(name) {
                let source = format!("header {}", name.to_ascii_lowercase());
                self.search.learn_parts(&source, family, value);
            }
        }
        raw.iter().map(|(name, value)| self.header(place, name, value)).collect()
    }

    fn header(&mut self, place: &str, name: &str, value: &[u8]) -> Header {
        let credential = secret_family(name).map(|family| strip_scheme(family, value));
        let Some(credential) =
            credential.filter(|credential| !value.is_empty() && !placeholder::is_placeholder(credential))
        else {
            let place = format!("{place} {}", name.to_ascii_lowercase());
            return Header::Plain { name: name.to_owned(), value: self.header_value(&place, value) };
        };
        self.counts.add("header", None, &format!("{place} {}", name.to_ascii_lowercase()), self.late);
        let decoded = shapes::decode_basic(credential).filter(|_| credential.len() < value.len());
        let plain = PlainText::from_escaped(decoded.as_deref().unwrap_or(credential));
        let fingerprint = self.search.key.fingerprint(plain.bytes());
        Header::Secret { name: name.to_owned(), present: true, fingerprint }
    }

    fn header_value(&mut self, place: &str, value: &[u8]) -> String {
        let text = PlainText::from_escaped(value);
        let hits = hit::merge_overlaps(self.search.find_all(place, &text));
        self.count(place, &hits);
        let bytes = hit::to_edits(&hits).apply(value).expect("settled hits do not overlap");
        String::from_utf8(bytes).unwrap_or_else(|e| e.into_bytes().into_iter().map(char::from).collect())
    }
}

/// Returns the kind of secret in the header `name`. Names that are ambiguous in a text (`X-Auth`,
/// `X-Functions-Key`) are secret in a header.
pub(super) fn secret_family(name: &str) -> Option<Family> {
    names::family(name.as_bytes()).or_else(|| {
        let name = name.to_ascii_lowercase();
        if name.ends_with("authentication") {
            return Some(Family::Authorization);
        }
        let owner = name.strip_suffix("-key")?;
        (!names::PLAIN_KEYS.iter().any(|plain| owner.ends_with(plain))).then_some(Family::Key)
    })
}

/// Removes the scheme, such as `Bearer `.
fn strip_scheme(family: Family, value: &[u8]) -> &[u8] {
    let value = value.trim_ascii();
    let any = || assign::any_scheme(value).filter(|_| family == Family::Authorization);
    &value[assign::scheme(value).or_else(any).unwrap_or(0)..]
}

#[cfg(test)]
mod tests {
    use super::secret_family;

    #[test]
    fn ambiguous_names_are_secret_in_headers() {
        for name in [
            "X-Auth",
            "X-Functions-Key",
            "x-key",
            "Ocp-Apim-Subscription-Key",
            "X-Api-Key",
            "Cookie",
            "X-Authentication",
        ] {
            assert!(secret_family(name).is_some(), "{name}");
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
            assert!(secret_family(name).is_none(), "{name}");
        }
    }
}
