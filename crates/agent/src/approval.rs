//! Decides whether calls may be made: by rules, and by the user where a rule asks.

use std::sync::Arc;

use serde_json::Value;
use store::StoredToolCall;

use crate::definition::Skill;
use crate::error::RunError;
use crate::fork;
use crate::permission::{Decision, PermissionAnswer, PermissionQuestion, PermissionRules, proposed_rules};
use crate::run::Run;
use crate::skill_limits;
use crate::stop::StopRequest;

/// Calls that may be made, and calls that are denied, with the reasons.
type Judged = (Vec<StoredToolCall>, Vec<(StoredToolCall, String)>);

/// Separates the calls that may be made from those that are denied. Each comes with the decision of hooks; the strictest
/// decision counts. Returns `None` if a stop was requested during a question.
pub(crate) async fn judge_calls(
    run: &Arc<Run>,
    calls: Vec<(StoredToolCall, Decision)>,
) -> Result<Option<Judged>, RunError> {
    let judge = Judge::of(run)?;
    let (mut allowed, mut denied) = (Vec::new(), Vec::new());
    for (call, by_hooks) in calls {
        // The tool itself reports an input that is not JSON.
        let input: Value = serde_json::from_slice(&call.input).unwrap_or_default();
        let subject = CallSubject { call: &call, input: &input, by_hooks: &by_hooks };
        let denial = match judge.decide(&subject, &run.tree.always()) {
            Decision::Allow => None,
            Decision::Deny(why) => Some(why),
            Decision::Ask(why) if run.is_in_background() && !run.kernel.tree_limits.ask_for_background => {
                Some(format!("{why}, and an agent in the background does not ask the user"))
            }
            Decision::Ask(why) => {
                let asked = tokio::select! {
                    asked = judge.ask(&subject, why) => asked,
                    () = run.stop.wait_for(StopRequest::Pause) => return Ok(None),
                };
                asked.err()
            }
        };
        match denial {
            None => allowed.push(call),
            Some(why) => denied.push((call, why)),
        }
    }
    Ok(Some((allowed, denied)))
}

/// A call to decide about.
struct CallSubject<'c> {
    call: &'c StoredToolCall,
    input: &'c Value,
    by_hooks: &'c Decision,
}

/// The rules of a run.
struct Judge<'r> {
    run: &'r Run,
    base: Arc<PermissionRules>,
    skills: Vec<Skill>,
}

impl<'r> Judge<'r> {
    fn of(run: &'r Run) -> Result<Self, RunError> {
        let rules = &run.kernel.rules;
        let base = match &run.bounds.allowed {
            None => Arc::clone(rules),
            Some(allowed) => {
                let mut rules = PermissionRules::clone(rules);
                rules.add_project_exceptions(allowed);
                Arc::new(rules)
            }
        };
        Ok(Self { run, base, skills: skill_limits::skills_in_use(run)? })
    }

    /// Decides about a call. `always` has what the user has allowed for good during this run.
    fn decide(&self, subject: &CallSubject<'_>, always: &PermissionRules) -> Decision {
        let CallSubject { call, input, by_hooks } = subject;
        let kernel = &self.run.kernel;
        let excepted = [&*kernel.rules, always];
        let judged =
            |rules: &PermissionRules| rules.judge_except(&excepted, &call.name, input, &kernel.workspace);
        let rules = &self.run.bounds.rules;
        let all = rules.iter().fold(judged(&self.base), |known, rules| known.and(judged(rules)));
        let by_skills = skill_limits::judge(&self.skills, &call.name, input, &kernel.workspace);
        fork::judge(self.run, &call.name, all.and(by_skills).and(Decision::clone(by_hooks)))
    }

    /// Asks the user, when no other run of the tree is asking. Returns the reason for a refusal.
    async fn ask(&self, subject: &CallSubject<'_>, why: String) -> Result<(), String> {
        let CallSubject { call, input, .. } = subject;
        let _one_at_a_time = self.run.tree.asking.lock().await;
        // The answer to an earlier question may have allowed it.
        let known = self.run.tree.always();
        if self.decide(subject, &known) == Decision::Allow {
            return Ok(());
        }
        let proposed = proposed_rules(&call.name, input, &self.run.kernel.workspace);
        let mut extended = known;
        let is_valid = proposed.iter().all(|rule| extended.add_always(rule).is_ok());
        let is_enough =
            !proposed.is_empty() && is_valid && self.decide(subject, &extended) == Decision::Allow;
        let question = PermissionQuestion {
            agent: self.run.display_name(),
            tool: call.name.clone(),
            input: String::from_utf8_lossy(&call.input).into_owned(),
            why,
            always: if is_enough { proposed } else { Vec::new() },
        };
        match self.run.kernel.asker.ask(&question).await {
            PermissionAnswer::Yes => Ok(()),
            PermissionAnswer::Always => {
                if is_enough {
                    self.run.tree.set_always(extended);
                }
                Ok(())
            }
            PermissionAnswer::No(why) => Err(why),
        }
    }
}
