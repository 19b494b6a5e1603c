//! Words that may be names a harness made up: ids, numbers with letters, paths.

use std::borrow::Cow;

use similar::{Algorithm, DiffOp, capture_diff_slices};

/// Shortest word of letters alone that may be an id.
const ID: usize = 6;
/// Shortest one with letters and digits.
const SHORT: usize = 3;
/// Shortest number that may be one.
const NUMBER: usize = 4;
/// Longest unit behind a number.
const UNIT: usize = 2;
/// Shortest words with a dash between them.
const DASHED: usize = 8;
/// Texts with more words than this are not aligned.
const MANY: usize = 200_000;

/// A text as words, paths and single other characters.
pub(super) fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match rest.find(|c: char| !(is_word(c) || matches!(c, '/' | '.' | '~'))) {
            Some(0) => first.len_utf8(),
            Some(length) => length,
            None => rest.len(),
        };
        let (run, behind) = rest.split_at(length);
        rest = behind;
        if run.contains('/') {
            // The full stop behind a path ends the sentence.
            let path = run.trim_end_matches('.');
            tokens.push(path);
            tokens.extend(run[path.len()..].split_inclusive(|_: char| true));
        } else {
            tokens.extend(run.split_inclusive(['.', '~']).flat_map(|part| {
                let word = part.trim_end_matches(['.', '~']);
                [word, &part[word.len()..]].into_iter().filter(|token| !token.is_empty())
            }));
        }
    }
    tokens
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-')
}

fn is_path(token: &str) -> bool {
    token.starts_with('/') && token.len() > 1
}

/// Whether a word looks like a name that was made up: letters with digits, many digits, hex, capitals, or words with a
/// dash between them. A word of any language is none.
fn is_id(token: &str) -> bool {
    let count = |is: fn(&u8) -> bool| token.bytes().filter(is).count();
    let digits = count(u8::is_ascii_digit);
    let letters = count(u8::is_ascii_alphabetic);
    let long = token.len() >= ID;
    let is_hex = long && token.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_capitals = long && count(u8::is_ascii_uppercase) == token.len();
    let is_dashed = token.len() >= DASHED && token.trim_matches('-').contains('-') && digits == 0;
    token.chars().all(is_word)
        && ((digits > 0 && letters > 0 && token.len() >= SHORT)
            || digits >= NUMBER
            || is_hex
            || is_capitals
            || is_dashed)
}

/// Whether only a machine makes such a name: a path, or letters and digits that no word mixes. A number, a count (`1st`,
/// `20ms`), a version (`utf8`, `step-3`) and words with a dash between them (`read-only`) may be anybody's.
pub(super) fn is_made(name: &str) -> bool {
    let is_numbered = || has_both(name) && !is_count(name) && longest_number(name) >= NUMBER;
    is_path(name) || name.split(['-', '_']).any(is_mixed) || is_numbered()
}

/// Hex with digits in it, or letters between digits.
fn is_mixed(part: &str) -> bool {
    let is_digit = |pair: &[u8]| [pair[0].is_ascii_digit(), pair[1].is_ascii_digit()];
    let turns = part.as_bytes().windows(2).filter(|pair| is_digit(pair)[0] != is_digit(pair)[1]).count();
    let is_hex = part.bytes().all(|byte| byte.is_ascii_hexdigit());
    part.len() >= ID && has_both(part) && (is_hex || turns > 1)
}

/// A number and what it counts.
fn is_count(word: &str) -> bool {
    let unit = word.trim_start_matches(|c: char| c.is_ascii_digit());
    unit.len() < word.len() && unit.len() <= UNIT && unit.bytes().all(|byte| byte.is_ascii_alphabetic())
}

fn has_both(word: &str) -> bool {
    word.bytes().any(|byte| byte.is_ascii_digit()) && word.bytes().any(|byte| byte.is_ascii_alphabetic())
}

fn longest_number(word: &str) -> usize {
    word.split(|c: char| !c.is_ascii_digit()).map(str::len).max().unwrap_or_default()
}

/// What in a text may be a name: ids, also inside of paths, and paths with all folders above them.
pub(super) fn names(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let tokens = tokens(text);
    let mut start = 0;
    for (at, token) in tokens.iter().copied().enumerate() {
        if token.contains('/') && !is_path(token) {
            names.extend(words(token).filter(|word| is_id(word)));
        } else if is_path(token) {
            let ends = token.match_indices('/').map(|(at, _)| at).filter(|at| *at > 0);
            // The root's own folders (`/tmp`, `/home`) name nobody.
            names.extend(ends.skip(1).map(|end| &token[..end]));
            names.push(token.trim_end_matches('/'));
            names.extend(words(token).filter(|word| is_id(word)));
            names
                .extend(rest_of_path(&tokens[at + 1..]).map(|rest| &text[start..start + token.len() + rest]));
        } else if is_id(token) {
            names.push(token);
        }
        start += token.len();
    }
    names
}

