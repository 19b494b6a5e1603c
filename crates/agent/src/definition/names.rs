//! What other harnesses call the tools that we have too.

use std::borrow::Cow;

/// Longest tool name that all providers accept.
const MAX_TOOL_NAME: usize = 64;

/// Their name, and ours.
const NAMES: &[(&str, &str)] = &[
    ("Agent", "spawn_sub_agent"),
    ("Bash", "bash"),
    ("Edit", "edit"),
    ("Glob", "glob"),
    ("Grep", "grep"),
    ("LS", "list"),
    ("MultiEdit", "edit"),
    ("Read", "read"),
    ("Skill", "skill"),
    ("Task", "spawn_sub_agent"),
    ("TaskCreate", "manage_tasks"),
    ("TaskUpdate", "manage_tasks"),
    ("TodoWrite", "manage_tasks"),
    ("WebFetch", "web_fetch"),
    ("Write", "write"),
    ("multiedit", "edit"),
    ("patch", "edit"),
    ("shell", "bash"),
    ("task", "spawn_sub_agent"),
    ("todowrite", "manage_tasks"),
    ("webfetch", "web_fetch"),
];

/// Our name for a tool, whoever names it. Claude Code's `mcp__server__tool` is a server's tool here too, and
/// `mcp__server` are all of that server.
pub(crate) fn ours(name: &str) -> Cow<'_, str> {
    if let Some(rest) = name.strip_prefix("mcp__") {
        let (server, tool) = rest.split_once("__").unwrap_or((rest, "*"));
        return Cow::Owned(server_tool_pattern(server, tool));
    }
    Cow::Borrowed(NAMES.iter().find(|(theirs, _)| *theirs == name).map_or(name, |(_, ours)| ours))
}

/// Combines the server's name and the tool's name, in characters that all providers accept.
pub(crate) fn server_tool_name(server: &str, own_name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "_-".contains(c) { c } else { '_' };
    format!("{server}_{own_name}").chars().map(plain).take(MAX_TOOL_NAME).collect()
}

/// Like [`server_tool_name`], for a name in which `*` matches any characters.
fn server_tool_pattern(server: &str, own_name: &str) -> String {
    let named = server_tool_name(server, own_name);
    let asked = server.chars().chain(['_']).chain(own_name.chars());
    named.chars().zip(asked).map(|(plain, asked)| if asked == '*' { '*' } else { plain }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_goes_by_our_name() {
        let table = [
            ("Bash", "bash"),
            ("bash", "bash"),
            ("mcp__tickets__find", "tickets_find"),
            ("mcp__my.tickets__find it", "my_tickets_find_it"),
            ("mcp__tickets", "tickets_*"),
            ("mcp__tickets__*", "tickets_*"),
            ("mcp_tickets_find", "mcp_tickets_find"),
        ];
        for (theirs, expected) in table {
            assert_eq!(ours(theirs), expected, "{theirs}");
        }
    }
}
