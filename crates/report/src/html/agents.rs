//! A recording as a page: its agents as a tree, each turn with what went in and what came out, every body on demand.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use recording::normalize::{Envelope, SessionCall, SessionLane, SessionTurn};
use recording::source::{Answered, Asked, Content, Ordered, Summary};
use recording::{Recording, State};
use serde_json::{Value, json};
use wire::Header;

use super::{excerpt, foot, grouped, head, line};
use crate::place::{Place, places};
use crate::show::About;
use crate::text::{duration, is_harmless, tokens};

/// So much of a text is in the tree; the raw body has all of it.
const MOST: usize = 20_000;
/// Longer requests are written whole, and nothing is taken from them.
const REPEATED: usize = 4 << 20;
/// So often a request may be told by the one before it.
const CHAIN: usize = 50;

/// What a page is made of.
#[derive(Debug)]
pub struct PageOf<'p> {
    /// What it is a recording of.
    pub title: &'p str,
    /// What is known of its folder.
    pub about: About<'p>,
    /// Its exchanges in order.
    pub ordered: &'p Ordered,
    /// Its agents.
    pub envelope: &'p Envelope,
}

/// Writes a page; the bodies come exchange by exchange, so that only one is in memory.
pub struct RecordingPage<'p, W: Write> {
    out: W,
    numbers: HashMap<&'p str, usize>,
    places: HashMap<&'p str, Place<'p>>,
    /// The last request of each lane: what later ones repeat is taken from there.
    last: HashMap<&'p str, Told>,
}

struct Told {
    number: usize,
    text: String,
    chain: usize,
}

impl<'p, W: Write> RecordingPage<'p, W> {
    /// Begins the page: everything but the bodies.
    pub fn begin(mut out: W, page: &PageOf<'p>) -> io::Result<Self> {
        let exchanges = &page.ordered.exchanges;
        let tree = Tree {
            numbers: exchanges.iter().enumerate().map(|(n, it)| (it.id.as_str(), n)).collect(),
            exchanges,
        };
        out.write_all(head(page.title, true).as_bytes())?;
        out.write_all(top(page).as_bytes())?;
        for lane in page.envelope.lanes.iter().chain(&page.envelope.side) {
            out.write_all(tree.lane(lane).as_bytes())?;
        }
        Ok(Self { out, numbers: tree.numbers, places: places(page.ordered), last: HashMap::new() })
    }

    /// Adds the bodies of an exchange.
    pub fn exchange(&mut self, asked: &Asked, answered: Option<&Answered>) -> io::Result<()> {
        let Some((&id, &number)) = self.numbers.get_key_value(asked.id.as_str()) else { return Ok(()) };
        let block = json!({
            "request": {
                "line": format!("{} {}", asked.method, asked.url),
                "headers": headers(&asked.headers),
                "body": self.request_body(id, number, &asked.body),
            },
            "response": answered.map(|answered| json!({
                "line": status_line(answered),
                "headers": headers(&answered.headers),
                "body": body(&answered.body),
            })),
        });
        let block = inert(&block.to_string());
        writeln!(self.out, "<script type=\"application/json\" id=\"x{number}\">{block}</script>")
    }

    /// Ends the page.
    pub fn end(mut self) -> io::Result<W> {
        self.out.write_all(foot(true).as_bytes())?;
        Ok(self.out)
    }

    fn request_body(&mut self, id: &'p str, number: usize, content: &Content) -> Value {
        let whole = body(content);
        let (Some(place), Some(text)) = (self.places.get(id), whole["text"].as_str()) else { return whole };
        if text.len() > REPEATED {
            self.last.remove(place.lane);
            return whole;
        }
        let before = self.last.get(place.lane).filter(|before| before.chain < CHAIN);
        let told = before.map(|before| repeated(before, text));
        let chain = before.map_or(0, |before| before.chain + 1);
        self.last.insert(place.lane, Told { number, text: text.to_owned(), chain });
        told.unwrap_or(whole)
    }
}

/// JSON that can neither end its block nor begin a comment in it, and in which nothing turns the direction of writing:
/// such characters stand only in strings, where they may be escaped.
fn inert(json: &str) -> String {
    let mut out = String::with_capacity(json.len() + json.len() / 16);
    for c in json.chars() {
        match c {
            '<' => out.push_str("\\u003c"),
            c if is_harmless(c) => out.push(c),
            c => write!(out, "\\u{:04x}", u32::from(c)).expect("a string takes everything"),
        }
    }
    out
}

