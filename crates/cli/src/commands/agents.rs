//! `offshoot agents`: what is described for agents in this folder, and what of it counts.

use std::path::PathBuf;
use std::process::ExitCode;

use agent::definition::{
    Agent, DefinitionFile, DefinitionKind, DefinitionState, GENERAL, Skill, ToolSelection, UnusedKey,
};
use serde_json::{Value, json};

use super::Format;
use crate::definitions::{self, Described};
use crate::failure::{Kind, OrFail, hint, marked};
use crate::terminal::print;

/// Look at the agents, skills and commands described for this folder
///
/// They are Markdown with front matter, in `.offshoot`, `.claude` and `.opencode` here and in your own configuration
/// folder; docs/guide/agents.md says more.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  offshoot agents check
  offshoot agents accept .claude/agents/reviewer.md
  offshoot run --agent reviewer 'Look at the last change'")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Check(Check),
    Accept(Accept),
}

/// List what is used, and what is not, with the reason
///
/// Exit code 1 when a file is broken, or `offshoot.toml` would stop a run here.
#[derive(clap::Args)]
#[command(after_help = "Example:
  offshoot agents check --format json")]
struct Check {
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Accept files of this folder as they are now, so that they count
///
/// Read them first: what they say is told to the agent, or an MCP server is started from them. A file that changes
/// afterwards has to be accepted again.
#[derive(clap::Args)]
#[command(after_help = "Example:
  offshoot agents accept .claude/agents/*.md")]
struct Accept {
    /// The files
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let here = std::env::current_dir().or_fail(Kind::Usage)?;
    let described = Described::load(&here)?;
    match &arguments.command {
        Command::Check(check) => {
            let settings = crate::settings::check_settings(&described.project).err();
            print(&match check.format {
                Format::Text => text(&described) + &settings.as_ref().map(settings_text).unwrap_or_default(),
                Format::Json => format!("{}\n", report::harmless_json(&json(&described, settings.as_ref()))),
            });
            let sound = described.all.is_sound() && settings.is_none();
            Ok(if sound { ExitCode::SUCCESS } else { ExitCode::from(Kind::Verdict as u8) })
        }
        Command::Accept(accept) => self::accept(described, &accept.files),
    }
}

/// A project's settings, which may say more once they are accepted.
const SETTINGS: &str = "offshoot.toml";

/// Accepts all of them or none.
fn accept(mut described: Described, files: &[PathBuf]) -> anyhow::Result<ExitCode> {
    let check = || "offshoot agents check".to_owned();
    let mut accepted = Vec::new();
    // The files that MCP servers are started from. Settings that cannot be read name none yet.
    let programs = match crate::settings::check_settings(&described.project) {
        Ok(settings) => definitions::server_paths(&described.project)?.files_to_accept(&settings.mcp),
        Err(_) => Vec::new(),
    };
    for path in files {
        if path.is_dir() {
            let hint = || format!("offshoot agents accept {}/*.md", path.display());
            let error =
                anyhow::anyhow!("`{}` is a folder: what counts is accepted file by file", path.display());
            return Err(error).or_fail_with(Kind::Usage, hint);
        }
        if path.canonicalize().is_ok_and(|real| real == described.project.join(SETTINGS)) {
            let real = described.project.join(SETTINGS);
            let bytes = std::fs::read(&real).or_fail(Kind::Usage)?;
            if described.trust.accept(&real, &bytes) {
                accepted.push(described.typed(&real));
                continue;
            }
        }
        let program = path
            .canonicalize()
            .ok()
            .and_then(|real| programs.iter().find(|file| file.canonicalize().is_ok_and(|path| path == real)));
        if let Some(program) = program {
            let bytes = std::fs::read(program).or_fail(Kind::Usage)?;
            if described.trust.accept(program, &bytes) {
                accepted.push(described.typed(program));
                continue;
            }
        }
        let found = path.canonicalize().ok().and_then(|real| {
            let same = |file: &&DefinitionFile| file.path.canonicalize().is_ok_and(|path| path == real);
            described.all.files.iter().find(same)
        });
        let shown = path.display();
        let Some(file) = found.filter(|file| !matches!(file.state, DefinitionState::Ignored(_))) else {
            let error = anyhow::anyhow!(
                "`{shown}` is no agent, skill, command or `offshoot.toml` of this folder, and no MCP server is started from it"
            );
            return Err(error).or_fail_with(Kind::Usage, check);
        };
        if let DefinitionState::Invalid(broken) = &file.state {
            return Err(anyhow::anyhow!("`{shown}` cannot be used: {broken}"))
                .or_fail_with(Kind::Usage, check);
        }
        let bytes = std::fs::read(&file.path).or_fail(Kind::Usage)?;
        if file.is_project {
            if !described.trust.accept(&file.path, &bytes) {
                let error = anyhow::anyhow!("the path of `{shown}` is not UTF-8, and cannot be written down");
                return Err(error).or_fail(Kind::Usage);
            }
            accepted.push(described.typed(&file.path));
        } else {
            eprintln!("{shown} is your own, and counts without");
        }
    }
    described.trust.write(&crate::settings::trust_path()?).map_err(crate::settings::trust_failure)?;
    for path in accepted {
        eprintln!("accepted {}", report::plain(&path));
    }
    Ok(ExitCode::SUCCESS)
}

fn text(described: &Described) -> String {
    let mut text = String::new();
    let is_general = described.all.agents.iter().any(|agent| agent.name == GENERAL);
    for (kind, title) in [
        (DefinitionKind::Agent, "agents"),
        (DefinitionKind::Skill, "skills"),
        (DefinitionKind::Command, "commands"),
    ] {
        let used = || {
            described.all.files.iter().filter(|file| file.kind == kind && file.state == DefinitionState::Used)
        };
        if kind != DefinitionKind::Agent && used().next().is_none() {
            continue;
        }
        text += &format!("{title}\n");
        for file in used() {
            let name = report::plain(file.name.as_deref().unwrap_or_default());
            let off = described
                .all
                .agents
                .iter()
                .any(|agent| agent.is_disabled && agent.file.as_ref() == Some(&file.path));
            let off = if off { " (switched off)" } else { "" };
            text += &format!("  {name:<20} {}{off}\n", report::plain(&described.typed(&file.path)));
            for unused in &file.unused {
                text += &unused_line(unused);
            }
        }
        if kind == DefinitionKind::Agent && !is_general {
            text += &format!("  {GENERAL:<20} built in\n");
        }
    }
    let left: Vec<&DefinitionFile> =
        described.all.files.iter().filter(|file| file.state != DefinitionState::Used).collect();
    if !left.is_empty() {
        text += "not used\n";
    }
    for file in left {
        let line = match &file.state {
            DefinitionState::Invalid(broken) => format!(":{}", broken.line),
            _ => String::new(),
        };
        let reason = report::plain(&reason(described, file));
        text += &format!("  {}{line}\n    {reason}\n", report::plain(&described.typed(&file.path)));
        for unused in &file.unused {
            text += &unused_line(unused);
        }
    }
    text
}

/// Why no run could be started here.
fn settings_text(error: &anyhow::Error) -> String {
    let hint = hint(error).map(|hint| format!("    {}\n", report::plain(hint))).unwrap_or_default();
    format!("settings\n  {}\n{hint}", report::plain(&format!("{error:#}")))
}

fn unused_line(unused: &UnusedKey) -> String {
    let UnusedKey { key, line, why, .. } = unused;
    format!("    line {line}, `{}` is not used: {}\n", report::plain(key), report::plain(why))
}

/// Why a file does not count.
fn reason(described: &Described, file: &DefinitionFile) -> String {
    match &file.state {
        DefinitionState::Used => String::new(),
        DefinitionState::Invalid(broken) => broken.why.clone(),
        DefinitionState::NotAccepted => {
            format!("not accepted as it is; read it, then: {}", described.accept(&file.path))
        }
        DefinitionState::Hidden { by } => {
            let name = file.name.as_deref().unwrap_or_default();
            format!("`{name}` is described by {}, which comes before it", described.typed(by))
        }
        DefinitionState::Ignored(why) => (*why).to_owned(),
    }
}

fn json(described: &Described, settings: Option<&anyhow::Error>) -> Value {
    let tools = agent::tools::builtin();
    let kept = |of: &ToolSelection| -> Vec<&str> {
        tools.iter().map(|tool| tool.name()).filter(|name| of.has(name)).collect()
    };
    let file = |file: &Option<PathBuf>| file.as_ref().map(|file| described.typed(file));
    let agent = |agent: &Agent| {
        json!({
            "name": agent.name, "description": agent.description, "model": agent.model,
            "max_steps": agent.max_steps, "tools": kept(&agent.tools), "disabled": agent.is_disabled,
            "file": file(&agent.file),
        })
    };
    let skill = |skill: &Skill| {
        json!({
            "name": skill.name, "description": skill.description, "argument_hint": skill.argument_hint,
            "agent": skill.agent, "model": skill.model, "tools": skill.tools.as_ref().map(kept),
            "file": file(&skill.file),
        })
    };
    let all = &described.all;
    // The same as the text says; where the general one is described, that one counts.
    let is_general = all.agents.iter().any(|agent| agent.name == GENERAL);
    let built_in =
        agent::definition::choose(&[], None).ok().filter(|_| !is_general).map(|(general, _)| general);
    json!({
        "format": 1,
        "ok": all.is_sound() && settings.is_none(),
        "settings": settings.map(|error| format!("{error:#}")),
        "agents": all.agents.iter().chain(&built_in).map(agent).collect::<Vec<_>>(),
        "skills": all.skills.iter().map(skill).collect::<Vec<_>>(),
        "commands": all.commands.iter().map(skill).collect::<Vec<_>>(),
        "files": all.files.iter().map(|file| file_json(described, file)).collect::<Vec<_>>(),
    })
}

fn file_json(described: &Described, file: &DefinitionFile) -> Value {
    let (state, line) = match &file.state {
        DefinitionState::Used => ("used", None),
        DefinitionState::Invalid(broken) => ("broken", Some(broken.line)),
        DefinitionState::NotAccepted => ("not_accepted", None),
        DefinitionState::Hidden { .. } => ("hidden", None),
        DefinitionState::Ignored(_) => ("ignored", None),
    };
    let unused = |unused: &UnusedKey| json!({ "key": unused.key, "line": unused.line, "value": unused.value, "reason": unused.why });
    let reason = Some(reason(described, file)).filter(|reason| !reason.is_empty());
    json!({
        "file": described.typed(&file.path), "kind": file.kind.word(), "name": file.name, "state": state,
        "line": line, "reason": reason, "unused": file.unused.iter().map(unused).collect::<Vec<_>>(),
    })
}

/// Somebody asked for something that is described, and not accepted.
pub(crate) fn not_accepted(described: &Described, kind: DefinitionKind, name: &str) -> Option<anyhow::Error> {
    let waits = |file: &&DefinitionFile| {
        file.kind == kind && file.state == DefinitionState::NotAccepted && file.name.as_deref() == Some(name)
    };
    let file = described.all.files.iter().find(waits)?;
    let error = anyhow::anyhow!(
        "the {} `{name}` of this folder is not accepted as it is in `{}`",
        kind.word(),
        described.typed(&file.path)
    );
    Some(marked(Kind::Usage, Some(format!("read it, then: {}", described.accept(&file.path))), error))
}
