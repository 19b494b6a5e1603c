//! Exports the main session and all its descendants with `opencode export`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::serve::sessions_file;
use super::settings;
use crate::adapter::{Export, Plan};
use crate::error::HarnessError;
use crate::launch::{HarnessFuture, Launch};
use crate::sandbox::Sandbox;
use crate::supervisor::Supervisor;

/// Time limit of one export.
const DEADLINE: Duration = Duration::from_secs(60);
/// The prefix of session ids in all versions.
const ID: &str = "ses_";

/// Exports to `opencode_export.json` for the main session and `opencode_export.<id>.json` for the others.
pub(crate) fn exports<'a>(
    plan: &'a Plan,
    sandbox: &'a Sandbox,
    supervisor: &'a mut Supervisor,
) -> HarnessFuture<'a, Result<Vec<Export>, HarnessError>> {
    Box::pin(async {
        let exporter = Exporter { plan, sandbox, supervisor };
        exporter.export_all().await
    })
}

struct Exporter<'a> {
    plan: &'a Plan,
    sandbox: &'a Sandbox,
    supervisor: &'a mut Supervisor,
}

impl Exporter<'_> {
    async fn export_all(mut self) -> Result<Vec<Export>, HarnessError> {
        let mut session_ids: VecDeque<String> = self.session_ids().await?.into();
        let mut seen: BTreeSet<String> = session_ids.iter().cloned().collect();
        let mut exports = Vec::new();
        while let Some(id) = session_ids.pop_front() {
            let Some((path, text)) = self.one(&id).await? else { continue };
            // A session's messages contain the ids of its child sessions.
            let named = ids(&text).filter(|id| seen.insert(id.clone())).collect::<Vec<_>>();
            session_ids.extend(named);
            let name = match exports.is_empty() {
                true => "opencode_export.json".to_owned(),
                false => format!("opencode_export.{id}.json"),
            };
            exports.push(Export { name, path });
        }
        Ok(exports)
    }

    /// Returns the sessions that are known before exporting, the main one first.
    async fn session_ids(&mut self) -> Result<Vec<String>, HarnessError> {
        if let Ok(list) = fs::read_to_string(sessions_file(self.sandbox)) {
            return Ok(list.lines().map(str::to_owned).collect());
        }
        let path = self.sandbox.scratch().join("sessions.json");
        self.opencode(&["session", "list", "--format", "json"], path.clone()).await?;
        let list = fs::read(&path).map_err(HarnessError::io("read", &path))?;
        let list: Value = serde_json::from_slice(&list).unwrap_or_default();
        Ok(oldest_first(&list))
    }

    /// Exports one session. Returns path and text, or `None` if the session does not exist.
    async fn one(&mut self, id: &str) -> Result<Option<(PathBuf, String)>, HarnessError> {
        let path = self.sandbox.scratch().join(format!("{id}.json"));
        self.opencode(&["export", id], path.clone()).await?;
        let text = fs::read_to_string(&path).map_err(HarnessError::io("read", &path))?;
        let is_whole = serde_json::from_str::<Value>(&text).is_ok_and(|export| export["info"]["id"] == id);
        Ok(is_whole.then_some((path, text)))
    }

    async fn opencode(&mut self, args: &[&str], stdout: PathBuf) -> Result<(), HarnessError> {
        let mut env = settings::env(self.sandbox);
        // Settings would load plugins, which take seconds and do not affect exports.
        let empty = self.sandbox.scratch().join("config");
        env.insert("XDG_CONFIG_HOME".into(), empty.display().to_string());
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let launch = Launch { program: self.plan.program.clone(), args, env };
        // Its exit code is 0 even for missing sessions, so the output decides.
        self.supervisor.run(&launch, stdout, DEADLINE).await.map(|_| ())
    }
}

/// Returns the sessions of a list in order of creation.
fn oldest_first(list: &Value) -> Vec<String> {
    let sessions = list.as_array().into_iter().flatten();
    let by_time: BTreeMap<(u64, &str), &str> = sessions
        .filter_map(|session| {
            let id = session["id"].as_str()?;
            Some(((session["created"].as_u64().unwrap_or(u64::MAX), id), id))
        })
        .collect();
    by_time.into_values().map(str::to_owned).collect()
}

/// Finds all session ids in a text.
fn ids(text: &str) -> impl Iterator<Item = String> {
    text.match_indices(ID).map(|(at, _)| {
        let rest = &text[at + ID.len()..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        format!("{ID}{}", &rest[..end])
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_main_session_is_the_oldest() {
        let list =
            json!([{ "id": "ses_b", "created": 2 }, { "id": "ses_a", "created": 1 }, { "id": "ses_c" }]);
        assert_eq!(oldest_first(&list), ["ses_a", "ses_b", "ses_c"]);
        assert!(oldest_first(&json!({})).is_empty());
    }

    #[test]
    fn ids_are_found_at_any_position() {
        let text = r#"{"sessionId":"ses_1aB","output":"<task id=\"ses_2\" …\nsession_id: ses_3\n"}"#;
        assert_eq!(ids(text).collect::<Vec<_>>(), ["ses_1aB", "ses_2", "ses_3"]);
    }
}
