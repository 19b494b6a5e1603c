//! The loop: the same for every agent, and small enough to be read at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use session::RunId;
use session::model;
use store::{RunKind, RunStatus, Store};

use crate::ask::{self, Asked};
use crate::cache_warmup::CacheWarmup;
use crate::calls;
use crate::clock::RunClock;
use crate::compact::compact;
use crate::conversation::Next;
use crate::definition::{Agent, Skill};
use crate::error::RunError;
use crate::event::{EventKind, EventSink};
use crate::jobs;
use crate::model::ModelClient;
use crate::permission::{Asker, List, Rules};
use crate::process::AtWork;
use crate::provider::{Backoff, FailureKind, ProviderFailure};
use crate::run::{End, Run};
use crate::settings::{RunLimits, RunSettings};
use crate::shell::ShellConfig;
use crate::stop::{StopHandle, StopRequest};
use crate::tool::Toolbox;
use crate::tree_limits::TreeLimits;
use crate::workspace::Workspace;

/// How often a run looks whether another process asks it to stop.
const LOOK: Duration = Duration::from_millis(200);

/// Everything that a run needs and that is not its own.
#[derive(Clone)]
pub struct Kernel {
    /// The journal.
    pub store: Store,
    /// Who is asked.
    pub model: Arc<dyn ModelClient>,
    /// How often.
    pub backoff: Arc<Backoff>,
    /// Which fork of a turn goes first.
    pub cache_warmup: Arc<CacheWarmup>,
    /// What may be called.
    pub tools: Arc<Toolbox>,
    /// What there are instructions for.
    pub skills: Arc<[Skill]>,
    /// Who can be asked to help.
    pub agents: Arc<[Agent]>,
    /// What the provider calls the model of each tier.
    pub tiers: Arc<BTreeMap<String, String>>,
    /// How far a tree of runs may grow.
    pub tree_limits: TreeLimits,
    /// The files.
    pub workspace: Arc<Workspace>,
    /// How commands are run.
    pub shell: ShellConfig,
    /// What may be done.
    pub rules: Arc<Rules>,
    /// Who is asked where the rules want it.
    pub asker: Arc<dyn Asker>,
    /// The time.
    pub clock: RunClock,
    /// Who is told.
    pub events: Arc<dyn EventSink>,
}

/// A run to start.
#[derive(Clone, Debug)]
pub struct StartRequest {
    /// Its id, where somebody wants a certain one.
    pub id: Option<RunId>,
    /// What the user says.
    pub prompt: String,
    /// The agent's name.
    pub agent: String,
    /// What it is told beside what every agent is told.
    pub instructions: Option<String>,
    /// The only tools it has; all of them where nothing is said.
    pub tools: Option<Vec<String>>,
    /// What its agent's description asks about and forbids, beside the kernel's own rules.
    pub rules: Vec<(List, String)>,
    /// The provider's name.
    pub provider: String,
    /// The model, as the provider calls it.
    pub model: String,
    /// How far it may go.
    pub limits: RunLimits,
}

/// How far a resumed run may go, where that is not what it was started with.
#[derive(Clone, Debug, Default)]
pub struct ResumeOverrides {
    /// How many replies before the last one, those counted that there were.
    pub max_steps: Option<u32>,
    /// What it may cost, what it has cost included.
    pub max_budget_microusd: Option<i64>,
    /// How many tokens it may use, those counted that it has used.
    pub max_budget_tokens: Option<u64>,
    /// Who answers from now on, where that is not who did.
    pub provider: Option<String>,
}

/// How a loop ended.
#[derive(Clone, Debug, PartialEq)]
pub struct RunOutcome {
    /// The run.
    pub run: RunId,
    /// Where it stands.
    pub status: RunStatus,
    /// Its last words.
    pub final_text: Option<String>,
    /// Why it could not go on.
    pub error: Option<String>,
    /// The failure behind it, where a provider's was.
    pub failure: Option<ProviderFailure>,
}

impl Kernel {
    /// Runs the loop of a run that was started or resumed here, until it ends or is told to stop.
    pub async fn run(
        &self,
        run: &RunId,
        more: &ResumeOverrides,
        stop_handle: &StopHandle,
    ) -> Result<RunOutcome, RunError> {
        let _alone = AtWork::on(&self.store, run)?;
        let mut row = self.store.run(run).row()?;
        row.provider = more.provider.clone().unwrap_or(row.provider);
        let mut settings = RunSettings::of(&row)?;
        settings.max_steps = more.max_steps.unwrap_or(settings.max_steps);
        settings.max_budget_microusd = more.max_budget_microusd.or(settings.max_budget_microusd);
        settings.max_budget_tokens = more.max_budget_tokens.or(settings.max_budget_tokens);
        if settings.max_budget_microusd.is_some() && model::price(&row.model).is_none() {
            return Err(RunError::UnknownPrice(row.model));
        }
        let kernel = Arc::new(self.for_run(&row));
        let run = Arc::new(Run::root(kernel, row, settings, stop_handle));
        let ended = tokio::select! {
            biased; // a cancel that was there before is seen before anything is done
            never = self.look_for_cancels(&run) => match never {},
            ended = go(&run) => ended,
        };
        run.tree.processes.end_all().await;
        ended.map_err(|(error, _)| error)
    }

