//! What the simulated cache of a script knows when a run is taken up again, or forked.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use proxy::CachedRequest;
use store::{Filter, Millis, Run, Store};

use crate::failure::{Kind, OrFail};

/// Every request of the tree that a run belongs to, with what came before it in the run it was forked from.
pub(super) fn known(store: &Store, row: &Run) -> anyhow::Result<Vec<CachedRequest>> {
    let mut top = row.clone();
    while let Some(parent) = &top.parent {
        top = store.run(parent).row().or_fail(Kind::Outside)?;
    }
    let mut known = Vec::new();
    for run in store.runs(&Filter { below: Some(top.id), ..Filter::default() }).or_fail(Kind::Outside)? {
        let row = store.run(&run.id).row().or_fail(Kind::Outside)?;
        let dialect = agent::RunSettings::from_bytes(&row.settings).or_fail(Kind::Outside)?.dialect();
        for call in store.run(&run.id).model_calls().or_fail(Kind::Outside)? {
            let Some(begun) = call.first_byte_at else { continue };
            // Nothing is left of a fork that keeps no transcript.
            let Ok(body) = agent::rebuild_request(store, &run.id, &call) else { continue };
            let Some(prompt) = cache::Prompt::decode(dialect, &body) else { continue };
            known.push(CachedRequest {
                prompt,
                asked_at: at(call.asked_at),
                answered_at: at(begun),
                usage: call.usage,
            });
        }
    }
    Ok(known)
}

fn at(millis: Millis) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(millis.0).unwrap_or_default())
}
