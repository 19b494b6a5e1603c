//! The dump files: one exchange's request and response, as other tools name them too.

use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use wire::{Ending, Header};

use crate::hints::Hints;
use crate::log::{Answered, Arrived, Asked, Ended, Place, StoredBody};
use crate::reads;
use crate::time::iso;

/// The version that is written.
pub const DUMP_FORMAT: u32 = 1;

/// Declares a dump: the fields that both files of an exchange have, then its own.
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
            /// As in `r000001`.
            pub request_id: String,
            /// When this half began.
            pub timestamp: String,
            /// `request` or `response`.
            pub phase: String,
            /// Whose dialect it speaks, as in `anthropic`.
            #[serde(rename = "providerID")]
            pub provider_id: Option<String>,
            /// The model that was asked for.
            #[serde(rename = "modelID")]
            pub model_id: Option<String>,
            /// Where the request went.
            #[serde(rename = "targetUrl")]
            pub target_url: String,
            /// As in `POST`.
            pub method: String,
            /// Where the harness worked.
            #[serde(rename = "workspacePath")]
            pub workspace_path: Option<String>,
            /// The harness's session, where it says so.
            #[serde(rename = "sessionId", default, skip_serializing_if = "Option::is_none")]
            pub session_id: Option<String>,
            /// The harness's agent, where it says so.
            #[serde(rename = "agentId", default, skip_serializing_if = "Option::is_none")]
            pub agent_id: Option<String>,
            /// The harness's message, where it says so.
            #[serde(rename = "messageId", default, skip_serializing_if = "Option::is_none")]
            pub message_id: Option<String>,
            /// The headers in order.
            pub headers: Vec<Header>,
            /// The body as it crossed the wire, as far as it came.
            pub body: BodyDump,
            /// SHA-256 of the stored bytes.
            #[serde(rename = "bodySha256")]
            pub body_sha256: String,
            $($own)*
        }

        impl $name {
            /// The file's text.
            pub(crate) fn into_json(mut self) -> Vec<u8> {
                let text = self.body.text.as_mut().map(std::mem::take);
                let reads = self.take_reads();
                let dump = serde_json::to_vec(&self).expect("a dump has only string keys");
                spliced(&dump, text.as_deref(), &reads)
            }

            /// Reads a dump of any version that was ever written.
            pub fn read(bytes: &[u8]) -> Result<Self, DumpError> {
                read(bytes)
            }
        }
    };
}

dump! {
    /// `<request_id>_request.json`
    RequestDump {
        /// The whole body came.
        pub whole: bool,
        /// Headers behind the body.
        pub trailers: Vec<Header>,
    }
}

dump! {
    /// `<request_id>_response.json`
    ResponseDump {
        /// The status code; `null` where nothing came back.
        pub status: Option<u16>,
        /// Each read: where its bytes begin in the stored body, and when it came.
        pub chunks: Vec<wire::SocketRead>,
        /// Headers behind the body.
        pub trailers: Vec<Header>,
        /// Microseconds from the request's arrival to the first byte of the body.
        #[serde(rename = "firstByteUs")]
        pub first_byte_us: Option<u64>,
        /// Microseconds from the request's arrival to the end.
        #[serde(rename = "endUs")]
        pub end_us: u64,
        /// How it ended.
        pub ending: Ending,
        /// What went wrong, where something did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub error: Option<String>,
    }
}

/// A body in a dump.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BodyDump {
    /// The bytes, where they are UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The bytes, where they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// The digest under which a longer body is kept in `blobs/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
    /// The bytes could not be kept; the manifest says why.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lost: bool,
    /// It was compressed and held a secret: what stands here is decoded from this coding.
    #[serde(rename = "decodedFrom", default, skip_serializing_if = "Option::is_none")]
    pub decoded_from: Option<String>,
}

impl BodyDump {
    /// The bytes, where they are in the dump.
    pub fn bytes(self) -> Option<Vec<u8>> {
        let decoded = |text: String| STANDARD.decode(text).ok();
        self.text.map(String::into_bytes).or_else(|| self.base64.and_then(decoded))
    }

    fn of(stored: &StoredBody, bytes: Vec<u8>) -> Self {
        let dump = match stored.at {
            Place::Blob => Self { blob: Some(stored.sha256.clone()), ..Self::default() },
            Place::Lost => Self { lost: true, ..Self::default() },
            Place::Dump => match String::from_utf8(bytes) {
                Ok(text) => Self { text: Some(text), ..Self::default() },
                Err(error) => Self { base64: Some(STANDARD.encode(error.as_bytes())), ..Self::default() },
            },
        };
        Self { decoded_from: stored.decoded_from.clone(), ..dump }
    }
}

