//! Lane tests as text: requests (`>`) and responses (`<`) in, the lanes out.
//!
//! A request is `> ID SETUP | message | message`: `u:` user, `s:` system, `a:` assistant (text, or `#id` for
//! calls), `r:ID=text` a result. `SETUP` is `system/tools`, where tools may be empty. `@agent` after it is an
//! agent id in a header. A response is `< ID text`, `< ID #id(prompt)…`, `< ID 529` or `< ID cut`.

use std::fmt::Write as _;

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use session::RequestId;
use wire::dialect::Dialect;

use super::*;

pub(super) fn check(story: &str, expected: Expect) {
    let mut tracker = LaneTracker::new();
    for line in story.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (sign, rest) = line.split_at(2);
        let (id, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let id = RequestId::new(id);
        match sign {
            "> " => ask(&mut tracker, &id, rest),
            _ => tracker.add_response(&id, &heard(&id, rest)),
        }
    }
    expected.assert_eq(&rendered(&tracker.finish()));
}

fn ask(tracker: &mut LaneTracker, id: &RequestId, rest: &str) {
    let (setup, conversation) = rest.split_once(" | ").unwrap_or((rest, ""));
    let (setup, agent) =
        setup.split_once('@').map_or((setup, None), |(setup, agent)| (setup, Some(agent.trim())));
    let (system, tools) = setup.trim().split_once('/').expect("system/tools");
    let (tools, model) = tools.split_once('=').unwrap_or((tools, "m"));
    let tools: Vec<Value> = tools
        .split(',')
        .filter(|name| !name.is_empty())
        .map(|name| json!({"name": name, "input_schema": {}}))
        .collect();
    let messages: Vec<Value> =
        conversation.split(" | ").filter(|text| !text.is_empty()).map(message).collect();
    let body = json!({"model": model, "system": system, "tools": tools, "messages": messages}).to_string();
    let prompt = Dialect::AnthropicMessages.decode_request(body.as_bytes()).expect("a request");
    let headers = agent.map(|agent| [("x-session-id", "one session"), ("x-agent-id", agent)]);
    let headers = headers.iter().flatten().filter(|(_, value)| !value.is_empty()).copied();
    tracker.add_request(id, &prompt, &Identity::of(headers, body.as_bytes(), Some(&prompt)));
}

fn message(text: &str) -> Value {
    let (role, text) = text.trim().split_once(':').expect("role: text");
    match role {
        "u" => json!({"role": "user", "content": text}),
        "s" => json!({"role": "system", "content": text}),
        "a" if text.starts_with('#') => json!({"role": "assistant", "content": calls(text)}),
        "a" => json!({"role": "assistant", "content": [{"type": "text", "text": text}]}),
        "r" => {
            let results = text.split(';').map(|result| {
                let (call, text) = result.split_once('=').expect("call=text");
                json!({"type": "tool_result", "tool_use_id": call, "content": text})
            });
            json!({"role": "user", "content": results.collect::<Vec<_>>()})
        }
        other => panic!("role {other}"),
    }
}

fn calls(text: &str) -> Vec<Value> {
    let call = |call: &str| {
        let (id, prompt) = call.trim().split_once('(').unwrap_or((call.trim(), ")"));
        let prompt = prompt.strip_suffix(')').expect("a closing bracket");
        let (key, prompt) = prompt.split_once('=').unwrap_or(("prompt", prompt));
        let input = if prompt.is_empty() { json!({}) } else { json!({key: prompt}) };
        json!({"type": "tool_use", "id": id, "name": "Task", "input": input})
    };
    text.split('#').skip(1).map(call).collect()
}

fn heard(id: &RequestId, text: &str) -> LaneResponse {
    let content = match text {
        "529" | "cut" => return LaneResponse::default(),
        "" => vec![],
        text if text.starts_with('#') => calls(text),
        text => vec![json!({"type": "text", "text": text})],
    };
    let stop = if text.starts_with('#') { "tool_use" } else { "end_turn" };
    let body = json!({"id": format!("msg_{id}"), "type": "message", "role": "assistant", "model": "m", "content": content,
        "stop_reason": stop, "usage": {"input_tokens": 1, "output_tokens": 1}});
    LaneResponse::decode(Dialect::AnthropicMessages, 200, body.to_string().as_bytes())
}

fn rendered(lanes: &Lanes) -> String {
    let mut text = String::new();
    for lane in &lanes.lanes {
        write!(text, "{}", lane.id).expect("a string");
        if let Some(parent) = &lane.parent {
            write!(text, " < {parent}").expect("a string");
        }
        if let Some(call) = &lane.spawned_by {
            write!(text, " by {call}").expect("a string");
        }
        for turn in &lane.turns {
            let attempts: Vec<&str> = turn.attempts.iter().map(RequestId::as_str).collect();
            write!(text, ", {}:{}", turn.turn, attempts.join("+")).expect("a string");
            for mark in &turn.marks {
                write!(text, " {mark:?}").expect("a string");
            }
        }
        text.push('\n');
    }
    text
}

