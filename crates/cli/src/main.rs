//! The binary `offshoot`: arguments, configuration, wiring and printing. Logic that needs a unit test is in other crates.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this crate talks to people")]

/// Prints a status line to standard error.
macro_rules! status {
    ($($text:tt)*) => { $crate::terminal::message(None, &format!($($text)*)) };
}

/// Prints a line that begins with `warning:` to standard error.
macro_rules! warning {
    ($($text:tt)*) => {
        $crate::terminal::message(Some($crate::terminal::Label::Warning), &format!($($text)*))
    };
}

/// Prints a line that begins with `hint:` to standard error.
macro_rules! hint {
    ($($text:tt)*) => { $crate::terminal::message(Some($crate::terminal::Label::Hint), &format!($($text)*)) };
}

/// Prints a line that begins with `error:` to standard error.
macro_rules! error {
    ($($text:tt)*) => { $crate::terminal::message(Some($crate::terminal::Label::Error), &format!($($text)*)) };
}

mod child;
mod commands;
mod definitions;
mod events;
mod exit_kind;
mod failure;
mod help;
mod journal;
mod judge;
mod output;
mod page;
mod paths;
mod progress;
mod record;
mod recordings;
mod run_cache;
mod run_tree;
mod settings;
mod signals;
mod terminal;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{FromArgMatches as _, Parser, Subcommand};

use self::terminal::ColorMode;

/// Record, replay and compare what agent harnesses send to models, and run agents
#[derive(Parser)]
#[command(name = "offshoot", version, about)]
struct Cli {
    /// Colour the output: auto, always or never
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t)]
    #[arg(hide_possible_values = true, display_order = 900)]
    color: ColorMode,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Accept(commands::accept::Args),
    Agents(commands::agents::Args),
    Cache(commands::cache::Args),
    Cancel(commands::cancel::Args),
    Capture(commands::capture::Args),
    Check(commands::check::Args),
    Completions(commands::completions::Args),
    Cost(commands::cost::Args),
    Demo(commands::demo::Args),
    Export(commands::export::Args),
    Import(commands::import::Args),
    Init(commands::init::Args),
    Journal(commands::journal::Args),
    Man(commands::man::Args),
    Normalize(commands::normalize::Args),
    Doctor(commands::doctor::Args),
    #[command(visible_alias = "record")]
    Proxy(commands::proxy::Args),
    Ps(commands::ps::Args),
    Replay(commands::replay::Args),
    Report(commands::report::Args),
    Review(commands::review::Args),
    Run(commands::run::Args),
    Search(commands::search::Args),
    Send(commands::send::Args),
    Show(commands::show::Args),
    Tasks(commands::tasks::Args),
    Verify(commands::verify::Args),
}

fn main() -> ExitCode {
    if let Some(code) = harness::run_supervisor_if_requested().or_else(agent::run_sandbox_step) {
        return code;
    }
    let words: Vec<OsString> = std::env::args_os().collect();
    // Help and usage errors are printed before the arguments are parsed.
    let color = help::color_mode(&words);
    color.apply();
    let matches = help::command(color).try_get_matches_from(&words);
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error)
            if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand =>
        {
            error.exit()
        }
        Err(error) => {
            help::print_usage_error(&error, &words);
            return ExitCode::from(failure::ExitKind::Usage as u8);
        }
    };
    cli.color.apply();
    start_log();
    match dispatch(cli.command) {
        Ok(code) => code,
        Err(error) => failure::print(&error),
    }
}

fn start_log() {
    // The MCP library logs quotes of what servers say.
    let no_servers = "rmcp=off".parse().expect("the directive is valid");
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .log_internal_errors(false) // a closed stderr is no news for its reader
        .with_ansi(terminal::is_stderr_styled())
        .with_env_filter(tracing_subscriber::EnvFilter::from_env("OFFSHOOT_LOG").add_directive(no_servers))
        .init();
}

fn dispatch(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Accept(args) => commands::accept::run(&args),
        Command::Agents(args) => commands::agents::run(&args),
        Command::Cache(args) => commands::cache::run(&args),
        Command::Cancel(args) => commands::cancel::run(&args),
        Command::Capture(args) => commands::capture::run(args),
        Command::Check(args) => commands::check::run(&args),
        Command::Completions(args) => commands::completions::run(&args),
        Command::Cost(args) => commands::cost::run(&args),
        Command::Demo(args) => commands::demo::run(&args),
        Command::Export(args) => commands::export::run(&args),
        Command::Import(args) => commands::import::run(&args),
        Command::Init(args) => commands::init::run(&args),
        Command::Journal(args) => commands::journal::run(&args),
        Command::Man(args) => commands::man::run(&args),
        Command::Normalize(args) => commands::normalize::run(&args),
        Command::Doctor(args) => commands::doctor::run(&args),
        Command::Proxy(args) => commands::proxy::run(args),
        Command::Ps(args) => commands::ps::run(&args),
        Command::Replay(args) => commands::replay::run(args),
        Command::Report(args) => commands::report::run(&args),
        Command::Review(args) => commands::review::run(&args),
        Command::Run(args) => commands::run::run(args),
        Command::Search(args) => commands::search::run(&args),
        Command::Send(args) => commands::send::run(&args),
        Command::Show(args) => commands::show::run(&args),
        Command::Tasks(args) => commands::tasks::run(&args),
        Command::Verify(args) => commands::verify::run(&args),
    }
}
