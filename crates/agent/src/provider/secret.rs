//! Keys, and how they are kept out of all output.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use http::HeaderValue;

use super::failure::{FailureKind, ProviderFailure, RetryAdvice};

/// A value that is never shown: not by `Debug`, not by `Display`, not in an error.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    value: Box<str>,
    /// Its possible encodings, computed once.
    forms: Arc<[String]>,
}

impl Secret {
    /// Wraps a value.
    pub fn new(value: impl Into<String>) -> Self {
        let value = value.into().into_boxed_str();
        Self { forms: forms(&value).into(), value }
    }

    /// Returns the value, for the one place that sends it.
    pub(super) fn expose(&self) -> &str {
        &self.value
    }

    /// Returns a text with every occurrence of the value starred out. Providers quote keys in their errors.
    pub(super) fn hidden_in(&self, text: &str) -> String {
        self.forms.iter().fold(text.to_owned(), |text, form| text.replace(form, STARS))
    }

    /// Returns the same with a star for each letter.
    pub(super) fn starred_in(&self, text: &str) -> String {
        let mut bytes = text.as_bytes().to_vec();
        self.hide_in(&mut bytes);
        String::from_utf8(bytes).unwrap_or_default() // whole letters were replaced by stars
    }

    /// Returns the number of bytes at the end of a text that may be the beginning of the value.
    pub(super) fn beginning_at_end(&self, text: &str) -> usize {
        let longest = |form: &String| {
            let (text, form) = (text.as_bytes(), form.as_bytes());
            (1..form.len().min(text.len() + 1)).rev().find(|length| text.ends_with(&form[..*length]))
        };
        self.forms.iter().filter_map(longest).max().unwrap_or(0)
    }

    /// Returns whether bytes hold the value.
    pub(super) fn is_in(&self, bytes: &[u8]) -> bool {
        let holds = |form: &[u8]| bytes.windows(form.len()).any(|window| window == form);
        self.forms.iter().any(|form| holds(form.as_bytes()))
    }

    /// Stars the value out of bytes, in place, so that offsets stay valid.
    pub(super) fn hide_in(&self, bytes: &mut [u8]) {
        for form in self.forms.iter() {
            let form = form.as_bytes();
            let mut at = 0;
            while let Some(next) = bytes[at..].iter().position(|byte| *byte == form[0]) {
                at += next;
                if bytes[at..].starts_with(form) {
                    bytes[at..at + form.len()].fill(b'*');
                }
                at += 1;
            }
        }
    }
}

/// Returns the possible encodings of a value: plain, and base64 at every offset. A short value may be an
/// ordinary word, such as `ollama` where any key works. It is not searched.
fn forms(value: &str) -> Vec<String> {
    if value.len() < SECRET_ENOUGH {
        return Vec::new();
    }
    let mut forms = vec![value.to_owned()];
    for (lead, skipped) in [(0, 0), (1, 2), (2, 3)] {
        let within = [&[0; 2][..lead], value.as_bytes()].concat();
        // A letter that encodes bits of its neighbours is left out.
        let shared = usize::from(within.len() % 3 != 0);
        for alphabet in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
            let encoded = alphabet.encode(&within);
            forms.push(encoded[skipped..encoded.len() - shared].to_owned());
        }
    }
    forms.dedup();
    forms
}

const STARS: &str = "***";

/// Minimum length of a value that is no ordinary word.
const SECRET_ENOUGH: usize = 8;

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(STARS)
    }
}

/// The source of a provider's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiKey {
    /// No key, as for a server on one's own machine.
    None,
    /// A key from an environment variable.
    Known {
        /// The key.
        secret: Secret,
        /// The variable.
        from: String,
    },
    /// A key in a file, which is read for every request, so that a rotated key is used at once.
    File(PathBuf),
}

impl ApiKey {
    /// Returns the key if it is available without reading a file.
    pub(super) fn resolved(&self) -> Option<Secret> {
        match self {
            Self::None => None,
            Self::Known { secret, .. } => Some(secret.clone()),
            Self::File(path) => Some(Secret::new(bare(&std::fs::read_to_string(path).ok()?))),
        }
    }

