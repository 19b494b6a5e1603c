//! Programs of `sed`, some of which run commands or write files.

use std::iter::Peekable;
use std::str::Chars;

use super::super::line::EXPANSION;

/// Returns why a program may run a command.
pub(super) fn reason(code: &str) -> Option<String> {
    commands(&mut code.chars().peekable())
        .is_none()
        .then(|| "a program of `sed` that may run commands".to_owned())
}

/// Reads a whole program. Returns `None` if it is unusual, or runs something.
fn commands(rest: &mut Peekable<Chars>) -> Option<()> {
    loop {
        while rest.next_if(|c| c.is_whitespace() || matches!(c, ';' | '{' | '}')).is_some() {}
        if rest.peek().is_none() {
            return Some(());
        }
        address(rest)?;
        match rest.next()? {
            's' => {
                let end = separator(rest)?;
                pattern(rest, end)?;
                text(rest, end)?;
                while rest.next_if(|c| c.is_ascii_digit() || "gpiIM".contains(*c)).is_some() {}
                is_end(rest)?;
            }
            'y' => {
                let end = separator(rest)?;
                text(rest, end)?;
                text(rest, end)?;
                is_end(rest)?;
            }
            // The rest of the line is text, or the name of a file to read.
            'a' | 'i' | 'c' | 'r' | '#' => text_line(rest),
            'b' | 't' | 'T' | ':' => while rest.next_if(|c| !matches!(c, ';' | '\n' | '}')).is_some() {},
            'd' | 'D' | 'g' | 'G' | 'h' | 'H' | 'n' | 'N' | 'p' | 'P' | 'x' | 'z' | '=' | 'q' | 'Q' | 'l' => {
                while rest.next_if(|c| c.is_ascii_digit() || *c == ' ').is_some() {}
                is_end(rest)?;
            }
            '{' | '}' => {}
            _ => return None,
        }
    }
}

/// Reads the addresses before a command.
fn address(rest: &mut Peekable<Chars>) -> Option<()> {
    loop {
        match *rest.peek()? {
            '/' => {
                rest.next();
                pattern(rest, '/')?;
                while rest.next_if(|c| matches!(c, 'I' | 'M')).is_some() {}
            }
            '\\' => {
                rest.next();
                let end = separator(rest)?;
                pattern(rest, end)?;
            }
            c if c.is_ascii_digit() || matches!(c, '$' | ',' | '~' | '+' | '!' | ' ') => drop(rest.next()),
            EXPANSION => drop(rest.next()),
            _ => return Some(()),
        }
    }
}

/// Skips a pattern up to a character that is not escaped and not in brackets.
fn pattern(rest: &mut Peekable<Chars>, end: char) -> Option<()> {
    loop {
        match rest.next()? {
            '\\' => drop(rest.next()?),
            c if c == end => return Some(()),
            '[' => brackets(rest)?,
            _ => {}
        }
    }
}

/// Skips the rest of `[…]`.
fn brackets(rest: &mut Peekable<Chars>) -> Option<()> {
    rest.next_if_eq(&'^');
    rest.next_if_eq(&']');
    loop {
        match rest.next()? {
            ']' => return Some(()),
            '\n' => return None,
            '[' if rest.peek().is_some_and(|c| matches!(c, ':' | '.' | '=')) => {
                let kind = rest.next()?;
                while rest.next()? != kind || rest.next_if_eq(&']').is_none() {}
            }
            _ => {}
        }
    }
}

/// Skips text up to a character that is not escaped.
fn text(rest: &mut Peekable<Chars>, end: char) -> Option<()> {
    loop {
        match rest.next()? {
            '\\' => drop(rest.next()?),
            c if c == end => return Some(()),
            _ => {}
        }
    }
}

/// Reads the character that separates the parts of a command.
fn separator(rest: &mut Peekable<Chars>) -> Option<char> {
    rest.next().filter(|c| !matches!(*c, '\n' | '\\' | '[' | EXPANSION))
}

fn text_line(rest: &mut Peekable<Chars>) {
    while let Some(c) = rest.next() {
        match c {
            '\\' => drop(rest.next()),
            '\n' => return,
            _ => {}
        }
    }
}

/// Returns whether a command ends here.
fn is_end(rest: &mut Peekable<Chars>) -> Option<()> {
    while rest.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
    rest.peek().is_none_or(|c| matches!(c, ';' | '\n' | '}' | '#')).then_some(())
}
