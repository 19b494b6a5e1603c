//! Targets of the replay benchmark: nginx with a file, `offshoot replay`, aimock.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::bench::server::Server;
use crate::bench::traffic::Traffic;

/// A server that has the recorded response.
pub(super) struct ReplayTarget {
    pub(super) kind: ReplayTargetKind,
    /// Version and configuration.
    pub(super) description: String,
    pub(super) address: SocketAddr,
    pub(super) server: Server,
}

/// Kinds of targets in the order of the table.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ReplayTargetKind {
    Nginx,
    /// Another build of our program, usually the version before.
    Before(PathBuf),
    Offshoot,
    Aimock,
}

/// Pace of a replay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ReplayPace {
    Instant,
    Recorded,
}

impl ReplayTargetKind {
    /// Returns all kinds, with another build of our program if one is given.
    pub(super) fn selected(before: Option<&Path>) -> Vec<ReplayTargetKind> {
        let mut kinds = vec![ReplayTargetKind::Nginx];
        kinds.extend(before.map(|program| ReplayTargetKind::Before(program.to_owned())));
        kinds.extend([ReplayTargetKind::Offshoot, ReplayTargetKind::Aimock]);
        kinds
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            ReplayTargetKind::Nginx => "nginx",
            ReplayTargetKind::Before(_) => "offshoot replay, before",
            ReplayTargetKind::Offshoot => "offshoot replay",
            ReplayTargetKind::Aimock => "aimock",
        }
    }
}

impl ReplayTarget {
    pub(super) fn start(
        kind: ReplayTargetKind,
        description: String,
        address: SocketAddr,
        mut server: Server,
    ) -> Result<ReplayTarget> {
        server.wait_for_port(address)?;
        Ok(ReplayTarget { kind, description, address, server })
    }

    /// Returns the required response body; `None` for aimock, which does not keep the bytes.
    pub(super) fn expected(&self, traffic: Traffic) -> Option<Vec<u8>> {
        (self.kind != ReplayTargetKind::Aimock).then(|| traffic.events().concat().into_bytes())
    }

    /// Returns the peak memory in megabytes.
    pub(super) fn peak_memory(&self) -> f64 {
        self.server.tree().peak_memory() as f64 / 1e6
    }
}
