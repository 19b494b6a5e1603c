//! Claude Code, headless.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::adapter::{Export, HarnessAdapter, Install, Package, Plan, Provider, Release};
use crate::error::HarnessError;
use crate::launch::{HarnessFuture, Launch};
use crate::sandbox::{Sandbox, below};
use crate::supervisor::Supervisor;

/// The folder of the npm scope in an installation.
const SCOPE: &str = "node_modules/@anthropic-ai";
/// Settings that turn off all traffic but the conversation, and all questions to the user.
const QUIET: &[&str] = &[
    "DISABLE_TELEMETRY",
    "DISABLE_AUTOUPDATER",
    "DISABLE_ERROR_REPORTING",
    "DISABLE_BUG_COMMAND",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    // Otherwise it refuses to skip permissions as root.
    "IS_SANDBOX",
];

/// Claude Code.
pub(crate) struct ClaudeCode;

impl HarnessAdapter for ClaudeCode {
    fn name(&self) -> &'static str {
        "claude-code"
    }

    fn versions(&self) -> &'static [&'static str] {
        &["2.0.76", "2.1.325"]
    }

    fn providers(&self) -> &'static [Provider] {
        &[Provider::Anthropic]
    }

    fn default_model(&self) -> &'static str {
        "haiku"
    }

    fn install(&self, release: &Release) -> Result<Option<Install>, HarnessError> {
        let package = Package { name: "@anthropic-ai/claude-code".into(), version: release.version.clone() };
        Ok(Some(Install { packages: vec![package] }))
    }

    /// Finds the native program in the package for this platform; npm installs only the fitting one. The main
    /// package of native versions has only a launcher. Older versions are JavaScript.
    fn program(&self, prefix: &Path) -> Result<PathBuf, HarnessError> {
        let scope = prefix.join(SCOPE);
        let packages = fs::read_dir(&scope).map_err(HarnessError::io("read", &scope))?;
        let native = packages
            .filter_map(Result::ok)
            .filter(|package| package.file_name().to_string_lossy().starts_with("claude-code-"))
            .map(|package| package.path().join("claude"))
            .find(|program| program.is_file());
        let script = scope.join("claude-code/cli.js");
        native.or_else(|| script.is_file().then_some(script)).ok_or_else(|| {
            HarnessError::outside(
                "this version of Claude Code has neither a native program for this platform nor `cli.js`",
                "try another one: `npm view @anthropic-ai/claude-code versions`",
            )
        })
    }

    fn prepare(&self, plan: &Plan, sandbox: &Sandbox) -> Result<Launch, HarnessError> {
        let mut env: BTreeMap<String, String> =
            QUIET.iter().map(|name| ((*name).to_owned(), "1".to_owned())).collect();
        env.insert("ANTHROPIC_BASE_URL".into(), plan.endpoints.anthropic.clone());
        // With `ANTHROPIC_API_KEY`, some versions ask Anthropic directly whether they may send metrics, past
        // the proxy and despite the settings above.
        let key = if plan.live { "ANTHROPIC_API_KEY" } else { "ANTHROPIC_AUTH_TOKEN" };
        env.insert(key.into(), plan.endpoints.anthropic_key.clone());
        env.insert("CLAUDE_CODE_TMPDIR".into(), sandbox.tmp().display().to_string());
        // Some versions fetch this list despite the settings above, unless they have a fresh one.
        let blocked = serde_json::json!({ "fetchedAt": jiff::Timestamp::now().to_string(), "plugins": [] });
        let list = sandbox.home().join(".claude/plugins/blocklist.json");
        fs::create_dir_all(list.parent().expect("it is in a folder"))
            .and_then(|()| fs::write(&list, blocked.to_string()))
            .map_err(HarnessError::io("write", &list))?;
        // Its own ripgrep prints in any order; ours sorts.
        env.insert("USE_BUILTIN_RIPGREP".into(), "0".into());
        let mut args: Vec<String> = ["-p", &plan.prompt, "--output-format", "stream-json", "--verbose"]
            .into_iter()
            .chain(["--model", &plan.model, "--dangerously-skip-permissions"])
            .chain(["--session-id", &plan.session_id])
            .map(str::to_owned)
            .collect();
        args.extend(plan.arguments.iter().cloned());
        Ok(Launch { program: plan.program.clone(), args, env })
    }

    /// Returns its transcripts by their names below `projects/`.
    fn exports<'a>(
        &'a self,
        _plan: &'a Plan,
        sandbox: &'a Sandbox,
        _supervisor: &'a mut Supervisor,
    ) -> HarnessFuture<'a, Result<Vec<Export>, HarnessError>> {
        Box::pin(async {
            let projects = sandbox.home().join(".claude/projects");
            let Ok(paths) = below(&projects) else { return Ok(Vec::new()) };
            let kept = |path: &PathBuf| {
                path.is_file() && path.extension().is_some_and(|kind| kind == "jsonl" || kind == "json")
            };
            let export = |path: PathBuf| {
                // The first folder is named after the workspace, of which there is one.
                let below = path.strip_prefix(&projects).ok()?;
                let name: PathBuf = below.components().skip(1).collect();
                Some(Export { name: format!("transcripts/{}", name.display()), path })
            };
            Ok(paths.into_iter().filter(kept).filter_map(export).collect())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_native_program_is_preferred_to_the_starter() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let put = |name: &str| {
            let path = place.path().join(SCOPE).join(name);
            fs::create_dir_all(path.parent().expect("inside")).expect("a folder");
            fs::write(path, "").expect("a file");
        };
        assert!(ClaudeCode.program(place.path()).is_err());
        put("claude-code/cli.js");
        assert!(ClaudeCode.program(place.path()).expect("JavaScript").ends_with("claude-code/cli.js"));
        put("claude-code-linux-x64/claude");
        assert!(ClaudeCode.program(place.path()).expect("native").ends_with("claude-code-linux-x64/claude"));
    }
}
