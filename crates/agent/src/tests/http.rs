//! The whole loop over HTTP, with streams that are cut at every event and spoilt in every way.

use std::time::Duration;

use session::{CallId, Reply, StopReason, ToolCall, Usage};
use store::{ModelCallStatus, Origin};
use tokio::task::JoinSet;
use wire::dialect::ProviderError;

use super::*;
use crate::provider::tests::{Server, head, stream};
use crate::provider::{self, ProviderClient};

/// Number of attempts before a request is given up.
const ATTEMPTS: u32 = 2;

fn usage() -> Usage {
    Usage { input: 10, output: 20, cache_read: 30, ..Usage::default() }
}

/// Thinking, letters of every length, two calls.
fn first() -> Reply {
    let call = |id: &str, say: &str| {
        let input = format!(r#"{{"say":"{say}"}}"#);
        Block::ToolCall(ToolCall { id: CallId::new(id), name: "echo".to_owned(), input, server: false })
    };
    Reply {
        id: "reply_1".to_owned(),
        model: "m".to_owned(),
        blocks: vec![
            Block::Thinking { text: "größer als 7?".to_owned(), signature: Some("c2VhbA==".to_owned()) },
            Block::Text { text: "Ich lese „beide“ – 日本 😀\n".to_owned() },
            call("call_1", "ä"),
            call("call_2", "日本"),
        ],
        stop: Some(StopReason::ToolUse),
        usage: usage(),
    }
}

fn last() -> Reply {
    let blocks = vec![Block::Text { text: "Fertig – 😀".to_owned() }];
    Reply { blocks, stop: Some(StopReason::EndTurn), id: "reply_2".to_owned(), ..first() }
}

fn events(dialect: Dialect, reply: &Reply) -> Vec<Vec<u8>> {
    dialect.encode_stream(reply, 7).expect("every dialect can say this")
}

fn whole(dialect: Dialect, reply: &Reply) -> Vec<u8> {
    stream(&events(dialect, reply).concat())
}

/// Runs and resumes against servers that answer so.
struct Line {
    room: Room,
    dialect: Dialect,
}

impl Line {
    fn new(dialect: Dialect) -> Self {
        let mut room = Room::speaking(dialect);
        let no_wait = Duration::from_millis(1);
        let budget = Arc::new(RetryBudget::new(100_000));
        room.backoff = Arc::new(Backoff {
            max_attempts: ATTEMPTS,
            base: no_wait,
            cap: no_wait,
            budget,
            ..Backoff::default()
        });
        Self { room, dialect }
    }

    fn kernel(&self, provider: ProviderClient) -> Kernel {
        Kernel { model: Arc::new(provider), ..self.room.kernel() }
    }

    async fn answering(&self, answers: Vec<Vec<u8>>) -> (Kernel, Server) {
        let server = Server::answering(answers).await;
        (self.kernel(server.provider(self.dialect)), server)
    }

    /// A run without failures.
    async fn undisturbed(&self) -> String {
        let (kernel, _server) =
            self.answering(vec![whole(self.dialect, &first()), whole(self.dialect, &last())]).await;
        let run = kernel.start(self.room.start_of("lies")).await.expect("started");
        let ended = kernel.run(&run, &ResumeOverrides::default(), &StopHandle::new()).await.expect("ended");
        assert_eq!(ended.status, RunStatus::Completed, "{ended:?}");
        self.told(&run)
    }

    fn told(&self, run: &RunId) -> String {
        let messages = self.room.store.run(run).messages().expect("messages");
        messages.iter().map(said).collect()
    }

    /// A run whose answers are spoilt, at its first request or at its second, until it is given up; and then it is
    /// resumed with good ones.
    fn disturbed(
        &self,
        spoilt: Vec<u8>,
        at: usize,
        case: String,
    ) -> impl Future<Output = (String, String)> + use<> {
        let (dialect, store, start) = (self.dialect, self.room.store.clone(), self.room.start_of("lies"));
        let replies = [whole(dialect, &first()), whole(dialect, &last())];
        let bad = replies[..at].iter().cloned().chain(vec![spoilt.clone(); ATTEMPTS as usize]).collect();
        let good: Vec<Vec<u8>> = replies[at..].to_vec();
        let kernel = self.room.kernel();
        async move {
            let server = Server::answering(bad).await;
            let kernel = Kernel { model: Arc::new(server.provider(dialect)), ..kernel };
            let run = kernel.start(start).await.expect("started");
            let ended =
                kernel.run(&run, &ResumeOverrides::default(), &StopHandle::new()).await.expect("ended");
            assert_eq!(ended.status, RunStatus::Stalled, "{case}: {ended:?}");
            assert_eq!(server.requests().len(), at + ATTEMPTS as usize, "{case}: no more than that");
            let reads = store.run(&run);
            let messages = reads.messages().expect("messages");
            let replies = messages.iter().filter(|message| message.origin == Origin::Reply).count();
            assert_eq!(replies, at, "{case}: half a reply is none");
            let calls = reads.model_calls().expect("calls");
            let failed = calls.last().expect("asked");
            assert_eq!((failed.status, &failed.reply), (ModelCallStatus::Failed, &None), "{case}");
            let attempts = reads.attempts(failed.id).expect("attempts");
            assert_eq!(attempts.len(), ATTEMPTS as usize, "{case}");
            for attempt in &attempts {
                assert!(spoilt.ends_with(&attempt.response), "{case}: what came is kept");
            }
            let server = Server::answering(good).await;
            let kernel = Kernel { model: Arc::new(server.provider(dialect)), ..kernel };
            kernel.resume(&run, None).await.expect("taken up");
            let ended =
                kernel.run(&run, &ResumeOverrides::default(), &StopHandle::new()).await.expect("ended");
            assert_eq!(ended.status, RunStatus::Completed, "{case}: {ended:?}");
            let messages = store.run(&run).messages().expect("messages");
            (case, messages.iter().map(said).collect())
        }
    }

    /// All of these answers, each in a run of its own.
    async fn all(&self, cases: Vec<(String, Vec<u8>, usize)>) {
        let expected = self.undisturbed().await;
        let mut running = JoinSet::new();
        let check = |(case, told): (String, String)| assert_eq!(told, expected, "{case}");
        for (case, spoilt, at) in cases {
            if running.len() >= 24 {
                check(running.join_next().await.expect("some").expect("no panic"));
            }
            running.spawn(self.disturbed(spoilt, at, case));
        }
        running.join_all().await.into_iter().for_each(check);
    }
}

#[tokio::test]
async fn a_stream_cut_at_any_event_is_retried() {
    for dialect in DIALECTS {
        let mut cases = Vec::new();
        for (at, reply) in [(0, first()), (1, last())] {
            let events = events(dialect, &reply);
            for cut in 0..events.len() {
                // The last event of Responses is the whole reply; before it, nothing is.
                cases.push((format!("{dialect} {at} cut at {cut}"), stream(&events[..cut].concat()), at));
            }
        }
        Line::new(dialect).all(cases).await;
    }
}

#[tokio::test]
async fn a_malformed_stream_is_no_reply_and_the_run_continues() {
    for dialect in DIALECTS {
        let events = events(dialect, &first());
        let overloaded = ProviderError::new("overloaded_error", "busy");
        let with = |at: usize, event: &[u8]| {
            let mut spoilt = events.clone();
            spoilt.insert(at, event.to_vec());
            stream(&spoilt.concat())
        };
        let middle = events.len() / 2;
        let mut cases = vec![
            ("an error inside", with(middle, &dialect.encode_stream_error(&overloaded))),
            ("an error at once", with(0, &dialect.encode_stream_error(&overloaded))),
            ("garbage", with(middle, b"data: {\"type\n\n")),
            ("a number", with(middle, b"data: 5\n\n")),
            ("a wrong type", with(middle, wrong_type(dialect))),
            ("half a character", stream(&halved(&events.concat()))),
            ("nothing", stream(b"")),
            ("a text", [head("200", "content-type: text/plain\r\n").as_bytes(), b"hello"].concat()),
            ("an error as a body", [head("200", "").as_bytes(), &dialect.encode_error(&overloaded)].concat()),
            ("other JSON", [head("200", "").as_bytes(), br#"{"object":"list"}"#].concat()),
            ("too soon ended JSON", [head("200", "").as_bytes(), br#"{"id":"#].concat()),
            ("500", [head("500", "").as_bytes(), b"oops"].concat()),
            ("529", [head("529", "").as_bytes(), &dialect.encode_error(&overloaded)].concat()),
            ("429", head("429", "retry-after: 0\r\n").into_bytes()),
            ("no HTTP", b"what?\r\n\r\n".to_vec()),
        ];
        if dialect == Dialect::AnthropicMessages {
            // The others cannot tell: they have nothing that may come only once.
            for at in [0, 1] {
                cases.push(("an event twice", with(at + 1, &events[at])));
            }
        }
        let cases = cases.into_iter().map(|(case, spoilt)| (format!("{dialect}: {case}"), spoilt, 0));
        Line::new(dialect).all(cases.collect()).await;
    }
}

fn wrong_type(dialect: Dialect) -> &'static [u8] {
    match dialect {
        Dialect::AnthropicMessages => {
            b"data: {\"type\":\"content_block_delta\",\"index\":\"0\",\"delta\":[]}\n\n"
        }
        Dialect::OpenAiChat => b"data: {\"choices\":[{\"index\":0,\"delta\":\"x\"}]}\n\n",
        Dialect::OpenAiResponses => b"data: {\"type\":\"response.output_text.delta\",\"delta\":5}\n\n",
    }
}

/// The first letter of more than one byte loses its last.
fn halved(stream: &[u8]) -> Vec<u8> {
    let at = stream.iter().position(|byte| *byte >= 0xc0).expect("there is one");
    [&stream[..at + 1], &stream[at + 2..]].concat()
}

#[tokio::test]
async fn every_event_twice_is_never_a_panic_and_never_half_a_reply() {
    for dialect in DIALECTS {
        let line = Line::new(dialect);
        let events = events(dialect, &first());
        for at in 0..events.len() {
            let mut twice = events.clone();
            twice.insert(at, events[at].clone());
            let (kernel, _server) = line
                .answering(vec![stream(&twice.concat()), whole(dialect, &first()), whole(dialect, &last())])
                .await;
            let run = kernel.start(line.room.start_of("lies")).await.expect("started");
            let ended =
                kernel.run(&run, &ResumeOverrides::default(), &StopHandle::new()).await.expect("ended");
            assert_eq!(ended.status, RunStatus::Completed, "{dialect} {at}: {ended:?}");
            // Taken as it is, and then there are twice as many calls, or refused and asked for again.
            let calls = line.room.store.run(&run).tool_calls().expect("calls");
            assert!(matches!(calls.len(), 2 | 4), "{dialect} {at}: {calls:?}");
        }
    }
}

#[tokio::test]
async fn a_stalled_stream_is_cut_and_retried() {
    for dialect in DIALECTS {
        let line = Line::new(dialect);
        let events = events(dialect, &first());
        let (silent, _open) = Server::falling_silent(stream(&events[..events.len() / 2].concat())).await;
        let mut provider = silent.provider(dialect);
        provider.limits = provider::ResponseLimits { idle: Duration::from_millis(30), ..provider.limits };
        let kernel = line.kernel(provider);
        let run = kernel.start(line.room.start_of("lies")).await.expect("started");
        let ended = kernel.run(&run, &ResumeOverrides::default(), &StopHandle::new()).await.expect("ended");
        assert_eq!(ended.status, RunStatus::Stalled, "{dialect}: {ended:?}");
        let (kernel, _server) = line.answering(vec![whole(dialect, &first()), whole(dialect, &last())]).await;
        kernel.resume(&run, None).await.expect("taken up");
        let ended = kernel.run(&run, &ResumeOverrides::default(), &StopHandle::new()).await.expect("ended");
        assert_eq!(ended.status, RunStatus::Completed, "{dialect}: {ended:?}");
        assert_eq!(line.told(&run), line.undisturbed().await, "{dialect}");
    }
}

#[tokio::test]
async fn a_status_decides_between_retry_and_failure_and_the_run_can_continue() {
    let dialect = Dialect::AnthropicMessages;
    let line = Line::new(dialect);
    let expected = line.undisturbed().await;
    for (status, attempts, ended_as) in [
        ("400", 1, RunStatus::Failed),
        ("401", 1, RunStatus::Failed),
        ("403", 1, RunStatus::Failed),
        ("404", 1, RunStatus::Failed),
        ("413", 1, RunStatus::Failed),
        ("308", 1, RunStatus::Failed),
        ("429", ATTEMPTS as usize, RunStatus::Stalled),
        ("503", ATTEMPTS as usize, RunStatus::Stalled),
    ] {
        // In the middle: the first answer is good.
        let refusal = head(status, "").into_bytes();
        let answers = vec![whole(dialect, &first()), refusal.clone(), refusal];
        let (kernel, server) = line.answering(answers).await;
        let run = kernel.start(line.room.start_of("lies")).await.expect("started");
        let ended = kernel.run(&run, &ResumeOverrides::default(), &StopHandle::new()).await.expect("ended");
        assert_eq!(ended.status, ended_as, "{status}: {ended:?}");
        assert!(ended.error.expect("it says why").contains(status), "{status}");
        assert_eq!(server.requests().len(), 1 + attempts, "{status}");
        let (kernel, _server) = line.answering(vec![whole(dialect, &last())]).await;
        kernel.resume(&run, None).await.expect("taken up");
        kernel.run(&run, &ResumeOverrides::default(), &StopHandle::new()).await.expect("ended");
        assert_eq!(line.told(&run), expected, "{status}");
    }
}

#[tokio::test]
async fn a_refused_connection_fails_the_run_and_it_can_be_resumed() {
    let dialect = Dialect::AnthropicMessages;
    let line = Line::new(dialect);
    let gone = Server::answering(Vec::new()).await;
    let kernel = line.kernel(gone.provider(dialect));
    let run = kernel.start(line.room.start_of("lies")).await.expect("started");
    let ended = kernel.run(&run, &ResumeOverrides::default(), &StopHandle::new()).await.expect("ended");
    assert_eq!(ended.status, RunStatus::Failed);
    assert!(ended.error.expect("it says why").contains("cannot connect"));
    let (kernel, _server) = line.answering(vec![whole(dialect, &first()), whole(dialect, &last())]).await;
    kernel.resume(&run, None).await.expect("taken up");
    kernel.run(&run, &ResumeOverrides::default(), &StopHandle::new()).await.expect("ended");
    assert_eq!(line.told(&run), line.undisturbed().await);
}

/// A message, without the runs of other cases that its context names: they share a journal.
fn said(message: &store::StoredMessage) -> String {
    let text = String::from_utf8_lossy(&message.bytes).into_owned() + "\n";
    match (text.find(r"\n\nRecent"), text.find(r"\n</context>")) {
        (Some(from), Some(to)) => format!("{}{}", &text[..from], &text[to..]),
        _ => text,
    }
}
