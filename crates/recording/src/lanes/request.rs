//! Requests reduced to what identifies their lane.
//!
//! The replies of the model identify a conversation. A reply is represented by the ids of its calls, or
//! by its text if it makes no calls. Harnesses move cache markers, turn arrays into strings, drop thinking and
//! rewrite their own texts, but they send these ids back. The content between two replies is a [`Gap`].

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use session::{Block, CallId, Reply, Role, ToolResult};
use wire::dialect::{Prompt, ToolExecution};

/// Maximum length of a stored text.
const KEPT: usize = 4096;

/// Number of equal words in a row that count as a quotation.
pub(super) const QUOTED: usize = 8;

/// Number of instruction words that are stored for comparison.
const SAMPLED_WORDS: usize = 64;

/// Maximum length of a user's text in a summary.
const SHORT: usize = 512;

/// Digest of one thing that the model said: a call, or a text.
pub(super) type Atom = u64;

/// Request, reduced.
#[derive(Clone, Debug, Default)]
pub(super) struct LaneRequest {
    /// Digest of the replies after each atom. The first one is that of no replies.
    pub(super) replies_digests: Vec<u64>,
    /// Contents before, between and after the replies.
    pub(super) gaps: Vec<Gap>,
    /// Digest of replies and gaps.
    pub(super) history: u64,
    /// Last atom of the replies.
    pub(super) last_atom: Option<Atom>,
    /// True if the replies are a few words without calls, which any conversation may contain.
    pub(super) has_few_words: bool,
    /// Digest of the system prompt without words that contain digits.
    pub(super) system: u64,
    /// Sample of the system prompt's words, the same for equal texts.
    pub(super) instruction_sample: Vec<u64>,
    /// Digest of the tool names.
    pub(super) tools: u64,
    /// Digest of the dialect.
    pub(super) dialect: u64,
    /// Digest of the model.
    pub(super) model: u64,
    /// True if the harness offers tools of its own.
    pub(super) has_tools: bool,
    /// True if the reply may have one token only: a warm-up or probe.
    pub(super) is_probe: bool,
    /// Texts before the first reply.
    pub(super) opening_texts: Vec<String>,
    /// First of them from the user.
    pub(super) first_user_text: Option<String>,
    /// Shortened text of the first reply, if it made no calls.
    pub(super) first_reply_text: String,
    /// Instructions of a request without replies.
    pub(super) instructions: Vec<String>,
    /// Texts after the last reply.
    pub(super) new_texts: Vec<InjectedText>,
    /// Shortened results after the last reply.
    pub(super) results: Vec<CarriedResult>,
}

/// Content between two replies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Gap {
    /// Number of atoms before the gap. A harness may spread one reply over several messages, so gaps are
    /// matched by this number and not by their index.
    pub(super) at: usize,
    pub(super) texts: Vec<u64>,
    pub(super) results: Vec<u64>,
}

/// Text that the harness added after a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InjectedText {
    /// Role of the message.
    pub role: Role,
    /// Beginning of the text.
    pub text: String,
}

/// Result of a call, as carried by a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CarriedResult {
    /// Call.
    pub call: CallId,
    /// Beginning of the result.
    pub text: String,
    /// True if the tool failed.
    pub is_error: bool,
}

impl LaneRequest {
    /// Reduces a request. `items` maps the ids of output items to the atoms of their replies.
    pub(super) fn of(
        prompt: &Prompt,
        items: &HashMap<String, Vec<Atom>>,
        digests: &mut InstructionDigests,
    ) -> Self {
        let mut reader = Reader {
            items,
            request: Self::default(),
            group: Vec::new(),
            texts: Vec::new(),
            newest: Vec::new(),
            results: Vec::new(),
            reply_words: 0,
        };
        reader.request.replies_digests.push(digest(&()));
        reader.request.gaps.push(Gap::default());
        for message in prompt.conversation() {
            for part in &message.parts {
                reader.block(message.role, &part.block);
            }
        }
        reader.close();
        let Reader { mut request, newest, results, reply_words, .. } = reader;
        request.has_few_words = reply_words < QUOTED;
        request.new_texts =
            newest.iter().map(|(role, text)| InjectedText { role: *role, text: (*text).into() }).collect();
        request.results = results.into_iter().map(carried).collect();
        request.history =
            digest(&(request.replies_digests.last(), request.gaps.iter().map(key).collect::<Vec<_>>()));
        let instructions = || prompt.instructions().filter_map(|part| text_of(&part.block));
        let texts: Vec<&str> = instructions().collect();
        (request.system, request.instruction_sample) = digests.of(&texts);
        if request.is_first() {
            request.instructions = instructions().map(str::to_owned).collect();
        }
        request.tools = digest(&prompt.tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>());
        request.model = digest(&prompt.model);
        request.dialect = digest(&format!("{:?}", prompt.dialect));
        request.has_tools = prompt.tools.iter().any(|tool| tool.execution != ToolExecution::Provider);
        request.is_probe = prompt.max_tokens == Some(1);
        request
    }

