//! The model that answers a harness: a script or a recording on loopback, or the real provider.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use proxy::replay::{ReplayReport, ReplayServer};
use proxy::{ScriptedModel, Upstream, Upstreams};

use super::request::ModelSource;
use crate::adapter::{Endpoints, Provider};
use crate::error::HarnessError;

/// A key for the scripted model, which ignores it.
const NO_KEY: &str = "scripted-model-needs-no-key";

/// The running model.
pub(super) struct ModelServer {
    pub(super) upstreams: Upstreams,
    keys: BTreeMap<Provider, String>,
    /// The path of each provider, and whether its address includes an API version.
    paths: BTreeMap<Provider, Path>,
    script: Option<ScriptedModel>,
    replay: Option<ReplayServer>,
}

#[derive(Clone, Debug)]
struct Path {
    prefix: String,
    versioned: bool,
}

impl ModelServer {
    /// Starts the script, in which `${workspace}` is the path `workspace`, or locates the provider.
    pub(super) async fn start(
        model_source: &ModelSource,
        providers: &[Provider],
        workspace: &std::path::Path,
    ) -> Result<Self, HarnessError> {
        match model_source {
            ModelSource::Script { script, .. } => {
                let model = ScriptedModel::start(script.clone(), workspace)
                    .await
                    .map_err(HarnessError::io("listen on", "loopback"))?;
                let model_addr = model.addr();
                Ok(Self { script: Some(model), ..Self::on_loopback(model_addr, providers)? })
            }
            ModelSource::Replay(replaying) => {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
                let replay = listener
                    .and_then(|listener| {
                        ReplayServer::start(replaying.traffic.clone(), &replaying.settings, listener)
                    })
                    .map_err(HarnessError::io("listen on", "loopback"))?;
                let addr = replay.addr();
                Ok(Self { replay: Some(replay), ..Self::on_loopback(addr, providers)? })
            }
            ModelSource::Live(env) => Self::live(env, providers),
        }
    }

    /// A server on loopback that answers for every provider.
    pub(super) fn on_loopback(addr: SocketAddr, providers: &[Provider]) -> Result<Self, HarnessError> {
        let upstream = parse(&format!("http://{addr}"))?;
        let path = Path { prefix: String::new(), versioned: false };
        Ok(Self {
            upstreams: Upstreams::new(vec![upstream]).map_err(HarnessError::Upstream)?,
            keys: providers.iter().map(|provider| (*provider, NO_KEY.to_owned())).collect(),
            paths: providers.iter().map(|provider| (*provider, path.clone())).collect(),
            script: None,
            replay: None,
        })
    }

    /// Sets the process that a replay observes.
    pub(super) fn watch_process(&self, pid: u32) {
        if let Some(replay) = &self.replay {
            replay.watch_process(pid);
        }
    }

    /// The report of a replay.
    pub(super) fn replayed(&self) -> Option<ReplayReport> {
        self.replay.as_ref().map(ReplayServer::report)
    }

    /// One upstream for each provider, with a path prefix if there are several.
    fn live(env: &BTreeMap<String, String>, providers: &[Provider]) -> Result<Self, HarnessError> {
        let keys = keys(env, providers)?;
        let set = |name: &str| env.get(name).filter(|value| !value.is_empty()).cloned();
        let alone = providers.len() == 1;
        let (mut upstreams, mut paths) = (Vec::new(), BTreeMap::new());
        for provider in providers {
            let url = set(provider.url_variable()).unwrap_or_else(|| provider.url().to_owned());
            let spec = if alone { url } else { format!("{}={url}", provider.name()) };
            let upstream = parse(&spec)?;
            let path = Path { prefix: upstream.prefix.clone(), versioned: upstream.is_versioned() };
            paths.insert(*provider, path);
            upstreams.push(upstream);
        }
        let upstreams = Upstreams::new(upstreams).map_err(HarnessError::Upstream)?;
        Ok(Self { upstreams, keys, paths, script: None, replay: None })
    }

