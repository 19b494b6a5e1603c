//! Requests that ask no model: lists of models, token counts, health checks.

use serde_json::json;
use wire::dialect::Dialect;

use crate::serve::{Request, http};

/// The purpose of a request.
pub(super) enum Endpoint {
    /// To get a reply of the model.
    Model(Dialect),
    /// Another purpose, with this complete response.
    Other(Vec<u8>),
}

impl Endpoint {
    /// Classifies a request. `models` returns those of the script.
    pub(super) fn of(request: &Request, models: impl FnOnce() -> Vec<String>) -> Self {
        match request.method.as_str() {
            "HEAD" => Self::Other(http::empty(200)),
            "GET" => Self::Other(get(request, models)),
            "POST" => post(request),
            method => Self::Other(unknown(request, &format!("{method} requests"))),
        }
    }
}

fn get(request: &Request, models: impl FnOnce() -> Vec<String>) -> Vec<u8> {
    let path = request.path();
    if path.is_empty() {
        return http::json(200, "", b"{\"scripted\":true}");
    }
    let anthropic = request.header("anthropic-version").is_some();
    let models = || {
        let models = models();
        if models.is_empty() { vec!["scripted".to_owned()] } else { models }
    };
    let body = match path.rsplit_once("/models") {
        Some((_, "")) => list(&models(), anthropic),
        Some((_, name)) => model(name.trim_start_matches('/'), anthropic),
        None => return unknown(request, "this address"),
    };
    http::json(200, "", body.to_string().as_bytes())
}

fn model(name: &str, anthropic: bool) -> serde_json::Value {
    match anthropic {
        true => {
            json!({"type": "model", "id": name, "display_name": name, "created_at": "1970-01-01T00:00:00Z"})
        }
        false => json!({"id": name, "object": "model", "created": 0, "owned_by": "script"}),
    }
}

fn list(names: &[String], anthropic: bool) -> serde_json::Value {
    let data: Vec<_> = names.iter().map(|name| model(name, anthropic)).collect();
    match anthropic {
        true => json!({"data": data, "has_more": false, "first_id": names.first(), "last_id": names.last()}),
        false => json!({"object": "list", "data": data}),
    }
}

fn post(request: &Request) -> Endpoint {
    let path = request.path();
    // A rough estimate: four bytes per token.
    let tokens = request.body.len() / 4;
    if path.ends_with("/count_tokens") {
        return Endpoint::Other(http::json(200, "", json!({"input_tokens": tokens}).to_string().as_bytes()));
    }
    if path.ends_with("/responses/input_tokens") {
        let count = json!({"object": "response.input_tokens", "input_tokens": tokens});
        return Endpoint::Other(http::json(200, "", count.to_string().as_bytes()));
    }
    match Dialect::detect(&request.target, &request.body) {
        Some(_) if path.ends_with("/responses/compact") => Endpoint::Other(unknown(request, "compaction")),
        Some(dialect) => Endpoint::Model(dialect),
        None => Endpoint::Other(unknown(request, "this call")),
    }
}

fn unknown(request: &Request, what: &str) -> Vec<u8> {
    let Request { method, target, .. } = request;
    tracing::warn!("the scripted model has no response to {method} {target}");
    let message = format!("scripted model: no response to {what}: {method} {target}");
    let error = json!({"type": "error", "error": {"type": "not_found_error", "message": message}});
    http::json(404, "", error.to_string().as_bytes())
}
