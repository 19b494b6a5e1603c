//! `ps`: all runs, where they stand and what they used.

use serde_json::{Value, json};
use store::{Millis, RunKind, RunStatus, RunSummary};

use super::{FORMAT, columns, dollars, usage, usd};
use crate::text::{fit, plain, short};

/// The runs for people: a tree, newest roots first.
pub fn ps_text(runs: &[RunSummary], now: Millis, width: usize) -> String {
    if runs.is_empty() {
        return "no runs yet\n".to_owned();
    }
    // What it is about counts most; whose model it was is in `show`.
    let with_model = width >= WIDE;
    let mut head = vec!["RUN", "STATUS", "BEGAN", "TOKENS", "COST"];
    head.extend(with_model.then_some("MODEL"));
    head.push("WHAT");
    let mut rows: Vec<Vec<String>> = vec![head.into_iter().map(str::to_owned).collect()];
    for run in ordered(runs) {
        let all = &run.inclusive;
        let mut row = vec![
            format!("{}{}", "  ".repeat(depth(runs, run)), run.id),
            status(run.status),
            ago(run.created_at, now),
            short(all.usage.input_total() + all.usage.output),
            dollars(all),
        ];
        row.extend(with_model.then(|| plain(&run.model)));
        row.push(plain(if run.kind == RunKind::Main { &run.title } else { &run.agent }));
        rows.push(row);
    }
    columns(&rows).lines().map(|line| fit(line, width) + "\n").collect()
}

/// From how many columns on a model's name has room.
const WIDE: usize = 110;

/// In as few words as tell it from others.
fn status(status: RunStatus) -> String {
    match status {
        RunStatus::CancelledByUser | RunStatus::CancelledByParent => "cancelled".to_owned(),
        other => other.words(),
    }
}

/// As in `-5 min`.
fn ago(at: Millis, now: Millis) -> String {
    let seconds = u64::try_from((now.0 - at.0) / 1000).unwrap_or_default();
    match seconds {
        0..60 => "now".to_owned(),
        60..3600 => format!("-{} min", seconds / 60),
        3600..172_800 => format!("-{} h", seconds / 3600),
        _ => format!("-{} d", seconds / 86_400),
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

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use session::{RunId, ThreadId};
    use store::Totals;

    use super::*;

    #[test]
    fn what_a_run_is_about_has_room_at_eighty_columns() {
        let run = |id: &str, status, minutes: i64| RunSummary {
            id: RunId::new(id),
            thread: ThreadId::new("t"),
            title: "Find the bug in the parser, and say where it came from".to_owned(),
            kind: RunKind::Main,
            root: RunId::new(id),
            parent: None,
            job: false,
            agent: "main".to_owned(),
            model: "claude-sonnet-5-5".to_owned(),
            provider: "anthropic".to_owned(),
            status,
            writer: None,
            created_at: Millis(-minutes * 60_000),
            ended_at: None,
            own: Totals::default(),
            inclusive: Totals { cost_microusd: 15_000, ..Totals::default() },
        };
        let runs = [
            run("1m7g0c8gs8ytqbbb", RunStatus::Interrupted, 0),
            run("1m7g0c8gs8ytqbba", RunStatus::CancelledByUser, 2),
            run("1m7g0c8gs8ytqbb9", RunStatus::StepCap, 60 * 72),
        ];
        expect![[r#"
            RUN               STATUS       BEGAN   TOKENS  COST     WHAT
            1m7g0c8gs8ytqbbb  interrupted  now     0       $0.0150  Find the bug in the par…
            1m7g0c8gs8ytqbba  cancelled    -2 min  0       $0.0150  Find the bug in the par…
            1m7g0c8gs8ytqbb9  step cap     -3 d    0       $0.0150  Find the bug in the par…
        "#]]
        .assert_eq(&ps_text(&runs, Millis(0), 80));
        assert!(ps_text(&runs, Millis(0), 200).contains("claude-sonnet-5-5"), "a wide one has the model");
    }
}
