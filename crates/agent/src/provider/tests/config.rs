//! Settings, and who is asked for what.

use std::path::Path;

use expect_test::{Expect, expect};

use super::*;

fn config(env: &[(&str, &str)], text: &str) -> Result<ProviderConfig, ConfigError> {
    let env: Vec<(String, String)> = env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let lookup =
        move |name: &str| env.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    let mut config = ProviderConfig::new(Arc::new(lookup));
    config.read(text, Path::new("/etc/offshoot.toml"))?;
    Ok(config)
}

/// For each model: who is asked where for what, with which key.
fn chosen(env: &[(&str, &str)], text: &str, models: &str, expected: Expect) {
    let config = config(env, text).expect("sound settings");
    assert!(!format!("{config:?}").contains("canary"));
    let mut out = String::new();
    for model in models.split_whitespace() {
        out += &match config.choose(model) {
            Ok((provider, id)) => {
                assert!(!format!("{provider:?}").contains("canary"));
                let key = match &provider.key {
                    ApiKey::None => "no key".to_owned(),
                    ApiKey::Known { from, .. } => format!("{from} as {:?}", provider.key_header),
                    ApiKey::File(path) => format!("{} as {:?}", path.display(), provider.key_header),
                };
                format!("{model}: {id} of {} at {}, {key}\n", provider.name, provider.endpoint)
            }
            Err(error) => {
                let hint = error.hint().map(|hint| format!("\n  hint: {hint}")).unwrap_or_default();
                format!("{model}: {error}{hint}\n")
            }
        };
    }
    expected.assert_eq(&out);
}

const KEYS: &[(&str, &str)] = &[("ANTHROPIC_API_KEY", "sk-canary-a"), ("OPENAI_API_KEY", "sk-canary-o")];

