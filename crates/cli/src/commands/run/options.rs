//! Checks the arguments and the environment of a run.

use std::io::Read as _;

use agent::RunClock;
use session::RunId;
use store::Millis;

use super::Args;
use crate::failure::{ExitKind, OrFail};

/// Relation of the new work to an earlier run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum StartMode {
    New,
    Resume,
    Fork,
}

/// Checked arguments of a run.
pub(super) struct RunOptions {
    pub(super) args: Args,
    /// The prompt, read from stdin if needed.
    pub(super) prompt: Option<String>,
    pub(super) max_budget_microusd: Option<i64>,
    /// The id for a new run, if the environment sets one.
    pub(super) id: Option<RunId>,
    pub(super) clock: RunClock,
    /// Start of the recording that answers, if one does.
    pub(super) recorded_at: Option<Millis>,
}

impl RunOptions {
    /// Checks the arguments and reads the environment.
    pub(super) fn parse(args: Args) -> anyhow::Result<Self> {
        let prompt = args.prompt.as_deref().map(read_prompt).transpose()?;
        if prompt.is_none() && args.resume.is_none() {
            return Err(anyhow::anyhow!("no prompt given")).or_fail_with(ExitKind::Usage, prompt_hint);
        }
        args.fork.check(args.fork_of.is_some())?;
        args.side_work.check()?;
        let max_budget_microusd = args.limits.max_budget_usd.map(microusd).transpose()?;
        Ok(Self {
            prompt,
            max_budget_microusd,
            id: run_id()?,
            clock: clock()?,
            recorded_at: recorded_at(),
            args,
        })
    }
}

fn prompt_hint() -> String {
    "offshoot run 'What does this project do?'".to_owned()
}

fn read_prompt(prompt: &str) -> anyhow::Result<String> {
    let mut text = prompt.to_owned();
    if prompt == "-" {
        text.clear();
        std::io::stdin().read_to_string(&mut text).or_fail(ExitKind::Usage)?;
    }
    if text.trim().is_empty() {
        return Err(anyhow::anyhow!("the prompt is empty")).or_fail_with(ExitKind::Usage, prompt_hint);
    }
    Ok(text)
}

fn microusd(usd: f64) -> anyhow::Result<i64> {
    if usd.is_finite() && usd > 0.0 && usd < 1e6 {
        return Ok((usd * 1e6).round() as i64);
    }
    let error = anyhow::anyhow!("the budget must be a number of dollars above 0: {usd}");
    Err(error).or_fail_with(ExitKind::Usage, || "--max-budget-usd 0.50".to_owned())
}

/// Reads the run id that makes two runs comparable byte by byte. It becomes a part of file names and tables.
fn run_id() -> anyhow::Result<Option<RunId>> {
    const MAX_LENGTH: usize = 64;
    let Some(id) = std::env::var("OFFSHOOT_RUN_ID").ok().filter(|id| !id.is_empty()) else { return Ok(None) };
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    if id.len() > MAX_LENGTH || !id.chars().all(is_allowed) {
        let error = anyhow::anyhow!(
            "OFFSHOOT_RUN_ID `{id}` is not a run id: up to {MAX_LENGTH} letters, digits, `-` and `_`"
        );
        return Err(error).or_fail_with(ExitKind::Usage, || "unset OFFSHOOT_RUN_ID".to_owned());
    }
    Ok(Some(RunId::new(id)))
}

/// Returns the start of the recording that `offshoot replay` serves.
fn recorded_at() -> Option<Millis> {
    let began = recording::parse_iso(&std::env::var(crate::record::RECORDED_AT).ok()?)?;
    let since = began.duration_since(std::time::UNIX_EPOCH).ok()?;
    i64::try_from(since.as_millis()).ok().map(Millis)
}

/// Returns the clock, fixed if the environment sets a time so that two runs are equal.
fn clock() -> anyhow::Result<RunClock> {
    match std::env::var("OFFSHOOT_CLOCK") {
        Ok(time) if !time.is_empty() => {
            let fixed = time.parse().map_err(|_| anyhow::anyhow!("OFFSHOOT_CLOCK is not a time: {time}"));
            Ok(RunClock::fixed(fixed.or_fail_with(ExitKind::Usage, || {
                "export OFFSHOOT_CLOCK='2026-01-01T12:00:00+01:00[Europe/Berlin]'".into()
            })?))
        }
        _ => Ok(RunClock::default()),
    }
}
