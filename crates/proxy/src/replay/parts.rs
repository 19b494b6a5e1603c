//! The new parts of a request: the texts and tool results after the model's last reply.

use session::{Block, CallId, Role};
use wire::dialect::Prompt;

/// The position of a new part in its request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum PartKey {
    /// Index of an instruction. Only the first request of a conversation has new instructions.
    System(usize),
    /// Index of a text.
    Text(usize),
    /// The result of this call.
    Result(CallId),
}

/// Returns the new parts of a request with their texts.
pub(super) fn new_parts(prompt: &Prompt) -> Vec<(PartKey, String)> {
    let messages = prompt.conversation();
    let start = messages.iter().rposition(|message| message.role == Role::Assistant).map_or(0, |at| at + 1);
    let mut parts = Vec::new();
    if start == 0 {
        let texts = prompt.instructions().filter_map(|part| text(&part.block));
        parts.extend(texts.enumerate().map(|(at, text)| (PartKey::System(at), text.to_owned())));
    }
    let mut texts = 0;
    for part in messages[start..].iter().flat_map(|message| &message.parts) {
        match &part.block {
            Block::ToolResult(result) => {
                let lines: Vec<&str> = result.blocks.iter().filter_map(text).collect();
                parts.push((PartKey::Result(result.call.clone()), lines.join("\n")));
            }
            other => {
                parts.extend(text(other).map(|text| (PartKey::Text(texts), text.to_owned())));
                texts += 1;
            }
        }
    }
    parts
}

fn text(block: &Block) -> Option<&str> {
    match block {
        Block::Text { text } => Some(text),
        _ => None,
    }
}
