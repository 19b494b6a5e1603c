//! Requests that fill the simulated prompt cache of a script when a run is resumed or forked.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use proxy::CachedRequest;
use store::{Filter, Millis, Run, Store};

use crate::failure::{ExitKind, OrFail};

/// Returns all requests of the tree that a run belongs to, including those of runs it was forked from.
pub(super) fn prior_requests(store: &Store, row: &Run) -> anyhow::Result<Vec<CachedRequest>> {
    let mut root = row.clone();
    while let Some(parent) = &root.parent {
        root = store.run(parent).row().or_fail(ExitKind::Outside)?;
    }
    let mut requests = Vec::new();
    for run in store.runs(&Filter { below: Some(root.id), ..Filter::default() }).or_fail(ExitKind::Outside)? {
        let row = store.run(&run.id).row().or_fail(ExitKind::Outside)?;
        let dialect = agent::RunSettings::from_bytes(&row.settings).or_fail(ExitKind::Outside)?.dialect();
        for call in store.run(&run.id).model_calls().or_fail(ExitKind::Outside)? {
            let Some(first_byte_at) = call.first_byte_at else { continue };
            // A fork without a transcript has no requests.
            let Ok(body) = agent::rebuild_request(store, &run.id, &call) else { continue };
            let Some(prompt) = cache::CachePrompt::decode(dialect, &body) else { continue };
            requests.push(CachedRequest {
                prompt,
                asked_at: system_time(call.asked_at),
                answered_at: system_time(first_byte_at),
                usage: call.usage,
            });
        }
    }
    Ok(requests)
}

fn system_time(millis: Millis) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(millis.0).unwrap_or_default())
}
