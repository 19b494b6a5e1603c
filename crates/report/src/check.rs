//! Output of `offshoot check`.

use std::fmt::Write as _;

use parity::{CheckReport, CriterionAnswer};

use crate::style::Tone;
use crate::text::{plain, wrap};

/// Renders one line per criterion, with its reason.
pub fn check_text(check: &CheckReport, width: usize) -> String {
    let longest = check.criteria.iter().map(|criterion| criterion.name.len()).max().unwrap_or_default();
    let mut text = String::new();
    for criterion in &check.criteria {
        let answer = match criterion.answer {
            CriterionAnswer::Yes => Tone::Good.paint("yes") + " ",
            CriterionAnswer::No => Tone::Bad.paint("NO") + "  ",
            CriterionAnswer::NotApplicable => Tone::Faint.paint("n/a") + " ",
        };
        let line = format!("{answer} {:<longest$}  {}", criterion.name, plain(&criterion.reason));
        let line = wrap(&line, "n/a  ".len() + longest + 2, width);
        writeln!(text, "{line}").expect("a string takes everything");
    }
    let failed = check.criteria.iter().filter(|criterion| criterion.answer == CriterionAnswer::No).count();
    let verdict = match failed {
        0 => Tone::Good.paint("it holds"),
        1 => Tone::Bad.paint("1 criterion does not hold"),
        n => Tone::Bad.paint(&format!("{n} criteria do not hold")),
    };
    writeln!(text, "{verdict}").expect("a string takes everything");
    text
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use parity::Criterion;

    use super::*;
    use crate::style::terminal_text;

    fn told(width: usize) -> String {
        let criterion = |name, answer, reason: &str| Criterion { name, answer, reason: reason.to_owned() };
        let criteria = vec![
            criterion("files", CriterionAnswer::Yes, "all 32 files exist"),
            criterion("prompt", CriterionAnswer::Yes, "1135 bytes of text in the first request of main"),
            criterion("cancel", CriterionAnswer::NotApplicable, "the scenario cancels nothing"),
            criterion(
                "nothing went round the proxy",
                CriterionAnswer::No,
                "2 connections went past it: 10.0.0.1:443, 10.0.0.2:443",
            ),
        ];
        terminal_text(&check_text(&CheckReport { format: 1, ok: false, criteria }, width), false)
    }

    #[test]
    fn eighty_columns_have_every_word() {
        expect![[r#"
            yes  files                         all 32 files exist
            yes  prompt                        1135 bytes of text in the first request of
                                               main
            n/a  cancel                        the scenario cancels nothing
            NO   nothing went round the proxy  2 connections went past it: 10.0.0.1:443,
                                               10.0.0.2:443
            1 criterion does not hold
        "#]]
        .assert_eq(&told(80));
    }

    #[test]
    fn at_sixty_a_reason_goes_on_under_itself() {
        expect![[r#"
            yes  files                         all 32 files exist
            yes  prompt                        1135 bytes of text in the
                                               first request of main
            n/a  cancel                        the scenario cancels
                                               nothing
            NO   nothing went round the proxy  2 connections went past
                                               it: 10.0.0.1:443,
                                               10.0.0.2:443
            1 criterion does not hold
        "#]]
        .assert_eq(&told(60));
    }

    #[test]
    fn at_forty_a_reason_has_a_line_of_its_own() {
        expect![[r#"
            yes  files
                 all 32 files exist
            yes  prompt
                 1135 bytes of text in the first
                 request of main
            n/a  cancel
                 the scenario cancels nothing
            NO   nothing went round the proxy
                 2 connections went past it:
                 10.0.0.1:443, 10.0.0.2:443
            1 criterion does not hold
        "#]]
        .assert_eq(&told(40));
    }
}
