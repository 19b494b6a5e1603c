//! `recording.json`: what the folder is, and whether it can be trusted.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use redact::{RedactionReport, Redactor};
use serde::{Deserialize, Serialize};
use session::CallId;

use crate::body::sha256;
use crate::folder;
use crate::lanes::{Lane, LaneKind};
use crate::loss::{self, Loss};

/// The version that is written.
pub const MANIFEST_FORMAT: u32 = 1;

/// The manifest of a recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Version of the manifest.
    pub format: u32,
    /// The version of offshoot that wrote it.
    pub offshoot: String,
    /// The digests below hold, and nothing that looks like a secret was found.
    pub sealed: bool,
    /// Why it is not sealed, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsealed_because: Option<String>,
    /// When it began.
    pub started_at: String,
    /// When it ended.
    pub ended_at: Option<String>,
    /// The harness and what it was asked to do, where a scenario was captured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub harness: Option<Harness>,
    /// The command that was recorded.
    pub command: Option<Command>,
    /// The clock that the command saw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<Clock>,
    /// How far the command was kept from the world outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// Calls that went round the proxy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub round_the_proxy: Vec<Round>,
    /// What the command changed in its workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<Changes>,
    /// The addresses the recorder listened on.
    pub listen: Vec<String>,
    /// Where requests went: path prefix to address.
    pub upstreams: BTreeMap<String, String>,
    /// The script that answered in a model's stead, where one did.
    pub script: Option<String>,
    /// The recording that answered in a model's stead, where one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<Replay>,
    /// The lanes, in the order of their first request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lanes: Vec<LaneEntry>,
    /// How much there is.
    pub counts: Counts,
    /// What could not be kept.
    pub lost: Vec<Loss>,
    /// What was removed, by rule and place, never the value.
    pub redaction: RedactionReport,
    /// Bodies that could not be unpacked to be searched for secrets, and why.
    pub unsearched: Vec<String>,
    /// Places that look random enough to be a secret that no rule knows: a warning.
    pub suspicious: Vec<String>,
    /// SHA-256 of every file but this one and `normalized/`.
    pub digests: BTreeMap<String, String>,
}

/// A command and its surroundings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// The program and its arguments, redacted.
    pub argv: Vec<String>,
    /// Where it was started.
    pub cwd: String,
    /// Its HOME.
    pub home: Option<String>,
    /// Its folder for temporary files.
    pub tmpdir: Option<String>,
    /// What it returned; more than 128 stands for a signal, as shells have it.
    pub exit_code: Option<i32>,
    /// Why its output is not here, where it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_not_kept: Option<String>,
}

/// A harness in its version, and what it was asked to do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Harness {
    /// As in `claude-code`.
    pub name: String,
    /// Its version.
    pub version: Option<String>,
    /// The program that loads it, where it is a plugin.
    pub host: Option<Host>,
    /// The way it was run, where there are several.
    pub mode: Option<String>,
    /// The scenario's name.
    pub scenario: String,
    /// The model it was told to use.
    pub model: String,
    /// It talked to a real provider.
    pub live: bool,
}

/// A recording that answered in a model's stead.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    /// The recording, as it was named.
    pub of: String,
    /// The order that was kept.
    pub order: String,
    /// How fast it was.
    pub pace: String,
    /// What went wrong on purpose.
    pub faults: Vec<String>,
    /// SHA-256 of that recording's own manifest, where it has one: folders move, and a path is written in many ways.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

impl Replay {
    /// SHA-256 of the manifest in a folder.
    pub fn digest_of(recording: &Path) -> Option<String> {
        fs::read(recording.join(folder::MANIFEST)).ok().map(|manifest| sha256(&manifest))
    }
}

/// The program that loads a plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// As in `opencode`.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// The clock that a command saw.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clock {
    /// When the command was started.
    pub started_at: String,
    /// Its time zone.
    pub time_zone: String,
}

/// How far a command was kept from the world outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// What kept it.
    pub seal: NetworkSeal,
    /// Why nothing stronger did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// Where the proxy listened, in the command's network.
    pub proxy_port: u16,
}

/// What keeps a command from the world outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkSeal {
    /// A network of its own, in which every way out leads to us.
    Namespace,
    /// Variables that name a refusing proxy, which a program may ignore.
    Environment,
}

/// A call, or an attempt at one, that went round the proxy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Round {
    /// Where it wanted to go.
    pub host: String,
    /// The port, where it is known.
    pub port: Option<u16>,
    /// When it was first seen.
    pub at: String,
    /// How it was seen.
    pub seen_by: SeenBy,
    /// How often.
    pub count: u64,
}

