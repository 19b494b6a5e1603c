//! Scenario folders with runs in every state.

use std::time::{Duration, SystemTime};

use recording::Manifest;
use tempfile::TempDir;

use super::*;

struct Shelf {
    place: TempDir,
}

impl Shelf {
    /// Runs by name, the second of 2026 they began in, and whether they are sealed.
    fn with(runs: &[(&str, u32, bool)]) -> Self {
        let shelf = Self { place: tempfile::tempdir().expect("a folder") };
        for (run, second, sealed) in runs {
            let dir = shelf.folder().run_dir(run);
            fs::create_dir_all(&dir).expect("made");
            let started_at = format!("2026-01-01T00:00:{second:02}.000000Z");
            let manifest = Manifest { format: 1, sealed: *sealed, started_at, ..Manifest::default() };
            fs::write(dir.join(MANIFEST), manifest.to_json()).expect("written");
        }
        shelf
    }

    fn folder(&self) -> ScenarioFolder {
        ScenarioFolder::new(self.place.path().join("goldens/h/1.0/s"))
    }

    fn pending(&self) -> Vec<String> {
        self.folder().pending().expect("readable").runs
    }
}

fn at(second: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(second)
}

#[test]
fn an_old_golden_is_kept() {
    let shelf = Shelf::with(&[("a", 1, true), ("b", 2, true)]);
    let folder = shelf.folder();
    assert_eq!(folder.golden().expect("readable"), None);
    folder.accept("a", at(10)).expect("accepted");
    let golden = folder.accept("b", at(20)).expect("accepted");
    assert_eq!(folder.golden().expect("readable"), Some(golden.clone()));
    assert_eq!((golden.run.as_str(), golden.accepted_at.as_str()), ("b", "1970-01-01T00:00:20.000000Z"));
    let [earlier] = &golden.earlier[..] else { panic!("{golden:?}") };
    assert_eq!((earlier.run.as_str(), earlier.until.as_str()), ("a", golden.accepted_at.as_str()));
    let manifest = fs::read(folder.run_dir("b").join(MANIFEST)).expect("there");
    assert_eq!(golden.sha256, sha256(&manifest));
    assert_eq!(folder.accept("b", at(30)).expect("accepted"), golden, "a second time changes nothing");
    let files = fs::read_dir(folder.dir()).expect("a folder").count();
    assert_eq!(files, 2, "golden.json and runs, and nothing left over");
}

#[test]
fn newer_undecided_runs_are_pending() {
    let shelf =
        Shelf::with(&[("d", 4, true), ("a", 1, true), ("c", 3, true), ("b", 2, true), ("half", 5, false)]);
    let folder = shelf.folder();
    assert!(matches!(folder.pending(), Err(GoldenError::NoGolden { .. })));
    folder.accept("b", at(10)).expect("accepted");
    assert_eq!(shelf.pending(), ["c", "d"], "`a` is older than the golden");
    let skipped = folder.pending().expect("readable").skipped;
    assert_eq!(skipped, [("half".to_owned(), "it is not sealed: it was never sealed".to_owned())]);
    folder.reject("d", at(11)).expect("rejected");
    assert_eq!(shelf.pending(), ["c"]);
    folder.accept("c", at(12)).expect("accepted");
    assert_eq!(shelf.pending(), [""; 0]);
    let golden = folder.accept("d", at(13)).expect("accepted");
    assert_eq!(golden.rejected, [], "who accepts it wants it after all");
    let (goldens, nowhere) = (shelf.place.path().join("goldens"), shelf.place.path().join("nowhere"));
    let accepted = ScenarioFolder::list_accepted(&goldens, &nowhere).expect("readable");
    assert_eq!(accepted.iter().map(ScenarioFolder::dir).collect::<Vec<_>>(), [folder.dir()]);
    assert_eq!(ScenarioFolder::list_accepted(&nowhere, &nowhere).expect("readable"), []);
}

