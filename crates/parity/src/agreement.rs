//! Compares a session that a harness exported with the session on the wire.
//!
//! The comparison covers the lanes and their parents, calls, texts of results, and final texts. Two differences are
//! allowed. A harness adds its own text around a result when it sends it, so the exported text need only be *contained*
//! in the one on the wire, both trimmed. Results after the last request of a lane were never sent.

use std::collections::HashMap;

use recording::normalize::{Envelope, SessionLane, SessionResult};
use serde::Serialize;
use session::CallId;

/// Characters of a text that a disagreement shows.
const SHOWN: usize = 80;

/// A difference between the exported session and the wire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Disagreement {
    /// The wire's name of the lane, or the export's if the wire lacks it.
    pub lane: String,
    /// The fact that differs, such as `parent` or `result of toolu_a`.
    pub fact: String,
    /// The value in the export.
    pub exported: Option<String>,
    /// The value on the wire.
    pub wire: Option<String>,
}

/// Compares an exported session with the wire. Side lanes are left out, because harnesses export few of them.
pub fn find_disagreements(exported: &Envelope, wire: &Envelope) -> Vec<Disagreement> {
    let (exported, wire) = (exported.agents(), wire.agents());
    let pairs = pair_lanes(&exported, &wire);
    let mut found = Vec::new();
    for (_, lane) in exported.iter().enumerate().filter(|(at, _)| !pairs.contains_key(at)) {
        found.push(Disagreement::new(&lane.id, "lane", Some("is exported"), None));
    }
    for (at, lane) in wire.iter().enumerate() {
        let Some((exported_at, _)) = pairs.iter().find(|(_, on_wire)| **on_wire == at) else {
            found.push(Disagreement::new(&lane.id, "lane", None, Some("is on the wire")));
            continue;
        };
        let same = exported[*exported_at];
        let parent_of = |lane: &SessionLane| lane.parent.clone();
        // Lanes are numbered by time, which may differ, so parents are compared by their counterparts.
        let exported_parent = parent_of(same).map(|parent| {
            let number = exported.iter().position(|lane| lane.id == parent);
            let on_wire = number.and_then(|number| pairs.get(&number));
            on_wire.map_or(format!("{parent}, which is not on the wire"), |on_wire| wire[*on_wire].id.clone())
        });
        let text = |text: &Option<String>| text.as_deref().map(|text| text.trim().to_owned());
        let spawn = |lane: &SessionLane| lane.spawned_by.as_ref().map(|call| call.as_str().to_owned());
        for (fact, exported, wire) in [
            ("parent", exported_parent, parent_of(lane)),
            ("spawned_by", spawn(same), spawn(lane)),
            ("final text", text(&same.final_text), text(&lane.final_text)),
        ] {
            if exported != wire {
                found.push(Disagreement::new(&lane.id, fact, exported.as_deref(), wire.as_deref()));
            }
        }
        compare_calls(same, lane, &mut found);
        compare_results(same, lane, &mut found);
    }
    found
}

impl Disagreement {
    fn new(lane: &str, fact: impl Into<String>, exported: Option<&str>, wire: Option<&str>) -> Self {
        let short = |text: &str| match text.char_indices().nth(SHOWN) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text.to_owned(),
        };
        Self {
            lane: lane.to_owned(),
            fact: fact.into(),
            exported: exported.map(short),
            wire: wire.map(short),
        }
    }
}

/// Pairs lanes: by the call that started them, then by a common call, then roots in order.
fn pair_lanes(exported: &[&SessionLane], wire: &[&SessionLane]) -> HashMap<usize, usize> {
    let mut pairs: HashMap<usize, usize> = HashMap::new();
    let spawned = |a: &SessionLane, b: &SessionLane| a.spawned_by.is_some() && a.spawned_by == b.spawned_by;
    let made = |a: &SessionLane, b: &SessionLane| {
        let mine: Vec<&CallId> = calls_of(a).map(|(id, _)| id).collect();
        a.spawned_by.is_some() == b.spawned_by.is_some() && calls_of(b).any(|(id, _)| mine.contains(&id))
    };
    let roots =
        |a: &SessionLane, b: &SessionLane| a.parent.is_none() && b.parent.is_none() && a.kind == b.kind;
    type Rule = fn(&SessionLane, &SessionLane) -> bool;
    let rules: [Rule; 3] = [spawned, made, roots];
    for rule in rules {
        for (at, lane) in exported.iter().enumerate() {
            let is_free = |number: usize| !pairs.values().any(|taken| *taken == number);
            let fits = |number: &usize| is_free(*number) && rule(lane, wire[*number]);
            if !pairs.contains_key(&at)
                && let Some(number) = (0..wire.len()).find(fits)
            {
                pairs.insert(at, number);
            }
        }
    }
    pairs
}

fn calls_of(lane: &SessionLane) -> impl Iterator<Item = (&CallId, &str)> {
    lane.turns.iter().flat_map(|turn| &turn.calls).map(|call| (&call.id, call.name.as_str()))
}

