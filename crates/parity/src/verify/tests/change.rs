//! One change to a recording, written in a line.

use serde_json::Value;
use wire::Header;

use super::story::{Story, StoryExchange};

/// Makes the change: `set PLACE JSON`, `word PLACE OLD NEW`, `drop PLACE`, `add PLACE JSON`, `swap PLACE PLACE`,
/// `move PLACE PLACE` (an item before another), `header NAME VALUE`, `drop-header NAME`, `method M`, `path P`.
pub(super) fn change(story: &mut Story, request: &str, line: &str) {
    let exchange = story.exchange_mut(request);
    let words: Vec<&str> = line.splitn(3, ' ').collect();
    match words[..] {
        ["set", place, json] => *at(exchange, place) = value(json),
        ["word", place, rest] => {
            let (old, new) = rest.split_once(' ').expect("two words");
            let text = at(exchange, place).as_str().expect("a text").to_owned();
            assert!(text.contains(old), "`{old}` is not in `{text}`");
            *at(exchange, place) = text.replacen(old, new, 1).into();
        }
        ["drop", place] => drop_at(exchange, place),
        ["add", place, json] => {
            let (parent, name) = place.rsplit_once('/').expect("a place inside another");
            match at(exchange, parent) {
                Value::Array(items) => items.insert(name.parse().expect("a number"), value(json)),
                object => object[name] = value(json),
            }
        }
        ["swap", one, other] => {
            let (mine, theirs) = (at(exchange, one).clone(), at(exchange, other).clone());
            *at(exchange, one) = theirs;
            *at(exchange, other) = mine;
        }
        ["move", from, to] => {
            let moved = at(exchange, from).clone();
            drop_at(exchange, from);
            let (parent, name) = to.rsplit_once('/').expect("a place inside another");
            at(exchange, parent)
                .as_array_mut()
                .expect("a list")
                .insert(name.parse().expect("a number"), moved);
        }
        ["header", name, text] => {
            exchange.headers.retain(|header| !header.name().eq_ignore_ascii_case(name));
            exchange.headers.push(Header::Plain { name: name.to_owned(), value: text.to_owned() });
        }
        ["drop-header", name] => exchange.headers.retain(|header| !header.name().eq_ignore_ascii_case(name)),
        ["method", method] => exchange.method = method.to_owned(),
        ["path", path] => exchange.path = path.to_owned(),
        _ => panic!("no such change: {line}"),
    }
}

fn value(json: &str) -> Value {
    serde_json::from_str(json).expect("JSON")
}

fn at<'t>(exchange: &'t mut StoryExchange, place: &str) -> &'t mut Value {
    exchange.body.pointer_mut(place).unwrap_or_else(|| panic!("nothing is at `{place}`"))
}

fn drop_at(exchange: &mut StoryExchange, place: &str) {
    let (parent, name) = place.rsplit_once('/').expect("a place inside another");
    match at(exchange, parent) {
        Value::Array(items) => drop(items.remove(name.parse().expect("a number"))),
        Value::Object(members) => drop(members.shift_remove(name).expect("a member")),
        _ => panic!("nothing can be dropped from `{parent}`"),
    }
}
