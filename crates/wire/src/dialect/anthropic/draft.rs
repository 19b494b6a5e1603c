//! Encodes requests.

use session::{Block, Message, Role};

use crate::dialect::raw::{Object, array};
use crate::dialect::{Draft, Element, EncodeError, MarkerTarget, ThinkingConfig, ToolSpec};
use crate::json::quote;

use super::block;

pub(in crate::dialect) fn encode_request(draft: &Draft) -> Result<String, EncodeError> {
    let mut body = Object::new().text("model", &draft.model);
    body = body.maybe("max_tokens", draft.max_tokens.map(|tokens| tokens.to_string()));
    body = body.maybe("stream", draft.stream.then(|| "true".to_owned()));
    body = body.maybe("thinking", draft.thinking.map(thinking));
    body = body.maybe("output_config", draft.effort.as_ref().map(|e| Object::new().text("effort", e).json()));
    for (name, json) in &draft.extra {
        body = body.raw(name, json.clone());
    }
    if !draft.tools.is_empty() {
        let tools = draft.tools.iter().enumerate();
        body = body.raw("tools", array(tools.map(|(index, element)| tool(draft, index, element))));
    }
    if !draft.system.is_empty() {
        let blocks = draft.system.iter().enumerate().map(|(index, element)| match element {
            Element::Value(made) => {
                encoded(made, draft.marker(MarkerTarget::System(index)), "the instructions")
            }
            Element::Raw(json) => Ok(json.clone()),
        });
        body = body.raw("system", array(blocks.collect::<Result<Vec<_>, _>>()?));
    }
    let messages = draft.messages.iter().enumerate().map(|(index, element)| match element {
        Element::Value(made) => message(draft, index, made),
        Element::Raw(json) => Ok(json.clone()),
    });
    Ok(body.raw("messages", array(messages.collect::<Result<Vec<_>, _>>()?)).json())
}

fn thinking(thinking: ThinkingConfig) -> String {
    let object = |kind: &str| Object::new().text("type", kind);
    match thinking {
        ThinkingConfig::Adaptive { summarized: false } => object("adaptive"),
        ThinkingConfig::Adaptive { summarized: true } => object("adaptive").text("display", "summarized"),
        ThinkingConfig::Budget(tokens) => object("enabled").number("budget_tokens", tokens),
        ThinkingConfig::Off => object("disabled"),
    }
    .json()
}

fn tool(draft: &Draft, index: usize, element: &Element<ToolSpec>) -> String {
    match element {
        Element::Raw(json) => json.clone(),
        Element::Value(ToolSpec { name, description, schema }) => Object::new()
            .text("name", name)
            .text("description", description)
            .raw("input_schema", schema.clone())
            .maybe("cache_control", draft.marker(MarkerTarget::Tool(index)))
            .json(),
    }
}

pub(in crate::dialect) fn encode_message(made: &Message) -> Result<String, EncodeError> {
    message(&Draft::default(), 0, made)
}

fn message(draft: &Draft, index: usize, message: &Message) -> Result<String, EncodeError> {
    let role = match message.role {
        Role::User | Role::Tool => "user",
        Role::Assistant => "assistant",
        Role::System | Role::Developer => "system",
    };
    // Always a list of blocks, even for a single text: a message keeps its shape when it gains or loses a marker.
    let blocks = message.blocks.iter().enumerate().map(|(at, block)| {
        encoded(block, draft.marker(MarkerTarget::Block { message: index, block: at }), "a message")
    });
    let content = array(blocks.collect::<Result<Vec<_>, _>>()?);
    Ok(Object::new().raw("role", quote(role)).raw("content", content).json())
}

fn encoded(block: &Block, marker: Option<String>, place: &'static str) -> Result<String, EncodeError> {
    Ok(block::encode(block, marker, place)?.json())
}
