//! Connects a run to its provider or script, and records the traffic if requested.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use agent::provider::{ApiKey, ConfigError, ProviderClient, ProviderConfig, Secret, endpoint};
use agent::{ModelClient, RunDefaults};
use proxy::{CachedRequest, PriorConversation, ScriptedModel, Upstream, Upstreams};
use recording::Manifest;
use session::RunId;
use session::model::Tier;
use store::{Attempt, Filter, ModelCall, ModelCallStatus, Purpose, RunKind, Store};
use wire::dialect::Dialect;

use super::Args;
use crate::commands::proxy::{scripted_model, warn_unanswered};
use crate::failure::{ExitKind, OrFail, classify};
use crate::record::{ActiveRecording, NO_KEY, RecordingPlan};
use crate::settings::{bad_config, read_settings};
use crate::signals::Signals;

/// Model without `--model`.
const DEFAULT_MODEL: &str = "sonnet";

/// Maximum wait for requests in flight. A run that has ended has none.
const DRAIN: Duration = Duration::from_secs(2);

/// Connection of a run to its provider.
pub(super) struct ProviderConnection {
    /// Name of the provider.
    pub(super) name: String,
    /// Id of the model.
    pub(super) model_id: String,
    /// Other defaults from the settings.
    pub(super) defaults: RunDefaults,
    /// Model of each tier that the provider has.
    pub(super) tiers: BTreeMap<String, String>,
    client: ProviderClient,
    scripted: Option<ScriptedModel>,
    recording: Option<ActiveRecording>,
}

impl ProviderConnection {
    /// Finds the provider, and starts the script and the recording. A resumed run keeps its model. `agent_model` is the
    /// model of the agent, `cached` the content of a simulated prompt cache.
    pub(super) async fn prepare(
        args: &Args,
        folder: &Path,
        row: Option<&store::Run>,
        agent_model: Option<String>,
        cached: Option<Vec<CachedRequest>>,
    ) -> anyhow::Result<Self> {
        let scripted = scripted_model(args.script.path.as_deref(), folder, cached).await?;
        let variable: fn(&str) -> Option<String> = match scripted {
            Some(_) => scripted_variable,
            None => |name| std::env::var(name).ok(),
        };
        let mut config = ProviderConfig::new(Arc::new(variable));
        let defaults = read_settings(&mut config, folder)?;
        let (mut client, model_id) = match row {
            Some(row) => (client_of_run(row, args, &config)?, row.model.clone()),
            None => {
                let model = args.model.clone().or(agent_model).or_else(|| defaults.model.clone());
                config.choose(model.as_deref().unwrap_or(DEFAULT_MODEL)).map_err(bad_config)?
            }
        };
        let tiers = Tier::ALL.into_iter().filter_map(|tier| {
            let (_, id) = config.choose(&format!("{}/{tier}", client.name)).ok()?;
            Some((tier.to_string(), id))
        });
        let tiers = tiers.collect();
        match &scripted {
            Some(model) => {
                redirect(&mut client, model.addr(), None)?;
                client.key = scripted_key(client.key);
                client.name = format!("{SCRIPT}{}", client.name);
            }
            None => {
                redirect_to_proxy(&mut client)?;
                if let Some(kind) = substitute() {
                    client.name = format!("{kind}{}", client.name);
                }
            }
        }
        client.check_key().await.map_err(|failure| {
            let hint = failure.hint.clone();
            classify(ExitKind::Usage, hint, failure.into())
        })?;
        let recording = match &args.output.record {
            Some(out) => Some(record(args, out, &mut client, &model_id).await?),
            None => None,
        };
        let name = client.name.clone();
        Ok(Self { name, model_id, defaults, tiers, client, scripted, recording })
    }

