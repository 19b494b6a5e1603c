//! A prompt cache for stand-ins: they report the usage that the provider's rules come to.

use std::sync::Mutex;
use std::time::SystemTime;

use cache::{Asked, Prompt, Simulator, Tokens};
use session::Usage;
use tokio::time::Instant;
use wire::dialect::Dialect;

/// A cache that all connections of a stand-in share.
#[derive(Debug)]
pub(crate) struct CacheSim {
    simulator: Mutex<Simulator>,
    began: Instant,
    /// The time at its beginning, as the simulator counts.
    first_us: u64,
}

/// A request that was answered before, by a stand-in with such a cache.
#[derive(Clone, Debug)]
pub struct CachedRequest {
    /// What it asked.
    pub prompt: Prompt,
    /// When.
    pub asked_at: SystemTime,
    /// When its answer began.
    pub answered_at: SystemTime,
    /// What it was told to have used.
    pub usage: Usage,
}

impl CacheSim {
    /// An empty one.
    pub(crate) fn new() -> Self {
        Self::that_knows(Vec::new(), SystemTime::now())
    }

    /// One that has seen these, as it would be now.
    pub(crate) fn that_knows(mut known: Vec<CachedRequest>, now: SystemTime) -> Self {
        known.sort_by_key(|known| known.asked_at);
        let first = known.first().map_or(now, |known| known.asked_at);
        let since = |at: SystemTime| {
            let since = at.duration_since(first).unwrap_or_default();
            u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
        };
        let mut simulator = Simulator::new();
        let mut begins: Vec<(SystemTime, Asked)> = Vec::new();
        for known in known {
            begins.retain(|(begun, asked)| {
                let waits = *begun > known.asked_at;
                if !waits {
                    simulator.begin(asked);
                }
                waits
            });
            let scale = Tokens::default().scale(&known.prompt, None);
            let asked = simulator.ask(since(known.asked_at), &known.prompt, &scale);
            // Whoever said something else of how long it is had no such cache.
            if asked.usage.input_total() == known.usage.input_total() {
                begins.push((known.answered_at, asked));
            }
        }
        begins.iter().for_each(|(_, asked)| simulator.begin(asked));
        Self { simulator: Mutex::new(simulator), began: Instant::now(), first_us: since(now) }
    }

    /// A request came; nothing where it is none.
    pub(crate) fn ask(&self, dialect: Dialect, body: &[u8]) -> Option<Asked> {
        let prompt = cache::Prompt::decode(dialect, body)?;
        let scale = Tokens::default().scale(&prompt, None);
        let mut simulator = self.simulator.lock().expect("nobody panics while holding it");
        Some(simulator.ask(self.now(), &prompt, &scale))
    }

    /// Its answer begins: now others can read what it wrote.
    pub(crate) fn begin(&self, asked: &Asked) {
        let mut simulator = self.simulator.lock().expect("nobody panics while holding it");
        simulator.begin(asked);
    }

    fn now(&self) -> u64 {
        let since = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.first_us.saturating_add(since)
    }
}

/// The input as the cache has it, the output as it was to be.
pub(crate) fn usage(asked: &Asked, said: &Usage) -> Usage {
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
    async fn what_was_asked_before_is_known_until_it_expires() {
        let whole = CacheSim::new();
        let used = [ask(&whole, 0), ask(&whole, 1), ask(&whole, 2)];
        assert!(used[0].cache_write_5m > 2000 && used[1].cache_read > 2000, "{used:?}");
        let began = SystemTime::UNIX_EPOCH;
        let after = |seconds: u64| began + Duration::from_secs(seconds);
        let known = |turns: usize, usage: Usage| CachedRequest {
            prompt: Prompt::decode(Dialect::AnthropicMessages, body(turns).as_bytes()).expect("a prompt"),
            asked_at: after(turns as u64),
            answered_at: after(turns as u64),
            usage,
        };
        let both = || vec![known(1, used[1]), known(0, used[0])];
        assert_eq!(ask(&CacheSim::that_knows(both(), after(9)), 2), used[2]);
        assert_eq!(ask(&CacheSim::that_knows(both(), after(900)), 2).cache_read, 0, "it has gone");
        let made_up = Usage { input: 7, ..Usage::default() };
        let other = CacheSim::that_knows(vec![known(0, made_up), known(1, made_up)], after(9));
        assert_eq!(ask(&other, 2).cache_read, 0, "who answered had no cache");
    }
}
