//! When to try again, and when to stop. Pure: the caller sleeps.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::failure::{ProviderFailure, RetryAdvice};

/// The rules for trying again.
#[derive(Clone, Debug)]
pub struct Backoff {
    /// How often a request is sent at most, the first time included.
    pub max_attempts: u32,
    /// The longest pause after the first attempt; it doubles with each.
    pub base: Duration,
    /// The longest pause that we choose ourselves.
    pub cap: Duration,
    /// The longest pause that a provider may ask for.
    pub patience: Duration,
    /// What all runs share.
    pub budget: Arc<RetryBudget>,
}

/// What to do after a failed attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RetryDecision {
    /// Try again after that while.
    Wait(Duration),
    /// Do not try again.
    GiveUp {
        /// Why not.
        reason: String,
        /// How long the provider wants to be left alone, where it said so.
        again_in: Option<Duration>,
    },
}

/// How many retries all runs of the process have left together.
///
/// A provider that is down for one run is down for all of them, and a thousand runs that each try ten times
/// are what keeps it down. A retry takes one from the budget and a success gives one back, so in a storm there
/// are no more retries than the budget holds, and when it is over they come back by themselves: first
/// attempts are never held back.
#[derive(Debug)]
pub struct RetryBudget {
    left: AtomicU32,
    most: u32,
}

impl RetryBudget {
    /// A full budget.
    pub fn new(most: u32) -> Self {
        Self { left: AtomicU32::new(most), most }
    }

    /// The one that the process has.
    pub fn shared() -> Arc<Self> {
        static SHARED: OnceLock<Arc<RetryBudget>> = OnceLock::new();
        SHARED.get_or_init(|| Arc::new(Self::new(200))).clone()
    }

    /// A request was answered.
    pub fn succeeded(&self) {
        let back = |left: u32| Some(left.saturating_add(1).min(self.most));
        // Never fails: the closure always has a value.
        let _ = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, back);
    }

    fn take(&self) -> bool {
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            max_attempts: 8,
            base: Duration::from_secs(1),
            cap: Duration::from_secs(32),
            patience: Duration::from_secs(300),
            budget: RetryBudget::shared(),
        }
    }
}

impl Backoff {
    /// What to do after the attempt of that number, from 1, has failed.
    pub fn next(&self, attempt: u32, failure: &ProviderFailure, random: &mut fastrand::Rng) -> RetryDecision {
        let give_up = |reason: String| RetryDecision::GiveUp { reason, again_in: None };
        let asked = match failure.retry {
            RetryAdvice::No => return give_up("trying again would not help".to_owned()),
            RetryAdvice::Yes => None,
            RetryAdvice::After(wait) => Some(wait),
        };
        if let Some(wait) = asked.filter(|wait| *wait > self.patience) {
            let (wanted, most) = (in_words(wait), in_words(self.patience));
            let reason =
                format!("the provider wants to be asked again in {wanted}, and we wait {most} at most");
            return RetryDecision::GiveUp { reason, again_in: Some(wait) };
        }
        if attempt >= self.max_attempts {
            return give_up(format!("it failed {attempt} times"));
        }
        if !self.budget.take() {
            return give_up("too many requests have failed lately, in this run and others".to_owned());
        }
        // Everybody who was refused together would come back together, so nobody comes back at once.
        let random = random.f64();
        let grown = self.cap.min(self.base.saturating_mul(1 << (attempt - 1).min(20))).mul_f64(random);
        let wished = asked.map(|wait| wait + self.base.mul_f64(random));
        // Who wants to be asked again at once, and refuses again, is not asked faster for it.
        RetryDecision::Wait(wished.map_or(grown, |wished| wished.max(grown)))
    }

    /// A request was answered.
    pub fn succeeded(&self) {
        self.budget.succeeded();
    }
}

