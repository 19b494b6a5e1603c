//! A request, distilled to what tells its lane.
//!
//! What the model said is the spine of a conversation: each reply as the ids of its calls, or its
//! text where it called nothing. Harnesses move cache markers, fold arrays into strings, drop
//! thinking and rewrite what they said themselves, but they carry these ids back. What stands
//! between two replies is a [`Gap`].

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use session::{Block, CallId, Reply, Role, ToolResult};
use wire::dialect::{Prompt, ToolExecution};

/// Longest piece of a text that is kept to be looked at again.
const KEPT: usize = 4096;

/// How many words of the instructions are kept to be compared.
const VOICE: usize = 64;

/// One thing the model said: a call, or a text.
pub(super) type Atom = u64;

/// A request, distilled.
#[derive(Clone, Debug, Default)]
pub(super) struct Asking {
    /// Digest of what the model had said after each atom; the first is that of nothing.
    pub(super) said: Vec<u64>,
    /// What stood before, between and behind the replies.
    pub(super) gaps: Vec<Gap>,
    /// All of the above in one.
    pub(super) history: u64,
    /// The last atom.
    pub(super) last: Option<Atom>,
    /// What the system prompt looks like, with numbers and ids blanked.
    pub(super) system: u64,
    /// A few words of it, always the same ones of the same text.
    pub(super) voice: Vec<u64>,
    /// The names of the tools.
    pub(super) tools: u64,
    /// Whether the harness offers tools of its own.
    pub(super) has_tools: bool,
    /// Room for one word only: it warms up or probes.
    pub(super) is_probe: bool,
    /// The texts before the first reply.
    pub(super) opening: Vec<String>,
    /// The text of the first reply where it called nothing, shortened.
    pub(super) first_words: String,
    /// The instructions, for a request in which the model has said nothing yet.
    pub(super) instructions: Vec<String>,
    /// The texts behind the last reply.
    pub(super) newest: Vec<Said>,
    /// The results behind the last reply, shortened.
    pub(super) results: Vec<Carried>,
}

/// What stands between two replies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Gap {
    /// How many atoms stand before it. A harness may spread one reply over several messages, so
    /// gaps are compared by this and not by their number.
    pub(super) at: usize,
    pub(super) texts: Vec<u64>,
    pub(super) results: Vec<u64>,
}

/// A text that the harness put behind a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// In whose name.
    pub role: Role,
    /// Its beginning.
    pub text: String,
}

/// A result as a request carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carried {
    /// The call that it answers.
    pub call: CallId,
    /// Its beginning.
    pub text: String,
    /// It says that the tool failed.
    pub is_error: bool,
}

impl Asking {
    /// Distils a request; `items` are the replies' atoms by the ids of their output items.
    pub(super) fn of(prompt: &Prompt, items: &HashMap<String, Vec<Atom>>, voices: &mut Voices) -> Self {
        let mut reader = Reader {
            items,
            asking: Self::default(),
            group: Vec::new(),
            texts: Vec::new(),
            newest: Vec::new(),
            results: Vec::new(),
        };
        reader.asking.said.push(digest(&()));
        reader.asking.gaps.push(Gap::default());
        for message in prompt.conversation() {
            for part in &message.parts {
                reader.block(message.role, &part.block);
            }
        }
        reader.close();
        let Reader { mut asking, newest, results, .. } = reader;
        asking.newest =
            newest.iter().map(|(role, text)| Said { role: *role, text: (*text).into() }).collect();
        asking.results = results.into_iter().map(carried).collect();
        asking.history = digest(&(asking.said.last(), asking.gaps.iter().map(key).collect::<Vec<_>>()));
        let instructions = || prompt.instructions().filter_map(|part| text_of(&part.block));
        let texts: Vec<&str> = instructions().collect();
        (asking.system, asking.voice) = voices.of(&texts);
        if asking.is_first() {
            asking.instructions = instructions().map(str::to_owned).collect();
        }
        asking.tools = digest(&prompt.tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>());
        asking.has_tools = prompt.tools.iter().any(|tool| tool.execution != ToolExecution::Provider);
        asking.is_probe = prompt.max_tokens == Some(1);
        asking
    }

    /// Digest of everything the model had said.
    pub(super) fn spine(&self) -> u64 {
        self.said.last().copied().unwrap_or_default()
    }

    /// Whether the model had said nothing yet.
    pub(super) fn is_first(&self) -> bool {
        self.said.len() == 1
    }
}

