//! Names by which a lane's requests speak of its jobs.

use std::collections::{BTreeSet, HashMap, HashSet};

use recording::lanes::{JobCall, Lane, LaneJob, Lanes, lettered_ids};

use super::project::{Unit, UnitKind};

/// Names and calls of the jobs that a lane started.
#[derive(Clone, Debug, Default)]
pub(super) struct JobNames {
    /// Calls with results about a job: launches, polls, cancels.
    calls: HashSet<String>,
    /// Calls that poll a job which is still running.
    early_calls: HashSet<String>,
    /// The jobs that each word names.
    jobs: HashMap<String, BTreeSet<String>>,
}

impl JobNames {
    /// Collects the names of the jobs that a lane started. `name` maps a lane to its name in the result.
    pub(super) fn of(lanes: &Lanes, jobs: &[LaneJob], parent: &Lane, name: impl Fn(&str) -> String) -> Self {
        let mut names = Self::default();
        for job in jobs.iter().filter(|job| job.parent == parent.id && is_asynchronous(job)) {
            if job.background {
                names.calls.insert(job.call.as_str().to_owned());
            }
            names.calls.extend(job.touches.iter().map(|touch| touch.call.as_str().to_owned()));
            let is_early = |touch: &&JobCall| {
                !touch.cancels && job.delivered.is_none_or(|delivered| delivered > touch.turn + 1)
            };
            let early = job.touches.iter().filter(is_early);
            names.early_calls.extend(early.map(|touch| touch.call.as_str().to_owned()));
            let job_name = name(&job.lane);
            let mut add = |word: &str| {
                names.jobs.entry(word.to_owned()).or_default().insert(job_name.clone());
            };
            add(job.call.as_str());
            let child = lanes.lane(&job.lane);
            let own = child.into_iter().flat_map(|lane| lane.agent.iter().chain(&lane.session));
            own.filter(|id| parent.session.as_ref() != Some(id)).for_each(|id| add(id));
            let mut results = parent.turns.iter().flat_map(|turn| &turn.results);
            let launch = results.find(|result| result.call == job.call).map(|result| result.text.as_str());
            let is_name = |word: &&str| word.len() >= 6 && word.bytes().any(|byte| byte.is_ascii_digit());
            let launch = launch.unwrap_or_default();
            words(launch).filter(is_name).chain(lettered_ids(launch)).for_each(add);
        }
        names
    }

    /// Returns the words that name a job.
    pub(super) fn words(&self) -> impl Iterator<Item = &str> {
        self.jobs.keys().map(String::as_str)
    }

    /// Returns whether a unit is about a job: a result of a call that concerns one, or a text that names one.
    pub(super) fn concern(&self, unit: &Unit) -> bool {
        match unit.kind {
            UnitKind::Text => unit.message.follows_reply && self.has_name_in(&unit.json),
            UnitKind::Result => unit.call.as_ref().is_some_and(|call| self.calls.contains(call)),
            _ => false,
        }
    }

    /// Returns whether a result is about a job that was still running.
    pub(super) fn is_early_result(&self, unit: &Unit) -> bool {
        unit.call.as_ref().is_some_and(|call| self.early_calls.contains(call))
    }

    fn has_name_in(&self, json: &str) -> bool {
        !self.jobs.is_empty() && words(&wire::json::unescape(json)).any(|word| self.jobs.contains_key(word))
    }

    /// Returns the jobs that a text, given as JSON, names by unambiguous words.
    pub(super) fn named_in(&self, json: &str) -> BTreeSet<String> {
        let text = wire::json::unescape(json);
        let named = words(&text).filter_map(|word| self.jobs.get(word)).filter(|jobs| jobs.len() == 1);
        named.flatten().cloned().collect()
    }
}

/// Returns whether a job ran in the background, or was polled, cancelled or announced.
pub(super) fn is_asynchronous(job: &LaneJob) -> bool {
    job.background || !job.touches.is_empty() || !job.notices.is_empty()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'))
}
