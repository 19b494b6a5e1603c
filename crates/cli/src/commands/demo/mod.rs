//! `offshoot demo`: shows all features once, with a scripted model.

mod command;
mod compare;
mod folder;

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode};
use std::time::{Duration, Instant};

use parity::VerdictOutcome;
use report::Tone;

use self::command::DemoCommand;
use self::compare::Execution;
use self::folder::{DemoFolder, RUN_ID};
use crate::failure::{ExitKind, OrFail, classify};
use crate::terminal::print_text;

/// Show all features in seconds, without a key
///
/// The demo runs agents, kills and resumes them, and records, replays and verifies their traffic. A script answers instead
/// of a model, so that no key and no network are needed. Every step shows its command. The folder of the demo stays, so
/// that you can type the commands again.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  offshoot demo
  offshoot demo --dir /tmp/demo

Exit codes: 0 the replay is byte-equal (E4), and the resumed run is equal to the
undisturbed one; 1 one of them differs; 2 you can fix it; 3 the disk or the
network of this machine failed.")]
pub(crate) struct Args {
    /// Folder for the demo; only the folder of an earlier demo is replaced
    #[arg(long, value_name = "DIR", default_value = "offshoot-demo")]
    dir: PathBuf,
}

/// Prompt of the main agent.
const PROMPT: &str = "What is here, and what is left to do?";
/// Number of active sub-agents when the run is killed.
const ACTIVE_AGENTS: usize = 3;
/// Maximum time until the run reaches the point where it is killed. Its scripted delay is longer.
const TIMEOUT: Duration = Duration::from_secs(45);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Number of steps.
const STEPS: usize = 6;

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let folder = DemoFolder::create(&args.dir)?;
    let mut demo = Demo { folder, step: 0, problems: Vec::new() };
    demo.introduce();
    demo.run_recorded()?;
    demo.kill_and_resume()?;
    demo.replay_and_verify()?;
    demo.explain_cache()?;
    demo.show_tree()?;
    demo.write_report()?;
    Ok(demo.conclude())
}

struct Demo {
    folder: DemoFolder,
    step: usize,
    /// Failed expectations.
    problems: Vec<String>,
}

impl Demo {
    fn introduce(&self) {
        let dir = self.folder.shown();
        print_line(&format!(
            "A small team of agents works in {dir}/workspace. A script answers\n\
             instead of a model, so no key and no network are needed.\n\n\
             Every step shows its command. To type the commands yourself:\n\n  \
             {}\n",
            Tone::Strong.paint(&format!("cd {}/workspace && . ../env", crate::paths::shell_word(&dir)))
        ));
    }

    fn run_recorded(&mut self) -> anyhow::Result<()> {
        self.heading("Run agents, and record their traffic");
        self.clear(&["workspace/found", "recording", "journal"])?;
        let listen = self.folder.listen();
        let proxy = DemoCommand::offshoot(&[
            &["proxy", "--script", "../script.yaml", "--cache-sim"],
            &["--listen", &listen, "--out", "../recording"],
            &["--", "offshoot", "run", PROMPT],
        ]);
        self.run_or_fail(&named(proxy))
    }

    fn kill_and_resume(&mut self) -> anyhow::Result<()> {
        let undisturbed = self.execution("journal")?;
        self.heading("Kill the same run in the middle, and resume it");
        self.clear(&["workspace/found", "killed"])?;
        let first = DemoCommand::offshoot(&[&["run", "--script", "../slow.yaml", "--cache-sim"], &[PROMPT]]);
        let first = named(first).with("OFFSHOOT_DATA_DIR", "../killed");
        print_line(&format!("{} &\n", first.shown()));
        let mut child = first.start(&self.folder)?;
        let killed = kill_in_the_middle(&mut child, &self.folder.path("killed/store.db"));
        if std::io::stderr().is_terminal() {
            print_text("\n"); // keeps the last line that the run drew
        }
        killed.map_err(|error| classify(ExitKind::Outside, Some("offshoot demo".to_owned()), error))?;
        print_line(&format!(
            "\n  $ {}\n\nThe process is gone ({}), with {ACTIVE_AGENTS} active agents. The journal has them:\n",
            Tone::Strong.paint("kill -9 $!"),
            command::ending(child.wait().or_fail(ExitKind::Outside)?),
        ));
        let listed = DemoCommand::offshoot(&[&["ps"]]).with("OFFSHOOT_DATA_DIR", "../killed");
        self.run_or_fail(&listed)?;
        print_line("");
        let resume = DemoCommand::offshoot(&[
            &["run", "--resume", RUN_ID],
            &["--script", "../script.yaml", "--cache-sim"],
        ]);
        self.run_or_fail(&resume.with("OFFSHOOT_DATA_DIR", "../killed"))?;
        let resumed = self.execution("killed")?;
        match compare::first_difference(&undisturbed, &resumed) {
            None => print_line(&success(&format!("byte-equal to the run of step 1:\n  {undisturbed}"))),
            Some(difference) => {
                self.problem(format!("the resumed run differs from the undisturbed run: {difference}"))
            }
        }
        Ok(())
    }

