//! Compares two units value by value, under masks, rules and the pairing of ids.

use std::borrow::Cow;

use wire::json::{Document, Value, ValueKind as JsonKind};

use super::ids::{IdPair, IdPairing, IdPlace};
use super::mask::{MaskTally, MaskedText, Masks, other_mask, text_mask};
use super::transcript::without_session_name;
use crate::verdict::Surface;
use crate::verify::day::Day;
use crate::verify::finding::TurnPlace;
use crate::verify::id_shape::has_made_up_id;
use crate::verify::project::UnitKind;
use crate::verify::rules::{AppliedRules, Effect};

/// Differences of one unit that are listed. Further ones are counted.
const MAX_LISTED: usize = 12;

/// Compares values, counts hits of masks and rules, and collects pairs of ids.
pub(in crate::verify) struct ValueComparer<'r> {
    /// The golden's and the candidate's.
    pub(in crate::verify) masks: [Masks; 2],
    pub(in crate::verify) rules: &'r AppliedRules,
    pub(in crate::verify) ids: IdPairing,
    pub(in crate::verify) mask_hits: MaskTally,
}

/// Place and kind of the units that are compared.
pub(super) struct ValueContext<'a> {
    pub(super) surface: Surface,
    pub(super) kind: UnitKind,
    pub(super) key: &'a str,
    pub(super) turn: TurnPlace,
    pub(super) pointer: &'a str,
    /// True if the lines of its texts may come in any order.
    pub(super) is_unordered: bool,
    /// True if each side carries what its own model said.
    pub(super) is_given: bool,
}

/// Two values that are not byte-equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ValuePair {
    pub(super) pointer: String,
    /// JSON of the golden's and the candidate's value.
    pub(super) values: [Option<String>; 2],
    /// True if a mask covers the difference.
    pub(super) is_masked: bool,
}

/// The result of comparing two units.
#[derive(Clone, Debug, Default)]
pub(super) struct ValueComparison {
    pub(super) differences: Vec<ValuePair>,
    /// Number of differences that are not listed.
    pub(super) omitted: usize,
    /// True if a mask was hit.
    pub(super) is_masked: bool,
    /// True if a rule excluded a part.
    pub(super) is_excluded: bool,
}

/// A pointer and the two values there.
type OpenPair<'a, 'd, 'b, 'e> = (String, Option<Value<'a, 'd>>, Option<Value<'b, 'e>>);

