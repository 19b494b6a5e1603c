//! Commands of the demo: as a user would type them, and as processes.

use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};

use report::Tone;

use super::folder::DemoFolder;
use crate::failure::{ExitKind, OrFail};
use crate::paths::shell_word;
use crate::terminal::ColorMode;

/// Width of a line with its prompt and the continuation sign.
const WIDTH: usize = 74;

/// A command line of `offshoot`, in lines that fit a terminal.
pub(super) struct DemoCommand {
    env: Vec<(String, String)>,
    lines: Vec<Vec<String>>,
}

impl DemoCommand {
    /// Creates a command with the given words, line by line.
    pub(super) fn offshoot(lines: &[&[&str]]) -> Self {
        let mut lines: Vec<Vec<String>> =
            lines.iter().map(|line| line.iter().map(|word| (*word).to_owned()).collect()).collect();
        lines[0].insert(0, "offshoot".to_owned());
        Self { env: Vec::new(), lines }
    }

    /// Sets a variable.
    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Returns the command as text to paste.
    pub(super) fn shown(&self) -> String {
        let env: String =
            self.env.iter().map(|(name, value)| format!("{name}={} ", shell_word(value))).collect();
        let lines: Vec<String> = self
            .lines
            .iter()
            .map(|line| line.iter().map(|text| shell_word(text)).collect::<Vec<_>>().join(" "))
            .collect();
        let between = if env.len() + lines[0].len() > WIDTH { "\\\n      " } else { "" };
        let lines: Vec<String> = format!("{env}{between}{}", lines.join(" \\\n      "))
            .lines()
            .map(|line| Tone::Strong.paint(line))
            .collect();
        format!("  $ {}", lines.join("\n"))
    }

    /// Starts the command in the workspace, with our own output streams.
    pub(super) fn start(&self, folder: &DemoFolder) -> anyhow::Result<Child> {
        self.command(folder)?.spawn().or_fail(ExitKind::Outside)
    }

    /// Runs the command; returns its exit code and its whole output.
    pub(super) fn capture(&self, folder: &DemoFolder) -> anyhow::Result<(Option<i32>, String)> {
        let (mut reader, writer) = std::io::pipe().or_fail(ExitKind::Outside)?;
        let mut command = self.command(folder)?;
        command.stdout(writer.try_clone().or_fail(ExitKind::Outside)?).stderr(writer);
        let mut child = command.spawn().or_fail(ExitKind::Outside)?;
        drop(command); // closes our ends of the pipe
        let mut output = Vec::new();
        reader.read_to_end(&mut output).or_fail(ExitKind::Outside)?;
        let code = child.wait().or_fail(ExitKind::Outside)?.code();
        Ok((code, String::from_utf8_lossy(&output).into_owned()))
    }

    /// Turns an exit code other than 0 into an error.
    pub(super) fn check(&self, code: Option<i32>) -> anyhow::Result<()> {
        let kind = match code {
            Some(0) => return Ok(()),
            Some(1) => ExitKind::Verdict,
            Some(2) => ExitKind::Usage,
            Some(3) => ExitKind::Outside,
            _ => ExitKind::Bug,
        };
        let words: Vec<&str> = self.lines.iter().flatten().take(2).map(String::as_str).collect();
        Err(anyhow::anyhow!("`{}` ended with {}", words.join(" "), super::code_text(code))).or_fail(kind)
    }

    fn command(&self, folder: &DemoFolder) -> anyhow::Result<Command> {
        let mut command = Command::new(std::env::current_exe().or_fail(ExitKind::Outside)?);
        command
            .args(self.lines.iter().flatten().skip(1))
            .current_dir(folder.path("workspace"))
            .envs(folder.env())
            .env("PATH", folder.search_path())
            .envs(self.env.iter().cloned())
            .envs(ColorMode::variable())
            .stdin(Stdio::null());
        end_with_us(&mut command);
        Ok(command)
    }
}

/// Ends the command when this process ends, also if it is killed.
#[allow(unsafe_code, reason = "prctl(2) has no safe wrapper in std")]
fn end_with_us(command: &mut Command) {
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::process::CommandExt as _;
        let us = std::process::id();
        let ask = move || {
            // SAFETY: both calls take no pointers and are allowed between fork and exec.
            unsafe {
                if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) == -1 {
                    return Err(std::io::Error::last_os_error());
                }
                if libc::getppid() as u32 != us {
                    return Err(std::io::ErrorKind::Interrupted.into()); // the parent has ended already
                }
            }
            Ok(())
        };
        // SAFETY: `ask` allocates nothing and takes no lock.
        unsafe { command.pre_exec(ask) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = command; // only Linux supports this
}

/// Describes the end of a process.
pub(super) fn ending(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(9), _) => "SIGKILL".to_owned(),
        (Some(signal), _) => format!("signal {signal}"),
        (None, code) => super::code_text(code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_can_be_pasted() {
        let typed =
            DemoCommand::offshoot(&[&["run", "--script", "a.yaml"], &["What's here?"]]).with("A", "b c");
        assert_eq!(
            report::terminal_text(&typed.shown(), false),
            "  $ A='b c' offshoot run --script a.yaml \\\n      'What'\\''s here?'"
        );
    }
}
