//! Two units, compared value by value.

use wire::json::{Document, Value, ValueKind as JsonKind};

use super::day::Day;
use super::ids::{Ids, Pair, Place, is_made_up};
use super::mask::{MaskTally, Masked, Masks, built_in, other};
use super::rules::{Applied, Effect};
use super::unit::Kind;
use crate::verdict::Surface;

/// So many differences of one unit are told one by one.
const TOLD: usize = 12;

/// Masks, rules and ids at work.
pub(super) struct Judge {
    /// The golden's and the candidate's.
    pub(super) masks: [Masks; 2],
    pub(super) rules: Applied,
    pub(super) ids: Ids,
    pub(super) hits: MaskTally,
}

/// Where the units are that are compared, and what they are.
pub(super) struct At<'a> {
    pub(super) surface: Surface,
    pub(super) kind: Kind,
    pub(super) key: &'a str,
    pub(super) lane: &'a str,
    pub(super) turn: u32,
    pub(super) pointer: &'a str,
    /// The lines of its texts may come in any order.
    pub(super) any_order: bool,
    /// Both sides carry it as their models said it.
    pub(super) as_said: bool,
}

/// A value that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Leaf {
    pub(super) pointer: String,
    pub(super) golden: Option<String>,
    pub(super) candidate: Option<String>,
    /// A mask covers it: it differs by the byte only.
    pub(super) masked: bool,
}

/// What comparing two units came to.
#[derive(Clone, Debug, Default)]
pub(super) struct Judged {
    pub(super) leaves: Vec<Leaf>,
    /// More values differ than are told.
    pub(super) more: usize,
    /// A mask was hit.
    pub(super) masked: bool,
    /// Something in it was left out by a rule.
    pub(super) excluded: bool,
}

type Both<'a, 'd, 'b, 'e> = (String, Option<Value<'a, 'd>>, Option<Value<'b, 'e>>);

impl Judge {
    /// Compares two units, given as JSON texts.
    pub(super) fn compare(&mut self, at: &At<'_>, golden: &str, candidate: &str) -> Judged {
        let mut judged = Judged::default();
        if let Some(number) = masked_by_name(at) {
            let covering = self.rules.covering(at.surface, at.pointer);
            if let Some((rule, _)) = covering.iter().find(|(_, effect)| matches!(effect, Effect::Exclude)) {
                self.rules.hit(*rule);
                judged.excluded = true;
                return judged;
            }
            self.hits.hit(number, golden != candidate);
            judged.masked = true;
            if golden != candidate {
                judged.leaves.push(leaf(at.pointer, Some(golden), Some(candidate), true));
            }
            return judged;
        }
        let (Ok(g), Ok(c)) = (Document::parse(golden.as_bytes()), Document::parse(candidate.as_bytes()))
        else {
            judged.leaves.push(leaf(at.pointer, Some(golden), Some(candidate), false));
            return judged;
        };
        let mut open: Vec<Both<'_, '_, '_, '_>> =
            vec![(at.pointer.to_owned(), Some(g.root()), Some(c.root()))];
        while let Some((pointer, golden, candidate)) = open.pop() {
            let mut children = self.step(at, &pointer, golden, candidate, &mut judged);
            children.reverse();
            open.append(&mut children);
        }
        judged
    }

