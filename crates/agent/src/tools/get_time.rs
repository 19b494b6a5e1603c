//! `get_time`: tells the current time.

use jiff::fmt::temporal::DateTimePrinter;
use serde::Deserialize;
use serde_json::Value;

use super::input;
use crate::{BoxFuture, Policy, Tool, ToolContext, ToolOutput};

/// The tool `get_time`. It reads no clock: the time in the context is recorded with the run, and is the same
/// when the run resumes.
pub(super) struct GetTimeTool;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {}

impl Tool for GetTimeTool {
    fn name(&self) -> &'static str {
        "get_time"
    }

    fn description(&self) -> &'static str {
        "Returns the date, the time and the weekday in the user's time zone."
    }

    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{},"additionalProperties":false}"#
    }

    fn policy(&self) -> Policy {
        Policy::Pure
    }

    fn call<'a>(&'a self, input: &'a Value, context: &'a ToolContext) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            match input::parse(self, input) {
                Ok(Args {}) => {
                    let time = DateTimePrinter::new().precision(Some(0)).zoned_to_string(&context.now);
                    ToolOutput::text(format!("{time}, {}", context.now.strftime("%A")))
                }
                Err(refusal) => refusal.into(),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use crate::testing::TestWorkspace;

    #[tokio::test]
    async fn the_time_is_the_scenes() {
        let mut fixture = TestWorkspace::new(&[]);
        let mut seen = fixture.ask("get_time", json!({})).await;
        for zone in ["[Europe/Berlin]", "[America/St_Johns]", "[+05:30]"] {
            let offset = match zone {
                "[Europe/Berlin]" => "+02:00",
                "[America/St_Johns]" => "-02:30",
                _ => "+05:30",
            };
            fixture.context.now = format!("2026-08-01T00:34:56{offset}{zone}").parse().expect("a time");
            seen += &fixture.ask("get_time", json!({})).await;
        }
        expect![[r#"
            2026-08-01T12:34:56+00:00[UTC], Saturday
            2026-08-01T00:34:56+02:00[Europe/Berlin], Saturday
            2026-08-01T00:34:56-02:30[America/St_Johns], Saturday
            2026-08-01T00:34:56+05:30[+05:30], Saturday
        "#]]
        .assert_eq(&seen);
    }
}
