//! A harness that is set up without a recording, to measure its own resource use.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::model_server::ModelServer;
use super::request::{CaptureRequest, ModelSource, PreparedCapture};
use super::{prepare_workspace, proxy_variables};
use crate::error::HarnessError;
use crate::install::Progress;
use crate::launch::Launch;
use crate::sandbox::Sandbox;

/// A harness in its own slot, set up as for a capture. Its HOME stays from one start to the next.
pub struct PreparedHarness {
    planned: PreparedCapture,
    sandbox: Sandbox,
}

impl PreparedHarness {
    /// Installs the harness, takes a slot and fills the workspace.
    pub async fn take(asked: CaptureRequest, tell: Progress<'_>) -> Result<Self, HarnessError> {
        let planned = PreparedCapture::of(asked, tell).await?;
        let sandbox = Sandbox::take(&planned.folders.slots)?;
        prepare_workspace(&planned, &sandbox, tell).await?;
        Ok(Self { planned, sandbox })
    }

    /// Returns the working folder.
    pub fn workspace(&self) -> PathBuf {
        self.sandbox.workspace()
    }

    /// Returns the text of the script, if a script answers.
    pub fn script(&self) -> Option<&str> {
        match &self.planned.model_source {
            ModelSource::Script { text, .. } => Some(text),
            ModelSource::Replay(_) | ModelSource::Live(_) => None,
        }
    }

    /// Returns the command for the nth start, with the complete environment and a model at this address. The
    /// machine's network is not reachable through it.
    pub fn launch(&self, model: SocketAddr, nth: u16) -> Result<Launch, HarnessError> {
        let answering = ModelServer::on_loopback(model, self.planned.harness.providers())?;
        let mut plan = self.planned.plan(answering.endpoints(model), std::time::SystemTime::now());
        // The harness would refuse an existing session.
        plan.session_id.replace_range(9..13, &format!("{nth:04x}"));
        let launch = self.planned.harness.prepare(&plan, &self.sandbox)?;
        self.sandbox.settle_times()?;
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 9));
        let mut env = self.sandbox.env();
        env.extend(proxy_variables(nowhere));
        env.extend(launch.env);
        env.extend(plan.env);
        Ok(Launch { env, ..launch })
    }
}
