//! The facts about a recording that its criteria need.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use recording::lanes::LaneJob;
use recording::scenario::{Expectations, Fallback};
use recording::source::{OrderedExchanges, Source};
use recording::{Manifest, OpenError, SealState};
use serde::Deserialize;
use thiserror::Error;
use wire::dialect::Dialect;

/// The facts about a recording.
#[derive(Debug)]
pub struct Evidence {
    /// Paths of all files and folders.
    pub files: BTreeSet<String>,
    /// The manifest.
    pub manifest: Option<Manifest>,
    /// Reason why it is not sealed, if it is not.
    pub unsealed: Option<String>,
    /// Files that were changed after it was sealed.
    pub damage: Vec<String>,
    /// The scenario, if one was run.
    pub scenario: Option<RecordedScenario>,
    /// The lanes.
    pub ordered: OrderedExchanges,
    /// The agents that were started.
    pub jobs: Vec<LaneJob>,
    /// The first request of `main`.
    pub opening: FirstRequest,
}

/// The first request of `main`.
#[derive(Debug, Default)]
pub struct FirstRequest {
    /// Its texts, including the system prompt.
    pub texts: Vec<String>,
    /// Number of its tools, and of those with a schema.
    pub tools: (usize, usize),
}

/// The members of `scenario.json` that the criteria need.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct RecordedScenario {
    /// Its name.
    pub name: String,
    /// The prompt for the harness.
    #[serde(default)]
    pub prompt: String,
    /// True if the workspace must not change.
    #[serde(default)]
    pub read_only: bool,
    /// Features that the recording must show.
    #[serde(default)]
    pub expects: Expectations,
    /// Fallbacks for features that the harness lacks.
    #[serde(default)]
    pub stand_in: Vec<Fallback>,
}

/// A recording whose facts cannot be read.
#[derive(Debug, Error)]
pub enum EvidenceError {
    /// The recording cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A file cannot be read.
    #[error("cannot read `{}`", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
}

impl Evidence {
    /// Reads the facts about a recording.
    pub fn gather(source: &Source) -> Result<Self, EvidenceError> {
        let dir = source.dir();
        let recording = source.recording();
        let scenario = match fs::read(dir.join("scenario.json")) {
            Ok(bytes) => Some(serde_json::from_slice(&bytes).map_err(|error| EvidenceError::Io {
                path: dir.join("scenario.json"),
                source: error.into(),
            })?),
            Err(_) => None,
        };
        let ordered = source.order();
        Ok(Self {
            files: files(dir)?,
            manifest: recording.and_then(|recording| recording.manifest().cloned()),
            unsealed: match recording.map(|recording| recording.state()) {
                Some(SealState::Sealed) => None,
                Some(SealState::Unsealed { because }) => Some(because.clone()),
                None => Some("it is a folder of dumps".to_owned()),
            },
            damage: recording.map(|recording| recording.damage()).transpose()?.unwrap_or_default(),
            scenario,
            jobs: ordered.lanes.jobs(),
            opening: opening(source, &ordered),
            ordered,
        })
    }
}

fn opening(source: &Source, ordered: &OrderedExchanges) -> FirstRequest {
    let first = ordered.lanes.main().and_then(|lane| lane.turns.first()?.attempts.last());
    let mut asked =
        (0..source.len()).filter_map(|n| source.request(n).ok()).filter(|asked| Some(&asked.id) == first);
    let Some(asked) = asked.next() else { return FirstRequest::default() };
    let body = asked.body.bytes.as_deref().unwrap_or_default();
    let prompt = Dialect::detect(&asked.url, body).and_then(|dialect| dialect.decode_request(body).ok());
    let Some(prompt) = prompt else { return FirstRequest::default() };
    let text = |block: &session::Block| match block {
        session::Block::Text { text } => Some(text.clone()),
        _ => None,
    };
    let parts = prompt.messages.iter().flat_map(|message| &message.parts);
    FirstRequest {
        texts: prompt.system.iter().chain(parts).filter_map(|part| text(&part.block)).collect(),
        tools: (prompt.tools.len(), prompt.tools.iter().filter(|tool| tool.schema.is_some()).count()),
    }
}

fn files(dir: &Path) -> Result<BTreeSet<String>, EvidenceError> {
    let mut names = BTreeSet::new();
    let mut folders = vec![String::new()];
    while let Some(inside) = folders.pop() {
        let path = dir.join(&inside);
        let failed = |source| EvidenceError::Io { path: path.clone(), source };
        for entry in fs::read_dir(&path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let name = if inside.is_empty() { name } else { format!("{inside}/{name}") };
            if entry.file_type().map_err(failed)?.is_dir() {
                folders.push(name.clone());
            }
            names.insert(name);
        }
    }
    Ok(names)
}
