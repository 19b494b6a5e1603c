//! The lane and turn of each exchange.

use std::collections::HashMap;

use recording::source::OrderedExchanges;

/// The position of an exchange among the lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangePosition<'o> {
    /// The lane, such as `main`.
    pub lane: &'o str,
    /// The turn in the lane, from 1.
    pub turn: u32,
    /// The attempt at that turn, from 1.
    pub attempt: usize,
    /// The turn's number in the recording, from 1.
    pub seq: u32,
}

/// Returns the position of each exchange, by its id.
pub fn exchange_positions(ordered: &OrderedExchanges) -> HashMap<&str, ExchangePosition<'_>> {
    let mut places = HashMap::new();
    for lane in &ordered.lanes.lanes {
        for turn in &lane.turns {
            for (n, request) in turn.attempts.iter().enumerate() {
                let place =
                    ExchangePosition { lane: &lane.id, turn: turn.turn, attempt: n + 1, seq: turn.seq };
                places.insert(request.as_str(), place);
            }
        }
    }
    places
}
