//! Tests of turns, attempts, names and misses with live requests.

use super::*;
use crate::replay::OnMiss;

const PAIR: &str = "
    main > look around
    main < call t1 Task scan the root folder; call t2 Task scan the source folder
    a > scan the root folder
    b > scan the source folder
    b < text the source is fine
    a < text the root is fine
    main > result t2 the source is fine; result t1 the root is fine
    main < text all is fine
";

#[tokio::test]
async fn every_lane_gets_its_own_replies_in_any_order_of_requests() {
    let mut live = Story::new(PAIR).play(&ReplaySettings::default()).await;
    assert_eq!(
        live.ask("main", "look around").await,
        "call t1 Task scan the root folder; call t2 Task scan the source folder"
    );
    assert_eq!(live.ask("b", "scan the source folder").await, "text the source is fine");
    assert_eq!(live.ask("a", "scan the root folder").await, "text the root is fine");
    // The order of results does not affect the match.
    let results = "result t1 the root is fine; result t2 the source is fine";
    assert_eq!(live.ask("main", results).await, "text all is fine");
    let report = live.server.report();
    assert!(report.is_complete(), "{report}");
    assert_eq!((report.served, report.repeated), (4, 0));
}

#[tokio::test]
async fn twins_come_in_the_order_they_were_recorded_in() {
    let story = Story::new(
        "
        main > go
        main < call t1 Task count the files; call t2 Task count the files
        a > count the files
        b > count the files
        a < call a1 Task one
        b < call b1 Task two
        a > result a1 x
        b > result b1 x
        a < text three
        b < text four
        main > result t1 three; result t2 four
        main < text done
    ",
    );
    let mut live = story.play(&ReplaySettings::default()).await;
    live.ask("main", "go").await;
    assert_eq!(live.ask("x", "count the files").await, "call a1 Task one");
    assert_eq!(live.ask("y", "count the files").await, "call b1 Task two");
    assert_eq!(live.ask("y", "result b1 x").await, "text four");
    assert_eq!(live.ask("x", "result a1 x").await, "text three");
}

/// Prompts that differ only in a number, in another folder than the recorded one.
#[tokio::test]
async fn siblings_are_distinguished_by_their_numbers() {
    let story = Story::new(
        "
        main > go
        main < call t1 Task count; call t2 Task count
        a > in /w/00 count the files of part 1
        b > in /w/00 count the files of part 2
        a < text one
        b < text two
        main > result t1 one; result t2 two
        main < text done
    ",
    );
    let mut live = story.play(&ReplaySettings::default()).await;
    live.ask("main", "go").await;
    assert_eq!(live.ask("y", "in /w/01 count the files of part 2").await, "text two");
    assert_eq!(live.ask("x", "in /w/01 count the files of part 1").await, "text one");
}

