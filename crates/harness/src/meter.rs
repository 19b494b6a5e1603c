//! Reads the responses of a recording while it is written: their cost, and refusals of the provider.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use recording::ResponseDump;
use session::RequestId;
use session::model::price;
use wire::dialect::{DecodedResponse, Dialect, ProviderError, StreamEnd, accumulate};
use wire::{Ending, Header};

use crate::spending::{ExchangeCost, SpendingLimit};

/// Interval between two checks for new responses.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// A compressed response that unpacks to more is not priced.
const MAX_UNPACKED: usize = 64 << 20;

/// Reads each response once, in the order of the requests.
#[derive(Debug)]
pub(crate) struct Meter {
    dir: PathBuf,
    /// Requests without a complete response, and the first number that has not appeared yet.
    open: Vec<RequestId>,
    next: u64,
    /// Those of them with a later number: a request that waits has not appeared, and must not hide them.
    ahead: HashSet<RequestId>,
    /// Total cost so far, in dollars.
    pub(crate) spent: f64,
    /// A model without a known price.
    pub(crate) unknown: Option<String>,
    /// The last refusal about money or permissions.
    pub(crate) refusal: Option<String>,
    /// The cost limit that is kept before each request.
    limit: Option<Arc<SpendingLimit>>,
}

impl Meter {
    pub(crate) fn new(dir: &Path, limit: Option<Arc<SpendingLimit>>) -> Self {
        Self {
            dir: dir.to_owned(),
            open: Vec::new(),
            next: 1,
            ahead: HashSet::new(),
            spent: 0.0,
            unknown: None,
            refusal: None,
            limit,
        }
    }

    /// Returns whether a request was refused because of the budget.
    pub(crate) fn has_refused(&self) -> bool {
        self.limit.as_ref().is_some_and(|limit| limit.has_refused())
    }

    /// Waits until `budget` dollars are spent, a request is refused because of it, or a model without a price is used.
    pub(crate) async fn exceed(&mut self, budget: Option<f64>) {
        loop {
            self.read();
            match budget {
                Some(budget) if self.spent >= budget || self.unknown.is_some() || self.has_refused() => {
                    return;
                }
                Some(_) => tokio::time::sleep(POLL_INTERVAL).await,
                None => std::future::pending().await,
            }
        }
    }

    /// Reads the responses that are new since the last call.
    pub(crate) fn read(&mut self) {
        loop {
            let id = RequestId::nth(self.next);
            if !self.dump(&id, "request").exists() {
                break;
            }
            self.next += 1;
            if !self.ahead.remove(&id) {
                self.open.push(id);
            }
        }
        for id in self.limit.iter().flat_map(|limit| limit.in_flight()) {
            if !self.open.contains(&id) {
                self.ahead.insert(id.clone());
                self.open.push(id);
            }
        }
        for id in std::mem::take(&mut self.open) {
            // A response that is missing or incomplete is read next time.
            let dump = fs::read(self.dump(&id, "response")).ok().map(|bytes| ResponseDump::read(&bytes));
            match dump {
                Some(Ok(dump)) => {
                    let cost = self.take(dump);
                    if let Some(limit) = &self.limit {
                        limit.settle(&id, cost);
                    }
                }
                _ => self.open.push(id),
            }
        }
    }

    fn dump(&self, id: &RequestId, half: &str) -> PathBuf {
        self.dir.join(format!("provider_dumps/{id}_{half}.json"))
    }

    /// Adds the cost of a response, and returns it. Only a refusal by the provider is free. A request that was never sent
    /// has no worst case.
    fn take(&mut self, dump: ResponseDump) -> ExchangeCost {
        let is_complete = dump.ending == Ending::Complete;
        let is_refused = dump.status.is_some_and(|status| status >= 400);
        let model = dump.model_id.clone().unwrap_or_default();
        match answer(&self.dir, dump) {
            Some((_, Ok(DecodedResponse::Reply(answer)))) => match price(&model) {
                Some(price) => {
                    let cost = price.cost(&answer.reply.usage);
                    self.spent += cost;
                    return if is_complete { ExchangeCost::Known(cost) } else { ExchangeCost::Unknown };
                }
                None => self.unknown = Some(model),
            },
            Some((status, Ok(DecodedResponse::Error(error)) | Err(error)))
                if is_about_rights(status, &error) =>
            {
                self.refusal = Some(format!("{} ({status} {})", error.message, error.kind));
            }
            _ => {}
        }
        if is_refused { ExchangeCost::Known(0.0) } else { ExchangeCost::Unknown }
    }
}