    /// Returns the digest of all replies.
    pub(super) fn replies_digest(&self) -> u64 {
        self.replies_digests.last().copied().unwrap_or_default()
    }

    /// Returns the digest of everything that a new conversation shares with an earlier one.
    pub(super) fn setup(&self) -> u64 {
        digest(&(self.dialect, self.model, self.system, self.tools))
    }

    /// Returns whether the request has no replies yet.
    pub(super) fn is_first(&self) -> bool {
        self.replies_digests.len() == 1
    }
}

fn key(gap: &Gap) -> (&[u64], &[u64]) {
    (&gap.texts, &gap.results)
}

/// Caches digests of instructions by their texts. Most requests repeat the previous instructions, and splitting
/// them into words takes longer than everything else.
#[derive(Debug, Default)]
pub(super) struct InstructionDigests {
    known: HashMap<u64, (u64, Vec<u64>)>,
}

impl InstructionDigests {
    /// Returns the digest of instructions, and a sample of their words.
    fn of(&mut self, instructions: &[&str]) -> (u64, Vec<u64>) {
        let compute = || {
            let blanked: Vec<Vec<&str>> = instructions.iter().copied().map(blanked).collect();
            let mut words: Vec<u64> = blanked.iter().flatten().copied().map(digest).collect();
            words.sort_unstable();
            words.dedup();
            words.truncate(SAMPLED_WORDS);
            (digest(&blanked), words)
        };
        self.known.entry(digest(instructions)).or_insert_with(compute).clone()
    }
}

/// Reads the messages of a request. It borrows their texts, because nearly all of a history is looked at and
/// dropped.
struct Reader<'i> {
    items: &'i HashMap<String, Vec<Atom>>,
    request: LaneRequest,
    /// Atoms of the reply being read: calls, and replies that it references.
    group: Vec<Atom>,
    /// Texts of the reply being read, which count if it makes no calls.
    texts: Vec<&'i str>,
    /// Texts after it.
    newest: Vec<(Role, &'i str)>,
    /// Results after it.
    results: Vec<&'i ToolResult>,
    /// Number of words of all replies. A call counts as many.
    reply_words: usize,
}

impl<'i> Reader<'i> {
    fn block(&mut self, role: Role, block: &'i Block) {
        if role == Role::Assistant {
            return self.reply(block);
        }
        match block {
            Block::ToolResult(result) if !result.server => {
                self.close();
                let text = joined(&result.blocks);
                self.gap().results.push(digest(&(result.call.as_str(), &text)));
                self.results.push(result);
            }
            Block::ToolResult(_) => {}
            other => {
                self.close();
                let text = text_of(other).unwrap_or("");
                let digest =
                    if text.is_empty() { digest(&format!("{other:?}")) } else { digest(&text.trim()) };
                self.gap().texts.push(digest);
                if self.request.is_first() {
                    self.request.opening_texts.push(text.to_owned());
                    if role == Role::User {
                        self.request.first_user_text.get_or_insert_with(|| text.to_owned());
                    }
                }
                self.newest.push((role, text));
            }
        }
    }

    fn reply(&mut self, block: &'i Block) {
        match block {
            Block::ToolCall(call) if !call.server => self.atom(atom_of_call(&call.id)),
            Block::ItemReference { id } => match self.items.get(id) {
                Some(atoms) => atoms.iter().for_each(|atom| self.atom(*atom)),
                None => self.atom(digest(&("item", id))),
            },
            other => self.texts.extend(text_of(other)),
        }
    }

    /// Adds an atom. A client may repeat a call after a cut, which still counts once.
    fn atom(&mut self, atom: Atom) {
        self.reply_words += QUOTED;
        if !self.group.contains(&atom) {
            self.group.push(atom);
        }
    }

