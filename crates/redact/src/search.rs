//! The search itself: one pass for names and shapes, one for learned values.
//!
//! [`Search::by_rule`] runs first and learns; [`Search::by_value`] runs behind it and so knows what
//! was learned from the very text it searches.

use std::ops::Range;

use super::hit::{Hit, Rank};
use super::names::{self, Family};
use super::placeholder::{self, FingerprintKey};
use super::plain::{Plain, percent_runs};
use super::shapes::{self, Shaped};
use super::triggers::{Row, TRIGGERS};
use super::values::Values;
use super::{assign, looks};
use wire::opaque::is_in_opaque_field;

/// No name is looked for in a longer value, which goes anyway: each might reach as far again.
const LONG_VALUE: usize = 4 << 10;
/// A cookie of so many letters is no word.
const LONG_COOKIE: usize = 16;
/// As far as a member's siblings are looked for.
const NEAR: usize = 1 << 10;

/// What is known of a text before it is searched.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Terms {
    /// It is a form: it begins with a parameter's name.
    pub(super) form: bool,
    /// Only the provider can read it (a thinking signature), so patterns mean nothing in it.
    pub(super) is_opaque: bool,
}

/// What the search by rules found.
#[derive(Default)]
pub(super) struct Ruled {
    pub(super) hits: Vec<Hit>,
    pub(super) notes: Notes,
}

/// What the first search saw on its way, so that nobody goes over the text for it again.
#[derive(Default)]
pub(super) struct Notes {
    /// The stretches that are URL-encoded.
    percent: Vec<Range<usize>>,
    /// Something in it may be an entity of HTML.
    entities: bool,
    /// A string in it may be a stream.
    pub(super) streams: bool,
    /// It may list a text word by word.
    pub(super) words: bool,
}

/// Finds secrets, and remembers the values it meets.
pub(super) struct Search {
    pub(super) key: FingerprintKey,
    pub(super) values: Values,
    pub(super) generation: u64,
}

impl Search {
    pub(super) fn new(key: FingerprintKey) -> Self {
        Self { key, values: Values::new(), generation: 0 }
    }

    /// Takes a value in that was seen under a secret name.
    pub(super) fn learn(&mut self, source: &str, value: &[u8]) {
        self.generation += u64::from(self.values.learn(source, value));
    }

    /// Takes in what a credential of that family is made of: the cookies of a cookie header, the
    /// password of Basic credentials, the token behind its scheme.
    pub(super) fn learn_parts(&mut self, source: &str, family: Family, value: &[u8]) {
        let value = value.trim_ascii();
        if family == Family::Cookie {
            for cookie in value.split(|&byte| byte == b';') {
                let (name, value) = split_at(cookie, b'=').unwrap_or((b"", cookie));
                let value = value.trim_ascii().trim_matches(b'"');
                if is_telling(value) && !is_cookie_attribute(name.trim_ascii()) {
                    self.learn(source, value);
                }
            }
            return;
        }
        let known = assign::scheme(value);
        if family == Family::Authorization && self.learn_credentials(source, value) && known.is_none() {
            return;
        }
        let token = &value[known.unwrap_or(0)..];
        self.learn(source, token);
        if let Some(decoded) = shapes::decode_basic(token) {
            self.learn_login(source, &decoded);
        }
    }

