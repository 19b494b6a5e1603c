//! OpenCode, by its command line or its server.
//!
//! `run` is the usual command. It ends when the main agent is idle and kills background work. Later wake-ups
//! are only visible with `serve`, which we drive.

mod api;
mod export;
mod http;
mod model;
mod program;
mod serve;
mod settings;

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::adapter::{Export, HarnessAdapter, Install, Mode, Package, Plan, Release, RipgrepUse};
use crate::error::HarnessError;
use crate::launch::{HarnessFuture, Launch};
use crate::sandbox::Sandbox;
use crate::supervisor::{ProgramExit, Supervisor};
pub(crate) use export::exports;
pub(crate) use program::find as program;
pub(crate) use serve::drive;
pub(crate) use settings::write_json;

/// `opencode run`.
pub(crate) const RUN: &str = "run";
/// `opencode serve`, until all agents are idle.
pub(crate) const SERVE: &str = "serve";
/// Like serve, with one sub-agent aborted by the user.
pub(crate) const ABORT: &str = "abort";

pub(crate) const MODES: &[Mode] = &[
    Mode { name: RUN, about: "`opencode run`, which ends when the main agent is idle" },
    Mode { name: SERVE, about: "`opencode serve` through its API, until no agent has anything to do" },
    Mode {
        name: ABORT,
        about: "like serve; the last sub-agent that is still at work is aborted by the user",
    },
];

/// OpenCode.
pub(crate) struct OpenCode;

impl HarnessAdapter for OpenCode {
    fn name(&self) -> &'static str {
        "opencode"
    }

    fn versions(&self) -> &'static [&'static str] {
        &["1.0.185", "1.18.33"]
    }

    fn install(&self, release: &Release) -> Result<Option<Install>, HarnessError> {
        Ok(Some(Install { packages: packages(&release.version) }))
    }

    fn program(&self, prefix: &Path) -> Result<PathBuf, HarnessError> {
        program(prefix)
    }

    fn modes(&self) -> &'static [Mode] {
        MODES
    }

    fn ripgrep(&self) -> RipgrepUse {
        RipgrepUse::Required
    }

    fn default_model(&self) -> &'static str {
        DEFAULT_MODEL
    }

    fn prepare(&self, plan: &Plan, sandbox: &Sandbox) -> Result<Launch, HarnessError> {
        prepare(plan, sandbox, Map::new())
    }

    fn drive<'a>(
        &'a self,
        plan: &'a Plan,
        sandbox: &'a Sandbox,
        supervisor: &'a mut Supervisor,
    ) -> HarnessFuture<'a, Result<ProgramExit, HarnessError>> {
        drive(plan, sandbox, supervisor)
    }

    fn exports<'a>(
        &'a self,
        plan: &'a Plan,
        sandbox: &'a Sandbox,
        supervisor: &'a mut Supervisor,
    ) -> HarnessFuture<'a, Result<Vec<Export>, HarnessError>> {
        exports(plan, sandbox, supervisor)
    }
}

/// Known to all tested versions.
pub(crate) const DEFAULT_MODEL: &str = "anthropic/claude-haiku-4-5";

/// The program, and the plugin package that OpenCode would otherwise install into every settings folder: of
/// the same version, or an older one if the registry lacks it.
pub(crate) fn packages(version: &str) -> Vec<Package> {
    let package = |name: &str, version: String| Package { name: name.into(), version };
    vec![package("opencode-ai", version.to_owned()), package(settings::PLUGIN_API, format!("<={version}"))]
}

/// Writes the settings, including `more`, and returns the command to start.
pub(crate) fn prepare(
    plan: &Plan,
    sandbox: &Sandbox,
    more: Map<String, Value>,
) -> Result<Launch, HarnessError> {
    let model = model::Model::of(&plan.model)?;
    settings::write(plan, sandbox, &model, more)?;
    let mut args = match plan.mode.as_deref() {
        Some(SERVE | ABORT) => {
            let port = serve::choose_port(sandbox)?;
            [SERVE, "--hostname", "127.0.0.1", "--port", &port.to_string()].map(str::to_owned).to_vec()
        }
        _ => [RUN, "--format", "json", "--model", &plan.model].map(str::to_owned).to_vec(),
    };
    args.extend(plan.arguments.iter().cloned());
    if args[0] == RUN {
        args.push(plan.prompt.clone());
    }
    Ok(Launch { program: plan.program.clone(), args, env: settings::env(sandbox) })
}
