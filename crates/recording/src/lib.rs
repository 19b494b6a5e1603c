//! Recording folders: writing exchanges as they happen, and reading them back.
//!
//! Start at [`Recorder`] to write a recording and at [`Recording`] to read one. Everything passes the redactor
//! before it reaches the disk. The recorder never waits for a blocked disk: what it cannot keep, it counts and
//! names. Nothing here opens a socket or judges what was recorded.

mod assembly;
mod body;
mod bounds;
mod bring;
mod disk;
mod doze;
mod dump;
mod folder;
mod hints;
mod kept;
mod key;
pub mod lanes;
mod line;
mod log;
mod loss;
mod manifest;
pub mod normalize;
mod open;
mod queue;
mod reads;
mod recorder;
pub mod scenario;
mod scrub;
mod seal;
pub mod source;
mod tap;
mod time;

pub use body::sha256;
pub use bring::FileImport;
pub use disk::{Disk, FolderDisk};
pub use dump::{BodyDump, DUMP_FORMAT, DumpError, RequestDump, ResponseDump};
pub use key::{KeyError, load_or_create_key};
pub use log::{LOG_FORMAT, LogError, LogRecord};
pub use loss::Loss;
pub use manifest::{
    BypassEvidence, Clock, Command, Counts, HarnessInfo, LaneEntry, MANIFEST_FORMAT, Manifest, Network,
    NetworkIsolation, ParsedManifest, PluginHost, ProxyBypass, Replay, WorkspaceChanges,
};
pub use open::{OpenError, Recording, SealState};
pub use recorder::{CreateError, FinishedRecording, OutputStream, Recorder, RecordingOptions};
pub use seal::{SealError, SealReport};
pub use tap::ExchangeTap;
pub use time::{iso, iso_of};
