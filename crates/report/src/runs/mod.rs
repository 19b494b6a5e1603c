//! Output about our own runs: lists, sums, and single runs.

mod cost;
mod list;
mod one;
mod search;

pub use cost::{cost_json, cost_text};
pub use list::{ps_json, ps_text};
pub use one::{DeliveredJob, OneRun, run_json, run_text};
pub use search::{search_json, search_text};

use serde_json::{Value, json};
use session::Usage;
use store::{RunStatus, UsageTotals};

use crate::style::Tone;

/// The version of the JSON formats in this module.
const FORMAT: u32 = 1;

/// Chooses the style of a status.
fn tone(status: RunStatus) -> Tone {
    match status {
        RunStatus::Completed => Tone::Good,
        RunStatus::Failed => Tone::Bad,
        status if status.is_live() => Tone::Hint,
        _ => Tone::Warning,
    }
}

/// Formats a cost, as in `$0.0042`, with a question mark for unknown prices.
fn dollars(totals: &UsageTotals) -> String {
    let known = format!("${:.4}", totals.cost_microusd as f64 / 1e6);
    match (totals.unpriced, totals.cost_microusd) {
        (0, _) => known,
        (_, 0) => "?".to_owned(),
        _ => format!("{known}+?"),
    }
}

/// Returns the cost if all prices are known.
fn usd(totals: &UsageTotals) -> Option<f64> {
    (totals.unpriced == 0).then_some(totals.cost_microusd as f64 / 1e6)
}

fn usage(usage: &Usage) -> Value {
    json!({
        "input": usage.input,
        "output": usage.output,
        "cache_read": usage.cache_read,
        "cache_write_5m": usage.cache_write_5m,
        "cache_write_1h": usage.cache_write_1h,
        "reasoning": usage.reasoning,
    })
}

/// A run for tests.
#[cfg(test)]
mod sample {
    use session::{RunId, ThreadId};
    use store::{Millis, RunKind, RunStatus, RunSummary, UsageTotals};

    pub(super) fn run() -> RunSummary {
        RunSummary {
            id: RunId::new("1m7g0c8g"),
            thread: ThreadId::new("t"),
            title: "Find the bug in the parser, and say where it came from".to_owned(),
            kind: RunKind::Main,
            root: RunId::new("1m7g0c8g"),
            parent: None,
            job: false,
            side_work: None,
            agent: "main".to_owned(),
            model: "claude-sonnet-5-5".to_owned(),
            provider: "anthropic".to_owned(),
            status: RunStatus::Completed,
            writer: None,
            created_at: Millis(0),
            ended_at: None,
            own: UsageTotals::default(),
            inclusive: UsageTotals::default(),
        }
    }
}
