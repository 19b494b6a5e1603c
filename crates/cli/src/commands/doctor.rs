//! `offshoot doctor`: checks this machine, and prints the commands that fix problems.

use std::process::ExitCode;

use harness::{CaptureFolders, DoctorFinding};
use report::Tone;

use super::Format;
use super::report::OPENER;
use crate::failure::{ExitKind, OrFail, hint};
use crate::terminal::print_text;
use crate::{child, journal, paths};

/// Check this machine, and print the commands that fix problems
///
/// The exit code is 1 if captures need something that is missing, or if the journal of our own runs is damaged.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  offshoot doctor
  offshoot doctor --format json")]
pub(crate) struct Args {
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let hint = || "export HOME=/home/you".to_owned();
    let places = CaptureFolders {
        data: paths::data_dir().or_fail_with(ExitKind::Usage, hint)?,
        cache: paths::cache_dir().or_fail_with(ExitKind::Usage, hint)?,
        slots: paths::slots_dir(),
    };
    let mut findings = harness::doctor(&places, &harness::list());
    findings.push(settings_finding());
    findings.push(journal_finding());
    findings.push(sandbox_finding());
    findings.push(browser_finding());
    let missing = findings.iter().any(|finding| finding.needed && !finding.ok);
    match args.format {
        Format::Text => print_text(&findings.iter().map(text).collect::<String>()),
        Format::Json => {
            let json = serde_json::json!({ "format": 1, "ok": !missing, "findings": findings });
            print_text(&format!("{}\n", report::harmless_json(&json)));
        }
    }
    Ok(if missing { ExitCode::from(ExitKind::Verdict as u8) } else { ExitCode::SUCCESS })
}

/// Checks the whole journal of our own runs.
fn journal_finding() -> DoctorFinding {
    let mut finding = DoctorFinding {
        name: "journal".to_owned(),
        ok: true,
        needed: true,
        found: None,
        why: "stores the runs of our own agents".to_owned(),
        fix: None,
    };
    let store = paths::data_dir().map(|data| data.join(crate::journal::FILE_NAME)).unwrap_or_default();
    if !store.exists() {
        finding.found = Some("none yet; the first run creates it".to_owned());
        return finding;
    }
    let health = journal::open().and_then(|store| store.check().or_fail(ExitKind::Outside));
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

/// Checks the settings of a run in this folder.
fn settings_finding() -> DoctorFinding {
    let read = std::env::current_dir()
        .or_fail(ExitKind::Outside)
        .and_then(|here| crate::settings::check_settings(&here));
    DoctorFinding {
        name: "settings".to_owned(),
        ok: read.is_ok(),
        needed: true,
        why: "choose the provider and the permissions of our own agents".to_owned(),
        fix: read.is_err().then(|| crate::settings::ALL_SETTINGS.to_owned()),
        found: Some(read.map_or_else(|error| error.to_string(), |_| "valid".to_owned())),
    }
}

/// Tries the sandbox for commands of our own agents.
fn sandbox_finding() -> DoctorFinding {
    let try_it = || -> anyhow::Result<Result<(), String>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let launcher = Some(std::env::current_exe()?);
        Ok(runtime.block_on(agent::ShellConfig { launcher, ..agent::ShellConfig::default() }.check()))
    };
    let result = try_it().unwrap_or_else(|error| Err(error.to_string()));
    DoctorFinding {
        name: "sandbox".to_owned(),
        ok: result.is_ok(),
        needed: false,
        why: "limits commands of our own agents (Landlock, seccomp); without it they run no commands"
            .to_owned(),
        fix: result.is_err().then(|| "uname -r; cat /sys/kernel/security/lsm".to_owned()),
        found: Some(result.map_or_else(|why| why, |()| "Landlock and seccomp work".to_owned())),
    }
}

/// Looks for the program that opens a page of `offshoot report --open`.
fn browser_finding() -> DoctorFinding {
    let found = child::find(OPENER);
    let fix = if cfg!(target_os = "macos") { "ls -l /usr/bin/open" } else { "apt-get install xdg-utils" };
    DoctorFinding {
        name: OPENER.to_owned(),
        ok: found.is_some(),
        needed: false,
        why: "opens the page of `offshoot report --open` in a browser".to_owned(),
        fix: found.is_none().then(|| fix.to_owned()),
        found: found.map(|path| path.display().to_string()),
    }
}

fn text(finding: &DoctorFinding) -> String {
    let mark = match (finding.ok, finding.needed) {
        (true, _) => Tone::Good.paint("ok") + "     ",
        (false, true) => Tone::Bad.paint("MISSING"),
        (false, false) => Tone::Warning.paint("without"),
    };
    let found = finding.found.as_deref().unwrap_or_default();
    let indent = "MISSING ".len() + 21;
    let line = list(&format!("{mark} {:<20} ", finding.name), indent, &report::plain(found));
    match &finding.fix {
        Some(fix) => {
            let (why, fix) = (report::plain(&finding.why), Tone::Hint.paint(&report::plain(fix)));
            format!("{line}        {why}\n        $ {fix}\n")
        }
        None => line,
    }
}

/// Wraps a comma-separated list after a head of `indent` columns.
fn list(head: &str, indent: usize, items: &str) -> String {
    const WIDTH: usize = 80;
    let mut text = head.to_owned();
    let mut column = indent;
    for item in items.split_inclusive(", ") {
        if column > indent && column + item.trim_end().chars().count() > WIDTH {
            text = format!("{}\n{}", text.trim_end(), " ".repeat(indent));
            column = indent;
        }
        text += item;
        column += item.chars().count();
    }
    format!("{}\n", text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_is_wrapped() {
        let finding = |found: &str| DoctorFinding {
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
        let text = |finding: &DoctorFinding| report::terminal_text(&super::text(finding), false);
        assert_eq!(text(&finding(long)), format!("{head}{}\n", long.replace(", ", &format!(",{below}"))));
        assert_eq!(text(&finding("1, 2")), format!("{head}1, 2\n"));
    }
}