fn compare_calls(exported: &SessionLane, wire: &SessionLane, found: &mut Vec<Disagreement>) {
    let (mut mine, mut theirs) = (calls_of(exported), calls_of(wire));
    for number in 1.. {
        let pair = (mine.next(), theirs.next());
        let shown = |call: Option<(&CallId, &str)>| call.map(|(id, name)| format!("{name} {id}"));
        match pair {
            (None, None) => break,
            (a, b) if a == b => {}
            (a, b) => {
                let fact = format!("call {number}");
                found.push(Disagreement::new(&wire.id, fact, shown(a).as_deref(), shown(b).as_deref()));
            }
        }
    }
}

fn compare_results(exported: &SessionLane, wire: &SessionLane, found: &mut Vec<Disagreement>) {
    let results = |lane: &'_ SessionLane| -> Vec<SessionResult> {
        lane.turns.iter().flat_map(|turn| turn.results.clone()).collect()
    };
    let (mine, theirs) = (results(exported), results(wire));
    let last = wire.turns.last().map(|turn| &turn.calls[..]).unwrap_or_default();
    let never_sent = |call: &CallId| last.iter().any(|made| made.id == *call);
    for result in &mine {
        let sent = theirs.iter().find(|sent| sent.call == result.call);
        let agrees = match sent {
            Some(sent) => sent.text.trim().contains(result.text.trim()) && sent.is_error == result.is_error,
            None => never_sent(&result.call),
        };
        if !agrees {
            let fact = format!("result of {}", result.call);
            let sent = sent.map(|sent| sent.text.as_str());
            found.push(Disagreement::new(&wire.id, fact, Some(&result.text), sent));
        }
    }
    for sent in theirs.iter().filter(|sent| !mine.iter().any(|result| result.call == sent.call)) {
        found.push(Disagreement::new(&wire.id, format!("result of {}", sent.call), None, Some(&sent.text)));
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use recording::lanes::LaneKind;
    use recording::normalize::{SessionCall, SessionTurn};

    use super::*;

    /// Lanes as text, a turn a line: `ID < PARENT by CALL`, then `CALL=result … -> CALL … text`.
    fn session(text: &str) -> Envelope {
        let mut lanes: Vec<SessionLane> = Vec::new();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let Some((results, said)) = line.split_once("->") else {
                lanes.push(lane(line));
                continue;
            };
            let result = |word: &str| {
                let (call, text) = word.split_once('=').expect("call=text");
                SessionResult { call: CallId::new(call), text: text.replace('_', " "), is_error: false }
            };
            let (calls, words): (Vec<&str>, Vec<&str>) =
                said.split_whitespace().partition(|word| word.starts_with('#'));
            let call = |id: &&str| SessionCall {
                id: CallId::new(*id),
                name: "Tool".into(),
                input: serde_json::Value::Null,
                started: Vec::new(),
            };
            let lane = lanes.last_mut().expect("a lane");
            let text = Some(words.join(" ")).filter(|text| !text.is_empty());
            lane.final_text = text.clone().or(lane.final_text.take());
            lane.turns.push(SessionTurn {
                results: results.split_whitespace().map(result).collect(),
                calls: calls.iter().map(call).collect(),
                text,
                ..SessionTurn::default()
            });
        }
        Envelope::from_lanes("test", lanes)
    }

    fn lane(line: &str) -> SessionLane {
        let words: Vec<&str> = line.split_whitespace().collect();
        let kind = if words.len() > 1 { LaneKind::Sub } else { LaneKind::Main };
        SessionLane {
            id: words[0].to_owned(),
            kind,
            parent: words.get(2).map(|parent| (*parent).to_owned()),
            spawned_by: words.get(4).map(|call| CallId::new(*call)),
            agent_type: None,
            session: None,
            agent: None,
            model: None,
            job: None,
            turns: Vec::new(),
            final_text: None,
            usage: session::Usage::default(),
        }
    }

    const WIRE: &str = "
        main
          -> #a #b
          #a=note:_snow_(3_s) #b=sand -> #c
        sub-1 < main by #a
          -> #d
          #d=seen -> snow
        sub-2 < main by #b
          -> sand
    ";

    fn check(exported: &str, expected: Expect) {
        let text = |side: &Option<String>| side.clone().unwrap_or_else(|| "-".to_owned());
        let line = |found: &Disagreement| {
            format!("{}, {}: {} / {}\n", found.lane, found.fact, text(&found.exported), text(&found.wire))
        };
        let found = find_disagreements(&session(exported), &session(WIRE));
        expected.assert_eq(&found.iter().map(line).collect::<String>());
    }

    #[test]
    fn other_numbers_less_text_and_unsent_results_agree() {
        check(
            "
            main
              -> #a #b
              #a=snow #b=sand -> #c
              #c=too_late ->
            sub-2 < main by #a
              -> #d
              #d=seen -> snow
            sub-1 < main by #b
              -> sand
            ",
            expect![""],
        );
    }

    #[test]
    fn differences_are_listed() {
        check(
            "
            main
              -> #a #b
              #a=rain -> #c #e
            sub-1 < main by #a
              -> #d
              #d=seen -> rain
            sub-2 < sub-1 by #d
              -> what
            ",
            expect![[r#"
                sub-2, lane: is exported / -
                main, call 4: Tool #e / -
                main, result of #a: rain / note: snow (3 s)
                main, result of #b: - / sand
                sub-1, final text: rain / snow
                sub-2, lane: - / is on the wire
            "#]],
        );
    }
}
