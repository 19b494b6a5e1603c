//! `recording.json`: the manifest of a recording.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use redact::{RedactionReport, Redactor};
use serde::{Deserialize, Serialize};
use session::CallId;

use crate::body::sha256;
use crate::file_names;
use crate::lanes::{Lane, LaneKind};
use crate::loss::{self, Loss};

/// Version of the manifests that are written.
pub const MANIFEST_FORMAT: u32 = 1;

/// Manifest of a recording.
///
/// The struct is the format of the file, one field per member, so it is not split.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Version of the manifest.
    pub format: u32,
    /// Version of offshoot that wrote the manifest.
    pub offshoot: String,
    /// True if the recording is sealed: the digests below are valid, and no leftover secret was found.
    pub sealed: bool,
    /// Reason why the recording is not sealed, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsealed_because: Option<String>,
    /// Time when the recording began.
    pub started_at: String,
    /// Time when the recording ended.
    pub ended_at: Option<String>,
    /// Harness and scenario, if a scenario was captured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub harness: Option<HarnessInfo>,
    /// Recorded command.
    pub command: Option<Command>,
    /// Clock of the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<Clock>,
    /// Network isolation of the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// Calls that bypassed the proxy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub round_the_proxy: Vec<ProxyBypass>,
    /// Files that the command changed in its workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<WorkspaceChanges>,
    /// Addresses that the recorder listened on.
    pub listen: Vec<String>,
    /// Upstream addresses by path prefix.
    pub upstreams: BTreeMap<String, String>,
    /// Header in which the program sends the id of its conversation, if the user named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_header: Option<String>,
    /// Script that answered instead of a model, if any.
    pub script: Option<String>,
    /// Recording that answered instead of a model, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<Replay>,
    /// Lanes in the order of their first request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lanes: Vec<LaneEntry>,
    /// Numbers of exchanges.
    pub counts: Counts,
    /// List of everything that could not be kept.
    pub lost: Vec<Loss>,
    /// Redacted values by rule and place, never the values themselves.
    pub redaction: RedactionReport,
    /// Bodies, files, and parts of them that could not be searched for secrets, with reasons.
    pub unsearched: Vec<String>,
    /// Places that look random enough to be an unknown kind of secret: a warning.
    pub suspicious: Vec<String>,
    /// SHA-256 of every file except this one and `normalized/`.
    pub digests: BTreeMap<String, String>,
}

/// Command and its environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// Program and arguments, redacted.
    pub argv: Vec<String>,
    /// Working folder.
    pub cwd: String,
    /// HOME folder.
    pub home: Option<String>,
    /// Folder for temporary files.
    pub tmpdir: Option<String>,
    /// Exit code; 128 plus the signal number after a signal, as in shells.
    pub exit_code: Option<i32>,
    /// Reason why the command's output was not kept, if it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_not_kept: Option<String>,
}

/// Harness, its version, and its task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HarnessInfo {
    /// Name, such as `claude-code`.
    pub name: String,
    /// Version of the harness.
    pub version: Option<String>,
    /// Program that loads the harness, if it is a plugin.
    pub host: Option<PluginHost>,
    /// Mode of the run, if the harness has several.
    pub mode: Option<String>,
    /// Name of the scenario.
    pub scenario: String,
    /// Model that the harness was configured with.
    pub model: String,
    /// True if the harness talked to a real provider.
    pub live: bool,
}

/// Replay that answered instead of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    /// Replayed recording, as named by the user.
    pub of: String,
    /// Order of the replies.
    pub order: String,
    /// Pace of the replies.
    pub pace: String,
    /// Injected faults.
    pub faults: Vec<String>,
    /// SHA-256 of the replayed recording's manifest, if it has one. A path alone may change or be written in
    /// several ways.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

impl Replay {
    /// Returns the SHA-256 of the manifest in a folder.
    pub fn digest_of(recording: &Path) -> Option<String> {
        fs::read(recording.join(file_names::MANIFEST)).ok().map(|manifest| sha256(&manifest))
    }
}

/// Program that loads a plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginHost {
    /// Name, such as `opencode`.
    pub name: String,
    /// Version of the program.
    pub version: String,
}

