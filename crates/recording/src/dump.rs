//! Dump files: the request and the response of one exchange, with field names that other tools use, too.

use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use wire::{Ending, Header};

use crate::hints::Hints;
use crate::log::{
    BodyLocation, ExchangeEndRecord, RequestBodyRecord, RequestHeadRecord, ResponseHeadRecord, StoredBody,
};
use crate::read_list;
use crate::time::iso;

/// Version of the dumps that are written.
pub const DUMP_FORMAT: u32 = 1;

/// Declares a dump: the fields of both files of an exchange, then its own.
///
/// Serde cannot refuse unknown fields through a flattened struct, so the fields are written out.
macro_rules! dump {
    ($(#[$doc:meta])* $name:ident { $($own:tt)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            /// Version of the file.
            pub format: u32,
            /// Exchange id, such as `r000001`.
            pub request_id: String,
            /// Time when the request or the response began.
            pub timestamp: String,
            /// `request` or `response`.
            pub phase: String,
            /// Provider by host, such as `anthropic`.
            #[serde(rename = "providerID")]
            pub provider_id: Option<String>,
            /// Requested model.
            #[serde(rename = "modelID")]
            pub model_id: Option<String>,
            /// Address of the request.
            #[serde(rename = "targetUrl")]
            pub target_url: String,
            /// HTTP method, such as `POST`.
            pub method: String,
            /// Working folder of the harness.
            #[serde(rename = "workspacePath")]
            pub workspace_path: Option<String>,
            /// Session id of the harness, if it sends one.
            #[serde(rename = "sessionId", default, skip_serializing_if = "Option::is_none")]
            pub session_id: Option<String>,
            /// Agent id of the harness, if it sends one.
            #[serde(rename = "agentId", default, skip_serializing_if = "Option::is_none")]
            pub agent_id: Option<String>,
            /// Message id of the harness, if it sends one.
            #[serde(rename = "messageId", default, skip_serializing_if = "Option::is_none")]
            pub message_id: Option<String>,
            /// Headers in order.
            pub headers: Vec<Header>,
            /// Received body, possibly incomplete.
            pub body: BodyDump,
            /// SHA-256 of the stored bytes.
            #[serde(rename = "bodySha256")]
            pub body_sha256: String,
            $($own)*
        }

        impl $name {
            /// Serializes the dump.
            pub(crate) fn into_json(mut self) -> Vec<u8> {
                let text = self.body.text.as_mut().map(std::mem::take);
                let reads = self.take_reads();
                let dump = serde_json::to_vec(&self).expect("a dump has only string keys");
                spliced(&dump, text.as_deref(), &reads)
            }

            /// Reads a dump of any version.
            pub fn read(bytes: &[u8]) -> Result<Self, DumpError> {
                read(bytes)
            }
        }
    };
}

dump! {
    /// Contents of `<request_id>_request.json`.
    RequestDump {
        /// True if the complete body arrived.
        pub whole: bool,
        /// Headers after the body.
        pub trailers: Vec<Header>,
    }
}

dump! {
    /// Contents of `<request_id>_response.json`.
    ResponseDump {
        /// Status code; `null` without a response.
        pub status: Option<u16>,
        /// Reads: offset in the stored body, and time.
        pub chunks: Vec<wire::SocketRead>,
        /// Headers after the body.
        pub trailers: Vec<Header>,
        /// Microseconds from the request's arrival to the first byte of the body.
        #[serde(rename = "firstByteUs")]
        pub first_byte_us: Option<u64>,
        /// Microseconds from the request's arrival to the end.
        #[serde(rename = "endUs")]
        pub end_us: u64,
        /// Ending of the exchange.
        pub ending: Ending,
        /// Error message, if something failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub error: Option<String>,
    }
}

/// Body in a dump.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BodyDump {
    /// Body as text, if it is UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Body in base64, if it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// Digest of a longer body, which is in `blobs/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
    /// True if the bytes could not be kept. The manifest has the reason.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lost: bool,
    /// Coding of a compressed body that contained a secret. The bytes here are decoded.
    #[serde(rename = "decodedFrom", default, skip_serializing_if = "Option::is_none")]
    pub decoded_from: Option<String>,
}

impl BodyDump {
    /// Returns the bytes if they are in the dump.
    pub fn bytes(self) -> Option<Vec<u8>> {
        let decoded = |text: String| STANDARD.decode(text).ok();
        self.text.map(String::into_bytes).or_else(|| self.base64.and_then(decoded))
    }

