//! Encodes a request as the difference to the one before it, which it mostly repeats.

use std::collections::HashMap;

use recording::source::{Content, SourceRequest};
use serde_json::{Value, json};

use super::block::body;

/// Maximum length of a request that is encoded, or used as a base.
const MAX_REPEATED: usize = 4 << 20;
/// Maximum length of a chain of encoded requests.
const MAX_CHAIN: usize = 49;

/// The last request of each lane.
#[derive(Default)]
pub(super) struct Chains {
    last: HashMap<String, LastRequest>,
    /// Chain length of each golden request.
    links: HashMap<String, usize>,
}

struct LastRequest {
    block: String,
    text: String,
    links: usize,
}

impl Chains {
    /// Encodes a request's body relative to the request before in its lane, if there is one.
    pub(super) fn next(&mut self, lane: Option<&str>, block: &str, content: &Content) -> Value {
        let whole = body(content);
        let (Some(lane), Some(text)) = (lane, whole["text"].as_str()) else { return whole };
        if text.len() > MAX_REPEATED {
            self.last.remove(lane);
            return whole;
        }
        let before = self.last.get(lane).filter(|before| before.links < MAX_CHAIN);
        let told = before.map(|before| repeated(&before.block, &before.text, text));
        let links = before.map_or(0, |before| before.links + 1);
        self.links.insert(block.to_owned(), links);
        let now = LastRequest { block: block.to_owned(), text: text.to_owned(), links };
        self.last.insert(lane.to_owned(), now);
        told.unwrap_or(whole)
    }

    /// Encodes a request's body relative to the golden's.
    pub(super) fn golden_difference(
        &mut self,
        block: &str,
        golden: &SourceRequest,
        content: &Content,
    ) -> Value {
        let whole = body(content);
        let known = self.links.contains_key(block);
        let before = golden.body.bytes.as_deref().and_then(|bytes| std::str::from_utf8(bytes).ok());
        match (whole["text"].as_str(), before) {
            (Some(text), Some(before)) if known && text.len() <= MAX_REPEATED => {
                repeated(block, before, text)
            }
            _ => whole,
        }
    }
}

/// Encodes a text by its common start and end with another. Lengths are in UTF-16 units, as scripts count
/// them.
fn repeated(block: &str, before: &str, text: &str) -> Value {
    let head = common(before.bytes().zip(text.bytes()));
    let head = (0..=head).rev().find(|at| text.is_char_boundary(*at) && before.is_char_boundary(*at));
    let head = head.unwrap_or_default();
    let (old, new) = (&before[head..], &text[head..]);
    let tail = common(old.bytes().rev().zip(new.bytes().rev()));
    let ends = |tail: usize| new.is_char_boundary(new.len() - tail) && old.is_char_boundary(old.len() - tail);
    let tail = (0..=tail).rev().find(|tail| ends(*tail)).unwrap_or_default();
    let units = |text: &str| text.encode_utf16().count();
    json!({
        "base": block,
        "head": units(&text[..head]),
        "tail": units(&new[new.len() - tail..]),
        "text": &new[..new.len() - tail],
    })
}

fn common(pairs: impl Iterator<Item = (u8, u8)>) -> usize {
    pairs.take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes like the page's script.
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
                let told = repeated("x3", before, text);
                assert_eq!(put_together(before, &told), text, "{before:?} then {text:?}: {told}");
            }
        }
        let told = repeated("x3", "{\"m\":[1]}", "{\"m\":[1,2]}");
        assert_eq!(told, json!({"base": "x3", "head": 7, "tail": 2, "text": ",2"}));
    }
}
