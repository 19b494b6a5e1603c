//! `offshoot completions`: what a shell needs to complete our commands.

use std::process::ExitCode;

use clap_complete::Shell;

/// Print what lets a shell complete commands and options
#[derive(clap::Args)]
#[command(after_help = "Examples:
  offshoot completions bash \\
    > ~/.local/share/bash-completion/completions/offshoot
  offshoot completions zsh > ~/.zfunc/_offshoot
  offshoot completions fish > ~/.config/fish/completions/offshoot.fish

A new shell has them. zsh looks into ~/.zfunc where ~/.zshrc says
`fpath+=~/.zfunc` before `compinit`.")]
pub(crate) struct Arguments {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut crate::help::command(), "offshoot", &mut text);
    crate::terminal::print(&String::from_utf8_lossy(&text));
    Ok(ExitCode::SUCCESS)
}
