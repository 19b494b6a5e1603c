//! A tree of runs, killed at every durable point: what is resumed must end like what was never disturbed.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;

use common::provider::{Provider, RequestKey};
use common::{CommandOutput, TestEnv};
use serde_json::Value;
use session::RunId;
use store::{Filter, ModelCallStatus, Options, RunStatus, Store};

const ROOT: &str = "1m7gtestroot0000";

/// Two jobs whose ends wake main one after the other, one that it fetches, one that it cancels, one agent that it waits
/// for beside a fork of itself, and effects in most of them.
const LINES: &[(&str, &[&str])] = &[
    (
        "Do it.",
        &[
            "Four of them. + \
             toolu_a=spawn_sub_agent{\"prompt\":\"Work on A.\",\"run_in_background\":true} + \
             toolu_b=spawn_sub_agent{\"prompt\":\"Work on B.\",\"run_in_background\":true} + \
             toolu_d=spawn_sub_agent{\"prompt\":\"Work on D.\",\"run_in_background\":true} + \
             toolu_e=spawn_sub_agent{\"prompt\":\"Work on E.\",\"run_in_background\":true}",
            "toolu_c=spawn_sub_agent{\"prompt\":\"Work on C.\"} + \
             toolu_f=spawn_sub_agent{\"prompt\":\"Think of F.\",\"fork\":true}",
            "toolu_m1=write{\"path\":\"m.txt\",\"content\":\"main\"} + toolu_m2=stamp{\"path\":\"stamps.txt\"}",
            "toolu_m3=job_cancel{\"job_id\":\"1m7gtestroot0000-2-2\"}",
            "toolu_m4=job_output{\"job_id\":\"1m7gtestroot0000-2-1\",\"block\":true}",
            "I wait for A.",
            "I wait for E.",
            "All done.",
        ],
    ),
    ("Work on A.", &["toolu_a1=write{\"path\":\"a.txt\",\"content\":\"A\"}", "@waits:6 A is done."]),
    (
        "Work on B.",
        &[
            "toolu_b1=write{\"path\":\"b.txt\",\"content\":\"B\"} + toolu_b2=read{\"path\":\"given.txt\"}",
            "@asked:5 B is done.",
        ],
    ),
    ("Work on C.", &["toolu_c1=write{\"path\":\"c.txt\",\"content\":\"C\"}", "C is done."]),
    ("Work on D.", &["@never D is done."]),
    ("Think of F.", &["toolu_f1=read{\"path\":\"given.txt\"}", "F is thought of."]),
    ("Work on E.", &["toolu_e1=read{\"path\":\"given.txt\"}", "@waits:7 E is done."]),
];

struct World {
    env: TestEnv,
    provider: Provider,
}

impl World {
    fn new() -> Self {
        Self::saying(LINES)
    }

    fn saying(lines: &[(&str, &[&str])]) -> Self {
        let env = TestEnv::in_memory();
        std::fs::create_dir_all(env.path("w")).unwrap();
        env.write("w/given.txt", "given\n");
        let journal = env.path("data/store.db");
        let provider = Provider::start(lines, move |gate| may_pass(&journal, gate));
        Self { env, provider }
    }

    fn offshoot(&self, arguments: &[&str], crash: &str) -> std::process::Output {
        let mut command = self.env.offshoot(arguments);
        command
            .current_dir(self.env.path("w"))
            .env("ANTHROPIC_BASE_URL", format!("http://{}", self.provider.addr))
            .env("ANTHROPIC_API_KEY", "sk-test-0123456789")
            .env("OFFSHOOT_CLOCK", "2026-01-01T12:00:00+00:00[UTC]")
            .env("OFFSHOOT_RUN_ID", ROOT)
            .env("OFFSHOOT_TEST_TOOLS", "1")
            .env("OFFSHOOT_CRASH_LOG", self.env.path("points"))
            .env("OFFSHOOT_CRASH", crash);
        command.output().unwrap()
    }

