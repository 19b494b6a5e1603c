//! Names of tools: the built-in ones, those of MCP servers, and the names that other harnesses give them.

use std::borrow::Cow;

/// Length of the longest name that every provider accepts.
const MAX_NAME: usize = 64;

/// The built-in tools.
pub(crate) const BUILTIN: [&str; 19] = [
    "read",
    "write",
    "edit",
    "list",
    "glob",
    "grep",
    "bash",
    "get_time",
    "web_fetch",
    "manage_tasks",
    "session_info",
    "sessions_search",
    "sessions_read",
    "memory",
    "skill",
    "spawn_sub_agent",
    "job_output",
    "job_cancel",
    "send_message",
];

/// Names in other harnesses, each with our name for the tool.
const ALIASES: &[(&str, &str)] = &[
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

/// Returns our name for a tool, given ours or another harness's. Claude Code's `mcp__server__tool` names a tool of an MCP
/// server, and `mcp__server` all tools of that server.
pub(crate) fn canonical(name: &str) -> Cow<'_, str> {
    if let Some(rest) = name.strip_prefix("mcp__") {
        let (server, tool) = rest.split_once("__").unwrap_or((rest, "*"));
        return Cow::Owned(server_tool_pattern(server, tool));
    }
    Cow::Borrowed(ALIASES.iter().find(|(theirs, _)| *theirs == name).map_or(name, |(_, ours)| ours))
}

/// Returns the names that other harnesses give to one of our tools.
pub(crate) fn aliases(tool: &str) -> impl Iterator<Item = &'static str> {
    ALIASES.iter().filter(move |(_, ours)| *ours == tool).map(|(theirs, _)| *theirs)
}

/// Returns the name that Claude Code would give to a tool, which an MCP server may offer.
pub(crate) fn claude_name(tool: &str, server: Option<&str>) -> String {
    let own_name = server.and_then(|server| tool.strip_prefix(&server_tool(server, "")));
    match (server, own_name) {
        (Some(server), Some(own_name)) => format!("mcp__{server}__{own_name}"),
        _ => aliases(tool).next().unwrap_or(tool).to_owned(),
    }
}

/// Returns the name of an MCP server's tool: both names, in characters that every provider accepts.
pub(crate) fn server_tool(server: &str, own_name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "_-".contains(c) { c } else { '_' };
    format!("{server}_{own_name}").chars().map(plain).take(MAX_NAME).collect()
}

/// Returns the same for a name in which `*` matches any characters.
pub(crate) fn server_tool_pattern(server: &str, own_name: &str) -> String {
    let named = server_tool(server, own_name);
    let asked = server.chars().chain(['_']).chain(own_name.chars());
    named.chars().zip(asked).map(|(plain, asked)| if asked == '*' { '*' } else { plain }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_has_one_name_here() {
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
            assert_eq!(canonical(theirs), expected, "{theirs}");
        }
    }

    #[test]
    fn the_list_names_every_built_in_tool() {
        let tools = crate::tools::builtin();
        assert_eq!(tools.iter().map(|tool| tool.name()).collect::<Vec<_>>(), BUILTIN);
    }
}
