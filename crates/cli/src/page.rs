//! Pages: what they are made of, and where they are written.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use recording::source::{Answered, Asked, Content, Happened, Named, Ordered, Origin, Source, Summary};
use recording::{Recording, State};
use report::{CacheOf, Crossed, GoldenOf, Mood, OneRun, Page, PageKind, PageOf, Size};
use serde_json::Value;
use session::RunId;
use session::model::TABLE_OF;
use store::{RunStatus, Store};
use wire::dialect::Dialect;

use crate::commands::{cache, show};
use crate::failure::{Kind, OrFail};
use crate::progress::Progress;

/// A recording as a page.
pub(crate) fn recording(source: &Source, damage: &[String], out: &mut dyn Write) -> io::Result<()> {
    let read = Read::of(source);
    let badge = state(source.recording(), damage);
    let facts = facts(source, &read.ordered, damage);
    of_recording(PageKind::Recording, badge, facts, source, &read, None, out)
}

/// A verdict as a page, with what it is about where that is still there: golden and candidate.
pub(crate) fn verdict(
    verdict: &Value,
    both: Option<(&Source, &Source)>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let word = verdict["outcome"]["is"].as_str().unwrap_or_default();
    let badge = match word {
        "match" => (Mood::Good, word),
        "differs" => (Mood::Bad, word),
        _ => (Mood::Warn, word),
    };
    match both {
        None => alone(verdict, badge, out),
        Some((golden, candidate)) => {
            let read = Read::of(candidate);
            let damage = candidate.recording().and_then(|recording| recording.damage().ok());
            let facts = facts(candidate, &read.ordered, &damage.unwrap_or_default());
            let against = Against { verdict, golden, read: Read::of(golden) };
            of_recording(PageKind::Verdict, badge, facts, candidate, &read, Some(&against), out)
        }
    }
}

/// A verdict whose recordings are gone.
fn alone(verdict: &Value, badge: (Mood, &str), out: &mut dyn Write) -> io::Result<()> {
    let nothing = Ordered { lanes: Default::default(), exchanges: Vec::new(), problems: Vec::new() };
    let title = verdict["about"][1].as_str().unwrap_or("a verdict");
    let page = PageOf {
        kind: PageKind::Verdict,
        title,
        badge,
        facts: Vec::new(),
        began: None,
        ordered: &nothing,
        jobs: &[],
        first_bytes: &HashMap::new(),
        sizes: &HashMap::new(),
        states: &HashMap::new(),
        tools: &HashMap::new(),
        cache: None,
        verdict: Some(verdict),
        golden: None,
    };
    Page::begin(out, &page)?.end().map(drop)
}

/// A run and everything below it as a page.
pub(crate) fn run(store: &Store, run: &RunId, out: &mut dyn Write) -> anyhow::Result<()> {
    let runs = show::below(store, run)?;
    let Some(first) = runs.iter().find(|one| one.run.id == *run) else {
        return Err(anyhow::anyhow!("the run `{run}` was deleted just now")).or_fail(Kind::Usage);
    };
    let dialect = |one: &OneRun| agent::Settings::from_bytes(&one.run.settings).ok().map(|it| it.dialect());
    let ran = report::ran(&runs, dialect);
    let told = cache::explained(store, run)?;
    let cache = CacheOf { explained: &told.explained, shown: &told.shown, prices_of: TABLE_OF };
    let mood = match first.summary.status {
        RunStatus::Completed => Mood::Good,
        RunStatus::Failed => Mood::Bad,
        _ => Mood::Warn,
    };
    let words = first.summary.status.words();
    let title = format!("run {run}: {}", first.summary.title);
    let began = UNIX_EPOCH + Duration::from_millis(u64::try_from(ran.began.0).unwrap_or_default());
    let count = match runs.len() {
        1 => "1 run".to_owned(),
        n => format!("{n} runs"),
    };
    let page = PageOf {
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
        first_bytes: &ran.first_bytes,
        sizes: &ran.sizes,
        states: &ran.states,
        tools: &ran.tools,
        cache: Some(&cache),
        verdict: None,
        golden: None,
    };
    let mut written = Page::begin(out, &page).or_fail(Kind::Outside)?;
    for (number, &(n, call, attempt)) in ran.kept.iter().enumerate() {
        let one = &runs[n];
        let (asked, attempts) = &one.model_calls[call];
        // A request that cannot be put together any more is one whose bytes were lost; the rest is shown.
        let body = agent::request_bytes(store, &one.run.id, asked.id).ok();
        let summary = &ran.ordered.exchanges[number];
        let request = request(summary, body);
        let response = attempt.map(|attempt| response(summary, &attempts[attempt]));
        let crossed = Crossed { dialect: summary.dialect, asked: &request, answered: response.as_ref() };
        written.exchange(crossed, None).or_fail(Kind::Outside)?;
    }
    written.end().map(drop).or_fail(Kind::Outside)
}

