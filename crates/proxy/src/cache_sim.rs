//! Simulates the provider's prompt cache for replay and scripted models, which report the resulting usage.

use std::sync::{Mutex, MutexGuard};
use std::time::SystemTime;

use cache::{CachePrompt, SimulatedRequest, Simulator, TokenModel};
use session::Usage;
use tokio::time::Instant;
use wire::dialect::Dialect;

/// A simulated cache, shared by all connections of a server.
#[derive(Debug)]
pub(crate) struct CacheSim {
    simulator: Mutex<Simulator>,
    started: Instant,
    /// The simulator's time at `started`.
    start_us: u64,
}

/// An earlier request that another server with a simulated cache answered.
#[derive(Clone, Debug)]
pub struct CachedRequest {
    /// The prompt of the request.
    pub prompt: CachePrompt,
    /// The time of the request.
    pub asked_at: SystemTime,
    /// The time at which the response began.
    pub answered_at: SystemTime,
    /// The usage that the response reported.
    pub usage: Usage,
}

impl CacheSim {
    /// Creates an empty cache.
    pub(crate) fn new() -> Self {
        Self::with_requests(Vec::new(), SystemTime::now())
    }

    /// Creates a cache with the contents that it would have now after these requests.
    pub(crate) fn with_requests(mut known: Vec<CachedRequest>, now: SystemTime) -> Self {
        known.sort_by_key(|known| known.asked_at);
        let first = known.first().map_or(now, |known| known.asked_at);
        let since = |at: SystemTime| {
            let since = at.duration_since(first).unwrap_or_default();
            u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
        };
        let mut simulator = Simulator::new();
        let mut begins: Vec<(SystemTime, SimulatedRequest)> = Vec::new();
        for known in known {
            begins.retain(|(begun, asked)| {
                let is_later = *begun > known.asked_at;
                if !is_later {
                    simulator.begin(asked);
                }
                is_later
            });
            let scale = TokenModel::default().scale(&known.prompt, None);
            let asked = simulator.ask(since(known.asked_at), &known.prompt, &scale);
            // A server that reported another length did not simulate the cache.
            if asked.usage.input_total() == known.usage.input_total() {
                begins.push((known.answered_at, asked));
            }
        }
        begins.iter().for_each(|(_, asked)| simulator.begin(asked));
        Self { simulator: Mutex::new(simulator), started: Instant::now(), start_us: since(now) }
    }

    /// Adds a request. Returns `None` if it is invalid.
    pub(crate) fn ask(&self, dialect: Dialect, body: &[u8]) -> Option<SimulatedRequest> {
        let prompt = cache::CachePrompt::decode(dialect, body)?;
        let scale = TokenModel::default().scale(&prompt, None);
        Some(self.lock().ask(self.now(), &prompt, &scale))
    }

    /// Notes that the response begins: now other requests can read what this one wrote.
    pub(crate) fn begin(&self, asked: &SimulatedRequest) {
        self.lock().begin(asked);
    }

    fn lock(&self) -> MutexGuard<'_, Simulator> {
        self.simulator.lock().expect("lock is not poisoned")
    }

    fn now(&self) -> u64 {
        let since = u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.start_us.saturating_add(since)
    }
}

/// Returns the simulated input tokens with the scripted output tokens.
pub(crate) fn usage(asked: &SimulatedRequest, said: &Usage) -> Usage {
    Usage { output: said.output, reasoning: said.reasoning, ..asked.usage }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn body(turns: usize) -> String {
        let rules = "Keep the cutting wet. ".repeat(400);
        let mark = r#","cache_control":{"type":"ephemeral"}"#;
        let said = r#"{"role":"user","content":"and?"},{"role":"assistant","content":"ok"},"#.repeat(turns);
        format!(
            r#"{{"model":"claude-opus-5","max_tokens":9,"system":[{{"type":"text","text":"{rules}"{mark}}}],"messages":[{said}{{"role":"user","content":[{{"type":"text","text":"now"{mark}}}]}}]}}"#
        )
    }

    fn ask(sim: &CacheSim, turns: usize) -> Usage {
        let asked = sim.ask(Dialect::AnthropicMessages, body(turns).as_bytes()).expect("a request");
        sim.begin(&asked);
        asked.usage
    }

    #[tokio::test(start_paused = true)]
    async fn an_earlier_request_is_cached_until_it_expires() {
        let whole = CacheSim::new();
        let used = [ask(&whole, 0), ask(&whole, 1), ask(&whole, 2)];
        assert!(used[0].cache_write_5m > 2000 && used[1].cache_read > 2000, "{used:?}");
        let began = SystemTime::UNIX_EPOCH;
        let after = |seconds: u64| began + Duration::from_secs(seconds);
        let known = |turns: usize, usage: Usage| CachedRequest {
            prompt: CachePrompt::decode(Dialect::AnthropicMessages, body(turns).as_bytes())
                .expect("a prompt"),
            asked_at: after(turns as u64),
            answered_at: after(turns as u64),
            usage,
        };
        let both = || vec![known(1, used[1]), known(0, used[0])];
        assert_eq!(ask(&CacheSim::with_requests(both(), after(9)), 2), used[2]);
        assert_eq!(ask(&CacheSim::with_requests(both(), after(900)), 2).cache_read, 0, "it has expired");
        let made_up = Usage { input: 7, ..Usage::default() };
        let other = CacheSim::with_requests(vec![known(0, made_up), known(1, made_up)], after(9));
        assert_eq!(ask(&other, 2).cache_read, 0, "the server had no cache");
    }
}