    fn of(stored: &StoredBody, bytes: Vec<u8>) -> Self {
        let dump = match stored.at {
            BodyLocation::Blob => Self { blob: Some(stored.sha256.clone()), ..Self::default() },
            BodyLocation::Lost => Self { lost: true, ..Self::default() },
            BodyLocation::Dump => match String::from_utf8(bytes) {
                Ok(text) => Self { text: Some(text), ..Self::default() },
                Err(error) => Self { base64: Some(STANDARD.encode(error.as_bytes())), ..Self::default() },
            },
        };
        Self { decoded_from: stored.decoded_from.clone(), ..dump }
    }
}

/// Data of the dumps that is not in the log.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings {
    pub(crate) started_at: SystemTime,
    pub(crate) workspace: Option<String>,
    /// Header that the user named as the one with the session.
    pub(crate) session_header: Option<String>,
}

impl Surroundings {
    fn time(&self, us: u64) -> String {
        iso(self.started_at + Duration::from_micros(us))
    }

    /// Builds the request dump of an exchange. `bytes` is the body unless it is in a blob.
    pub(crate) fn request_dump(
        &self,
        request_head: &RequestHeadRecord,
        hints: &Hints,
        request_body: &RequestBodyRecord,
        bytes: Vec<u8>,
    ) -> RequestDump {
        RequestDump {
            format: DUMP_FORMAT,
            request_id: request_head.id.clone(),
            timestamp: self.time(request_head.us),
            phase: "request".into(),
            provider_id: hints.provider.clone(),
            model_id: hints.model.clone(),
            target_url: request_head.url.clone(),
            method: request_head.method.clone(),
            workspace_path: self.workspace.clone(),
            session_id: hints.session.clone(),
            agent_id: hints.agent.clone(),
            message_id: hints.message.clone(),
            headers: request_head.headers.clone(),
            body: BodyDump::of(&request_body.body, bytes),
            body_sha256: request_body.body.sha256.clone(),
            whole: request_body.whole,
            trailers: request_body.trailers.clone(),
        }
    }

    /// Builds the response dump of an exchange. `bytes` is the body unless it is in a blob.
    pub(crate) fn response_dump(
        &self,
        request_head: &RequestHeadRecord,
        hints: &Hints,
        response_head: Option<&ResponseHeadRecord>,
        exchange_end: &ExchangeEndRecord,
        bytes: Vec<u8>,
    ) -> ResponseDump {
        let since = |us: u64| us.saturating_sub(request_head.us);
        ResponseDump {
            format: DUMP_FORMAT,
            request_id: request_head.id.clone(),
            timestamp: self.time(response_head.map_or(exchange_end.us, |response_head| response_head.us)),
            phase: "response".into(),
            provider_id: hints.provider.clone(),
            model_id: hints.model.clone(),
            target_url: request_head.url.clone(),
            method: request_head.method.clone(),
            workspace_path: self.workspace.clone(),
            session_id: hints.session.clone(),
            agent_id: hints.agent.clone(),
            message_id: hints.message.clone(),
            headers: response_head.map_or_else(Vec::new, |response_head| response_head.headers.clone()),
            body: BodyDump::of(&exchange_end.body, bytes),
            body_sha256: exchange_end.body.sha256.clone(),
            status: response_head.map(|response_head| response_head.status),
            chunks: exchange_end.reads.clone(),
            trailers: exchange_end.trailers.clone(),
            first_byte_us: exchange_end.reads.first().map(|read| since(read.us)),
            end_us: since(exchange_end.us),
            ending: exchange_end.ending,
            error: exchange_end.error.clone(),
        }
    }
}

