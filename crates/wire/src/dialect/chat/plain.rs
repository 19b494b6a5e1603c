//! Rewrites messages so that every compatible server accepts them.
//!
//! The dialect allows a message with parts. Some servers accept only strings, and none accepts an image outside of
//! a user message.

use std::borrow::Cow;

use session::{Block, Message, ToolResult};

use crate::dialect::{Draft, Element, MarkerTarget};

/// The text that marks the position of an image in a tool result.
const IMAGE_FOLLOWS: &str = "(the picture follows)";

/// Joins adjacent texts and moves the images of tool results after the results.
pub(in crate::dialect) fn message(message: &Message) -> Message {
    let mut images = Vec::new();
    let mut blocks = Vec::new();
    for block in &message.blocks {
        match block {
            Block::ToolResult(result) => blocks.push(Block::ToolResult(self::result(result, &mut images))),
            other => blocks.push(other.clone()),
        }
    }
    let results = blocks.iter().take_while(|block| matches!(block, Block::ToolResult(_))).count();
    blocks.splice(results..results, images);
    Message { role: message.role, blocks: join_texts(blocks) }
}

/// Joins the instructions into one text, unless a cache marker is on one of them.
pub(in crate::dialect) fn instructions(draft: &Draft) -> Cow<'_, Draft> {
    let is_marked = draft.marks.iter().any(|mark| matches!(mark.on, MarkerTarget::System(_)));
    let made = draft.system.iter().map(|element| match element {
        Element::Value(block) => Some(block.clone()),
        Element::Raw(_) => None,
    });
    match made.collect::<Option<Vec<Block>>>().filter(|_| !is_marked) {
        Some(blocks) => {
            let system = join_texts(blocks).into_iter().map(Element::Value).collect();
            Cow::Owned(Draft { system, ..draft.clone() })
        }
        None => Cow::Borrowed(draft),
    }
}

fn result(result: &ToolResult, images: &mut Vec<Block>) -> ToolResult {
    let (shown, mut said): (Vec<Block>, Vec<Block>) =
        result.blocks.iter().cloned().partition(|block| matches!(block, Block::Image(_)));
    if !shown.is_empty() {
        said.push(Block::Text { text: IMAGE_FOLLOWS.to_owned() });
    }
    images.extend(shown);
    ToolResult { blocks: join_texts(said), ..result.clone() }
}

fn join_texts(blocks: Vec<Block>) -> Vec<Block> {
    let mut joined: Vec<Block> = Vec::new();
    for block in blocks {
        match (joined.last_mut(), block) {
            (Some(Block::Text { text: before }), Block::Text { text }) => {
                before.push_str("\n\n");
                before.push_str(&text);
            }
            (_, block) => joined.push(block),
        }
    }
    joined
}
