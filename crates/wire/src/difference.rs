//! The first difference between two bodies.
//!
//! Two JSON texts are compared by value, in document order, and the result is a JSON pointer. If only their
//! spelling differs (space, escapes, key order, `1e3` for `1000`), the result says so. Other bodies are compared
//! byte by byte. There is no recursion, however deep the bodies are.

use std::collections::HashMap;
use std::fmt;

use crate::json::{Document, Value, ValueKind};

/// The first difference between two bodies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// Both bodies are JSON and differ in a value.
    Value {
        /// The JSON pointer of the value.
        pointer: String,
        /// The text of the value on the left. `None` if it is missing.
        left: Option<String>,
        /// The text of the value on the right. `None` if it is missing.
        right: Option<String>,
    },
    /// Both bodies are JSON with equal values in different spelling.
    Spelling {
        /// The pointer of the value in the left body that contains the first different byte.
        pointer: String,
        /// The offset of the first different byte.
        offset: usize,
    },
    /// At least one of the bodies is not JSON.
    Bytes {
        /// The offset of the first different byte.
        offset: usize,
        /// The text around it on the left.
        left: String,
        /// The text around it on the right.
        right: String,
    },
}

/// Returns the first difference between two bodies, or `None` if all bytes are equal.
pub fn first_difference(left: &[u8], right: &[u8]) -> Option<Difference> {
    if left == right {
        return None;
    }
    let offset = left.iter().zip(right).take_while(|(l, r)| l == r).count();
    let (Ok(left_json), Ok(right_json)) = (Document::parse(left), Document::parse(right)) else {
        return Some(Difference::Bytes { offset, left: around(left, offset), right: around(right, offset) });
    };
    let by_value = value_difference(left_json.root(), right_json.root());
    Some(by_value.unwrap_or_else(|| Difference::Spelling { pointer: left_json.pointer_at(offset), offset }))
}

/// Returns the first difference between two values. Pointers are relative to these values.
pub fn value_difference(left: Value<'_, '_>, right: Value<'_, '_>) -> Option<Difference> {
    let mut open = vec![(String::new(), Some(left), Some(right))];
    while let Some((pointer, left, right)) = open.pop() {
        let (Some(l), Some(r)) = (left, right) else {
            return Some(difference_at(pointer, left, right));
        };
        if l.raw() == r.raw() {
            continue;
        }
        let mut children = match (l.kind(), r.kind()) {
            (ValueKind::Object, ValueKind::Object) => paired_members(&pointer, l, r),
            (ValueKind::Array, ValueKind::Array) => paired_items(&pointer, l, r),
            _ if scalars_are_equal(l, r) => continue,
            _ => return Some(difference_at(pointer, left, right)),
        };
        children.reverse(); // the first child must be popped first
        open.append(&mut children);
    }
    None
}

type Pair<'a, 'd, 'b, 'e> = (String, Option<Value<'a, 'd>>, Option<Value<'b, 'e>>);

fn paired_items<'a, 'd, 'b, 'e>(
    pointer: &str,
    left: Value<'a, 'd>,
    right: Value<'b, 'e>,
) -> Vec<Pair<'a, 'd, 'b, 'e>> {
    let (mut lefts, mut rights) = (left.items(), right.items());
    let mut pairs = Vec::new();
    for index in 0.. {
        match (lefts.next(), rights.next()) {
            (None, None) => break,
            (Some(l), Some(r)) if l.raw() == r.raw() => {}
            (l, r) => pairs.push((format!("{pointer}/{index}"), l, r)),
        }
    }
    pairs
}

/// Pairs members by name, in the order of the left object. A member of the right object alone is placed before the
/// member that follows it there.
fn paired_members<'a, 'd, 'b, 'e>(
    pointer: &str,
    left: Value<'a, 'd>,
    right: Value<'b, 'e>,
) -> Vec<Pair<'a, 'd, 'b, 'e>> {
    let at = |name: &str| format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
    // Of duplicate names the last value counts, as in every common parser.
    let in_left: HashMap<_, _> = left.members().map(|m| (m.name(), m.value)).collect();
    let in_right: HashMap<_, _> = right.members().map(|m| (m.name(), m.value)).collect();
    let mut added = right.members().map(|member| member.name()).peekable();
    let mut pairs = Vec::new();
    for member in left.members() {
        let name = member.name();
        let there = in_right.get(&name).copied();
        if there.is_some() {
            while let Some(other) = added.next_if(|other| *other != name) {
                if !in_left.contains_key(&other) {
                    pairs.push((at(&other), None, in_right.get(&other).copied()));
                }
            }
            added.next();
        }
        pairs.push((at(&name), in_left.get(&name).copied(), there));
    }
    let rest = added.filter(|name| !in_left.contains_key(name));
    pairs.extend(rest.map(|name| (at(&name), None, in_right.get(&name).copied())));
    pairs
}

