//! Recording folders: writing exchanges as they happen, and reading them back.
//!
//! Start at [`Recorder`] to write a recording and at [`Recording`] to read one. Everything passes the redactor
//! before it reaches the disk. The recorder never waits for a blocked disk: what it cannot keep, it counts and
//! names. Nothing here opens a socket or judges what was recorded.

mod assembler;
mod body;
mod bounds;
mod digests;
mod disk;
mod disk_queue;
mod dump;
mod envelope;
mod error;
mod event;
mod event_queue;
mod exchange_tap;
mod file_names;
mod hints;
mod import;
mod key;
pub mod lanes;
mod log;
mod loss;
mod manifest;
pub mod normalize;
mod open;
mod provider_host;
mod read_list;
mod recorder;
pub mod scenario;
mod scrub;
mod seal;
pub mod source;
mod stored_count;
mod time;
mod unsearched;
mod wakeup;

pub use body::sha256;
pub use disk::{Disk, FolderDisk};
pub use dump::{BodyDump, DUMP_FORMAT, DumpError, RequestDump, ResponseDump};
pub use error::{OpenError, SealError};
pub use event::OutputStream;
pub use exchange_tap::ExchangeTap;
pub use import::FileImport;
pub use key::{KeyError, load_or_create_key};
pub use log::{LOG_FORMAT, LogError, LogRecord};
pub use loss::Loss;
pub use manifest::{
    BypassEvidence, Clock, Command, Counts, HarnessInfo, LaneEntry, MANIFEST_FORMAT, Manifest, Network,
    NetworkIsolation, ParsedManifest, PluginHost, ProxyBypass, Replay, WorkspaceChanges,
};
pub use open::{Recording, SealState};
pub use recorder::{CreateError, FinishedRecording, Recorder, RecordingOptions};
pub use seal::SealReport;
pub use time::{iso, iso_of, parse as parse_iso};
