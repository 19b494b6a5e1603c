//! `offshoot init`: settings and a scenario to begin with.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::failure::{Kind, OrFail};
use crate::paths;

/// Write settings to begin with, and a first scenario
///
/// Into this folder: `offshoot.toml`, with the usual settings in it as comments, and `scenarios/first`, which `offshoot
/// capture` runs without a key. What is there already stays as it is.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  offshoot init
  offshoot capture offshoot --scenario first
  offshoot init --user")]
pub(crate) struct Arguments {
    /// Only settings, your own, which count in every folder
    #[arg(long)]
    user: bool,
}

/// A setting begins right behind the `#`, and words behind a space: take the `#` away, and it counts.
const PROJECT: &str = r#"# What `offshoot run` takes in this folder where nothing else is said. Flags
# come before the environment, that before this file, and this before your own
# `offshoot.toml` in the configuration folder.

# The model: opus, sonnet or haiku, a model's id, or PROVIDER/ID.
#model = "sonnet"

# What the agent may not do here, and what it asks about; see docs/guide/run.md.
#[permissions]
#deny = ["bash(git push*)", "read(secrets)"]
#ask = ["bash"]

# Providers, tool servers, sub-agents and what is allowed are yours to say: see
# `offshoot init --user`. Here they are refused until you have accepted this
# file as it is: `offshoot agents accept offshoot.toml`.
"#;

const USER: &str = r#"# What `offshoot run` takes where nothing else is said. A project's own
# `offshoot.toml` may choose another model, ask and deny, and say the rest only
# once you have accepted it.

# The model: opus, sonnet or haiku, a model's id, or PROVIDER/ID.
#model = "sonnet"

# Commands run in a sandbox. "off" lets them do whatever you can do.
#sandbox = "on"

# A provider of your own. `anthropic` and `openai` are there without.
#[providers.local]
# anthropic, openai-chat or openai-responses
#dialect = "openai-chat"
#base_url = "http://127.0.0.1:11434/v1"
# The variable that holds the key; or key_file, a file beside this one.
#key_env = "LOCAL_KEY"
# Which of its models is which tier.
#models = { sonnet = "qwen", haiku = "qwen-small" }
# How many seconds not one byte may come before a request is given up.
#idle_timeout_s = 60

# What agents may do: a deny always wins, an allow is an exception to an ask.
#[permissions]
#deny = ["bash(git push*)", "read(secrets)"]
#ask = ["bash"]
#allow = ["bash(cargo test*)"]

# Whom `web_fetch` may ask although they are not on the public internet.
#[web_fetch]
#allow = ["127.0.0.1:8080"]

# How far a tree of sub-agents may grow; see docs/guide/subagents.md.
#[sub_agents]
# How many work at the same time, and how many requests are open at once.
#at_once = 16
#requests = 16
# How many one agent may start, and how many may stand above one another.
#width = 1000
#depth = 1
# What one of them may use, those below it included.
#max_budget_usd = 0.50
#max_budget_tokens = 200000

# A tool server that speaks MCP: a command, or the url of one.
#[mcp.files]
#command = ["npx", "-y", "@modelcontextprotocol/server-filesystem", "."]
#tools = ["read_text_file"]
#enabled = false
"#;

/// A scenario that any harness can run on its script: name, and text.
const SCENARIO: [(&str, &str); 3] = [
    ("scenarios/first/scenario.yaml", include_str!("first/scenario.yaml")),
    ("scenarios/first/script.yaml", include_str!("first/script.yaml")),
    ("scenarios/first/workspace/README.md", include_str!("first/workspace/README.md")),
];
const SETTINGS: &str = "offshoot.toml";

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let files: Vec<(PathBuf, &str)> = match arguments.user {
        true => {
            let folder = paths::config_dir().or_fail_with(Kind::Usage, || "export HOME=/home/you".into())?;
            vec![(folder.join(SETTINGS), USER)]
        }
        false => {
            let all = [(SETTINGS, PROJECT)].into_iter().chain(SCENARIO);
            all.map(|(name, text)| (PathBuf::from(name), text)).collect()
        }
    };
    let mut there = Vec::new();
    for (path, text) in &files {
        match write(path, text) {
            Ok(()) if path.ends_with(SETTINGS) => {
                eprintln!("wrote {}; every setting in it is a comment", path.display())
            }
            Ok(()) => eprintln!("wrote {}", path.display()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => there.push(path),
            Err(error) => {
                let error =
                    anyhow::Error::new(error).context(format!("`{}` cannot be written", path.display()));
                return Err(error).or_fail_with(Kind::Outside, || "ls -ld .".to_owned());
            }
        }
    }
    if there.len() == files.len() {
        let shown = there[0].display();
        let error = match there.len() {
            1 => anyhow::anyhow!("`{shown}` is there already, and stays as it is"),
            _ => anyhow::anyhow!("`{shown}` and the scenario are there already, and stay as they are"),
        };
        return Err(error).or_fail_with(Kind::Usage, || format!("cat {shown}"));
    }
    for path in there {
        eprintln!("{} is there already, and stays as it is", path.display());
    }
    if !arguments.user {
        eprintln!("now try: offshoot capture offshoot --scenario first");
    }
    Ok(ExitCode::SUCCESS)
}

/// Never over a file that is there.
fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder)?;
    }
    fs::OpenOptions::new().write(true).create_new(true).open(path)?.write_all(text.as_bytes())
}