/// How a call that went round the proxy was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SeenBy {
    /// It asked the refusing proxy.
    Proxy,
    /// It connected, in the command's own network.
    Connection,
    /// It asked for the host's address.
    Name,
}

/// Files that differ from how they were given, by their paths in the workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Changes {
    /// That were not there.
    pub added: Vec<String>,
    /// That have another content.
    pub changed: Vec<String>,
    /// That are gone.
    pub removed: Vec<String>,
}

/// A lane, in short; `normalized/` has its turns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaneEntry {
    /// As in `sub-1`.
    pub id: String,
    /// What it is.
    pub kind: LaneKind,
    /// The lane that started it.
    pub parent: Option<String>,
    /// The call that started it.
    pub spawned_by: Option<CallId>,
    /// How many turns it has.
    pub turns: usize,
    /// How many exchanges, attempts included.
    pub exchanges: usize,
}

impl LaneEntry {
    /// A lane, in short.
    pub(crate) fn of(lane: &Lane) -> Self {
        Self {
            id: lane.id.clone(),
            kind: lane.kind,
            parent: lane.parent.clone(),
            spawned_by: lane.spawned_by.clone(),
            turns: lane.turns.len(),
            exchanges: lane.requests().count(),
        }
    }
}

/// How much a recording holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Exchanges that arrived.
    pub exchanges: u64,
    /// With a whole response.
    pub complete: u64,
    /// That the harness left.
    pub cut_by_harness: u64,
    /// That the provider left.
    pub cut_by_upstream: u64,
    /// Without a response.
    pub no_response: u64,
}

/// Reading a manifest of any version: one step up per version.
#[derive(Debug)]
pub enum Reading {
    /// It is this.
    Good(Box<Manifest>),
    /// It was written by a newer version.
    Newer(u32),
    /// It is not a manifest.
    Bad(String),
}

impl Manifest {
    /// Reads a manifest of any version that was ever written.
    pub fn read(bytes: &[u8]) -> Reading {
        #[derive(Deserialize)]
        struct Versioned {
            format: u32,
        }
        match serde_json::from_slice::<Versioned>(bytes) {
            Err(error) => Reading::Bad(error.to_string()),
            Ok(Versioned { format: 0 }) => Reading::Bad("format 0 was never written".to_owned()),
            Ok(Versioned { format }) if format > MANIFEST_FORMAT => Reading::Newer(format),
            Ok(_) => match serde_json::from_slice(bytes) {
                Ok(manifest) => Reading::Good(Box::new(manifest)),
                Err(error) => Reading::Bad(error.to_string()),
            },
        }
    }

    /// What there is room for on a full disk: how many exchanges there were, and what could not be kept of them.
    pub(crate) fn bare(self, because: String) -> Self {
        Self {
            sealed: false,
            unsealed_because: Some(because),
            lanes: Vec::new(),
            lost: loss::few(self.lost),
            unsearched: Vec::new(),
            suspicious: Vec::new(),
            digests: BTreeMap::new(),
            ..self
        }
    }

    /// Takes the secrets out of everything in it that others have written: the command line, folders,
    /// addresses, reasons.
    pub(crate) fn redact(&mut self, redactor: &mut Redactor) {
        if let Some(command) = &mut self.command {
            command.argv = redactor.redact_command_line("command line", &command.argv);
        }
        let mut line = |place: &str, text: &mut String| {
            *text = String::from_utf8_lossy(&redactor.redact_text(place, text.as_bytes()).bytes).into_owned();
        };
        if let Some(command) = &mut self.command {
            line("working folder", &mut command.cwd);
            command.home.iter_mut().chain(&mut command.tmpdir).for_each(|folder| line("environment", folder));
        }
        if let Some(harness) = &mut self.harness {
            line("model", &mut harness.model);
        }
        if let Some(replay) = &mut self.replay {
            line("replayed recording", &mut replay.of);
        }
        for round in &mut self.round_the_proxy {
            line("host", &mut round.host);
        }
        if let Some(Changes { added, changed, removed }) = &mut self.workspace {
            [added, changed, removed].into_iter().flatten().for_each(|path| line("workspace", path));
        }
        self.unsealed_because.iter_mut().for_each(|reason| line("manifest", reason));
        self.unsearched.iter_mut().for_each(|body| line("manifest", body));
        self.lost.iter_mut().for_each(|loss| line("manifest", &mut loss.reason));
        for url in self.upstreams.values_mut() {
            *url = redactor.redact_url("upstream address", url);
        }
    }

    /// The file's text.
    pub fn to_json(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec_pretty(self).expect("a manifest has only string keys");
        text.push(b'\n');
        text
    }
}
