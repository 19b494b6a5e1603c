//! Events as lines of JSON: stable, versioned, described in docs/reference/events.md.

use serde_json::{Map, Value, json};
use session::Usage;
use store::TaskStatus;

use super::{EventKind, RunEvent};
use crate::provider::BlockKind;

/// The version of the format.
pub const EVENTS_FORMAT: u32 = 1;

impl RunEvent {
    /// Returns the event as a JSON object, with its number.
    pub fn json(&self, seq: u64) -> Value {
        let mut line = Map::new();
        line.insert("seq".into(), seq.into());
        line.insert("run".into(), self.run.as_str().into());
        line.insert("parent".into(), self.parent.as_ref().map(|run| run.as_str()).into());
        line.insert("chain".into(), self.chain.as_ref().into());
        line.insert("parent_chain".into(), self.parent_chain.as_deref().into());
        line.insert("depth".into(), self.depth.into());
        line.insert("type".into(), self.kind.name().into());
        if let Value::Object(own) = self.kind.json(self.run.as_str()) {
            line.extend(own);
        }
        Value::Object(line)
    }
}

impl EventKind {
    fn name(&self) -> &'static str {
        match self {
            Self::Queued { .. } => "run_queued",
            Self::Started { .. } => "run_started",
            Self::Provisional { .. } => "provisional",
            Self::Retrying { .. } => "retrying",
            Self::Message { .. } => "message",
            Self::CallStarted { .. } => "tool_started",
            Self::CallFinished { .. } => "tool_finished",
            Self::Hook { .. } => "hook",
            Self::TasksChanged { .. } => "tasks",
            Self::Disarmed { .. } => "disarmed",
            Self::SettingsDropped { .. } => "settings_dropped",
            Self::Compacted { .. } => "compacted",
            Self::Waiting { .. } => "waiting",
            Self::Woken { .. } => "woken",
            Self::TranscriptLost { .. } => "transcript_lost",
            Self::SideWork { .. } => "side_work",
            Self::ForkEnded(_) => "fork_ended",
            Self::Finished { .. } => "run_finished",
        }
    }

    fn json(&self, run: &str) -> Value {
        match self {
            Self::Queued { kind, agent, subject } => {
                json!({ "kind": kind.as_str(), "agent": agent, "subject": subject })
            }
            Self::Started { kind, agent, model, call, is_job, subject, prior } => json!({
                "format": EVENTS_FORMAT,
                "kind": kind.as_str(),
                "agent": agent,
                "model": model,
                "call": call,
                "job": is_job,
                "subject": subject,
                "resumed": prior.is_some(),
            }),
            Self::Provisional { part, text } => json!({ "part": part_word(*part), "text": text }),
            Self::Retrying { attempt, error, wait_ms } => {
                json!({ "attempt": attempt, "error": error, "wait_ms": wait_ms })
            }
            Self::Message { seq, step, text, calls, usage, cost_microusd } => json!({
                "message": seq,
                "step": step,
                "text": text,
                "calls": calls.iter().map(|(id, name)| json!({ "id": id, "name": name })).collect::<Vec<_>>(),
                "usage": usage_json(usage),
                "cost_usd": usd(*cost_microusd),
            }),
            Self::CallStarted { call, name, input } => {
                // The model's text may be invalid JSON.
                let input = serde_json::from_str(input).unwrap_or_else(|_| Value::from(input.as_str()));
                json!({ "call": call, "name": name, "input": input })
            }
            Self::CallFinished { call, name, status, text, reason, ms, .. } => json!({
                "call": call,
                "name": name,
                "status": status.as_str(),
                "text": text,
                "reason": reason,
                "ms": ms,
            }),
            Self::Hook { event, command, call, tool, outcome, text, ms } => json!({
                "event": event,
                "command": command,
                "call": call,
                "name": tool,
                "outcome": outcome,
                "text": text,
                "ms": ms,
            }),
            Self::TasksChanged { tasks } => {
                let task = |(id, status, subject): &(String, TaskStatus, String)| json!({ "id": id, "status": status.as_str(), "subject": subject });
                json!({ "tasks": tasks.iter().map(task).collect::<Vec<_>>() })
            }
            Self::Disarmed { text } => json!({ "text": text }),
            Self::SettingsDropped { model, settings, error } => {
                json!({ "model": model, "settings": settings, "error": error })
            }
            Self::Compacted { seq } => json!({ "message": seq }),
            Self::Waiting { jobs } => json!({ "jobs": jobs }),
            Self::Woken { seq, jobs } => json!({ "message": seq, "jobs": jobs }),
            Self::TranscriptLost { error } => json!({ "error": error }),
            Self::SideWork { label, fork, text, error, is_reminder } => json!({
                "label": label,
                "fork": fork,
                "text": text,
                "error": error,
                "reminder": is_reminder,
            }),
            Self::ForkEnded(ended) => serde_json::to_value(ended).unwrap_or_default(),
            Self::Finished {
                status,
                final_text,
                partial_text,
                error,
                denied_calls,
                usage,
                cost_microusd,
            } => json!({
                "run": run,
                "status": status.as_str(),
                "final_text": final_text,
                "partial_text": partial_text,
                "error": error,
                "denied_calls": denied_calls,
                "usage": usage_json(usage),
                "cost_usd": usd(*cost_microusd),
            }),
        }
    }
}

/// Returns the token counts by name.
pub fn usage_json(usage: &Usage) -> Value {
    serde_json::to_value(usage).unwrap_or(Value::Null)
}

/// Converts to dollars. `None` is an unknown price.
pub fn usd(microusd: Option<i64>) -> Option<f64> {
    microusd.map(|microusd| microusd as f64 / 1e6)
}

fn part_word(part: BlockKind) -> &'static str {
    match part {
        BlockKind::Text => "text",
        BlockKind::Thinking => "thinking",
        BlockKind::Input => "input",
    }
}
