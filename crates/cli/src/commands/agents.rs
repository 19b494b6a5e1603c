//! `offshoot agents`: lists and accepts the agents, skills and commands of a folder.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use agent::HookSet;
use agent::definition::{
    Agent, DefinitionFile, DefinitionKind, DefinitionState, GENERAL, Skill, ToolSelection, UnusedKey,
};
use report::Tone;
use serde_json::{Value, json};

use super::Format;
use crate::definitions::{self, FolderDefinitions, HookFile};
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
/// Read them first: the agent gets their text as instructions, starts an MCP server from them, or runs their hooks. Accept
/// a file again after each change.
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
            let settings = crate::settings::check_settings(&definitions.project);
            let hooks = settings.as_ref().map(|settings| settings.hooks.clone()).unwrap_or_default();
            let settings = settings.err();
            print_text(&match check.format {
                Format::Text => {
                    text(&definitions, &hooks) + &settings.as_ref().map(settings_text).unwrap_or_default()
                }
                Format::Json => {
                    format!("{}\n", report::harmless_json(&json(&definitions, &hooks, settings.as_ref())))
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
    if let Some(hooks) = definitions.hook_files.iter().find(|file| is_same(&file.path)) {
        return Ok(Some(hooks.path.clone()));
    }
    if let Some(skill) = real.as_deref().and_then(|real| definitions.folder_skills.skill_file(real)) {
        return Ok(Some(skill));
    }
    if let Some(program) = programs.iter().find(|file| is_same(file)) {
        return Ok(Some(program.clone()));
    }
    let file = definitions.all.files.iter().find(|file| is_same(&file.path));
    let Some(file) = file.filter(|file| !matches!(file.state, DefinitionState::Ignored(_))) else {
        let error = anyhow::anyhow!(
            "`{shown}` is not an agent, skill, command, `offshoot.toml`, MCP server or settings with hooks of this \
             folder"
        );
        return Err(error).or_fail_with(ExitKind::Usage, check);
    };
    if let DefinitionState::Invalid(broken) = &file.state {
        return Err(anyhow::anyhow!("cannot use `{shown}`: {broken}")).or_fail_with(ExitKind::Usage, check);
    }
    Ok(file.is_project.then(|| file.path.clone()))
}

/// Lists the hooks that are asked, in order.
fn hooks_text(hooks: &HookSet) -> String {
    let line = |(event, command): (&str, &str)| format!("  {event:<20} {}\n", report::plain(command));
    let listed: String = hooks.commands().map(line).collect();
    if listed.is_empty() { listed } else { format!("{}\n{listed}", Tone::Strong.paint("hooks")) }
}

/// Lists the settings with hooks that are not asked.
fn unused_hooks_text(definitions: &FolderDefinitions) -> String {
    let mut text = String::new();
    for file in &definitions.hook_files {
        let name = report::plain(&definitions.relative(&file.path));
        if !file.is_accepted {
            let accept = definitions.accept_command(&file.path);
            text += &format!(
                "  {name}\n    its hooks are not accepted; read it, then: {}\n",
                report::plain(&accept)
            );
        }
        for unused in file.unused.iter().filter(|_| file.is_accepted) {
            text +=
                &format!("  {name}\n    `{}` is not used: {}\n", report::plain(&unused.event), unused.why);
        }
    }
    text
}

fn text(definitions: &FolderDefinitions, hooks: &HookSet) -> String {
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
    text += &hooks_text(hooks);
    let unused: Vec<&DefinitionFile> =
        definitions.all.files.iter().filter(|file| file.state != DefinitionState::Used).collect();
    let unused_hooks = unused_hooks_text(definitions);
    if !unused.is_empty() || !unused_hooks.is_empty() {
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
    text + &unused_hooks
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

fn json(definitions: &FolderDefinitions, hooks: &HookSet, settings: Option<&anyhow::Error>) -> Value {
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
    let hook_files = definitions.hook_files.iter().map(|file| hook_file_json(definitions, file));
    let files = all.files.iter().map(|file| file_json(definitions, file)).chain(hook_files);
    json!({
        "format": 1,
        "ok": all.is_sound() && settings.is_none(),
        "settings": settings.map(|error| format!("{error:#}")),
        "agents": all.agents.iter().chain(&built_in).map(agent).collect::<Vec<_>>(),
        "skills": all.skills.iter().map(skill).collect::<Vec<_>>(),
        "commands": all.commands.iter().map(skill).collect::<Vec<_>>(),
        "hooks": hooks.commands().map(|(event, command)| json!({ "event": event, "command": command })).collect::<Vec<_>>(),
        "files": files.collect::<Vec<_>>(),
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

fn hook_file_json(definitions: &FolderDefinitions, file: &HookFile) -> Value {
    let state = if file.is_accepted { "used" } else { "not_accepted" };
    json!({
        "file": definitions.relative(&file.path), "kind": "hooks", "name": null, "state": state, "line": null,
        "reason": null,
        "unused": file.unused.iter().map(|unused| json!({ "key": unused.event, "line": null, "value": null, "reason": unused.why })).collect::<Vec<_>>(),
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
