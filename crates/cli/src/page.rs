//! Collects the content of pages for a browser.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::time::{Duration, UNIX_EPOCH};

use parity::{RecordingCache, Verdict, VerdictOutcome};
use recording::source::{
    Content, ExchangeSummary, OrderedExchanges, Origin, SenderIds, Source, SourceRequest, SourceResponse,
    TimelineEvent,
};
use recording::{Recording, SealState};
use report::{
    BadgeTone, BodySizes, CacheView, GoldenMatch, Measurements, OneRun, Page, PageContent, PageExchange,
    PageKind, UnexplainedRequests,
};
use session::RunId;
use session::model::TABLE_MONTH;
use store::{RunStatus, Store};
use wire::dialect::Dialect;

use crate::failure::{ExitKind, OrFail};
use crate::run_cache::explain_run;
use crate::run_tree::load_run_tree;

/// Writes the page of a recording.
pub(crate) fn recording(source: &Source, damage: &[String], out: &mut dyn Write) -> io::Result<()> {
    let read = Read::of(source);
    let (badge, facts) = (state(source.recording(), damage), facts(&read, damage));
    of_recording(PageKind::Recording, badge, facts, &read, None, out)
}

/// The page of a verdict.
pub(crate) struct VerdictPage<'v> {
    /// The verdict.
    pub(crate) verdict: &'v Verdict,
    /// Golden and candidate, if they still exist.
    pub(crate) both: Option<(&'v Source, &'v Source)>,
    /// Files of the candidate that were changed since it was sealed.
    pub(crate) damage: &'v [String],
}

impl VerdictPage<'_> {
    /// Writes the page.
    pub(crate) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let word = self.verdict.outcome.word();
        let mood = match self.verdict.outcome {
            VerdictOutcome::Match => BadgeTone::Good,
            VerdictOutcome::Differs => BadgeTone::Bad,
            VerdictOutcome::Inconclusive(_) => BadgeTone::Warn,
        };
        let Some((golden, candidate)) = self.both else { return self.write_alone((mood, word), out) };
        let read = Read::of(candidate);
        let facts = facts(&read, self.damage);
        let against = Against { verdict: self.verdict, golden: Read::of(golden) };
        of_recording(PageKind::Verdict, (mood, word), facts, &read, Some(&against), out)
    }

    /// Writes the page of a verdict whose recordings are gone.
    fn write_alone(&self, badge: (BadgeTone, &str), out: &mut dyn Write) -> io::Result<()> {
        let page = PageContent {
            kind: PageKind::Verdict,
            title: &self.verdict.descriptions[1],
            badge,
            facts: Vec::new(),
            began: None,
            ordered: &OrderedExchanges::default(),
            jobs: &[],
            measured: &Measurements::default(),
            cache: None,
            verdict: Some(self.verdict),
            golden: None,
        };
        Page::begin(out, &page)?.end().map(drop)
    }
}

