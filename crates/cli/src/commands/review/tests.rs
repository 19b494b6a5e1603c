//! The walk through pending runs, with a scripted comparison.

use std::cell::RefCell;
use std::path::Path;
use std::time::{Duration, SystemTime};

use parity::{
    Level, ScenarioFolder, Surface, Tolerances, VERDICT_FORMAT, Verdict, VerdictDifference, VerdictOutcome,
};
use recording::Manifest;

use super::walk::{Terminal, Walk};
use super::{PendingScenario, decide_all, list};
use crate::judge::Judge;

/// Returns a fixed number of differences, and remembers what it compared.
struct ScriptedJudge {
    differences: usize,
    compared: RefCell<Vec<String>>,
}

impl Judge for ScriptedJudge {
    fn judge(&self, golden: &Path, candidate: &Path) -> anyhow::Result<Verdict> {
        let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.compared.borrow_mut().push(format!("{} {}", name(golden), name(candidate)));
        let difference = |n: usize| VerdictDifference {
            surface: Surface::Prompt,
            level: Some(Level::E2),
            lane: "main".to_owned(),
            turn: 1,
            pointer: format!("/system/{n}"),
            description: "a text differs".to_owned(),
            golden: Some("old\u{1b}[2J".to_owned()),
            candidate: None,
            suggested_rule: Some(format!("[[mask]]\npointer = \"/system/{n}\"")),
            race: None,
        };
        Ok(Verdict {
            format: VERDICT_FORMAT,
            golden: String::new(),
            candidate: String::new(),
            descriptions: [String::new(), String::new()],
            required: Level::E3,
            level: Some(Level::E2),
            outcome: if self.differences == 0 { VerdictOutcome::Match } else { VerdictOutcome::Differs },
            summary: vec!["one thing changed".to_owned()],
            surfaces: Vec::new(),
            lanes: Vec::new(),
            differences: (0..self.differences).map(difference).collect(),
            tolerances: Tolerances::default(),
            notes: Vec::new(),
            cache: Vec::new(),
        })
    }
}

struct Shelf {
    place: tempfile::TempDir,
}

impl Shelf {
    /// Runs 1, 2 and 3 of a scenario; the first is the golden.
    fn new() -> Self {
        let shelf = Self { place: tempfile::tempdir().expect("a folder") };
        for second in 1..=3 {
            let dir = shelf.folder().run_dir(&second.to_string());
            std::fs::create_dir_all(&dir).expect("made");
            let started_at = format!("2026-01-01T00:00:{second:02}.000000Z");
            let manifest = Manifest { format: 1, sealed: true, started_at, ..Manifest::default() };
            std::fs::write(dir.join("recording.json"), manifest.to_json()).expect("written");
        }
        shelf.folder().accept("1", SystemTime::UNIX_EPOCH + Duration::from_secs(1)).expect("accepted");
        shelf
    }

    fn folder(&self) -> ScenarioFolder {
        ScenarioFolder::new(self.place.path().join("h/1/s"))
    }

    fn waiting(&self) -> Vec<PendingScenario> {
        let folders =
            ScenarioFolder::list_accepted(self.place.path(), Path::new("no recordings")).expect("readable");
        let pending = |folder: ScenarioFolder| PendingScenario {
            runs: folder.pending().expect("readable").runs,
            folder,
        };
        folders.into_iter().map(pending).filter(|waiting| !waiting.runs.is_empty()).collect()
    }

    /// Types keys. Returns the output and the number of undecided scenarios.
    fn typed(&self, differences: usize, keys: &str) -> (String, usize) {
        let judge = ScriptedJudge { differences, compared: RefCell::default() };
        let (mut input, mut out) = (keys.as_bytes(), Vec::new());
        let terminal = Terminal { input: &mut input, out: &mut out, width: 80 };
        let left = Walk { judge: &judge, terminal }.through(&self.waiting()).expect("walked");
        assert!(
            judge.compared.borrow().iter().all(|pair| pair == "1 3"),
            "{judge:?}",
            judge = judge.compared
        );
        (String::from_utf8(out).expect("text"), left)
    }

    fn golden(&self) -> String {
        self.folder().golden().expect("readable").expect("there is one").run
    }
}

#[test]
fn accepting_ends_it() {
    let shelf = Shelf::new();
    let (said, left) = shelf.typed(2, "s\nnonsense\na\n");
    assert_eq!((shelf.golden().as_str(), left), ("3", 0));
    assert!(
        said.contains("1/2 prompt of main, turn 1: a text differs (E2: same structure)\n  at /system/0\n"),
        "{said}"
    );
    assert!(said.contains("- \"old\\u{1b}[2J\"\n  + nothing"), "{said}");
    assert_eq!(said.matches("(m)ask, (q)uit? ").count(), 3, "what is not understood is asked again: {said}");
    assert_eq!(shelf.waiting().len(), 0);
}

#[test]
fn rejecting_takes_it_off_the_list_and_leaves_the_older_one() {
    let shelf = Shelf::new();
    assert_eq!(shelf.typed(1, "r\n").1, 0);
    assert_eq!(shelf.golden(), "1");
    assert_eq!(shelf.waiting()[0].runs, ["2"]);
}

#[test]
fn skipping_quitting_and_the_end_of_the_input_change_nothing() {
    for keys in ["s\ns\n", "q\n", "", "s\n"] {
        let shelf = Shelf::new();
        assert_eq!(shelf.typed(2, keys).1, 1, "{keys:?}");
        assert_eq!(shelf.golden(), "1");
        assert_eq!(shelf.waiting()[0].runs, ["2", "3"]);
        assert!(!shelf.folder().rules_file().exists());
    }
}

#[test]
fn a_mask_needs_a_reason() {
    let shelf = Shelf::new();
    let (said, left) = shelf.typed(2, "m\n\nm\nthe clock\n");
    assert_eq!(left, 1, "it is compared anew");
    assert!(said.contains("a mask needs a reason") && said.contains("added 1 mask to"), "{said}");
    let rules = std::fs::read_to_string(shelf.folder().rules_file()).expect("written");
    assert_eq!(rules, "format = 1\n\n[[mask]]\npointer = \"/system/1\"\nreason = \"the clock\"\n");
}

#[test]
fn a_matching_run_is_offered_once() {
    let shelf = Shelf::new();
    let (said, _) = shelf.typed(0, "m\na\n");
    assert!(said.contains("`m` is no choice; type the letter in brackets"), "{said}");
    assert!(said.contains("  same structure (E2; required E3); golden `1`"), "{said}");
    assert!(!said.contains("(m)ask"), "{said}");
    assert_eq!(shelf.golden(), "3");
}

#[test]
fn all_at_once() {
    let shelf = Shelf::new();
    assert!(list(&shelf.waiting()).ends_with("h/1/s/runs/3 and 1 older\n"));
    decide_all(&shelf.waiting(), false);
    assert_eq!((shelf.golden().as_str(), shelf.waiting().len()), ("3", 0));
    let shelf = Shelf::new();
    decide_all(&shelf.waiting(), true);
    assert_eq!((shelf.golden().as_str(), shelf.waiting().len()), ("1", 0));
    assert_eq!(list(&shelf.waiting()), "no pending runs\n");
}