    fn replay_and_verify(&mut self) -> anyhow::Result<()> {
        self.heading("Replay the recording instead of the model, and verify every byte");
        self.clear(&["workspace/found", "replayed", "again"])?;
        let listen = self.folder.listen();
        let replay = DemoCommand::offshoot(&[
            &["replay", "../recording", "--order", "recorded"],
            &["--listen", &listen, "--out", "../replayed"],
            &["--", "env", "OFFSHOOT_DATA_DIR=../again"],
            &["offshoot", "run", PROMPT],
        ]);
        let replayed = self.run_with_tail(&named(replay))?;
        let verify = DemoCommand::offshoot(&[&["verify", "../recording", "../replayed", "--level", "E4"]]);
        let verified = self.run(&verify)?;
        match (replayed, verified) {
            (Some(0), Some(0)) => print_line(&success("verified: byte-equal (E4)")),
            (replayed, Some(0)) => self.problem(format!("the replay ended with {}", code_text(replayed))),
            _ => self.problem("the replay is not byte-equal (E4): see above".to_owned()),
        }
        Ok(())
    }

    fn explain_cache(&mut self) -> anyhow::Result<()> {
        self.heading("Explain the prompt cache of the provider");
        self.run_or_fail(&DemoCommand::offshoot(&[&["cache", "../recording"]]))
    }

    fn show_tree(&mut self) -> anyhow::Result<()> {
        self.heading("List the agents, with tokens, cached part and cost");
        self.run_or_fail(&DemoCommand::offshoot(&[&["ps"]]))
    }

    fn write_report(&mut self) -> anyhow::Result<()> {
        self.heading("Make a page for a browser");
        self.run_or_fail(&DemoCommand::offshoot(&[&["report", "../recording", "--out", "../report.html"]]))
    }

    fn conclude(&self) -> ExitCode {
        let dir = self.folder.shown();
        for problem in &self.problems {
            error!("{problem}");
        }
        if !self.problems.is_empty() {
            hint!("look into `{dir}`, or run `offshoot demo` again");
            return ExitCode::from(ExitKind::Verdict as u8);
        }
        print_line(&format!(
            "{}\n\nThe report: {dir}/report.html\n\n\
             Next, after `cd {}/workspace && . ../env`:\n  \
             offshoot show {RUN_ID}-2-0  shows the first background agent\n  \
             offshoot init           writes settings and a first scenario\n  \
             offshoot --help         lists all commands",
            passed("byte-equal (E4); the resumed run equals the undisturbed run"),
            crate::paths::shell_word(&dir),
        ));
        ExitCode::SUCCESS
    }

    fn heading(&mut self, title: &str) {
        self.step += 1;
        print_line(&format!("\n{}\n", Tone::Strong.paint(&format!("{}/{STEPS}  {title}", self.step))));
    }

    /// Removes the results of an earlier run of the step, and shows the command.
    fn clear(&self, names: &[&str]) -> anyhow::Result<()> {
        let shown = |name: &&str| name.strip_prefix("workspace/").map_or(format!("../{name}"), str::to_owned);
        let shown: Vec<String> = names.iter().map(shown).collect();
        print_line(&format!("  $ {}", Tone::Strong.paint(&format!("rm -rf {}", shown.join(" ")))));
        names.iter().try_for_each(|name| self.folder.remove(name))
    }

    /// Shows and runs a command that must succeed.
    fn run_or_fail(&self, command: &DemoCommand) -> anyhow::Result<()> {
        let code = self.run(command)?;
        command.check(code)
    }

    /// Shows and runs a command.
    fn run(&self, command: &DemoCommand) -> anyhow::Result<Option<i32>> {
        print_line(&format!("{}\n", command.shown()));
        let mut child = command.start(&self.folder)?;
        Ok(child.wait().or_fail(ExitKind::Outside)?.code())
    }

    /// Shows and runs a command, and prints only the last lines of its output.
    fn run_with_tail(&self, command: &DemoCommand) -> anyhow::Result<Option<i32>> {
        print_line(&format!("{}\n", command.shown()));
        let (code, output) = command.capture(&self.folder)?;
        let skip = if code == Some(0) { output.lines().count().saturating_sub(2) } else { 0 };
        if skip > 0 {
            print_line("…");
        }
        output.lines().skip(skip).for_each(print_line);
        print_line("");
        Ok(code)
    }

    fn execution(&self, journal: &str) -> anyhow::Result<Execution> {
        Execution::read(&self.folder.path(journal).join("store.db"), &self.folder.path("workspace"))
    }

    fn problem(&mut self, problem: String) {
        print_line(&format!("{} {problem}", Tone::Bad.paint("✗")));
        self.problems.push(problem);
    }
}

/// Gives the run of a command the same id in all journals.
fn named(command: DemoCommand) -> DemoCommand {
    command.with("OFFSHOOT_RUN_ID", RUN_ID)
}

/// Kills the process when all sub-agents are active and wait for a delayed reply.
fn kill_in_the_middle(child: &mut Child, journal: &Path) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        if let Some(ended) = child.try_wait()? {
            anyhow::bail!("the run ended before it was killed ({})", command::ending(ended));
        }
        let is_in_the_middle = compare::waiting_sub_agents(journal) == ACTIVE_AGENTS;
        if is_in_the_middle || begun.elapsed() > TIMEOUT {
            child.kill()?; // SIGKILL
            anyhow::ensure!(
                is_in_the_middle,
                "the run did not start its agents within {} s",
                TIMEOUT.as_secs()
            );
            return Ok(());
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

fn code_text(code: Option<i32>) -> String {
    code.map_or("a signal".to_owned(), |code| format!("exit code {code}"))
}

fn print_line(text: &str) {
    print_text(&format!("{text}\n"));
}

fn passed(text: &str) -> String {
    format!("\n{}  {text}", Tone::Good.paint(VerdictOutcome::Match.word()))
}

fn success(text: &str) -> String {
    format!("\n{} {text}", Tone::Good.paint("✓"))
}
