//! `turn_001_request.json` and `turn_001_response.json`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::value::RawValue;
use wire::{Ending, Header};

use super::{FORMAT, Stand};
use crate::source::{Answered, Asked, Content, Origin};

/// The request of one attempt at a turn.
#[derive(Serialize)]
pub(super) struct RequestFile<'t> {
    #[serde(flatten)]
    place: Place<'t>,
    phase: &'static str,
    timestamp: Option<&'t str>,
    method: &'t str,
    #[serde(rename = "targetUrl")]
    target_url: &'t str,
    #[serde(rename = "workspacePath", skip_serializing_if = "Option::is_none")]
    workspace_path: Option<&'t str>,
    #[serde(rename = "messageId", skip_serializing_if = "Option::is_none")]
    message_id: Option<&'t str>,
    headers: &'t [Header],
    origin: Origin,
    #[serde(rename = "bodySha256")]
    body_sha256: Option<&'t str>,
    body: Body,
}

/// The response to one attempt at a turn.
#[derive(Serialize)]
pub(super) struct ResponseFile<'t> {
    #[serde(flatten)]
    place: Place<'t>,
    phase: &'static str,
    timestamp: Option<&'t str>,
    status: Option<u16>,
    ending: Option<Ending>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'t str>,
    #[serde(rename = "firstByteUs")]
    first_byte_us: Option<u64>,
    #[serde(rename = "endUs")]
    end_us: Option<u64>,
    headers: &'t [Header],
    origin: Origin,
    #[serde(rename = "bodySha256")]
    body_sha256: Option<&'t str>,
    body: Body,
    /// The message that a stream comes to.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Box<RawValue>>,
}

#[derive(Serialize)]
struct Place<'t> {
    format: u32,
    request_id: &'t session::RequestId,
    seq: u32,
    lane: &'t str,
    turn: u32,
    attempt: usize,
    #[serde(rename = "sessionId", skip_serializing_if = "Option::is_none")]
    session_id: Option<&'t str>,
    #[serde(rename = "agentId", skip_serializing_if = "Option::is_none")]
    agent_id: Option<&'t str>,
}

/// A body; as JSON wherever it parses, spelled as it was.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Body {
    Json(Box<RawValue>),
    Text(String),
    Base64(String),
    Lost(bool),
}

impl<'t> Place<'t> {
    fn new(stand: &Stand<'t>) -> Self {
        Self {
            format: FORMAT,
            request_id: &stand.turn.attempts[stand.attempt],
            seq: stand.turn.seq,
            lane: &stand.lane.id,
            turn: stand.turn.turn,
            attempt: stand.attempt + 1,
            session_id: stand.lane.session.as_deref(),
            agent_id: stand.lane.agent.as_deref(),
        }
    }
}

impl<'t> RequestFile<'t> {
    pub(super) fn new(stand: &Stand<'t>, asked: &'t Asked) -> Self {
        Self {
            place: Place::new(stand),
            phase: "request",
            timestamp: asked.timestamp.as_deref(),
            method: &asked.method,
            target_url: &asked.url,
            workspace_path: asked.named.workspace.as_deref(),
            message_id: asked.named.message.as_deref(),
            headers: &asked.headers,
            origin: asked.body.origin,
            body_sha256: asked.body.sha256.as_deref(),
            body: Body::of(&asked.body),
        }
    }

    pub(super) fn to_json(&self) -> Vec<u8> {
        super::pretty(self)
    }
}

impl<'t> ResponseFile<'t> {
    pub(super) fn new(stand: &Stand<'t>, asked: &Asked, answered: &'t Answered) -> Self {
        let body = asked.body.bytes.as_deref().unwrap_or_default();
        let heard = answered.heard(wire::dialect::Dialect::detect(&asked.url, body));
        let message = heard.message.and_then(|message| String::from_utf8(message).ok());
        Self {
            place: Place::new(stand),
            phase: "response",
            timestamp: answered.timestamp.as_deref(),
            status: answered.status,
            ending: answered.ending,
            error: answered.error.as_deref(),
            first_byte_us: answered.first_byte_us,
            end_us: answered.end_us,
            headers: &answered.headers,
            origin: answered.body.origin,
            body_sha256: answered.body.sha256.as_deref(),
            body: Body::of(&answered.body),
            message: message.and_then(|message| RawValue::from_string(message).ok()),
        }
    }

    pub(super) fn to_json(&self) -> Vec<u8> {
        super::pretty(self)
    }
}

impl Body {
    fn of(content: &Content) -> Self {
        let Some(bytes) = content.bytes.clone() else { return Self::Lost(true) };
        match String::from_utf8(bytes) {
            Err(error) => Self::Base64(STANDARD.encode(error.as_bytes())),
            // A string is JSON too, but a body that says `42` is better read as it is.
            Ok(text) if text.trim_start().starts_with(['{', '[']) => {
                RawValue::from_string(text.clone()).map_or(Self::Text(text), Self::Json)
            }
            Ok(text) => Self::Text(text),
        }
    }
}