/// Agents whose replies have equal ids or texts are distinguished by their own requests.
#[tokio::test]
async fn a_lane_keeps_its_own_history() {
    const BOTH: &str = "
        main > plan the trip
        main < call t1 Task look at the tides; call t2 Task count the boats
        a > look at the tides
        b > count the boats
    ";
    let same_ids = "
        a < call x1 Read a file
        b < call x1 Read a file
        a > result x1 the file of the tides
        b > result x1 the file of the boats
        a < call x2 Read another
        b < call x2 Read another
        a > result x2 the same
        b > result x2 the same
        a < text tides
        b < text boats
    ";
    let same_words = "
        a < text well
        b < text well
        a > go on
        b > go on
        a < text tides
        b < text boats
    ";
    let fork = "
        a < text well
        b < text well
        f = a
        a > go on
        b > go on
        f > turn back
        a < text tides
        b < text boats
        f < text turned
    ";
    for (name, story, asked) in [
        (
            "the same ids",
            same_ids,
            vec![
                ("b", "count the boats", "call x1 Read a file"),
                ("a", "look at the tides", "call x1 Read a file"),
                ("b", "result x1 the file of the boats", "call x2 Read another"),
                ("a", "result x1 the file of the tides", "call x2 Read another"),
                ("b", "result x2 the same", "text boats"),
                ("a", "result x2 the same", "text tides"),
            ],
        ),
        (
            "the same ids, and nothing else is as it was recorded",
            same_ids,
            vec![
                ("b", "please count the boats", "call x1 Read a file"),
                ("a", "please look at the tides", "call x1 Read a file"),
                ("b", "result x1 no such file", "call x2 Read another"),
                ("a", "result x1 nor this", "call x2 Read another"),
                ("b", "result x2 nothing", "text boats"),
                ("b2", "please count the boats", "call x1 Read a file"),
                ("b2", "result x1 no such file", "call x2 Read another"),
                ("b2", "result x2 nothing at all", "text boats"),
                ("a", "result x2 nothing", "text tides"),
            ],
        ),
        (
            "the same words",
            same_words,
            vec![
                ("b", "count the boats", "text well"),
                ("a", "look at the tides", "text well"),
                ("b", "go on", "text boats"),
                ("a", "go on", "text tides"),
            ],
        ),
        (
            "a fork",
            fork,
            vec![
                ("a", "look at the tides", "text well"),
                ("f", "= a", ""),
                ("f", "please turn back", "text turned"),
                ("a", "please go on", "text tides"),
            ],
        ),
    ] {
        let mut live = Story::new(&format!("{BOTH}{story}")).play(&ReplaySettings::default()).await;
        live.ask("main", "plan the trip").await;
        for (lane, said, expected) in asked {
            match said.strip_prefix("= ") {
                Some(other) => live.fork(lane, other),
                None => assert_eq!(live.ask(lane, said).await, expected, "{name}: {lane} says {said}"),
            }
        }
    }
    // A conversation that starts in the middle is recognised by its whole history.
    let mut live = Story::new(&format!("{BOTH}{same_ids}")).play(&ReplaySettings::default()).await;
    let opening = ["count the boats", "result x1 the file of the boats"];
    let messages = live.lanes.entry("b".to_owned()).or_default();
    for (said, reply) in opening.into_iter().zip(["call x1 Read a file", "call x2 Read another"]) {
        said_by_user(messages, said);
        messages.push(assistant(reply));
    }
    assert_eq!(live.ask("b", "result x2 the same").await, "text boats");
}

#[tokio::test]
async fn recorded_attempts_are_played_in_order() {
    let story = Story::new(
        "
        main > hello
        main < status 529
        main > again
        main < status 529
        main > again
        main < text at last
    ",
    );
    let mut live = story.play(&ReplaySettings::default()).await;
    assert!(live.ask("main", "hello").await.starts_with("529"));
    assert!(live.ask("main", "again").await.starts_with("529"));
    assert_eq!(live.ask("main", "again").await, "text at last");
}

#[tokio::test]
async fn a_repeated_request_gets_the_same_reply_and_is_counted() {
    let mut live = Story::new("main > hello\nmain < text good day").play(&ReplaySettings::default()).await;
    for _ in 0..3 {
        assert_eq!(live.ask("main", "hello").await, "text good day");
        live.lanes.clear();
    }
    let report = live.server.report();
    assert_eq!((report.served, report.repeated), (3, 2));
}

#[tokio::test]
async fn two_equal_requests_of_a_lane_get_both_replies() {
    let story = Story::new(
        "
        main > ping
        main < text pong
        main > ping
        main < text stop it
    ",
    );
    let mut live = story.play(&ReplaySettings::default()).await;
    assert_eq!(live.ask("main", "ping").await, "text pong");
    assert_eq!(live.ask("main", "ping").await, "text stop it");
}

#[tokio::test]
async fn names_the_harness_made_are_put_into_the_replies() {
    let story = Story::new(
        "
        main > work in /tmp/box/7/ws please
        main < call t1 Task look into /tmp/box/7/ws/src
        main > result t1 started as job_0011aa and job_2233bb
        main < call t2 Wait job_2233bb then job_0011aa
        main > result t2 both are done
        main < text job_0011aa is done, /tmp/box/7/ws is clean
    ",
    );
    let mut live = story.play(&ReplaySettings::default()).await;
    assert_eq!(
        live.ask("main", "work in /home/user/else please").await,
        "call t1 Task look into /home/user/else/src"
    );
    assert_eq!(
        live.ask("main", "result t1 started as alpha and beta, hurry").await,
        "call t2 Wait job_2233bb then job_0011aa",
        "a word that could be anything is no name"
    );
    let mut live = story.play(&ReplaySettings::default()).await;
    live.ask("main", "work in /tmp/box/7/ws please").await;
    assert_eq!(
        live.ask("main", "result t1 started as job_ccddee9 and job_445566").await,
        "call t2 Wait job_445566 then job_ccddee9"
    );
    // A reply with live names is recognised as the recorded one.
    assert_eq!(
        live.ask("main", "result t2 both are done").await,
        "text job_ccddee9 is done, /tmp/box/7/ws is clean"
    );
    let renamed = live.server.report().renamed;
    assert_eq!(
        renamed,
        [("job_0011aa", "job_ccddee9"), ("job_2233bb", "job_445566")]
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
    );
}

