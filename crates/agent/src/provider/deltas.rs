//! Pieces of a reply while it arrives, for display only.

use std::borrow::Cow;

use wire::dialect::Fragment;
use wire::json::unescape;
use wire::sse::Frame;

/// The kind of block that a piece belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// Text.
    Text,
    /// Thinking.
    Thinking,
    /// The input of a call.
    Input,
}

/// Turns pieces of JSON strings into text.
#[derive(Debug, Default)]
pub(super) struct Deltas {
    /// The first half of a character that was split over two pieces, and its string.
    half: Option<(String, String)>,
}

impl Deltas {
    /// Returns the text of a piece that is displayed.
    pub(super) fn text(&mut self, frame: &Frame, piece: &Fragment) -> Option<(BlockKind, String)> {
        let kind = kind(frame, &piece.pointer)?;
        let inner = frame.data.get(piece.data.clone())?;
        let mut inner = match self.half.take() {
            Some((pointer, half)) if pointer == piece.pointer => Cow::Owned(half + inner),
            _ => Cow::Borrowed(inner),
        };
        if let Some(at) = half_at_end(&inner) {
            self.half = Some((piece.pointer.clone(), inner[at..].to_owned()));
            inner = Cow::Owned(inner[..at].to_owned());
        }
        let text = unescape(&inner).into_owned();
        (!text.is_empty()).then_some((kind, text))
    }
}

/// Returns the kind by the last name of the pointer. In the Responses dialect only the event separates thinking from text.
fn kind(frame: &Frame, pointer: &str) -> Option<BlockKind> {
    Some(match pointer.rsplit('/').next()? {
        "thinking" | "reasoning" | "reasoning_content" => BlockKind::Thinking,
        "text" if frame.event.contains("reasoning") || pointer.contains("reasoning") => BlockKind::Thinking,
        "text" | "content" | "refusal" => BlockKind::Text,
        "input" | "arguments" => BlockKind::Input,
        _ => return None,
    })
}

/// Returns the start of an escaped high surrogate at the end of a text.
fn half_at_end(inner: &str) -> Option<usize> {
    let at = inner.len().checked_sub(6)?;
    let digits = inner.get(at..)?.strip_prefix("\\u")?;
    let unit = u16::from_str_radix(digits, 16).ok()?;
    let slashes = inner[..at].bytes().rev().take_while(|byte| *byte == b'\\').count();
    ((0xd800..0xdc00).contains(&unit) && slashes % 2 == 0).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_split_over_two_pieces_is_shown_once_whole() {
        let mut deltas = Deltas::default();
        let mut shown = String::new();
        for inner in ["a\\ud83d", "\\ude00b", "\\\\ud83d"] {
            let frame = Frame { data: inner.to_owned(), ..Frame::default() };
            let (pointer, data) = ("/content/0/text".to_owned(), 0..inner.len());
            let piece = Fragment { pointer, frame: 0, stream: data.clone(), data };
            shown += &deltas.text(&frame, &piece).expect("some text").1;
        }
        assert_eq!(shown, "a😀b\\ud83d");
    }
}
