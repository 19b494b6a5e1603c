//! The report: one page that stands by itself, with no network, no fonts and nothing that is not in the one file.
//!
//! What is known of all exchanges is one block of JSON, the index; what crossed the wire waits in a block for each
//! exchange that nobody reads before it is looked at. Scripts of ours make the page of both. Whatever a recording holds
//! is text in these blocks and nowhere else, and a policy in the head lets nothing run but what we wrote, by its digest.

mod block;
mod cached;
mod index;
mod ran;
mod repeated;
mod shell;
mod verdict;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, Write};

use parity::Verdict;
use recording::lanes::LaneJob;
use recording::source::{OrderedExchanges, SourceRequest, SourceResponse};
use serde_json::{Value, json};
use session::CallId;
use wire::dialect::Dialect;

use crate::CacheReport;
use crate::place::{ExchangePosition, exchange_positions};
use repeated::Chains;
use shell::{FOOT, head, inert};

pub use ran::{RunsAsRecording, runs_as_recording};

/// What a page is made of.
#[derive(Debug)]
pub struct PageContent<'p> {
    /// What is shown.
    pub kind: PageKind,
    /// What it is a page of.
    pub title: &'p str,
    /// How it stands, in a word.
    pub badge: (BadgeTone, &'p str),
    /// What else is known, each with its name.
    pub facts: Vec<(String, String)>,
    /// When time begins, as on a clock.
    pub began: Option<String>,
    /// The lanes, and each exchange in short.
    pub ordered: &'p OrderedExchanges,
    /// Every agent that was started.
    pub jobs: &'p [LaneJob],
    /// What was measured.
    pub measured: &'p Measurements,
    /// What the provider's cache made of it.
    pub cache: Option<&'p CacheReport<'p>>,
    /// The result of `verify`.
    pub verdict: Option<&'p Verdict>,
    /// What it is compared with.
    pub golden: Option<&'p GoldenMatch>,
}

/// What a page shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    /// A recording.
    Recording,
    /// A run of our own.
    Run,
    /// A verdict.
    Verdict,
}

/// What a word on a page means to people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadgeTone {
    /// All is well.
    Good,
    /// Something is odd.
    Warn,
    /// Something is wrong.
    Bad,
}

/// The golden that a recording is compared with.
#[derive(Debug)]
pub struct GoldenMatch {
    /// What it is a recording of.
    pub title: String,
    /// The golden's exchange for each that has one, both by their numbers.
    pub of: BTreeMap<usize, usize>,
}

/// What was measured of exchanges, lanes and tools; times are in microseconds since time began.
#[derive(Debug, Default)]
pub struct Measurements {
    /// When the answers began, by the number of the exchange.
    pub first_bytes: HashMap<usize, u64>,
    /// How long both halves are, by the number of the exchange.
    pub sizes: HashMap<usize, BodySizes>,
    /// Where each lane stands.
    pub states: HashMap<String, &'static str>,
    /// When tools ran, by lane and call.
    pub tools: HashMap<(String, CallId), ToolSpan>,
}

/// How many bytes went over the wire.
#[derive(Clone, Copy, Debug)]
pub struct BodySizes {
    /// In the request's body.
    pub sent: u64,
    /// In the response's.
    pub received: u64,
}

/// When a tool ran, in microseconds since time began.
#[derive(Clone, Copy, Debug)]
pub struct ToolSpan {
    /// From.
    pub from: u64,
    /// To, where it ended.
    pub to: Option<u64>,
    /// It failed.
    pub failed: bool,
}

/// An exchange and the dialect it speaks.
#[derive(Clone, Copy, Debug)]
pub struct PageExchange<'x> {
    /// The dialect, where it asks a model.
    pub dialect: Option<Dialect>,
    /// The request.
    pub asked: &'x SourceRequest,
    /// The response, as far as it came.
    pub answered: Option<&'x SourceResponse>,
}

/// Writes a page; the exchanges come one by one, so that only one is in memory.
pub struct Page<'p, W: Write> {
    out: W,
    numbers: HashMap<&'p str, usize>,
    places: HashMap<&'p str, ExchangePosition<'p>>,
    /// Requests that a turn ended with.
    last: HashSet<&'p str>,
    /// Which lane a call started.
    started: HashMap<(&'p str, &'p str), Vec<usize>>,
    chains: Chains,
    /// Instructions and tools that many turns share, by their digest.
    shared: HashMap<String, String>,
}

