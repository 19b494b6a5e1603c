//! Opens the journal, and finds the run to resume, the agent, and the permission rules.

use std::path::{Path, PathBuf};

use agent::{PermissionRules, RuleList, RunError, RunSettings, Workspace};
use store::{Run, Store};

use super::Args;
use super::failure::failure;
use super::options::{RunOptions, StartMode};
use super::selection::AgentSelection;
use crate::failure::{ExitKind, OrFail};
use crate::journal;

/// The journal with the run to work on.
pub(super) struct OpenRun {
    pub(super) store: Store,
    pub(super) mode: StartMode,
    /// The run to resume or to fork.
    pub(super) row: Option<Run>,
    /// The folder to work in.
    pub(super) folder: PathBuf,
    /// Rules of the command line and of the earlier run.
    pub(super) rules: PermissionRules,
    pub(super) agent: AgentSelection,
}

impl OpenRun {
    /// Opens the journal and the definitions.
    pub(super) fn open(options: &RunOptions) -> anyhow::Result<Self> {
        let args = &options.args;
        let store = journal::open()?;
        let (mode, run) = match (&args.resume, &args.fork_of) {
            (Some(run), _) => (StartMode::Resume, Some(run)),
            (None, Some(run)) => (StartMode::Fork, Some(run)),
            (None, None) => (StartMode::New, None),
        };
        let run = run.map(|run| journal::find_run(&store, run)).transpose()?;
        let row = run.map(|run| store.run(&run).row()).transpose().or_fail(ExitKind::Outside)?;
        if let (Some(_), Some(row)) = (options.max_budget_microusd, &row)
            && session::model::price(&row.model).is_none()
        {
            return Err(failure(RunError::UnknownPrice(row.model.clone())));
        }
        let folder = folder(row.as_ref())?;
        let rules = permission_rules(args, row.as_ref())?;
        let agent = AgentSelection::find(&folder, args.agent.as_deref(), options.prompt.clone(), mode)?;
        if let (StartMode::Resume, true, Some(row)) = (mode, agent.is_fork(), &row) {
            status!("the command has `context: fork`: it runs in a fork, and run {} stays as it is", row.id);
        }
        let mode = if agent.is_fork() { StartMode::Fork } else { mode };
        Ok(Self { store, mode, row, folder, rules, agent })
    }
}

/// Returns the folder of the earlier run, or the current one. A fork works in the folder of its parent.
fn folder(row: Option<&Run>) -> anyhow::Result<PathBuf> {
    match row.and_then(|row| RunSettings::from_bytes(&row.settings).ok()) {
        Some(settings) => Ok(PathBuf::from(settings.workspace)),
        None => std::env::current_dir().or_fail(ExitKind::Usage),
    }
}

/// Opens the folder for tools.
pub(super) fn workspace(folder: &Path) -> anyhow::Result<Workspace> {
    Workspace::open(folder).or_fail_with(ExitKind::Usage, || format!("ls -ld {}", folder.display()))
}

/// Returns the deny rules of the command line. They are stored with the run and apply when it is resumed.
pub(super) fn deny_rules(args: &Args) -> Vec<(RuleList, String)> {
    args.permissions.deny.iter().map(|rule| (RuleList::Deny, rule.clone())).collect()
}

/// Collects the rules of the command line, and the ask and deny rules of the earlier run's command line. The other rules of its agent are stored
/// with the run.
fn permission_rules(args: &Args, row: Option<&Run>) -> anyhow::Result<PermissionRules> {
    let mut rules = PermissionRules::default();
    let given = &args.permissions;
    for (list, flag, given) in [
        (RuleList::Allow, "--allow", &given.allow),
        (RuleList::Ask, "--ask", &given.ask),
        (RuleList::Deny, "--deny", &given.deny),
    ] {
        for rule in given {
            let added = rules.add(list, rule).map_err(|why| anyhow::anyhow!("{flag}: {why}"));
            added.or_fail_with(ExitKind::Usage, || format!("{flag} 'bash(git diff:*)'"))?;
        }
    }
    let settings = row.and_then(|row| RunSettings::from_bytes(&row.settings).ok());
    for settings in settings.iter() {
        let denied = settings.rules.iter().filter(|(list, _)| *list == RuleList::Deny);
        let asked = settings.ask.iter().map(|rule| (RuleList::Ask, rule));
        for (list, rule) in denied.map(|(list, rule)| (*list, rule)).chain(asked) {
            rules.add(list, rule).map_err(anyhow::Error::msg).or_fail(ExitKind::Bug)?;
        }
    }
    Ok(rules)
}
