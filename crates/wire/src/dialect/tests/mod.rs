//! Table tests: a body as input, and a rendering of the decoded value as output.

mod anthropic;
mod carry;
mod chat;
mod detect;
mod edits;
mod encode;
mod laws;
mod responses;
mod traffic;
mod usage;

use std::fmt::Write as _;

use expect_test::Expect;
use session::Block;

use super::*;
use crate::json::Document;

/// Renders a decoded request and checks that every location leads to its value.
fn check_request(dialect: Dialect, body: &str, expected: Expect) {
    let prompt = dialect.decode_request(body.as_bytes()).expect("test input decodes");
    places_hold(&prompt, body);
    let mut out =
        format!("model {:?}, stream {}, max {:?}\n", prompt.model, prompt.stream, prompt.max_tokens);
    for ToolDefinition { name, kind, execution, deferred, marker, message, schema, .. } in &prompt.tools {
        let schema = schema.as_ref().map_or("-", |place| &body[place.span.clone()]);
        write!(out, "tool {name} {kind} {execution:?} {schema}").expect("memory");
        out += if *deferred { " deferred" } else { "" };
        out += if marker.is_some() { " *" } else { "" };
        message.iter().for_each(|at| write!(out, " in message {at}").expect("memory"));
        out.push('\n');
    }
    prompt.system.iter().for_each(|part| render_part(part, "system ", &mut out));
    for message in &prompt.messages {
        writeln!(out, "{:?} {}", message.role, message.place.pointer).expect("memory");
        message.parts.iter().for_each(|part| render_part(part, "  ", &mut out));
        for Setting { name, place } in &message.extra {
            writeln!(out, "  + {name}: {}", &body[place.span.clone()]).expect("memory");
        }
    }
    for Setting { name, place } in &prompt.settings {
        writeln!(out, "setting {name}: {}", &body[place.span.clone()]).expect("memory");
    }
    for Marker { place, ttl, is_set } in &prompt.markers {
        let unset = if *is_set { "" } else { " unset" };
        writeln!(out, "marker {} {ttl:?}{unset}", place.pointer).expect("memory");
    }
    prompt.unknown.iter().for_each(|unknown| writeln!(out, "{unknown}").expect("memory"));
    expected.assert_eq(&out);
}

fn render_part(part: &Part, indent: &str, out: &mut String) {
    let said = part.content.as_ref().map_or("-", |place| &place.pointer);
    let marker = if part.marker.is_some() { " *" } else { "" };
    writeln!(out, "{indent}{} said at {said}{marker}", render_block(&part.block)).expect("memory");
    part.parts.iter().for_each(|inner| render_part(inner, &format!("{indent}  "), out));
}

fn render_block(block: &Block) -> String {
    match block {
        Block::ToolResult(result) => {
            format!("ToolResult of {} error={} server={}", result.call, result.is_error, result.server)
        }
        Block::ToolCall(call) => {
            format!("ToolCall {} {} {} server={}", call.id, call.name, call.input, call.server)
        }
        other => format!("{other:?}"),
    }
}

/// Asserts that every location in a decoded request leads to a value with exactly that span.
fn places_hold(prompt: &Prompt, body: &str) {
    let document = Document::parse(body.as_bytes()).expect("it decoded, so it is JSON");
    let parts = prompt.system.iter().chain(prompt.messages.iter().flat_map(|message| &message.parts));
    let parts: Vec<&Part> = parts.flat_map(|part| std::iter::once(part).chain(&part.parts)).collect();
    let mut places: Vec<&JsonLocation> = parts.iter().map(|part| &part.place).collect();
    places.extend(parts.iter().filter_map(|part| part.content.as_ref()));
    places.extend(prompt.messages.iter().map(|message| &message.place));
    places.extend(prompt.messages.iter().flat_map(|message| &message.extra).map(|extra| &extra.place));
    places.extend(prompt.markers.iter().map(|marker| &marker.place));
    places.extend(prompt.tools.iter().map(|tool| &tool.place));
    places.extend(prompt.tools.iter().filter_map(|tool| tool.schema.as_ref()));
    places.extend(prompt.settings.iter().map(|setting| &setting.place));
    for place in places {
        let there = document.root().pointer(&place.pointer).map(|value| value.span());
        assert_eq!(there.as_ref(), Some(&place.span), "{}", place.pointer);
    }
}

