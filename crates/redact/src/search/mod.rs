//! The search: one pass for names and shapes, one for learned values.
//!
//! [`Search::find_by_rule`] comes first and learns values. [`Search::find_by_value`] comes after it, so it also
//! finds the values that the same text contains.

mod inside;

use std::collections::BTreeSet;
use std::ops::Range;

use super::hit::{Hit, Rank};
use super::names::{self, Family};
use super::packed::{self, PackedRun};
use super::placeholder::{self, FingerprintKey};
use super::plain::{PlainText, percent_runs};
use super::runs::{ShapeMatch, is_mixed};
use super::shapes;
use super::triggers::{TRIGGERS, TriggerKind};
use super::unpack::{Gap, MOST_DECODED};
use super::values::Values;
use super::{assign, looks};
use wire::opaque::is_in_opaque_field;

/// No names are searched for in a longer value, because each could lead to another value of that length. The whole
/// value is redacted anyway.
const LONG_VALUE: usize = 4 << 10;
/// A cookie of this length is not a common word.
const LONG_COOKIE: usize = 16;
/// The searched distance for siblings of a member.
const NEAR: usize = 1 << 10;

/// Properties of a text that are known before the search.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SearchOptions {
    /// True if the text is a form, which starts with the name of a parameter.
    pub(super) is_form: bool,
    /// True if only the provider can read the text (a signature of thinking). Patterns in it are random.
    pub(super) is_opaque: bool,
}

/// The matches of the rules.
#[derive(Default)]
pub(super) struct RuleMatches {
    pub(super) hits: Vec<Hit>,
    pub(super) features: TextFeatures,
}

/// Features of a text, found in the first pass to save further passes.
#[derive(Default)]
pub(super) struct TextFeatures {
    /// The ranges with URL encoding.
    percent_runs: Vec<Range<usize>>,
    /// True if the text may contain HTML character references.
    has_entities: bool,
    /// True if a string in the text may be a stream.
    pub(super) may_hold_stream: bool,
    /// True if the text may be listed token by token.
    pub(super) lists_tokens: bool,
    /// Archives and other data, encoded as text.
    packed: Vec<PackedRun>,
}

/// Finds secrets and remembers their values.
pub(super) struct Search {
    pub(super) key: FingerprintKey,
    pub(super) values: Values,
    pub(super) generation: u64,
    /// Parts that could not be searched since the last call that took the list.
    pub(super) gaps: BTreeSet<Gap>,
    /// The number of bytes that may still be decoded for the current text.
    pub(super) unpack_left: usize,
    /// The number of texts around the current one.
    pub(super) depth: usize,
    pub(super) packed: inside::PackedResults,
}

impl Search {
    pub(super) fn new(key: FingerprintKey) -> Self {
        Self {
            key,
            values: Values::new(),
            generation: 0,
            gaps: BTreeSet::new(),
            unpack_left: MOST_DECODED,
            depth: 0,
            packed: inside::PackedResults::default(),
        }
    }

    /// Learns the value of a secret name.
    pub(super) fn learn(&mut self, source: &str, value: &[u8]) {
        self.generation += u64::from(self.values.learn(source, value));
    }

