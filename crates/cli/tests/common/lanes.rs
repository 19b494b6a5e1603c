//! Checks lanes against the script: the replies of each lane carry the mark of one agent.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use wire::dialect::Dialect;

use super::TestEnv;

/// Every exchange is in one lane, each lane's replies carry one mark, and each agent has one lane. An agent that
/// another sub-agent started is named `agent of starter`.
pub(crate) fn lanes_are_true(env: &TestEnv, folder: &str, agents: &[&str]) {
    let shown = env.show(folder);
    let lanes = shown["lanes"].as_array().unwrap();
    let mut found = BTreeMap::new();
    let mut exchanges = Vec::new();
    for lane in lanes {
        let ids: Vec<&str> =
            lane["exchanges"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
        let marks: BTreeSet<String> = ids.iter().filter_map(|id| mark(&env.path(folder), id)).collect();
        assert!(marks.len() <= 1, "lane {} of {folder} has replies of {marks:?}", lane["id"]);
        let is_side = lane["kind"] == "side";
        assert!(
            !is_side || marks.iter().all(|mark| mark == "side"),
            "{marks:?} in the side lane {}",
            lane["id"]
        );
        if !is_side {
            // The only reply of an agent that was cancelled never came; then its call says who it is.
            let called = || lane["agent_type"].as_str().unwrap().to_owned();
            let agent = marks.into_iter().next().unwrap_or_else(called);
            assert_eq!(lane["parent"].is_null(), agent == "main", "{agent}");
            found.insert(lane["id"].as_str().unwrap(), (agent, lane["parent"].as_str()));
        }
        exchanges.extend(ids);
    }
    let named = |(agent, parent): &(String, Option<&str>)| match parent.map(|parent| found[parent].0.as_str())
    {
        None | Some("main") => agent.clone(),
        Some(starter) => format!("{agent} of {starter}"),
    };
    let mut named: Vec<String> = found.values().map(named).collect();
    named.sort();
    assert_eq!(named, agents, "{folder}");
    let dumped = dumps(&env.path(folder)).into_iter().filter(|name| name.ends_with("_request.json")).count();
    assert_eq!(exchanges.iter().collect::<BTreeSet<_>>().len(), dumped, "an exchange is lost");
    assert_eq!(exchanges.len(), dumped, "an exchange is in two lanes");
}

/// Returns the bracketed mark at the beginning of a reply.
fn mark(folder: &Path, id: &str) -> Option<String> {
    let read = |phase: &str| fs::read(dump_folder(folder).join(format!("{id}_{phase}.json"))).ok();
    let request: Value = serde_json::from_slice(&read("request")?).unwrap();
    let target = request["targetUrl"].as_str().unwrap();
    let dialect =
        Dialect::detect(target, request["body"]["text"].as_str().unwrap_or_default().as_bytes()).unwrap();
    let body = recording::ResponseDump::read(&read("response")?).unwrap().body.bytes()?;
    let text = recording::lanes::LaneResponse::decode(dialect, 200, &body).reply?.text()?;
    Some(text.strip_prefix('[')?.split_once(']')?.0.to_owned())
}

fn dump_folder(folder: &Path) -> PathBuf {
    let inside = folder.join("provider_dumps");
    if inside.is_dir() { inside } else { folder.to_owned() }
}

fn dumps(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(dump_folder(folder)).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// The dumps alone, without anything in a header or beside the body that says who is asking.
pub(crate) fn without_headers(recording: &Path, bare: &Path) {
    fs::create_dir(bare).unwrap();
    for name in dumps(recording) {
        let mut dump: Value =
            serde_json::from_slice(&fs::read(recording.join("provider_dumps").join(&name)).unwrap()).unwrap();
        for key in ["sessionId", "agentId", "messageId"] {
            dump.as_object_mut().unwrap().remove(key);
        }
        let kept = |header: &Value| header["name"].as_str().is_some_and(|name| name.starts_with("content-"));
        dump["headers"].as_array_mut().unwrap().retain(kept);
        fs::write(bare.join(name), dump.to_string()).unwrap();
    }
}
