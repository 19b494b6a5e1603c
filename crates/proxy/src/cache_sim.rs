//! A prompt cache for stand-ins: they report the usage that the provider's rules come to.

use std::sync::Mutex;

use cache::{Asked, Simulator, Tokens};
use session::Usage;
use tokio::time::Instant;
use wire::dialect::Dialect;

/// A cache that all connections of a stand-in share.
#[derive(Debug)]
pub(crate) struct CacheSim {
    simulator: Mutex<Simulator>,
    began: Instant,
}

impl CacheSim {
    /// An empty one.
    pub(crate) fn new() -> Self {
        Self { simulator: Mutex::new(Simulator::new()), began: Instant::now() }
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
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

/// The input as the cache has it, the output as it was to be.
pub(crate) fn usage(asked: &Asked, said: &Usage) -> Usage {
    Usage { output: said.output, reasoning: said.reasoning, ..asked.usage }
}
