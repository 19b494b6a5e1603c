//! Table of cache rules. `docs/reference/cache.md` describes it, and what is not documented by the providers.

use session::model::Vendor;

use super::{
    CacheRules, DeferredPlacement, LookupPolicy, ROUTE, StoragePolicy, ThinkingPolicy, UnmarkedPolicy,
};
use crate::section::Section;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;

/// Keys of Anthropic's cache. Other settings do not matter; tools, texts and pictures are blocks.
const ANTHROPIC_KEYS: &[(&str, Section)] = &[
    ("/model", Section::Tools),
    ("/speed", Section::System),
    ("/tool_choice", Section::Messages),
    ("/thinking", Section::Messages),
    ("/output_config/effort", Section::Messages),
];

/// Keys of OpenAI's cache. A schema for the answer comes before the instructions.
const OPENAI_KEYS: &[(&str, Section)] = &[
    ("/model", Section::Tools),
    (ROUTE, Section::Tools),
    ("/response_format", Section::System),
    ("/text/format", Section::System),
];

const ANTHROPIC: StoragePolicy = StoragePolicy::Marked {
    slots: 4,
    // Documentation since late 2026 counts a run as one position; before, every block was one.
    reads: LookupPolicy::LookBack { positions: 20, runs_are_one: true },
    unmarked: UnmarkedPolicy::Nothing,
    terms: (5 * MINUTE, HOUR),
};

pub(super) const RULES: &[CacheRules] = &[
    CacheRules {
        name: "Anthropic, thinking dropped",
        vendor: Vendor::Anthropic,
        families: &[
            "haiku-5-5",
            "haiku-4-5",
            "3-5-haiku",
            "3-haiku",
            "haiku",
            "opus-4-1",
            "opus-4",
            "3-opus",
            "sonnet-4-5",
            "sonnet-4",
            "3-7-sonnet",
            "3-5-sonnet",
        ],
        documented: "2026-08",
        storage: ANTHROPIC,
        keys: ANTHROPIC_KEYS,
        deferred: DeferredPlacement::Outside,
        thinking: ThinkingPolicy::Dropped,
    },
    CacheRules {
        name: "Anthropic",
        vendor: Vendor::Anthropic,
        families: &[],
        documented: "2026-08",
        storage: ANTHROPIC,
        keys: ANTHROPIC_KEYS,
        deferred: DeferredPlacement::Outside,
        thinking: ThinkingPolicy::Kept,
    },
    CacheRules {
        name: "OpenAI, by markers",
        vendor: Vendor::OpenAi,
        families: &["gpt-5-6-sol", "gpt-5-6-terra", "gpt-5-6-luna", "gpt-5-6"],
        documented: "2026-08",
        storage: StoragePolicy::Marked {
            slots: 4,
            reads: LookupPolicy::Markers { latest: 80 },
            unmarked: UnmarkedPolicy::Implicit,
            terms: (30 * MINUTE, 30 * MINUTE),
        },
        keys: OPENAI_KEYS,
        deferred: DeferredPlacement::Outside,
        thinking: ThinkingPolicy::Kept,
    },
    CacheRules {
        name: "OpenAI, automatic",
        vendor: Vendor::OpenAi,
        families: &[],
        documented: "2026-08",
        // The documentation says five to ten minutes, and up to an hour at times of low load.
        storage: StoragePolicy::Steps { step: 128, terms: (10 * MINUTE, 24 * HOUR) },
        keys: OPENAI_KEYS,
        deferred: DeferredPlacement::Inside,
        thinking: ThinkingPolicy::Kept,
    },
];
