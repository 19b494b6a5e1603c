//! Tools: the interface, its inputs and outputs, and the set of tools that a run has.

mod caller;
mod start_order;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use session::Block;
use wire::dialect::ToolSpec;

use crate::definition::Skill;
use crate::fence;
use crate::future::BoxFuture;
use crate::permission::{Decision, PermissionRules};
use crate::shell::Processes;
use crate::workspace::Workspace;
pub(crate) use caller::{CallingRun, ChildEnd, SubAgentRequest};
pub(crate) use start_order::{StartSlot, start_slots};
pub use store::{Digest, Policy, SeenFile};

/// A tool: its description for the model, and its implementation.
pub trait Tool: Send + Sync {
    /// Returns the name by which the model calls it.
    fn name(&self) -> &str;

    /// Returns the description for the model.
    fn description(&self) -> &str;

    /// Returns the JSON schema of its input, as compact JSON.
    fn schema(&self) -> &str;

    /// Returns what may be done with a call that was started and never finished.
    fn policy(&self) -> Policy;

    /// Returns the MCP server that offers it.
    fn server(&self) -> Option<&str> {
        None
    }

    /// Returns the time limit of a call.
    fn deadline(&self) -> Duration {
        Duration::from_secs(120)
    }

    /// Returns whether a call only waits for other runs. It gives its run's slot to them meanwhile.
    fn is_waiting_call(&self) -> bool {
        false
    }

    /// Returns whether a call may start a run, which is named after the call.
    fn starts_runs(&self) -> bool {
        false
    }

    /// Returns whether a call ends another run. Such calls are made one at a time, so that later calls see the effect.
    fn ends_runs(&self) -> bool {
        false
    }

    /// Returns whether only an agent that may start sub-agents has the tool.
    fn needs_sub_agents(&self) -> bool {
        false
    }

    /// Returns whether only the main agent has the tool.
    fn is_main_only(&self) -> bool {
        false
    }

    /// Executes a call. `input` is a JSON object. Failures are results, too: the model acts on them.
    fn call<'a>(
        &'a self,
        input: &'a serde_json::Value,
        context: &'a ToolContext,
    ) -> BoxFuture<'a, ToolOutput>;
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolOutput {
    /// The answer.
    pub blocks: Vec<Block>,
    /// True if the call failed.
    pub is_error: bool,
    /// Files that the agent knows from now on, with their digests.
    pub seen: Vec<SeenFile>,
    /// The job whose end the answer reports, so that it is not reported again.
    pub fetches: Option<session::RunId>,
    /// True if the effect of the call is unknown.
    pub is_uncertain: bool,
}

impl ToolOutput {
    /// Creates an answer from text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            blocks: vec![Block::Text { text: text.into() }],
            is_error: false,
            seen: Vec::new(),
            fetches: None,
            is_uncertain: false,
        }
    }

    /// Creates a failure: the reason, and what the model can do about it.
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }

    /// Creates a failure after which it is unknown if the call had an effect.
    pub fn uncertain(text: impl Into<String>) -> Self {
        Self { is_uncertain: true, ..Self::error(text) }
    }

    /// Marks the answer as the report of a job's end.
    pub(crate) fn fetching(mut self, job: session::RunId) -> Self {
        self.fetches = Some(job);
        self
    }

    /// Adds a file that the agent knows from now on.
    pub(crate) fn seeing(mut self, path: PathBuf, sha256: Digest) -> Self {
        self.seen.push(SeenFile { path, sha256 });
        self
    }
}

/// The surroundings of a call.
#[derive(Clone)]
pub struct ToolContext {
    /// The files that it may touch.
    pub workspace: Arc<Workspace>,
    /// The files that its agent knows, with their digests.
    pub seen: Arc<BTreeMap<PathBuf, Digest>>,
    /// The running commands of its run tree.
    pub processes: Arc<Processes>,
    /// The time.
    pub now: jiff::Zoned,
    /// The journal.
    pub store: store::Store,
    /// The thread.
    pub thread: session::ThreadId,
    /// The key of the call. Names derived from it are the same when the call is repeated.
    pub call: store::CallKey,
    /// The model's id of the call.
    pub call_id: session::CallId,
    /// The permission rules of the run. The strictest one counts.
    pub rules: Vec<Arc<PermissionRules>>,
    /// The available skills.
    pub skills: Arc<[Skill]>,
    /// The run that makes the call. `None` when a tool is tested by itself.
    pub(crate) caller: Option<Arc<dyn CallingRun>>,
    /// The place of the call among those that start runs.
    pub(crate) start_slot: Option<Arc<StartSlot>>,
}

