//! The settings in `offshoot.toml`, except for providers.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;

use crate::hooks::{HookSet, HookTables, UnusedHook};
use crate::mcp::{self, ServerConfig};
use crate::permission::{PermissionRules, RuleList};
use crate::provider::ConfigError;
use crate::side_work::{SideWork, SideWorkTable};
use crate::tools::AllowedHosts;
use crate::tree_limits::TreeLimits;

/// The default settings of runs.
#[derive(Clone, Debug, Default)]
pub struct RunDefaults {
    /// The model: a tier, an id, or `PROVIDER/ID`.
    pub model: Option<String>,
    /// Internal hosts that `web_fetch` may use.
    pub web_fetch: AllowedHosts,
    /// The MCP servers.
    pub mcp: Vec<ServerConfig>,
    /// True if commands run without a sandbox.
    pub without_sandbox: bool,
    /// The permission rules.
    pub rules: PermissionRules,
    /// The calls that the user has allowed for good, by workspace.
    pub workspaces: Vec<(PathBuf, PermissionRules)>,
    /// The limits of a run tree.
    pub tree_limits: TreeLimits,
    /// The hooks.
    pub hooks: HookSet,
    /// Settings of Claude Code whose hooks are to be read, too: paths as the user wrote them.
    pub claude_settings: Vec<String>,
    /// The side work of main runs.
    pub side_work: SideWork,
    /// False if requests do not ask for summaries of a model's thoughts.
    pub thinking_summaries: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    hooks: Option<Spanned<HookTables>>,
    model: Option<String>,
    thinking_summaries: Option<bool>,
    sandbox: Option<Spanned<Sandbox>>,
    permissions: Option<Permissions>,
    providers: Option<Spanned<toml::Table>>,
    web_fetch: Option<Spanned<WebFetch>>,
    mcp: Option<Spanned<mcp::ServerTables>>,
    sub_agents: Option<Spanned<SubAgents>>,
    side_work: Option<Spanned<SideWorkTable>>,
    #[serde(default)]
    workspace: Vec<Spanned<WorkspaceRules>>,
}

/// Rules for one workspace, as the answer `always` adds them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkspaceRules {
    path: PathBuf,
    allow: Vec<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SubAgents {
    at_once: Option<Spanned<usize>>,
    requests: Option<Spanned<usize>>,
    width: Option<u64>,
    depth: Option<u32>,
    max_budget_usd: Option<Spanned<f64>>,
    max_budget_tokens: Option<u64>,
}