/// What the dumps of a recording say besides what is in its log.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings {
    pub(crate) started_at: SystemTime,
    pub(crate) workspace: Option<String>,
}

impl Surroundings {
    fn time(&self, us: u64) -> String {
        iso(self.started_at + Duration::from_micros(us))
    }

    /// The request dump of an exchange whose body is `bytes`, unless it is elsewhere.
    pub(crate) fn request_dump(
        &self,
        arrived: &Arrived,
        hints: &Hints,
        asked: &Asked,
        bytes: Vec<u8>,
    ) -> RequestDump {
        RequestDump {
            format: DUMP_FORMAT,
            request_id: arrived.id.clone(),
            timestamp: self.time(arrived.us),
            phase: "request".into(),
            provider_id: hints.provider.clone(),
            model_id: hints.model.clone(),
            target_url: arrived.url.clone(),
            method: arrived.method.clone(),
            workspace_path: self.workspace.clone(),
            session_id: hints.session.clone(),
            agent_id: hints.agent.clone(),
            message_id: hints.message.clone(),
            headers: arrived.headers.clone(),
            body: BodyDump::of(&asked.body, bytes),
            body_sha256: asked.body.sha256.clone(),
            whole: asked.whole,
            trailers: asked.trailers.clone(),
        }
    }

    /// The response dump of an exchange whose body is `bytes`, unless it is elsewhere.
    pub(crate) fn response_dump(
        &self,
        arrived: &Arrived,
        hints: &Hints,
        answered: Option<&Answered>,
        ended: &Ended,
        bytes: Vec<u8>,
    ) -> ResponseDump {
        let since = |us: u64| us.saturating_sub(arrived.us);
        ResponseDump {
            format: DUMP_FORMAT,
            request_id: arrived.id.clone(),
            timestamp: self.time(answered.map_or(ended.us, |answered| answered.us)),
            phase: "response".into(),
            provider_id: hints.provider.clone(),
            model_id: hints.model.clone(),
            target_url: arrived.url.clone(),
            method: arrived.method.clone(),
            workspace_path: self.workspace.clone(),
            session_id: hints.session.clone(),
            agent_id: hints.agent.clone(),
            message_id: hints.message.clone(),
            headers: answered.map_or_else(Vec::new, |answered| answered.headers.clone()),
            body: BodyDump::of(&ended.body, bytes),
            body_sha256: ended.body.sha256.clone(),
            status: answered.map(|answered| answered.status),
            chunks: ended.reads.clone(),
            trailers: ended.trailers.clone(),
            first_byte_us: ended.reads.first().map(|read| since(read.us)),
            end_us: since(ended.us),
            ending: ended.ending,
            error: ended.error.clone(),
        }
    }
}

/// A dump that cannot be read.
#[derive(Debug, Error)]
pub enum DumpError {
    /// It was written by a newer version.
    #[error("the dump has format {found}, newer than {DUMP_FORMAT}")]
    Newer {
        /// Its version.
        found: u32,
    },
    /// It has no version.
    #[error("the dump has format 0, which was never written")]
    NoFormat,
    /// It is not what it should be.
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

/// Puts the body's text between its quotes, and the reads between their brackets, in a dump that was written without
/// them: they are most of a dump, and a serializer takes several times as long for them.
fn spliced(dump: &[u8], text: Option<&str>, reads: &[wire::SocketRead]) -> Vec<u8> {
    // In a string the quotes would be escaped, so these stand only where the body's text and the reads begin.
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
        // Nearer to the end, and a body that is no text stands before it.
        let begin = dump.windows(READS.len()).rposition(|window| window == READS);
        let at = begin.expect("a dump with reads has their list") + READS.len();
        out.extend_from_slice(&dump[from..at]);
        reads::write(&mut out, reads);
        from = at;
    }
    out.extend_from_slice(&dump[from..]);
    out
}

/// One step up per version; there has been one so far.
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
    fn a_dump_is_what_a_serializer_would_have_written() {
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

    /// An answer to `asked` in so many reads, with headers that say what the splices look for.
    fn answer(asked: &RequestDump, body: BodyDump, reads: u64) -> ResponseDump {
        let tricky = |value: &str| Header::Plain { name: "x".into(), value: value.into() };
        ResponseDump {
            format: DUMP_FORMAT,
            request_id: asked.request_id.clone(),
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
