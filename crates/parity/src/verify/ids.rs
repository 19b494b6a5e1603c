//! Ids: one of the golden's stands for one of the candidate's, over the whole recording.
//!
//! Every pair of ids at aligned places is an observation. What stands for what is decided when all have been seen,
//! by the most observations; one that goes against it is a conflict, at its own place.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::LazyLock;

use regex::{Regex, RegexBuilder};

use crate::verdict::Surface;

/// Shortest word that may be an id by its looks.
const SHORTEST: usize = 6;

/// Where two ids were seen to stand for each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) surface: Surface,
    pub(super) lane: String,
    pub(super) turn: u32,
    pub(super) pointer: String,
}

/// All observations.
#[derive(Debug, Default)]
pub(super) struct Ids {
    /// Ids that were seen in places made for them, on either side, and words that are called ids.
    known: HashSet<String>,
    /// Words that are called ids in the golden and in the candidate, whatever they look like.
    called: [HashSet<String>; 2],
    seen: HashMap<(String, String), Seen>,
    /// The words that were seen as ids, the golden's and the candidate's.
    words: [HashSet<String>; 2],
    /// How often each word that looks like an id stands in the golden and in the candidate, and those that name jobs.
    standing: [HashMap<String, u32>; 2],
    jobs: [HashSet<String>; 2],
    order: usize,
}

#[derive(Debug)]
struct Seen {
    count: u64,
    first: Place,
    order: usize,
}

/// Two ids at one place of two texts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair<'t> {
    pub(super) golden: &'t str,
    pub(super) candidate: &'t str,
    /// What stands before them says that they are ids.
    pub(super) named: bool,
}

/// A pair of ids that goes against what most places say.
#[derive(Debug)]
pub(super) struct Conflict {
    pub(super) golden: String,
    pub(super) candidate: String,
    pub(super) place: Place,
    /// What the golden's id stands for elsewhere; nothing where it is the candidate's id that is taken.
    pub(super) elsewhere: Option<String>,
}

impl Ids {
    /// No observation yet; these are known to be ids, whatever they look like.
    pub(super) fn knowing(known: HashSet<String>) -> Self {
        Self { known, ..Self::default() }
    }

    /// A text that the harness or a tool made: what it calls ids are ids. A word of letters alone, or with a number
    /// behind it, may be one that describes an id (`task_id: string`, `message ID: Error404`), so it counts where its
    /// recording says it more than once.
    pub(super) fn learn(&mut self, side: usize, text: &str) {
        for word in called_ids(text) {
            if is_made(word) || word_count(text, word) > 1 || self.called[side].contains(word) {
                self.known.insert(word.to_owned());
            }
            self.called[side].insert(word.to_owned());
        }
    }

    /// A text of a side, once however often its requests repeat it.
    pub(super) fn count(&mut self, side: usize, text: &str) {
        let found: Vec<Range<usize>> = words(text, &self.known).collect();
        for word in found.into_iter().map(|range| &text[range]).filter(|word| may_be_id(word)) {
            *self.standing[side].entry(word.to_owned()).or_default() += 1;
        }
    }

    /// A word by which a side names a job.
    pub(super) fn names_a_job(&mut self, side: usize, word: &str) {
        self.jobs[side].extend(word.split(['_', '-']).chain([word]).map(str::to_owned));
    }

    /// Whether two words that look like ids may stand for each other: what is made to name a thing is there for
    /// another place to name it too. A checksum, or any other value that stands once, is a value.
    pub(super) fn may_pair(&self, golden: &str, candidate: &str) -> bool {
        [golden, candidate].iter().enumerate().all(|(side, word)| {
            let often = self.standing[side].get(*word).is_some_and(|count| *count > 1);
            often || self.known.contains(*word) || self.jobs[side].contains(*word)
        })
    }

    /// Two ids stand at one place.
    pub(super) fn observe(&mut self, golden: &str, candidate: &str, place: impl FnOnce() -> Place) {
        for (words, word) in self.words.iter_mut().zip([golden, candidate]) {
            if !words.contains(word) {
                words.insert(word.to_owned());
            }
        }
        self.order += 1;
        let order = self.order;
        let seen = self.seen.entry((golden.to_owned(), candidate.to_owned()));
        seen.or_insert_with(|| Seen { count: 0, first: place(), order }).count += 1;
    }