#[tokio::test]
async fn words_that_differ_are_no_names() {
    let story = Story::new(
        "
        main > work in /tmp/box/7/ws on the read-only branch with 1234 rows, the 1st, in utf8
        main < call t1 Task start the job
        main > result t1 job brave-otter and 4711 started, read-only, 5 of 2048
        main < text brave-otter and 4711 run on the read-only branch, the 1st of 1234 in utf8, 2048; call t2 Wait brave-otter
        main > result t2 done
        main < call t3 Wait 4711; call t4 Wait 1234
    ",
    );
    let mut live = story.play(&ReplaySettings::default()).await;
    let asked = "work in /home/me on the fast-forward branch with 5678 rows, the 2nd, in utf16";
    assert_eq!(live.ask("main", asked).await, "call t1 Task start the job");
    assert_eq!(
        live.ask("main", "result t1 job shy-badger and 4242 started, read-write, 5 of 4096").await,
        "text shy-badger and 4242 run on the read-only branch, the 1st of 1234 in utf8, 2048; call t2 Wait shy-badger"
    );
    assert_eq!(live.ask("main", "result t2 done").await, "call t3 Wait 4242; call t4 Wait 1234");
}

#[tokio::test]
async fn a_request_that_was_not_recorded_gets_an_error_that_names_the_nearest() {
    let story = Story::new(PAIR);
    let mut live = story.play(&ReplaySettings::default()).await;
    live.ask("main", "look around").await;
    let answer = live.ask("c", "write a poem about nothing in particular").await;
    assert!(answer.starts_with("500") && answer.contains("no recorded agent begins like this"), "{answer}");
    let report = live.server.report();
    assert_eq!(report.misses.len(), 1);
    assert!(!report.is_complete() && report.misses[0].nearest.is_some(), "{report}");
    let difference = report.misses[0].difference.as_deref().expect("both are JSON");
    assert!(difference.contains("/messages/0/content/0/text"), "{difference}");
    let mut live =
        story.play(&ReplaySettings { on_miss: OnMiss::Nearest, ..ReplaySettings::default() }).await;
    live.ask("main", "look around").await;
    assert!(live.ask("c", "scan everything you like folder").await.starts_with("text the "));
}

#[tokio::test]
async fn a_miss_is_reported_in_short_lines() {
    let live = Story::new("main > hello\nmain < text good day").play(&ReplaySettings::default()).await;
    let (status, body) = get(&live.server, &format!("/{}", "x".repeat(200_000))).await;
    assert_eq!(status, 500);
    let report = live.server.report();
    assert_eq!(report.misses.len(), 1);
    let longest = report.to_string().lines().chain(body.lines()).map(str::len).max();
    assert!(longest < Some(500), "{longest:?}");
}

#[tokio::test]
async fn side_calls_are_answered_as_often_as_they_come() {
    let story = Story::new(
        "
        main > hello
        title > name this chat: hello
        title < text A greeting
        main < text good day
    ",
    );
    let mut live = story.play(&ReplaySettings::default()).await;
    assert_eq!(live.ask("title", "name this chat: hello").await, "text A greeting");
    assert_eq!(live.ask("title2", "name this chat: hello").await, "text A greeting");
    assert_eq!(live.ask("main", "hello").await, "text good day");
    assert!(live.server.report().is_complete());
}

#[tokio::test]
async fn a_question_aside_that_was_not_recorded_is_a_miss() {
    const MISS: &str = "no recorded side call is like this request";
    for (asked, expected) in [
        // Not requested before.
        (vec!["tell me a joke about elephants"], vec![MISS]),
        (vec!["name this chat: greetings"], vec!["text A greeting"]),
        // Requested before.
        (vec!["name this chat: hello", "tell me a joke"], vec!["text A greeting", MISS]),
        (vec!["name this chat: hello", "name this chat: tides and boats"], vec!["text A greeting", MISS]),
        (vec!["name this chat: hello", "name this chat: hello"], vec!["text A greeting"; 2]),
    ] {
        for main in ["", "main > hello\nmain < text good day\n"] {
            let story = Story::new(&format!("{main}title > name this chat: hello\ntitle < text A greeting"));
            let mut live = story.play(&ReplaySettings::default()).await;
            for (said, expected) in asked.iter().zip(&expected) {
                live.lanes.clear();
                let answer = live.ask("title", said).await;
                assert!(answer.contains(expected), "{asked:?}: {answer}");
            }
        }
    }
}