/// How long the rest of a path is that may have a folder with spaces in it: a few words, and one that goes on with `/`.
fn rest_of_path(behind: &[&str]) -> Option<usize> {
    const WORDS: usize = 3;
    let pairs = behind.chunks_exact(2).take(WORDS).take_while(|pair| pair[0] == " ");
    let end = pairs.clone().position(|pair| pair[1].contains('/'))?;
    let is_rest = !is_path(behind[2 * end + 1]);
    is_rest.then(|| behind[..2 * end + 2].iter().map(|token| token.len()).sum())
}

fn words(path: &str) -> impl Iterator<Item = &str> {
    path.split(|c: char| !is_word(c)).filter(|word| !word.is_empty())
}

/// Words that a text calls ids: `ID: bqwertyui`, `task_id=…`, `<agent-id>…`. They may be of letters alone.
pub(super) fn labelled(text: &str) -> Vec<&str> {
    const BETWEEN: usize = 3;
    let tokens = tokens(text);
    let is_label = |token: &str| {
        let small = token.to_ascii_lowercase();
        small == "id" || small.ends_with("_id") || small.ends_with("-id") || token.ends_with("Id")
    };
    let follows_label = |at: usize| {
        let before = || tokens[..at].iter().rev();
        let marks = || before().take_while(|token| !token.starts_with(is_word)).take(BETWEEN);
        let says = marks().any(|mark| matches!(*mark, ":" | "=" | ">"));
        says && before().nth(marks().count()).is_some_and(|token| is_label(token))
    };
    let is_long = |token: &str| token.len() >= ID && token.chars().all(is_word);
    let found = (0..tokens.len()).filter(|at| is_long(tokens[*at]) && follows_label(*at));
    found.map(|at| tokens[at]).collect()
}

/// What stands in `new` where the names stand in `old`: pairs of a name and its counterpart, both equal where
/// nothing changed.
pub(super) fn align<'n>(old: &str, new: &str, wanted: &[&'n str]) -> Vec<(&'n str, String)> {
    let called = labelled(new);
    let spaced = wanted.iter().copied().filter(|name| name.contains(' '));
    let spaced: Vec<_> = spaced.filter_map(|name| Some((name, in_its_line(name, old, new)?))).collect();
    let (old, new) = (tokens(old), tokens(new));
    if old.len().max(new.len()) > MANY {
        return Vec::new();
    }
    let mut pairs = spaced;
    for op in capture_diff_slices(Algorithm::Myers, &old, &new) {
        for (old, new) in opposite(&op, &old, &new) {
            let is_called = called.contains(&&*new);
            for name in wanted {
                if pairs.iter().all(|(known, _)| known != name) {
                    pairs.extend(counterpart(name, old, &new, is_called).map(|found| (*name, found)));
                }
            }
        }
    }
    let missing: Vec<&'n str> =
        wanted.iter().copied().filter(|name| pairs.iter().all(|(known, _)| known != name)).collect();
    pairs.extend(in_sequence(&old, &new, &missing));
    pairs
}

/// What a path with spaces has become: what stands in the line that is otherwise the same, if it is the same file.
fn in_its_line(name: &str, old: &str, new: &str) -> Option<String> {
    let (before, behind) = old.lines().find_map(|line| line.split_once(name))?;
    let inside = |line: &'_ str| Some(line.strip_prefix(before)?.strip_suffix(behind)?.to_owned());
    new.lines().find_map(inside).filter(|found| is_path(found) && file(found) == file(name))
}

/// What a path ends with.
fn file(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// Where the words around them changed too much, the ids still come in their order.
fn in_sequence<'n>(old: &[&str], new: &[&str], wanted: &[&'n str]) -> Vec<(&'n str, String)> {
    let ids = |tokens: &[&str]| -> Vec<String> {
        let mut ids: Vec<String> = Vec::new();
        for token in tokens.iter().filter(|token| is_id(token)) {
            if !ids.iter().any(|known| known == token) {
                ids.push((*token).to_owned());
            }
        }
        ids
    };
    let (old, new) = (ids(old), ids(new));
    if old.len() != new.len() {
        return Vec::new();
    }
    let at = |name: &&str| old.iter().position(|id| id == name);
    wanted.iter().filter_map(|name| Some((*name, new[at(name)?].clone()))).collect()
}

/// The tokens that stand opposite of each other.
fn opposite<'t>(op: &DiffOp, old: &[&'t str], new: &[&'t str]) -> Vec<(&'t str, Cow<'t, str>)> {
    let (before, behind) = (&old[op.old_range()], &new[op.new_range()]);
    if before.len() == behind.len() {
        return before.iter().copied().zip(behind.iter().map(|token| Cow::Borrowed(*token))).collect();
    }
    if let [path] = before
        && is_path(path)
    {
        return broken_path(path, behind).map(|whole| (*path, Cow::Owned(whole))).into_iter().collect();
    }
    // A lone name among words that changed has its counterpart in the lone name there.
    let lone = |tokens: &[&'t str], is: fn(&str) -> bool| {
        let mut found = tokens.iter().copied().filter(|token| is(token));
        found.next().filter(|_| found.next().is_none())
    };
    [is_id as fn(&str) -> bool, is_path]
        .into_iter()
        .filter_map(|is| lone(before, is).zip(lone(behind, is).map(Cow::Borrowed)))
        .collect()
}

