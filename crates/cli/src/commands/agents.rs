//! `offshoot agents`: lists and accepts the agents, skills and commands of a folder.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use agent::definition::{
    Agent, DefinitionFile, DefinitionKind, DefinitionState, GENERAL, Skill, ToolSelection, UnusedKey,
};
use report::Tone;
use serde_json::{Value, json};

use super::Format;
use crate::definitions::{self, FolderDefinitions};
use crate::failure::{ExitKind, OrFail, classify, hint};
use crate::terminal::print_text;

/// List and accept the agents, skills and commands of this folder
///
/// They are Markdown files with front matter, in `.offshoot`, `.claude` and `.opencode` of this folder and in your own
/// configuration folder; see docs/guide/agents.md.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  offshoot agents check
  offshoot agents accept .claude/agents/reviewer.md
  offshoot run --agent reviewer 'Look at the last change'")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Check(CheckArgs),
    Accept(AcceptArgs),
}

/// List the files that are used, and why others are not
///
/// The exit code is 1 if a file is broken, or if no run can start here because of `offshoot.toml`.
#[derive(clap::Args)]
#[command(after_help = "Example:
  offshoot agents check --format json")]
struct CheckArgs {
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Accept files of this folder in their present content
///
/// Read them first: the agent gets their text as instructions, or starts an MCP server from them. Accept a file again
/// after each change.
#[derive(clap::Args)]
#[command(after_help = "Example:
  offshoot agents accept .claude/agents/*.md")]
struct AcceptArgs {
    /// Files to accept
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let here = std::env::current_dir().or_fail(ExitKind::Usage)?;
    let definitions = FolderDefinitions::load(&here)?;
    match &args.command {
        Command::Check(check) => {
            let settings = crate::settings::check_settings(&definitions.project).err();
            print_text(&match check.format {
                Format::Text => {
                    text(&definitions) + &settings.as_ref().map(settings_text).unwrap_or_default()
                }
                Format::Json => {
                    format!("{}\n", report::harmless_json(&json(&definitions, settings.as_ref())))
                }
            });
            let is_sound = definitions.all.is_sound() && settings.is_none();
            Ok(ExitCode::from(if is_sound { 0 } else { ExitKind::Verdict as u8 }))
        }
        Command::Accept(accept) => accept_files(definitions, &accept.files),
    }
}

/// Settings of a project. All of them apply once the file is accepted.
const SETTINGS: &str = "offshoot.toml";

/// Accepts all files, or none.
fn accept_files(mut definitions: FolderDefinitions, files: &[PathBuf]) -> anyhow::Result<ExitCode> {
    // Unreadable settings name no MCP servers yet.
    let programs = match crate::settings::check_settings(&definitions.project) {
        Ok(settings) => definitions::server_paths(&definitions.project)?.files_to_accept(&settings.mcp),
        Err(_) => Vec::new(),
    };
    let mut accepted = Vec::new();
    for path in files {
        match acceptable(&definitions, &programs, path)? {
            None => status!("{} is your own file and needs no acceptance", path.display()),
            Some(file) => {
                let bytes = std::fs::read(&file).or_fail(ExitKind::Usage)?;
                if !definitions.trust.accept(&file, &bytes) {
                    let error = anyhow::anyhow!("cannot accept `{}`: its path is not UTF-8", path.display());
                    return Err(error).or_fail(ExitKind::Usage);
                }
                accepted.push(definitions.relative(&file));
            }
        }
    }
    definitions.trust.write(&crate::settings::trust_path()?).map_err(crate::settings::trust_failure)?;
    for path in accepted {
        status!("accepted {}", report::plain(&path));
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the file to accept for a path: settings, a program of an MCP server, or a definition. Returns `None` for the
/// user's own definitions.
fn acceptable(
    definitions: &FolderDefinitions,
    programs: &[PathBuf],
    path: &Path,
) -> anyhow::Result<Option<PathBuf>> {
    let check = || "offshoot agents check".to_owned();
    let shown = path.display();
    if path.is_dir() {
        let error = anyhow::anyhow!("`{shown}` is a folder; accept its files");
        return Err(error).or_fail_with(ExitKind::Usage, || format!("offshoot agents accept {shown}/*.md"));
    }
    let real = path.canonicalize().ok();
    let is_same = |file: &Path| real.is_some() && file.canonicalize().ok() == real;
    let settings = definitions.project.join(SETTINGS);
    if real.as_ref() == Some(&settings) {
        return Ok(Some(settings));
    }
    if let Some(program) = programs.iter().find(|file| is_same(file)) {
        return Ok(Some(program.clone()));
    }
    let file = definitions.all.files.iter().find(|file| is_same(&file.path));
    let Some(file) = file.filter(|file| !matches!(file.state, DefinitionState::Ignored(_))) else {
        let error = anyhow::anyhow!(
            "`{shown}` is not an agent, skill, command, `offshoot.toml` or MCP server of this folder"
        );
        return Err(error).or_fail_with(ExitKind::Usage, check);
    };
    if let DefinitionState::Invalid(broken) = &file.state {
        return Err(anyhow::anyhow!("cannot use `{shown}`: {broken}")).or_fail_with(ExitKind::Usage, check);
    }
    Ok(file.is_project.then(|| file.path.clone()))
}

fn text(definitions: &FolderDefinitions) -> String {
    let mut text = String::new();
    let is_general = definitions.all.agents.iter().any(|agent| agent.name == GENERAL);
    for (kind, title) in [
        (DefinitionKind::Agent, "agents"),
        (DefinitionKind::Skill, "skills"),
        (DefinitionKind::Command, "commands"),
    ] {
        let used = || {
            definitions
                .all
                .files
                .iter()
                .filter(|file| file.kind == kind && file.state == DefinitionState::Used)
        };
        if kind != DefinitionKind::Agent && used().next().is_none() {
            continue;
        }
        text += &format!("{}\n", Tone::Strong.paint(title));
        for file in used() {
            let name = report::plain(file.name.as_deref().unwrap_or_default());
            let is_disabled = definitions
                .all
                .agents
                .iter()
                .any(|agent| agent.is_disabled && agent.file.as_ref() == Some(&file.path));
            let disabled = if is_disabled { " (disabled)" } else { "" };
            text += &format!("  {name:<20} {}{disabled}\n", report::plain(&definitions.relative(&file.path)));
            for unused in &file.unused {
                text += &unused_line(unused);
            }
        }
        if kind == DefinitionKind::Agent && !is_general {
            text += &format!("  {GENERAL:<20} built in\n");
        }
    }
    let unused: Vec<&DefinitionFile> =
        definitions.all.files.iter().filter(|file| file.state != DefinitionState::Used).collect();
    if !unused.is_empty() {
        text += &format!("{}\n", Tone::Warning.paint("not used"));
    }
    for file in unused {
        let line = match &file.state {
            DefinitionState::Invalid(broken) => format!(":{}", broken.line),
            _ => String::new(),
        };
        let reason = report::plain(&reason(definitions, file));
        text += &format!("  {}{line}\n    {reason}\n", report::plain(&definitions.relative(&file.path)));
        for unused in &file.unused {
            text += &unused_line(unused);
        }
    }
    text
}

/// Explains why no run can start here.
fn settings_text(error: &anyhow::Error) -> String {
    let hint = hint(error).map(|hint| format!("    {}\n", report::plain(hint))).unwrap_or_default();
    format!("settings\n  {}\n{hint}", report::plain(&format!("{error:#}")))
}

fn unused_line(unused: &UnusedKey) -> String {
    let UnusedKey { key, line, why, .. } = unused;
    format!("    line {line}, `{}` is not used: {}\n", report::plain(key), report::plain(why))
}

/// Explains why a file is not used.
fn reason(definitions: &FolderDefinitions, file: &DefinitionFile) -> String {
    match &file.state {
        DefinitionState::Used => String::new(),
        DefinitionState::Invalid(broken) => broken.why.clone(),
        DefinitionState::NotAccepted => {
            format!("not accepted; read it, then: {}", definitions.accept_command(&file.path))
        }
        DefinitionState::Hidden { by } => {
            let name = file.name.as_deref().unwrap_or_default();
            format!("{} defines `{name}`, too, and takes precedence", definitions.relative(by))
        }
        DefinitionState::Ignored(why) => (*why).to_owned(),
    }
}

fn json(definitions: &FolderDefinitions, settings: Option<&anyhow::Error>) -> Value {
    let tools = agent::tools::builtin();
    let kept = |of: &ToolSelection| -> Vec<&str> {
        tools.iter().map(|tool| tool.name()).filter(|name| of.has(name)).collect()
    };
    let file = |file: &Option<PathBuf>| file.as_ref().map(|file| definitions.relative(file));
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
    let all = &definitions.all;
    // A definition of the general agent replaces the built-in one.
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
        "files": all.files.iter().map(|file| file_json(definitions, file)).collect::<Vec<_>>(),
    })
}

fn file_json(definitions: &FolderDefinitions, file: &DefinitionFile) -> Value {
    let (state, line) = match &file.state {
        DefinitionState::Used => ("used", None),
        DefinitionState::Invalid(broken) => ("broken", Some(broken.line)),
        DefinitionState::NotAccepted => ("not_accepted", None),
        DefinitionState::Hidden { .. } => ("hidden", None),
        DefinitionState::Ignored(_) => ("ignored", None),
    };
    let unused = |unused: &UnusedKey| json!({ "key": unused.key, "line": unused.line, "value": unused.value, "reason": unused.why });
    let reason = Some(reason(definitions, file)).filter(|reason| !reason.is_empty());
    json!({
        "file": definitions.relative(&file.path), "kind": file.kind.word(), "name": file.name, "state": state,
        "line": line, "reason": reason, "unused": file.unused.iter().map(unused).collect::<Vec<_>>(),
    })
}

/// Returns the error for a definition that exists and is not accepted.
pub(crate) fn not_accepted(
    definitions: &FolderDefinitions,
    kind: DefinitionKind,
    name: &str,
) -> Option<anyhow::Error> {
    let waits = |file: &&DefinitionFile| {
        file.kind == kind && file.state == DefinitionState::NotAccepted && file.name.as_deref() == Some(name)
    };
    let file = definitions.all.files.iter().find(waits)?;
    let error = anyhow::anyhow!(
        "the {} `{name}` in `{}` is not accepted",
        kind.word(),
        definitions.relative(&file.path)
    );
    Some(classify(
        ExitKind::Usage,
        Some(format!("read it, then: {}", definitions.accept_command(&file.path))),
        error,
    ))
}
