//! Another usage in a recorded answer: numbers are spliced, every other byte stays.

use session::Usage;

use crate::json::{Document, Edits, Value};
use crate::sse::SseDecoder;

use super::Dialect;

/// Where a usage stands: in a whole answer, and in the events of a stream.
const PLACES: [&str; 3] = ["/usage", "/message/usage", "/response/usage"];

impl Dialect {
    /// What changes in an answer that shall report another input; output and reasoning stay as they are.
    pub fn set_usage(self, body: &[u8], is_stream: bool, usage: &Usage) -> Edits {
        let mut edits = Edits::default();
        if !is_stream {
            if let Ok(document) = Document::parse(body) {
                self.in_document(&document, usage, &mut |range, with| edits.replace(range, with));
            }
            return edits;
        }
        for frame in SseDecoder::new().push(body).into_iter().filter(|frame| !frame.lossy) {
            // Most events of a stream have none, and need not be parsed.
            if !frame.data.contains("\"usage\"") {
                continue;
            }
            let Ok(document) = Document::parse(frame.data.as_bytes()) else { continue };
            self.in_document(&document, usage, &mut |range, with| {
                edits.replace(frame.stream_offset(range.start)..frame.stream_offset(range.end), with);
            });
        }
        edits
    }

    fn in_document(
        self,
        document: &Document<'_>,
        usage: &Usage,
        replace: &mut dyn FnMut(std::ops::Range<usize>, String),
    ) {
        let found = PLACES.iter().filter_map(|place| document.root().pointer(place));
        for at in found.filter(|at| at.members().next().is_some()) {
            for (pointer, number) in self.numbers(at, usage) {
                put(at, pointer, number, replace);
            }
        }
    }

    /// The numbers of a usage that are about the input.
    fn numbers(self, at: Value<'_, '_>, usage: &Usage) -> Vec<(&'static str, u64)> {
        let written = usage.cache_write_5m + usage.cache_write_1h;
        let all = usage.input_total();
        let output = |name: &str| at.get(name).and_then(|value| value.as_u64()).unwrap_or_default();
        match self {
            Self::AnthropicMessages => vec![
                ("/input_tokens", usage.input),
                ("/cache_creation_input_tokens", written),
                ("/cache_read_input_tokens", usage.cache_read),
                ("/cache_creation/ephemeral_5m_input_tokens", usage.cache_write_5m),
                ("/cache_creation/ephemeral_1h_input_tokens", usage.cache_write_1h),
            ],
            Self::OpenAiChat => vec![
                ("/prompt_tokens", all),
                ("/total_tokens", all + output("completion_tokens")),
                ("/prompt_tokens_details/cached_tokens", usage.cache_read),
                ("/prompt_tokens_details/cache_write_tokens", written),
            ],
            Self::OpenAiResponses => vec![
                ("/input_tokens", all),
                ("/total_tokens", all + output("output_tokens")),
                ("/input_tokens_details/cached_tokens", usage.cache_read),
                ("/input_tokens_details/cache_write_tokens", written),
            ],
        }
    }
}

/// Puts a number in its place; where it is missing and is not 0, before all others of its object.
fn put(
    at: Value<'_, '_>,
    pointer: &str,
    number: u64,
    replace: &mut dyn FnMut(std::ops::Range<usize>, String),
) {
    if let Some(value) = at.pointer(pointer) {
        return replace(value.span(), number.to_string());
    }
    let (object, name) = pointer.rsplit_once('/').unwrap_or_default();
    let Some(object) = at.pointer(object).filter(|_| number > 0) else { return };
    let Some(first) = object.members().next() else { return };
    let start = first.key.span().start;
    replace(start..start, format!("\"{name}\":{number},"));
}
