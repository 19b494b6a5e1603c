//! Prices of model calls.

use crate::Usage;

use super::Model;

/// Price in dollars per million tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    input: f64,
    output: f64,
    cache_read: f64,
    cache_write_5m: f64,
    cache_write_1h: f64,
    long: Option<LongPromptRates>,
}

/// Rates for long prompts. They apply to the whole call.
#[derive(Clone, Copy, Debug, PartialEq)]
struct LongPromptRates {
    /// The rates apply if there are more input tokens than this, whatever their price.
    over: u64,
    /// Factor on the price of all input.
    input: f64,
    /// Factor on the price of the output.
    output: f64,
}

/// Returns a price of Anthropic: cached input costs a tenth, writing to the cache 1.25 times or twice as much.
pub(super) const fn anthropic(input: f64, output: f64) -> Price {
    Price {
        input,
        output,
        cache_read: input * 0.1,
        cache_write_5m: input * 1.25,
        cache_write_1h: input * 2.0,
        long: None,
    }
}

/// Returns a price of OpenAI up to GPT-5.5: writing to the cache costs nothing extra.
pub(super) const fn openai(input: f64, cached: f64, output: f64) -> Price {
    Price { input, output, cache_read: cached, cache_write_5m: input, cache_write_1h: input, long: None }
}

impl Price {
    /// Sets the price of writing to the cache to 1.25 times that of input.
    pub(super) const fn with_charged_writes(self) -> Self {
        Self { cache_write_5m: self.input * 1.25, cache_write_1h: self.input * 1.25, ..self }
    }

    /// Sets the price of cached input.
    pub(super) const fn with_reads_at(self, cache_read: f64) -> Self {
        Self { cache_read, ..self }
    }

    /// Sets the factors for prompts of more than `over` tokens.
    pub(super) const fn with_long_prompts(self, over: u64, input: f64, output: f64) -> Self {
        Self { long: Some(LongPromptRates { over, input, output }), ..self }
    }

    /// Returns the cost of a call in dollars.
    pub fn cost(&self, usage: &Usage) -> f64 {
        let long = self.long.filter(|long| usage.input_total() > long.over);
        let (input, output) = long.map_or((1.0, 1.0), |long| (long.input, long.output));
        let parts = [
            (usage.input, self.input * input),
            (usage.output, self.output * output),
            (usage.cache_read, self.cache_read * input),
            (usage.cache_write_5m, self.cache_write_5m * input),
            (usage.cache_write_1h, self.cache_write_1h * input),
        ];
        parts.iter().map(|(tokens, price)| *tokens as f64 * price / 1e6).sum()
    }
}

/// Returns the price of a model, if its family is known.
pub fn price(model: &str) -> Option<Price> {
    Model::find(model).map(|model| model.price)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_found_by_the_longest_part() {
        assert_eq!(price("claude-haiku-4-5-20251001"), Some(anthropic(1.0, 5.0)));
        assert_eq!(price("anthropic/claude-3-5-haiku-latest"), Some(anthropic(0.8, 4.0)));
        assert_eq!(price("openai/gpt-5-mini"), Some(openai(0.25, 0.025, 2.0)));
        assert_eq!(price("mystery-1"), None);
    }

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-9, "{a} is not {b}");
    }

    #[test]
    fn every_part_of_the_usage_has_its_price() {
        let million = |make: fn(&mut Usage)| {
            let mut usage = Usage::default();
            make(&mut usage);
            price("sonnet").expect("known").cost(&usage)
        };
        close(million(|usage| usage.input = 1_000_000), 3.0);
        close(million(|usage| usage.output = 1_000_000), 15.0);
        close(million(|usage| usage.cache_read = 1_000_000), 0.3);
        close(million(|usage| usage.cache_write_5m = 1_000_000), 3.75);
        close(million(|usage| usage.cache_write_1h = 1_000_000), 6.0);
    }

    #[test]
    fn a_long_prompt_makes_the_whole_call_dearer() {
        let haiku = price("claude-haiku-5-5").expect("known");
        let usage = |cache_read| Usage { cache_read, output: 1_000, ..Usage::default() };
        close(haiku.cost(&usage(100_000)), 0.001 + 0.0005);
        close(haiku.cost(&usage(100_001)), 0.005_000_05 + 0.0025);
    }
}
