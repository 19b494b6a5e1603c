//! In which order things go out: the recorded one, or another that is as legal.
//!
//! Pure: a tape in, steps out. `docs/guide/replay.md` says why each wait is there.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use recording::lanes::{Job, Lane, LaneKind};
use recording::source::Happened;
use session::CallId;

use super::tape::{RecordedTraffic, Take};
use super::together::{self, Crowd};

/// How long the harness gets to notice the end of an agent, where it may go on by itself.
const NOTICE: Duration = Duration::from_millis(20);
/// The least and the most that is waited behind an end that is announced by a text.
const LINKED: (Duration, Duration) = (Duration::from_millis(300), Duration::from_secs(5));
/// A pause between two parts in which a harness may have begun to work on the first.
const WORKING: u64 = 50_000;
/// Ends that came closer to each other than this may have been heard of at once.
const CLOSE: Duration = Duration::from_millis(50);
/// The shortest time after which a request that does not come is given up.
const PATIENCE: Duration = Duration::from_secs(5);

/// One step of the order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// This request arrives; given up when nothing has moved for so long.
    Arrive(usize, Duration),
    /// Its response goes out as far as this part, which stays behind.
    Send(usize, usize),
    /// The same, and nobody waits until it has gone out.
    Let(usize, usize),
    /// The harness comes to rest, or this time passes where nobody can tell.
    Rest(Duration),
    /// So much time passes.
    Pause(Duration),
    /// So much time has passed since that response was sent in full.
    Since(usize, Duration),
}

/// A thing of the recording, with its time.
pub(super) type Timed = (u64, Step);

/// The steps of the recorded order.
pub(super) fn recorded(tape: &RecordedTraffic) -> Vec<Step> {
    let mut steps = in_order(tape);
    let ends = Ends::of(tape);
    for (child, before) in ends.reordered(tape, &steps) {
        move_behind(&mut steps, child, before);
    }
    let crowds = together::arrange(tape, &ends, &mut steps);
    with_waits(tape, &Ends { crowds, ..ends }, &steps)
}

/// Another legal order: the same for the same seed.
pub(super) fn seeded(tape: &RecordedTraffic, seed: u64) -> Vec<Step> {
    let mut dice = Dice(seed);
    let causes = causes(tape);
    let mut waiting: Vec<usize> = judged(tape).collect();
    let (mut open, mut done) = (Vec::new(), HashSet::new());
    let mut steps = Vec::new();
    loop {
        let ready = |take: &usize| causes[take].iter().all(|cause| done.contains(cause));
        let (arrived, later): (Vec<usize>, Vec<usize>) = waiting.iter().partition(|take| ready(take));
        waiting = later;
        for take in arrived {
            steps.push((tape.takes[take].asked_us, Step::Arrive(take, PATIENCE)));
            open.push((take, 0));
        }
        if open.is_empty() {
            break;
        }
        let at = dice.roll(open.len());
        let (take, sent) = &mut open[at];
        *sent += 1;
        steps.push((0, Step::Send(*take, *sent)));
        if *sent >= tape.takes[*take].response.parts.len() {
            done.insert(*take);
            open.remove(at);
        }
    }
    with_waits(tape, &Ends::of(tape), &steps)
}

/// Takes that count: those of agents, not of side calls.
fn judged(tape: &RecordedTraffic) -> impl Iterator<Item = usize> {
    let counts = |take: &Take| take.dialect.is_some() && take.kind != LaneKind::Side;
    tape.takes.iter().enumerate().filter(move |(_, take)| counts(take)).map(|(at, _)| at)
}

/// What happened, as steps.
fn in_order(tape: &RecordedTraffic) -> Vec<Timed> {
    let counted: HashSet<usize> = judged(tape).collect();
    let mut reads: HashMap<usize, usize> = HashMap::new();
    for moment in &tape.timeline {
        if let Happened::Read { exchange, .. } = moment.what {
            *reads.entry(exchange).or_default() += 1;
        }
    }
    let mut seen: HashMap<usize, usize> = HashMap::new();
    let mut steps: Vec<Timed> = Vec::new();
    let mut before = 0;
    for moment in &tape.timeline {
        let (Happened::Asked(exchange) | Happened::Read { exchange, .. } | Happened::Ended(exchange)) =
            moment.what;
        let Some(take) = tape.by_exchange.get(&exchange).copied().filter(|take| counted.contains(take))
        else {
            continue;
        };
        let parts = tape.takes[take].response.parts.len();
        let step = match moment.what {
            Happened::Asked(_) => {
                let quiet = Duration::from_micros(moment.us.saturating_sub(before));
                Step::Arrive(take, PATIENCE.max(quiet * 3))
            }
            Happened::Read { .. } => {
                let seen = seen.entry(exchange).or_default();
                *seen += 1;
                // Parts need not be reads: of a body that was unpacked they are its events.
                Step::Send(take, (parts * *seen).div_ceil(reads[&exchange]))
            }
            Happened::Ended(_) => Step::Send(take, parts),
        };
        before = moment.us;
        steps.push((moment.us, step));
    }
    steps
}