/// Returns true if two scalars have the same value, however they are spelled.
fn scalars_are_equal(left: Value<'_, '_>, right: Value<'_, '_>) -> bool {
    match (left.kind(), right.kind()) {
        (ValueKind::String, ValueKind::String) => left.as_str() == right.as_str(),
        (ValueKind::Number, ValueKind::Number) => {
            match (left.raw().parse::<i128>(), right.raw().parse::<i128>()) {
                // Integers are compared exactly, because two long ids could be equal as floats.
                (Ok(left), Ok(right)) => left == right,
                _ => left.as_f64() == right.as_f64(),
            }
        }
        _ => false, // other scalars have one spelling, and the texts differ
    }
}

fn difference_at(pointer: String, left: Option<Value<'_, '_>>, right: Option<Value<'_, '_>>) -> Difference {
    let raw = |value: Option<Value<'_, '_>>| value.map(|value| value.raw().to_owned());
    Difference::Value { pointer, left: raw(left), right: raw(right) }
}

/// Returns a few bytes on both sides of `offset`.
fn around(bytes: &[u8], offset: usize) -> String {
    let from = offset.saturating_sub(CONTEXT / 2).min(bytes.len());
    let to = (offset + CONTEXT / 2).min(bytes.len());
    String::from_utf8_lossy(&bytes[from..to]).into_owned()
}

/// The shown length of a long value.
const CONTEXT: usize = 80;

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value { pointer, left, right } => {
                let (l, r) = (left.as_deref().unwrap_or(""), right.as_deref().unwrap_or(""));
                let same = l.bytes().zip(r.bytes()).take_while(|(l, r)| l == r).count();
                let show = |value: &Option<String>| match value {
                    Some(value) => format!("`{}`", window(value, same)),
                    None => "nothing".to_owned(),
                };
                write!(f, "at `{pointer}`: {} on the left, {} on the right", show(left), show(right))
            }
            Self::Spelling { pointer, offset } => {
                write!(f, "at `{pointer}` (byte {offset}): the same value, spelled differently")
            }
            Self::Bytes { offset, left, right } => {
                write!(f, "at byte {offset}: `{left}` on the left, `{right}` on the right")
            }
        }
    }
}

