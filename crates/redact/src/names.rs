//! Names of secrets.
//!
//! A name is split into words (`apiKey`, `API_KEY` and `x-api-key` all contain *api key*), and the last words
//! decide. `max_tokens`, `token_count` and `secret_name` do not name a secret because of their last word.

/// The kind of secret that a name promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Key,
    Token,
    Secret,
    Password,
    Credential,
    Authorization,
    Cookie,
    /// `auth`, `pass`, `pwd`: a secret only if the value looks like one.
    Weak,
}

impl Family {
    /// Returns the name of the rule for the report. The names are constants, so that no value can appear in it.
    pub(super) fn rule(self) -> &'static str {
        match self {
            Self::Key => "name:key",
            Self::Token => "name:token",
            Self::Secret => "name:secret",
            Self::Password => "name:password",
            Self::Credential => "name:credential",
            Self::Authorization => "name:authorization",
            Self::Cookie => "name:cookie",
            Self::Weak => "name:auth",
        }
    }
}

/// Texts that every secret name contains. The search looks for them first.
pub(super) const STEMS: &[&str] = &[
    "token",
    "secret",
    "pass",
    "pwd",
    "credential",
    "creds",
    "auth",
    "bearer",
    "cookie",
    "key",
    "psk",
    "_pw",
    "kennwort",
    "wachtwoord",
    "contrasena",
    "csrf",
    "xsrf",
    "verifier",
    "assertion",
    "device_code",
    "otp",
];

/// Words before `key` that make it a secret.
const KEY_WORDS: &[&str] = &[
    "api",
    "access",
    "secret",
    "private",
    "auth",
    "encryption",
    "signing",
    "master",
    "account",
    "admin",
    "deploy",
    "shared",
    "storage",
    "subscription",
    "role",
    "service",
    "openai",
    "anthropic",
    "openrouter",
    "gemini",
    "claude",
    "webhook",
    "license",
    "ssh",
    "preshared",
    "sas",
    "functions",
    "integration",
];

/// Words before `key` that make it something else than a secret.
pub(super) const PLAIN_KEYS: &[&str] =
    &["idempotency", "cache", "surrogate", "websocket", "partition", "sort", "routing"];

/// Words before `token` that make it a position or a piece of text.
const NOT_A_TOKEN: &[&str] = &[
    "max",
    "min",
    "next",
    "page",
    "pagination",
    "continuation",
    "cursor",
    "start",
    "end",
    "stop",
    "eos",
    "bos",
    "pad",
    "unk",
    "mask",
    "cls",
    "sep",
    "special",
    "first",
    "last",
    "prev",
    "previous",
    "per",
    "each",
    "input",
    "output",
    "prompt",
    "completion",
    "total",
    "cached",
    "reasoning",
    "num",
    "cancel",
    "cancellation",
    "abort",
    "image",
    "audio",
    "text",
    "begin",
    "beginning",
    "the",
    "this",
    "a",
    "single",
    "every",
    "design",
];

/// Words before `tokens` that make them secrets.
const SECRET_TOKENS: &[&str] = &["access", "auth", "refresh", "api", "bearer", "session", "secret"];

/// Last words that do not change the meaning, such as the environment or a number.
const SILENT: &[&str] = &[
    "value",
    "v",
    "header",
    "env",
    "var",
    "prod",
    "production",
    "dev",
    "staging",
    "live",
    "main",
    "default",
    "old",
    "current",
    "confirmation",
    "confirm",
    "b64",
    "base64",
    "plain",
    "plaintext",
];

/// Ends of words without separator: `authtoken`, `dbpassword`.
const GLUED: &[(&str, Family)] = &[
    ("apikey", Family::Key),
    ("apikeys", Family::Key),
    ("accesskey", Family::Key),
    ("secretkey", Family::Key),
    ("privatekey", Family::Key),
    ("authkey", Family::Key),
    ("password", Family::Password),
    ("passwd", Family::Password),
    ("passphrase", Family::Password),
    ("sshpass", Family::Password),
    ("requirepass", Family::Password),
    ("remotepass", Family::Password),
    ("storepass", Family::Password),
    ("keypass", Family::Password),
    ("masterauth", Family::Password),
    ("passwort", Family::Password),
    ("kennwort", Family::Password),
    ("wachtwoord", Family::Password),
    ("contrasena", Family::Password),
    ("secret", Family::Secret),
    ("token", Family::Token),
    ("credentials", Family::Credential),
    ("authorization", Family::Authorization),
];

