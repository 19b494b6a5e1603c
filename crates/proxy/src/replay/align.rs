//! Finds the counterparts of names in a text that is the same apart from them.

use std::borrow::Cow;

use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::segments::pairs_by_words;
use super::tokens::{is_id, is_path, labelled_ids, path_words, tokens};

/// Maximum number of tokens of a text that is aligned.
const MAX_TOKENS: usize = 200_000;

/// Returns what each name in `old` is called at the same place in `new`. Both are equal if nothing changed.
pub(super) fn align<'n>(old: &str, new: &str, wanted: &[&'n str]) -> Vec<(&'n str, String)> {
    let labelled = labelled_ids(new);
    let spaced = wanted.iter().copied().filter(|name| name.contains(' '));
    let mut pairs: Vec<_> =
        spaced.filter_map(|name| Some((name, path_in_same_line(name, old, new)?))).collect();
    for (name, live) in pairs_by_words(old, new, wanted) {
        if pairs.iter().all(|(known, _)| *known != name) {
            pairs.push((name, live));
        }
    }
    let (old, new) = (tokens(old), tokens(new));
    if old.len().max(new.len()) > MAX_TOKENS {
        return Vec::new();
    }
    for op in capture_diff_slices(Algorithm::Myers, &old, &new) {
        for (old, new) in opposite_tokens(&op, &old, &new) {
            let is_labelled = labelled.contains(&&*new);
            for name in wanted {
                if pairs.iter().all(|(known, _)| known != name) {
                    pairs.extend(counterpart(name, old, &new, is_labelled).map(|found| (*name, found)));
                }
            }
        }
    }
    let missing: Vec<&'n str> =
        wanted.iter().copied().filter(|name| pairs.iter().all(|(known, _)| known != name)).collect();
    pairs.extend(by_sequence(&old, &new, &missing));
    pairs
}

/// Returns the counterpart of a path with spaces: the text in the line that is otherwise equal, if it names the same file.
fn path_in_same_line(name: &str, old: &str, new: &str) -> Option<String> {
    let (before, after) = old.lines().find_map(|line| line.split_once(name))?;
    let inside = |line: &'_ str| Some(line.strip_prefix(before)?.strip_suffix(after)?.to_owned());
    new.lines().find_map(inside).filter(|found| is_path(found) && file_name(found) == file_name(name))
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// Pairs the ids of both texts by their order. The words around them may have changed too much for a diff.
fn by_sequence<'n>(old: &[&str], new: &[&str], wanted: &[&'n str]) -> Vec<(&'n str, String)> {
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

/// Returns the pairs of tokens that a diff puts opposite each other.
fn opposite_tokens<'t>(op: &DiffOp, old: &[&'t str], new: &[&'t str]) -> Vec<(&'t str, Cow<'t, str>)> {
    let (old, new) = (&old[op.old_range()], &new[op.new_range()]);
    if old.len() == new.len() {
        return old.iter().copied().zip(new.iter().map(|token| Cow::Borrowed(*token))).collect();
    }
    if let [path] = old
        && is_path(path)
    {
        return joined_path(path, new).map(|whole| (*path, Cow::Owned(whole))).into_iter().collect();
    }
    // The only name among words that changed corresponds to the only name there.
    let only = |tokens: &[&'t str], is: fn(&str) -> bool| {
        let mut found = tokens.iter().copied().filter(|token| is(token));
        found.next().filter(|_| found.next().is_none())
    };
    [is_id as fn(&str) -> bool, is_path]
        .into_iter()
        .filter_map(|is| only(old, is).zip(only(new, is).map(Cow::Borrowed)))
        .collect()
}

/// Returns the counterpart of a path that is opposite several tokens: one of them, or all of them if the path now contains
/// a space or a quote. It must name the same file, because a piece of it would be another path.
fn joined_path(old: &str, new: &[&str]) -> Option<String> {
    let fits = |path: &str| is_path(path) && !path.contains('\n') && file_name(path) == file_name(old);
    let one = new.iter().find(|token| fits(token)).map(|token| (*token).to_owned());
    one.or_else(|| Some(new.concat()).filter(|whole| fits(whole)))
}

/// Returns the counterpart of a name, given that the token `old` became `new`.
fn counterpart(name: &str, old: &str, new: &str, is_labelled: bool) -> Option<String> {
    if old == name {
        // A labelled word of letters may describe the id, such as `unknown`. Ids of one kind have one length.
        let is_labelled = is_labelled && name.len() == new.len();
        let is_alike = is_path(name) == is_path(new) && (is_path(new) || is_id(new) || is_labelled);
        return is_alike.then(|| new.trim_end_matches('/').to_owned());
    }
    if !old.contains('/') || !new.contains('/') {
        return None;
    }
    if is_path(name) {
        let below = old.strip_prefix(name).filter(|below| below.starts_with('/'))?;
        return new.strip_suffix(below).map(str::to_owned);
    }
    let (olds, news): (Vec<&str>, Vec<&str>) = (path_words(old).collect(), path_words(new).collect());
    let at = olds.iter().position(|word| *word == name)?;
    // Counted from the end, because the number of folders above may differ.
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
    fn a_name_has_its_counterpart_at_the_same_place() {
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
        let new = "in /home/user/ws\nout /home/user/ws/tasks/e5f6a7b.output";
        assert_eq!(aligned(old, new, &names), "/tmp/box/7/ws=/home/user/ws a1b2c3d=e5f6a7b");
    }

    #[test]
    fn an_additional_word_does_not_move_the_rest() {
        let old = "started ses_0123abcd and ses_4567cdef";
        let new = "well, started now ses_89abaaa1 and ses_cdef0bbb too";
        assert_eq!(
            aligned(old, new, &["ses_0123abcd", "ses_4567cdef"]),
            "ses_0123abcd=ses_89abaaa1 ses_4567cdef=ses_cdef0bbb"
        );
    }
}
