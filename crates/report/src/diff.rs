//! Word-wise difference of two texts.

use similar::{Algorithm, DiffTag, capture_diff_slices};

/// A part of two texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'t> {
    /// In both texts.
    Same(&'t str),
    /// Only in the old text.
    Gone(&'t str),
    /// Only in the new text.
    New(&'t str),
}

/// Splits two texts into equal and different parts, in order. Adjacent parts of a kind are merged.
pub(crate) fn pieces<'t>(old: &'t str, new: &'t str) -> Vec<Piece<'t>> {
    let (a, b) = (words(old), words(new));
    let (mut in_old, mut in_new) =
        (WordCursor { text: old, words: a.iter() }, WordCursor { text: new, words: b.iter() });
    let mut found = Vec::new();
    for change in capture_diff_slices(Algorithm::Myers, &a, &b) {
        let (gone, come) = (in_old.take(change.old_range().len()), in_new.take(change.new_range().len()));
        match change.tag() {
            DiffTag::Equal => found.push(Piece::Same(gone)),
            DiffTag::Delete => found.push(Piece::Gone(gone)),
            DiffTag::Insert => found.push(Piece::New(come)),
            DiffTag::Replace => found.extend([Piece::Gone(gone), Piece::New(come)]),
        }
    }
    found
}

struct WordCursor<'t, 'w> {
    text: &'t str,
    words: std::slice::Iter<'w, &'w str>,
}

impl<'t> WordCursor<'t, '_> {
    fn take(&mut self, words: usize) -> &'t str {
        let length = self.words.by_ref().take(words).map(|word| word.len()).sum();
        let (taken, rest) = self.text.split_at(length);
        self.text = rest;
        taken
    }
}

/// Splits a text into words, spaces, and single other characters.
fn words(text: &str) -> Vec<&str> {
    #[derive(PartialEq, Eq)]
    enum CharKind {
        Word,
        Space,
        Other,
    }
    let kind = |c: char| match c {
        c if c.is_alphanumeric() || c == '_' => CharKind::Word,
        c if c.is_whitespace() => CharKind::Space,
        _ => CharKind::Other,
    };
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let here = kind(first);
        let end = match here {
            CharKind::Other => first.len_utf8(),
            _ => rest.find(|c| kind(c) != here).unwrap_or(rest.len()),
        };
        let (word, behind) = rest.split_at(end);
        words.push(word);
        rest = behind;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(old: &str, new: &str, expected: &str) {
        let pieces = pieces(old, new);
        let draw = |piece: &Piece<'_>| match piece {
            Piece::Same(text) => (*text).to_owned(),
            Piece::Gone(text) => format!("[-{text}-]"),
            Piece::New(text) => format!("[+{text}+]"),
        };
        assert_eq!(pieces.iter().map(draw).collect::<String>(), expected);
        let side = |keep: fn(&Piece<'_>) -> bool| -> String {
            let text = |piece: &Piece<'_>| match *piece {
                Piece::Same(text) | Piece::Gone(text) | Piece::New(text) => text.to_owned(),
            };
            pieces.iter().filter(|piece| keep(piece)).map(text).collect()
        };
        assert_eq!(side(|piece| !matches!(piece, Piece::New(_))), old);
        assert_eq!(side(|piece| !matches!(piece, Piece::Gone(_))), new);
    }

    #[test]
    fn words_are_told_apart() {
        check("the old cat", "the new cat", "the [-old-][+new+] cat");
        check("a b c d", "a c d e", "a [-b -]c d[+ e+]");
        check("", "new", "[+new+]");
        check("gone", "", "[-gone-]");
        check("same", "same", "same");
        check("a b", "x a b z", "[+x +]a b[+ z+]");
        check("x=1,y=2", "x=1,z=2", "x=1,[-y-][+z+]=2");
        check("häuser äße", "häuser öße", "häuser [-äße-][+öße+]");
    }
}
