//! Text that changes from day to day, session to session, or machine to machine.

use std::ops::Range;

use wire::json::{Document, Value};

use crate::dates::{clock, date, timestamp};
use crate::lint::{LintFinding, LintRule};
use crate::prompt::{CachePrompt, PromptBlockKind};
use crate::report::LaneOpening;
use crate::section::Section;

/// Known circumstances of a recording. Without them, everything that looks volatile counts.
#[derive(Clone, Debug, Default)]
pub struct RecordingContext {
    /// Day, such as `2026-11-15`.
    pub day: Option<String>,
    /// Folders of the harness: workspace and HOME.
    pub folders: Vec<String>,
}

/// Folders that differ between users or machines.
const PERSONAL: [&str; 8] =
    ["/home/", "/Users/", "/root/", "/tmp/", "/private/", "/var/folders/", "C:\\Users\\", "c:\\Users\\"];
/// Folders of containers. They are short, so they must be at the start of a path.
const CONTAINERS: [&str; 3] = ["/work/", "/workspace/", "/workspaces/"];
/// Hashes that are common in examples.
const EXAMPLES: [&str; 5] = ["abc1234", "a1b2c3d", "1a2b3c4", "abc123d", "1234abc"];
/// Phrases of `git status` and of harnesses that quote it.
const GIT: [&str; 7] = [
    "gitStatus:",
    "On branch ",
    "Current branch:",
    "Recent commits:",
    "nothing to commit",
    "HEAD is now at ",
    "Changes not staged",
];

/// Finds volatile texts in the marked part of a lane's first request, at most one of each kind. At the start of
/// the messages, texts may change with the day and the folder but not with the conversation. Later messages are
/// sent once and do not change.
pub fn find_volatile(opening: &LaneOpening, body: &[u8], around: &RecordingContext) -> Vec<LintFinding> {
    let Some(last) = opening.prompt.marks.last() else { return Vec::new() };
    let mut findings: Vec<(&str, LintFinding)> = Vec::new();
    let head = opening_blocks(&opening.prompt, body);
    for (index, block) in opening.prompt.blocks[..=last.block].iter().enumerate() {
        let kinds: &[_] = match block.section {
            Section::Messages if head.contains(&index) => &KINDS[..OF_CONVERSATIONS],
            Section::Messages => continue,
            _ => &KINDS,
        };
        let text = body.get(block.span.clone()).map(joined_texts).unwrap_or_default();
        for (kind, find) in kinds {
            if findings.iter().any(|(known, _)| known == kind) {
                continue;
            }
            let Some(found) = find(&text, around) else { continue };
            let finding = LintFinding {
                rule: LintRule::Volatile,
                lane: opening.lane.clone(),
                pointer: block.pointer.clone(),
                what: format!("{kind} before the last marker: `{found}`"),
            };
            findings.push((kind, finding));
        }
    }
    findings.into_iter().map(|(_, finding)| finding).collect()
}

type Find = fn(&str, &RecordingContext) -> Option<String>;

/// Kinds of volatile text, those that change with the conversation first.
const KINDS: [(&str, Find); 6] = [
    ("a time", |text, around| clock(text, around.day.as_deref()).map(str::to_owned)),
    ("a timestamp", |text, around| timestamp(text, around.day.as_deref()).map(str::to_owned)),
    ("an id", |text, _| text.split(is_border).find(|word| is_id(word)).map(str::to_owned)),
    ("the state of git", |text, _| find_git_state(text)),
    ("a date", |text, around| date(text, around.day.as_deref()).map(str::to_owned)),
    ("a path", |text, around| find_path(text, &around.folders)),
];
const OF_CONVERSATIONS: usize = 4;

/// Joins the texts of a block.
fn joined_texts(block: &[u8]) -> String {
    let Ok(document) = Document::parse(block) else { return String::from_utf8_lossy(block).into_owned() };
    let texts = document.root().walk().into_iter().filter_map(|value| value.as_str());
    texts.fold(String::new(), |all, text| all + &text + "\n")
}

/// Returns the blocks of the harness before the first reply: all but the last user block, which is the user's
/// own.
fn opening_blocks(prompt: &CachePrompt, body: &[u8]) -> Vec<usize> {
    let Ok(document) = Document::parse(body) else { return Vec::new() };
    let messages = ["messages", "input"].iter().find_map(|list| document.root().get(list));
    let role = |message: &Value<'_, '_>| message.str_at("role").unwrap_or_default().into_owned();
    let is_asking = |it: &Value<'_, '_>| ["user", "system", "developer"].contains(&role(it).as_str());
    let opening = messages.iter().flat_map(Value::items).take_while(is_asking);
    let opening: Vec<(Range<usize>, bool)> = opening.map(|it| (it.span(), role(&it) == "user")).collect();
    let blocks = prompt.blocks.iter().enumerate();
    let of_head = blocks.filter_map(|(index, block)| {
        let (_, is_user) = opening.iter().find(|(span, _)| span.contains(&block.span.start))?;
        (block.kind == PromptBlockKind::Other).then_some((index, *is_user))
    });
    let mut of_head: Vec<(usize, bool)> = of_head.collect();
    if let Some(own) = of_head.iter().rposition(|(_, is_user)| *is_user) {
        of_head.remove(own);
    }
    of_head.into_iter().map(|(index, _)| index).collect()
}