/// Error when reading a dump.
#[derive(Debug, Error)]
pub enum DumpError {
    /// The dump was written by a newer version.
    #[error("the dump has format {found}, newer than {DUMP_FORMAT}")]
    Newer {
        /// Version of the dump.
        found: u32,
    },
    /// The dump has no version.
    #[error("the dump has format 0, which was never written")]
    NoFormat,
    /// The dump is malformed.
    #[error("not a dump of format {DUMP_FORMAT}")]
    Malformed(#[from] serde_json::Error),
}

impl RequestDump {
    fn take_reads(&mut self) -> Vec<wire::SocketRead> {
        Vec::new()
    }
}

impl ResponseDump {
    fn take_reads(&mut self) -> Vec<wire::SocketRead> {
        std::mem::take(&mut self.chunks)
    }
}

/// Inserts the body's text and the list of reads into a dump that was serialized without them. They are most of
/// a dump, and a serializer takes several times as long for them.
fn spliced(dump: &[u8], text: Option<&str>, reads: &[wire::SocketRead]) -> Vec<u8> {
    // Quotes inside strings are escaped, so these patterns match only at the start of the text and of the
    // reads.
    const TEXT: &[u8] = br#""body":{"text":""#;
    const READS: &[u8] = br#","chunks":["#;
    const LONGEST_READ: usize = 64;
    let escaped = text.map_or(0, |text| text.len() + text.len() / 4);
    let mut out = Vec::with_capacity(dump.len() + escaped + reads.len() * LONGEST_READ);
    let mut from = 0;
    if let Some(text) = text {
        let begin = dump.windows(TEXT.len()).position(|window| window == TEXT);
        from = begin.expect("a dump with a text has one") + TEXT.len();
        out.extend_from_slice(&dump[..from]);
        wire::json::escape_into(&mut out, text);
    }
    if !reads.is_empty() {
        // The list of reads is closer to the end. A body in base64 comes before it.
        let begin = dump.windows(READS.len()).rposition(|window| window == READS);
        let at = begin.expect("a dump with reads has their list") + READS.len();
        out.extend_from_slice(&dump[from..at]);
        read_list::write(&mut out, reads);
        from = at;
    }
    out.extend_from_slice(&dump[from..]);
    out
}

/// Reads a dump with one conversion per version. There has been one version so far.
fn read<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, DumpError> {
    #[derive(Deserialize)]
    struct Versioned {
        format: u32,
    }
    match serde_json::from_slice::<Versioned>(bytes)?.format {
        0 => Err(DumpError::NoFormat),
        found if found > DUMP_FORMAT => Err(DumpError::Newer { found }),
        _ => Ok(serde_json::from_slice(bytes)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_equals_the_output_of_a_serializer() {
        let text = "say \"body\":{\"text\":\"\" \\ \n\u{1}\u{7f}\u{e9}\u{1f600} ".repeat(9);
        let dump = RequestDump {
            format: DUMP_FORMAT,
            request_id: "r000001".into(),
            timestamp: String::new(),
            phase: "request".into(),
            provider_id: None,
            model_id: Some(r#""body":{"text":""#.into()),
            target_url: String::new(),
            method: "POST".into(),
            workspace_path: None,
            session_id: None,
            agent_id: None,
            message_id: None,
            headers: Vec::new(),
            body: BodyDump { text: Some(text), ..BodyDump::default() },
            body_sha256: String::new(),
            whole: true,
            trailers: Vec::new(),
        };
        assert_eq!(dump.clone().into_json(), serde_json::to_vec(&dump).expect("serializes"));
        assert_eq!(RequestDump::read(&dump.clone().into_json()).expect("reads back"), dump);
        for reads in [0, 1, 3] {
            for body in [dump.body.clone(), BodyDump { base64: Some("AAAA".into()), ..BodyDump::default() }] {
                let dump = answer(&dump, body, reads);
                assert_eq!(dump.clone().into_json(), serde_json::to_vec(&dump).expect("serializes"));
                assert_eq!(ResponseDump::read(&dump.clone().into_json()).expect("reads back"), dump);
            }
        }
    }

    /// Builds a response to `request_body` whose headers contain the patterns that the splices look for.
    fn answer(request_body: &RequestDump, body: BodyDump, reads: u64) -> ResponseDump {
        let tricky = |value: &str| Header::Plain { name: "x".into(), value: value.into() };
        ResponseDump {
            format: DUMP_FORMAT,
            request_id: request_body.request_id.clone(),
            timestamp: String::new(),
            phase: "response".into(),
            provider_id: None,
            model_id: None,
            target_url: String::new(),
            method: "POST".into(),
            workspace_path: None,
            session_id: None,
            agent_id: None,
            message_id: None,
            headers: vec![tricky(r#","chunks":["#), tricky(r#""body":{"text":""#)],
            body,
            body_sha256: String::new(),
            status: Some(200),
            chunks: (0..reads)
                .map(|n| wire::SocketRead { seq: n, offset: 9 * n, us: u64::MAX - n })
                .collect(),
            trailers: vec![tricky(r#","chunks":["#)],
            first_byte_us: Some(1),
            end_us: 2,
            ending: Ending::Complete,
            error: Some(r#","chunks":["#.into()),
        }
    }
}