/// A text by what it has in common with one before it; lengths are counted as scripts count them.
fn repeated(before: &Told, text: &str) -> Value {
    let head = common(before.text.bytes().zip(text.bytes()));
    let head = (0..=head).rev().find(|at| text.is_char_boundary(*at) && before.text.is_char_boundary(*at));
    let head = head.unwrap_or_default();
    let (old, new) = (&before.text[head..], &text[head..]);
    let tail = common(old.bytes().rev().zip(new.bytes().rev()));
    let ends = |tail: usize| new.is_char_boundary(new.len() - tail) && old.is_char_boundary(old.len() - tail);
    let tail = (0..=tail).rev().find(|tail| ends(*tail)).unwrap_or_default();
    let units = |text: &str| text.encode_utf16().count();
    json!({
        "base": before.number,
        "head": units(&text[..head]),
        "tail": units(&new[new.len() - tail..]),
        "text": &new[..new.len() - tail],
    })
}

fn common(pairs: impl Iterator<Item = (u8, u8)>) -> usize {
    pairs.take_while(|(one, other)| one == other).count()
}

fn body(content: &Content) -> Value {
    match content.bytes.as_deref().map(|bytes| (bytes, std::str::from_utf8(bytes))) {
        None => json!({"lost": true}),
        Some((_, Ok(text))) => json!({"text": text}),
        Some((bytes, Err(_))) => json!({"base64": STANDARD.encode(bytes)}),
    }
}

fn headers(headers: &[Header]) -> Vec<[String; 2]> {
    let value = |header: &Header| match header {
        Header::Plain { value, .. } => value.clone(),
        Header::Secret { fingerprint, .. } => format!("offshoot-redacted-{fingerprint}"),
    };
    headers.iter().map(|header| [header.name().to_owned(), value(header)]).collect()
}

fn status_line(answered: &Answered) -> String {
    let status = answered.status.map_or("no status".to_owned(), |status| status.to_string());
    match &answered.error {
        Some(error) => format!("{status}: {error}"),
        None => status,
    }
}

fn top(page: &PageOf<'_>) -> String {
    let recording = page.about.recording;
    let (class, word, because) = match recording.map(Recording::state) {
        Some(State::Sealed) if page.about.damage.is_empty() => ("good", "sealed", ""),
        Some(State::Sealed) => ("bad", "changed since it was sealed", ""),
        Some(State::Unsealed { because }) => ("warn", "unsealed", because.as_str()),
        None => ("warn", "a folder of dumps", ""),
    };
    let mut out = format!("<h1><span class=\"badge {class}\">{word}</span>{}</h1>", line(page.title));
    let mut fact = |name: &str, value: &str| {
        write!(out, "<dt>{name}</dt><dd>{}</dd>", line(value)).expect("a string takes everything");
    };
    fact(
        "holds",
        &format!(
            "{} exchanges in {} lanes",
            grouped(page.ordered.exchanges.len()),
            grouped(page.ordered.lanes.lanes.len())
        ),
    );
    if !because.is_empty() {
        fact("unsealed because", because);
    }
    if let Some(manifest) = recording.and_then(Recording::manifest) {
        fact("began", &manifest.started_at);
        if let Some(harness) = &manifest.harness {
            fact("model", &harness.model);
        }
        manifest.lost.iter().for_each(|loss| fact("not kept", &loss.to_string()));
    }
    page.about.damage.iter().for_each(|file| fact("damaged", file));
    page.ordered.problems.iter().for_each(|it| fact("problem", &format!("{}: {}", it.what, it.why)));
    out.replacen("</h1>", "</h1><dl class=\"two\">", 1) + "</dl>\n<h2>Lanes</h2>\n"
}

struct Tree<'p> {
    numbers: HashMap<&'p str, usize>,
    exchanges: &'p [Summary],
}

