//! Decides when to retry and when to stop. Pure: the caller sleeps.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::failure::{ProviderFailure, RetryAdvice};

/// The rules for retries.
#[derive(Clone, Debug)]
pub struct Backoff {
    /// Maximum number of attempts, including the first.
    pub max_attempts: u32,
    /// Maximum pause after the first attempt. It doubles with each attempt.
    pub base: Duration,
    /// Maximum pause of our own choice.
    pub cap: Duration,
    /// Maximum pause that a provider may request.
    pub patience: Duration,
    /// The budget that all runs share.
    pub budget: Arc<RetryBudget>,
}

/// The decision after a failed attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RetryDecision {
    /// Retry after this pause.
    Wait(Duration),
    /// Do not retry.
    GiveUp {
        /// The reason.
        reason: String,
        /// The pause that the provider requested.
        retry_after: Option<Duration>,
    },
}

/// The retries that all runs of the process have left together.
///
/// A provider that fails for one run fails for all, and a thousand runs with ten retries each keep it down.
/// A retry takes one unit from the budget and a success returns one. So a storm has no more retries than the
/// budget holds, and the budget recovers when it is over. First attempts are never delayed.
#[derive(Debug)]
pub struct RetryBudget {
    remaining: AtomicU32,
    capacity: u32,
}

impl RetryBudget {
    /// Creates a full budget.
    pub fn new(capacity: u32) -> Self {
        Self { remaining: AtomicU32::new(capacity), capacity }
    }

    /// Returns the budget of the process.
    pub fn shared() -> Arc<Self> {
        static SHARED: OnceLock<Arc<RetryBudget>> = OnceLock::new();
        SHARED.get_or_init(|| Arc::new(Self::new(200))).clone()
    }

    /// Notes an answered request.
    pub fn succeeded(&self) {
        let back = |remaining: u32| Some(remaining.saturating_add(1).min(self.capacity));
        // Never fails: the closure always returns a value.
        let _ = self.remaining.fetch_update(Ordering::Relaxed, Ordering::Relaxed, back);
    }

    fn take(&self) -> bool {
        self.remaining
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |remaining| remaining.checked_sub(1))
            .is_ok()
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
    /// Decides what to do after the failed attempt with this 1-based number.
    pub fn next(&self, attempt: u32, failure: &ProviderFailure, random: &mut fastrand::Rng) -> RetryDecision {
        let give_up = |reason: String| RetryDecision::GiveUp { reason, retry_after: None };
        let requested = match failure.retry {
            RetryAdvice::No => return give_up("a retry would not help".to_owned()),
            RetryAdvice::Yes => None,
            RetryAdvice::After(wait) => Some(wait),
        };
        if let Some(wait) = requested.filter(|wait| *wait > self.patience) {
            let (wait_text, maximum) = (in_words(wait), in_words(self.patience));
            let reason = format!("the provider asks for a pause of {wait_text}; the maximum is {maximum}");
            return RetryDecision::GiveUp { reason, retry_after: Some(wait) };
        }
        if attempt >= self.max_attempts {
            return give_up(format!("it failed {attempt} times"));
        }
        if !self.budget.take() {
            return give_up("too many requests have failed lately, in this run and others".to_owned());
        }
        // Jitter: runs that were refused together must not return together.
        let random = random.f64();
        let grown = self.cap.min(self.base.saturating_mul(1 << (attempt - 1).min(20))).mul_f64(random);
        let requested_wait = requested.map(|wait| wait + self.base.mul_f64(random));
        // A provider that requests no pause and refuses again is not asked faster for that.
        RetryDecision::Wait(requested_wait.map_or(grown, |wait| wait.max(grown)))
    }

    /// Notes an answered request.
    pub fn succeeded(&self) {
        self.budget.succeeded();
    }
}

/// Formats a time as `90 s`, `7 min` or `3 h`.
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
    fn the_provider_s_retry_delay_is_respected() {
        let mut random = fastrand::Rng::with_seed(7);
        let retries = retries(1000);
        for requested in [0.0, 3.0, 299.0] {
            let requested = seconds(requested);
            match retries.next(1, &failure(RetryAdvice::After(requested)), &mut random) {
                RetryDecision::Wait(wait) => {
                    assert!(wait >= requested && wait <= requested + retries.base, "{wait:?}")
                }
                given_up => panic!("{given_up:?}"),
            }
        }
        // A provider that requests no pause again and again is not asked faster for that.
        let now =
            |random: &mut fastrand::Rng| retries.next(6, &failure(RetryAdvice::After(seconds(0.0))), random);
        let waits: Vec<_> = (0..50).map(|_| now(&mut random)).collect();
        assert!(
            waits.iter().any(|wait| matches!(wait, RetryDecision::Wait(wait) if *wait > seconds(16.0))),
            "{waits:?}"
        );
        let hour = seconds(3599.0);
        let RetryDecision::GiveUp { reason, retry_after } =
            retries.next(1, &failure(RetryAdvice::After(hour)), &mut random)
        else {
            panic!("nobody waits an hour");
        };
        assert_eq!(retry_after, Some(hour));
        assert_eq!(reason, "the provider asks for a pause of 60 min; the maximum is 5 min");
    }

    #[test]
    fn retries_are_limited() {
        let mut random = fastrand::Rng::with_seed(7);
        let is_over = |decision| matches!(decision, RetryDecision::GiveUp { retry_after: None, .. });
        assert!(is_over(retries(9).next(1, &failure(RetryAdvice::No), &mut random)));
        assert!(is_over(retries(9).next(8, &failure(RetryAdvice::Yes), &mut random)));
        assert!(is_over(retries(0).next(1, &failure(RetryAdvice::Yes), &mut random)));
        assert!(!is_over(retries(1).next(7, &failure(RetryAdvice::Yes), &mut random)));
    }

    /// Simulates a thousand runs of many turns against a provider that fails as `fails` says.
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
        // Half of the requests fail: no more retries than the budget and the successes allow.
        let (attempts, successes, firsts) = storm(1000, 10, 200, |random| random.bool());
        assert!(attempts - firsts <= 200 + successes, "{attempts} {successes} {firsts}");
        // A few requests fail: every run completes.
        let (_, successes, _) = storm(1000, 10, 200, |random| random.u8(..) < 8);
        assert_eq!(successes, 10_000);
    }
}
