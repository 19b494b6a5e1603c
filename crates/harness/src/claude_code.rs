//! Claude Code, headless.

use std::path::{Path, PathBuf};

use crate::adapter::{Doing, Export, Harness, Install, Launch, Package, Plan, Release};
use crate::error::HarnessError;
use crate::sandbox::Sandbox;
use crate::warden::Warden;

/// Claude Code.
pub(crate) struct ClaudeCode;

impl Harness for ClaudeCode {
    fn name(&self) -> &'static str {
        "claude-code"
    }

    fn versions(&self) -> &'static [&'static str] {
        &["2.0.76", "2.1.325"]
    }

    fn default_model(&self) -> &'static str {
        "haiku"
    }

    fn install(&self, release: &Release) -> Result<Option<Install>, HarnessError> {
        let package = Package { name: "@anthropic-ai/claude-code".into(), version: release.version.clone() };
        Ok(Some(Install { packages: vec![package] }))
    }

    fn program(&self, prefix: &Path) -> Result<PathBuf, HarnessError> {
        Ok(prefix.join("claude"))
    }

    fn prepare(&self, plan: &Plan, _sandbox: &Sandbox) -> Result<Launch, HarnessError> {
        Ok(Launch { program: plan.program.clone(), ..Launch::default() })
    }

    fn exports<'a>(
        &'a self,
        _plan: &'a Plan,
        _sandbox: &'a Sandbox,
        _warden: &'a mut Warden,
    ) -> Doing<'a, Result<Vec<Export>, HarnessError>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}
