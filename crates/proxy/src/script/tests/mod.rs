//! Tests with scripts and requests as texts.

mod documented;
mod mistakes;
mod playing;

use std::path::Path;

use super::Script;

fn parse(text: &str) -> Result<Script, String> {
    Script::parse(text, Path::new("s.yaml")).map_err(|error| error.to_string())
}