fn is_border(c: char) -> bool {
    !(c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

/// Minimum number of changes between letters and digits in a random word.
const TURNS: usize = 4;

/// Returns whether a word is a UUID, a ULID, a long hexadecimal number, a random word, or a name that ends in
/// one.
fn is_id(word: &str) -> bool {
    let is_hex = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let has_both = |part: &str| {
        part.bytes().any(|byte| byte.is_ascii_digit()) && part.bytes().any(|byte| byte.is_ascii_alphabetic())
    };
    let lengths: Vec<usize> = word.split('-').map(str::len).collect();
    let is_uuid = lengths == [8, 4, 4, 4, 12] && word.split('-').all(is_hex);
    let is_digest = word.len() >= 16 && is_hex(word) && has_both(word);
    let is_named = word.split_once('_').is_some_and(|(name, rest)| {
        let random =
            rest.len() >= 16 && rest.bytes().all(|byte| byte.is_ascii_alphanumeric()) && has_both(rest);
        random && name.bytes().all(|byte| byte.is_ascii_lowercase())
    });
    let turns = |part: &str| {
        let pairs = part.as_bytes().windows(2);
        pairs.filter(|pair| pair[0].is_ascii_digit() != pair[1].is_ascii_digit()).count()
    };
    // Base 32 without letters that look like digits, as in ULIDs and our run ids.
    let is_base32 = |part: &str, other: &[u8]| {
        part.bytes().all(|byte| byte.is_ascii_alphanumeric() && !other.contains(&byte))
    };
    let is_ulid = word.len() == 26 && is_base32(word, b"abcdefghijklmnopqrstuvwxyzILOU");
    let is_run = word.len() == 16 && is_base32(word, b"ABCDEFGHIJKLMNOPQRSTUVWXYZilou");
    let is_drawn = (is_ulid || is_run) && turns(word) >= TURNS;
    let is_numbered = word.rsplit_once(['-', '_']).is_some_and(|(name, rest)| {
        let is_name = name.bytes().all(|byte| byte.is_ascii_lowercase() || b"-_".contains(&byte));
        is_name && rest.len() >= 8 && is_hex(rest) && turns(rest) >= TURNS
    });
    is_uuid || is_digest || is_named || is_drawn || is_numbered
}

fn find_path(text: &str, folders: &[String]) -> Option<String> {
    let known = folders.iter().map(String::as_str).find_map(|folder| text.find(folder));
    let is_begun = |at: &usize| !text[..*at].ends_with(|c: char| c.is_alphanumeric() || "._-~*/".contains(c));
    let in_container = |begin: &str| text.match_indices(begin).map(|(at, _)| at).find(|at| is_begun(at));
    let anywhere = || {
        let personal = PERSONAL.into_iter().find_map(|begin| text.find(begin));
        personal.or_else(|| CONTAINERS.into_iter().find_map(in_container)).filter(|_| folders.is_empty())
    };
    let from = known.or_else(anywhere)?;
    let rest = &text[from..];
    let is_end = |c: char| c.is_whitespace() || ['"', '\'', '`', '<', '>', ')', ','].contains(&c);
    let end = rest.find(is_end).unwrap_or(rest.len());
    Some(rest[..end].chars().take(60).collect())
}

/// Returns the first line of git output, in long or short form.
fn find_git_state(text: &str) -> Option<String> {
    let said = GIT.iter().find_map(|words| text[text.find(words)?..].lines().next());
    let is_state = |line: &&str| is_short_status(line) || is_branch(line);
    let line = said.or_else(|| text.lines().find(is_state)).or_else(|| find_commit(text))?;
    Some(line.chars().take(60).collect())
}

/// Returns whether a line names a branch, as in `branch: feature/x`.
fn is_branch(line: &str) -> bool {
    let Some((what, name)) = line.split_once(':') else { return false };
    let name = name.trim();
    let is_name = |c: char| c.is_ascii_alphanumeric() || "/_.-#".contains(c);
    let words: Vec<&str> = what.split_whitespace().collect();
    let is_branch = words.last().is_some_and(|word| word.eq_ignore_ascii_case("branch")) && words.len() <= 3;
    is_branch && !name.is_empty() && name.chars().all(is_name)
}

/// Returns the first commit, as in `commit 9fceb02`.
fn find_commit(text: &str) -> Option<&str> {
    text.match_indices("ommit ").find_map(|(at, begin)| {
        let from = at + begin.len();
        let rest = &text[from..];
        let hash = &rest[..rest.find(is_border).unwrap_or(rest.len())];
        let is_hex = hash.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        let has_both = hash.bytes().any(|byte| byte.is_ascii_digit()) && hash.bytes().any(|byte| byte > b'9');
        let is_hash = is_hex && has_both && (7..=40).contains(&hash.len()) && !EXAMPLES.contains(&hash);
        is_hash.then(|| text.get(at.checked_sub(1)?..from + hash.len())).flatten()
    })
}

/// Returns whether a line is from `git status --short`, such as ` M src/lib.rs`, `?? notes.md` or `##
/// main...origin/main`.
fn is_short_status(line: &str) -> bool {
    let Some((code, path)) = line.split_at_checked(3) else { return false };
    let is_path = !path.is_empty() && path.split(" -> ").all(|path| !path.contains(char::is_whitespace));
    match code {
        "## " => path.contains("..."),
        "?? " | "!! " => is_path,
        _ => {
            let is_code = |byte: u8| b" MADRCTU".contains(&byte);
            let [one, other, b' '] = *code.as_bytes() else { return false };
            let is_change = is_code(one) && is_code(other) && (one, other) != (b' ', b' ');
            is_change && is_path && path.contains(['/', '.'])
        }
    }
}
