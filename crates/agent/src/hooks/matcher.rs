//! Matchers: which tools a hook is asked about.

use regex::Regex;

use crate::tool_names;

/// The tools of a hook.
#[derive(Clone, Debug)]
pub(crate) enum ToolMatcher {
    /// All tools.
    All,
    /// Tools by our names, in which `*` at the end matches the rest.
    Names(Vec<String>),
    /// Tools with a name, of ours or of Claude Code, that the pattern matches.
    Pattern(Regex),
}

impl ToolMatcher {
    /// Reads a matcher: nothing or `*` for all tools, names separated by `|`, or a regular expression.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if matches!(text.trim(), "" | "*") {
            return Ok(Self::All);
        }
        if text.chars().all(|c| c.is_ascii_alphanumeric() || "_-|, ".contains(c)) {
            let names = text.split(['|', ',']).map(str::trim).filter(|name| !name.is_empty());
            return Ok(Self::Names(names.map(|name| tool_names::canonical(name).into_owned()).collect()));
        }
        let pattern =
            Regex::new(text).map_err(|error| format!("`matcher` is no regular expression: {error}"))?;
        Ok(Self::Pattern(pattern))
    }

    /// Returns whether it matches a tool, given its name and the MCP server that offers it.
    pub(crate) fn matches(&self, tool: &str, server: Option<&str>) -> bool {
        match self {
            Self::All => true,
            Self::Names(names) => names.iter().any(|name| match name.strip_suffix('*') {
                Some(start) => tool.starts_with(start),
                None => name == tool,
            }),
            Self::Pattern(pattern) => {
                pattern.is_match(tool)
                    || tool_names::aliases(tool).any(|alias| pattern.is_match(alias))
                    || server
                        .is_some_and(|server| pattern.is_match(&tool_names::claude_name(tool, Some(server))))
            }
        }
    }
}