#[test]
fn the_built_in_providers_need_only_a_key() {
    chosen(
        KEYS,
        "",
        "opus sonnet haiku claude-opus-5 gpt-5.6-terra openai/opus anthropic/new-model mystery-1",
        expect![[r#"
            opus: claude-opus-5-5 of anthropic at https://api.anthropic.com/v1/messages, ANTHROPIC_API_KEY as ApiKey
            sonnet: claude-sonnet-5-5 of anthropic at https://api.anthropic.com/v1/messages, ANTHROPIC_API_KEY as ApiKey
            haiku: claude-haiku-5-5 of anthropic at https://api.anthropic.com/v1/messages, ANTHROPIC_API_KEY as ApiKey
            claude-opus-5: claude-opus-5 of anthropic at https://api.anthropic.com/v1/messages, ANTHROPIC_API_KEY as ApiKey
            gpt-5.6-terra: gpt-5.6-terra of openai at https://api.openai.com/v1/responses, OPENAI_API_KEY as Bearer
            openai/opus: gpt-5.6-sol of openai at https://api.openai.com/v1/responses, OPENAI_API_KEY as Bearer
            anthropic/new-model: new-model of anthropic at https://api.anthropic.com/v1/messages, ANTHROPIC_API_KEY as ApiKey
            mystery-1: no provider is known for the model `mystery-1`
              hint: say whose it is, as in `anthropic/mystery-1`; known are anthropic, openai
        "#]],
    );
}

#[test]
fn the_environment_is_honoured_where_everybody_expects_it() {
    chosen(
        &[
            ("ANTHROPIC_AUTH_TOKEN", "canary-t"),
            ("ANTHROPIC_API_KEY", "sk-canary-a"),
            ("ANTHROPIC_BASE_URL", "http://127.0.0.1:8080/"),
            ("OPENAI_BASE_URL", "http://localhost:1234/v1"),
            ("OPENAI_API_KEY", "  "),
        ],
        "[providers.anthropic]\nbase_url = \"https://from-the-file.example\"",
        "opus mystery-1 gpt-5.5",
        expect![[r#"
            opus: claude-opus-5-5 of anthropic at http://127.0.0.1:8080/v1/messages, ANTHROPIC_AUTH_TOKEN as Bearer
            mystery-1: mystery-1 of anthropic at http://127.0.0.1:8080/v1/messages, ANTHROPIC_AUTH_TOKEN as Bearer
            gpt-5.5: no key for provider `openai`
              hint: set `OPENAI_API_KEY`, or use a script in the model's place: `offshoot run --script FILE …`
        "#]],
    );
}

#[test]
fn a_missing_key_names_the_variable() {
    chosen(
        &[],
        "",
        "opus gpt-4.1 mystery-1",
        expect![[r#"
            opus: no key for provider `anthropic` or `openai`
              hint: set `ANTHROPIC_API_KEY` or `ANTHROPIC_AUTH_TOKEN` or `OPENAI_API_KEY`, or use a script in the model's place: `offshoot run --script FILE …`
            gpt-4.1: no key for provider `openai`
              hint: set `OPENAI_API_KEY`, or use a script in the model's place: `offshoot run --script FILE …`
            mystery-1: no provider is known for the model `mystery-1`
              hint: say whose it is, as in `anthropic/mystery-1`; known are anthropic, openai
        "#]],
    );
}

#[test]
fn configured_providers_extend_or_replace_the_built_in_ones() {
    chosen(
        &[("OPENAI_API_KEY", "sk-canary-o"), ("ROUTER_KEY", "sk-canary-r"), ("HOME", "/home/me")],
        r#"
            [providers.router]
            dialect = "openai-chat"
            base_url = "https://router.example/api/v1"
            key_env = "ROUTER_KEY"
            headers = { x-title = "canary" }
            models = { opus = "vendor/large", haiku = "small-1" }

            [providers.local]
            dialect = "openai-responses"
            base_url = "http://localhost:11434"

            [providers.anthropic]
            key_file = "~/.keys/anthropic"
            models = { sonnet = "claude-sonnet-4-6" }

            [providers.openai]
            dialect = "openai-chat"
            key_file = "openai.key"

            [somebody-elses]
            table = true
        "#,
        "opus sonnet router/opus router/sonnet small-1 vendor/large local/llama-4 gpt-5.5 mystery-1 nobody/x router/",
        expect![[r#"
            opus: claude-opus-5-5 of anthropic at https://api.anthropic.com/v1/messages, /home/me/.keys/anthropic as ApiKey
            sonnet: claude-sonnet-4-6 of anthropic at https://api.anthropic.com/v1/messages, /home/me/.keys/anthropic as ApiKey
            router/opus: vendor/large of router at https://router.example/api/v1/chat/completions, ROUTER_KEY as Bearer
            router/sonnet: provider `router` has no model for the tier `sonnet`
              hint: add `models = { sonnet = "…" }` to `[providers.router]`
            small-1: small-1 of router at https://router.example/api/v1/chat/completions, ROUTER_KEY as Bearer
            vendor/large: vendor/large of router at https://router.example/api/v1/chat/completions, ROUTER_KEY as Bearer
            local/llama-4: llama-4 of local at http://localhost:11434/v1/responses, no key
            gpt-5.5: gpt-5.5 of openai at https://api.openai.com/v1/chat/completions, /etc/openai.key as Bearer
            mystery-1: no provider is known for the model `mystery-1`
              hint: say whose it is, as in `anthropic/mystery-1`; known are anthropic, openai, local, router
            nobody/x: no provider `nobody`
              hint: known are anthropic, openai, local, router; `[providers.nobody]` in `offshoot.toml` adds one
            router/: no provider is known for the model `router/`
              hint: say whose it is, as in `anthropic/router/`; known are anthropic, openai, local, router
        "#]],
    );
}

#[test]
fn a_tier_selects_a_provider_with_a_key() {
    chosen(
        &[],
        "[providers.local]\ndialect = \"openai-chat\"\nbase_url = \"http://localhost:1/v1\"\nmodels.opus = \"large\"",
        "opus anything haiku",
        expect![[r#"
            opus: large of local at http://localhost:1/v1/chat/completions, no key
            anything: anything of local at http://localhost:1/v1/chat/completions, no key
            haiku: no key for provider `anthropic` or `openai` or `local`
              hint: set `ANTHROPIC_API_KEY` or `ANTHROPIC_AUTH_TOKEN` or `OPENAI_API_KEY`, or use a script in the model's place: `offshoot run --script FILE …`
        "#]],
    );
}

#[test]
fn a_later_file_adds_settings() {
    let mut config =
        config(&[], "[providers.x]\ndialect = \"anthropic\"\nbase_url = \"http://a\"\nkey_file = \"k\"")
            .expect("sound settings");
    config
        .read("[providers.x]\nbase_url = \"http://b\"", Path::new("offshoot.toml"))
        .expect("sound settings");
    let (provider, _) = config.choose("x/model").expect("known");
    assert_eq!(provider.endpoint.to_string(), "http://b/v1/messages");
    assert_eq!((provider.key, provider.dialect), (ApiKey::File("/etc/k".into()), Dialect::AnthropicMessages));
}

#[test]
fn mistakes_are_reported_with_their_line() {
    let cases: &[&str] = &[
        "[providers.x]\nbase_url = \"http://a\"",
        "[providers.x]\ndialect = \"anthropic\"",
        "[providers.x]\ndialect = \"anthropic\"\n\nbase_url = \"a.example\"",
        "[providers.x]\ndialect = \"gemini\"",
        "[providers.openai]\nbase_ulr = \"http://a\"",
        "[providers.openai]\nkey = \"sk-canary\"",
        "[providers.openai]\nkey_env = \"A\"\nkey_file = \"b\"",
        "[providers.openai]\nkey_env = \"\"",
        "[providers.openai]\nkey_env = 7",
        "[providers.openai]\nmodels = { large = \"x\" }",
        "[providers.openai.headers]\n\"a b\" = \"c\"",
        "[providers.openai.headers]\na = \"\"\"canary\nb\"\"\"",
        "[providers.openai]\nbase_url = \"https://me:canary@a.example\"",
        "[providers.opus]\ndialect = \"anthropic\"\nbase_url = \"http://a\"",
        "[providers.\"a/b\"]\ndialect = \"anthropic\"\nbase_url = \"http://a\"",
        "providers = 7",
        "[providers",
    ];
    let mut out = String::new();
    for text in cases {
        let error = config(&[], text).expect_err(text);
        out += &format!("{}\n", error.to_string().replace('\n', " | "));
    }
    assert!(!out.contains("canary"), "{out}");
    expect![[r#"
        `/etc/offshoot.toml`, line 1: provider `x` needs a `dialect`: `anthropic`, `openai-chat` or `openai-responses`
        `/etc/offshoot.toml`, line 1: provider `x` needs a `base_url`
        `/etc/offshoot.toml`, line 4: `a.example` is not an `http` or `https` URL with a host
        `/etc/offshoot.toml`, line 2: unknown variant `gemini`, expected one of `anthropic`, `openai-chat`, `openai-responses`
        `/etc/offshoot.toml`, line 2: unknown field `base_ulr`, expected one of `dialect`, `base_url`, `key_env`, `key_file`, `headers`, `models`, `idle_timeout_s`
        `/etc/offshoot.toml`, line 2: unknown field `key`, expected one of `dialect`, `base_url`, `key_env`, `key_file`, `headers`, `models`, `idle_timeout_s`
        `/etc/offshoot.toml`, line 3: `key_file` beside `key_env`: only one can be meant
        `/etc/offshoot.toml`, line 2: `key_env` is empty
        `/etc/offshoot.toml`, line 2: invalid type: integer `7`, expected a string
        `/etc/offshoot.toml`, line 2: unknown field `large`, expected one of `opus`, `sonnet`, `haiku`
        `/etc/offshoot.toml`, line 2: `a b` cannot name a header
        `/etc/offshoot.toml`, line 2: no header can carry the value of `a`
        `/etc/offshoot.toml`, line 2: the URL of `a.example` holds a user name or password; a key belongs into `key_env` or `key_file`
        `/etc/offshoot.toml`, line 1: `opus` cannot name a provider
        `/etc/offshoot.toml`, line 1: `a/b` cannot name a provider
        `/etc/offshoot.toml`, line 1: invalid type: integer `7`, expected a map
        `/etc/offshoot.toml`, line 1: unclosed table, expected `]`
    "#]].assert_eq(&out);
}
