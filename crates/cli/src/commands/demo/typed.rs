//! A command as somebody would type it, and as it is run.

use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};

use super::folder::Folder;
use crate::failure::{Kind, OrFail};
use crate::paths::word;

/// What fits a line, with its prompt and the sign that it goes on.
const WIDTH: usize = 74;

/// One command line: `offshoot` with these words, in lines that fit a terminal.
pub(super) struct Typed {
    env: Vec<(String, String)>,
    lines: Vec<Vec<String>>,
}

impl Typed {
    pub(super) fn offshoot(lines: &[&[&str]]) -> Self {
        let mut lines: Vec<Vec<String>> =
            lines.iter().map(|line| line.iter().map(|word| (*word).to_owned()).collect()).collect();
        lines[0].insert(0, "offshoot".to_owned());
        Self { env: Vec::new(), lines }
    }

    /// With this variable.
    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// As it can be typed.
    pub(super) fn shown(&self) -> String {
        let env: String = self.env.iter().map(|(name, value)| format!("{name}={} ", word(value))).collect();
        let lines: Vec<String> = self
            .lines
            .iter()
            .map(|line| line.iter().map(|text| word(text)).collect::<Vec<_>>().join(" "))
            .collect();
        let between = if env.len() + lines[0].len() > WIDTH { "\\\n      " } else { "" };
        let lines: Vec<String> =
            format!("{env}{between}{}", lines.join(" \\\n      ")).lines().map(super::bold).collect();
        format!("  $ {}", lines.join("\n"))
    }

    /// Starts it in the demo's workspace, on our own output.
    pub(super) fn start(&self, folder: &Folder) -> anyhow::Result<Child> {
        self.command(folder)?.spawn().or_fail(Kind::Outside)
    }

    /// Runs it; its exit code, and all it said, in its order.
    pub(super) fn hear(&self, folder: &Folder) -> anyhow::Result<(Option<i32>, String)> {
        let (mut reader, writer) = std::io::pipe().or_fail(Kind::Outside)?;
        let mut command = self.command(folder)?;
        command.stdout(writer.try_clone().or_fail(Kind::Outside)?).stderr(writer);
        let mut child = command.spawn().or_fail(Kind::Outside)?;
        drop(command); // and with it our ends of the pipe
        let mut said = Vec::new();
        reader.read_to_end(&mut said).or_fail(Kind::Outside)?;
        let code = child.wait().or_fail(Kind::Outside)?.code();
        Ok((code, String::from_utf8_lossy(&said).into_owned()))
    }

    /// Fails as it has failed.
    pub(super) fn check(&self, code: Option<i32>) -> anyhow::Result<()> {
        let kind = match code {
            Some(0) => return Ok(()),
            Some(1) => Kind::Verdict,
            Some(2) => Kind::Usage,
            Some(3) => Kind::Outside,
            _ => Kind::Bug,
        };
        let words: Vec<&str> = self.lines.iter().flatten().take(2).map(String::as_str).collect();
        Err(anyhow::anyhow!("`{}` ended with {}", words.join(" "), super::code(code))).or_fail(kind)
    }

    fn command(&self, folder: &Folder) -> anyhow::Result<Command> {
        let mut command = Command::new(std::env::current_exe().or_fail(Kind::Outside)?);
        command
            .args(self.lines.iter().flatten().skip(1))
            .current_dir(folder.path("workspace"))
            .envs(folder.env())
            .env("PATH", folder.search_path())
            .envs(self.env.iter().cloned())
            .stdin(Stdio::null());
        end_with_us(&mut command);
        Ok(command)
    }
}

/// Where we are ended alone, our command is asked to end too.
#[allow(unsafe_code, reason = "prctl(2) has no safe wrapper in std")]
fn end_with_us(command: &mut Command) {
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::process::CommandExt as _;
        let us = std::process::id();
        let ask = move || {
            // SAFETY: prctl takes no pointers here, and getppid none at all; both may be called between fork and exec.
            unsafe {
                if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) == -1 {
                    return Err(std::io::Error::last_os_error());
                }
                if libc::getppid() as u32 != us {
                    return Err(std::io::ErrorKind::Interrupted.into()); // we are gone already
                }
            }
            Ok(())
        };
        // SAFETY: `ask` allocates nothing and takes no lock.
        unsafe { command.pre_exec(ask) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = command; // only Linux can be asked for that
}

/// How a process ended.
pub(super) fn ending(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(9), _) => "SIGKILL".to_owned(),
        (Some(signal), _) => format!("signal {signal}"),
        (None, code) => super::code(code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_can_be_pasted() {
        let typed = Typed::offshoot(&[&["run", "--script", "a.yaml"], &["What's here?"]]).with("A", "b c");
        assert_eq!(typed.shown(), "  $ A='b c' offshoot run --script a.yaml \\\n      'What'\\''s here?'");
    }
}