    /// Completes the reply that was being read.
    fn close(&mut self) {
        if self.group.is_empty() {
            self.group.extend(atom_of_text(&self.texts));
            self.reply_words += self.texts.iter().map(|text| text.split_whitespace().count()).sum::<usize>();
            if self.request.is_first() {
                self.request.first_reply_text = shortened(self.texts.join("\n").trim()).to_owned();
            }
        }
        self.texts.clear();
        if self.group.is_empty() {
            return;
        }
        for atom in self.group.drain(..) {
            self.request.replies_digests.push(extended(self.request.replies_digest(), atom));
            self.request.last_atom = Some(atom);
        }
        let at = self.request.replies_digests.len() - 1;
        self.request.gaps.push(Gap { at, ..Gap::default() });
        self.newest.clear();
        self.results.clear();
    }

    fn gap(&mut self) -> &mut Gap {
        self.request.gaps.last_mut().expect("the first gap is there from the start")
    }
}

/// Returns the atoms that a reply adds to the digest.
pub(super) fn atoms(reply: &Reply) -> Vec<Atom> {
    let mut atoms: Vec<Atom> = Vec::new();
    for call in reply.calls() {
        let atom = atom_of_call(&call.id);
        if !atoms.contains(&atom) {
            atoms.push(atom);
        }
    }
    if atoms.is_empty() {
        let texts: Vec<&str> = reply.blocks.iter().filter_map(text_of).collect();
        atoms.extend(atom_of_text(&texts));
    }
    atoms
}

/// Returns the digest of replies with one more atom.
pub(super) fn extended(replies_digest: u64, atom: Atom) -> u64 {
    digest(&(replies_digest, atom))
}

pub(super) fn atom_of_call(id: &CallId) -> Atom {
    digest(&("call", id.as_str()))
}

/// Returns the atom of a text by its words only, because harnesses trim texts.
fn atom_of_text(texts: &[&str]) -> Option<Atom> {
    let mut words = texts.iter().flat_map(|text| text.split_whitespace()).peekable();
    words.peek()?;
    let mut hasher = DefaultHasher::new();
    words.for_each(|word| word.hash(&mut hasher));
    Some(hasher.finish())
}

/// Returns the text of a block, if it has one.
pub(super) fn text_of(block: &Block) -> Option<&str> {
    match block {
        Block::Text { text } | Block::Refusal { text } => Some(text),
        _ => None,
    }
}

/// Joins the texts of a result, one per line.
pub(super) fn joined(blocks: &[Block]) -> Cow<'_, str> {
    match blocks {
        [block] => Cow::Borrowed(text_of(block).unwrap_or_default()),
        blocks => Cow::Owned(blocks.iter().filter_map(text_of).collect::<Vec<_>>().join("\n")),
    }
}

fn carried(result: &ToolResult) -> CarriedResult {
    let text = shortened(&joined(&result.blocks)).to_owned();
    CarriedResult { call: result.call.clone(), text, is_error: result.is_error }
}

/// Returns the texts of user messages in short. Texts that harnesses add in a tag of their own are left out, unless a
/// lane begins with nothing else.
pub(crate) fn said_by_user(texts: &[InjectedText], is_first: bool) -> Vec<String> {
    let by_user = || texts.iter().filter(|said| said.role == Role::User && !said.text.trim().is_empty());
    let short = |said: &InjectedText| {
        let text = said.text.trim();
        text[..text.floor_char_boundary(SHORT)].to_owned()
    };
    let own: Vec<String> = by_user().filter(|said| !is_notice(&said.text)).map(short).collect();
    match own.is_empty() && is_first {
        true => by_user().map(short).collect(),
        false => own,
    }
}

/// Returns whether a text starts with a tag that harnesses put around their own notices.
fn is_notice(text: &str) -> bool {
    let name = text.trim_start().strip_prefix('<').and_then(|rest| rest.split(['>', ' ', '\n']).next());
    let is_of = |word: &&str| name.is_some_and(|name| name.contains(*word));
    ["reminder", "notification", "environment", "context", "instructions"].iter().any(is_of)
}

/// Returns the part of a text that is stored.
pub(super) fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(KEPT)]
}

pub(super) fn digest<T: std::hash::Hash + ?Sized>(value: &T) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Splits a text into words and drops those with digits: dates, counts, paths and ids change, a prompt does
/// not.
fn blanked(text: &str) -> Vec<&str> {
    text.split_whitespace().filter(|word| !word.bytes().any(|byte| byte.is_ascii_digit())).collect()
}
