//! Settings of hooks: the `[hooks]` table of an `offshoot.toml`, and the settings of Claude Code.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use toml::Spanned;

use super::HookPoint;
use super::matcher::ToolMatcher;

/// Default and longest time limit of a hook, in seconds.
const DEFAULT_TIMEOUT_S: u64 = 60;
const MAX_TIMEOUT_S: u64 = 600;

/// All hooks, in the order of the settings.
#[derive(Clone, Debug, Default)]
pub struct HookSet(Vec<Hook>);

/// One hook.
#[derive(Clone, Debug)]
pub(crate) struct Hook {
    pub(crate) point: HookPoint,
    pub(crate) matcher: ToolMatcher,
    pub(crate) command: String,
    pub(crate) timeout: Duration,
    /// True if a call is denied when the hook before it fails.
    pub(crate) fails_closed: bool,
    /// True if it runs in the sandbox, in the workspace. Otherwise it has the user's rights.
    pub(crate) is_sandboxed: bool,
    /// True if it expects the names of Claude Code.
    pub(crate) is_claude: bool,
    /// The settings file that names it.
    pub(crate) file: PathBuf,
}

/// A part of Claude Code's settings that is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusedHook {
    /// The event.
    pub event: String,
    /// The reason.
    pub why: &'static str,
}

/// The `[hooks]` table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HookTables {
    /// Settings of Claude Code whose hooks are used, too.
    #[serde(default)]
    pub(crate) claude_settings: Vec<String>,
    #[serde(default, rename = "PreToolUse")]
    pre_tool_use: Vec<HookTable>,
    #[serde(default, rename = "PostToolUse")]
    post_tool_use: Vec<HookTable>,
    #[serde(default, rename = "Stop")]
    stop: Vec<HookTable>,
    #[serde(default, rename = "SubagentStop")]
    subagent_stop: Vec<HookTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HookTable {
    matcher: Option<Spanned<String>>,
    command: Spanned<String>,
    timeout: Option<Spanned<u64>>,
    #[serde(default)]
    on_failure: OnFailure,
    sandbox: Option<Sandbox>,
}

/// The fate of a call if a hook before it fails.
#[derive(Clone, Copy, Default, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum OnFailure {
    #[default]
    Deny,
    Allow,
}

#[derive(Clone, Copy, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Sandbox {
    On,
    Off,
}

impl HookTables {
    /// Reads the hooks. An error has its position and its text.
    pub(crate) fn hooks(&self, file: &Path) -> Result<HookSet, (usize, String)> {
        let mut hooks = Vec::new();
        for (point, tables) in [
            (HookPoint::PreToolUse, &self.pre_tool_use),
            (HookPoint::PostToolUse, &self.post_tool_use),
            (HookPoint::Stop, &self.stop),
            (HookPoint::SubagentStop, &self.subagent_stop),
        ] {
            for table in tables {
                hooks.push(table.hook(point, file)?);
            }
        }
        Ok(HookSet(hooks))
    }

    /// Returns whether a hook is to run without the sandbox.
    pub(crate) fn leaves_sandbox(&self) -> bool {
        let all = [&self.pre_tool_use, &self.post_tool_use, &self.stop, &self.subagent_stop];
        all.into_iter().flatten().any(|table| table.sandbox == Some(Sandbox::Off))
    }
}

impl HookTable {
    fn hook(&self, point: HookPoint, file: &Path) -> Result<Hook, (usize, String)> {
        let command = self.command.get_ref().trim();
        if command.is_empty() {
            return Err((self.command.span().start, "the command of a hook is empty".to_owned()));
        }
        let timeout = self.timeout.as_ref().map_or(DEFAULT_TIMEOUT_S, |timeout| *timeout.get_ref());
        if !(1..=MAX_TIMEOUT_S).contains(&timeout) {
            let at = self.timeout.as_ref().map_or(0, |timeout| timeout.span().start);
            return Err((at, format!("`timeout` must be from 1 to {MAX_TIMEOUT_S} seconds: {timeout}")));
        }
        let matcher = self.matcher.as_ref().map_or("", |matcher| matcher.get_ref());
        let at = self.matcher.as_ref().map_or(0, |matcher| matcher.span().start);
        Ok(Hook {
            point,
            matcher: ToolMatcher::parse(matcher).map_err(|why| (at, why))?,
            command: command.to_owned(),
            timeout: Duration::from_secs(timeout),
            fails_closed: self.on_failure == OnFailure::Deny,
            is_sandboxed: self.sandbox == Some(Sandbox::On),
            is_claude: false,
            file: file.to_owned(),
        })
    }
}

