//! What changed between two texts, word by word.

/// Texts whose middles have more pairs of words than this are shown as replaced.
const MOST_PAIRS: usize = 4_000_000;

/// A piece of two texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'t> {
    /// In both.
    Same(&'t str),
    /// In the old one.
    Gone(&'t str),
    /// In the new one.
    New(&'t str),
}

/// The pieces of which both texts are made, in order; neighbours of a kind are one.
pub(crate) fn pieces<'t>(old: &'t str, new: &'t str) -> Vec<Piece<'t>> {
    let (a, b) = (words(old), words(new));
    let head = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
    let tail = a[head..].iter().rev().zip(b[head..].iter().rev()).take_while(|(a, b)| a == b).count();
    let (from, to) = (&a[head..a.len() - tail], &b[head..b.len() - tail]);
    let mut steps = vec![Step::Same; head];
    steps.extend(middle(from, to));
    steps.extend(vec![Step::Same; tail]);
    joined(old, new, &a, &b, &steps)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Same,
    Gone,
    New,
}

fn middle(a: &[&str], b: &[&str]) -> Vec<Step> {
    if a.len().saturating_mul(b.len()) > MOST_PAIRS {
        return [vec![Step::Gone; a.len()], vec![Step::New; b.len()]].concat();
    }
    // `longest[i][j]`: how many words the rests from `i` and `j` have in common.
    let wide = b.len() + 1;
    let mut longest = vec![0_u32; (a.len() + 1) * wide];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            longest[i * wide + j] = match a[i] == b[j] {
                true => longest[(i + 1) * wide + j + 1] + 1,
                false => longest[(i + 1) * wide + j].max(longest[i * wide + j + 1]),
            };
        }
    }
    let (mut i, mut j, mut steps) = (0, 0, Vec::new());
    while i < a.len() || j < b.len() {
        let step = match (i < a.len(), j < b.len()) {
            (true, true) if a[i] == b[j] => Step::Same,
            (true, true) if longest[(i + 1) * wide + j] >= longest[i * wide + j + 1] => Step::Gone,
            (true, false) => Step::Gone,
            _ => Step::New,
        };
        i += usize::from(step != Step::New);
        j += usize::from(step != Step::Gone);
        steps.push(step);
    }
    steps
}

fn joined<'t>(old: &'t str, new: &'t str, a: &[&str], b: &[&str], steps: &[Step]) -> Vec<Piece<'t>> {
    let (mut in_old, mut in_new) = (Walk { text: old, words: a.iter() }, Walk { text: new, words: b.iter() });
    let mut found = Vec::new();
    for run in steps.chunk_by(|one, next| one == next) {
        found.push(match run[0] {
            Step::Same => {
                in_new.take(run.len());
                Piece::Same(in_old.take(run.len()))
            }
            Step::Gone => Piece::Gone(in_old.take(run.len())),
            Step::New => Piece::New(in_new.take(run.len())),
        });
    }
    found
}

struct Walk<'t, 'w> {
    text: &'t str,
    words: std::slice::Iter<'w, &'w str>,
}

impl<'t> Walk<'t, '_> {
    fn take(&mut self, words: usize) -> &'t str {
        let length = self.words.by_ref().take(words).map(|word| word.len()).sum();
        let (taken, rest) = self.text.split_at(length);
        self.text = rest;
        taken
    }
}

/// Words, spaces, and every other character by itself.
fn words(text: &str) -> Vec<&str> {
    #[derive(PartialEq, Eq)]
    enum Kind {
        Word,
        Space,
        Other,
    }
    let kind = |c: char| match c {
        c if c.is_alphanumeric() || c == '_' => Kind::Word,
        c if c.is_whitespace() => Kind::Space,
        _ => Kind::Other,
    };
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let here = kind(first);
        let end = match here {
            Kind::Other => first.len_utf8(),
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

    #[test]
    fn texts_without_end_are_replaced_whole() {
        let old: String = (0..3000).map(|n| format!("a{n} ")).collect();
        let new: String = (0..3000).map(|n| format!("b{n} ")).collect();
        assert_eq!(
            pieces(&old, &new),
            [Piece::Gone(&old[..old.len() - 1]), Piece::New(&new[..new.len() - 1]), Piece::Same(" ")]
        );
    }
}