/// The ends of agents, and what they lead to.
pub(super) struct Ends {
    pub(super) jobs: Vec<Job>,
    /// The last take of each lane.
    pub(super) last: HashMap<String, usize>,
    /// The takes of each turn of each lane.
    pub(super) turns: HashMap<(String, u32), Vec<usize>>,
    /// When each take was sent in full.
    sent_us: HashMap<usize, u64>,
    /// Those that wake their parent together.
    crowds: Vec<Crowd>,
}

impl Ends {
    fn of(tape: &RecordedTraffic) -> Self {
        let mut ends = Self {
            jobs: tape.lanes.jobs(),
            last: HashMap::new(),
            turns: HashMap::new(),
            sent_us: HashMap::new(),
            crowds: Vec::new(),
        };
        for take in judged(tape) {
            let at = &tape.takes[take];
            ends.turns.entry((at.lane.clone(), at.turn)).or_default().push(take);
            let last = ends.last.entry(at.lane.clone()).or_insert(take);
            if tape.takes[*last].turn <= at.turn {
                *last = take;
            }
            let parts = &at.response.parts;
            ends.sent_us.insert(take, at.asked_us + parts.last().map_or(0, |(_, us)| *us));
        }
        ends
    }

    /// Agents whose end is announced by a text, with the request whose reply comes before that text.
    fn announced(&self) -> impl Iterator<Item = (&Job, usize, usize)> {
        self.jobs.iter().flat_map(move |job| {
            let child = self.last.get(&job.lane).copied();
            job.notices.iter().filter_map(move |notice| {
                let before = notice.turn.checked_sub(1)?;
                let asked = self.turns.get(&(job.parent.clone(), before))?.last()?;
                Some((job, child?, *asked))
            })
        })
    }

    /// Replies that ask after an agent before its end: the answer did not bring its last words.
    fn touching(&self) -> impl Iterator<Item = usize> {
        self.jobs.iter().flat_map(|job| {
            job.touches
                .iter()
                .filter(|touch| job.delivered != Some(touch.turn + 1))
                .filter_map(|touch| self.turns.get(&(job.parent.clone(), touch.turn))?.last().copied())
        })
    }

    /// Whether the first take is of the lane that started the second one's in the background.
    fn is_parent(&self, tape: &RecordedTraffic, parent: usize, child: usize) -> bool {
        let lane = |take: usize| &tape.takes[take].lane;
        self.jobs.iter().any(|job| job.background && job.lane == *lane(child) && job.parent == *lane(parent))
    }

    /// Whether both are ends of agents that the same request of their parent tells of: it heard of them at once.
    fn heard_together(&self, tape: &RecordedTraffic, take: usize, next: usize) -> bool {
        let heard = |take: usize| {
            let lane = &tape.takes[take].lane;
            let job = self.jobs.iter().find(|job| job.lane == *lane)?;
            let told = job.notices.iter().map(|notice| notice.turn).chain(job.delivered).min()?;
            (self.last.get(lane) == Some(&take)).then_some((&job.parent, told))
        };
        heard(take).is_some_and(|told| heard(next) == Some(told))
    }

    /// Whether both are ends that wake their parent together.
    fn wake_together(&self, take: usize, next: usize) -> bool {
        self.crowds.iter().any(|crowd| crowd.contains(&take) && crowd.contains(&next))
    }

