//! Files of a turn: `turn_001_request.json` and `turn_001_response.json`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::value::RawValue;
use wire::{Ending, Header};

use super::{AttemptPosition, FORMAT};
use crate::source::{Content, Origin, SourceRequest, SourceResponse};

/// Request of one attempt at a turn.
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

/// Response to one attempt at a turn.
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
    /// Complete message of a stream.
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

/// Body, as JSON with its original spelling if it parses.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Body {
    Json(Box<RawValue>),
    Text(String),
    Base64(String),
    Lost(bool),
}

impl<'t> Place<'t> {
    fn new(position: &AttemptPosition<'t>) -> Self {
        Self {
            format: FORMAT,
            request_id: &position.turn.attempts[position.attempt],
            seq: position.turn.seq,
            lane: &position.lane.id,
            turn: position.turn.turn,
            attempt: position.attempt + 1,
            session_id: position.lane.session.as_deref(),
            agent_id: position.lane.agent.as_deref(),
        }
    }
}

impl<'t> RequestFile<'t> {
    pub(super) fn new(position: &AttemptPosition<'t>, request: &'t SourceRequest) -> Self {
        Self {
            place: Place::new(position),
            phase: "request",
            timestamp: request.timestamp.as_deref(),
            method: &request.method,
            target_url: &request.url,
            workspace_path: request.sender.workspace.as_deref(),
            message_id: request.sender.message.as_deref(),
            headers: &request.headers,
            origin: request.body.origin,
            body_sha256: request.body.sha256.as_deref(),
            body: Body::of(&request.body),
        }
    }

    pub(super) fn to_json(&self) -> Vec<u8> {
        super::pretty(self)
    }
}

impl<'t> ResponseFile<'t> {
    pub(super) fn new(
        position: &AttemptPosition<'t>,
        request: &SourceRequest,
        response: &'t SourceResponse,
    ) -> Self {
        let body = request.body.bytes.as_deref().unwrap_or_default();
        let decoded = response.decode(wire::dialect::Dialect::detect(&request.url, body));
        let message = decoded.message.and_then(|message| String::from_utf8(message).ok());
        Self {
            place: Place::new(position),
            phase: "response",
            timestamp: response.timestamp.as_deref(),
            status: response.status,
            ending: response.ending,
            error: response.error.as_deref(),
            first_byte_us: response.first_byte_us,
            end_us: response.end_us,
            headers: &response.headers,
            origin: response.body.origin,
            body_sha256: response.body.sha256.as_deref(),
            body: Body::of(&response.body),
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
            // A bare string or number is JSON, too, but more readable as text.
            Ok(text) if text.trim_start().starts_with(['{', '[']) => {
                RawValue::from_string(text.clone()).map_or(Self::Text(text), Self::Json)
            }
            Ok(text) => Self::Text(text),
        }
    }
}