#[tokio::test]
async fn the_only_main_agent_is_matched_and_the_report_names_it() {
    let story = Story::new("main > what is the sum\nmain < text four");
    for (said, line) in [
        ("what is the sum", ""),
        ("<reminder> be nice to everybody and never say no </reminder>; what is the sum", ""),
        ("tell me a joke about elephants", "requested with another text: turn 1 of lane `main` (r000001)"),
    ] {
        let mut live = story.play(&ReplaySettings::default()).await;
        assert_eq!(live.ask("main", said).await, "text four");
        let report = live.server.report().to_string();
        assert_eq!(report.lines().nth(1).unwrap_or_default(), line, "{said}: {report}");
    }
}

#[tokio::test]
async fn a_reply_has_the_requested_form() {
    let live = Story::new("main > hello\nmain < text good day; call t1 Task look")
        .play(&ReplaySettings::default())
        .await;
    let mut messages = Vec::new();
    said_by_user(&mut messages, "hello");
    let body = request("main", &messages).replace("\"stream\":true", "\"stream\":false");
    let (status, whole) = post(&live.server, &body).await;
    let whole: Value = serde_json::from_str(&whole).expect("one JSON text");
    assert_eq!((status, whole["content"][0]["text"].as_str()), (200, Some("good day")));
    assert_eq!(whole["content"][1]["input"]["prompt"], "look");
    let (_, stream) = post(&live.server, &request("main", &messages)).await;
    assert!(stream.starts_with("event: message_start"), "{stream}");
}

#[tokio::test]
async fn an_agent_without_its_tools_is_known_by_its_words() {
    let mut live = Story::new(PAIR).play(&ReplaySettings::default()).await;
    let asked = live.ask("title of another kind: main", "look around").await;
    assert!(asked.starts_with("call t1"), "{asked}");
    assert_eq!(live.ask("title b", "scan the source folder").await, "text the source is fine");
    assert!(live.ask("title c", "what is this about?").await.starts_with("500"));
}

#[tokio::test]
async fn an_unanswered_request_is_held_and_blocks_no_other() {
    let story = Story::new(
        "
        main > look around
        main < call t1 Task scan the root folder
        a > scan the root folder
    ",
    );
    let mut live = story.play(&ReplaySettings::default()).await;
    live.ask("main", "look around").await;
    let mut messages = Vec::new();
    said_by_user(&mut messages, "scan the root folder");
    let held = request("a", &messages);
    let held = tokio::time::timeout(std::time::Duration::from_millis(200), post(&live.server, &held));
    assert!(held.await.is_err(), "there is nothing to send");
    live.lanes.clear();
    assert!(live.ask("main", "look around").await.starts_with("call t1"), "others are served");
    assert!(live.server.report().unrequested.is_empty());
}

#[tokio::test]
async fn a_retry_is_not_matched_to_another_turn() {
    let story = Story::new(
        "
        main > paint the fence
        main < text painted
        other > compute pi
        other < text 3.14
        title > name the chat about fences
        title < text Fences
        title2 > sum up what was said about pi
        title2 < text Pi
    ",
    );
    let mut live = story.play(&ReplaySettings::default()).await;
    for _ in 0..2 {
        assert_eq!(live.ask("main", "paint the fence").await, "text painted");
        assert_eq!(live.ask("title", "name the chat about fences").await, "text Fences");
        live.lanes.clear();
    }
    assert_eq!(live.ask("main", "compute pi").await, "text 3.14");
}

#[tokio::test]
async fn added_words_do_not_hide_the_handed_over_prompt() {
    let mut live = Story::new(PAIR).play(&ReplaySettings::default()).await;
    let added = "<reminder> be nice to everybody and never say no </reminder>; ";
    let asked = live.ask("main", &format!("{added} look around")).await;
    assert!(asked.starts_with("call t1"), "{asked}");
    let asked = live.ask("b", &format!("{added} scan the source folder")).await;
    assert_eq!(asked, "text the source is fine");
}

