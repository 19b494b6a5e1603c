//! Client of the part of OpenCode's API that a conversation needs.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::http::{self, Answer};
use super::model::Model;
use crate::error::HarnessError;
use crate::supervisor::Supervisor;

/// Time for the server to start, even on a busy machine.
const START: Duration = Duration::from_secs(90);
/// Timeout while the server starts: it accepts early connections but never answers them.
const EARLY: Duration = Duration::from_secs(2);
/// Timeout of a response.
const ANSWER: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(200);

/// A server that runs below the supervisor.
pub(super) struct Api<'w> {
    pub(super) supervisor: &'w mut Supervisor,
    port: u16,
}

impl<'w> Api<'w> {
    /// Waits until the server answers.
    pub(super) async fn reach(supervisor: &'w mut Supervisor, port: u16) -> Result<Self, HarnessError> {
        let mut api = Self { supervisor, port };
        let begun = Instant::now();
        loop {
            let why = match api.ask("GET", "/session/status", None, EARLY).await {
                Ok(Answer { status: 200, .. }) => return Ok(api),
                Ok(Answer { status: 404, .. }) => return Err(too_old("/session/status")),
                Ok(answer) => format!("it answers with status {}", answer.status),
                Err(why) => why,
            };
            if begun.elapsed() > START {
                return Err(HarnessError::outside(
                    format!("`opencode serve` did not come up within {} s: {why}", START.as_secs()),
                    "its `stderr.txt` in the recording may say why",
                ));
            }
            sleep(PAUSE).await;
        }
    }

    /// Creates a session and returns its id.
    pub(super) async fn create(&mut self) -> Result<String, HarnessError> {
        let answer = self.call("POST", "/session", Some(&json!({}))).await?;
        answer["id"].as_str().map(str::to_owned).ok_or_else(|| refused("POST /session", &answer))
    }

    /// Sends a prompt without waiting for the reply.
    pub(super) async fn prompt(
        &mut self,
        session: &str,
        model: &Model,
        text: &str,
    ) -> Result<(), HarnessError> {
        let path = format!("/session/{session}/prompt_async");
        let body = json!({
            "model": { "providerID": model.provider, "modelID": model.id },
            "parts": [{ "type": "text", "text": text }],
        });
        self.call("POST", &path, Some(&body)).await.map(|_| ())
    }

    /// Returns the sessions that are not idle.
    pub(super) async fn busy(&mut self) -> Result<BTreeSet<String>, HarnessError> {
        let answer = self.call("GET", "/session/status", None).await?;
        let sessions = answer.as_object().ok_or_else(|| refused("GET /session/status", &answer))?;
        let busy = sessions.iter().filter(|(_, status)| status["type"] != "idle");
        Ok(busy.map(|(session, _)| session.clone()).collect())
    }

    /// Returns the number of messages in a session.
    pub(super) async fn messages(&mut self, session: &str) -> Result<usize, HarnessError> {
        let answer = self.call("GET", &format!("/session/{session}/message"), None).await?;
        Ok(answer.as_array().map_or(0, Vec::len))
    }

    /// Returns the child sessions of a session.
    pub(super) async fn children(&mut self, session: &str) -> Result<Vec<String>, HarnessError> {
        let answer = self.call("GET", &format!("/session/{session}/children"), None).await?;
        let children = answer.as_array().into_iter().flatten();
        Ok(children.filter_map(|child| Some(child["id"].as_str()?.to_owned())).collect())
    }

    /// Aborts the work of a session.
    pub(super) async fn abort(&mut self, session: &str) -> Result<(), HarnessError> {
        self.call("POST", &format!("/session/{session}/abort"), Some(&json!({}))).await.map(|_| ())
    }

    async fn call(&mut self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, HarnessError> {
        let answer = self.ask(method, path, body, ANSWER).await.map_err(|why| {
            HarnessError::outside(
                format!("OpenCode's server does not answer: {why}"),
                "its `stderr.txt` in the recording may say why",
            )
        })?;
        match answer.status {
            200..300 => Ok(answer.json),
            404 if answer.json.is_null() => Err(too_old(path)),
            status => Err(refused(&format!("{method} {path} with status {status}"), &answer.json)),
        }
    }

    async fn ask(
        &mut self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        deadline: Duration,
    ) -> Result<Answer, String> {
        let tcp = self.supervisor.connect(self.port).await.map_err(|error| error.to_string())?;
        http::ask(tcp, method, path, body, deadline).await
    }
}

fn too_old(path: &str) -> HarnessError {
    HarnessError::usage(
        format!("this version of OpenCode has no `{path}` in its API"),
        "use a newer `--harness-version`, or a scenario without the mode `serve`",
    )
}

fn refused(what: &str, answer: &Value) -> HarnessError {
    let said: String = answer.to_string().chars().take(300).collect();
    HarnessError::outside(
        format!("OpenCode's server refused {what}: {said}"),
        "its `stderr.txt` in the recording may say more",
    )
}
