//! `offshoot demo`: all of it, once, on a script.

mod compare;
mod folder;
mod typed;

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode};
use std::time::{Duration, Instant};

use self::compare::Told;
use self::folder::{Folder, RUN};
use self::typed::Typed;
use crate::failure::{Kind, OrFail, marked};
use crate::terminal::print;

/// Show all of it in seconds, without a key
///
/// Agents at work, killed and resumed, recorded, replayed and verified. It needs no key, no network and nothing but this
/// program: a script answers in a model's stead. Every step says the command that does it alone. What is made stays in the
/// folder, so that the commands can be typed again.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  offshoot demo
  offshoot demo --dir /tmp/demo

Exit codes: 0 the replay was verified at E4, and the run that was killed and
resumed is equal to the one that nobody disturbed; 1 one of them is not so;
2 you can fix it; 3 the disk or the network on this machine failed.")]
pub(crate) struct Arguments {
    /// Where to make it; what an earlier demo made there is replaced, anything else left alone
    #[arg(long, value_name = "DIR", default_value = "offshoot-demo")]
    dir: PathBuf,
}

/// What the agent is asked.
const PROMPT: &str = "What is here, and what is left to do?";
/// How many agents are at work when the run is killed, main aside.
const AT_WORK: usize = 3;
/// How long the run may take to get to the place where it is killed. Its model thinks for longer than this.
const PATIENCE: Duration = Duration::from_secs(45);
/// How often we look how far it has got.
const LOOK: Duration = Duration::from_millis(20);
/// The steps, for their numbers.
const STEPS: usize = 6;

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let folder = Folder::make(&arguments.dir)?;
    let mut demo = Demo { folder, step: 0, problems: Vec::new() };
    demo.greet();
    demo.run_recorded()?;
    demo.kill_and_resume()?;
    demo.replay_and_verify()?;
    demo.explain_cache()?;
    demo.show_tree()?;
    demo.write_report()?;
    Ok(demo.conclude())
}

struct Demo {
    folder: Folder,
    step: usize,
    /// What is not as it must be.
    problems: Vec<String>,
}

impl Demo {
    fn greet(&self) {
        let dir = self.folder.shown();
        say(&format!(
            "A small team of agents works in {dir}/workspace. No key, no network:\n\
             a script answers in the model's place.\n\n\
             Every step names its command. To type them yourself, now or later:\n\n  \
             {}\n",
            bold(&format!("cd {}/workspace && . ../env", crate::paths::word(&dir)))
        ));
    }

    fn run_recorded(&mut self) -> anyhow::Result<()> {
        self.heading("Run it, with everything that crosses the wire recorded");
        self.clear(&["workspace/found", "recording", "journal"])?;
        let listen = self.folder.listen();
        let proxy = Typed::offshoot(&[
            &["proxy", "--script", "../script.yaml", "--cache-sim"],
            &["--listen", &listen, "--out", "../recording"],
            &["--", "offshoot", "run", PROMPT],
        ]);
        self.must(&named(proxy))
    }

    fn kill_and_resume(&mut self) -> anyhow::Result<()> {
        let undisturbed = self.told("journal")?;
        self.heading("The same, killed in the middle and resumed");
        self.clear(&["workspace/found", "killed"])?;
        let first = Typed::offshoot(&[&["run", "--script", "../slow.yaml", "--cache-sim"], &[PROMPT]]);
        let first = named(first).with("OFFSHOOT_DATA_DIR", "../killed");
        say(&format!("{} &\n", first.shown()));
        let mut child = first.start(&self.folder)?;
        let killed = kill_in_the_middle(&mut child, &self.folder.path("killed/store.db"));
        if std::io::stderr().is_terminal() {
            print("\n"); // what it drew last stays
        }
        killed.map_err(|error| marked(Kind::Outside, Some("offshoot demo".to_owned()), error))?;
        say(&format!(
            "\n  $ {}\n\nIts process is gone ({}), {AT_WORK} agents at work with it. Not so its journal:\n",
            bold("kill -9 $!"),
            typed::ending(child.wait().or_fail(Kind::Outside)?),
        ));
        let listed = Typed::offshoot(&[&["ps"]]).with("OFFSHOOT_DATA_DIR", "../killed");
        self.must(&listed)?;
        say("");
        let again =
            Typed::offshoot(&[&["run", "--resume", RUN], &["--script", "../script.yaml", "--cache-sim"]]);
        self.must(&again.with("OFFSHOOT_DATA_DIR", "../killed"))?;
        let resumed = self.told("killed")?;
        match compare::first_difference(&undisturbed, &resumed) {
            None => say(&good(&format!("equal to the run of step 1, to the byte:\n  {undisturbed}"))),
            Some(difference) => {
                self.problem(format!("the resumed run is not the undisturbed one: {difference}"))
            }
        }
        Ok(())
    }

