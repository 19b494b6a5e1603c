//! `offshoot init`: writes settings and a first scenario.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::failure::{ExitKind, OrFail};
use crate::paths;

/// Write settings and a first scenario into this folder
///
/// `offshoot.toml` lists the settings as comments. `offshoot capture` runs the scenario `scenarios/first` without a key.
/// Existing files are not changed.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  offshoot init
  offshoot capture offshoot --scenario first
  offshoot init --user")]
pub(crate) struct Args {
    /// Write only your own settings, which apply in every folder
    #[arg(long)]
    user: bool,
}

/// A `#` without a space is a disabled setting: remove the `#` to enable it.
const PROJECT: &str = r#"# Defaults of `offshoot run` in this folder. Flags take precedence over the
# environment, the environment over this file, and this file over your own
# `offshoot.toml` in the configuration folder.

# Model: opus, sonnet or haiku, a model id, or PROVIDER/ID.
#model = "sonnet"

# Actions that are denied, and actions that need confirmation; see
# docs/guide/run.md.
#[permissions]
#deny = ["bash(git push*)", "read(secrets)"]
#ask = ["bash"]

# Providers, tool servers, limits of sub-agents and allowed actions belong into
# your own settings: see `offshoot init --user`. In this file they are refused
# until you accept it: `offshoot agents accept offshoot.toml`.
"#;

const USER: &str = r#"# Defaults of `offshoot run` in all folders. The `offshoot.toml` of a project
# can choose another model, and add `ask` and `deny` rules. Its other settings
# apply after you have accepted the file.

# Model: opus, sonnet or haiku, a model id, or PROVIDER/ID.
#model = "sonnet"

# False: requests do not ask for summaries of a model's thoughts.
#thinking_summaries = false

# Sandbox for commands. "off" gives them all of your rights.
#sandbox = "on"

# An additional provider. `anthropic` and `openai` are built in.
#[providers.local]
# Dialect: anthropic, openai-chat or openai-responses.
#dialect = "openai-chat"
#base_url = "http://127.0.0.1:11434/v1"
# Variable with the key; or `key_file`, a file beside this one.
#key_env = "LOCAL_KEY"
# Model of each tier.
#models = { sonnet = "qwen", haiku = "qwen-small" }
# Seconds without a byte after which a request fails.
#idle_timeout_s = 60

# Permissions: `deny` overrides the others, `allow` is an exception to `ask`.
#[permissions]
#deny = ["bash(git push*)", "read(secrets)"]
#ask = ["bash"]
#allow = ["bash(cargo test*)"]

# Calls that need no question in one folder. The answer `always` adds such a
# part at the end of this file.
#[[workspace]]
#path = "/home/me/project"
#allow = ["bash(cargo test)"]

# Addresses outside of the public internet that `web_fetch` may contact.
#[web_fetch]
#allow = ["127.0.0.1:8080"]

# Limits of a run tree; see docs/guide/subagents.md.
#[sub_agents]
# Maximum number of active runs, and of open requests.
#at_once = 16
#requests = 16
# Maximum number of sub-agents of one agent, and of levels.
#width = 1000
#depth = 1
# Budget of one sub-agent, including its descendants.
#max_budget_usd = 0.50
#max_budget_tokens = 200000

# A command that is asked before each call of a tool; see docs/guide/hooks.md.
#[[hooks.PreToolUse]]
#matcher = "bash"
#command = "sh hooks/check.sh"
#timeout = 60

# Forks that work beside the main agent; see docs/guide/forks.md.
#[side_work]
#turn_summary = true
#prompt_suggestion = true
#session_memory = true
# true, or a question; asked after every 10 model turns, or after `every`.
#supervisor = "Is it going in circles?"
#every = 10

# An MCP tool server: a command, or a `url`.
#[mcp.files]
#command = ["npx", "-y", "@modelcontextprotocol/server-filesystem", "."]
#tools = ["read_text_file"]
#enabled = false
"#;

/// Files of a scripted scenario for any harness: path and text.
const SCENARIO: [(&str, &str); 3] = [
    ("scenarios/first/scenario.yaml", include_str!("first/scenario.yaml")),
    ("scenarios/first/script.yaml", include_str!("first/script.yaml")),
    ("scenarios/first/workspace/README.md", include_str!("first/workspace/README.md")),
];
const SETTINGS: &str = "offshoot.toml";

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let files: Vec<(PathBuf, &str)> = match args.user {
        true => {
            let folder =
                paths::config_dir().or_fail_with(ExitKind::Usage, || "export HOME=/home/you".into())?;
            vec![(folder.join(SETTINGS), USER)]
        }
        false => {
            let all = [(SETTINGS, PROJECT)].into_iter().chain(SCENARIO);
            all.map(|(name, text)| (PathBuf::from(name), text)).collect()
        }
    };
    let mut existing = Vec::new();
    for (path, text) in &files {
        match write_new(path, text) {
            Ok(()) if path.ends_with(SETTINGS) => {
                status!("wrote {}; all settings in it are comments", path.display())
            }
            Ok(()) => status!("wrote {}", path.display()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => existing.push(path),
            Err(error) => {
                let error = anyhow::Error::new(error).context(format!("cannot write `{}`", path.display()));
                return Err(error).or_fail_with(ExitKind::Outside, || "ls -ld .".to_owned());
            }
        }
    }
    if existing.len() == files.len() {
        let shown = existing[0].display();
        let error = match existing.len() {
            1 => anyhow::anyhow!("`{shown}` exists already"),
            _ => anyhow::anyhow!("`{shown}` and the scenario exist already"),
        };
        return Err(error).or_fail_with(ExitKind::Usage, || format!("cat {shown}"));
    }
    for path in existing {
        status!("kept {}, which exists already", path.display());
    }
    if !args.user {
        hint!("offshoot capture offshoot --scenario first");
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a new file. An existing file is an error.
fn write_new(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder)?;
    }
    fs::OpenOptions::new().write(true).create_new(true).open(path)?.write_all(text.as_bytes())
}
