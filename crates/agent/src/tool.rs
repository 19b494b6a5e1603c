//! What a model may call.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use session::Block;
use wire::dialect::ToolSpec;

use crate::permission::Judgement;
pub use store::{Digest, Policy, SeenFile};

/// Something that takes time.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A tool: what the model is told of it, and what it does.
pub trait Tool: Send + Sync {
    /// As the model calls it.
    fn name(&self) -> &str;

    /// What it is for, in words for the model.
    fn description(&self) -> &str;

    /// The JSON schema of its input, as compact JSON.
    fn schema(&self) -> &str;

    /// What may be done with a call that was started and never finished.
    fn policy(&self) -> Policy;

    /// The tool server that it comes from, where it comes from one.
    fn server(&self) -> Option<&str> {
        None
    }

    /// After how long a call is given up.
    fn deadline(&self) -> Duration {
        Duration::from_secs(120)
    }

    /// It only waits for others that work by themselves.
    fn waits(&self) -> bool {
        false
    }

    /// Does it. `input` is a JSON object; whatever goes wrong is an answer for the model to act on.
    fn call<'a>(
        &'a self,
        input: &'a serde_json::Value,
        context: &'a ToolContext,
    ) -> BoxFuture<'a, ToolOutput>;
}

/// What a tool answers.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolOutput {
    /// The answer.
    pub blocks: Vec<Block>,
    /// The tool could not do what was asked.
    pub is_error: bool,
    /// The files that the agent knows from now on as they are.
    pub seen: Vec<SeenFile>,
    /// The job whose end it tells, so that nobody needs to tell it again.
    pub fetches: Option<session::RunId>,
    /// Nobody knows whether it was done.
    pub is_uncertain: bool,
}

impl ToolOutput {
    /// An answer in words.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            blocks: vec![Block::Text { text: text.into() }],
            is_error: false,
            seen: Vec::new(),
            fetches: None,
            is_uncertain: false,
        }
    }

    /// Why it could not be done, and what the model can do about it.
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }

    /// Why nobody knows whether it was done, and what the model can do about it.
    pub fn uncertain(text: impl Into<String>) -> Self {
        Self { is_uncertain: true, ..Self::error(text) }
    }

    /// The same answer, which tells how that job ended.
    pub(crate) fn fetching(mut self, job: session::RunId) -> Self {
        self.fetches = Some(job);
        self
    }

    /// The same answer, from which the agent knows that file as it is.
    pub(crate) fn seeing(mut self, path: PathBuf, sha256: Digest) -> Self {
        self.seen.push(SeenFile { path, sha256 });
        self
    }
}

/// Where a call takes place.
#[derive(Clone)]
pub struct ToolContext {
    /// The files it may touch.
    pub workspace: Arc<crate::Workspace>,
    /// The files that its agent knows, as it knows them.
    pub seen: Arc<BTreeMap<PathBuf, Digest>>,
    /// What its tree has running.
    pub processes: Arc<crate::Processes>,
    /// What the clock says.
    pub now: jiff::Zoned,
    /// The journal.
    pub store: store::Store,
    /// The conversation.
    pub thread: session::ThreadId,
    /// The call itself: what it makes can be named after it, so that making it again is the same.
    pub call: store::CallKey,
    /// What the model calls it.
    pub call_id: session::CallId,
    /// Permission rules of the run. The strictest one counts.
    pub rules: Vec<Arc<crate::Rules>>,
    /// What there are instructions for.
    pub skills: Arc<[crate::Skill]>,
    /// The run that calls; nobody's where a tool is tried by itself.
    pub(crate) run: Option<Arc<crate::run::Run>>,
    /// When it may start another run, where it can.
    pub(crate) turn: Option<Arc<crate::turns::Turn>>,
}

impl ToolContext {
    /// Now, as the journal counts.
    pub(crate) fn at(&self) -> store::Millis {
        store::Millis(self.now.timestamp().as_millisecond())
    }

    /// Judges a call by the permission rules. The strictest rule wins.
    pub(crate) fn judge(&self, tool: &str, input: &serde_json::Value) -> Judgement {
        let judged = self.rules.iter().map(|rules| rules.judge(tool, input, &self.workspace));
        judged.fold(Judgement::Allow, Judgement::and)
    }

    /// A moment, as the user's clock shows it.
    pub(crate) fn moment(&self, at: store::Millis) -> String {
        let zone = self.now.time_zone().clone();
        let at = jiff::Timestamp::from_millisecond(at.0).unwrap_or_default();
        at.to_zoned(zone).strftime("%Y-%m-%d %H:%M").to_string()
    }
}

/// The tools of a run, in the order in which the model is told of them.
pub struct Toolbox(Vec<Arc<dyn Tool>>);

impl Toolbox {
    /// These tools.
    pub fn new(tools: Vec<Box<dyn Tool>>) -> Self {
        Self(tools.into_iter().map(Arc::from).collect())
    }

    /// The same without those that are not named; all of them where nothing is said.
    pub(crate) fn only(&self, names: Option<&[String]>) -> Self {
        let wanted = |tool: &&Arc<dyn Tool>| names.is_none_or(|names| names.iter().any(|n| n == tool.name()));
        Self(self.0.iter().filter(wanted).cloned().collect())
    }

    /// What they are called, in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|tool| tool.name())
    }

    /// What the model is told of them.
    pub(crate) fn specs(&self) -> Vec<ToolSpec> {
        let spec = |tool: &dyn Tool| ToolSpec {
            name: tool.name().to_owned(),
            description: tool.description().to_owned(),
            schema: tool.schema().to_owned(),
        };
        self.0.iter().map(|tool| spec(tool.as_ref())).collect()
    }

    /// The tool servers that they come from, by name.
    pub(crate) fn servers(&self) -> std::collections::BTreeSet<&str> {
        self.0.iter().filter_map(|tool| tool.server()).collect()
    }

    /// What may be done with an unfinished call of that tool. One that does not exist does nothing.
    pub(crate) fn policy(&self, name: &str) -> Policy {
        self.find(name).map_or(Policy::Pure, |tool| tool.policy())
    }

    /// After how long a call of that tool is given up.
    pub(crate) fn deadline(&self, name: &str) -> Duration {
        self.find(name).map_or(Duration::from_secs(1), Tool::deadline)
    }

    /// Whether that tool only waits for others.
    pub(crate) fn waits(&self, name: &str) -> bool {
        self.find(name).is_some_and(Tool::waits)
    }

    /// Calls a tool. A name or an input that cannot be is an answer for the model to act on.
    pub(crate) async fn call(&self, name: &str, input: &[u8], context: &ToolContext) -> ToolOutput {
        let Some(tool) = self.find(name) else {
            let names: Vec<&str> = self.0.iter().map(|tool| tool.name()).collect();
            return ToolOutput::error(format!("there is no tool `{name}`; there are: {}", names.join(", ")));
        };
        let input: &[u8] = if input.is_empty() { b"{}" } else { input };
        match serde_json::from_slice::<serde_json::Value>(input) {
            Ok(input) if input.is_object() => tool.call(&input, context).await,
            Ok(_) => ToolOutput::error(format!("the input of `{name}` must be a JSON object")),
            Err(error) => ToolOutput::error(format!("the input of `{name}` is not JSON: {error}")),
        }
    }

    fn find(&self, name: &str) -> Option<&dyn Tool> {
        self.0.iter().find(|tool| tool.name() == name).map(Arc::as_ref)
    }
}

/// A block of words.
pub(crate) fn text(text: &str) -> Block {
    Block::Text { text: text.to_owned() }
}