impl ToolContext {
    /// Judges a call by the permission rules. The strictest rule wins.
    pub(crate) fn judge(&self, tool: &str, input: &serde_json::Value) -> Decision {
        let judged = self.rules.iter().map(|rules| rules.judge(tool, input, &self.workspace));
        judged.fold(Decision::Allow, Decision::and)
    }

    /// Returns the time in the journal's unit.
    pub(crate) fn at(&self) -> store::Millis {
        store::Millis(self.now.timestamp().as_millisecond())
    }

    /// Formats a time in the user's time zone.
    pub(crate) fn moment(&self, at: store::Millis) -> String {
        let zone = self.now.time_zone().clone();
        let at = jiff::Timestamp::from_millisecond(at.0).unwrap_or_default();
        at.to_zoned(zone).strftime("%Y-%m-%d %H:%M").to_string()
    }
}

/// The tools of a run, in the order in which they are sent to the model.
pub struct Toolbox(Vec<Arc<dyn Tool>>);

impl Toolbox {
    /// Creates a toolbox with these tools.
    pub fn new(tools: Vec<Box<dyn Tool>>) -> Self {
        Self(tools.into_iter().map(Arc::from).collect())
    }

    /// Returns a toolbox with the named tools only. `None` keeps all.
    pub(crate) fn only(&self, names: Option<&[String]>) -> Self {
        let wanted = |tool: &&Arc<dyn Tool>| names.is_none_or(|names| names.iter().any(|n| n == tool.name()));
        Self(self.0.iter().filter(wanted).cloned().collect())
    }

    /// Returns the tools in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &dyn Tool> {
        self.0.iter().map(Arc::as_ref)
    }

    /// Returns the tool with that name.
    pub(crate) fn find(&self, name: &str) -> Option<&dyn Tool> {
        self.iter().find(|tool| tool.name() == name)
    }

    /// Returns the names of the tools in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|tool| tool.name())
    }

    /// Returns the descriptions for the model.
    pub(crate) fn specs(&self) -> Vec<ToolSpec> {
        let spec = |tool: &dyn Tool| ToolSpec {
            name: tool.name().to_owned(),
            description: tool.description().to_owned(),
            schema: tool.schema().to_owned(),
        };
        self.iter().map(spec).collect()
    }

    /// Returns the names of the MCP servers that offer some of the tools.
    pub(crate) fn servers(&self) -> BTreeSet<&str> {
        self.iter().filter_map(|tool| tool.server()).collect()
    }

    /// Returns what may be done with an unfinished call of a tool. A missing tool has no effect.
    pub(crate) fn policy(&self, name: &str) -> Policy {
        self.find(name).map_or(Policy::Pure, |tool| tool.policy())
    }

    /// Returns the time limit of a call of a tool.
    pub(crate) fn deadline(&self, name: &str) -> Duration {
        self.find(name).map_or(Duration::from_secs(1), Tool::deadline)
    }

    /// Calls a tool. A missing tool or an invalid input is an answer for the model to act on.
    pub(crate) async fn call(&self, name: &str, input: &[u8], context: &ToolContext) -> ToolOutput {
        let Some(tool) = self.find(name) else {
            let names: Vec<&str> = self.names().collect();
            return ToolOutput::error(format!("no tool `{name}`; available: {}", names.join(", ")));
        };
        let input: &[u8] = if input.is_empty() { b"{}" } else { input };
        match serde_json::from_slice::<serde_json::Value>(input) {
            Ok(input) if input.is_object() => {
                let output = tool.call(&input, context).await;
                ToolOutput { blocks: fence::inert(output.blocks), ..output }
            }
            Ok(_) => ToolOutput::error(format!("the input of `{name}` must be a JSON object")),
            Err(error) => ToolOutput::error(format!("the input of `{name}` is not JSON: {error}")),
        }
    }
}
