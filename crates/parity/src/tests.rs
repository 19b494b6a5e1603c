//! The criteria, on recordings that only exist here.

use std::collections::BTreeSet;

use recording::lanes::{Identity, LaneResponse, LaneTracker};
use recording::scenario::{Expectation, Expectations, Fallback};
use recording::source::{ExchangeSummary, OrderedExchanges};
use recording::{
    BypassEvidence, Command, Manifest, Network, NetworkIsolation, ProxyBypass, WorkspaceChanges,
};
use serde_json::{Value, json};
use session::RequestId;
use wire::dialect::Dialect;

use crate::evidence::FirstRequest;
use crate::{CriterionAnswer, Evidence, RecordedScenario, check_recording};

/// A request's name, its tools, its messages and the reply's content.
type Step<'s> = (&'s str, &'s str, Vec<Value>, Value);

fn call(id: &str, name: &str, input: Value) -> Value {
    json!({"type": "tool_use", "id": id, "name": name, "input": input})
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn said(content: &[Value]) -> Value {
    json!({"role": "assistant", "content": content})
}

fn result(call: &str, text: &str) -> Value {
    json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": call, "content": text}]})
}

/// Two agents in the background; main polls one and cancels the other, and asks for one that is not there.
fn story() -> Vec<Step<'static>> {
    let spawns = [
        call("a", "Task", json!({"prompt": "Look at the first half."})),
        call("b", "Task", json!({"prompt": "Look at the second half."})),
    ];
    let touches = [
        call("poll", "JobOutput", json!({"id": "job_0001"})),
        call("stop", "JobCancel", json!({"id": "job_0002"})),
        call("lost", "JobOutput", json!({"id": "job_9999"})),
    ];
    let opening = vec![user("Do it well.")];
    let launched = [
        opening.clone(),
        vec![said(&spawns), result("a", "started job_0001"), result("b", "started job_0002")],
    ];
    let launched = launched.concat();
    let asked = [
        launched.clone(),
        vec![
            said(&touches),
            result("poll", "done"),
            result("stop", "stopped"),
            result("lost", "no such job"),
        ],
    ];
    vec![
        ("r1", "Task", opening, json!(spawns)),
        (
            "r2",
            "Read",
            vec![user("Look at the first half.")],
            json!([call("w", "Write", json!({"path": "x"}))]),
        ),
        ("r3", "Read", vec![user("Look at the second half.")], json!([call("z", "Read", json!({}))])),
        ("r4", "Task", launched, json!(touches)),
        (
            "r5",
            "Read",
            vec![
                user("Look at the first half."),
                said(&[call("w", "Write", json!({"path": "x"}))]),
                result("w", "denied"),
            ],
            json!([{"type": "text", "text": "half done"}]),
        ),
        ("r6", "Task", asked.concat(), json!([{"type": "text", "text": "all done"}])),
    ]
}

fn ordered(story: Vec<Step<'_>>) -> OrderedExchanges {
    let mut tracker = LaneTracker::new();
    let mut exchanges = Vec::new();
    for (id, tool, messages, content) in story {
        let tools = json!([{"name": tool, "input_schema": {}}]);
        let body = json!({"model": "m", "system": tool, "tools": tools, "messages": messages}).to_string();
        let prompt = Dialect::AnthropicMessages.decode_request(body.as_bytes()).expect("a request");
        let id = RequestId::new(id);
        tracker.add_request(&id, &prompt, &Identity::default());
        let stop = if content[0]["type"] == "tool_use" { "tool_use" } else { "end_turn" };
        let reply = json!({"id": id, "type": "message", "role": "assistant", "model": "m", "content": content,
            "stop_reason": stop, "usage": {"input_tokens": 1, "output_tokens": 1}});
        tracker.add_response(
            &id,
            &LaneResponse::decode(Dialect::AnthropicMessages, 200, reply.to_string().as_bytes()),
        );
        exchanges.push(ExchangeSummary {
            id,
            method: "POST".into(),
            url: "http://x/v1/messages".into(),
            dialect: Some(Dialect::AnthropicMessages),
            model: None,
            status: Some(200),
            ending: Some(wire::Ending::Complete),
            started_us: None,
            took_us: None,
            error: None,
        });
    }
    OrderedExchanges { lanes: tracker.finish(), exchanges, problems: Vec::new() }
}

/// Evidence of a scenario that asks for everything, and shows it.
fn evidence() -> Evidence {
    let ordered = ordered(story());
    let mut files: BTreeSet<String> = [
        "recording.json",
        "exchanges.log",
        "normalized/manifest.json",
        "normalized/replay_session.json",
        "scenario.json",
        "stderr.txt",
        "stdout.txt",
        "exit_code.txt",
    ]
    .map(str::to_owned)
    .into();
    for n in 1..=6 {
        files.insert(format!("normalized/turn_{n:03}_request.json"));
        files.insert(format!("provider_dumps/r{n}_request.json"));
        files.insert(format!("provider_dumps/r{n}_response.json"));
    }
    let command = Command { exit_code: Some(0), ..Command::default() };
    let network = Network { seal: NetworkIsolation::Namespace, because: None, proxy_port: 1 };
    Evidence {
        files,
        manifest: Some(Manifest {
            command: Some(command),
            network: Some(network),
            workspace: Some(WorkspaceChanges::default()),
            ..Manifest::default()
        }),
        unsealed: None,
        damage: Vec::new(),
        scenario: Some(RecordedScenario {
            name: "everything".into(),
            prompt: "Do it  well.".into(),
            read_only: true,
            expects: Expectations {
                spawns_in_one_turn: Some(2),
                background: true,
                polling: true,
                wakeup: false,
                cancel: true,
                unknown_job: true,
                denied_write: true,
            },
            stand_in: Vec::new(),
        }),
        jobs: ordered.lanes.jobs(),
        ordered,
        opening: FirstRequest { texts: vec!["Do it well.".into()], tools: (1, 1) },
    }
}

