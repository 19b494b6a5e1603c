//! `offshoot init`: settings to begin with.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::failure::{Kind, OrFail};
use crate::paths;

/// Write settings to begin with, and a first scenario
///
/// What is there already stays as it is.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  offshoot init
  offshoot init --user")]
pub(crate) struct Arguments {
    /// Your own settings instead, which count in every folder
    #[arg(long)]
    user: bool,
}

/// A setting begins right behind the `#`, and words behind a space: take the `#` away, and it counts.
const PROJECT: &str = r#"# What `offshoot run` takes in this folder where nothing else is said. Flags
# come before the environment, that before this file, and this before your own
# `offshoot.toml` in the configuration folder.

# The model: opus, sonnet or haiku, a model's id, or PROVIDER/ID.
#model = "sonnet"

# What the agent may not do here, and what it asks about; see docs/run.md.
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

# How far a tree of sub-agents may grow; see docs/subagents.md.
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

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let (folder, text) = match arguments.user {
        true => (paths::config_dir().or_fail_with(Kind::Usage, || "export HOME=/home/you".into())?, USER),
        false => (PathBuf::new(), PROJECT),
    };
    if arguments.user {
        std::fs::create_dir_all(&folder).or_fail(Kind::Outside)?;
    }
    let path = folder.join("offshoot.toml");
    let shown = path.display();
    match std::fs::OpenOptions::new().write(true).create_new(true).open(&path) {
        Ok(mut file) => file.write_all(text.as_bytes()).or_fail(Kind::Outside)?,
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            let error = anyhow::anyhow!("`{shown}` is there already, and stays as it is");
            return Err(error).or_fail_with(Kind::Usage, || format!("cat {shown}"));
        }
        Err(error) => {
            let error = anyhow::Error::new(error).context(format!("`{shown}` cannot be written"));
            return Err(error).or_fail_with(Kind::Outside, || "ls -ld .".to_owned());
        }
    }
    eprintln!("wrote {shown}; every setting in it is a comment");
    Ok(ExitCode::SUCCESS)
}