    /// The same kernel for one run. A fork's journal goes on in memory where the disk cannot be written; every other run's
    /// is on the disk.
    pub fn for_run(&self, row: &store::Run) -> Self {
        match (row.kind, &row.parent) {
            (RunKind::Fork, Some(of)) => self.for_fork(&row.id, of),
            _ => self.clone(),
        }
    }

    /// The same kernel for a fork.
    pub(crate) fn for_fork(&self, run: &RunId, of: &RunId) -> Self {
        Self { store: self.store.for_fork(run, of), ..self.clone() }
    }

    /// Another process may have asked a run of the tree to stop; it can say so on the disk alone.
    async fn look_for_cancels(&self, root: &Run) -> std::convert::Infallible {
        let disk = self.store.on_disk();
        loop {
            for run in disk.run(&root.id).runs_to_cancel().unwrap_or_default() {
                match run == root.id {
                    true => root.stop_handle.request(StopRequest::Cancel),
                    false => root.tree.ask(&run, StopRequest::Cancel),
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Runs the loop of a run, and sees to it that its end is known, whatever it is.
pub(crate) async fn go(run: &Arc<Run>) -> Result<RunOutcome, (RunError, RunOutcome)> {
    run.tell(EventKind::Started {
        kind: run.kind,
        agent: run.agent.clone(),
        model: run.model.clone(),
        call: run.spawned_by.clone(),
        is_job: run.is_job(),
        prior: run.is_resumed.then(|| run.prior().unwrap_or_default()),
    });
    match agent_loop(run).await {
        Ok(ended) => Ok(ended),
        Err(error) => {
            let ended = run.broke_off(&error).await;
            Err((error, ended))
        }
    }
}

#[cfg(test)]
thread_local! {
    /// What happens in a test between a run's two looks: at who is at work, and at what waits for it.
    pub(crate) static BETWEEN: std::cell::RefCell<Option<Between>> = const { std::cell::RefCell::new(None) };
}

#[cfg(test)]
pub(crate) type Between = Box<dyn Fn(Arc<Run>) -> crate::tool::BoxFuture<'static, ()>>;

#[cfg(test)]
async fn between(run: &Arc<Run>) {
    let happens = BETWEEN.with_borrow(|between| between.as_ref().map(|between| between(Arc::clone(run))));
    if let Some(happens) = happens {
        happens.await;
    }
}

/// Runs an agent until the model stops asking for tools and nothing is left that it waits for.
///
/// The journal is written before anything is done, so that whoever reads it afterwards can go on from here.
async fn agent_loop(run: &Arc<Run>) -> Result<RunOutcome, RunError> {
    if run.is_root() {
        run.tree.processes.end_leftovers().await?; // what an earlier process left behind
    }
    let mut talk = run.read()?;
    jobs::take_up(run, &talk).await?;
    loop {
        if let Some(status) = run.told_to_stop()? {
            if status != RunStatus::Paused {
                calls::end_begun(run, &mut talk).await?;
            }
            return run.end(&talk, End::At(status)).await;
        }
        // Who is at work is looked for first: whoever leaves after that has put its news there before.
        let waits = jobs::are_waited_for(run);
        #[cfg(test)]
        between(run).await;
        talk.hears(run.news()?);
        if waits && talk.only_hears() {
            jobs::settle(run).await;
            talk.hears(run.news()?);
        }
        let asked = match talk.next(&run.settings, waits) {
            Next::Refused(calls) => return run.end(&talk, End::Refused(calls)).await,
            Next::CutOff(times) => return run.end(&talk, End::CutOff(times)).await,
            Next::End(RunStatus::Completed | RunStatus::StepCap) if waits => {
                // What is not done any more must not stand between it and what it is told of.
                calls::none(run, &mut talk).await?;
                jobs::wait(run).await?;
                continue;
            }
            Next::End(status) => return run.end(&talk, End::At(status)).await,
            Next::Call => {
                calls::all(run, &mut talk).await?;
                continue;
            }
            Next::Compact(telling) => compact(run, &mut talk, telling).await?,
            Next::Ask(telling) => ask::turn(run, &mut talk, telling).await?,
        };
        match asked {
            Asked::Answered | Asked::Stopped => {}
            Asked::NoBudget(why) => return run.end(&talk, End::NoBudget(why)).await,
            Asked::GaveUp(failure) if failure.kind == FailureKind::RequestTooLarge && talk.shorten() => {}
            Asked::GaveUp(failure) => return run.end(&talk, End::GaveUp(failure)).await,
        }
    }
}