    /// Learns the parts of a credential: the cookies in a cookie header, the password in Basic credentials, the
    /// token after its scheme.
    pub(super) fn learn_parts(&mut self, source: &str, family: Family, value: &[u8]) {
        let value = value.trim_ascii();
        if family == Family::Cookie {
            for cookie in value.split(|&byte| byte == b';') {
                let (name, value) = split_at(cookie, b'=').unwrap_or((b"", cookie));
                let value = trim_quotes(value.trim_ascii());
                if is_secret_part(value) && !is_cookie_attribute(name.trim_ascii()) {
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

    /// Learns the credentials after their schemes, and the values of their parameters. Returns true if there was
    /// one.
    fn learn_credentials(&mut self, source: &str, value: &[u8]) -> bool {
        let mut any = false;
        for part in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
            let credential = assign::unquoted(&part[assign::any_scheme(part).unwrap_or(0)..]);
            let secret = match assign::parameter(credential) {
                Some((name, value)) => Some(value).filter(|_| !is_about_credential(name)),
                None => Some(credential).filter(|_| credential.len() < part.len()),
            };
            let is_secret = |secret: &&[u8]| is_secret_part(secret) && !secret.contains(&b' ');
            if let Some(secret) = secret.filter(is_secret) {
                self.learn(source, secret);
                any = true;
            }
        }
        any
    }

    /// Learns `user:password`, and the password alone.
    fn learn_login(&mut self, source: &str, login: &[u8]) {
        self.learn(source, login);
        if let Some((_, password)) = split_at(login, b':') {
            self.learn(source, password);
        }
    }

    /// Finds secrets by rule and by value. Ranges are in the original.
    pub(super) fn find_all(&mut self, place: &str, text: &PlainText<'_>) -> Vec<Hit> {
        let RuleMatches { mut hits, features } = self.find_by_rule(place, text, SearchOptions::default());
        hits.extend(self.find_by_value(place, text, &features));
        hits
    }

    /// Finds secrets by name and by shape, and learns their values. Ranges are in the original.
    pub(super) fn find_by_rule(
        &mut self,
        place: &str,
        text: &PlainText<'_>,
        options: SearchOptions,
    ) -> RuleMatches {
        let mut matches = self.apply_rules(place, text, options);
        matches.features.percent_runs = percent_runs(text.bytes());
        for run in &matches.features.percent_runs {
            let decoded = DecodedRun::new(text, run.clone());
            let options = SearchOptions { is_form: options.is_form && run.start == 0, ..options };
            let found = self.apply_rules(place, &PlainText::from_escaped(decoded.inner.bytes()), options);
            matches.hits.extend(found.hits.into_iter().map(|hit| decoded.to_original(hit)));
        }
        matches
    }

    /// Finds learned values. Ranges are in the original.
    pub(super) fn find_by_value(
        &mut self,
        place: &str,
        text: &PlainText<'_>,
        features: &TextFeatures,
    ) -> Vec<Hit> {
        let mut hits = self.find_known(text);
        hits.extend(self.find_in_runs(place, text, &features.packed));
        if features.has_entities {
            hits.extend(self.find_in_html(text));
        }
        for run in &features.percent_runs {
            let decoded = DecodedRun::new(text, run.clone());
            let inside = PlainText::from_escaped(decoded.inner.bytes());
            let found = self.find_known(&inside).into_iter().chain(self.find_in_html(&inside));
            hits.extend(found.map(|hit| decoded.to_original(hit)));
        }
        hits
    }

    /// Finds learned values that contain HTML character references. Values without are found in the plain text.
    fn find_in_html(&self, text: &PlainText<'_>) -> Vec<Hit> {
        let Some(inner) = PlainText::from_html(text.bytes()) else { return Vec::new() };
        let found = self.values.find(inner.bytes()).into_iter().filter_map(|found| {
            let range = inner.original(&found.range);
            let apart = range.len() != found.range.len() && !touches_placeholder(text.bytes(), &range);
            apart.then(|| Hit { rank: Rank::Decoded, ..self.value_hit(text.original(&range), found.secret) })
        });
        found.collect()
    }

    fn apply_rules(&mut self, place: &str, text: &PlainText<'_>, options: SearchOptions) -> RuleMatches {
        let bytes = text.bytes();
        let mut matches = RuleMatches::default();
        let RuleMatches { hits, features } = &mut matches;
        let mut named_until = 0;
        let end_cache = assign::EndCache::default();
        TRIGGERS.for_each(bytes, |kind, start, end| match kind {
            TriggerKind::Shape(trigger) => {
                for shape_match in trigger.find(bytes, start) {
                    let exempt = options.is_opaque || is_in_opaque_field(bytes, shape_match.range.start);
                    hits.extend((!exempt).then(|| self.shape_hit(place, text, shape_match)));
                }
            }
            TriggerKind::Name if start >= named_until && assign_may_follow(bytes, start, end) => {
                let name = whole_name(bytes, start..end);
                named_until = self.find_named(place, text, &name, (options.is_form, &end_cache), hits);
            }
            TriggerKind::Name => {}
            TriggerKind::Entity => features.has_entities = true,
            TriggerKind::Stream => features.may_hold_stream = true,
            TriggerKind::Token => features.lists_tokens = true,
            TriggerKind::Packed(coding) => {
                let is_inside = features.packed.last().is_some_and(|run| start < run.range.end);
                let run = (!is_inside && !options.is_opaque).then(|| packed::find_run(bytes, start, *coding));
                features
                    .packed
                    .extend(run.flatten().filter(|run| !is_in_opaque_field(bytes, run.range.start)));
            }
        });
        let found = self.find_in_runs(place, text, &matches.features.packed);
        matches.hits.extend(found);
        matches
    }

    fn shape_hit(&mut self, place: &str, text: &PlainText<'_>, shape_match: ShapeMatch) -> Hit {
        let ShapeMatch { rule, range, secret } = shape_match;
        let seen = &text.bytes()[range.clone()];
        let source = format!("{rule} in {place}");
        match &secret {
            Some(login) => self.learn_login(&source, login),
            None => self.learn(&source, seen),
        }
        let with = self.key.placeholder(secret.as_deref().unwrap_or(seen));
        Hit { range: text.original(&range), with, rule, secret: None, rank: Rank::Seen }
    }

    /// Finds the values of a name. Returns the offset where the next name may start.
    fn find_named(
        &mut self,
        place: &str,
        text: &PlainText<'_>,
        name: &Range<usize>,
        (form, end_cache): (bool, &assign::EndCache),
        hits: &mut Vec<Hit>,
    ) -> usize {
        let bytes = text.bytes();
        let mut next = name.end;
        let Some(family) = names::family(&bytes[name.clone()]) else { return next };
        let bare_token = bytes[name.clone()].eq_ignore_ascii_case(b"token");
        for assigned in assign::find_values(text, name, family, form, end_cache) {
            let value = &bytes[assigned.range.clone()];
            if bare_token && is_log_probability(bytes, name, &assigned.range) {
                continue;
            }
            if assigned.range.len() > LONG_VALUE {
                next = next.max(assigned.range.end);
            }
            // A learned common word would disappear from every sentence, and a learned name from all code.
            let is_name = bare_token && (looks::is_plain_word(value) || looks::is_plain_name(value));
            if assigned.whole && !is_name {
                let source = format!("{} in {place}", family.rule());
                self.learn_parts(&source, family, value);
            }
            let is_basic = assign::ends_with_ignore_case(&bytes[..assigned.range.start], b"basic ");
            let decoded = is_basic.then(|| shapes::decode_basic(value)).flatten();
            let mut with = self.key.placeholder(decoded.as_deref().unwrap_or(value));
            if let Some(quote) = &assigned.quote {
                // The bytes of the quote, escaped as deeply as the key of the number.
                let quote = text.written(quote.start);
                with = [quote, with.as_slice(), quote].concat();
            }
            let range = text.original(&assigned.range);
            hits.push(Hit { range, with, rule: family.rule(), secret: None, rank: Rank::Seen });
        }
        next
    }

    fn find_known(&self, text: &PlainText<'_>) -> Vec<Hit> {
        let bytes = text.bytes();
        let mut found = self.values.find(bytes);
        found.extend(self.values.find_wrapped(text));
        let outside = found.into_iter().filter(|found| !touches_placeholder(bytes, &found.range));
        outside
            .map(|found| {
                let mut hit = self.value_hit(text.original(&found.range), found.secret);
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

    fn value_hit(&self, range: Range<usize>, secret: usize) -> Hit {
        let with = self.key.placeholder(&self.values.secrets()[secret].value);
        Hit { range, with, rule: "value", secret: Some(secret), rank: Rank::Seen }
    }
}

/// A decoded range of URL encoding.
struct DecodedRun<'t> {
    outer: &'t PlainText<'t>,
    run: Range<usize>,
    inner: PlainText<'t>,
}

impl<'t> DecodedRun<'t> {
    fn new(outer: &'t PlainText<'t>, run: Range<usize>) -> Self {
        let inner = PlainText::from_percent(&outer.bytes()[run.clone()]);
        Self { outer, run, inner }
    }

    /// Maps a hit in the decoded range to the original.
    fn to_original(&self, hit: Hit) -> Hit {
        let Range { start, end } = self.inner.original(&hit.range);
        let range = self.outer.original(&(self.run.start + start..self.run.start + end));
        Hit { range, rank: Rank::Decoded, ..hit }
    }
}

/// Returns true if a value may follow the name around a stem. A fast check before the full one.
fn assign_may_follow(bytes: &[u8], start: usize, end: usize) -> bool {
    let rest = bytes[end..].iter().take(MOST_NAME).take_while(|byte| names::is_name(**byte)).count();
    let apart = || {
        let before =
            bytes[..start].iter().rev().take(MOST_NAME).take_while(|byte| names::is_name(**byte)).count();
        assign::may_stand_apart(bytes, start - before)
    };
    assign::may_follow(bytes, end + rest) || apart()
}

const MOST_NAME: usize = 64;

/// Returns the whole name around a stem.
fn whole_name(bytes: &[u8], stem: Range<usize>) -> Range<usize> {
    let before =
        bytes[..stem.start].iter().rev().take(MOST_NAME).take_while(|byte| names::is_name(**byte)).count();
    let behind = bytes[stem.end..].iter().take(MOST_NAME).take_while(|byte| names::is_name(**byte)).count();
    let mut name = stem.start - before..stem.end + behind;
    if before == 0 && bytes[stem.clone()].eq_ignore_ascii_case(b"key") {
        name.start -= names::word_before_key(&bytes[..stem.start]);
    }
    while matches!(bytes[name.start], b'-' | b'.') {
        name.start += 1;
    }
    name
}

/// Siblings of a token of a model's text. A secret has no such siblings.
const SIBLINGS: &[&[u8]] = &[b"\"logprob\"", b"\"bytes\"", b"\"logProbability\"", b"\"tokenId\""];

/// Returns true for a token of a model's text, such as `{"token":"Hello","logprob":-0.1}`, in any order and layout.
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

/// Returns the offset of the quote that end_cache the key of the member with the value at `at`.
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

/// Returns true if a part of a credential is secret. `lang=javascript` is not: if it were learned, the word would
/// disappear everywhere.
fn is_secret_part(value: &[u8]) -> bool {
    (value.len() >= LONG_COOKIE || is_mixed(value)) && !looks::is_joined_words(value)
}

/// Parameters of a credential that describe its owner or purpose.
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

/// Removes the quotes around a cookie's value.
fn trim_quotes(value: &[u8]) -> &[u8] {
    let inner = value.strip_prefix(b"\"").unwrap_or(value);
    inner.strip_suffix(b"\"").unwrap_or(inner)
}