/// `90 s`, `7 min`, `3 h`
fn in_words(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h", seconds.div_ceil(3600)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::failure::FailureKind;
    use super::*;

    fn failure(retry: RetryAdvice) -> ProviderFailure {
        ProviderFailure::new(FailureKind::Overloaded, "overloaded", retry)
    }

    fn retries(budget: u32) -> Backoff {
        Backoff { budget: Arc::new(RetryBudget::new(budget)), ..Backoff::default() }
    }

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn pauses_double_up_to_the_cap_and_spread_over_their_whole_length() {
        let mut random = fastrand::Rng::with_seed(7);
        for (attempt, longest) in [(1, 1.0), (2, 2.0), (3, 4.0), (6, 32.0), (7, 32.0)] {
            let retries = retries(1000);
            let mut waits = Vec::new();
            for _ in 0..200 {
                match retries.next(attempt, &failure(RetryAdvice::Yes), &mut random) {
                    RetryDecision::Wait(wait) => waits.push(wait),
                    given_up => panic!("{given_up:?}"),
                }
            }
            assert!(waits.iter().all(|wait| *wait <= seconds(longest)), "{attempt}: {waits:?}");
            assert!(waits.iter().any(|wait| *wait > seconds(longest * 0.9)), "{attempt}: {waits:?}");
            assert!(waits.iter().any(|wait| *wait < seconds(longest * 0.1)), "{attempt}: {waits:?}");
        }
    }

    #[test]
    fn what_the_provider_asks_for_is_kept_to() {
        let mut random = fastrand::Rng::with_seed(7);
        let retries = retries(1000);
        for asked in [0.0, 3.0, 299.0] {
            let asked = seconds(asked);
            match retries.next(1, &failure(RetryAdvice::After(asked)), &mut random) {
                RetryDecision::Wait(wait) => {
                    assert!(wait >= asked && wait <= asked + retries.base, "{wait:?}")
                }
                given_up => panic!("{given_up:?}"),
            }
        }
        // Who says "at once" again and again is not asked faster for it.
        let now =
            |random: &mut fastrand::Rng| retries.next(6, &failure(RetryAdvice::After(seconds(0.0))), random);
        let waits: Vec<_> = (0..50).map(|_| now(&mut random)).collect();
        assert!(
            waits.iter().any(|wait| matches!(wait, RetryDecision::Wait(wait) if *wait > seconds(16.0))),
            "{waits:?}"
        );
        let hour = seconds(3599.0);
        let RetryDecision::GiveUp { reason, again_in } =
            retries.next(1, &failure(RetryAdvice::After(hour)), &mut random)
        else {
            panic!("nobody waits an hour");
        };
        assert_eq!(again_in, Some(hour));
        assert_eq!(reason, "the provider wants to be asked again in 60 min, and we wait 5 min at most");
    }

    #[test]
    fn there_is_an_end() {
        let mut random = fastrand::Rng::with_seed(7);
        let is_over = |decision| matches!(decision, RetryDecision::GiveUp { again_in: None, .. });
        assert!(is_over(retries(9).next(1, &failure(RetryAdvice::No), &mut random)));
        assert!(is_over(retries(9).next(8, &failure(RetryAdvice::Yes), &mut random)));
        assert!(is_over(retries(0).next(1, &failure(RetryAdvice::Yes), &mut random)));
        assert!(!is_over(retries(1).next(7, &failure(RetryAdvice::Yes), &mut random)));
    }

    /// A thousand runs, each of many turns, against a provider that fails as `fails` says.
    fn storm(
        runs: u32,
        turns: u32,
        budget: u32,
        mut fails: impl FnMut(&mut fastrand::Rng) -> bool,
    ) -> (u32, u32, u32) {
        let retries = retries(budget);
        let mut random = fastrand::Rng::with_seed(11);
        let (mut attempts, mut successes, mut firsts) = (0, 0, 0);
        let mut alive: Vec<(u32, u32)> = vec![(0, 1); runs as usize]; // turns done, number of this attempt
        while !alive.is_empty() {
            alive.retain_mut(|(done, attempt)| {
                attempts += 1;
                firsts += u32::from(*attempt == 1);
                if fails(&mut random) {
                    let decision = retries.next(*attempt, &failure(RetryAdvice::Yes), &mut random);
                    *attempt += 1;
                    return matches!(decision, RetryDecision::Wait(_));
                }
                retries.succeeded();
                successes += 1;
                (*done, *attempt) = (*done + 1, 1);
                *done < turns
            });
        }
        (attempts, successes, firsts)
    }

    #[test]
    fn a_storm_over_a_thousand_runs_stays_within_the_budget() {
        let (attempts, successes, firsts) = storm(1000, 10, 200, |_| true);
        assert_eq!((attempts, successes, firsts), (1200, 0, 1000));
        // Half of them fail: no more retries than the budget and what successes gave back.
        let (attempts, successes, firsts) = storm(1000, 10, 200, |random| random.bool());
        assert!(attempts - firsts <= 200 + successes, "{attempts} {successes} {firsts}");
        // A few fail: nobody notices.
        let (_, successes, _) = storm(1000, 10, 200, |random| random.u8(..) < 8);
        assert_eq!(successes, 10_000);
    }
}
