//! What other harnesses call the tools that we have too.

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
    ("task", "spawn_sub_agent"),
    ("todowrite", "manage_tasks"),
    ("webfetch", "web_fetch"),
];

/// Our name for a tool, whoever names it.
pub(crate) fn ours(name: &str) -> &str {
    NAMES.iter().find(|(theirs, _)| *theirs == name).map_or(name, |(_, ours)| ours)
}