/// Writes the page of a run and its descendants.
pub(crate) fn run(store: &Store, run: &RunId, out: &mut dyn Write) -> anyhow::Result<()> {
    let runs = load_run_tree(store, run)?;
    let Some(first) = runs.iter().find(|one| one.run.id == *run) else {
        return Err(anyhow::anyhow!("the run `{run}` was deleted just now")).or_fail(ExitKind::Usage);
    };
    let dialect =
        |one: &OneRun| agent::RunSettings::from_bytes(&one.run.settings).ok().map(|it| it.dialect());
    let ran = report::runs_as_recording(&runs, dialect);
    let told = explain_run(store, run)?;
    let cache = CacheView {
        explained: &told.explained,
        shown: &told.shown,
        prices_of: TABLE_MONTH,
        left_out: told.left_out,
    };
    let mood = match first.summary.status {
        RunStatus::Completed => BadgeTone::Good,
        RunStatus::Failed => BadgeTone::Bad,
        _ => BadgeTone::Warn,
    };
    let words = first.summary.status.words();
    let title = format!("run {run}: {}", first.summary.title);
    let began = UNIX_EPOCH + Duration::from_millis(u64::try_from(ran.began.0).unwrap_or_default());
    let count = match runs.len() {
        1 => "1 run".to_owned(),
        n => format!("{n} runs"),
    };
    let page = PageContent {
        kind: PageKind::Run,
        title: &title,
        badge: (mood, &words),
        facts: vec![
            ("holds".to_owned(), format!("{} exchanges in {count}", ran.ordered.exchanges.len())),
            ("agent".to_owned(), format!("{} on {}", first.run.agent, first.run.model)),
            ("in".to_owned(), first.workspace.clone()),
        ],
        began: Some(recording::iso(began)),
        ordered: &ran.ordered,
        jobs: &ran.jobs,
        measured: &ran.measured,
        cache: Some(&cache),
        verdict: None,
        golden: None,
    };
    let mut written = Page::begin(out, &page).or_fail(ExitKind::Outside)?;
    for (number, &(n, call, attempt)) in ran.kept.iter().enumerate() {
        let one = &runs[n];
        let (asked, attempts) = &one.model_calls[call];
        // A request that cannot be rebuilt has lost its bytes. The rest is shown.
        let body = agent::rebuild_request(store, &one.run.id, asked).ok();
        let summary = &ran.ordered.exchanges[number];
        let request = request(summary, body);
        let response = attempt.map(|attempt| response(summary, &attempts[attempt]));
        let crossed = PageExchange { dialect: summary.dialect, asked: &request, answered: response.as_ref() };
        written.exchange(crossed, None).or_fail(ExitKind::Outside)?;
    }
    written.end().map(drop).or_fail(ExitKind::Outside)
}

fn content_of(bytes: Option<Vec<u8>>) -> Content {
    let origin = if bytes.is_some() { Origin::Raw } else { Origin::Lost };
    Content { bytes, sha256: None, origin }
}

fn request(summary: &ExchangeSummary, body: Option<Vec<u8>>) -> SourceRequest {
    SourceRequest {
        id: summary.id.clone(),
        timestamp: None,
        method: summary.method.clone(),
        url: summary.url.clone(),
        headers: Vec::new(),
        sender: SenderIds::default(),
        body: content_of(body),
    }
}

fn response(summary: &ExchangeSummary, attempt: &store::Attempt) -> SourceResponse {
    SourceResponse {
        timestamp: None,
        status: attempt.status,
        headers: Vec::new(),
        ending: summary.ending,
        error: attempt.error.clone(),
        first_byte_us: None,
        end_us: None,
        body: content_of(Some(attempt.response.clone())),
    }
}

/// A recording with everything that its page needs, read once.
struct Read<'s> {
    source: &'s Source,
    cached: RecordingCache,
    measured: Measurements,
}

impl<'s> Read<'s> {
    fn of(source: &'s Source) -> Self {
        let mut cached = parity::analyze_cache(source);
        let measured = measured(source, &mut cached.ordered);
        Self { source, cached, measured }
    }

    fn ordered(&self) -> &OrderedExchanges {
        &self.cached.ordered
    }

    /// Returns the number of each exchange on the page, by its id.
    fn numbers(&self) -> HashMap<&str, usize> {
        numbers(self.ordered())
    }
}

fn numbers(ordered: &OrderedExchanges) -> HashMap<&str, usize> {
    ordered.exchanges.iter().enumerate().map(|(n, it)| (it.id.as_str(), n)).collect()
}