    /// Reads the current key.
    pub(super) async fn read(&self) -> Result<Option<Secret>, ProviderFailure> {
        match self {
            Self::None => Ok(None),
            Self::Known { secret, .. } => Ok(Some(secret.clone())),
            Self::File(path) => {
                let unusable = |why: String| {
                    let message = format!("cannot use the key file `{}`: {why}", path.display());
                    ProviderFailure::new(FailureKind::Auth, message, RetryAdvice::No).hinted(self.advice())
                };
                let text =
                    tokio::fs::read_to_string(path).await.map_err(|error| unusable(error.to_string()))?;
                match bare(&text) {
                    "" => Err(unusable("it is empty".to_owned())),
                    key => Ok(Some(Secret::new(key))),
                }
            }
        }
    }

    /// Returns advice for a refused key.
    pub(super) fn advice(&self) -> String {
        match self {
            Self::None => {
                "name the key's variable as `key_env`, or its file as `key_file`, in the provider's table"
                    .to_owned()
            }
            Self::Known { from, .. } => format!("set `{from}` to a key that the provider accepts"),
            Self::File(path) => format!("put a key that the provider accepts into `{}`", path.display()),
        }
    }
}

/// Returns the key in a file's text. Some editors write a byte order mark before it.
fn bare(text: &str) -> &str {
    text.trim_start_matches('\u{feff}').trim()
}

/// The header that carries the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyHeader {
    /// `x-api-key: …`, for Anthropic's keys.
    ApiKey,
    /// `Authorization: Bearer …`, for Anthropic's tokens and all other keys.
    Bearer,
}

impl KeyHeader {
    /// Returns name and value.
    pub(super) fn of(
        self,
        secret: &Secret,
        key: &ApiKey,
    ) -> Result<(&'static str, HeaderValue), ProviderFailure> {
        let (name, value) = match self {
            Self::ApiKey => ("x-api-key", secret.expose().to_owned()),
            Self::Bearer => ("authorization", format!("Bearer {}", secret.expose())),
        };
        let mut value = HeaderValue::try_from(value).map_err(|_| {
            let message = "the key holds characters that no header can carry".to_owned();
            ProviderFailure::new(FailureKind::Auth, message, RetryAdvice::No).hinted(key.advice())
        })?;
        value.set_sensitive(true);
        Ok((name, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_shown() {
        let secret = Secret::new("sk-canary");
        let key = ApiKey::Known { secret: secret.clone(), from: "SOME_KEY".to_owned() };
        for shown in [format!("{secret}"), format!("{secret:?}"), format!("{key:?}"), format!("{key:#?}")] {
            assert!(!shown.contains("canary"), "{shown}");
        }
        let (_, header) = KeyHeader::Bearer.of(&secret, &key).expect("a plain key");
        assert!(!format!("{header:?}").contains("canary"));
        assert_eq!(secret.hidden_in("bad key sk-canary!"), "bad key ***!");
        let mut bytes = *b"sssk-canarysk-canarysk-can";
        secret.hide_in(&mut bytes);
        assert_eq!(&bytes, b"ss******************sk-can");
    }

    #[test]
    fn a_secret_is_found_at_any_offset_of_base64() {
        for value in ["sk-canary", "sk-canary0", "sk-canary01", "sk?>canary~~~"] {
            let secret = Secret::new(value);
            for before in ["", "B", "Be", "Bearer "] {
                for behind in ["", "!", "\r\n"] {
                    let text = format!("{before}{value}{behind}");
                    for encoded in [STANDARD_NO_PAD.encode(&text), URL_SAFE_NO_PAD.encode(&text)] {
                        assert!(secret.is_in(encoded.as_bytes()), "{text:?} as {encoded}");
                        assert!(!secret.is_in(secret.starred_in(&encoded).as_bytes()), "{text:?}");
                    }
                }
            }
        }
        assert!(!Secret::new("ollama").is_in(STANDARD_NO_PAD.encode("ollama").as_bytes()), "any word");
    }

    #[tokio::test]
    async fn a_mark_before_a_key_is_not_part_of_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("key");
        std::fs::write(&path, "\u{feff}sk-canary\r\n").expect("written");
        let key = ApiKey::File(path);
        let read = key.read().await.expect("read").expect("a key");
        assert_eq!((read.expose(), key.resolved().expect("known").expose()), ("sk-canary", "sk-canary"));
    }

    #[test]
    fn an_invalid_key_is_reported_without_the_key() {
        let key = ApiKey::File("/somewhere".into());
        let failure = KeyHeader::ApiKey.of(&Secret::new("sk-\ncanary"), &key).expect_err("a line end");
        assert!(!format!("{failure:?} {failure}").contains("canary"));
    }
}