impl HookSet {
    /// Reads the hooks in settings of Claude Code. An error has its line and its text.
    pub(crate) fn read_claude(text: &str, file: &Path) -> Result<(Self, Vec<UnusedHook>), (usize, String)> {
        let settings: Value =
            serde_json::from_str(text).map_err(|error| (error.line(), format!("it is not JSON: {error}")))?;
        let (mut hooks, mut unused) = (Vec::new(), Vec::new());
        let wrong = |what: &str| (1, format!("`hooks` is not as Claude Code has it: {what}"));
        if settings["disableAllHooks"] == true || settings["hooks"].is_null() {
            return Ok((Self::default(), unused));
        }
        let events = settings["hooks"].as_object().ok_or_else(|| wrong("it is not an object"))?;
        for (event, groups) in events {
            let Some(point) = HookPoint::ALL.into_iter().find(|point| point.name() == event) else {
                unused.push(UnusedHook { event: event.clone(), why: "offshoot has no such event" });
                continue;
            };
            for group in groups.as_array().ok_or_else(|| wrong(&format!("`{event}` is not a list")))? {
                let matcher = ToolMatcher::parse(group["matcher"].as_str().unwrap_or_default());
                let matcher = matcher.map_err(|why| (1, format!("{event}: {why}")))?;
                let list = group["hooks"].as_array();
                for hook in list.ok_or_else(|| wrong(&format!("a group of `{event}` has no list `hooks`")))? {
                    match claude_hook(point, &matcher, hook, file) {
                        Some(hook) => hooks.push(hook),
                        None => unused.push(UnusedHook {
                            event: event.clone(),
                            why: "only hooks of type `command` are run, and none that are `async`",
                        }),
                    }
                }
            }
        }
        Ok((Self(hooks), unused))
    }

    /// Marks the hooks as those of a project: they run in the sandbox.
    pub(crate) fn into_project_hooks(mut self) -> Self {
        self.0.iter_mut().for_each(|hook| hook.is_sandboxed = true);
        self
    }

    /// Adds the hooks of another file. They are asked after these.
    pub(crate) fn extend(&mut self, more: Self) {
        self.0.extend(more.0);
    }

    /// Returns whether there is no hook.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns each hook's event and command, in order.
    pub fn commands(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|hook| (hook.point.name(), hook.command.as_str()))
    }

    /// Returns the hooks of an event about a tool, in order.
    pub(crate) fn of_call<'a>(
        &'a self,
        point: HookPoint,
        tool: &'a str,
        server: Option<&'a str>,
    ) -> impl Iterator<Item = &'a Hook> {
        self.of(point).filter(move |hook| hook.matcher.matches(tool, server))
    }

    /// Returns the hooks of an event, in order.
    pub(crate) fn of(&self, point: HookPoint) -> impl Iterator<Item = &Hook> {
        self.0.iter().filter(move |hook| hook.point == point)
    }
}

fn claude_hook(point: HookPoint, matcher: &ToolMatcher, hook: &Value, file: &Path) -> Option<Hook> {
    let command = hook["command"].as_str().map(str::trim).filter(|command| !command.is_empty())?;
    if hook["type"] != "command" || hook["async"] == true {
        return None;
    }
    let seconds = hook["timeout"].as_f64().unwrap_or(DEFAULT_TIMEOUT_S as f64);
    Some(Hook {
        point,
        matcher: matcher.clone(),
        command: command.to_owned(),
        timeout: Duration::from_secs_f64(seconds.clamp(1.0, MAX_TIMEOUT_S as f64)),
        // A failed hook denies nothing in Claude Code, unless it says so.
        fails_closed: hook["onFailure"] == "block",
        is_sandboxed: false,
        is_claude: true,
        file: file.to_owned(),
    })
}
