//! Cost limit of a live capture, kept before each request.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Mutex;

use proxy::{GatedRequest, RequestGate};
use session::model::{Model, price};
use session::{Block, ImageSource, RequestId, Usage};
use tokio::sync::watch;
use wire::dialect::{Dialect, Prompt};

/// Number of bytes that count as a token. JSON has fewer bytes per token than prose.
const BYTES_PER_TOKEN: u64 = 3;
/// Number of tokens that a picture counts as.
const PICTURE_TOKENS: u64 = 2_000;
/// Output limit of a request that has none, unless the model has a higher one.
const USUAL_OUTPUT: u64 = 32_000;
/// A compressed request that unpacks to more is counted by its size.
const MAX_UNPACKED: usize = 64 << 20;

/// Refuses a request whose worst case does not fit in what is left of the limit. Requests in flight are counted at their
/// worst case: a request that would only fit without them waits.
///
/// One request may exceed the limit by its own cost: a request that is alone before anything was spent.
#[derive(Debug)]
pub(crate) struct SpendingLimit {
    limit: f64,
    state: Mutex<Spending>,
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Spending {
    /// Known cost, and the worst case of requests whose cost is unknown.
    spent: f64,
    /// Worst case of each request in flight.
    in_flight: HashMap<RequestId, f64>,
    /// True if a request was refused because of the limit.
    has_refused: bool,
}

/// Cost of an exchange that has ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ExchangeCost {
    /// The provider reported the usage, or refused the request.
    Known(f64),
    /// The provider did not say what it cost, so the worst case counts.
    Unknown,
}

impl SpendingLimit {
    pub(crate) fn new(limit: f64) -> Self {
        Self { limit, state: Mutex::default(), changed: watch::Sender::new(()) }
    }

    /// Returns the requests in flight.
    pub(crate) fn in_flight(&self) -> Vec<RequestId> {
        self.state.lock().expect("lock is not poisoned").in_flight.keys().cloned().collect()
    }

    /// Returns whether a request was refused because of the limit.
    pub(crate) fn has_refused(&self) -> bool {
        self.state.lock().expect("lock is not poisoned").has_refused
    }

    /// Replaces the worst case of a request by its cost.
    pub(crate) fn settle(&self, id: &RequestId, cost: ExchangeCost) {
        let mut state = self.state.lock().expect("lock is not poisoned");
        let worst = state.in_flight.remove(id).unwrap_or_default();
        state.spent += match cost {
            ExchangeCost::Known(cost) => cost,
            ExchangeCost::Unknown => worst,
        };
        drop(state);
        self.changed.send_replace(());
    }

    /// Reserves the worst case of a request. Returns `None` if it must wait, or the reason of a refusal.
    fn reserve(&self, id: &RequestId, worst: f64) -> Option<Result<(), String>> {
        let mut state = self.state.lock().expect("lock is not poisoned");
        let (limit, spent) = (self.limit, state.spent);
        if spent >= limit {
            state.has_refused = true;
            return Some(Err(format!("the budget of ${limit:.2} is used up: about ${spent:.4} spent")));
        }
        if spent > 0.0 && spent + worst > limit {
            state.has_refused = true;
            return Some(Err(format!(
                "the budget of ${limit:.2} does not suffice: about ${spent:.4} spent, and this request may cost \
                 ${worst:.4}"
            )));
        }
        let in_flight: f64 = state.in_flight.values().sum();
        let is_first = spent == 0.0 && state.in_flight.is_empty();
        (is_first || spent + in_flight + worst <= limit).then(|| {
            state.in_flight.insert(id.clone(), worst);
            Ok(())
        })
    }

    async fn wait_and_reserve(&self, id: &RequestId, worst: f64) -> Result<(), String> {
        let mut changed = self.changed.subscribe();
        loop {
            changed.mark_unchanged();
            if let Some(decided) = self.reserve(id, worst) {
                return decided;
            }
            let _ = changed.changed().await; // the sender lives as long as `self`
        }
    }
}

impl RequestGate for SpendingLimit {
    fn admit<'a>(
        &'a self,
        request: GatedRequest<'a>,
    ) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>> {
        Box::pin(async move {
            match worst_case(&request)? {
                Some(worst) => self.wait_and_reserve(&request.id, worst).await,
                None => Ok(()),
            }
        })
    }

    fn not_sent(&self, id: &RequestId) {
        self.settle(id, ExchangeCost::Known(0.0));
    }
}

/// Returns the most that a request to a model can cost; `None` if it asks no model.
fn worst_case(request: &GatedRequest<'_>) -> Result<Option<f64>, String> {
    let path = request.url.split('?').next().unwrap_or_default();
    if request.method != "POST" || path.ends_with("/count_tokens") {
        return Ok(None);
    }
    let unpacked = request
        .coding
        .as_deref()
        .and_then(|coding| wire::encoding::decode(coding, request.body, MAX_UNPACKED).ok());
    let body = unpacked.as_deref().unwrap_or(request.body);
    let Some(dialect) = Dialect::detect(request.url, body) else { return Ok(None) };
    let prompt = dialect.decode_request(body).map_err(|error| {
        format!("cannot enforce the budget for a request that is not understood: {error}")
    })?;
    let model = prompt.model.clone().unwrap_or_default();
    let price = price(&model)
        .ok_or_else(|| format!("no price known for model `{model}`; cannot enforce the budget"))?;
    let known = Model::find(&model).map(|model| model.max_output);
    let output = prompt.max_tokens.unwrap_or_else(|| known.unwrap_or_default().max(USUAL_OUTPUT));
    Ok(Some(price.cost(&usage(input_tokens(&prompt, body.len() as u64), output, &prompt))))
}

