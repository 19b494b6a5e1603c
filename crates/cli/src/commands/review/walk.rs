//! Shows one difference after the other, and asks for a decision.

use std::io::{BufRead, Write};
use std::time::SystemTime;

use parity::{Verdict, set_reason};

use super::{PendingScenario, accept_newest};
use crate::commands::accept::explain;
use crate::failure::{ExitKind, OrFail};
use crate::judge::Judge;

/// The terminal of the person who decides.
pub(super) struct Terminal<'t> {
    pub(super) input: &'t mut dyn BufRead,
    pub(super) out: &'t mut dyn Write,
    pub(super) width: usize,
}

pub(super) struct Walk<'w> {
    pub(super) judge: &'w dyn Judge,
    pub(super) terminal: Terminal<'w>,
}

/// A decision.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Key {
    Accept,
    Reject,
    Skip,
    Mask,
    Quit,
}

impl Walk<'_> {
    /// Asks about the newest run of each scenario. Returns the number of undecided scenarios.
    pub(super) fn through(&mut self, waiting: &[PendingScenario]) -> anyhow::Result<usize> {
        let mut decided = 0;
        for waiting in waiting {
            match self.run(waiting)? {
                Key::Accept | Key::Reject => decided += 1,
                Key::Skip | Key::Mask => {}
                Key::Quit => break,
            }
        }
        if waiting.is_empty() {
            self.print("no pending runs\n")?;
        }
        Ok(waiting.len() - decided)
    }

    fn run(&mut self, waiting: &PendingScenario) -> anyhow::Result<Key> {
        let folder = &waiting.folder;
        let golden = folder.accepted_run().map_err(explain)?;
        let candidate = folder.run_dir(waiting.newest());
        let verdict = self.judge.judge(&golden, &candidate)?;
        let golden = golden.file_name().unwrap_or_default().to_string_lossy();
        self.print(&format!("\n{}\n{}\n", candidate.display(), headline(&verdict, &golden)))?;
        for line in &verdict.summary {
            self.print(&format!("  {}\n", report::plain(line)))?;
        }
        let mut masked = 0;
        for (n, difference) in verdict.differences.iter().enumerate() {
            let shown = report::difference_text(difference, self.terminal.width);
            self.print(&format!("\n{}/{} {shown}", n + 1, verdict.differences.len()))?;
            match self.ask(difference.suggested_rule.is_some())? {
                Key::Skip => {}
                Key::Mask => masked += usize::from(self.mask(waiting, difference.suggested_rule.as_deref())?),
                decided => return self.decided(waiting, decided),
            }
        }
        if verdict.differences.is_empty() {
            let key = self.ask(false)?;
            return self.decided(waiting, key);
        }
        if masked > 0 {
            let rules = folder.rules_file();
            self.print(&format!(
                "added {} to `{}`; the next review applies masks\n",
                report::counted(masked as u64, "mask"),
                rules.display()
            ))?;
        }
        Ok(Key::Skip)
    }

    fn decided(&mut self, waiting: &PendingScenario, key: Key) -> anyhow::Result<Key> {
        match key {
            Key::Accept => {
                let said = accept_newest(waiting)?;
                self.print(&said)?;
            }
            Key::Reject => {
                let run = waiting.newest();
                waiting.folder.reject(run, SystemTime::now()).map_err(explain)?;
                self.print(&format!("rejected `{run}`\n"))?;
            }
            Key::Skip | Key::Mask | Key::Quit => {}
        }
        Ok(key)
    }

    /// Asks for a reason and adds the rule. Without a reason there is no rule.
    fn mask(&mut self, waiting: &PendingScenario, mask: Option<&str>) -> anyhow::Result<bool> {
        let Some(mask) = mask else { return Ok(false) };
        self.print("reason: ")?;
        let reason = self.line()?.unwrap_or_default();
        if reason.is_empty() {
            self.print("no mask added: a mask needs a reason\n")?;
            return Ok(false);
        }
        waiting.folder.add_rule(&set_reason(mask, &reason)).map_err(explain)?;
        Ok(true)
    }

    fn ask(&mut self, can_mask: bool) -> anyhow::Result<Key> {
        let mask = if can_mask { ", (m)ask" } else { "" };
        loop {
            self.print(&format!("(a)ccept the run, (r)eject it, (s)kip{mask}, (q)uit? "))?;
            let Some(line) = self.line()? else { return Ok(Key::Quit) };
            match line.as_str() {
                "a" | "accept" => return Ok(Key::Accept),
                "r" | "reject" => return Ok(Key::Reject),
                "s" | "skip" => return Ok(Key::Skip),
                "m" | "mask" if can_mask => return Ok(Key::Mask),
                "q" | "quit" => return Ok(Key::Quit),
                other => {
                    let other = report::plain(other);
                    self.print(&format!("`{other}` is no choice; type the letter in brackets\n"))?;
                }
            }
        }
    }

    fn line(&mut self) -> anyhow::Result<Option<String>> {
        let mut line = String::new();
        let read = self.terminal.input.read_line(&mut line).or_fail(ExitKind::Outside)?;
        Ok((read > 0).then(|| line.trim().to_owned()))
    }

    fn print(&mut self, text: &str) -> anyhow::Result<()> {
        let text = report::terminal_text(text, crate::terminal::is_stderr_styled());
        let out = &mut self.terminal.out;
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).or_fail(ExitKind::Outside)
    }
}

fn headline(verdict: &Verdict, golden: &str) -> String {
    format!("{}; golden `{golden}`", report::verdict_line(verdict))
}
