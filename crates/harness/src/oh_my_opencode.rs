//! oh-my-opencode, a plugin of OpenCode.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::adapter::{
    Export, HarnessAdapter, HostProgram, Install, Mode, Package, Plan, Release, RipgrepUse,
};
use crate::error::HarnessError;
use crate::launch::{HarnessFuture, Launch};
use crate::opencode;
use crate::sandbox::Sandbox;
use crate::supervisor::{ProgramExit, Supervisor};

const PACKAGE: &str = "node_modules/oh-my-opencode";

/// Hooks that fetch something, notify the user, or add text to prompts. Some add it to earlier turns, after
/// certain words or calls.
const HOOKS: &[&str] = &[
    "auto-update-checker",
    "startup-toast",
    "session-notification",
    "comment-checker",
    "keyword-detector",
    "claude-code-hooks",
    "category-skill-reminder",
    "codegraph-bootstrap",
    "ast-grep-sg-provision",
    "legacy-plugin-toast",
];

/// MCP servers on other hosts, or that are downloaded first.
const SERVERS: &[&str] = &["websearch", "websearch_exa", "context7", "grep_app", "lsp", "codegraph"];

/// Agents that would otherwise use models of other providers.
const AGENTS: &[&str] = &[
    "Sisyphus",
    "sisyphus",
    "sisyphus-junior",
    "hephaestus",
    "prometheus",
    "Planner-Sisyphus",
    "OpenCode-Builder",
    "metis",
    "momus",
    "atlas",
    "oracle",
    "librarian",
    "explore",
    "frontend-ui-ux-engineer",
    "document-writer",
    "multimodal-looker",
    "build",
    "plan",
];

/// oh-my-opencode.
pub(crate) struct OhMyOpenCode;

impl HarnessAdapter for OhMyOpenCode {
    fn name(&self) -> &'static str {
        "oh-my-opencode"
    }

    fn versions(&self) -> &'static [&'static str] {
        &["2.14.0", "4.19.4"]
    }

    fn host(&self) -> Option<HostProgram> {
        Some(HostProgram { name: "opencode", versions: &["1.0.185", "1.18.33"] })
    }

    fn install(&self, release: &Release) -> Result<Option<Install>, HarnessError> {
        let (_, host) = release.host.as_ref().expect("a plugin's release has a host");
        let mut packages = opencode::packages(host);
        packages.push(Package { name: "oh-my-opencode".into(), version: release.version.clone() });
        Ok(Some(Install { packages }))
    }

    /// Finds the host's program. The version of the host is checked before anything is recorded.
    fn program(&self, prefix: &Path) -> Result<PathBuf, HarnessError> {
        opencode::program(prefix)
    }

    fn modes(&self) -> &'static [Mode] {
        opencode::MODES
    }

    fn ripgrep(&self) -> RipgrepUse {
        RipgrepUse::Required
    }

    fn default_model(&self) -> &'static str {
        opencode::DEFAULT_MODEL
    }

    fn prepare(&self, plan: &Plan, sandbox: &Sandbox) -> Result<Launch, HarnessError> {
        let plugin = Plugin::read(&plan.prefix)?;
        if let Some((host, version)) = &plan.release.host {
            plugin.check_host(host, version, &plan.release.version)?;
        }
        let more = json!({ "plugin": [format!("file://{}", plugin.entry.display())] });
        let Value::Object(more) = more else { unreachable!("it is one") };
        let mut launch = opencode::prepare(plan, sandbox, more)?;
        launch.env.insert("OMO_DISABLE_POSTHOG".into(), "1".into());
        launch.env.insert("OMO_SEND_ANONYMOUS_TELEMETRY".into(), "0".into());
        let path = sandbox.config().join("opencode/oh-my-opencode.json");
        opencode::write_json(&path, &Value::Object(plugin.settings(&plan.model)))?;
        Ok(launch)
    }

    fn drive<'a>(
        &'a self,
        plan: &'a Plan,
        sandbox: &'a Sandbox,
        supervisor: &'a mut Supervisor,
    ) -> HarnessFuture<'a, Result<ProgramExit, HarnessError>> {
        opencode::drive(plan, sandbox, supervisor)
    }

    fn exports<'a>(
        &'a self,
        plan: &'a Plan,
        sandbox: &'a Sandbox,
        supervisor: &'a mut Supervisor,
    ) -> HarnessFuture<'a, Result<Vec<Export>, HarnessError>> {
        opencode::exports(plan, sandbox, supervisor)
    }
}

/// An installed plugin, as far as its files describe it without running it.
struct Plugin {
    entry: PathBuf,
    source: String,
    /// The oldest host that it supports.
    oldest_host: Option<String>,
}