    /// Gives a script the earlier requests of a tree, so that it continues after them.
    pub(super) fn restore(&self, store: &Store, root: &RunId) -> Result<(), agent::RunError> {
        let Some(model) = &self.scripted else { return Ok(()) };
        let mut runs = store.runs(&Filter { below: Some(root.clone()), ..Filter::default() })?;
        runs.reverse(); // oldest first
        for run in runs {
            let reads = store.run(&run.id);
            let (row, messages) = (reads.row()?, reads.messages()?);
            // A side question was answered by another script.
            if row.kind == RunKind::Fork && row.spawned_by.is_none() {
                continue;
            }
            let is_turn =
                |call: &&ModelCall| call.status == ModelCallStatus::Answered && call.purpose == Purpose::Turn;
            let calls = reads.model_calls()?;
            let last = calls.iter().rposition(|call| is_turn(&call));
            let mut failures = 0;
            for call in &calls[last.map_or(0, |last| last + 1)..] {
                let attempts = reads.attempts(call.id)?;
                let is_error = |attempt: &&Attempt| attempt.status.is_some_and(|status| status >= 400);
                failures += u32::try_from(attempts.iter().filter(is_error).count()).unwrap_or(u32::MAX);
            }
            let Some(call) = last.or(calls.len().checked_sub(1)).map(|at| &calls[at]) else { continue };
            let request = agent::rebuild_request(store, &run.id, call)?;
            let mut prior = PriorConversation { last_request: &request, answered: None, failures };
            let answered;
            if last.is_some() {
                let reply = messages.iter().find(|message| message.model_call == Some(call.id));
                // A reply that a summary has replaced is not part of the next request.
                let Some(reply) = reply.filter(|reply| reply.seq >= row.context_from) else { continue };
                let Some(open) = request.strip_suffix(b"]}") else { continue };
                answered = [open, b",", &reply.bytes, b"]}"].concat();
                prior.answered = Some((&answered, call.reply.as_deref().unwrap_or_default()));
            }
            model.restore(self.client.dialect, &prior);
        }
        Ok(())
    }

    /// Returns the client for requests.
    pub(super) fn model(&self) -> Arc<dyn ModelClient> {
        Arc::new(self.client.clone())
    }

    /// Closes the connection before the run began.
    pub(super) async fn discard(self) {
        if let Some(recording) = self.recording {
            recording.discard().await;
        }
    }

    /// Closes the connection after the run: prints requests without a scripted reply, and seals the recording.
    pub(super) async fn finish(
        self,
        result: anyhow::Result<ExitCode>,
        signals: &mut Signals,
    ) -> anyhow::Result<ExitCode> {
        if let Some(model) = &self.scripted {
            warn_unanswered(&model.report());
        }
        let Some(recording) = self.recording else { return result };
        // The error of the run comes before messages of the recording.
        let code = match result {
            Ok(code) => code,
            Err(error) => crate::failure::print(&error),
        };
        let sealed = recording.finish(None, signals, || None).await?;
        Ok(if code == ExitCode::SUCCESS { sealed } else { code })
    }
}

/// Prefixes of the name of a provider that a script or a recording replaces.
const SCRIPT: &str = "script:";
const REPLAY: &str = "replay:";

/// Returns the prefix of the substitute for the provider, below `offshoot proxy --script` or `replay`.
fn substitute() -> Option<&'static str> {
    match std::env::var("OFFSHOOT_STAND_IN").ok()?.as_str() {
        "script" => Some(SCRIPT),
        "replay" => Some(REPLAY),
        _ => None,
    }
}

/// Returns the provider of a resumed run. It is the earlier one, or another one with the same model if `--model` names it,
/// so that no provider gets a conversation without the user's request.
fn client_of_run(row: &store::Run, args: &Args, config: &ProviderConfig) -> anyhow::Result<ProviderClient> {
    let (earlier, model) = (provider_of_run(row, args)?, &row.model);
    let Some(wanted) = &args.model else {
        return config.named(&earlier).map_err(|error| match error {
            ConfigError::UnknownProvider { .. } => {
                let run = &row.id;
                // Only the provider of the parent has its prompt cache.
                let hint = match args.fork_of {
                    Some(_) => format!("add `[providers.{earlier}]` to `offshoot.toml`"),
                    None => format!("offshoot run --resume {run} --model PROVIDER/{model}"),
                };
                classify(ExitKind::Usage, Some(hint), error.into())
            }
            error => bad_config(error),
        });
    };
    match config.choose(wanted) {
        Ok((chosen, id)) if id == *model && (chosen.name == earlier || is_named(&chosen, wanted)) => {
            Ok(chosen)
        }
        _ => {
            let error = anyhow::anyhow!("cannot change the model of a run: {earlier}/{model}");
            Err(error).or_fail_with(ExitKind::Usage, || "omit `--model`, or start a new run".into())
        }
    }
}

fn is_named(provider: &ProviderClient, wanted: &str) -> bool {
    wanted.split_once('/').is_some_and(|(name, _)| name == provider.name)
}

fn resume_flag(args: &Args) -> &'static str {
    if args.fork_of.is_some() { "--fork-of" } else { "--resume" }
}

