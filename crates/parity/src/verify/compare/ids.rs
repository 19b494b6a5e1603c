//! Pairing of ids: each of the golden's ids has one counterpart, over the whole recording.
//!
//! Each pair of ids at aligned places is an observation. When all places have been seen, the pairs with the most
//! observations win. An observation that contradicts them is a conflict at its own place.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::LazyLock;

use regex::{Regex, RegexBuilder};

use crate::verdict::Surface;
use crate::verify::align::PairedRecordings;
use crate::verify::finding::TurnPlace;
use crate::verify::id_shape::{SHORTEST, looks_like_id};
use crate::verify::job_names::JobNames;
use crate::verify::project::{ProjectedRecording, UnitKind};
use crate::verify::text::hashed;

/// A place where two ids were observed as a pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::verify) struct IdPlace {
    pub(in crate::verify) surface: Surface,
    pub(in crate::verify) turn: TurnPlace,
    pub(in crate::verify) pointer: String,
}

/// All observed pairs of ids.
#[derive(Debug, Default)]
pub(in crate::verify) struct IdPairing {
    /// Ids of either side from places that are made for ids, and words that are called ids.
    known: HashSet<String>,
    /// Words that are called ids, whatever they look like, by side.
    called: [HashSet<String>; 2],
    observed: HashMap<(String, String), Observation>,
    /// Words that were observed as ids, by side.
    words: [HashSet<String>; 2],
    /// Number of texts with each word that looks like an id, by side.
    text_counts: [HashMap<String, u32>; 2],
    /// Words that name jobs, by side.
    jobs: [HashSet<String>; 2],
    order: usize,
}

#[derive(Debug)]
struct Observation {
    count: u64,
    first: IdPlace,
    order: usize,
}

/// Two ids at one place of two texts.
#[derive(Clone, Copy, Debug)]
pub(in crate::verify) struct IdPair<'t> {
    pub(in crate::verify) golden: &'t str,
    pub(in crate::verify) candidate: &'t str,
    /// True if the text before them says that they are ids.
    pub(in crate::verify) is_labelled: bool,
}

/// A pair of ids that contradicts most places.
#[derive(Debug)]
pub(in crate::verify) struct IdConflict {
    pub(in crate::verify) golden: String,
    pub(in crate::verify) candidate: String,
    pub(in crate::verify) place: IdPlace,
    /// The counterpart of the golden's id at other places; `None` if only the candidate's id is taken.
    pub(in crate::verify) elsewhere: Option<String>,
}

impl IdPairing {
    /// Learns the ids of two recordings: those in places made for ids, those that texts call ids, and how many texts
    /// have each word.
    pub(in crate::verify) fn learn(recordings: &PairedRecordings<'_>) -> Self {
        let known = recordings.sides.iter().flat_map(|side| side.recording.ids()).collect();
        let mut ids = Self { known, ..Self::default() };
        for (side, recording) in recordings.sides.iter().enumerate() {
            let lanes = recording.lanes();
            for parent in &lanes.lanes {
                let names = JobNames::of(lanes, &recording.jobs, parent, str::to_owned);
                names.words().for_each(|word| ids.add_job_name(side, word));
            }
            ids.learn_called(side, recording);
            ids.count_words(side, recording);
        }
        ids
    }

    /// Learns what the harness and its tools call ids, in results and in texts between the model's messages.
    fn learn_called(&mut self, side: usize, recording: &ProjectedRecording<'_>) {
        let mut seen = HashSet::new();
        for id in recording.lanes().lanes.iter().flat_map(|lane| lane.requests()) {
            let Some(request) = recording.units(id) else { continue };
            for unit in &request.ordered {
                let is_of_harness = unit.kind == UnitKind::Result
                    || (unit.kind == UnitKind::Text && unit.message.follows_reply);
                if is_of_harness && seen.insert(unit.hash) {
                    let text = wire::json::unescape(&unit.json);
                    self.add_called(side, &text);
                    let cwd = recording.recording.facts.folders.iter().find(|(of, _)| *of == "cwd");
                    let cwd = cwd.map_or("", |(_, folder)| folder.as_str());
                    self.known.extend(random_names(&text, cwd).map(str::to_owned));
                }
            }
        }
    }

    /// Counts the texts with each word that looks like an id. Repetitions of a text do not count.
    fn count_words(&mut self, side: usize, recording: &ProjectedRecording<'_>) {
        use UnitKind::{Model, RequestLine, Setting, Tool};
        let (mut seen, mut texts) = (HashSet::new(), HashSet::new());
        for id in recording.lanes().lanes.iter().flat_map(|lane| lane.requests()) {
            let Some(request) = recording.units(id) else { continue };
            for unit in request.named.iter().chain(&request.ordered) {
                let is_text = !matches!(unit.kind, Tool | Model | Setting | RequestLine);
                if is_text && seen.insert(unit.hash) && texts.insert(hashed(&unit.json)) {
                    self.count(side, &wire::json::unescape(&unit.json));
                }
            }
        }
    }

