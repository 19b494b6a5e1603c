//! `offshoot completions`: prints completion scripts for shells.

use std::process::ExitCode;

use clap_complete::Shell;

use crate::terminal::ColorMode;

/// Print a script that completes commands and options in a shell
#[derive(clap::Args)]
#[command(after_help = "Examples:
  offshoot completions bash \\
    > ~/.local/share/bash-completion/completions/offshoot
  offshoot completions zsh > ~/.zfunc/_offshoot
  offshoot completions fish > ~/.config/fish/completions/offshoot.fish

Start a new shell to use them. For zsh, put `fpath+=~/.zfunc` into ~/.zshrc,
before `compinit`.")]
pub(crate) struct Args {
    /// Shell to complete in
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut crate::help::command(ColorMode::Never), "offshoot", &mut text);
    crate::terminal::print(&String::from_utf8_lossy(&text));
    Ok(ExitCode::SUCCESS)
}