/// Estimates the input tokens by the size of the body, without the bytes of pictures.
fn input_tokens(prompt: &Prompt, length: u64) -> u64 {
    let parts = prompt.messages.iter().flat_map(|message| &message.parts);
    let pictures = parts.flat_map(|part| std::iter::once(part).chain(&part.parts)).filter_map(|part| {
        match &part.block {
            Block::Image(ImageSource::Base64 { data, .. }) => Some(data.len() as u64),
            _ => None,
        }
    });
    let (count, bytes) = pictures.fold((0, 0), |(count, sum), length| (count + 1, sum + length));
    length.saturating_sub(bytes) / BYTES_PER_TOKEN + 1 + count * PICTURE_TOKENS
}

/// Counts all input as written to the cache if the request marks something, which is the dearest way.
fn usage(input: u64, output: u64, prompt: &Prompt) -> Usage {
    let usage = Usage { output, ..Usage::default() };
    let mut lifetimes =
        prompt.markers.iter().filter(|marker| marker.is_set).map(|marker| marker.ttl.as_deref());
    match (lifetimes.clone().any(|ttl| ttl == Some("1h")), lifetimes.next().is_some()) {
        (true, _) => Usage { cache_write_1h: input, ..usage },
        (false, true) => Usage { cache_write_5m: input, ..usage },
        (false, false) => Usage { input, ..usage },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(id: u64, body: &str) -> GatedRequest<'_> {
        let id = RequestId::nth(id);
        let url = "https://api.anthropic.com/v1/messages";
        GatedRequest { id, method: "POST", url, coding: None, body: body.as_bytes() }
    }

    fn body(model: &str, max_tokens: u64) -> String {
        format!(
            r#"{{"model":"{model}","max_tokens":{max_tokens},"messages":[{{"role":"user","content":"hi"}}]}}"#
        )
    }

    #[tokio::test]
    async fn requests_in_flight_count_at_their_worst_case() {
        // A million output tokens of this model cost 5 dollars.
        let body = body("claude-haiku-4-5", 40_000);
        let limit = SpendingLimit::new(0.5);
        let worst = worst_case(&request(1, &body)).expect("priced").expect("asks a model");
        assert!((0.2..0.21).contains(&worst), "{worst}");
        limit.admit(request(1, &body)).await.expect("it is alone");
        limit.admit(request(2, &body)).await.expect("both fit");
        let mut third = limit.admit(request(3, &body));
        assert!(futures_are_pending(&mut third), "three do not fit");
        limit.settle(&RequestId::nth(1), ExchangeCost::Known(0.05));
        third.await.expect("the first was cheap");
        limit.settle(&RequestId::nth(2), ExchangeCost::Known(0.2));
        let mut fourth = limit.admit(request(4, &body));
        assert!(futures_are_pending(&mut fourth), "it fits only if the third is cheap");
        limit.settle(&RequestId::nth(3), ExchangeCost::Unknown);
        let refused = fourth.await.expect_err("$0.45 are spent, and it may cost $0.20");
        assert!(refused.starts_with("the budget of $0.50 does not suffice: about $0.45"), "{refused}");
        let small = self::body("claude-haiku-4-5", 8_000);
        limit.admit(request(5, &small)).await.expect("it fits");
        limit.settle(&RequestId::nth(5), ExchangeCost::Known(0.05));
        let refused = limit.admit(request(6, &small)).await.expect_err("the limit is reached");
        assert!(refused.starts_with("the budget of $0.50"), "{refused}");
    }

    #[tokio::test]
    async fn only_a_first_request_that_is_alone_may_exceed_the_limit() {
        let body = body("claude-haiku-4-5", 40_000);
        let limit = SpendingLimit::new(0.1);
        limit.admit(request(1, &body)).await.expect("it is the first");
        let mut second = limit.admit(request(2, &body));
        assert!(futures_are_pending(&mut second), "it is not alone");
        drop(second);
        limit.not_sent(&RequestId::nth(1));
        limit
            .admit(request(3, &body))
            .await
            .expect("nothing was spent, and a request that left reserves nothing");
        limit.settle(&RequestId::nth(3), ExchangeCost::Known(0.01));
        limit.admit(request(4, &body)).await.expect_err("it may cost more than is left");
    }

    #[test]
    fn what_asks_no_model_is_free_and_what_has_no_price_is_refused() {
        let (known, unknown) = (body("claude-haiku-4-5", 10), body("mystery-1", 10));
        let count = GatedRequest { url: "http://x/v1/messages/count_tokens", ..request(1, &known) };
        assert_eq!(worst_case(&count), Ok(None));
        assert_eq!(worst_case(&GatedRequest { method: "GET", ..request(1, "") }), Ok(None));
        let refused = worst_case(&request(1, &unknown)).expect_err("no price");
        assert!(refused.contains("`mystery-1`"), "{refused}");
        let long = known.replace("hi", &"hi ".repeat(100_000));
        let cost = |body: &str| worst_case(&request(1, body)).expect("priced").expect("asks a model");
        assert!(cost(&long) > cost(&known) + 0.09, "the input counts");
        let marked = long.replace(
            "\"messages\"",
            "\"cache_control\":{\"type\":\"ephemeral\",\"ttl\":\"1h\"},\"messages\"",
        );
        assert!(cost(&marked) > cost(&long) + 0.09, "a cache write costs more");
    }

    fn futures_are_pending(
        future: &mut Pin<Box<dyn Future<Output = Result<(), String>> + Send + '_>>,
    ) -> bool {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        future.as_mut().poll(&mut cx).is_pending()
    }
}
