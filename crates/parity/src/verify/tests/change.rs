//! One change to a recording, written in a line.

use serde_json::Value;
use wire::Header;

use super::story::{Story, Told};

/// Makes the change: `set PLACE JSON`, `word PLACE OLD NEW`, `drop PLACE`, `add PLACE JSON`, `swap PLACE PLACE`,
/// `move PLACE PLACE` (an item before another), `header NAME VALUE`, `drop-header NAME`, `method M`, `path P`.
pub(super) fn change(story: &mut Story, request: &str, line: &str) {
    let told = story.told(request);
    let words: Vec<&str> = line.splitn(3, ' ').collect();
    match words[..] {
        ["set", place, json] => *at(told, place) = value(json),
        ["word", place, rest] => {
            let (old, new) = rest.split_once(' ').expect("two words");
            let text = at(told, place).as_str().expect("a text").to_owned();
            assert!(text.contains(old), "`{old}` is not in `{text}`");
            *at(told, place) = text.replacen(old, new, 1).into();
        }
        ["drop", place] => drop_at(told, place),
        ["add", place, json] => {
            let (parent, name) = place.rsplit_once('/').expect("a place inside another");
            match at(told, parent) {
                Value::Array(items) => items.insert(name.parse().expect("a number"), value(json)),
                object => object[name] = value(json),
            }
        }
        ["swap", one, other] => {
            let (mine, theirs) = (at(told, one).clone(), at(told, other).clone());
            *at(told, one) = theirs;
            *at(told, other) = mine;
        }
        ["move", from, to] => {
            let moved = at(told, from).clone();
            drop_at(told, from);
            let (parent, name) = to.rsplit_once('/').expect("a place inside another");
            at(told, parent).as_array_mut().expect("a list").insert(name.parse().expect("a number"), moved);
        }
        ["header", name, text] => {
            told.headers.retain(|header| !header.name().eq_ignore_ascii_case(name));
            told.headers.push(Header::Plain { name: name.to_owned(), value: text.to_owned() });
        }
        ["drop-header", name] => told.headers.retain(|header| !header.name().eq_ignore_ascii_case(name)),
        ["method", method] => told.method = method.to_owned(),
        ["path", path] => told.path = path.to_owned(),
        _ => panic!("no such change: {line}"),
    }
}

fn value(json: &str) -> Value {
    serde_json::from_str(json).expect("JSON")
}

fn at<'t>(told: &'t mut Told, place: &str) -> &'t mut Value {
    told.body.pointer_mut(place).unwrap_or_else(|| panic!("nothing is at `{place}`"))
}

fn drop_at(told: &mut Told, place: &str) {
    let (parent, name) = place.rsplit_once('/').expect("a place inside another");
    match at(told, parent) {
        Value::Array(items) => drop(items.remove(name.parse().expect("a number"))),
        Value::Object(members) => drop(members.shift_remove(name).expect("a member")),
        _ => panic!("nothing can be dropped from `{parent}`"),
    }
}