/// Measures the start of responses and the sizes of both halves. Missing times are filled in from the dumps.
fn measured(source: &Source, ordered: &mut OrderedExchanges) -> Measurements {
    let numbers: HashMap<String, usize> =
        numbers(ordered).into_iter().map(|(id, n)| (id.to_owned(), n)).collect();
    let number = |n: usize| numbers.get(source.id(n).as_str()).copied();
    let timeline = source.timeline();
    let is_timed = timeline.iter().any(|moment| moment.us > 0);
    let (mut asked, mut first_bytes, mut ended) = (HashMap::new(), HashMap::new(), HashMap::new());
    for moment in timeline.iter().filter(|_| is_timed) {
        let (n, times) = match moment.event {
            TimelineEvent::RequestArrived(n) => (n, &mut asked),
            TimelineEvent::ResponseRead { exchange, .. } => (exchange, &mut first_bytes),
            TimelineEvent::ResponseEnded(n) => (n, &mut ended),
        };
        if let Some(n) = number(n) {
            times.entry(n).or_insert(moment.us);
        }
    }
    for (n, it) in ordered.exchanges.iter_mut().enumerate() {
        it.started_us = it.started_us.or(asked.get(&n).copied());
        let took = || ended.get(&n)?.checked_sub(*asked.get(&n)?);
        it.took_us = it.took_us.or_else(took);
    }
    let mut sizes = HashMap::new();
    let length = |content: &Content| content.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64);
    for n in 0..source.len() {
        let (Some(number), Ok(asked)) = (number(n), source.request(n)) else { continue };
        let answered = source.response(n).ok().flatten();
        let received = answered.as_ref().map_or(0, |answered| length(&answered.body));
        sizes.insert(number, BodySizes { sent: length(&asked.body), received });
        let after = answered.and_then(|answered| answered.first_byte_us);
        if let (Some(started), Some(after)) = (ordered.exchanges[number].started_us, after) {
            first_bytes.entry(number).or_insert(started.saturating_add(after));
        }
    }
    Measurements { first_bytes, sizes, ..Measurements::default() }
}

/// A verdict and the golden that a recording was compared with.
struct Against<'a> {
    verdict: &'a Verdict,
    golden: Read<'a>,
}

fn of_recording(
    kind: PageKind,
    badge: (BadgeTone, &str),
    facts: Vec<(String, String)>,
    read: &Read<'_>,
    against: Option<&Against<'_>>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let source = read.source;
    let title = title(source);
    let jobs = read.ordered().lanes.jobs();
    let explained = &read.cached.explained;
    let cache = CacheView {
        explained,
        shown: &read.cached.changed_bytes,
        prices_of: TABLE_MONTH,
        left_out: UnexplainedRequests::default(),
    };
    let golden = against.map(|against| GoldenMatch {
        title: self::title(against.golden.source),
        of: counterparts(against, read.ordered()),
    });
    let manifest = source.recording().and_then(Recording::manifest);
    let mut page = Page::begin(
        out,
        &PageContent {
            kind,
            title: &title,
            badge,
            facts,
            began: manifest.map(|manifest| manifest.started_at.clone()),
            ordered: read.ordered(),
            jobs: &jobs,
            measured: &read.measured,
            cache: (!explained.requests.is_empty()).then_some(&cache),
            verdict: against.map(|against| against.verdict),
            golden: golden.as_ref(),
        },
    )?;
    let beside = against.map(|against| write_golden(&mut page, &against.golden)).transpose()?;
    let ids = read.numbers();
    for n in 0..source.len() {
        // Unreadable exchanges are listed among the problems of the page.
        let Ok(asked) = source.request(n) else { continue };
        let answered = source.response(n).ok().flatten();
        let counterpart =
            golden.as_ref().zip(against).zip(beside.as_ref()).and_then(|((golden, against), beside)| {
                let number = *golden.of.get(ids.get(asked.id.as_str())?)?;
                Some((number, against.golden.source.request(*beside.get(&number)?).ok()?))
            });
        let counterpart = counterpart.as_ref().map(|(number, asked)| (*number, asked));
        page.exchange(crossed(&asked, answered.as_ref()), counterpart)?;
    }
    page.end().map(drop)
}

/// Adds the exchanges of the golden. Returns the position of each in its recording, by its number on the page.
fn write_golden<W: Write>(page: &mut Page<'_, W>, golden: &Read<'_>) -> io::Result<HashMap<usize, usize>> {
    let (places, numbers) = (report::exchange_positions(golden.ordered()), golden.numbers());
    let mut written = HashMap::new();
    for n in 0..golden.source.len() {
        let Ok(asked) = golden.source.request(n) else { continue };
        let Some(&number) = numbers.get(asked.id.as_str()) else { continue };
        let answered = golden.source.response(n).ok().flatten();
        let lane = places.get(asked.id.as_str()).map(|place| place.lane);
        page.golden(number, lane, crossed(&asked, answered.as_ref()))?;
        written.insert(number, n);
    }
    Ok(written)
}

