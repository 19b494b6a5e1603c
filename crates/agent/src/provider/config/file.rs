//! The `[providers]` of an `offshoot.toml`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use session::model::Tier;
use toml::Spanned;
use wire::dialect::Dialect;

use super::super::endpoint::endpoint;
use super::{ConfigError, Entry, EnvLookup, key_header};

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    providers: BTreeMap<Spanned<String>, Table>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    dialect: Option<Spanned<Word>>,
    base_url: Option<Spanned<String>>,
    key_env: Option<Spanned<String>>,
    key_file: Option<Spanned<String>>,
    #[serde(default)]
    headers: BTreeMap<Spanned<String>, Spanned<String>>,
    #[serde(default)]
    models: Models,
    idle_timeout_s: Option<Spanned<u64>>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Word {
    Anthropic,
    OpenaiChat,
    OpenaiResponses,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Models {
    opus: Option<String>,
    sonnet: Option<String>,
    haiku: Option<String>,
}

pub(super) fn read(
    entries: &mut BTreeMap<String, Entry>,
    text: &str,
    file: &Path,
    env: &EnvLookup,
) -> Result<(), ConfigError> {
    let bad = |at: usize, why: String| {
        let line = text[..at.min(text.len())].matches('\n').count() + 1;
        ConfigError::File { file: file.to_owned(), line, why, hint: None }
    };
    let parsed: File = toml::from_str(text)
        .map_err(|error| bad(error.span().map_or(0, |span| span.start), error.message().trim().to_owned()))?;
    for (name, table) in parsed.providers {
        let at = name.span().start;
        let name = name.into_inner();
        if name.is_empty() || name.contains('/') || Tier::named(&name).is_some() {
            return Err(bad(at, format!("`{name}` cannot name a provider")));
        }
        let known = entries.get(&name).cloned();
        let folder = file.parent().unwrap_or(Path::new(""));
        let entry = table.merge_over(known, &name, at, folder, env).map_err(|(at, why)| bad(at, why))?;
        entries.insert(name, entry);
    }
    Ok(())
}

/// The position of a mistake in the text, and its message.
type Mistake = (usize, String);

impl Table {
    fn merge_over(
        self,
        known: Option<Entry>,
        name: &str,
        at: usize,
        folder: &Path,
        env: &EnvLookup,
    ) -> Result<Entry, Mistake> {
        let told = self.dialect.map(|word| match word.into_inner() {
            Word::Anthropic => Dialect::AnthropicMessages,
            Word::OpenaiChat => Dialect::OpenAiChat,
            Word::OpenaiResponses => Dialect::OpenAiResponses,
        });
        let dialect = told.or(known.as_ref().map(|known| known.dialect)).ok_or_else(|| {
            (
                at,
                format!(
                    "provider `{name}` needs a `dialect`: `anthropic`, `openai-chat` or `openai-responses`"
                ),
            )
        })?;
        let base = match (&self.base_url, &known) {
            (Some(base), _) => {
                endpoint(base.get_ref(), dialect).map_err(|error| (base.span().start, error.to_string()))?;
                base.get_ref().clone()
            }
            (None, Some(known)) => known.base_url.clone(),
            (None, None) => return Err((at, format!("provider `{name}` needs a `base_url`"))),
        };
        let mut entry = known.unwrap_or(Entry {
            dialect,
            base_url: String::new(),
            key_env: Vec::new(),
            key_file: None,
            base_env: None,
            headers: HeaderMap::new(),
            models: BTreeMap::new(),
            idle: None,
        });
        (entry.dialect, entry.base_url) = (dialect, base);
        match (self.key_env, self.key_file) {
            (Some(_), Some(file)) => {
                return Err((
                    file.span().start,
                    "`key_file` beside `key_env`: only one can be meant".to_owned(),
                ));
            }
            (Some(variable), None) => {
                let variable = named(variable, "key_env")?;
                entry.key_env = vec![(variable, key_header(dialect))];
                entry.key_file = None;
            }
            (None, Some(path)) => {
                let path = named(path, "key_file")?;
                entry.key_file = Some(place(&path, folder, env));
            }
            (None, None) => {}
        }
        if let Some(seconds) = self.idle_timeout_s {
            if !(1..=86_400).contains(seconds.get_ref()) {
                return Err((seconds.span().start, "`idle_timeout_s` is from 1 to 86400 seconds".to_owned()));
            }
            entry.idle = Some(Duration::from_secs(*seconds.get_ref()));
        }
        for (name, value) in self.headers {
            let (at, name) = (name.span().start, name.into_inner());
            let header =
                HeaderName::try_from(&name).map_err(|_| (at, format!("`{name}` cannot name a header")))?;
            // The value is not quoted, because it may be a key.
            let mut value = HeaderValue::try_from(value.get_ref())
                .map_err(|_| (value.span().start, format!("no header can carry the value of `{name}`")))?;
            value.set_sensitive(true);
            entry.headers.insert(header, value);
        }
        let Models { opus, sonnet, haiku } = self.models;
        for (tier, model) in [(Tier::Opus, opus), (Tier::Sonnet, sonnet), (Tier::Haiku, haiku)] {
            entry.models.extend(model.map(|model| (tier, model)));
        }
        Ok(entry)
    }
}

fn named(value: Spanned<String>, what: &str) -> Result<String, Mistake> {
    let at = value.span().start;
    Some(value.into_inner())
        .filter(|value| !value.trim().is_empty())
        .ok_or((at, format!("`{what}` is empty")))
}

/// Resolves a path below HOME, or beside the file that names it.
fn place(path: &str, folder: &Path, env: &EnvLookup) -> PathBuf {
    match (path.strip_prefix("~/"), env("HOME")) {
        (Some(below), Some(home)) => Path::new(&home).join(below),
        _ => folder.join(path),
    }
}
