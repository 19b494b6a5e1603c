//! The first help page: commands in the order in which people need them, and first steps.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue};
use clap::{ColorChoice, Command, CommandFactory as _, ValueEnum as _};

use crate::Cli;
use crate::terminal::ColorMode;

/// Groups of commands, in order. Commands that are missing here are listed last.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Begin", &["demo", "init", "doctor", "completions", "man"]),
    ("Record any harness", &["capture", "proxy", "import", "check", "normalize"]),
    ("Prove behaviour", &["replay", "verify", "accept", "review", "cache"]),
    ("Run agents", &["run", "ps", "send", "cancel", "tasks", "search", "cost", "agents", "journal"]),
    ("Look at what happened", &["show", "report", "export"]),
];

const FIRST_STEPS: &str = "\
See all of it, in seconds and without a key:
  offshoot demo
Record Claude Code, as you use it or on a scenario without a key:
  offshoot record --upstream https://api.anthropic.com --out rec -- claude
  offshoot capture claude-code --scenario async-subagents
Compare two recordings:
  offshoot verify rec-before rec-after --level E3
Run an agent here, and resume it after it was killed:
  offshoot run 'What does this project do?'
  offshoot run --resume RUN

`offshoot COMMAND --help` has examples of each command.";

/// Maximum width of help, also on a wide terminal.
const WIDTH: usize = 80;

/// Returns the definition of the whole command line.
pub(crate) fn command(color: ColorMode) -> Command {
    let color = match color {
        ColorMode::Auto => ColorChoice::Auto,
        ColorMode::Always => ColorChoice::Always,
        ColorMode::Never => ColorChoice::Never,
    };
    let command = Cli::command().max_term_width(WIDTH).color(color);
    let groups = groups(&command);
    command
        .help_template(format!(
            "{{about}}\n\n{{usage-heading}} {{usage}}\n\n{groups}\nOptions:\n{{options}}{{after-help}}"
        ))
        .after_help(FIRST_STEPS)
}

/// Finds `--color` before the arguments are parsed. A value that is not valid is reported later.
pub(crate) fn color_mode(words: &[OsString]) -> ColorMode {
    let words = words.iter().map_while(|word| word.to_str().filter(|word| *word != "--"));
    let words: Vec<&str> = words.collect();
    let separate = words.windows(2).find(|pair| pair[0] == "--color").map(|pair| pair[1]);
    let value = words.iter().find_map(|word| word.strip_prefix("--color=")).or(separate);
    value.and_then(|value| ColorMode::from_str(value, false).ok()).unwrap_or_default()
}

/// Prints a usage error and a hint.
pub(crate) fn print_usage_error(error: &clap::Error, words: &[OsString]) {
    let (text, command) = usage_error(error, words);
    error!("{}", text.strip_prefix("error: ").unwrap_or(&text));
    status!("");
    hint!("{command}");
}

/// Returns the text of a usage error, and the command that explains the right usage.
fn usage_error(error: &clap::Error, words: &[OsString]) -> (String, String) {
    /// clap's last line, which does not name the command.
    const LAST_LINE: &str = "For more information";
    let text = error.render().to_string();
    let text = text.split(LAST_LINE).next().unwrap_or_default().trim_end();
    let mut path = vec!["offshoot"];
    let mut command = command(ColorMode::Never);
    for word in words.iter().skip(1).filter_map(|word| word.to_str()) {
        let Some(subcommand) = command.find_subcommand(word).cloned() else { break };
        path.push(word);
        command = subcommand;
    }
    let path = path.join(" ");
    let command = match error.get(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(similar)) if !similar.is_empty() => {
            // clap lists the most similar one last.
            format!("{path} {} --help", similar[similar.len() - 1])
        }
        _ => format!("{path} --help"),
    };
    (text.to_owned(), command)
}

