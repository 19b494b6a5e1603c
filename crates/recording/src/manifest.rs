//! `recording.json`: what the folder is, and whether it can be trusted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wire::redact::{Redactor, Report};

use crate::loss::Loss;

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
    /// The command that was recorded.
    pub command: Option<Command>,
    /// The addresses the recorder listened on.
    pub listen: Vec<String>,
    /// Where requests went: path prefix to address.
    pub upstreams: BTreeMap<String, String>,
    /// The script that answered in a model's stead, where one did.
    pub script: Option<String>,
    /// How much there is.
    pub counts: Counts,
    /// What could not be kept.
    pub lost: Vec<Loss>,
    /// What was removed, by rule and place, never the value.
    pub redaction: Report,
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
            Ok(Versioned { format }) if format > MANIFEST_FORMAT => Reading::Newer(format),
            Ok(_) => match serde_json::from_slice(bytes) {
                Ok(manifest) => Reading::Good(Box::new(manifest)),
                Err(error) => Reading::Bad(error.to_string()),
            },
        }
    }

    /// Takes the secrets out of everything in it that others have written: the command line, folders,
    /// addresses, reasons.
    pub(crate) fn redact(&mut self, redactor: &mut Redactor) {
        let mut line = |place: &str, text: &mut String| {
            *text = String::from_utf8_lossy(&redactor.text(place, text.as_bytes()).bytes).into_owned();
        };
        if let Some(command) = &mut self.command {
            command.argv.iter_mut().for_each(|word| line("command line", word));
            line("working folder", &mut command.cwd);
            command.home.iter_mut().chain(&mut command.tmpdir).for_each(|folder| line("environment", folder));
        }
        self.unsearched.iter_mut().for_each(|body| line("manifest", body));
        self.lost.iter_mut().for_each(|loss| line("manifest", &mut loss.reason));
        for url in self.upstreams.values_mut() {
            *url = redactor.url("upstream address", url);
        }
    }

    /// The file's text.
    pub fn to_json(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec_pretty(self).expect("a manifest has only string keys");
        text.push(b'\n');
        text
    }
}
