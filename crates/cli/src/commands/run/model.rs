//! Who answers a run: a provider, or a script in its place; and whether what they say is recorded.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use agent::provider::{ApiKey, ConfigError, ProviderClient, ProviderConfig, endpoint};
use agent::{ModelClient, RunDefaults};
use proxy::{CachedRequest, PriorConversation, ScriptedModel, Upstream, Upstreams};
use recording::Manifest;
use session::RunId;
use session::model::Tier;
use store::{Attempt, Filter, ModelCall, ModelCallStatus, Purpose, RunKind, Store};
use wire::dialect::Dialect;

use super::Arguments;
use crate::commands::proxy::{scripted_model, tell_unanswered};
use crate::failure::{Kind, OrFail, marked};
use crate::record::{Begun, Session};
use crate::settings::{bad_config, read_settings};
use crate::signals::Signals;

/// What is asked for without `--model`.
const USUAL: &str = "sonnet";

/// How long requests in flight may take when a run has ended; it has none then.
const DRAIN: Duration = Duration::from_secs(2);

/// Who answers.
pub(super) struct Answering {
    /// The provider's name.
    pub(super) provider: String,
    /// The model's id.
    pub(super) id: String,
    /// What the settings say besides.
    pub(super) defaults: RunDefaults,
    tiers: BTreeMap<String, String>,
    asked: ProviderClient,
    scripted: Option<ScriptedModel>,
    recording: Option<Begun>,
}

impl Answering {
    /// Finds the provider, starts the script and the recording where there shall be one. A resumed run goes on with
    /// the model it had; `usual` is what the agent is for, `seen` what a simulated cache knows.
    pub(super) async fn prepare(
        arguments: &Arguments,
        row: Option<&store::Run>,
        usual: Option<String>,
        seen: Option<Vec<CachedRequest>>,
    ) -> anyhow::Result<Self> {
        let here = super::workspace_path(row)?;
        let scripted = scripted_model(arguments.script.as_deref(), &here, seen).await?;
        let look: fn(&str) -> Option<String> = match scripted {
            Some(_) => pretended,
            None => |name| std::env::var(name).ok(),
        };
        let mut config = ProviderConfig::new(Arc::new(look));
        let defaults = read_settings(&mut config, &here)?;
        let (mut asked, id) = match row {
            Some(row) => (goes_on(row, arguments, &config)?, row.model.clone()),
            None => {
                let wanted = arguments.model.clone().or(usual).or_else(|| defaults.model.clone());
                config.choose(wanted.as_deref().unwrap_or(USUAL)).map_err(bad_config)?
            }
        };
        let tiers = Tier::ALL.into_iter().filter_map(|tier| {
            let (_, id) = config.choose(&format!("{}/{tier}", asked.name)).ok()?;
            Some((tier.to_string(), id))
        });
        let tiers = tiers.collect();
        match &scripted {
            Some(model) => {
                lead_to(&mut asked, model.addr(), None)?;
                asked.key = ApiKey::None;
                asked.name = format!("{SCRIPT}{}", asked.name);
            }
            None => {
                follow_proxy(&mut asked)?;
                if let Some(kind) = standing_in() {
                    asked.name = format!("{kind}{}", asked.name);
                }
            }
        }
        asked.check_key().await.map_err(|failure| {
            let hint = failure.hint.clone();
            marked(Kind::Usage, hint, failure.into())
        })?;
        let recording = match &arguments.record {
            Some(out) => Some(record(arguments, out, &mut asked, &id).await?),
            None => None,
        };
        Ok(Self { provider: asked.name.clone(), id, defaults, tiers, asked, scripted, recording })
    }

