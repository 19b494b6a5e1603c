//! Any program that takes the base URL of its provider from a variable.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::adapter::{Export, HarnessAdapter, Install, Plan, Release, RipgrepUse};
use crate::error::HarnessError;
use crate::launch::{HarnessFuture, Launch};
use crate::sandbox::Sandbox;
use crate::supervisor::Supervisor;

/// The placeholder for the prompt in a command line.
const PROMPT: &str = "{prompt}";
const MODEL: &str = "{model}";

/// The command after `--`.
pub(crate) struct Command;

impl HarnessAdapter for Command {
    fn name(&self) -> &'static str {
        "command"
    }

    fn versions(&self) -> &'static [&'static str] {
        &[]
    }

    fn ripgrep(&self) -> RipgrepUse {
        RipgrepUse::IfPresent
    }

    fn default_model(&self) -> &'static str {
        "scripted"
    }

    fn install(&self, _: &Release) -> Result<Option<Install>, HarnessError> {
        Ok(None)
    }

    fn program(&self, prefix: &Path) -> Result<PathBuf, HarnessError> {
        Ok(prefix.to_owned())
    }

    /// Sets the variables that common clients read. Replaces `{prompt}` and `{model}` in the arguments.
    fn prepare(&self, plan: &Plan, _: &Sandbox) -> Result<Launch, HarnessError> {
        let endpoints = &plan.endpoints;
        let env = BTreeMap::from([
            ("ANTHROPIC_BASE_URL".to_owned(), endpoints.anthropic.clone()),
            ("ANTHROPIC_API_KEY".to_owned(), endpoints.anthropic_key.clone()),
            ("OPENAI_BASE_URL".to_owned(), endpoints.openai.clone()),
            ("OPENAI_API_BASE".to_owned(), endpoints.openai.clone()),
            ("OPENAI_API_KEY".to_owned(), endpoints.openai_key.clone()),
            ("OFFSHOOT_PROMPT".to_owned(), plan.prompt.clone()),
            ("OFFSHOOT_MODEL".to_owned(), plan.model.clone()),
        ]);
        let fill = |word: &String| word.replace(PROMPT, &plan.prompt).replace(MODEL, &plan.model);
        let args = plan.arguments.iter().skip(1).map(fill).collect();
        Ok(Launch { program: plan.program.clone(), args, env })
    }

    fn exports<'a>(
        &'a self,
        _: &'a Plan,
        _: &'a Sandbox,
        _: &'a mut Supervisor,
    ) -> HarnessFuture<'a, Result<Vec<Export>, HarnessError>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}