impl<'p, W: Write> Page<'p, W> {
    /// Begins the page: everything but the bodies.
    pub fn begin(mut out: W, page: &PageContent<'p>) -> io::Result<Self> {
        out.write_all(head(page.title, &inert(&index::index(page))).as_bytes())?;
        let ordered = page.ordered;
        let mut started: HashMap<_, Vec<usize>> = HashMap::new();
        for (number, lane) in index::tree(&ordered.lanes.lanes).into_iter().enumerate() {
            if let (Some(parent), Some(call)) = (&lane.lane.parent, &lane.lane.spawned_by) {
                started.entry((parent.as_str(), call.as_str())).or_default().push(number);
            }
        }
        let turns = ordered.lanes.lanes.iter().flat_map(|lane| &lane.turns);
        Ok(Self {
            out,
            numbers: ordered.exchanges.iter().enumerate().map(|(n, it)| (it.id.as_str(), n)).collect(),
            places: exchange_positions(ordered),
            last: turns.filter_map(|turn| turn.attempts.last()).map(|id| id.as_str()).collect(),
            started,
            chains: Chains::default(),
            shared: HashMap::new(),
        })
    }

    /// Adds an exchange; `golden` is its counterpart's number and request.
    pub fn exchange(
        &mut self,
        crossed: PageExchange<'_>,
        golden: Option<(usize, &SourceRequest)>,
    ) -> io::Result<()> {
        let Some((&id, &number)) = self.numbers.get_key_value(crossed.asked.id.as_str()) else {
            return Ok(());
        };
        let place = self.places.get(id).copied();
        let mut turn = Value::Null;
        if let (true, Some(place)) = (self.last.contains(id), place) {
            let decoded = block::decode(crossed);
            turn = block::turn(crossed, decoded.as_ref(), |call| {
                self.started.get(&(place.lane, call)).cloned().unwrap_or_default()
            });
            let body = crossed.asked.body.bytes.as_deref().unwrap_or_default();
            if let Some(prompt) = &decoded {
                turn["system"] = self.shared("s", block::system(prompt))?;
                turn["tools"] = self.shared("t", block::tools(prompt, body))?;
            }
        }
        let name = format!("x{number}");
        let chain = place.map(|place| format!("x {}", place.lane));
        let golden = golden.map(|(number, asked)| (format!("g{number}"), asked));
        let mut block = block::halves(crossed, |content| match &golden {
            Some((golden, asked)) => self.chains.beside(golden, asked, content),
            None => self.chains.next(chain.as_deref(), &name, content),
        });
        block["turn"] = turn;
        self.block(&name, &block)
    }

    /// Adds an exchange of the golden.
    pub fn golden(&mut self, number: usize, lane: Option<&str>, crossed: PageExchange<'_>) -> io::Result<()> {
        let name = format!("g{number}");
        let chain = lane.map(|lane| format!("g {lane}"));
        let block = block::halves(crossed, |content| self.chains.next(chain.as_deref(), &name, content));
        self.block(&name, &block)
    }

    /// Ends the page.
    pub fn end(mut self) -> io::Result<W> {
        self.out.write_all(FOOT.as_bytes())?;
        Ok(self.out)
    }

    /// The name of a block that many turns may share; it is written when it is first needed.
    fn shared(&mut self, letter: &str, value: Value) -> io::Result<Value> {
        let text = value.to_string();
        let digest = format!("{letter}{}", recording::sha256(text.as_bytes()));
        if let Some(name) = self.shared.get(&digest) {
            return Ok(json!(name));
        }
        let name = format!("{letter}{}", self.shared.keys().filter(|key| key.starts_with(letter)).count());
        self.block(&name, &value)?;
        self.shared.insert(digest, name.clone());
        Ok(json!(name))
    }

    fn block(&mut self, name: &str, value: &Value) -> io::Result<()> {
        let block = inert(value);
        writeln!(self.out, "<script type=\"application/json\" id=\"{name}\">{block}</script>")
    }
}

#[cfg(test)]
mod tests;