impl SubAgents {
    /// Applies the settings. An error has its position, its text, and a valid setting.
    fn apply(&self, tree_limits: &mut TreeLimits) -> Result<(), (usize, String, String)> {
        for (name, said, known) in [
            ("at_once", &self.at_once, &mut tree_limits.max_running),
            ("requests", &self.requests, &mut tree_limits.max_requests),
        ] {
            let Some(said) = said else { continue };
            if *said.get_ref() == 0 {
                let why = format!("`{name}` must be at least 1");
                return Err((said.span().start, why, format!("{name} = {known}")));
            }
            *known = *said.get_ref();
        }
        tree_limits.max_children = self.width.unwrap_or(tree_limits.max_children);
        tree_limits.max_depth = self.depth.unwrap_or(tree_limits.max_depth);
        tree_limits.max_budget_tokens = self.max_budget_tokens.or(tree_limits.max_budget_tokens);
        if let Some(usd) = &self.max_budget_usd {
            let amount = *usd.get_ref();
            if !(amount.is_finite() && amount > 0.0 && amount < 1e6) {
                let why = format!("a budget must be a number of dollars above 0: {amount}");
                return Err((usd.span().start, why, "max_budget_usd = 0.50".to_owned()));
            }
            tree_limits.max_budget_microusd = Some((amount * 1e6).round() as i64);
        }
        Ok(())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WebFetch {
    #[serde(default)]
    allow: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Permissions {
    #[serde(default)]
    allow: Vec<Spanned<String>>,
    #[serde(default)]
    ask: Vec<Spanned<String>>,
    #[serde(default)]
    deny: Vec<Spanned<String>>,
}

impl Permissions {
    /// Reads the rules. An error has its position and its text.
    fn rules(&self) -> Result<PermissionRules, (usize, String)> {
        let mut rules = PermissionRules::default();
        for (list, texts) in
            [(RuleList::Allow, &self.allow), (RuleList::Ask, &self.ask), (RuleList::Deny, &self.deny)]
        {
            for text in texts {
                rules.add(list, text.get_ref()).map_err(|why| (text.span().start, why))?;
            }
        }
        Ok(rules)
    }
}

/// The setting `sandbox`.
#[derive(Clone, Copy, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Sandbox {
    On,
    Off,
}

impl RunDefaults {
    /// Adds the settings of the user's own file. Its providers are read by
    /// [`ProviderConfig::read`](crate::provider::ProviderConfig::read).
    pub fn merge_user_file(&mut self, text: &str, file: &Path) -> Result<(), ConfigError> {
        let parsed = parse(text, file)?;
        if let Some(web_fetch) = parsed.web_fetch {
            let at = web_fetch.span().start;
            let more = AllowedHosts::parse(&web_fetch.get_ref().allow);
            self.web_fetch.extend(more.map_err(|why| mistake(text, file, at, why))?);
        }
        if let Some(servers) = parsed.mcp {
            let at = servers.span().start;
            let more =
                mcp::read_servers(servers.into_inner()).map_err(|(at, why)| mistake(text, file, at, why))?;
            self.mcp.retain(|known| more.iter().all(|server| server.name != known.name));
            self.mcp.extend(more);
            if let Some(why) = mcp::ambiguous_names(&self.mcp) {
                return Err(mistake(text, file, at, why));
            }
        }
        if let Some(tables) = parsed.hooks {
            let tables = tables.into_inner();
            self.hooks.extend(tables.hooks(file).map_err(|(at, why)| mistake(text, file, at, why))?);
            self.claude_settings.extend(tables.claude_settings);
        }
        self.rules.extend(permissions(parsed.permissions.as_ref(), text, file)?);
        for workspace in parsed.workspace {
            let WorkspaceRules { path, allow } = workspace.into_inner();
            let mut rules = PermissionRules::default();
            for rule in &allow {
                let added = rules.add_always(rule.get_ref());
                added.map_err(|why| mistake(text, file, rule.span().start, why))?;
            }
            self.workspaces.push((path, rules));
        }
        self.model = parsed.model.or(self.model.take());
        self.thinking_summaries = parsed.thinking_summaries.or(self.thinking_summaries);
        if let Some(sub_agents) = parsed.sub_agents {
            let said = sub_agents.get_ref().apply(&mut self.tree_limits);
            said.map_err(|(at, why, hint)| {
                let (file, line) = (file.to_owned(), line(text, at));
                ConfigError::File { file, line, why, hint: Some(hint) }
            })?;
        }
        if let Some(side_work) = parsed.side_work {
            let said = side_work.get_ref().apply(&mut self.side_work);
            said.map_err(|(at, why, hint)| {
                let (file, line) = (file.to_owned(), line(text, at));
                ConfigError::File { file, line, why, hint: Some(hint) }
            })?;
        }
        if let Some(sandbox) = parsed.sandbox {
            self.without_sandbox = *sandbox.get_ref() == Sandbox::Off;
        }
        Ok(())
    }

    /// Returns the rules for a folder: those of everywhere, and what the user has allowed there for good.
    pub fn rules_in(&self, folder: &Path) -> PermissionRules {
        let mut rules = self.rules.clone();
        let here = self.workspaces.iter().filter(|(path, _)| path == folder);
        here.for_each(|(_, more)| rules.extend(more.clone()));
        rules
    }

    /// Adds the settings of a project's file that the user has accepted. It may set everything but the sandbox and the rules for
    /// workspaces. Its hooks run in the sandbox.
    pub fn merge_accepted_project_file(&mut self, text: &str, file: &Path) -> Result<(), ConfigError> {
        let parsed = parse(text, file)?;
        no_sandbox(&parsed.sandbox, text, file)?;
        no_workspaces(&parsed.workspace, text, file)?;
        if let Some(tables) = parsed.hooks {
            let (at, tables) = (tables.span().start, tables.into_inner());
            if tables.leaves_sandbox() || !tables.claude_settings.is_empty() {
                let why = "hooks of a project run in the sandbox, and name no other settings";
                return Err(mistake(text, file, at, why.to_owned()));
            }
        }
        let own = (std::mem::take(&mut self.hooks), std::mem::take(&mut self.claude_settings));
        self.merge_user_file(text, file)?;
        let theirs = std::mem::replace(&mut self.hooks, own.0).into_project_hooks();
        self.hooks.extend(theirs);
        self.claude_settings = own.1;
        Ok(())
    }

    /// Adds the hooks of settings of Claude Code: the user's own, or those of a project that the user has accepted. Returns what
    /// is not used.
    pub fn merge_claude_hooks(
        &mut self,
        text: &str,
        file: &Path,
        is_project: bool,
    ) -> Result<Vec<UnusedHook>, ConfigError> {
        let read = HookSet::read_claude(text, file);
        let (hooks, unused) = read.map_err(|(line, why)| ConfigError::File {
            file: file.to_owned(),
            line,
            why,
            hint: Some(format!("jq .hooks {}", file.display())),
        })?;
        self.hooks.extend(if is_project { hooks.into_project_hooks() } else { hooks });
        Ok(unused)
    }

    /// Adds the settings of a project's file: it may choose a model and restrict permissions, and nothing else.
    pub fn merge_project_file(&mut self, text: &str, file: &Path) -> Result<(), ConfigError> {
        let parsed = parse(text, file)?;
        let own = |what: &str, table: &str, at: usize| {
            let why = format!("a project cannot set {what}: put `[{table}]` into your own `offshoot.toml`");
            Err(not_accepted(text, file, at, why))
        };
        if let Some(providers) = parsed.providers {
            return own("providers", "providers", providers.span().start);
        }
        if let Some(web_fetch) = parsed.web_fetch {
            return own("allowed hosts", "web_fetch", web_fetch.span().start);
        }
        if let Some(servers) = parsed.mcp {
            return own("MCP servers", "mcp", servers.span().start);
        }
        if let Some(hooks) = parsed.hooks {
            return own("hooks", "hooks", hooks.span().start);
        }
        if let Some(sub_agents) = parsed.sub_agents {
            return own("limits of sub-agents", "sub_agents", sub_agents.span().start);
        }
        if let Some(side_work) = parsed.side_work {
            return own("side work", "side_work", side_work.span().start);
        }
        // A project may deny, but not allow.
        if let Some(allowed) = parsed.permissions.as_ref().and_then(|permissions| permissions.allow.first()) {
            let why = "a project cannot allow anything: put `allow` into your own `offshoot.toml`";
            return Err(not_accepted(text, file, allowed.span().start, why.to_owned()));
        }
        self.rules.extend(permissions(parsed.permissions.as_ref(), text, file)?.into_project_rules());
        no_sandbox(&parsed.sandbox, text, file)?;
        no_workspaces(&parsed.workspace, text, file)?;
        self.model = parsed.model.or(self.model.take());
        self.thinking_summaries = parsed.thinking_summaries.or(self.thinking_summaries);
        Ok(())
    }
}

fn no_sandbox(said: &Option<Spanned<Sandbox>>, text: &str, file: &Path) -> Result<(), ConfigError> {
    let Some(sandbox) = said else { return Ok(()) };
    let why = "a project cannot change the sandbox: put `sandbox` into your own `offshoot.toml`";
    Err(mistake(text, file, sandbox.span().start, why.to_owned()))
}

fn no_workspaces(said: &[Spanned<WorkspaceRules>], text: &str, file: &Path) -> Result<(), ConfigError> {
    let Some(workspace) = said.first() else { return Ok(()) };
    let why = "a project cannot set rules for workspaces: put `[[workspace]]` into your own `offshoot.toml`";
    Err(mistake(text, file, workspace.span().start, why.to_owned()))
}

fn permissions(said: Option<&Permissions>, text: &str, file: &Path) -> Result<PermissionRules, ConfigError> {
    let Some(permissions) = said else { return Ok(PermissionRules::default()) };
    permissions.rules().map_err(|(at, why)| mistake(text, file, at, why))
}

fn parse(text: &str, file: &Path) -> Result<File, ConfigError> {
    toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        mistake(text, file, at, error.message().trim().to_owned())
    })
}

