//! The page's index of all exchanges: lanes, turns, times, tools, and links between them.

use std::collections::{HashMap, HashSet};

use recording::lanes::{Lane, LaneJob, LaneKind, Turn};
use recording::source::ExchangeSummary;
use serde_json::{Value, json};
use session::{Usage, model};

use super::{BadgeTone, LaneResumption, Measurements, PageContent, PageKind, ToolSpan, cached, verdict};
use crate::place::{ExchangePosition, exchange_positions};
use crate::text::fit;
use crate::tree::failed_results;

const FORMAT: u32 = 1;
/// Maximum length of a turn's text in the index.
const MAX_SUMMARY: usize = 160;
/// Bytes of an error that are shown.
const MAX_ERROR: usize = 40_000;

/// A lane in tree order, in which children follow their parent.
pub(super) struct TreeLane<'l> {
    pub(super) lane: &'l Lane,
    parent: Option<usize>,
    depth: usize,
}

/// Returns all lanes depth first. Lanes with an unknown parent are roots; side calls come last.
pub(super) fn tree(lanes: &[Lane]) -> Vec<TreeLane<'_>> {
    let known: HashSet<&str> = lanes.iter().map(|lane| lane.id.as_str()).collect();
    let mut below: HashMap<&str, Vec<&Lane>> = HashMap::new();
    let mut roots: Vec<&Lane> = Vec::new();
    for lane in lanes {
        match lane.parent.as_deref().filter(|parent| known.contains(parent) && *parent != lane.id) {
            Some(parent) => below.entry(parent).or_default().push(lane),
            None => roots.push(lane),
        }
    }
    roots.sort_by_key(|lane| lane.kind == LaneKind::Side);
    let mut tree: Vec<TreeLane<'_>> = Vec::new();
    let mut next: Vec<(&Lane, Option<usize>, usize)> =
        roots.into_iter().rev().map(|lane| (lane, None, 0)).collect();
    while let Some((lane, parent, depth)) = next.pop() {
        tree.push(TreeLane { lane, parent, depth });
        let number = Some(tree.len() - 1);
        let children = below.remove(lane.id.as_str()).unwrap_or_default();
        next.extend(children.into_iter().rev().map(|child| (child, number, depth + 1)));
    }
    tree
}

/// Renders the whole index.
pub(super) fn index(page: &PageContent<'_>) -> Value {
    let tree = tree(&page.ordered.lanes.lanes);
    let all = PageNumbers::of(&tree, page);
    let jobs: HashMap<&str, &LaneJob> = page.jobs.iter().map(|job| (job.lane.as_str(), job)).collect();
    let golden = page.golden.map(|golden| json!({"title": golden.title, "of": golden.of}));
    json!({
        "format": FORMAT,
        "kind": match page.kind {
            PageKind::Recording => "recording",
            PageKind::Run => "run",
            PageKind::Verdict => "verdict",
        },
        "title": page.title,
        "badge": {"class": badge_class(page.badge.0), "word": page.badge.1},
        "facts": page.facts,
        "began": page.began,
        "lanes": tree.iter().map(|it| all.lane(it, jobs.get(it.lane.id.as_str()))).collect::<Vec<_>>(),
        "turns": all.turns.iter().map(|(lane, turn)| all.turn(*lane, turn)).collect::<Vec<_>>(),
        "exchanges": (0..all.exchanges.len()).map(|n| all.exchange(n)).collect::<Vec<_>>(),
        "tools": tree.iter().enumerate().flat_map(|(n, it)| all.tools(n, it.lane)).collect::<Vec<_>>(),
        "resumptions": page.measured.resumptions.iter().filter_map(|it| all.resumption(it)).collect::<Vec<_>>(),
        "arrows": page.jobs.iter().flat_map(|job| all.arrows(job)).collect::<Vec<_>>(),
        "cache": page.cache.map(|of| cached::cached(of, &all.lanes, &all.ids)),
        "verdict": page.verdict.map(verdict::verdict_json),
        "golden": golden,
    })
}

fn badge_class(tone: BadgeTone) -> &'static str {
    match tone {
        BadgeTone::Good => "good",
        BadgeTone::Warn => "warn",
        BadgeTone::Bad => "bad",
    }
}