    /// Takes in the credentials behind their schemes, and what their parameters are; whether there was one.
    fn learn_credentials(&mut self, source: &str, value: &[u8]) -> bool {
        let mut any = false;
        for part in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
            let credential = assign::unquoted(&part[assign::any_scheme(part).unwrap_or(0)..]);
            let secret = match assign::parameter(credential) {
                Some((name, value)) => Some(value).filter(|_| !is_about_credential(name)),
                None => Some(credential).filter(|_| credential.len() < part.len()),
            };
            let telling = |secret: &&[u8]| is_telling(secret) && !secret.contains(&b' ');
            if let Some(secret) = secret.filter(telling) {
                self.learn(source, secret);
                any = true;
            }
        }
        any
    }

    /// Takes `user:password` in, and the password by itself.
    fn learn_login(&mut self, source: &str, login: &[u8]) {
        self.learn(source, login);
        if let Some((_, password)) = split_at(login, b':') {
            self.learn(source, password);
        }
    }

    /// Secrets by rule and by value, in offsets of the original.
    pub(super) fn everything(&mut self, place: &str, text: &Plain<'_>) -> Vec<Hit> {
        let Ruled { mut hits, notes } = self.by_rule(place, text, Terms::default());
        hits.extend(self.by_value(text, &notes));
        hits
    }

    /// Secrets by their names and by their shapes, in offsets of the original; learns their values.
    pub(super) fn by_rule(&mut self, place: &str, text: &Plain<'_>, terms: Terms) -> Ruled {
        let mut ruled = self.rules(place, text, terms);
        ruled.notes.percent = percent_runs(text.bytes());
        for run in &ruled.notes.percent {
            let layer = Layer::new(text, run.clone());
            let terms = Terms { form: terms.form && run.start == 0, ..terms };
            let found = self.rules(place, &Plain::of_escaped(layer.inner.bytes()), terms);
            ruled.hits.extend(found.hits.into_iter().map(|hit| layer.outwards(hit)));
        }
        ruled
    }

    /// Learned values, in offsets of the original.
    pub(super) fn by_value(&self, text: &Plain<'_>, notes: &Notes) -> Vec<Hit> {
        let mut hits = self.known(text);
        if notes.entities {
            hits.extend(self.in_entities(text));
        }
        for run in &notes.percent {
            let layer = Layer::new(text, run.clone());
            let inside = Plain::of_escaped(layer.inner.bytes());
            let found = self.known(&inside).into_iter().chain(self.in_entities(&inside));
            hits.extend(found.map(|hit| layer.outwards(hit)));
        }
        hits
    }

    /// Learned values that hold an entity of HTML; those without one are found as they stand.
    fn in_entities(&self, text: &Plain<'_>) -> Vec<Hit> {
        let Some(inner) = Plain::of_entities(text.bytes()) else { return Vec::new() };
        let found = self.values.find(inner.bytes()).into_iter().filter_map(|found| {
            let range = inner.original(&found.range);
            let apart = range.len() != found.range.len() && !touches_placeholder(text.bytes(), &range);
            apart.then(|| Hit { rank: Rank::Decoded, ..self.value(text.original(&range), found.secret) })
        });
        found.collect()
    }

    fn rules(&mut self, place: &str, text: &Plain<'_>, terms: Terms) -> Ruled {
        let bytes = text.bytes();
        let mut ruled = Ruled::default();
        let Ruled { hits, notes } = &mut ruled;
        let mut named_until = 0;
        let ends = assign::Ends::default();
        TRIGGERS.each(bytes, |row, start, end| match row {
            Row::Shape(trigger) => {
                for shaped in trigger.look(bytes, start) {
                    let exempt = terms.is_opaque || is_in_opaque_field(bytes, shaped.range.start);
                    hits.extend((!exempt).then(|| self.shaped(place, text, shaped)));
                }
            }
            Row::Name if start >= named_until && assign_may_follow(bytes, start, end) => {
                let name = whole_name(bytes, start..end);
                named_until = self.named(place, text, &name, (terms.form, &ends), hits);
            }
            Row::Name => {}
            Row::Entity => notes.entities = true,
            Row::Stream => notes.streams = true,
            Row::Word => notes.words = true,
        });
        ruled
    }

    fn shaped(&mut self, place: &str, text: &Plain<'_>, shaped: Shaped) -> Hit {
        let Shaped { rule, range, secret } = shaped;
        let seen = &text.bytes()[range.clone()];
        let source = format!("{rule} in {place}");
        match &secret {
            Some(login) => self.learn_login(&source, login),
            None => self.learn(&source, seen),
        }
        let with = self.key.placeholder(secret.as_deref().unwrap_or(seen));
        Hit { range: text.original(&range), with, rule, secret: None, rank: Rank::Seen }
    }

    /// Takes what stands under a name; where the next name may begin.
    fn named(
        &mut self,
        place: &str,
        text: &Plain<'_>,
        name: &Range<usize>,
        (form, ends): (bool, &assign::Ends),
        hits: &mut Vec<Hit>,
    ) -> usize {
        let bytes = text.bytes();
        let mut next = name.end;
        let Some(family) = names::family(&bytes[name.clone()]) else { return next };
        let bare_token = bytes[name.clone()].eq_ignore_ascii_case(b"token");
        for assigned in assign::values(text, name, family, form, ends) {
            let value = &bytes[assigned.range.clone()];
            if bare_token && is_log_probability(bytes, name, &assigned.range) {
                continue;
            }
            if assigned.range.len() > LONG_VALUE {
                next = next.max(assigned.range.end);
            }
            // A word that some call a token would vanish from every sentence, and a name from all code.
            let is_name = bare_token && (looks::plain_word(value) || looks::plain_name(value));
            if assigned.whole && !is_name {
                let source = format!("{} in {place}", family.rule());
                self.learn_parts(&source, family, value);
            }
            let basic = bytes[..assigned.range.start].to_ascii_lowercase_ends_with(b"basic ");
            let decoded = basic.then(|| shapes::decode_basic(value)).flatten();
            let mut with = self.key.placeholder(decoded.as_deref().unwrap_or(value));
            if let Some(quote) = &assigned.quote {
                // The quote's own bytes: escaped as deep as the number's key is.
                let quote = text.written(quote.start);
                with = [quote, with.as_slice(), quote].concat();
            }
            let range = text.original(&assigned.range);
            hits.push(Hit { range, with, rule: family.rule(), secret: None, rank: Rank::Seen });
        }
        next
    }

    fn known(&self, text: &Plain<'_>) -> Vec<Hit> {
        let bytes = text.bytes();
        let mut found = self.values.find(bytes);
        found.extend(self.values.find_wrapped(text));
        let outside = found.into_iter().filter(|found| !touches_placeholder(bytes, &found.range));
        outside
            .map(|found| {
                let mut hit = self.value(text.original(&found.range), found.secret);
                if found.number
                    && let Some(quote) = member_quote(bytes, found.range.start)
                {
                    let quote = text.written(quote);
                    hit.with = [quote, hit.with.as_slice(), quote].concat();
                }
                hit
            })
            .collect()
    }

    fn value(&self, range: Range<usize>, secret: usize) -> Hit {
        let with = self.key.placeholder(&self.values.secrets()[secret].value);
        Hit { range, with, rule: "value", secret: Some(secret), rank: Rank::Seen }
    }
}

