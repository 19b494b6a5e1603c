//! A golden's own replay: what may differ there because no reply decides it, and what may not.

use recording::Replay;
use serde_json::json;

use super::super::compare::is_of;
use super::story::{Story, story};
use super::{DIALECTS, Level, dialect, judged};
use crate::{Race, Verdict};

/// Compares two stories, the second as a replay of the first.
fn replayed(golden: &Story, mut candidate: Story, of: &str, order: &str) -> Verdict {
    candidate.facts.replay = Some(Replay { of: of.into(), order: order.into(), ..Replay::default() });
    judged(golden, &candidate, "format = 1", Level::E3)
}

/// The races of all differences that fail E3.
fn races(verdict: &Verdict) -> Vec<Option<Race>> {
    let failing = verdict.differences.iter().filter(|it| it.level.is_none_or(|level| level < Level::E3));
    failing.map(|difference| difference.race).collect()
}

fn own(golden: &Story, candidate: Story) -> Vec<Option<Race>> {
    races(&replayed(golden, candidate, "golden", "recorded"))
}

/// The story with other words, in these requests.
fn with(story: &Story, requests: &[&str], [old, new]: [&str; 2]) -> Story {
    let mut story = story.clone();
    for id in requests {
        let exchange = story.exchange_mut(id);
        let body = exchange.body.to_string();
        assert!(body.contains(old), "{id} has no `{old}`");
        exchange.body = serde_json::from_str(&body.replace(old, new)).expect("JSON");
    }
    story
}

#[test]
fn words_of_a_tool_are_racy_in_the_first_request_of_main_only() {
    const MAIN: [&str; 3] = ["r1", "r4", "r6"];
    for (name, dialect) in DIALECTS {
        let golden = story(dialect);
        let words = ["Asks after a job.", "Asks after a job, or two."];
        assert_eq!(own(&golden, with(&golden, &MAIN, words)), [Some(Race::Start)], "{name}");
        let later = own(&golden, with(&golden, &MAIN[1..], words));
        assert!(!later.is_empty() && later.iter().all(Option::is_none), "{name}: {later:?}");
        let renamed = own(&golden, with(&golden, &MAIN, ["\"Read\"", "\"Reads\""]));
        assert!(!renamed.is_empty() && renamed.iter().all(Option::is_none), "{name}: {renamed:?}");
        let of_sub = own(&golden, with(&golden, &["r2", "r5"], ["Reads a file.", "Reads some file."]));
        assert_eq!(of_sub, [None], "{name}");
    }
}

#[test]
fn progress_of_a_running_agent_is_racy() {
    for (name, dialect) in DIALECTS {
        let done = story(dialect);
        let mut golden = done.clone();
        golden.rename(&[("is done after all: high at noon", "is at work")]);
        let reading = with(&golden, &["r6"], ["job_a1f03c is at work", "job_a1f03c is at work and reads"]);
        assert_eq!(own(&golden, reading.clone()), [Some(Race::Progress)], "{name}");
        let reworded = own(&done, with(&done, &["r6"], ["is done after all", "is done at last"]));
        assert_eq!(reworded, [None], "{name}: it had ended");
        let undone = own(&done, reading);
        assert!(!undone.is_empty() && undone.iter().all(Option::is_none), "{name}: {undone:?}");
    }
}

#[test]
fn announcements_are_racy_where_two_agents_end_together() {
    let alone = story(dialect("anthropic"));
    let text = ["job_b7e219 has ended", "job_b7e219 is at its end"];
    assert_eq!(own(&alone, with(&alone, &["r6"], text)), [None]);
    let both =
        with(&alone, &["r6"], ["job_b7e219 has ended", "job_a1f03c has ended, and job_b7e219 has ended"]);
    assert_eq!(own(&both, with(&both, &["r6"], text)), [Some(Race::Announced)]);
    let more = |story: &Story| {
        let mut story = story.clone();
        let exchange =
            story.exchange_mut("r6").body["messages"].as_array_mut().and_then(|all| all.last_mut());
        let content = exchange.expect("a message")["content"].as_array_mut().expect("blocks");
        let last = content.last_mut().and_then(|block| block.as_object_mut()).expect("a block");
        let marker = last.remove("cache_control").expect("a marker");
        let text = "job_a1f03c and job_b7e219 have ended, once more";
        content.push(json!({"type": "text", "text": text, "cache_control": marker}));
        story
    };
    let races = own(&both, more(&both));
    assert!(races.len() > 1 && races.iter().all(|race| *race == Some(Race::Announced)), "{races:?}");
    // A title is asked for whichever is announced first.
    let (boats, tides) = ("job_b7e219, the boats, has ended.", "job_a1f03c, the tides, has ended.");
    let titled = |story: &Story, text| story.clone().with_title("r7", text);
    assert_eq!(own(&titled(&both, boats), titled(&both, tides)), [Some(Race::Announced)]);
    assert_eq!(own(&titled(&alone, boats), titled(&alone, tides)), [None]);
    assert_eq!(own(&titled(&both, "Plan the trip."), titled(&both, "Plan a journey.")), [None]);
}

