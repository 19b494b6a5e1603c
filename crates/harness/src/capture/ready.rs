//! A harness that nobody records: it stands ready in its folders, so that what it needs by itself can be measured.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::model::Answering;
use super::plan::{Asked, Planned, Speaker};
use super::{furnish, proxy_variables};
use crate::adapter::Launch;
use crate::error::HarnessError;
use crate::install::Tell;
use crate::sandbox::Sandbox;

/// A harness in a slot of its own, set up as for a capture. Its HOME stays from one start to the next.
pub struct Ready {
    planned: Planned,
    sandbox: Sandbox,
}

impl Ready {
    /// Installs what was asked for, takes a slot and fills its workspace.
    pub async fn take(asked: Asked, tell: Tell<'_>) -> Result<Self, HarnessError> {
        let planned = Planned::of(asked, tell).await?;
        let sandbox = Sandbox::take(&planned.places.slots)?;
        furnish(&planned, &sandbox, tell).await?;
        Ok(Self { planned, sandbox })
    }

    /// The folder that it works in.
    pub fn workspace(&self) -> PathBuf {
        self.sandbox.workspace()
    }

    /// What its model is to say, where a script speaks.
    pub fn script(&self) -> Option<&str> {
        match &self.planned.speaker {
            Speaker::Script { text, .. } => Some(text),
            Speaker::Replay(_) | Speaker::Live(_) => None,
        }
    }

    /// How it is started for the nth time, with its whole environment and a model at this address. Nothing leads
    /// it out of the machine.
    pub fn launch(&self, model: SocketAddr, nth: u16) -> Result<Launch, HarnessError> {
        let answering = Answering::standing_in(model, self.planned.harness.providers())?;
        let mut plan = self.planned.plan(answering.endpoints(model), std::time::SystemTime::now());
        // A session that is there already would be refused.
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