    /// Compares one value; returns the pairs of values inside it that are still to be compared.
    fn step<'a, 'd, 'b, 'e>(
        &mut self,
        at: &At<'_>,
        pointer: &str,
        golden: Option<Value<'a, 'd>>,
        candidate: Option<Value<'b, 'e>>,
        judged: &mut Judged,
    ) -> Vec<Both<'a, 'd, 'b, 'e>> {
        let mut patterns = Vec::new();
        if self.rules.concern(at.surface) {
            for (number, effect) in self.rules.covering(at.surface, pointer) {
                match effect {
                    Effect::Exclude => {
                        self.rules.hit(number);
                        judged.excluded = true;
                        return Vec::new();
                    }
                    Effect::MaskWhole if golden.is_some() && candidate.is_some() => {
                        self.rules.hit(number);
                        judged.masked = true;
                        self.push_if_other(at, pointer, golden, candidate, judged);
                        return Vec::new();
                    }
                    Effect::MaskWhole => {}
                    Effect::Mask(pattern) => patterns.push((number, pattern)),
                }
            }
        }
        let (Some(g), Some(c)) = (golden, candidate) else {
            judged.push(pointer, golden, candidate, false);
            return Vec::new();
        };
        // What is called an id is one, though a clock made it.
        let may_be_time = matches!(at.kind, Kind::Identity | Kind::Header)
            && !is_called_id(pointer.rsplit('/').next().unwrap_or_default());
        if may_be_time && self.are_times(g, c) {
            self.hits.hit(built_in("date"), g.raw() != c.raw());
            judged.masked = true;
            self.push_if_other(at, pointer, golden, candidate, judged);
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
                    // A rule is not stale for what another one has covered before it.
                    if whole.iter().flatten().any(|text| pattern.is_match(text)) {
                        self.rules.hit(number);
                    }
                    if pattern.is_match(&g_text) || pattern.is_match(&c_text) {
                        judged.masked = true;
                        g_text = pattern.replace_all(&g_text, "\u{2}").into_owned();
                        c_text = pattern.replace_all(&c_text, "\u{2}").into_owned();
                    }
                }
                // Half a character stands for nothing, and two of them look the same.
                let is_broken = g_text.contains('\u{fffd}') && g.raw() != c.raw();
                if is_broken && g.as_str() == c.as_str() {
                    judged.push(pointer, golden, candidate, false);
                    return Vec::new();
                }
                match self.texts(at, pointer, &g_text, &c_text) {
                    Agreement::Masked => {
                        judged.masked = true;
                        self.push_if_other(at, pointer, golden, candidate, judged);
                    }
                    Agreement::Same => self.push_if_other(at, pointer, golden, candidate, judged),
                    Agreement::None => judged.push(pointer, golden, candidate, false),
                }
            }
            _ if g.raw() == c.raw() || numbers_agree(g, c) => {}
            _ => judged.push(pointer, golden, candidate, false),
        }
        Vec::new()
    }

    /// Whether two values are a clock's, written as a count since 1970: each is near the day of its recording, or near
    /// the other where that is not known. Another number of so many digits is somebody's.
    fn are_times(&self, golden: Value<'_, '_>, candidate: Value<'_, '_>) -> bool {
        let of = |value: Value<'_, '_>| Day::of_epoch(value.raw().trim_matches('"'));
        let (Some(g), Some(c)) = (of(golden), of(candidate)) else { return false };
        let [g_day, c_day] = [&self.masks[0], &self.masks[1]].map(|masks| masks.day);
        !g.is_far_from(g_day.unwrap_or(c)) && !c.is_far_from(c_day.unwrap_or(g))
    }

    /// A covered value that differs by the byte is told of for those who want equal bytes.
    fn push_if_other(
        &mut self,
        _at: &At<'_>,
        pointer: &str,
        golden: Option<Value<'_, '_>>,
        candidate: Option<Value<'_, '_>>,
        judged: &mut Judged,
    ) {
        let raw = |value: Option<Value<'_, '_>>| value.map(|value| value.raw().to_owned());
        if raw(golden) != raw(candidate) {
            judged.push(pointer, golden, candidate, true);
        }
    }

    fn texts(&mut self, at: &At<'_>, pointer: &str, golden: &str, candidate: &str) -> Agreement {
        let place = || Place {
            surface: at.surface,
            lane: at.lane.to_owned(),
            turn: at.turn,
            pointer: pointer.to_owned(),
        };
        if let Some(mask) = is_id_place(at, pointer, golden, candidate) {
            self.hits.hit(other(mask), golden != candidate);
            self.ids.observe(golden, candidate, place);
            return Agreement::Masked;
        }
        let g = self.masks[0].apply(at.surface, golden);
        let c = self.masks[1].apply(at.surface, candidate);
        self.count(&g, golden, &c, candidate);
        let hit = !g.hits.is_empty() || !c.hits.is_empty();
        let agrees = |same: bool| if same { Agreement::Masked } else { Agreement::Same };
        // What a provider sealed is carried back as it is, or not at all.
        let is_seal = at.kind == Kind::Reply
            && ["/signature", "/data", "/encrypted_content"].iter().any(|name| pointer.ends_with(name));
        let with_ids = !is_seal
            && !is_data(pointer, [golden, candidate])
            && !matches!(at.kind, Kind::Tool | Kind::Model | Kind::Setting | Kind::Line);
        // What is equal is equal, whatever a mask that only one side has would make of it.
        if golden == candidate || g.text == c.text {
            let ids = if with_ids { self.ids.observe_same(&g.text, place) } else { 0 };
            (0..ids).for_each(|_| self.hits.hit(other("id"), false));
            return agrees(hit || ids > 0);
        }
        if !with_ids {
            return Agreement::None;
        }
        // The harness makes no arguments: another id in one is another argument, unless it is known from elsewhere.
        let any = at.kind != Kind::Call || at.as_said;
        let made_for_ids = at.kind == Kind::Identity || at.as_said;
        if self.pair_ids(any, made_for_ids, &g.text, &c.text, &place) {
            return Agreement::Masked;
        }
        let sorted = |text: &str| {
            let mut lines: Vec<&str> = text.lines().collect();
            lines.sort_unstable();
            lines.join("\n")
        };
        let lines = [&g.text, &c.text].map(|text| sorted(text));
        if at.any_order && self.pair_ids(any, made_for_ids, &lines[0], &lines[1], &place) {
            self.hits.hit(other("line order"), true);
            return Agreement::Masked;
        }
        Agreement::None
    }

    /// Pairs the ids that make two texts the same: any that look like ids, or those that were seen before; and in a
    /// place that is not made for ids those only that another place speaks of.
    fn pair_ids(
        &mut self,
        any: bool,
        made_for_ids: bool,
        golden: &str,
        candidate: &str,
        place: &dyn Fn() -> Place,
    ) -> bool {
        let Some(pairs) = self.ids.pairs(golden, candidate) else { return false };
        let mut others = pairs.iter().filter(|pair| pair.golden != pair.candidate);
        let may = |Pair { golden, candidate, named }: &Pair<'_>| {
            (any || self.ids.were_seen(golden, candidate))
                && (made_for_ids || *named || self.ids.may_pair(golden, candidate))
        };
        if !others.all(may) {
            return false;
        }
        for Pair { golden: g, candidate: c, .. } in pairs {
            self.hits.hit(other("id"), g != c);
            self.ids.observe(g, c, place);
        }
        true
    }

    fn count(&mut self, g: &Masked, golden: &str, c: &Masked, candidate: &str) {
        if golden == candidate {
            return g.hits.iter().for_each(|(number, _)| self.hits.hit(*number, false));
        }
        let aligned = g.hits.len() == c.hits.len();
        for (at, (number, range)) in g.hits.iter().enumerate() {
            let other = c.hits.get(at).filter(|(other, _)| aligned && other == number);
            let differed = other.is_none_or(|(_, theirs)| golden[range.clone()] != candidate[theirs.clone()]);
            self.hits.hit(*number, differed);
        }
    }
}