impl Plugin {
    fn read(prefix: &Path) -> Result<Self, HarnessError> {
        let folder = prefix.join(PACKAGE);
        let manifest = folder.join("package.json");
        let read = |path: &Path| fs::read_to_string(path).map_err(HarnessError::io("read", path));
        let package: Value = serde_json::from_str(&read(&manifest)?).unwrap_or_default();
        let entry = folder.join(package["main"].as_str().unwrap_or("dist/index.js"));
        let source = read(&entry)?;
        // The check is part of its installer, which is a separate program in some versions.
        let programs = [&entry, &folder.join("dist/cli/index.js"), &folder.join("dist/cli-node/index.js")];
        let said = programs.into_iter().find_map(|path| oldest_host(&fs::read_to_string(path).ok()?));
        let peer = || {
            Some(package["peerDependencies"]["opencode-ai"].as_str()?.trim_start_matches(">=").trim().into())
        };
        Ok(Self { entry, source, oldest_host: said.or_else(peer) })
    }

    fn check_host(&self, host: &str, version: &str, plugin: &str) -> Result<(), HarnessError> {
        let Some(oldest) = self.oldest_host.as_deref().filter(|oldest| numbers(version) < numbers(oldest))
        else {
            return Ok(());
        };
        Err(HarnessError::usage(
            format!(
                "{host} {version} is too old for oh-my-opencode {plugin}, which requires {oldest} or newer"
            ),
            format!("use `--host-version {oldest}` or newer, or an older `--harness-version`"),
        ))
    }

    /// Returns the content of `oh-my-opencode.json`. One unknown name makes the plugin ignore the whole file,
    /// so it contains only names that this version lists.
    fn settings(&self, model: &str) -> Map<String, Value> {
        let hooks = self.known("HookNameSchema", HOOKS);
        let servers = self.known("McpNameSchema", SERVERS);
        let agents: Map<_, _> =
            AGENTS.iter().map(|agent| ((*agent).to_owned(), json!({ "model": model }))).collect();
        let settings = json!({
            "disabled_hooks": hooks,
            "disabled_mcps": servers,
            "agents": agents,
            "auto_update": false,
            "telemetry": false,
        });
        match settings {
            Value::Object(settings) => settings,
            _ => unreachable!("it is one"),
        }
    }

    /// Returns the names in the list called `schema`, or those that occur anywhere if there is no such list.
    fn known(&self, schema: &str, names: &[&'static str]) -> Vec<&'static str> {
        let list = listed(&self.source, schema).unwrap_or(&self.source);
        names.iter().copied().filter(|name| list.contains(&format!("\"{name}\""))).collect()
    }
}

/// Returns the text between the brackets of `NAME = something.enum([…])`.
fn listed<'s>(source: &'s str, name: &str) -> Option<&'s str> {
    let from = &source[source.find(&format!("{name} = "))?..];
    let begin = from.find(".enum([").filter(|at| *at < 80)?;
    let list = &from[begin..];
    Some(&list[..list.find(']')?])
}

/// Returns the constant that the installer compares with the host's version.
fn oldest_host(source: &str) -> Option<String> {
    let (_, value) = source.split_once("MIN_OPENCODE_VERSION = \"")?;
    let (version, _) = value.split_once('"')?;
    version.starts_with(|c: char| c.is_ascii_digit()).then(|| version.to_owned())
}

/// Returns the numbers of a version for comparison, without a pre-release part.
fn numbers(version: &str) -> Vec<u64> {
    let release = version.split(['-', '+']).next().unwrap_or_default();
    release.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plugin(source: &str) -> Plugin {
        Plugin { entry: "index.js".into(), source: source.into(), oldest_host: oldest_host(source) }
    }

    #[test]
    fn only_names_that_the_plugin_lists_are_switched_off() {
        let source = r#"x = ["context7", "lsp"]; var McpNameSchema = z.enum(["websearch", "context7"]);"#;
        assert_eq!(plugin(source).known("McpNameSchema", SERVERS), ["websearch", "context7"]);
        let unlisted = r#"use("context7")"#;
        assert_eq!(plugin(unlisted).known("McpNameSchema", SERVERS), ["context7"]);
    }

    #[test]
    fn a_host_that_is_too_old_is_named() {
        let plugin = plugin(r#"var MIN_OPENCODE_VERSION = "1.4.0";"#);
        assert!(plugin.check_host("opencode", "1.18.33", "4.0.0").is_ok());
        let error = plugin.check_host("opencode", "1.0.185", "4.0.0").expect_err("too old");
        assert_eq!(error.blame(), crate::Blame::User);
        assert!(error.hint().expect("a hint").contains("--host-version 1.4.0"), "{error}");
    }

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert!(numbers("1.0.185") < numbers("1.18.33"));
        assert!(numbers("1.4.0-beta.1") >= numbers("1.4.0"));
    }
}