    /// What is waited for behind a response that was sent in full, where another one is next.
    fn wait_behind(
        &self,
        tape: &RecordedTraffic,
        take: usize,
        next: usize,
        gap: Duration,
        ended: &HashSet<usize>,
    ) -> Option<Step> {
        // What the parent is told of an agent depends on how far the agent has got by then.
        if self.touching().any(|asking| asking == take) {
            return Some(Step::Rest(NOTICE));
        }
        let lane = &tape.takes[take].lane;
        if lane == "main" || self.last.get(lane) != Some(&take) {
            return None;
        }
        // With more time between them the parent would ask in between, and what it asks was not recorded.
        let is_held = is_held(tape, self, take, ended);
        if !is_held && gap < CLOSE && self.heard_together(tape, take, next) {
            return Some(Step::Pause(gap));
        }
        let is_announced = self.announced().any(|(_, child, _)| child == take);
        // A parent that waits for its own answer cannot go on meanwhile, and may be about to ask after this agent.
        if is_announced || self.is_parent(tape, next, take) {
            return Some(Step::Pause(gap.clamp(LINKED.0, LINKED.1)));
        }
        Some(match is_held {
            true => Step::Rest(gap.max(NOTICE)),
            false => Step::Pause(NOTICE),
        })
    }

    /// Ends that must wait for the request before the text that announces them, and that request.
    fn reordered(&self, tape: &RecordedTraffic, steps: &[Timed]) -> Vec<(usize, usize)> {
        let position = |wanted: &dyn Fn(&Step) -> bool| steps.iter().position(|(_, step)| wanted(step));
        let mut moves = Vec::new();
        for (job, child, asked) in self.announced() {
            let turn = tape.takes[asked].turn;
            // What the request brings already did not wait for the text.
            let brought = job.delivered.is_some_and(|delivered| delivered <= turn);
            let parts = tape.takes[child].response.parts.len();
            let ended = position(&|step| *step == Step::Send(child, parts));
            let arrived = position(&|step| matches!(step, Step::Arrive(take, _) if *take == asked));
            if !brought && ended.zip(arrived).is_some_and(|(ended, arrived)| ended < arrived) {
                moves.push((child, asked));
            }
        }
        moves
    }
}

/// Moves the last step of `child` behind the arrival of `asked`.
fn move_behind(steps: &mut Vec<Timed>, child: usize, asked: usize) {
    let last = steps.iter().filter_map(|(_, step)| match step {
        Step::Send(take, upto) if *take == child => Some(*upto),
        _ => None,
    });
    let Some(last) = last.max() else { return };
    let Some(first) = steps.iter().position(|(_, step)| *step == Step::Send(child, last)) else { return };
    let moved = steps[first].clone();
    steps.retain(|(_, step)| *step != moved.1);
    let Some(arrived) =
        steps.iter().position(|(_, step)| matches!(step, Step::Arrive(take, _) if *take == asked))
    else {
        return;
    };
    steps.insert(arrived + 1, moved);
}

/// The steps with what must be waited for between them.
fn with_waits(tape: &RecordedTraffic, ends: &Ends, steps: &[Timed]) -> Vec<Step> {
    let mut holds: HashMap<usize, Vec<(usize, Duration)>> = HashMap::new();
    for (_, child, asked) in ends.announced() {
        let (from, to) = (ends.sent_us[&child], ends.sent_us[&asked]);
        if from < to {
            let hold = Duration::from_micros(to - from).mul_f64(1.25);
            holds.entry(asked).or_default().push((child, hold));
        }
    }
    let mut sent: HashMap<usize, usize> = HashMap::new();
    let mut ended: HashSet<usize> = HashSet::new();
    let mut out: Vec<Step> = Vec::new();
    for (at, (us, step)) in steps.iter().enumerate() {
        let Step::Send(take, upto) = *step else {
            out.push(step.clone());
            continue;
        };
        let so_far = sent.get(&take).copied().unwrap_or_default();
        if upto <= so_far {
            continue; // the end of what is sent in full
        }
        let response = &tape.takes[take].response;
        let is_whole = upto >= response.parts.len();
        for (child, hold) in holds.get(&take).into_iter().flatten().filter(|_| is_whole) {
            out.push(Step::Since(*child, *hold));
        }
        if so_far > 0 && began_work(tape, take, so_far) {
            out.push(Step::Rest(NOTICE));
        }
        match out.last_mut() {
            Some(Step::Send(before, so_far)) if *before == take => *so_far = upto,
            _ => out.push(Step::Send(take, upto)),
        }
        sent.insert(take, upto);
        if !is_whole {
            continue;
        }
        ended.insert(take);
        // A request that comes next is waited for anyway.
        let next = steps[at + 1..].iter().find(|(_, step)| !is_sent(step, &sent));
        if let Some((next_us, Step::Send(next, _))) = next {
            // The parent waits for others for a moment only, and on a busy machine each hand-over may take as long.
            if ends.wake_together(take, *next) {
                out.pop();
                out.push(Step::Let(take, upto));
                continue;
            }
            let gap = Duration::from_micros(next_us.saturating_sub(*us));
            out.extend(ends.wait_behind(tape, take, *next, gap, &ended));
        }
    }
    out
}