enum Agreement {
    Same,
    Masked,
    None,
}

impl Judged {
    fn push(
        &mut self,
        pointer: &str,
        golden: Option<Value<'_, '_>>,
        candidate: Option<Value<'_, '_>>,
        masked: bool,
    ) {
        if self.leaves.len() >= TOLD {
            self.more += usize::from(!masked);
            return;
        }
        let raw = |value: Option<Value<'_, '_>>| value.map(|value| value.raw().to_owned());
        let (golden, candidate) = (raw(golden), raw(candidate));
        self.leaves.push(Leaf { pointer: pointer.to_owned(), golden, candidate, masked });
    }
}

fn leaf(pointer: &str, golden: Option<&str>, candidate: Option<&str>, masked: bool) -> Leaf {
    let owned = |text: Option<&str>| text.map(str::to_owned);
    Leaf { pointer: pointer.to_owned(), golden: owned(golden), candidate: owned(candidate), masked }
}

/// Units that are masked as a whole, by what they are.
fn masked_by_name(at: &At<'_>) -> Option<usize> {
    match (at.kind, at.key) {
        (Kind::Line, "host") | (Kind::Header, "host") => Some(other("host")),
        (Kind::Header, "content-length") => Some(other("content-length")),
        (Kind::Header, "date" | "x-amz-date") => Some(built_in("date")),
        _ => None,
    }
}