    /// Adds the words that a text of the harness or of a tool calls ids. A word of letters, or of letters and a number,
    /// may describe an id (`task_id: string`, `message ID: Error404`), so its recording must have it twice.
    fn add_called(&mut self, side: usize, text: &str) {
        for word in called_ids(text) {
            if is_made(word) || word_count(text, word) > 1 || self.called[side].contains(word) {
                self.known.insert(word.to_owned());
            }
            self.called[side].insert(word.to_owned());
        }
    }

    fn count(&mut self, side: usize, text: &str) {
        let found: Vec<Range<usize>> = words(text, &self.known).collect();
        for word in found.into_iter().map(|range| &text[range]).filter(|word| may_be_id(word)) {
            *self.text_counts[side].entry(word.to_owned()).or_default() += 1;
        }
    }

    fn add_job_name(&mut self, side: usize, word: &str) {
        self.jobs[side].extend(word.split(['_', '-']).chain([word]).map(str::to_owned));
    }

    /// Returns whether two words that look like ids may be a pair. A name of a thing occurs at another place, too. A
    /// checksum, or another value that occurs once, is an ordinary value.
    pub(super) fn may_pair(&self, golden: &str, candidate: &str) -> bool {
        [golden, candidate].iter().enumerate().all(|(side, word)| {
            let often = self.text_counts[side].get(*word).is_some_and(|count| *count > 1);
            often || self.known.contains(*word) || self.jobs[side].contains(*word)
        })
    }

    /// Observes two ids at one place.
    pub(super) fn observe(&mut self, golden: &str, candidate: &str, place: impl FnOnce() -> IdPlace) {
        for (words, word) in self.words.iter_mut().zip([golden, candidate]) {
            if !words.contains(word) {
                words.insert(word.to_owned());
            }
        }
        self.order += 1;
        let order = self.order;
        let observed = self.observed.entry((golden.to_owned(), candidate.to_owned()));
        observed.or_insert_with(|| Observation { count: 0, first: place(), order }).count += 1;
    }

    /// Returns whether both were observed as ids, in any pair.
    pub(super) fn are_known(&self, golden: &str, candidate: &str) -> bool {
        let is_known = |side: usize, word: &str| self.words[side].contains(word) || self.known.contains(word);
        is_known(0, golden) && is_known(1, candidate)
    }

    /// Returns whether a word is an id, by its shape or because it is known as one.
    fn is_id(&self, word: &str) -> bool {
        looks_like_id(word) || self.known.contains(word)
    }

    /// Returns whether two different words at one place are ids.
    fn are_ids(&self, golden: &str, candidate: &str) -> bool {
        let (g, c) = (golden, candidate);
        let known = [g, c].map(|word| self.known.contains(word));
        let called = self.called[0].contains(g) && self.called[1].contains(c);
        if known == [true, true] || (called && known != [false, false]) {
            return true;
        }
        // Random hex digits may all be digits, or all letters.
        let hex = |word: &str| word.bytes().all(|byte| byte.is_ascii_hexdigit());
        (looks_like_id(g) && looks_like_id(c))
            || (g.len() == c.len()
                && g.len() >= SHORTEST
                && (looks_like_id(g) || looks_like_id(c))
                && hex(g)
                && hex(c))
    }

    /// Observes each id of a text as a pair with itself. Returns their number.
    pub(super) fn observe_same(&mut self, text: &str, place: impl Fn() -> IdPlace) -> u64 {
        let mut found = 0;
        for range in words(text, &self.known).collect::<Vec<_>>() {
            let word = &text[range];
            if self.is_id(word) {
                self.observe(word, word, &place);
                found += 1;
            }
        }
        found
    }

    /// Returns the pairs of ids in two texts; `None` if the texts differ in more than ids.
    pub(super) fn pairs<'t>(&self, golden: &'t str, candidate: &'t str) -> Option<Vec<IdPair<'t>>> {
        let (mut g_words, mut c_words) = (words(golden, &self.known), words(candidate, &self.known));
        let (mut g_end, mut c_end) = (0, 0);
        let mut pairs = Vec::new();
        loop {
            let (g, c) = match (g_words.next(), c_words.next()) {
                (Some(g), Some(c)) => (g, c),
                (None, None) => break,
                _ => return None,
            };
            if golden[g_end..g.start] != candidate[c_end..c.start] {
                return None;
            }
            let (g_word, c_word) = (&golden[g.clone()], &candidate[c.clone()]);
            if g_word != c_word && (is_in_data(golden, &g) || is_in_data(candidate, &c)) {
                return None;
            }
            let is_labelled = g_word != c_word && has_id_label(&golden[..g.start]);
            let pair = IdPair { golden: g_word, candidate: c_word, is_labelled };
            match g_word == c_word {
                true if self.is_id(g_word) => pairs.push(pair),
                true => {}
                false if self.are_ids(g_word, c_word) => pairs.push(pair),
                false => return None,
            }
            (g_end, c_end) = (g.end, c.end);
        }
        (golden[g_end..] == candidate[c_end..]).then_some(pairs)
    }

