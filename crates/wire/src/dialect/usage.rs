//! Replaces the usage in a recorded response. All other bytes stay unchanged.

use session::Usage;

use crate::json::{Document, Edits, Value};
use crate::sse::SseDecoder;

use super::Dialect;

/// Pointers of the usage: in a complete response, and in the events of a stream.
const USAGE_POINTERS: [&str; 3] = ["/usage", "/message/usage", "/response/usage"];

impl Dialect {
    /// Returns the edits that set the input counts of a response. Counts of output and reasoning stay.
    pub fn set_usage(self, body: &[u8], is_stream: bool, usage: &Usage) -> Edits {
        let mut edits = Edits::default();
        if !is_stream {
            if let Ok(document) = Document::parse(body) {
                self.edit_document(&document, usage, &mut |range, with| edits.replace(range, with));
            }
            return edits;
        }
        for frame in SseDecoder::new().push(body).into_iter().filter(|frame| !frame.lossy) {
            // Most events have no usage and need not be parsed.
            if !frame.data.contains("\"usage\"") {
                continue;
            }
            let Ok(document) = Document::parse(frame.data.as_bytes()) else { continue };
            self.edit_document(&document, usage, &mut |range, with| {
                edits.replace(frame.stream_offset(range.start)..frame.stream_offset(range.end), with);
            });
        }
        edits
    }

    fn edit_document(
        self,
        document: &Document<'_>,
        usage: &Usage,
        replace: &mut dyn FnMut(std::ops::Range<usize>, String),
    ) {
        let found = USAGE_POINTERS.iter().filter_map(|place| document.root().pointer(place));
        for at in found.filter(|at| at.members().next().is_some()) {
            for (pointer, number) in self.input_counts(at, usage) {
                set_count(at, pointer, number, replace);
            }
        }
    }

    /// Returns the input counts of a usage, by pointer.
    fn input_counts(self, at: Value<'_, '_>, usage: &Usage) -> Vec<(&'static str, u64)> {
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

/// Replaces a number. If it is missing and not 0, inserts it as the first member of its object.
fn set_count(
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