    /// Tells a script what the runs of a tree were answered before: those that had ended ask no more, and others may wait
    /// for them.
    pub(super) fn remember(&self, store: &Store, root: &RunId) -> Result<(), agent::RunError> {
        let Some(model) = &self.scripted else { return Ok(()) };
        let mut runs = store.runs(&Filter { below: Some(root.clone()), ..Filter::default() })?;
        runs.reverse(); // the oldest first, as they came
        for run in runs {
            let reads = store.run(&run.id);
            let (row, messages) = (reads.row()?, reads.messages()?);
            // A question beside the run was another script's: it is nobody that this one waits for.
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
            let mut before = PriorConversation { last_request: &request, answered: None, failures };
            let said;
            if last.is_some() {
                let reply = messages.iter().find(|message| message.model_call == Some(call.id));
                // What a summary has replaced is not what it goes on with.
                let Some(reply) = reply.filter(|reply| reply.seq >= row.context_from) else { continue };
                let Some(open) = request.strip_suffix(b"]}") else { continue };
                said = [open, b",", &reply.bytes, b"]}"].concat();
                before.answered = Some((&said, call.reply.as_deref().unwrap_or_default()));
            }
            model.restore(self.asked.dialect, &before);
        }
        Ok(())
    }

    /// What the provider calls the model of each tier, those that it has.
    pub(super) fn tiers(&self) -> BTreeMap<String, String> {
        self.tiers.clone()
    }

    /// Who is asked.
    pub(super) fn model(&self) -> Arc<dyn ModelClient> {
        Arc::new(self.asked.clone())
    }

    /// There is no run after all, and nothing to be recorded.
    pub(super) async fn abandon(self) {
        if let Some(recording) = self.recording {
            recording.abandon().await;
        }
    }

    /// The run has ended: what the script had no answer to is said, and the recording is sealed.
    pub(super) async fn finish(
        self,
        ended: anyhow::Result<ExitCode>,
        signals: &mut Signals,
    ) -> anyhow::Result<ExitCode> {
        if let Some(model) = &self.scripted {
            tell_unanswered(&model.report());
        }
        let Some(recording) = self.recording else { return ended };
        // The run's own end is told first, whatever becomes of the recording.
        let code = match ended {
            Ok(code) => code,
            Err(error) => crate::failure::print(&error),
        };
        let sealed = recording.finish(None, signals, || None).await?;
        Ok(if code == ExitCode::SUCCESS { sealed } else { code })
    }
}

/// What comes before the name of a provider that a script, or a recording, stands in for.
const SCRIPT: &str = "script:";
const REPLAY: &str = "replay:";

/// Who stands in for the provider, below `offshoot proxy --script` or `replay`.
fn standing_in() -> Option<&'static str> {
    match std::env::var("OFFSHOOT_STAND_IN").ok()?.as_str() {
        "script" => Some(SCRIPT),
        "replay" => Some(REPLAY),
        _ => None,
    }
}

/// Who goes on with a run: whoever has answered it so far. Somebody else with the same model does where that is said; nobody
/// is handed a conversation without a word.
fn goes_on(
    row: &store::Run,
    arguments: &Arguments,
    config: &ProviderConfig,
) -> anyhow::Result<ProviderClient> {
    let (began, model) = (answered_by(row, arguments)?, &row.model);
    let Some(wanted) = &arguments.model else {
        return config.named(&began).map_err(|error| match error {
            ConfigError::UnknownProvider { .. } => {
                let run = &row.id;
                // A fork is answered by whoever holds its parent's prompt cache, and by nobody else.
                let hint = match arguments.fork_of {
                    Some(_) => format!("describe it again, as `[providers.{began}]` in `offshoot.toml`"),
                    None => format!(
                        "name who shall go on with it: `offshoot run --resume {run} --model PROVIDER/{model}`"
                    ),
                };
                marked(Kind::Usage, Some(hint), error.into())
            }
            error => bad_config(error),
        });
    };
    match config.choose(wanted) {
        Ok((chosen, id)) if id == *model && (chosen.name == began || is_named(&chosen, wanted)) => Ok(chosen),
        _ => {
            let error = anyhow::anyhow!("a run goes on with the model it was begun with: {began}/{model}");
            Err(error).or_fail_with(Kind::Usage, || "leave `--model` out, or start another run".into())
        }
    }
}

fn is_named(provider: &ProviderClient, wanted: &str) -> bool {
    wanted.split_once('/').is_some_and(|(name, _)| name == provider.name)
}

fn how(arguments: &Arguments) -> &'static str {
    if arguments.fork_of.is_some() { "--fork-of" } else { "--resume" }
}

