//! `offshoot check` as people read it.

use std::fmt::Write as _;

use parity::{Answer, Check};

use crate::text::{fit, plain};

/// One line a criterion, the reason behind it.
pub fn check_text(check: &Check, width: usize) -> String {
    let longest = check.criteria.iter().map(|criterion| criterion.name.len()).max().unwrap_or_default();
    let mut text = String::new();
    for criterion in &check.criteria {
        let answer = match criterion.answer {
            Answer::Yes => "yes",
            Answer::No => "NO",
            Answer::NotApplicable => "n/a",
        };
        let line = format!("{answer:<4} {:<longest$}  {}", criterion.name, plain(&criterion.reason));
        // A reason to say no is never cut off.
        let line = if criterion.answer == Answer::No { line } else { fit(&line, width) };
        writeln!(text, "{line}").expect("a string takes everything");
    }
    let failed = check.criteria.iter().filter(|criterion| criterion.answer == Answer::No).count();
    let verdict = match failed {
        0 => "it holds".to_owned(),
        1 => "1 criterion does not hold".to_owned(),
        n => format!("{n} criteria do not hold"),
    };
    writeln!(text, "{verdict}").expect("a string takes everything");
    text
}
