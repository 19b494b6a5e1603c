//! Texts with placeholders such as `${name}`.

use serde::de::{Deserialize, Deserializer, Error as _};

/// A text with placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template(Vec<TemplatePart>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum TemplatePart {
    Plain(String),
    Name(String),
}

impl Template {
    /// Parses a text. `$${` is an escaped `${`.
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
                    "`${{{name}}}` is not a name of letters, digits, `_` and `-`; write `$${{` for a plain `${{`"
                ));
            }
            if !plain.is_empty() {
                pieces.push(TemplatePart::Plain(std::mem::take(&mut plain)));
            }
            pieces.push(TemplatePart::Name(name.to_owned()));
            rest = &after[end + 1..];
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            pieces.push(TemplatePart::Plain(plain));
        }
        Ok(Self(pieces))
    }

    /// Returns the names of the placeholders.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|piece| match piece {
            TemplatePart::Name(name) => Some(name.as_str()),
            TemplatePart::Plain(_) => None,
        })
    }

    /// Returns whether the text may result from this template with some values.
    pub(super) fn fits(&self, text: &str) -> bool {
        let mut rest = text;
        let mut open = false;
        for piece in &self.0 {
            let TemplatePart::Plain(plain) = piece else {
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

    /// Replaces the placeholders by their values.
    pub(super) fn fill<E>(&self, mut value: impl FnMut(&str) -> Result<String, E>) -> Result<String, E> {
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                TemplatePart::Plain(plain) => text.push_str(plain),
                TemplatePart::Name(name) => text.push_str(&value(name)?),
            }
        }
        Ok(text)
    }
}

/// Returns whether a value may have this name.
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
            [("${a", "without its `}`"), ("${a b}", "`${a b}` is not a name"), ("${}", "not a name")]
        {
            let error = filled(text).expect_err(text);
            assert!(error.contains(part), "{error}");
        }
    }
}