fn kept(bytes: Option<Vec<u8>>) -> Content {
    let origin = if bytes.is_some() { Origin::Raw } else { Origin::Lost };
    Content { bytes, sha256: None, origin }
}

fn request(summary: &Summary, body: Option<Vec<u8>>) -> Asked {
    Asked {
        id: summary.id.clone(),
        timestamp: None,
        method: summary.method.clone(),
        url: summary.url.clone(),
        headers: Vec::new(),
        named: Named::default(),
        body: kept(body),
    }
}

fn response(summary: &Summary, attempt: &store::Attempt) -> Answered {
    Answered {
        timestamp: None,
        status: attempt.status,
        headers: Vec::new(),
        ending: summary.ending,
        error: attempt.error.clone(),
        first_byte_us: None,
        end_us: None,
        body: kept(Some(attempt.response.clone())),
    }
}

/// A recording, read once.
struct Read {
    ordered: Ordered,
    cached: parity::Cached,
    first_bytes: HashMap<usize, u64>,
    sizes: HashMap<usize, Size>,
}

impl Read {
    fn of(source: &Source) -> Self {
        let mut cached = parity::cached(source);
        let nothing = Ordered { lanes: Default::default(), exchanges: Vec::new(), problems: Vec::new() };
        let mut ordered = std::mem::replace(&mut cached.ordered, nothing);
        let (first_bytes, sizes) = measured(source, &mut ordered);
        Self { ordered, cached, first_bytes, sizes }
    }
}

/// When answers began and how long both halves are; and where only dumps know when something happened, their times are
/// put in.
fn measured(source: &Source, ordered: &mut Ordered) -> (HashMap<usize, u64>, HashMap<usize, Size>) {
    let numbers: HashMap<String, usize> =
        ordered.exchanges.iter().enumerate().map(|(n, it)| (it.id.to_string(), n)).collect();
    let number = |n: usize| numbers.get(source.id(n).as_str()).copied();
    let timeline = source.timeline();
    let is_timed = timeline.iter().any(|moment| moment.us > 0);
    let (mut asked, mut first_bytes, mut ended) = (HashMap::new(), HashMap::new(), HashMap::new());
    for moment in timeline.iter().filter(|_| is_timed) {
        let (n, times) = match moment.what {
            Happened::Asked(n) => (n, &mut asked),
            Happened::Read { exchange, .. } => (exchange, &mut first_bytes),
            Happened::Ended(n) => (n, &mut ended),
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
        let (Some(number), Ok(asked)) = (number(n), source.asked(n)) else { continue };
        let answered = source.answered(n).ok().flatten();
        let received = answered.as_ref().map_or(0, |answered| length(&answered.body));
        sizes.insert(number, Size { sent: length(&asked.body), received });
        let after = answered.and_then(|answered| answered.first_byte_us);
        if let (Some(started), Some(after)) = (ordered.exchanges[number].started_us, after) {
            first_bytes.entry(number).or_insert(started.saturating_add(after));
        }
    }
    (first_bytes, sizes)
}

/// What a recording is held against.
struct Against<'a> {
    verdict: &'a Value,
    golden: &'a Source,
    read: Read,
}