#[test]
fn a_dump_that_cannot_be_read_is_an_error_and_not_a_miss_later() {
    let cut = |text: &str| text[..text.len() / 2].to_owned();
    let odd = |text: &str| text.replace("\"body\":{", "\"body\":5,\"was\":{");
    let empty = |_: &str| String::new();
    let same = |text: &str| text.to_owned();
    type Change<'c> = &'c dyn Fn(&str) -> String;
    for (file, becomes, change, error) in [
        (
            "r000002_response.json",
            "r000002_response.json",
            &cut as Change<'_>,
            Some("`r000002_response.json` in"),
        ),
        ("r000002_request.json", "r000002_request.json", &cut, Some("`r000002_request.json` in")),
        ("r000003_response.json", "r000003_response.json", &empty, Some("`r000003_response.json` in")),
        ("r000003_response.json", "r000003_response.json", &odd, Some("r000003")),
        // A copy and a file with another name hide nothing.
        ("r000001_response.json", "r000009_response.json", &same, None),
        ("r000001_response.json", "notes.json", &cut, None),
    ] {
        let story = Story::new(PAIR);
        let text = std::fs::read_to_string(story.dir.path().join(file)).expect("it was written");
        std::fs::write(story.dir.path().join(becomes), change(&text)).expect("it can be written");
        let loaded = RecordedTraffic::load(story.dir.path()).err().map(|error| error.to_string());
        match (&loaded, error) {
            (None, None) => {}
            (Some(found), Some(error)) if found.contains(error) => {}
            _ => panic!("{file} as {becomes}: {loaded:?}"),
        }
    }
}

#[tokio::test]
async fn token_counts_are_matched_by_content() {
    let story = Story::new("main > hello\nmain < text good day");
    for (n, text, tokens) in [(8, "short", 11), (9, "long", 99)] {
        let asked = json!({"timestamp": "2026-01-01T01:00:00Z", "method": "POST",
            "targetUrl": "http://127.0.0.1:1/v1/messages/count_tokens", "headers": [], "body": {"text": text}});
        write(story.dir.path(), n, "request", asked);
        let answered = json!({"timestamp": "2026-01-01T01:00:00Z", "status": 200, "headers": [],
            "body": {"text": format!("{{\"input_tokens\":{tokens}}}")}, "ending": "complete"});
        write(story.dir.path(), n, "response", answered);
    }
    let live = story.play(&ReplaySettings::default()).await;
    for (text, tokens) in [("long", "99"), ("short", "11"), ("long", "99")] {
        let (status, body) = post_to(&live.server, "/v1/messages/count_tokens", text).await;
        assert_eq!((status, body.contains(tokens)), (200, true), "{body}");
    }
    assert_eq!(post_to(&live.server, "/", "x").await.0, 500, "no such request was recorded");
}

/// Returns the second reply of the model, after results with live names.
async fn said_after(story: &Story, results: &str) -> String {
    let mut live = story.play(&ReplaySettings::default()).await;
    live.ask("main", "begin").await;
    live.ask("main", results).await
}

fn telling(results: &str, says: &str) -> Story {
    let calls = "call t1 Start one; call t2 Start two";
    Story::new(&format!("main > begin\nmain < {calls}\nmain > {results}\nmain < {says}"))
}

#[tokio::test]
async fn a_name_behind_a_new_line_is_a_name() {
    let story = telling("result t1 a1b2c3; result t2 d4e5f6", r"call t3 Task for i in\na1b2c3\nd4e5f6 do");
    assert_eq!(
        said_after(&story, "result t1 99ff00; result t2 77aa88").await,
        "call t3 Task for i in\n99ff00\n77aa88 do"
    );
}

