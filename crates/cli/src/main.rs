//! The binary `offshoot`: arguments, wiring, printing. What is worth a unit test lives elsewhere.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this crate talks to people")]

/// Says something to whoever is there; where nobody is, the work goes on all the same.
macro_rules! eprintln {
    ($($said:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr().lock(), $($said)*);
    }};
}

mod child;
mod commands;
mod definitions;
mod events;
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
use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{FromArgMatches as _, Parser, Subcommand};

/// Runs agents that spawn sub-agents, and keeps every byte that crossed the wire
#[derive(Parser)]
#[command(name = "offshoot", version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Accept(commands::accept::Arguments),
    Agents(commands::agents::Arguments),
    Cache(commands::cache::Arguments),
    Cancel(commands::cancel::Arguments),
    Capture(commands::capture::Arguments),
    Check(commands::check::Arguments),
    Completions(commands::completions::Arguments),
    Cost(commands::cost::Arguments),
    Demo(commands::demo::Arguments),
    Export(commands::export::Arguments),
    Import(commands::import::Arguments),
    Init(commands::init::Arguments),
    Man(commands::man::Arguments),
    Normalize(commands::normalize::Arguments),
    Doctor(commands::doctor::Arguments),
    Proxy(commands::proxy::Arguments),
    Ps(commands::ps::Arguments),
    Replay(commands::replay::Arguments),
    Report(commands::report::Arguments),
    Review(commands::review::Arguments),
    Run(commands::run::Arguments),
    Search(commands::search::Arguments),
    Show(commands::show::Arguments),
    Tasks(commands::tasks::Arguments),
    Verify(commands::verify::Arguments),
}

fn main() -> ExitCode {
    if let Some(code) = harness::serve_if_asked() {
        return code;
    }
    if let Some(code) = agent::run_sandbox_step() {
        return code;
    }
    let words: Vec<OsString> = std::env::args_os().collect();
    let matches = help::command().try_get_matches_from(&words);
    let arguments = match matches.and_then(|matches| Arguments::from_arg_matches(&matches)) {
        Ok(arguments) => arguments,
        Err(error)
            if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand =>
        {
            error.exit()
        }
        Err(error) => {
            eprintln!("{}", help::misused(&error, &words));
            return ExitCode::from(failure::Kind::Usage as u8);
        }
    };
    // What the MCP library would log quotes what servers say.
    let quiet = "rmcp=off".parse().expect("a directive is written like this");
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .log_internal_errors(false) // who closed stderr does not want to read that it is closed
        .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
        .with_env_filter(tracing_subscriber::EnvFilter::from_env("OFFSHOOT_LOG").add_directive(quiet))
        .init();
    let done = match arguments.command {
        Command::Accept(arguments) => commands::accept::run(&arguments),
        Command::Agents(arguments) => commands::agents::run(&arguments),
        Command::Cache(arguments) => commands::cache::run(&arguments),
        Command::Cancel(arguments) => commands::cancel::run(&arguments),
        Command::Capture(arguments) => commands::capture::run(arguments),
        Command::Check(arguments) => commands::check::run(&arguments),
        Command::Completions(arguments) => commands::completions::run(&arguments),
        Command::Cost(arguments) => commands::cost::run(&arguments),
        Command::Demo(arguments) => commands::demo::run(&arguments),
        Command::Export(arguments) => commands::export::run(&arguments),
        Command::Import(arguments) => commands::import::run(&arguments),
        Command::Init(arguments) => commands::init::run(&arguments),
        Command::Man(arguments) => commands::man::run(&arguments),
        Command::Normalize(arguments) => commands::normalize::run(&arguments),
        Command::Doctor(arguments) => commands::doctor::run(&arguments),
        Command::Proxy(arguments) => commands::proxy::run(arguments),
        Command::Ps(arguments) => commands::ps::run(&arguments),
        Command::Replay(arguments) => commands::replay::run(arguments),
        Command::Report(arguments) => commands::report::run(&arguments),
        Command::Review(arguments) => commands::review::run(&arguments),
        Command::Run(arguments) => commands::run::run(arguments),
        Command::Search(arguments) => commands::search::run(&arguments),
        Command::Show(arguments) => commands::show::run(&arguments),
        Command::Tasks(arguments) => commands::tasks::run(&arguments),
        Command::Verify(arguments) => commands::verify::run(&arguments),
    };
    match done {
        Ok(code) => code,
        Err(error) => failure::print(&error),
    }
}