/// Returns the length of the word before `key` that belongs to the name, as in `API key`. `before` ends at `key`.
pub(super) fn word_before_key(before: &[u8]) -> usize {
    let Some(rest) = before.strip_suffix(b" ") else { return 0 };
    let letters = rest.iter().rev().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let word = rest[rest.len() - letters..].to_ascii_lowercase();
    let makes_secret = KEY_WORDS.iter().any(|known| known.as_bytes() == word);
    if makes_secret { letters + 1 } else { 0 }
}

/// Returns the kind of secret that a name promises, if any.
pub(super) fn family(name: &[u8]) -> Option<Family> {
    let words = unnumbered(name);
    let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
    if words.ends_with(&["secret", "key", "base"]) {
        return Some(Family::Key);
    }
    if words.ends_with(&["secret", "string"]) || words.ends_with(&["secret", "binary"]) {
        return Some(Family::Secret); // the names of a secret's value in AWS Secrets Manager
    }
    if words.starts_with(&["access", "control"]) {
        return None; // headers about credentials that contain none
    }
    while words.len() > 1 && is_silent(words[words.len() - 1]) {
        words.pop();
    }
    let last = *words.last()?;
    let before = words.len().checked_sub(2).map(|at| words[at]);
    match last {
        "key" | "keys" => before.is_some_and(|word| KEY_WORDS.contains(&word)).then_some(Family::Key),
        "token" => (!before.is_some_and(|word| NOT_A_TOKEN.contains(&word))).then_some(Family::Token),
        "tokens" => before.is_some_and(|word| SECRET_TOKENS.contains(&word)).then_some(Family::Token),
        "secret" | "secrets" => Some(Family::Secret),
        "password" | "passwords" | "passwd" | "passphrase" => Some(Family::Password),
        "credential" | "credentials" | "creds" => Some(Family::Credential),
        "authorization" => Some(Family::Authorization),
        "bearer" => Some(Family::Token),
        "cookie" | "cookies" => Some(Family::Cookie),
        "auth" | "pass" | "pwd" | "pw" | "passcode" | "psk" | "csrf" | "xsrf" | "otp" => Some(Family::Weak),
        "verifier" | "assertion" => {
            before.is_some_and(|word| ["code", "client"].contains(&word)).then_some(Family::Weak)
        }
        "code" => (before == Some("device")).then_some(Family::Weak),
        "answer" => (before == Some("secret")).then_some(Family::Weak),
        _ => glued(last),
    }
}

/// Returns true if a variable or option of this name, such as `STRIPE_KEY`, contains a key if its value looks like
/// one.
pub(super) fn may_be_key(name: &[u8]) -> bool {
    let words = unnumbered(name);
    let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
    while words.len() > 1 && is_silent(words[words.len() - 1]) {
        words.pop();
    }
    let plain = |word: &&str| PLAIN_KEYS.contains(word) || ["public", "pub"].contains(word);
    matches!(words.last(), Some(&("key" | "pat" | "jwt"))) && !words.iter().any(plain)
}

/// Last words of members that describe a secret.
const ABOUT: &[&str] = &[
    "id",
    "ids",
    "type",
    "kind",
    "name",
    "url",
    "uri",
    "href",
    "ref",
    "format",
    "pattern",
    "hash",
    "digest",
    "fingerprint",
    "version",
    "at",
    "date",
    "time",
    "expires",
    "description",
    "title",
    "scope",
    "scopes",
    "user",
    "username",
    "email",
    "host",
    "region",
    "signature",
    "model",
    "algorithm",
    "path",
    "file",
];

/// Classifies a member of an object with a secret name: `Some(true)` if it is the secret, `Some(false)` if it may
/// be, `None` if it is not.
pub(super) fn in_object(member: &[u8]) -> Option<bool> {
    let words = unnumbered(member);
    let last = words.last().map(String::as_str);
    let about = last.is_some_and(|last| ABOUT.contains(&last));
    let itself = ["value", "plaintext", "raw"].into_iter().any(|name| words == [name]);
    (!about).then_some(itself)
}

/// Returns true if an ambiguous name means a password where it certainly has a value: `Pwd=…;`, `DB_PASS=…`.
pub(super) fn is_password(name: &[u8]) -> bool {
    matches!(
        unnumbered(name).last().map(String::as_str),
        Some("pass" | "pwd" | "pw" | "passcode" | "psk" | "answer")
    )
}