    fn start(&self, crash: &str) -> std::process::Output {
        self.offshoot(&["run", "--model", "sonnet", "Do it."], crash)
    }

    fn resume(&self, crash: &str) -> std::process::Output {
        self.offshoot(&["run", "--resume", ROOT], crash)
    }

    fn points(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.env.path("points")).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }

    /// Everything that was said and done in every run, byte for byte.
    fn transcripts(&self) -> BTreeMap<String, Vec<String>> {
        let said = CommandOutput::of(self.offshoot(&["ps", "--all", "--format", "json"], ""));
        let ps: Value =
            serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said:?}"));
        let runs = ps["runs"].as_array().unwrap().iter();
        runs.map(|run| {
            let id = run["run"].as_str().unwrap().to_owned();
            let said = CommandOutput::of(self.offshoot(&["show", &id, "--format", "json"], ""));
            let shown: Value = serde_json::from_str(&said.stdout).unwrap();
            let messages = shown["messages"].as_array().unwrap().iter();
            let messages = messages
                .map(|message| common::anywhere(&format!("{} {}", message["origin"], message["wire"])));
            let calls = shown["tool_calls"].as_array().unwrap().iter();
            let calls = calls.map(|call| format!("{} {} {}", call["id"], call["status"], call["result"]));
            let end = format!("{} {}", shown["run"]["status"], shown["run"]["final_text"]);
            (id, messages.chain(calls).chain([end]).collect())
        })
        .collect()
    }

    /// The questions whose answers are in the journal.
    fn answered(&self) -> BTreeSet<RequestKey> {
        let Some(store) = open(&self.env.path("data/store.db")) else { return BTreeSet::new() };
        let mut answered = BTreeSet::new();
        for run in store.runs(&Filter::default()).unwrap() {
            let reads = store.run(&run.id);
            // A fork begins with the results of its parent's calls.
            let prompt = reads.messages().unwrap().iter().find_map(|message| message.text.clone()).unwrap();
            for call in reads.model_calls().unwrap() {
                if call.status == ModelCallStatus::Answered {
                    answered.insert((prompt.clone(), call.step as usize - 1));
                }
            }
        }
        answered
    }
}

fn open(journal: &PathBuf) -> Option<Store> {
    journal.exists().then(|| Store::open(journal, Options::default()).unwrap())
}

/// `waits:N`: main has spoken N times and waits. `asked:N`: it has spoken N times. `begun:ID`: the run that ends so has
/// asked something.
fn may_pass(journal: &PathBuf, gate: &str) -> bool {
    let Some((what, spoken)) = gate.split_once(':') else { return false };
    let store = open(journal).unwrap();
    if what == "begun" {
        let asked = store.run(&RunId::new(format!("{ROOT}-{spoken}"))).model_calls().unwrap();
        return !asked.is_empty();
    }
    let root = store.run(&RunId::new(ROOT));
    let replies = root.model_calls().unwrap();
    let replies = replies.iter().filter(|call| call.status == ModelCallStatus::Answered).count();
    let waits = root.row().unwrap().status == RunStatus::Waiting;
    replies == spoken.parse::<usize>().unwrap() && (what == "asked" || waits)
}

type Transcripts = BTreeMap<String, Vec<String>>;

/// Returns the hits of each crash point in an undisturbed run, and its messages.
fn undisturbed() -> (BTreeMap<String, u64>, Transcripts) {
    let world = World::new();
    let said = CommandOutput::of(world.start(""));
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), "All done.\n"), "{said:?}");
    let mut hits = BTreeMap::new();
    for point in world.points().into_iter().filter(|line| !line.contains(' ')) {
        *hits.entry(point).or_default() += 1;
    }
    let asked = world.provider.asked();
    assert!(asked.values().all(|times| *times == 1), "{asked:?}");
    let transcripts = world.transcripts();
    assert_eq!(transcripts.len(), 7);
    let main = transcripts[ROOT].join("\n");
    for (job, told) in [("2-0", 1), ("2-1", 0), ("2-2", 0), ("2-3", 1)] {
        assert_eq!(
            main.matches(&format!("<job_ended job_id=\\\\\\\"{ROOT}-{job}")).count(),
            told,
            "{job}: {main}"
        );
    }
    (hits, transcripts)
}

