//! Names of sessions in transcripts of Claude Code.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Regex, RegexBuilder};

/// Removes the random name of the session from each record of a transcript. A record has none if it was written before the
/// harness chose the name.
pub(super) fn without_session_name(text: &str) -> Cow<'_, str> {
    static NAMED: LazyLock<Regex> = LazyLock::new(|| {
        let named = r#"("agentId":"[0-9a-f]+"),"slug":"[a-z]+(?:-[a-z]+){2,3}""#;
        RegexBuilder::new(named).unicode(false).build().expect("it is fixed")
    });
    NAMED.replace_all(text, "$1")
}
