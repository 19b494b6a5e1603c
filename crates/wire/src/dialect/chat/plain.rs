//! What is said so that everyone who speaks this dialect takes it.
//!
//! By the letter of the dialect a message may have parts. Some servers take only strings, and none takes a picture
//! from anybody but a user.

use std::borrow::Cow;

use session::{Block, Message, ToolResult};

use crate::dialect::{Draft, Element, MarkerTarget};

/// What a result says whose pictures come behind it.
const PICTURES_FOLLOW: &str = "(the picture follows)";

/// The same message: texts that stand side by side are one, and the pictures of results come behind them.
pub(in crate::dialect) fn message(said: &Message) -> Message {
    let mut pictures = Vec::new();
    let mut blocks = Vec::new();
    for block in &said.blocks {
        match block {
            Block::ToolResult(result) => blocks.push(Block::ToolResult(self::result(result, &mut pictures))),
            other => blocks.push(other.clone()),
        }
    }
    let results = blocks.iter().take_while(|block| matches!(block, Block::ToolResult(_))).count();
    blocks.splice(results..results, pictures);
    Message { role: said.role, blocks: joined(blocks) }
}

/// The same draft with instructions of one text, where nothing marks a part of them.
pub(in crate::dialect) fn instructions(draft: &Draft) -> Cow<'_, Draft> {
    let is_marked = draft.marks.iter().any(|mark| matches!(mark.on, MarkerTarget::System(_)));
    let made = draft.system.iter().map(|element| match element {
        Element::Value(block) => Some(block.clone()),
        Element::Raw(_) => None,
    });
    match made.collect::<Option<Vec<Block>>>().filter(|_| !is_marked) {
        Some(blocks) => {
            let system = joined(blocks).into_iter().map(Element::Value).collect();
            Cow::Owned(Draft { system, ..draft.clone() })
        }
        None => Cow::Borrowed(draft),
    }
}

fn result(result: &ToolResult, pictures: &mut Vec<Block>) -> ToolResult {
    let (shown, mut said): (Vec<Block>, Vec<Block>) =
        result.blocks.iter().cloned().partition(|block| matches!(block, Block::Image(_)));
    if !shown.is_empty() {
        said.push(Block::Text { text: PICTURES_FOLLOW.to_owned() });
    }
    pictures.extend(shown);
    ToolResult { blocks: joined(said), ..result.clone() }
}

fn joined(blocks: Vec<Block>) -> Vec<Block> {
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
