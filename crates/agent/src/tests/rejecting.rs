//! Providers that reject thinking or effort: the run continues without them, and remembers it.

use serde_json::Value;

use super::*;

/// Collects the models of events about dropped settings, with the settings.
#[derive(Default)]
struct Dropped(Mutex<Vec<String>>);

impl EventSink for Dropped {
    fn emit(&self, event: &RunEvent) {
        if let EventKind::SettingsDropped { model, settings, .. } = &event.kind {
            self.0.lock().expect("lock is not poisoned").push(format!("{model}: {}", settings.join(", ")));
        }
    }
}

struct Rejecting {
    room: Room,
    events: Arc<Dropped>,
    model: &'static str,
}

impl Rejecting {
    fn new(dialect: Dialect, model: &'static str) -> Self {
        Self { room: Room::speaking(dialect), events: Arc::default(), model }
    }

    fn kernel(&self) -> Kernel {
        Kernel { events: self.events.clone(), ..self.room.kernel() }
    }

    /// Starts a run with these answers, or resumes it.
    async fn play(&self, prompt: &str, answers: &[&str]) -> RunOutcome {
        answers.iter().for_each(|answer| self.room.model.shall_say(answer));
        let known = self.room.run.lock().expect("lock is not poisoned").clone();
        let run = match known {
            Some(run) => {
                self.kernel().resume(&run, Some(prompt)).await.expect("it can be resumed");
                run
            }
            None => {
                let model = self.model.to_owned();
                let start = StartRequest { model, ..self.room.start_of(prompt) };
                self.kernel().start(start).await.expect("started")
            }
        };
        *self.room.run.lock().expect("lock is not poisoned") = Some(run.clone());
        let outcome = self.kernel().run(&run, &ResumeOverrides::default(), &StopHandle::new()).await;
        outcome.expect("it ends")
    }

    /// Returns for each request whether it has thinking and effort.
    fn asked(&self) -> Vec<(bool, bool)> {
        let has = |body: &Vec<u8>| {
            let body: Value = serde_json::from_slice(body).expect("JSON");
            let effort = ["output_config", "reasoning", "reasoning_effort"];
            (!body["thinking"].is_null(), effort.iter().any(|name| !body[name].is_null()))
        };
        self.room.model.asked().iter().map(has).collect()
    }

    fn dropped(&self) -> Vec<String> {
        self.events.0.lock().expect("lock is not poisoned").clone()
    }
}

#[tokio::test]
async fn a_rejected_setting_is_left_out_once_and_for_all() {
    let words = [
        "!400 thinking: Input tag 'adaptive' found using 'type' does not match any of the expected tags",
        "!400 This model does not support the effort parameter.",
        "!422 output_config: Extra inputs are not permitted",
    ];
    for refusal in words {
        let run = Rejecting::new(Dialect::AnthropicMessages, "claude-sonnet-5");
        let ended = run.play("hi", &[refusal, "echo{\"say\":\"x\"}", "hello"]).await;
        assert_eq!((ended.status, ended.final_text.as_deref()), (RunStatus::Completed, Some("hello")));
        assert_eq!(run.asked(), [(true, true), (false, false), (false, false)], "{refusal}");
        assert_eq!(run.dropped(), ["claude-sonnet-5: thinking, effort"]);
        let sent = run.room.model.asked();
        let [first, second]: [Value; 2] =
            [&sent[0], &sent[1]].map(|body| serde_json::from_slice(body).expect("JSON"));
        for part in ["messages", "tools", "system", "max_tokens", "model"] {
            assert_eq!(first[part], second[part], "{part}");
        }
        // Another process continues without them.
        let ended = run.play("and then?", &["nothing more"]).await;
        assert_eq!(ended.status, RunStatus::Completed);
        assert_eq!(run.asked().last(), Some(&(false, false)));
        assert_eq!(run.dropped().len(), 1, "it is reported once");
    }
}

#[tokio::test]
async fn every_dialect_continues_without_effort() {
    for dialect in [Dialect::OpenAiChat, Dialect::OpenAiResponses] {
        let run = Rejecting::new(dialect, "gpt-5-4");
        let ended = run.play("hi", &["!400 Unsupported parameter: 'reasoning.effort'", "hello"]).await;
        assert_eq!(ended.status, RunStatus::Completed, "{dialect}");
        assert_eq!(run.asked(), [(false, true), (false, false)]);
        assert_eq!(run.dropped(), ["gpt-5-4: effort"]);
    }
}

/// The table does not have the model, so the words of the refusal do not matter.
#[tokio::test]
async fn an_unknown_model_is_asked_again_after_any_refusal() {
    for model in ["claude-opus-9", "claude-chorus-1"] {
        let run = Rejecting::new(Dialect::AnthropicMessages, model);
        let ended = run.play("hi", &["!400 Extra inputs are not permitted", "hello"]).await;
        assert_eq!(ended.status, RunStatus::Completed, "{model}");
        assert_eq!(run.asked(), [(true, true), (false, false)]);
    }
}

#[tokio::test]
async fn other_refusals_end_the_run() {
    for (model, answers, asked) in [
        // Nothing is left to leave out.
        ("claude-opus-9", &["!400 no", "!400 no"][..], 2),
        ("claude-sonnet-5", &["!400 thinking", "!400 thinking"], 2),
        ("claude-sonnet-4-5", &["!400 thinking"], 1),
        ("mystery-1", &["!400 thinking"], 1),
        // The refusal has another reason.
        ("claude-sonnet-5", &["!400 messages: text is empty"], 1),
        ("claude-opus-9", &["!401 thinking"], 1),
    ] {
        let run = Rejecting::new(Dialect::AnthropicMessages, model);
        let ended = run.play("hi", answers).await;
        assert_eq!((ended.status, run.asked().len()), (RunStatus::Failed, asked), "{model} {answers:?}");
    }
}

#[tokio::test]
async fn a_run_that_was_killed_after_the_refusal_does_the_same() {
    let run = Rejecting::new(Dialect::AnthropicMessages, "claude-opus-9");
    // The process ends while it waits for the second answer.
    run.room.model.shall_say("!400 no");
    run.room.model.shall_say("...");
    let start = StartRequest { model: run.model.to_owned(), ..run.room.start_of("hi") };
    let id = run.kernel().start(start).await.expect("started");
    *run.room.run.lock().expect("lock is not poisoned") = Some(id.clone());
    let (waits, mut waited) = tokio::sync::mpsc::unbounded_channel();
    run.room.model.when_waited_for(move || waits.send(()).expect("somebody waits"));
    let (kernel, more, stop) = (run.kernel(), ResumeOverrides::default(), StopHandle::new());
    tokio::select! {
        _ = kernel.run(&id, &more, &stop) => panic!("it was to be broken off"),
        _ = waited.recv() => {}
    }
    let ended = run.play("go on", &["hello"]).await;
    assert_eq!(ended.status, RunStatus::Completed);
    assert_eq!(run.asked(), [(true, true), (false, false), (false, false)]);
}