fn groups(command: &Command) -> String {
    let line = |command: &Command| {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let aliases = command.get_visible_aliases().map(|alias| format!(", {alias}"));
        let name = command.get_name().to_owned() + &aliases.collect::<String>();
        format!("  {name:<14} {about}\n")
    };
    let mut text = String::new();
    for (title, names) in GROUPS {
        let commands = names.iter().filter_map(|name| command.find_subcommand(name));
        text += &format!("{title}:\n{}\n", commands.map(line).collect::<String>());
    }
    let others = command.get_subcommands().filter(|command| group_of(command.get_name()).is_none());
    match others.map(line).collect::<String>() {
        others if others.is_empty() => text.trim_end().to_owned() + "\n",
        others => format!("{text}More:\n{others}"),
    }
}

fn group_of(name: &str) -> Option<&'static str> {
    GROUPS.iter().find(|(_, names)| names.contains(&name)).map(|(title, _)| *title)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command() -> Command {
        super::command(ColorMode::Never)
    }

    /// Returns every command, with the words that lead to it.
    fn every_command() -> Vec<(Vec<String>, Command)> {
        fn walk(path: &[String], command: &Command, commands: &mut Vec<(Vec<String>, Command)>) {
            let path = [path, &[command.get_name().to_owned()]].concat();
            commands.push((path.clone(), command.clone()));
            // `help` is clap's own and repeats the others.
            let subcommands = command.get_subcommands().filter(|below| below.get_name() != "help");
            subcommands.for_each(|below| walk(&path, below, commands));
        }
        let mut command = command();
        command.build();
        let mut commands = Vec::new();
        walk(&[], &command, &mut commands);
        commands
    }

    /// Returns the command lines among the examples of a help page, with continued lines joined.
    fn examples(help: &str) -> Vec<String> {
        let mut examples: Vec<String> = Vec::new();
        let mut continues = false;
        for line in help.lines() {
            let typed = line.trim();
            if continues {
                examples
                    .last_mut()
                    .expect("there is a line to continue")
                    .push_str(typed.trim_end_matches('\\'));
            } else if line.starts_with("  ") && line.contains("offshoot ") {
                examples.push(typed.trim_end_matches('\\').to_owned());
            }
            continues = typed.ends_with('\\') && (continues || line.contains("offshoot "));
        }
        examples
    }

    /// Splits an example as a shell does, up to a pipe or a remark.
    fn words(example: &str) -> Vec<String> {
        let (mut words, mut word, mut quoted, mut spaces) = (Vec::new(), None::<String>, false, 0);
        for c in example.chars() {
            spaces = if c == ' ' && !quoted { spaces + 1 } else { 0 };
            match c {
                '\'' | '"' => {
                    quoted = !quoted;
                    word.get_or_insert_default();
                }
                ' ' if !quoted && spaces > 1 && !words.is_empty() => break,
                ' ' if !quoted => words.extend(word.take()),
                '|' | '>' if !quoted => break,
                c => word.get_or_insert_default().push(c),
            }
        }
        words.extend(word);
        let begins = words.iter().position(|word| word == "offshoot").unwrap_or_default();
        words.split_off(begins)
    }

    #[test]
    fn every_command_has_a_description_and_an_example() {
        for (path, mut command) in every_command() {
            let name = path.join(" ");
            let about =
                command.get_about().unwrap_or_else(|| panic!("`{name}` has no description")).to_string();
            assert!(
                path.len() == 1 || about.chars().count() <= WIDTH - 17,
                "the description of `{name}` does not fit one line: {about}"
            );
            for help in [command.render_help(), command.render_long_help()] {
                for line in help.to_string().lines() {
                    assert!(line.chars().count() <= WIDTH, "`{name}`: {line}");
                }
            }
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(
                help.lines().all(|line| line.chars().count() <= WIDTH),
                "`{name}` has a line that does not fit: {help}"
            );
            let examples = examples(&help);
            assert!(!examples.is_empty(), "`{name}` has no example");
            let own = examples.iter().any(|example| words(example).starts_with(&path));
            assert!(own || path.len() == 1, "no example of `{name}` uses it: {examples:?}");
        }
    }

    #[test]
    fn every_example_can_be_typed() {
        let mut tried = 0;
        for (path, own) in every_command() {
            let help = own.get_after_help().map(ToString::to_string).unwrap_or_default();
            for example in examples(&help) {
                let parsed = command().try_get_matches_from(words(&example));
                assert!(
                    parsed.is_ok(),
                    "`{}`: {example}: {}",
                    path.join(" "),
                    parsed.expect_err("it is one")
                );
                tried += 1;
            }
        }
        assert!(tried > 50, "only {tried} examples were found");
        assert!(command().try_get_matches_from(words("offshoot run --no-such-flag x")).is_err());
    }

    #[test]
    fn the_guide_for_continuous_integration_can_be_followed() {
        let guide = include_str!("../../../docs/guide/ci.md");
        let lines = guide.lines().map(|line| line.trim().trim_start_matches("$ "));
        let lines = lines.filter(|line| line.starts_with("offshoot "));
        let spans = guide.split('`').skip(1).step_by(2).filter(|code| code.starts_with("offshoot "));
        let mut tried = 0;
        for typed in lines.chain(spans) {
            let parsed = command().try_get_matches_from(words(typed));
            assert!(parsed.is_ok(), "{typed}: {}", parsed.expect_err("it is one"));
            tried += 1;
        }
        assert!(tried > 8, "only {tried} commands were found");
    }

    #[test]
    fn every_command_is_on_the_first_page() {
        for subcommand in command().get_subcommands() {
            assert!(group_of(subcommand.get_name()).is_some(), "`{}` is in no group", subcommand.get_name());
        }
        let help = command().render_help().to_string();
        let at = |text: &str| help.find(text).unwrap_or_else(|| panic!("{text}: {help}"));
        assert!(at("\n  demo") < at("\n  capture") && at("\n  capture") < at("\n  replay"));
        assert!(at("\n  replay") < at("\n  run") && at("\n  run") < at("\n  show"));
    }

    #[test]
    fn a_usage_error_names_the_right_help_page() {
        for (typed, hint) in [
            ("offshoot frob", "offshoot --help"),
            ("offshoot verfy", "offshoot verify --help"),
            ("offshoot captre", "offshoot capture --help"),
            ("offshoot agents acept", "offshoot agents accept --help"),
            ("offshoot verify", "offshoot verify --help"),
            ("offshoot record", "offshoot record --help"),
            ("offshoot agents accept --frob", "offshoot agents accept --help"),
            ("offshoot run --frob verify", "offshoot run --help"),
        ] {
            let error = command().try_get_matches_from(words(typed)).expect_err("nonsense");
            let words: Vec<OsString> = words(typed).into_iter().map(OsString::from).collect();
            let (text, command) = usage_error(&error, &words);
            assert!(text.starts_with("error: ") && !text.contains("For more information"), "{text}");
            assert_eq!(command, hint, "{text}");
        }
    }

    #[test]
    fn colour_is_known_before_the_arguments_are_parsed() {
        let mode = |typed: &str| {
            let words: Vec<OsString> = words(typed).into_iter().map(OsString::from).collect();
            color_mode(&words)
        };
        assert_eq!(mode("offshoot ps --color=never --frob"), ColorMode::Never);
        assert_eq!(mode("offshoot --color always frob"), ColorMode::Always);
        assert_eq!(mode("offshoot ps"), ColorMode::Auto);
        assert_eq!(mode("offshoot --color pink"), ColorMode::Auto);
        assert_eq!(mode("offshoot proxy -- ls --color=never"), ColorMode::Auto);
    }

    #[test]
    fn examples_are_split_as_a_shell_does() {
        assert_eq!(words("A=1 offshoot run 'a  b' -- x | head"), ["offshoot", "run", "a  b", "--", "x"]);
        assert_eq!(words("offshoot review --list     only name it"), ["offshoot", "review", "--list"]);
        assert_eq!(examples("Examples:\n  offshoot a \\\n     b\n  c"), ["offshoot a b"]);
    }
}