/// Numbers of everything on the page.
struct PageNumbers<'t, 'p> {
    tree: &'t [TreeLane<'p>],
    exchanges: &'p [ExchangeSummary],
    measured: &'p Measurements,
    places: HashMap<&'p str, ExchangePosition<'p>>,
    ids: HashMap<&'p str, usize>,
    lanes: HashMap<&'p str, usize>,
    /// All turns in recorded order.
    turns: Vec<(usize, &'p Turn)>,
    /// Turns by lane and number.
    of_lane: HashMap<(usize, u32), usize>,
}

impl<'t, 'p> PageNumbers<'t, 'p> {
    fn of(tree: &'t [TreeLane<'p>], page: &PageContent<'p>) -> Self {
        let exchanges = &page.ordered.exchanges;
        let mut turns: Vec<(usize, &Turn)> = tree
            .iter()
            .enumerate()
            .flat_map(|(n, it)| it.lane.turns.iter().map(move |turn| (n, turn)))
            .collect();
        turns.sort_by_key(|(_, turn)| turn.seq);
        Self {
            tree,
            exchanges,
            measured: page.measured,
            places: exchange_positions(page.ordered),
            ids: exchanges.iter().enumerate().map(|(n, it)| (it.id.as_str(), n)).collect(),
            lanes: tree.iter().enumerate().map(|(n, it)| (it.lane.id.as_str(), n)).collect(),
            of_lane: turns.iter().enumerate().map(|(n, (lane, turn))| ((*lane, turn.turn), n)).collect(),
            turns,
        }
    }

    fn resumption(&self, it: &LaneResumption) -> Option<Value> {
        let lane = self.lanes.get(it.lane.as_str())?;
        let word = if it.is_kill { "killed" } else { "paused" };
        Some(json!({"lane": lane, "stopped": it.stopped, "resumed": it.resumed, "word": word}))
    }

    fn lane(&self, it: &TreeLane<'_>, job: Option<&&LaneJob>) -> Value {
        let lane = it.lane;
        let costs: Vec<f64> = lane.turns.iter().filter_map(|turn| self.usd(turn)).collect();
        let spawned = lane.spawned_by.as_ref().map(|call| {
            let turn = it.parent.zip(job).and_then(|(parent, job)| self.of_lane.get(&(parent, job.launched)));
            json!({"turn": turn, "call": call})
        });
        json!({
            "id": lane.id,
            "kind": lane.kind,
            "parent": it.parent,
            "depth": it.depth,
            "agent": lane.agent_type,
            "model": lane.turns.first().and_then(|turn| self.model(turn)),
            "background": job.is_some_and(|job| job.background),
            "state": self.measured.states.get(&lane.id),
            "spawned": spawned,
            "usage": usage(&lane.usage()),
            "usd": (!costs.is_empty()).then(|| costs.iter().sum::<f64>()),
            "final": lane.final_text().map(|text| fit(text, MAX_SUMMARY)),
        })
    }

    fn turn(&self, lane: usize, turn: &Turn) -> Value {
        json!({
            "lane": lane,
            "turn": turn.turn,
            "seq": turn.seq,
            "exchanges": turn.attempts.iter().filter_map(|id| self.ids.get(id.as_str())).collect::<Vec<_>>(),
            "marks": turn.marks,
            "calls": turn.calls.iter().map(|call| &call.name).collect::<Vec<_>>(),
            "said": turn.text.as_deref().map(|text| fit(text, MAX_SUMMARY)),
            "results": turn.results.len(),
            "errors": failed_results(self.tree[lane].lane, turn),
            "stop": turn.stop,
            "usage": usage(&turn.usage),
            "usd": self.usd(turn),
        })
    }

    fn exchange(&self, number: usize) -> Value {
        let it = &self.exchanges[number];
        let place = self.places.get(it.id.as_str());
        let lane = place.and_then(|place| self.lanes.get(place.lane));
        let turn = place.zip(lane).and_then(|(place, lane)| self.of_lane.get(&(*lane, place.turn)));
        let size = self.measured.sizes.get(&number);
        json!({
            "id": it.id,
            "lane": lane,
            "turn": turn,
            "attempt": place.map_or(1, |place| place.attempt),
            "at": it.started_us,
            "first": it.started_us.and_then(|_| self.measured.first_bytes.get(&number)),
            "end": self.end(it),
            "status": it.status,
            "ending": it.ending,
            "error": it.error.as_deref().map(|text| fit(text, MAX_ERROR)),
            "model": it.model,
            "sent": size.map(|size| size.sent),
            "received": size.map(|size| size.received),
        })
    }

    /// Renders the time between the reply that calls a tool and the request with its result.
    fn tools(&self, number: usize, lane: &Lane) -> Vec<Value> {
        let mut tools = Vec::new();
        for (at, turn) in lane.turns.iter().enumerate() {
            for call in &turn.calls {
                let measured = self.measured.tools.get(&(lane.id.clone(), call.id.clone()));
                let brings = |later: &&Turn| later.results.iter().any(|result| result.call == call.id);
                let answered = lane.turns[at + 1..].iter().find(brings);
                let seen = || {
                    let from = self.last(turn).and_then(|it| self.end(it))?;
                    let result =
                        answered.and_then(|later| later.results.iter().find(|result| result.call == call.id));
                    Some(ToolSpan {
                        from,
                        to: answered.and_then(|later| self.first(later)?.started_us),
                        failed: result.is_some_and(|result| result.is_error),
                    })
                };
                let Some(worked) = measured.copied().or_else(seen) else { continue };
                tools.push(json!({
                    "lane": number,
                    "turn": self.of_lane.get(&(number, turn.turn)),
                    "name": call.name,
                    "call": call.id,
                    "at": worked.from,
                    "end": worked.to,
                    "exact": measured.is_some(),
                    "error": worked.failed,
                }));
            }
        }
        tools
    }

    /// Renders arrows from a call to the agent it started, and from the agent's end to the turn that received
    /// its result.
    fn arrows(&self, job: &LaneJob) -> Vec<Value> {
        let (Some(&parent), Some(&child)) =
            (self.lanes.get(job.parent.as_str()), self.lanes.get(job.lane.as_str()))
        else {
            return Vec::new();
        };
        let of = |lane: usize, turn: u32| Some(self.turns[*self.of_lane.get(&(lane, turn))?].1);
        let own = &self.tree[child].lane.turns;
        let arrow = |kind: &str, from: (usize, u64), to: (usize, u64)| {
            json!({
                "kind": kind,
                "from": {"lane": from.0, "at": from.1},
                "to": {"lane": to.0, "at": to.1},
            })
        };
        let spawn = || {
            let turn = of(parent, job.launched)?;
            let from = self.last(turn).and_then(|it| self.end(it))?;
            let to = self.first(own.first()?)?.started_us?;
            Some(arrow("spawn", (parent, from), (child, to)))
        };
        let woken = job.notices.iter().find(|notice| notice.wakes).map(|notice| notice.turn);
        // An awaited agent returns with the answer to its call, whatever the answer says.
        let answered = job.acknowledged.filter(|_| !job.background);
        let back = || {
            let turn = of(parent, woken.or(job.delivered).or(answered)?)?;
            let to = self.first(turn)?.started_us?;
            let from = self.last(own.last()?).and_then(|it| self.end(it))?;
            let kind = if job.background { "wake" } else { "result" };
            Some(arrow(kind, (child, from), (parent, to)))
        };
        spawn().into_iter().chain(back()).collect()
    }

    fn first(&self, turn: &Turn) -> Option<&ExchangeSummary> {
        turn.attempts.first().and_then(|id| self.summary(id.as_str()))
    }

    fn last(&self, turn: &Turn) -> Option<&ExchangeSummary> {
        turn.attempts.last().and_then(|id| self.summary(id.as_str()))
    }

    fn summary(&self, id: &str) -> Option<&ExchangeSummary> {
        self.ids.get(id).map(|n| &self.exchanges[*n])
    }

    fn end(&self, it: &ExchangeSummary) -> Option<u64> {
        Some(it.started_us?.saturating_add(it.took_us?))
    }

    fn model(&self, turn: &Turn) -> Option<&str> {
        self.last(turn)?.model.as_deref()
    }

    fn usd(&self, turn: &Turn) -> Option<f64> {
        model::price(self.model(turn)?).map(|price| price.cost(&turn.usage))
    }
}

fn usage(usage: &Usage) -> Value {
    json!({
        "input": usage.input,
        "output": usage.output,
        "read": usage.cache_read,
        "write": usage.cache_write_5m.saturating_add(usage.cache_write_1h),
    })
}