fn of_recording(
    kind: PageKind,
    badge: (Mood, &str),
    facts: Vec<(String, String)>,
    source: &Source,
    read: &Read,
    against: Option<&Against<'_>>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let title = title(source);
    let jobs = read.ordered.lanes.jobs();
    let explained = &read.cached.explained;
    let cache = CacheOf { explained, shown: &read.cached.shown, prices_of: TABLE_OF };
    let golden = against.map(|against| GoldenOf {
        title: self::title(against.golden),
        of: counterparts(against, &read.ordered),
    });
    let manifest = source.recording().and_then(Recording::manifest);
    let page = PageOf {
        kind,
        title: &title,
        badge,
        facts,
        began: manifest.map(|manifest| manifest.started_at.clone()),
        ordered: &read.ordered,
        jobs: &jobs,
        first_bytes: &read.first_bytes,
        sizes: &read.sizes,
        states: &HashMap::new(),
        tools: &HashMap::new(),
        cache: (!explained.requests.is_empty()).then_some(&cache),
        verdict: against.map(|against| against.verdict),
        golden: golden.as_ref(),
    };
    let mut page = Page::begin(out, &page)?;
    let mut numbers = HashMap::new();
    if let Some(Against { golden: source, read: Read { ordered, .. }, .. }) = against {
        let places = report::places(ordered);
        let known: HashMap<&str, usize> =
            ordered.exchanges.iter().enumerate().map(|(n, it)| (it.id.as_str(), n)).collect();
        for n in 0..source.len() {
            let Ok(asked) = source.asked(n) else { continue };
            let Some(&number) = known.get(asked.id.as_str()) else { continue };
            numbers.insert(number, n);
            let answered = source.answered(n).ok().flatten();
            let lane = places.get(asked.id.as_str()).map(|place| place.lane);
            page.golden(number, lane, crossed(&asked, answered.as_ref()))?;
        }
    }
    let ids: HashMap<&str, usize> =
        read.ordered.exchanges.iter().enumerate().map(|(n, it)| (it.id.as_str(), n)).collect();
    for n in 0..source.len() {
        // What cannot be read is among the problems, which the page names.
        let Ok(asked) = source.asked(n) else { continue };
        let answered = source.answered(n).ok().flatten();
        let counterpart = golden.as_ref().zip(against).and_then(|(golden, against)| {
            let number = *golden.of.get(ids.get(asked.id.as_str())?)?;
            Some((number, against.golden.asked(*numbers.get(&number)?).ok()?))
        });
        let beside = counterpart.as_ref().map(|(number, asked)| (*number, asked));
        page.exchange(crossed(&asked, answered.as_ref()), beside)?;
    }
    page.end().map(drop)
}

fn crossed<'x>(asked: &'x Asked, answered: Option<&'x Answered>) -> Crossed<'x> {
    let body = asked.body.bytes.as_deref().unwrap_or_default();
    Crossed { dialect: Dialect::of(&asked.url, body), asked, answered }
}

/// The golden's exchange for each of the candidate's: the same turn of the lane it was compared with.
fn counterparts(against: &Against<'_>, ordered: &Ordered) -> BTreeMap<usize, usize> {
    let theirs = &against.read.ordered;
    let places = report::places(theirs);
    let by_place: HashMap<(&str, u32, usize), usize> = theirs
        .exchanges
        .iter()
        .enumerate()
        .filter_map(|(n, it)| places.get(it.id.as_str()).map(|at| ((at.lane, at.turn, at.attempt), n)))
        .collect();
    // The verdict knows which turn was compared with which.
    let lanes = against.verdict["lanes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut golden: HashMap<(&str, u64), (&str, u32)> = HashMap::new();
    for pair in lanes {
        let (Some(mine), Some(theirs)) = (pair["candidate"].as_str(), pair["golden"].as_str()) else {
            continue;
        };
        for turns in pair["turns"].as_array().into_iter().flatten() {
            if let (Some(their), Some(own)) = (turns[0].as_u64(), turns[1].as_u64()) {
                golden.insert((mine, own), (theirs, u32::try_from(their).unwrap_or_default()));
            }
        }
    }
    let own = report::places(ordered);
    let counterpart = |(n, it): (usize, &Summary)| {
        let place = own.get(it.id.as_str())?;
        let (lane, turn) = golden.get(&(place.lane, u64::from(place.turn)))?;
        Some((n, *by_place.get(&(*lane, *turn, place.attempt))?))
    };
    ordered.exchanges.iter().enumerate().filter_map(counterpart).collect()
}

fn state<'s>(recording: Option<&Recording>, damage: &[String]) -> (Mood, &'s str) {
    match recording.map(Recording::state) {
        Some(State::Sealed) if damage.is_empty() => (Mood::Good, "sealed"),
        Some(State::Sealed) => (Mood::Bad, "changed since it was sealed"),
        Some(State::Unsealed { .. }) => (Mood::Warn, "unsealed"),
        None => (Mood::Warn, "a folder of dumps"),
    }
}