/// Returns the part of a long text around an offset.
fn window(text: &str, at: usize) -> String {
    if text.len() <= CONTEXT {
        return text.to_owned();
    }
    let from = text.floor_char_boundary(at.saturating_sub(CONTEXT / 4));
    let to = text.floor_char_boundary((from + CONTEXT).min(text.len()));
    let dots = |cut: bool| if cut { "…" } else { "" };
    format!("{}{}{}", dots(from > 0), &text[from..to], dots(to < text.len()))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    use super::*;

    fn check(left: &str, right: &str, expected: Expect) {
        let told = match first_difference(left.as_bytes(), right.as_bytes()) {
            Some(difference) => format!("{difference}\n"),
            None => "none\n".to_owned(),
        };
        expected.assert_eq(&told);
    }

    #[test]
    fn the_first_value_in_document_order() {
        check(
            r#"{"a":1,"b":[1,{"c":2}],"d":3}"#,
            r#"{"a":1,"b":[1,{"c":9}],"d":4}"#,
            expect![[r#"
            at `/b/1/c`: `2` on the left, `9` on the right
        "#]],
        );
        check(
            r#"{"a":{"x":1},"b":2}"#,
            r#"{"b":3,"a":{"x":1}}"#,
            expect![[r#"
            at `/b`: `2` on the left, `3` on the right
        "#]],
        );
        check(
            r#"{"tools":[1,2]}"#,
            r#"{"tools":[1,2,3]}"#,
            expect![[r#"
            at `/tools/2`: nothing on the left, `3` on the right
        "#]],
        );
        check(
            r#"{"a":1,"b":2}"#,
            r#"{"a":1}"#,
            expect![[r#"
            at `/b`: `2` on the left, nothing on the right
        "#]],
        );
        check(
            r#"{"a":1,"c":2}"#,
            r#"{"a":1,"b":0,"c":3}"#,
            expect![[r#"
            at `/b`: nothing on the left, `0` on the right
        "#]],
        );
        check(
            r#"{"a/b":{"~":"x"}}"#,
            r#"{"a/b":{"~":["x"]}}"#,
            expect![[r#"
            at `/a~1b/~0`: `"x"` on the left, `["x"]` on the right
        "#]],
        );
        check(
            r#"{"k":1,"k":2}"#,
            r#"{"k":1,"k":3}"#,
            expect![[r#"
            at `/k`: `2` on the left, `3` on the right
        "#]],
        );
    }

    #[test]
    fn spelling_is_not_value() {
        check(
            r#"{"a":1000,"b":"é/"}"#,
            r#"{ "b":"\u00e9\/", "a":1e3}"#,
            expect![[r#"
            at `/a` (byte 1): the same value, spelled differently
        "#]],
        );
        check(
            "[10000000000000000001]",
            "[10000000000000000002]",
            expect![[r#"
            at `/0`: `10000000000000000001` on the left, `10000000000000000002` on the right
        "#]],
        );
        check(
            "[1]",
            "[1]",
            expect![[r#"
            none
        "#]],
        );
        check(
            r#"{"k":1,"k":2}"#,
            r#"{"k":2}"#,
            expect![[r#"
            at `/k` (byte 5): the same value, spelled differently
        "#]],
        );
    }

    #[test]
    fn other_bodies_are_compared_by_bytes() {
        check(
            "event: a\n",
            "event: b\n",
            expect![[r#"
            at byte 7: `event: a
            ` on the left, `event: b
            ` on the right
        "#]],
        );
        check(
            "[1",
            "[1]",
            expect![[r#"
            at byte 2: `[1` on the left, `[1]` on the right
        "#]],
        );
    }

    #[test]
    fn long_values_are_shown_where_they_differ() {
        let long = "lorem ipsum ".repeat(30);
        check(
            &format!("[\"{long}one\"]"),
            &format!("[\"{long}two\"]"),
            expect![[r#"
            at `/0`: `…m ipsum lorem ipsum one"` on the left, `…m ipsum lorem ipsum two"` on the right
        "#]],
        );
    }

    #[test]
    fn depth_costs_no_stack() {
        let depth = crate::json::MAX_DEPTH;
        let deep = |inner: &str| format!("{}{inner}{}", "[".repeat(depth), "]".repeat(depth));
        let difference = first_difference(deep("1").as_bytes(), deep("2").as_bytes()).expect("they differ");
        assert!(matches!(difference, Difference::Value { pointer, .. } if pointer == "/0".repeat(depth)));
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            (0..3i64).prop_map(Into::into),
            "[ab]{0,2}".prop_map(Into::into)
        ];
        leaf.prop_recursive(3, 16, 3, |inner| {
            let object = prop::collection::btree_map("[ab/~]{1}", inner.clone(), 0..3);
            let object = object.prop_map(|map| serde_json::Value::Object(map.into_iter().collect()));
            prop_oneof![prop::collection::vec(inner, 0..3).prop_map(Into::into), object]
        })
    }

    proptest! {
        #[test]
        fn differences_agree_with_another_parser(left in json(), right in json()) {
            let (l, r) = (serde_json::to_string_pretty(&left).expect("JSON"), right.to_string());
            match first_difference(l.as_bytes(), r.as_bytes()) {
                Some(Difference::Value { pointer, left: l, right: r }) => {
                    let same = |value: Option<&serde_json::Value>, raw: &Option<String>| {
                        value == raw.as_ref().map(|raw| serde_json::from_str(raw).expect("JSON")).as_ref()
                    };
                    prop_assert!(l != r);
                    prop_assert!(same(left.pointer(&pointer), &l) && same(right.pointer(&pointer), &r), "{}", pointer);
                }
                Some(Difference::Bytes { .. }) => prop_assert!(false, "both are JSON"),
                Some(Difference::Spelling { .. }) | None => prop_assert_eq!(left, right),
            }
        }
    }
}
