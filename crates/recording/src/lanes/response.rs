//! Decoded responses, as far as the lanes need them.

use serde::Deserialize;
use session::Reply;
use wire::dialect::{DecodedResponse, Dialect, ProviderError, StreamEnd, accumulate};

/// Decoded response.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LaneResponse {
    /// Reply, possibly incomplete.
    pub reply: Option<Reply>,
    /// Ids of the output items, which later requests of the Responses dialect refer to.
    pub items: Vec<String>,
    /// True if the response ended without error or cut.
    pub whole: bool,
    /// Error of the provider.
    pub error: Option<ProviderError>,
    /// Message that the same request would return without streaming.
    pub message: Option<Vec<u8>>,
}

impl LaneResponse {
    /// Decodes a body that is one JSON value or a stream of events.
    pub fn decode(dialect: Dialect, status: u16, body: &[u8]) -> Self {
        let is_json = body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
        let (message, end) = if is_json {
            (Some(body.to_vec()), StreamEnd::Complete)
        } else {
            let accumulated = accumulate(dialect, body);
            (accumulated.body, accumulated.end)
        };
        let outcome = message.as_deref().and_then(|message| dialect.decode_reply(message).ok());
        let mut response = Self::default();
        match outcome {
            Some(DecodedResponse::Reply(answer)) if status < 400 => {
                response.whole = end == StreamEnd::Complete && answer.reply.stop.is_some();
                response.reply = Some(answer.reply);
            }
            Some(DecodedResponse::Error(error)) => response.error = Some(error),
            _ => {}
        }
        if let StreamEnd::Failed(error) = end {
            response.error = Some(error);
            response.whole = false;
        }
        if response.reply.is_some() {
            response.items = message.as_deref().map(items).unwrap_or_default();
            response.message = message.filter(|_| !is_json);
        }
        response
    }
}

fn items(message: &[u8]) -> Vec<String> {
    #[derive(Deserialize)]
    struct Message {
        #[serde(default)]
        output: Vec<Item>,
    }
    #[derive(Deserialize)]
    struct Item {
        id: Option<String>,
    }
    let message: Option<Message> = serde_json::from_slice(message).ok();
    message.into_iter().flat_map(|message| message.output).filter_map(|item| item.id).collect()
}
