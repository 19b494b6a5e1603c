//! Compares the time of a replay at the recorded pace with the recorded time.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use super::start::{offshoot, record};
use super::table::{PaceRow, PerformanceAim, render_pace};
use super::target::{ReplayPace, ReplayTarget, ReplayTargetKind};
use super::{aimock, start_upstream};
use crate::bench::load::{self, LoadCall, Reads};
use crate::bench::on_runtime;
use crate::bench::target::{ProxyTargetKind, offshoot_program};
use crate::bench::traffic::Traffic;

const TRAFFIC: Traffic = Traffic { request: 20_000, events: 200, is_agent: true };
/// Average microseconds between two events: 3 s in total.
const GAP: u64 = 15_000;

/// Replays a slow response round after round, prints the table, and returns the aims.
pub(super) fn measure(rounds: u32, folder: &Path) -> Result<Vec<PerformanceAim>> {
    let (upstream, address) = start_upstream(folder, TRAFFIC.events, GAP)?;
    let mut targets = Vec::new();
    for kind in [ReplayTargetKind::Offshoot, ReplayTargetKind::Aimock] {
        match prepare(&kind, address, &folder.join(kind.name())) {
            Ok(target) => targets.push(target),
            Err(error) => eprintln!("the pace of {} is not measured: {error:#}", kind.name()),
        }
    }
    drop(upstream);
    let mut rows: Vec<PaceRow> = targets.iter().map(|(target, reads)| PaceRow::of(target, reads)).collect();
    for round in 0..rounds {
        for ((target, _), row) in targets.iter().zip(&mut rows) {
            let call =
                LoadCall { request: TRAFFIC.request(target.address), expected: target.expected(TRAFFIC) };
            let reads = on_runtime(load::once(target.address, &call))
                .with_context(|| format!("cannot measure {}", target.kind.name()))?;
            let took = reads.last().map_or(Duration::ZERO, |(time, _)| *time);
            eprintln!("round {}, recorded pace, {}: {took:.2?}", round + 1, target.kind.name());
            row.push(&reads);
        }
    }
    println!("{}", render_pace(&rows));
    Ok(rows.iter().filter(|row| row.kind == ReplayTargetKind::Offshoot).map(PaceRow::aim).collect())
}

/// Lets a target record the slow response and replay it. Returns the reads of the recorded response, too.
fn prepare(kind: &ReplayTargetKind, upstream: SocketAddr, folder: &Path) -> Result<(ReplayTarget, Reads)> {
    fs::create_dir(folder).with_context(|| format!("cannot create `{}`", folder.display()))?;
    if *kind == ReplayTargetKind::Aimock {
        let (fixtures, reads) = aimock::record(TRAFFIC, upstream, folder)?;
        return Ok((aimock::replay(TRAFFIC, &fixtures, ReplayPace::Recorded, folder)?, reads));
    }
    let (recording, reads) = record(&ProxyTargetKind::Offshoot, TRAFFIC, upstream, folder)?;
    Ok((offshoot(kind, &offshoot_program()?, &recording, ReplayPace::Recorded, folder)?, reads))
}
