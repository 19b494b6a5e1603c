//! Text with `${name}` in it.

use serde::de::{Deserialize, Deserializer, Error as _};

/// A text and the names whose values it wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Plain(String),
    Name(String),
}

impl Template {
    /// Reads `${name}`; `$${` stands for a plain `${`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find("${") {
            let (before, after) = (&rest[..at], &rest[at + 2..]);
            if let Some(before) = before.strip_suffix('$') {
                plain.push_str(before);
                plain.push_str("${");
                rest = after;
                continue;
            }
            plain.push_str(before);
            let end = after.find('}').ok_or("`${` without its `}`; write `$${` for a plain `${`")?;
            let name = &after[..end];
            if !is_name(name) {
                return Err(format!(
                    "`${{{name}}}` is no name of letters, digits, `_` and `-`; write `$${{` for a plain `${{`"
                ));
            }
            if !plain.is_empty() {
                pieces.push(Piece::Plain(std::mem::take(&mut plain)));
            }
            pieces.push(Piece::Name(name.to_owned()));
            rest = &after[end + 1..];
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            pieces.push(Piece::Plain(plain));
        }
        Ok(Self(pieces))
    }

    /// The names it wants.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Name(name) => Some(name.as_str()),
            Piece::Plain(_) => None,
        })
    }

    /// Whether the text may be this one with something in the place of every name.
    pub(super) fn fits(&self, text: &str) -> bool {
        let mut rest = text;
        let mut open = false;
        for piece in &self.0 {
            let Piece::Plain(plain) = piece else {
                open = true;
                continue;
            };
            let at =
                if open { rest.find(plain.as_str()) } else { rest.starts_with(plain.as_str()).then_some(0) };
            let Some(at) = at else { return false };
            rest = &rest[at + plain.len()..];
            open = false;
        }
        open || rest.is_empty()
    }

    /// The text with every name's value in its place.
    pub(super) fn fill<E>(&self, mut value: impl FnMut(&str) -> Result<String, E>) -> Result<String, E> {
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Plain(plain) => text.push_str(plain),
                Piece::Name(name) => text.push_str(&value(name)?),
            }
        }
        Ok(text)
    }
}

/// Whether a value may be called so.
pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(from)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str) -> Result<String, String> {
        Template::parse(text)?.fill(|name| Ok(format!("<{name}>")))
    }

    #[test]
    fn names_are_filled_in_and_doubled_signs_are_plain() {
        for (text, expected) in [
            ("", ""),
            ("plain $5 {x}", "plain $5 {x}"),
            ("${a}", "<a>"),
            ("id ${agent_a}, ${b-2}.", "id <agent_a>, <b-2>."),
            ("echo $${HOME} ${a}", "echo ${HOME} <a>"),
            ("ends with $", "ends with $"),
        ] {
            assert_eq!(filled(text).as_deref(), Ok(expected), "{text}");
        }
        for (text, part) in
            [("${a", "without its `}`"), ("${a b}", "`${a b}` is no name"), ("${}", "no name")]
        {
            let error = filled(text).expect_err(text);
            assert!(error.contains(part), "{error}");
        }
    }
}