    /// Whether both have been seen as ids, each on its side, whatever they stand for.
    pub(super) fn were_seen(&self, golden: &str, candidate: &str) -> bool {
        let is_known = |side: usize, word: &str| self.words[side].contains(word) || self.known.contains(word);
        is_known(0, golden) && is_known(1, candidate)
    }

    /// Whether a word is an id, alone by its looks or because it was seen as one.
    fn is_id(&self, word: &str) -> bool {
        looks_like_id(word) || self.known.contains(word)
    }

    /// Whether two different words at one place are ids.
    fn are_ids(&self, golden: &str, candidate: &str) -> bool {
        let (g, c) = (golden, candidate);
        let known = [g, c].map(|word| self.known.contains(word));
        let called = self.called[0].contains(g) && self.called[1].contains(c);
        if known == [true, true] || (called && known != [false, false]) {
            return true;
        }
        // Eight random hex digits may all be digits, or all letters.
        let hex = |word: &str| word.bytes().all(|byte| byte.is_ascii_hexdigit());
        (looks_like_id(g) && looks_like_id(c))
            || (g.len() == c.len()
                && g.len() >= SHORTEST
                && (looks_like_id(g) || looks_like_id(c))
                && hex(g)
                && hex(c))
    }

    /// The ids in one text, each standing for itself.
    pub(super) fn observe_same(&mut self, text: &str, place: impl Fn() -> Place) -> u64 {
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

    /// The pairs of ids that make two different texts the same; `None` where they differ in more than ids.
    pub(super) fn pairs<'t>(&self, golden: &'t str, candidate: &'t str) -> Option<Vec<Pair<'t>>> {
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
            let named = g_word != c_word && is_named(&golden[..g.start]);
            let pair = Pair { golden: g_word, candidate: c_word, named };
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

    /// What stands for what, and what goes against it.
    pub(super) fn resolve(self) -> (Vec<(String, String)>, Vec<Conflict>) {
        let mut seen: Vec<((String, String), Seen)> = self.seen.into_iter().collect();
        seen.sort_by_key(|((golden, candidate), seen)| {
            (std::cmp::Reverse(seen.count), golden != candidate, seen.order)
        });
        let (mut forth, mut back) = (HashMap::<String, String>::new(), HashSet::<String>::new());
        let mut pairs = Vec::new();
        let mut conflicts = Vec::new();
        for ((golden, candidate), seen) in seen {
            if forth.contains_key(&golden) || back.contains(&candidate) {
                let elsewhere = forth.get(&golden).cloned();
                conflicts.push((seen.order, Conflict { golden, candidate, place: seen.first, elsewhere }));
                continue;
            }
            forth.insert(golden.clone(), candidate.clone());
            back.insert(candidate.clone());
            pairs.push((seen.order, (golden, candidate)));
        }
        pairs.sort_by_key(|(order, _)| *order);
        conflicts.sort_by_key(|(order, _)| *order);
        let pairs = pairs.into_iter().map(|(_, pair)| pair).filter(|(golden, candidate)| golden != candidate);
        (pairs.collect(), conflicts.into_iter().map(|(_, conflict)| conflict).collect())
    }
}

/// Eight random hex digits may all be digits, or all letters: a word that is an id where its counterpart looks like one.
fn may_be_id(word: &str) -> bool {
    let hex = || word.len() >= SHORTEST && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    looks_like_id(word) || hex()
}

/// Whether what stands before a word says that it is an id, and of what: `agentId: `, `session_id=ses_`, `toolu_`.
fn is_named(before: &str) -> bool {
    static LABELLED: LazyLock<Regex> = LazyLock::new(|| {
        let kinds = "agent|bg|call|fc|job|msg|prt|req|resp|rs|run|ses|task|thread|toolu";
        // What looks like an id needs nothing between it and its label.
        let label =
            format!(r"(?i)(?:{LABEL}[:=>]?{QUOTES}|{BARE})(?:[a-z]+_)?$|(?:^|[^a-z0-9])(?:{kinds})_$");
        Regex::new(&label).expect("it is fixed")
    });
    const LONGEST: usize = 48;
    let from = before.ceil_char_boundary(before.len().saturating_sub(LONGEST));
    LABELLED.is_match(&before[from..])
}

/// What says that an id of something follows.
const LABEL: &str = r#"(?:\b|_)(?:agent|background|bash|call|conversation|job|message|process|request|run|session|shell|subagent|task|thread)[\x20_-]?id["'`*]*[\x20]?"#;
const BARE: &str = r#"\b(?-i:I[Dd])[:=][\x20"'`*]*"#;
const QUOTES: &str = r#"[\x20"'`*]*"#;

/// The words that a text calls ids. In prose any word may come behind `the call id`, so a sign must stand between them.
fn called_ids(text: &str) -> impl Iterator<Item = &str> {
    static CALLED: LazyLock<Regex> = LazyLock::new(|| {
        let called = format!(r"(?i)(?:{LABEL}[:=>]{QUOTES}|{BARE})([a-z0-9][a-z0-9_-]*[a-z0-9])");
        RegexBuilder::new(&called).unicode(false).build().expect("it is fixed")
    });
    let words = CALLED.captures_iter(text).map(|found| found.get(1).expect("it is no option").as_str());
    words.filter(|word| may_be_made(word))
}

/// Whether a word that is called an id may be one: a name that is put together from words or numbers (`us-east-1`,
/// `nightly-backup`, `2026-11-16`) says something to somebody. Behind a kind (`task_`) the rest tells.
fn may_be_made(word: &str) -> bool {
    let word = without_kind(word);
    let mut parts = word.split(['_', '-']).filter(|part| !part.is_empty());
    let is_one = word.bytes().all(|byte| byte.is_ascii_alphanumeric());
    word.len() >= SHORTEST && (is_one || is_uuid(word.as_bytes()) || parts.all(is_random))
}

/// Whether a word that may be made is so by its looks: it has digits, and not only behind a word.
fn is_made(word: &str) -> bool {
    let word = without_kind(word);
    let name = word.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_numbered = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphabetic());
    word.bytes().any(|byte| byte.is_ascii_digit()) && !is_numbered
}

/// A part of a name that is neither a number nor a word.
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

/// A word without the kind of thing that it begins with: `task_`.
fn without_kind(word: &str) -> &str {
    match word.split_once('_') {
        Some((kind, rest)) if kind.bytes().all(|byte| byte.is_ascii_lowercase()) => rest,
        _ => word,
    }
}

fn word_count(text: &str, word: &str) -> usize {
    let is_part = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    let stands = |at: &usize| {
        !is_part(at.checked_sub(1).and_then(|before| bytes.get(before)))
            && !is_part(bytes.get(at + word.len()))
    };
    text.match_indices(word).filter(|(at, _)| stands(at)).count()
}

/// Whether a word is a piece of data in base64: part of a long run without space whose pieces are long too, as those of
/// a path are not.
fn is_in_data(text: &str, word: &Range<usize>) -> bool {
    const LONG: usize = 96;
    const PIECE: usize = 16;
    let is_data = |byte: &&u8| byte.is_ascii_alphanumeric() || b"+/=".contains(byte);
    let bytes = text.as_bytes();
    let before = bytes[..word.start].iter().rev().take_while(is_data).count();
    let behind = bytes[word.end..].iter().take_while(is_data).count();
    let run = &bytes[word.start - before..word.end + behind];
    let cuts = run.iter().filter(|byte| b"+/".contains(byte)).count();
    run.len() >= LONG && run.len() / (cuts + 1) >= PIECE
}

/// Letters and digits, both, and no ordinary word with a number behind it.
pub(super) fn looks_like_id(word: &str) -> bool {
    let bytes = word.as_bytes();
    if bytes.len() < SHORTEST || !bytes.iter().any(u8::is_ascii_digit) {
        return false;
    }
    if !bytes.iter().any(u8::is_ascii_alphabetic) {
        return false;
    }
    let hex = bytes.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'-');
    // `sha256` has one run of digits, `v1beta1` two of one each; what is random changes more often, or is long.
    let turns = bytes.windows(2).filter(|two| two[0].is_ascii_digit() != two[1].is_ascii_digit()).count();
    let digits = bytes.iter().filter(|byte| byte.is_ascii_digit()).count();
    hex || (turns >= 3 && digits >= 3) || bytes.len() >= 20
}

/// Whether a value, such as a header's, has something in it that looks like an id.
pub(super) fn is_made_up(value: &str) -> bool {
    value.split(|c: char| !c.is_ascii_alphanumeric()).any(looks_like_id)
}

/// The words of a text: runs of letters and digits; ids that are known, and those with dashes in them, whole.
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
