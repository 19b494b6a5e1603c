//! A tool that must not run twice, for tests that kill a run during a call.

use std::io::Write as _;

use serde_json::Value;

use crate::{BoxFuture, Policy, Tool, ToolContext, ToolOutput};

pub(super) struct StampTool;

impl Tool for StampTool {
    fn name(&self) -> &'static str {
        "stamp"
    }

    fn description(&self) -> &'static str {
        "Adds a line to `stamps.txt`. Only there in tests."
    }

    fn schema(&self) -> &'static str {
        r#"{"type":"object","properties":{"path":{"type":"string"}},"required":["path"],"additionalProperties":false}"#
    }

    fn policy(&self) -> Policy {
        Policy::Unsafe
    }

    fn call<'a>(&'a self, _: &'a Value, context: &'a ToolContext) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async {
            let path = context.workspace.path().join("stamps.txt");
            let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
            match file.and_then(|mut file| file.write_all(b"stamped\n")) {
                Ok(()) => ToolOutput::text("stamped"),
                Err(error) => ToolOutput::error(error.to_string()),
            }
        })
    }
}
