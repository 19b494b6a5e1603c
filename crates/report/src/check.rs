//! Output of `offshoot check`.

use std::fmt::Write as _;

use parity::{CheckReport, Criterion, CriterionAnswer};

use crate::style::Tone;
use crate::text::{plain, wrap};

/// Renders one line per criterion with its reason, one line for all that do not apply, and the verdict.
pub fn check_text(check: &CheckReport, width: usize) -> String {
    let applies = |answer: CriterionAnswer| answer != CriterionAnswer::NotApplicable;
    let (applicable, others): (Vec<&Criterion>, Vec<&Criterion>) =
        check.criteria.iter().partition(|criterion| applies(criterion.answer));
    let longest = applicable.iter().map(|criterion| criterion.name.len()).max().unwrap_or_default();
    let mut text = String::new();
    for criterion in &applicable {
        let answer = match criterion.answer {
            CriterionAnswer::Yes => Tone::Good.paint("yes") + " ",
            _ => Tone::Bad.paint("NO") + "  ",
        };
        let line = format!("{answer} {:<longest$}  {}", criterion.name, plain(&criterion.reason));
        let line = wrap(&line, "n/a  ".len() + longest + 2, width);
        writeln!(text, "{line}").expect("a string takes everything");
    }
    if !others.is_empty() {
        let names: Vec<&str> = others.iter().map(|criterion| criterion.name).collect();
        let line = format!("{}  {}", Tone::Faint.paint("n/a"), names.join(", "));
        writeln!(text, "{}", wrap(&line, "n/a  ".len(), width)).expect("a string takes everything");
    }
    let failed = applicable.iter().filter(|criterion| criterion.answer == CriterionAnswer::No).count();
    let count = |n: usize| if n == 1 { "1 criterion".to_owned() } else { format!("{n} criteria") };
    let verdict = match failed {
        0 => format!("{}  {} met", Tone::Good.paint("PASS"), count(applicable.len())),
        n => format!("{}  {} of {} not met", Tone::Bad.paint("FAIL"), n, count(applicable.len())),
    };
    writeln!(text, "{verdict}").expect("a string takes everything");
    text
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::terminal::terminal_text;

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
            NO   nothing went round the proxy  2 connections went past it: 10.0.0.1:443,
                                               10.0.0.2:443
            n/a  cancel
            FAIL  1 of 3 criteria not met
        "#]]
        .assert_eq(&told(80));
    }

    #[test]
    fn at_sixty_a_reason_goes_on_under_itself() {
        expect![[r#"
            yes  files                         all 32 files exist
            yes  prompt                        1135 bytes of text in the
                                               first request of main
            NO   nothing went round the proxy  2 connections went past
                                               it: 10.0.0.1:443,
                                               10.0.0.2:443
            n/a  cancel
            FAIL  1 of 3 criteria not met
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
            NO   nothing went round the proxy
                 2 connections went past it:
                 10.0.0.1:443, 10.0.0.2:443
            n/a  cancel
            FAIL  1 of 3 criteria not met
        "#]]
        .assert_eq(&told(40));
    }
}
