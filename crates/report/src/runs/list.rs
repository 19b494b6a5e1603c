//! `ps`: all runs, where they stand and what they used.

use serde_json::{Value, json};
use store::{Millis, RunKind, RunSummary};

use super::{FORMAT, columns, dollars, usage, usd};
use crate::text::{fit, plain, short};

/// The runs for people: a tree, newest roots first.
pub fn ps_text(runs: &[RunSummary], now: Millis, width: usize) -> String {
    if runs.is_empty() {
        return "no runs yet\n".to_owned();
    }
    let head = ["RUN", "STATUS", "BEGAN", "TOKENS", "COST", "MODEL", "WHAT"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for run in ordered(runs) {
        let all = &run.inclusive;
        rows.push(vec![
            format!("{}{}", "  ".repeat(depth(runs, run)), run.id),
            run.status.words(),
            ago(run.created_at, now),
            short(all.usage.input_total() + all.usage.output),
            dollars(all),
            plain(&run.model),
            plain(if run.kind == RunKind::Main { &run.title } else { &run.agent }),
        ]);
    }
    columns(&rows).lines().map(|line| fit(line, width) + "\n").collect()
}

/// As in `5 min ago`.
fn ago(at: Millis, now: Millis) -> String {
    let seconds = u64::try_from((now.0 - at.0) / 1000).unwrap_or_default();
    match seconds {
        0..60 => "just now".to_owned(),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..172_800 => format!("{} h ago", seconds / 3600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

/// The runs for programs.
pub fn ps_json(runs: &[RunSummary]) -> Value {
    let one = |run: &RunSummary| {
        json!({
            "run": run.id,
            "parent": run.parent,
            "thread": run.thread,
            "title": run.title,
            "kind": run.kind.as_str(),
            "status": run.status.as_str(),
            "agent": run.agent,
            "model": run.model,
            "provider": run.provider,
            "job": run.job.then_some(&run.id),
            "created_at_ms": run.created_at.0,
            "ended_at_ms": run.ended_at.map(|at| at.0),
            "usage": usage(&run.own.usage),
            "usage_inclusive": usage(&run.inclusive.usage),
            "cost_usd": usd(&run.own),
            "cost_inclusive_usd": usd(&run.inclusive),
        })
    };
    json!({ "format": FORMAT, "runs": ordered(runs).into_iter().map(one).collect::<Vec<_>>() })
}

/// Each run behind its parent, brothers in the order they began; roots newest first.
fn ordered(runs: &[RunSummary]) -> Vec<&RunSummary> {
    let known = |run: &RunSummary| runs.iter().any(|other| Some(&other.id) == run.parent.as_ref());
    let mut out = Vec::new();
    for root in runs.iter().filter(|run| !known(run)) {
        below(runs, root, &mut out);
    }
    out
}

fn below<'r>(runs: &'r [RunSummary], run: &'r RunSummary, out: &mut Vec<&'r RunSummary>) {
    out.push(run);
    for child in runs.iter().rev().filter(|child| child.parent.as_ref() == Some(&run.id)) {
        below(runs, child, out);
    }
}

fn depth(runs: &[RunSummary], run: &RunSummary) -> usize {
    let parent = runs.iter().find(|other| Some(&other.id) == run.parent.as_ref());
    parent.map_or(0, |parent| depth(runs, parent) + 1)
}
