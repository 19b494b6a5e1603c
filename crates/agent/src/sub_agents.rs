//! A run as its tools see it.

use std::sync::Arc;
use std::time::Duration;

use session::RunId;
use store::{RunKind, RunStatus, Store, StoreError};

use crate::crash;
use crate::fork;
use crate::fork_request::ForkRequest;
use crate::future::BoxFuture;
use crate::ids;
use crate::jobs;
use crate::messages;
use crate::outcome::RunOutcome;
use crate::run::Run;
use crate::spawn;
use crate::stop::StopRequest;
use crate::tool::{CallingRun, ChildEnd, SubAgentRequest, ToolContext};
use crate::tree::Member;

/// Starts, awaits and cancels the runs below a run.
pub(crate) struct SubAgents(pub(crate) Arc<Run>);

impl CallingRun for SubAgents {
    fn id(&self) -> &RunId {
        self.0.id()
    }

    fn kind(&self) -> RunKind {
        self.0.row.kind
    }

    fn store(&self) -> &Store {
        &self.0.kernel.store
    }

    fn may_spawn(&self) -> bool {
        self.0.may_spawn()
    }

    fn spawn<'a>(
        &'a self,
        context: &'a ToolContext,
        request: SubAgentRequest,
    ) -> BoxFuture<'a, Result<ChildEnd, String>> {
        Box::pin(async move {
            let member = spawn::spawn(&self.0, context, request).await?;
            Ok(self.end_of(ids::child_id(&context.call), member))
        })
    }

    fn fork<'a>(
        &'a self,
        context: &'a ToolContext,
        request: ForkRequest,
        in_background: bool,
    ) -> BoxFuture<'a, Result<ChildEnd, String>> {
        Box::pin(async move {
            let member = fork::spawn(&self.0, context, &request, in_background).await?;
            Ok(self.end_of(ids::child_id(&context.call), member))
        })
    }

    fn continue_child<'a>(
        &'a self,
        context: &'a ToolContext,
        child: &'a RunId,
        prompt: &'a str,
        in_background: bool,
    ) -> BoxFuture<'a, Result<ChildEnd, String>> {
        Box::pin(async move {
            let member = messages::continue_child(&self.0, context, child, prompt, in_background).await?;
            Ok(self.end_of(child.clone(), member))
        })
    }

    fn send<'a>(
        &'a self,
        context: &'a ToolContext,
        child: &'a RunId,
        text: &'a str,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(messages::send(&self.0, context, child, text))
    }

    fn wait_for<'a>(&'a self, child: &'a RunId, most: Duration) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let Some(member) = self.0.tree.member(child) else { return };
            tokio::select! {
                _ = member.end() => {}
                () = tokio::time::sleep(most) => {}
                () = self.0.stop.wait_for(StopRequest::Pause) => {}
            }
        })
    }

    fn cancel<'a>(&'a self, child: &'a RunId, most: Duration) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let (run, at) = (&self.0, self.0.kernel.clock.millis());
            crash::point("cancel.before");
            let asked = run.kernel.store.request_cancel(child, RunStatus::CancelledByParent, at).await;
            crash::point("cancel.after");
            match asked {
                Ok(()) | Err(StoreError::Over { .. }) => {}
                Err(error) => return Err(error.to_string()),
            }
            run.tree.request(child, StopRequest::Cancel);
            if let Some(member) = run.tree.member(child) {
                let _ = tokio::time::timeout(most, member.end()).await;
            }
            Ok(())
        })
    }
}

impl SubAgents {
    /// Returns the end of a child. A child without a member has ended as the journal says.
    fn end_of(&self, child: RunId, member: Option<Member>) -> ChildEnd {
        let run = Arc::clone(&self.0);
        Box::pin(async move {
            let ended = match member {
                Some(member) => member.end().await,
                None => None,
            };
            let stored = || run.kernel.store.run(&child).row().map(RunOutcome::of);
            let ended = ended.map_or_else(stored, Ok).map_err(|error| error.to_string())?;
            if ended.status == RunStatus::Paused {
                jobs::promote_to_job(&run, &child).await.map_err(|error| error.to_string())?;
            }
            Ok(ended)
        })
    }
}