#[test]
fn a_text_before_a_reply_that_was_given_without_it_is_racy() {
    let late = |text: &str| {
        let mut story = story(dialect("anthropic"));
        let message = story.exchange_mut("r6").body["messages"][2]["content"].as_array_mut().expect("blocks");
        message.push(json!({"type": "text", "text": text}));
        story
    };
    let golden = late("Mind the tide.");
    assert_eq!(own(&golden, late("Mind the wind.")), [Some(Race::Late)]);
}

#[test]
fn only_the_recordings_own_replay_in_its_order_calls_it_racy() {
    let golden = story(dialect("anthropic"));
    let other = with(&golden, &["r1", "r4", "r6"], ["Asks after a job.", "Asks after a job, or two."]);
    let notes = |verdict: &Verdict| verdict.notes.join("\n");
    let own = notes(&replayed(&golden, other.clone(), "golden", "recorded"));
    assert!(own.contains("the golden is racy at main, turn 1 (/tools/1/description), rule `start`"), "{own}");
    // An unnamed harness, or one without a version, may be another one each time.
    for hide in [|it: &mut Story| it.facts.version = None, |it: &mut Story| it.facts.harness = None] {
        let (mut golden, mut other) = (golden.clone(), other.clone());
        hide(&mut golden);
        hide(&mut other);
        let verdict = replayed(&golden, other, "golden", "recorded");
        assert!(!notes(&verdict).contains("racy"), "{}", notes(&verdict));
    }
    let mut newer = other.clone();
    newer.facts.version = Some("9.9.9".into());
    for verdict in [
        replayed(&golden, other.clone(), "golden", "free"),
        replayed(&golden, other, "else", "recorded"),
        replayed(&golden, newer, "golden", "recorded"),
    ] {
        assert!(races(&verdict).iter().all(Option::is_none), "{:?}", races(&verdict));
        assert!(!notes(&verdict).contains("racy"), "{}", notes(&verdict));
    }
    let unknown = with(&golden, &["r1", "r4", "r6"], ["Plan the trip.", "Plan a journey."]);
    let unknown = notes(&replayed(&golden, unknown, "golden", "recorded"));
    assert!(unknown.contains("1 of the differences is not a known race"), "{unknown}");
}

#[test]
fn a_replay_is_matched_to_its_recording_by_digest() {
    let home = tempfile::tempdir().expect("a folder");
    let [golden, copy, other] = ["golden", "copy", "other"].map(|name| home.path().join(name));
    for (folder, says) in [(&golden, "{}"), (&copy, "{}"), (&other, "{ }")] {
        std::fs::create_dir(folder).expect("it is new");
        std::fs::write(folder.join("recording.json"), says).expect("it is writable");
    }
    let path = |path: &std::path::Path| path.display().to_string();
    let bent = path(&golden.join("..").join("golden"));
    let sha256 = Replay::digest_of(&golden);
    assert!(sha256.is_some() && Replay::digest_of(home.path()).is_none());
    for (sha256, of, folder, expected) in [
        (&sha256, "elsewhere".to_owned(), path(&golden), true),
        (&sha256, path(&golden), path(&copy), true),
        (&sha256, path(&golden), path(&other), false),
        (&sha256, path(home.path()), path(home.path()), false),
        (&None, path(&golden), bent.clone(), true),
        (&None, bent, path(&golden), true),
        (&None, path(&golden), path(&copy), false),
        (&None, "gone".to_owned(), "gone".to_owned(), true),
    ] {
        let replay = Replay { of: of.clone(), sha256: sha256.clone(), ..Replay::default() };
        assert_eq!(is_of(&replay, &folder), expected, "{sha256:?} of {of} against {folder}");
    }
}