/// The mask of a place that is made for an id.
fn is_id_place(at: &At<'_>, pointer: &str, golden: &str, candidate: &str) -> Option<&'static str> {
    let inside = pointer.strip_prefix(at.pointer).unwrap_or_default();
    let is_word = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
    };
    let are_words = is_word(golden) && is_word(candidate);
    let are_made = are_words && is_made_up(golden) && is_made_up(candidate);
    let is_called = is_called_id(pointer.rsplit('/').next().unwrap_or_default());
    match at.kind {
        Kind::Call | Kind::Result => {
            matches!(inside, "/id" | "/tool_use_id" | "/tool_call_id" | "/call_id").then_some("id")
        }
        Kind::Reply => (inside == "/id" && are_words).then_some("id"),
        Kind::Header => (inside == "/fingerprint").then_some("secret"),
        // What says who asks may say more: only what is called an id, or looks like one, is one.
        Kind::Identity => (are_words && (is_called || are_made)).then_some("id"),
        Kind::Setting => (is_called && are_made).then_some("id"),
        _ => None,
    }
}

/// Whether a member or a header is called an id.
fn is_called_id(name: &str) -> bool {
    let name = name.strip_prefix("header:").unwrap_or(name);
    let is_word = name == "id" || name.ends_with("Id") || name.ends_with("_key");
    is_word || ["_id", "-id", "identifier"].iter().any(|end| name.ends_with(end))
}

/// Whether a value is a picture or a file in letters: whatever looks like an id in it is none.
fn is_data(pointer: &str, values: [&str; 2]) -> bool {
    let inside = ["/source/data", "/file_data", "/input_audio/data", "/image_url", "/image_url/url"];
    inside.iter().any(|name| pointer.ends_with(name)) || values.iter().any(|value| value.starts_with("data:"))
}

/// Whether two numbers are one, in whatever way they are written: no digit of either may be lost.
fn numbers_agree(golden: Value<'_, '_>, candidate: Value<'_, '_>) -> bool {
    let numbers = [golden, candidate].map(|value| exactly(value.raw()));
    matches!(numbers, [Some(golden), Some(candidate)] if golden == candidate)
}

/// A number as its sign, its digits and the power of ten behind them: `1.50e3` is 15 and two noughts.
fn exactly(number: &str) -> Option<(bool, String, i64)> {
    let (is_negative, number) = number.strip_prefix('-').map_or((false, number), |rest| (true, rest));
    let (number, power) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let power: i64 = power.parse().ok()?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}");
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let kept = digits.trim_end_matches('0');
    let noughts = i64::try_from(digits.len() - kept.len()).ok()?;
    let power = power.checked_sub(i64::try_from(fraction.len()).ok()?)?.checked_add(noughts)?;
    match kept.trim_start_matches('0') {
        "" => Some((false, String::new(), 0)),
        digits => Some((is_negative, digits.to_owned(), power)),
    }
}

/// Members meet by name, in the golden's order, what only the candidate has behind them.
fn members<'a, 'd, 'b, 'e>(
    pointer: &str,
    golden: Value<'a, 'd>,
    candidate: Value<'b, 'e>,
) -> Vec<Both<'a, 'd, 'b, 'e>> {
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
) -> Vec<Both<'a, 'd, 'b, 'e>> {
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
    use super::super::{ParityRules, RecordingFacts};
    use super::*;

    #[test]
    fn two_halves_of_characters_are_not_the_same() {
        let facts = RecordingFacts::default();
        let mut judge = Judge {
            masks: [Masks::of(&facts), Masks::of(&facts)],
            rules: ParityRules::default().applied_to([&facts, &facts]),
            ids: Ids::default(),
            hits: MaskTally::default(),
        };
        let at = At {
            surface: Surface::Prompt,
            kind: Kind::Said,
            key: "text",
            lane: "main",
            turn: 1,
            pointer: "/text",
            any_order: false,
            as_said: false,
        };
        let mut differ = |golden: &str, candidate: &str| {
            judge.compare(&at, golden, candidate).leaves.iter().any(|leaf| !leaf.masked)
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
