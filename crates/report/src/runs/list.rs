//! Output of `offshoot ps`: all runs with status and usage.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};
use session::Usage;
use store::{Millis, RunKind, RunStatus, RunSummary};

use super::{FORMAT, dollars, usage, usd};
use crate::style::Tone;
use crate::table::{self, DropRule, Table};
use crate::text::{fit, plain, short};

/// The runs for people: each behind its parent, newest roots first. Of many siblings only those are listed that are at
/// work, and the last of the others; of the rest it is said how many there are.
pub fn ps_text(runs: &[RunSummary], now: Millis, width: usize, siblings: usize) -> String {
    if runs.is_empty() {
        return "no runs yet\n".to_owned();
    }
    let forest = RunForest::of(runs);
    let mut lines = Vec::new();
    for root in &forest.roots {
        forest.walk(root, 0, siblings, &mut lines);
    }
    let any_cached =
        lines.iter().any(|line| matches!(line, ListLine::Run(run, _) if run.inclusive.usage.cache_read > 0));
    let shown = COLUMNS.iter().filter(|(column, _)| any_cached || *column != Column::Cached);
    let table = Table {
        columns: shown.clone().map(|(_, name)| table::Column::text(name, 0)).collect(),
        rows: lines
            .iter()
            .map(|line| shown.clone().map(|(column, _)| cell(line, *column, now)).collect())
            .collect(),
        gap: 2,
        // The description counts most. Model and age are shown by `show` as well.
        drop_order: [("MODEL", WIDE), ("CACHED", MIDDLE), ("AGE", NARROW), ("TOKENS", NARROW)]
            .map(|(name, room)| DropRule::column_for(name, room))
            .to_vec(),
    };
    table.lines(width).1.iter().map(|line| fit(line, width) + "\n").collect()
}

/// Widths that the description needs before the model's name, the cached share, and the other columns get
/// room.
const WIDE: usize = 30;
const MIDDLE: usize = 24;
const NARROW: usize = 16;

#[derive(Clone, Copy, PartialEq)]
enum Column {
    Run,
    Status,
    Age,
    Tokens,
    Cached,
    Cost,
    Model,
    What,
}

const COLUMNS: [(Column, &str); 8] = [
    (Column::Run, "RUN"),
    (Column::Status, "STATUS"),
    (Column::Age, "AGE"),
    (Column::Tokens, "TOKENS"),
    (Column::Cached, "CACHED"),
    (Column::Cost, "COST"),
    (Column::Model, "MODEL"),
    (Column::What, "WHAT"),
];

/// A line of the list.
enum ListLine<'r> {
    Run(&'r RunSummary, usize),
    /// So many siblings are not listed, each so far from its root.
    More(usize, usize),
}

/// Formats a cell. Ids start with the parent's id and so show the hierarchy; descriptions are indented.
fn cell(line: &ListLine<'_>, column: Column, now: Millis) -> String {
    let (run, depth) = match line {
        ListLine::Run(run, depth) => (run, *depth),
        ListLine::More(count, depth) if column == Column::What => {
            return format!("{}and {count} more: --all", "  ".repeat(*depth));
        }
        ListLine::More(..) => return String::new(),
    };
    let all = &run.inclusive;
    match column {
        Column::Run => run.id.to_string(),
        Column::Status if is_queued(run) => Tone::Faint.paint("queued"),
        Column::Status => super::tone(run.status).paint(&status(run.status)),
        Column::Age => age(run.created_at, now),
        Column::Tokens => short(all.usage.input_total() + all.usage.output),
        Column::Cached => cached(&all.usage),
        Column::Cost => dollars(all),
        Column::Model => plain(&run.model),
        Column::What if run.kind == RunKind::Main => plain(&run.title),
        Column::What => {
            format!("{}{}{}", "  ".repeat(depth), plain(name(run)), if run.job { " (job)" } else { "" })
        }
    }
}

/// Formats the share of the input that was read from the cache.
fn cached(usage: &Usage) -> String {
    match usage.input_total() {
        0 => String::new(),
        sent => format!("{} %", usage.cache_read * 100 / sent),
    }
}

/// Returns whether the run has started but waits for a free slot before its first call.
fn is_queued(run: &RunSummary) -> bool {
    run.status == RunStatus::Running && run.root != run.id && run.own.calls == 0
}