#[tokio::test]
async fn a_name_is_replaced_in_all_spellings() {
    let results = "result t1 in /home/j\u{fc}rgen/a1b2/x; result t2 job_a1b2c3";
    let says = "text <b>job_a1b2c3</b> in /home/j\u{fc}rgen/a1b2/x; call t3 Task /home/j\u{fc}rgen/a1b2/x \"job_a1b2c3\"";
    let live = "result t1 in /home/j\u{fc}rgen/c3d4e/x; result t2 job_999aa1";
    let wanted = says.replace("a1b2/x", "c3d4e/x").replace("job_a1b2c3", "job_999aa1");
    type Spelling = fn(&str) -> String;
    let spellings: [Spelling; 4] = [
        str::to_owned,
        |body| body.replace('/', r"\/"),
        |body| body.replace('\u{fc}', r"\u00fc").replace('<', r"\u003c").replace('>', r"\u003e"),
        |body| body.replace("partial_json\":\"", "partial_json\":\"\u{0}").replace('\u{fc}', r"\\u00fc"),
    ];
    for (n, spelling) in spellings.into_iter().enumerate() {
        let story = telling(results, says);
        story.respell(2, |dump| {
            // Arguments are JSON within JSON, so their escapes are escaped again.
            let body = dump["body"]["text"].as_str().expect("a text");
            let lines = body.lines().map(|line| match (n, line.contains("partial_json")) {
                (3, false) => line.to_owned(),
                _ => spelling(line).replace('\u{0}', ""),
            });
            dump["body"]["text"] = (lines.collect::<Vec<_>>().join("\n") + "\n\n").into();
        });
        assert_eq!(said_after(&story, live).await, wanted, "spelling {n}");
    }
}

#[tokio::test]
async fn an_id_named_by_a_result_is_an_id() {
    let story =
        telling("result t1 running with ID: bqwertyui; result t2 on port 80", "call t3 Task bqwertyui");
    let said = said_after(&story, "result t1 running with ID: bzxcvbnma; result t2 on port 80").await;
    assert_eq!(said, "call t3 Task bzxcvbnma");
    let story = telling("result t1 it was running with pleasure; result t2 x", "call t3 Task pleasure");
    let said = said_after(&story, "result t1 it was running with distaste; result t2 x").await;
    assert_eq!(said, "call t3 Task pleasure", "a word is none");
}

#[tokio::test]
async fn a_whole_answer_without_an_ending_has_ended() {
    let story = Story::new("main > hello\nmain < text good day");
    story.respell(1, |dump| drop(dump.as_object_mut().expect("an object").remove("ending")));
    let mut live = story.play(&ReplaySettings::default()).await;
    let wait = std::time::Duration::from_secs(20);
    let said = tokio::time::timeout(wait, live.ask("main", "hello")).await;
    assert_eq!(said.expect("nothing is held"), "text good day");
}

#[test]
fn an_unknown_ending_is_an_error_in_our_own_dumps() {
    for (member, value) in [("ending", json!("exploded")), ("status", Value::Null)] {
        let story = Story::new("main > hello\nmain < text good day");
        story.respell(1, |dump| {
            dump["format"] = json!(1);
            dump[member] = value.clone();
        });
        let error = RecordedTraffic::load(story.dir.path()).expect_err("it is malformed").to_string();
        assert!(error.contains("r000001_response.json") && error.contains(member), "{error}");
    }
}

