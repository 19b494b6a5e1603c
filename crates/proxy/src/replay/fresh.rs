//! What is new in a request: the texts and results behind the model's last words.

use session::{Block, CallId, Role};
use wire::dialect::Prompt;

/// A piece of a request, by what it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Unit {
    /// The how manieth instruction, where the conversation begins.
    System(usize),
    /// The how manieth text.
    Text(usize),
    /// What a call came to.
    Result(CallId),
}

/// The new pieces with their texts.
pub(super) fn fresh(prompt: &Prompt) -> Vec<(Unit, String)> {
    let messages = prompt.conversation();
    let behind = messages.iter().rposition(|message| message.role == Role::Assistant).map_or(0, |at| at + 1);
    let mut units = Vec::new();
    if behind == 0 {
        let texts = prompt.instructions().filter_map(|part| text(&part.block));
        units.extend(texts.enumerate().map(|(at, text)| (Unit::System(at), text.to_owned())));
    }
    let mut texts = 0;
    for part in messages[behind..].iter().flat_map(|message| &message.parts) {
        match &part.block {
            Block::ToolResult(result) => {
                let said: Vec<&str> = result.blocks.iter().filter_map(text).collect();
                units.push((Unit::Result(result.call.clone()), said.join("\n")));
            }
            other => {
                units.extend(text(other).map(|text| (Unit::Text(texts), text.to_owned())));
                texts += 1;
            }
        }
    }
    units
}

fn text(block: &Block) -> Option<&str> {
    match block {
        Block::Text { text } => Some(text),
        _ => None,
    }
}