/// Formats a status in as few words as needed.
fn status(status: RunStatus) -> String {
    match status {
        RunStatus::CancelledByUser | RunStatus::CancelledByParent => "cancelled".to_owned(),
        other => other.words(),
    }
}

/// Formats an age, as in `5 min`.
fn age(at: Millis, now: Millis) -> String {
    let seconds = u64::try_from((now.0 - at.0) / 1000).unwrap_or_default();
    match seconds {
        0..60 => "now".to_owned(),
        60..3600 => format!("{} min", seconds / 60),
        3600..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// Renders the runs as JSON.
pub fn ps_json(runs: &[RunSummary]) -> Value {
    let one = |run: &RunSummary| {
        json!({
            "run": run.id,
            "parent": run.parent,
            "thread": run.thread,
            "title": run.title,
            "kind": run.kind.as_str(),
            "status": run.status.as_str(),
            "queued": is_queued(run),
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

/// Each run behind its parent, siblings in the order they began; roots newest first.
fn ordered(runs: &[RunSummary]) -> Vec<&RunSummary> {
    let forest = RunForest::of(runs);
    let mut lines = Vec::new();
    for root in &forest.roots {
        forest.walk(root, 0, usize::MAX, &mut lines);
    }
    let run = |line| match line {
        ListLine::Run(run, _) => Some(run),
        ListLine::More(..) => None,
    };
    lines.into_iter().filter_map(run).collect()
}

/// Runs by their parent.
struct RunForest<'r> {
    /// The runs without a parent in the list, in its order.
    roots: Vec<&'r RunSummary>,
    /// The children of each run, in order of their start.
    below: HashMap<&'r str, Vec<&'r RunSummary>>,
}

impl<'r> RunForest<'r> {
    fn of(runs: &'r [RunSummary]) -> Self {
        let known: HashSet<&str> = runs.iter().map(|run| run.id.as_str()).collect();
        let parent = |run: &'r RunSummary| {
            run.parent.as_ref().map(|parent| parent.as_str()).filter(|parent| known.contains(parent))
        };
        let roots = runs.iter().filter(|run| parent(run).is_none()).collect();
        let mut below: HashMap<&str, Vec<&RunSummary>> = HashMap::new();
        for run in runs.iter().rev() {
            if let Some(parent) = parent(run) {
                below.entry(parent).or_default().push(run);
            }
        }
        Self { roots, below }
    }

    fn walk(&self, run: &'r RunSummary, depth: usize, max_siblings: usize, out: &mut Vec<ListLine<'r>>) {
        out.push(ListLine::Run(run, depth));
        let siblings = self.below.get(run.id.as_str()).map(Vec::as_slice).unwrap_or_default();
        let over = siblings.iter().filter(|run| !run.status.is_live()).count();
        // Leaving out a single run would not save a line.
        let mut left_out = if over > max_siblings.saturating_add(1) { over - max_siblings } else { 0 };
        let more = left_out;
        for child in siblings {
            if left_out > 0 && !child.status.is_live() {
                left_out -= 1;
                continue;
            }
            self.walk(child, depth + 1, max_siblings, out);
        }
        if more > 0 {
            out.push(ListLine::More(more, depth + 1));
        }
    }
}

/// Returns the name of a run; a fork has its parent's agent.
fn name(run: &RunSummary) -> &str {
    if run.kind == RunKind::Fork { "fork" } else { &run.agent }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use session::RunId;
    use store::UsageTotals;

    use super::*;

    fn ps_text(runs: &[RunSummary], now: Millis, width: usize, siblings: usize) -> String {
        crate::terminal_text(&super::ps_text(runs, now, width, siblings), false)
    }
    use crate::runs::sample;

    fn run(id: &str, status: RunStatus, minutes: i64) -> RunSummary {
        RunSummary {
            id: RunId::new(id),
            root: RunId::new(id),
            status,
            created_at: Millis(-minutes * 60_000),
            own: UsageTotals { calls: 1, ..UsageTotals::default() },
            inclusive: UsageTotals { cost_microusd: 15_000, ..UsageTotals::default() },
            ..sample::run()
        }
    }

    fn below(parent: &str, place: &str, agent: &str, status: RunStatus) -> RunSummary {
        RunSummary {
            kind: RunKind::Sub,
            parent: Some(RunId::new(parent)),
            root: RunId::new("root"),
            job: place.starts_with('2'),
            agent: agent.to_owned(),
            ..run(&format!("{parent}-{place}"), status, 1)
        }
    }

    #[test]
    fn the_description_of_a_run_fits_eighty_columns() {
        let runs = [
            run("1m7g0c8gs8ytqbbb", RunStatus::Interrupted, 0),
            run("1m7g0c8gs8ytqbba", RunStatus::CancelledByUser, 2),
            run("1m7g0c8gs8ytqbb9", RunStatus::StepCap, 60 * 72),
        ];
        expect![[r#"
            RUN               STATUS       AGE    TOKENS  COST     WHAT
            1m7g0c8gs8ytqbbb  interrupted  now    0       $0.0150  Find the bug in the pars…
            1m7g0c8gs8ytqbba  cancelled    2 min  0       $0.0150  Find the bug in the pars…
            1m7g0c8gs8ytqbb9  step cap     3 d    0       $0.0150  Find the bug in the pars…
        "#]]
        .assert_eq(&ps_text(&runs, Millis(0), 80, 10));
        assert!(ps_text(&runs, Millis(0), 200, 10).contains("claude-sonnet-5-5"), "a wide one has the model");
    }

    #[test]
    fn the_cached_share_is_shown_if_there_is_room() {
        let mut one = run("demo", RunStatus::Completed, 0);
        one.inclusive.usage = Usage { input: 100, cache_read: 900, output: 20, ..Usage::default() };
        expect![[r#"
            RUN   STATUS     AGE  TOKENS  CACHED  COST     WHAT
            demo  completed  now  1.0k    90 %    $0.0150  Find the bug in the parser, and…
        "#]]
        .assert_eq(&ps_text(&[one.clone()], Millis(0), 80, 10));
        one.id = RunId::new("1m7g0c8gs8ytqbbb");
        assert!(!ps_text(&[one], Millis(0), 78, 10).contains("CACHED"), "what it is about comes first");
    }

    #[test]
    fn a_deep_tree_has_room_at_eighty_columns() {
        const ROOT: &str = "1m7g0c8gs8ytqbbb";
        // Newest first, as the journal lists them.
        let runs = [
            RunSummary {
                own: UsageTotals::default(), // no model call yet
                ..below("1m7g0c8gs8ytqbbb-2-0-4-1", "6-0", "reader", RunStatus::Running)
            },
            below("1m7g0c8gs8ytqbbb-2-0", "4-1", "grep-summarizer", RunStatus::Waiting),
            below(ROOT, "2-1", "general-purpose", RunStatus::Completed),
            below(ROOT, "2-0", "repo-scanner", RunStatus::Waiting),
            run(ROOT, RunStatus::Waiting, 2),
        ];
        expect![[r#"
            RUN                           STATUS     TOKENS  COST     WHAT
            1m7g0c8gs8ytqbbb              waiting    0       $0.0150  Find the bug in the p…
            1m7g0c8gs8ytqbbb-2-0          waiting    0       $0.0150    repo-scanner (job)
            1m7g0c8gs8ytqbbb-2-0-4-1      waiting    0       $0.0150      grep-summarizer
            1m7g0c8gs8ytqbbb-2-0-4-1-6-0  queued     0       $0.0150        reader
            1m7g0c8gs8ytqbbb-2-1          completed  0       $0.0150    general-purpose (jo…
        "#]]
        .assert_eq(&ps_text(&runs, Millis(0), 80, 10));
    }

    #[test]
    fn of_many_brothers_those_at_work_and_the_last_are_listed() {
        let place = |n: usize| format!("2-{n}");
        let status = |n: usize| if n == 3 { RunStatus::Running } else { RunStatus::Completed };
        let mut runs: Vec<RunSummary> =
            (0..10_000).rev().map(|n| below("m", &place(n), "scanner", status(n))).collect();
        runs.push(run("m", RunStatus::Waiting, 2));
        expect![[r#"
            RUN       STATUS     AGE    TOKENS  COST     WHAT
            m         waiting    2 min  0       $0.0150  Find the bug in the parser, and say…
            m-2-3     running    1 min  0       $0.0150    scanner (job)
            m-2-9998  completed  1 min  0       $0.0150    scanner (job)
            m-2-9999  completed  1 min  0       $0.0150    scanner (job)
                                                           and 9997 more: --all
        "#]]
        .assert_eq(&ps_text(&runs, Millis(0), 82, 2));
        assert_eq!(ps_text(&runs, Millis(0), 80, usize::MAX).lines().count(), 10_002);
        assert_eq!(ordered(&runs).len(), 10_001);
    }
}
