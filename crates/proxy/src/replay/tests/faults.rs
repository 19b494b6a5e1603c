//! Tests of faults: each kind at its place, with the same bytes each time, followed by the recorded reply.

use super::*;

const STORY: &str = "
    main > hello
    main < text good day to you
";

async fn with(fault: &str) -> Live {
    let faults = vec![fault.parse().expect("a fault")];
    Story::new(STORY).play(&ReplaySettings { faults, ..ReplaySettings::default() }).await
}

async fn bytes_of(fault: &str) -> (u16, Vec<u8>) {
    let mut messages = Vec::new();
    said_by_user(&mut messages, "hello");
    post_bytes(&with(fault).await.server, &request("main", &messages)).await
}

#[tokio::test]
async fn each_fault_breaks_its_place_and_the_next_attempt_is_complete() {
    let whole = response("text good day to you", 1).2;
    for (kind, status, check) in [
        ("status=529,retry-after=1", 529, "busy"),
        ("event=3:cut", 200, "cut"),
        ("event=3:reset", 200, "cut"),
        ("event=3:end", 200, "cut"),
        ("event=3:garbage", 200, "garbage"),
        ("event=3:half", 200, "half"),
        ("event=3:duplicate", 200, "longer"),
        ("event=3:error=overloaded_error", 200, "overloaded_error"),
        ("event=3:slow=1ms", 200, "whole"),
        ("event=3:stall=1ms", 200, "whole"),
        ("content-type=text/html", 200, "whole"),
    ] {
        let spec = match kind.strip_prefix("event=3:") {
            Some(kind) => format!("lane=main,turn=1,event=3:{kind}"),
            None => format!("lane=main,turn=1:{kind}"),
        };
        let (found, body) = bytes_of(&spec).await;
        let text = String::from_utf8_lossy(&body).into_owned();
        assert_eq!(found, status, "{spec}: {text}");
        match check {
            "whole" => assert_eq!(text, whole, "{spec}"),
            "cut" => {
                assert!(whole.starts_with(&text) && text.matches("event:").count() == 2, "{spec}: {text}")
            }
            "longer" => {
                assert_eq!(text.matches("event:").count(), whole.matches("event:").count() + 1, "{spec}")
            }
            "garbage" => assert!(body.contains(&0xff) && text.len() > whole.len(), "{spec}"),
            "half" => assert!(std::str::from_utf8(&body).is_err() && body.len() == whole.len() + 2, "{spec}"),
            "busy" => assert!(text.contains("overloaded_error"), "{spec}: {text}"),
            word => assert!(text.contains(word) && text.matches("event:").count() == 3, "{spec}: {text}"),
        }
        let again = bytes_of(&spec).await;
        assert_eq!(again, (found, body), "{spec} is the same every time");
    }
}

#[tokio::test]
async fn the_recorded_reply_follows_a_fault() {
    let mut live = with("lane=main,turn=1,event=2:cut").await;
    assert_eq!(live.ask("main", "hello").await, "cut");
    assert_eq!(live.ask("main", "again").await, "text good day to you");
    let report = live.server.report();
    assert!(report.is_complete(), "{report}");
    assert_eq!((report.served, report.faults[0].hits), (1, 1));
    assert!(report.to_string().contains("was applied; retried after 0.0 s"), "{report}");
}

#[tokio::test]
async fn a_permanent_fault_persists_and_an_unused_fault_is_named() {
    let mut live = with("lane=main,turn=1,attempt=all:status=500").await;
    for said in ["hello", "again", "again"] {
        assert!(live.ask("main", said).await.starts_with("500"));
    }
    assert_eq!(live.server.report().faults[0].hits, 3);
    let mut live = with("lane=main,turn=2:cut").await;
    live.ask("main", "hello").await;
    let report = live.server.report();
    assert!(!report.is_complete() && report.to_string().contains("never applied"), "{report}");
}

#[tokio::test]
async fn a_whole_answer_breaks_too_and_its_length_holds() {
    let mut messages = Vec::new();
    said_by_user(&mut messages, "hello");
    let body = request("main", &messages).replace("\"stream\":true", "\"stream\":false");
    for (kind, status) in
        [("half", 200), ("duplicate", 200), ("error=overloaded_error", 500), ("slow=1ms", 200)]
    {
        let live = with(&format!("lane=main,turn=1:{kind}")).await;
        let (found, bytes) = post_bytes(&live.server, &body).await;
        assert_eq!(found, status, "{kind}");
        assert!(bytes.ends_with(b"}"), "{kind}: {}", String::from_utf8_lossy(&bytes));
    }
    let live = with("lane=main,turn=1,event=99:half").await;
    post_bytes(&live.server, &request("main", &messages)).await;
    assert_eq!(live.server.report().faults[0].hits, 0, "there is no such event");
}