/// The criteria that are answered with no.
fn failed(evidence: &Evidence) -> Vec<&'static str> {
    let check = check_recording(evidence);
    let no: Vec<_> =
        check.criteria.iter().filter(|criterion| criterion.answer == CriterionAnswer::No).collect();
    assert_eq!(check.ok, no.is_empty());
    assert!(check.criteria.iter().all(|criterion| !criterion.reason.is_empty()));
    no.into_iter().map(|criterion| criterion.name).collect()
}

#[test]
fn a_recording_that_shows_everything_holds() {
    let evidence = evidence();
    assert_eq!(failed(&evidence), [""; 0]);
    assert!(
        check_recording(&evidence).criteria.iter().all(|criterion| criterion.answer == CriterionAnswer::Yes)
    );
}

/// Breaks one thing in the evidence.
type Breakage = fn(&mut Evidence);

#[test]
fn each_thing_that_is_wrong_fails_its_own_criterion() {
    let round = |evidence: &mut Evidence| {
        let round = ProxyBypass {
            host: "elsewhere".into(),
            port: Some(443),
            at: String::new(),
            seen_by: BypassEvidence::Proxy,
            count: 1,
        };
        evidence.manifest.as_mut().expect("a manifest").round_the_proxy.push(round);
    };
    let breakages: [(&str, Breakage); 11] = [
        ("files", |evidence| {
            evidence.files.remove("provider_dumps/r2_response.json");
        }),
        ("sealed", |evidence| evidence.unsealed = Some("it was killed".into())),
        ("sealed", |evidence| evidence.damage.push("`stdout.txt` was changed".into())),
        ("nothing lost", |evidence| {
            let problem =
                recording::source::Problem { what: "r1".into(), why: "there is no response".into() };
            evidence.ordered.problems.push(problem);
        }),
        ("harness ended well", |evidence| {
            let command = evidence.manifest.as_mut().and_then(|manifest| manifest.command.as_mut());
            command.expect("a command").exit_code = Some(7);
        }),
        ("prompt", |evidence| evidence.opening.texts = vec!["Do something else.".into()]),
        ("tool schemas", |evidence| evidence.opening.tools = (0, 0)),
        ("cancel", |evidence| {
            evidence.jobs.iter_mut().for_each(|job| job.touches.retain(|touch| !touch.cancels));
        }),
        ("background", |evidence| evidence.jobs.iter_mut().for_each(|job| job.background = false)),
        ("workspace unchanged", |evidence| {
            let changes = evidence.manifest.as_mut().and_then(|manifest| manifest.workspace.as_mut());
            changes.expect("changes").added.push("new.txt".into());
        }),
        ("nothing went round the proxy", round),
    ];
    for (name, breakage) in breakages {
        let mut evidence = evidence();
        breakage(&mut evidence);
        let failed = failed(&evidence);
        assert!(failed.contains(&name), "{name}: {failed:?}");
    }
}

#[test]
fn a_prompt_may_be_a_quoted_argument() {
    let asked = |prompt: &str, text: &str| {
        let mut evidence = evidence();
        evidence.scenario.as_mut().expect("a scenario").prompt = prompt.into();
        evidence.opening.texts = vec![text.into()];
        !failed(&evidence).contains(&"prompt")
    };
    let prompt = r#"Say "yes" or "no"."#;
    assert!(asked(prompt, prompt));
    assert!(asked(prompt, r#""Say \"yes\" or \"no\".""#));
    assert!(asked(prompt, r#"Now: "Say \"yes\" or \"no\"." go"#));
    for text in [
        r#""Say \"yes\" or no.""#,
        r#""Say \"yes\" or \"now\".""#,
        r#""Say yes or no.""#,
        r#"Say \"yes\" or \"no\"."#,
    ] {
        assert!(!asked(prompt, text), "{text}");
    }
}

#[test]
fn an_unseen_feature_fails_without_a_fallback() {
    let mut evidence = evidence();
    // Only main's first turn: nothing was started, asked after, cancelled or refused.
    evidence.ordered = ordered(story().into_iter().take(1).collect());
    evidence.jobs = evidence.ordered.lanes.jobs();
    let unseen = [
        "spawn calls",
        "sub-agent lanes",
        "background",
        "polling or wake-up",
        "cancel",
        "unknown job",
        "denied write",
    ];
    assert_eq!(failed(&evidence), unseen);
    let scenario = evidence.scenario.as_mut().expect("a scenario");
    use Expectation::{Background, Cancel, DeniedWrite, Polling, UnknownJob};
    let surfaces = vec![Background, Polling, Cancel, UnknownJob, DeniedWrite];
    scenario.stand_in.push(Fallback {
        harness: "any".into(),
        surfaces,
        versions: None,
        note: "this version has none of it".into(),
    });
    assert_eq!(failed(&evidence), ["spawn calls", "sub-agent lanes"]);
}

#[test]
fn without_a_scenario_nothing_is_expected() {
    let mut evidence = evidence();
    evidence.scenario = None;
    evidence.manifest.as_mut().expect("a manifest").network = None;
    assert_eq!(failed(&evidence), [""; 0]);
    let answers = check_recording(&evidence).criteria;
    let answer = |name: &str| {
        answers.iter().find(|criterion| criterion.name == name).map(|criterion| criterion.answer)
    };
    assert_eq!(answer("cancel"), Some(CriterionAnswer::NotApplicable));
    assert_eq!(answer("nothing went round the proxy"), Some(CriterionAnswer::NotApplicable));
}