#[test]
fn a_sub_agent_belongs_to_the_call_with_its_prompt() {
    check(
        "
        > r1 agent/Task,Read | u:do it
        < r1 #a(List the root.)#b(Count the lines in it.)
        > r2 scanner/Read | u:<reminder>x</reminder> | u:Count the lines in it.
        > r3 scanner/Read | u:List the root.
        < r2 #c()
        < r3 a list
        > r4 scanner/Read | u:<reminder>x</reminder> | u:Count the lines in it. | a:#c | r:c=12
        < r4 twelve
        > r5 agent/Task,Read | u:do it | a:#a#b | r:b=twelve;a=a list
        < r5 done
        ",
        expect![[r#"
            main, 1:r1, 2:r5
            sub-1 < main by b, 1:r2, 2:r4
            sub-2 < main by a, 1:r3
        "#]],
    );
}

#[test]
fn a_title_is_a_side_call_and_an_attempt_is_no_turn() {
    check(
        "
        > r1 title/ | u:Make a title: | u:do it
        > r2 agent/Task | u:do it
        < r1 A title
        < r2 529
        > r3 agent/Task | u:do it
        < r3 #a(Look at it well.)
        > r4 title/ | u:Make a title: | u:Look at it well.
        > r5 sub/Read | u:Look at it well.
        < r4 A title
        < r5 cut
        > r6 sub/Read | u:Look at it well.
        < r6 seen
        > r7 agent/Task | u:do it | a:#a | r:a=seen
        < r7 cut
        > r8 agent/Task | u:do it | a:#a | r:a=seen | s:a word more
        < r8 done
        ",
        expect![[r#"
            side-1, 1:r1
            main, 1:r2+r3, 2:r7+r8
            side-2 < main by a, 1:r4
            sub-1 < main by a, 1:r5+r6
        "#]],
    );
}

#[test]
fn twins_are_bound_in_order_unless_results_decide() {
    let twins = |first: &str, second: &str| {
        format!(
            "
            > r1 agent/Task | u:do it
            < r1 #a(The same words.)#b(The same words.)
            > r2 sub/Read | u:The same words.
            > r3 sub/Read | u:The same words.
            < r2 #x()
            < r3 #x()
            > r4 sub/Read | u:The same words. | a:#x | r:x=1
            > r5 sub/Read | u:The same words. | a:#x | r:x=1
            < r4 {first}
            < r5 {second}
            > r6 agent/Task | u:do it | a:#a#b | r:a={second};b={first}
            < r6 done
            "
        )
    };
    check(
        &twins("the same answer", "the same answer"),
        expect![[r#"
            main, 1:r1, 2:r6
            sub-1 < main by a, 1:r2, 2:r4
            sub-2 < main by b, 1:r3, 2:r5
        "#]],
    );
    check(
        &twins("the first answer", "the second answer"),
        expect![[r#"
            main, 1:r1, 2:r6
            sub-1 < main by b, 1:r2, 2:r4
            sub-2 < main by a, 1:r3, 2:r5
        "#]],
    );
}

#[test]
fn ids_separate_equal_conversations() {
    check(
        "
        > r1 agent/Task | u:do it
        < r1 #a(The same words.)#b(The same words.)
        > r2 sub/Read @agent-one | u:The same words.
        > r3 sub/Read @agent-two | u:The same words.
        < r3 #x()
        < r2 #x()
        > r4 sub/Read @agent-two | u:The same words. | a:#x | r:x=1
        > r5 sub/Read @agent-one | u:The same words. | a:#x | r:x=1
        < r4 done
        < r5 done
        > r6 agent/Task | u:do it | a:#a#b | r:a=agent-two done;b=agent-one done
        < r6 done
        ",
        expect![[r#"
            main, 1:r1, 2:r6
            sub-1 < main by b, 1:r2, 2:r5
            sub-2 < main by a, 1:r3, 2:r4
        "#]],
    );
}

#[test]
fn sub_agents_have_sub_agents() {
    check(
        "
        > r1 agent/Task | u:do it
        < r1 #a(Split this into two.)
        > r2 sub/Task | u:Split this into two.
        < r2 #b(The first half of it.)#c(The second half of it.)
        > r3 leaf/Read | u:The first half of it.
        > r4 leaf/Read | u:The second half of it.
        < r3 one
        < r4 two
        > r5 sub/Task | u:Split this into two. | a:#b#c | r:b=one;c=two
        < r5 both
        > r6 agent/Task | u:do it | a:#a | r:a=both
        < r6 done
        ",
        expect![[r#"
            main, 1:r1, 2:r6
            sub-1 < main by a, 1:r2, 2:r5
            sub-2 < sub-1 by b, 1:r3
            sub-3 < sub-1 by c, 1:r4
        "#]],
    );
}

#[test]
fn a_rewritten_history_stays_in_its_lane() {
    check(
        "
        > r1 agent/Read | u:do it
        < r1 #a()
        > r2 agent/Read | u:do it | a:#a | r:a=long text
        < r2 #b()
        > r3 agent/Read | u:do it, changed | a:#a | r:a=gone | a:#b | r:b=2
        < r3 #c()
        > r4 agent/Read | u:do it, changed | a:#b | r:b=2 | a:#c | r:c=3
        < r4 wrong way
        > r5 agent/Read | u:do it, changed | a:#b | r:b=2 | a:#c | r:c=3 | u:not that way
        < r5 #d()
        > r6 agent/Read | u:do it, changed | a:#b | r:b=2 | a:#c | r:c=3 | u:not that way | a:#d | r:d=4
        < r6 done
        ",
        expect![[r#"
            main, 1:r1, 2:r2, 3:r3 Rewrite, 4:r4 Rewrite, 5:r5 Rewrite, 6:r6
        "#]],
    );
}

#[test]
fn a_lane_that_shares_a_prefix_and_lives_on_is_a_fork() {
    check(
        "
        > r1 agent/Read | u:do it
        < r1 first
        > r2 agent/Read | u:do it | a:first | u:go on
        > r3 agent/Read | u:do it | a:first | u:a side question
        < r3 #q()
        < r2 #a()
        > r4 agent/Read | u:do it | a:first | u:a side question | a:#q | r:q=1
        > r5 agent/Read | u:do it | a:first | u:go on | a:#a | r:a=1
        < r4 answered
        < r5 done
        ",
        expect![[r#"
            main, 1:r1, 2:r2, 3:r5
            fork-1 < main, 1:r3, 2:r4
        "#]],
    );
    check(
        "
        > r1 agent/Task | u:do it
        < r1 #a(Look into the first half.)#b(Look into the second half.)
        > r2 agent/Task | u:do it | a:#a#b | r:a=started;b=started | u:Look into the first half.
        > r3 agent/Task | u:do it | a:#a#b | r:a=started;b=started | u:Look into the second half.
        < r3 two
        < r2 #x()
        > r4 agent/Task | u:do it | a:#a#b | r:a=started;b=started | u:Look into the first half. | a:#x | r:x=1
        < r4 one
        > r5 agent/Task | u:do it | a:#a#b | r:a=one;b=two
        < r5 done
        ",
        expect![[r#"
            main, 1:r1, 2:r5
            fork-1 < main by a, 1:r2, 2:r4
            fork-2 < main by b, 1:r3
        "#]],
    );
}

#[test]
fn a_history_that_is_reset_is_a_compaction() {
    check(
        "
        > r1 agent/Task,Read | u:do it
        < r1 #a(Look at all of it.)
        > r2 sub/Read | u:Look at all of it.
        < r2 seen
        > r3 agent/Task,Read | u:do it | a:#a | r:a=seen
        < r3 #toolu_b()
        > r4 agent/Task,Read | u:So far: we handed over 'Look at all of it.' and it was seen, then toolu_b.
        < r4 #c()
        > r5 agent/Task,Read | u:So far: we handed over 'Look at all of it.' and it was seen, then toolu_b. | a:#c | r:c=1
        < r5 done
        > r6 agent/Task,Read | u:do it
        < r6 anew
        ",
        expect![[r#"
            main, 1:r1, 2:r3, 3:r4 Compaction, 4:r5
            sub-1 < main by a, 1:r2
            main-2, 1:r6
        "#]],
    );
}

#[test]
fn a_summary_is_a_compaction_and_another_prompt_is_another_agent() {
    check(
        "
        > r1 agent/Read | u:do it
        < r1 #a()
        > r2 agent/Read | u:do it | a:#a | r:a=1 | u:sum up
        < r2 we read one file and it was empty
        > r3 agent/Read | u:Summary: we read one file and it was empty. Go on.
        < r3 #b()
        > r4 agent/Read | u:Summary: we read one file and it was empty. Go on. | a:#b | r:b=1
        < r4 done
        > r5 agent/Read | u:now something else
        < r5 #c()
        > r6 agent/Read | u:and something else beside it
        < r6 #d()
        > r7 agent/Read | u:now something else | a:#c | r:c=1
        < r7 done
        > r8 agent/Read | u:and something else beside it | a:#d | r:d=1
        < r8 done
        ",
        expect![[r#"
            main, 1:r1, 2:r2, 3:r3 Compaction, 4:r4
            main-2, 1:r5, 2:r7
            main-3, 1:r6, 2:r8
        "#]],
    );
}

#[test]
fn a_first_reply_that_is_carried_in_other_words_is_still_the_lanes() {
    let story = |carried: &str, last: &str| {
        format!(
            "
            > r1 agent/Read | u:do it
            < r1 <think>hm</think> it is done
            > r2 agent/Read | u:do it | a:{carried} | u:go on
            < r2 and more
            {last}
            "
        )
    };
    let carried = "it is done";
    check(
        &story(carried, "> r3 agent/Read | u:do it | a:it is done | u:go on | a:and more | u:stop"),
        expect![[r#"
            main, 1:r1, 2:r2 Rewrite, 3:r3
        "#]],
    );
    // Another opening or another setup is another agent.
    check(
        "
        > r1 agent/Read | u:do it
        < r1 it is done
        > r2 agent/Read | u:do that | a:that is done | u:go on
        > r3 helper/Write | u:do it | a:all is done | u:go on
        ",
        expect![[r#"
            main, 1:r1
            main-2, 1:r2
            main-3, 1:r3
        "#]],
    );
}

#[test]
fn twins_with_reworded_first_replies_stay_separate() {
    let story = |third: &str, fourth: &str| {
        format!(
            "
            > r1 agent/Read | u:do it
            < r1 <think>one</think>the alpha is done
            > r2 agent/Read | u:do it
            < r2 <think>two</think>the beta is done
            > r3 agent/Read | u:do it | a:{third} | u:go on
            < r3 more of {third}
            > r4 agent/Read | u:do it | a:{fourth} | u:go on
            < r4 more of {fourth}
            "
        )
    };
    let in_order = || {
        expect![[r#"
        main, 1:r1, 2:r3 Rewrite
        main-2, 1:r2, 2:r4 Rewrite
    "#]]
    };
    check(&story("the alpha is done", "the beta is done"), in_order());
    // The replies have no words in common: the oldest lane continues first.
    check(&story("fertig", "erledigt"), in_order());
    let crossed = || {
        expect![[r#"
        main, 1:r1, 2:r4 Rewrite
        main-2, 1:r2, 2:r3 Rewrite
    "#]]
    };
    check(&story("the beta is done", "the alpha is done"), crossed());
    check(&story("so the beta is over", "so the alpha is over"), crossed());
}

#[test]
fn text_put_before_a_reply_is_noticed() {
    check(
        "
        > r1 agent/Read | u:do it
        < r1 #a()
        > r2 agent/Read | u:do it | a:#a | r:a=1 | s:a job is done
        < r2 #b()
        > r3 agent/Read | u:do it | s:a job is done | a:#a | r:a=1 | s:a job is done | a:#b | r:b=1
        < r3 done
        ",
        expect![[r#"
            main, 1:r1, 2:r2, 3:r3 LateText
        "#]],
    );
}

#[test]
fn a_request_may_overtake_the_end_of_the_reply_it_carries() {
    check(
        "
        > r1 agent/Task | u:do it
        > r2 other/Task | u:do that
        > r3 agent/Task | u:do it | a:#a | r:a=1
        < r1 #a()
        < r2 #b()
        < r3 done
        > r4 other/Task | u:do that | a:#b | r:b=1
        < r4 done
        ",
        expect![[r#"
            main, 1:r1, 2:r3
            main-2, 1:r2, 2:r4
        "#]],
    );
}

#[test]
fn a_conversation_without_tools_is_main() {
    check(
        "
        > r1 title/ | u:name this: hi
        > r2 chat/ | u:hi
        < r1 A title
        < r2 hello
        > r3 chat/ | u:hi | a: hello\u{20}| u:go on
        < r3 more
        ",
        expect![[r#"
            side-1, 1:r1
            main, 1:r2, 2:r3
        "#]],
    );
}

#[test]
fn two_hundred_twins_stay_two_hundred() {
    let mut story = String::from("> r0 agent/Task | u:do it\n< r0 ");
    for n in 0..200 {
        write!(story, "#c{n}(Look into part {} of it.)", n / 2).expect("a string");
    }
    story.push('\n');
    for turn in 0..3 {
        for n in 0..200 {
            let prompt = format!("Look into part {} of it.", n / 2);
            let history: String = (0..turn).map(|t| format!(" | a:#x{t} | r:x{t}=1")).collect();
            writeln!(story, "> s{n}-{turn} sub/Read | u:{prompt}{history}").expect("a string");
        }
        for n in (0..200).rev() {
            let answer = if turn == 2 { "seen".to_owned() } else { format!("#x{turn}()") };
            writeln!(story, "< s{n}-{turn} {answer}").expect("a string");
        }
    }
    let mut tracker = LaneTracker::new();
    for line in story.lines() {
        let (sign, rest) = line.split_at(2);
        let (id, rest) = rest.split_once(' ').expect("an id");
        let id = RequestId::new(id);
        match sign {
            "> " => ask(&mut tracker, &id, rest),
            _ => tracker.add_response(&id, &heard(&id, rest)),
        }
    }
    let lanes = tracker.finish();
    assert_eq!(lanes.lanes.len(), 201);
    let mut spawns: Vec<&str> = Vec::new();
    for lane in &lanes.lanes[1..] {
        assert_eq!((lane.kind, lane.turns.len()), (LaneKind::Sub, 3), "{}", lane.id);
        let call = lane.spawned_by.as_ref().expect("a call").as_str();
        let pair = |id: &str| {
            id.trim_start_matches(['s', 'c'])
                .split('-')
                .next()
                .and_then(|n| n.parse::<u32>().ok())
                .map(|n| n / 2)
        };
        assert!(lane.requests().all(|request| pair(request.as_str()) == pair(call)), "{lane:?}");
        spawns.push(call);
    }
    spawns.sort_unstable();
    spawns.dedup();
    assert_eq!(spawns.len(), 200, "each call has its own lane");
}

#[test]
fn a_shared_value_names_no_agent() {
    let mut tracker = LaneTracker::new();
    let story = "
        > r1 agent/Task | u:do it
        < r1 #a(Go north.)#b(Go south.)
        > r2 scout/Read | u:Go north.
        > r3 scout/Read | u:Go south.
        > r4 agent/Task | u:do it | a:#a#b | r:a=place-77 north1;b=place-77 south2
        < r4 waiting
        < r2 snow and ice
        < r3 sand and sun
        > r5 agent/Task | u:do it | a:#a#b | r:a=place-77 north1;b=place-77 south2 | a:waiting | u:place-77 north1: snow and ice
    ";
    for line in story.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (id, rest) = line[2..].split_once(' ').expect("an id");
        let id = RequestId::new(id);
        match &line[..1] {
            ">" => ask(&mut tracker, &id, rest),
            _ => tracker.add_response(&id, &heard(&id, rest)),
        }
    }
    let notices: Vec<usize> = tracker.finish().jobs().iter().map(|job| job.notices.len()).collect();
    assert_eq!(notices, [1, 0], "only the first is announced");
}

#[test]
fn an_id_of_letters_names_an_agent_only_where_it_is_called_an_id() {
    let touches = |launch: &str, word: &str| {
        let mut tracker = LaneTracker::new();
        let result = launch.replace('X', word);
        let story = format!(
            "> r1 agent/Task | u:do it
             < r1 #a(Go north.)
             > r2 scout/Read | u:Go north.
             > r3 agent/Task | u:do it | a:#a | r:a={result}
             < r3 #poll(job={word})
             < r2 snow and ice
             > r4 agent/Task | u:do it | a:#a | r:a={result} | a:#poll | r:poll=snow and ice"
        );
        for line in story.lines().map(str::trim) {
            let (id, rest) = line[2..].split_once(' ').expect("an id");
            let id = RequestId::new(id);
            match &line[..1] {
                ">" => ask(&mut tracker, &id, rest),
                _ => tracker.add_response(&id, &heard(&id, rest)),
            }
        }
        tracker.finish().jobs()[0].touches.len()
    };
    let labelled =
        ["agentId: X", "\"agent_id\":\"X\"", "<task-id>X</task-id>", "Task ID: `X`", "see X, id=X"];
    for launch in labelled {
        assert_eq!(touches(launch, "abcdefa"), 1, "{launch}");
    }
    assert_eq!(touches("task_id: X", "bg_abcdefab"), 1, "after a kind");
    assert_eq!(touches("task_id: X", "nearby"), 0, "no hex digits");
    for launch in ["behind the X", "id of the X", "valid: X", "colour: X", "id X"] {
        assert_eq!(touches(launch, "facade"), 0, "{launch}");
    }
    assert_eq!(touches("agentId: X", "decaf"), 0, "too short");
}

#[test]
fn a_history_without_the_agents_tools_is_not_the_agent() {
    check(
        "
        > r1 agent/Read | u:do it
        < r1 #a()
        > r2 namer/ | u:do it | a:#a | r:a=1 | u:name this
        < r2 a fine name
        > r3 agent/Read | u:do it | a:#a | r:a=1
        < r3 all is done
        > r4 summer/ | u:do it | a:#a | r:a=1 | a:all is done | u:sum up
        < r4 one file was read and nothing was found
        > r5 agent/Read | u:So far: one file was read and nothing was found | u:go on
        < r5 done
        ",
        expect![[r#"
            main, 1:r1, 2:r3, 3:r5 Compaction
            side-1, 1:r2
            side-2, 1:r4
        "#]],
    );
}

#[test]
fn a_request_that_names_a_finished_agent_is_not_that_agent() {
    for system in ["agent", ""] {
        check(
            &format!(
                "
                > r1 {system}/Read | u:do it
                < r1 #a()
                > r2 {system}/Read | u:do it | a:#a | r:a=1
                < r2 all is done
                > r3 {system}/ | u:do it | a:#a | r:a=1 | a:all is done | u:name this
                < r3 a fine name
                "
            ),
            expect![[r#"
                main, 1:r1, 2:r2
                side-1, 1:r3
            "#]],
        );
    }
}

#[test]
fn the_last_request_of_an_agent_may_lack_tools() {
    let story = |last: &str| {
        format!(
            "
            > r1 agent/Read | u:do it
            < r1 #a()
            > r2 agent/ | u:do it | a:#a | r:a=1 | u:answer now
            {last}
            "
        )
    };
    check(
        &story("< r2 all is done"),
        expect![[r#"
            main, 1:r1, 2:r2
        "#]],
    );
    check(
        &story(
            "< r2 529
            > r3 agent/ | u:do it | a:#a | r:a=1 | u:answer now
            < r3 all is done
            > r4 agent/Read | u:do it | a:#a | r:a=1 | u:answer now | a:all is done | u:go on",
        ),
        expect![[r#"
            main, 1:r1, 2:r2+r3, 3:r4
        "#]],
    );
    check(
        &story(
            "< r2 all is done
            > r3 agent/Read | u:do it | a:#a | r:a=1",
        ),
        expect![[r#"
            main, 1:r1, 2:r3
            side-1 < main, 1:r2
        "#]],
    );
    check(
        "
        > r1 /Read | u:do it
        < r1 #a()
        > r2 / | u:do it | a:#a | r:a=1
        < r2 all is done
        ",
        expect![[r#"
            main, 1:r1, 2:r2
        "#]],
    );
}

#[test]
fn a_call_is_learned_from_the_history_where_its_reply_is_lost() {
    check(
        "
        > r1 agent/Task | u:do it
        > r2 sub/Read | u:Look at all of it.
        < r2 seen
        > r3 agent/Task | u:do it | a:#a(Look at all of it.) | r:a=seen
        < r3 done
        ",
        expect![[r#"
            main, 1:r1, 2:r3
            sub-1 < main by a, 1:r2
        "#]],
    );
}

#[test]
fn a_quoted_prompt_does_not_make_a_sub_agent() {
    check(
        "
        > r1 agent/Task | u:do it
        < r1 #a(Look at all of it.)
        > r2 sub/Read | u:Look at all of it.
        < r2 seen
        > r3 agent/Task | u:do it | a:#a | r:a=seen
        < r3 done
        > r4 agent/Task | u:Yesterday you said 'Look at all of it.' Why?
        < r4 because
        ",
        expect![[r#"
            main, 1:r1, 2:r3
            sub-1 < main by a, 1:r2
            main-2, 1:r4
        "#]],
    );
}

#[test]
fn twins_are_distinguished_by_polls_and_announcements() {
    check(
        "
        > r1 agent/Task | u:do it
        < r1 #a(The same words.)#b(The same words.)
        > r2 sub/Read | u:The same words.
        > r3 sub/Read | u:The same words.
        > r4 agent/Task | u:do it | a:#a#b | r:a=started job-01;b=started job-02
        < r4 #p(job-01 please)
        < r2 no
        < r3 yes, it is
        > r5 agent/Task | u:do it | a:#a#b | r:a=started job-01;b=started job-02 | a:#p | r:p=yes, it is | u:job-02: no
        < r5 done
        ",
        expect![[r#"
            main, 1:r1, 2:r4, 3:r5
            sub-1 < main by b, 1:r2
            sub-2 < main by a, 1:r3
        "#]],
    );
}

#[test]
fn a_question_aside_has_other_instructions() {
    let story = |last: &str| {
        format!(
            "
            > r1 you lead all the others/Read | u:do it
            < r1 first
            > r2 give this talk some name/Read | u:do it | a:first | u:name it
            < r2 a name
            {last}
            "
        )
    };
    check(
        &story("> r3 you lead all the others/Read | u:do it | a:first | u:go on"),
        expect![[r#"
            main, 1:r1, 2:r3
            side-1 < main, 1:r2
        "#]],
    );
    check(
        &story("> r3 give this talk some name/Read | u:do it | a:first | u:name it | a:a name | u:go on"),
        expect![[r#"
            main, 1:r1, 2:r2, 3:r3
        "#]],
    );
}

#[test]
fn other_answers_to_open_calls_make_a_fork() {
    // The calls do not contain the prompts of their forks.
    check(
        "
        > r1 agent/Skill | u:do it
        < r1 #a()
        > r2 agent/Skill | u:do it | a:#a | r:a=not here | u:Look at it.
        < r2 looked
        > r3 agent/Skill | u:do it | a:#a | r:a=looked
        < r3 #b()
        > r4 agent/Skill | u:do it | a:#a | r:a=looked | a:#b | r:b=not here | u:Look again.
        < r4 #x(Count all the lines.)
        > r5 sub/Read | u:Count all the lines.
        < r5 three
        > r6 agent/Skill | u:do it | a:#a | r:a=looked | a:#b | r:b=not here | u:Look again. | a:#x | r:x=three
        < r6 three of them
        > r7 agent/Skill | u:do it | a:#a | r:a=looked | a:#b | r:b={ three of them }
        < r7 done
        ",
        expect![[r#"
            main, 1:r1, 2:r3, 3:r7
            fork-1 < main by a, 1:r2
            fork-2 < main by b, 1:r4, 2:r6
            sub-1 < fork-2 by x, 1:r5
        "#]],
    );
}

#[test]
fn parallel_forks_are_distinguished_by_their_replies() {
    check(
        "
        > r1 agent/Skill | u:do it
        < r1 #a()#b()#c()
        > r2 agent/Skill | u:do it | a:#a#b#c | r:a=not here;b=not here;c=not here | u:Look at it.
        > r3 agent/Skill | u:do it | a:#a#b#c | r:a=not here;b=not here;c=not here | u:Count it.
        < r3 it is counted
        < r2 it is \"looked\" at
        > r4 agent/Skill | u:do it | a:#a#b#c | r:a=it is counted;b=a file;c={ it is \\\"looked\\\" at }
        < r4 done
        ",
        expect![[r#"
            main, 1:r1, 2:r4
            fork-1 < main by c, 1:r2
            fork-2 < main by a, 1:r3
        "#]],
    );
    // The parent does not wait for this fork.
    check(
        "
        > r1 agent/Skill | u:do it
        < r1 #a()
        > r2 agent/Skill | u:do it | a:#a | r:a=not here | u:Look at it.
        > r3 agent/Skill | u:do it | a:#a | r:a=started
        < r2 #x()
        > r4 agent/Skill | u:do it | a:#a | r:a=not here | u:Look at it. | a:#x | r:x=1
        < r3 done
        < r4 looked
        ",
        expect![[r#"
            main, 1:r1, 2:r3
            fork-1 < main, 1:r2, 2:r4
        "#]],
    );
}

#[test]
fn a_turn_that_is_taken_back_is_no_fork() {
    let story = |first: &str, second: &str| {
        format!(
            "
            > r1 agent/Read | u:do it
            < r1 #a()
            > r2 agent/Read | u:do it | a:#a | {first}
            < r2 on the wrong way
            > r3 agent/Read | u:do it | a:#a | {second}
            < r3 done
            "
        )
    };
    // The user takes a text back, a result is shortened, or a reminder stays.
    let taken_back = [
        ("r:a=1 | u:and quickly", "r:a=1 | u:and well"),
        ("r:a=long text", "r:a=long"),
        ("r:a=long text | u:mind the gap", "r:a=long | u:mind the gap"),
    ];
    for (first, second) in taken_back {
        check(
            &story(first, second),
            expect![[r#"
            main, 1:r1, 2:r2, 3:r3 Rewrite
        "#]],
        );
    }
}

#[test]
fn a_prompt_that_names_a_fork_makes_a_fork() {
    check(
        "
        > r1 agent/Skill | u:do it
        < r1 #a()
        > r2 agent/Skill | u:do it | a:#a | r:a=not here | u:<fork> Nobody sees you. </fork> Look at it.
        < r2 529
        > r3 agent/Skill | u:do it | a:#a | r:a=not here | u:<fork> Nobody sees you. </fork> Look at it.
        < r3 529
        > r4 agent/Skill | u:do it | a:#a | r:a=it failed
        < r4 done
        > r5 agent/Skill | u:do it | a:#a | r:a=it failed | a:done | u:<fork> Nobody sees you. </fork> Why?
        < r5 no idea
        ",
        expect![[r#"
            main, 1:r1, 2:r4
            fork-1 < main by a, 1:r2+r3
            fork-2 < main, 1:r5
        "#]],
    );
}

#[test]
fn a_fork_that_names_itself_as_another_agent_is_a_fork() {
    check(
        "
        > r1 agent/Skill@one | u:do it
        < r1 #a
        > r2 agent/Skill@two | u:do it | a:#a | r:a=not here | u:<fork> Nobody sees you. </fork> Look at it.
        < r2 #b
        > r3 agent/Skill@two | u:do it | a:#a | r:a=not here | u:<fork> Nobody sees you. </fork> Look at it. | a:#b | r:b=1
        < r3 it is blue
        > r4 agent/Skill@one | u:do it | a:#a | r:a=it is blue
        < r4 done
        > r5 agent/Skill@three | u:do it | a:#a | r:a=it is blue
        < r5 done
        ",
        expect![[r#"
            main, 1:r1, 2:r4
            fork-1 < main by a, 1:r2, 2:r3
            main-2, 1:r5
        "#]],
    );
}

#[test]
fn forks_may_come_before_their_parent() {
    // A harness was restarted while forks were running.
    check(
        "
        > r1 agent/Skill | u:do it | a:#a#b | r:a=not here;b=not here | u:<fork> Look at it.
        > r2 agent/Skill | u:do it | a:#a#b | r:a=not here;b=not here | u:<fork> Count it.
        < r1 #x()
        > r3 agent/Skill | u:do it | a:#a#b | r:a=not here;b=not here | u:<fork> Look at it. | a:#x | r:x=1
        < r2 529
        > r4 agent/Skill | u:do it | a:#a#b | r:a=not here;b=not here | u:<fork> Count it.
        < r3 it is looked at
        < r4 it is counted
        > r5 agent/Skill | u:do it | a:#a#b | r:a=it is counted;b=it is looked at
        < r5 #c()
        > r6 agent/Skill | u:do it | a:#a#b | r:a=it is counted;b=it is looked at | a:#c | r:c=1
        < r6 done
        ",
        expect![[r#"
            fork-1 < main by b, 1:r1, 2:r3
            fork-2 < main by a, 1:r2+r4
            main, 1:r5, 2:r6
        "#]],
    );
}

#[test]
fn conversations_that_share_only_their_setup_stay_apart() {
    for setup in ["agent/Read", "agent/", "/"] {
        let story = "
            > r1 SETUP | u:What is the capital of France?
            < r1 It is Paris.
            > r2 SETUP | u:Write a poem about the sea.
            < r2 The sea is blue, and so are you.
            > r3 SETUP | u:How many legs has a spider?
            < r3 Eight.
            > r4 SETUP | u:What is the capital of France? | a:It is Paris. | u:And of Spain?
            < r4 It is Madrid.
        ";
        check(
            &story.replace("SETUP", setup),
            expect![[r#"
                main, 1:r1, 2:r4
                main-2, 1:r2
                main-3, 1:r3
            "#]],
        );
    }
}

#[test]
fn the_same_request_after_a_good_answer_is_a_sample() {
    check(
        "
        > r1 agent/Read | u:do it
        < r1 it is done
        > r2 agent/Read | u:do it
        < r2 529
        > r3 agent/Read | u:do it
        < r3 it is done
        ",
        expect![[r#"
            main, 1:r1
            main-2, 1:r2+r3
        "#]],
    );
}

#[test]
fn a_template_that_the_reply_repeats_is_no_evidence() {
    check(
        "
        > r1 agent/Read | u:Please translate the following short sentence into plain French: bread
        < r1 You asked to translate the following short sentence into plain French: pain
        > r2 agent/Read | u:Please translate the following short sentence into plain French: water
        < r2 eau
        ",
        expect![[r#"
            main, 1:r1
            main-2, 1:r2
        "#]],
    );
}

#[test]
fn another_model_or_dialect_is_another_conversation() {
    check(
        "
        > r1 agent/Read=large | u:do it
        < r1 we read one file and found that it was empty
        > r2 agent/Read=small | u:So far: we read one file and found that it was empty
        < r2 done
        > r3 agent/Read=small | u:next
        < r3 529
        > r4 agent/Read=large | u:next
        < r4 done
        ",
        expect![[r#"
            main, 1:r1
            main-2, 1:r2
            main-3, 1:r3+r4
        "#]],
    );
    let mut tracker = LaneTracker::new();
    let bodies = [
        (Dialect::AnthropicMessages, json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]})),
        (Dialect::OpenAiChat, json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]})),
        (Dialect::OpenAiResponses, json!({"model": "m", "input": "hi"})),
        (
            Dialect::OpenAiChat,
            json!({"model": "m", "messages": [{"role": "user", "content": "hi"},
                {"role": "assistant", "content": "hello"}, {"role": "user", "content": "more"}]}),
        ),
        (
            Dialect::OpenAiResponses,
            json!({"model": "m", "input": [{"role": "user", "content": "hi"},
                {"role": "assistant", "content": "hello"}, {"role": "user", "content": "more"}]}),
        ),
    ];
    for (n, (dialect, body)) in bodies.into_iter().enumerate() {
        let id = RequestId::new(format!("r{}", n + 1));
        let prompt = dialect.decode_request(body.to_string().as_bytes()).expect("a request");
        tracker.add_request(&id, &prompt, &Identity::default());
        tracker.add_response(&id, &heard(&id, "hello"));
    }
    expect![[r#"
        main, 1:r1
        main-2, 1:r2, 2:r4
        main-3, 1:r3, 2:r5
    "#]]
    .assert_eq(&rendered(&tracker.finish()));
}

#[test]
fn words_that_a_summary_shares_with_an_argument_start_no_sub_agent() {
    check(
        "
        > r1 agent/Search | u:find the fault
        < r1 #a(query=deployment configuration)
        > r2 agent/Search | u:find the fault | a:#a | r:a=three lines | u:sum up
        < r2 the deployment configuration is fine but the disk of the host is full
        > r3 agent/Search | u:Summary: the deployment configuration is fine but the disk of the host is full
        < r3 #b()
        > r4 agent/Search | u:Yesterday the deployment configuration was fine.
        < r4 indeed
        ",
        expect![[r#"
            main, 1:r1, 2:r2, 3:r3 Compaction
            main-2, 1:r4
        "#]],
    );
}

#[test]
fn a_short_argument_is_a_prompt_by_its_name_or_as_the_first_text() {
    let story = |argument: &str, opening: &str| {
        format!(
            "
            > r1 agent/Task | u:do it
            < r1 #a({argument})
            > r2 sub/Read | {opening}
            < r2 seen
            "
        )
    };
    let sub = || {
        expect![[r#"
            main, 1:r1
            sub-1 < main by a, 1:r2
        "#]]
    };
    let own = || {
        expect![[r#"
            main, 1:r1
            main-2, 1:r2
        "#]]
    };
    check(&story("prompt=look at all of it", "u:Task: look at all of it"), sub());
    check(&story("topic=look at all of it", "u:look at all of it"), sub());
    check(&story("topic=look at all of it", "u:Yesterday: look at all of it"), own());
    let long = "look at all of it and count the lines twice";
    check(&story(&format!("topic={long}"), &format!("u:Task: {long}")), sub());
    check(&story(&format!("topic={long}"), "u:Task: look at all of it and count"), own());
}

#[test]
fn a_compaction_has_evidence() {
    let story = |agent: &str, last: &str| {
        format!(
            "
            > r1 agent/Task {agent} | u:do it
            < r1 #toolu_77(Look at all of it.)
            > r2 agent/Task {agent} | u:do it | a:#toolu_77 | r:toolu_77=one
            < r2 we looked at all of the files and found nothing new
            > r3 agent/Task {agent} | u:{last}
            < r3 done
            "
        )
    };
    let compacted = || {
        expect![[r#"
            main, 1:r1, 2:r2, 3:r3 Compaction
        "#]]
    };
    let apart = || {
        expect![[r#"
            main, 1:r1, 2:r2
            main-2, 1:r3
        "#]]
    };
    check(&story("", "So far we looked at all of the files and found it."), compacted());
    check(&story("", "So far toolu_77 returned one."), compacted());
    check(&story("", "So far we looked at all of the rest."), apart());
    check(&story("@main-agent", "So far so good."), compacted());
    check(&story("@", "So far so good."), compacted());
}

#[test]
fn a_sub_agent_with_its_parents_session_and_setup_is_no_compaction() {
    check(
        "
        > r1 agent/Task @ | u:do it
        < r1 #a(Look at all of it.)
        > r2 agent/Task @ | u:Look at all of it.
        < r2 seen
        > r3 agent/Task @ | u:do it | a:#a | r:a=seen
        < r3 done
        ",
        expect![[r#"
            main, 1:r1, 2:r3
            sub-1 < main by a, 1:r2
        "#]],
    );
}
