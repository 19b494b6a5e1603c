//! The table of models. The first matching family counts, so longer names come first.
//!
//! A family without a number is for models that are newer than the table. It has the highest price of its kind. Requests
//! to it have the settings of the newest models; a provider that rejects them gets the request without them.

use super::Effort::{High, Low, Max, Medium, XHigh};
use super::price::{Price, anthropic, openai};
use super::{Effort, Model, ThinkingControl, Tier, Vendor};

const UP_TO_HIGH: &[Effort] = &[Low, Medium, High];
const UP_TO_XHIGH: &[Effort] = &[Low, Medium, High, XHigh];
const ALL: &[Effort] = &[Low, Medium, High, XHigh, Max];
const ALL_BUT_XHIGH: &[Effort] = &[Low, Medium, High, Max];
const NONE: &[Effort] = &[];

const OPUS: Option<Tier> = Some(Tier::Opus);
const SONNET: Option<Tier> = Some(Tier::Sonnet);
const HAIKU: Option<Tier> = Some(Tier::Haiku);

const THOUSAND: u64 = 1_000;
const MILLION: u64 = 1_000_000;

/// Control over thinking, and accepted efforts.
type ThinkingColumns = (ThinkingControl, &'static [Effort]);
/// Minimum of the prompt cache, context window, and output limit, in tokens.
type SizeColumns = (u64, u64, u64);

const fn claude(
    family: &'static str,
    tier: Option<Tier>,
    thinking: ThinkingColumns,
    sizes: SizeColumns,
    price: Price,
) -> Model {
    let (cache_minimum, context, max_output) = sizes;
    Model {
        family,
        vendor: Vendor::Anthropic,
        tier,
        thinking: thinking.0,
        efforts: thinking.1,
        cache_minimum,
        context,
        max_output,
        images: true,
        price,
    }
}

const fn gpt(
    family: &'static str,
    tier: Option<Tier>,
    efforts: &'static [Effort],
    sizes: (u64, u64),
    price: Price,
) -> Model {
    let (context, max_output) = sizes;
    Model {
        family,
        vendor: Vendor::OpenAi,
        tier,
        thinking: ThinkingControl::EffortOnly,
        efforts,
        cache_minimum: 1024,
        context,
        max_output,
        images: true,
        price,
    }
}

const fn without_images(model: Model) -> Model {
    Model { images: false, ..model }
}

const ALWAYS: ThinkingColumns = (ThinkingControl::Always, ALL);
const UNLESS_TOLD: ThinkingColumns = (ThinkingControl::OptOut, ALL);
const WHEN_TOLD: ThinkingColumns = (ThinkingControl::OptIn, ALL);
const WHEN_TOLD_4_6: ThinkingColumns = (ThinkingControl::OptIn, ALL_BUT_XHIGH);
const ON_BUDGET: ThinkingColumns = (ThinkingControl::Budget, NONE);
const NEWER: ThinkingColumns = (ThinkingControl::OptIn, UP_TO_HIGH);
const UNKNOWN: ThinkingColumns = (ThinkingControl::EffortOnly, NONE);

const fn large(cache_minimum: u64) -> SizeColumns {
    (cache_minimum, MILLION, 128 * THOUSAND)
}

const fn small(cache_minimum: u64, max_output: u64) -> SizeColumns {
    (cache_minimum, 200 * THOUSAND, max_output)
}

const GPT_LARGE: (u64, u64) = (1_050_000, 128 * THOUSAND);
const GPT_SMALL: (u64, u64) = (400 * THOUSAND, 128 * THOUSAND);
/// Sizes of the chat models, which do not reason and accept no effort.
const GPT_CHAT: (u64, u64) = (128 * THOUSAND, 16_384);
const O_SERIES: (u64, u64) = (200 * THOUSAND, 100 * THOUSAND);

/// Adds OpenAI's rates for prompts over 272,000 tokens.
const fn with_long_rates(price: Price) -> Price {
    price.with_long_prompts(272 * THOUSAND, 2.0, 1.5)
}

pub(super) const MODELS: &[Model] = &[
    // Anthropic
    claude("fable-5", None, ALWAYS, large(512), anthropic(10.0, 50.0)),
    claude("mythos-5", None, ALWAYS, large(512), anthropic(10.0, 50.0)),
    claude("opus-5-5", OPUS, ALWAYS, large(512), anthropic(4.0, 20.0).with_reads_at(0.2)),
    claude("opus-5", OPUS, UNLESS_TOLD, large(512), anthropic(5.0, 25.0)),
    claude("opus-4-8", OPUS, WHEN_TOLD, large(1024), anthropic(5.0, 25.0)),
    claude("opus-4-7", OPUS, WHEN_TOLD, large(2048), anthropic(5.0, 25.0)),
    claude("opus-4-6", OPUS, WHEN_TOLD_4_6, large(4096), anthropic(5.0, 25.0)),
    claude(
        "opus-4-5",
        OPUS,
        (ThinkingControl::Budget, UP_TO_HIGH),
        small(4096, 64_000),
        anthropic(5.0, 25.0),
    ),
    claude("opus-4-1", OPUS, ON_BUDGET, small(1024, 32_000), anthropic(15.0, 75.0)),
    claude("opus-4", OPUS, ON_BUDGET, small(1024, 32_000), anthropic(15.0, 75.0)),
    claude("3-opus", OPUS, UNKNOWN, small(1024, 4_096), anthropic(15.0, 75.0)),
    claude("opus", OPUS, NEWER, small(4096, 32_000), anthropic(15.0, 75.0)),
    claude("sonnet-5-5", SONNET, UNLESS_TOLD, large(512), anthropic(2.0, 10.0)),
    claude("sonnet-5", SONNET, UNLESS_TOLD, large(1024), anthropic(2.0, 10.0)),
    claude("sonnet-4-6", SONNET, WHEN_TOLD_4_6, (1024, MILLION, 64_000), anthropic(3.0, 15.0)),
    claude("sonnet-4-5", SONNET, ON_BUDGET, small(1024, 64_000), anthropic(3.0, 15.0)),
    claude("sonnet-4", SONNET, ON_BUDGET, small(1024, 64_000), anthropic(3.0, 15.0)),
    claude("3-7-sonnet", SONNET, ON_BUDGET, small(1024, 64_000), anthropic(3.0, 15.0)),
    claude("3-5-sonnet", SONNET, UNKNOWN, small(1024, 8_192), anthropic(3.0, 15.0)),
    claude("sonnet", SONNET, NEWER, small(4096, 32_000), anthropic(3.0, 15.0)),
    claude(
        "haiku-5-5",
        HAIKU,
        UNLESS_TOLD,
        large(512),
        anthropic(0.1, 0.5).with_long_prompts(100_000, 5.0, 5.0),
    ),
    claude("haiku-4-5", HAIKU, ON_BUDGET, small(4096, 64_000), anthropic(1.0, 5.0)),
    claude("3-5-haiku", HAIKU, UNKNOWN, small(2048, 8_192), anthropic(0.8, 4.0)),
    claude("3-haiku", HAIKU, UNKNOWN, small(2048, 4_096), anthropic(0.25, 1.25)),
    claude("haiku", HAIKU, UNKNOWN, small(4096, 8_192), anthropic(1.0, 5.0)),
    // OpenAI
    gpt("gpt-5-6-sol", OPUS, ALL, GPT_LARGE, with_long_rates(openai(5.0, 0.5, 30.0).with_charged_writes())),
    gpt(
        "gpt-5-6-terra",
        SONNET,
        ALL,
        GPT_LARGE,
        with_long_rates(openai(2.0, 0.2, 12.0).with_charged_writes()),
    ),
    gpt(
        "gpt-5-6-luna",
        HAIKU,
        ALL,
        GPT_LARGE,
        openai(0.2, 0.02, 1.2).with_charged_writes().with_long_prompts(200 * THOUSAND, 2.0, 1.5),
    ),
    gpt("gpt-5-6", OPUS, ALL, GPT_LARGE, with_long_rates(openai(5.0, 0.5, 30.0).with_charged_writes())),
    gpt("gpt-5-5-pro", None, UP_TO_XHIGH, GPT_LARGE, with_long_rates(openai(30.0, 30.0, 180.0))),
    gpt("gpt-5-5", OPUS, UP_TO_XHIGH, GPT_LARGE, with_long_rates(openai(5.0, 0.5, 30.0))),
    gpt("gpt-5-4-pro", None, UP_TO_XHIGH, GPT_LARGE, with_long_rates(openai(30.0, 30.0, 180.0))),
    gpt("gpt-5-4-mini", SONNET, UP_TO_XHIGH, GPT_SMALL, openai(0.75, 0.075, 4.5)),
    gpt("gpt-5-4-nano", HAIKU, UP_TO_XHIGH, GPT_SMALL, openai(0.2, 0.02, 1.25)),
    gpt("gpt-5-4", OPUS, UP_TO_XHIGH, GPT_LARGE, with_long_rates(openai(2.5, 0.25, 15.0))),
    gpt("gpt-5-3-chat", None, NONE, GPT_CHAT, openai(1.75, 0.175, 14.0)),
    gpt("gpt-5-3", OPUS, UP_TO_XHIGH, GPT_SMALL, openai(1.75, 0.175, 14.0)),
    gpt("gpt-5-2-pro", None, &[Medium, High, XHigh], GPT_SMALL, openai(21.0, 21.0, 168.0)),
    gpt("gpt-5-2-chat", None, NONE, GPT_CHAT, openai(1.75, 0.175, 14.0)),
    gpt("gpt-5-2", OPUS, UP_TO_XHIGH, GPT_SMALL, openai(1.75, 0.175, 14.0)),
    gpt("gpt-5-1-chat", None, NONE, GPT_CHAT, openai(1.25, 0.125, 10.0)),
    gpt("gpt-5-1", OPUS, UP_TO_HIGH, GPT_SMALL, openai(1.25, 0.125, 10.0)),
    gpt("gpt-5-nano", HAIKU, UP_TO_HIGH, GPT_SMALL, openai(0.05, 0.005, 0.4)),
    gpt("gpt-5-mini", SONNET, UP_TO_HIGH, GPT_SMALL, openai(0.25, 0.025, 2.0)),
    gpt("gpt-5-pro", None, &[High], GPT_SMALL, openai(15.0, 15.0, 120.0)),
    gpt("gpt-5-chat", None, NONE, GPT_CHAT, openai(1.25, 0.125, 10.0)),
    gpt("gpt-5", OPUS, UP_TO_HIGH, GPT_SMALL, openai(1.25, 0.125, 10.0)),
    gpt("gpt-4-1-nano", HAIKU, NONE, (1_047_576, 32_768), openai(0.1, 0.025, 0.4)),
    gpt("gpt-4-1-mini", SONNET, NONE, (1_047_576, 32_768), openai(0.4, 0.1, 1.6)),
    gpt("gpt-4-1", OPUS, NONE, (1_047_576, 32_768), openai(2.0, 0.5, 8.0)),
    gpt("gpt-4o-mini", HAIKU, NONE, (128 * THOUSAND, 16_384), openai(0.15, 0.075, 0.6)),
    gpt("gpt-4o", SONNET, NONE, (128 * THOUSAND, 16_384), openai(2.5, 1.25, 10.0)),
    gpt("o4-mini", SONNET, UP_TO_HIGH, O_SERIES, openai(1.1, 0.275, 4.4)),
    gpt("o3-pro", None, UP_TO_HIGH, O_SERIES, openai(20.0, 20.0, 80.0)),
    without_images(gpt("o3-mini", None, UP_TO_HIGH, O_SERIES, openai(1.1, 0.55, 4.4))),
    gpt("o3", OPUS, UP_TO_HIGH, O_SERIES, openai(2.0, 0.5, 8.0)),
    gpt("o1-pro", None, UP_TO_HIGH, O_SERIES, openai(150.0, 150.0, 600.0)),
    gpt("o1", None, UP_TO_HIGH, O_SERIES, openai(15.0, 7.5, 60.0)),
];