impl ValueComparer<'_> {
    /// Compares two units, given as JSON.
    pub(super) fn compare(
        &mut self,
        at: &ValueContext<'_>,
        golden: &str,
        candidate: &str,
    ) -> ValueComparison {
        let mut result = ValueComparison::default();
        let whole = |is_masked: bool| ValuePair {
            pointer: at.pointer.to_owned(),
            values: [golden, candidate].map(|json| Some(json.to_owned())),
            is_masked,
        };
        if let Some(mask) = mask_of_unit(at) {
            if self.rules.exclude(at.surface, at.pointer) {
                result.is_excluded = true;
                return result;
            }
            self.mask_hits.hit(mask, golden != candidate);
            result.is_masked = true;
            result.differences.extend((golden != candidate).then(|| whole(true)));
            return result;
        }
        let (Ok(g), Ok(c)) = (Document::parse(golden.as_bytes()), Document::parse(candidate.as_bytes()))
        else {
            result.differences.push(whole(false));
            return result;
        };
        let mut open: Vec<OpenPair<'_, '_, '_, '_>> =
            vec![(at.pointer.to_owned(), Some(g.root()), Some(c.root()))];
        while let Some((pointer, golden, candidate)) = open.pop() {
            let mut children = self.compare_pair(at, &pointer, golden, candidate, &mut result);
            children.reverse();
            open.append(&mut children);
        }
        result
    }

    /// Compares one pair of values. Returns the pairs inside of it that are still to be compared.
    fn compare_pair<'a, 'd, 'b, 'e>(
        &mut self,
        at: &ValueContext<'_>,
        pointer: &str,
        golden: Option<Value<'a, 'd>>,
        candidate: Option<Value<'b, 'e>>,
        result: &mut ValueComparison,
    ) -> Vec<OpenPair<'a, 'd, 'b, 'e>> {
        let mut patterns = Vec::new();
        if self.rules.has_any_for(at.surface) {
            for (number, effect) in self.rules.covering(at.surface, pointer) {
                match effect {
                    Effect::Exclude => {
                        self.rules.hit(number);
                        result.is_excluded = true;
                        return Vec::new();
                    }
                    Effect::MaskWhole if golden.is_some() && candidate.is_some() => {
                        self.rules.hit(number);
                        result.is_masked = true;
                        result.push_unequal_bytes(pointer, golden, candidate);
                        return Vec::new();
                    }
                    Effect::MaskWhole => {}
                    Effect::Mask(pattern) => patterns.push((number, pattern)),
                }
            }
        }
        let (Some(g), Some(c)) = (golden, candidate) else {
            result.push(pointer, golden, candidate, false);
            return Vec::new();
        };
        // A value that is called an id is one, even if a clock made it.
        let may_be_time = matches!(at.kind, UnitKind::Identity | UnitKind::Header)
            && !is_called_id(pointer.rsplit('/').next().unwrap_or_default());
        if may_be_time && self.are_times(g, c) {
            self.mask_hits.hit(text_mask("date"), g.raw() != c.raw());
            result.is_masked = true;
            result.push_unequal_bytes(pointer, golden, candidate);
            return Vec::new();
        }
        match (g.kind(), c.kind()) {
            (JsonKind::Object, JsonKind::Object) => return members(pointer, g, c),
            (JsonKind::Array, JsonKind::Array) => return items(pointer, g, c),
            (JsonKind::String, JsonKind::String) => {
                let (g_text, c_text) = (g.as_str().unwrap_or_default(), c.as_str().unwrap_or_default());
                let (mut g_text, mut c_text) = (g_text.into_owned(), c_text.into_owned());
                let whole = (!patterns.is_empty()).then(|| [g_text.clone(), c_text.clone()]);
                for (number, pattern) in patterns {
                    // A rule is not stale because another one covered the value first.
                    if whole.iter().flatten().any(|text| pattern.is_match(text)) {
                        self.rules.hit(number);
                    }
                    if pattern.is_match(&g_text) || pattern.is_match(&c_text) {
                        result.is_masked = true;
                        g_text = pattern.replace_all(&g_text, "\u{2}").into_owned();
                        c_text = pattern.replace_all(&c_text, "\u{2}").into_owned();
                    }
                }
                // Two different broken characters look the same.
                let is_broken = g_text.contains('\u{fffd}') && g.raw() != c.raw();
                if is_broken && g.as_str() == c.as_str() {
                    result.push(pointer, golden, candidate, false);
                    return Vec::new();
                }
                match self.compare_texts(at, pointer, &g_text, &c_text) {
                    TextAgreement::Masked => {
                        result.is_masked = true;
                        result.push_unequal_bytes(pointer, golden, candidate);
                    }
                    TextAgreement::Same => result.push_unequal_bytes(pointer, golden, candidate),
                    TextAgreement::Different => result.push(pointer, golden, candidate, false),
                }
            }
            _ if g.raw() == c.raw() || numbers_agree(g, c) => {}
            _ => result.push(pointer, golden, candidate, false),
        }
        Vec::new()
    }

    /// Returns whether two values are times, written as a count since 1970. Each must be near the day of its recording,
    /// or near the other if that day is unknown.
    fn are_times(&self, golden: Value<'_, '_>, candidate: Value<'_, '_>) -> bool {
        let of = |value: Value<'_, '_>| Day::of_epoch(value.raw().trim_matches('"'));
        let (Some(g), Some(c)) = (of(golden), of(candidate)) else { return false };
        let [g_day, c_day] = [&self.masks[0], &self.masks[1]].map(|masks| masks.day);
        !g.is_far_from(g_day.unwrap_or(c)) && !c.is_far_from(c_day.unwrap_or(g))
    }

    fn compare_texts(
        &mut self,
        at: &ValueContext<'_>,
        pointer: &str,
        golden: &str,
        candidate: &str,
    ) -> TextAgreement {
        let place = || IdPlace { surface: at.surface, turn: at.turn, pointer: pointer.to_owned() };
        if let Some(mask) = mask_of_id_place(at, pointer, golden, candidate) {
            self.mask_hits.hit(other_mask(mask), golden != candidate);
            self.ids.observe(golden, candidate, place);
            return TextAgreement::Masked;
        }
        let texts = [golden, candidate];
        let unnamed = texts.map(|text| match at.kind {
            UnitKind::Result => without_session_name(text),
            _ => Cow::Borrowed(text),
        });
        let [golden, candidate] = [&*unnamed[0], &*unnamed[1]];
        let is_named = texts != [golden, candidate];
        if is_named {
            self.mask_hits.hit(other_mask("session name"), texts[0] != texts[1]);
        }
        let g = self.masks[0].apply(at.surface, golden);
        let c = self.masks[1].apply(at.surface, candidate);
        self.count_hits(&g, golden, &c, candidate);
        let hit = is_named || !g.hits.is_empty() || !c.hits.is_empty();
        let agrees = |same: bool| if same { TextAgreement::Masked } else { TextAgreement::Same };
        // A value that the provider sealed is carried back unchanged, or not at all.
        let is_seal = at.kind == UnitKind::Reply
            && ["/signature", "/data", "/encrypted_content"].iter().any(|name| pointer.ends_with(name));
        let with_ids = !is_seal
            && !is_data(pointer, [golden, candidate])
            && !matches!(
                at.kind,
                UnitKind::Tool | UnitKind::Model | UnitKind::Setting | UnitKind::RequestLine
            );
        // Equal texts agree, even if a mask of one side would change only one of them.
        if golden == candidate || g.text == c.text {
            let ids = if with_ids { self.ids.observe_same(&g.text, place) } else { 0 };
            (0..ids).for_each(|_| self.mask_hits.hit(other_mask("id"), false));
            return agrees(hit || ids > 0);
        }
        if !with_ids {
            return TextAgreement::Different;
        }
        // The model chooses the arguments of a call, so another id in one is another argument, unless both are known.
        let accepts = IdAcceptance {
            unknown: at.kind != UnitKind::Call || at.is_given,
            single: at.kind == UnitKind::Identity || at.is_given,
        };
        if self.pair_ids(accepts, &g.text, &c.text, &place) {
            return TextAgreement::Masked;
        }
        let sorted = |text: &str| {
            let mut lines: Vec<&str> = text.lines().collect();
            lines.sort_unstable();
            lines.join("\n")
        };
        let lines = [&g.text, &c.text].map(|text| sorted(text));
        if at.is_unordered && self.pair_ids(accepts, &lines[0], &lines[1], &place) {
            self.mask_hits.hit(other_mask("line order"), true);
            return TextAgreement::Masked;
        }
        TextAgreement::Different
    }

    /// Pairs the ids of two texts. Returns whether the texts differ in nothing else.
    fn pair_ids(
        &mut self,
        accepts: IdAcceptance,
        golden: &str,
        candidate: &str,
        place: &dyn Fn() -> IdPlace,
    ) -> bool {
        let Some(pairs) = self.ids.pairs(golden, candidate) else { return false };
        let mut others = pairs.iter().filter(|pair| pair.golden != pair.candidate);
        let may = |IdPair { golden, candidate, is_labelled }: &IdPair<'_>| {
            (accepts.unknown || self.ids.are_known(golden, candidate))
                && (accepts.single || *is_labelled || self.ids.may_pair(golden, candidate))
        };
        if !others.all(may) {
            return false;
        }
        for IdPair { golden: g, candidate: c, .. } in pairs {
            self.mask_hits.hit(other_mask("id"), g != c);
            self.ids.observe(g, c, place);
        }
        true
    }

    fn count_hits(&mut self, g: &MaskedText, golden: &str, c: &MaskedText, candidate: &str) {
        if golden == candidate {
            return g.hits.iter().for_each(|(number, _)| self.mask_hits.hit(*number, false));
        }
        let aligned = g.hits.len() == c.hits.len();
        for (at, (number, range)) in g.hits.iter().enumerate() {
            let other = c.hits.get(at).filter(|(other, _)| aligned && other == number);
            let differed = other.is_none_or(|(_, theirs)| golden[range.clone()] != candidate[theirs.clone()]);
            self.mask_hits.hit(*number, differed);
        }
    }
}

