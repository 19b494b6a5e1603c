//! OpenCode, by its command line or by its server.
//!
//! `run` is what people type; it ends when the main agent goes idle, and takes whatever still runs in the
//! background with it. So what comes later, as a wake-up, is only seen under `serve`, which we talk to.

mod api;
mod drive;
mod export;
mod http;
mod model;
mod program;
mod settings;

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::adapter::{Doing, Export, Harness, Install, Launch, Mode, Package, Plan, Release};
use crate::error::HarnessError;
use crate::sandbox::Sandbox;
use crate::warden::{Ended, Warden};
pub(crate) use drive::drive;
pub(crate) use export::exports;
pub(crate) use program::find as program;
pub(crate) use settings::write_json;

/// `opencode run`.
pub(crate) const RUN: &str = "run";
/// `opencode serve`, until nothing happens any more.
pub(crate) const SERVE: &str = "serve";
/// The same, with somebody who cancels.
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

impl Harness for OpenCode {
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

    fn needs_ripgrep(&self) -> bool {
        true
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
        warden: &'a mut Warden,
    ) -> Doing<'a, Result<Ended, HarnessError>> {
        drive(plan, sandbox, warden)
    }

    fn exports<'a>(
        &'a self,
        plan: &'a Plan,
        sandbox: &'a Sandbox,
        warden: &'a mut Warden,
    ) -> Doing<'a, Result<Vec<Export>, HarnessError>> {
        exports(plan, sandbox, warden)
    }
}

/// Known to every version that is tested.
pub(crate) const DEFAULT_MODEL: &str = "anthropic/claude-haiku-4-5";

/// The program, and the package that it would else try to install into every folder of settings: of the same version,
/// or of the one before where a registry does not have that.
pub(crate) fn packages(version: &str) -> Vec<Package> {
    let package = |name: &str, version: String| Package { name: name.into(), version };
    vec![package("opencode-ai", version.to_owned()), package(settings::PLUGIN_API, format!("<={version}"))]
}

/// Writes the settings, `more` among them, and says how it is started.
pub(crate) fn prepare(
    plan: &Plan,
    sandbox: &Sandbox,
    more: Map<String, Value>,
) -> Result<Launch, HarnessError> {
    let model = model::Model::of(&plan.model)?;
    settings::write(plan, sandbox, &model, more)?;
    let mut args = match plan.mode.as_deref() {
        Some(SERVE | ABORT) => {
            let port = drive::choose_port(sandbox)?;
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
