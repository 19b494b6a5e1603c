//! The recipe of `docs/guide/ci.md` makes a verdict, also of a harness that got worse.

use std::fs;

use super::{Place, project};

const GOLDEN: &str = "goldens/command/none/first";
/// Last line of the harness's loop, which repeats as long as the model calls a tool.
const GOES_ON: &str = "  if (calls.length === 0) break";
const COMMAND: &str = "node examples/harness.mjs 'What is here?'";

#[test]
fn the_recipe_judges_a_harness_that_asks_less() {
    let place = Place::new();
    let harness = place.work.join("examples/harness.mjs");
    // The folder does not change.
    let text =
        fs::read_to_string(&harness).unwrap().replace("readdirSync(\".\")", "readdirSync(\"examples\")");
    fs::write(&harness, &text).unwrap();
    let (code, said) = place.bash(&format!(
        "offshoot proxy --script examples/hello.yaml --out {GOLDEN}/runs/one -- {COMMAND} && \
         offshoot accept {GOLDEN}/runs/one"
    ));
    assert_eq!(code, 0, "{said}");
    let (code, said) = recipe(&place);
    assert_eq!(code, 0, "{said}");
    for file in ["candidate", "verdict.xml", "report.html"] {
        let (code, _) = place.bash(&format!("rm -r {file}"));
        assert_eq!(code, 0, "there was a {file}");
    }

    assert!(text.contains(GOES_ON), "the harness has another loop now");
    fs::write(&harness, text.replace(GOES_ON, "  break")).unwrap();
    let (code, said) = recipe(&place);
    assert_eq!(code, 1, "{said}");
    let verdict = fs::read_to_string(place.work.join("verdict.xml")).unwrap_or_else(|_| panic!("{said}"));
    assert!(verdict.contains("<failure"), "{verdict}");
    assert!(place.work.join("report.html").exists(), "{said}");
}

/// Runs the steps that are commands of ours, for an agent of one's own, each in a shell of its own as GitHub starts it;
/// what the first one that fails returns.
fn recipe(place: &Place) -> (i32, String) {
    let text = fs::read_to_string(project().join("docs/guide/ci.md")).unwrap();
    let mut lines = text.lines();
    let mut told = String::new();
    let mut steps = 0;
    while let Some(line) = lines.by_ref().find(|line| line.trim() == "run: |") {
        let indent = line.len() - line.trim_start().len() + 2;
        let step: Vec<&str> = lines
            .by_ref()
            .map_while(|line| line.get(indent..).filter(|_| line.starts_with("    ")))
            .collect();
        let step = step.join("\n").replace("${{ matrix.golden }}", GOLDEN);
        let step = step.replace("--out candidate", &format!("--out candidate -- {COMMAND}"));
        let file = format!("step-{steps}.sh");
        fs::write(place.work.join(&file), step).unwrap();
        let started = format!(
            "touch github-env; set -a; . ./github-env; GITHUB_ENV=github-env bash --noprofile --norc -eo pipefail {file}"
        );
        let (code, said) = place.bash(&started);
        told += &said;
        if code != 0 {
            return (code, told);
        }
        steps += 1;
    }
    assert_eq!(steps, 2, "{told}");
    (0, told)
}