/// Agreement of two texts.
enum TextAgreement {
    Same,
    Masked,
    Different,
}

/// The ids that may be paired at a place.
#[derive(Clone, Copy)]
struct IdAcceptance {
    /// True if ids may be paired that were not observed elsewhere.
    unknown: bool,
    /// True if ids may be paired that no other text has.
    single: bool,
}

impl ValueComparison {
    fn push(
        &mut self,
        pointer: &str,
        golden: Option<Value<'_, '_>>,
        candidate: Option<Value<'_, '_>>,
        is_masked: bool,
    ) {
        if self.differences.len() >= MAX_LISTED {
            self.omitted += usize::from(!is_masked);
            return;
        }
        let raw = |value: Option<Value<'_, '_>>| value.map(|value| value.raw().to_owned());
        let values = [raw(golden), raw(candidate)];
        self.differences.push(ValuePair { pointer: pointer.to_owned(), values, is_masked });
    }

    /// Adds a masked difference if the two values are not byte-equal.
    fn push_unequal_bytes(
        &mut self,
        pointer: &str,
        golden: Option<Value<'_, '_>>,
        candidate: Option<Value<'_, '_>>,
    ) {
        if golden.map(|value| value.raw()) != candidate.map(|value| value.raw()) {
            self.push(pointer, golden, candidate, true);
        }
    }
}

