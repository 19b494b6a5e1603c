//! The report page: one self-contained file without network access or foreign fonts.
//!
//! The index of all exchanges is one block of JSON. The content of each exchange is a further block, parsed
//! only when it is viewed. Our scripts build the page from these blocks. Content of a recording occurs only
//! as text in blocks, and a content security policy allows only our scripts, by digest.

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

use crate::CacheView;
use crate::place::{ExchangePosition, exchange_positions};
use repeated::Chains;
use shell::{FOOT, head, inert};

pub use ran::{RunsAsRecording, runs_as_recording};

/// The content of a page.
#[derive(Debug)]
pub struct PageContent<'p> {
    /// The kind of page.
    pub kind: PageKind,
    /// The title.
    pub title: &'p str,
    /// The status as one word.
    pub badge: (BadgeTone, &'p str),
    /// Further facts with their names.
    pub facts: Vec<(String, String)>,
    /// Start time for the clock.
    pub began: Option<String>,
    /// The lanes, and a summary of each exchange.
    pub ordered: &'p OrderedExchanges,
    /// All jobs.
    pub jobs: &'p [LaneJob],
    /// Measured times and sizes.
    pub measured: &'p Measurements,
    /// The explained prompt cache.
    pub cache: Option<&'p CacheView<'p>>,
    /// The result of `verify`.
    pub verdict: Option<&'p Verdict>,
    /// The golden that it is compared with.
    pub golden: Option<&'p GoldenMatch>,
}

/// The subject of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    /// A recording.
    Recording,
    /// A run of our own.
    Run,
    /// A verdict.
    Verdict,
}

/// The meaning of a status word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadgeTone {
    /// Good.
    Good,
    /// Unusual.
    Warn,
    /// Bad.
    Bad,
}

/// The golden that a recording is compared with.
#[derive(Debug)]
pub struct GoldenMatch {
    /// Title of the golden's recording.
    pub title: String,
    /// The golden's exchange for each matching one, both by number.
    pub of: BTreeMap<usize, usize>,
}

/// Measured data of exchanges, lanes and tools. Times are in microseconds since the start.
#[derive(Debug, Default)]
pub struct Measurements {
    /// Times of the first response byte, by exchange number.
    pub first_bytes: HashMap<usize, u64>,
    /// Lengths of both halves, by exchange number.
    pub sizes: HashMap<usize, BodySizes>,
    /// The state of each lane.
    pub states: HashMap<String, &'static str>,
    /// Times of tool calls, by lane and call.
    pub tools: HashMap<(String, CallId), ToolSpan>,
    /// Times at which lanes went on after a kill or a pause.
    pub resumptions: Vec<LaneResumption>,
}

/// A time at which a run went on, in microseconds since the start.
#[derive(Clone, Debug)]
pub struct LaneResumption {
    /// The lane.
    pub lane: String,
    /// Time of the last step before.
    pub stopped: u64,
    /// Time at which it went on.
    pub resumed: u64,
    /// Its process was killed. Otherwise it was paused.
    pub is_kill: bool,
}

/// PageNumbers of bytes on the wire.
#[derive(Clone, Copy, Debug)]
pub struct BodySizes {
    /// Length of the request's body.
    pub sent: u64,
    /// Length of the response's body.
    pub received: u64,
}

/// The time span of a tool call, in microseconds since the start.
#[derive(Clone, Copy, Debug)]
pub struct ToolSpan {
    /// Start.
    pub from: u64,
    /// End, if it has ended.
    pub to: Option<u64>,
    /// True if it failed.
    pub failed: bool,
}

/// An exchange with its dialect.
#[derive(Clone, Copy, Debug)]
pub struct PageExchange<'x> {
    /// The dialect, if the exchange is a model call.
    pub dialect: Option<Dialect>,
    /// The request.
    pub asked: &'x SourceRequest,
    /// The response, as far as it came.
    pub answered: Option<&'x SourceResponse>,
}

/// Writes a page. Exchanges are added one by one, so that only one is in memory.
pub struct Page<'p, W: Write> {
    out: W,
    numbers: HashMap<&'p str, usize>,
    places: HashMap<&'p str, ExchangePosition<'p>>,
    /// The last request of each turn.
    last: HashSet<&'p str>,
    /// The lanes that each call started.
    started: HashMap<(&'p str, &'p str), Vec<usize>>,
    chains: Chains,
    /// System prompts and tool lists shared by several turns, by digest.
    shared: HashMap<String, String>,
}

impl<'p, W: Write> Page<'p, W> {
    /// Starts the page: everything but the exchanges.
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

    /// Adds an exchange; `golden` is the matching exchange's number and request.
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
        let golden = golden.map(|(number, request)| (format!("g{number}"), request));
        let mut block = block::halves(crossed, |content| match &golden {
            Some((golden, request)) => self.chains.golden_difference(golden, request, content),
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

    /// Returns the name of a shared block, and writes the block on first use.
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