fn crossed<'x>(asked: &'x SourceRequest, answered: Option<&'x SourceResponse>) -> PageExchange<'x> {
    let body = asked.body.bytes.as_deref().unwrap_or_default();
    PageExchange { dialect: Dialect::detect(&asked.url, body), asked, answered }
}

/// Maps exchanges of the candidate to those of the golden: the same turn of the lane it was compared with.
fn counterparts(against: &Against<'_>, ordered: &OrderedExchanges) -> BTreeMap<usize, usize> {
    let theirs = against.golden.ordered();
    let places = report::exchange_positions(theirs);
    let by_place: HashMap<(&str, u32, usize), usize> = theirs
        .exchanges
        .iter()
        .enumerate()
        .filter_map(|(n, it)| places.get(it.id.as_str()).map(|at| ((at.lane, at.turn, at.attempt), n)))
        .collect();
    // The verdict lists the compared turns.
    let mut golden: HashMap<(&str, u32), (&str, u32)> = HashMap::new();
    for pair in &against.verdict.lanes {
        let (Some(mine), Some(theirs)) = (&pair.candidate, &pair.golden) else { continue };
        for turns in &pair.turns {
            if let (Some(their), Some(own)) = *turns {
                golden.insert((mine, own), (theirs, their));
            }
        }
    }
    let own = report::exchange_positions(ordered);
    let counterpart = |(n, it): (usize, &ExchangeSummary)| {
        let place = own.get(it.id.as_str())?;
        let (lane, turn) = golden.get(&(place.lane, place.turn))?;
        Some((n, *by_place.get(&(*lane, *turn, place.attempt))?))
    };
    ordered.exchanges.iter().enumerate().filter_map(counterpart).collect()
}

fn state<'s>(recording: Option<&Recording>, damage: &[String]) -> (BadgeTone, &'s str) {
    match recording.map(Recording::state) {
        Some(SealState::Sealed) if damage.is_empty() => (BadgeTone::Good, "sealed"),
        Some(SealState::Sealed) => (BadgeTone::Bad, "changed since it was sealed"),
        Some(SealState::Unsealed { .. }) => (BadgeTone::Warn, "unsealed"),
        None => (BadgeTone::Warn, "a folder of dumps"),
    }
}

fn facts(read: &Read<'_>, damage: &[String]) -> Vec<(String, String)> {
    let (source, ordered) = (read.source, read.ordered());
    let mut facts = Vec::new();
    let mut fact = |name: &str, value: String| facts.push((name.to_owned(), value));
    let (exchanges, lanes) = (ordered.exchanges.len() as u64, ordered.lanes.lanes.len() as u64);
    fact(
        "holds",
        format!("{} in {}", report::counted(exchanges, "exchange"), report::counted(lanes, "lane")),
    );
    if let Some(SealState::Unsealed { because }) = source.recording().map(Recording::state) {
        fact("unsealed because", because.clone());
    }
    if let Some(manifest) = source.recording().and_then(Recording::manifest) {
        if let Some(harness) = &manifest.harness {
            fact("model", harness.model.clone());
        }
        manifest.lost.iter().for_each(|loss| fact("not kept", loss.to_string()));
        manifest.unsearched.iter().for_each(|part| fact("not searched for secrets", part.clone()));
    }
    damage.iter().for_each(|file| fact("damaged", file.clone()));
    ordered.problems.iter().for_each(|it| fact("problem", format!("{}: {}", it.what, it.why)));
    facts
}

fn title(source: &Source) -> String {
    let real = source.dir().canonicalize().unwrap_or_else(|_| source.dir().to_owned());
    let folder = || real.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let harness = source.recording().and_then(|recording| recording.manifest()?.harness.as_ref());
    let Some(harness) = harness else { return folder() };
    let version = harness.version.as_deref().map(|it| format!(" {it}")).unwrap_or_default();
    // A recording of our own run has no scenario.
    let of = if harness.scenario.is_empty() { folder() } else { harness.scenario.clone() };
    format!("{}{version}, {of}", harness.name)
}