/// Returns the mask that covers a whole unit.
fn mask_of_unit(at: &ValueContext<'_>) -> Option<usize> {
    match (at.kind, at.key) {
        (UnitKind::RequestLine, "host") | (UnitKind::Header, "host") => Some(other_mask("host")),
        (UnitKind::Header, "content-length") => Some(other_mask("content-length")),
        (UnitKind::Header, "date" | "x-amz-date") => Some(text_mask("date")),
        _ => None,
    }
}

/// Returns the mask of a place that is made for an id.
fn mask_of_id_place(
    at: &ValueContext<'_>,
    pointer: &str,
    golden: &str,
    candidate: &str,
) -> Option<&'static str> {
    let inside = pointer.strip_prefix(at.pointer).unwrap_or_default();
    let is_word = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
    };
    let are_words = is_word(golden) && is_word(candidate);
    let are_made = are_words && has_made_up_id(golden) && has_made_up_id(candidate);
    let is_called = is_called_id(pointer.rsplit('/').next().unwrap_or_default());
    match at.kind {
        UnitKind::Call | UnitKind::Result => {
            matches!(inside, "/id" | "/tool_use_id" | "/tool_call_id" | "/call_id").then_some("id")
        }
        UnitKind::Reply => (inside == "/id" && are_words).then_some("id"),
        UnitKind::Header => (inside == "/fingerprint").then_some("secret"),
        // A value that identifies the caller may hold more. Only one that is called an id, or looks like one, is one.
        UnitKind::Identity => (are_words && (is_called || are_made)).then_some("id"),
        UnitKind::Setting => (is_called && are_made).then_some("id"),
        _ => None,
    }
}

/// Returns whether a member or a header is called an id.
fn is_called_id(name: &str) -> bool {
    let name = name.strip_prefix("header:").unwrap_or(name);
    let is_word = name == "id" || name.ends_with("Id") || name.ends_with("_key");
    is_word || ["_id", "-id", "identifier"].iter().any(|end| name.ends_with(end))
}

/// Returns whether a value is an encoded picture or file, which contains no ids.
fn is_data(pointer: &str, values: [&str; 2]) -> bool {
    let inside = ["/source/data", "/file_data", "/input_audio/data", "/image_url", "/image_url/url"];
    inside.iter().any(|name| pointer.ends_with(name)) || values.iter().any(|value| value.starts_with("data:"))
}

/// Returns whether two numbers are equal in all digits, however they are written.
fn numbers_agree(golden: Value<'_, '_>, candidate: Value<'_, '_>) -> bool {
    let numbers = [golden, candidate].map(|value| decimal(value.raw()));
    matches!(numbers, [Some(golden), Some(candidate)] if golden == candidate)
}