/// Returns the provider that a run began with. Refuses to change between a provider and a substitute.
fn provider_of_run(row: &store::Run, args: &Args) -> anyhow::Result<String> {
    let flag = resume_flag(args);
    let is_paid = args.script.path.is_none() && substitute().is_none();
    let scripted = row.provider.strip_prefix(SCRIPT);
    match scripted.or_else(|| row.provider.strip_prefix(REPLAY)) {
        Some(_) if is_paid => {
            let (who, hint) = match scripted {
                Some(_) => ("a script", format!("offshoot run {flag} {} --script FILE", row.id)),
                None => (
                    "a recording",
                    format!("offshoot replay RECORDING -- offshoot run {flag} {} '…'", row.id),
                ),
            };
            let error = anyhow::anyhow!("run `{}` was answered by {who}", row.id);
            Err(classify(ExitKind::Usage, Some(hint), error))
        }
        Some(provider) => Ok(provider.to_owned()),
        // The sums of the run would mix paid and unpaid calls.
        None if args.script.path.is_some() => {
            let error = anyhow::anyhow!("run `{}` was answered by a provider", row.id);
            let hint = "omit `--script`, or start a new run with it".to_owned();
            Err(classify(ExitKind::Usage, Some(hint), error))
        }
        None => Ok(row.provider.clone()),
    }
}

/// Sends requests to `offshoot proxy` or `replay` if the run was started by one, for every provider of the dialect.
fn redirect_to_proxy(client: &mut ProviderClient) -> anyhow::Result<()> {
    if std::env::var_os("OFFSHOOT_PROXY_URL").is_none() {
        return Ok(());
    }
    let variable = match client.dialect {
        Dialect::AnthropicMessages => "ANTHROPIC_BASE_URL",
        Dialect::OpenAiChat | Dialect::OpenAiResponses => "OPENAI_BASE_URL",
    };
    if let Ok(base) = std::env::var(variable) {
        client.endpoint = endpoint(&base, client.dialect).or_fail(ExitKind::Usage)?;
    }
    Ok(())
}

/// Replaces environment variables for a scripted run, which needs no key and no address.
fn scripted_variable(name: &str) -> Option<String> {
    match name {
        "HOME" => std::env::var(name).ok(),
        "ANTHROPIC_BASE_URL" | "OPENAI_BASE_URL" | "ANTHROPIC_AUTH_TOKEN" => None,
        _ => Some(NO_KEY.to_owned()),
    }
}

/// Returns the key for a script. The request has the same headers as with a provider or a replay.
fn scripted_key(key: ApiKey) -> ApiKey {
    match key {
        ApiKey::File(file) => ApiKey::Known { secret: Secret::new(NO_KEY), from: file.display().to_string() },
        known => known,
    }
}

/// Sends requests to another address. A given path is kept.
fn redirect(client: &mut ProviderClient, addr: SocketAddr, path: Option<&str>) -> anyhow::Result<()> {
    let base = format!("http://{addr}");
    client.endpoint = match path {
        Some(path) => format!("{base}{path}").parse().or_fail(ExitKind::Bug)?,
        None => endpoint(&base, client.dialect).or_fail(ExitKind::Bug)?,
    };
    Ok(())
}

/// Starts a recording proxy in front of the provider.
async fn record(
    args: &Args,
    out: &Path,
    client: &mut ProviderClient,
    model_id: &str,
) -> anyhow::Result<ActiveRecording> {
    let address = &client.endpoint;
    let upstream = format!(
        "{}://{}",
        address.scheme_str().unwrap_or("https"),
        address.authority().map_or("", |a| a.as_str())
    );
    let path = address.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let upstream = Upstream::parse(&upstream).or_fail(ExitKind::Bug)?;
    let plan = RecordingPlan {
        out: out.to_owned(),
        flag: "--record",
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        allow_remote: false,
        drain: DRAIN,
        command: Vec::new(),
        env: Vec::new(),
        upstreams: Upstreams::new(vec![upstream]).or_fail(ExitKind::Bug)?,
        manifest: Manifest {
            script: args.script.path.as_ref().map(|script| script.display().to_string()),
            harness: Some(recording::HarnessInfo {
                name: "offshoot".to_owned(),
                version: Some(env!("CARGO_PKG_VERSION").to_owned()),
                model: model_id.to_owned(),
                live: args.script.path.is_none(),
                ..recording::HarnessInfo::default()
            }),
            ..Manifest::default()
        },
    };
    let recording = plan.start().await?;
    redirect(client, recording.addr(), Some(&path))?;
    Ok(recording)
}