#[test]
fn the_path_of_a_recording_names_its_scenario() {
    let shelf = Shelf::with(&[("a", 1, true)]);
    let run = shelf.folder().run_dir("a");
    let around = |scenario| ScenarioFolder::containing(&run, scenario).expect("readable");
    assert_eq!(around(Some("s")), Some((shelf.folder(), "a".to_owned())));
    assert_eq!(around(None), Some((shelf.folder(), "a".to_owned())));
    assert_eq!(around(Some("another")), None);
    assert_eq!(ScenarioFolder::containing(shelf.place.path(), None).expect("readable"), None);
}

#[test]
fn a_file_that_is_none_of_ours_is_named() {
    let shelf = Shelf::with(&[("a", 1, true)]);
    let folder = shelf.folder();
    let said = |text: &str| {
        fs::write(folder.dir().join(GOLDEN_FILE), text).expect("written");
        let error = folder.golden().expect_err("not a golden").to_string();
        error.split("golden.json` ").nth(1).expect("it names the file").to_owned()
    };
    assert_eq!(said(r#"{"format":2}"#), "was written by a newer version of offshoot (format 2)");
    assert!(said("{").starts_with("is malformed: EOF"));
    assert!(said(r#"{"format":1}"#).starts_with("is malformed: missing field `run`"));
    let outside = r#"{"format":1,"run":"../../x","accepted_at":"","sha256":"","earlier":[],"rejected":[]}"#;
    assert_eq!(said(outside), "is malformed: its run is not a folder in `runs/`");
}

#[test]
fn added_rules_keep_the_existing_text() {
    let shelf = Shelf::with(&[("a", 1, true)]);
    let folder = shelf.folder();
    let rule = set_reason("[[mask]]\npointer = \"/a\"\nreason = \"\"\n", "a \"clock\"\n");
    folder.add_rule(&rule).expect("added");
    let bare = set_reason("[[exclude]]\npointer = \"/b\"", "noise");
    fs::write(folder.rules_file(), fs::read_to_string(folder.rules_file()).expect("there") + "# mine\n")
        .expect("written");
    folder.add_rule(&bare).expect("added");
    expect_test::expect![[r#"
        format = 1

        [[mask]]
        pointer = "/a"
        reason = "a \"clock\"\u000A"
        # mine

        [[exclude]]
        pointer = "/b"
        reason = "noise"
    "#]]
    .assert_eq(&fs::read_to_string(folder.rules_file()).expect("there"));
}

#[test]
fn a_copy_is_whole_and_has_a_name_of_its_own() {
    let shelf = Shelf::with(&[("a", 1, true)]);
    let folder = shelf.folder();
    let elsewhere = shelf.place.path().join("elsewhere");
    fs::create_dir_all(elsewhere.join("provider_dumps")).expect("made");
    fs::write(elsewhere.join("provider_dumps/r1_request.json"), "{}").expect("written");
    std::os::unix::fs::symlink("/etc/passwd", elsewhere.join("link")).expect("linked");
    assert_eq!(folder.import(&elsewhere, "b").expect("copied"), "b");
    assert_eq!(folder.import(&elsewhere, "b").expect("copied"), "b-2");
    assert_eq!(
        fs::read_to_string(folder.run_dir("b-2").join("provider_dumps/r1_request.json")).expect("there"),
        "{}"
    );
    assert!(!folder.run_dir("b").join("link").exists());
    assert!(folder.import(&shelf.place.path().join("nowhere"), "c").is_err());
    let runs = || fs::read_dir(folder.dir().join(RUNS)).expect("a folder").count();
    assert_eq!(runs(), 3, "nothing half done is left");
    assert_eq!(folder.import(&folder.run_dir("a"), "a").expect("found"), "a");
    assert_eq!(runs(), 3, "what is here already is not copied again");
}

#[test]
fn a_golden_that_was_changed_is_none() {
    let shelf = Shelf::with(&[("a", 1, true)]);
    let folder = shelf.folder();
    folder.accept("a", at(10)).expect("accepted");
    assert_eq!(folder.accepted_run().expect("as it was"), folder.run_dir("a"));
    fs::write(folder.run_dir("a").join(MANIFEST), "{}").expect("written");
    assert!(matches!(folder.accepted_run(), Err(GoldenError::Changed { .. })));
}
