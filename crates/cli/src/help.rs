//! The first page that somebody reads: commands in the order in which people need them, and four ways to begin.

use std::ffi::OsString;

use clap::{Command, CommandFactory as _};

use crate::Arguments;

/// Which commands stand together, the first ones first. One that is missing here stands below the others.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Begin", &["demo", "init", "doctor", "completions", "man"]),
    ("Record any harness", &["capture", "proxy", "import", "check", "normalize"]),
    ("Prove behaviour", &["replay", "verify", "accept", "review", "cache"]),
    ("Run agents", &["run", "ps", "cancel", "tasks", "search", "cost", "agents"]),
    ("Look at what happened", &["show", "report", "export"]),
];

const FIRST_STEPS: &str = "\
See all of it, in seconds and without a key:
  offshoot demo
Record Claude Code, as you use it or on a scenario without a key:
  offshoot proxy --upstream https://api.anthropic.com --out rec -- claude
  offshoot capture claude-code --scenario async-subagents
Compare two recordings:
  offshoot verify rec-before rec-after --level E3
Run an agent here, and go on after it was killed:
  offshoot run 'What does this project do?'
  offshoot run --resume RUN

`offshoot COMMAND --help` has examples of each command.";

/// How wide help is on a wide terminal, too.
const WIDTH: usize = 80;

/// The whole command line.
pub(crate) fn command() -> Command {
    let command = Arguments::command().max_term_width(WIDTH);
    let groups = groups(&command);
    command
        .help_template(format!(
            "{{about}}\n\n{{usage-heading}} {{usage}}\n\n{groups}\nOptions:\n{{options}}{{after-help}}"
        ))
        .after_help(FIRST_STEPS)
}

/// What is wrong with the words of a command line, and where its command is explained.
pub(crate) fn misused(error: &clap::Error, words: &[OsString]) -> String {
    /// clap's own last line, which does not say whose help it means.
    const LAST_LINE: &str = "For more information";
    let told = error.render().to_string();
    let told = told.split(LAST_LINE).next().unwrap_or_default().trim_end();
    let mut path = vec!["offshoot"];
    let mut command = command();
    for word in words.iter().skip(1).filter_map(|word| word.to_str()) {
        let Some(below) = command.find_subcommand(word).cloned() else { break };
        path.push(word);
        command = below;
    }
    let told: Vec<String> = told.split('\n').map(report::visible).collect();
    format!("{}\n\nhint: {} --help", told.join("\n"), path.join(" "))
}

fn groups(command: &Command) -> String {
    let line = |command: &Command| {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        format!("  {:<12} {about}\n", command.get_name())
    };
    let mut text = String::new();
    for (title, names) in GROUPS {
        let found = names.iter().filter_map(|name| command.find_subcommand(name));
        text += &format!("{title}:\n{}\n", found.map(line).collect::<String>());
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

    /// Every command, with the words that lead to it.
    fn all() -> Vec<(Vec<String>, Command)> {
        fn walk(path: &[String], command: &Command, all: &mut Vec<(Vec<String>, Command)>) {
            let path = [path, &[command.get_name().to_owned()]].concat();
            all.push((path.clone(), command.clone()));
            // `help` is clap's own, and says what the others say.
            let below = command.get_subcommands().filter(|below| below.get_name() != "help");
            below.for_each(|below| walk(&path, below, all));
        }
        let mut command = command();
        command.build();
        let mut commands = Vec::new();
        walk(&[], &command, &mut commands);
        commands
    }

    /// The command lines among a help's examples, joined where they go on.
    fn examples(help: &str) -> Vec<String> {
        let mut examples: Vec<String> = Vec::new();
        let mut goes_on = false;
        for line in help.lines() {
            let typed = line.trim();
            if goes_on {
                examples.last_mut().expect("one goes on").push_str(typed.trim_end_matches('\\'));
            } else if line.starts_with("  ") && line.contains("offshoot ") {
                examples.push(typed.trim_end_matches('\\').to_owned());
            }
            goes_on = typed.ends_with('\\') && (goes_on || line.contains("offshoot "));
        }
        examples
    }

    /// Words as a shell takes them, up to a pipe or to what is said beside them.
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
    fn every_command_says_what_it_is_for_and_how_it_is_used() {
        for (path, mut command) in all() {
            let name = path.join(" ");
            let about = command.get_about().unwrap_or_else(|| panic!("`{name}` says nothing")).to_string();
            assert!(
                path.len() == 1 || about.chars().count() <= WIDTH - 15,
                "`{name}` says too much for one line: {about}"
            );
            for help in [command.render_help(), command.render_long_help()] {
                for line in help.to_string().lines() {
                    assert!(line.chars().count() <= WIDTH, "`{name}`: {line}");
                }
            }
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(
                help.lines().all(|line| line.chars().count() <= WIDTH),
                "`{name}` would be broken: {help}"
            );
            let examples = examples(&help);
            assert!(!examples.is_empty(), "`{name}` has no example");
            let own = examples.iter().any(|example| words(example).starts_with(&path));
            assert!(own || path.len() == 1, "no example of `{name}` is one of it: {examples:?}");
        }
    }

    #[test]
    fn every_example_can_be_typed() {
        let mut tried = 0;
        for (path, own) in all() {
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
    fn every_command_has_its_place_on_the_first_page() {
        for subcommand in command().get_subcommands() {
            assert!(group_of(subcommand.get_name()).is_some(), "`{}` is in no group", subcommand.get_name());
        }
        let help = command().render_help().to_string();
        let at = |text: &str| help.find(text).unwrap_or_else(|| panic!("{text}: {help}"));
        assert!(at("\n  demo") < at("\n  capture") && at("\n  capture") < at("\n  replay"));
        assert!(at("\n  replay") < at("\n  run") && at("\n  run") < at("\n  show"));
    }

    #[test]
    fn a_misused_command_says_whose_help_helps() {
        for (typed, hint) in [
            ("offshoot frob", "hint: offshoot --help"),
            ("offshoot verify", "hint: offshoot verify --help"),
            ("offshoot agents accept --frob", "hint: offshoot agents accept --help"),
            ("offshoot run --frob verify", "hint: offshoot run --help"),
        ] {
            let error = command().try_get_matches_from(words(typed)).expect_err("nonsense");
            let words: Vec<OsString> = words(typed).into_iter().map(OsString::from).collect();
            let told = misused(&error, &words);
            assert!(told.starts_with("error: ") && told.ends_with(hint), "{told}");
            assert!(!told.contains("For more information"), "{told}");
        }
    }

    #[test]
    fn words_are_a_shells() {
        assert_eq!(words("A=1 offshoot run 'a  b' -- x | head"), ["offshoot", "run", "a  b", "--", "x"]);
        assert_eq!(words("offshoot review --list     only name it"), ["offshoot", "review", "--list"]);
        assert_eq!(examples("Examples:\n  offshoot a \\\n     b\n  c"), ["offshoot a b"]);
    }
}