    /// Returns the pairs of different ids, and the observations that contradict them.
    pub(in crate::verify) fn resolve(self) -> (Vec<(String, String)>, Vec<IdConflict>) {
        let mut observed: Vec<((String, String), Observation)> = self.observed.into_iter().collect();
        observed.sort_by_key(|((golden, candidate), observed)| {
            (std::cmp::Reverse(observed.count), golden != candidate, observed.order)
        });
        let (mut forth, mut back) = (HashMap::<String, String>::new(), HashSet::<String>::new());
        let mut pairs = Vec::new();
        let mut conflicts = Vec::new();
        for ((golden, candidate), observed) in observed {
            if forth.contains_key(&golden) || back.contains(&candidate) {
                let elsewhere = forth.get(&golden).cloned();
                let conflict = IdConflict { golden, candidate, place: observed.first, elsewhere };
                conflicts.push((observed.order, conflict));
                continue;
            }
            forth.insert(golden.clone(), candidate.clone());
            back.insert(candidate.clone());
            pairs.push((observed.order, (golden, candidate)));
        }
        pairs.sort_by_key(|(order, _)| *order);
        conflicts.sort_by_key(|(order, _)| *order);
        let pairs = pairs.into_iter().map(|(_, pair)| pair).filter(|(golden, candidate)| golden != candidate);
        (pairs.collect(), conflicts.into_iter().map(|(_, conflict)| conflict).collect())
    }
}

/// Returns whether a word may be an id. Random hex digits may all be digits, or all letters.
fn may_be_id(word: &str) -> bool {
    let hex = || word.len() >= SHORTEST && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    looks_like_id(word) || hex()
}

/// Returns whether the text before a word says that it is an id: `agentId: `, `session_id=ses_`, `toolu_`.
fn has_id_label(before: &str) -> bool {
    static LABELLED: LazyLock<Regex> = LazyLock::new(|| {
        let kinds = "agent|bg|call|fc|job|msg|prt|req|resp|rs|run|ses|task|thread|toolu";
        // A word that looks like an id needs no sign between it and its label.
        let label =
            format!(r"(?i)(?:{LABEL}[:=>]?{QUOTES}|{BARE})(?:[a-z]+_)?$|(?:^|[^a-z0-9])(?:{kinds})_$");
        Regex::new(&label).expect("it is fixed")
    });
    const LONGEST: usize = 48;
    let from = before.ceil_char_boundary(before.len().saturating_sub(LONGEST));
    LABELLED.is_match(&before[from..])
}

/// Returns the random names that only their place makes known: of a saved output in the folder of its session, and of the
/// session (after the name of its working folder, with a number).
fn random_names<'t>(text: &'t str, cwd: &str) -> impl Iterator<Item = &'t str> {
    static NAMED: LazyLock<Regex> = LazyLock::new(|| {
        let uuid = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}";
        let named = format!(
            r#"/{uuid}/tool-results/(b[0-9a-z]{{8,9}})\.(?:txt|json)\b|\bThis session is (?:([\w.-]+)-[0-9a-f]{{2}} \[[0-9a-f]{{6}}\])"#
        );
        Regex::new(&named).expect("it is fixed")
    });
    let folder = cwd.rsplit('/').next().unwrap_or_default().to_owned();
    NAMED.captures_iter(text).flat_map(move |found| {
        let whole = found.get(0).expect("it matched").as_str();
        match (found.get(1), found.get(2)) {
            (Some(name), _) => vec![name.as_str()],
            (None, Some(base)) if base.as_str() == folder => {
                let (name, reference) = whole.split_once(" [").expect("it has a reference");
                let name = name.rsplit(' ').next().unwrap_or_default();
                vec![name, reference.trim_end_matches(']')]
            }
            _ => Vec::new(),
        }
    })
}

/// A label that announces the id of something.
const LABEL: &str = r#"(?:(?:\b|_)(?:agent|background|bash|call|conversation|job|message|process|prompt|request|run|session|shell|subagent|task|thread)[\x20_-]?id|\b(?:parent)?uuid)["'`*]*[\x20]?"#;
const BARE: &str = r#"\b(?-i:I[Dd])[:=][\x20"'`*]*"#;
const QUOTES: &str = r#"[\x20"'`*]*"#;

