//! The bytes of requests: what the provider's cache has must come again as it was.

use store::{Digest, StoreError};

use super::*;

const STORY: &str = r#"
    > größer – 日本 😀 "quoted" \ back
    < (hm) + first + echo{"say":"ä😀"} + peek{"n":1}
    < more | stop=max_tokens
    < put{"n":2}
    < done
    > again
    < echo{"say":"x"}
    < done again
"#;

#[tokio::test(start_paused = true)]
async fn every_request_begins_with_the_one_before() {
    for dialect in DIALECTS {
        let room = Room::speaking(dialect);
        room.play(STORY).await;
        let asked = room.model.asked();
        assert_eq!(asked.len(), 6);
        for pair in asked.windows(2) {
            laws::begins_with(&pair[1], &pair[0]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_newest_question_and_the_one_before_are_marked() {
    let room = Room::new();
    room.play(STORY).await;
    let calls = room.store.run(&room.run()).model_calls().expect("calls");
    let marks: Vec<&str> = calls.iter().map(|call| call.marks.as_str()).collect();
    assert_eq!(marks, ["1", "1,3", "3,5", "5,7", "7,9", "9,11"]);
    for body in room.model.asked() {
        let prompt = Dialect::AnthropicMessages.decode_request(&body).expect("a request");
        let places: Vec<&str> = prompt.markers.iter().map(|marker| marker.place.pointer.as_str()).collect();
        assert!(places[0].starts_with("/tools/") && places[1].starts_with("/system/"), "{places:?}");
        let last = prompt.messages.len() - 1;
        assert!(places.last().expect("some").starts_with(&format!("/messages/{last}/")), "{places:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_run_is_the_same_bytes() {
    for dialect in DIALECTS {
        let (one, other) = (Room::speaking(dialect), Room::speaking(dialect));
        one.play(STORY).await;
        other.play(STORY).await;
        // Only the folder has another name.
        let plain = |room: &Room| -> Vec<String> {
            let folder = room.folder.path().canonicalize().expect("there").display().to_string();
            let asked = room.model.asked();
            asked.iter().map(|body| String::from_utf8_lossy(body).replace(&folder, "FOLDER")).collect()
        };
        assert_eq!(plain(&one), plain(&other), "{dialect}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_was_never_sent_cannot_be_had() {
    let room = Room::new();
    room.play("> hi\n< hello").await;
    let mut calls = room.store.run(&room.run()).model_calls().expect("calls");
    calls[0].head = Digest::of(b"another");
    let missing = rebuild_request(&room.store, &room.run(), &calls[0]);
    assert!(matches!(missing, Err(RunError::Store(StoreError::NoModelCall(_)))), "{missing:?}");
}

#[tokio::test(start_paused = true)]
async fn only_reasoning_models_are_asked_for_their_reasoning() {
    for (model, reasons) in [("gpt-5.9", true), ("o4-mini", true), ("gpt-4-turbo", false), ("mystery", false)]
    {
        let room = Room::speaking(Dialect::OpenAiResponses);
        room.model.shall_say("so");
        let kernel = room.kernel();
        let start = StartRequest { model: model.to_owned(), ..room.start_of("tell") };
        let run = kernel.start(start).await.expect("started");
        kernel.run(&run, &ResumeOverrides::default(), &StopHandle::new()).await.expect("it ran");
        let asked = String::from_utf8_lossy(&room.model.asked()[0]).contains("reasoning.encrypted_content");
        assert_eq!(asked, reasons, "{model}");
    }
}