/// Whether a step has been taken already with the one before it.
fn is_sent(step: &Step, sent: &HashMap<usize, usize>) -> bool {
    matches!(step, Step::Send(take, upto) if sent.get(take).is_some_and(|so_far| so_far >= upto))
}

/// Whether a harness may have begun to run a tool between the part and the one before it.
fn began_work(tape: &RecordedTraffic, take: usize, part: usize) -> bool {
    const CALL_ENDS: [&[u8]; 3] = [b"content_block_stop", b"arguments.done", b"output_item.done"];
    let response = &tape.takes[take].response;
    let [Some(before), Some(this)] = [part.checked_sub(1), Some(part)].map(|at| response.parts.get(at?))
    else {
        return false;
    };
    let bytes = &response.body[before.0..this.0];
    let ends = |needle: &&[u8]| bytes.windows(needle.len()).any(|window| window == *needle);
    this.1.saturating_sub(before.1) >= WORKING && CALL_ENDS.iter().any(ends)
}

/// Whether the parent cannot go on at the end of this agent: its next request also carries the result of another
/// that has not ended.
fn is_held(tape: &RecordedTraffic, ends: &Ends, take: usize, ended: &HashSet<usize>) -> bool {
    let lanes = &tape.lanes.lanes;
    let Some(lane) = lanes.iter().find(|lane| lane.id == tape.takes[take].lane) else { return false };
    let Some(call) = &lane.spawned_by else { return false };
    let Some(parent) = lanes.iter().find(|other| Some(&other.id) == lane.parent.as_ref()) else {
        return false;
    };
    let carries = |turn: &&recording::lanes::Turn| turn.results.iter().any(|result| result.call == *call);
    let Some(turn) = parent.turns.iter().find(carries) else { return false };
    // Of one that works in the background the request only says that it was launched.
    let holds = |call: &CallId| !ends.jobs.iter().any(|job| job.call == *call && job.background);
    let is_running = |call: &CallId| {
        let spawned = lanes.iter().find(|lane| lane.spawned_by.as_ref() == Some(call));
        let last = spawned.and_then(|lane: &Lane| ends.last.get(&lane.id));
        last.is_some_and(|last| !ended.contains(last))
    };
    turn.results.iter().any(|result| result.call != *call && holds(&result.call) && is_running(&result.call))
}

/// What must have been sent in full before each take can arrive.
fn causes(tape: &RecordedTraffic) -> HashMap<usize, Vec<usize>> {
    let ends = Ends::of(tape);
    let mut causes: HashMap<usize, Vec<usize>> = HashMap::new();
    let of_turn =
        |lane: &str, turn: u32| ends.turns.get(&(lane.to_owned(), turn)).and_then(|takes| takes.last());
    for lane in &tape.lanes.lanes {
        for turn in &lane.turns {
            let takes = ends.turns.get(&(lane.id.clone(), turn.turn)).cloned().unwrap_or_default();
            for (attempt, take) in takes.iter().enumerate() {
                let causes = causes.entry(*take).or_default();
                causes.extend(attempt.checked_sub(1).map(|before| takes[before]));
                causes.extend(turn.turn.checked_sub(1).and_then(|before| of_turn(&lane.id, before)));
                for result in &turn.results {
                    let job = ends.jobs.iter().find(|job| job.call == result.call && !job.background);
                    causes.extend(job.and_then(|job| ends.last.get(&job.lane)));
                }
                if turn.turn == 1
                    && let Some(job) = ends.jobs.iter().find(|job| job.lane == lane.id)
                {
                    causes.extend(of_turn(&job.parent, job.launched));
                }
                let wakes = |job: &&Job| {
                    job.parent == lane.id && job.notices.iter().any(|notice| notice.turn == turn.turn)
                };
                causes.extend(ends.jobs.iter().filter(wakes).filter_map(|job| ends.last.get(&job.lane)));
            }
        }
    }
    for take in judged(tape) {
        causes.entry(take).or_default().retain(|cause| *cause != take);
    }
    causes
}

/// Numbers that are the same for the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) as usize % sides
    }
}