#[tokio::test]
async fn a_path_with_a_space_is_one_path() {
    let story = telling("result t1 wrote /w/a1b2/x.txt; result t2 done", "call t3 Task /w/a1b2/x.txt");
    for (live, path) in [
        ("wrote /w/my dir/x.txt", "/w/my dir/x.txt"),
        (r#"wrote /w/a"b\2/x.txt"#, r#"/w/a"b\2/x.txt"#),
        // The end of the path is ambiguous.
        ("wrote /w/my (two files)", "/w/a1b2/x.txt"),
    ] {
        let said = said_after(&story, &format!("result t1 {live}; result t2 done")).await;
        assert_eq!(said, format!("call t3 Task {path}"), "{live}");
    }
    let story = telling("result t1 wrote /w/dir one/x.txt; result t2 done", "call t3 Task /w/dir one/x.txt");
    let said = said_after(&story, "result t1 wrote /w/dir two/x.txt; result t2 done").await;
    assert_eq!(said, "call t3 Task /w/dir two/x.txt");
}

#[tokio::test]
async fn requests_without_a_model_are_matched_by_content() {
    let story = Story::new("main > hello\nmain < text good day");
    let count = |words: &str, session: &str| {
        json!({"model": "m", "metadata": {"user_id": session}, "messages": [{"role": "user", "content": words}]})
            .to_string()
    };
    let exchanges = [
        ("GET", "/v1/models?limit=1", String::new(), "first page"),
        ("GET", "/v1/models?after=x", String::new(), "second page"),
        ("POST", "/v1/messages/count_tokens", count("short", "a"), "eleven"),
        ("POST", "/v1/messages/count_tokens", count("rather long", "a"), "ninety"),
    ];
    for (n, (method, path, body, answer)) in exchanges.into_iter().enumerate() {
        let asked = json!({"timestamp": "2026-01-01T01:00:00Z", "method": method,
            "targetUrl": format!("http://127.0.0.1:1{path}"), "headers": [], "body": {"text": body}});
        write(story.dir.path(), n + 5, "request", asked);
        let answered = json!({"timestamp": "2026-01-01T01:00:00Z", "status": 200, "headers": [],
            "body": {"text": answer}, "ending": "complete"});
        write(story.dir.path(), n + 5, "response", answered);
    }
    let live = story.play(&ReplaySettings::default()).await;
    for (path, body, answer) in [
        ("/v1/messages/count_tokens", count("rather long", "b"), "ninety"),
        ("/v1/messages/count_tokens", count("short", "b"), "eleven"),
    ] {
        assert_eq!(post_to(&live.server, path, &body).await, (200, answer.to_owned()));
    }
    for (path, answer) in [("/v1/models?after=x", "second page"), ("/v1/models?limit=1", "first page")] {
        assert_eq!(get(&live.server, path).await, (200, answer.to_owned()));
    }
}

/// Jobs are numbered as they come, so in another run the same names are those of other jobs.
#[tokio::test]
async fn names_that_changed_their_roles_are_told_apart() {
    let story = Story::new(
        "
        main > go
        main < call t1 Task scan; call t2 Task count
        main > result t1 job 20261116_2 started; result t2 job 20261116_3 started
        main < call t3 Load 20261116_2; call t4 Load 20261116_3
        main > result t3 all is scanned; result t4 seven
        main < text done
    ",
    );
    let mut live = story.play(&ReplaySettings::default()).await;
    live.ask("main", "go").await;
    let answer = live.ask("main", "result t1 job 20261116_3 started; result t2 job 20261116_2 started").await;
    assert_eq!(answer, "call t3 Load 20261116_3; call t4 Load 20261116_2");
}

#[tokio::test]
async fn names_in_texts_are_told_apart_by_the_words_beside_them() {
    let recorded = "
        main > go
        main < call t1 Task scan; call t2 Task count
        main > result t1 started; result t2 started; scan has ended, see 20261116_2; count has ended, see 20261116_3
        main < call t3 Load 20261116_2; call t4 Load 20261116_3
        main > result t3 all is scanned; result t4 seven
        main < text done
    ";
    for texts in [
        "count has ended, see 20261116_2; scan has ended, see 20261116_3",
        "scan has ended, see 20261116_3; count has ended, see 20261116_2",
    ] {
        let mut live = Story::new(recorded).play(&ReplaySettings::default()).await;
        live.ask("main", "go").await;
        let answer = live.ask("main", &format!("result t1 started; result t2 started; {texts}")).await;
        assert_eq!(answer, "call t3 Load 20261116_3; call t4 Load 20261116_2", "{texts}");
    }
    let listed = |a: &str, b: &str| format!(r"result t1 20261116_2: {a}\n20261116_3: {b}; result t2 started");
    let recorded = recorded.replace(
        "result t1 started; result t2 started; scan has ended, see 20261116_2; count has ended, see 20261116_3",
        &listed("scan", "count"),
    );
    let mut live = Story::new(&recorded).play(&ReplaySettings::default()).await;
    live.ask("main", "go").await;
    let answer = live.ask("main", &listed("count", "scan")).await;
    assert_eq!(answer, "call t3 Load 20261116_3; call t4 Load 20261116_2");
}

#[tokio::test]
async fn a_name_whose_spelling_is_taken_has_the_one_that_is_left() {
    let story = Story::new(
        "
        main > go
        main < call t1 Task scan; call t2 Task count
        main > result t1 job 20261116_2 started; result t2 job 20261116_3 started
        main < call t3 Load 20261116_2; call t4 Load 20261116_3
    ",
    );
    let mut live = story.play(&ReplaySettings::default()).await;
    live.ask("main", "go").await;
    let answer = live.ask("main", "result t1 job 20261116_3 started; result t2 started").await;
    assert_eq!(answer, "call t3 Load 20261116_3; call t4 Load 20261116_2");
}