/// Kills a run at these points, one after the other, resumes it, and compares.
fn kill_at(points: &[&str], expected: &Transcripts) {
    let case = points.join(", then ");
    let world = World::new();
    for (n, point) in points.iter().enumerate() {
        let answered = world.answered();
        let before = world.provider.asked();
        let killed = if n == 0 { world.start(point) } else { world.resume(point) };
        assert_eq!(killed.status.signal(), Some(9), "{case}: {:?}", CommandOutput::of(killed));
        // The first process finds nothing that it could ask for again.
        never_again(&answered, &before, &world, &case);
    }
    let (answered, before) = (world.answered(), world.provider.asked());
    let nothing_yet = !world.env.path("data/store.db").exists() || points == ["run.start.before:1"];
    let last = if nothing_yet { world.start("") } else { world.resume("") };
    let said = CommandOutput::of(last);
    // What ended before it was killed has nothing to go on with.
    let had_ended = points.last().is_some_and(|point| point.starts_with("run.end.after"))
        && said.stderr.contains("is completed");
    assert!(had_ended || said.code == Some(0), "{case}: {said:?}");
    never_again(&answered, &before, &world, &case);
    same(&world.transcripts(), expected, &case);
    common::nothing_twice(&world.points(), "toolu_m2", &case);
}

/// Stored requests are not sent again.
fn never_again(
    answered: &BTreeSet<RequestKey>,
    before: &BTreeMap<RequestKey, usize>,
    world: &World,
    case: &str,
) {
    let after = world.provider.asked();
    for asked in answered {
        assert_eq!(before.get(asked), after.get(asked), "{case}: {asked:?} was asked again");
    }
}

