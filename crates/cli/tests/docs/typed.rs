//! Commands that documents only mention, or mark as not run, must exist with their options.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::{ALL, TestEnv, project};

#[test]
fn every_command_that_is_mentioned_exists() {
    let env = TestEnv::new();
    let mut mentioned: BTreeMap<String, BTreeSet<(String, &str)>> = BTreeMap::new();
    for path in ALL {
        let text = fs::read_to_string(project().join(path)).unwrap();
        for typed in commands(&text) {
            let (command, options) = parts(&typed);
            let options = options.into_iter().map(|option| (option, *path));
            mentioned.entry(command).or_default().extend(options);
        }
    }
    assert!(mentioned.len() > 20, "{:?}", mentioned.keys());
    let mut wrong = String::new();
    for (command, options) in mentioned {
        let words: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        let help = env.run(&words);
        for (option, path) in options {
            let there =
                help.code == Some(0) && help.stdout.split([' ', '\n', '[', ',']).any(|word| word == option);
            if !there {
                wrong += &format!("{path}: `offshoot {command}` knows no `{option}`\n");
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn commands_are_found_with_their_options() {
    let text = "Type `offshoot run --json --script F 'a --b'` or `--x`.\n```console no-run: why\n$ K=1 offshoot ps \\\n  --all\n```\n";
    let found: Vec<_> = commands(text).iter().map(|typed| parts(typed)).collect();
    let wanted = [("run", &["--help", "--json", "--script"][..]), ("ps", &["--help", "--all"])];
    let wanted =
        wanted.map(|(name, options)| (name.to_owned(), options.iter().map(|it| (*it).to_owned()).collect()));
    assert_eq!(found, wanted);
    assert_eq!(parts("replay REC -- claude --print").1, ["--help"]);
}

/// Returns the words after `offshoot`, in a line of text or in a block.
fn commands(text: &str) -> Vec<String> {
    let text = text.replace("\\\n", " ");
    let pieces = text.lines().flat_map(|line| match line.starts_with("$ ") {
        true => vec![line],
        false => line.split('`').skip(1).step_by(2).filter(|code| code.starts_with("offshoot ")).collect(),
    });
    let behind = |piece: &str| piece.split_once("offshoot ").map(|(_, typed)| typed.to_owned());
    // `offshoot COMMAND --help` and what a file is called are none.
    let is_command = |typed: &String| typed.starts_with(|c: char| c.is_ascii_lowercase());
    pieces.filter_map(behind).filter(is_command).collect()
}

/// The command, and its options, of which every one has `--help`; a prompt has none.
fn parts(typed: &str) -> (String, Vec<String>) {
    let own = typed.split(" -- ").next().unwrap_or_default();
    let unquoted: String = own.split(['\'', '"']).step_by(2).collect();
    let mut words = unquoted.split([' ', '[', ']', '(', ')']).filter(|word| !word.is_empty());
    let command = match words.next().unwrap_or_default() {
        "agents" => format!("agents {}", words.next().unwrap_or_default()),
        command => command.to_owned(),
    };
    let options = words.take_while(|word| !["|", ">", "&&", "#"].contains(word));
    let options = options
        .filter_map(|word| word.strip_prefix("--"))
        .map(|word| format!("--{}", word.split(['=', '…']).next().unwrap_or_default()));
    (command, ["--help".to_owned()].into_iter().chain(options).collect())
}
