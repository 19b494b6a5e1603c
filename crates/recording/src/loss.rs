//! List of everything that could not be kept.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Number of losses from which they are merged.
const MANY: usize = 200;
/// Number of losses that fit into a manifest on a full disk.
const FEW: usize = 500;

/// Part of a recording that could not be kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Loss {
    /// Exchange id such as `r000007`, or a range such as `r000007-r000105` with equal losses; `None` for the
    /// command's output.
    pub request_id: Option<String>,
    /// Kind of the loss, such as `response body`.
    pub what: String,
    /// Number of bytes.
    pub bytes: u64,
    /// Reason.
    pub reason: String,
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let whose = self.request_id.as_deref().unwrap_or("command");
        write!(f, "{whose}: {} ({} bytes): {}", self.what, self.bytes, self.reason)
    }
}

/// Merges losses for a manifest that must fit on a full disk: one per exchange and reason, and one per range of
/// exchanges with the same loss.
pub(crate) fn compact(mut losses: Vec<Loss>) -> Vec<Loss> {
    if losses.len() <= MANY {
        return losses;
    }
    // The order of the parts must not matter.
    losses.sort_by(|a, b| a.what.cmp(&b.what));
    let mut by_exchange: BTreeMap<(Option<String>, String), Loss> = BTreeMap::new();
    for loss in losses {
        by_exchange
            .entry((loss.request_id.clone(), loss.reason.clone()))
            .and_modify(|all| {
                all.what = format!("{}, {}", all.what, loss.what);
                all.bytes += loss.bytes;
            })
            .or_insert(loss);
    }
    let mut runs: Vec<Loss> = Vec::new();
    for loss in by_exchange.into_values() {
        match runs.last_mut() {
            Some(run) if continues(run, &loss) => {
                let first =
                    run.request_id.as_deref().and_then(|ids| ids.split('-').next()).unwrap_or_default();
                run.request_id = Some(format!("{first}-{}", loss.request_id.unwrap_or_default()));
                run.bytes += loss.bytes;
            }
            _ => runs.push(loss),
        }
    }
    runs
}

/// Keeps as many losses as fit into the reserved space, and sums up the rest.
pub(crate) fn few(mut losses: Vec<Loss>) -> Vec<Loss> {
    let others = losses.split_off(losses.len().min(FEW));
    if !others.is_empty() {
        losses.push(Loss {
            request_id: None,
            what: format!("{} more losses", others.len()),
            bytes: others.iter().map(|loss| loss.bytes).sum(),
            reason: "no room to list them".to_owned(),
        });
    }
    losses
}

fn continues(run: &Loss, next: &Loss) -> bool {
    let number = |id: &Option<String>| id.as_deref()?.rsplit('r').next()?.parse::<u64>().ok();
    let follows = number(&run.request_id).is_some_and(|last| number(&next.request_id) == Some(last + 1));
    follows && run.what == next.what && run.reason == next.reason
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_no_room_is_left_for_are_counted() {
        let loss = |n: u64| Loss {
            request_id: Some(format!("r{n:06}")),
            what: "request body".into(),
            bytes: n,
            reason: "full".into(),
        };
        let losses: Vec<Loss> = (1..=700).map(loss).collect();
        assert_eq!(few(losses[..500].to_vec()), losses[..500]);
        let few = few(losses.clone());
        assert_eq!((few.len(), &few[..500]), (501, &losses[..500]));
        let told = few[500].to_string();
        assert_eq!(told, "command: 200 more losses (120100 bytes): no room to list them");
    }

    #[test]
    fn many_losses_fit_few_lines_and_every_byte_is_counted() {
        let loss = |n: u64, what: &str, bytes| Loss {
            request_id: Some(format!("r{n:06}")),
            what: what.into(),
            bytes,
            reason: "full".into(),
        };
        let few = vec![loss(1, "request body", 1)];
        assert_eq!(compact(few.clone()), few);
        let both = |n| [loss(n, "request body", 2), loss(n, "response body", 3)];
        let turned = |n| if n % 3 == 0 { both(n).into_iter().rev().collect() } else { both(n).to_vec() };
        let mut many: Vec<Loss> = (5..1005).flat_map(turned).collect();
        many.push(loss(2000, "response body", 7));
        let told: Vec<String> = compact(many).iter().map(Loss::to_string).collect();
        assert_eq!(
            told,
            [
                "r000005-r001004: request body, response body (5000 bytes): full",
                "r002000: response body (7 bytes): full"
            ]
        );
    }
}