    fn replay_and_verify(&mut self) -> anyhow::Result<()> {
        self.heading("Replay the recording in the model's place, and verify every byte");
        self.clear(&["workspace/found", "replayed", "again"])?;
        let listen = self.folder.listen();
        let replay = Typed::offshoot(&[
            &["replay", "../recording", "--order", "recorded"],
            &["--listen", &listen, "--out", "../replayed"],
            &["--", "env", "OFFSHOOT_DATA_DIR=../again"],
            &["offshoot", "run", PROMPT],
        ]);
        let replayed = self.tail(&named(replay))?;
        let verify = Typed::offshoot(&[&["verify", "../recording", "../replayed", "--level", "E4"]]);
        let verified = self.go(&verify)?;
        match (replayed, verified) {
            (Some(0), Some(0)) => say(&good("verified at E4")),
            (replayed, Some(0)) => self.problem(format!("the replay ended with {}", code(replayed))),
            _ => self.problem("the replay is not the recording at E4: see above".to_owned()),
        }
        Ok(())
    }

    fn explain_cache(&mut self) -> anyhow::Result<()> {
        self.heading("What the provider's prompt cache read, wrote and missed");
        self.must(&Typed::offshoot(&[&["cache", "../recording"]]))
    }

    fn show_tree(&mut self) -> anyhow::Result<()> {
        self.heading("The agents: tokens, what of them came from the cache, and cost");
        self.must(&Typed::offshoot(&[&["ps"]]))
    }

    fn write_report(&mut self) -> anyhow::Result<()> {
        self.heading("A page to look at");
        self.must(&Typed::offshoot(&[&["report", "../recording", "--out", "../report.html"]]))
    }

    fn conclude(&self) -> ExitCode {
        let dir = self.folder.shown();
        for problem in &self.problems {
            eprintln!("error: {}", report::visible(problem));
        }
        if !self.problems.is_empty() {
            eprintln!("hint: all that was made is in `{dir}`; `offshoot demo` makes it anew");
            return ExitCode::from(Kind::Verdict as u8);
        }
        say(&format!(
            "{}\n\nThe report: {dir}/report.html\n\n\
             Go on, after `cd {}/workspace && . ../env`:\n  \
             offshoot show {RUN}-2-0  what the first agent in the background did\n  \
             offshoot init           settings and a first scenario of your own\n  \
             offshoot --help         how to record Claude Code, and all the rest",
            good("verified at E4; resumed = undisturbed"),
            crate::paths::word(&dir),
        ));
        ExitCode::SUCCESS
    }

    fn heading(&mut self, what: &str) {
        self.step += 1;
        say(&format!("\n{}\n", bold(&format!("{}/{STEPS}  {what}", self.step))));
    }

    /// Takes away what an earlier run of the step has left, and says how.
    fn clear(&self, names: &[&str]) -> anyhow::Result<()> {
        let shown = |name: &&str| name.strip_prefix("workspace/").map_or(format!("../{name}"), str::to_owned);
        let shown: Vec<String> = names.iter().map(shown).collect();
        say(&format!("  $ {}", bold(&format!("rm -rf {}", shown.join(" ")))));
        names.iter().try_for_each(|name| self.folder.remove(name))
    }

    /// Says a command and runs it; it must end well.
    fn must(&self, command: &Typed) -> anyhow::Result<()> {
        let ended = self.go(command)?;
        command.check(ended)
    }

    fn go(&self, command: &Typed) -> anyhow::Result<Option<i32>> {
        say(&format!("{}\n", command.shown()));
        let mut child = command.start(&self.folder)?;
        Ok(child.wait().or_fail(Kind::Outside)?.code())
    }

    /// The same, where only the last lines are worth being seen again.
    fn tail(&self, command: &Typed) -> anyhow::Result<Option<i32>> {
        say(&format!("{}\n", command.shown()));
        let (code, said) = command.hear(&self.folder)?;
        let skip = if code == Some(0) { said.lines().count().saturating_sub(2) } else { 0 };
        if skip > 0 {
            say("…");
        }
        said.lines().skip(skip).for_each(say);
        say("");
        Ok(code)
    }

    fn told(&self, journal: &str) -> anyhow::Result<Told> {
        Told::read(&self.folder.path(journal).join("store.db"), &self.folder.path("workspace"))
    }

    fn problem(&mut self, what: String) {
        say(&format!("✗ {}", report::visible(&what)));
        self.problems.push(what);
    }
}

/// With the name that its run has in all journals, so that they can be compared.
fn named(command: Typed) -> Typed {
    command.with("OFFSHOOT_RUN_ID", RUN)
}

/// Kills the process when all agents that can be at work are, each with a question under way that nobody answers before.
fn kill_in_the_middle(child: &mut Child, journal: &Path) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        if let Some(ended) = child.try_wait()? {
            anyhow::bail!("the run ended before it was killed ({})", typed::ending(ended));
        }
        let came_so_far = compare::waiting_for_a_model(journal) == AT_WORK;
        if came_so_far || begun.elapsed() > PATIENCE {
            child.kill()?; // SIGKILL: nothing of it runs any more
            anyhow::ensure!(came_so_far, "the run did not come to its middle in {} s", PATIENCE.as_secs());
            return Ok(());
        }
        std::thread::sleep(LOOK);
    }
}

fn code(code: Option<i32>) -> String {
    code.map_or("a signal".to_owned(), |code| format!("exit code {code}"))
}

fn say(text: &str) {
    print(&format!("{text}\n"));
}

fn bold(text: &str) -> String {
    coloured("1", text)
}

fn good(text: &str) -> String {
    format!("\n{} {text}", coloured("32", "✓"))
}

fn coloured(how: &str, text: &str) -> String {
    match std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
        true => format!("\x1b[{how}m{text}\x1b[0m"),
        false => text.to_owned(),
    }
}