/// Creates the error for a setting that needs an accepted file.
fn not_accepted(text: &str, file: &Path, at: usize, why: String) -> ConfigError {
    ConfigError::NotAccepted { file: file.to_owned(), line: line(text, at), why }
}

fn line(text: &str, at: usize) -> usize {
    text[..at.min(text.len())].matches('\n').count() + 1
}

fn mistake(text: &str, file: &Path, at: usize, why: String) -> ConfigError {
    ConfigError::File { file: file.to_owned(), line: line(text, at), why, hint: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_chooses_a_model_and_no_provider() {
        let file = Path::new("offshoot.toml");
        let mut defaults = RunDefaults::default();
        defaults
            .merge_user_file("model = \"opus\"\n[providers.x]\ndialect = \"anthropic\"", file)
            .expect("the user's own");
        defaults.merge_project_file("", file).expect("nothing is said");
        assert_eq!(defaults.model.as_deref(), Some("opus"));
        defaults.merge_project_file("model = \"haiku\"", file).expect("a model");
        assert_eq!(defaults.model.as_deref(), Some("haiku"));
        let error = defaults
            .merge_project_file("\n[providers.x]\nbase_url = \"http://evil\"", file)
            .expect_err("a key's way");
        assert!(error.to_string().contains("line 2"), "{error}");
    }

    #[test]
    fn only_the_user_switches_the_sandbox_off() {
        let file = Path::new("offshoot.toml");
        let mut defaults = RunDefaults::default();
        for (text, without) in [("", false), ("sandbox = \"on\"", false), ("sandbox = \"off\"", true)] {
            defaults.merge_user_file(text, file).expect("the user's own");
            assert_eq!(defaults.without_sandbox, without, "{text}");
        }
        let error =
            RunDefaults::default().merge_project_file("sandbox = \"off\"", file).expect_err("a project");
        assert!(error.to_string().contains("your own"), "{error}");
        RunDefaults::default().merge_user_file("sandbox = \"maybe\"", file).expect_err("no such word");
    }

    #[test]
    fn a_limit_of_zero_is_named_with_a_valid_one() {
        for name in ["at_once", "requests"] {
            let text = format!("model = \"opus\"\n[sub_agents]\n{name} = 0");
            let error =
                RunDefaults::default().merge_user_file(&text, Path::new("o.toml")).expect_err("nobody works");
            let wanted = format!("`o.toml`, line 3: `{name}` must be at least 1");
            assert_eq!(error.to_string(), wanted);
            assert_eq!(error.hint(), Some(format!("{name} = 16")));
        }
    }

    #[test]
    fn an_unknown_key_is_named() {
        let error = RunDefaults::default()
            .merge_user_file("modle = \"opus\"", Path::new("o.toml"))
            .expect_err("a typo");
        assert!(error.to_string().contains("modle") && error.to_string().contains("line 1"), "{error}");
    }
}