/// Equal, but for the one call that must not happen twice and says that it may have run.
fn same(got: &Transcripts, expected: &Transcripts, case: &str) {
    assert_eq!(got.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{case}");
    for (run, expected) in expected {
        assert_eq!(got[run].len(), expected.len(), "{case}: {run}: {:#?}", got[run]);
        for (got, expected) in got[run].iter().zip(expected) {
            if got.contains("It may have run") && got.contains("toolu_m2") {
                continue;
            }
            assert_eq!(got, expected, "{case}: {run}");
        }
    }
}

/// Kills it at the first, the second and the last hit of every point whose name begins so.
fn every_hit_of(prefixes: &[&str]) {
    let (hits, expected) = undisturbed();
    let is_meant = |point: &str| prefixes.iter().any(|prefix| point.starts_with(prefix));
    let mut cases = 0;
    for (point, hits) in hits.iter().filter(|(point, _)| is_meant(point)) {
        let mut chosen = vec![1, 2, *hits];
        chosen.retain(|hit| hit <= hits);
        chosen.dedup();
        for hit in chosen {
            kill_at(&[&format!("{point}:{hit}")], &expected);
            cases += 1;
        }
    }
    assert!(cases > 0, "no such point was met");
}

/// A test for each group of points, and all of them together.
macro_rules! killed {
    ($($name:ident: $prefixes:expr;)*) => {
        const KILLED: &[&[&str]] = &[$(&$prefixes),*];
        $(#[test]
        fn $name() {
            every_hit_of(&$prefixes);
        })*
    };
}

killed! {
    killed_round_the_start_and_the_end_of_runs: ["run.", "spawn.", "job."];
    killed_while_somebody_waits_or_is_woken: ["park.", "wake.", "inbox."];
    killed_while_a_job_is_fetched_or_cancelled: ["fetch.", "cancel."];
    killed_while_models_are_asked: ["ask."];
    killed_while_tools_are_called: ["call."];
}

const FIRST: [&str; 5] =
    ["call.effect.after:3", "ask.first_byte:4", "park.after:1", "park.after:2", "job.end.after:2"];
const AGAIN: [&str; 3] = ["child.resume.before:1", "child.resume.after:1", "resume.lease.after:1"];

#[test]
fn killed_again_while_it_is_taken_up() {
    let (_, expected) = undisturbed();
    for first in FIRST {
        for again in AGAIN {
            kill_at(&[first, again], &expected);
        }
    }
    kill_at(&["ask.commit.after:3", "child.resume.after:2", "spawn.after:1", "wake.before:1"], &expected);
}

/// Two sub-agents continue in the background after their parent is interrupted. Each end is delivered once.
#[test]
fn killed_while_a_sub_agent_becomes_a_job() {
    let lines: &[(&str, &[&str])] = &[
        (
            "Do it.",
            &[
                "toolu_c=spawn_sub_agent{\"prompt\":\"Work on C.\"} + toolu_e=spawn_sub_agent{\"prompt\":\"Work on E.\"}",
            ],
        ),
        ("Work on C.", &["@waits:2 C is done."]),
        ("Work on E.", &["@waits:3 E is done."]),
        ("And now?", &["Now this.", "And that.", "All done."]),
    ];
    let more = ["run", "--resume", ROOT, "And now?"];
    let play = |crash: &str| {
        let world = World::saying(lines);
        assert_eq!(world.start("spawn.after:2").status.signal(), Some(9), "{crash}");
        if !crash.is_empty() {
            let killed = world.offshoot(&more, crash);
            assert_eq!(killed.status.signal(), Some(9), "{crash}: {:?}", CommandOutput::of(killed));
        }
        let said = CommandOutput::of(world.offshoot(&more, ""));
        assert_eq!((said.code, said.stdout.as_str()), (Some(0), "All done.\n"), "{crash}: {said:?}");
        world.transcripts()
    };
    let expected = play("");
    assert_eq!(expected[ROOT].join("\n").matches("<job_ended").count(), 2, "{:#?}", expected[ROOT]);
    for point in ["job.made.before", "job.made.after"] {
        for hit in 1..=2 {
            let case = format!("{point}:{hit}");
            same(&play(&case), &expected, &case);
        }
    }
}

/// A job is cancelled while it waits for a sub-agent of its own: both end, and the call that waited has its answer.
#[test]
fn killed_while_a_job_is_cancelled_that_waits_for_another() {
    let cancel = format!("@begun:2-0-2-0 toolu_c=job_cancel{{\"job_id\":\"{ROOT}-2-0\"}}");
    let lines: &[(&str, &[&str])] = &[
        (
            "Do it.",
            &[
                "toolu_d=spawn_sub_agent{\"prompt\":\"Work on D.\",\"run_in_background\":true}",
                &cancel,
                "All done.",
            ],
        ),
        ("Work on D.", &["First a look. + toolu_e=spawn_sub_agent{\"prompt\":\"Work on E.\"}", "never"]),
        ("Work on E.", &["@never E is done."]),
    ];
    let play = |crash: &str| {
        let world = World::saying(lines);
        world.env.write("home/.config/offshoot/offshoot.toml", "[sub_agents]\ndepth = 2\n");
        let mut last = world.start(crash);
        if !crash.is_empty() {
            assert_eq!(last.status.signal(), Some(9), "{crash}: {:?}", CommandOutput::of(last));
            last = world.resume("");
        }
        let said = CommandOutput::of(last);
        assert_eq!((said.code, said.stdout.as_str()), (Some(0), "All done.\n"), "{crash}: {said:?}");
        world.transcripts()
    };
    let expected = play("");
    let inner = &expected[&format!("{ROOT}-2-0-2-0")];
    assert_eq!(inner.last().unwrap(), "\"cancelled_by_parent\" null", "{inner:#?}");
    for point in
        ["cancel.before:1", "cancel.after:1", "call.intent.after:3", "run.end.before:1", "run.end.after:1"]
    {
        same(&play(point), &expected, point);
    }
}

/// The script of the next process never sees the agents that had ended; it knows them from the journal.
#[test]
fn a_scripted_tree_that_is_killed_late_ends_well() {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/subagents.yaml");
    let script = script.to_str().unwrap();
    for point in ["run.end.after:1", "job.end.after:1", "park.after:1", "job.end.after:2"] {
        let env = TestEnv::new();
        let mut start = env.offshoot(&["run", "--script", script, "What is this project?"]);
        let killed = start.env("OFFSHOOT_CRASH", point).env("OFFSHOOT_RUN_ID", ROOT).output().unwrap();
        assert_eq!(killed.status.signal(), Some(9), "{point}: {:?}", CommandOutput::of(killed));
        // A side question uses another script. The script of the run does not wait for it.
        env.write("aside.yaml", "format: 1\nlanes:\n  - lane: all\n    match: { any: true }\n    turns: [ { repeat: 9, reply: [ { text: Much. } ] } ]\n");
        let aside = env.run(&["run", "--fork-of", ROOT, "--script", "aside.yaml", "What have you seen?"]);
        assert_eq!(aside.code, Some(0), "{point}: {aside:?}");
        let said = env.run(&["run", "--resume", ROOT, "--script", script]);
        assert_eq!(said.code, Some(0), "{point}: {said:?}");
        assert!(said.stdout.starts_with("Begin with the README;"), "{point}: {said:?}");
        assert!(!said.stderr.contains("no answer"), "{point}: {said:?}");
        let cost = env.run(&["ps", "--format", "json"]).stdout;
        let runs: Value = serde_json::from_str(&cost).unwrap();
        let completed = runs["runs"].as_array().unwrap().iter().filter(|run| run["status"] == "completed");
        assert_eq!(completed.count(), 5, "{point}: {runs}");
    }
}

#[test]
fn every_point_of_a_tree_is_met_often_enough() {
    let (hits, _) = undisturbed();
    // Other tests cover the crash points of resumed and failing runs.
    let elsewhere = [
        "compact.",
        "resume.",
        "ask.failed.",
        "ask.gave_up.",
        "ask.other.",
        "job.made.",
        "child.",
        "fork.",
        "send.",
        "continue.",
        "hook.",
    ];
    for point in agent::CRASH_POINTS.iter().filter(|point| !elsewhere.iter().any(|e| point.starts_with(e))) {
        assert!(hits.contains_key(*point), "`{point}` was never met: {hits:?}");
    }
    let is_killed_at = |point: &str| KILLED.iter().copied().flatten().any(|prefix| point.starts_with(prefix));
    if let Some(point) = hits.keys().find(|point| !is_killed_at(point)) {
        panic!("`{point}` is met, and nobody is killed there");
    }
    let cases: u64 = hits.values().map(|hits| (*hits).min(3)).sum();
    let again = (FIRST.len() * AGAIN.len()) as u64;
    assert!(hits.len() >= 24 && cases + again >= 72, "{} points, {cases} cases: {hits:?}", hits.len());
}

#[test]
fn a_resume_with_another_prompt_keeps_answers_and_announces_only_running_jobs() {
    let lines: &[(&str, &[&str])] = &[
        ("Do it.", &["toolu_c=spawn_sub_agent{\"prompt\":\"Work on C.\"}", "Done."]),
        ("Work on C.", &["C is done."]),
        ("And now?", &["Now this.", "And that."]),
    ];
    for (point, said, runs) in [
        ("spawn.before:1", "This call has no result here", 1),
        ("spawn.after:1", "continues in the background", 2),
        ("run.end.before:1", "continues in the background", 2),
        ("run.end.after:1", "C is done.", 2),
    ] {
        let world = World::saying(lines);
        assert_eq!(world.start(point).status.signal(), Some(9), "{point}");
        let resumed = CommandOutput::of(world.offshoot(&["run", "--resume", ROOT, "And now?"], ""));
        assert_eq!(resumed.code, Some(0), "{point}: {resumed:?}");
        let transcripts = world.transcripts();
        assert_eq!(transcripts.len(), runs, "{point}");
        let main = transcripts[ROOT].join("\n");
        let result = main.lines().find(|line| line.starts_with("\"toolu_c\"")).unwrap();
        assert!(result.contains(said), "{point}: {result}");
        let promised = said.contains("continues in");
        assert_eq!(main.matches("<job_ended").count(), usize::from(promised), "{point}: {main}");
    }
}

/// The processes whose command line has that word.
fn processes_with(word: &str) -> usize {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = all.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    lines.filter(|line| line.split(|byte| *byte == 0).any(|part| part == word.as_bytes())).count()
}

#[test]
fn a_tree_of_nine_that_is_cancelled_leaves_no_process() {
    let seconds = format!("4242{}", std::process::id());
    let sleeps = format!("toolu_s=bash{{\"command\":\"sleep {seconds}\"}}");
    let spawns: Vec<String> = (0..8)
        .map(|n| {
            format!(
                "toolu_{n}=spawn_sub_agent{{\"prompt\":\"Sleep {n}.\",\"run_in_background\":{}}}",
                n % 2 == 0
            )
        })
        .collect();
    let (spawns, names): (String, Vec<String>) =
        (spawns.join(" + "), (0..8).map(|n| format!("Sleep {n}.")).collect());
    let (main, sub) = ([spawns.as_str(), "Never said."], [sleeps.as_str(), "Never said."]);
    let mut lines: Vec<(&str, &[&str])> = vec![("Do it.", &main)];
    lines.extend(names.iter().map(|name| (name.as_str(), &sub[..])));
    let world = World::saying(&lines);
    std::thread::scope(|scope| {
        let run =
            scope.spawn(|| CommandOutput::of(world.offshoot(&["run", "--allow", "bash", "Do it."], "")));
        while processes_with(&seconds) < 8 {
            assert!(!run.is_finished(), "it ended: {:?}", run.join());
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let cancelled = world.env.run(&["cancel", ROOT]);
        assert_eq!(cancelled.code, Some(0), "{cancelled:?}");
        assert_eq!(run.join().unwrap().code, Some(1), "it was ended");
    });
    assert_eq!(processes_with(&seconds), 0);
    let listed: Value = serde_json::from_str(&world.env.run(&["ps", "--format", "json"]).stdout).unwrap();
    let statuses: Vec<&str> =
        listed["runs"].as_array().unwrap().iter().map(|run| run["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["cancelled_by_user"; 9]);
}

/// A message to a job, and the job's continuation after its end: each is delivered once, whenever the process is killed.
#[test]
fn killed_while_a_message_is_sent_and_a_sub_agent_is_continued() {
    let send =
        format!("@begun:2-0 toolu_b=send_message{{\"run_id\":\"{ROOT}-2-0\",\"message\":\"Use tabs.\"}}");
    let more =
        format!("toolu_c=spawn_sub_agent{{\"prompt\":\"And the tests?\",\"continue\":\"{ROOT}-2-0\"}}");
    let lines: &[(&str, &[&str])] = &[
        (
            "Do it.",
            &[
                "toolu_a=spawn_sub_agent{\"prompt\":\"Work on A.\",\"run_in_background\":true}",
                &send,
                "I wait.",
                &more,
                "All done.",
            ],
        ),
        ("Work on A.", &["@asked:3 toolu_a1=read{\"path\":\"given.txt\"}", "A is done.", "Tested."]),
    ];
    let world = World::saying(lines);
    let said = CommandOutput::of(world.start(""));
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), "All done.\n"), "{said:?}");
    let expected = world.transcripts();
    let sub_agent = expected[&format!("{ROOT}-2-0")].join("\n");
    for text in ["Use tabs.", "And the tests?"] {
        assert_eq!(sub_agent.matches(text).count(), 1, "{text}: {sub_agent}");
    }
    let mut hits: BTreeMap<String, u64> = BTreeMap::new();
    for point in world.points().into_iter().filter(|line| !line.contains(' ')) {
        *hits.entry(point).or_default() += 1;
    }
    assert!(hits.contains_key("send.after") && hits.contains_key("continue.after"), "{hits:?}");
    for (point, hits) in hits {
        for hit in BTreeSet::from([1, hits.div_ceil(2), hits]) {
            let case = format!("{point}:{hit}");
            let world = World::saying(lines);
            let killed = world.start(&case);
            assert_eq!(killed.status.signal(), Some(9), "{case}: {:?}", CommandOutput::of(killed));
            let nothing_yet = case == "run.start.before:1";
            let said = CommandOutput::of(if nothing_yet { world.start("") } else { world.resume("") });
            let had_ended = point == "run.end.after" && said.stderr.contains("is completed");
            assert!(had_ended || said.code == Some(0), "{case}: {said:?}");
            same(&world.transcripts(), &expected, &case);
        }
    }
}

#[test]
fn a_message_from_outside_is_delivered_when_the_run_goes_on() {
    let world = World::saying(&[("Do it.", &["toolu_a=read{\"path\":\"given.txt\"}", "All done."])]);
    assert_eq!(world.start("ask.commit.after:1").status.signal(), Some(9));
    for (arguments, error) in
        [(["send", ROOT, " "], "the message is empty"), (["send", "nobody", "Use tabs."], "no run `nobody`")]
    {
        let refused = CommandOutput::of(world.offshoot(&arguments, ""));
        assert!(refused.code == Some(2) && refused.stderr.contains(error), "{refused:?}");
    }
    let sent = CommandOutput::of(world.offshoot(&["send", ROOT, "Use tabs."], ""));
    assert_eq!(sent.code, Some(0), "{sent:?}");
    assert!(sent.stderr.contains(&format!("`offshoot run --resume {ROOT}`")), "{sent:?}");
    let said = CommandOutput::of(world.resume(""));
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), "All done.\n"), "{said:?}");
    let shown = CommandOutput::of(world.offshoot(&["show", ROOT], "")).stdout;
    assert_eq!(shown.matches("Use tabs.").count(), 1, "{shown}");
    let late = CommandOutput::of(world.offshoot(&["send", ROOT, "Use tabs."], ""));
    assert!(
        late.code == Some(2) && late.stderr.contains(&format!("hint: offshoot run --resume {ROOT}")),
        "{late:?}"
    );
}