/// Parses a number as its sign, its digits and a power of ten: `1.50e3` is 15 and 2.
fn decimal(number: &str) -> Option<(bool, String, i64)> {
    let (is_negative, number) = number.strip_prefix('-').map_or((false, number), |rest| (true, rest));
    let (number, power) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let power: i64 = power.parse().ok()?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}");
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let kept = digits.trim_end_matches('0');
    let zeros = i64::try_from(digits.len() - kept.len()).ok()?;
    let power = power.checked_sub(i64::try_from(fraction.len()).ok()?)?.checked_add(zeros)?;
    match kept.trim_start_matches('0') {
        "" => Some((false, String::new(), 0)),
        digits => Some((is_negative, digits.to_owned(), power)),
    }
}

/// Pairs members by name in the golden's order, followed by members of the candidate alone.
fn members<'a, 'd, 'b, 'e>(
    pointer: &str,
    golden: Value<'a, 'd>,
    candidate: Value<'b, 'e>,
) -> Vec<OpenPair<'a, 'd, 'b, 'e>> {
    let at = |name: &str| format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
    let mut pairs = Vec::new();
    for member in golden.members() {
        let name = member.name();
        pairs.push((at(&name), Some(member.value), candidate.get(&name)));
    }
    for member in candidate.members().filter(|member| golden.get(&member.name()).is_none()) {
        pairs.push((at(&member.name()), None, Some(member.value)));
    }
    pairs
}

fn items<'a, 'd, 'b, 'e>(
    pointer: &str,
    golden: Value<'a, 'd>,
    candidate: Value<'b, 'e>,
) -> Vec<OpenPair<'a, 'd, 'b, 'e>> {
    let (mut g, mut c) = (golden.items(), candidate.items());
    let mut pairs = Vec::new();
    for index in 0.. {
        match (g.next(), c.next()) {
            (None, None) => break,
            (golden, candidate) => pairs.push((format!("{pointer}/{index}"), golden, candidate)),
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::{ParityRules, RecordingFacts};

    #[test]
    fn two_halves_of_characters_are_not_the_same() {
        let facts = RecordingFacts::default();
        let rules = ParityRules::default().applied_to([&facts, &facts]);
        let mut comparer = ValueComparer {
            masks: [Masks::of(&facts), Masks::of(&facts)],
            rules: &rules,
            ids: IdPairing::default(),
            mask_hits: MaskTally::default(),
        };
        let at = ValueContext {
            surface: Surface::Prompt,
            kind: UnitKind::Text,
            key: "text",
            turn: TurnPlace { lane: 0, turn: 1 },
            pointer: "/text",
            is_unordered: false,
            is_given: false,
        };
        let mut differ = |golden: &str, candidate: &str| {
            comparer.compare(&at, golden, candidate).differences.iter().any(|pair| !pair.is_masked)
        };
        assert!(differ(r#""a \ud800 b""#, r#""a \ud801 b""#));
        assert!(!differ(r#""a \ud800 b""#, r#""a \ud800 b""#));
        assert!(!differ(r#""a \u00fc b""#, "\"a \u{fc} b\""));
    }

    #[test]
    fn numbers_are_compared_to_the_last_digit() {
        let same = |golden: &str, candidate: &str| {
            let documents =
                [golden, candidate].map(|text| Document::parse(text.as_bytes()).expect("a number"));
            numbers_agree(documents[0].root(), documents[1].root())
        };
        for (golden, candidate) in [("100", "1e2"), ("1.50", "1.5"), ("-0", "0.0"), ("12e-1", "1.2")] {
            assert!(same(golden, candidate), "{golden} / {candidate}");
        }
        for (golden, candidate) in [
            ("340282366920938463463374607431768211457", "340282366920938463463374607431768211458"),
            ("1e400", "1e500"),
            ("9007199254740993.0", "9007199254740992.0"),
            ("1", "-1"),
            ("1", "10"),
        ] {
            assert!(!same(golden, candidate), "{golden} / {candidate}");
        }
    }
}