    /// Describes requests that the script could not answer.
    pub(super) fn unanswered(&self) -> Option<String> {
        let report = self.script.as_ref()?.report();
        let first = report.first_unanswered?;
        let requests = if report.unanswered == 1 { "request" } else { "requests" };
        Some(format!("the script has no answer to {} {requests}; the first: {first}", report.unanswered))
    }

    /// The addresses that the harness uses, with the proxy at `addr`.
    pub(super) fn endpoints(&self, addr: SocketAddr) -> Endpoints {
        let base = |provider| {
            let path = self.paths.get(&provider);
            let prefix = path.map_or("", |path| path.prefix.as_str());
            // OpenAI clients expect a version in the base URL; Anthropic clients append it.
            let versioned = path.is_some_and(|path| path.versioned);
            let version = if provider == Provider::OpenAi && !versioned { "/v1" } else { "" };
            format!("http://{addr}{prefix}{version}")
        };
        let key = |provider| self.keys.get(&provider).cloned().unwrap_or_else(|| NO_KEY.to_owned());
        Endpoints {
            anthropic: base(Provider::Anthropic),
            openai: base(Provider::OpenAi),
            anthropic_key: key(Provider::Anthropic),
            openai_key: key(Provider::OpenAi),
        }
    }
}

impl ModelSource {
    /// Fails if a real provider needs a key and there is none.
    pub(super) fn check_key(&self, providers: &[Provider]) -> Result<(), HarnessError> {
        match self {
            Self::Live(env) => keys(env, providers).map(drop),
            Self::Script { .. } | Self::Replay(_) => Ok(()),
        }
    }
}

/// Returns the keys that are set. At least one provider needs a key.
fn keys(
    env: &BTreeMap<String, String>,
    providers: &[Provider],
) -> Result<BTreeMap<Provider, String>, HarnessError> {
    let set = |name: &str| env.get(name).filter(|value| !value.is_empty()).cloned();
    let keys: BTreeMap<Provider, String> =
        providers.iter().filter_map(|provider| Some((*provider, set(provider.key_variable())?))).collect();
    if keys.is_empty() {
        let names: Vec<&str> = providers.iter().map(|provider| provider.key_variable()).collect();
        return Err(HarnessError::usage(
            format!("a real provider needs a key, but {} is not set", names.join(" or ")),
            format!("export {}=…", names.first().unwrap_or(&"ANTHROPIC_API_KEY")),
        ));
    }
    Ok(keys)
}

fn parse(spec: &str) -> Result<Upstream, HarnessError> {
    Upstream::parse(spec).map_err(HarnessError::Upstream)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoints(env: &[(&str, &str)], providers: &[Provider]) -> Result<Endpoints, HarnessError> {
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        ModelServer::live(&env, providers)
            .map(|answering| answering.endpoints("127.0.0.1:9".parse().expect("an address")))
    }

    #[test]
    fn a_lone_provider_needs_no_prefix_and_several_do() {
        let alone = endpoints(&[("ANTHROPIC_API_KEY", "k")], &[Provider::Anthropic]).expect("one");
        assert_eq!((alone.anthropic.as_str(), alone.anthropic_key.as_str()), ("http://127.0.0.1:9", "k"));
        let both = [Provider::Anthropic, Provider::OpenAi];
        let two = endpoints(&[("OPENAI_API_KEY", "k")], &both).expect("two");
        assert_eq!(two.anthropic, "http://127.0.0.1:9/anthropic");
        assert_eq!(two.openai, "http://127.0.0.1:9/openai", "its address has the version already");
        let own = [("OPENAI_API_KEY", "k"), ("OPENAI_BASE_URL", "http://127.0.0.1:1")];
        assert_eq!(endpoints(&own, &both).expect("two").openai, "http://127.0.0.1:9/openai/v1");
        let error = endpoints(&[], &both).expect_err("no key").to_string();
        assert!(error.contains("ANTHROPIC_API_KEY or OPENAI_API_KEY"), "{error}");
    }
}
