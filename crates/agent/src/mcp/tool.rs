//! A server's tool as a [`Tool`].

use std::sync::Arc;

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::Value;
use session::{Block, ImageSource};

use super::listing::OfferedTool;
use super::message::UNKNOWN;
use super::server::{CallError, ToolServer};
use crate::fence::data_notice;
use crate::picture;
use crate::{BoxFuture, Policy, Tool, ToolContext, ToolOutput};

/// Picture types that models accept.
const PICTURE_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/// Maximum size of a picture in base64. Providers refuse larger ones.
const MAX_PICTURE: usize = 5 << 20;
/// Maximum number of pictures in one answer.
const MAX_PICTURES: usize = 10;

pub(super) struct McpTool {
    pub(super) server: Arc<ToolServer>,
    pub(super) offered: OfferedTool,
}

impl Tool for McpTool {
    fn name(&self) -> &str {
        &self.offered.name
    }

    fn description(&self) -> &str {
        &self.offered.description
    }

    fn schema(&self) -> &str {
        &self.offered.schema
    }

    fn policy(&self) -> Policy {
        self.offered.policy
    }

    fn server(&self) -> Option<&str> {
        Some(&self.server.config.name)
    }

    fn call<'a>(&'a self, input: &'a Value, _: &'a ToolContext) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let arguments = input.as_object().cloned().unwrap_or_default();
            match self.server.call(&self.offered.own_name, arguments).await {
                Ok(result) => {
                    let mut output = to_output(result);
                    let notice = data_notice(&format!("the MCP server `{}`", self.server.config.name));
                    output.blocks.insert(0, Block::Text { text: notice });
                    output
                }
                Err(why) => failure_output(why),
            }
        })
    }
}

pub(super) fn failure_output(why: CallError) -> ToolOutput {
    match why {
        CallError::NotDone(why) => ToolOutput::error(why),
        CallError::Unknown(why) => ToolOutput::uncertain(why),
    }
}

/// Converts a result to blocks that models accept.
pub(super) fn to_output(result: CallToolResult) -> ToolOutput {
    let mut pictures = 0;
    let mut blocks: Vec<Block> =
        result.content.into_iter().map(|content| block(content, &mut pictures)).collect();
    // Some providers refuse a result without text.
    let has_words = |block: &Block| !matches!(block, Block::Text { text } if text.trim().is_empty());
    if !blocks.iter().any(has_words) {
        let structured = result.structured_content.filter(|structured| !structured.is_null());
        blocks = structured.map(|said| Block::Text { text: said.to_string() }).into_iter().collect();
    }
    let mut output = ToolOutput::text("[the tool returned no text]");
    if !blocks.is_empty() {
        output.blocks = blocks;
    }
    output.is_error = result.is_error == Some(true);
    output
}

fn block(content: ContentBlock, pictures: &mut usize) -> Block {
    match content {
        ContentBlock::Text(text) => Block::Text { text: text.text },
        ContentBlock::Image(image) => picture_block(image.mime_type, image.data, pictures),
        ContentBlock::Audio(audio) => placeholder("audio", &audio.mime_type, &audio.data),
        ContentBlock::ResourceLink(link) => Block::Text { text: format!("[{}: {}]", link.name, link.uri) },
        ContentBlock::Resource(embedded) => match embedded.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => {
                Block::Text { text: format!("[{uri}]\n{text}") }
            }
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                let mime_type = mime_type.unwrap_or_default();
                match PICTURE_TYPES.contains(&&*mime_type) {
                    true => picture_block(mime_type, blob, pictures),
                    false => placeholder(&uri, &mime_type, &blob),
                }
            }
            _ => Block::Text { text: "[a resource of an unknown type]".to_owned() },
        },
        _ => Block::Text { text: UNKNOWN.to_owned() },
    }
}

fn picture_block(media_type: String, data: String, pictures: &mut usize) -> Block {
    use base64::Engine as _;
    let is_it = |bytes: &[u8]| {
        picture::media_type(bytes) == Some(media_type.as_str()) && picture::flaw(bytes).is_none()
    };
    let is_sound = data.len() <= MAX_PICTURE
        && base64::engine::general_purpose::STANDARD.decode(&data).is_ok_and(|bytes| is_it(&bytes));
    if !is_sound || *pictures == MAX_PICTURES {
        return placeholder("a picture", &media_type, &data);
    }
    *pictures += 1;
    Block::Image(ImageSource::Base64 { media_type, data })
}

fn placeholder(what: &str, media_type: &str, data: &str) -> Block {
    let kind = if media_type.is_empty() { "of unknown type" } else { media_type };
    Block::Text { text: format!("[{what}, {kind}, {} bytes in base64, not shown]", data.len()) }
}