/// The provider that a run was begun with. One that a script has answered so far is not handed to somebody else without
/// a word.
fn answered_by(row: &store::Run, arguments: &Arguments) -> anyhow::Result<String> {
    let how = how(arguments);
    let is_paid = arguments.script.is_none() && standing_in().is_none();
    let scripted = row.provider.strip_prefix(SCRIPT);
    match scripted.or_else(|| row.provider.strip_prefix(REPLAY)) {
        Some(_) if is_paid => {
            let (who, hint) = match scripted {
                Some(_) => ("a script", format!("offshoot run {how} {} --script FILE", row.id)),
                None => {
                    ("a recording", format!("offshoot replay RECORDING -- offshoot run {how} {} '…'", row.id))
                }
            };
            let error = anyhow::anyhow!("the run `{}` was answered by {who} so far", row.id);
            Err(marked(Kind::Usage, Some(hint), error))
        }
        Some(provider) => Ok(provider.to_owned()),
        // What was paid for and what was not would be one sum.
        None if arguments.script.is_some() => {
            let error = anyhow::anyhow!("the run `{}` was answered by a provider so far", row.id);
            let hint = "leave `--script` out, or start another run with it".to_owned();
            Err(marked(Kind::Usage, Some(hint), error))
        }
        None => Ok(row.provider.clone()),
    }
}

/// Below `offshoot proxy` or `replay` every provider is to be found there, also one that the usual variables do not lead
/// to.
fn follow_proxy(asked: &mut ProviderClient) -> anyhow::Result<()> {
    if std::env::var_os("OFFSHOOT_PROXY_URL").is_none() {
        return Ok(());
    }
    let variable = match asked.dialect {
        Dialect::AnthropicMessages => "ANTHROPIC_BASE_URL",
        Dialect::OpenAiChat | Dialect::OpenAiResponses => "OPENAI_BASE_URL",
    };
    if let Ok(base) = std::env::var(variable) {
        asked.endpoint = endpoint(&base, asked.dialect).or_fail(Kind::Usage)?;
    }
    Ok(())
}

/// With a script nobody needs a key, and nobody's address counts.
fn pretended(name: &str) -> Option<String> {
    match name {
        "HOME" => std::env::var(name).ok(),
        "ANTHROPIC_BASE_URL" | "OPENAI_BASE_URL" | "ANTHROPIC_AUTH_TOKEN" => None,
        _ => Some("scripted".to_owned()),
    }
}

/// Asks at that address instead; the path stays where it is the provider's own.
fn lead_to(asked: &mut ProviderClient, addr: SocketAddr, path: Option<&str>) -> anyhow::Result<()> {
    let base = format!("http://{addr}");
    asked.endpoint = match path {
        Some(path) => format!("{base}{path}").parse().or_fail(Kind::Bug)?,
        None => endpoint(&base, asked.dialect).or_fail(Kind::Bug)?,
    };
    Ok(())
}

/// Puts a recording proxy between us and whoever answers.
async fn record(
    arguments: &Arguments,
    out: &Path,
    asked: &mut ProviderClient,
    id: &str,
) -> anyhow::Result<Begun> {
    let address = &asked.endpoint;
    let upstream = format!(
        "{}://{}",
        address.scheme_str().unwrap_or("https"),
        address.authority().map_or("", |a| a.as_str())
    );
    let path = address.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let upstream = Upstream::parse(&upstream).or_fail(Kind::Bug)?;
    let session = Session {
        out: out.to_owned(),
        flag: "--record",
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        drain: DRAIN,
        command: Vec::new(),
        env: Vec::new(),
        upstreams: Upstreams::new(vec![upstream]).or_fail(Kind::Bug)?,
        about: Manifest {
            script: arguments.script.as_ref().map(|script| script.display().to_string()),
            harness: Some(recording::Harness {
                name: "offshoot".to_owned(),
                version: Some(env!("CARGO_PKG_VERSION").to_owned()),
                model: id.to_owned(),
                live: arguments.script.is_none(),
                ..recording::Harness::default()
            }),
            ..Manifest::default()
        },
    };
    let begun = session.begin().await?;
    lead_to(asked, begun.addr(), Some(&path))?;
    Ok(begun)
}