/// What a path has become that stands opposite of several words: one of them, or all, if there is a space or a quote in
/// it now; whichever ends in the same file. A piece of it would be another path.
fn broken_path(old: &str, new: &[&str]) -> Option<String> {
    let fits = |path: &str| is_path(path) && !path.contains('\n') && file(path) == file(old);
    let one = new.iter().find(|token| fits(token)).map(|token| (*token).to_owned());
    one.or_else(|| Some(new.concat()).filter(|whole| fits(whole)))
}

/// What a name has become, where `old` became `new`.
fn counterpart(name: &str, old: &str, new: &str, is_called: bool) -> Option<String> {
    if old == name {
        // Of letters alone it may be a word about the id, such as `unknown`: ids of one kind are of one length.
        let is_called = is_called && name.len() == new.len();
        let alike = is_path(name) == is_path(new) && (is_path(new) || is_id(new) || is_called);
        return alike.then(|| new.trim_end_matches('/').to_owned());
    }
    if !old.contains('/') || !new.contains('/') {
        return None;
    }
    if is_path(name) {
        let below = old.strip_prefix(name).filter(|below| below.starts_with('/'))?;
        return new.strip_suffix(below).map(str::to_owned);
    }
    let (olds, news): (Vec<&str>, Vec<&str>) = (words(old).collect(), words(new).collect());
    let at = olds.iter().position(|word| *word == name)?;
    // Counted from the end: folders above may be more or fewer.
    let found = news.len().checked_sub(olds.len() - at).and_then(|at| news.get(at))?;
    is_id(found).then(|| (*found).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aligned(old: &str, new: &str, names: &[&str]) -> String {
        let mut pairs = align(old, new, names);
        pairs.sort_by_key(|(name, _)| names.iter().position(|wanted| wanted == name));
        pairs.iter().map(|(old, new)| format!("{old}={new}")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn names_are_ids_and_paths() {
        let text = "agentId: a1b2c3d, see /tmp/box/7/ws/src/lib.rs. It took 3s (bg_12ab34).";
        assert_eq!(
            names(text).join(" "),
            "a1b2c3d /tmp/box /tmp/box/7 /tmp/box/7/ws /tmp/box/7/ws/src /tmp/box/7/ws/src/lib.rs bg_12ab34"
        );
        assert!(names("just words, 12 of 34, and running").is_empty());
        assert_eq!(
            names("job-7 4711 brave-otter ABCDEFGH src/a1b2c3d4/x").join(" "),
            "job-7 4711 brave-otter ABCDEFGH a1b2c3d4"
        );
    }

    #[test]
    fn what_only_a_machine_makes() {
        let made = "a1b2c3d job_0011aa job_ccddee9 job_445566 bg_12ab34 ses_4567cdefXyZ 1m7g0ff540070000-2-0 \
                    550e8400-e29b-41d4-a716-446655440000 /tmp/box";
        let any = "read-only fast-forward brave-otter 1st 2nd 4711 20000ms 2026-01-01 utf8 sha256 x86_64 step-3 job-7 \
                   e2e-tests i18n k8s ABCDEFGH facade";
        assert_eq!(made.split_whitespace().filter(|name| !is_made(name)).collect::<Vec<_>>(), [""; 0]);
        assert_eq!(any.split_whitespace().filter(|name| is_made(name)).collect::<Vec<_>>(), [""; 0]);
    }

    #[test]
    fn what_stands_at_the_same_place() {
        assert_eq!(
            aligned("agentId: a1b2c3d done", "agentId: f9e8d7c done", &["a1b2c3d"]),
            "a1b2c3d=f9e8d7c"
        );
        assert_eq!(aligned("id a1b2c3d", "id a1b2c3d", &["a1b2c3d"]), "a1b2c3d=a1b2c3d");
        assert_eq!(aligned("id a1b2c3d", "id unknown", &["a1b2c3d"]), "");
    }

    #[test]
    fn folders_may_move_and_be_deeper() {
        let names = ["/tmp/box/7/ws", "a1b2c3d"];
        let old = "in /tmp/box/7/ws\nout /tmp/box/7/ws/tasks/a1b2c3d.output";
        let new = "in /home/somebody/ws\nout /home/somebody/ws/tasks/e5f6a7b.output";
        assert_eq!(aligned(old, new, &names), "/tmp/box/7/ws=/home/somebody/ws a1b2c3d=e5f6a7b");
    }

    #[test]
    fn a_word_more_does_not_move_the_rest() {
        let old = "started ses_0123abcd and ses_4567cdef";
        let new = "well, started now ses_89abaaa1 and ses_cdef0bbb too";
        assert_eq!(
            aligned(old, new, &["ses_0123abcd", "ses_4567cdef"]),
            "ses_0123abcd=ses_89abaaa1 ses_4567cdef=ses_cdef0bbb"
        );
    }
}
