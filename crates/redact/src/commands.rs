//! Passwords in the arguments of known commands, such as `sshpass -p …` or `mysql -p…`.

use std::ops::Range;

use super::examples::is_placeholder_text;
use super::login::{LONGEST, command_end, is_gap, value, word};
use super::names;
use super::runs::{ShapeMatch, before, run};

const RULE: &str = "shape:command-option";
const SHORTEST: usize = 4;

/// A command and the position of its password.
struct KnownCommand {
    program: &'static str,
    /// A word that the command must contain.
    subcommand: &'static str,
    password: PasswordPosition,
}

enum PasswordPosition {
    /// The word after one of these options.
    After(&'static [&'static str]),
    /// The word after this option, which must be the first one.
    First(&'static str),
    /// The rest of a word that starts with this option.
    Attached(&'static str),
    /// The last word, if an option contains the letter `b`.
    Last,
    /// The word after a secret name.
    Setting,
}

use PasswordPosition::{After, Attached, First, Last, Setting};

#[rustfmt::skip]
const COMMANDS: &[KnownCommand] = &[
    KnownCommand { program: "mysql", subcommand: "", password: Attached("-p") },
    KnownCommand { program: "mariadb", subcommand: "", password: Attached("-p") },
    KnownCommand { program: "sshpass", subcommand: "", password: First("-p") },
    KnownCommand { program: "sshpass", subcommand: "", password: Attached("-p") },
    KnownCommand { program: "docker", subcommand: "login", password: After(&["-p"]) },
    KnownCommand { program: "podman", subcommand: "login", password: After(&["-p"]) },
    KnownCommand { program: "helm", subcommand: "login", password: After(&["-p"]) },
    KnownCommand { program: "az login", subcommand: "", password: After(&["-p"]) },
    KnownCommand { program: "redis-cli", subcommand: "", password: After(&["-a", "--pass"]) },
    KnownCommand { program: "sqlcmd", subcommand: "", password: After(&["-P"]) },
    KnownCommand { program: "ldapsearch", subcommand: "", password: After(&["-w"]) },
    KnownCommand { program: "ldapmodify", subcommand: "", password: After(&["-w"]) },
    KnownCommand { program: "ldapadd", subcommand: "", password: After(&["-w"]) },
    KnownCommand { program: "ldapdelete", subcommand: "", password: After(&["-w"]) },
    KnownCommand { program: "ldapwhoami", subcommand: "", password: After(&["-w"]) },
    KnownCommand { program: "htpasswd", subcommand: "", password: Last },
    KnownCommand { program: "aws configure set", subcommand: "", password: Setting },
];

/// Returns the programs, each of which is a trigger.
pub(super) fn programs() -> Vec<&'static str> {
    let mut programs: Vec<_> = COMMANDS.iter().map(|command| command.program).collect();
    programs.dedup();
    programs
}

/// Finds the passwords in the arguments of the command at `at`.
pub(super) fn find_passwords(text: &[u8], at: usize) -> Vec<ShapeMatch> {
    let rows = COMMANDS.iter().filter(|row| text[at..].starts_with(row.program.as_bytes()));
    let mut found = Vec::new();
    for row in rows {
        let start =
            run(text, at + row.program.len(), |byte| byte.is_ascii_alphanumeric() || byte == b'-').end;
        let is_command = !before(text, at)
            .is_some_and(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
            && text.get(start).is_some_and(|&byte| is_gap(byte));
        if !is_command {
            continue;
        }
        let end = start + command_end(&text[start..text.len().min(start + LONGEST)]);
        let arguments = &text[start..end];
        if memchr::memmem::find(arguments, row.subcommand.as_bytes()).is_some() {
            let passwords =
                row.find(text, start..end).into_iter().filter(|range| is_password(&text[range.clone()]));
            found.extend(passwords.map(|range| ShapeMatch::new(RULE, range)));
        }
    }
    found
}

impl KnownCommand {
    fn find(&self, text: &[u8], arguments: Range<usize>) -> Vec<Range<usize>> {
        let text = &text[..arguments.end];
        let mut options = options(text, &arguments);
        let is = |option: &Range<usize>, names: &[&str]| {
            names.iter().any(|name| name.as_bytes() == &text[option.clone()])
        };
        match self.password {
            After(names) => {
                options.filter(|option| is(option, names)).map(|option| value(text, option.end)).collect()
            }
            First(name) => {
                let between = |option: &Range<usize>| {
                    text[arguments.start..option.start].iter().all(|&byte| is_gap(byte) || byte == b',')
                };
                let first = options.next().filter(|option| is(option, &[name]) && between(option));
                Vec::from_iter(first.map(|option| value(text, option.end)))
            }
            Attached(name) => {
                let attached = options.filter(|option| text[option.start..].starts_with(name.as_bytes()));
                attached.map(|option| attached_value(text, option.start + name.len())).collect()
            }
            Last => {
                let is_batch =
                    options.any(|option| text[option.start + 1] != b'-' && text[option].contains(&b'b'));
                let end = text.iter().rposition(|&byte| !is_gap(byte)).map_or(0, |last| last + 1);
                let length = text[arguments.start..end.max(arguments.start)]
                    .iter()
                    .rev()
                    .take_while(|byte| !is_gap(**byte))
                    .count();
                Vec::from_iter(is_batch.then(|| end - length..end))
            }
            Setting => {
                let name = value(text, arguments.start);
                let is_secret = names::family(&text[name.clone()]).is_some();
                Vec::from_iter(is_secret.then(|| value(text, name.end)))
            }
        }
    }
}

/// Finds the secret that `echo` writes to the standard input of a command with the option at `at`.
pub(super) fn find_piped_secret(text: &[u8], at: usize) -> Vec<ShapeMatch> {
    let line = memchr::memrchr(b'\n', &text[at.saturating_sub(LONGEST)..at]).map_or(0, |newline| newline + 1);
    let start = at.saturating_sub(LONGEST) + line;
    let Some(echo) = memchr::memmem::rfind(&text[start..at], b"echo ") else { return Vec::new() };
    let secret = value(&text[..at], start + echo + "echo".len());
    let is_piped = memchr::memchr(b'|', &text[secret.end..at]).is_some();
    let is_secret = is_piped && is_password(&text[secret.clone()]);
    Vec::from_iter(is_secret.then(|| ShapeMatch::new(RULE, secret)))
}

/// Iterates over the options among the arguments.
fn options<'t>(text: &'t [u8], arguments: &Range<usize>) -> impl Iterator<Item = Range<usize>> + use<'t> {
    let start = arguments.start;
    memchr::memchr_iter(b'-', &text[start..]).map(move |dash| start + dash).filter_map(move |dash| {
        let is_option = is_gap(text[dash - 1]);
        is_option.then(|| run(text, dash, |byte| byte.is_ascii_alphanumeric() || byte == b'-'))
    })
}

fn attached_value(text: &[u8], start: usize) -> Range<usize> {
    match text.get(start) {
        Some(&quote @ (b'"' | b'\'')) => {
            run(text, start + 1, |byte| byte != quote && byte != b'\\' && byte != b'\n')
        }
        _ => word(text, start),
    }
}

fn is_password(value: &[u8]) -> bool {
    let is_number = value.len() < 6 && value.iter().all(u8::is_ascii_digit);
    value.len() >= SHORTEST && !value.starts_with(b"-") && !is_number && !is_placeholder_text(value)
}