impl Tree<'_> {
    fn lane(&self, lane: &SessionLane) -> String {
        let kind = lane.agent_type.as_deref().map(|kind| format!(" {}", line(kind))).unwrap_or_default();
        let model = lane.model.as_deref().map(|model| format!(", {}", line(model))).unwrap_or_default();
        let job = match &lane.job {
            Some(job) if job.background => ", background",
            _ => "",
        };
        let count = match lane.turns.len() {
            1 => "1 turn".to_owned(),
            n => format!("{} turns", grouped(n)),
        };
        let turns: String = lane.turns.iter().map(|turn| self.turn(turn)).collect();
        format!(
            "<details class=\"lane\"{}><summary>{}{kind} <span class=\"faint\">{count}, {}{model}{job}</span></summary>{turns}</details>\n",
            if lane.parent.is_none() && lane.id == "main" { " open" } else { "" },
            line(&lane.id),
            tokens(&lane.usage),
        )
    }

    fn turn(&self, turn: &SessionTurn) -> String {
        let mut out = format!("<details class=\"turn\"><summary>{}</summary>", self.turn_head(turn));
        let mut part = |label: &str, text: &str| {
            write!(out, "<p class=\"label\">{label}</p><pre>{}</pre>", excerpt(text, MOST))
                .expect("a string takes everything");
        };
        for said in &turn.injected {
            part(&role(said.role), &said.text);
        }
        for result in &turn.results {
            let failed = if result.is_error { ", failed" } else { "" };
            part(&format!("result of <code>{}</code>{failed}", line(result.call.as_str())), &result.text);
        }
        if let Some(text) = &turn.text {
            part("the model", text);
        }
        turn.calls.iter().for_each(|made| out += &call(made));
        turn.requests.iter().for_each(|request| out += &self.raw(request.as_str()));
        out += "</details>\n";
        // Beside the turn and not in it, so that the agents are seen without opening any.
        let started: String =
            turn.calls.iter().flat_map(|call| &call.started).map(|lane| self.lane(lane)).collect();
        if !started.is_empty() {
            write!(out, "<div class=\"started\">{started}</div>").expect("a string takes everything");
        }
        out
    }

    fn turn_head(&self, turn: &SessionTurn) -> String {
        let last = turn.requests.last().and_then(|id| self.summary(id.as_str()));
        let took = last.and_then(|it| it.took_us).map(duration);
        let attempts = (turn.requests.len() > 1).then(|| format!("{} attempts", turn.requests.len()));
        let failed = last.and_then(|it| it.status).filter(|status| *status >= 400);
        let facts: Vec<String> =
            [took, Some(tokens(&turn.usage)), attempts, failed.map(|it| format!("status {it}"))]
                .into_iter()
                .flatten()
                .collect();
        let calls: Vec<String> = turn.calls.iter().map(|call| line(&call.name)).collect();
        let said = match (calls.is_empty(), &turn.text) {
            (false, _) => format!("→ {}", calls.join(", ")),
            (true, Some(text)) => line(&crate::text::fit(&text.chars().take(400).collect::<String>(), 90)),
            (true, None) => String::new(),
        };
        format!("{} {said} <span class=\"faint\">{}</span>", turn.turn, facts.join(", "))
    }

    /// A place for the bodies of an exchange, filled when it is opened.
    fn raw(&self, id: &str) -> String {
        let (Some(number), Some(it)) = (self.numbers.get(id), self.summary(id)) else { return String::new() };
        let status = it.status.map_or("no response".to_owned(), |status| status.to_string());
        format!(
            "<details data-n=\"{number}\"><summary><code>{}</code> <span class=\"faint\">{} {}, {status}</span></summary></details>",
            line(id),
            line(&it.method),
            line(&it.url)
        )
    }

    fn summary(&self, id: &str) -> Option<&Summary> {
        self.exchanges.get(*self.numbers.get(id)?)
    }
}

fn call(call: &SessionCall) -> String {
    let input = match &call.input {
        Value::String(text) => text.clone(),
        other => serde_json::to_string_pretty(other).unwrap_or_default(),
    };
    format!(
        "<p class=\"label\">call <code>{}</code> of {}</p><pre>{}</pre>",
        line(call.id.as_str()),
        line(&call.name),
        excerpt(&input, MOST)
    )
}

fn role(role: session::Role) -> String {
    let name = serde_json::to_value(role).ok();
    name.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the page's script puts it together.
    fn put_together(before: &str, told: &Value) -> String {
        let units: Vec<u16> = before.encode_utf16().collect();
        let count = |name: &str| told[name].as_u64().expect("a count") as usize;
        let middle: Vec<u16> = told["text"].as_str().expect("a text").encode_utf16().collect();
        let head = &units[..count("head")];
        let tail = &units[units.len() - count("tail")..];
        String::from_utf16(&[head, &middle, tail].concat()).expect("no character is cut in two")
    }

    #[test]
    fn a_request_is_told_by_the_one_before_it() {
        let texts = [
            "",
            "a",
            "aa",
            "aaa",
            "abcabc",
            "abc",
            "{\"m\":[1]}",
            "{\"m\":[1,2]}",
            "é",
            "è",
            "x\u{1f600}y",
            "x\u{1f601}y",
        ];
        for before in texts {
            for text in texts {
                let told = repeated(&Told { number: 3, text: before.to_owned(), chain: 0 }, text);
                assert_eq!(put_together(before, &told), text, "{before:?} then {text:?}: {told}");
            }
        }
        let told = repeated(&Told { number: 3, text: "{\"m\":[1]}".into(), chain: 0 }, "{\"m\":[1,2]}");
        assert_eq!(told, json!({"base": 3, "head": 7, "tail": 2, "text": ",2"}));
    }
}
