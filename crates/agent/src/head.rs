//! The head of requests: model, settings, tools and system prompt. It is constant within a run, and a fork has its parent's.

use session::model::{self, AgentRole};
use store::{Head, RunKind};
use wire::dialect::{Dialect, Draft, DraftMarker, Element, MarkerTarget, ToolSpec};
use wire::json::{Document, Edits};

use crate::error::RunError;
use crate::kernel::Kernel;
use crate::prompts;
use crate::provider;
use crate::settings::{RunLimits, RunSettings};

impl Kernel {
    /// Builds the head of a run's requests: everything that is the same in all of them.
    pub(crate) fn head(&self, kind: RunKind, model: &str, settings: &RunSettings) -> Result<Head, RunError> {
        let dialect = settings.dialect();
        let tools: Vec<Element<ToolSpec>> =
            self.tools.only(settings.tools.as_deref()).specs().into_iter().map(Element::Value).collect();
        let (who, seat) = match kind {
            RunKind::Main => (prompts::MAIN, AgentRole::Main),
            RunKind::Sub | RunKind::Fork => (prompts::SUB, AgentRole::Sub),
        };
        // Contexts of older versions do not name the folder.
        let workspace = prompts::workspace(&settings.workspace);
        let system_context = match settings.context.contains(&workspace) {
            true => prompts::system(),
            false => format!("{workspace}\n{}", prompts::system()),
        };
        let system: Vec<String> = [who.to_owned()]
            .into_iter()
            .chain(settings.instructions.clone())
            .chain([system_context])
            .collect();
        // The first part is the same for all sub-agents, so that they share its cache entry.
        let marked = match seat {
            AgentRole::Main => system.len() - 1,
            AgentRole::Sub => 0,
        };
        let mark = |on| DraftMarker { on, ttl: None };
        let mut draft = Draft {
            model: model.to_owned(),
            stream: true,
            marks: tools
                .len()
                .checked_sub(1)
                .map(MarkerTarget::Tool)
                .into_iter()
                .chain([MarkerTarget::System(marked)])
                .map(mark)
                .collect(),
            tools,
            system: system.iter().map(|text| Element::Value(prompts::text_block(text))).collect(),
            ..Draft::default()
        };
        provider::apply_model_settings(&mut draft, dialect, seat, self.thinking_summaries);
        if settings.max_tokens < RunLimits::of(model).max_tokens {
            let usual = draft.max_tokens.unwrap_or(u64::MAX);
            draft.max_tokens = Some(settings.max_tokens.min(usual));
        }
        match dialect {
            Dialect::AnthropicMessages => {}
            Dialect::OpenAiChat => draft.marks.clear(),
            Dialect::OpenAiResponses => {
                draft.marks.clear();
                draft.extra.push(("store".to_owned(), "false".to_owned()));
                // The conversation is kept here, so its reasoning must come back with it.
                if model::is_reasoning_model(model) {
                    draft.extra.push(("include".to_owned(), r#"["reasoning.encrypted_content"]"#.to_owned()));
                }
            }
        }
        Ok(Head::new(dialect.encode_head(&draft).map_err(RunError::Encode)?))
    }
}

/// The smallest thinking budget that Anthropic accepts.
const LEAST_THINKING: u64 = 1024;

/// Returns the head with another output limit. A limit that changes the thinking budget loses the prompt cache.
pub(crate) fn with_output_limit(
    dialect: Dialect,
    head: &[u8],
    limit: u64,
    allow_cache_loss: bool,
) -> Result<Vec<u8>, String> {
    // The head ends before the messages.
    let whole = [head, b"]}"].concat();
    let document = Document::parse(&whole).map_err(|error| error.to_string())?;
    let root = document.root();
    let names = match dialect {
        Dialect::AnthropicMessages => ["max_tokens", "max_tokens"],
        Dialect::OpenAiChat => ["max_completion_tokens", "max_tokens"],
        Dialect::OpenAiResponses => ["max_output_tokens", "max_output_tokens"],
    };
    let mut edits = Edits::default();
    if let Some(budget) = root.get("thinking").and_then(|thinking| thinking.get("budget_tokens")) {
        let thinks = budget.raw().parse::<u64>().unwrap_or(u64::MAX);
        if thinks >= limit && !allow_cache_loss {
            return Err(format!(
                "an output limit of {limit} tokens is below the thinking budget of {thinks} tokens: it would change that \
                 budget and lose the prompt cache; set a limit above {thinks}, or accept the loss"
            ));
        }
        let half = limit / 2;
        if thinks >= limit {
            edits.add(match root.get("thinking").filter(|_| half < LEAST_THINKING) {
                Some(thinking) => thinking.replaced_by(r#"{"type":"disabled"}"#.to_owned()),
                None => budget.replaced_by(half.to_string()),
            });
        }
    }
    let known = names.iter().find_map(|name| root.get(name));
    if let Some(known) = known {
        edits.add(known.replaced_by(limit.to_string()));
    }
    let edited = edits.apply(&whole).map_err(|_| "two edits of one value".to_owned())?;
    let edited = &edited[..edited.len() - 2];
    Ok(match known {
        Some(_) => edited.to_vec(),
        None => [format!(r#"{{"{}":{limit},"#, names[0]).as_bytes(), &edited[1..]].concat(),
    })
}

/// Returns the head without thinking and effort, and the names of what was removed. Returns `None` if it has neither.
pub(crate) fn without_model_settings(dialect: Dialect, head: &[u8]) -> Option<(Vec<u8>, Vec<&'static str>)> {
    let members: &[(&str, &str)] = match dialect {
        Dialect::AnthropicMessages => &[("thinking", "thinking"), ("output_config", "effort")],
        Dialect::OpenAiChat => &[("reasoning_effort", "effort")],
        Dialect::OpenAiResponses => &[("reasoning", "effort")],
    };
    let (mut head, mut removed) = (head.to_vec(), Vec::new());
    for (member, name) in members {
        // The head ends before the messages.
        let whole = [head.as_slice(), b"]}"].concat();
        let document = Document::parse(&whole).ok()?;
        let mut edits = Edits::default();
        document.root().without_member(member).into_iter().for_each(|edit| edits.add(edit));
        if edits.is_empty() {
            continue;
        }
        let edited = edits.apply(&whole).ok()?;
        head = edited[..edited.len() - 2].to_vec();
        removed.push(*name);
    }
    (!removed.is_empty()).then_some((head, removed))
}

/// Returns the head of a fork's requests: its parent's, with the fork's output limit.
pub(crate) fn fork_head(settings: &RunSettings, stored: Vec<u8>) -> Result<Head, RunError> {
    let limit = settings.fork.as_ref().and_then(|fork| fork.max_output_tokens);
    Ok(Head::new(match limit {
        None => stored,
        Some(limit) => {
            with_output_limit(settings.dialect(), &stored, limit, true).map_err(RunError::CacheLost)?
        }
    }))
}