/// A URL-encoded stretch of a text, decoded.
struct Layer<'t> {
    outer: &'t Plain<'t>,
    run: Range<usize>,
    inner: Plain<'t>,
}

impl<'t> Layer<'t> {
    fn new(outer: &'t Plain<'t>, run: Range<usize>) -> Self {
        let inner = Plain::of_percent(&outer.bytes()[run.clone()]);
        Self { outer, run, inner }
    }

    /// A hit in the decoded stretch, in offsets of the outermost original.
    fn outwards(&self, hit: Hit) -> Hit {
        let Range { start, end } = self.inner.original(&hit.range);
        let range = self.outer.original(&(self.run.start + start..self.run.start + end));
        Hit { range, rank: Rank::Decoded, ..hit }
    }
}

/// Whether a value may stand behind the name around a stem: a cheap look before a thorough one.
fn assign_may_follow(bytes: &[u8], start: usize, end: usize) -> bool {
    let rest = bytes[end..].iter().take(MOST_NAME).take_while(|byte| is_name(**byte)).count();
    let apart = || {
        let before = bytes[..start].iter().rev().take(MOST_NAME).take_while(|byte| is_name(**byte)).count();
        assign::may_stand_apart(bytes, start - before)
    };
    assign::may_follow(bytes, end + rest) || apart()
}

const MOST_NAME: usize = 64;

/// The whole name around a stem.
fn whole_name(bytes: &[u8], stem: Range<usize>) -> Range<usize> {
    let before = bytes[..stem.start].iter().rev().take(MOST_NAME).take_while(|byte| is_name(**byte)).count();
    let behind = bytes[stem.end..].iter().take(MOST_NAME).take_while(|byte| is_name(**byte)).count();
    let mut name = stem.start - before..stem.end + behind;
    if before == 0 && bytes[stem.clone()].eq_ignore_ascii_case(b"key") {
        name.start -= names::word_before_key(&bytes[..stem.start]);
    }
    while matches!(bytes[name.start], b'-' | b'.') {
        name.start += 1;
    }
    name
}

