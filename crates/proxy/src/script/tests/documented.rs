//! The documented examples are valid.

use super::parse;

const DOCS: &str = include_str!("../../../../../docs/reference/script.md");
const EXAMPLE: &str = include_str!("../../../../../examples/hello.yaml");

/// Returns the YAML blocks of a text in order.
fn blocks(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while lines.by_ref().any(|line| line == "```yaml") {
        blocks.push(lines.by_ref().take_while(|line| *line != "```").collect::<Vec<_>>().join("\n"));
    }
    blocks
}

#[test]
fn every_example_is_a_script() {
    let blocks = blocks(DOCS);
    assert!(blocks.len() >= 3, "{}", blocks.len());
    for block in blocks.iter().map(String::as_str).chain([EXAMPLE]) {
        // A block with only a lane or a turn is completed to a script.
        let whole = match block {
            lane if lane.starts_with("- lane:") => format!("format: 1\nlanes:\n{lane}"),
            turn if turn.starts_with("- ") => {
                let turn = turn.replace('\n', "\n      ");
                format!(
                    "format: 1\nlanes:\n  - lane: main\n    match: {{ any: true }}\n    turns:\n      {turn}"
                )
            }
            whole => whole.to_owned(),
        };
        parse(&whole).unwrap_or_else(|error| panic!("{error}\n{whole}"));
    }
}