fn key(gap: &Gap) -> (&[u64], &[u64]) {
    (&gap.texts, &gap.results)
}

/// What instructions sound like, by the digest of their texts: most requests bring those of the one before, and
/// going through their words takes longer than all the rest.
#[derive(Debug, Default)]
pub(super) struct Voices {
    known: HashMap<u64, (u64, Vec<u64>)>,
}

impl Voices {
    /// What the instructions look like, and a few words of them.
    fn of(&mut self, instructions: &[&str]) -> (u64, Vec<u64>) {
        let hear = || {
            let blanked: Vec<Vec<&str>> = instructions.iter().copied().map(blanked).collect();
            let mut words: Vec<u64> = blanked.iter().flatten().copied().map(digest).collect();
            words.sort_unstable();
            words.dedup();
            words.truncate(VOICE);
            (digest(&blanked), words)
        };
        self.known.entry(digest(instructions)).or_insert_with(hear).clone()
    }
}

/// What is kept of the blocks refers to the request: nearly all of a history is looked at and let go.
struct Reader<'i> {
    items: &'i HashMap<String, Vec<Atom>>,
    asking: Asking,
    /// The reply being read: calls (and what references stand for).
    group: Vec<Atom>,
    /// Its texts, which count where it called nothing.
    texts: Vec<&'i str>,
    /// The texts behind it.
    newest: Vec<(Role, &'i str)>,
    /// The results behind it.
    results: Vec<&'i ToolResult>,
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
                if self.asking.is_first() {
                    self.asking.opening.push(text.to_owned());
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

    /// A client may carry one call twice after a cut; it is still one.
    fn atom(&mut self, atom: Atom) {
        if !self.group.contains(&atom) {
            self.group.push(atom);
        }
    }

    /// The reply that was being read is whole.
    fn close(&mut self) {
        if self.group.is_empty() {
            self.group.extend(atom_of_text(&self.texts));
            if self.asking.is_first() {
                self.asking.first_words = shortened(self.texts.join("\n").trim()).to_owned();
            }
        }
        self.texts.clear();
        if self.group.is_empty() {
            return;
        }
        for atom in self.group.drain(..) {
            self.asking.said.push(extended(self.asking.spine(), atom));
            self.asking.last = Some(atom);
        }
        let at = self.asking.said.len() - 1;
        self.asking.gaps.push(Gap { at, ..Gap::default() });
        self.newest.clear();
        self.results.clear();
    }

    fn gap(&mut self) -> &mut Gap {
        self.asking.gaps.last_mut().expect("the first gap is there from the start")
    }
}

/// What a reply adds to the spine.
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

/// The spine with one more atom.
pub(super) fn extended(spine: u64, atom: Atom) -> u64 {
    digest(&(spine, atom))
}

pub(super) fn atom_of_call(id: &CallId) -> Atom {
    digest(&("call", id.as_str()))
}

/// Harnesses trim what they carry back, so only the words count.
fn atom_of_text(texts: &[&str]) -> Option<Atom> {
    let mut words = texts.iter().flat_map(|text| text.split_whitespace()).peekable();
    words.peek()?;
    let mut hasher = DefaultHasher::new();
    words.for_each(|word| word.hash(&mut hasher));
    Some(hasher.finish())
}

/// The text of a block that has some.
pub(super) fn text_of(block: &Block) -> Option<&str> {
    match block {
        Block::Text { text } | Block::Refusal { text } => Some(text),
        _ => None,
    }
}

/// The texts in a result, one a line.
pub(super) fn joined(blocks: &[Block]) -> Cow<'_, str> {
    match blocks {
        [block] => Cow::Borrowed(text_of(block).unwrap_or_default()),
        blocks => Cow::Owned(blocks.iter().filter_map(text_of).collect::<Vec<_>>().join("\n")),
    }
}

fn carried(result: &ToolResult) -> Carried {
    let text = shortened(&joined(&result.blocks)).to_owned();
    Carried { call: result.call.clone(), text, is_error: result.is_error }
}

/// As much of a text as is kept.
pub(super) fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(KEPT)]
}

pub(super) fn digest<T: std::hash::Hash + ?Sized>(value: &T) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// The words without a digit in them: dates, counts, paths and ids change, a prompt does not.
fn blanked(text: &str) -> Vec<&str> {
    text.split_whitespace().filter(|word| !word.bytes().any(|byte| byte.is_ascii_digit())).collect()
}