/// Returns whether a retry is pointless: no money, or no permission.
fn is_about_rights(status: u16, error: &ProviderError) -> bool {
    let words = format!("{} {}", error.kind, error.message).to_lowercase();
    matches!(status, 401..=403)
        || ["credit balance", "insufficient_quota", "billing", "authentication_error", "invalid api key"]
            .iter()
            .any(|sign| words.contains(sign))
}

/// Decodes a response and its status. An error in the middle of a stream is an `Err`.
fn answer(dir: &Path, dump: ResponseDump) -> Option<(u16, Result<DecodedResponse, ProviderError>)> {
    let status = dump.status?;
    let dialect = Dialect::detect(&dump.target_url, b"")?;
    let header = |name: &str| {
        let found = dump.headers.iter().find(|header| header.name().eq_ignore_ascii_case(name));
        found.and_then(Header::value).map(str::to_owned)
    };
    let (coding, kind) = (header("content-encoding"), header("content-type").unwrap_or_default());
    let coding = coding.filter(|_| dump.body.decoded_from.is_none());
    let body = match &dump.body.blob {
        Some(blob) => fs::read(dir.join("blobs").join(blob)).ok()?,
        None => dump.body.bytes()?,
    };
    let body = match coding {
        Some(coding) => wire::encoding::decode_partly(&coding, &body, MAX_UNPACKED).ok()?.bytes,
        None => body,
    };
    if kind.contains("event-stream") {
        let gathered = accumulate(dialect, &body);
        if let StreamEnd::Failed(error) = gathered.end {
            return Some((status, Err(error)));
        }
        return Some((status, Ok(dialect.decode_reply(&gathered.body?).ok()?)));
    }
    match dialect.decode_reply(&body) {
        Ok(DecodedResponse::Other) | Err(_) if status >= 400 => {
            let words = String::from_utf8_lossy(&body).trim().chars().take(300).collect::<String>();
            Some((status, Err(ProviderError::new(dialect.error_kind(status), words))))
        }
        decoded => Some((status, Ok(decoded.ok()?))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = r#"{"type":"message","id":"m","role":"assistant","model":"claude-haiku-4-5","content":[{"type":"text","text":"Dear."}],"stop_reason":"end_turn","usage":{"input_tokens":0,"output_tokens":40000}}"#;

    fn dump(status: Option<u16>, ending: &str, body: &str) -> ResponseDump {
        let dump = serde_json::json!({
            "format": recording::DUMP_FORMAT, "request_id": "r000001", "timestamp": "", "phase": "response",
            "providerID": "anthropic", "modelID": "claude-haiku-4-5", "method": "POST",
            "targetUrl": "https://api.anthropic.com/v1/messages", "workspacePath": null, "sessionId": null,
            "agentId": null, "messageId": null, "headers": [], "body": { "text": body }, "bodySha256": "",
            "status": status, "chunks": [], "trailers": [], "firstByteUs": null, "endUs": 0, "ending": ending,
        });
        ResponseDump::read(dump.to_string().as_bytes()).expect("is a dump")
    }

    #[test]
    fn only_known_usage_and_a_refusal_are_less_than_the_worst_case() {
        let (unknown, free) = (ExchangeCost::Unknown, ExchangeCost::Known(0.0));
        for (status, ending, body, expected) in [
            (None, "cut_by_harness", "", unknown),
            (None, "cut_by_upstream", "", unknown),
            (None, "no_response", "", unknown),
            (Some(200), "cut_by_harness", "", unknown),
            (Some(200), "complete", "not a reply", unknown),
            (Some(200), "cut_by_upstream", ANSWER, unknown),
            (Some(200), "complete", ANSWER, ExchangeCost::Known(0.2)),
            (Some(500), "complete", "", free),
            (Some(429), "cut_by_harness", "slowly", free),
        ] {
            let cost = Meter::new(Path::new(""), None).take(dump(status, ending, body));
            assert_eq!(cost, expected, "{status:?} {ending} {body}");
        }
    }

    #[test]
    fn refusals_for_credit_and_permission_are_distinguished() {
        let error = |kind: &str, message: &str| ProviderError::new(kind, message);
        assert!(is_about_rights(401, &error("authentication_error", "bad key")));
        assert!(is_about_rights(400, &error("invalid_request_error", "Your credit balance is too low")));
        assert!(is_about_rights(429, &error("insufficient_quota", "pay first")));
        assert!(!is_about_rights(429, &error("rate_limit_error", "slowly")));
        assert!(!is_about_rights(400, &error("invalid_request_error", "max_tokens is missing")));
    }
}