pub(super) fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

/// Members that stand beside a piece of a model's text, and beside no key.
const SIBLINGS: &[&[u8]] = &[b"\"logprob\"", b"\"bytes\"", b"\"logProbability\"", b"\"tokenId\""];

/// `{"token":"Hello","logprob":-0.1}` is a piece of the model's text, in whatever order and layout.
fn is_log_probability(bytes: &[u8], name: &Range<usize>, value: &Range<usize>) -> bool {
    let behind = &bytes[value.end..bytes.len().min(value.end + NEAR)];
    let before = &bytes[name.start.saturating_sub(NEAR)..name.start];
    let mut depth = 0;
    for (at, byte) in behind.iter().enumerate() {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 0 => break,
            b'}' | b']' => depth -= 1,
            b'"' if depth == 0 && SIBLINGS.iter().any(|key| behind[at..].starts_with(key)) => return true,
            _ => {}
        }
    }
    depth = 0;
    for (at, byte) in before.iter().enumerate().rev() {
        match byte {
            b'}' | b']' => depth += 1,
            b'{' | b'[' if depth == 0 => break,
            b'{' | b'[' => depth -= 1,
            b'"' if depth == 0 && SIBLINGS.iter().any(|key| before[..=at].ends_with(key)) => return true,
            _ => {}
        }
    }
    false
}

/// The quote that ends the key of the member whose value begins at `at`.
fn member_quote(bytes: &[u8], at: usize) -> Option<usize> {
    let before = |at: usize| bytes[..at].iter().rposition(|byte| !byte.is_ascii_whitespace());
    let colon = before(at).filter(|&at| bytes[at] == b':')?;
    before(colon).filter(|&at| bytes[at] == b'"')
}

fn touches_placeholder(bytes: &[u8], range: &Range<usize>) -> bool {
    let reach = placeholder::PREFIX.len() + 16;
    let near = range.start.saturating_sub(reach)..bytes.len().min(range.end + reach);
    let mut from = near.start;
    while let Some(found) = placeholder::find(&bytes[from..near.end]) {
        let start = from + found;
        if start < range.end && range.start < start + reach {
            return true;
        }
        from = start + reach;
    }
    false
}

fn split_at(bytes: &[u8], separator: u8) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr(separator, bytes)?;
    Some((&bytes[..at], &bytes[at + 1..]))
}

/// Whether a part of a credential is one by itself: `lang=javascript` names nobody, and were it learned, the
/// word would vanish everywhere.
fn is_telling(value: &[u8]) -> bool {
    (value.len() >= LONG_COOKIE || shapes::mixed(value)) && !looks::joined_words(value)
}

/// Parameters of a credential that say whose it is or what it is for.
fn is_about_credential(name: &[u8]) -> bool {
    const ABOUT: &[&str] = &[
        "username",
        "user",
        "email",
        "realm",
        "uri",
        "url",
        "algorithm",
        "signedheaders",
        "headers",
        "keyid",
        "oauth_signature_method",
        "oauth_callback",
    ];
    ABOUT.iter().any(|about| name.eq_ignore_ascii_case(about.as_bytes()))
}

fn is_cookie_attribute(name: &[u8]) -> bool {
    [
        "path",
        "domain",
        "expires",
        "max-age",
        "samesite",
        "secure",
        "httponly",
        "priority",
        "partitioned",
        "version",
    ]
    .iter()
    .any(|attribute| name.eq_ignore_ascii_case(attribute.as_bytes()))
}

trait Ends {
    fn to_ascii_lowercase_ends_with(&self, end: &[u8]) -> bool;
    fn trim_matches(&self, byte: u8) -> &[u8];
}

impl Ends for [u8] {
    fn to_ascii_lowercase_ends_with(&self, end: &[u8]) -> bool {
        self.len().checked_sub(end.len()).is_some_and(|from| self[from..].eq_ignore_ascii_case(end))
    }

    fn trim_matches(&self, byte: u8) -> &[u8] {
        let inner = self.strip_prefix(&[byte]).unwrap_or(self);
        inner.strip_suffix(&[byte]).unwrap_or(inner)
    }
}