/// Renders a decoded reply.
fn check_reply(dialect: Dialect, body: &str, expected: Expect) {
    expected
        .assert_eq(&render_outcome(dialect.decode_reply(body.as_bytes()).expect("test input decodes"), body));
}

fn render_outcome(outcome: DecodedResponse, body: &str) -> String {
    let answer = match outcome {
        DecodedResponse::Reply(answer) => answer,
        other => return format!("{other:?}\n"),
    };
    let mut out = format!("{} {} {:?}\n", answer.reply.id, answer.reply.model, answer.reply.stop);
    for (part, block) in answer.parts.iter().zip(&answer.reply.blocks) {
        assert_eq!(&part.block, block);
        assert!(body.get(part.place.span.clone()).is_some());
        render_part(part, "  ", &mut out);
    }
    assert_eq!(answer.parts.len(), answer.reply.blocks.len());
    writeln!(out, "{:?}", answer.reply.usage).expect("memory");
    answer.unknown.iter().for_each(|unknown| writeln!(out, "{unknown}").expect("memory"));
    out
}

/// Renders an accumulated stream and checks that every split of its bytes has the same result.
fn check_stream(dialect: Dialect, stream: &str, expected: Expect) {
    let whole = accumulate(dialect, stream.as_bytes());
    every_cut_is_the_same(dialect, stream.as_bytes(), &whole);
    every_way_to_write_it_is_the_same(dialect, stream, &whole);
    let mut out = String::new();
    if let Some(body) = &whole.body {
        let body = std::str::from_utf8(body).expect("UTF-8 in, UTF-8 out");
        writeln!(out, "{body}").expect("memory");
        out += &render_outcome(dialect.decode_reply(body.as_bytes()).expect("accumulated JSON"), body);
    }
    for Fragment { pointer, frame, stream: range, .. } in &whole.fragments {
        writeln!(out, "{pointer} <- event {frame} {:?}", &stream[range.clone()]).expect("memory");
    }
    whole.unknown.iter().for_each(|unknown| writeln!(out, "{unknown}").expect("memory"));
    writeln!(out, "{:?}", whole.end).expect("memory");
    expected.assert_eq(&out);
}

/// Asserts that the reply does not depend on the split of the bytes.
fn every_cut_is_the_same(dialect: Dialect, stream: &[u8], whole: &AccumulatedStream) {
    for cut in 0..=stream.len() {
        let mut decoder = crate::sse::SseDecoder::new();
        let mut accumulator = Accumulator::new(dialect);
        for bytes in [&stream[..cut], &stream[cut..]] {
            feed(&mut accumulator, &decoder.push(bytes));
        }
        assert_eq!(&accumulator.finish(), whole, "cut at {cut}");
    }
}

/// Asserts that the reply does not depend on the format of the events.
fn every_way_to_write_it_is_the_same(dialect: Dialect, stream: &str, whole: &AccumulatedStream) {
    for written in [
        stream.replace('\n', "\r\n"),
        stream.replace('\n', "\r"),
        format!("\u{feff}{stream}").replace("data: ", "data:").replace("\n\n", "\n\n: comment\n\n"),
        stream.replace("data: {", ": comment\ndata: {\ndata: "),
    ] {
        let other = accumulate(dialect, written.as_bytes());
        assert_eq!((&other.body, &other.end), (&whole.body, &whole.end), "{written}");
        assert_eq!((other.fragments.len(), &other.unknown), (whole.fragments.len(), &whole.unknown));
    }
}

fn feed(accumulator: &mut Accumulator, frames: &[crate::sse::Frame]) {
    for frame in frames {
        for Fragment { data, stream, .. } in accumulator.push(frame) {
            assert!(frame.data.get(data.clone()).is_some() && stream.len() >= data.len());
        }
    }
}