fn glued(word: &str) -> Option<Family> {
    let (end, family) = GLUED.iter().find(|(end, _)| word.ends_with(end))?;
    (!NOT_A_TOKEN.contains(&&word[..word.len() - end.len()])).then_some(*family)
}

fn is_silent(word: &str) -> bool {
    SILENT.contains(&word) || word.bytes().all(|byte| byte.is_ascii_digit())
}

/// Splits a name into words and removes the number at its end: `password1`, `API_KEY_v2`.
fn unnumbered(name: &[u8]) -> Vec<String> {
    let mut words = words(name);
    if let Some(last) = words.last_mut().filter(|last| !is_silent(last)) {
        last.truncate(last.trim_end_matches(|letter: char| letter.is_ascii_digit()).len());
    }
    words
}

/// Splits a name into words in lower case. A word ends at any separator, before a capital after a small letter, and
/// before the last of several capitals (`APIKey`).
fn words(name: &[u8]) -> Vec<String> {
    let mut words = vec![String::new()];
    for (at, &byte) in name.iter().enumerate() {
        if !byte.is_ascii_alphanumeric() {
            words.push(String::new());
            continue;
        }
        let before = at.checked_sub(1).map_or(0, |at| name[at]);
        let behind = name.get(at + 1).copied().unwrap_or(0);
        let hump = byte.is_ascii_uppercase()
            && (before.is_ascii_lowercase() || (before.is_ascii_uppercase() && behind.is_ascii_lowercase()));
        if hump {
            words.push(String::new());
        }
        words.last_mut().expect("there is always one").push(byte.to_ascii_lowercase() as char);
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Returns true for the bytes of names.
pub(super) fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets() {
        let names = "
            Authorization Proxy-Authorization x-api-key anthropic-api-key openai-api-key api-key x-goog-api-key Cookie
            Set-Cookie apiKey APIKey api_key API_KEY ANTHROPIC_API_KEY OPENAI_API_KEY_2 apikey x-amz-security-token
            access_token accessToken refresh_token id_token idToken auth_token authToken _authToken session_token
            client_secret clientSecret CLIENT_SECRET secret secret_key SECRET_KEY_BASE aws_secret_access_key
            secretAccessKey private_key privateKey password Password DB_PASSWORD dbpassword passwd passphrase
            credential credentials GOOGLE_CREDENTIALS token GITHUB_TOKEN GH_TOKEN_PROD bearer bearer_token
            access_tokens api_keys X-Auth-Token csrf_token Ocp-Apim-Subscription-Key OPENAI_KEY AccountKey
            signing_secret webhookSecret password1 api_key2 apiKey2 GITHUB_TOKEN1 X-Api-Key1 MY_API_KEY1 access_token12 API_KEY_V2
            Set-Cookie2 DB_PASS3 SecretString secret_binary SSHPASS new_password password_confirmation apiKeyValue npm_config_authtoken
        ";
        for name in names.split_whitespace() {
            assert!(family(name.as_bytes()).is_some(), "{name}");
        }
    }

    #[test]
    fn names_of_other_things() {
        let names = "
            max_tokens input_tokens output_tokens maxTokens token_count tokenCount cache_key prompt_cache_key public_key
            publicKey key keys sort_key primary_key foreign_key signature token_type tokenType tokens tokenizer
            secret_name secretName secret_id token_id key_id access_key_id apiKeyId session_id sessionId api_key_file
            TOKEN_FILE password_path secret_path token_url authorization_url tokenEndpoint password_hash
            next_page_token nextPageToken pageToken continuation_token eos_token pad_token max_token per_token
            max_completion_tokens cache_creation_input_tokens reasoning_tokens idempotency-key Sec-WebSocket-Key
            x-ratelimit-limit-tokens anthropic-ratelimit-tokens-remaining cookie_policy author authority authored
            authors compass passed passage bypass keyboard monkey tokenize secretary credentialed api_version
            key1 cache_key2 max_tokens1 token_sha256 secret_md5 tokens2 oauth2 public_key1 password_hash1
            HTTP-Referer Referer user-agent Access-Control-Allow-Credentials PATH HOME cancellation_token authorization_endpoint
        ";
        for name in names.split_whitespace() {
            assert_eq!(family(name.as_bytes()), None, "{name}");
        }
    }
}