/// Clock of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clock {
    /// Start time of the command.
    pub started_at: String,
    /// Time zone of the command.
    pub time_zone: String,
}

/// Network isolation of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Means of isolation.
    pub seal: NetworkIsolation,
    /// Reason why nothing stronger was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// Port of the proxy in the command's network.
    pub proxy_port: u16,
}

/// Means of isolating a command from the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkIsolation {
    /// Network namespace whose only way out is the proxy.
    Namespace,
    /// Variables that name a refusing proxy. A program may ignore them.
    Environment,
}

/// Call, or attempted call, that bypassed the proxy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProxyBypass {
    /// Target host.
    pub host: String,
    /// Target port, if known.
    pub port: Option<u16>,
    /// Time when it was first seen.
    pub at: String,
    /// Evidence of the call.
    pub seen_by: BypassEvidence,
    /// Number of calls.
    pub count: u64,
}

/// Evidence of a call that bypassed the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BypassEvidence {
    /// It asked the refusing proxy.
    Proxy,
    /// It connected, in the command's own network.
    Connection,
    /// It looked up the host's address.
    Name,
}

/// Changed files by their paths in the workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceChanges {
    /// New files.
    pub added: Vec<String>,
    /// Files with other contents.
    pub changed: Vec<String>,
    /// Removed files.
    pub removed: Vec<String>,
}

/// Summary of a lane. `normalized/` has its turns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaneEntry {
    /// Id, such as `sub-1`.
    pub id: String,
    /// Kind of the lane.
    pub kind: LaneKind,
    /// Parent lane.
    pub parent: Option<String>,
    /// Call that started the lane.
    pub spawned_by: Option<CallId>,
    /// Number of turns.
    pub turns: usize,
    /// Number of exchanges, including retries.
    pub exchanges: usize,
}

impl LaneEntry {
    /// Summarises a lane.
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

/// Numbers of exchanges in a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// All exchanges.
    pub exchanges: u64,
    /// Exchanges with a complete response.
    pub complete: u64,
    /// Exchanges cut by the harness.
    pub cut_by_harness: u64,
    /// Exchanges cut by the upstream.
    pub cut_by_upstream: u64,
    /// Exchanges without a response.
    pub no_response: u64,
}

/// Result of reading a manifest of any version. There is one conversion per version.
#[derive(Debug)]
pub enum ParsedManifest {
    /// Valid manifest.
    Valid(Box<Manifest>),
    /// Format of a newer version.
    Newer(u32),
    /// Reason why it is not a manifest.
    Invalid(String),
}

impl Manifest {
    /// Reads a manifest of any version.
    pub fn read(bytes: &[u8]) -> ParsedManifest {
        #[derive(Deserialize)]
        struct Versioned {
            format: u32,
        }
        match serde_json::from_slice::<Versioned>(bytes) {
            Err(error) => ParsedManifest::Invalid(error.to_string()),
            Ok(Versioned { format: 0 }) => ParsedManifest::Invalid("format 0 was never written".to_owned()),
            Ok(Versioned { format }) if format > MANIFEST_FORMAT => ParsedManifest::Newer(format),
            Ok(_) => match serde_json::from_slice(bytes) {
                Ok(manifest) => ParsedManifest::Valid(Box::new(manifest)),
                Err(error) => ParsedManifest::Invalid(error.to_string()),
            },
        }
    }

    /// Returns the part that fits on a full disk: numbers of exchanges and losses.
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

    /// Redacts all foreign text in the manifest: command line, folders, addresses, reasons.
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
        if let Some(WorkspaceChanges { added, changed, removed }) = &mut self.workspace {
            [added, changed, removed].into_iter().flatten().for_each(|path| line("workspace", path));
        }
        self.unsealed_because.iter_mut().for_each(|reason| line("manifest", reason));
        self.unsearched.iter_mut().for_each(|body| line("manifest", body));
        self.lost.iter_mut().for_each(|loss| line("manifest", &mut loss.reason));
        for url in self.upstreams.values_mut() {
            *url = redactor.redact_url("upstream address", url);
        }
    }

    /// Serializes the manifest.
    pub fn to_json(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec_pretty(self).expect("a manifest has only string keys");
        text.push(b'\n');
        text
    }
}
