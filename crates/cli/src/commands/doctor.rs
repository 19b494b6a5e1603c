//! `offshoot doctor`: what is missing on this machine, and the command that fixes it.

use std::process::ExitCode;

use harness::{Finding, Places};

use super::report::OPENER;
use crate::failure::{Kind, OrFail, hint};
use crate::terminal::print;
use crate::{child, journal, paths};

/// Say what this machine lacks, and the command that fixes it
///
/// Exit code 1 when something is missing that captures need, or the journal of our own runs is damaged.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  offshoot doctor
  offshoot doctor --format json")]
pub(crate) struct Arguments {
    /// How to print it
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let hint = || "export HOME=/home/you".to_owned();
    let places = Places {
        data: paths::data_dir().or_fail_with(Kind::Usage, hint)?,
        cache: paths::cache_dir().or_fail_with(Kind::Usage, hint)?,
        slots: paths::slots_dir(),
    };
    let mut findings = harness::doctor(&places, &harness::list());
    findings.push(settings_finding());
    findings.push(journal_finding());
    findings.push(sandbox_finding());
    findings.push(browser_finding());
    let missing = findings.iter().any(|finding| finding.needed && !finding.ok);
    match arguments.format {
        Format::Text => print(&findings.iter().map(text).collect::<String>()),
        Format::Json => {
            let json = serde_json::json!({ "format": 1, "ok": !missing, "findings": findings });
            print(&format!("{}\n", report::harmless_json(&json)));
        }
    }
    Ok(if missing { ExitCode::from(Kind::Verdict as u8) } else { ExitCode::SUCCESS })
}

/// The journal of our own runs, read from end to end where there is one.
fn journal_finding() -> Finding {
    let mut finding = Finding {
        name: "journal".to_owned(),
        ok: true,
        needed: true,
        found: None,
        why: "keeps the runs of our own agents".to_owned(),
        fix: None,
    };
    let store = paths::data_dir().map(|data| data.join("store.db")).unwrap_or_default();
    if !store.exists() {
        finding.found = Some("none yet; the first run makes it".to_owned());
        return finding;
    }
    let health = journal::open().and_then(|store| store.check().or_fail(Kind::Outside));
    match health {
        Ok(health) if health.problems.is_empty() => {
            finding.found = Some(format!("version {}, SQLite {}", health.version, health.sqlite));
        }
        Ok(health) => {
            (finding.ok, finding.found) = (false, Some(health.problems.join("; ")));
            finding.fix = Some(format!("sqlite3 {0} .recover | sqlite3 {0}.recovered", store.display()));
        }
        Err(error) => {
            finding.fix = hint(&error).map(str::to_owned);
            (finding.ok, finding.found) = (false, Some(error.to_string()));
        }
    }
    finding
}

/// The settings that a run in this folder would have.
fn settings_finding() -> Finding {
    let read = std::env::current_dir()
        .or_fail(Kind::Outside)
        .and_then(|here| crate::settings::check_settings(&here));
    Finding {
        name: "settings".to_owned(),
        ok: read.is_ok(),
        needed: true,
        why: "say who answers our own agents, and what they may do".to_owned(),
        fix: read.is_err().then(|| crate::settings::ALL_SETTINGS.to_owned()),
        found: Some(read.map_or_else(|error| error.to_string(), |_| "can be read".to_owned())),
    }
}

/// What holds the commands of our own agents: tried, and not only looked for.
fn sandbox_finding() -> Finding {
    let tried = || -> anyhow::Result<Result<(), String>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let launcher = Some(std::env::current_exe()?);
        Ok(runtime.block_on(agent::ShellConfig { launcher, ..agent::ShellConfig::default() }.check()))
    };
    let held = tried().unwrap_or_else(|error| Err(error.to_string()));
    Finding {
        name: "sandbox".to_owned(),
        ok: held.is_ok(),
        needed: false,
        why: "holds what `bash` of our own agents runs (Landlock, seccomp); without it no command is run"
            .to_owned(),
        fix: held.is_err().then(|| "uname -r; cat /sys/kernel/security/lsm".to_owned()),
        found: Some(held.map_or_else(|why| why, |()| "Landlock and seccomp hold".to_owned())),
    }
}

/// What `offshoot report --open` hands a page to.
fn browser_finding() -> Finding {
    let found = child::find(OPENER);
    let fix = if cfg!(target_os = "macos") { "ls -l /usr/bin/open" } else { "apt-get install xdg-utils" };
    Finding {
        name: OPENER.to_owned(),
        ok: found.is_some(),
        needed: false,
        why: "shows the page of `offshoot report --open` in a browser; without it, open the file yourself"
            .to_owned(),
        fix: found.is_none().then(|| fix.to_owned()),
        found: found.map(|path| path.display().to_string()),
    }
}

fn text(finding: &Finding) -> String {
    let mark = match (finding.ok, finding.needed) {
        (true, _) => "ok     ",
        (false, true) => "MISSING",
        (false, false) => "without",
    };
    let found = finding.found.as_deref().unwrap_or_default();
    let line = listed(&format!("{mark} {:<20} ", finding.name), found);
    match &finding.fix {
        Some(fix) => format!("{line}        {}\n        $ {fix}\n", finding.why),
        None => line,
    }
}

/// What was found behind its name; what does not fit goes on below, an item of the list at a time.
fn listed(head: &str, found: &str) -> String {
    const WIDTH: usize = 80;
    let indent = head.chars().count();
    let mut lines = vec![head.to_owned()];
    for item in found.split_inclusive(", ") {
        let (line, has) =
            (lines.last().map_or(0, |line| line.chars().count()), item.trim_end().chars().count());
        if line > indent && line + has > WIDTH {
            lines.push(" ".repeat(indent));
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(item);
        }
    }
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_stays_within_the_screen() {
        let finding = |found: &str| Finding {
            name: "oh-my-opencode".to_owned(),
            ok: true,
            needed: false,
            found: Some(found.to_owned()),
            why: String::new(),
            fix: None,
        };
        let long = "opencode_1.0.185__oh-my-opencode_2.14.0, opencode_1.18.33__oh-my-opencode_4.19.4";
        let head = "ok      oh-my-opencode       ";
        let below = format!("\n{}", " ".repeat(head.len()));
        assert_eq!(text(&finding(long)), format!("{head}{}\n", long.replace(", ", &format!(",{below}"))));
        assert_eq!(text(&finding("1, 2")), format!("{head}1, 2\n"));
    }
}
