//! What a model call costs, by a table that says how old it is.

use session::Usage;

/// The month whose list prices these are; providers change them without telling us.
pub const PRICES_OF: &str = "2025-12";

/// Dollars for a million tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    input: f64,
    output: f64,
    cache_read: f64,
    cache_write_5m: f64,
    cache_write_1h: f64,
}

/// Anthropic's: cached input costs a tenth, writing it a quarter more or twice as much.
const fn anthropic(input: f64, output: f64) -> Price {
    Price {
        input,
        output,
        cache_read: input * 0.1,
        cache_write_5m: input * 1.25,
        cache_write_1h: input * 2.0,
    }
}

/// OpenAI's: writing to the cache costs nothing extra.
const fn openai(input: f64, cached: f64, output: f64) -> Price {
    Price { input, output, cache_read: cached, cache_write_5m: input, cache_write_1h: input }
}

/// Families by a part of the model's name; the first that fits counts, so the longer ones come first.
const FAMILIES: &[(&str, Price)] = &[
    ("opus-4-5", anthropic(5.0, 25.0)),
    ("opus-4", anthropic(15.0, 75.0)),
    ("3-opus", anthropic(15.0, 75.0)),
    ("opus", anthropic(15.0, 75.0)),
    ("sonnet", anthropic(3.0, 15.0)),
    ("3-5-haiku", anthropic(0.8, 4.0)),
    ("3-haiku", anthropic(0.25, 1.25)),
    ("haiku", anthropic(1.0, 5.0)),
    ("gpt-5-nano", openai(0.05, 0.005, 0.4)),
    ("gpt-5-mini", openai(0.25, 0.025, 2.0)),
    ("gpt-5-pro", openai(15.0, 15.0, 120.0)),
    ("gpt-5", openai(1.25, 0.125, 10.0)),
    ("gpt-4.1-nano", openai(0.1, 0.025, 0.4)),
    ("gpt-4.1-mini", openai(0.4, 0.1, 1.6)),
    ("gpt-4.1", openai(2.0, 0.5, 8.0)),
    ("gpt-4o-mini", openai(0.15, 0.075, 0.6)),
    ("gpt-4o", openai(2.5, 1.25, 10.0)),
    ("o4-mini", openai(1.1, 0.275, 4.4)),
    ("o3", openai(2.0, 0.5, 8.0)),
];

/// The price of a model, where its family is known.
pub fn price(model: &str) -> Option<Price> {
    let model = model.to_ascii_lowercase();
    FAMILIES.iter().find(|(family, _)| model.contains(family)).map(|(_, price)| *price)
}

impl Price {
    /// What a call cost, in dollars.
    pub fn of(&self, usage: &Usage) -> f64 {
        let parts = [
            (usage.input, self.input),
            (usage.output, self.output),
            (usage.cache_read, self.cache_read),
            (usage.cache_write_5m, self.cache_write_5m),
            (usage.cache_write_1h, self.cache_write_1h),
        ];
        parts.iter().map(|(tokens, price)| *tokens as f64 * price / 1e6).sum()
    }
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

    #[test]
    fn every_part_of_the_usage_has_its_price() {
        let million = |make: fn(&mut Usage)| {
            let mut usage = Usage::default();
            make(&mut usage);
            price("sonnet").expect("known").of(&usage)
        };
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} is not {b}");
        close(million(|usage| usage.input = 1_000_000), 3.0);
        close(million(|usage| usage.output = 1_000_000), 15.0);
        close(million(|usage| usage.cache_read = 1_000_000), 0.3);
        close(million(|usage| usage.cache_write_5m = 1_000_000), 3.75);
        close(million(|usage| usage.cache_write_1h = 1_000_000), 6.0);
    }
}