fn facts(source: &Source, ordered: &Ordered, damage: &[String]) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    let mut fact = |name: &str, value: String| facts.push((name.to_owned(), value));
    let (exchanges, lanes) = (ordered.exchanges.len(), ordered.lanes.lanes.len());
    fact("holds", format!("{exchanges} exchanges in {lanes} lanes"));
    if let Some(State::Unsealed { because }) = source.recording().map(Recording::state) {
        fact("unsealed because", because.clone());
    }
    if let Some(manifest) = source.recording().and_then(Recording::manifest) {
        if let Some(harness) = &manifest.harness {
            fact("model", harness.model.clone());
        }
        manifest.lost.iter().for_each(|loss| fact("not kept", loss.to_string()));
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
    // What is recorded of a run of ours has no scenario.
    let of = if harness.scenario.is_empty() { folder() } else { harness.scenario.clone() };
    format!("{}{version}, {of}", harness.name)
}

/// Prints something long. A reader that has seen enough, as `head` has, is no failure.
pub(crate) fn print(fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    match fill(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error).or_fail(Kind::Outside),
        _ => Ok(()),
    }
}

/// A file in a recording would be one that was not there when it was sealed; and what is read is never written over.
pub(crate) fn check_place(path: &Path, read: &[&Path]) -> anyhow::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let real = |path: &Path| path.canonicalize().ok();
    let place = real(path).or_else(|| real(folder));
    let is_in = |read: &&&Path| place.as_ref().zip(real(read)).is_some_and(|(it, read)| it.starts_with(read));
    let problem = match read.iter().find(is_in) {
        _ if path.is_dir() => format!("`{}` is a folder", path.display()),
        Some(read) if read.is_dir() => {
            format!("`{}` is in the recording, which is never changed", path.display())
        }
        Some(_) => format!("`{}` is what is read", path.display()),
        None if !folder.is_dir() => format!("there is no folder `{}`", folder.display()),
        None => return Ok(()),
    };
    Err(anyhow::anyhow!(problem)).or_fail_with(Kind::Usage, || "give another file with `--out`".to_owned())
}

/// Written beside and renamed over: the file is whole, or as it was. What is no file, a pipe for example, is written to.
pub(crate) fn write(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
    let _shown = Progress::of(&format!("writing `{}`", path.display()));
    // A link stays one: what it leads to is written.
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let is_special = fs::metadata(&real).is_ok_and(|found| !found.is_file());
    let written = match is_special {
        true => OpenOptions::new().write(true).open(&real).and_then(|file| filled(file, fill)),
        false => write_beside(&real, fill),
    };
    let context = |error| anyhow::Error::from(error).context(format!("cannot write `{}`", path.display()));
    written.map_err(context).or_fail_with(Kind::Outside, || "give another file with `--out`".to_owned())
}

fn write_beside(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let written = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600) // a run's page says what its journal says, and that is nobody else's to read
        .open(&beside)
        .and_then(|file| filled(file, fill))
        .and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        let _ = fs::remove_file(&beside); // the error that matters is the one we return
    }
    written
}

fn filled(file: File, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = BufWriter::new(file);
    fill(&mut out)?;
    out.flush()
}