/// A request that was in flight is kept as an attempt without an end, and its cost is unknown, before and after the run
/// is resumed.
#[test]
fn a_request_in_flight_at_a_kill_is_counted_and_shown() {
    let world = World::saying(&[("Do it.", &["toolu_a=read{\"path\":\"given.txt\"}", "All done."])]);
    assert_eq!(world.start("ask.first_byte:2").status.signal(), Some(9));
    let json = |arguments: &[&str]| -> Value {
        let said = CommandOutput::of(world.offshoot(&[arguments, &["--format", "json"]].concat(), ""));
        serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said:?}"))
    };
    let endings = || -> Vec<Value> {
        let shown = json(&["show", ROOT]);
        let attempts = shown["model_calls"][1]["attempts"].as_array().unwrap().clone();
        assert!(
            attempts[0]["ended_at_ms"].is_null() && attempts[0]["started_at_ms"].is_i64(),
            "{attempts:?}"
        );
        attempts.into_iter().map(|attempt| attempt["ending"].clone()).collect()
    };
    let unknown = || json(&["cost"])["total"]["unpriced_calls"].clone();
    assert_eq!((endings(), unknown()), (vec!["open".into()], 1.into()));
    assert_eq!(CommandOutput::of(world.resume("")).code, Some(0));
    assert_eq!((endings(), unknown()), (vec!["killed".into(), "complete".into()], 1.into()));
    assert_eq!(json(&["show", ROOT])["resumptions"][0]["status"], "running");
    let report = CommandOutput::of(world.offshoot(&["report", ROOT, "--out", "-"], "")).stdout;
    assert!(report.contains(r#""word":"killed""#), "the timeline marks it");
}
