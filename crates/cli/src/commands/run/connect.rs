//! Connects the provider, the tool servers and the output, and builds the kernel from them.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent::{
    Approver, Kernel, NoApprover, PermissionRules, ShellConfig, Tool, ToolServers, Toolbox, TreeLimits, tools,
};
use store::Run;

use super::board::Board;
use super::failure::failure;
use super::open::{OpenRun, workspace};
use super::options::{RunOptions, StartMode};
use super::output::{DeferredPause, JsonOutput, OutputError, TextOutput};
use super::prior_requests::prior_requests;
use super::provider::ProviderConnection;
use super::question::TerminalAsker;
use super::selection::AgentSelection;
use super::{Args, EventScope};
use crate::failure::{ExitKind, OrFail};
use crate::paths;
use crate::signals::Signals;

/// Everything that a run is connected to.
pub(super) struct Connection {
    pub(super) mode: StartMode,
    /// The run to resume or to fork.
    pub(super) row: Option<Run>,
    pub(super) agent: AgentSelection,
    pub(super) provider: ProviderConnection,
    pub(super) servers: ToolServers,
    pub(super) kernel: Kernel,
    pub(super) board: Board,
    pub(super) events: Arc<DeferredPause>,
    pub(super) output_error: OutputError,
}

impl Connection {
    /// Connects everything. Returns `None` if a signal came first.
    pub(super) async fn start(
        options: &RunOptions,
        open: OpenRun,
        signals: &mut Signals,
    ) -> anyhow::Result<Option<Self>> {
        let args = &options.args;
        let OpenRun { store, mode, row, folder, rules: given_rules, agent } = open;
        let workspace = workspace(&folder)?;
        let cached = match (args.script.cache_sim, &row) {
            (true, Some(row)) => Some(prior_requests(&store, row)?),
            (is_simulated, _) => is_simulated.then(Vec::new),
        };
        let provider =
            ProviderConnection::prepare(args, &folder, row.as_ref(), agent.model(), cached).await?;
        if let (StartMode::Resume, Some(row)) = (mode, &row) {
            provider.restore(&store, &row.id).map_err(failure)?;
        }
        let paths = crate::definitions::server_paths(&folder)?;
        let mut servers = tokio::select! {
            servers = ToolServers::start(&provider.defaults.mcp, &paths) => servers,
            _ = signals.next() => {
                provider.discard().await;
                return Ok(None);
            }
        };
        let mut rules = provider.defaults.rules_in(workspace.path());
        rules.extend(given_rules);
        let tools = servers.add_to(tools::available(provider.defaults.web_fetch.clone()));
        print_warnings(&rules, &tools, &servers);
        let (board, output_error) = (Board::new(), OutputError::default());
        let events = Arc::new(event_sink(args, &board, &output_error));
        let rules = Arc::new(rules);
        let asker = asker(args.output.json, &board, workspace.path());
        let kernel = Kernel {
            workspace: Arc::new(workspace.with_hidden(&own_folders()).with_rules(Arc::clone(&rules))),
            model: provider.model(),
            backoff: Arc::default(),
            cache_warmup: Arc::default(),
            tools: Arc::new(Toolbox::new(tools)),
            skills: Arc::clone(&agent.skills),
            folder_skills: Some(Arc::clone(&agent.folder_skills)),
            agents: Arc::clone(&agent.agents),
            tiers: Arc::new(provider.tiers.clone()),
            thinking_summaries: provider.defaults.thinking_summaries.unwrap_or(true),
            tree_limits: TreeLimits {
                leave_jobs: args.leave_jobs,
                ask_for_background: args.permissions.ask_for_background,
                ..provider.defaults.tree_limits.clone()
            },
            shell: shell(provider.defaults.without_sandbox)?,
            hooks: Arc::new(provider.defaults.hooks.clone()),
            asker,
            rules,
            clock: options.clock.clone(),
            recent_before: options.recorded_at,
            store,
            events: events.clone(),
        };
        Ok(Some(Self { mode, row, agent, provider, servers, kernel, board, events, output_error }))
    }
}

fn print_warnings(rules: &PermissionRules, tools: &[Box<dyn Tool>], servers: &ToolServers) {
    let names: Vec<&str> = tools.iter().map(|tool| tool.name()).collect();
    for rule in rules.unmatched(&names) {
        warning!("rule `{}` matches no available tool", report::plain(rule));
    }
    for complaint in &servers.warnings {
        status!("{}", report::plain(complaint));
    }
}

fn event_sink(args: &Args, board: &Board, output_error: &OutputError) -> DeferredPause {
    match args.output.json {
        true => {
            let is_all = args.output.events == EventScope::All;
            DeferredPause::before(JsonOutput::new(is_all, output_error.clone()))
        }
        false => DeferredPause::before(TextOutput::new(board.clone(), output_error.clone())),
    }
}

/// Commands are started by this program, and cannot read the journal or the settings.
fn shell(without_sandbox: bool) -> anyhow::Result<ShellConfig> {
    let launcher = Some(std::env::current_exe().or_fail(ExitKind::Outside)?);
    Ok(ShellConfig { launcher, without_sandbox, hidden: own_folders() })
}

/// Returns the user at the terminal, who answers questions of permission rules.
fn asker(is_json: bool, board: &Board, workspace: &Path) -> Arc<dyn Approver> {
    match !is_json && std::io::stdin().is_terminal() && std::io::stderr().is_terminal() {
        true => Arc::new(TerminalAsker { board: board.clone(), workspace: workspace.to_owned() }),
        false => Arc::new(NoApprover),
    }
}

/// Returns the folders of the journal, the settings and the installed programs.
fn own_folders() -> Vec<PathBuf> {
    [paths::data_dir(), paths::config_dir(), paths::cache_dir()].into_iter().filter_map(Result::ok).collect()
}
