//! Keys, and how they are kept out of everything that is shown.

use std::fmt;
use std::path::PathBuf;

use http::HeaderValue;

use super::failure::{Failure, FailureKind, Retry};

/// A value that is never shown: not by `Debug`, not by `Display`, not in an error.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<str>);

impl Secret {
    /// Keeps a value.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into().into_boxed_str())
    }

    /// The value itself, for the one place that sends it.
    pub(super) fn expose(&self) -> &str {
        &self.0
    }

    /// The text with every occurrence of the value starred out. Providers quote keys in their errors.
    pub(super) fn hidden_in(&self, text: &str) -> String {
        if self.is_word() { text.to_owned() } else { text.replace(&*self.0, STARS) }
    }

    /// A short one may be anybody's word, as `ollama` is where any key will do. It is not looked for.
    fn is_word(&self) -> bool {
        self.0.len() < SECRET_ENOUGH
    }

    /// Whether bytes hold the value.
    pub(super) fn is_in(&self, bytes: &[u8]) -> bool {
        let value = self.0.as_bytes();
        !self.is_word() && bytes.windows(value.len()).any(|window| window == value)
    }

    /// Stars the value out of bytes, in place, so that offsets stay what they were.
    pub(super) fn hide_in(&self, bytes: &mut [u8]) {
        let value = self.0.as_bytes();
        let Some(first) = value.first().filter(|_| !self.is_word()) else { return };
        let mut at = 0;
        while let Some(next) = bytes[at..].iter().position(|byte| byte == first) {
            at += next;
            if bytes[at..].starts_with(value) {
                bytes[at..at + value.len()].fill(b'*');
            }
            at += 1;
        }
    }
}

const STARS: &str = "***";

/// What is at least this long is no usual word.
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

/// Where a provider's key comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// There is none, as with a server on one's own machine.
    None,
    /// It is known, from the environment variable of that name.
    Known {
        /// The key.
        secret: Secret,
        /// The variable.
        from: String,
    },
    /// The file holds it, and is read for every request: a key that is rotated is the next request's.
    File(PathBuf),
}

impl Key {
    /// The key, where it can be had at once.
    pub(super) fn known(&self) -> Option<Secret> {
        match self {
            Self::None => None,
            Self::Known { secret, .. } => Some(secret.clone()),
            Self::File(path) => Some(Secret::new(std::fs::read_to_string(path).ok()?.trim())),
        }
    }

    /// The key as it is now.
    pub(super) async fn read(&self) -> Result<Option<Secret>, Failure> {
        match self {
            Self::None => Ok(None),
            Self::Known { secret, .. } => Ok(Some(secret.clone())),
            Self::File(path) => {
                let unusable = |why: String| {
                    let message = format!("cannot use the key file `{}`: {why}", path.display());
                    Failure::new(FailureKind::Auth, message, Retry::No).hinted(self.advice())
                };
                let text =
                    tokio::fs::read_to_string(path).await.map_err(|error| unusable(error.to_string()))?;
                match text.trim() {
                    "" => Err(unusable("it is empty".to_owned())),
                    key => Ok(Some(Secret::new(key))),
                }
            }
        }
    }

    /// What to do where it is refused.
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

/// The header that carries the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyHeader {
    /// `x-api-key: …`, for Anthropic's keys.
    ApiKey,
    /// `Authorization: Bearer …`, for Anthropic's tokens and everybody else's keys.
    Bearer,
}

impl KeyHeader {
    /// Name and value.
    pub(super) fn of(self, secret: &Secret, key: &Key) -> Result<(&'static str, HeaderValue), Failure> {
        let (name, value) = match self {
            Self::ApiKey => ("x-api-key", secret.expose().to_owned()),
            Self::Bearer => ("authorization", format!("Bearer {}", secret.expose())),
        };
        let mut value = HeaderValue::try_from(value).map_err(|_| {
            let message = "the key holds characters that no header can carry".to_owned();
            Failure::new(FailureKind::Auth, message, Retry::No).hinted(key.advice())
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
        let key = Key::Known { secret: secret.clone(), from: "SOME_KEY".to_owned() };
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
    fn a_key_that_no_header_can_carry_is_said_without_the_key() {
        let key = Key::File("/somewhere".into());
        let failure = KeyHeader::ApiKey.of(&Secret::new("sk-\ncanary"), &key).expect_err("a line end");
        assert!(!format!("{failure:?} {failure}").contains("canary"));
    }
}
