//! Parses `scenario.yaml`.

use std::path::Path;

use super::files::Files;
use super::{FORMAT, Scenario, ScenarioFile};
use crate::error::HarnessError;

impl Scenario {
    /// Reads the scenario in `files`. `base` reads the folder that it extends.
    pub(super) fn read(
        name: &str,
        place: &Path,
        files: Files,
        base: impl FnOnce(&str) -> Result<Files, HarnessError>,
    ) -> Result<Self, HarnessError> {
        let path = place.join("scenario.yaml");
        let malformed = |reason: String| HarnessError::Scenario { path: path.clone(), reason };
        let yaml = files.get("scenario.yaml").ok_or_else(|| malformed("the file is missing".into()))?;
        let yaml = std::str::from_utf8(&yaml.bytes)
            .map_err(|error| malformed(format!("it is not UTF-8: {error}")))?;
        let text: ScenarioFile =
            serde_saphyr::from_str(yaml).map_err(|error| malformed(error.without_snippet().to_string()))?;
        if text.format != FORMAT {
            return Err(malformed(format!("format {} is not {FORMAT}", text.format)));
        }
        if text.timeout_s == 0 {
            return Err(malformed("`timeout_s` must not be 0".into()));
        }
        let mut merged = match &text.base {
            Some(folder) => {
                let base = base(folder)?;
                if base.is_empty() {
                    return Err(malformed(format!("its base `{folder}` is empty")));
                }
                base
            }
            None => Files::default(),
        };
        merged.overlay(files);
        Ok(Self { name: name.to_owned(), place: place.to_owned(), text, files: merged })
    }
}

#[cfg(test)]
mod tests {
    use super::super::FixtureFile;
    use super::*;

    fn read(yaml: &str) -> Result<Scenario, HarnessError> {
        let file = |text: &str| FixtureFile { bytes: text.into(), executable: false };
        let files = Files::from([
            ("scenario.yaml".to_owned(), file(yaml)),
            ("workspace/a.txt".to_owned(), file("own")),
            ("harness/opencode/x/y.md".to_owned(), file("agent")),
        ]);
        Scenario::read("s", Path::new("folder/s"), files, |base| {
            assert_eq!(base, "../base");
            Ok(Files::from([
                ("workspace/a.txt".to_owned(), file("base")),
                ("workspace/b.txt".to_owned(), file("base")),
            ]))
        })
    }

    #[test]
    fn the_most_specific_setting_wins() {
        let scenario = read(
            "
format: 1
intent: Look.
base: ../base
prompt: for all
prompts: { opencode: { run: for run, serve: for serve }, claude-code: for claude }
model: m
models: { opencode: p/m }
",
        )
        .expect("a scenario");
        let prompt = |harness: &str, mode| scenario.prompt(harness, mode).expect("a prompt");
        assert_eq!(prompt("opencode", Some("serve")), "for serve");
        assert_eq!(prompt("opencode", None), "for all");
        assert_eq!(prompt("claude-code", None), "for claude");
        assert_eq!(prompt("command", None), "for all");
        assert_eq!(scenario.model("opencode", None).as_deref(), Some("p/m"));
        assert_eq!(scenario.model("command", None).as_deref(), Some("m"));
        let files = scenario.workspace("opencode", None);
        let texts: Vec<_> = files.iter().map(|(name, file)| (name.as_str(), &file.bytes[..])).collect();
        assert_eq!(texts, [("a.txt", &b"own"[..]), ("b.txt", b"base"), ("x/y.md", b"agent")]);
    }

    #[test]
    fn mistakes_are_named_with_file_and_line() {
        for (yaml, part) in [
            ("format: 1\nintent: x\ncolour: red\n", "line 3"),
            ("format: 1\nintent: x\nexpects: { spawns: 2 }\n", "spawns"),
            ("format: 2\nintent: x\n", "format 2 is not 1"),
            ("format: 1\n", "intent"),
            ("format: 1\nintent: x\ntimeout_s: 0\n", "timeout_s"),
            ("format: 1\nintent: [\n", "line"),
        ] {
            let error = read(yaml).expect_err(yaml).to_string();
            assert!(error.contains("`folder/s/scenario.yaml`") && error.contains(part), "{error}");
        }
    }
}
