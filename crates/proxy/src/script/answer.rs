//! What the script answers to a request: values in, values out.

use session::{Block, CallId, Reply, Role, StopReason, ToolCall, Usage};
use wire::dialect::Prompt;

use super::{Call, Item, Lane, Match, Names, Script, Tokens, Turn};

impl Script {
    /// The reply to a request, or why there is none.
    pub(super) fn answer(&self, prompt: &Prompt) -> Result<Reply, String> {
        let Some(lane) = self.lanes.iter().find(|lane| lane.matching.takes(prompt)) else {
            let lanes: Vec<_> = self.lanes.iter().map(|lane| format!("`{}`", lane.lane)).collect();
            return Err(format!("no lane of the script takes this request; there are {}", lanes.join(", ")));
        };
        if prompt.setting("previous_response_id").is_some() {
            return Err("the request continues by `previous_response_id`, and a script counts the replies in the request; have the harness send its whole history".into());
        }
        let said = prompt.conversation().iter().filter(|message| message.role == Role::Assistant).count();
        let turn = lane.turns.get(said).ok_or_else(|| {
            format!(
                "lane `{}` of the script has {} turns, and this is turn {}",
                lane.lane,
                lane.turns.len(),
                said + 1
            )
        })?;
        reply(lane, said + 1, turn, prompt)
    }
}

impl Match {
    fn takes(&self, prompt: &Prompt) -> bool {
        let offered = |name: &String| prompt.tools.iter().any(|tool| tool.name == *name);
        let contains = |text: &Option<String>, among: &str| {
            text.as_ref().is_none_or(|text| among.contains(text.as_str()))
        };
        (self.tools_include.is_empty() || self.tools_include.iter().any(offered))
            && contains(&self.system_contains, &system_text(prompt))
            && contains(&self.prompt_contains, &first_user_text(prompt))
            && self.model.as_ref().is_none_or(|model| prompt.model.as_ref() == Some(model))
    }
}

fn system_text(prompt: &Prompt) -> String {
    texts(prompt.instructions().map(|part| &part.block))
}

fn first_user_text(prompt: &Prompt) -> String {
    let first = prompt.conversation().iter().find(|message| message.role == Role::User);
    texts(first.iter().flat_map(|message| message.parts.iter().map(|part| &part.block)))
}

fn texts<'b>(blocks: impl Iterator<Item = &'b Block>) -> String {
    let text = |block: &'b Block| match block {
        Block::Text { text } => Some(text.as_str()),
        _ => None,
    };
    blocks.filter_map(text).collect::<Vec<_>>().join("\n")
}

fn reply(lane: &Lane, number: usize, turn: &Turn, prompt: &Prompt) -> Result<Reply, String> {
    let mut blocks = Vec::new();
    for (at, item) in turn.reply.iter().enumerate() {
        blocks.push(match item {
            Item::Text(text) => Block::Text { text: text.clone() },
            Item::Thinking(text) => {
                Block::Thinking { text: text.clone(), signature: Some("c2NyaXB0ZWQ=".into()) }
            }
            Item::Call(call) => Block::ToolCall(tool_call(lane, number, at, call, prompt)?),
        });
    }
    let calls = blocks.iter().any(|block| matches!(block, Block::ToolCall(_)));
    let Tokens { input, output, cache_read, cache_write } = turn.usage;
    Ok(Reply {
        id: format!("msg_{}_{number}", lane.lane),
        model: prompt.model.clone().unwrap_or_else(|| "scripted".into()),
        blocks,
        stop: Some(if calls { StopReason::ToolUse } else { StopReason::EndTurn }),
        usage: Usage { input, output, cache_read, cache_write_5m: cache_write, ..Usage::default() },
    })
}

fn tool_call(
    lane: &Lane,
    number: usize,
    at: usize,
    call: &Call,
    prompt: &Prompt,
) -> Result<ToolCall, String> {
    let names = match &call.tool {
        Names::One(name) => std::slice::from_ref(name),
        Names::Several(names) => names.as_slice(),
    };
    let offered = |name: &&String| prompt.tools.iter().any(|tool| tool.name == **name);
    let name = names.iter().find(offered).ok_or_else(|| {
        format!(
            "turn {number} of lane `{}` calls {}, which the request does not offer",
            lane.lane,
            names.join(" or ")
        )
    })?;
    let id = call.id.clone().unwrap_or_else(|| format!("toolu_{}_{number}_{at}", lane.lane));
    let input = if call.input.is_null() { "{}".to_owned() } else { call.input.to_string() };
    Ok(ToolCall { id: CallId::new(id), name: name.clone(), input, server: false })
}

#[cfg(test)]
mod tests {
    use wire::dialect::Dialect;

    use super::*;

    const SCRIPT: &str = r#"
format: 1
lanes:
  - lane: main
    match: { tools_include: [Read, read], system_contains: agent }
    turns:
      - reply: [ { text: Looking. }, { call: { tool: [read, Read], input: { b: 1, a: two } } } ]
        usage: { input: 10, output: 2 }
      - reply: [ { text: Done. } ]
  - lane: side
    match: { any: true }
    turns: [ { reply: [ { text: A title } ] } ]
"#;

    fn answer(body: &str) -> Result<Reply, String> {
        let prompt = Dialect::AnthropicMessages.decode_request(body.as_bytes()).expect("a request");
        Script::parse(SCRIPT).expect("a script").answer(&prompt)
    }

    #[test]
    fn lanes_are_found_by_looks_and_turns_by_replies() {
        let head =
            r#"{"model":"m","system":"an agent","tools":[{"name":"Read","input_schema":{}}],"messages":["#;
        let first = answer(&format!(r#"{head}{{"role":"user","content":"hi"}}]}}"#)).expect("turn 1");
        assert_eq!(first.text().as_deref(), Some("Looking."));
        let call = first.calls().next().expect("a call");
        assert_eq!((call.name.as_str(), call.input.as_str()), ("Read", r#"{"b":1,"a":"two"}"#));
        assert_eq!((first.stop, first.usage.input), (Some(StopReason::ToolUse), 10));
        let replied = r#"{"role":"user","content":"hi"},{"role":"assistant","content":"Looking."},{"role":"user","content":"x"}"#;
        assert_eq!(answer(&format!("{head}{replied}]}}")).expect("turn 2").text().as_deref(), Some("Done."));
        let side = answer(r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#).expect("side");
        assert_eq!(side.text().as_deref(), Some("A title"));
        let over =
            r#"{"model":"m","messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}"#;
        assert_eq!(
            answer(over).expect_err("no more turns"),
            "lane `side` of the script has 1 turns, and this is turn 2"
        );
    }
}
