//! Ids of runs: new ones, and those that follow from the call that starts a run.

use session::RunId;
use store::{CallKey, Millis};

/// Digits that sort like the numbers they write, without those that look alike.
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Creates an id: nine digits of the time, then seven random ones, so that ids sort by time.
pub(crate) fn new_run_id(at: Millis) -> RunId {
    let millis = u64::try_from(at.0).unwrap_or(0);
    RunId::new(format!("{}{}", digits(millis, 9), digits(fastrand::u64(..), 7)))
}

/// Returns the id of the run that a call starts. It follows from the call, so that a repeated call finds its run.
pub(crate) fn child_id(call: &CallKey) -> RunId {
    let CallKey { run, message, position } = call;
    RunId::new(format!("{run}-{message}-{position}"))
}

/// Returns the message and the position in it of the call that started a run.
pub(crate) fn call_position(parent: &RunId, child: &RunId) -> Option<(u64, u64)> {
    let (message, position) =
        child.as_str().strip_prefix(parent.as_str())?.strip_prefix('-')?.split_once('-')?;
    Some((message.parse().ok()?, position.parse().ok()?))
}

fn digits(number: u64, count: u32) -> String {
    let digit = |place: u32| DIGITS[(number >> (5 * place) & 31) as usize] as char;
    (0..count).rev().map(digit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_time() {
        let at = |millis: i64| new_run_id(Millis(millis));
        let (earlier, later, much_later) =
            (at(1_767_225_600_001), at(1_767_225_600_002), at(3_471_292_800_000));
        assert!(earlier < later && later < much_later);
        assert_eq!(earlier.as_str().len(), 16);
    }
}
