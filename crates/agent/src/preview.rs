//! Previews of long results. The journal keeps the whole result, the model sees a part.

use session::{Block, ToolResult};

/// Length up to which a result is shown completely.
const WHOLE: usize = 96 * 1024;
/// Length of the beginning of a longer one.
const HEAD: usize = 64 * 1024;
/// Length of its end.
const TAIL: usize = 16 * 1024;

/// Returns the preview of a result that is too long. `None` shows it completely.
///
/// The preview is stored with the result, so that every later request has the same bytes.
pub(crate) fn decide(result: &ToolResult) -> Option<String> {
    let text = text_of(result);
    if text.len() <= WHOLE {
        return None;
    }
    let head = &text[..floor(&text, HEAD)];
    let tail = &text[ceil(&text, text.len() - TAIL)..];
    let left_out = text.len() - head.len() - tail.len();
    Some(format!(
        "{head}\n\n[{left_out} of {} bytes are omitted here. Request smaller parts to see them.]\n\n{tail}",
        text.len()
    ))
}

/// Returns the result as the model sees it: a preview replaces its text, pictures stay.
pub(crate) fn with_preview(result: &ToolResult, preview: Option<&str>) -> ToolResult {
    let Some(preview) = preview else { return result.clone() };
    let pictures = result.blocks.iter().filter(|block| !matches!(block, Block::Text { .. })).cloned();
    let blocks = std::iter::once(Block::Text { text: preview.to_owned() }).chain(pictures).collect();
    ToolResult { blocks, ..result.clone() }
}

/// Returns the text of a result.
pub(crate) fn text_of(result: &ToolResult) -> String {
    let texts = result.blocks.iter().filter_map(|block| match block {
        Block::Text { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn floor(text: &str, at: usize) -> usize {
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

fn ceil(text: &str, at: usize) -> usize {
    (at..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use session::CallId;

    use super::*;

    fn result(text: String) -> ToolResult {
        ToolResult {
            call: CallId::new("c"),
            blocks: vec![Block::Text { text }],
            is_error: false,
            server: false,
        }
    }

    #[test]
    fn a_short_result_is_shown_completely() {
        assert_eq!(decide(&result("a".repeat(WHOLE))), None);
    }

    #[test]
    fn a_long_result_keeps_both_ends_and_whole_characters() {
        let text = format!("begin{}end", "é".repeat(WHOLE));
        let preview = decide(&result(text.clone())).expect("too long");
        assert!(preview.starts_with("begin") && preview.ends_with("end"));
        assert!(preview.len() < WHOLE);
        let shown = with_preview(&result(text), Some(&preview));
        assert_eq!(shown.blocks, [Block::Text { text: preview }]);
    }

    #[test]
    fn pictures_stay_beside_a_preview() {
        let picture = Block::Image(session::ImageSource::Url { url: "x".into() });
        let mut long = result("a".repeat(WHOLE + 1));
        long.blocks.push(picture.clone());
        let preview = decide(&long).expect("too long");
        assert_eq!(with_preview(&long, Some(&preview)).blocks[1], picture);
    }
}