/// Returns the words that a text calls ids. In prose any word may follow `the call id`, so a sign must separate them.
fn called_ids(text: &str) -> impl Iterator<Item = &str> {
    static CALLED: LazyLock<Regex> = LazyLock::new(|| {
        let called = format!(r"(?i)(?:{LABEL}[:=>]{QUOTES}|{BARE})([a-z0-9][a-z0-9_-]*[a-z0-9])");
        RegexBuilder::new(&called).unicode(false).build().expect("it is fixed")
    });
    let words = CALLED.captures_iter(text).map(|found| found.get(1).expect("it is no option").as_str());
    words.filter(|word| may_be_made(word))
}

/// Returns whether a word that is called an id may be one. A name made of words or numbers (`us-east-1`,
/// `nightly-backup`, `2026-11-16`) has a meaning. After a kind (`task_`) the rest decides.
fn may_be_made(word: &str) -> bool {
    let word = without_kind(word);
    let mut parts = word.split(['_', '-']).filter(|part| !part.is_empty());
    let is_one = word.bytes().all(|byte| byte.is_ascii_alphanumeric());
    word.len() >= SHORTEST && (is_one || is_uuid(word.as_bytes()) || parts.all(is_random))
}

/// Returns whether a word has digits elsewhere than at its end.
fn is_made(word: &str) -> bool {
    let word = without_kind(word);
    let name = word.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_numbered = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphabetic());
    word.bytes().any(|byte| byte.is_ascii_digit()) && !is_numbered
}

/// Returns whether a part of a name is neither a number nor a word.
fn is_random(part: &str) -> bool {
    let rest = part.get(1..).unwrap_or_default();
    let is_cased = [u8::is_ascii_lowercase, u8::is_ascii_uppercase]
        .iter()
        .any(|fits| rest.bytes().all(|byte| fits(&byte)));
    let has_vowel = part.bytes().any(|byte| b"aeiou".contains(&byte.to_ascii_lowercase()));
    let is_letters = part.bytes().all(|byte| byte.is_ascii_alphabetic());
    let is_number = part.bytes().all(|byte| byte.is_ascii_digit());
    let is_word = is_letters && is_cased && has_vowel;
    !is_number && !is_word
}

/// Returns a word without its leading kind, such as `task_`.
fn without_kind(word: &str) -> &str {
    match word.split_once('_') {
        Some((kind, rest)) if kind.bytes().all(|byte| byte.is_ascii_lowercase()) => rest,
        _ => word,
    }
}

fn word_count(text: &str, word: &str) -> usize {
    let is_part = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    let is_whole = |at: &usize| {
        !is_part(at.checked_sub(1).and_then(|before| bytes.get(before)))
            && !is_part(bytes.get(at + word.len()))
    };
    text.match_indices(word).filter(|(at, _)| is_whole(at)).count()
}

/// Returns whether a word is part of base64 data: a long run without spaces that has long pieces, unlike a path.
fn is_in_data(text: &str, word: &Range<usize>) -> bool {
    const LONG: usize = 96;
    const PIECE: usize = 16;
    let is_data = |byte: &&u8| byte.is_ascii_alphanumeric() || b"+/=".contains(byte);
    let bytes = text.as_bytes();
    let before = bytes[..word.start].iter().rev().take_while(is_data).count();
    let after = bytes[word.end..].iter().take_while(is_data).count();
    let run = &bytes[word.start - before..word.end + after];
    let cuts = run.iter().filter(|byte| b"+/".contains(byte)).count();
    run.len() >= LONG && run.len() / (cuts + 1) >= PIECE
}

/// Returns the words of a text: runs of letters and digits, known ids, and ids with dashes.
fn words<'t>(text: &'t str, known: &'t HashSet<String>) -> impl Iterator<Item = Range<usize>> + 't {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() && !bytes[at].is_ascii_alphanumeric() {
            at += 1;
        }
        if at == bytes.len() {
            return None;
        }
        let start = at;
        if is_uuid(&bytes[start..]) {
            at = start + UUID;
            return Some(start..at);
        }
        while at < bytes.len() && bytes[at].is_ascii_alphanumeric() {
            at += 1;
        }
        if matches!(bytes.get(at), Some(b'_' | b'-')) {
            let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
            let wide = at + bytes[at..].iter().take_while(|byte| is_part(byte)).count();
            if known.contains(&text[start..wide]) {
                at = wide;
            }
        }
        Some(start..at)
    })
}

const UUID: usize = 36;

fn is_uuid(bytes: &[u8]) -> bool {
    let Some(uuid) = bytes.get(..UUID) else { return false };
    let fits = |(at, byte): (usize, &u8)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    uuid.iter().enumerate().all(fits)
}
